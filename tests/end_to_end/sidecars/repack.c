/*
 * covsplit repack: what is plain now is the same later as if it had been compact at once, whatever
 * happens in between: kills, others who replace and remove the sidecar at any moment, damage. The
 * rest is in the scenes of repack-files.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/random.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 60
#define STORE_IMAGES     100
#define STORE_KILLS      30
#define SEED             7

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("repack", SAMPLE_FUNCTIONS);
}

/* ---- running covsplit ---- */

/* Returns what is written to both streams. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    struct outcome outcome = covsplit_run_words(directory, exit_code, words);
    return text_format("%s%s", outcome.output, outcome.errors);
}

static void assert_equal(const char *directory, const char *one, const char *other)
{
    files_assert_equal(path_join(directory, one), path_join(directory, other), one);
}

/* A directory with the sample as "app", split: "plain" by --fast, "compact" without. */
static char *place_create(void)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    run(directory, 0, "split --fast -o out --sidecar plain app");
    run(directory, 0, "split -o out --sidecar compact app");
    return directory;
}

/* Whatever is wrong, the file stays, or becomes one that holds the same. */
START_TEST(test_mutations)
{
    char *directory = place_create();
    struct elf_file plain = elf_file_read(path_join(directory, "plain"));
    unsigned accepted = 0, refused = 0;
    for (unsigned long seed = 1; seed <= rounds(1500); seed++) {
        struct verdict verdict = {0};
        char *description = NULL;
        int exit_code = -1;
        struct contents damaged = mutate_elf(&plain, seed, &description);
        hostile_fork_most(seed);
        file_write(path_join(directory, "side"), damaged.data, damaged.size);
        hostile_run(directory, "repack -j1 side", &exit_code, &verdict);
        verdict_assert(&verdict, description);
        if (exit_code == 1) {
            hostile_holds(directory, "side", &damaged, &verdict);
        } else {
            hostile_run(directory, "verify side", &exit_code, &verdict);
        }
        verdict_assert(&verdict, description);
        accepted += exit_code == 0;
        refused += exit_code == 1;
        contents_free(&damaged);
        free(description);
    }
    hostile_assert_mixed(accepted, refused);
}
END_TEST

/* ---- at every moment ---- */

struct meddling {
    char *directory;
    char *entry;
    char *other; /* another sidecar, plain too */
};

static void remove_entry(void *context)
{
    struct meddling *meddling = context;
    unlink(meddling->entry);
}

static void replace_entry(void *context)
{
    struct meddling *meddling = context;
    char *new = text_format("%s.new", meddling->entry);
    file_copy(meddling->other, new);
    ck_assert_int_eq(rename(new, meddling->entry), 0);
    free(new);
}

static struct meddling meddling_start(void)
{
    struct meddling meddling = {.directory = place_create()};
    meddling.entry = path_join(meddling.directory, "side");
    meddling.other = path_join(meddling.directory, "other");
    run(meddling.directory, 0, "split --sections covmap,covfun --fast -o x --sidecar other app");
    run(meddling.directory, 0, "split --sections covmap,covfun -o x --sidecar other.compact app");
    return meddling;
}

#define STOPS_MIN 50

/* The stops between the last look at the file and the rename, which no rename can do in one step:
 * at the end of the one call, and at the start of the other. */
#define LATE_STOPS 2

static unsigned long stride(void)
{
    return (covsplit_is_sanitized() ? 5 : 1) * rounds_step();
}

static struct traced repack_and_meddle(struct meddling *meddling, unsigned long stops,
                                       void (*act)(void *context))
{
    struct command command = covsplit_command(meddling->directory, "repack", "-j1", "side", NULL);
    unlink(meddling->entry);
    file_copy(path_join(meddling->directory, "plain"), meddling->entry);
    struct traced repack = command_trace(&command, stops, act, meddling);
    command_free(&command);
    return repack;
}

/* No other file is left behind. */
static void assert_nothing_left(const struct meddling *meddling)
{
    struct text_list names = directory_list(meddling->directory);
    for (size_t i = 0; i < names.count; i++) {
        ck_assert_msg(names.items[i][0] != '.', "%s is left", names.items[i]);
    }
    text_list_free(&names);
}

static bool holds(const struct meddling *meddling, const char *name)
{
    struct verdict verdict = {0};
    char *path = path_join(meddling->directory, name);
    bool equal = files_equal(meddling->entry, path, &verdict);
    free(path);
    return equal;
}

/* What a cleaner has removed does not come back, unless it does so right before the rename. */
START_TEST(test_removed_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, late = 0;
    while (repack.was_stopped) {
        stops += stride();
        repack = repack_and_meddle(&meddling, stops, remove_entry);
        late += file_exists(meddling.entry) == repack.was_stopped;
        ck_assert_msg(late <= LATE_STOPS, "stop %lu", stops);
        assert_nothing_left(&meddling);
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
}
END_TEST

/* What another split has put there stays, in one form or the other, with the same exception. */
START_TEST(test_replaced_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, late = 0;
    while (repack.was_stopped) {
        stops += stride();
        repack = repack_and_meddle(&meddling, stops, replace_entry);
        ck_assert_msg(repack.exit_code == 0, "stop %lu: %s", stops, repack.errors);
        late += repack.was_stopped && holds(&meddling, "compact");
        ck_assert_msg(late <= LATE_STOPS, "stop %lu", stops);
        ck_assert_msg(holds(&meddling, "compact") ||
                          (repack.was_stopped &&
                           (holds(&meddling, "other") || holds(&meddling, "other.compact"))),
                      "stop %lu", stops);
        assert_nothing_left(&meddling);
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
}
END_TEST

START_TEST(test_killed_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct command command = covsplit_command(meddling.directory, "repack", "-j1", "side", NULL);
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, early = 0;
    while (repack.was_stopped) {
        stops += stride();
        unlink(meddling.entry);
        file_copy(path_join(meddling.directory, "plain"), meddling.entry);
        repack = command_trace_and_kill(&command, stops);
        bool is_plain = holds(&meddling, "plain");
        ck_assert_msg(is_plain || holds(&meddling, "compact"), "stop %lu", stops);
        early += is_plain;
        if (stops % 8 == 0) {
            run(meddling.directory, 0, "repack side");
            ck_assert_msg(holds(&meddling, "compact"), "stop %lu", stops);
        }
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
    ck_assert_uint_gt(early, 0);
    ck_assert(holds(&meddling, "compact"));
}
END_TEST

/* A file system that cannot swap names, nor have files without one. */
START_TEST(test_restricted)
{
    char *directory = place_create();
    struct command plain = covsplit_command(directory, "repack", "plain", NULL);
    struct command command = command_restrict(&plain, (enum restriction)_i);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome_describe(&command, &outcome));
    assert_equal(directory, "plain", "compact");
    ck_assert_uint_eq(directory_list(directory).count, 4);
}
END_TEST

/* ---- a store ---- */

/* STORE_IMAGES images, split into "plain" and "compact"; the first is for repack. */
static char *stores_create(void)
{
    char *directory = sample_directory(&sample);
    directory_create(path_join(directory, "images"));
    for (unsigned i = 0; i < STORE_IMAGES; i++) {
        variant_create(sample.image, path_join(directory, "images"), text_format("app-%u", i),
                       i % 60 + i / 60 * 256, i);
    }
    run_or_abort(directory, "cp", "-a", "images", "again", NULL);
    run(directory, 0, "split -r --fast --store plain images");
    run(directory, 0, "split -r --store compact again");
    return directory;
}

static unsigned count_plain(const char *directory, const struct text_list *entries)
{
    unsigned plain = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const char *name = entries->items[i];
        struct verdict verdict = {0};
        if (name[strlen(name) - 1] != '/') {
            char *one = text_format("%s/plain/%s", directory, name);
            char *other = text_format("%s/compact/%s", directory, name);
            plain += !files_equal(one, other, &verdict);
            free(one);
            free(other);
        }
    }
    return plain;
}

START_TEST(test_store_with_kills)
{
    char *directory = stores_create();
    struct text_list entries = tree_list(path_join(directory, "compact"));
    run_or_abort(directory, "cp", "-a", "plain", "saved", NULL);
    struct outcome whole = covsplit_run_words(directory, 0, "repack plain");
    assert_contains(whole.output, text_format("%d sidecars repacked: ", STORE_IMAGES));
    ck_assert_uint_eq(count_plain(directory, &entries), 0);
    struct moments moments = moments_start(SEED, whole.wall_seconds);
    unsigned in_the_middle = 0;
    struct command command = covsplit_words(directory, "repack plain");
    for (unsigned i = 0; i < rounds(STORE_KILLS); i++) {
        unsigned before = count_plain(directory, &entries), after;
        if (before == 0) {
            directory_remove(path_join(directory, "plain"));
            run_or_abort(directory, "cp", "-a", "saved", "plain", NULL);
        }
        command_kill_after(&command, moments_next(&moments));
        assert_contains(run(directory, 0, "store check plain"),
                        text_format("%d sidecars, ", STORE_IMAGES));
        after = count_plain(directory, &entries);
        moments_met(&moments, after != 0);
        in_the_middle += after != 0 && after != STORE_IMAGES;
    }
    ck_assert_uint_gt(in_the_middle, 0);
    run(directory, 0, "repack plain");
    ck_assert_uint_eq(count_plain(directory, &entries), 0);
}
END_TEST

/* Repacks, splits that replace, and cleaners at the same time: the last split of each image can be
 * joined, and no other sidecar comes back. */
START_TEST(test_store_with_others)
{
    static const char script[] = "set -e\n"
                                 "for round in 1 2 3 4 5 6; do\n"
                                 "  for app in 0 1 2 3; do\n"
                                 "    \"$0\" split --fast --replace --store store "
                                 "--sections $1 -o $2-$app app-$app\n"
                                 "  done\n"
                                 "done\n";
    static const char repacks[] = "for i in $(seq 40); do \"$0\" repack store || exit 1; done\n";
    static const char cleans[] =
        "for i in $(seq 40); do \"$0\" store gc --older-than 1 store || exit 1; done\n";
    char *directory = sample_directory(&sample);
    struct command commands[4];
    struct outcome outcomes[4];
    for (unsigned i = 0; i < 4; i++) {
        variant_create(sample.image, directory, text_format("app-%u", i), i, i);
    }
    run(directory, 0, "split --fast --store store -o out-0 app-0");
    for (unsigned i = 0; i < 4; i++) {
        commands[i] = (struct command){.directory = directory};
        text_list_add_words(&commands[i].arguments, "sh -c");
        text_list_add(&commands[i].arguments, i < 2 ? script : i == 2 ? repacks : cleans);
        text_list_add(&commands[i].arguments, covsplit_path());
        text_list_add(&commands[i].arguments, i == 0 ? "covmap,covfun" : "all");
        text_list_add(&commands[i].arguments, i == 0 ? "some" : "all");
    }
    commands_run_together(commands, 4, outcomes);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s",
                      outcome_describe(&commands[i], &outcomes[i]));
    }
    assert_contains(run(directory, 0, "store check store"), "4 sidecars, ");
    for (unsigned i = 0; i < 4; i++) {
        struct outcome some = covsplit_run(directory, "join", "--store", "store", "-o", "joined",
                                           text_format("some-%u", i), NULL);
        struct outcome all = covsplit_run(directory, "join", "--store", "store", "-o", "joined",
                                          text_format("all-%u", i), NULL);
        ck_assert_msg(outcome_exited(&some, 0) != outcome_exited(&all, 0), "%s%s", some.errors,
                      all.errors);
        assert_equal(directory, "joined", text_format("app-%u", i));
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    restriction_enter(argument_count, arguments);
    TCase *test_case = suite_case("repack", 1500, prepare);
    suite_tests(test_case, test_mutations, test_removed_at_every_moment,
                test_replaced_at_every_moment, test_killed_at_every_moment);
    suite_loops(test_case, RESTRICTION_COUNT, test_restricted);
    suite_tests(test_case, test_store_with_kills, test_store_with_others);
    return suite_main("repack", test_case);
}
