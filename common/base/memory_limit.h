/*
 * How much of a sidecar may be in memory at a time once it is decompressed.
 *
 * A few kilobytes of zstd or zlib can stand for gigabytes, and what they hold is only known to be
 * false when all of it is there. So whatever is held as a whole, a section, a part of one, the text
 * of names, must not be larger than a limit, which is in proportion to the file: what a file claims
 * costs whoever reads it no more than some times this.
 *
 * Of real sidecars, sections are 10 to 200 times as large as the whole file, where the mapping of
 * all programs of a large project is alike; of small ones it may be more.
 */
#ifndef COVSPLIT_COMMON_BASE_MEMORY_LIMIT_H
#define COVSPLIT_COMMON_BASE_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* So much in any case, so much for each byte of the file, and never more than that. */
#define MEMORY_LIMIT_BASE  (UINT64_C(64) << 20)
#define MEMORY_LIMIT_TIMES 512
#define MEMORY_LIMIT_MOST  (UINT64_C(4) << 30)

/* For what is stored in so many bytes. */
static inline uint64_t memory_limit_for(uint64_t stored)
{
    return stored < (MEMORY_LIMIT_MOST - MEMORY_LIMIT_BASE) / MEMORY_LIMIT_TIMES
               ? MEMORY_LIMIT_BASE + stored * MEMORY_LIMIT_TIMES
               : MEMORY_LIMIT_MOST;
}

/* False with an error where `what`, of the file `name`, is larger than the limit. */
static inline bool memory_limit_allows(uint64_t limit, uint64_t size, const char *name,
                                       const char *what, struct error *error)
{
    return size <= limit ||
           error_set(error,
                     "%s: %s claims %llu bytes of memory, but the limit is %llu; raise it "
                     "(--memory-limit) if the file is to be trusted",
                     name, what, (unsigned long long)size, (unsigned long long)limit);
}

#endif
