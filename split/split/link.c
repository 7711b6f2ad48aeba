/*
 * covsplit link: runs a link command, and splits its output, as one step of a build.
 *
 * Build systems that call the linker themselves (cargo, CMake, Bazel) cannot run another step after
 * it, but allow the linker to be wrapped. So every link of a build passes through here, including
 * programs without coverage, and so do commands that only compile. If there is nothing to do, the
 * wrapper must not be noticed; and if a split fails, the unsplit image must not be taken for the
 * result.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "formats/image.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/images.h"
#include "split/cli/message.h"
#include "split/split/split.h"

struct link {
    const struct parsed_options *options;
    struct link_command command;
    struct stat linked; /* the output after the link */
};

/* ---- outputs that are left alone ----
 *
 * They are those which configure scripts and the like link only to see whether it works, and
 * whatever else the user excludes. Patterns are those of fnmatch, with a * that also matches
 * slashes. A pattern is compared with the output's absolute path, and with every part of that path
 * which follows a slash: "conftest" matches that file in any directory, and "trials/?*" everything
 * in or below directories of that name. */

/* Outputs that the named tools make only to throw them away. */
static const char *const defaults[] = {
    /* autoconf and libtool */
    "conftest",
    "conftest.*",
    /* CMake: the identification of compilers, try_compile, and checks of link-time optimization */
    "CMakeFiles/*/CompilerId*/*",
    "CMakeFiles/CMakeScratch/*",
    "CMakeFiles/CMakeTmp/*",
    "CMakeFiles/_CMakeLTOTest-*",
    /* Meson */
    "meson-private/*",
};

/* A pattern without a slash is compared with the file name only. Otherwise "test*" would match
 * every output below "/home/tester", because '*' matches slashes too. */
static bool matches(const char *pattern, const char *absolute)
{
    const char *slash = absolute;

    if (strchr(pattern, '/') == NULL)
        return fnmatch(pattern, strrchr(absolute, '/') + 1, 0) == 0;
    if (fnmatch(pattern, absolute, 0) == 0)
        return true;
    while ((slash = strchr(slash, '/')) != NULL) {
        slash++;
        if (fnmatch(pattern, slash, 0) == 0)
            return true;
    }
    return false;
}

/* The user's patterns come before the defaults, as messages name the pattern that matched. */
static const char *find_pattern(const struct parsed_options *options, const char *absolute)
{
    const char *pattern;

    for (size_t i = 0; (pattern = option_text_at(options, OPTION_EXCLUDE, i)) != NULL; i++) {
        if (matches(pattern, absolute))
            return pattern;
    }
    if (option_given(options, OPTION_NO_DEFAULT_EXCLUDES))
        return NULL;
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (matches(defaults[i], absolute))
            return defaults[i];
    }
    return NULL;
}

/* Finds the pattern that excludes the file; *pattern is NULL if none does. */
static bool find_excluding(const struct parsed_options *options, const char *path,
                           const char **pattern, struct error *error)
{
    char directory[PATH_MAX] = "";
    char *absolute;

    if (path[0] != '/' && getcwd(directory, sizeof(directory)) == NULL)
        return error_set_errno(error, errno, "%s: its directory is not known", path);
    if (asprintf(&absolute, "%s%s%s", directory, path[0] == '/' ? "" : "/", path) < 0)
        return error_out_of_memory(error, path, strlen(path));
    *pattern = find_pattern(options, absolute);
    free(absolute);
    return true;
}

/* The same for the output of the command. If the command does not name it, its inputs count:
 * autoconf's first test links conftest.c to a.out. */
static bool find_excluding_output(const struct link *link, const char **pattern,
                                  struct error *error)
{
    const struct link_command *command = &link->command;
    bool done = find_excluding(link->options, command->output, pattern, error);

    if (command->names_output)
        return done;
    for (size_t i = 0; done && *pattern == NULL && i < command->inputs.count; i++)
        done = find_excluding(link->options, command->inputs.paths[i], pattern, error);
    return done;
}

/* ---- libraries that were missed ---- */

static bool is_library_name(const char *path)
{
    static const char *const extensions[] = {".so", ".dll", ".dylib"};
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        const char *found = strstr(slash == NULL ? path : slash, extensions[i]);
        char behind = found == NULL ? 'x' : found[strlen(extensions[i])];

        if (behind == '\0' || behind == '.')
            return true;
    }
    return false;
}

/* A build that links its programs with covsplit link but not their libraries was probably meant to
 * link both with it: libtool links libraries with the compiler that it was configured with. */
static bool warn_of_libraries(const struct link *link, struct error *error)
{
    const struct path_list *inputs = &link->command.inputs;

    for (size_t i = 0; i < inputs->count; i++) {
        const char *path = inputs->paths[i], *excluded;
        struct split_image split = {.has_mapping = false};
        bool is_unsplit = false;
        struct input input;

        if (!is_library_name(path))
            continue;
        if (!find_excluding(link->options, path, &excluded, error))
            return false;
        /* Unreadable files are left to the linker to report. */
        if (input_open(&input, path, error)) {
            is_unsplit = !image_read_stripped_id(&input, &split, error) && split.has_mapping;
            input_close(&input);
        }
        if (error_is_of_memory(error))
            return false;
        if (excluded == NULL && is_unsplit)
            message_warning("%s: this library has coverage and was not split; link it by covsplit "
                            "link too (libtool does so if configure gets it in CC), or name it "
                            "by --exclude",
                            path);
    }
    return true;
}

/* ---- the split ---- */

static bool split_output(const struct link *link, struct error *error)
{
    const char *output = link->command.output;
    struct split_results results = {.was_found = true};
    bool done = split_file(link->options, output, option_threads(link->options), &results, error);

    notes_print(&results.notes);
    if (option_given(link->options, OPTION_VERBOSE)) {
        split_results_print(&results, stdout);
        if (done && results.row_count == 0 && results.notes.size == 0)
            message_line(stdout, "%s: nothing to split", output);
    }
    done = done && (results.row_count == 0 || warn_of_libraries(link, error));
    split_results_free(&results);
    return done;
}

/* Splits the output of the command, unless it is to be left alone. */
static bool treat_output(const struct link *link, struct error *error)
{
    const char *output = link->command.output, *excluded = NULL;
    bool is_told = option_given(link->options, OPTION_VERBOSE);

    if (!found_image_is_linked(output)) {
        if (is_told)
            message_line(stdout, "%s: nothing to split", output);
        return true;
    }
    if (!find_excluding_output(link, &excluded, error))
        return false;
    if (excluded == NULL)
        return split_output(link, error);
    if (is_told)
        message_line(stdout, "%s: left alone: '%s' is excluded", output, excluded);
    return true;
}

/* A link whose output is not known would be left unsplit without a word. */
static bool warn_of_no_output(const struct link *link, struct error *error)
{
    const char *output = link->command.output, *excluded;
    struct stat status;

    if (!link->command.links || (stat(output, &status) == 0 && !S_ISREG(status.st_mode)))
        return true;
    if (!find_excluding_output(link, &excluded, error))
        return false;
    if (excluded == NULL)
        message_warning("no output of this link was recognized (%s was not written), so nothing is "
                        "split; name it by -o, or split it afterwards",
                        output);
    return true;
}

/* ---- the whole ---- */

static bool run(struct link *link, int *status, struct error *error)
{
    struct child child = {0};
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)link->options->operands;
    struct file_before before = file_look_before(link->command.output);
    const struct stat *linked = &link->linked;
    struct error ignored;
    struct stat now;
    bool written, seen;
    int number;

    child_hold_signals(&child);
    if (!child_run(&child, command, status, error))
        return false;
    /* A compiler that is called without -o and without linking has a.out as its output, but does
     * not write it. */
    if (*status != 0)
        return true;
    seen = file_was_written(&before, link->command.output, &link->linked, &written, error);
    if (seen && !written)
        return warn_of_no_output(link, error);
    /* To know what may be removed, what could not be looked at is looked at again. */
    if (!seen)
        file_was_written(&before, link->command.output, &link->linked, &written, &ignored);
    if (!seen || !treat_output(link, error)) {
        /* The unsplit output must not be taken for the result. But by now another process may have
         * written the file, and then it is not ours to remove. A file with several names is written
         * in place, so it may be half written: this name is removed in any case, and the other
         * names keep the file. A sidecar that exists belongs to an earlier image, which may still
         * need it. */
        if (written && stat(link->command.output, &now) == 0 && file_is_same(linked, &now) &&
            (linked->st_nlink > 1 || file_has_same_contents(linked, &now)))
            unlink(link->command.output);
        return false;
    }
    number = child_held_signal(&child);
    if (number != 0)
        *status = W_EXITCODE(0, number);
    return true;
}

int command_link(const struct parsed_options *options)
{
    struct link link = {.options = options};
    struct error error;
    int status = split_check_usage(options);
    bool done;

    if (status != STATUS_DONE)
        return status;
    done = link_command_read(&link.command, options->operands, options->operand_count, &error);
    if (done) {
        done = run(&link, &status, &error);
        link_command_free(&link.command);
    }
    if (done)
        return child_end_like(status);
    message_error(&error);
    return STATUS_FAILED;
}
