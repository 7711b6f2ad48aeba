/*
 * The files that the coverage mapping of an image names, and the functions in them.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_FUNCTION_PLACES_H
#define COVSPLIT_SPLIT_PROFILES_FUNCTION_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/error.h"
#include "common/llvm/names.h"
#include "common/sidecar/sidecar.h"

struct function_place {
    uint64_t name_ref;
    uint64_t hash;    /* FuncHash */
    uint64_t regions; /* a digest of its lines and regions, and the names of all its files; not 0 */
    uint32_t file;    /* the number of its file */
    bool is_dummy;    /* of a translation unit that does not use it (covfun_tell_dummy) */
};

/* The key of a function in tables by NameRef and FuncHash. */
static inline uint64_t function_places_key(uint64_t name_ref, uint64_t hash)
{
    return name_ref ^ (hash * UINT64_C(0x9e3779b97f4a7c15));
}

/* Initialize to {0}; free with function_places_free. */
struct function_places {
    struct function_place *items;
    size_t count, capacity;
    struct intern_table by_both; /* the numbers of items, by NameRef and FuncHash */
    struct intern_table by_name; /* by NameRef */
};

void function_places_free(struct function_places *places);

/* Reads the mapping of the functions whose NameRefs are in the table (NULL: of all), and adds the
 * names of their files to `files`. What is no sound mapping is passed over, and so are sidecars
 * without one. */
bool function_places_read(struct function_places *places, const struct sidecar *sidecar,
                          const struct intern_table *wanted, struct names *files,
                          struct error *error);

/* Forgets all functions but those of this name. */
void function_places_keep(struct function_places *places, uint64_t name_ref);

/* The function with this NameRef and FuncHash; or if the mapping has it with another FuncHash only,
 * as one that is not used there, that one. NULL if there is none. */
const struct function_place *function_places_find(const struct function_places *places,
                                                  uint64_t name_ref, uint64_t hash);

/* Adds the names of all files of the mapping (covmap_path). `units` has digests of the units that
 * were read into `files`, {0} at first: the images of one build have most of them in common. */
bool covered_files_read(const struct sidecar *sidecar, struct digest_set *units,
                        struct names *files, struct error *error);

#endif
