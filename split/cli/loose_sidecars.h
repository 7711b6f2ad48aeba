/*
 * Finds the *.covsplit files of a directory by UUID.
 *
 * In a store, the name of a sidecar is its UUID. In any other directory the UUID has to be read
 * from each file. That is done for the whole directory at the first search in it: the front of each
 * file is read, and the list is sorted by UUID. A search is then a binary search, so that finding
 * thousands of sidecars among thousands stays cheap.
 *
 * A match is only a candidate. The caller opens it and checks that it is an intact sidecar and the
 * right one. All functions can be called by several threads at the same time.
 */
#ifndef COVSPLIT_SPLIT_CLI_LOOSE_SIDECARS_H
#define COVSPLIT_SPLIT_CLI_LOOSE_SIDECARS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/store/store.h"
#include "split/cli/path_list.h"

struct loose_sidecars;

/* `files` can be searched like the files of a directory, whatever their names are; the list must
 * outlive the result. Returns NULL with an error if out of memory. Free with loose_sidecars_free
 * (NULL is allowed). */
struct loose_sidecars *loose_sidecars_new(const struct path_list *files, struct error *error);
void loose_sidecars_free(struct loose_sidecars *loose);

/* Passed as the directory, this means `files`. */
#define LOOSE_FILES ""

/* Matches, in the order of their UUIDs. Those with the same UUID are in the order of their names
 * (in LOOSE_FILES, in the order of the list). Initialize to {0}; free with loose_matches_free. */
struct loose_matches {
    struct store_match *items;
    size_t count, capacity;
};

bool loose_matches_add(struct loose_matches *matches, const struct uuid *uuid, const char *path,
                       struct error *error);
void loose_matches_free(struct loose_matches *matches);

/* Adds the files of the directory whose UUID fits. Nothing is added if there is no such directory.
 * If the directory or a file in it cannot be read, that is a fault (see below), not an error.
 * Returns false only if there is no memory. */
bool loose_find(struct loose_sidecars *loose, const char *directory, const struct uuid *uuid,
                enum store_query query, struct loose_matches *matches, struct error *error);

/* Adds all files of the directory that have a UUID. */
bool loose_list(struct loose_sidecars *loose, const char *directory, struct loose_matches *matches,
                struct error *error);

/* What could not be read. */
struct loose_faults {
    size_t count;
    struct error first; /* why the first one could not, by name */
};

/* Adds the faults of a directory that was searched. `first` stays if there are faults already. */
void loose_add_faults(struct loose_sidecars *loose, const char *directory,
                      struct loose_faults *faults);

/* Reads the directory again if it may have changed since it was read. For commands that run for a
 * long time. */
bool loose_renew(struct loose_sidecars *loose, const char *directory, struct error *error);

#endif
