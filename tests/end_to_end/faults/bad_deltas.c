/*
 * Damaged deltas and bases of a store: thousands of them, most with a seal that was made anew,
 * and bases with a name that fits.
 *
 * Whatever is in the store, each command ends by itself, soon and in little memory, with 0 or 1;
 * with 1 it has said why in one line. What is joined is right, and so is what is copied or made
 * whole from then on; no split fails because a base has not the bytes that it is named after.
 *
 * Usage: bad_deltas FIRST COUNT      seeds of the mutations
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/random.h"
#include "tests/support/sample.h"

#define TEST_TIMEOUT_SECONDS 1500
#define SAMPLE_FUNCTIONS     40
#define SECTIONS_MAX         32
#define DIGEST_SIZE          16
#define UUID_SIZE            20

/* docs/format.md, "Deltas". */
#define DELTA_TYPE 0x6c760701u

static struct sample sample;
static struct variant other; /* whose sidecar is a delta to the sample's */
static struct contents original, delta, base;
static char *stripped, *profile;

/* ---- a sidecar in pieces ---- */

/* Sections in the order of their contents, as covsplit writes them. Files of this machine alone. */
struct pieces {
    Elf64_Ehdr header;
    Elf64_Shdr headers[SECTIONS_MAX];
    struct contents contents[SECTIONS_MAX];
    size_t count, notes;
    size_t compressed[SECTIONS_MAX], compressed_count;
};

static struct pieces take_apart(const struct contents *file)
{
    struct pieces pieces = {.count = 0};

    memcpy(&pieces.header, file->data, sizeof pieces.header);
    pieces.count = pieces.header.e_shnum;
    ck_assert_uint_le(pieces.count, SECTIONS_MAX);
    memcpy(pieces.headers, file->data + pieces.header.e_shoff, pieces.count * sizeof(Elf64_Shdr));
    for (size_t i = 1; i < pieces.count; i++) {
        const Elf64_Shdr *header = &pieces.headers[i];
        struct contents *contents = &pieces.contents[i];

        if (header->sh_type == SHT_NOBITS)
            continue;
        contents->size = header->sh_size;
        contents->data = malloc(contents->size + 1);
        ck_assert_ptr_nonnull(contents->data);
        memcpy(contents->data, file->data + header->sh_offset, contents->size);
        if ((header->sh_flags & SHF_COMPRESSED) != 0)
            pieces.compressed[pieces.compressed_count++] = i;
        else if (header->sh_type == SHT_NOTE)
            pieces.notes = i;
    }
    ck_assert_uint_gt(pieces.compressed_count, 3);
    return pieces;
}

static void set_contents(struct contents *contents, const void *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, size);
    free(contents->data);
    *contents = (struct contents){copy, size};
}

static void digest_of(const struct contents *bytes, uint8_t digest[DIGEST_SIZE])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes->data, bytes->size));
    memcpy(digest, canonical.digest, DIGEST_SIZE);
}

/* The seal is in the second note, behind the version. It covers all but the compressed contents. */
static void seal(struct contents *file, const struct pieces *pieces)
{
    const Elf64_Shdr *notes = &pieces->headers[pieces->notes];
    uint8_t *place = file->data + notes->sh_offset + 12 + 4 + UUID_SIZE + 12 + 12 + 4;
    struct contents sealed = {malloc(file->size), 0};
    size_t from = 0;

    ck_assert_ptr_nonnull(sealed.data);
    memset(place, 0, DIGEST_SIZE);
    for (size_t i = 0; i <= pieces->compressed_count; i++) {
        const Elf64_Shdr *header = &pieces->headers[pieces->compressed[i]];
        bool is_last = i == pieces->compressed_count;
        size_t to = is_last ? file->size : header->sh_offset + sizeof(Elf64_Chdr);

        memcpy(sealed.data + sealed.size, file->data + from, to - from);
        sealed.size += to - from;
        from = is_last ? to : header->sh_offset + header->sh_size;
    }
    digest_of(&sealed, place);
    free(sealed.data);
}

/* Puts the file together again, and frees the pieces. */
static struct contents put_together(struct pieces *pieces)
{
    struct contents file = {calloc(1, 1 << 20), sizeof(Elf64_Ehdr)};

    ck_assert_ptr_nonnull(file.data);
    for (size_t i = 1; i < pieces->count; i++) {
        Elf64_Shdr *header = &pieces->headers[i];
        uint64_t alignment = header->sh_addralign > 8 ? header->sh_addralign : 8;

        file.size = (file.size + alignment - 1) / alignment * alignment;
        header->sh_offset = file.size;
        if (header->sh_type == SHT_NOBITS)
            continue;
        header->sh_size = pieces->contents[i].size;
        ck_assert_uint_lt(file.size + header->sh_size, (1 << 20) - sizeof pieces->headers);
        memcpy(file.data + file.size, pieces->contents[i].data, header->sh_size);
        file.size += header->sh_size;
        free(pieces->contents[i].data);
    }
    file.size = (file.size + 7) / 8 * 8;
    pieces->header.e_shoff = file.size;
    memcpy(file.data + file.size, pieces->headers, pieces->count * sizeof(Elf64_Shdr));
    file.size += pieces->count * sizeof(Elf64_Shdr);
    memcpy(file.data, &pieces->header, sizeof pieces->header);
    seal(&file, pieces);
    return file;
}

/* ---- changes ---- */

static uint64_t choose(struct random_state *random, const uint64_t *values, size_t count)
{
    return values[random_below(random, count)];
}

/* A number in place of this one. */
static uint64_t hostile_number(struct random_state *random, uint64_t value)
{
    const uint64_t values[] = {0,
                               1,
                               2,
                               value - 1,
                               value + 1,
                               value * 2,
                               value ^ UINT64_C(1) << random_below(random, 64),
                               UINT64_C(1) << 20,
                               UINT64_C(1) << 31,
                               UINT64_C(1) << 32,
                               UINT64_C(1) << 40,
                               UINT64_C(1) << 62,
                               UINT64_C(1) << 63,
                               UINT64_MAX};

    return choose(random, values, sizeof values / sizeof *values);
}

static uint64_t take_uleb128(const struct contents *bytes, size_t *at)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < bytes->size && shift < 64; shift += 7) {
        uint8_t byte = bytes->data[(*at)++];

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

static size_t put_uleb128(uint8_t *to, uint64_t value)
{
    size_t size = 0;

    do {
        to[size++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    return size;
}

/* In front of the frame of a section are three numbers: its form, whether it is of streams, and its
 * size. */
static uint64_t number_of(const struct contents *stored, size_t which)
{
    size_t at = sizeof(Elf64_Chdr);

    for (size_t i = 0; i < which; i++)
        take_uleb128(stored, &at);
    return take_uleb128(stored, &at);
}

static void set_number(struct contents *stored, size_t which, uint64_t number)
{
    struct contents made = {malloc(stored->size + 32), sizeof(Elf64_Chdr)};
    size_t at = sizeof(Elf64_Chdr);

    ck_assert_ptr_nonnull(made.data);
    memcpy(made.data, stored->data, sizeof(Elf64_Chdr));
    for (size_t i = 0; i < 3; i++) {
        uint64_t old = take_uleb128(stored, &at);

        made.size += put_uleb128(made.data + made.size, i == which ? number : old);
    }
    memcpy(made.data + made.size, stored->data + at, stored->size - at);
    made.size += stored->size - at;
    free(stored->data);
    *stored = made;
}

static void change_number(struct contents *stored, struct random_state *random)
{
    const uint64_t forms[] = {0,          1,          2,          3,
                              DELTA_TYPE, 0x6c760103, 0x6c760205, 0x6c760303,
                              0x6c760409, 0x6c76040a, 0x6c760502, UINT32_MAX};
    size_t which = random_below(random, 3);
    uint64_t old = number_of(stored, which);

    if (which != 0)
        set_number(stored, which, hostile_number(random, old));
    else if (random_below(random, 2) == 0)
        set_number(stored, 0, old ^ UINT64_C(1) << random_below(random, 12));
    else
        set_number(stored, 0, choose(random, forms, sizeof forms / sizeof *forms));
}

static void change_header(struct contents *stored, struct random_state *random)
{
    const uint64_t types[] = {1, 2, DELTA_TYPE, 0x6c760103, 0x6c760205, 0x6c760409};
    Elf64_Chdr header;

    memcpy(&header, stored->data, sizeof header);
    switch (random_below(random, 3)) {
    case 0:
        header.ch_type = (Elf64_Word)choose(random, types, sizeof types / sizeof *types);
        break;
    case 1:
        header.ch_addralign = hostile_number(random, header.ch_addralign);
        break;
    default:
        header.ch_size = hostile_number(random, header.ch_size);
        break;
    }
    memcpy(stored->data, &header, sizeof header);
}

static void change_notes(struct contents *notes, struct random_state *random)
{
    size_t at = random_below(random, notes->size - sizeof(uint64_t));
    uint64_t number;

    memcpy(&number, notes->data + at, sizeof number);
    number = hostile_number(random, number);
    memcpy(notes->data + at, &number, random_below(random, 2) == 0 ? 4 : 8);
}

static struct contents *any_section(struct pieces *pieces, struct random_state *random)
{
    return &pieces->contents[pieces->compressed[random_below(random, pieces->compressed_count)]];
}

static const char *change(struct pieces *pieces, bool is_delta, struct random_state *random)
{
    struct contents *stored = any_section(pieces, random), *second, swapped;
    size_t behind = sizeof(Elf64_Chdr), room = stored->size - behind;

    switch (random_below(random, is_delta ? 8 : 6)) {
    case 0:
        stored->data[behind + random_below(random, room)] ^=
            (uint8_t)(1u << random_below(random, 8));
        return "a bit";
    case 1:
        stored->size = behind + random_below(random, room);
        return "a shorter section";
    case 2:
        second = any_section(pieces, random);
        swapped = *stored;
        *stored = *second;
        *second = swapped;
        return "two sections";
    case 3:
        change_header(stored, random);
        return "a header";
    case 4:
    case 5:
        change_notes(&pieces->contents[pieces->notes], random);
        return "the notes";
    default:
        change_number(stored, random);
        return "a number in front of a frame";
    }
}

static void name_base(struct pieces *pieces, const struct contents *file)
{
    const struct contents *notes = &pieces->contents[pieces->notes];
    uint8_t digest[DIGEST_SIZE], *place;

    digest_of(&base, digest);
    place = memmem(notes->data, notes->size, digest, DIGEST_SIZE);
    ck_assert_ptr_nonnull(place);
    digest_of(file, place);
}

/* ---- the store ---- */

struct place {
    char *directory, *bases, *entry;
};

static char *base_path(const struct place *place, const struct contents *file)
{
    uint8_t digest[DIGEST_SIZE];
    char hex[2 * DIGEST_SIZE + 1];

    digest_of(file, digest);
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return text_format("%s/%s.base", place->bases, hex);
}

static void write_base(const struct place *place, const struct contents *file)
{
    char *path = base_path(place, file);

    file_write(path, file->data, file->size);
    free(path);
}

static struct place make_place(const char *directory)
{
    struct place place = {.directory = text_format("%s/place", directory)};
    char *store = path_join(place.directory, "store"), *end;

    place.bases = path_join(store, ".build-id/bases");
    place.entry = store_entry(store, other.uuid);
    directory_remove(place.directory);
    end = strrchr(place.entry, '/');
    *end = '\0';
    run_or_abort(directory, "mkdir", "-p", place.bases, place.entry, NULL);
    *end = '/';
    free(store);
    return place;
}

static void prepare(void)
{
    struct command run = {0};
    struct place place;

    sample = sample_create("bad-deltas", SAMPLE_FUNCTIONS);
    other = variant_create(sample.image, sample.scratch, "other", 1, 1);
    variant_create(sample.image, sample.scratch, "third", 2, 2);
    covsplit_run_words(sample.scratch, 0,
                       text_format("split --sidecar base -o x %s", sample.image));
    base = file_read(path_join(sample.scratch, "base"));
    place = make_place(sample.scratch);
    write_base(&place, &base);
    covsplit_run_words(sample.scratch, 0, "split --store place/store --delta -o stripped other");
    delta = file_read(place.entry);
    original = file_read(other.path);
    ck_assert_uint_lt(delta.size, base.size / 2);
    stripped = path_join(sample.scratch, "stripped");
    profile = path_join(sample.scratch, "light.profraw");
    run.directory = sample.scratch;
    text_list_add(&run.arguments, stripped);
    text_list_add_format(&run.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_expect(&run, 3);
}

/* What is in place of the base, under its name. */
static const char *spoil_base(const struct place *place, struct random_state *random)
{
    char *path = base_path(place, &base);
    const char *what;

    switch (random_below(random, 7)) {
    case 0:
        what = "no base";
        break;
    case 1:
        file_write(path, base.data, random_below(random, base.size));
        what = "a base cut short";
        break;
    case 2:
        ck_assert_int_eq(mkdir(path, 0777), 0);
        what = "a directory for a base";
        break;
    case 3:
        ck_assert_int_eq(mkfifo(path, 0666), 0);
        what = "a pipe for a base";
        break;
    case 4:
        ck_assert_int_eq(symlink(random_below(random, 2) == 0 ? place->entry : path, path), 0);
        what = "the delta for its base, or a link to itself";
        break;
    case 5:
        file_write(path, delta.data, delta.size);
        what = "a delta under the name of its base";
        break;
    default:
        file_write(path, base.data, base.size);
        ck_assert_int_eq(truncate(path, (off_t)1 << 40), 0);
        what = "a base of a terabyte";
        break;
    }
    free(path);
    return what;
}

/* Two deltas and their base, so that the base of one is a delta itself. */
static const char *make_chain(const struct place *place)
{
    struct pieces pieces = take_apart(&delta);
    struct contents second;

    name_base(&pieces, &delta);
    second = put_together(&pieces);
    write_base(place, &base);
    write_base(place, &delta);
    file_write(place->entry, second.data, second.size);
    contents_free(&second);
    return "a chain";
}

static const char *damage_delta(const struct place *place, struct random_state *random)
{
    struct pieces pieces = take_apart(&delta);
    const char *what = NULL;
    struct contents made;
    uint64_t changes = 1 + random_below(random, 2);

    while (changes-- != 0)
        what = change(&pieces, true, random);
    made = put_together(&pieces);
    write_base(place, &base);
    file_write(place->entry, made.data, made.size);
    contents_free(&made);
    return text_format("delta: %s", what);
}

static const char *damage_base(const struct place *place, struct random_state *random)
{
    struct pieces of_base = take_apart(&base), pieces = take_apart(&delta);
    const char *what = change(&of_base, false, random);
    struct contents changed = put_together(&of_base), made;

    name_base(&pieces, &changed);
    made = put_together(&pieces);
    write_base(place, &changed);
    file_write(place->entry, made.data, made.size);
    contents_free(&changed);
    contents_free(&made);
    return text_format("base: %s", what);
}

/* Without a new seal: any byte, or an end. */
static const char *damage_file(const struct place *place, struct random_state *random)
{
    struct contents made = {NULL, 0};

    set_contents(&made, delta.data, delta.size);
    if (random_below(random, 4) == 0)
        made.size = random_below(random, made.size);
    else
        made.data[random_below(random, made.size)] ^= (uint8_t)(1u << random_below(random, 8));
    write_base(place, &base);
    file_write(place->entry, made.data, made.size);
    contents_free(&made);
    return "a byte, or the end";
}

static const char *damage(const struct place *place, struct random_state *random)
{
    switch (random_below(random, 16)) {
    case 0:
        file_write(place->entry, delta.data, delta.size);
        return spoil_base(place, random);
    case 1:
        return make_chain(place);
    case 2:
    case 3:
        return damage_file(place, random);
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
        return damage_base(place, random);
    default:
        return damage_delta(place, random);
    }
}

/* ---- what must hold ---- */

static bool is_original(const char *directory, struct verdict *verdict)
{
    return hostile_holds(directory, "joined", &original, verdict);
}

/* Joins by a store, and says whether that was done. */
static bool join(const char *directory, const char *store, bool *done, struct verdict *verdict)
{
    char *words = text_format("join --store %s -o joined %s", store, stripped);
    int exit_code = -1;
    bool good = hostile_run(directory, words, &exit_code, verdict);

    *done = exit_code == 0;
    free(words);
    return good && (exit_code != 0 || is_original(directory, verdict));
}

/* Says one line for each file that is damaged. The notes may tell of another image. */
static bool check_store(const char *directory, int *exit_code, struct verdict *verdict)
{
    struct command command = hostile_command(directory, "store check store");
    struct outcome outcome = command_run(&command);

    *exit_code = outcome.exit_code;
    if (outcome.signal != 0 || outcome.timed_out || outcome.exit_code > 1 ||
        (outcome.exit_code == 1 && strstr(outcome.errors, "covsplit: error: ") == NULL))
        verdict_fail(verdict, "it ended otherwise %s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
    return verdict->problem == NULL;
}

/* After this, the sidecar in that store is whole, and as good as before. */
static bool makes_whole(const char *directory, const char *words, const char *store,
                        bool joined_before, struct verdict *verdict)
{
    int exit_code = -1;
    bool joined = false;

    if (!hostile_run(directory, words, &exit_code, verdict))
        return false;
    if (exit_code != 0)
        return !joined_before || verdict_fail(verdict, "'%s' refuses what join accepts", words);
    directory_remove(path_join(directory, "store/.build-id/bases"));
    return join(directory, store, &joined, verdict) &&
           (joined == joined_before ||
            verdict_fail(verdict, "'%s' changes whether it can be joined", words));
}

/* Another image is split, whatever its base is like; unless that was made to look sound, it is not
 * refused either. */
static bool splits(const char *directory, bool may_refuse, struct verdict *verdict)
{
    struct contents third = file_read(path_join(sample.scratch, "third"));
    int exit_code = -1;
    bool good = hostile_run(directory, "split -j1 --store store --delta -o out ../../third",
                            &exit_code, verdict);

    if (good && exit_code != 0)
        good = may_refuse || verdict_fail(verdict, "a split failed");
    else if (good)
        good = hostile_run(directory, "join --store store -o joined out", &exit_code, verdict) &&
               (exit_code == 0 || verdict_fail(verdict, "a split cannot be joined")) &&
               hostile_holds(directory, "joined", &third, verdict);

    contents_free(&third);
    return good;
}

static bool check(const struct place *place, unsigned long seed, const char *what, bool *joined,
                  struct verdict *verdict)
{
    const char *directory = place->directory;
    const char *entry = place->entry + strlen(directory) + 1;
    int exit_code = -1;

    if (!join(directory, "store", joined, verdict))
        return false;
    switch (seed % 9) {
    case 0:
        return hostile_run(directory, text_format("verify --image %s %s", stripped, entry),
                           &exit_code, verdict) &&
               (exit_code != 0 || *joined ||
                verdict_fail(verdict, "verify accepts what join refuses"));
    case 1:
        return check_store(directory, &exit_code, verdict) &&
               (exit_code != 0 || *joined || strcmp(what, "delta: the notes") == 0 ||
                verdict_fail(verdict, "the check accepts what join refuses"));
    case 2:
        return hostile_run(directory, text_format("show --map %s", entry), &exit_code, verdict) &&
               hostile_run(directory, text_format("show %s", entry), &exit_code, verdict);
    case 3:
        return makes_whole(directory, "store undelta store", "store", *joined, verdict);
    case 4:
        return makes_whole(directory, "store copy store copied", "copied", *joined, verdict);
    case 5:
        return hostile_run(directory, "export --store store --debug-dir debug", &exit_code,
                           verdict);
    case 6:
        return hostile_run(directory,
                           text_format("correlate --store store -o out.profraw %s", profile),
                           &exit_code, verdict);
    case 7:
        return hostile_run(directory, "store list store", &exit_code, verdict) &&
               hostile_run(directory, "store gc --older-than 1 store", &exit_code, verdict);
    default:
        return splits(directory, strncmp(what, "base: ", strlen("base: ")) == 0, verdict);
    }
}

START_TEST(test_damaged)
{
    char *directory = sample_directory(&sample);
    unsigned refused = 0;

    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed++) {
        struct random_state random = random_start(seed);
        struct place place = make_place(directory);
        struct verdict verdict = {0};
        const char *what;
        bool done = false;

        hostile_fork_most(seed);
        what = damage(&place, &random);
        check(&place, seed, what, &done, &verdict);
        verdict_assert(&verdict, text_format("seed %lu, %s", seed, what));
        refused += !done;
    }
    ck_assert(refused != 0 || hostile_end(_i) - hostile_first(_i) < 5);
}
END_TEST

/* What is put together again without a change is as good as before. */
START_TEST(test_undamaged)
{
    char *directory = sample_directory(&sample);
    struct place place = make_place(directory);
    struct pieces of_base = take_apart(&base), pieces = take_apart(&delta);
    struct contents changed = put_together(&of_base), made;
    struct verdict verdict = {0};
    bool joined = false;

    name_base(&pieces, &changed);
    made = put_together(&pieces);
    write_base(&place, &changed);
    file_write(place.entry, made.data, made.size);
    join(place.directory, "store", &joined, &verdict);
    verdict_assert(&verdict, "undamaged");
    ck_assert(joined);
}
END_TEST

/* A frame is said to have far more bytes: the limit refuses it before there is memory for them. */
START_TEST(test_limit)
{
    const uint64_t sizes[] = {UINT64_C(1) << 31, UINT64_C(1) << 40, UINT64_C(1) << 63};
    struct place place = make_place(sample_directory(&sample));
    struct pieces pieces = take_apart(&delta);
    struct contents made;
    struct outcome outcome;

    set_number(&pieces.contents[pieces.compressed[1]], 2, sizes[_i]);
    made = put_together(&pieces);
    write_base(&place, &base);
    file_write(place.entry, made.data, made.size);
    outcome = covsplit_run_words(place.directory, 1,
                                 text_format("join --store store -o joined %s", stripped));
    assert_contains(outcome.errors, "--memory-limit");
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    ck_assert_int_lt(outcome.peak_resident_kib, 512 * 1024);
    contents_free(&made);
}
END_TEST

int main(int count, char **words)
{
    const char *first, *seeds;
    TCase *mutations;

    suite_arguments(count, words, "FIRST COUNT", &first, &seeds);
    hostile_in_memory();
    hostile_seeds(first, seeds);
    mutations = suite_case("deltas", TEST_TIMEOUT_SECONDS, prepare);
    suite_loops(mutations, hostile_tests(), test_damaged);
    suite_tests(mutations, test_undamaged);
    suite_loops(mutations, 3, test_limit);
    return suite_main("bad deltas", mutations);
}
