/*
 * A disk that takes all that is written, and keeps a byte of it wrong: a split reads its outputs
 * before they get their names, so it finds that, whichever byte it is, and nothing has happened. So
 * do those who write sidecars again, or copy them.
 */
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/rounds.h"
#include "tests/support/sample.h"
#include "tests/support/suite.h"

#define SAMPLE_FUNCTIONS 100
#define PLACES           60
#define OUTPUTS          2

static struct sample sample;
static char *module;
static char *good; /* what a split gives where nothing is wrong */

static void prepare(void)
{
    sample = sample_create("false-disk", SAMPLE_FUNCTIONS);
    module = path_join(sample.scratch, "false_disk.so");
    good = path_join(sample.scratch, "good");
    run_or_abort(NULL, "gcc", "-O1", "-shared", "-fPIC", "-o", module,
                 COVSPLIT_FIXTURE_DIRECTORY "/false_disk.c", NULL);
}

static struct outcome run_on_it(const char *directory, const char *words, unsigned file,
                                unsigned long byte)
{
    struct command command = covsplit_words(directory, words);
    struct outcome outcome;

    text_list_add(&command.environment, text_format("LD_PRELOAD=%s", module));
    text_list_add(&command.environment, text_format("FALSE_DISK_FILE=%u", file));
    text_list_add(&command.environment, text_format("FALSE_DISK_BYTE=%lu", byte));
    outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

static struct outcome split(const char *directory, const char *words, unsigned file,
                            unsigned long byte)
{
    return run_on_it(directory, text_format("split %s -o out --sidecar side app", words), file,
                     byte);
}

/* Nothing is there but the image; or, where the byte does not count, as those of zstd that nobody
 * reads, all is as good as it was to be. */
static void check(const char *directory, const char *words, const struct outcome *outcome,
                  const char *label)
{
    bool is_exact = strstr(words, "--no-exact") == NULL;

    if (outcome_exited(outcome, 1)) {
        struct text_list names = directory_list(directory);

        ck_assert_msg(names.count == 1, "%s: %s and more were left behind", label, names.items[0]);
        ck_assert_msg(strncmp(outcome->errors, "covsplit: error: ", 17) == 0, "%s: %s", label,
                      outcome->errors);
        return;
    }
    ck_assert_msg(outcome_exited(outcome, 0), "%s: %s", label, outcome->errors);
    files_assert_equal(path_join(directory, "out"), good, label);
    covsplit_run_words(directory, 0, is_exact ? "verify --image out side" : "verify side");
    run_or_abort(directory, "rm", "out", "side", NULL);
}

START_TEST(test_each_output)
{
    static const char *const words[] = {"", "--portable", "--portable --sections covmap,covfun",
                                        "--no-exact"};
    char *directory = sample_directory(&sample);
    uint64_t sizes[OUTPUTS];
    unsigned found = 0;
    struct outcome outcome;

    sample_copy(&sample, directory, "app");
    outcome = split(directory, words[_i], OUTPUTS, 0);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    sizes[0] = file_size(path_join(directory, "out"));
    sizes[1] = file_size(path_join(directory, "side"));
    file_copy(path_join(directory, "out"), good);
    outcome_free(&outcome);
    run_or_abort(directory, "rm", "out", "side", NULL);
    /* Whichever is written first: the places in both are those of either. */
    for (unsigned i = 0; i < OUTPUTS * OUTPUTS * PLACES; i++) {
        unsigned file = i % OUTPUTS;
        unsigned long byte = sizes[i / OUTPUTS % OUTPUTS] * (i / OUTPUTS / OUTPUTS) / PLACES;

        outcome = split(directory, words[_i], file, byte);
        check(directory, words[_i], &outcome,
              text_format("byte %lu of file %u, split %s", byte, file, words[_i]));
        found += outcome_exited(&outcome, 1);
        outcome_free(&outcome);
    }
    ck_assert_uint_gt(found, OUTPUTS * PLACES);
}
END_TEST

/* What is done with a plain sidecar. */
static const char *const sidecar_cases[] = {
    "repack -j1 side",
    "store add store side",
    "store export from store",
};

/* The sidecar is as it was, and nothing is in the store; or all is good. */
START_TEST(test_sidecar)
{
    const char *words = sidecar_cases[_i];
    char *directory = sample_directory(&sample);
    char *side = path_join(directory, "side");
    unsigned found = 0, places = rounds(PLACES);

    sample_copy(&sample, directory, "app");
    run_or_abort(directory, "sh", "-ec",
                 "$0 split --fast -o out --sidecar plain app; $0 store add from plain",
                 covsplit_path(), NULL);
    for (unsigned i = 0; i < places; i++) {
        const char *label = text_format("place %u, %s", i, words);
        unsigned long byte;
        struct outcome outcome;

        file_copy(path_join(directory, "plain"), side);
        directory_remove(path_join(directory, "store"));
        byte = file_size(side) * i / places;
        outcome = run_on_it(directory, words, 0, byte);
        if (outcome_exited(&outcome, 1)) {
            found++;
            files_assert_equal(side, path_join(directory, "plain"), label);
            run_or_abort(directory, "sh", "-c", "test -z \"$(find store -type f)\"", NULL);
            ck_assert_msg(strncmp(outcome.errors, "covsplit: error: ", 17) == 0, "%s: %s", label,
                          outcome.errors);
        } else {
            ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", label, outcome.errors);
            covsplit_run_words(directory, 0, "verify --image out side");
            if (file_exists(path_join(directory, "store")))
                covsplit_run_words(directory, 0, "store check store");
        }
        outcome_free(&outcome);
    }
    ck_assert_uint_gt(found, _i == 0 ? places / 10 : places - 1);
}
END_TEST

int main(void)
{
    TCase *each = suite_case("each output", 300, NULL);

    tcase_add_unchecked_fixture(each, prepare, NULL);
    suite_loops(each, 4, test_each_output);
    suite_loops(each, sizeof sidecar_cases / sizeof *sidecar_cases, test_sidecar);
    return suite_main("false disk", each);
}
