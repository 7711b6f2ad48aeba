/*
 * Walking through stores: see store.h.
 *
 * There are only 256 directories in which sidecars are searched, so they are opened by name, in
 * order, and one of them is listed and sorted at a time. Sorting the names as text sorts the UUIDs
 * as bytes, since hexadecimal digits are in lower case and '.' sorts before all of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/directory.h"
#include "common/base/output.h"
#include "common/store/store.h"

#define DIRECTORY_COUNT 256

struct walk {
    const char *root; /* DIR/.build-id */
    store_entry_visitor visit;
    void *context;
};

/* ---- the names of one directory ---- */

/* Whether this is the temporary name of an unfinished sidecar. */
static bool is_temporary(const char *name)
{
    size_t length = file_temporary_final_length(name);

    return length >= strlen(STORE_SUFFIX) && memcmp(name + 1 + length - strlen(STORE_SUFFIX),
                                                    STORE_SUFFIX, strlen(STORE_SUFFIX)) == 0;
}

static bool is_of_interest(const char *name)
{
    return store_has_suffix(name) || is_temporary(name);
}

/* ---- the directories ---- */

static bool visit_entry(const struct walk *walk, const char *directory, const char *name,
                        struct store_entry *entry, struct error *error)
{
    char *path;
    bool done;

    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return error_out_of_memory(error, directory, strlen(name));
    entry->path = path;
    done = walk->visit(walk->context, entry, error);
    free(path);
    return done;
}

/* Visits the directory of the UUIDs with this first byte. */
static bool visit_directory(const struct walk *walk, uint8_t first, struct error *error)
{
    struct directory_names names;
    char *path;
    bool done;

    if (asprintf(&path, "%s/%02x", walk->root, first) < 0)
        return error_out_of_memory(error, walk->root, strlen(walk->root));
    done = store_read_names(path, is_of_interest, &names, error);
    for (size_t i = 0; done && i < names.count; i++) {
        struct store_entry entry = {.kind = STORE_STRAY};

        if (store_parse_name(names.items[i], first, &entry.uuid))
            entry.kind = STORE_SIDECAR;
        else if (is_temporary(names.items[i]))
            entry.kind = STORE_TEMPORARY;
        done = visit_entry(walk, path, names.items[i], &entry, error);
    }
    directory_names_free(&names);
    free(path);
    return done;
}

static bool visit_strays(const struct walk *walk, const char *directory,
                         const struct directory_names *names, struct error *error)
{
    for (size_t i = 0; i < names->count; i++) {
        struct store_entry entry = {.kind = STORE_STRAY};

        if (is_of_interest(names->items[i]) &&
            !visit_entry(walk, directory, names->items[i], &entry, error))
            return false;
    }
    return true;
}

static bool is_directory_of_searches(const char *name)
{
    struct uuid uuid;
    char hex[UUID_HEX_MAX];

    return strlen(name) == 2 && uuid_parse(name, &uuid) &&
           strcmp(uuid_format(&uuid, hex), name) == 0;
}

/* Visits what is next to these directories, and in directories with other names. */
static bool visit_rest(const struct walk *walk, struct error *error)
{
    struct directory_names names;
    bool done = store_read_names(walk->root, NULL, &names, error) &&
                visit_strays(walk, walk->root, &names, error);

    for (size_t i = 0; done && i < names.count; i++) {
        struct directory_names inside = {0};
        char *path;

        if (is_directory_of_searches(names.items[i]))
            continue;
        if (asprintf(&path, "%s/%s", walk->root, names.items[i]) < 0) {
            done = error_out_of_memory(error, walk->root, strlen(names.items[i]));
            break;
        }
        done = store_read_names(path, is_of_interest, &inside, error) &&
               visit_strays(walk, path, &inside, error);
        directory_names_free(&inside);
        free(path);
    }
    directory_names_free(&names);
    return done;
}

/* ---- the whole ---- */

static bool check_directory(const char *directory, struct error *error)
{
    struct stat status;

    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", directory);
    return S_ISDIR(status.st_mode) ||
           error_set(error, "%s: not a directory; give the directory of a store", directory);
}

static bool visit_directories(const char *directory, bool sidecars_only, store_entry_visitor visit,
                              void *context, struct error *error)
{
    struct walk walk = {.visit = visit, .context = context};
    char *root = store_root(directory);
    bool done;

    walk.root = root;
    if (root == NULL)
        return error_out_of_memory(error, directory, strlen(directory));
    done = check_directory(directory, error);
    for (unsigned first = 0; done && first < DIRECTORY_COUNT; first++)
        done = visit_directory(&walk, (uint8_t)first, error);
    done = done && (sidecars_only || visit_rest(&walk, error));
    free(root);
    return done;
}

bool store_scan(const char *directory, store_entry_visitor visit, void *context,
                struct error *error)
{
    return visit_directories(directory, false, visit, context, error);
}

struct sidecar_visit {
    store_visitor visit;
    void *context;
};

static bool visit_sidecar(void *context, const struct store_entry *entry, struct error *error)
{
    const struct sidecar_visit *visit = context;

    return entry->kind != STORE_SIDECAR ||
           visit->visit(visit->context, entry->path, &entry->uuid, error);
}

bool store_walk(const char *directory, store_visitor visit, void *context, struct error *error)
{
    struct sidecar_visit sidecars = {visit, context};

    return visit_directories(directory, true, visit_sidecar, &sidecars, error);
}

/* ---- lists ---- */

struct list_walk {
    const struct store_list *list;
    size_t directory; /* the index of the current one */
    store_visitor visit;
    void *context;
};

/* Skips sidecars that are hidden by one in an earlier directory. */
static bool visit_unless_hidden(void *context, const char *path, const struct uuid *uuid,
                                struct error *error)
{
    const struct list_walk *walk = context;
    const struct store_list ahead = {.directories = walk->list->directories,
                                     .count = walk->directory};
    struct store_match match = {0};
    bool done = store_list_find(&ahead, uuid, STORE_EXACT, &match, error);
    bool is_hidden = match.path != NULL;

    free(match.path);
    return done && (is_hidden || walk->visit(walk->context, path, uuid, error));
}

bool store_list_walk(const struct store_list *list, store_visitor visit, void *context,
                     struct error *error)
{
    struct list_walk walk = {.list = list, .visit = visit, .context = context};
    bool done = true;

    for (; done && walk.directory < list->count; walk.directory++) {
        const char *directory = list->directories[walk.directory];

        if (!file_is_missing(directory, 0))
            done = store_walk(directory, visit_unless_hidden, &walk, error);
    }
    return done;
}
