/*
 * Finds the *.covsplit files of a directory by UUID.
 *
 * In a store, the name of a sidecar is its UUID. In any other directory the UUID has to be read
 * from each file. That is done for the whole directory at the first search in it: the front of each
 * file is read, and the list is sorted by UUID. A search is then a binary search, so that finding
 * thousands of sidecars among thousands stays cheap.
 *
 * A file that is found is only a candidate. The caller opens it and checks that it is an intact sidecar
 * and the right one. All functions can be called by several threads at the same time.
 */
#ifndef COVSPLIT_SPLIT_CLI_SIDECAR_INDEX_H
#define COVSPLIT_SPLIT_CLI_SIDECAR_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/store/store.h"
#include "split/cli/path_list.h"

struct found_sidecar {
    struct uuid uuid; /* empty if it has not been read */
    const char *path;
    bool is_stored; /* the UUID is the name in a store, else that of the file's note */
    size_t number;  /* in the order in which they were found */
};

/* Candidates. Initialize to {0}; free with found_sidecars_free. */
struct found_sidecars {
    struct found_sidecar *items;
    size_t count, capacity;
    struct arena memory; /* of the paths; `failed` also if there was none for an item */
};

/* Nothing is added once memory failed. Returns false with an error then. */
bool found_sidecars_add(struct found_sidecars *found, const struct uuid *uuid, const char *path,
                        bool is_stored, struct error *error);
bool found_sidecars_collect(void *found, const char *path, const struct uuid *uuid,
                            struct error *error);       /* a store_visitor */
void found_sidecars_sort(struct found_sidecars *found); /* by UUID, then as they were found */
void found_sidecars_free(struct found_sidecars *found);

struct sidecar_index;

/* `files` can be searched like the files of a directory, whatever their names are; the list must
 * outlive the index, which takes no more memory until a search. Free with sidecar_index_free. */
struct sidecar_index *sidecar_index_new(const struct path_list *files);
void sidecar_index_free(struct sidecar_index *index);

/* Passed as the directory, this means `files`. */
#define INDEX_FILES ""

/* Adds the files of the directory whose UUID fits; all of them if the wanted one is empty, with
 * STORE_PREFIX. They are in the order of their UUIDs, those with the same UUID in the order of
 * their names (or of `files`). Nothing is added if there is no such directory. If the directory or
 * a file in it cannot be read, that is a fault (see below), not an error. Fails only if the machine
 * does. */
bool sidecar_index_find(struct sidecar_index *index, const char *directory, const struct uuid *uuid,
                        enum store_query query, struct found_sidecars *found, struct error *error);

/* Adds the number of faults in a directory that was searched. `first` stays if there are some
 * already, else it says what was wrong with the first, by name. */
void sidecar_index_add_faults(struct sidecar_index *index, const char *directory, size_t *count,
                              struct error *first);

/* Reads the directory again if it may have changed since it was read. For commands that run for a
 * long time. */
bool sidecar_index_renew(struct sidecar_index *index, const char *directory, struct error *error);

#endif
