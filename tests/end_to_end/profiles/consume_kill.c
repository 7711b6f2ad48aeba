/*
 * SIGKILL while profiles are consumed: at every system call, and at random moments in many
 * processes that consume from one directory while others still write there. And what others do with
 * these profiles, at every moment. (The scenes "consume" have what is consumed, and what stays.)
 *
 * Whatever is killed, and when, each profile counts once: in the end the sums are those that the
 * writers of the profiles know, and no profile is left.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"

#define TIMEOUT_SECONDS 2800
#define SEED            7

static char *place;
static struct farm farm;

static void assert_empty(const char *directory, const char *label)
{
    struct text_list names = directory_list(directory);
    ck_assert_msg(names.count == 0, "%s: %zu files are left, as %s", label, names.count,
                  names.count == 0 ? "" : names.items[0]);
    text_list_free(&names);
}

/* ---- every system call ---- */

#define SMALL_IMAGES    2
#define SMALL_PROFILES  4
#define SMALL_FUNCTIONS 5

static void prepare_small(void)
{
    place = scratch_create("consume-calls");
    farm = farm_create(path_join(place, "images"), SMALL_IMAGES, SMALL_FUNCTIONS);
}

/* Profiles in two directories, in a new place, and an older state. */
static uint64_t *start_small(struct random_state *random)
{
    uint64_t *sums = farm_sums_create(&farm);
    directory_remove(path_join(place, "new"));
    directory_remove(path_join(place, "state"));
    directory_create(path_join(place, "new"));
    for (unsigned i = 0; i < 2; i++) {
        farm_write(&farm, random, path_join(place, text_format("new/old-%u.profraw", i)), sums);
    }
    covsplit_assert(0, place, "merge", "--into", "state", "--consume", "new", NULL);
    directory_create(path_join(place, "new/sub"));
    for (unsigned i = 0; i < SMALL_PROFILES; i++) {
        farm_write(&farm, random,
                   path_join(place, text_format("new/%s%u.profraw", i % 2 == 0 ? "" : "sub/", i)),
                   sums);
    }
    return sums;
}

static void assert_nothing_lost(const uint64_t *sums, const char *label)
{
    covsplit_assert(0, place, "merge", "--into", "state", "--consume", "new", NULL);
    assert_empty(path_join(place, "new/sub"), label);
    rmdir(path_join(place, "new/sub"));
    assert_empty(path_join(place, "new"), label);
    farm_assert_sums(&farm, place, "state", sums, label);
}

START_TEST(test_every_system_call)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    unsigned long stops = 0;
    while (merge.was_stopped) {
        uint64_t *sums = start_small(&random);
        stops += rounds_step();
        merge = command_trace_and_kill(&command, stops);
        ck_assert(merge.was_stopped || merge.exit_code == 0);
        assert_nothing_lost(sums, text_format("at stop %lu", stops));
        farm_sums_free(&farm, sums);
    }
    ck_assert_uint_gt(stops, 200);
}
END_TEST

/* The one that finishes what the first one left is killed too. */
START_TEST(test_killed_twice)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 --into state --consume new");
    uint64_t *sums = start_small(&random);
    struct traced whole = command_trace_and_kill(&command, 1000000);
    assert_nothing_lost(sums, "not killed");
    farm_sums_free(&farm, sums);
    for (unsigned i = 0; i < rounds(200); i++) {
        sums = start_small(&random);
        unsigned long first = 1 + random_below(&random, whole.stops);
        unsigned long second = 1 + random_below(&random, whole.stops);
        command_trace_and_kill(&command, first);
        command_trace_and_kill(&command, second);
        assert_nothing_lost(sums, text_format("at stops %lu and %lu", first, second));
        farm_sums_free(&farm, sums);
    }
}
END_TEST

/* ---- what others do at a moment ---- */

/* Of another process, and the claim that it found. */
struct other_process {
    char *claim;
    int fd;
};

static void find_claim(struct other_process *other)
{
    struct text_list names = directory_list(path_join(place, "new"));
    other->claim = NULL;
    other->fd = -1;
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.items[i], ".covsplit-claim-") != NULL) {
            other->claim = text_format("%s/new/%s", place, names.items[i]);
        }
    }
}

static void empty_new(void)
{
    directory_remove(path_join(place, "new"));
    directory_create(path_join(place, "new"));
}

static void consume(void)
{
    covsplit_assert(0, place, "merge", "--into", "state", "--consume", "new", NULL);
}

/* A program that looked up the name before the profile was renamed, and opens it only now. */
static void open_late(void *context)
{
    struct other_process *other = context;
    find_claim(other);
    if (other->claim != NULL) {
        other->fd = open(other->claim, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    }
}

/* Whoever opens a claim gets it back, as it may write there, until shortly before the batch counts:
 * also when it has been read. */
START_TEST(test_late_opening)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    uint64_t *sums = start_small(&random);
    unsigned kept = 0, consumed = 0;
    consume();
    rmdir(path_join(place, "new/sub"));
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 3 : 9) {
        struct other_process other = {.fd = -1};
        farm_write(&farm, &random, path_join(place, "new/a"), sums);
        merge = command_trace(&command, stops, open_late, &other);
        ck_assert_int_eq(merge.exit_code, 0);
        if (other.fd >= 0 && file_exists(path_join(place, "new/a"))) {
            kept++;
            ck_assert_msg(consumed == 0 || strstr(merge.errors, "open in another") != NULL,
                          "stop %lu: %s", stops, merge.errors);
            close(other.fd);
            consume();
        } else if (other.fd >= 0) {
            consumed++;
            close(other.fd);
        }
        consume();
        assert_empty(path_join(place, "new"), "opened late");
        farm_assert_sums(&farm, place, "state", sums, "opened late");
    }
    ck_assert_uint_gt(kept, 0);
    ck_assert_uint_gt(consumed, 0);
    command_free(&command);
    farm_sums_free(&farm, sums);
}
END_TEST

static void write_new(void *context)
{
    struct other_process *other = context;
    find_claim(other);
    if (other->claim != NULL) {
        file_write_text(path_join(place, "new/a"), "another one");
    }
}

/* A bad profile is to be given back, and there is a new file of its name: both stay. */
START_TEST(test_name_taken)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    uint64_t *ignored = farm_sums_create(&farm);
    unsigned taken = 0;
    farm_write(&farm, &random, path_join(place, "good"), ignored);
    struct contents whole = file_read(path_join(place, "good"));
    directory_remove(path_join(place, "state"));
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 3 : 9) {
        struct other_process other = {.fd = -1};
        empty_new();
        file_write(path_join(place, "new/a"), whole.data, whole.size - 9);
        merge = command_trace(&command, stops, write_new, &other);
        ck_assert_int_eq(merge.exit_code, 1);
        ck_assert_uint_eq(directory_list(path_join(place, "new")).count, 1 + (other.claim != NULL));
        ck_assert_uint_eq(file_size(path_join(place, "new/a")),
                          other.claim != NULL ? strlen("another one") : whole.size - 9);
        taken += other.claim != NULL;
    }
    ck_assert_uint_gt(taken, 0);
    contents_free(&whole);
    command_free(&command);
    farm_sums_free(&farm, ignored);
}
END_TEST

static void remove_uncounted(void *context)
{
    struct other_process *other = context;
    struct text_list batches = directory_list(path_join(place, "state/batches"));
    find_claim(other);
    for (size_t i = 0; i < batches.count; i++) {
        if (strstr(batches.items[i], ".open") == NULL) {
            other->claim = NULL; /* it counts */
        }
    }
    if (other->claim != NULL) {
        directory_remove(path_join(place, "new"));
    }
}

/* Who removes the directory has removed a profile that did not count yet. If it has not been read
 * either, a warning says so. */
START_TEST(test_directory_removed)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 -v --into state --consume new");
    struct traced merge = {.was_stopped = true};
    uint64_t *ignored = start_small(&random);
    unsigned removed = 0;
    consume();
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 1 : 5) {
        struct other_process other = {.fd = -1};
        empty_new();
        farm_write(&farm, &random, path_join(place, "new/a"), ignored);
        merge = command_trace(&command, stops, remove_uncounted, &other);
        if (other.claim != NULL) {
            removed++;
            ck_assert_msg(strstr(merge.errors, "synced") == NULL, "stop %lu: %s", stops,
                          merge.errors);
        } else {
            ck_assert_int_eq(merge.exit_code, 0);
        }
    }
    ck_assert_uint_gt(removed, 0);
    command_free(&command);
    farm_sums_free(&farm, ignored);
}
END_TEST

/* ---- power failures ---- */

static const char *module;

static void prepare_power(void)
{
    prepare_small();
    module = path_join(place, "forgetful_disk.so");
    run_or_abort(NULL, "gcc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", module,
                 COVSPLIT_FIXTURE_DIRECTORY "/forgetful_disk.c", NULL);
}

/* A step that the module has written down. */
struct step {
    char what[8];
    char *path, *other, *kept;
    size_t directory; /* the length of that part of the path */
};

/* The steps that did not fail. */
static size_t read_steps(struct step *steps, size_t most)
{
    struct text_list lines = text_list_of_lines((char *)file_read(path_join(place, "log")).data);
    size_t count = 0;
    ck_assert_uint_le(lines.count, most);
    for (size_t i = 0; i < lines.count; i++) {
        struct step *step = &steps[count];
        ck_assert_int_eq(sscanf(lines.items[i], "%7[^\t]\t%m[^\t]\t%m[^\t]\t%m[^\t]", step->what,
                                &step->path, &step->other, &step->kept),
                         4);
        bool is_sync = strcmp(step->what, "sync") == 0;
        step->directory =
            is_sync ? strlen(step->path) : (size_t)(strrchr(step->path, '/') - step->path);
        count = strcmp(step->what, "failed") == 0 ? count - 1 : count + 1;
    }
    return count;
}

/* The last step may have been written down only. */
static bool is_done(const struct step *step)
{
    return file_exists(step->path) == (strcmp(step->what, "link") == 0);
}

static bool same_directory(const struct step *a, const struct step *b)
{
    return a->directory == b->directory && memcmp(a->path, b->path, a->directory) == 0;
}

static void undo(const struct step *step)
{
    if (strcmp(step->what, "link") == 0) {
        ck_assert_int_eq(unlink(step->path), 0);
    } else if (strcmp(step->what, "rename") == 0) {
        ck_assert_int_eq(rename(step->other, step->path), 0);
    }
    if (strcmp(step->kept, "-") != 0) {
        const char *name = strcmp(step->other, "-") == 0 ? step->path : step->other;
        ck_assert_int_eq(rename(step->kept, name), 0);
    }
}

/* Of the steps in each directory that were not synced, the last ones are undone: all, or some, or
 * none, whatever becomes of other directories. */
static unsigned fail_power(struct random_state *random)
{
    static struct step steps[1000];
    size_t count = read_steps(steps, sizeof steps / sizeof *steps);
    unsigned undone = 0;
    for (size_t i = count; i-- > 0;) {
        bool is_sync = strcmp(steps[i].what, "sync") == 0, stays = is_sync;
        for (size_t k = i + 1; k < count && !stays; k++) {
            stays = same_directory(&steps[i], &steps[k]) &&
                    (strcmp(steps[k].what, "sync") == 0 || strcmp(steps[k].what, "stays") == 0);
        }
        stays = stays || random_below(random, 4) == 0;
        if (i + 1 == count && !is_sync && !is_done(&steps[i])) {
            unlink(steps[i].kept);
        } else if (!stays) {
            undo(&steps[i]);
            undone++;
        } else if (!is_sync) {
            strcpy(steps[i].what, "stays");
        }
    }
    return undone;
}

/* Whatever has not been synced is lost, at every system call, and also after the end. */
START_TEST(test_power_failure)
{
    struct random_state random = random_start(SEED);
    struct command command = covsplit_words(place, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    unsigned long stops = 0, undone = 0;
    text_list_add_format(&command.environment, "LD_PRELOAD=%s", module);
    text_list_add_format(&command.environment, "FORGETFUL_LOG=%s/log", place);
    text_list_add_format(&command.environment, "FORGETFUL_KEPT=%s/kept", place);
    while (merge.was_stopped) {
        uint64_t *sums = start_small(&random);
        directory_remove(path_join(place, "kept"));
        directory_create(path_join(place, "kept"));
        file_write_text(path_join(place, "log"), "");
        stops += rounds_are_all() ? 1 : 3 * rounds_step();
        merge = command_trace_and_kill(&command, stops);
        undone += fail_power(&random);
        assert_nothing_lost(sums, text_format("power failure at stop %lu", stops));
        farm_sums_free(&farm, sums);
    }
    ck_assert_uint_gt(undone, 10);
}
END_TEST

/* ---- many at once ---- */

#define WRITERS   16
#define PRODUCERS 4
#define IMAGES    40
#define PROFILES  10000
#define KILLS     10000
#define FUNCTIONS 60

static void prepare_large(void)
{
    place = scratch_create("consume-kills");
    farm =
        farm_create(path_join(place, "images"), rounds_are_all() ? IMAGES : IMAGES / 8, FUNCTIONS);
}

/* A process that writes profiles into directories, with pauses. */
static pid_t start_producer(unsigned number, unsigned profiles, uint64_t *sums)
{
    pid_t process = fork();
    ck_assert_int_ge(process, 0);
    if (process != 0) {
        return process;
    }
    struct random_state random = random_start(SEED + number);
    for (unsigned i = 0; i < profiles; i++) {
        char *path = text_format("%s/new/%u/%u.%u.profraw", place, i % 8, number, i);
        farm_write(&farm, &random, path, sums);
        free(path);
        if (i % 64 == 0) {
            usleep(1000);
        }
    }
    _exit(0);
}

struct writer {
    pid_t process; /* 0: none */
    double due;    /* when it is killed */
};

struct crowd {
    struct writer writers[WRITERS];
    struct random_state random;
    struct command command;
    double seconds; /* the longest time until a kill */
    unsigned kills; /* that met a process at work */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void start_writer(struct crowd *crowd, struct writer *writer)
{
    writer->process = command_start(&crowd->command);
    writer->due = now() + crowd->seconds * (double)random_below(&crowd->random, 1000) / 1000;
}

/* Kills the writer if it is time, and sees whether it has ended. If most end by themselves, kills
 * come sooner from then on. */
static void look_after(struct crowd *crowd, struct writer *writer)
{
    int status = 0;
    bool is_due = now() >= writer->due;
    if (is_due) {
        kill(writer->process, SIGKILL);
    }
    if (waitpid(writer->process, &status, is_due ? 0 : WNOHANG) == 0) {
        return;
    }
    writer->process = 0;
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%s",
                  (char *)file_read(path_join(place, "errors")).data);
    crowd->kills += WIFSIGNALED(status) != 0;
    crowd->seconds *= WIFSIGNALED(status) ? 1.002 : 0.99;
}

static bool any_runs(pid_t *producers)
{
    bool any = false;
    for (unsigned i = 0; i < PRODUCERS; i++) {
        if (producers[i] != 0 && waitpid(producers[i], NULL, WNOHANG) == producers[i]) {
            producers[i] = 0;
        }
        any = any || producers[i] != 0;
    }
    return any;
}

static void kill_crowd(struct crowd *crowd)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        if (crowd->writers[i].process != 0) {
            crowd->writers[i].due = 0;
            look_after(crowd, &crowd->writers[i]);
        }
    }
}

/* Writers come and are killed for as long as profiles come, and a little longer. */
static void run_crowd(struct crowd *crowd, unsigned profiles, uint64_t *sums)
{
    pid_t producers[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = start_producer(crowd->kills + i, profiles / PRODUCERS, sums);
    }
    double end = 0;
    while (end == 0 || now() < end) {
        for (unsigned i = 0; i < WRITERS; i++) {
            struct writer *writer = &crowd->writers[i];
            if (writer->process == 0) {
                start_writer(crowd, writer);
            } else {
                look_after(crowd, writer);
            }
        }
        usleep(500);
        if (end == 0 && !any_runs(producers)) {
            end = now() + crowd->seconds;
        }
    }
    kill_crowd(crowd);
}

START_TEST(test_crowd)
{
    struct crowd crowd = {.random = random_start(SEED), .seconds = 0.3};
    uint64_t *sums = farm_sums_create(&farm);
    unsigned profiles = 0, all = rounds_are_all() ? PROFILES : PROFILES / 10;
    unsigned kills = rounds_are_all() ? KILLS : KILLS / 100;
    directory_create(path_join(place, "new"));
    for (unsigned i = 0; i < 8; i++) {
        directory_create(path_join(place, text_format("new/%u", i)));
    }
    crowd.command = (struct command){.directory = place};
    text_list_add_words(&crowd.command.arguments, "sh -c");
    text_list_add(&crowd.command.arguments,
                  "exec \"$0\" merge -j2 --into state --consume new 2>>errors");
    text_list_add(&crowd.command.arguments, covsplit_path());
    while (profiles < all || crowd.kills < kills) {
        run_crowd(&crowd, all / 4, sums);
        profiles += all / 4;
        covsplit_assert(0, place, "merge", "--into", "state", "--consume", "new", NULL);
        for (unsigned i = 0; i < 8; i++) {
            assert_empty(path_join(place, text_format("new/%u", i)), "after the kills");
        }
        farm_assert_sums(&farm, place, "state", sums, text_format("after %u kills", crowd.kills));
    }
    printf("%u profiles, %u kills\n", profiles, crowd.kills);
    farm_sums_free(&farm, sums);
}
END_TEST

int main(int count, char **words)
{
    scratch_use_memory();
    TCase *calls = suite_case("calls", TIMEOUT_SECONDS, prepare_small);
    suite_tests(calls, test_every_system_call, test_killed_twice, test_late_opening,
                test_name_taken, test_directory_removed);
    TCase *power = suite_case("power", TIMEOUT_SECONDS, prepare_power);
    suite_tests(power, test_power_failure);
    TCase *crowds = suite_case("crowds", TIMEOUT_SECONDS, prepare_large);
    suite_tests(crowds, test_crowd);
    if (count == 2 && strcmp(words[1], "power") == 0) {
        return suite_main("power failures", power);
    }
    return suite_main("consume and kill", calls, crowds);
}
