/*
 * Mach-O images through LLVM's tools, which write all load commands anew: before and after a split.
 * They say nothing of a stripped image that they do not say of the unsplit one, it runs and reports
 * as before, and is still known as split, with the same sidecar.
 *
 * Usage: macho_tools CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"

#define IMAGE     "image"
#define STRIPPED  "stripped"
#define SIDECAR   "image.covsplit"
#define FUNCTIONS 100

static const char *clang_version;

static const struct image {
    struct darwin_program program;
    const char *sections;
} images[] = {
    {{.architecture = "x86_64", .late_section = true}, "all"},
    {{.architecture = "arm64", .kind = DARWIN_LIBRARY, .opcodes = true}, "all"},
    {{.architecture = "x86_64"}, "covmap,covfun"},
    {{.architecture = "arm64", .opcodes = true, .link_options = "-no_uuid"}, "all"},
    {{.architecture = "x86_64", .opcodes = true}, "covmap,covfun,names"},
};

static const struct tool {
    const char *name;
    const char *before; /* the words before the image, and that before the output; NULL: the */
    const char *output; /* image is changed in place */
    bool takes_symbols; /* by which the tests' loader finds what to run */
} tools[] = {
    {"llvm-objcopy", "", "", false},
    {"llvm-strip", "-x", "-o", false},
    {"llvm-install-name-tool", "-add_rpath @loader_path", NULL, false},
    {"llvm-strip", "", "-o", true},
    {"llvm-objcopy", "--strip-debug", "", false},
    {"llvm-bitcode-strip", "-r", "-o", false},
};

/* Has the tool make one file of another; returns what it says. */
static const char *rework(const struct tool *tool, const char *directory, const char *from,
                          const char *to)
{
    const char *path = versioned_tool(tool->name, clang_version);
    struct command command;
    if (tool->output == NULL) {
        file_copy(path_join(directory, from), path_join(directory, to));
        command = command_words(directory, "%s %s %s", path, tool->before, to);
    } else {
        command =
            command_words(directory, "%s %s %s %s %s", path, tool->before, from, tool->output, to);
    }
    struct outcome outcome = command_expect(&command, 0);
    return text_format("%s%s", outcome.output, outcome.errors);
}

/* ---- runs ---- */

static bool can_run(const struct image *image, const struct tool *tool)
{
    return !tool->takes_symbols && strcmp(image->program.architecture, "x86_64") == 0;
}

/* What the image prints, and its profile as text. */
static const char *run_image(const char *directory, const char *image, bool is_light)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    const char *full = is_light ? "full.profraw" : "run.profraw";
    struct command command = darwin_loader_command(directory);
    text_list_add_words(&command.arguments,
                        text_format("run %s _program_main 7 run.profraw", image));
    struct outcome outcome = command_expect(&command, 3);
    if (is_light) {
        covsplit_run_words(directory, 0,
                           "correlate --sidecar " SIDECAR " -o full.profraw run.profraw");
    }
    run_or_abort(directory, profdata, "merge", full, "-o", "run.profdata", NULL);
    return text_format("%s%s", outcome.output,
                       run_or_abort(directory, profdata, "show", "--text", "--all-functions",
                                    "--counts", "run.profdata", NULL));
}

static const char *report_of(const struct image *image, const char *directory, const char *file,
                             bool by_covsplit)
{
    struct command command = {.directory = directory};
    if (by_covsplit) {
        command = covsplit_words(directory, "run --sidecar " SIDECAR " --");
    }
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments,
                        text_format("report -arch %s %s -instr-profile=empty.profdata",
                                    image->program.architecture, file));
    return command_run_or_abort(&command);
}

/* ---- the tests ---- */

static char *build(const struct image *image)
{
    struct darwin_program program = image->program;
    char *directory = scratch_create("macho-tools");
    program.clang = clang_version;
    program.functions = FUNCTIONS;
    darwin_program_build(&program, directory, IMAGE);
    covsplit_assert(0, directory, "split", "--sections", image->sections, "-o", STRIPPED, IMAGE,
                    NULL);
    file_write_text(path_join(directory, "empty.proftext"), "nothing\n1\n1\n1\n");
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge",
                 "empty.proftext", "-o", "empty.profdata", NULL);
    return directory;
}

static void check_after(const struct image *image, const struct tool *tool, const char *directory)
{
    ck_assert_str_eq(rework(tool, directory, IMAGE, "unsplit"),
                     rework(tool, directory, STRIPPED, "after"));
    const char *said = covsplit_assert(0, directory, "split", "-o", "again", "after", NULL);
    ck_assert_msg(strstr(said, "split already") != NULL &&
                      strstr(said, "its sidecar is " SIDECAR) != NULL,
                  "%s %s: %s", tool->name, tool->before, said);
    files_assert_equal(path_join(directory, "again"), path_join(directory, "after"), tool->name);
    ck_assert(!file_exists(path_join(directory, "after.covsplit")));
    if (can_run(image, tool)) {
        ck_assert_str_eq(run_image(directory, "unsplit", false),
                         run_image(directory, "after", true));
    }
    if (!covsplit_is_sanitized()) {
        ck_assert_str_eq(report_of(image, directory, "unsplit", false),
                         report_of(image, directory, "after", true));
    }
}

/* Of an image without symbols less goes. */
static void check_before(const struct image *image, const struct tool *tool, const char *directory)
{
    rework(tool, directory, IMAGE, "before");
    covsplit_assert(0, directory, "split", "-o", "split", "--sidecar", "before.covsplit", "before",
                    NULL);
    covsplit_run_words(directory, 0, "join --sidecar before.covsplit -o joined split");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "before"), tool->name);
    if (can_run(image, tool)) {
        struct command command = darwin_loader_command(directory);
        text_list_add_words(&command.arguments, "run split _program_main 7 split.profraw");
        command_expect(&command, 3);
        covsplit_run_words(directory, 0,
                           "correlate --sidecar before.covsplit -o full.profraw split.profraw");
    }
    unlink(path_join(directory, "before.covsplit"));
}

START_TEST(test_tools)
{
    const struct image *image = &images[_i];
    char *directory = build(image);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (rounds_have((unsigned)i + (unsigned)_i, 3)) {
            check_after(image, &tools[i], directory);
            check_before(image, &tools[i], directory);
        }
    }
}
END_TEST

/* As slices of one image they are known, too, and thin again. */
START_TEST(test_universal)
{
    const char *lipo = versioned_tool("llvm-lipo", clang_version);
    char *directory = build(&images[0]), *other = build(&images[1]);
    run_or_abort(directory, lipo, "-create", STRIPPED, path_join(other, STRIPPED), "-output",
                 "universal", NULL);
    const char *said = covsplit_assert(0, directory, "split", "-o", "again", "universal", NULL);
    ck_assert_uint_eq(text_count(said, "split already"), 2);
    run_or_abort(directory, lipo, "-thin", "x86_64", "universal", "-output", "thin", NULL);
    files_assert_equal(path_join(directory, "thin"), path_join(directory, STRIPPED), "thin");
}
END_TEST

/* pack leaves universal files of objects and of archives alone, as it does thin ones. */
START_TEST(test_universal_objects)
{
    static const char *const names[] = {"universal.o", "universal.a", "archive.a"};
    const char *lipo = versioned_tool("llvm-lipo", clang_version);
    const char *ar = versioned_tool("llvm-ar", clang_version);
    char *directory = build(&images[0]), *other = build(&images[1]);
    run_or_abort(directory, lipo, "-create", "first.o", path_join(other, "first.o"), "-output",
                 "universal.o", NULL);
    run_or_abort(directory, ar, "rcs", "archive.a", "universal.o", NULL);
    run_or_abort(directory, ar, "rcs", "thin.a", "first.o", NULL);
    run_or_abort(other, ar, "rcs", "thin.a", "first.o", NULL);
    run_or_abort(directory, lipo, "-create", "thin.a", path_join(other, "thin.a"), "-output",
                 "universal.a", NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ck_assert_str_eq(covsplit_assert(0, directory, "pack", "-o", "out", names[i], NULL), "");
        files_assert_equal(path_join(directory, "out"), path_join(directory, names[i]), names[i]);
    }
    run_or_abort(directory, lipo, "-create", IMAGE, path_join(other, IMAGE), "-output", "universal",
                 NULL);
    const char *said = covsplit_assert(1, directory, "pack", "universal", NULL);
    ck_assert_msg(strstr(said, "a linked image") != NULL, "%s", said);
}
END_TEST

/* The linker's own words. */
START_TEST(test_no_uuid)
{
    char *directory = build(&images[3]);
    const char *said = covsplit_assert(1, directory, "split", "--sections", "covmap,covfun",
                                       "--store", "store", "-o", "out", IMAGE, NULL);
    ck_assert_msg(strstr(said, "link with -random_uuid") != NULL, "%s", said);
}
END_TEST

int main(int argument_count, char **arguments)
{
    TCase *test_case = suite_case("tools", 300, NULL);
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    suite_loops(test_case, sizeof images / sizeof *images, test_tools);
    suite_tests(test_case, test_universal, test_universal_objects, test_no_uuid);
    return suite_main(text_format("macho tools clang-%s", clang_version), test_case);
}
