/*
 * Unions, of records made by hand: which of them are left out, and which must not be.
 *
 * A member is taken apart by libelf, and not by the code under test.
 */
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/sidecar/union.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"
#include "tests/unit/sidecar_sample.h"

/* The places of sections in the sample. */
enum {
    COVMAP,
    COVFUN,
    NAMES,
};

/* ---- making ---- */

/* An image's coverage. */
struct coverage {
    struct buffer covmap, covfun, names;
    uint64_t unit; /* the FilenamesRef of the last unit */
    bool big;
};

static void put_text(struct buffer *buffer, const char *text)
{
    ck_assert(buffer_append_uleb128(buffer, strlen(text)));
    ck_assert(buffer_append(buffer, text, strlen(text)));
}

static void pad(struct buffer *buffer)
{
    ck_assert(buffer_append_zeros(buffer, (0 - buffer->size) % 8));
}

/* Adds a unit with a compilation directory and two files. */
static void put_unit(struct coverage *coverage, unsigned version, const char *directory,
                     const char *file, const char *other)
{
    FREED_BY(buffer_free) struct buffer text = {0}, encoded = {0};
    uint8_t header[16] = {0};

    put_text(&text, directory);
    put_text(&text, file);
    put_text(&text, other);
    ck_assert(buffer_append_uleb128(&encoded, 3) && buffer_append_uleb128(&encoded, text.size) &&
              buffer_append_uleb128(&encoded, 0) && buffer_append(&encoded, text.data, text.size));
    store_u32(header + 4, (uint32_t)encoded.size, coverage->big);
    store_u32(header + 12, version, coverage->big);
    pad(&coverage->covmap);
    ck_assert(buffer_append(&coverage->covmap, header, sizeof(header)) &&
              buffer_append(&coverage->covmap, encoded.data, encoded.size));
    coverage->unit = md5_name_reference(buffer_view(&encoded));
}

/* Adds a record of one file and one region with this counter, and its name if it is not NULL. */
static void put_record(struct coverage *coverage, const char *name, uint64_t hash, uint8_t file,
                       uint8_t counter, uint8_t line)
{
    const uint8_t mapping[] = {1, file, 0, 1, counter, line, 1, 2, 3};
    uint8_t header[28];
    struct bytes text = {(const uint8_t *)name, strlen(name)};

    store_u64(header, md5_name_reference(text), coverage->big);
    store_u32(header + 8, sizeof(mapping), coverage->big);
    store_u64(header + 12, hash, coverage->big);
    store_u64(header + 20, coverage->unit, coverage->big);
    pad(&coverage->covfun);
    ck_assert(buffer_append(&coverage->covfun, header, sizeof(header)) &&
              buffer_append(&coverage->covfun, mapping, sizeof(mapping)));
    name_chunk_put(&coverage->names, name, false);
}

static void free_coverage(struct coverage *coverage)
{
    buffer_free(&coverage->covmap);
    buffer_free(&coverage->covfun);
    buffer_free(&coverage->names);
}

#define VERSION_6 5
#define VERSION_7 6
#define COUNTER   1 /* counter 0, as it is encoded */

/* The usual unit of these tests. */
static struct coverage start(bool big)
{
    struct coverage coverage = {.big = big};

    put_unit(&coverage, VERSION_7, "/work", "/lib/a.h", "b.h");
    return coverage;
}

/* ---- unions ---- */

struct collected {
    struct union_writer writer;
    struct buffer file;
    const struct sample_shape *shape;
};

static void begin(struct collected *all, const struct sample_shape *shape)
{
    *all = (struct collected){
        .shape = shape, .writer = {.name = "union", .sink = sample_collect, .context = &all->file}};
}

/* The sidecar of an image with this coverage, in plain or in compact form. */
static struct buffer make_sidecar(const struct sample_shape *shape, const struct coverage *coverage,
                                  bool compact, const char *name)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(shape);
    const struct bytes contents[] = {buffer_view(&coverage->covmap), buffer_view(&coverage->covfun),
                                     buffer_view(&coverage->names)};

    for (size_t i = COVMAP; i <= NAMES; i++) {
        sample->sections[i].content = contents[i];
        sample->sections[i].size = contents[i].size;
    }
    sample->source.image_name = name;
    return compact ? sample_write_compact(&sample->source) : sample_write(&sample->source, 1, 1);
}

static void add_named(struct collected *all, const struct coverage *coverage, bool compact,
                      const char *name)
{
    FREED_BY(buffer_free) struct buffer file = make_sidecar(all->shape, coverage, compact, name);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    struct error error;

    ck_assert_msg(union_add(&all->writer, sidecar, &error), "%s", error.message);
}

static void add(struct collected *all, const struct coverage *coverage)
{
    add_named(all, coverage, all->writer.member_count % 2 != 0, "image");
}

static void finish(struct collected *all)
{
    struct error error;

    ck_assert(union_finish(&all->writer, &error));
    union_free(&all->writer);
    ck_assert(union_recognize(buffer_view(&all->file)));
}

static void free_union(struct collected *all)
{
    buffer_free(&all->file);
}

/* The union of images, whose sidecars are in plain and in compact form in turn. */
static struct collected make_union(const struct sample_shape *shape,
                                   const struct coverage *const *images)
{
    struct collected all;

    begin(&all, shape);
    for (; *images != NULL; images++)
        add(&all, *images);
    finish(&all);
    return all;
}

#define union_of(...)                                                                              \
    make_union(&sample_shapes[0], (const struct coverage *const[]){__VA_ARGS__, NULL})

static struct union_member_view find_member(const struct collected *all, size_t number)
{
    struct union_member_view member;
    struct bytes members;
    struct error error;
    bool found;

    ck_assert(union_open(buffer_view(&all->file), "union", &members, &error));
    do {
        ck_assert_msg(union_next(&members, "union", &member, &found, &error), "%s", error.message);
        ck_assert(found);
        ck_assert_uint_eq((size_t)(member.object.data - all->file.data) % 8, 0);
    } while (number-- != 0);
    return member;
}

/* Checks a section of a member. */
static void check_section(const struct collected *all, size_t number, const char *name,
                          struct bytes expected)
{
    struct union_member_view member = find_member(all, number);
    Elf *elf = elf_memory((char *)(uintptr_t)member.object.data, (size_t)member.object.size);
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    size_t names;
    bool found = false;

    ck_assert_ptr_nonnull(elf);
    ck_assert_int_eq(elf_getshdrstrndx(elf, &names), 0);
    while ((section = elf_nextscn(elf, section)) != NULL) {
        Elf_Data *data = elf_rawdata(section, NULL);

        ck_assert_ptr_nonnull(gelf_getshdr(section, &header));
        if (strcmp(elf_strptr(elf, names, header.sh_name), name) != 0)
            continue;
        found = true;
        ck_assert_uint_eq(header.sh_offset % 8, 0);
        ck_assert_msg(data->d_size >= expected.size && data->d_size - expected.size < 8,
                      "member %zu: %s has %zu bytes, not %zu", number, name, data->d_size,
                      (size_t)expected.size);
        ck_assert_mem_eq(data->d_buf, expected.data, expected.size);
    }
    ck_assert_msg(found, "no %s", name);
    elf_end(elf);
}

static void check_member(const struct collected *all, size_t number, struct coverage *expected)
{
    check_section(all, number, "__llvm_covmap", buffer_view(&expected->covmap));
    check_section(all, number, "__llvm_covfun", buffer_view(&expected->covfun));
}

static void check_names(const struct collected *all, size_t number, const char *text)
{
    FREED_BY(buffer_free) struct buffer names = {0};

    name_chunk_put(&names, text, false);
    check_section(all, number, "__llvm_prf_names", buffer_view(&names));
}

/* ---- what is left out ---- */

START_TEST(test_equal_records)
{
    const struct sample_shape *shape = &sample_shapes[_i];
    bool big = shape->elf_data == ELFDATA2MSB;
    FREED_BY(free_coverage)
    struct coverage one = start(big), two = start(big), rest = {.big = big}, first = start(big);
    FREED_BY(free_union) struct collected all;

    put_record(&one, "main", 5, 1, COUNTER, 1);
    put_record(&one, "shared", 6, 1, COUNTER, 9);
    put_record(&two, "shared", 6, 1, COUNTER, 9);
    put_unit(&two, VERSION_7, "/work", "/own.c", "/lib/a.h");
    put_record(&two, "other", 7, 1, COUNTER, 1);
    put_unit(&rest, VERSION_7, "/work", "/own.c", "/lib/a.h");
    put_record(&rest, "other", 7, 1, COUNTER, 1);
    put_record(&first, "main", 5, 1, COUNTER, 1);
    all = make_union(shape, (const struct coverage *const[]){&one, &two, &one, NULL});
    ck_assert_uint_eq(all.writer.records_read, 6);
    ck_assert_uint_eq(all.writer.records_kept, 4);
    check_member(&all, 0, &one);
    check_names(&all, 0, "main\1shared");
    check_member(&all, 1, &rest);
    check_names(&all, 1, "other");
    /* One record stays, for the build ID. */
    check_member(&all, 2, &first);
    check_names(&all, 2, "main");
}
END_TEST

/* The second image has a record of its own first, so that the other is left out or not. A relative
 * name is another one in another directory; before version 6 there is no directory, and the first
 * name is one like the others. */
static const struct {
    const char *what, *directory, *file, *other, *name;
    unsigned version;
    uint64_t hash;
    uint8_t first, number, counter, line; /* a file of each image */
    bool is_left_out;
} variants[] = {
    {"the same", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 6, 1, 1, COUNTER, 9, true},
    {"a name", "/work", "/lib/a.h", "b.h", "g", VERSION_7, 6, 1, 1, COUNTER, 9, false},
    {"a hash", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 7, 1, 1, COUNTER, 9, false},
    {"a line", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 6, 1, 1, COUNTER, 8, false},
    {"a counter", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 6, 1, 1, 0, 9, false},
    {"a file", "/work", "/lib/c.h", "b.h", "f", VERSION_7, 6, 1, 1, COUNTER, 9, false},
    {"another file", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 6, 1, 2, COUNTER, 9, false},
    {"only its number", "/work", "b.h", "/lib/a.h", "f", VERSION_7, 6, 1, 2, COUNTER, 9, true},
    {"a directory", "/other", "/lib/a.h", "b.h", "f", VERSION_7, 6, 1, 1, COUNTER, 9, true},
    {"only the version", "/work", "/lib/a.h", "b.h", "f", VERSION_6, 6, 1, 1, COUNTER, 9, true},
    {"a relative name", "/work", "/lib/a.h", "b.h", "f", VERSION_7, 6, 2, 2, COUNTER, 9, true},
    {"one elsewhere", "/other", "/lib/a.h", "b.h", "f", VERSION_7, 6, 2, 2, COUNTER, 9, false},
    {"one of old", "/work", "/lib/a.h", "b.h", "f", VERSION_6 - 1, 6, 2, 2, COUNTER, 9, false},
};

START_TEST(test_variants)
{
    FREED_BY(free_coverage) struct coverage one = start(false), two = {0};
    FREED_BY(free_union) struct collected all;

    put_record(&one, "f", 6, variants[_i].first, COUNTER, 9);
    put_unit(&two, variants[_i].version, variants[_i].directory, variants[_i].file,
             variants[_i].other);
    put_record(&two, "own", 1, 1, COUNTER, 1);
    put_record(&two, variants[_i].name, variants[_i].hash, variants[_i].number,
               variants[_i].counter, variants[_i].line);
    all = union_of(&one, &two);
    ck_assert_msg(all.writer.records_kept == (variants[_i].is_left_out ? 2 : 3), "%s",
                  variants[_i].what);
}
END_TEST

/* Before version 6, nothing joins a relative name with a directory: neither that of the unit, even
 * if there is none, nor that of llvm-cov -compilation-dir. */
START_TEST(test_relative_names_of_versions)
{
    FREED_BY(free_coverage) struct coverage one = {0}, two = {0};
    FREED_BY(free_union) struct collected all;

    put_unit(&one, _i == 0 ? VERSION_6 - 1 : VERSION_6, "", "/lib/a.h", "./b.h");
    put_record(&one, "f", 6, 2, COUNTER, 9);
    put_record(&one, "g", 6, 1, COUNTER, 9);
    put_unit(&two, _i == 0 ? VERSION_6 : VERSION_6 - 1, "", "/lib/a.h", "./b.h");
    put_record(&two, "own", 1, 1, COUNTER, 1);
    put_record(&two, "f", 6, 2, COUNTER, 9);
    put_record(&two, "g", 6, 1, COUNTER, 9);
    all = union_of(&one, &two);
    ck_assert_uint_eq(all.writer.records_kept, 4);
}
END_TEST

/* ---- records of one function in one image ---- */

/* The first counts, or the first that is no dummy, in the place of the first. */
START_TEST(test_records_of_one_function)
{
    FREED_BY(free_coverage) struct coverage image = start(false), expected = start(false);
    FREED_BY(free_union) struct collected all;

    put_record(&image, "dummy", 0, 1, 0, 1);
    put_record(&image, "empty", 0, 1, COUNTER, 2);
    put_record(&image, "real", 6, 1, COUNTER, 3);
    put_record(&image, "real", 7, 1, COUNTER, 4);
    put_record(&image, "dummy", 0, 1, 0, 5);
    put_record(&image, "dummy", 8, 1, COUNTER, 6);
    put_record(&image, "dummy", 9, 1, COUNTER, 7);
    put_record(&image, "empty", 9, 1, COUNTER, 8);
    put_record(&image, "unused", 0, 1, 0, 9);
    put_record(&image, "unused", 0, 1, 0, 10);
    put_record(&expected, "dummy", 8, 1, COUNTER, 6);
    put_record(&expected, "empty", 0, 1, COUNTER, 2);
    put_record(&expected, "real", 6, 1, COUNTER, 3);
    put_record(&expected, "unused", 0, 1, 0, 9);
    all = union_of(&image);
    check_member(&all, 0, &expected);
    check_names(&all, 0, "dummy\1empty\1real\1unused");
}
END_TEST

/* If the one that counts is left out, the others stay out, too: llvm-cov must not see them. */
START_TEST(test_losers_stay_out)
{
    FREED_BY(free_coverage)
    struct coverage one = start(false), two = start(false), rest = start(false);
    FREED_BY(free_union) struct collected all;

    put_record(&one, "f", 6, 1, COUNTER, 1);
    put_record(&one, "g", 6, 1, COUNTER, 1);
    put_record(&two, "g", 0, 1, 0, 1);
    put_record(&two, "f", 6, 1, COUNTER, 1);
    put_record(&two, "f", 7, 1, COUNTER, 2);
    put_record(&two, "own", 7, 1, COUNTER, 2);
    put_record(&two, "g", 6, 1, COUNTER, 1);
    put_record(&rest, "own", 7, 1, COUNTER, 2);
    all = union_of(&one, &two);
    check_member(&all, 1, &rest);
    check_names(&all, 1, "own");
}
END_TEST

/* LLVM reads all units by the version of the first, which may be left out. */
START_TEST(test_version_of_the_first_unit)
{
    FREED_BY(free_coverage) struct coverage one = start(false), two = start(false), rest = {0};
    FREED_BY(free_union) struct collected all;

    put_record(&one, "f", 6, 1, COUNTER, 1);
    put_record(&two, "f", 6, 1, COUNTER, 1);
    put_unit(&two, VERSION_6, "/work", "/own.h", "c.h");
    put_record(&two, "own", 7, 1, COUNTER, 2);
    put_unit(&rest, VERSION_7, "/work", "/own.h", "c.h");
    put_record(&rest, "own", 7, 1, COUNTER, 2);
    all = union_of(&one, &two);
    check_member(&all, 1, &rest);
}
END_TEST

/* ---- what is not understood ---- */

static const struct {
    size_t part;   /* COVMAP or COVFUN */
    size_t offset; /* of bytes that all are this one */
    size_t size;
    uint8_t byte;
    size_t zeros, cut; /* at the end */
} damages[] = {
    {COVMAP, 12, 1, VERSION_7 + 1, 0, 0}, /* the version */
    {COVMAP, 16, 1, 100, 0, 0},           /* the number of filenames */
    {COVFUN, 20, 8, 0xee, 0, 0},          /* the unit */
    {COVFUN, 0, 8, 0xee, 0, 0},           /* the name */
    {COVFUN, 28 + 1, 1, 3, 0, 0},         /* the file */
    {COVFUN, 8, 4, 0xff, 0, 0},           /* the size */
    {COVFUN, 28, 9, 0x80, 0, 0},          /* a number */
    {.part = COVFUN, .cut = 3},           {.part = COVFUN, .zeros = 8},
    {.part = COVMAP, .zeros = 8},
};

static void damage(struct coverage *coverage, int row)
{
    struct buffer *part = damages[row].part == COVMAP ? &coverage->covmap : &coverage->covfun;

    memset(part->data + damages[row].offset, damages[row].byte, damages[row].size);
    part->size -= damages[row].cut;
    if (damages[row].zeros != 0)
        pad(part);
    ck_assert(buffer_append_zeros(part, damages[row].zeros));
}

/* The member has all of it then, as an object of its own would. */
START_TEST(test_not_understood)
{
    FREED_BY(free_coverage) struct coverage one = start(false), two = start(false);
    FREED_BY(free_union) struct collected all;

    put_record(&one, "f", 6, 1, COUNTER, 1);
    put_record(&two, "f", 6, 1, COUNTER, 1);
    put_record(&two, "f", 6, 1, COUNTER, 1);
    damage(&two, _i);
    begin(&all, &sample_shapes[0]);
    add(&all, &one);
    add_named(&all, &two, false, "bad");
    add(&all, &one);
    finish(&all);
    check_member(&all, 1, &two);
    check_member(&all, 2, &one);
}
END_TEST

/* ---- the archive ---- */

START_TEST(test_member_names)
{
    static const struct {
        const char *image, *member;
    } cases[] = {
        {"image", "image-01020304"},     {"", "-01020304"},
        {"a b\nc", "a_b_c-01020304"},    {"../x/y", ".._x_y-01020304"},
        {"1234567", "1234567-01020304"},
    };
    FREED_BY(free_coverage) struct coverage coverage = start(false);
    FREED_BY(free_union) struct collected all;
    char longest[400];

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    put_record(&coverage, "f", 6, 1, COUNTER, 1);
    begin(&all, &sample_shapes[0]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        add_named(&all, &coverage, false, cases[i].image);
    add_named(&all, &coverage, false, longest);
    finish(&all);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes name = find_member(&all, i).name;

        ck_assert_uint_eq(name.size, strlen(cases[i].member));
        ck_assert_mem_eq(name.data, cases[i].member, name.size);
    }
    ck_assert_uint_eq(find_member(&all, sizeof(cases) / sizeof(cases[0])).name.size, 209);
}
END_TEST

/* Reads all members; false if that is refused. */
static bool read_all(struct bytes file, size_t *count)
{
    struct union_member_view member;
    struct bytes members;
    struct error error;
    bool found, done = union_open(file, "union", &members, &error);

    for (*count = 0; done; ++*count) {
        done = union_next(&members, "union", &member, &found, &error);
        if (done && !found)
            return true;
    }
    return false;
}

/* Cut short, or with a byte of a header changed, it is another file, or none. */
START_TEST(test_damaged)
{
    FREED_BY(free_coverage) struct coverage coverage = start(false);
    FREED_BY(free_union) struct collected all;
    size_t count, second;

    put_record(&coverage, "f", 6, 1, COUNTER, 1);
    begin(&all, &sample_shapes[0]);
    add(&all, &coverage);
    second = all.file.size;
    add(&all, &coverage);
    finish(&all);
    ck_assert(read_all(buffer_view(&all.file), &count));
    ck_assert_uint_eq(count, 2);
    for (size_t size = 0; size < all.file.size; size++) {
        struct bytes cut = {all.file.data, size};

        /* What ends behind a member is whole. */
        ck_assert(read_all(cut, &count) == (size == 8 || size == second));
        ck_assert(!union_recognize(cut) || size >= second);
        ck_assert(size == 0 || union_may_begin(cut));
    }
    for (size_t at = 0; at < 68; at++) {
        /* Date, owner and mode may be any. */
        bool matters = at < 8 + 16 || at >= 8 + 48;

        all.file.data[at] ^= 0x40;
        ck_assert_msg(!matters || !read_all(buffer_view(&all.file), &count), "byte %zu", at);
        all.file.data[at] ^= 0x40;
    }
}
END_TEST

/* Numbers in the header of a member that are none, or fit neither the file nor LLVM's reader. */
static const struct {
    size_t offset, size; /* of the field in the header */
    const char *text;
} bad_numbers[] = {
    {3, 13, ""},   {3, 13, "-4"},  {3, 13, "4 4"},         {3, 13, "9999999999999"},
    {3, 13, "3"},  {3, 13, "220"}, {3, 13, "4"},           {48, 10, ""},
    {48, 10, "x"}, {48, 10, "4"},  {48, 10, "9999999999"}, {48, 10, "101"},
};

START_TEST(test_bad_numbers)
{
    FREED_BY(free_coverage) struct coverage coverage = start(false);
    FREED_BY(free_union) struct collected all;
    char field[16];
    size_t count;

    put_record(&coverage, "f", 6, 1, COUNTER, 1);
    all = union_of(&coverage);
    snprintf(field, sizeof(field), "%-*s", (int)bad_numbers[_i].size, bad_numbers[_i].text);
    memcpy(all.file.data + 8 + bad_numbers[_i].offset, field, bad_numbers[_i].size);
    ck_assert(!read_all(buffer_view(&all.file), &count));
    ck_assert(!union_recognize(buffer_view(&all.file)));
}
END_TEST

START_TEST(test_no_coverage)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    struct collected all;
    FREED_BY(buffer_free) struct buffer file;
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    struct error error = {0};

    begin(&all, &sample_shapes[0]);
    ck_assert(!union_finish(&all.writer, &error));
    sample->sections[COVFUN].kind = SECTION_COVDATA;
    file = sample_write(&sample->source, 1, 1);
    sidecar = sample_open(&file);
    ck_assert(!union_add(&all.writer, sidecar, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "no coverage mapping"));
    ck_assert_uint_eq(all.file.size, 0);
    union_free(&all.writer);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("union", 60, NULL);

    elf_version(EV_CURRENT);
    suite_loops(all, SAMPLE_SHAPES, test_equal_records);
    suite_loops(all, sizeof(variants) / sizeof(variants[0]), test_variants);
    suite_loops(all, sizeof(damages) / sizeof(damages[0]), test_not_understood);
    suite_loops(all, (int)(sizeof(bad_numbers) / sizeof(bad_numbers[0])), test_bad_numbers);
    suite_loops(all, 2, test_relative_names_of_versions);
    suite_tests(all, test_records_of_one_function, test_losers_stay_out,
                test_version_of_the_first_unit, test_member_names, test_damaged, test_no_coverage);
    return suite_main("union", all);
}
