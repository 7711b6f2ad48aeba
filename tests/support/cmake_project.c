#include "tests/support/cmake_project.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *cmake_install_package(const char *build, const char *scratch)
{
    char *first = path_join(scratch, "first");
    char *prefix = path_join(scratch, "prefix with blank");
    run_or_abort(NULL, "cmake", "--install", build, "--prefix", first, NULL);
    ck_assert_int_eq(rename(first, prefix), 0);
    return prefix;
}

struct outcome cmake_configure(const char *source, const char *build, const char *prefix,
                               const char *generator, ...)
{
    struct command command = {0};
    text_list_add_words(&command.arguments, "cmake -DCMAKE_C_COMPILER=clang-22 -S");
    text_list_add(&command.arguments, source);
    text_list_add(&command.arguments, "-B");
    text_list_add(&command.arguments, build);
    text_list_add(&command.arguments, "-G");
    text_list_add(&command.arguments, generator);
    text_list_add_format(&command.arguments, "-DCMAKE_PREFIX_PATH=%s", prefix);
    va_list options;
    va_start(options, generator);
    for (const char *option; (option = va_arg(options, const char *)) != NULL;) {
        text_list_add(&command.arguments, option);
    }
    va_end(options);
    return command_run(&command);
}

/* Runs `cmake --ACTION BUILD`, for a configuration if there are several, and WORDS. */
static struct outcome run_in_build(const char *action, const char *build, const char *configuration,
                                   struct text_list words)
{
    struct command command = {.timeout_seconds = 600};
    text_list_add(&command.arguments, "cmake");
    text_list_add(&command.arguments, action);
    text_list_add(&command.arguments, build);
    if (configuration[0] != '\0') {
        text_list_add(&command.arguments, "--config");
        text_list_add(&command.arguments, configuration);
    }
    for (size_t i = 0; i < words.count; i++) {
        text_list_add(&command.arguments, words.items[i]);
    }
    return command_run(&command);
}

struct outcome cmake_build(const char *build, const char *configuration, const char *words)
{
    struct text_list list = {0};
    text_list_add_words(&list, words);
    return run_in_build("--build", build, configuration, list);
}

struct outcome cmake_install(const char *build, const char *configuration, const char *prefix)
{
    struct text_list list = {0};
    text_list_add(&list, "--prefix");
    text_list_add(&list, prefix);
    return run_in_build("--install", build, configuration, list);
}

const char *cmake_assert_smooth(const struct outcome *outcome)
{
    static const char *const complaints[] = {"Warning", "covsplit: warning"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_msg(outcome_exited(outcome, 0) &&
                          strstr(outcome->output, complaints[i]) == NULL &&
                          strstr(outcome->errors, complaints[i]) == NULL,
                      "%s%s", outcome->output, outcome->errors);
    }
    return outcome->output;
}
