/*
 * Bad profiles: thousands of damaged ones, and every 97th cut of real ones, through correlate and
 * merge.
 *
 * Whatever comes in, covsplit ends by itself with 0 or 1, soon, and in no more memory than four
 * times the input beside what it needs for the undamaged profile. With 1 it has said why, in one
 * line, and written nothing; with 0 it wrote whole raw profiles. A bad profile among good ones is
 * fatal or left out, as --failure-mode says, and leaves no trace in the sum.
 *
 * Usage: profiles_bad FIRST COUNT      seeds of the mutations
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define RUN_TIMEOUT_SECONDS 20 /* of the clock; the longest takes 2 seconds alone, sanitized */
#define TRUNCATION_STEP     97
#define FUNCTIONS           40
/* The peak of the same run differs by some 330 KiB from time to time, with what the kernel maps of
 * the libraries around a page that is touched. So the bound is above the largest of a few runs. */
#define PEAK_RUNS 8
#define NOISE_KIB 512
/* What a sparse profile may expand to, for a file of some kilobytes; and every how many seeds. */
#define SPARSE_LIMIT_KIB (68L << 10)
#define SPARSE_STEP      7

/* What is damaged: profiles of one program built in four ways. */
static const struct program programs[] = {
    {.clang = "19",
     .linker = "bfd",
     .kind = LINK_PIE,
     .language = LANGUAGE_C,
     .optimization = "-O1",
     .functions = FUNCTIONS},
    {.clang = "22",
     .linker = "lld",
     .kind = LINK_PIE,
     .language = LANGUAGE_C,
     .optimization = "-O1",
     .compile_options = "-fcoverage-mcdc",
     .functions = FUNCTIONS},
    {.clang = "14",
     .linker = "bfd",
     .kind = LINK_PIE,
     .language = LANGUAGE_C,
     .optimization = "-O1",
     .instrumentation = "-fprofile-generate",
     .functions = FUNCTIONS},
    {.clang = "22",
     .linker = "bfd",
     .kind = LINK_PIE,
     .language = LANGUAGE_C,
     .optimization = "-O1",
     .compile_options = "-fcoverage-mcdc",
     .functions = FUNCTIONS,
     .raw_version = 11},
};

#define PROGRAM_COUNT (sizeof programs / sizeof *programs)

/* For each program: what the split image writes, and the original. */
#define PROFILE_COUNT (2 * PROGRAM_COUNT)

static char *scratch;
static struct contents profiles[PROFILE_COUNT];
static struct contents sparse[PROGRAM_COUNT]; /* of the split images */
/* For each program, the memory that the one of its two profiles takes which takes more: a changed
 * flag makes a lightweight profile of a full one, which needs the sidecar then. */
static long good_peaks[PROGRAM_COUNT];
/* ---- set-up ---- */

static struct contents run_image(const char *image, const char *profile)
{
    struct command command = command_words(scratch, "%s/%s 1", scratch, image);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_expect(&command, 3);
    command_free(&command);
    return file_read(path_join(scratch, profile));
}

static struct command make_command(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    command.timeout_seconds = RUN_TIMEOUT_SECONDS;
    return command;
}

static long peak_of(const char *directory, const char *words)
{
    struct command command = make_command(directory, words);
    struct outcome outcome = command_expect(&command, 0);
    long peak = outcome.peak_resident_kib;
    outcome_free(&outcome);
    command_free(&command);
    return peak;
}

static void prepare(void)
{
    scratch = scratch_create("bad-profiles");
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        char *name = text_format("%zu", i);
        char *directory = path_join(scratch, name);
        directory_create(directory);
        program_build(&programs[i], directory);
        char *image = text_format("%s/" PROGRAM_NAME, name);
        char *split = text_format("%s/split", name);
        struct outcome outcome =
            covsplit_run(scratch, "split", "--store", "store", "-o", split, image, NULL);
        ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
        outcome_free(&outcome);
        profiles[2 * i] = run_image(split, text_format("%zu.profraw", 2 * i));
        profiles[2 * i + 1] = run_image(image, text_format("%zu.profraw", 2 * i + 1));
        run_or_abort(scratch, "python3", COVSPLIT_FIXTURE_DIRECTORY "/../support/sparse_profile.py",
                     "make", text_format("%zu.profraw", 2 * i), text_format("%zu.sparse", i), NULL);
        sparse[i] = file_read(path_join(scratch, text_format("%zu.sparse", i)));
    }
    for (size_t i = 0; i < PROFILE_COUNT * PEAK_RUNS; i++) {
        size_t which = i / PEAK_RUNS;
        char *words =
            text_format("merge -j1 --store store -o good-%zu.profraw %zu.profraw", which, which);
        long peak = peak_of(scratch, words);
        if (peak > good_peaks[which / 2]) {
            good_peaks[which / 2] = peak;
        }
    }
}

static char *new_directory(const char *kind, unsigned long number)
{
    char *directory = text_format("%s/%s-%lu", scratch, kind, number);
    directory_create(directory);
    return directory;
}

/* ---- one damaged profile ---- */

static bool behaved(const struct command *command, const struct outcome *outcome, long peak_kib,
                    struct verdict *verdict)
{
    if (outcome->timed_out || outcome->signal != 0 ||
        (outcome->exit_code != 0 && outcome->exit_code != 1)) {
        return verdict_fail(verdict, "a crash or a hang %s", outcome_describe(command, outcome));
    }
    if (!covsplit_is_sanitized() && outcome->peak_resident_kib > peak_kib) {
        return verdict_fail(verdict, "%ld KiB of memory, not %ld %s", outcome->peak_resident_kib,
                            peak_kib, outcome_describe(command, outcome));
    }
    return outcome->exit_code == 0 || covsplit_refused(command, outcome, verdict);
}

/* Whether what was written is made of whole raw profiles: the tests' own reader says so of the
 * first one. */
static bool output_is_good(const char *directory, const char *name, bool expected,
                           struct verdict *verdict)
{
    char *path = path_join(directory, name);
    bool good = file_exists(path) == expected;
    if (!good) {
        verdict_fail(verdict, "%s is %s", name, expected ? "missing" : "there");
    } else if (expected) {
        struct raw_profile profile;
        good = raw_profile_read(path, &profile, verdict);
        raw_profile_free(&profile);
        unlink(path);
    }
    free(path);
    return good;
}

/* It may take `more_kib` of memory beside what the good profile takes. With sanitizers all take too
 * much to tell: there it may not ask for so much at once. */
static bool run_words(const char *directory, const char *words, long good_kib, long more_kib,
                      int *exit_code, struct verdict *verdict)
{
    struct command command = make_command(directory, words);
    covsplit_limit_allocations(&command, 1 + (unsigned long)more_kib / 1024);
    struct outcome outcome = command_run(&command);
    bool good = behaved(&command, &outcome, good_kib + more_kib, verdict);
    *exit_code = outcome.exit_code;
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

/* correlate and merge of `profile`, which is damaged in some way. */
static bool check_damaged_with(const char *directory, size_t which, const struct contents *damaged,
                               bool must_fail, long more, struct verdict *verdict)
{
    char *path = path_join(directory, "bad.profraw");
    long peak = good_peaks[which / 2];
    int correlate_exit = -1;
    int merge_exit = -1;
    file_write(path, damaged->data, damaged->size);
    free(path);
    bool good = run_words(directory, "correlate --store ../store -o out.profraw bad.profraw", peak,
                          more, &correlate_exit, verdict) &&
                output_is_good(directory, "out.profraw", correlate_exit == 0, verdict) &&
                run_words(directory, "merge -j1 --store ../store -o out.profraw bad.profraw", peak,
                          more, &merge_exit, verdict) &&
                output_is_good(directory, "out.profraw", merge_exit == 0, verdict);
    if (good && must_fail && (correlate_exit == 0 || merge_exit == 0)) {
        return verdict_fail(verdict, "a profile that is cut short was accepted");
    }
    return good;
}

static bool check_damaged(const char *directory, size_t which, const struct contents *damaged,
                          bool must_fail, struct verdict *verdict)
{
    long more = (long)(damaged->size * 4 / 1024) + NOISE_KIB;
    return check_damaged_with(directory, which, damaged, must_fail, more, verdict);
}

START_TEST(test_mutations)
{
    char *directory = new_directory("mutations", (unsigned long)_i);
    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed++) {
        struct verdict verdict = {0};
        size_t which = seed % PROFILE_COUNT;
        char *description;
        struct contents damaged = mutate_bytes(&profiles[which], seed, &description);
        check_damaged(directory, which, &damaged, false, &verdict);
        verdict_assert(&verdict, text_format("profile %zu, %s", which, description));
        contents_free(&damaged);
        free(description);
    }
}
END_TEST

/* A sparse profile may claim more, but there is a limit: it is held once, and once more in a sum.
 */
START_TEST(test_sparse_mutations)
{
    char *directory = new_directory("sparse", (unsigned long)_i);
    long more = 3 * SPARSE_LIMIT_KIB + NOISE_KIB;
    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed += SPARSE_STEP) {
        struct verdict verdict = {0};
        size_t which = seed / SPARSE_STEP % PROGRAM_COUNT;
        char *description;
        struct contents damaged = mutate_bytes(&sparse[which], seed, &description);
        check_damaged_with(directory, 2 * which, &damaged, false, more, &verdict);
        verdict_assert(&verdict, text_format("sparse profile %zu, %s", which, description));
        contents_free(&damaged);
        free(description);
    }
}
END_TEST

/* Behind a whole profile nothing but zeros may follow, so most cuts must be seen; a cut in the
 * zeros at the end of a page need not. */
START_TEST(test_truncations)
{
    char *directory = new_directory("truncations", (unsigned long)_i);
    const struct contents *whole = &profiles[_i];
    for (size_t size = 0; size < whole->size; size += TRUNCATION_STEP * rounds_step()) {
        struct verdict verdict = {0};
        struct contents cut = {whole->data, size};
        check_damaged(directory, (size_t)_i, &cut, true, &verdict);
        verdict_assert(&verdict, text_format("profile %d cut to %zu bytes", _i, size));
    }
}
END_TEST

/* ---- bad among good ---- */

static void assert_run(const char *directory, const char *words, int exit_code, const char *message)
{
    struct command command = make_command(directory, words);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(
        outcome_exited(&outcome, exit_code) &&
            (message == NULL ? outcome.errors_size == 0 : strstr(outcome.errors, message) != NULL),
        "'%s' was expected %s", message, outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
}

START_TEST(test_failure_modes)
{
    char *directory = new_directory("modes", 0);
    struct verdict verdict = {0};
    file_write(path_join(directory, "cut.profraw"), profiles[0].data, profiles[0].size - 8);
    file_write(path_join(directory, "empty.profraw"), "", 0);
    file_write_text(path_join(directory, "text.profraw"), "hello\n");
    /* The second of two profiles in a file is cut: the first must not count either. */
    struct contents two = {malloc(2 * profiles[0].size), 2 * profiles[0].size - 8};
    memcpy(two.data, profiles[0].data, profiles[0].size);
    memcpy(two.data + profiles[0].size, profiles[0].data, profiles[0].size - 8);
    file_write(path_join(directory, "two.profraw"), two.data, two.size);

    assert_run(directory, "merge --store ../store -o good.profraw ../0.profraw ../1.profraw", 0,
               NULL);
    assert_run(directory,
               "merge --store ../store -o bad.profraw ../0.profraw cut.profraw ../1.profraw", 1,
               "error: cut.profraw: ");
    assert_run(directory,
               "merge --store ../store --failure-mode=any -o bad.profraw text.profraw cut.profraw",
               1, "error: text.profraw: ");
    ck_assert(!file_exists(path_join(directory, "bad.profraw")));
    assert_run(directory,
               "merge --store ../store --failure-mode=all -o all.profraw ../0.profraw cut.profraw "
               "two.profraw text.profraw missing.profraw ../1.profraw",
               0, "warning: two.profraw: ");
    files_equal(path_join(directory, "good.profraw"), path_join(directory, "all.profraw"),
                &verdict);
    verdict_assert(&verdict, "bad profiles left out");
    assert_run(directory, "merge --store ../store --failure-mode=all -o bad.profraw cut.profraw", 1,
               "error: cut.profraw: ");
    ck_assert(!file_exists(path_join(directory, "bad.profraw")));
    /* A program that was killed leaves an empty file, which llvm-profdata passes over too. */
    assert_run(directory,
               "merge --store ../store -o empty.profraw.profraw ../0.profraw empty.profraw "
               "../1.profraw",
               0, "warning: empty.profraw: empty");
    assert_run(directory, "merge --store ../store -o one.profraw ../0.profraw empty.profraw", 0,
               "is instrumented); left out\n");
    files_equal(path_join(directory, "good.profraw"), path_join(directory, "empty.profraw.profraw"),
                &verdict);
    verdict_assert(&verdict, "empty profiles left out");
    file_write(path_join(directory, "empty2.profraw"), "", 0);
    file_write(path_join(directory, "empty3.profraw"), "", 0);
    assert_run(directory,
               "merge --store ../store -o two.profraw ../0.profraw empty2.profraw empty.profraw", 0,
               "; left out, as 1 more that is empty too\n");
    assert_run(directory,
               "merge --store ../store -o three.profraw empty3.profraw ../0.profraw empty2.profraw "
               "empty.profraw",
               0, "; left out, as 2 more that are empty too\n");
    assert_run(directory, "merge --store ../store -o bad.profraw empty.profraw", 1,
               "error: empty.profraw: empty: the program was killed");
    assert_run(directory, "correlate --store ../store -o bad.profraw empty.profraw", 1,
               "error: empty.profraw: empty: the program was killed");
    ck_assert(!file_exists(path_join(directory, "bad.profraw")));
}
END_TEST

/* A file of very many small profiles, all of them different: it takes the time and the memory that
 * its size justifies. */
START_TEST(test_many_profiles)
{
    char *directory = new_directory("many", 0);
    struct verdict verdict = {0};
    struct raw_profile profile;
    ck_assert(raw_profile_read(path_join(scratch, "1.profraw"), &profile, &verdict));
    /* Nothing but a header: no data, no counters, no names, another version word each time. */
    uint64_t header[16] = {0};
    uint64_t count = 50000;
    uint8_t *file = malloc(count * profile.header_size);
    memcpy(header, profile.file.data, 2 * sizeof *header);
    header[profile.header_size / 8 - 1] = 2;
    ck_assert_uint_eq(profile.header_size, sizeof header);
    for (uint64_t i = 0; i < count; i++) {
        header[1] = (profile.version | i << 32) & ~(UINT64_C(1) << 63);
        memcpy(file + i * sizeof header, header, sizeof header);
    }
    file_write(path_join(directory, "many.profraw"), file, count * sizeof header);
    int exit_code = -1;
    run_words(directory, "merge -j1 -o out.profraw many.profraw", good_peaks[0],
              (long)(count * sizeof header / 1024) * 16, &exit_code, &verdict);
    verdict_assert(&verdict, "many profiles");
    ck_assert_int_eq(exit_code, 0);
    ck_assert_uint_eq(file_size(path_join(directory, "out.profraw")), count * sizeof header);
    free(file);
    raw_profile_free(&profile);
}
END_TEST

START_TEST(test_wrong_sidecars)
{
    char *directory = new_directory("wrong", 0);
    struct text_list stores = directory_list(path_join(scratch, "store/.build-id"));
    ck_assert_uint_eq(stores.count, PROGRAM_COUNT);
    assert_run(directory, "correlate -o out.profraw ../0.profraw", 1, "no sidecar for its UUID");
    assert_run(directory, "merge -o out.profraw ../1.profraw ../0.profraw", 1,
               "error: ../0.profraw: ");
    assert_run(directory, "merge --store nowhere -o out.profraw ../0.profraw", 1,
               "no sidecar for its UUID");
    assert_run(directory, "merge --store nowhere -o out.profraw ../0.profraw", 1,
               " in nowhere (no such directory), ");
    assert_run(directory, "merge --store ../0.profraw -o out.profraw ../0.profraw", 1,
               " in ../0.profraw (not a directory), ");
    /* The sidecar of one program for the profile of each other. */
    for (size_t i = 0; i < stores.count; i++) {
        char *in_store = path_join("../store/.build-id", stores.items[i]);
        struct text_list names = directory_list(path_join(directory, in_store));
        char *sidecar = path_join(in_store, names.items[0]);
        int accepted = 0;
        for (size_t j = 0; j < PROGRAM_COUNT; j++) {
            struct command command = make_command(
                directory, text_format("correlate --sidecar %s -o out.profraw ../%zu.profraw",
                                       sidecar, 2 * j));
            struct outcome outcome = command_run(&command);
            struct verdict verdict = {0};
            accepted += outcome.exit_code == 0;
            if (outcome.exit_code != 0) {
                covsplit_refused(&command, &outcome, &verdict);
                ck_assert_ptr_nonnull(strstr(outcome.errors, "another build"));
            }
            verdict_assert(&verdict, sidecar);
            outcome_free(&outcome);
        }
        ck_assert_int_eq(accepted, 1);
    }
    assert_run(directory, "correlate --sidecar ../0.profraw -o out.profraw ../0.profraw", 1,
               "not a sidecar");
}
END_TEST

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        return suite_usage(arguments[0], "FIRST COUNT");
    }
    hostile_seeds(arguments[1], arguments[2]);
    TCase *test_case = suite_case("all", 1500, prepare);
    suite_loops(test_case, PROFILE_COUNT, test_truncations);
    suite_tests(test_case, test_failure_modes, test_wrong_sidecars, test_many_profiles);
    suite_loops(test_case, hostile_tests(), test_mutations, test_sparse_mutations);
    return suite_main("bad profiles", test_case);
}
