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

#include "tests/support/file_system.h"
#include "tests/support/sanitized.h"

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
