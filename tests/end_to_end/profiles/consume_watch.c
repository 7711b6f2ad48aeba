/*
 * merge --into STATE --watch: profiles that appear in any way are consumed soon, in directories
 * that come, move and go; until a signal ends it, with all that was begun finished.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"

#define TIMEOUT_SECONDS 300
#define IMAGES          2
#define FUNCTIONS       4
#define SEED            5

/* Whatever is consumed is so within this time; what is looked for from time to time, too. */
#define PATIENCE_SECONDS 40

/* A look that takes long. */
#define LOOK_SECONDS 4

static struct farm farm;

/* Of the test: a directory with `new`, which is watched. */
static char *place;
static uint64_t *sums;
static struct random_state randoms;
static pid_t watcher;

static void prepare(void)
{
    farm = farm_create(path_join(scratch_create("watch-images"), "images"), IMAGES, FUNCTIONS);
}

static char *inside(const char *name)
{
    return path_join(place, name);
}

static void add_profile(const char *name)
{
    farm_write(&farm, &randoms, inside(name), sums);
}

/* Starts watching `directories`, with what it writes to standard output in the file `said`, and to
 * standard error in `errors`. */
static void start(const char *directories)
{
    struct command command = {.directory = place};
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add_format(&command.arguments,
                         "exec \"$0\" merge --into state --watch -v %s >said 2>>errors",
                         directories);
    text_list_add(&command.arguments, covsplit_path());
    watcher = command_start(&command);
}

static void set_up(void)
{
    place = scratch_create("watch");
    sums = farm_sums_create(&farm);
    randoms = random_start(SEED);
    directory_create(inside("new"));
    file_write_text(inside("errors"), "");
    file_write_text(inside("said"), "");
}

static const char *text_of(const char *name)
{
    struct contents text = file_read(inside(name));
    return text_format("%.*s", (int)text.size, (const char *)text.data);
}

static const char *errors(void)
{
    return text_of("errors");
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool is_running(void)
{
    return waitpid(watcher, NULL, WNOHANG) == 0;
}

static void wait_until_gone(const char *name)
{
    double end = now() + PATIENCE_SECONDS;
    while (file_exists(inside(name))) {
        ck_assert_msg(now() < end, "%s was not consumed", name);
        ck_assert_msg(is_running(), "it ended: %s", errors());
        usleep(10000);
    }
}

/* What is gone may only have another name yet. */
static void wait_until_counted(const char *directory)
{
    double end = now() + PATIENCE_SECONDS;
    while (directory_list(inside(directory)).count != 0 ||
           directory_list(inside("state/batches")).count != 0) {
        ck_assert_msg(now() < end, "%s still has profiles", directory);
        usleep(10000);
    }
}

static void wait_for_text(const char *name, const char *part)
{
    double end = now() + PATIENCE_SECONDS;
    while (strstr(text_of(name), part) == NULL) {
        ck_assert_msg(now() < end, "no '%s' in '%s'", part, text_of(name));
        usleep(10000);
    }
}

static void wait_for_message(const char *part)
{
    wait_for_text("errors", part);
}

/* Ends it by the signal, and checks that all has been counted. */
static void finish(int signal)
{
    int status = 0;
    kill(watcher, signal);
    ck_assert_int_eq(waitpid(watcher, &status, 0), watcher);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x: %s", status, errors());
    farm_assert_sums(&farm, place, "state", sums, "state");
}

/* ---- how profiles appear ---- */

START_TEST(test_appearing)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    set_up();
    add_profile("new/before");
    start("new");
    wait_until_gone("new/before");
    add_profile("new/written");
    wait_until_gone("new/written");
    add_profile("elsewhere");
    ck_assert_int_eq(rename(inside("elsewhere"), inside("new/moved")), 0);
    wait_until_gone("new/moved");
    add_profile("new/twice");
    wait_until_gone("new/twice");
    add_profile("new/twice");
    wait_until_gone("new/twice");
    directory_create(inside("new/a"));
    add_profile("new/a/x");
    directory_create(inside("new/a/b"));
    add_profile("new/a/b/y");
    wait_until_gone("new/a/b/y");
    wait_until_gone("new/a/x");
    finish(signals[_i]);
    ck_assert_str_eq(errors(), "");
}
END_TEST

/* What was consumed is said at once, and what was left at the end. */
START_TEST(test_verbose)
{
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        file_write_text(inside(text_format("new/empty%u.profraw", i)), "");
    }
    add_profile("new/one");
    start("new");
    wait_for_text("said", "state: consumed 1 file with 1 profile (");
    add_profile("new/another");
    wait_until_gone("new/another");
    finish(SIGTERM);
    assert_contains(text_of("said"), "; left 0 open, 4 empty, 0 bad\n");
    ck_assert_uint_eq(text_count(text_of("said"), "state: consumed "), 3);
}
END_TEST

/* Directories that are moved here, moved on, and removed. */
START_TEST(test_moving_directories)
{
    set_up();
    directory_create(inside("new/one"));
    directory_create(inside("two"));
    directory_create(inside("two/deep"));
    add_profile("two/deep/a");
    start("new");
    add_profile("new/one/b");
    wait_until_gone("new/one/b");
    ck_assert_int_eq(rename(inside("two"), inside("new/two")), 0);
    wait_until_gone("new/two/deep/a");
    wait_until_counted("new/two/deep");
    ck_assert_int_eq(rename(inside("new/two"), inside("new/one/three")), 0);
    add_profile("new/one/three/deep/c");
    wait_until_gone("new/one/three/deep/c");
    wait_until_counted("new/one/three/deep");
    ck_assert_int_eq(rename(inside("new/one/three"), inside("away")), 0);
    directory_remove(inside("new/one"));
    directory_create(inside("new/one"));
    add_profile("new/one/d");
    wait_until_gone("new/one/d");
    finish(SIGTERM);
    ck_assert_str_eq(errors(), "");
}
END_TEST

/* The watched directory itself is removed, and comes back. */
START_TEST(test_root_removed)
{
    set_up();
    directory_create(inside("other"));
    start("new other");
    add_profile("new/a");
    wait_until_gone("new/a");
    wait_until_counted("new");
    directory_remove(inside("new"));
    wait_for_message("new: no directory any more");
    add_profile("other/b");
    wait_until_gone("other/b");
    directory_create(inside("new"));
    add_profile("new/c");
    wait_until_gone("new/c");
    finish(SIGTERM);
    ck_assert_uint_eq(text_count(errors(), "\n"), 1);
}
END_TEST

/* A look that took long, here since another process has the state's lock, does not put off the next
 * one: profiles that come without end would come faster than they are consumed. */
START_TEST(test_long_look)
{
    set_up();
    add_profile("new/a");
    start("new");
    wait_until_gone("new/a");
    wait_until_counted("new");
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(inside("state/covsplit-state"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLKW, &lock), 0);
    add_profile("new/b");
    wait_until_gone("new/b");
    sleep(LOOK_SECONDS);
    close(fd);
    double unlocked = now();
    add_profile("new/c");
    wait_until_gone("new/c");
    ck_assert_msg(now() - unlocked < 4 * LOOK_SECONDS, "consumed after %g s", now() - unlocked);
    finish(SIGTERM);
}
END_TEST

/* ---- what stays ---- */

/* A bad file is named once; one that is being written, when that is done. */
START_TEST(test_partial)
{
    set_up();
    struct random_state again = randoms;
    add_profile("whole");
    farm_write(&farm, &again, inside("whole"), sums); /* the same: it will be there twice */
    struct contents whole = file_read(inside("whole"));
    start("new");
    file_write_text(inside("new/text"), "no profile\n");
    file_write(inside("new/cut"), whole.data, whole.size / 2);
    int fd = open(inside("new/slow"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_int_eq(write(fd, whole.data, whole.size / 2), (ssize_t)(whole.size / 2));
    wait_for_message("new/text: not a raw profile");
    wait_for_message("new/cut: cut short");
    add_profile("new/good"); /* another look */
    wait_until_gone("new/good");
    ck_assert_int_eq(write(fd, whole.data + whole.size / 2, whole.size - whole.size / 2),
                     (ssize_t)(whole.size - whole.size / 2));
    close(fd);
    wait_until_gone("new/slow");
    ck_assert(file_exists(inside("new/text")));
    /* The rest of the other comes, too. */
    file_write(inside("new/cut"), whole.data, whole.size);
    wait_until_gone("new/cut");
    ck_assert_uint_eq(text_count(errors(), "\n"), 2);
    finish(SIGTERM);
}
END_TEST

/* ---- signals ---- */

/* Before that, SIGTERM ends the watcher at once, as it does any program that has just started. The
 * handler of all commands is there earlier; the watcher blocks the signal, to take it from a
 * descriptor. */
static void wait_until_held(int signal)
{
    unsigned long long held = 0;
    for (unsigned i = 0; i < 10000 && (held >> (signal - 1) & 1) == 0; i++) {
        char line[256];
        FILE *status = fopen(text_format("/proc/%d/status", (int)watcher), "r");
        ck_assert_ptr_nonnull(status);
        while (fgets(line, sizeof line, status) != NULL) {
            sscanf(line, "SigBlk: %llx", &held);
        }
        fclose(status);
        usleep(1000);
    }
}

/* Signals while it works: everything that was begun is finished, and no claim is left. */
START_TEST(test_signals_at_work)
{
    set_up();
    for (unsigned round = 0; round < rounds(20); round++) {
        start("new");
        for (unsigned i = 0; i < 500; i++) {
            add_profile(text_format("new/%u-%u", round, i));
        }
        if (round % 10 != 0) {
            wait_until_held(SIGTERM);
        }
        usleep(20000 * (round % 10));
        int status = 0;
        kill(watcher, SIGTERM);
        ck_assert_int_eq(waitpid(watcher, &status, 0), watcher);
        ck_assert(status == 0 || (WIFSIGNALED(status) && round % 10 == 0));
        struct text_list names = directory_list(inside("new"));
        for (size_t i = 0; i < names.count; i++) {
            ck_assert_ptr_null(strstr(names.items[i], "covsplit-claim"));
        }
        text_list_free(&names);
    }
    covsplit_assert(0, place, "merge", "--into", "state", "--consume", "new", NULL);
    farm_assert_sums(&farm, place, "state", sums, "state");
}
END_TEST

/* A sidecar that comes after others were looked for is found. */
START_TEST(test_late_sidecar)
{
    int status = 0;
    set_up();
    directory_create(inside("side"));
    file_write_text(inside("main.c"), "int main(void) { return 0; }\n");
    for (unsigned i = 1; i <= 2; i++) {
        run_or_abort(place, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping", "main.c",
                     text_format("-Wl,--build-id=0x%u0%u0%u0%u0", i, i, i, i), "-o",
                     text_format("app%u", i), NULL);
        covsplit_run_words(place, 0, text_format("split --sidecar side%u app%u", i, i));
        run_or_abort(place, "env", text_format("LLVM_PROFILE_FILE=%u.profraw", i),
                     text_format("./app%u", i), NULL);
    }
    start("--sidecar side new");
    for (unsigned i = 1; i <= 2; i++) {
        const char *name = text_format("new/%u.profraw", i);
        ck_assert_int_eq(
            rename(inside(text_format("side%u", i)), inside(text_format("side/%u.covsplit", i))),
            0);
        ck_assert_int_eq(rename(inside(text_format("%u.profraw", i)), inside(name)), 0);
        wait_until_gone(name);
        wait_until_counted("new");
    }
    kill(watcher, SIGTERM);
    ck_assert_int_eq(waitpid(watcher, &status, 0), watcher);
    ck_assert_int_eq(status, 0);
    ck_assert_str_eq(errors(), "");
}
END_TEST

int main(void)
{
    scratch_use_memory();
    TCase *cases = suite_case("watch", TIMEOUT_SECONDS, prepare);
    suite_tests(cases, test_verbose, test_moving_directories, test_root_removed, test_long_look,
                test_partial, test_signals_at_work, test_late_sidecar);
    suite_loops(cases, rounds_are_all() ? 3 : 1, test_appearing);
    return suite_main("consume and watch", cases);
}
