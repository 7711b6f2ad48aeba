/*
 * How much decompressed data of a sidecar may be in memory at a time.
 *
 * A few kilobytes of zstd or zlib data can decompress to gigabytes, and a digest tells that they
 * are wrong only when all of it has been decompressed. So each block that is held in memory as a
 * whole (a section, a part of one, the text of names) must not be larger than a limit, which is in
 * proportion to the file. Reading a file needs at most a few times this much memory.
 *
 * The sections of real sidecars are 10 to 200 times as large as the whole file. The ratio is
 * highest if the mappings of many programs of a project are alike; for small files it may be higher
 * still.
 *
 * What is decoded piece by piece needs no memory but time: 200 GiB of zeros fit into 6.5 MB. So all
 * that a file holds is limited too, in the same proportion, however large the file is, and by what
 * takes a fraction of a second in any case.
 */
#ifndef COVSPLIT_COMMON_BASE_MEMORY_LIMIT_H
#define COVSPLIT_COMMON_BASE_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* The limit is BASE plus TIMES bytes for each byte of the file, but at most MOST. */
#define MEMORY_LIMIT_BASE  (UINT64_C(64) << 20)
#define MEMORY_LIMIT_TIMES 512
#define MEMORY_LIMIT_MOST  (UINT64_C(4) << 30)
#define WORK_LIMIT_BASE    (UINT64_C(1) << 30)

/* The limit in bytes for a file of `stored` bytes. */
static inline uint64_t memory_limit_for(uint64_t stored)
{
    return stored < (MEMORY_LIMIT_MOST - MEMORY_LIMIT_BASE) / MEMORY_LIMIT_TIMES
               ? MEMORY_LIMIT_BASE + stored * MEMORY_LIMIT_TIMES
               : MEMORY_LIMIT_MOST;
}

/* The limit in bytes for all that a file of `stored` bytes holds. */
static inline uint64_t work_limit_for(uint64_t stored)
{
    return stored < (UINT64_MAX - WORK_LIMIT_BASE) / MEMORY_LIMIT_TIMES
               ? WORK_LIMIT_BASE + stored * MEMORY_LIMIT_TIMES
               : UINT64_MAX;
}

/* For what is not compressed: the limit that the user gave, in bytes; MEMORY_LIMIT_MOST if that
 * is 0. */
static inline uint64_t memory_limit_given(uint64_t limit)
{
    return limit != 0 ? limit : MEMORY_LIMIT_MOST;
}

/* Fails if `what`, a part of the file `name`, needs more bytes than the limit. */
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
