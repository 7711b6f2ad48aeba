/*
 * Finds the functions about which the images of a merge disagree.
 *
 * LLVM's tools know a function by its name and its FuncHash, a digest of its control flow. Images
 * that were built from different sources, or with different macros, may have different functions
 * under one name. The tools then drop or mix counts without saying so: see enum conflict_kind.
 *
 * Almost everything can be seen from the data records, which a merge reads anyway: a table has the
 * first record of each name, and only names of which a later record differs are looked at again.
 * Only for these, and only in images that have them, the coverage mapping says where the functions
 * are: `main` of two programs is not one function. A thorough search compares the mapping of all
 * functions too.
 *
 * A function that an image does not use has no data record, only a mapping with FuncHash 0; it is
 * never in conflict.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_CONFLICTS_H
#define COVSPLIT_SPLIT_PROFILES_CONFLICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"

/* What the images disagree about, and what becomes of the counts. */
enum conflict_kind {
    /* The numbers of counters, with one FuncHash: llvm-profdata keeps the counts of the first image
     * only. */
    CONFLICT_COUNTERS,
    /* The FuncHash, in one file: llvm-cov shows the function of the first object, and only its
     * counts. */
    CONFLICT_HASH,
    /* Lines and regions, in one file and with one FuncHash: the counts are added, and llvm-cov
     * shows them at the regions of the first object. */
    CONFLICT_REGIONS,
    /* The file, with one FuncHash: the counts are added, and shown for each of the functions. */
    CONFLICT_FILES,
    CONFLICT_KINDS,
};

#define CONFLICT_NO_FILE UINT32_MAX

/* A function as one image has it. */
struct conflict_row {
    uint64_t function; /* its number among those that are looked at */
    uint64_t hash;     /* FuncHash */
    uint64_t regions;  /* a digest of its lines and regions; 0: not known */
    uint32_t counters; /* NumCounters */
    uint32_t file;     /* the number of its file; CONFLICT_NO_FILE: not known */
    size_t image;
    size_t leader; /* the first image in which what is in conflict is the same */
};

struct conflict {
    enum conflict_kind kind;
    bool is_possible; /* the file of some of them is not known, and may be another one */
    char *function;   /* its name as in the profile */
    size_t first_row, row_count;
};

/* Initialize to {0}; free with conflicts_free. */
struct conflicts {
    struct conflict *items; /* by kind and name; possible ones come last */
    size_t count, capacity;
    struct conflict_row *rows; /* of one conflict: by leader, then by image */
    size_t row_count, row_capacity;
    struct names files;
};

void conflicts_free(struct conflicts *conflicts);

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

/* Finds conflicts of the first two kinds; if `thorough`, of all kinds. Without `thorough`, `main`
 * is taken for a function of its own in each image as long as the number of its counters does not
 * tell otherwise: every program has one, and all their mappings would have to be read. */
bool conflicts_find(const struct conflict_source *source, bool thorough,
                    struct conflicts *conflicts, struct error *error);

/* Sets *name to that of a file; false if it is not known. */
bool conflicts_file(const struct conflicts *conflicts, uint32_t file, struct bytes *name);

#endif
