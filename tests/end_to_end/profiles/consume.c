/*
 * merge --into STATE --consume: what is consumed and counted, what stays and why, and programs that
 * write at the same time.
 *
 * The counts in the state must be those that the programs know. Each file must either be gone and
 * count, or exist under its own name and not count.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define TIMEOUT_SECONDS 600
#define IMAGES          3
#define FUNCTIONS       4
#define SEED            3

static struct farm farm;
static char *images; /* the farm's directory */

static void prepare(void)
{
    images = path_join(scratch_create("consume-images"), "images");
    farm = farm_create(images, IMAGES, FUNCTIONS);
}

/* ---- one test ---- */

/* A directory `new` for profiles, a state beside it, and what the profiles add up to. */
struct trial_place {
    char *directory;
    uint64_t *sums;
    struct random_state random;
};

static struct trial_place start(void)
{
    struct trial_place place = {.directory = scratch_create("consume"),
                                .sums = farm_sums_create(&farm),
                                .random = random_start(SEED)};
    directory_create(path_join(place.directory, "new"));
    return place;
}

static char *inside(const struct trial_place *place, const char *name)
{
    return path_join(place->directory, name);
}

static void add_profile(struct trial_place *place, const char *name)
{
    farm_write(&farm, &place->random, inside(place, name), place->sums);
}

/* A profile that does not count in the end. */
static void add_uncounted(struct trial_place *place, const char *name)
{
    uint64_t *ignored = farm_sums_create(&farm);
    farm_write(&farm, &place->random, inside(place, name), ignored);
    farm_sums_free(&farm, ignored);
}

static struct command consume_command(const struct trial_place *place, const char *words)
{
    return covsplit_words(place->directory,
                          text_format("merge -v --into state --consume %s", words));
}

/* What it writes to standard error. */
static const char *consume(const struct trial_place *place, int exit_code, const char *words)
{
    struct command command = consume_command(place, words);
    struct outcome outcome = command_expect(&command, exit_code);
    command_free(&command);
    return outcome.errors;
}

/* Exactly these names, separated by blanks, are in the directory. */
static void assert_names(const struct trial_place *place, const char *directory, const char *names)
{
    struct text_list found = directory_list(inside(place, directory));
    const char *text = "";
    for (size_t i = 0; i < found.count; i++) {
        text = text_format("%s%s%s", text, i == 0 ? "" : " ", found.items[i]);
    }
    ck_assert_str_eq(text, names);
}

static void assert_sums(const struct trial_place *place)
{
    farm_assert_sums(&farm, place->directory, "state", place->sums, "state");
}

/* ---- what is consumed ---- */

START_TEST(test_files_and_directories)
{
    struct trial_place place = start();
    directory_create(inside(&place, "new/sub"));
    directory_create(inside(&place, "new/sub/deeper"));
    directory_create(inside(&place, "new/empty"));
    directory_create(inside(&place, "listed"));
    add_profile(&place, "one.profraw");
    add_profile(&place, "new/two words\tand\na newline");
    add_profile(&place, "new/.hidden");
    add_profile(&place, "new/sub/read-only.profraw");
    add_profile(&place, "new/sub/deeper/x");
    add_profile(&place, "listed/a");
    add_profile(&place, text_format("listed/%0250d", 7)); /* no room for more in the name */
    chmod(inside(&place, "new/sub/read-only.profraw"), 0444);
    file_write_text(inside(&place, "list"), "# profiles\nlisted\n");
    ck_assert_str_eq(consume(&place, 0, "one.profraw new @list"), "");
    assert_names(&place, ".", "list listed new state");
    assert_names(&place, "new", "empty sub");
    assert_names(&place, "new/sub", "deeper");
    assert_names(&place, "listed", "");
    assert_sums(&place);
    ck_assert_str_eq(consume(&place, 0, "new"), ""); /* nothing more */
    assert_sums(&place);
}
END_TEST

/* More than are claimed at a time, and into a state that has some. */
START_TEST(test_many)
{
    struct trial_place place = start();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 700; i++) {
            add_profile(&place, text_format("new/%u", i));
        }
        ck_assert_str_eq(consume(&place, 0, "new"), "");
        assert_names(&place, "new", "");
        assert_sums(&place);
    }
}
END_TEST

/* The state is on another file system than the profiles, and below their directory. */
START_TEST(test_other_file_system)
{
    struct trial_place place = start();
    char far[] = "/var/tmp/covsplit-consume-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(far));
    add_profile(&place, "new/a");
    farm_write(&farm, &place.random, path_join(far, "b"), place.sums);
    covsplit_assert(0, place.directory, "merge", "--into", "new/state", "--consume", "new", far,
                    NULL);
    assert_names(&place, "new", "state");
    farm_assert_sums(&farm, place.directory, "new/state", place.sums, "state");
    ck_assert_int_eq(rmdir(far), 0);
}
END_TEST

/* ---- what stays ---- */

START_TEST(test_left)
{
    struct trial_place place = start();
    add_profile(&place, "new/good");
    add_uncounted(&place, "new/hard");
    add_uncounted(&place, "target");
    struct contents whole = file_read(inside(&place, "new/good"));
    file_write(inside(&place, "new/cut"), whole.data, whole.size - 9);
    file_write_text(inside(&place, "new/text"), "no profile\n");
    file_write_text(inside(&place, "new/empty"), "");
    ck_assert_int_eq(link(inside(&place, "new/hard"), inside(&place, "hard")), 0);
    ck_assert_int_eq(symlink("../target", inside(&place, "new/link")), 0);
    ck_assert_int_eq(symlink("nowhere", inside(&place, "new/dangling")), 0);
    ck_assert_int_eq(symlink(".", inside(&place, "new/loop")), 0);
    ck_assert_int_eq(mkfifo(inside(&place, "new/fifo"), 0600), 0);
    const char *errors = consume(&place, 1, "new");
    assert_contains(errors, "warning: new/cut: cut short in its ");
    assert_contains(errors, "warning: new/text: not a raw profile");
    assert_contains(errors, "warning: new/hard: has several names");
    assert_contains(errors, "warning: new/link: a symbolic link");
    assert_contains(errors, "warning: new/dangling: a symbolic link");
    assert_contains(errors, "error: state: 6 files could not be consumed");
    ck_assert_uint_eq(text_count(errors, "\n"), 7);
    assert_names(&place, "new", "cut dangling empty fifo hard link loop text");
    assert_sums(&place);
    /* With others that are good they are no failure; alone they are. */
    add_profile(&place, "new/more");
    consume(&place, 0, "--failure-mode=all new");
    consume(&place, 1, "--failure-mode=all new");
    assert_names(&place, "new", "cut dangling empty fifo hard link loop text");
    assert_sums(&place);
    contents_free(&whole);
}
END_TEST

/* What is wrong with the command line, or cannot be consumed at all: nothing happens. */
START_TEST(test_refused)
{
    static const struct {
        const char *words, *error;
        int exit_code;
    } cases[] = {
        {"merge --consume -o out.profraw new", "'--consume' and '--watch' are for '--into'", 2},
        {"merge --watch -o out.profraw new", "'--consume' and '--watch' are for '--into'", 2},
        {"merge --into state --consume new -", "standard input: a stream", 1},
        {"merge --into state --consume new fifo", "fifo: a stream", 1},
        {"merge --into state --consume new missing", "missing: cannot be read", 1},
        {"merge --into state --consume new state", "state: a state", 1},
        {"merge --into state --watch new/a", "new/a: not a directory", 1},
        {"merge --into state --watch missing", "missing: cannot be read", 1},
    };
    struct trial_place place = start();
    add_profile(&place, "new/a");
    ck_assert_int_eq(mkfifo(inside(&place, "fifo"), 0600), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome =
            covsplit_run_words(place.directory, cases[i].exit_code, cases[i].words);
        assert_contains(outcome.errors, cases[i].error);
        ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
        assert_names(&place, "new", "a");
    }
    consume(&place, 0, "new");
    assert_sums(&place);
}
END_TEST

/* A directory that cannot be written, and one that cannot be read: to a user who is not root. */
START_TEST(test_no_permission)
{
    struct trial_place place = start();
    add_uncounted(&place, "new/a");
    directory_create(inside(&place, "secret"));
    add_uncounted(&place, "secret/b");
    directory_create(inside(&place, "out"));
    chmod(inside(&place, "out"), 0777);
    struct command command = covsplit_command_as_user(
        place.directory, place.directory, "merge --into out/state --consume new secret");
    chmod(inside(&place, "new"), 0555);
    chmod(inside(&place, "secret"), 0);
    struct outcome outcome = command_expect(&command, 1);
    assert_contains(outcome.errors, "new/a: cannot be renamed, so it cannot be consumed");
    assert_contains(outcome.errors, "secret: cannot be read");
    chmod(inside(&place, "new"), 0755);
    chmod(inside(&place, "secret"), 0755);
    assert_names(&place, "new", "a");
    assert_names(&place, "secret", "b");
}
END_TEST

/* ---- files that are open ---- */

/* Whoever has it open, and however, it stays until that ends. */
START_TEST(test_open)
{
    static const int modes[] = {O_RDWR, O_WRONLY | O_APPEND, O_RDONLY};
    struct trial_place place = start();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        add_profile(&place, "new/a");
        add_profile(&place, "new/b");
        int fd = open(inside(&place, "new/a"), modes[i] | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        const char *errors = consume(&place, 0, "new");
        ck_assert_str_eq(errors, "covsplit: warning: new/a: open in another process, so it was "
                                 "left; merge again later\n");
        assert_names(&place, "new", "a");
        close(fd);
        ck_assert_str_eq(consume(&place, 0, "new"), "");
        assert_names(&place, "new", "");
        assert_sums(&place);
    }
    /* A counter file of a program that counts continuously is closed, but mapped. */
    add_profile(&place, "new/a");
    int fd = open(inside(&place, "new/a"), O_RDWR | O_CLOEXEC);
    void *map = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_contains(consume(&place, 0, "new"), "new/a: open in another process");
    assert_names(&place, "new", "a");
    munmap(map, 64);
    consume(&place, 0, "new");
    assert_names(&place, "new", "");
    assert_sums(&place);
}
END_TEST

/* Without leases, or for files of others, the lock tells that the runtime takes. */
START_TEST(test_locked)
{
    enum restriction restriction = _i == 0 ? RESTRICTION_NO_LEASES : RESTRICTION_FOREIGN_LEASES;
    struct trial_place place = start();
    struct command plain = consume_command(&place, "new");
    struct command command = command_restrict(&plain, restriction);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    add_profile(&place, "new/a");
    add_profile(&place, "new/b");
    int fd = open(inside(&place, "new/a"), O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_SETLKW, &lock), 0);
    struct outcome outcome = command_expect(&command, 0);
    assert_contains(outcome.errors, "new/a: open in another process");
    assert_names(&place, "new", "a");
    close(fd);
    outcome = command_expect(&command, 0);
    ck_assert_str_eq(outcome.errors, "");
    assert_names(&place, "new", "");
    assert_sums(&place);
}
END_TEST

/* ---- claims of others ---- */

/* A profile that another state's merge was killed at is not taken. */
START_TEST(test_foreign_claim)
{
    struct trial_place place = start();
    add_profile(&place, "new/a");
    consume(&place, 0, "new");
    add_uncounted(&place, "new/.b.covsplit-claim-00112233445566778899aabbccddeeff-0");
    assert_contains(consume(&place, 1, "new"), "being merged into another state");
    /* Whether it counts there is not known to a merge that consumes nothing. */
    static const char *const merges[] = {"merge -o out.profraw state new",
                                         "merge --into state new"};
    for (size_t i = 0; i < 2; i++) {
        assert_contains(covsplit_run_words(place.directory, 1, merges[i]).errors,
                        "is being merged into a state; finish that");
    }
    assert_names(&place, "new", ".b.covsplit-claim-00112233445566778899aabbccddeeff-0");
    assert_sums(&place);
}
END_TEST

/* ---- at every moment ---- */

/* What another process does at a moment, if there is a claim then. */
struct other_process {
    const struct trial_place *place;
    char *claim; /* that it found */
    int fd;
};

static void find_claim(struct other_process *other)
{
    struct text_list names = directory_list(inside(other->place, "new"));
    other->claim = NULL;
    other->fd = -1;
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.items[i], ".covsplit-claim-") != NULL) {
            other->claim = text_format("%s/%s", inside(other->place, "new"), names.items[i]);
        }
    }
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
    struct trial_place place = start();
    struct command command =
        covsplit_words(place.directory, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    unsigned kept = 0, consumed = 0;
    covsplit_assert(0, place.directory, "merge", "--into", "state", "--consume", "new", NULL);
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 3 : 9) {
        struct other_process other = {.place = &place, .fd = -1};
        add_profile(&place, "new/a");
        merge = command_trace(&command, stops, open_late, &other);
        ck_assert_int_eq(merge.exit_code, 0);
        if (other.fd >= 0 && file_exists(inside(&place, "new/a"))) {
            kept++;
            ck_assert_msg(consumed == 0 || strstr(merge.errors, "open in another") != NULL,
                          "stop %lu: %s", stops, merge.errors);
            close(other.fd);
            consume(&place, 0, "new");
        } else if (other.fd >= 0) {
            consumed++;
            close(other.fd);
        }
        consume(&place, 0, "new");
        assert_names(&place, "new", "");
        assert_sums(&place);
    }
    ck_assert_uint_gt(kept, 0);
    ck_assert_uint_gt(consumed, 0);
    command_free(&command);
}
END_TEST

static void write_new(void *context)
{
    struct other_process *other = context;
    find_claim(other);
    if (other->claim != NULL) {
        file_write_text(inside(other->place, "new/a"), "another one");
    }
}

/* A bad profile is to be given back, and there is a new file of its name: both stay. */
START_TEST(test_name_taken)
{
    struct trial_place place = start();
    struct command command =
        covsplit_words(place.directory, "merge -j1 --into state --consume new");
    struct traced merge = {.was_stopped = true};
    unsigned taken = 0;
    add_uncounted(&place, "good");
    struct contents whole = file_read(inside(&place, "good"));
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 3 : 9) {
        struct other_process other = {.place = &place, .fd = -1};
        directory_remove(inside(&place, "new"));
        directory_create(inside(&place, "new"));
        file_write(inside(&place, "new/a"), whole.data, whole.size - 9);
        merge = command_trace(&command, stops, write_new, &other);
        ck_assert_int_eq(merge.exit_code, 1);
        ck_assert_uint_eq(directory_list(inside(&place, "new")).count, 1 + (other.claim != NULL));
        ck_assert_uint_eq(file_size(inside(&place, "new/a")),
                          other.claim != NULL ? strlen("another one") : whole.size - 9);
        taken += other.claim != NULL;
    }
    ck_assert_uint_gt(taken, 0);
    contents_free(&whole);
    command_free(&command);
}
END_TEST

static void remove_uncounted(void *context)
{
    struct other_process *other = context;
    struct text_list batches = directory_list(inside(other->place, "state/batches"));
    find_claim(other);
    for (size_t i = 0; i < batches.count; i++) {
        if (strstr(batches.items[i], ".open") == NULL) {
            other->claim = NULL; /* it counts */
        }
    }
    if (other->claim != NULL) {
        directory_remove(inside(other->place, "new"));
    }
}

/* Who removes the directory has removed a profile that did not count yet. If it has not been read
 * either, a warning says so. */
START_TEST(test_directory_removed)
{
    struct trial_place place = start();
    struct command command =
        covsplit_words(place.directory, "merge -j1 -v --into state --consume new");
    struct traced merge = {.was_stopped = true};
    unsigned removed = 0;
    covsplit_assert(0, place.directory, "merge", "--into", "state", "--consume", "new", NULL);
    for (unsigned long stops = 50; merge.was_stopped; stops += rounds_are_all() ? 1 : 5) {
        struct other_process other = {.place = &place, .fd = -1};
        directory_remove(inside(&place, "new"));
        directory_create(inside(&place, "new"));
        add_uncounted(&place, "new/a");
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
}
END_TEST

/* ---- programs at work ---- */

#define PROGRAMS 8
#define RUNS     120

#define COUNTING_PROGRAM                                                                           \
    "#include <stdlib.h>\n"                                                                        \
    "__attribute__((noinline)) void step(volatile unsigned *sink) { ++*sink; }\n"                  \
    "int main(int count, char **words) {\n"                                                        \
    "    volatile unsigned sink = 0;\n"                                                            \
    "    for (int i = atoi(words[count - 1]); i > 0; i--) step(&sink);\n"                          \
    "    return 0; }\n"

static void build_counting(const struct trial_place *place, const char *clang)
{
    file_write_text(inside(place, "counting.c"), COUNTING_PROGRAM);
    run_or_abort(place->directory, versioned_tool("clang", clang), "-O1",
                 "-fprofile-instr-generate", "-fcoverage-mapping", "-Wl,--build-id=sha1", "-o",
                 "whole", "counting.c", NULL);
    covsplit_assert(0, place->directory, "split", "--store", "store", "-o", "counting", "whole",
                    NULL);
}

/* A process that runs the program again and again, with the profile in `pattern`. Each run counts 1
 * to 5; returns what they count together through its exit. */
static pid_t start_runs(const struct trial_place *place, const char *pattern)
{
    struct command command = {.directory = place->directory};
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add_format(&command.arguments,
                         "i=0; while [ $i -lt %d ]; do ./counting $((i %% 5 + 1)) || exit 1; "
                         "i=$((i + 1)); done",
                         RUNS);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", pattern);
    return command_start(&command);
}

static unsigned long steps_counted(const struct trial_place *place, const char *clang)
{
    covsplit_assert(0, place->directory, "merge", "--store", "store", "--llvm-profdata",
                    versioned_tool("llvm-profdata", clang), "-o", "out.profdata", "state", NULL);
    const char *text = run_or_abort(place->directory, versioned_tool("llvm-profdata", clang),
                                    "show", "--counts", "--function=step", "out.profdata", NULL);
    const char *found = strstr(text, "Function count: ");
    ck_assert_ptr_nonnull(found);
    return strtoul(found + strlen("Function count: "), NULL, 10);
}

static bool any_is_left(pid_t *processes, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        if (processes[i] != 0 && waitpid(processes[i], &status, WNOHANG) == processes[i]) {
            ck_assert_int_eq(status, 0);
            processes[i] = 0;
        }
        any = any || processes[i] != 0;
    }
    return any;
}

static const char *const clangs[] = {"14", "19", "22"};

/* Programs write into one pool, and into files of their own, while two at a time consume from
 * there: with leases, and without. */
START_TEST(test_programs_at_work)
{
    const char *clang = clangs[_i / 2];
    struct trial_place place = start();
    struct command plain = consume_command(&place, "--store store new"), commands[2];
    struct outcome outcomes[2];
    pid_t programs[PROGRAMS];
    for (size_t i = 0; i < 2; i++) {
        commands[i] = _i % 2 == 0 ? plain : command_restrict(&plain, RESTRICTION_NO_LEASES);
    }
    build_counting(&place, clang);
    for (unsigned i = 0; i < PROGRAMS; i++) {
        programs[i] = start_runs(&place, i % 4 == 3 ? "new/%p.profraw" : "new/%m.profraw");
    }
    bool more = true;
    while (more) {
        more = any_is_left(programs, PROGRAMS);
        commands_run_together(commands, 2, outcomes);
        for (size_t i = 0; i < 2; i++) {
            ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s",
                          outcome_describe(&commands[i], &outcomes[i]));
            outcome_free(&outcomes[i]);
        }
    }
    assert_names(&place, "new", "");
    ck_assert_uint_eq(steps_counted(&place, clang), PROGRAMS * RUNS * 3);
}
END_TEST

/* A program that writes slowly into its own file, and one that is killed while it does. */
START_TEST(test_slow_writer)
{
    struct trial_place place = start();
    add_profile(&place, "whole");
    add_uncounted(&place, "other");
    struct contents whole = file_read(inside(&place, "whole"));
    int fd = open(inside(&place, "new/slow"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    for (size_t done = 0; done < whole.size; done += whole.size / 7 + 1) {
        size_t part = whole.size / 7 + 1;
        part = part > whole.size - done ? whole.size - done : part;
        ck_assert_int_eq(write(fd, whole.data + done, part), (ssize_t)part);
        assert_contains(consume(&place, 0, "new"), "new/slow: open in another process");
    }
    close(fd);
    ck_assert_int_eq(
        truncate(inside(&place, "other"), (off_t)file_size(inside(&place, "other")) / 2), 0);
    ck_assert_int_eq(rename(inside(&place, "other"), inside(&place, "new/killed")), 0);
    assert_contains(consume(&place, 1, "new"), "new/killed: cut short");
    assert_names(&place, "new", "killed");
    assert_sums(&place);
    contents_free(&whole);
}
END_TEST

/* SIGTERM while it works: it finishes what it has begun, and ends by the signal. */
START_TEST(test_signal)
{
    struct trial_place place = start();
    struct command command = consume_command(&place, "new");
    bool was_left = false;
    for (unsigned round = 0; round < rounds(40); round++) {
        for (unsigned i = 0; i < 600; i++) {
            add_profile(&place, text_format("new/%u", i));
        }
        pid_t process = command_start(&command);
        usleep(1000 + 700 * (round % 20));
        kill(process, SIGTERM);
        int status = 0;
        ck_assert_int_eq(waitpid(process, &status, 0), process);
        ck_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0);
        struct text_list names = directory_list(inside(&place, "new"));
        for (size_t i = 0; i < names.count; i++) {
            ck_assert_msg(strstr(names.items[i], "covsplit-claim") == NULL, "%s is left",
                          names.items[i]);
        }
        was_left = was_left || names.count != 0;
        text_list_free(&names);
        consume(&place, 0, "new");
        assert_sums(&place);
    }
    ck_assert(was_left);
}
END_TEST

/* With few descriptors: it needs few, however many files and directories there are. */
START_TEST(test_few_descriptors)
{
    struct trial_place place = start();
    const char *directory = "new";
    for (unsigned i = 0; i < 60; i++) {
        directory = text_format("%s/%u", directory, i);
        directory_create(inside(&place, directory));
        for (unsigned j = 0; j < 5; j++) {
            add_profile(&place, text_format("%s/%u.profraw", directory, j));
        }
    }
    struct command plain = consume_command(&place, "new"), command = {0};
    command.directory = place.directory;
    text_list_add_words(&command.arguments, "prlimit --nofile=32");
    text_list_add_all(&command.arguments, (const char *const *)plain.arguments.items);
    command_expect(&command, 0);
    assert_names(&place, directory, "");
    assert_sums(&place);
}
END_TEST

int main(int argument_count, char **arguments)
{
    restriction_enter(argument_count, arguments);
    scratch_use_memory();
    TCase *files = suite_case("files", TIMEOUT_SECONDS, prepare);
    suite_tests(files, test_files_and_directories, test_many, test_other_file_system, test_left,
                test_refused, test_no_permission, test_open, test_foreign_claim, test_late_opening,
                test_name_taken, test_directory_removed, test_slow_writer, test_signal,
                test_few_descriptors);
    suite_loops(files, 2, test_locked);
    TCase *programs = suite_case("programs", TIMEOUT_SECONDS, prepare);
    suite_loops(programs, rounds_are_all() ? 6 : 2, test_programs_at_work);
    return suite_main("consume", files, programs);
}
