/*
 * The runs behind covsplit_tool.h.
 */
#include "tests/support/covsplit_tool.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_main.h"

#define NOBODY       "65534"

#define ERROR_PREFIX "covsplit: error: "

/* Tests are processes that end after one failure or success; what they leave allocated is no
 * defect, and must not hide the leaks of covsplit, which runs as a process of its own. Where its
 * main function is called in a fork of a test, the exit code tells that a sanitizer found something
 * else. */
const char *__asan_default_options(void);
const char *__msan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0:quarantine_size_mb=16:" SANITIZER_OPTIONS;
}

const char *__msan_default_options(void)
{
    return SANITIZER_OPTIONS;
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:" SANITIZER_OPTIONS;
}

const char *covsplit_path(void)
{
    const char *path = getenv("COVSPLIT");
    return path != NULL ? path : COVSPLIT_COMMAND;
}

bool covsplit_is_sanitized(void)
{
    return IS_SANITIZED;
}

static struct command command_of(const char *directory, va_list words)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, covsplit_path());
    for (const char *word = va_arg(words, const char *); word != NULL;
         word = va_arg(words, const char *)) {
        text_list_add(&command.arguments, word);
    }
    text_list_add(&command.environment, "ASAN_OPTIONS=" SANITIZER_OPTIONS);
    text_list_add(&command.environment, "LSAN_OPTIONS=" SANITIZER_OPTIONS);
    text_list_add(&command.environment, "MSAN_OPTIONS=" SANITIZER_OPTIONS);
    text_list_add(&command.environment, "UBSAN_OPTIONS=print_stacktrace=1:" SANITIZER_OPTIONS);
    return command;
}

struct command covsplit_command(const char *directory, ...)
{
    va_list words;
    va_start(words, directory);
    struct command command = command_of(directory, words);
    va_end(words);
    return command;
}

struct command covsplit_words(const char *directory, const char *words)
{
    struct command command = covsplit_command(directory, NULL);
    text_list_add_words(&command.arguments, words);
    return command;
}

void covsplit_limit_allocations(struct command *command, unsigned long mebibytes)
{
    for (size_t i = 0; i < command->environment.count; i++) {
        char *variable = command->environment.items[i];
        if (strncmp(variable, "ASAN_OPTIONS=", strlen("ASAN_OPTIONS=")) == 0) {
            command->environment.items[i] =
                text_format("%s:max_allocation_size_mb=%lu", variable, mebibytes);
            free(variable);
        }
    }
}

struct command covsplit_command_as_user(const char *scratch, const char *directory,
                                        const char *words)
{
    struct command command = covsplit_command(directory, NULL);
    text_list_free(&command.arguments);
    if (geteuid() == 0) {
        /* The build directory may be closed to others. */
        char *tool = path_join(scratch, "covsplit");
        if (!file_exists(tool)) {
            file_copy(covsplit_path(), tool);
        }
        text_list_add_words(&command.arguments,
                            "setpriv --reuid " NOBODY " --regid " NOBODY " --clear-groups");
        text_list_add(&command.arguments, tool);
        ck_assert_int_eq(chmod(directory, 0777), 0);
    } else {
        text_list_add(&command.arguments, covsplit_path());
    }
    text_list_add_words(&command.arguments, words);
    return command;
}

struct outcome covsplit_run(const char *directory, ...)
{
    va_list words;
    va_start(words, directory);
    struct command command = command_of(directory, words);
    va_end(words);
    struct outcome outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

struct outcome covsplit_run_words(const char *directory, int exit_code, const char *words)
{
    struct command command = covsplit_words(directory, words);
    return command_expect(&command, exit_code);
}

bool covsplit_expect(struct verdict *verdict, int exit_code, const char **errors,
                     const char *directory, ...)
{
    va_list words;
    va_start(words, directory);
    struct command command = command_of(directory, words);
    va_end(words);
    struct outcome outcome = command_run(&command);
    bool good = outcome_exited(&outcome, exit_code);
    if (!good) {
        verdict_fail(verdict, "exit %d was expected %s", exit_code,
                     outcome_describe(&command, &outcome));
    }
    if (errors != NULL) {
        *errors = text_format("%s", outcome.errors);
    }
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

const char *covsplit_assert(int exit_code, const char *directory, ...)
{
    va_list words;
    va_start(words, directory);
    struct command command = command_of(directory, words);
    va_end(words);
    return command_expect(&command, exit_code).errors;
}

bool covsplit_refused(const struct command *command, const struct outcome *outcome,
                      struct verdict *verdict)
{
    size_t prefix = strlen(ERROR_PREFIX);
    bool one_line = strncmp(outcome->errors, ERROR_PREFIX, prefix) == 0 &&
                    text_count(outcome->errors, ERROR_PREFIX) == 1 &&
                    text_count(outcome->errors, "\n") == 1;
    if (!outcome_exited(outcome, 1) || !one_line) {
        return verdict_fail(verdict, "exit 1 and one error line were expected %s",
                            outcome_describe(command, outcome));
    }
    return true;
}

/* ---- hostile input ---- */

#define PEAK_RESIDENT_KIB (1024 * 1024)
#define STARTED_SEEDS     100
#define SEEDS_IN_A_TEST   50

/* Whether the run ended as every run must. */
static bool behaved(const struct command *command, const struct outcome *outcome,
                    struct verdict *verdict)
{
    if (outcome->timed_out || outcome->processor_seconds > HOSTILE_PROCESSOR_SECONDS ||
        outcome->signal != 0 || (outcome->exit_code != 0 && outcome->exit_code != 1)) {
        return verdict_fail(verdict, "a crash or a hang %s", outcome_describe(command, outcome));
    }
    if (outcome->peak_resident_kib > PEAK_RESIDENT_KIB) {
        return verdict_fail(verdict, "%ld KiB of memory %s", outcome->peak_resident_kib,
                            outcome_describe(command, outcome));
    }
    if (outcome->exit_code == 1) {
        return covsplit_refused(command, outcome, verdict);
    }
    if (strstr(outcome->errors, "covsplit: error: ") != NULL) {
        return verdict_fail(verdict, "an error, but exit 0 %s", outcome_describe(command, outcome));
    }
    return true;
}

static bool is_forked;

void hostile_fork(bool forks)
{
    is_forked = forks && getenv("COVSPLIT") == NULL;
}

void hostile_in_memory(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 0);
    }
}

static unsigned long first_seed;
static unsigned long seed_count;

void hostile_seeds(const char *first, const char *count)
{
    first_seed = strtoul(first, NULL, 10);
    seed_count = rounds((unsigned)strtoul(count, NULL, 10));
}

size_t hostile_tests(void)
{
    return (seed_count + SEEDS_IN_A_TEST - 1) / SEEDS_IN_A_TEST;
}

unsigned long hostile_first(int test)
{
    return first_seed + (unsigned long)test * SEEDS_IN_A_TEST;
}

unsigned long hostile_end(int test)
{
    unsigned long end = hostile_first(test) + SEEDS_IN_A_TEST;
    return end < first_seed + seed_count ? end : first_seed + seed_count;
}

void hostile_fork_most(unsigned long seed)
{
    hostile_fork(seed % (1 + seed_count / rounds(STARTED_SEEDS)) != 0);
}

void hostile_assert_mixed(unsigned accepted, unsigned refused)
{
    ck_assert_msg(accepted + refused < SEEDS_IN_A_TEST || (accepted != 0 && refused != 0),
                  "%u accepted, %u refused", accepted, refused);
}

void hostile_run_seeds(int test, const char *directory, hostile_damage *damage,
                       hostile_check *check, bool is_mixed)
{
    unsigned accepted = 0, refused = 0;
    for (unsigned long seed = hostile_first(test); seed < hostile_end(test); seed++) {
        struct verdict verdict = {0};
        char *description = NULL;
        int exit_code = -1;
        hostile_fork_most(seed);
        struct contents damaged = damage(seed, &description);
        check(directory, &damaged, &exit_code, &verdict);
        verdict_assert(&verdict, description);
        accepted += exit_code == 0;
        refused += exit_code == 1;
        contents_free(&damaged);
        free(description);
    }
    if (is_mixed) {
        hostile_assert_mixed(accepted, refused);
    }
}

struct command hostile_command(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    command.main_function = is_forked ? covsplit_main : NULL;
    command.timeout_seconds = HOSTILE_TIMEOUT_SECONDS;
    return command;
}

bool hostile_run(const char *directory, const char *words, int *exit_code, struct verdict *verdict)
{
    struct command command = hostile_command(directory, words);
    struct outcome outcome = command_run(&command);
    bool good = behaved(&command, &outcome, verdict);
    *exit_code = outcome.exit_code;
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

bool hostile_holds(const char *directory, const char *name, const struct contents *expected,
                   struct verdict *verdict)
{
    char *path = path_join(directory, name);
    bool same = file_exists(path);
    if (same) {
        struct contents found = file_read(path);
        same = contents_equal(&found, expected);
        contents_free(&found);
    }
    free(path);
    return same || verdict_fail(verdict, "%s does not hold what it should", name);
}

bool hostile_only_these(const char *directory, const char *names, struct verdict *verdict)
{
    struct text_list found = directory_list(directory);
    struct text_list expected = {0};
    text_list_add_words(&expected, names);
    bool good = found.count == expected.count;
    for (size_t i = 0; i < expected.count && good; i++) {
        good = text_list_contains(&found, expected.items[i]);
    }
    for (size_t i = 0; i < found.count; i++) {
        if (!good) {
            verdict_fail(verdict, "only %s should be there, but %s is", names, found.items[i]);
        }
        if (strcmp(found.items[i], expected.items[0]) != 0) {
            char *path = path_join(directory, found.items[i]);
            unlink(path);
            free(path);
        }
    }
    text_list_free(&found);
    text_list_free(&expected);
    return good;
}

bool hostile_split(const char *directory, const struct contents *input, int *exit_code,
                   struct verdict *verdict)
{
    char *path = path_join(directory, "input");
    file_write(path, input->data, input->size);
    free(path);
    int join_exit = -1;
    if (!hostile_run(directory, "split -j1 -o out --sidecar side input", exit_code, verdict) ||
        !hostile_holds(directory, "input", input, verdict)) {
        return false;
    }
    if (*exit_code == 1) {
        return hostile_only_these(directory, "input", verdict);
    }
    if (!hostile_run(directory, "join --sidecar side -o joined out", &join_exit, verdict)) {
        return false;
    }
    if (join_exit != 0) {
        return verdict_fail(verdict, "it was split, but cannot be joined");
    }
    return hostile_holds(directory, "joined", input, verdict) &&
           hostile_only_these(directory, "input out side joined", verdict);
}
