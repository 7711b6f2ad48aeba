/*
 * What was converted, so that each file is converted once for a whole process tree.
 *
 * The cache holds a bounded number of bytes and of files in memory, beside the one that came last:
 * those not used for longest go first. Who still has one open keeps it.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERSION_CACHE_H
#define COVSPLIT_SPLIT_RUN_CONVERSION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"

/* Objects and profiles count by themselves: a thousand profiles, each read once, must not drive out
 * the object that every report needs. */
enum cache_class {
    CACHE_OBJECTS,
    CACHE_PROFILES,
    CACHE_CLASS_COUNT,
};

#define CACHE_OBJECTS_SIZE_MAX  (UINT64_C(2) << 30)
#define CACHE_PROFILES_SIZE_MAX (UINT64_C(256) << 20)
#define CACHE_COUNT_MAX         256

enum cache_answer {
    CACHE_FOUND,
    CACHE_MISSING, /* the caller is the one to convert, and to call cache_add or cache_give_up */
    CACHE_BUSY,    /* somebody else is converting just this: ask again when he is done */
    CACHE_FAILED,  /* no memory, or no descriptor */
};

struct conversion_cache;

/* Of each class it keeps `count_max` files, each of which takes a descriptor, or CACHE_COUNT_MAX
 * where that is less. NULL where there is no memory. Freed with cache_free (NULL allowed). */
struct conversion_cache *cache_new(size_t count_max);
void cache_free(struct conversion_cache *cache);

/* Looks for the conversion. CACHE_FOUND: *fd is a read-only descriptor of the caller's, with a
 * position of its own. */
enum cache_answer cache_look(struct conversion_cache *cache, enum cache_class class,
                             const struct digest *identity, int *fd);

/* Ends a CACHE_MISSING. `converted`, of `size` bytes, is the cache's from now on. Returns a
 * descriptor as cache_look gives it; -1 with errno where there is none. */
int cache_add(struct conversion_cache *cache, enum cache_class class, const struct digest *identity,
              int converted, uint64_t size);
void cache_give_up(struct conversion_cache *cache, enum cache_class class,
                   const struct digest *identity);

#endif
