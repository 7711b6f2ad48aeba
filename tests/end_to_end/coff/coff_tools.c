/*
 * COFF images through LLVM's and mingw's tools, before and after a split: they say nothing of a
 * stripped image that they do not say of the unsplit one, and it is still known as split, with the
 * same sidecar, which its profiles fit. (The suite coff runs such images.) And what covsplit says
 * of images without a UUID, with one of another's, and of separate debug files.
 *
 * Usage: coff_tools CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/windows_image.h"

#define STRIPPED  "stripped.exe"
#define SIDECAR   WINDOWS_PROGRAM ".covsplit"
#define MINGW     "x86_64-w64-mingw32"
#define FUNCTIONS 60

static const char *clang_version;

static const struct image {
    struct windows_program program;
    const char *sections;
} images[] = {
    {{.target = WINDOWS_MSVC_X86_64}, "all"},
    {{.target = WINDOWS_MINGW_LLD}, "all"},
    {{.target = WINDOWS_MSVC_ARM64, .link_options = "/build-id:no"}, "all"},
    {{.target = WINDOWS_MINGW_BFD}, "all"},
    {{.target = WINDOWS_MSVC_X86_64}, "covmap,covfun"},
};

enum { OF_LLVM, OF_MINGW };

static const struct tool {
    int maker;
    const char *name;
    const char *before; /* the words before the image, and the one before the output */
    const char *output;
} tools[] = {
    {OF_LLVM, "llvm-objcopy", "", ""},
    {OF_MINGW, MINGW "-strip", "", "-o"},
    {OF_LLVM, "llvm-strip", "", "-o"},
    {OF_MINGW, MINGW "-objcopy", "", ""},
    {OF_LLVM, "llvm-objcopy", "--strip-debug", ""},
    {OF_MINGW, MINGW "-strip", "-g", "-o"},
};

/* mingw's tools are for x86-64, and llvm-strip does not take the symbols of GNU ld. */
static bool fits(const struct image *image, const struct tool *tool)
{
    return tool->maker == OF_MINGW ? image->program.target != WINDOWS_MSVC_ARM64
                                   : image->program.target != WINDOWS_MINGW_BFD;
}

static const char *rework(const struct tool *tool, const char *directory, const char *from,
                          const char *to)
{
    const char *path =
        tool->maker == OF_LLVM ? versioned_tool(tool->name, clang_version) : tool->name;
    struct command command =
        command_words(directory, "%s %s %s %s %s", path, tool->before, from, tool->output, to);
    struct outcome outcome = command_expect(&command, 0);
    return text_format("%s%s", outcome.output, outcome.errors);
}

static char *build(const struct windows_program *given)
{
    struct windows_program program = *given;
    char *directory = scratch_create("coff-tools");
    program.clang = clang_version;
    program.functions = FUNCTIONS;
    windows_program_build(&program, directory);
    return directory;
}

/* ---- the tests ---- */

static void check_after(const struct image *image, const struct tool *tool, const char *directory)
{
    ck_assert_str_eq(rework(tool, directory, WINDOWS_PROGRAM, "unsplit.exe"),
                     rework(tool, directory, STRIPPED, "after.exe"));
    const char *said = covsplit_assert(0, directory, "split", "-o", "again", "after.exe", NULL);
    ck_assert_msg(strstr(said, "split already") != NULL &&
                      strstr(said, "its sidecar is " SIDECAR) != NULL,
                  "%s %s: %s", tool->name, tool->before, said);
    files_assert_equal(path_join(directory, "again"), path_join(directory, "after.exe"),
                       tool->name);
    ck_assert(!file_exists(path_join(directory, "after.exe.covsplit")));
    if (strcmp(image->sections, "all") == 0) {
        struct pe_file after = pe_file_read(path_join(directory, "after.exe"));
        windows_profile_write(&after, path_join(directory, WINDOWS_PROGRAM ".map"), true,
                              path_join(directory, "light.profraw"));
        covsplit_run_words(directory, 0,
                           "correlate --sidecar " SIDECAR " -o full.profraw "
                           "light.profraw");
        pe_file_free(&after);
    }
}

static void check_before(const struct tool *tool, const char *directory)
{
    rework(tool, directory, WINDOWS_PROGRAM, "before.exe");
    covsplit_assert(0, directory, "split", "-o", "split.exe", "--sidecar", "before.covsplit",
                    "before.exe", NULL);
    covsplit_run_words(directory, 0, "join --sidecar before.covsplit -o joined split.exe");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "before.exe"),
                       tool->name);
    unlink(path_join(directory, "before.covsplit"));
}

START_TEST(test_tools)
{
    const struct image *image = &images[_i];
    char *directory = build(&image->program);
    covsplit_assert(0, directory, "split", "--sections", image->sections, "-o", STRIPPED,
                    WINDOWS_PROGRAM, NULL);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (fits(image, &tools[i]) && rounds_have((unsigned)(i / 2) + (unsigned)_i, 2)) {
            check_after(image, &tools[i], directory);
            check_before(&tools[i], directory);
        }
    }
}
END_TEST

START_TEST(test_debug_file)
{
    static const char *const commands[] = {"split", "show"};
    char *directory = build(&(struct windows_program){.target = WINDOWS_MINGW_LLD});
    const struct tool *objcopy = &tools[_i == 0 ? 0 : 3];
    struct tool maker = *objcopy;
    maker.before = "--only-keep-debug";
    rework(&maker, directory, WINDOWS_PROGRAM, "program.debug");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *said = covsplit_assert(1, directory, commands[i], "program.debug", NULL);
        ck_assert_msg(strstr(said, "program.debug: a separate debug file") != NULL, "%s", said);
    }
    directory_create(path_join(directory, "tree"));
    file_copy(path_join(directory, WINDOWS_PROGRAM), path_join(directory, "tree/app.exe"));
    file_copy(path_join(directory, "program.debug"), path_join(directory, "tree/app.debug"));
    ck_assert_str_eq(covsplit_assert(0, directory, "split", "-r", "tree", NULL), "");
    files_assert_equal(path_join(directory, "tree/app.debug"),
                       path_join(directory, "program.debug"), "after split -r");
}
END_TEST

/* The linker's own words. */
START_TEST(test_no_uuid)
{
    char *directory = build(
        &(struct windows_program){.target = WINDOWS_MSVC_X86_64, .link_options = "/build-id:no"});
    const char *said = covsplit_assert(1, directory, "split", "--sections", "covmap,covfun",
                                       "--store", "store", "-o", "out", WINDOWS_PROGRAM, NULL);
    ck_assert_msg(strstr(said, "has no UUID") != NULL &&
                      strstr(said, "link with /build-id") != NULL,
                  "%s", said);
}
END_TEST

/* Another image has the UUID, and nothing to take out. */
START_TEST(test_same_uuid)
{
    char *directory = build(&(struct windows_program){.target = WINDOWS_MSVC_X86_64});
    struct pe_file other = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    static const char *const names[] = {".lcovmap", ".lcovfun", ".lprfn", ".lprfd", ".lprfc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct pe_section *section = pe_file_section(&other, names[i]);
        if (section != NULL) {
            other.file.data[section->header + 1] = 'x';
        }
    }
    file_write(path_join(directory, "other"), other.file.data, other.file.size);
    covsplit_assert(0, directory, "split", "--store", "store", "-o", "out", WINDOWS_PROGRAM, NULL);
    const char *said =
        covsplit_assert(1, directory, "split", "--store", "store", "-o", "out2", "other", NULL);
    ck_assert_msg(strstr(said, "link each build with /build-id") != NULL &&
                      strstr(said, "--sidecar") == NULL,
                  "%s", said);
}
END_TEST

/* Only the directories that an image has are compared with what a second reader finds. */
static const uint32_t directory_counts[] = {6, 7, 10, 15};

START_TEST(test_few_directories)
{
    char *directory = build(&(struct windows_program){.target = WINDOWS_MSVC_X86_64});
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    uint32_t count = directory_counts[_i];
    for (uint64_t i = pe.directories + 8 * count; i < pe.directories + 8 * 16; i += 4) {
        pe_store_u32(&pe, i, (uint32_t)i);
    }
    pe_store_u32(&pe, pe.directories - 4, count);
    windows_image_split(&pe, directory, "", 0);
    const char *said = covsplit_assert(0, directory, "verify", "--image", "out", "side", NULL);
    /* AddressSanitizer in a program in C ends at the exception that LIEF throws and catches. */
    if (!covsplit_is_sanitized()) {
        ck_assert_str_eq(said, "");
    }
    windows_image_assert_joins(directory);
}
END_TEST

int main(int argument_count, char **arguments)
{
    TCase *test_case = suite_case("tools", 300, NULL);
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    suite_loops(test_case, sizeof images / sizeof *images, test_tools);
    suite_loops(test_case, 2, test_debug_file);
    suite_loops(test_case, sizeof directory_counts / sizeof *directory_counts,
                test_few_directories);
    suite_tests(test_case, test_no_uuid, test_same_uuid);
    return suite_main(text_format("coff tools clang-%s", clang_version), test_case);
}
