/*
 * covsplit test: runs a command, such as a test suite, and reports what its programs covered.
 *
 * The programs write to pools of profiles in a directory of their own (LLVM_PROFILE_FILE with %m),
 * so any number of processes leave some files for each image. The directory goes when the report is
 * made, unless it was given.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/report/report.h"

/* More files for each image than this %m does not know. */
#define POOL_MAX 9

/* The directory for profiles, as an absolute path; NULL with an error. */
static char *make_directory(const char *given, struct error *error)
{
    const char *temporary = getenv("TMPDIR");
    char *path, *made;

    if (temporary == NULL || temporary[0] != '/')
        temporary = "/tmp";
    if (given != NULL) {
        if (!directory_make(given, error))
            return NULL;
        made = path = realpath(given, NULL);
    } else {
        path = command_text("%s/covsplit-test-XXXXXX", temporary);
        made = mkdtemp(path);
    }
    if (made == NULL) {
        error_set_errno(error, errno,
                        "%s: no directory for profiles can be made there; name another",
                        given != NULL ? given : temporary);
        free(path);
    }
    return made;
}

static bool is_profile(const char *name)
{
    size_t size = strlen(name), ending = strlen(".profraw");

    return size > ending && strcmp(name + size - ending, ".profraw") == 0;
}

/* Removes the directory with the profiles in it; anything else in it stays, and it, too. */
static void remove_directory(const char *path)
{
    struct directory_names names = {0};
    struct error ignored;

    if (directory_names_read(path, is_profile, &names, &ignored)) {
        for (size_t i = 0; i < names.count; i++) {
            char *profile = command_text("%s/%s", path, names.items[i]);

            unlink(profile);
            free(profile);
        }
    }
    directory_names_free(&names);
    rmdir(path);
}

/* Sets the error of a command without profiles. How it ended mostly tells why. Shells tell of a
 * signal by a status above EXIT_BY_SIGNAL(0). */
static bool report_no_profile(const char *path, const char *command, int status,
                              struct error *error)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - EXIT_BY_SIGNAL(0);
    const char *name = number > 0 && number < NSIG ? strsignal(number) : NULL;

    if (WIFSIGNALED(status))
        return error_set(error,
                         "%s: ended by signal %d (%s) before any program wrote a profile; run it "
                         "by itself to see why",
                         command, number, name != NULL ? name : "unknown");
    if (WEXITSTATUS(status) != 0)
        return error_set(error,
                         "%s: returned %d%s%s%s, and no program wrote a profile: one that aborts, "
                         "is killed or calls _exit writes none; see what it printed",
                         command, WEXITSTATUS(status), name != NULL ? " (a signal: " : "",
                         name != NULL ? name : "", name != NULL ? ")" : "");
    return error_set(error,
                     "%s: no program wrote a profile there: none was built with "
                     "-fprofile-instr-generate, or all were killed or ended by _exit, or the "
                     "command clears the environment or sets LLVM_PROFILE_FILE itself",
                     path);
}

static bool check_profiles(const char *path, const char *command, int status, struct error *error)
{
    struct directory_names names = {0};
    bool done = directory_names_read(path, is_profile, &names, error);

    if (done && names.count == 0)
        done = report_no_profile(path, command, status, error);
    directory_names_free(&names);
    return done;
}

/* Runs the command, to which the pools are named: its programs may run in any directory. *status is
 * that of waitpid, or of a signal that this process got meanwhile; then it was *stopped, as it is
 * if it could not be run, which has been said. */
static bool run(const struct parsed_options *options, const char *directory, int *status,
                bool *stopped, struct error *error)
{
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    unsigned threads = option_threads(options);
    char *pattern =
        command_text("%s/%%%um.profraw", directory, threads < POOL_MAX ? threads : POOL_MAX);
    struct child child = {0};
    int number = 0;

    exit_unless_allocated(setenv("LLVM_PROFILE_FILE", pattern, 1) == 0, strlen(pattern));
    free(pattern);
    child_hold_signals(&child);
    if (!child_start(&child, command, &number, error))
        return false;
    *stopped = number != 0;
    *status = *stopped ? child_report_not_run(&child, command[0], number) : child_wait(&child);
    number = child_held_signal(&child);
    *stopped |= number != 0;
    if (number != 0)
        *status = W_EXITCODE(0, number);
    sigprocmask(SIG_SETMASK, &child.mask_before, NULL);
    return true;
}

/* Adds the profiles to the state, as `covsplit merge --into STATE --consume` does. */
static bool add_to_state(const struct parsed_options *options, const char *directory,
                         struct error *error)
{
    struct profile_sidecars sidecars = {0};
    struct merge_operand operand = {directory, 1};
    struct merge_request request = {
        .sidecars = &sidecars,
        .threads = option_threads(options),
        .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
        .operands = &operand,
        .operand_count = 1,
        .output = option_text(options, OPTION_INTO),
        .is_into_state = true,
        .consumes = true,
    };
    struct parsed_options searching = *options;
    int ended_by = 0;
    bool done;

    /* The output is that of the report, which comes later: the counts must be safe before. */
    searching.values[OPTION_OUTPUT] = (struct option_value){0};
    done = profile_sidecars_open(&sidecars, &searching, error) &&
           merge_into_state(&request, &ended_by, error);

    profile_sidecars_close(&sidecars);
    if (!done) {
        message_error(error);
        error_set(error, "%s: the profiles could not be added to it, and are in %s", request.output,
                  directory);
    }
    if (ended_by != 0)
        raise(ended_by);
    return done;
}

int command_test(const struct parsed_options *options)
{
    const char *given = option_text(options, OPTION_PROFILES);
    const char *into = option_text(options, OPTION_INTO);
    struct error error;
    int status = 0, reported = report_check_usage(options);
    char *directory;
    bool done, is_stopped = false, is_kept = given != NULL;

    if (reported != STATUS_DONE)
        return reported;
    reported = STATUS_FAILED;
    directory = make_directory(given, &error);
    done = directory != NULL && run(options, directory, &status, &is_stopped, &error);
    if (done && !is_stopped)
        done = check_profiles(directory, options->operands[0], status, &error);
    if (done && !is_stopped && !WIFSIGNALED(status)) {
        const char *operand = into != NULL ? into : directory;

        done = into == NULL || add_to_state(options, directory, &error);
        is_kept |= into != NULL && !done;
        if (done)
            reported = report_profiles(options, &operand, 1);
    }
    if (!done)
        message_error(&error);
    if (directory != NULL && !is_kept)
        remove_directory(directory);
    free(directory);
    return status != 0 ? child_end_like(status) : reported;
}
