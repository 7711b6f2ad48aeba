/*
 * A cache of converted files, so that each file is converted once for a whole process tree.
 *
 * The cache holds a bounded number of bytes and of files in memory, not counting the newest file.
 * The least recently used files are dropped first; processes that have them open keep them.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERSION_CACHE_H
#define COVSPLIT_SPLIT_RUN_CONVERSION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"

/* Objects and profiles have separate limits: a thousand profiles, each read once, must not evict
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
    CACHE_MISSING, /* the caller must convert the file, then call cache_add or cache_give_up */
    CACHE_BUSY,    /* another thread is converting the same: ask again when it has finished */
    CACHE_FAILED,  /* out of memory or descriptors */
};

struct conversion_cache;

/* The cache keeps up to `count_max` files of each class, but at most CACHE_COUNT_MAX; each takes a
 * descriptor. NULL if out of memory. Free with cache_free (NULL is allowed). */
struct conversion_cache *cache_new(size_t count_max);
void cache_free(struct conversion_cache *cache);

/* Looks the conversion up. For CACHE_FOUND, *fd is a read-only descriptor with a file position of
 * its own, owned by the caller. */
enum cache_answer cache_look(struct conversion_cache *cache, enum cache_class class,
                             const struct digest *identity, int *fd);

/* To be called after CACHE_MISSING. The cache takes ownership of `converted`, which has `size`
 * bytes. Returns a descriptor like that of cache_look, or -1 with errno. */
int cache_add(struct conversion_cache *cache, enum cache_class class, const struct digest *identity,
              int converted, uint64_t size);
void cache_give_up(struct conversion_cache *cache, enum cache_class class,
                   const struct digest *identity);

#endif
