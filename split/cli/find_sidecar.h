/*
 * The finder of sidecars. It searches these places, in this order:
 *
 *   1. --sidecar: files, and directories (their *.covsplit files, by UUID; and as stores).
 *      All commands except `run` stop here if --sidecar is given.
 *   2. The store of --store.
 *   3. IMAGE.covsplit, and the *.covsplit files in the directory of the image or profile, by UUID.
 *   4. The *.covsplit files in the current directory, by UUID.
 *   5. The stores of COVSPLIT_STORE, unless --store is given.
 *   6. Those of 2 and 5 that are at URLs (remote/remote.h), if nothing on this machine fits.
 *
 * "By UUID" is by digest for a stripped image that has no UUID: all sidecars are candidates then.
 *
 * Neither name nor place proves anything: each candidate is opened, and must fit. A candidate that
 * does not fit or cannot be read does not end the search. If nothing fits, the error is that of the
 * first such candidate; if there was none, it lists the places.
 */
#ifndef COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H
#define COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/array.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "common/remote/store_list.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/profile_groups.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/options.h"
#include "split/cli/path_list.h"

/* ---- candidates ---- */

/* A candidate. Whoever opens it checks that it is an intact sidecar and the right one. */
struct found_sidecar {
    struct uuid uuid; /* empty if it has not been read */
    const char *path;
    bool is_stored;           /* the UUID is the name in a store, else that of the file's note */
    size_t number;            /* in the order in which they were found */
    const struct store *afar; /* at a URL, from which it was fetched; NULL: it was here */
};

/* Candidates. Initialize to {0}; free with found_sidecars_free. */
struct found_sidecars {
    struct found_sidecar *items;
    size_t count, capacity;
    size_t fault_count; /* files and directories that could not be read */
    struct error first_fault;
    struct arena memory; /* of the paths; `failed` also if there was none for an item */
};

/* Nothing is added once memory failed. Returns false with an error then. */
bool found_sidecars_add(struct found_sidecars *found, const struct uuid *uuid, const char *path,
                        bool is_stored, struct error *error);
bool found_sidecars_collect(void *found, const char *path, const struct uuid *uuid,
                            struct error *error);       /* a store_visitor */
void found_sidecars_sort(struct found_sidecars *found); /* by UUID, then as they were found */
void found_sidecars_free(struct found_sidecars *found);

/* ---- places ---- */

/* Opens candidates, as sidecar_read_for, and keeps them for later searches: what is found is lent
 * to whoever searches, and what does not fit is taken back. */
struct sidecar_lender {
    struct sidecar *(*lend)(void *context, const char *path, struct error *error);
    void (*take_back)(void *context, struct sidecar *sidecar);
    void *context;
};

/* The places that the options name. The texts are not copied. */
struct sidecar_places {
    const struct parsed_options *options;
    struct path_list files;        /* files that --sidecar names */
    struct store_list directories; /* directories that --sidecar names */
    struct store_list store;       /* --store */
    struct store_list environment; /* COVSPLIT_STORE, unless --store is given */
    bool are_given;                /* only --sidecar is searched */
    bool are_near;                 /* stores at URLs are not asked; set by the owner */
    struct error fault;            /* of a URL that cannot be used; "" if there is none */
    struct sidecar_lender lender;  /* zeros for all commands but `run` */
    struct sidecar_index *index;
};

/* `lender` is for `run`, which searches the other places after those of --sidecar, and reads the
 * directories again if a sidecar is not there; else NULL. Close with sidecar_places_close. Several
 * threads can search at the same time. */
void sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         const struct sidecar_lender *lender);
void sidecar_places_close(struct sidecar_places *places);

/* Fails if the places name a URL that cannot be used, as every search in them does. */
bool sidecar_places_check(const struct sidecar_places *places, struct error *error);

/* Returns the file that --sidecar names, or NULL if it names none, several, or a directory. */
const char *sidecar_places_only_file(const struct sidecar_places *places);

/* In a store, the name of a sidecar is its UUID. In any other directory the UUID has to be read
 * from each file: that is done for the whole directory at the first search in it, and the list is
 * sorted, so that finding thousands of sidecars among thousands stays cheap. */

struct wanted_uuid {
    struct uuid uuid; /* empty, with STORE_PREFIX: any */
    enum store_query query;
};

/* Passed as the directory, this means the files that --sidecar names. */
#define INDEX_FILES ""

/* Adds the files of the directory, of which each name ends with STORE_SUFFIX, that have one of the
 * UUIDs. Nothing is added if there is no such directory. If the directory or a file in it cannot be
 * read, that is a fault, not an error. Fails only if the machine does. */
bool sidecar_index_find(const struct sidecar_places *places, const char *directory,
                        const struct wanted_uuid *wanted, size_t wanted_count,
                        struct found_sidecars *found, struct error *error);

/* Forgets the directories, which are read again at the next search. */
void sidecar_index_forget(const struct sidecar_places *places);

/* Reads a sidecar into memory, with the memory limit and the number of threads that the options
 * give. NULL with an error. */
struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error);
void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options);

/* ---- searches ---- */

/* The purpose of a sidecar: exactly one of `profile` to `uuid`. The sidecar that fits is, for
 *
 *   profile    the one of the image that wrote it (correlation_check);
 *   group      the one of the image that wrote these profiles (profile_group_check);
 *   stripped   the one that was made with this file (sidecar_check_stripped);
 *   image      one with the same UUID and the same numbers of counters; the image may have been
 *              changed since, by strip for example;
 *   uuid       any real one of this UUID. */
struct sidecar_wanted {
    const char *name;         /* of the file, for messages; NULL for a UUID */
    const char *const *names; /* the file's paths, ending with NULL; or NULL */
    const struct profile *profile;
    const struct profile_group *group;
    const struct input *stripped;
    const struct split_image *image;
    const struct uuid *uuid;
    const char *told_by; /* the profile that told this UUID; NULL: it was named */
};

/* Finds the sidecar, and opens it by sidecar_read_for. NULL with an error if there is none; the
 * error's number is ENODATA if no candidate was faulty: if each was a placeholder or of another
 * stripped image, or there was none. */
struct sidecar *sidecar_search(const struct sidecar_places *places,
                               const struct sidecar_wanted *wanted, struct error *error);

/* True if there is a candidate on this machine, so that stores at URLs may be left alone; or if
 * that cannot be found out. */
bool sidecar_is_near(const struct sidecar_places *places, const struct sidecar_wanted *wanted);

/* The same for a split image, which is the file of that path. If it has no UUID, the
 * sidecar is the one that was made with this file. */
struct sidecar *sidecar_search_of_image(const struct sidecar_places *places,
                                        const struct input *file, const struct split_image *image,
                                        struct error *error);

/* Sets *full to the UUID in the places that begins with `start`; empty if there is none. Fails if
 * there are several. */
bool sidecar_complete_uuid(const struct sidecar_places *places, const struct uuid *start,
                           struct uuid *full, struct error *error);

/* Finds the sidecar of this UUID, or else of the only one that begins with it. */
struct sidecar *sidecar_search_by_start(const struct sidecar_places *places,
                                        const struct uuid *start, const char *told_by,
                                        struct error *error);

/* ---- the sidecars of profiles ---- */

/* Initialize to {0}; close with profile_sidecars_close. */
struct profile_sidecars {
    struct sidecar_places places;
    struct profile_sidecar given; /* if --sidecar names a single file: opened at the start */
};

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error);
void profile_sidecars_close(struct profile_sidecars *sidecars);

/* Finds the sidecar of the image that wrote the profile, and checks that it is the right one. NULL
 * with an error if there is none. Give it back with profile_sidecars_release. Both take a struct
 * profile_sidecars, so that they can be those of a profile_sidecar_source. */
struct profile_sidecar *profile_sidecars_find(void *sidecars, const struct profile *profile,
                                              const char *name, struct error *error);
void profile_sidecars_release(void *sidecars, struct profile_sidecar *sidecar);

/* Finds the sidecar of the image that wrote full profiles, for its coverage mapping. If nothing
 * tells several builds of one UUID apart whose sidecars are found, that is an error. */
struct profile_sidecar *profile_sidecars_find_group(struct profile_sidecars *sidecars,
                                                    const struct profile_group *group,
                                                    struct error *error);

/* Finds the sidecar of the image with that UUID, which may be given by its beginning. */
struct profile_sidecar *profile_sidecars_find_uuid(struct profile_sidecars *sidecars,
                                                   const struct uuid *start, const char *told_by,
                                                   struct error *error);

/* Initialize to {0}; the owner frees the items. */
struct uuid_list {
    struct uuid *items;
    size_t count, capacity;
    bool takes_whole; /* no beginnings of UUIDs, which are all that some profiles tell */
};

/* Adds the UUIDs of the images that wrote the profiles of a file, raw or indexed, unless the list
 * has them: of all, or of those that need a sidecar. Fails if a profile tells none. */
bool uuid_list_add_file(struct uuid_list *list, const char *path, bool of_all, struct error *error);

/* For stores at URLs: fetches at once the sidecars that these files of profiles need, or (of_all)
 * are of, if none is near. A path may be a UUID instead. Searches then find them; what fails is
 * said by those. */
void sidecars_fetch(const struct sidecar_places *places, const char *const *paths, size_t count,
                    bool of_all);

/* Appends the full raw profile to the output, after padding with zeros. The sidecar is NULL for a
 * profile that needs none. */
bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error);

/* ---- outputs ---- */

/* Returns false with an error if the output (-o) would replace a sidecar, whatever it is of: it may
 * be the only place where the coverage data of an image is. */
bool sidecar_check_no_output(const struct parsed_options *options, struct error *error);

/* The same for this sidecar, which may be damaged. */
bool sidecar_check_output(const struct parsed_options *options, const char *sidecar,
                          struct error *error);

#endif
