/*
 * See refused_ways.h.
 */
#include "tests/unit/refused_ways.h"

#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "tests/unit/refused_memory.h"

/* With those of this file. */
#define CALLERS  8

#define WAYS_MAX 0x10000

/* The digests of all callers so far, at their places in a hash table, and
 * the numbers of the calls that are to be refused. */
static uint64_t seen[WAYS_MAX];
static size_t seen_count;
static size_t calls, listed[WAYS_MAX], listed_count;

static bool is_new_way(uint64_t digest)
{
    size_t place = digest % WAYS_MAX;

    while (seen[place] != 0 && seen[place] != digest)
        place = (place + 1) % WAYS_MAX;
    if (seen[place] == digest)
        return false;
    seen[place] = digest;
    if (++seen_count == WAYS_MAX / 2)
        abort();
    return true;
}

static void list_call(void)
{
    void *callers[CALLERS];
    int count = backtrace(callers, CALLERS);
    struct digest digest =
        digest_of((struct bytes){(const uint8_t *)callers, (uint64_t)count * sizeof(callers[0])});
    uint64_t key;

    memcpy(&key, digest.bytes, sizeof(key));
    if (is_new_way(key | 1))
        listed[listed_count++] = calls;
    calls++;
}

/* For calls that need not allocate. */
static bool is_granted(void)
{
    return !memory_growth_counts || memory_is_granted();
}

void refuse_each_way(bool (*run)(void *subject), void *subject)
{
    memory_growth_counts = true;
    memory_watch = list_call;
    calls = listed_count = 0;
    if (!run(subject))
        abort();
    memory_watch = NULL;
    for (size_t i = 0; i < listed_count; i++) {
        memory_granted = listed[i];
        run(subject);
        memory_granted = MEMORY_ALL;
    }
    memory_growth_counts = false;
}

void expect_memory(const struct error *error)
{
    if (!error_is_of_memory(error) &&
        strstr(error->message, "use another version of libzstd") == NULL) {
        fprintf(stderr, "%s\n", error->message);
        abort();
    }
}

/* ---- the functions that are replaced ---- */

/* Declares a function and the one that replaces it, and defines that. */
#define REPLACE(type, name, refusal, parameters, arguments)                                        \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return is_granted() ? __real_##name arguments : (refusal);                                 \
    }

#define REFUSED_BY_ZSTD ((size_t)-ZSTD_error_memory_allocation)

REPLACE(bool, intern_table_add, false,
        (struct intern_table * table, uint64_t key, uint64_t *number), (table, key, number))
REPLACE(bool, intern_table_put, false, (struct intern_table * table, uint64_t key, uint64_t number),
        (table, key, number))
REPLACE(bool, digest_set_add, false, (struct digest_set * set, const struct digest *digest),
        (set, digest))

REPLACE(ZSTD_CCtx *, ZSTD_createCCtx, NULL, (void), ())
REPLACE(ZSTD_DCtx *, ZSTD_createDCtx, NULL, (void), ())
REPLACE(size_t, ZSTD_CCtx_setParameter, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_cParameter parameter, int value), (context, parameter, value))
REPLACE(size_t, ZSTD_DCtx_setParameter, REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_dParameter parameter, int value), (context, parameter, value))
REPLACE(size_t, ZSTD_compressStream2, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input,
         ZSTD_EndDirective directive),
        (context, output, input, directive))
REPLACE(size_t, ZSTD_compress2, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, void *to, size_t room, const void *from, size_t size),
        (context, to, room, from, size))
REPLACE(size_t, ZSTD_decompressStream, REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input),
        (context, output, input))
