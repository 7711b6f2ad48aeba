/*
 * Mach-O images: what clang and ld64.lld make, split and joined, read by other tools, and run.
 *
 * Usage: macho CLANG ARCHITECTURE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"

#define TEST_TIMEOUT_SECONDS 300
#define IMAGE                "image"
#define STRIPPED             "stripped"
#define SIDECAR              "image.covsplit"

static const char *clang_version;
static const char *architecture;

static const struct darwin_program programs[] = {
    {.kind = DARWIN_EXECUTABLE, .language = LANGUAGE_C},
    {.kind = DARWIN_EXECUTABLE, .language = LANGUAGE_C, .late_section = true},
    {.kind = DARWIN_EXECUTABLE, .language = LANGUAGE_C, .opcodes = true, .late_section = true},
    {.kind = DARWIN_LIBRARY, .language = LANGUAGE_CXX},
    {.kind = DARWIN_LIBRARY, .language = LANGUAGE_C, .opcodes = true},
    {.kind = DARWIN_BUNDLE, .language = LANGUAGE_CXX, .opcodes = true, .late_section = true},
};

/* ---- what other tools say ---- */

/* Runs a tool of this LLVM version on a file; what it prints, or NULL where it finds anything
 * wrong. Never freed. */
static const char *dump(const char *directory, const char *tool, const char *options,
                        const char *file, struct verdict *verdict)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, versioned_tool(tool, clang_version));
    text_list_add_words(&command.arguments, options);
    text_list_add(&command.arguments, file);
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0) || outcome.errors_size != 0) {
        verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
        return NULL;
    }
    command_free(&command);
    return outcome.output;
}

/* The lines behind the first one, which has the file's name. */
static const char *body_of(const char *text)
{
    const char *newline = strchr(text, '\n');
    return newline == NULL ? text : newline + 1;
}

static bool same_dump(const char *directory, const char *tool, const char *options,
                      struct verdict *verdict)
{
    const char *before = dump(directory, tool, options, IMAGE, verdict);
    const char *after = dump(directory, tool, options, STRIPPED, verdict);
    if (before == NULL || after == NULL) {
        return false;
    }
    return strcmp(body_of(before), body_of(after)) == 0 ||
           verdict_fail(verdict, "%s %s prints something else:\n%s\nand before\n%s", tool, options,
                        after, before);
}

static bool check_readers(const char *directory, struct verdict *verdict)
{
    return dump(directory, "llvm-objdump",
                "--macho --all-headers --rebase --bind --lazy-bind --weak-bind --chained-fixups "
                "--function-starts --exports-trie --data-in-code --indirect-symbols",
                STRIPPED, verdict) != NULL &&
           dump(directory, "llvm-objdump", "--macho --dyld-info", STRIPPED, verdict) != NULL &&
           dump(directory, "llvm-readobj", "--all", STRIPPED, verdict) != NULL &&
           dump(directory, "llvm-otool", "-l", STRIPPED, verdict) != NULL &&
           same_dump(directory, "llvm-nm", "--format=just-symbols --no-sort", verdict) &&
           same_dump(directory, "llvm-objdump", "--macho --function-starts", verdict) &&
           same_dump(directory, "llvm-objdump", "--macho --exports-trie", verdict) &&
           same_dump(directory, "llvm-objdump", "--macho --data-in-code", verdict) &&
           same_dump(directory, "llvm-objdump", "--macho --indirect-symbols", verdict);
}

/* ---- fixups ---- */

static struct text_list fixups_of(const char *directory, const char *image)
{
    struct command command = darwin_loader_command(directory);
    text_list_add(&command.arguments, "fixups");
    text_list_add(&command.arguments, image);
    const char *text = command_run_or_abort(&command);
    command_free(&command);
    return text_list_of_lines(text);
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Every pointer that dyld sets is set as before, but for those in the sections that were taken out.
 */
static bool check_fixups(const char *directory, size_t removed, struct verdict *verdict)
{
    struct text_list before = fixups_of(directory, IMAGE);
    struct text_list after = fixups_of(directory, STRIPPED);
    qsort(before.items, before.count, sizeof *before.items, compare_lines);
    qsort(after.items, after.count, sizeof *after.items, compare_lines);
    size_t missing = 0;
    size_t j = 0;
    for (size_t i = 0; i < before.count; i++) {
        if (j < after.count && strcmp(before.items[i], after.items[j]) == 0) {
            j++;
        } else {
            missing++;
        }
    }
    bool good = before.count != 0 && j == after.count && missing == removed;
    if (!good) {
        verdict_fail(verdict, "%zu fixups before, %zu after, %zu are missing", before.count,
                     after.count, missing);
    }
    text_list_free(&before);
    text_list_free(&after);
    return good;
}

/* ---- running ---- */

/* The profile as text, whatever its form was. */
static const char *profile_text(const char *directory, const char *profile)
{
    const char *full = text_format("%s.full", profile);
    const char *merged = text_format("%s.profdata", profile);
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, directory, "correlate", "--sidecar", SIDECAR, "-o", full,
                    profile, NULL);
    verdict_assert(&verdict, profile);
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge", full, "-o",
                 merged, NULL);
    return run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "show", "--text",
                        "--all-functions", "--counts", merged, NULL);
}

static const char *run_image(const char *directory, const char *image, const char *profile)
{
    struct command command = darwin_loader_command(directory);
    text_list_add(&command.arguments, "run");
    text_list_add(&command.arguments, image);
    text_list_add(&command.arguments, "_program_main");
    text_list_add(&command.arguments, "7");
    text_list_add(&command.arguments, profile);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 3), "%s", outcome_describe(&command, &outcome));
    command_free(&command);
    return outcome.output;
}

static bool check_run(const char *directory, const char *image, struct verdict *verdict)
{
    const char *before = run_image(directory, IMAGE, "before.profraw");
    const char *after = run_image(directory, image, "after.profraw");
    if (strcmp(before, after) != 0) {
        return verdict_fail(verdict, "%s printed\n%s\nand before\n%s", image, after, before);
    }
    return strcmp(profile_text(directory, "before.profraw"),
                  profile_text(directory, "after.profraw")) == 0 ||
           verdict_fail(verdict, "the profile of %s has other counts", image);
}

/* ---- the whole ---- */

static bool is_signed(const struct darwin_program *program)
{
    return strcmp(program->architecture, "arm64") == 0;
}

static bool check_signature(const char *directory, const char *image, struct verdict *verdict)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, "python3");
    text_list_add(&command.arguments,
                  path_join(COVSPLIT_FIXTURE_DIRECTORY, "../support/check_signature.py"));
    text_list_add(&command.arguments, image);
    struct outcome outcome = command_run(&command);
    bool good = outcome_exited(&outcome, 0) ||
                verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

static bool check_join(const char *directory, struct verdict *verdict)
{
    return covsplit_expect(verdict, 0, NULL, directory, "join", "--sidecar", SIDECAR, "-o",
                           "joined", STRIPPED, NULL) &&
           files_equal(path_join(directory, "joined"), path_join(directory, IMAGE), verdict) &&
           covsplit_expect(verdict, 0, NULL, directory, "verify", "--image", STRIPPED, SIDECAR,
                           NULL);
}

/* The same input gives the same bytes; what was split is passed on. */
static bool check_again(const char *directory, struct verdict *verdict)
{
    const char *errors = "";
    if (!covsplit_expect(verdict, 0, NULL, directory, "split", "-j1", "-o", "again", "--sidecar",
                         "again.covsplit", IMAGE, NULL) ||
        !files_equal(path_join(directory, "again"), path_join(directory, STRIPPED), verdict) ||
        !files_equal(path_join(directory, "again.covsplit"), path_join(directory, SIDECAR),
                     verdict) ||
        !covsplit_expect(verdict, 0, &errors, directory, "split", "again", NULL)) {
        return false;
    }
    return (strstr(errors, "split already") != NULL ||
            verdict_fail(verdict, "a stripped image was not known again: %s", errors)) &&
           files_equal(path_join(directory, "again"), path_join(directory, STRIPPED), verdict);
}

START_TEST(test_program)
{
    struct darwin_program program = programs[_i];
    struct verdict verdict = {0};
    const char *errors = "";
    char *directory = scratch_create("macho");
    program.clang = clang_version;
    program.architecture = architecture;
    darwin_program_build(&program, directory, IMAGE);
    bool good = covsplit_expect(&verdict, 0, &errors, directory, "split", "-o", STRIPPED,
                                "--sidecar", SIDECAR, IMAGE, NULL) &&
                check_join(directory, &verdict) && check_readers(directory, &verdict) &&
                check_fixups(directory, 0, &verdict) && check_again(directory, &verdict);
    if (good && is_signed(&program)) {
        good = check_signature(directory, IMAGE, &verdict) &&
               check_signature(directory, STRIPPED, &verdict);
    }
    bool runs = strcmp(architecture, "x86_64") == 0 && program.language == LANGUAGE_C;
    if (good && runs) {
        good = check_run(directory, STRIPPED, &verdict);
    }
    if (good) {
        run_or_abort(directory, versioned_tool("llvm-strip", clang_version), "-x", "-o",
                     "after-strip", STRIPPED, NULL);
        good = !is_signed(&program) || check_signature(directory, "after-strip", &verdict);
    }
    verdict_assert(&verdict, darwin_program_describe(&program));
    ck_assert(good);
    printf("%s:\n%s", darwin_program_describe(&program), errors);
    scratch_remove(directory);
}
END_TEST

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        fprintf(stderr, "usage: %s CLANG ARCHITECTURE\n", arguments[0]);
        return EXIT_FAILURE;
    }
    clang_version = arguments[1];
    architecture = arguments[2];
    Suite *suite = suite_create(text_format("macho clang-%s %s", clang_version, architecture));
    TCase *test_case = suite_add_case(suite, "programs", TEST_TIMEOUT_SECONDS);
    tcase_add_loop_test(test_case, test_program, 0, sizeof programs / sizeof *programs);
    return suite_run(suite);
}
