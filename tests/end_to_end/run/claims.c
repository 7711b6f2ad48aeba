/*
 * Files that claim more than they hold, and little memory: commands end at once, in memory that is
 * in proportion to the file, and say what is wrong.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

static struct run_files files;

static void prepare(void)
{
    files = run_files_create("claims");
}

static struct outcome run_words(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(!outcome.timed_out && outcome.signal == 0, "%s",
                  outcome_describe(&command, &outcome));
    command_free(&command);
    return outcome;
}

/* ---- sidecars ---- */

/* Zeros behind a section, which take next to nothing in a sidecar. */
#define ZEROS_MIB 192

/* More than a command takes by itself, and much less than the zeros. */
#define LITTLE_MIB 110

static const struct {
    const char *section;
    const char *options;
    bool verifies; /* nothing has to be held as a whole for it */
    bool exports;
    bool converts; /* under run, where the whole object is in memory */
} claims[] = {
    {"__llvm_prf_names,\"aR\"", "", false, true, true},
    {"__llvm_prf_names,\"aR\"", "--portable", true, false, false},
    {"__llvm_covmap,\"\"", "--portable", true, true, false},
};

/* An image with a section that is mostly zeros, split. Returns its directory. */
static char *make_hostile(size_t index)
{
    char *directory = sample_directory(&files.sample);
    file_write_text(
        path_join(directory, "zeros.s"),
        text_format(".section %s,@progbits\n.zero %u\n", claims[index].section, ZEROS_MIB << 20));
    file_write_text(path_join(directory, "main.c"),
                    "int main(int count, char **words) { return words[0][0] == count; }\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id", "-fuse-ld=lld", "main.c", "zeros.s", "-o", "app", NULL);
    struct outcome outcome =
        run_words(directory, text_format("split --level 1 %s -o stripped --sidecar s app",
                                         claims[index].options));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_uint_lt(file_size(path_join(directory, "s")), 100000);
    ck_assert_int_eq(unlink(path_join(directory, "app")), 0);
    return directory;
}

/* The command's fate; where it is refused, the limit is why, and little memory was taken. */
static void check_words(const char *directory, const char *words, bool succeeds)
{
    struct outcome outcome = run_words(directory, words);
    ck_assert_msg(outcome_exited(&outcome, succeeds ? 0 : 1), "%s: %s", words, outcome.errors);
    if (!succeeds)
        ck_assert_msg(strstr(outcome.errors, "--memory-limit") != NULL, "%s: %s", words,
                      outcome.errors);
    ck_assert_msg(covsplit_is_sanitized() || outcome.peak_resident_kib < LITTLE_MIB * 1024,
                  "%s: %ld KiB", words, outcome.peak_resident_kib);
    outcome_free(&outcome);
}

/* A file that is not converted is read as it is, and one line says why. */
static void check_run(const char *directory, bool converts)
{
    unsigned long long size = file_size(path_join(directory, "s"));
    struct outcome outcome = run_words(directory, "run -- wc -c s");
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), converts ? 0 : 1);
    ck_assert(converts == (strstr(outcome.errors, "--memory-limit") == NULL));
    ck_assert(converts == (strcmp(outcome.output, text_format("%llu s\n", size)) != 0));
    outcome_free(&outcome);
}

START_TEST(test_hostile_sidecars)
{
    char *directory = make_hostile((size_t)_i);
    check_words(directory, "verify s", claims[_i].verifies);
    check_words(directory, "export --sidecar s -o object", claims[_i].exports);
    check_run(directory, claims[_i].converts);
    /* Who trusts it gets it. */
    struct outcome outcome = run_words(directory, "verify --memory-limit 1G s");
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    outcome_free(&outcome);
    directory_remove(directory);
}
END_TEST

/* Every command that decompresses obeys, and says what is wrong in its line. */
START_TEST(test_low_limit)
{
    static const char *const commands[] = {
        "verify stripped.covsplit",
        "verify --image stripped stripped.covsplit",
        "export --sidecar stripped.covsplit -o new",
        "correlate --sidecar stripped.covsplit -o new ../light.profraw",
        "merge --sidecar stripped.covsplit -o new.profraw ../light.profraw",
        "join --sidecar stripped.covsplit -o new stripped",
    };
    char *directory = path_join(files.sample.scratch, "sample");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct outcome outcome =
            run_words(directory, text_format("%s --memory-limit 100", commands[i]));
        ck_assert_msg(outcome_exited(&outcome, 1) &&
                          strstr(outcome.errors, "raise it (--memory-limit)") != NULL &&
                          text_count(outcome.errors, "\n") == 1,
                      "%s: %s", commands[i], outcome.errors);
        outcome_free(&outcome);
    }
    covsplit_run_words(files.sample.scratch, 1, "store check --memory-limit 100 store");
    struct outcome outcome =
        run_words(directory, "run --memory-limit 100 -- cmp stripped stripped.covsplit");
    ck_assert_ptr_nonnull(strstr(outcome.errors, "--memory-limit"));
    covsplit_run_words(directory, 2, "verify --memory-limit lots stripped.covsplit");
}
END_TEST

/* ---- profiles ---- */

#define SOON_SECONDS 10

/* A profile in a file of a terabyte, which is a hole but for its beginning: what is found of it is
 * one profile, and then an error. */
START_TEST(test_hole_behind_profile)
{
    static const struct {
        const char *words;
        const char *error;
    } commands[] = {
        {"show sparse.profraw", "zeros"},
        {"correlate --store store -o new sparse.profraw", "zeros"},
        {"merge --store store -o new.profraw sparse.profraw", "--memory-limit"},
    };
    char *sparse = path_join(files.sample.scratch, "sparse.profraw");
    file_copy(files.light, sparse);
    ck_assert_int_eq(truncate(sparse, (off_t)1 << 40), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct outcome outcome = run_words(files.sample.scratch, commands[i].words);
        ck_assert_msg(outcome_exited(&outcome, 1) &&
                          strstr(outcome.errors, commands[i].error) != NULL,
                      "%s: %s", commands[i].words, outcome.errors);
        ck_assert_msg(outcome.wall_seconds < SOON_SECONDS, "%s", commands[i].words);
        outcome_free(&outcome);
    }
    ck_assert(!file_exists(path_join(files.sample.scratch, "new")));
    /* Zeros as a buffer may have them are none. */
    ck_assert_int_eq(truncate(sparse, (off_t)1 << 25), 0);
    covsplit_run_words(files.sample.scratch, 0, "correlate --store store -o new sparse.profraw");
    files_assert_equal(path_join(files.sample.scratch, "new"), files.full, "correlate");
}
END_TEST

/* ---- little memory ---- */

#define STEP_KIB 512
#define MOST_KIB (64 << 10)

/* With a little more memory each time, a command fails for want of it, and at last succeeds; it
 * never takes that for damage. */
START_TEST(test_little_memory)
{
    static const char *const commands[] = {
        "verify sample/stripped.covsplit",
        "correlate --sidecar sample/stripped.covsplit -o new.profraw light.profraw",
        "export --sidecar sample/stripped.covsplit -o new.object",
    };
    bool is_done = false;
    for (unsigned limit = 4 << 10; !is_done; limit += STEP_KIB) {
        ck_assert_uint_le(limit, MOST_KIB);
        struct command command = {.directory = files.sample.scratch};
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add_format(&command.arguments, "ulimit -v %u; exec \"$0\" $1", limit);
        text_list_add(&command.arguments, covsplit_path());
        text_list_add(&command.arguments, commands[_i]);
        text_list_add(&command.environment, "MALLOC_ARENA_MAX=1");
        struct outcome outcome = command_run(&command);
        is_done = outcome_exited(&outcome, 0);
        /* If there is not even enough for libraries and stack, others say so. */
        ck_assert_msg(is_done || strncmp(outcome.errors, "covsplit: error: ", 17) != 0 ||
                          strstr(outcome.errors, "emory") != NULL,
                      "%u KiB: %s", limit, outcome.errors);
        outcome_free(&outcome);
        command_free(&command);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("claims", 120, prepare);
    suite_loops(test_case, sizeof claims / sizeof *claims, test_hostile_sidecars);
    suite_tests(test_case, test_low_limit, test_hole_behind_profile);
    if (!covsplit_is_sanitized())
        suite_loops(test_case, 3, test_little_memory);
    return suite_main("claims", test_case);
}
