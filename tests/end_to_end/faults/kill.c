/*
 * SIGKILL in the middle of a split in place, and of many splits into one store.
 *
 * Whenever it comes, the image is either the original or the finished stripped image, and the
 * stripped one is never there without its sidecar; splitting again always gets to the same end.
 * The moments are random ones, and then every single system call.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/moments.h"
#include "tests/support/rounds.h"
#include "tests/support/sample.h"
#include "tests/support/store_files.h"
#include "tests/support/suite.h"
#include "tests/support/traced.h"
#include "tests/support/windows_program.h"

#define TEST_TIMEOUT_SECONDS 1500
#define SAMPLE_FUNCTIONS     2000
#define SEED                 2
#define WRITERS              16
#define KILLS                200
#define WRITER_FUNCTIONS     300

static struct sample sample;

/* What the two files of a split in place can hold. */
static struct contents original;
static struct contents finished;
static struct contents finished_sidecar;

static void take_samples(void)
{
    original = file_read(sample.image);
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    covsplit_run_words(directory, 0, "split app");
    finished = file_read(image);
    finished_sidecar = file_read(path_join(directory, "app.covsplit"));
}

static void prepare(void)
{
    sample = sample_create("kill", SAMPLE_FUNCTIONS);
    take_samples();
}

static void prepare_coff(void)
{
    struct windows_program program = {
        .clang = "19", .target = WINDOWS_MSVC_X86_64, .runtime_options = "-DPROFILE_MERGED"};
    sample = (struct sample){.scratch = scratch_create("kill-coff")};
    char *directory = path_join(sample.scratch, "sample");
    directory_create(directory);
    windows_program_build(&program, directory);
    sample.image = path_join(directory, WINDOWS_PROGRAM);
    free(directory);
    take_samples();
}

struct place {
    char *directory;
    char *image;
    char *sidecar;
};

static struct place place_create(void)
{
    struct place place = {.directory = sample_directory(&sample)};
    place.image = path_join(place.directory, "app");
    place.sidecar = path_join(place.directory, "app.covsplit");
    return place;
}

/* Only the original is there. */
static void place_reset(const struct place *place)
{
    directory_remove(place->directory);
    directory_create(place->directory);
    file_copy(sample.image, place->image);
}

/* Aborts where data is lost. Returns true where the split came to its end. */
static bool assert_nothing_lost(const struct place *place, const char *moment)
{
    struct contents image = file_read(place->image);
    bool is_original = contents_equal(&image, &original);
    bool is_finished = contents_equal(&image, &finished);
    ck_assert_msg(is_original || is_finished, "%s: the image (%zu bytes) is neither", moment,
                  image.size);
    contents_free(&image);
    if (file_exists(place->sidecar)) {
        struct contents sidecar = file_read(place->sidecar);
        ck_assert_msg(contents_equal(&sidecar, &finished_sidecar), "%s: half a sidecar", moment);
        contents_free(&sidecar);
    } else {
        ck_assert_msg(!is_finished, "%s: the sidecar is lost", moment);
    }
    return is_finished;
}

/* Another split gets to the end, whatever was left behind. */
static void assert_can_finish(const struct place *place, const char *moment)
{
    covsplit_run_words(place->directory, 0, "split app");
    ck_assert_msg(assert_nothing_lost(place, moment), "%s: a second split does not finish", moment);
}

START_TEST(test_random_moments)
{
    struct place place = place_create();
    place_reset(&place);
    struct outcome whole = covsplit_run(place.directory, "split", "app", NULL);
    ck_assert(outcome_exited(&whole, 0));
    struct moments moments = moments_start(SEED, whole.wall_seconds * 1.1);
    unsigned early = 0;
    unsigned late = 0;
    for (unsigned i = 0; i < rounds(KILLS); i++) {
        place_reset(&place);
        double delay = moments_next(&moments);
        const char *moment = text_format("kill %u after %.6f s", i, delay);
        struct command command = covsplit_command(place.directory, "split", "app", NULL);
        command_kill_after(&command, delay);
        command_free(&command);
        bool is_late = assert_nothing_lost(&place, moment);
        moments_met(&moments, !is_late);
        if (is_late) {
            late++;
        } else {
            early++;
            assert_can_finish(&place, moment);
        }
    }
    /* The moments must have met splits that were not done. */
    ck_assert_msg(early > rounds(KILLS) / 4, "%u early, %u late", early, late);
}
END_TEST

START_TEST(test_every_system_call)
{
    struct place place = place_create();
    unsigned calls = 0;
    struct command command = covsplit_command(place.directory, "split", "-j1", "app", NULL);
    struct traced split = {.was_stopped = true};
    while (split.was_stopped) {
        place_reset(&place);
        calls += rounds_step();
        split = command_trace_and_kill(&command, calls);
        const char *moment = text_format("at stop %u", calls);
        bool done = assert_nothing_lost(&place, moment);
        ck_assert(done || split.was_stopped);
        ck_assert_msg(split.was_stopped || split.exit_code == 0, "the split failed");
        if (!done && calls % 8 == 0) {
            assert_can_finish(&place, moment);
        }
    }
    ck_assert_uint_gt(calls, 50);
}
END_TEST

/* ---- many at once ---- */

static void prepare_writers(void)
{
    sample = sample_create("kill-writers", WRITER_FUNCTIONS);
}

/* Splits all images of the directory into one store at the same time: eight images, each of them
 * under two names. */
static struct command split_all(const char *directory)
{
    struct command command = {.directory = directory};
    for (unsigned i = 0; i < WRITERS; i++) {
        variant_create(sample.image, directory, text_format("app-%u", i), i / 2, i / 2);
    }
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, "for app in app-*; do \"$0\" split --store store -o "
                                      "out-$app $app & done; wait");
    text_list_add(&command.arguments, covsplit_path());
    return command;
}

/* No sidecar is damaged, and no stripped image without one. Returns how many images are split. */
static unsigned assert_store_is_good(const char *directory)
{
    unsigned split = 0;
    covsplit_run_words(directory, 0, "store check store");
    for (unsigned i = 0; i < WRITERS; i++) {
        const char *stripped = text_format("out-app-%u", i);
        if (file_exists(path_join(directory, stripped))) {
            covsplit_run_words(directory, 0,
                               text_format("join --store store -o joined %s", stripped));
            files_assert_equal(path_join(directory, "joined"),
                               path_join(directory, text_format("app-%u", i)), stripped);
            split++;
        }
    }
    return split;
}

START_TEST(test_many_writers)
{
    char *directory = sample_directory(&sample), *store = path_join(directory, "store");
    struct command command = split_all(directory);
    unsigned in_the_middle = 0, kills = rounds(KILLS / 10);
    struct outcome whole = command_run(&command);
    struct moments moments = moments_start(SEED, whole.wall_seconds);
    ck_assert_uint_eq(assert_store_is_good(directory), WRITERS);
    /* So that what the killed shell started can be waited for. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (unsigned i = 0; i < kills; i++) {
        double delay = moments_next(&moments);
        struct timespec time = {(time_t)delay, (long)((delay - (double)(time_t)delay) * 1e9)};
        directory_remove(store);
        directory_create(store);
        for (unsigned j = 0; j < WRITERS; j++) {
            unlink(text_format("%s/out-app-%u", directory, j));
        }
        pid_t process = command_start(&command);
        nanosleep(&time, NULL);
        kill(-process, SIGKILL);
        /* All of them: one that is killed within a system call still gets to its end. */
        while (waitpid(-process, NULL, 0) > 0)
            continue;
        bool was_at_work = assert_store_is_good(directory) < WRITERS;
        moments_met(&moments, was_at_work);
        in_the_middle += was_at_work;
    }
    ck_assert_uint_gt(in_the_middle, kills / 4);
    whole = command_run(&command);
    ck_assert_uint_eq(assert_store_is_good(directory), WRITERS);
    const char *listed = covsplit_run_words(directory, 0, "store list --json store").output;
    ck_assert_uint_eq(text_count(listed, "\"uuid\""), WRITERS / 2);
}
END_TEST

int main(void)
{
    TCase *kills = suite_case("kill", TEST_TIMEOUT_SECONDS, prepare);
    suite_tests(kills, test_random_moments, test_every_system_call);
    TCase *writers = suite_case("writers", TEST_TIMEOUT_SECONDS, prepare_writers);
    tcase_add_test(writers, test_many_writers);
    TCase *coff = suite_case("coff", TEST_TIMEOUT_SECONDS, prepare_coff);
    tcase_add_test(coff, test_every_system_call);
    return suite_main("kill", kills, writers, coff);
}
