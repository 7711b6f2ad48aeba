/*
 * Finds the functions about which the images of a merge disagree.
 *
 * LLVM's tools know a function by its name and its FuncHash, a digest of its control flow. Images
 * that were built from different sources, or with different macros, may have different functions
 * under one name. The tools then drop or mix counts without saying so: see enum conflict_kind.
 *
 * Most names are settled by the data records, which a merge reads anyway: a table has the first
 * record of each name, and a name is looked at again only if a later record differs. Only for these
 * names the coverage mapping is read, to find out in which files the functions are: `main` of two
 * programs is not one function. A thorough search also compares the mapping of all functions.
 *
 * A function that an image does not use has no data record, only a mapping with FuncHash 0; it is
 * never in conflict.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_FIND_CONFLICTS_H
#define COVSPLIT_SPLIT_PROFILES_FIND_CONFLICTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"
#include "split/profiles/conflicts.h"

/* The images to be compared. */
struct conflict_source {
    size_t image_count;
    /* Sets *profile to a full profile of the image, of which only data and names are looked at. It
     * is valid until the next call. Its data may be empty: then the image is passed over. */
    bool (*profile)(void *context, size_t image, struct profile *profile, struct error *error);
    /* The sidecar with the coverage mapping of the image; NULL if there is none. */
    const struct sidecar *(*sidecar)(void *context, size_t image);
    void *context;
};

/* Finds conflicts of the first two kinds; if `thorough`, of all kinds. Without `thorough`, the
 * hashes of `main` are not compared: every program has its own, and the mapping of each would have
 * to be read. */
bool conflicts_find(const struct conflict_source *source, bool thorough,
                    struct conflicts *conflicts, struct error *error);

#endif
