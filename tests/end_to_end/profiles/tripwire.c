/*
 * The tripwire: whoever reads a lightweight profile or a stripped image without its sidecar gets an
 * error that says so, never a coverage of zero; with the sidecar everything is as it was.
 *
 * Usage: tripwire CLANG. Each variant is a small program that is built with both linkers, split,
 * and run. That the profiles have just this tripwire and no byte more is shown by the trials
 * (trial.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define VARIANT_TIMEOUT_SECONDS 600
#define FUNCTIONS               40
#define RUNS                    3

struct variant {
    const char *clangs;   /* words; NULL: all */
    const char *pattern;  /* of the profiles' names */
    bool no_coverage;     /* IR instrumentation: nothing for llvm-cov */
    bool keeps_records;   /* %m gives other names than for the unsplit images all the same */
    const char *sections; /* for --sections; NULL: all */
    bool all_stays;       /* since it would read as zero without what was not to go */
    struct program program;
};

#define C_PROGRAM(link, level)   .kind = (link), .language = LANGUAGE_C, .optimization = (level)
#define CXX_PROGRAM(link, level) .kind = (link), .language = LANGUAGE_CXX, .optimization = (level)
#define LONG_BUILD_ID            "0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324"

static const struct variant variants[] = {
    {.pattern = "%p", .program = {C_PROGRAM(LINK_PIE, "-O0")}},
    {.pattern = "%m", .program = {CXX_PROGRAM(LINK_NO_PIE, "-O1")}},
    {.pattern = "%2m", .program = {C_PROGRAM(LINK_SHARED, "-O1")}},
    {.pattern = "%m", .program = {CXX_PROGRAM(LINK_SHARED, "-O0"), .build_id = "none"}},
    {.pattern = "%p", .program = {C_PROGRAM(LINK_STATIC, "-O1"), .build_id = LONG_BUILD_ID}},
    {.pattern = "%m%c",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -runtime-counter-relocation"}},
    {.clangs = "19 22",
     .pattern = "%m",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "19 22",
     .pattern = "%2m",
     .program = {CXX_PROGRAM(LINK_SHARED, "-O0"), .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "19 22",
     .pattern = "%p",
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.pattern = "%m",
     .keeps_records = true,
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -enable-value-profiling=true"}},
    {.pattern = "%m",
     .no_coverage = true,
     .keeps_records = true,
     .program = {C_PROGRAM(LINK_SHARED, "-O2"), .instrumentation = "-fprofile-generate"}},

    /* What --sections leaves must not read as zero either. */
    {.pattern = "%p",
     .sections = "covfun,data",
     .all_stays = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1")}},
    {.pattern = "%p", .sections = "covmap", .program = {C_PROGRAM(LINK_PIE, "-O1")}},
    {.pattern = "%m",
     .sections = "names",
     .keeps_records = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1")}},
};

#define VARIANT_COUNT (sizeof variants / sizeof *variants)

/* Those for the compiler of this run, each with both linkers; or, where not everything is asked
 * for, with one, and for compilers in turn. */
static struct variant chosen[2 * VARIANT_COUNT];

static int choose_variants(const char *clang)
{
    static const char *const linkers[] = {"bfd", "lld"};
    size_t turn = strcmp(clang, "16") == 0 || strcmp(clang, "22") == 0;
    int count = 0;
    for (size_t i = 0; i < 2 * VARIANT_COUNT; i++) {
        const struct variant *one = &variants[i / 2];
        bool is_for_this = one->clangs == NULL ? rounds_have((unsigned)(i / 2 + turn), 2)
                                               : strstr(one->clangs, clang) != NULL;
        if (is_for_this && rounds_have((unsigned)(i + i / 2 + i / 4), 2)) {
            chosen[count] = *one;
            chosen[count].program.clang = clang;
            chosen[count].program.linker = linkers[i % 2];
            chosen[count].program.functions = FUNCTIONS;
            count++;
        }
    }
    return count;
}

/* ---- the application ---- */

/* Of this test, which is a process of its own. */
static const struct variant *variant;

static bool takes(const char *section)
{
    return variant->sections == NULL || strstr(variant->sections, section) != NULL;
}

/* What the split said. */
static const char *said;

static void assert_said(const char *errors)
{
    said = text_format("%s", errors);
    if (variant->all_stays) {
        ck_assert_ptr_nonnull(strstr(errors, "__llvm_covfun stays: __llvm_covmap stays"));
        ck_assert_ptr_nonnull(strstr(errors, "__llvm_prf_data stays: the names stay"));
    }
}

static struct application build(void)
{
    const char *options =
        variant->sections != NULL ? text_format("--sections %s", variant->sections) : "";
    return application_build(&variant->program, "tripwire", options, assert_said);
}

/* Runs the images of a directory; what they leave is in profiles-DIRECTORY. */
static struct text_list run_all(const struct application *application, const char *directory)
{
    char *profiles = text_format("profiles-%s", directory);
    for (unsigned run = 1; run <= RUNS; run++) {
        application_run_once(application, directory, run,
                             text_format("%s/%s.profraw", profiles, variant->pattern));
    }
    return application_profiles(application, profiles);
}

/* ---- tools ---- */

static struct command llvm(const struct application *application, const char *tool,
                           const char *words)
{
    struct command command = command_words(application->scratch, "%s %s",
                                           versioned_tool(tool, variant->program.clang), words);
    text_list_add(&command.environment, "DEBUGINFOD_URLS=");
    return command;
}

/* The command must fail with status 1, and say one of these (separated by '|'). */
static void assert_refused(struct command *command, const char *reasons)
{
    struct outcome outcome = command_run(command);
    bool says_why = false;
    char *list = text_format("%s", reasons), *rest = list;
    for (char *reason = strsep(&rest, "|"); reason != NULL; reason = strsep(&rest, "|")) {
        says_why |= strcasestr(outcome.errors, reason) != NULL;
    }
    ck_assert_msg(outcome_exited(&outcome, 1) && says_why, "%s: not refused for '%s' %s",
                  program_describe(&variant->program), reasons,
                  outcome_describe(command, &outcome));
}

/* ---- the checks ---- */

#define NO_ZLIB_STREAM "failed to uncompress data"

static void check_profiles(const struct application *application, const struct text_list *original,
                           const struct text_list *split)
{
    for (size_t i = 0; i < split->count; i++) {
        struct command show = llvm(application, "llvm-profdata", "show");
        struct command merge = llvm(application, "llvm-profdata", "merge -o x");
        struct command beside = llvm(application, "llvm-profdata", "merge -o x");
        text_list_add(&show.arguments, split->items[i]);
        text_list_add(&merge.arguments, split->items[i]);
        text_list_add_all(&beside.arguments, (const char *const *)original->items);
        text_list_add(&beside.arguments, split->items[i]);
        assert_refused(&show, NO_ZLIB_STREAM);
        assert_refused(&merge, NO_ZLIB_STREAM);
        assert_refused(&beside, NO_ZLIB_STREAM);
        ck_assert_ptr_nonnull(
            strstr(run_or_abort(application->scratch, "strings", "-n", "20", split->items[i], NULL),
                   ": use covsplit merge\n"));
    }
    ck_assert(!file_exists(path_join(application->scratch, "x")));
}

static void check_images(const struct application *application, const char *profile)
{
    static const char *const words[] = {"report", "show", "export", "export -format=lcov"};
    for (size_t i = 0; i < application->images.count; i++) {
        for (size_t j = 0; j < sizeof words / sizeof *words; j++) {
            struct command command = llvm(application, "llvm-cov", words[j]);
            text_list_add_format(&command.arguments, "-instr-profile=%s", profile);
            text_list_add_format(&command.arguments, "split/%s", application->images.items[i]);
            assert_refused(
                &command,
                "unsupported coverage format version|no coverage data found|" NO_ZLIB_STREAM);
        }
    }
}

/* With the sidecars everything is what it is without a split. */
static void check_with_sidecars(const struct application *application, const char *expected,
                                const struct text_list *split)
{
    struct command merge = covsplit_command(application->scratch, "merge", "--store", "store", "-o",
                                            "merged.profdata", NULL);
    text_list_add_all(&merge.arguments, (const char *const *)split->items);
    text_list_add_format(&merge.environment, "LLVM_PROFDATA=%s",
                         versioned_tool("llvm-profdata", variant->program.clang));
    command_run_or_abort(&merge);
    files_assert_equal(path_join(application->scratch, "merged.profdata"),
                       path_join(application->scratch, expected),
                       program_describe(&variant->program));
    if (variant->no_coverage) {
        return;
    }
    const char *cov = versioned_tool("llvm-cov", variant->program.clang);
    const char *profile = text_format("-instr-profile=%s", expected);
    for (size_t i = 0; i < application->images.count; i++) {
        const char *image = application->images.items[i];
        ck_assert_str_eq(run_or_abort(application->scratch, cov, "export", profile,
                                      path_join("original", image), NULL),
                         run_or_abort(application->scratch, COVSPLIT_COMMAND, "run", "--store",
                                      "store", "--", cov, "export", profile,
                                      path_join("split", image), NULL));
    }
}

static const char *base_names(const struct text_list *paths)
{
    const char *names = "";
    for (size_t i = 0; i < paths->count; i++) {
        names = text_format("%s %s", names, strrchr(paths->items[i], '/') + 1);
    }
    return names;
}

START_TEST(test_variant)
{
    variant = &chosen[_i];
    struct application application = build();
    struct text_list original = run_all(&application, "original");
    struct text_list split = run_all(&application, "split");

    /* Which of the files of a pool are written is a matter of process numbers. */
    if (strchr(variant->pattern, '2') == NULL) {
        ck_assert_uint_eq(original.count, split.count);
    }
    if (variant->keeps_records) {
        ck_assert_str_ne(base_names(&original), base_names(&split));
    }
    struct command merge = llvm(&application, "llvm-profdata", "merge -o expected.profdata");
    text_list_add_all(&merge.arguments, (const char *const *)original.items);
    command_run_or_abort(&merge);

    /* Names that stay are in the profiles, which merge with the others then. */
    if (takes("names") &&
        !names_stay_by_chance(&variant->program,
                              path_join(application.scratch, "original/" PROGRAM_NAME), said)) {
        check_profiles(&application, &original, &split);
    }
    if (!variant->no_coverage && takes("covmap")) {
        check_images(&application, "expected.profdata");
    }
    check_with_sidecars(&application, "expected.profdata", &split);
}
END_TEST

/* ---- two images of one process ---- */

#define LIBRARY(name, other)                                                                       \
    "int " name "_common(int (*f)(int), int x);\n"                                                 \
    "__attribute__((visibility(\"hidden\"))) int common(int (*f)(int), int x) { return f(x); }\n"  \
    "static __attribute__((noinline)) int " other "(int x) { return x > 2 ? x * 3 : x; }\n"        \
    "int " name "_common(int (*f)(int), int x) { return common(f, x) + " other "(x); }\n"

/* Two libraries whose records begin with the same function, with as many functions, counters and
 * value sites: only the sizes of their names differ. Where value profiling keeps the records, names
 * become as large as each other, and one profile must not be lost. */
START_TEST(test_two_images)
{
    const char *clang = chosen[0].program.clang;
    char *scratch = scratch_create("tripwire");
    static const char *const libraries[] = {"liba.so", "libb.so"};
    file_write_text(path_join(scratch, "liba.so.c"), LIBRARY("a", "brief"));
    file_write_text(path_join(scratch, "libb.so.c"), LIBRARY("b", "considerably_longer"));
    file_write_text(path_join(scratch, "main.c"),
                    "int a_common(int (*f)(int), int x), b_common(int (*f)(int), int x);\n"
                    "static int twice(int x) { return 2 * x; }\n"
                    "int main(void) { return a_common(twice, 1) + b_common(twice, 2) - 9; }\n");
    const char *compiler = text_format("clang-%s", clang);
    for (size_t i = 0; i < 2; i++) {
        run_or_abort(scratch, compiler, "-fprofile-generate", "-O1", "-fPIC", "-shared",
                     "-fuse-ld=lld", "-Wl,--build-id", "-o", libraries[i],
                     text_format("%s.c", libraries[i]), NULL);
    }
    run_or_abort(scratch, compiler, "-o", "main", "main.c", "-L.", "-l:liba.so", "-l:libb.so",
                 "-Wl,-rpath,$ORIGIN", NULL);
    const char *patterns = text_format("LLVM_PROFILE_FILE=%s/%%s/%%%%m.profraw", scratch);
    for (size_t i = 0; i < 2; i++) {
        const char *directory = i == 0 ? "whole" : "split";
        if (i == 1) {
            run_or_abort(scratch, COVSPLIT_COMMAND, "split", "--store", "store", libraries[0],
                         libraries[1], NULL);
        }
        run_or_abort(scratch, "env", text_format(patterns, directory), "./main", NULL);
    }
    struct text_list whole = directory_list(path_join(scratch, "whole"));
    struct text_list split = directory_list(path_join(scratch, "split"));
    ck_assert_uint_eq(whole.count, 2);
    ck_assert_uint_eq(split.count, 2);
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *clang;
    suite_arguments(argument_count, arguments, "CLANG", &clang);
    int count = choose_variants(clang);
    TCase *each = suite_case("variants", VARIANT_TIMEOUT_SECONDS, NULL);
    suite_loops(each, count, test_variant);
    TCase *two = suite_case("two images", VARIANT_TIMEOUT_SECONDS, NULL);
    tcase_add_test(two, test_two_images);
    return suite_main(text_format("tripwire clang-%s", clang), each, two);
}
