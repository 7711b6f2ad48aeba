/*
 * docs/format.md is true: a reader that was written from that page alone reads sidecars,
 * and brings the original back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/windows_program.h"

/* One image of each class: for ELF, and for COFF with 32 bits. */
static const struct program elf_program = {.clang = "22",
                                           .linker = "lld",
                                           .kind = LINK_PIE,
                                           .language = LANGUAGE_CXX,
                                           .optimization = "-O1"};
static const struct windows_program coff_program = {
    .clang = "22", .target = WINDOWS_MSVC_I686, .language = LANGUAGE_C};

static char *scratch;

static void prepare(void)
{
    scratch = scratch_create("sidecar-format");
    program_build(&elf_program, scratch);
    windows_program_build(&coff_program, scratch);
}

static const char *const images[] = {PROGRAM_NAME, WINDOWS_PROGRAM};

#define IMAGE_COUNT (sizeof images / sizeof *images)

static struct command reader(const char *words)
{
    struct command command = {.directory = scratch};
    text_list_add(&command.arguments, "python3");
    text_list_add(&command.arguments, COVSPLIT_FIXTURE_DIRECTORY "/../support/sidecar_reader.py");
    text_list_add_words(&command.arguments, words);
    return command;
}

static const char *read_by_page(const char *words)
{
    struct command command = reader(words);
    return command_run_or_abort(&command);
}

static void split(const char *image, const char *options)
{
    covsplit_run_words(scratch, 0,
                       text_format("split %s -o stripped --sidecar sidecar %s", options, image));
}

/* Sections, digests, the seal, and the way back. */
START_TEST(test_portable)
{
    split(images[_i], "--portable");
    const char *sections = read_by_page("check sidecar");
    static const char *const names[] = {"__llvm_covmap ", "__llvm_covfun ", "__llvm_prf_names ",
                                        "__llvm_prf_data "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_msg(strstr(sections, names[i]) != NULL, "%s", sections);
    }
    read_by_page("join sidecar stripped joined");
    files_assert_equal(path_join(scratch, "joined"), path_join(scratch, images[_i]), images[_i]);
}
END_TEST

/* All compact forms, which are checked by their digests, and the way back from them. */
START_TEST(test_compact)
{
    static const char *const types[] = {" 0x6c760103\n", " 0x6c760205\n", " 0x6c760303\n",
                                        " 0x6c760409\n"};
    split(images[_i], "--portable");
    const char *portable = read_by_page("names sidecar");
    split(images[_i], "");
    const char *sections = read_by_page("check sidecar");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ck_assert_msg(strstr(sections, types[i]) != NULL, "%s", sections);
    }
    const char *compact = read_by_page("names sidecar");
    ck_assert_uint_gt(text_count(compact, "\n"), 100);
    ck_assert_str_eq(portable, compact);
    read_by_page("join sidecar stripped joined");
    files_assert_equal(path_join(scratch, "joined"), path_join(scratch, images[_i]), images[_i]);
}
END_TEST

/* The forms of linked mapping, of a link of packed objects and others; what the reader makes of the
 * sidecar is what it makes of that of the ordinary image. */
START_TEST(test_packed)
{
    static const char *const types[] = {" 0x6c760502\n", ".covsplit.covfun "};
    static const char *const parts[] = {"__llvm_covmap", "__llvm_covfun"};

    const char *place = path_join(scratch, "objects");

    directory_create(place);
    program_build(&elf_program, place);
    file_copy(path_join(place, "first.o"), path_join(place, "packed.o"));
    covsplit_run_words(place, 0, "pack packed.o");
    program_link(&elf_program, place, "-pie", "main.o packed.o second.o", "../mixed");
    for (size_t i = 0; i < 2; i++) {
        split(PROGRAM_NAME, "");
        read_by_page(text_format("section sidecar %s ordinary", parts[i]));
        split("mixed", "");
        read_by_page(text_format("section sidecar %s unpacked", parts[i]));
        files_assert_equal(path_join(scratch, "unpacked"), path_join(scratch, "ordinary"),
                           parts[i]);
    }
    const char *sections = read_by_page("check sidecar");
    for (size_t i = 0; i < 2; i++) {
        ck_assert_msg(strstr(sections, types[i]) != NULL, "%s", sections);
    }
    read_by_page("join sidecar stripped joined");
    files_assert_equal(path_join(scratch, "joined"), path_join(scratch, "mixed"), "mixed");
}
END_TEST

/* Headers and notes, all of which the seal covers. */
#define SEALED_FIRST 64
#define SEALED_END   600
#define SEALED_STEP  47

/* What the page says of the seal: a byte changed under it is seen. */
START_TEST(test_damage)
{
    split(images[0], "--portable");
    struct contents sidecar = file_read(path_join(scratch, "sidecar"));
    for (size_t place = SEALED_FIRST; place < SEALED_END; place += SEALED_STEP) {
        struct command command = reader("check damaged");
        sidecar.data[place] ^= 0x08;
        file_write(path_join(scratch, "damaged"), sidecar.data, sidecar.size);
        sidecar.data[place] ^= 0x08;
        struct outcome outcome = command_run(&command);
        ck_assert_msg(outcome.exit_code > 0, "byte %zu: %s", place, outcome.output);
        outcome_free(&outcome);
        command_free(&command);
    }
}
END_TEST

/* ---- deltas ---- */

/* Images with a program's objects in another order, and with some of them. */
#define AGAIN "again"
#define PART  "part"
#define PART_MAIN                                                                                  \
    "extern \"C\" long first_run(long seed);\n"                                                    \
    "extern \"C\" void stop_here(long) {}\n"                                                       \
    "int main(int count, char **) { return first_run(count) == 1; }\n"

/* Programs of so many instances of a function, each of which has some 15,000 bytes of mapping. It
 * is of lines without code, so they are compiled at once. That of the larger two is in blocks. */
#define SMALL          "small"
#define LARGE          "large"
#define LARGER         "larger"
#define NO_CODE        "#if 0\nno code\n#endif\n"
#define NO_CODE_COUNT  3000
#define BUILD_ID       "0x%02x00000000000000000000000000000000000000"
#define SIDECAR_OF     "store/.build-id/%02x/00000000000000000000000000000000000000.covsplit"
#define FIRST_BUILD_ID 0xa0

static const char *const compared[] = {PROGRAM_NAME, AGAIN, PART, SMALL, LARGE, LARGER};

#define COMPARED_COUNT (sizeof compared / sizeof *compared)

/* By which all of them have known names in a store. */
static unsigned build_id_of(const char *image)
{
    unsigned number = 0;
    while (strcmp(compared[number], image) != 0) {
        number++;
    }
    return FIRST_BUILD_ID + number;
}

static void build(const char *image, const char *inputs)
{
    struct program program = elf_program;
    program.build_id = text_format(BUILD_ID, build_id_of(image));
    program_link(&program, scratch, "-pie", inputs, image);
}

static void build_of_instances(const char *image, unsigned instances)
{
    FILE *source = fopen(path_join(scratch, "instances.cc"), "w");
    ck_assert_ptr_nonnull(source);
    fputs("template <int N> int f(int x)\n{\n", source);
    for (unsigned i = 0; i < NO_CODE_COUNT; i++) {
        fputs(NO_CODE, source);
    }
    fputs("return x + N;\n}\nint main(int count, char **)\n{\nreturn 0", source);
    for (unsigned i = 0; i < instances; i++) {
        fprintf(source, " + f<%u>(count)\n", i);
    }
    fputs(";\n}\n", source);
    ck_assert_int_eq(fclose(source), 0);
    program_compile(&elf_program, scratch, "instances.cc", "instances.o");
    build(image, "instances.o");
}

static void prepare_deltas(void)
{
    scratch = scratch_create("sidecar-deltas");
    program_build(&elf_program, scratch);
    build(PROGRAM_NAME, "main.o first.o second.o");
    build(AGAIN, "main.o second.o first.o");
    file_write_text(path_join(scratch, "part.cc"), PART_MAIN);
    program_compile(&elf_program, scratch, "part.cc", "part.o");
    build(PART, "part.o first.o");
    build_of_instances(SMALL, 200);
    build_of_instances(LARGE, 300);
    build_of_instances(LARGER, 310);
}

/* What is packed with what, how both are split, and a section as the reader tells it. */
static const struct {
    const char *base, *base_options, *image, *options, *section;
} deltas[] = {
    {PROGRAM_NAME, "", AGAIN, "", " 0x6c760409 as streams\n"},
    {PROGRAM_NAME, "", PART, "", " 0x6c760103 as streams\n"},
    {PROGRAM_NAME, "", AGAIN, "--portable", " 0x2 as contents\n"},
    {PROGRAM_NAME, "--portable", AGAIN, "", " 0x6c760103 as contents\n"},
    {LARGE, "", LARGER, "", " 0x6c76040a as streams\n"},
    {LARGE, "", SMALL, "", " 0x6c760409 as streams\n"},
    {SMALL, "", LARGE, "", " 0x6c76040a as streams\n"},
};

/* Puts the sidecars into a new store; gives the path of the second, which is a delta. */
static const char *store_delta(int number)
{
    directory_remove(path_join(scratch, "store"));
    covsplit_run_words(scratch, 0,
                       text_format("split -o base --store store --delta %s %s",
                                   deltas[number].base_options, deltas[number].base));
    covsplit_run_words(scratch, 0,
                       text_format("split -o stripped --store store --delta %s %s",
                                   deltas[number].options, deltas[number].image));
    return text_format(SIDECAR_OF, build_id_of(deltas[number].image));
}

START_TEST(test_delta)
{
    const char *path = store_delta(_i), *image = deltas[_i].image;
    const char *sections = read_by_page(text_format("check %s", path));
    ck_assert_msg(strstr(sections, deltas[_i].section) != NULL, "%s", sections);
    read_by_page(text_format("join %s stripped joined", path));
    files_assert_equal(path_join(scratch, "joined"), path_join(scratch, image), image);
}
END_TEST

#define BASES "store/.build-id/bases"

static void assert_refused(const char *words, const char *reason)
{
    struct command command = reader(words);
    struct outcome outcome = command_expect(&command, 1);
    ck_assert_msg(strstr(outcome.errors, reason) != NULL, "%s", outcome.errors);
    outcome_free(&outcome);
    command_free(&command);
}

/* A base can be anywhere, but must be the one in the note. */
START_TEST(test_base)
{
    const char *path = store_delta(0), *there = path_join(scratch, BASES), *base = NULL;
    struct text_list names = directory_list(there);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(strrchr(names.items[i], '.'), ".base") == 0) {
            base = path_join(there, names.items[i]);
        }
    }
    ck_assert_ptr_nonnull(base);
    file_copy(path_join(scratch, path), path_join(scratch, "alone"));
    assert_refused("check alone", "No such file");
    const char *sections = read_by_page("--bases " BASES " check alone");
    ck_assert_msg(strstr(sections, deltas[0].section) != NULL, "%s", sections);
    covsplit_run_words(scratch, 0, text_format("split -o other --sidecar other.covsplit %s", PART));
    file_copy(path_join(scratch, "other.covsplit"), base);
    assert_refused(text_format("check %s", path), "not the base of this delta");
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("format", 120, prepare);
    TCase *delta_case = suite_case("deltas", 120, prepare_deltas);
    suite_loops(delta_case, sizeof deltas / sizeof *deltas, test_delta);
    suite_tests(delta_case, test_base);
    suite_loops(test_case, IMAGE_COUNT, test_portable, test_compact);
    suite_tests(test_case, test_packed, test_damage);
    return suite_main("sidecar format", test_case, delta_case);
}
