/*
 * Stores: directories of sidecars, found by UUID.
 *
 * The layout is the one that debuggers and llvm-cov use to find debug files by build ID, so a store
 * can share its directory with these.
 */
#ifndef COVSPLIT_COMMON_STORE_STORE_H
#define COVSPLIT_COMMON_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/uuid.h"

/* DIRECTORY/.build-id/ab/cdef....covsplit as a new string; NULL if out of memory. The UUID
 * must not be empty. */
char *store_path(const char *directory, const struct uuid *uuid);

/* The relation of a UUID in a store to the wanted one. */
enum store_query {
    STORE_EXACT,  /* it must be the same */
    STORE_PREFIX, /* it must begin with the wanted bytes */
    STORE_STUB,   /* it must begin with the wanted UUID_STUB_SIZE bytes, padded with zeros */
};

/* The sidecar that a search found. Initialize to {0}; the caller frees `path`. */
struct store_match {
    struct uuid uuid;
    char *path; /* NULL: none yet */
};

/* True if a UUID that was found matches the wanted one. */
bool store_uuid_fits(const struct uuid *found, const struct uuid *wanted, enum store_query query);

/* Sets the error for two sidecars of different UUIDs that match. Returns false. */
bool store_is_ambiguous(const char *path, const char *other, struct error *error);

/* Searches another directory. The first sidecar of a UUID wins; if a sidecar of another UUID
 * matches too, that is an error whose message names both. It is not an error if nothing is found,
 * or if the directory does not exist. The UUID must not be empty. */
bool store_find(const char *directory, const struct uuid *uuid, enum store_query query,
                struct store_match *match, struct error *error);

/* Checks that the sidecar at `path`, whose UUID is `uuid`, is named after it. */
bool store_check_uuid(const char *path, const struct uuid *uuid, const struct uuid *named,
                      struct error *error);

/* ---- everything in a store ---- */

/* The kind of a file in a store, judged by its path alone. */
enum store_entry_kind {
    STORE_SIDECAR,   /* DIR/.build-id/ab/cdef....covsplit, exactly as from store_path */
    STORE_TEMPORARY, /* an unfinished output (output.h), possibly left by a killed process; or a
                        note that a sidecar is missing (remote/remote.h) */
    STORE_STRAY,     /* named *.covsplit, but where no search finds it */
};

/* Valid during the call that it is passed to. */
struct store_entry {
    enum store_entry_kind kind;
    const char *path;
    struct uuid uuid; /* of a sidecar: the one it is named after */
};

/* Receives an entry. It may have been removed already, since other processes write to stores and
 * clean them up at any time. To stop, it sets the error and returns false. */
typedef bool (*store_entry_visitor)(void *context, const struct store_entry *entry,
                                    struct error *error);

/* Visits everything in the store that has to do with sidecars; files of other tools are skipped.
 * Sidecars are visited in the order of their UUIDs (compared as bytes; a prefix first), and the
 * order of the rest is always the same too. The names of one directory `ab` are held in memory at a
 * time, so the visitor may add and remove entries. Fails if the directory does not exist, or if one
 * in it cannot be read. */
bool store_scan(const char *directory, store_entry_visitor visit, void *context,
                struct error *error);

/* The same for sidecars alone. Path and UUID are valid during the call. */
typedef bool (*store_visitor)(void *context, const char *path, const struct uuid *uuid,
                              struct error *error);
bool store_walk(const char *directory, store_visitor visit, void *context, struct error *error);

/* ---- names ---- */

#define STORE_SUFFIX ".covsplit"

/* Added to the name of a sidecar that is not at the URL which the store is a cache of. */
#define STORE_MISSING_SUFFIX ".missing"

/* True if a name or path ends so. */
bool store_has_suffix(const char *name);

/* DIRECTORY/.build-id as a new string; NULL if out of memory. */
char *store_root(const char *directory);

/* Reads the names in a directory of a store (file.h); none if it is not a directory, or gone.
 */
bool store_read_names(const char *path, bool (*filter)(const char *name),
                      struct directory_names *names, struct error *error);

/* Reads a UUID from its first byte, which is the directory's name, and the sidecar's file name.
 * False if store_path makes no such name. */
bool store_parse_name(const char *name, uint8_t first, struct uuid *uuid);

/* ---- writing ----
 *
 * Many processes modify a store at the same time: parallel builds, on several machines, and
 * cleaners. There are no lock files. A name is taken by link(2); the file system guarantees that
 * only one process succeeds. Missing directories are created, and created again if a cleaner has
 * removed them because they were empty. */

/* The number of times that a step is tried if other processes undo it. Each of these has made
 * progress in the meantime, so some processes always succeed. */
#define STORE_ATTEMPTS 100

/* True of a text that begins as http:// and https:// URLs do. A store there is read (remote.h), and
 * never written or listed. */
bool store_is_url(const char *text);

/* Fails if it is a URL, of any scheme: a directory of that name is not what was meant. */
bool store_check_directory(const char *store, struct error *error);

/* Makes a directory of a store, for those who may use the one that it is in. */
bool store_make_directory(const char *path, struct error *error);

/* Like output_create, for a path in a store; creates its directories. Who may read the directory
 * may read the file, whatever options->mode says. */
bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error);

/* Like output_try_commit, for such an output; the result is never OUTPUT_NO_DIRECTORY. */
bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error);

#endif
