/*
 * Running wine: see wine.h.
 */
#include "tests/support/wine.h"

#include <stdio.h>

#include "tests/support/file_system.h"
#include "tests/support/windows_program.h"

static char *wine_prefix;

/* Wine sets up its directory once, which takes seconds. */
void wine_start(void)
{
    wine_prefix = scratch_create("wine");
    struct command command = {0};
    text_list_add_words(&command.arguments, "wine wineboot --init");
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0)) {
        fprintf(stderr, "%s\n", outcome_describe(&command, &outcome));
    }
    outcome_free(&outcome);
    command_free(&command);
}

/* Its server would stay for a few seconds, and keep the directory busy. */
void wine_stop(void)
{
    struct command command = {0};
    text_list_add_words(&command.arguments, "wineserver --kill --wait");
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    struct outcome outcome = command_run(&command);
    outcome_free(&outcome);
    command_free(&command);
}

struct command wine_command(const char *directory, unsigned number)
{
    struct command command = {.directory = directory};
    text_list_add_words(&command.arguments, "wine " WINDOWS_PROGRAM);
    text_list_add_format(&command.arguments, "%u", number);
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=run%u", number);
    return command;
}
