/*
 * Searches for sidecars. The places, in this order:
 *
 *   1. --sidecar: files, and directories (their *.covsplit files, by UUID; and as stores).
 *      All commands except `run` stop here if --sidecar is given.
 *   2. The store of --store.
 *   3. IMAGE.covsplit, and the *.covsplit files in the directory of the image or profile, by UUID.
 *   4. The *.covsplit files in the current directory, by UUID.
 *   5. The stores of COVSPLIT_STORE, unless --store is given.
 *
 * "By UUID" is by digest for a stripped image that has no UUID: all sidecars are candidates then.
 *
 * Neither name nor place proves anything: each candidate is opened, and must fit. A candidate that
 * does not fit or cannot be read does not end the search. If nothing fits, the error is that of the
 * first such candidate; if there was none, it lists the places.
 */
#ifndef COVSPLIT_SPLIT_CLI_SIDECAR_SEARCH_H
#define COVSPLIT_SPLIT_CLI_SIDECAR_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "split/cli/loose_sidecars.h"
#include "split/cli/sidecar_places.h"

/* What a sidecar is wanted for: exactly one of the last four members. The sidecar that fits is, for
 *
 *   profile    the one of the image that wrote it (correlation_check);
 *   stripped   the one that was made with this file (sidecar_check_stripped);
 *   image      one with the same UUID and the same numbers of counters; the image may have been
 *              changed since, by strip for example;
 *   uuid       any real one of this UUID. */
struct sidecar_wanted {
    const char *name;         /* of the file, for messages; NULL for a UUID */
    const char *const *names; /* the file's paths, ending with NULL; or NULL */
    const struct profile *profile;
    const struct input *stripped;
    const struct split_image *image;
    const struct uuid *uuid;
};

/* One place of a search. */
struct sidecar_spot {
    enum {
        SPOT_GIVEN,  /* a file, a candidate whatever its UUID is */
        SPOT_BESIDE, /* the same, if the file exists */
        SPOT_LOOSE,  /* the *.covsplit of a directory, or the files of --sidecar, by UUID */
        SPOT_STORES, /* by UUID */
    } kind;
    char *path; /* of a file, or as loose_find has it; NULL for stores */
    const struct store_list *stores;
};

struct wanted_uuid {
    struct uuid uuid;
    enum store_query query;
};

/* A search yields the candidates one by one. The caller opens each and asks whether it fits:
 *
 *     bool going = sidecar_search_start(&search, places, &wanted, &error);
 *     while (going && (path = sidecar_search_next(&search)) != NULL) {
 *         if (... && sidecar_search_accepts(&search, opened, &why))
 *             break;
 *         sidecar_search_reject(&search, &why);
 *     }
 *     if (nothing was accepted)
 *         sidecar_search_fail(&search, &error);
 *     sidecar_search_end(&search);
 */
struct sidecar_search {
    const struct sidecar_places *places;
    const struct sidecar_wanted *wanted;
    struct sidecar_spot *spots;
    size_t spot_count, spot_capacity, next_spot;
    size_t named_count; /* so many of the first spots were named by options */
    struct wanted_uuid *uuids;
    size_t uuid_count, uuid_capacity;
    bool has_uuids;             /* `uuids` is filled in */
    struct error no_uuid;       /* why it is empty */
    struct loose_matches found; /* the candidates of the current spot */
    size_t next_found;
    bool is_other; /* the last candidate is a placeholder, or of another stripped image */
    bool met_other, met_unusable; /* some candidates were that; some failed for another reason */
    struct error problem;         /* the error of the first candidate that failed; "" if none did */
};

/* Returns false with an error if out of memory. Call sidecar_search_end in any case. */
bool sidecar_search_start(struct sidecar_search *search, const struct sidecar_places *places,
                          const struct sidecar_wanted *wanted, struct error *error);
void sidecar_search_end(struct sidecar_search *search);

/* Returns the path of the next candidate, which is valid until the next call; NULL if there is none
 * or no memory. */
const char *sidecar_search_next(struct sidecar_search *search);

/* Whether the last candidate, opened as `sidecar`, is the one that is wanted. */
bool sidecar_search_accepts(struct sidecar_search *search, const struct sidecar *sidecar,
                            struct error *error);

/* Passes over the last candidate. */
void sidecar_search_reject(struct sidecar_search *search, const struct error *why);

/* Sets the error that says why nothing was found. */
void sidecar_search_fail(struct sidecar_search *search, struct error *error);

/* Starts the search again, after reading again the directories that may have changed. Returns false
 * with an error if out of memory. */
bool sidecar_search_again(struct sidecar_search *search, struct error *error);

/* Does the whole search and reads the sidecar with sidecar_read_for. Returns NULL with an error if
 * none was found. */
struct sidecar *sidecar_search_read(struct sidecar_search *search, struct error *error);

/* Finds the UUID in the places that is `start` or begins with it. Fails if there is none, or if
 * there are several. */
bool sidecar_search_full_uuid(const struct sidecar_places *places, const struct uuid *start,
                              struct uuid *full, struct error *error);

/* Completes the wanted UUID if it is the beginning of one in the places; *full is empty if there is
 * none. Returns false with an error if there are several. */
bool sidecar_search_complete(const struct sidecar_search *search, struct uuid *full,
                             struct error *error);

#endif
