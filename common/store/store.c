/*
 * Stores: see store.h.
 */
#include "common/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/output.h"

#define BUILD_ID_DIRECTORY ".build-id"

/* ---- names ---- */

bool store_is_url(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

bool store_check_directory(const char *store, struct error *error)
{
    size_t scheme =
        strspn(store, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");

    return scheme == 0 || strncmp(store + scheme, "://", 3) != 0 ||
           error_set(
               error,
               "%s: a URL, of which sidecars are read one by one; give a directory, which can "
               "be copied there",
               store);
}

char *store_root(const char *directory)
{
    size_t length = strlen(directory);
    const char *separator = length != 0 && directory[length - 1] == '/' ? "" : "/";
    char *root;

    return asprintf(&root, "%s%s" BUILD_ID_DIRECTORY, directory, separator) < 0 ? NULL : root;
}

char *store_path(const char *directory, const struct uuid *uuid)
{
    char hex[UUID_HEX_MAX];
    char *root = store_root(directory), *path = NULL;

    uuid_format(uuid, hex);
    if (root != NULL && asprintf(&path, "%s/%.2s/%s" STORE_SUFFIX, root, hex, hex + 2) < 0)
        path = NULL;
    free(root);
    return path;
}

bool store_has_suffix(const char *name)
{
    size_t length = strlen(name), suffix = strlen(STORE_SUFFIX);

    return length >= suffix && strcmp(name + length - suffix, STORE_SUFFIX) == 0;
}

bool store_parse_name(const char *name, uint8_t first, struct uuid *uuid)
{
    char hex[UUID_HEX_MAX], canonical[UUID_HEX_MAX];
    size_t length = strlen(name) - strlen(STORE_SUFFIX);

    if (!store_has_suffix(name) || length + 3 > sizeof(hex))
        return false;
    snprintf(hex, sizeof(hex), "%02x%.*s", first, (int)length, name);
    return uuid_parse(hex, uuid) && strcmp(uuid_format(uuid, canonical), hex) == 0;
}

bool store_read_names(const char *path, bool (*filter)(const char *name),
                      struct directory_names *names, struct error *error)
{
    if (directory_names_read(path, filter, names, error))
        return true;
    if (error->number != ENOENT && error->number != ENOTDIR)
        return false;
    directory_names_free(names);
    return true;
}

/* ---- searches ---- */

bool store_uuid_fits(const struct uuid *found, const struct uuid *wanted, enum store_query query)
{
    if (query == STORE_EXACT)
        return uuid_equal(found, wanted);
    if (query == STORE_STUB)
        return uuid_has_stub(found, wanted->bytes);
    return found->size >= wanted->size && memcmp(found->bytes, wanted->bytes, wanted->size) == 0;
}

bool store_is_ambiguous(const char *path, const char *other, struct error *error)
{
    return error_set(error, "%s: fits as well as %s; give more digits of the UUID, or --sidecar",
                     path, other);
}

/* Adds a sidecar that was found, under the rules of store_find. Takes ownership of the path. */
static bool add_match(struct store_match *match, const struct uuid *uuid, char *path,
                      struct error *error)
{
    bool done = path != NULL || error_out_of_memory(error, "the store", UUID_HEX_MAX);

    if (done && match->path == NULL) {
        *match = (struct store_match){*uuid, path};
        return true;
    }
    done = done && (uuid_equal(&match->uuid, uuid) || store_is_ambiguous(path, match->path, error));
    free(path);
    return done;
}

bool store_find(const char *directory, const struct uuid *uuid, enum store_query query,
                struct store_match *match, struct error *error)
{
    char *path = store_path(directory, uuid);
    struct directory_names names = {0};
    bool done = path != NULL || error_out_of_memory(error, directory, UUID_HEX_MAX);

    /* A file that exists but cannot be used counts as found; opening it will report what is wrong.
     */
    if (done && query == STORE_EXACT && !file_is_missing(path, 0))
        return add_match(match, uuid, path, error);
    if (done && query != STORE_EXACT) {
        *strrchr(path, '/') = '\0'; /* the directory of the UUID's first byte */
        done = store_read_names(path, NULL, &names, error);
    }
    for (size_t i = 0; done && i < names.count; i++) {
        struct uuid found;

        if (store_parse_name(names.items[i], uuid->bytes[0], &found) &&
            store_uuid_fits(&found, uuid, query))
            done = add_match(match, &found, store_path(directory, &found), error);
    }
    directory_names_free(&names);
    free(path);
    return done;
}

bool store_check_uuid(const char *path, const struct uuid *uuid, const struct uuid *named,
                      struct error *error)
{
    char hex[UUID_HEX_MAX];

    return uuid_equal(uuid, named) ||
           error_set(error,
                     "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                     "where it belongs",
                     path, uuid_format(uuid, hex));
}

/* ---- walks ----
 *
 * There are only 256 directories in which sidecars are searched, so they are opened by name, in
 * order, and one of them is listed and sorted at a time. Sorting the names as text sorts the UUIDs
 * as bytes, since hexadecimal digits are in lower case and '.' sorts before all of them. */

#define DIRECTORY_COUNT 256

/* The directory of no UUIDs: all in it are strays. */
#define DIRECTORY_OTHER DIRECTORY_COUNT

static bool is_temporary(const char *name)
{
    size_t length = file_temporary_final_length(name);
    const char *missing = strstr(name, STORE_SUFFIX STORE_MISSING_SUFFIX);

    if (missing != NULL && strcmp(missing, STORE_SUFFIX STORE_MISSING_SUFFIX) == 0)
        return true;
    return length >= strlen(STORE_SUFFIX) && memcmp(name + 1 + length - strlen(STORE_SUFFIX),
                                                    STORE_SUFFIX, strlen(STORE_SUFFIX)) == 0;
}

static bool is_of_interest(const char *name)
{
    return store_has_suffix(name) || is_temporary(name);
}

/* Visits the directory of the UUIDs with this first byte, or another one, by its name below the
 * root; "" is the root itself. */
static bool visit_directory(const char *root, const char *name, unsigned first,
                            store_entry_visitor visit, void *context, struct error *error)
{
    struct directory_names names = {0};
    char *directory, *path;
    bool done = asprintf(&directory, "%s%s%s", root, name[0] == '\0' ? "" : "/", name) >= 0;

    if (!done)
        return error_out_of_memory(error, root, strlen(name));
    done = store_read_names(directory, is_of_interest, &names, error);
    for (size_t i = 0; done && i < names.count; i++) {
        struct store_entry entry = {.kind = STORE_STRAY};

        if (first != DIRECTORY_OTHER &&
            store_parse_name(names.items[i], (uint8_t)first, &entry.uuid))
            entry.kind = STORE_SIDECAR;
        else if (first != DIRECTORY_OTHER && is_temporary(names.items[i]))
            entry.kind = STORE_TEMPORARY;
        if (asprintf(&path, "%s/%s", directory, names.items[i]) < 0) {
            done = error_out_of_memory(error, directory, strlen(names.items[i]));
            break;
        }
        entry.path = path;
        done = visit(context, &entry, error);
        free(path);
    }
    directory_names_free(&names);
    free(directory);
    return done;
}

static bool visit_directories(const char *directory, bool sidecars_only, store_entry_visitor visit,
                              void *context, struct error *error)
{
    struct directory_names others = {0};
    struct stat status;
    char *root, name[12];
    bool done = true;

    if (!store_check_directory(directory, error))
        return false;
    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", directory);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, "%s: not a directory; give the directory of a store", directory);
    root = store_root(directory);
    if (root == NULL)
        return error_out_of_memory(error, directory, strlen(directory));
    for (unsigned first = 0; done && first < DIRECTORY_COUNT; first++) {
        snprintf(name, sizeof(name), "%02x", first);
        done = visit_directory(root, name, first, visit, context, error);
    }
    /* Then what is next to these directories, and in directories with other names. */
    done = done &&
           (sidecars_only || (visit_directory(root, "", DIRECTORY_OTHER, visit, context, error) &&
                              store_read_names(root, NULL, &others, error)));
    for (size_t i = 0; done && i < others.count; i++) {
        const char *other = others.items[i];

        done = (strlen(other) == 2 && strspn(other, "0123456789abcdef") == 2) ||
               visit_directory(root, other, DIRECTORY_OTHER, visit, context, error);
    }
    directory_names_free(&others);
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

/* ---- writing ---- */

/* What something new may get of the permissions of the directory that it is in, besides its own:
 * those of the group, if that is the same, and of others, but for writing. */
static mode_t mode_shared(const struct stat *own, const struct stat *directory)
{
    mode_t group = own->st_gid == directory->st_gid ? S_IRWXG : 0;

    return directory->st_mode & (group | S_IROTH | S_IXOTH);
}

/* Who may use a store must not depend on the umask of whoever adds to it first: what is new in it
 * has the permissions of the directory that it is in, besides those that the umask leaves. The
 * directory of the store itself has them only if it is made in one that is set-group-ID, which is
 * how a group shares a directory. */
static bool share_directory(const char *path)
{
    char parent[PATH_MAX];
    struct stat own, above;
    bool is_inside;
    mode_t mode;

    if (!path_directory(path, parent) || stat(parent, &above) != 0 || stat(path, &own) != 0)
        return false;
    is_inside = strcmp(path_file_name(path), BUILD_ID_DIRECTORY) == 0 ||
                strcmp(path_file_name(parent), BUILD_ID_DIRECTORY) == 0;
    mode = own.st_mode & PERMISSION_BITS;
    if (is_inside || (above.st_mode & S_ISGID) != 0)
        mode |= mode_shared(&own, &above);
    return mode == (own.st_mode & PERMISSION_BITS) || chmod(path, mode) == 0;
}

/* The same for a file, which nobody needs to write to: it is replaced. */
static bool share_output(struct output *output, struct error *error)
{
    char parent[PATH_MAX];
    struct stat own, above;

    if (!path_directory(output->target, parent) || stat(parent, &above) != 0 ||
        fstat(output->fd, &own) != 0) {
        error_set_errno(error, errno, "%s: cannot be created", output->path);
        output_discard(output);
        return false;
    }
    output->mode |= mode_shared(&own, &above) & (S_IRUSR | S_IRGRP | S_IROTH);
    return true;
}

/* A new directory only survives a power failure once its parent has been synced. */
bool store_make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST || error_set_errno(error, errno, "%s: cannot be created", path);
    if (!share_directory(path))
        error_set_errno(error, errno, "%s: cannot be created with the permissions that it needs",
                        path);
    else if (path_sync_name(path))
        return true;
    else
        error_set_errno(error, errno, "%s: cannot be created: its directory cannot be synced",
                        path);
    rmdir(path);
    return false;
}

/* Where all else has a hidden name, people are told what it is. Nothing depends on this file. */
static void write_readme(const char *root)
{
    static const char text[] =
        "This is a store of covsplit. Below .build-id it has sidecars: the coverage data of "
        "images,\n"
        "each under the UUID of its image, which reports and 'covsplit join' need.\n"
        "\n"
        "    covsplit store list .       lists them\n"
        "    covsplit store check .      checks them\n"
        "    covsplit store gc --help    says how to remove those that are no longer needed\n";
    const struct output_options options = {.mode = file_new_mode(), .needs_no_sync = true};
    const struct bytes view = {(const uint8_t *)text, sizeof(text) - 1};
    struct output output = {.fd = -1};
    enum output_result result;
    struct error ignored = {0};
    char *path = NULL;

    if (asprintf(&path, "%.*sREADME", (int)(strlen(root) - strlen(BUILD_ID_DIRECTORY)), root) < 0)
        return;
    if (output_create(&output, path, &options, &ignored) && share_output(&output, &ignored) &&
        output_write(&output, view, &ignored))
        output_try_commit(&output, false, &result, &ignored);
    output_discard(&output);
    free(path);
}

/* Creates the directories of a path in a store: DIR, DIR/.build-id and DIR/.build-id/ab. */
static bool make_directories(const char *path, struct error *error)
{
    char *directory = strdup(path);
    bool done = store_check_directory(path, error);

    if (directory == NULL)
        return error_out_of_memory(error, path, strlen(path));
    for (char *slash = strchr(directory + 1, '/'); done && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        /* Before the directory: whoever is killed in between, the next one writes it. */
        if (strcmp(path_file_name(directory), BUILD_ID_DIRECTORY) == 0 && store_has_suffix(path) &&
            file_is_missing(directory, 0))
            write_readme(directory);
        done = store_make_directory(directory, error);
        *slash = '/';
    }
    free(directory);
    return done;
}

/* True if a step failed because a cleaner removed a new directory, and should be tried again.
 * Pauses before that, a little longer each time, to let the cleaner finish. */
static bool try_again(unsigned attempt, const struct error *error)
{
    struct timespec pause = {.tv_nsec = 100000L * attempt};

    if (error->number != ENOENT || attempt == STORE_ATTEMPTS)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error)
{
    unsigned attempt = 0;
    bool done;

    do
        done = make_directories(path, error) && output_create(output, path, options, error) &&
               share_output(output, error);
    while (!done && try_again(attempt++, error));
    return done;
}

bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error)
{
    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS; attempt++) {
        if (!output_try_commit(output, replace, result, error))
            return false;
        if (*result != OUTPUT_NO_DIRECTORY)
            return true;
        if (!make_directories(output->path, error) && !try_again(attempt, error))
            return false;
    }
    return error_set(error, "%s: other processes keep removing its directory; run again later",
                     output->path);
}
