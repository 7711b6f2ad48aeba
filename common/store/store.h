/*
 * Stores: directories of sidecars, found by UUID.
 *
 * The layout is the one in which debuggers and llvm-cov look for debug files by build ID, so that a
 * store can stand beside those.
 */
#ifndef COVSPLIT_COMMON_STORE_STORE_H
#define COVSPLIT_COMMON_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/directory.h"
#include "common/base/error.h"
#include "common/base/uuid.h"

/* The environment variable with the directories to look in: a list with ':' between. */
#define STORE_ENVIRONMENT "COVSPLIT_STORE"

/* DIRECTORY/.build-id/ab/cdef....covsplit as a new string; NULL if out of memory. The UUID
 * must not be empty. */
char *store_path(const char *directory, const struct uuid *uuid);

/* How a UUID in a store must be like the one that is looked for. */
enum store_query {
    STORE_EXACT,  /* the same */
    STORE_PREFIX, /* begin with it */
    STORE_STUB,   /* have it for its stub (uuid.h), all UUID_STUB_SIZE bytes of it */
};

/* The sidecar that a search found. Initialize to {0}; `path` is the caller's to free. */
struct store_match {
    struct uuid uuid;
    char *path; /* NULL: none yet */
};

/* Looks in one directory more. The first sidecar of a UUID wins; one of another UUID that fits as
 * well is an error that names both. Finding nothing is none, also if there is no such directory.
 * The UUID must not be empty. */
bool store_find(const char *directory, const struct uuid *uuid, enum store_query query,
                struct store_match *match, struct error *error);

/* ---- lists of stores ---- */

/* Directories to look in, in this order. Closed with store_list_close; {0} is one without any. */
struct store_list {
    char *text; /* the directories, each with a NUL behind it */
    char **directories;
    size_t count, capacity;
};

/* Takes one directory, or a list with ':' between. Closed also after a failure. */
bool store_list_open(struct store_list *list, const char *text, bool is_list, struct error *error);
void store_list_close(struct store_list *list);

/* As store_find, in all of them. */
bool store_list_find(const struct store_list *list, const struct uuid *uuid, enum store_query query,
                     struct store_match *match, struct error *error);

/* The sidecar of that UUID, or of the only one that begins so. NULL with an error where there is
 * none, as below. */
struct store_match store_list_find_only(const struct store_list *list, const struct uuid *uuid,
                                        struct error *error);

/* The error for where that finds nothing; `name` is of what wants the sidecar, or NULL. Returns
 * false. */
bool store_list_not_found(const struct store_list *list, const struct uuid *uuid, const char *name,
                          struct error *error);

/* Whether the sidecar at the path, which is of `uuid`, is named after that. */
bool store_check_uuid(const char *path, const struct uuid *uuid, const struct uuid *named,
                      struct error *error);

/* ---- all that is in a store ---- */

/* What a file in a store is, by its place and name alone. */
enum store_entry_kind {
    STORE_SIDECAR,   /* DIR/.build-id/ab/cdef....covsplit, as store_path spells it: searches find it
                      */
    STORE_TEMPORARY, /* what a writer works on (file.h), or has left there when it was killed */
    STORE_STRAY,     /* named *.covsplit, but where no search looks */
};

/* Lives during the call that it is given to. */
struct store_entry {
    enum store_entry_kind kind;
    const char *path;
    struct uuid uuid; /* of a sidecar: the one it is named after */
};

/* Looks at an entry, which may be gone by now: others write to stores and clean them up at any
 * time. False, with an error, ends the walk. */
typedef bool (*store_entry_visitor)(void *context, const struct store_entry *entry,
                                    struct error *error);

/* Visits everything in the store that has to do with sidecars; files of other tools are passed
 * over. Sidecars come in the order of their UUIDs (bytes; a UUID before the longer ones that begin
 * with it), and the order of the rest is the same each time too. Takes as much memory as the names
 * of one directory `ab` do, so the visit may add and remove entries. Fails if the directory does
 * not exist or one in it cannot be read. */
bool store_scan(const char *directory, store_entry_visitor visit, void *context,
                struct error *error);

/* The same for sidecars alone: path and UUID live during the call. */
typedef bool (*store_visitor)(void *context, const char *path, const struct uuid *uuid,
                              struct error *error);
bool store_walk(const char *directory, store_visitor visit, void *context, struct error *error);

/* The same for all stores of a list, of which those that do not exist are empty: only the sidecars
 * that store_list_find finds, so that a UUID comes once. */
bool store_list_walk(const struct store_list *list, store_visitor visit, void *context,
                     struct error *error);

/* ---- names ---- */

#define STORE_SUFFIX ".covsplit"

/* DIRECTORY/.build-id as a new string; NULL if out of memory. */
char *store_root(const char *directory);

/* The names in a directory of a store (directory.h); none where it is no directory, or gone. */
bool store_read_names(const char *path, bool (*filter)(const char *name),
                      struct directory_names *names, struct error *error);

/* Reads the UUID of the sidecar that has this name in the directory of the UUID's first byte. False
 * if store_path makes no such name. */
bool store_parse_name(const char *name, uint8_t first, struct uuid *uuid);

#endif
