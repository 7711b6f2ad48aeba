/*
 * docs/format.md is true: a reader that was written from that page alone reads sidecars,
 * and brings the original back.
 */
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

int main(void)
{
    TCase *test_case = suite_case("format", 120, prepare);
    suite_loops(test_case, IMAGE_COUNT, test_portable, test_compact);
    suite_tests(test_case, test_packed, test_damage);
    return suite_main("sidecar format", test_case);
}
