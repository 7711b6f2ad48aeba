/*
 * Running wine: see wine.h.
 */
#include "tests/support/wine.h"

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/compile_cache.h"
#include "tests/support/windows_program.h"

/* Longer than a suite may take. While a program waits, Wine's services need not be started for each
 * of the others. */
#define WAITING_PROGRAM "wine ping -n 3000 127.0.0.1"

static const char *wine_prefix;
static pid_t waiting;

static struct command command_in_wine(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    return command;
}

static void run(const char *words)
{
    struct command command = command_in_wine(NULL, words);
    command_run_or_abort(&command);
    command_free(&command);
}

/* Wine copies its libraries there, hundreds of megabytes. */
static void make_prefix(const char *directory, const char *clang)
{
    (void)clang;
    wine_prefix = directory;
    run("wine wineboot --init");
    run("wineserver --wait");
}

void wine_start(void)
{
    wine_prefix = cache_directory("wine", "-none", "", make_prefix);
    struct command command = command_in_wine(NULL, WAITING_PROGRAM);
    waiting = command_start(&command);
    command_free(&command);
}

void wine_stop(void)
{
    kill(waiting, SIGKILL);
    waitpid(waiting, NULL, 0);
}

struct command wine_command(const char *directory, unsigned number)
{
    struct command command =
        command_in_wine(directory, text_format("wine " WINDOWS_PROGRAM " %u", number));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=run%u", number);
    return command;
}
