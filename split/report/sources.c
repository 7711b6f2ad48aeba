/*
 * The source files of a report: which ones it has, and how they are called. See report.h.
 *
 * Compilers write one file in many ways: relative to the directory of the compilation or to a
 * prefix that was cut off, through symbolic links, with "..", or with '\'. Here each file has one
 * name, so that it has one line in a table and is counted once. Files that are left out get a mark
 * in front of their names in the union, for a regular expression that llvm-cov is given: the files
 * themselves need not be here, and need not be many arguments.
 */
#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/report/report.h"

/* A directory of --include, as it is named, from the current directory, and where it leads to. */
struct included {
    struct bytes named, real;
    const char *text;
    bool is_used; /* a file is there */
};

struct source_files {
    struct arena memory;
    char *here;       /* the current directory */
    const char *root; /* of the source tree: the report's */
    struct included *included;
    size_t included_count, included_capacity;
    regex_t *ignored;
    size_t ignored_count, ignored_capacity;
    struct names paths;    /* as they are in the mapping */
    struct bytes *renamed; /* for each path */
    size_t count;
    /* The directory that was looked at last, and where it leads to. */
    char *directory, *real;
    struct buffer path;
};

static char *text_of(struct bytes path)
{
    return command_text("%.*s", (int)path.size, (const char *)path.data);
}

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* ---- the root ---- */

/* The top of the git work tree that the directory is in, or else the directory. */
static char *find_top(const char *directory)
{
    char *top = command_copy(directory), *slash;

    while ((slash = strrchr(top, '/')) != NULL) {
        char *mark = command_text("%s/.git", top);
        bool is_top = access(mark, F_OK) == 0;

        free(mark);
        if (is_top)
            return top;
        *slash = '\0';
    }
    free(top);
    return command_copy(directory);
}

/* The current directory is known by the name that the shell has for it, as compilers record it. */
static bool find_root(struct report *report, struct error *error)
{
    const char *given = option_text(report->options, OPTION_ROOT), *named = getenv("PWD");
    char *real = realpath(given != NULL ? given : ".", NULL), *here;
    struct stat status;

    here = named != NULL && named[0] == '/' && stat(".", &status) == 0 && file_is(named, &status)
               ? strdup(named)
               : getcwd(NULL, 0);
    exit_unless_allocated((real != NULL && here != NULL) || errno != ENOMEM, PATH_MAX);
    if (real != NULL && here != NULL)
        report->root = given != NULL ? command_copy(real) : find_top(real);
    report->sources->here = here;
    report->sources->root = report->root;
    free(real);
    return report->root != NULL ||
           (given != NULL
                ? error_set_errno(error, errno, "%s: not the root of a source tree; name one",
                                  given)
                : error_set_errno(error, errno,
                                  ".: no path leads to this directory; run it in another"));
}

/* ---- where a path leads to ---- */

/* Takes the path of a link to a file for that of the file. */
static void follow_link(struct buffer *path)
{
    char *text = text_of(buffer_view(path)), *real = NULL;
    struct stat status;

    if (lstat(text, &status) == 0 && S_ISLNK(status.st_mode))
        real = realpath(text, NULL);
    if (real != NULL) {
        path->size = 0;
        buffer_append(path, real, strlen(real));
    }
    free(real);
    free(text);
}

/* Compilers write such a path in a directory for builds. If the file is there from the current
 * directory, it is meant, as llvm-cov takes it. */
static bool leads_up(struct bytes path)
{
    static const struct bytes up = {(const uint8_t *)"..", 2};
    struct bytes rest;

    return source_is_below(path, up, &rest);
}

/* The path, or what is there of it, by its real name. Valid until the next call. */
static struct bytes real_path(struct source_files *sources, struct bytes path)
{
    struct bytes name = path;
    size_t size = (size_t)path.size;

    if (leads_up(path)) {
        char *text = command_text("%s/%.*s", sources->here, (int)size, (const char *)path.data);

        if (!file_is_missing(text, 0))
            path = real_path(sources, bytes_of(text));
        free(text);
        return path;
    }
    sources->path.size = 0;
    if (path.size == 0 || path.data[0] != '/')
        return path;
    while (size > 1 && path.data[size - 1] != '/')
        size--;
    name = (struct bytes){path.data + size, path.size - size};
    if (sources->directory == NULL || strlen(sources->directory) != size ||
        memcmp(sources->directory, path.data, size) != 0) {
        char *part = text_of((struct bytes){path.data, size}), *real;
        size_t left = size;

        free(sources->directory);
        free(sources->real);
        sources->directory = text_of((struct bytes){path.data, size});
        while ((real = realpath(part, NULL)) == NULL && left > 1) {
            exit_unless_allocated(errno != ENOMEM, PATH_MAX);
            for (left--; left > 1 && part[left - 1] != '/';)
                left--;
            part[left] = '\0';
        }
        sources->real = real == NULL ? command_copy(sources->directory)
                                     : command_text("%s/%.*s", strcmp(real, "/") == 0 ? "" : real,
                                                    (int)(size - left), path.data + left);
        free(real);
        free(part);
        size = strlen(sources->real);
        while (size > 0 && sources->real[size - 1] == '/')
            sources->real[--size] = '\0';
    }
    buffer_append(&sources->path, sources->real, strlen(sources->real));
    buffer_append(&sources->path, "/", 1);
    buffer_append(&sources->path, name.data, (size_t)name.size);
    follow_link(&sources->path);
    exit_unless_allocated(!sources->path.failed, sources->path.size);
    return buffer_view(&sources->path);
}

/* An absolute path; relative ones are below the root, but for those that lead up. A new string. */
static char *whole_path(struct source_files *sources, struct bytes path)
{
    if (leads_up(path))
        path = real_path(sources, path);
    return path.size == 0 || path.data[0] == '/'
               ? text_of(path)
               : command_text("%s/%.*s", sources->root, (int)path.size, (const char *)path.data);
}

/* True if the path is below the root. */
static bool is_below_root(struct source_files *sources, struct bytes path, struct bytes *rest)
{
    static const struct bytes here = {(const uint8_t *)".", 1};

    return source_is_below(path, here, rest) ||
           source_is_below(real_path(sources, path), bytes_of(sources->root), rest);
}

struct bytes sources_below_root(struct report *report, struct bytes path)
{
    struct bytes rest;

    return is_below_root(report->sources, path, &rest) && rest.size != 0 ? rest : path;
}

/* ---- which are in the report ---- */

static bool read_choice(struct source_files *sources, const struct parsed_options *options,
                        struct error *error)
{
    const char *text;

    for (size_t i = 0; (text = option_text_at(options, OPTION_INCLUDE, i)) != NULL; i++) {
        struct included included = {.text = text};
        char *real = realpath(text, NULL);
        char *named =
            text[0] == '/' ? command_copy(text) : command_text("%s/%s", sources->here, text);

        exit_unless_allocated(real != NULL || errno != ENOMEM, PATH_MAX);
        included.named = source_directory(bytes_of(named), &sources->memory);
        included.real =
            real == NULL ? included.named : source_directory(bytes_of(real), &sources->memory);
        COMMAND_ROOM_FOR_ONE(sources->included, sources->included_capacity, i);
        sources->included[sources->included_count++] = included;
        free(real);
        free(named);
    }
    for (size_t i = 0; (text = option_text_at(options, OPTION_IGNORE_FILES, i)) != NULL; i++) {
        char why[200];
        int result;

        COMMAND_ROOM_FOR_ONE(sources->ignored, sources->ignored_capacity, i);
        result = regcomp(&sources->ignored[i], text, REG_EXTENDED | REG_NOSUB);
        exit_unless_allocated(result != REG_ESPACE, strlen(text));
        sources->ignored_count += result == 0;
        if (result == 0)
            continue;
        regerror(result, &sources->ignored[i], why, sizeof(why));
        return error_set(error,
                         "--ignore-filename-regex '%s': not an extended regular expression: %s; "
                         "see regex(7)",
                         text, why);
    }
    exit_unless_allocated(!sources->memory.failed, sources->included_count);
    return true;
}

static bool is_included(struct source_files *sources, struct bytes path)
{
    char *text = whole_path(sources, path);
    struct bytes rest, whole = bytes_of(text);
    bool is_in = sources->included_count == 0 && is_below_root(sources, path, &rest);

    for (size_t i = 0; i < sources->included_count; i++) {
        struct included *included = &sources->included[i];

        if (included->named.size == 0 || source_is_below(whole, included->named, &rest) ||
            source_is_below(real_path(sources, whole), included->real, &rest))
            is_in = included->is_used = true;
    }
    free(text);
    return is_in;
}

/* A file with the mark of those that are left out would be left out, too. */
static bool check_names(const struct source_files *sources, struct error *error)
{
    static const struct bytes mark = {(const uint8_t *)SOURCES_LEFT_OUT,
                                      sizeof(SOURCES_LEFT_OUT) - 1};
    struct bytes start;

    for (size_t i = 0; i < sources->count; i++) {
        if (bytes_slice(sources->renamed[i], 0, mark.size, &start) && bytes_equal(start, mark))
            return error_set(error,
                             "%.*s: source files below a directory of this name are left out of "
                             "reports; give --path-map " SOURCES_LEFT_OUT "=TO",
                             (int)mark.size, SOURCES_LEFT_OUT);
    }
    return true;
}

/* Marks what is to be in the report. Without --include, if nothing is below the root, all is. */
static bool select_files(struct source_files *sources, const struct parsed_options *options,
                         bool *is_selected, struct error *error)
{
    bool is_told = sources->included_count != 0;
    size_t included = 0, selected = 0;

    for (size_t i = 0; i < sources->count; i++) {
        is_selected[i] = is_included(sources, sources->renamed[i]);
        included += is_selected[i];
    }
    for (size_t i = 0; i < sources->included_count; i++) {
        if (!sources->included[i].is_used)
            return error_set(error,
                             "%s: no source file of the report is there; name another directory",
                             sources->included[i].text);
    }
    for (size_t i = 0; i < sources->count; i++) {
        char *path = text_of(sources->renamed[i]);

        is_selected[i] |= included == 0;
        for (size_t k = 0; is_selected[i] && k < sources->ignored_count; k++)
            is_selected[i] = regexec(&sources->ignored[k], path, 0, NULL, 0) != 0;
        selected += is_selected[i];
        free(path);
    }
    if (selected == 0 && sources->count != 0)
        return error_set(error,
                         "--ignore-filename-regex '%s': leaves out all source files; give another",
                         option_text(options, OPTION_IGNORE_FILES));
    if (!is_told && included != 0 && included != sources->count)
        message_line(
            stderr,
            "covsplit: %zu of %zu source files are not below %s and left out; '--include /' "
            "shows all",
            sources->count - included, sources->count, sources->root);
    else if (!is_told && sources->count != 0 && included == 0)
        message_line(stderr,
                     "covsplit: no source file is below %s, so all are in the report; --root or "
                     "--path-map tell where they are",
                     sources->root);
    return true;
}

/* Names a source file that is not there, of those whose text is to be shown; llvm-cov would name
 * each, twice. */
static void check_texts(struct report *report, const bool *is_selected)
{
    const struct source_files *sources = report->sources;
    char *first = NULL, more[COUNT_TEXT_MAX];
    uint64_t missing = 0;

    for (size_t i = 0; i < sources->count; i++) {
        char *path = text_of(sources->renamed[i]);

        if (is_selected[i] && file_is_missing(path, 0) && missing++ == 0)
            first = command_copy(path);
        free(path);
    }
    report->sources_are_missing = missing != 0;
    if (missing == 1)
        message_warning("%s: is not there, so its text cannot be shown; if sources are elsewhere "
                        "here, give --path-map FROM=TO",
                        first);
    else if (missing != 0)
        message_warning("%s and %s: are not there, so their text cannot be shown; if sources are "
                        "elsewhere here, give --path-map FROM=TO",
                        first, count_text(missing - 1, "other source file", more));
    free(first);
}

/* ---- their names ---- */

static struct bytes keep(struct source_files *sources, struct bytes name)
{
    struct bytes kept = {arena_copy(&sources->memory, name), name.size};

    exit_unless_allocated(kept.data != NULL, name.size);
    return kept;
}

/* The path of a source file with --path-map, which names directories from the current one. */
static struct bytes mapped_path(struct source_files *sources, struct path_maps *maps,
                                struct bytes path)
{
    static const struct bytes here = {(const uint8_t *)".", 1};
    struct bytes mapped, rest;
    char *text;

    exit_unless_allocated(path_maps_apply(maps, path, &mapped), path.size);
    if (mapped.data == path.data || !source_is_below(mapped, here, &rest))
        return keep(sources, mapped);
    text = command_text("%s/%.*s", sources->here, (int)mapped.size, (const char *)mapped.data);
    if (!is_below_root(sources, bytes_of(text), &rest))
        rest = bytes_of(text);
    mapped = keep(sources, rest);
    free(text);
    return mapped;
}

/* Gives all ways to write one file the same name, an absolute one if there is one. */
static void unite_names(struct source_files *sources)
{
    size_t *first = command_array(sources->count, sizeof(*first));
    size_t *number = command_array(sources->count, sizeof(*number));
    struct names below = {0};

    for (size_t i = 0; i < sources->count; i++) {
        struct bytes path = sources->renamed[i], rest;
        uint64_t found = 0;
        size_t known = below.count;

        if (!is_below_root(sources, path, &rest))
            rest = path;
        exit_unless_allocated(names_add(&below, rest, &found), rest.size);
        number[i] = (size_t)found;
        if (found == known || (sources->renamed[first[found]].data[0] != '/' && path.size != 0 &&
                               path.data[0] == '/'))
            first[found] = i;
    }
    for (size_t i = 0; i < sources->count; i++)
        sources->renamed[i] = sources->renamed[first[number[i]]];
    names_free(&below);
    free(first);
    free(number);
}

/* In a tracefile, a line end in a name would make it that of another file. */
static void replace_line_ends(struct source_files *sources, size_t index)
{
    char *text = text_of(sources->renamed[index]), *end = text;
    bool has_any = false;

    for (; (end = strchr(end, '\n')) != NULL; has_any = true)
        *end = '?';
    if (has_any)
        sources->renamed[index] = keep(sources, bytes_of(text));
    free(text);
}

/* The name that a file has in the union. llvm-cov opens those whose text is shown; with --root, the
 * others are relative to it. */
static void set_name(struct report *report, size_t index, bool is_selected)
{
    struct source_files *sources = report->sources;
    struct bytes path = sources->renamed[index], rest;
    char *text = NULL;

    if (!is_selected)
        text = command_text(SOURCES_LEFT_OUT "%.*s", (int)path.size, (const char *)path.data);
    else if (report_shows_sources(report))
        text = whole_path(sources, path);
    if (text != NULL)
        sources->renamed[index] = keep(sources, bytes_of(text));
    else if (option_given(report->options, OPTION_ROOT) && !report_shows_sources(report) &&
             is_below_root(sources, path, &rest) && rest.size != 0)
        sources->renamed[index] = keep(sources, rest);
    free(text);
    if (!report_shows_sources(report))
        replace_line_ends(sources, index);
}

bool sources_rename(void *report, struct bytes path, struct bytes *name)
{
    struct source_files *sources = ((struct report *)report)->sources;
    uint64_t number = 0;

    if (!names_add(&sources->paths, path, &number))
        return false;
    *name = number < sources->count ? sources->renamed[number] : path;
    return true;
}

/* ---- the whole ---- */

bool sources_choose(struct report *report, struct error *error)
{
    struct source_files *sources = report->sources = command_array(1, sizeof(*report->sources));
    struct digest_set units = {0};
    bool *is_selected,
        done = find_root(report, error) && read_choice(sources, report->options, error);

    for (size_t i = 0; done && i < report->image_count; i++)
        done = covered_files_read(report->images[i].sidecar, &units, &sources->paths, error);
    digest_set_free(&units);
    if (!done)
        return false;
    sources->count = sources->paths.count;
    sources->renamed = command_array(sources->count, sizeof(*sources->renamed));
    is_selected = command_array(sources->count, sizeof(*is_selected));
    for (size_t i = 0; i < sources->count; i++) {
        struct bytes path = names_get(&sources->paths, i), end;

        sources->renamed[i] = mapped_path(sources, report->maps, path);
        report->has_rust |=
            bytes_slice(path, path.size - 3, 3, &end) && memcmp(end.data, ".rs", 3) == 0;
    }
    unite_names(sources);
    done =
        check_names(sources, error) && select_files(sources, report->options, is_selected, error);
    for (size_t i = 0; done && i < sources->count; i++)
        set_name(report, i, is_selected[i]);
    if (done && report_shows_sources(report))
        check_texts(report, is_selected);
    free(is_selected);
    return done;
}

void sources_free(struct source_files *sources)
{
    if (sources == NULL)
        return;
    for (size_t i = 0; i < sources->ignored_count; i++)
        regfree(&sources->ignored[i]);
    free(sources->ignored);
    free(sources->included);
    free(sources->here);
    free(sources->renamed);
    free(sources->directory);
    free(sources->real);
    buffer_free(&sources->path);
    names_free(&sources->paths);
    arena_free(&sources->memory);
    free(sources);
}
