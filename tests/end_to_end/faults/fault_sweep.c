/*
 * Every call fails once: each command runs with one call that fails, for every call that it makes
 * and every way in which it can fail (failing_calls.h).
 *
 * A run either does not need the call, and gives the very same bytes with status 0, or it is an
 * error that says so in one line, and nothing has happened to any file; but if it is the directory
 * of an output that cannot be synced, it says that the output was written. It is never a property
 * of the files that it reads: they are not damaged, nothing has to stay in the image, and no
 * sidecar is missing.
 *
 * Usage: fault_sweep [all FIRST END]
 *
 * all: every call and every error, of the commands with these numbers; otherwise, of each command,
 * as many as suite.h says, spread over kinds of calls and over the run.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/end_to_end/faults/fault_commands.h"
#include "tests/end_to_end/faults/fault_inputs.h"
#include "tests/support/covsplit_main.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/failing_calls.h"
#include "tests/support/file_tree.h"

#define RUN_SECONDS  5     /* a run takes a hundredth */
#define URL_SECONDS  30    /* where it waits for a server, or believes that it does */
#define ROUNDS       100   /* of a command, but with `all` */
#define PLACES       200   /* of bytes that arrive as others, with `all` */
#define REMOTE_STEP  7     /* of the memory that libraries for URLs ask for, with `all` */
#define REPORTED_MAX 40    /* wrong outcomes of a command that are printed in full */
#define START_POLLS  500   /* hundredths of a second for the server to start */
#define URL          "URL" /* in words: the server's */

static bool is_whole; /* `all` */
static int first_command;
static char *scratch;
static const char *url;

/* Of all tests, which are processes of their own. */
static struct totals {
    uint64_t commands, calls, faults, errors, wrong;
} * totals;

/* The web server of the tests, with the inputs; it ends with this suite. */
static void start_server(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    char *place = path_join(scratch, "server"), *port = path_join(place, "port");
    struct command command = command_words(
        scratch, "setpriv --pdeathsig KILL python3 -B %s/../support/web_server.py in server",
        COVSPLIT_FIXTURE_DIRECTORY);
    struct contents text;
    pid_t server;

    directory_create(place);
    server = command_start(&command);
    for (int i = 0; i < START_POLLS && !file_exists(port); i++)
        nanosleep(&pause, NULL);
    ck_assert_int_eq(waitpid(server, NULL, WNOHANG), 0);
    text = file_read(port);
    url = text_format("http://127.0.0.1:%d", atoi((const char *)text.data));
    contents_free(&text);
}

static void prepare(void)
{
    scratch = scratch_create("fault-sweep");
    fault_inputs_create(path_join(scratch, "in"));
    start_server();
}

/* ---- the runs ---- */

struct sweep {
    const struct fault_command *command;
    char *directory; /* where it runs */
    struct file_tree before;
    struct file_tree now;
    struct file_tree after; /* a run in which nothing fails */
    struct outcome whole;   /* that run */
    struct contents proof_before, proof_after;
    uint64_t counts[CALL_COUNT]; /* of its calls */
};

/* For processes that are forked. */
static struct failing_call planned;
static struct call_counts *counts;

static int failing_main(int count, char **words)
{
    calls_fail(&planned, counts);
    return covsplit_main(count, words);
}

static bool is_remote(const struct sweep *sweep)
{
    return strstr(sweep->command->words, URL) != NULL;
}

static struct command words_of(const struct sweep *sweep, const char *words)
{
    const char *end = strstr(words, URL);
    struct command command;

    if (end != NULL)
        words = text_format("%.*s%s%s", (int)(end - words), words, url, end + strlen(URL));
    command = covsplit_words(sweep->directory, words);
    text_list_add(&command.environment, "COVSPLIT_CACHE=cache");
    /* Where libcurl has no memory for a timer, it waits until the server counts as silent. */
    text_list_add(&command.environment, "COVSPLIT_HTTP_TIMEOUT=1");
    text_list_add_format(&command.environment, "TMPDIR=%s", sweep->directory);
    return command;
}

static struct outcome run_words(const struct sweep *sweep, const char *words,
                                const struct failing_call *failing)
{
    struct command command = words_of(sweep, words);
    struct outcome outcome;

    command.main_function = failing == NULL ? covsplit_main : failing_main;
    command.timeout_seconds = is_remote(sweep) ? URL_SECONDS : RUN_SECONDS;
    planned = failing == NULL ? (struct failing_call){0} : *failing;
    outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

/* Runs the command in the directory as it was before. */
static struct outcome run(struct sweep *sweep, const struct failing_call *failing)
{
    struct outcome outcome;

    file_tree_restore(&sweep->before, &sweep->now, sweep->directory);
    outcome = run_words(sweep, sweep->command->words, failing);
    file_tree_free(&sweep->now);
    sweep->now = file_tree_read(sweep->directory);
    return outcome;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_directory(const char *name)
{
    return name[strlen(name) - 1] == '/';
}

static bool is_done(const struct sweep *sweep, const char *words)
{
    struct outcome outcome = run_words(sweep, words, NULL);
    bool done = outcome_exited(&outcome, 0);

    outcome_free(&outcome);
    return done;
}

/* Whether what is there now passes the command's own proof. */
static bool is_proven(const struct sweep *sweep)
{
    return is_done(sweep, sweep->command->proof);
}

/* Reads what a state has, after another command added to it: that must work, and tidies up. */
static bool read_state(struct sweep *sweep, struct contents *proof)
{
    char *path = path_join(scratch, "proof.profraw");
    bool good = is_done(sweep, sweep->command->next) && is_proven(sweep);

    file_tree_free(&sweep->now);
    sweep->now = file_tree_read(sweep->directory);
    for (size_t i = 0; i < sweep->now.names.count; i++)
        good = good && (is_directory(sweep->now.names.items[i]) ||
                        strstr(sweep->now.names.items[i], "/batches/") == NULL);
    if (good)
        *proof = file_read(path);
    free(path);
    return good;
}

static bool is_of_memory(const struct failing_call *failing)
{
    return failing->call == CALL_MEMORY || failing->error == ENOMEM;
}

/* ---- what is there afterwards ---- */

static bool is_in_store(const char *name)
{
    return strstr(name, ".build-id/") != NULL;
}

/* The first entry that none of the trees has, or NULL. The directories of a store are made before
 * it is known whether anything comes into them. */
static const char *find_other(const struct sweep *sweep, const struct file_tree *one,
                              const struct file_tree *two)
{
    const struct file_tree *tree = &sweep->now;

    for (size_t i = 0; i < tree->names.count; i++) {
        const char *name = tree->names.items[i];

        if (!is_directory(name) && !(sweep->command->packs && is_in_store(name)) &&
            !file_tree_has(one, tree, i) && !file_tree_has(two, tree, i))
            return name;
    }
    return NULL;
}

/* What may be gone: what a new store says of itself, for people; which bases a store has, since the
 * proof tells whether those are there that are needed; and what is in a cache. */
static bool may_be_missing(const struct sweep *sweep, const char *name)
{
    const char *end = strrchr(name, '/');

    return (end != NULL && strcmp(end, "/README") == 0) ||
           (is_remote(sweep) && starts_with(name, "cache/")) ||
           (sweep->command->packs && strstr(name, ".build-id/bases/") != NULL);
}

/* The first name in both trees that is gone, or NULL. */
static const char *find_missing(const struct sweep *sweep, const struct file_tree *one,
                                const struct file_tree *two)
{
    for (size_t i = 0; i < one->names.count; i++) {
        const char *name = one->names.items[i];

        if (file_tree_find(two, name) < two->names.count &&
            file_tree_find(&sweep->now, name) == sweep->now.names.count &&
            !may_be_missing(sweep, name))
            return name;
    }
    return NULL;
}

/* Files of a state: whatever they are like, they have the profiles of the command or not. */
static const char *find_wrong_state(struct sweep *sweep, const struct failing_call *failing,
                                    bool done, const char *errors)
{
    struct contents proof = {0};
    const char *wrong = NULL;

    if (!read_state(sweep, &proof))
        wrong = "the state cannot be used or is not tidy";
    else if (failing->call == CALL_STREAM) /* when all else is done */
        wrong = NULL;
    else if (done || strstr(errors, "count already") != NULL)
        wrong = contents_equal(&proof, &sweep->proof_after) ? NULL : "profiles do not count";
    else if (!contents_equal(&proof, &sweep->proof_before))
        wrong = "profiles count";
    contents_free(&proof);
    return wrong;
}

/* What is wrong with the files, or NULL. A file that cannot be removed may stay; and standard
 * output fails when all else is done. */
static const char *find_wrong_file(struct sweep *sweep, const struct failing_call *failing,
                                   bool done, const char *errors)
{
    const struct file_tree *expected = done ? &sweep->after : &sweep->before;
    bool is_unsynced = strstr(errors, ": was written, but its directory ") != NULL;
    bool is_batch =
        (sweep->command->is_batch || failing->call == CALL_STREAM || is_unsynced) && !done;
    const char *other, *missing;

    if (sweep->command->is_state)
        return find_wrong_state(sweep, failing, done, errors);
    if (sweep->command->packs && !is_proven(sweep))
        return "what is there does not pass the proof";
    if (failing->call == CALL_BYTE && done)
        return is_proven(sweep) ? NULL : "what was made does not pass the proof";
    other = find_other(sweep, expected, is_batch ? &sweep->after : expected);
    if (other != NULL && !(failing->call == CALL_REMOVE &&
                           file_tree_find(&sweep->after, other) == sweep->after.names.count))
        return text_format("%s is there, or has changed", other);
    missing = find_missing(sweep, expected, is_batch ? &sweep->after : expected);
    return missing == NULL ? NULL : text_format("%s is missing", missing);
}

/* ---- what is said ---- */

/* Whether the line says what failed. What cannot be looked at may be called missing. */
static bool says_reason(const struct sweep *sweep, const char *line,
                        const struct failing_call *failing)
{
    /* What libcurl says of it is not ours. In a cache, what may not be read is not there. */
    if (is_remote(sweep))
        return failing->error == EACCES || strstr(line, "no sidecar for") == NULL;
    if (failing->call == CALL_MEMORY)
        return strstr(line, "memory") != NULL;
    if (sweep->command->is_snapshot || failing->call == CALL_STATUS || failing->call == CALL_ACCESS)
        return true;
    if (failing->error == ENOMEM)
        return strstr(line, "memory") != NULL;
    return failing->error == CALL_SHORT || failing->call == CALL_BYTE ||
           strstr(line, strerror(failing->error)) != NULL;
}

/* GnuTLS says by itself when it cannot start. */
static bool is_of_library(const struct sweep *sweep, const char *line)
{
    return is_remote(sweep) && starts_with(line, "Error in GnuTLS initialization: ");
}

/* One line, or in a batch one for each file and a last one, says what failed. Beside it is only
 * what the whole run said. */
static const char *find_wrong_error(const struct sweep *sweep, const struct failing_call *failing,
                                    const char *errors)
{
    bool is_batch = sweep->command->is_batch;
    struct text_list lines = text_list_of_lines(errors);
    const char *wrong = NULL;
    unsigned said = 0;

    for (size_t i = 0; i < lines.count && wrong == NULL; i++) {
        const char *line = lines.items[i];

        if (strstr(sweep->whole.errors, line) != NULL || is_of_library(sweep, line) ||
            (is_batch && strstr(line, "; see above") != NULL))
            continue;
        /* Whoever reads again what it has written finds a wrong byte, and says so. */
        if (strstr(line, "damaged") != NULL && failing->call != CALL_BYTE)
            wrong = "it says that a file is damaged";
        else if (starts_with(line, "covsplit: warning: "))
            continue;
        else if (!starts_with(line, "covsplit: error: "))
            wrong = "it says something that is no error";
        else if (!says_reason(sweep, line, failing))
            wrong = "it does not say what failed";
        said++;
    }
    text_list_free(&lines);
    if (wrong == NULL && (said == 0 || (said > 1 && !is_batch)))
        wrong = said == 0 ? "it does not say what failed" : "it says more than one error";
    return wrong;
}

/* Done, with warnings at most. */
static const char *find_wrong_words(const struct sweep *sweep, const struct outcome *outcome)
{
    struct text_list lines = text_list_of_lines(outcome->errors);
    const char *wrong = NULL;

    if (strcmp(outcome->output, sweep->whole.output) != 0 && !sweep->command->is_snapshot)
        wrong = text_format("it printed something else than %s", sweep->whole.output);
    for (size_t i = 0; i < lines.count && wrong == NULL; i++) {
        if (strstr(sweep->whole.errors, lines.items[i]) == NULL &&
            !is_of_library(sweep, lines.items[i]) &&
            !starts_with(lines.items[i], "covsplit: warning: "))
            wrong = "it said something else";
    }
    text_list_free(&lines);
    return wrong;
}

/* Whether the command may give another result without what could not be read. */
static bool does_without(const struct fault_command *command, const struct failing_call *failing,
                         const char *errors)
{
    if (is_of_memory(failing))
        return false;
    return (command->leaves_out && strstr(errors, "(left out)") != NULL) ||
           (command->skips_closed && failing->error == EACCES);
}

static const char *find_wrong(struct sweep *sweep, const struct failing_call *failing,
                              const struct outcome *outcome)
{
    const struct fault_command *command = sweep->command;
    bool done = outcome_exited(outcome, 0);
    const char *wrong;

    if (!done && !outcome_exited(outcome, 1))
        return "the command ended in another way";
    if (done && does_without(command, failing, outcome->errors))
        return NULL;
    wrong = find_wrong_file(sweep, failing, done, outcome->errors);
    if (wrong == NULL && done && !command->packs)
        wrong = find_wrong_words(sweep, outcome);
    else if (wrong == NULL && !done && !command->is_run &&
             !(command->is_refused && strcmp(outcome->errors, sweep->whole.errors) == 0))
        wrong = find_wrong_error(sweep, failing, outcome->errors);
    return wrong;
}

/* ---- the sweep ---- */

static const char *error_name(int error)
{
    return error == CALL_SHORT ? "short" : strerrorname_np(error);
}

/* Returns whether a call failed. */
static bool try_fault(struct sweep *sweep, const struct failing_call *failing, unsigned *wrong)
{
    struct outcome outcome = run(sweep, failing);
    bool has_failed = counts->has_failed;
    const char *problem = find_wrong(sweep, failing, &outcome);

    totals->faults += has_failed;
    totals->errors += has_failed && outcome_exited(&outcome, 1);
    if (problem != NULL) {
        struct command command = words_of(sweep, sweep->command->words);

        if ((*wrong)++ < REPORTED_MAX)
            printf("%s %lu of %lu, %s: %s %s\n", call_kinds[failing->call].name,
                   (unsigned long)failing->number, (unsigned long)sweep->counts[failing->call],
                   error_name(failing->error), problem, outcome_describe(&command, &outcome));
        totals->wrong++;
        command_free(&command);
    }
    outcome_free(&outcome);
    return has_failed;
}

static bool has_calls(const struct sweep *sweep, enum call call)
{
    return sweep->counts[call] != 0 && (call != CALL_BYTE || sweep->command->proof != NULL);
}

/* Every call of the kind and every error. Threads may make the counts differ: the end is where none
 * is left to fail. */
static void try_all(struct sweep *sweep, enum call call, unsigned *wrong)
{
    struct failing_call failing = {.call = call};
    uint64_t step = call == CALL_BYTE                         ? sweep->counts[call] / PLACES + 1
                    : call == CALL_MEMORY && is_remote(sweep) ? REMOTE_STEP
                                                              : 1;

    for (const int *error = call_kinds[call].errors; *error != 0; error++) {
        bool has_failed = true;

        failing.error = *error;
        for (failing.number = 1; has_failed || failing.number <= sweep->counts[call];
             failing.number += step)
            has_failed = try_fault(sweep, &failing, wrong);
    }
}

/* The last look at a file, which is often at what was replaced, always fails. Every fourth round is
 * of memory, which most calls are for; the others take turns. */
static void try_some(struct sweep *sweep, unsigned number, unsigned *wrong)
{
    const struct failing_call look = {CALL_STATUS, sweep->counts[CALL_STATUS], EIO};
    unsigned all = rounds(ROUNDS);
    enum call turn = (enum call)(number % CALL_COUNT);

    if (look.number != 0)
        try_fault(sweep, &look, wrong);
    for (unsigned i = 0; i < all; i++) {
        struct failing_call failing = {.call = CALL_MEMORY};
        uint64_t place = (number * 7 + i) * 0x9e3779b97f4a7c15u;
        unsigned errors = 0;

        if (i % 4 != 0) {
            do {
                turn = (turn + 1) % CALL_COUNT;
            } while (!has_calls(sweep, turn));
            failing.call = turn;
        }
        while (call_kinds[failing.call].errors[errors] != 0)
            errors++;
        failing.number = 1 + (place >> 32) * sweep->counts[failing.call] / ((uint64_t)1 << 32);
        failing.error = call_kinds[failing.call].errors[(place >> 16) % errors];
        try_fault(sweep, &failing, wrong);
    }
}

/* The command as it is when nothing fails. */
static void run_whole(struct sweep *sweep)
{
    const struct failing_call none = {0};

    if (sweep->command->is_state)
        ck_assert(read_state(sweep, &sweep->proof_before));
    sweep->whole = run(sweep, &none);
    ck_assert_msg(outcome_exited(&sweep->whole, sweep->command->is_refused), "%s: exit %d, %s",
                  sweep->command->words, sweep->whole.exit_code, sweep->whole.errors);
    memcpy(sweep->counts, counts->calls, sizeof sweep->counts);
    sweep->after = file_tree_read(sweep->directory);
    if (sweep->command->is_state)
        ck_assert(read_state(sweep, &sweep->proof_after));
    else if (sweep->command->proof != NULL)
        ck_assert_msg(is_proven(sweep), "%s", sweep->command->proof);
    for (size_t i = 0; i < CALL_COUNT; i++)
        totals->calls += i == CALL_BYTE ? 0 : sweep->counts[i];
    totals->commands++;
}

START_TEST(test_command)
{
    unsigned number = (unsigned)(first_command + _i), wrong = 0;
    struct sweep sweep = {.command = &fault_commands[number]};
    struct text_list names = {0};

    counts = call_counts_create();
    sweep.directory = path_join(scratch, text_format("run%u", number));
    directory_create(sweep.directory);
    text_list_add_words(&names, sweep.command->copied == NULL ? "" : sweep.command->copied);
    for (size_t i = 0; i < names.count; i++)
        run_or_abort(scratch, "cp", "-a", path_join("in", names.items[i]), sweep.directory, NULL);
    sweep.before = file_tree_read(sweep.directory);
    sweep.now = file_tree_read(sweep.directory);
    run_whole(&sweep);
    if (!is_whole)
        try_some(&sweep, number, &wrong);
    for (enum call call = 0; is_whole && call < CALL_COUNT; call++) {
        if (has_calls(&sweep, call))
            try_all(&sweep, call, &wrong);
    }
    fflush(stdout);
    directory_remove(sweep.directory);
    ck_assert_msg(wrong == 0, "%u: %s: %u wrong outcomes", number, sweep.command->words, wrong);
}
END_TEST

int main(int count, char **words)
{
    TCase *commands = suite_case("commands", 3000, prepare);
    int end = (int)fault_command_count, status;

    is_whole = count == 4 && strcmp(words[1], "all") == 0;
    if (count != 1 && !is_whole)
        return suite_usage(words[0], "[all FIRST END]");
    if (is_whole) {
        first_command = atoi(words[2]);
        end = atoi(words[3]) < end ? atoi(words[3]) : end;
    }
    scratch_use_memory();
    totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    suite_loops(commands, end - first_command, test_command);
    status = suite_main("fault sweep", commands);
    printf("%lu commands, %lu calls, %lu faults, %lu errors, %lu wrong outcomes\n",
           (unsigned long)totals->commands, (unsigned long)totals->calls,
           (unsigned long)totals->faults, (unsigned long)totals->errors,
           (unsigned long)totals->wrong);
    return totals->errors == 0 ? EXIT_FAILURE : status;
}
