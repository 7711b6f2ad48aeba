/*
 * Sidecars that lie about: the *.covsplit files of a directory, found by UUID.
 *
 * In a store a sidecar's name is made of its UUID; anywhere else the name says nothing, and the
 * UUID has to be read out of the file. That is done for a whole directory when something is first
 * looked for in it: what is read is the front of each file, and what is kept is sorted by UUID, so
 * that thousands of searches among thousands of sidecars cost no more than their number.
 *
 * What is found is only worth to be opened: whether it is a sidecar, whole, and the one that is
 * wanted, the caller has to see. All functions can be called by several threads.
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

/* `files` are looked through as if they were all that one directory has; they must outlive the
 * result. NULL with an error where there is no memory. Freed with loose_sidecars_free (NULL
 * allowed). */
struct loose_sidecars *loose_sidecars_new(const struct path_list *files, struct error *error);
void loose_sidecars_free(struct loose_sidecars *loose);

/* Stands for the files in the place of a directory. */
#define LOOSE_FILES NULL

/* What was found: matches in the order of their UUIDs, those of one UUID in the order of their
 * names (of files: as they were given). Starts as {0}; freed with loose_matches_free. */
struct loose_matches {
    struct store_match *items;
    size_t count, capacity;
};

bool loose_matches_add(struct loose_matches *matches, const struct uuid *uuid, const char *path,
                       struct error *error);
void loose_matches_free(struct loose_matches *matches);

/* Adds the files of a directory that may be sidecars of such a UUID. Where there is no such
 * directory nothing is added. A directory that cannot be read, and files in it that cannot, are
 * faults (below), and no error: that is only that there is no memory. */
bool loose_find(struct loose_sidecars *loose, const char *directory, const struct uuid *uuid,
                enum store_query query, struct loose_matches *matches, struct error *error);

/* Adds all of them. */
bool loose_list(struct loose_sidecars *loose, const char *directory, struct loose_matches *matches,
                struct error *error);

/* What could not be read in a directory that was looked through. */
struct loose_faults {
    size_t count;
    struct error first; /* in the order of their names */
};

/* Adds to the faults; of several directories, the first reason is that of the first one. */
void loose_add_faults(struct loose_sidecars *loose, const char *directory,
                      struct loose_faults *faults);

/* For who searches for so long that a directory may change meanwhile: looks through all of it
 * again that may have changed since it was looked through. */
bool loose_renew(struct loose_sidecars *loose, const char *directory, struct error *error);

#endif
