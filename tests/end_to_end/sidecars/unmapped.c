/*
 * Images without coverage mapping among others: as of a library that is instrumented for PGO alone.
 * What is made of all sidecars leaves them out with one warning. But mapping that stayed in its
 * image must not be left out.
 */
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/windows_program.h"

#define ADVICE "compile it with -fcoverage-mapping"

static char *scratch;

static char *new_directory(void)
{
    static unsigned count;
    char *directory = path_join(scratch, text_format("test%d-%u", (int)getpid(), count++));
    directory_create(directory);
    return directory;
}

static void compile(const char *directory, const char *words)
{
    struct command command =
        command_words(directory, "clang-19 -fprofile-instr-generate -Wl,--build-id=sha1 %s", words);
    command_run_or_abort(&command);
}

/* An app with mapping, whose profile is app.profdata, and two libraries without. */
static char *build(void)
{
    char *directory = new_directory();
    file_write_text(path_join(directory, "one.c"), "int one(int x) { return x > 2 ? x : 3; }\n");
    file_write_text(path_join(directory, "two.c"), "int two(int x) { return x > 1 ? x : 4; }\n");
    file_write_text(path_join(directory, "app.c"), "int one(int); int two(int);\n"
                                                   "int main(int c, char **v) {\n"
                                                   "  return v[0] && one(c) + two(c) > 100;\n"
                                                   "}\n");
    compile(directory, "-fPIC -shared one.c -o libone.so");
    compile(directory, "-fPIC -shared two.c -o libtwo.so");
    compile(directory, "-fcoverage-mapping app.c libone.so libtwo.so -Wl,-rpath,$ORIGIN -o app");
    struct command command = command_words(directory, "%s/app", directory);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=%m.profraw");
    command_run_or_abort(&command);
    command = command_words(directory, "sh -c");
    text_list_add(&command.arguments, "llvm-profdata-19 merge -o app.profdata *.profraw");
    command_run_or_abort(&command);
    return directory;
}

static const char *run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

/* There is one message, which begins and ends like this. */
static void assert_says(const char *errors, const char *start, const char *end)
{
    size_t size = strlen(errors), end_size = strlen(end);
    ck_assert_msg(text_count(errors, "\n") == 1 && strstr(errors, start) == errors &&
                      size > end_size &&
                      strcmp(errors + size - 1 - end_size, text_format("%s\n", end)) == 0,
                  "not '%s ... %s': %s", start, end, errors);
}

static const char *const ways[] = {"", "--portable", "--fast", "--sections names,data"};
#define WAY_COUNT (sizeof ways / sizeof *ways)

/* The union of all is that of the images with mapping, however the others were split, or not. */
START_TEST(test_union)
{
    char *directory = build();
    assert_says(run(directory, 0,
                    text_format("split -o one %s libone.so --sidecar one.covsplit", ways[_i])),
                "covsplit: warning: libone.so: the image has no coverage mapping", ADVICE);
    run(directory, 0, "split -o two libtwo.so --sidecar two.covsplit");
    ck_assert_str_eq(run(directory, 0, "split -o split app --sidecar app.covsplit"), "");
    ck_assert_str_eq(run(directory, 0, "export --union -o app.a app.covsplit"), "");

    const char *one = "covsplit: warning: libone.so: left out, ";
    assert_says(run(directory, 0, "export --union -o all.a one.covsplit app.covsplit"), one,
                ADVICE);
    files_assert_equal(path_join(directory, "all.a"), path_join(directory, "app.a"), "union");
    assert_says(run(directory, 0, "export --union -o all.a app.covsplit two.covsplit one.covsplit"),
                "covsplit: warning: libtwo.so and 1 other image: left out, ",
                "compile them with -fcoverage-mapping");
    files_assert_equal(path_join(directory, "all.a"), path_join(directory, "app.a"), "union");
    assert_says(run(directory, 0, "export --union -o all.a app libone.so one.covsplit"), one,
                ADVICE);
    ck_assert_int_eq(unlink(path_join(directory, "two.covsplit")), 0);
    assert_says(run(directory, 0, "export --union -o all.a"), one, ADVICE);
    files_assert_equal(path_join(directory, "all.a"), path_join(directory, "app.a"), "union");
}
END_TEST

START_TEST(test_debug_directory)
{
    char *directory = build();
    run(directory, 0, text_format("split %s libone.so", ways[_i]));
    run(directory, 0, "split app");
    assert_says(run(directory, 0, "export --debug-dir debug"),
                "covsplit: warning: libone.so: left out, ", ADVICE);
    struct command command =
        command_words(directory, "llvm-cov-19 report -instr-profile=app.profdata "
                                 "-debug-file-directory=debug");
    ck_assert(strstr(command_run_or_abort(&command), "app.c") != NULL);
    assert_says(run(directory, 1, "export --debug-dir none libone.so"),
                "covsplit: error: libone.so: ", ADVICE);
    assert_says(run(directory, 1, "export -o object libone.so"),
                "covsplit: error: libone.so.covsplit: the image has no coverage mapping", ADVICE);
    assert_says(run(directory, 1, "export --union -o none libone.so libtwo.so"),
                "covsplit: error: libone.so and 1 other image: ", "-fcoverage-mapping");
    ck_assert(!file_exists(path_join(directory, "none")) &&
              !file_exists(path_join(directory, "object")));
}
END_TEST

START_TEST(test_run)
{
    char *directory = build();
    run(directory, 0, text_format("split %s --store store libone.so", ways[_i]));
    run(directory, 0, "split --store store app");
    struct command command = covsplit_words(
        directory, "run --store store -- llvm-cov-19 report store -instr-profile=app.profdata");
    struct outcome outcome = command_expect(&command, 0);
    ck_assert(strstr(outcome.output, "app.c") != NULL);
    ck_assert_msg(text_count(outcome.errors, "covsplit: ") == 1 &&
                      strstr(outcome.errors, "covsplit: warning: libone.so: left out, ") != NULL,
                  "%s", outcome.errors);
    /* llvm-cov passes over such an image itself. */
    command = covsplit_words(directory, "run --store store -- llvm-cov-19 report libone.so -object "
                                        "app -instr-profile=app.profdata");
    outcome = command_expect(&command, 0);
    ck_assert(strstr(outcome.output, "app.c") != NULL);
    ck_assert_msg(text_count(outcome.errors, "covsplit: ") == 0, "%s", outcome.errors);
}
END_TEST

/* The mapping that a split was not to take is in the image, and would be lost. */
START_TEST(test_mapping_that_stayed)
{
    static const char *const sections[] = {"names,data", "names", "zeros", "covmap,names"};
    char *directory = build();
    run(directory, 0, "split -o other libtwo.so --sidecar two.covsplit");
    compile(directory, "-fcoverage-mapping -fPIC -shared two.c -o libtwo.so");
    run(directory, 0, "split -o other libtwo.so --sidecar other.covsplit");
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        unlink(path_join(directory, "app.covsplit"));
        run(directory, 0,
            text_format("split -o split app --sidecar app.covsplit --sections %s", sections[i]));
        const char *errors =
            run(directory, 1, "export --union -o all.a app.covsplit other.covsplit two.covsplit");
        ck_assert_msg(strstr(errors, "app.covsplit: holds no coverage mapping") != NULL &&
                          strstr(errors, "split the original without --sections\n") != NULL,
                      "%s: %s", sections[i], errors);
        ck_assert(!file_exists(path_join(directory, "all.a")));
        errors = run(directory, 1, "export -o object --sidecar app.covsplit");
        ck_assert_msg(strstr(errors, "without --sections") != NULL, "%s", errors);
    }
}
END_TEST

/* PGO of LLVM IR and binary correlation have no mapping by design; what has no profile data has
 * nothing for reports anyway. */
START_TEST(test_no_warning)
{
    static const char *const options[] = {
        "-fprofile-generate -fno-profile-instr-generate",
        "-mllvm -profile-correlate=binary",
        "-fcoverage-mapping",
    };
    char *directory = build();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        compile(directory, text_format("-fPIC -shared one.c -o libone.so %s", options[i]));
        const char *errors = run(directory, 0, "split libone.so");
        ck_assert_msg(strstr(errors, "-fcoverage-mapping") == NULL, "%s: %s", options[i], errors);
    }
    /* A link says it, too. */
    struct command command = covsplit_words(
        directory, "link --store store -- clang-19 -fprofile-instr-generate -Wl,--build-id=sha1 "
                   "-fPIC -shared one.c -o libone.so");
    assert_says(command_expect(&command, 0).errors,
                "covsplit: warning: libone.so: the image has no coverage mapping", ADVICE);
}
END_TEST

/* In images for Windows, --gc-sections of GNU ld removes all but the counters. */
START_TEST(test_windows)
{
    static const struct windows_program programs[] = {
        {.clang = "19", .target = WINDOWS_MINGW_BFD},
        {.clang = "19", .target = WINDOWS_MINGW_BFD, .link_options = "-Wl,--gc-sections"},
        {.clang = "19", .target = WINDOWS_MINGW_LLD, .instrumentation = "-fprofile-instr-generate"},
    };
    char *directory = new_directory();
    for (unsigned i = 0; i < 3; i++) {
        windows_program_build(&programs[i], directory);
        const char *words = text_format("split -o out --sidecar %u.covsplit program.exe", i);
        ck_assert_uint_eq(text_count(run(directory, 0, words),
                                     "covsplit: warning: program.exe: the image has no coverage "
                                     "mapping, so reports will lack it; " ADVICE
                                     ", and link it without --gc-sections\n"),
                          i == 0 ? 0 : 1);
    }
    assert_says(run(directory, 0, "export --union -o all.a 0.covsplit 2.covsplit"),
                "covsplit: warning: program.exe: left out, ", ADVICE);
    run(directory, 0, "export --union -o all.a 0.covsplit 1.covsplit");
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("unmapped");
}

int main(void)
{
    TCase *all = suite_case("images without mapping", 120, prepare);
    suite_loops(all, WAY_COUNT, test_union, test_debug_directory, test_run);
    suite_tests(all, test_mapping_that_stayed, test_no_warning, test_windows);
    return suite_main("images without mapping", all);
}
