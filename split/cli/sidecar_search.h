/*
 * Where sidecars are looked for, and in what order.
 *
 *   1. What --sidecar names: files, and directories (their *.covsplit by UUID; as stores too).
 *      But for `covsplit run` nothing else is looked at then.
 *   2. The store of --store.
 *   3. Beside the image: IMAGE.covsplit, and by UUID the *.covsplit of its directory; or beside the
 *      profile, by UUID.
 *   4. The *.covsplit of the current directory, by UUID.
 *   5. The stores of COVSPLIT_STORE, unless --store was given.
 *
 * What is found is never taken for its name or its place: it is opened, and has to fit. What does
 * not, and what cannot be read, does not end a search; where nothing fits in the end, the first of
 * these is what the error tells of, or else all the places that were looked at.
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
#include "split/cli/options.h"
#include "split/cli/path_list.h"

/* What the options say. The texts are not copied. */
struct sidecar_places {
    const struct parsed_options *options;
    struct path_list files;        /* of --sidecar */
    struct store_list directories; /* the same */
    struct store_list store;       /* --store */
    struct store_list environment; /* COVSPLIT_STORE, where there is no --store */
    bool are_given;                /* there is nothing but --sidecar */
    struct loose_sidecars *loose;
};

/* `goes_on`: --sidecar is only the first place. Closed with sidecar_places_close, also after a
 * failure. Several threads may search in one. */
bool sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         bool goes_on, struct error *error);
void sidecar_places_close(struct sidecar_places *places);

/* The one file that --sidecar names; NULL where it names none, or more, or a directory. */
const char *sidecar_places_only_file(const struct sidecar_places *places);

/* What a sidecar is wanted for: one of the four. The one that fits is
 *
 *   profile    that of the image which wrote it (correlation_check);
 *   stripped   the one that it was made with, to the byte (sidecar_check_stripped);
 *   image      the one by UUID and by what its mapping counts: it may have been stripped since;
 *   uuid       any of that UUID. Nothing is beside it. */
struct sidecar_wanted {
    const char *name;         /* of what needs it, for messages; NULL: only of a UUID */
    const char *const *names; /* of the file, ends with NULL: sidecars may lie beside it; NULL: none
                               */
    const struct profile *profile;
    const struct input *stripped;
    const struct split_image *image;
    const struct uuid *uuid;
};

/* A file, a directory or stores to look in. */
struct sidecar_spot {
    enum {
        SPOT_GIVEN,     /* a file that counts whatever its UUID is */
        SPOT_BESIDE,    /* the same, if it is there */
        SPOT_FILES,     /* those of --sidecar, by UUID */
        SPOT_DIRECTORY, /* its *.covsplit, by UUID */
        SPOT_STORES,    /* by UUID */
    } kind;
    char *path;
    const struct store_list *stores;
};

struct wanted_uuid {
    struct uuid uuid;
    enum store_query query;
};

/* A search goes through the files that may be the sidecar. The caller opens each, and asks whether
 * it fits:
 *
 *     bool going = sidecar_search_start(&search, places, &wanted, &error);
 *     while (going && (path = sidecar_search_next(&search)) != NULL)
 *         ... sidecar_search_accepts(&search, opened, &why) ... or sidecar_search_reject(&search,
 *             &why) ...
 *     if (nothing was accepted)
 *         sidecar_search_fail(&search, &error);
 *     sidecar_search_end(&search);
 */
struct sidecar_search {
    const struct sidecar_places *places;
    const struct sidecar_wanted *wanted;
    struct sidecar_spot *spots;
    size_t spot_count, spot_capacity, next_spot;
    struct wanted_uuid *uuids;
    size_t uuid_count, uuid_capacity;
    bool has_uuids;             /* they were looked for */
    struct error no_uuid;       /* why there is none */
    struct loose_matches found; /* in the last spot */
    size_t next_found;
    bool is_by_uuid; /* so were those found */
    bool is_other;   /* the one that came last: whole, but of another stripped image, or of none */
    bool met_other, met_unusable; /* some were that; others could not be used all the same */
    struct error problem;         /* the first one; "": none was met */
};

/* False with an error where there is no memory; ended all the same. */
bool sidecar_search_start(struct sidecar_search *search, const struct sidecar_places *places,
                          const struct sidecar_wanted *wanted, struct error *error);
void sidecar_search_end(struct sidecar_search *search);

/* The path of the next file, which lives until the next call; NULL: there is none, or no memory. */
const char *sidecar_search_next(struct sidecar_search *search);

/* Whether the file that came last, which is open, is the one that is wanted. */
bool sidecar_search_accepts(struct sidecar_search *search, const struct sidecar *sidecar,
                            struct error *error);

/* Goes on without the file that came last. */
void sidecar_search_reject(struct sidecar_search *search, const struct error *why);

/* Why nothing was found. */
void sidecar_search_fail(struct sidecar_search *search, struct error *error);

/* Starts from the front, for who searches for so long that directories may have changed since they
 * were looked through. False with an error where there is no memory. */
bool sidecar_search_again(struct sidecar_search *search, struct error *error);

/* The whole search, with the file read by sidecar_read_for. NULL with an error where there is none.
 */
struct sidecar *sidecar_search_read(struct sidecar_search *search, struct error *error);

/* The UUID that begins as the one that is wanted, of all in the places: *full has size 0 where
 * there is none. False with an error where there are several. */
bool sidecar_search_complete(const struct sidecar_search *search, struct uuid *full,
                             struct error *error);

/* Reads a sidecar into memory, and tells it what the options say: the limit of memory, and how many
 * threads there may be. NULL with an error. */
struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error);
void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options);

#endif
