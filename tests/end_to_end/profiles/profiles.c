/*
 * Profiles of split images: whatever is made of them must be what LLVM's tools make of the profiles
 * of the unsplit images, to the byte.
 *
 * Usage: profiles CLANG LINKER. Each variant is a program that is built, split, and run several
 * times as it was and as it is. A variant says for which compilers it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define RUNS 6

/* How the runs name their profiles. */
enum pattern {
    PATTERN_EACH,       /* a profile for each run and image */
    PATTERN_POOL,       /* %m: all runs into one profile an image */
    PATTERN_CONTINUOUS, /* %c: the counters are in the file while the program runs */
    PATTERN_CONTINUOUS_POOL,
};

struct variant {
    const char *clangs; /* words; NULL: all */
    enum pattern pattern;
    bool no_coverage;   /* IR instrumentation: nothing for llvm-cov */
    bool binary;        /* binary correlation: llvm-profdata needs the image */
    bool byte_coverage; /* one merged raw profile cannot say how many profiles were merged */
    bool temporal;      /* several runs cannot be merged into a raw profile */
    struct program program;
};

#define C_PROGRAM(link, level)   .kind = (link), .language = LANGUAGE_C, .optimization = (level)
#define CXX_PROGRAM(link, level) .kind = (link), .language = LANGUAGE_CXX, .optimization = (level)

static const struct variant variants[] = {
    {.program = {C_PROGRAM(LINK_PIE, "-O0")}},
    {.program = {CXX_PROGRAM(LINK_NO_PIE, "-O1")}},
    {.program = {CXX_PROGRAM(LINK_SHARED, "-O0")}},
    {.pattern = PATTERN_POOL, .program = {C_PROGRAM(LINK_SHARED, "-O1")}},
    {.pattern = PATTERN_POOL, .program = {CXX_PROGRAM(LINK_PIE, "-O1")}},
    {.pattern = PATTERN_CONTINUOUS,
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -runtime-counter-relocation"}},
    {.pattern = PATTERN_CONTINUOUS,
     .program = {CXX_PROGRAM(LINK_SHARED, "-O1"),
                 .compile_options = "-mllvm -runtime-counter-relocation"}},
    {.pattern = PATTERN_CONTINUOUS_POOL,
     .program = {C_PROGRAM(LINK_SHARED, "-O1"),
                 .compile_options = "-mllvm -runtime-counter-relocation"}},
    {.program = {C_PROGRAM(LINK_PIE, "-O1"), .build_id = "none"}},
    {.program = {C_PROGRAM(LINK_PIE, "-O1"), .build_id = "0xdeadbeef"}},

    {.clangs = "19 22",
     .program = {C_PROGRAM(LINK_PIE, "-O0"), .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "19 22",
     .program = {CXX_PROGRAM(LINK_SHARED, "-O1"), .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "19 22",
     .pattern = PATTERN_POOL,
     .program = {C_PROGRAM(LINK_NO_PIE, "-O1"), .compile_options = "-fcoverage-mcdc"}},

    {.clangs = "19 22",
     .byte_coverage = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.clangs = "19 22",
     .byte_coverage = true,
     .pattern = PATTERN_POOL,
     .program = {CXX_PROGRAM(LINK_SHARED, "-O1"),
                 .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.byte_coverage = true,
     .no_coverage = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -pgo-function-entry-coverage"}},

    {.no_coverage = true,
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .instrumentation = "-fprofile-generate"}},
    {.no_coverage = true,
     .program = {CXX_PROGRAM(LINK_SHARED, "-O2"), .instrumentation = "-fprofile-generate"}},
    {.no_coverage = true,
     .pattern = PATTERN_POOL,
     .program = {CXX_PROGRAM(LINK_NO_PIE, "-O2"), .instrumentation = "-fprofile-generate"}},
    {.no_coverage = true,
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true"}},
    {.no_coverage = true,
     .program = {CXX_PROGRAM(LINK_SHARED, "-O2"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true"}},
    {.clangs = "19 22",
     .no_coverage = true,
     .temporal = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true "
                                    "-mllvm -pgo-temporal-instrumentation"}},

    {.clangs = "19 22",
     .binary = true,
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -profile-correlate=binary"}},
    {.clangs = "19 22",
     .binary = true,
     .program = {CXX_PROGRAM(LINK_NO_PIE, "-O0"),
                 .compile_options = "-mllvm -profile-correlate=binary"}},
    {.clangs = "19 22",
     .binary = true,
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -profile-correlate=binary -fcoverage-mcdc"}},

    {.clangs = "22", .program = {C_PROGRAM(LINK_PIE, "-O1"), .raw_version = 11}},
    {.clangs = "22", .program = {CXX_PROGRAM(LINK_SHARED, "-O0"), .raw_version = 11}},
    {.clangs = "22",
     .program = {CXX_PROGRAM(LINK_SHARED, "-O1"), .raw_version = 11,
                 .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "22", .program = {C_PROGRAM(LINK_STATIC, "-O1"), .raw_version = 11}},
    {.clangs = "22",
     .byte_coverage = true,
     .program = {C_PROGRAM(LINK_NO_PIE, "-O1"), .raw_version = 11,
                 .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.clangs = "22",
     .no_coverage = true,
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .raw_version = 11,
                 .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true"}},
};

#define VARIANT_COUNT (sizeof variants / sizeof *variants)

/* Those for the compiler of this run. */
static struct variant chosen[VARIANT_COUNT];

/* Where not everything is asked for, each compiler takes turns with the next one: both versions of
 * raw profiles have every variant that they can have. */
static int choose_variants(const char *clang, const char *linker)
{
    unsigned turn = strcmp(clang, "16") == 0 || strcmp(clang, "22") == 0;
    int count = 0;
    for (size_t i = 0; i < VARIANT_COUNT; i++) {
        struct text_list clangs = {0};
        text_list_add_words(&clangs, variants[i].clangs != NULL ? variants[i].clangs : clang);
        if (text_list_contains(&clangs, clang) && rounds_have((unsigned)i + turn, 2)) {
            chosen[count] = variants[i];
            chosen[count].program.clang = clang;
            chosen[count].program.linker = linker;
            count++;
        }
        text_list_free(&clangs);
    }
    return count;
}

/* ---- the application ---- */

/* Of this test, which is a process of its own. */
static const struct variant *variant;
static const char *profdata; /* llvm-profdata */

/* Runs the images so many times. The profiles are listed run by run, those of a run by the size of
 * their counters: the same order for the original images and the split ones. */
static struct text_list run_all(const struct application *application, const char *images)
{
    struct text_list profiles = {0};
    enum pattern pattern = variant->pattern;
    bool pooled = pattern == PATTERN_POOL || pattern == PATTERN_CONTINUOUS_POOL;
    const char *name = pattern == PATTERN_EACH || pattern == PATTERN_POOL ? "%m" : "%m%c";
    for (unsigned run = 1; run <= RUNS; run++) {
        char *directory = text_format("profiles-%s-%u", images, pooled ? 1 : run);
        if (run == 1 || !pooled) {
            directory_create(path_join(application->scratch, directory));
        }
        application_run_once(
            application, images, run,
            text_format("%s/%s/%s.profraw", application->scratch, directory, name));
        if (!pooled || run == RUNS) {
            struct text_list found = application_profiles(application, directory);
            ck_assert_uint_eq(found.count, application->images.count);
            text_list_add_all(&profiles, (const char *const *)found.items);
        }
    }
    return profiles;
}

/* ---- tools ---- */

/* What LLVM makes of profiles, `output` in the scratch directory. */
static char *llvm_merge(const struct application *application, const struct text_list *profiles,
                        const char *output, bool from_original)
{
    struct command command =
        command_words(application->scratch, "%s merge -num-threads=1", profdata);
    if (variant->binary && from_original) {
        text_list_add_format(&command.arguments, "-binary-file=original/%s", PROGRAM_NAME);
    }
    text_list_add(&command.arguments, "-o");
    text_list_add(&command.arguments, output);
    text_list_add_all(&command.arguments, (const char *const *)profiles->items);
    command_run_or_abort(&command);
    return path_join(application->scratch, output);
}

/* covsplit WORDS... -o OUTPUT PROFILES..., with the store. */
static char *covsplit_make(const struct application *application, const char *words,
                           const struct text_list *profiles, const char *output)
{
    struct command command = covsplit_words(application->scratch, words);
    text_list_add_words(&command.arguments, "--store store -o");
    text_list_add(&command.arguments, output);
    text_list_add_all(&command.arguments, (const char *const *)profiles->items);
    text_list_add_format(&command.environment, "LLVM_PROFDATA=%s", profdata);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s",
                  outcome_describe(&command, &outcome));
    return path_join(application->scratch, output);
}

static void assert_equal(const char *what, const char *path, const char *other)
{
    files_assert_equal(path, other,
                       text_format("%s, %s", program_describe(&variant->program), what));
}

static struct text_list first_of(const struct text_list *list, size_t count)
{
    struct text_list part = {0};
    for (size_t i = 0; i < count && i < list->count; i++) {
        text_list_add(&part, list->items[i]);
    }
    return part;
}

/* ---- the checks ---- */

/* One run: each profile correlated by itself. */
static void check_correlate(const struct application *application, const struct text_list *original,
                            const struct text_list *split)
{
    struct text_list one_run = first_of(original, application->images.count);
    struct text_list correlated = {0};
    for (size_t i = 0; i < application->images.count; i++) {
        struct text_list one = {0};
        text_list_add(&one, split->items[i]);
        text_list_add(&correlated, covsplit_make(application, "correlate", &one,
                                                 text_format("correlated-%zu.profraw", i)));
    }
    assert_equal("one run, correlated", llvm_merge(application, &one_run, "one.profdata", true),
                 llvm_merge(application, &correlated, "correlated.profdata", false));
}

static const char *show_counts(const struct application *application, const char *profile)
{
    return run_or_abort(application->scratch, profdata, "show", "--all-functions", "--counts",
                        profile, NULL);
}

/* All runs, merged into .profdata and .profraw, on one thread and on several. */
static void check_merge(const struct application *application, const char *expected,
                        const struct text_list *split)
{
    char *merged = covsplit_make(application, "merge", split, "merged.profdata");
    ck_assert_str_eq(show_counts(application, expected), show_counts(application, merged));
    assert_equal("all runs, merged", expected, merged);
    assert_equal("all runs, merged on one thread", expected,
                 covsplit_make(application, "merge -j1", split, "merged1.profdata"));
    if (variant->temporal) {
        return;
    }
    char *raw = covsplit_make(application, "merge -j1", split, "merged1.profraw");
    assert_equal("four threads", raw,
                 covsplit_make(application, "merge -j4", split, "merged4.profraw"));
    if (!variant->byte_coverage) {
        struct text_list one = {0};
        text_list_add(&one, raw);
        char *from_raw = llvm_merge(application, &one, "merged-raw.profdata", false);
        ck_assert_str_eq(show_counts(application, expected), show_counts(application, from_raw));
        /* Of several profiles in one file, LLVM 16 keeps the last one's binary ID only. */
        if (application->images.count == 1 || strcmp(variant->program.clang, "16") != 0) {
            assert_equal("all runs, merged as a raw profile", expected, from_raw);
        }
    }
}

/* The first half of the runs by the original images, the second by the split ones. */
static void check_mixed(const struct application *application, const char *expected,
                        const struct text_list *original, const struct text_list *split)
{
    size_t images = application->images.count;
    size_t half = split->count / images / 2 * images;
    struct text_list mixed = first_of(original, half);
    for (size_t i = half; i < split->count; i++) {
        text_list_add(&mixed, split->items[i]);
    }
    assert_equal("full and lightweight profiles mixed", expected,
                 covsplit_make(application, "merge", &mixed, "mixed.profdata"));
}

static const char *cov(const struct application *application, const char *subcommand,
                       const char *profile)
{
    struct command command =
        command_words(application->scratch, "%s %s -instr-profile=%s",
                      versioned_tool("llvm-cov", variant->program.clang), subcommand, profile);
    for (size_t i = 0; i < application->images.count; i++) {
        if (i != 0) {
            text_list_add(&command.arguments, "-object");
        }
        text_list_add_format(&command.arguments, "original/%s", application->images.items[i]);
    }
    return command_run_or_abort(&command);
}

static void check_reports(const struct application *application, const char *expected)
{
    const char *merged = path_join(application->scratch, "merged.profdata");
    const char *report = cov(application, "report", expected);
    ck_assert_ptr_nonnull(strstr(report, "TOTAL"));
    ck_assert_str_eq(report, cov(application, "report", merged));
    ck_assert_str_eq(cov(application, "export", expected), cov(application, "export", merged));
}

START_TEST(test_variant)
{
    variant = &chosen[_i];
    profdata = variant->program.raw_version != 0
                   ? COVSPLIT_FIXTURE_DIRECTORY "/../support/llvm_profdata_11.py"
                   : versioned_tool("llvm-profdata", variant->program.clang);
    struct application application = application_build(&variant->program, "profiles", NULL, NULL);
    struct text_list original = run_all(&application, "original");
    struct text_list split = run_all(&application, "split");
    ck_assert_uint_eq(original.count, split.count);

    check_correlate(&application, &original, &split);
    char *expected = llvm_merge(&application, &original, "expected.profdata", true);
    check_merge(&application, expected, &split);
    if (!variant->binary) {
        check_mixed(&application, expected, &original, &split);
    }
    if (!variant->no_coverage) {
        check_reports(&application, expected);
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *clang, *linker;
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang, &linker);
    int count = choose_variants(clang, linker);
    TCase *test_case = suite_case("variants", 600, NULL);
    suite_loops(test_case, count, test_variant);
    return suite_main(text_format("profiles clang-%s %s", clang, linker), test_case);
}
