/*
 * Refused allocations: see refused_memory.h. Each function here takes the place of another
 * (--wrap).
 */
#include "tests/unit/refused_memory.h"

#include <execinfo.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"

size_t memory_granted = MEMORY_ALL;
bool memory_stays_refused;
void (*memory_watch)(void);
bool memory_growth_counts;

static bool memory_is_granted(void)
{
    if (memory_watch != NULL)
        memory_watch();
    if (memory_granted == MEMORY_ALL)
        return true;
    if (memory_granted != 0) {
        memory_granted--;
        return true;
    }
    if (!memory_stays_refused)
        memory_granted = MEMORY_ALL;
    return false;
}

/* For calls that need not allocate. */
static bool may_grow(void)
{
    return !memory_growth_counts || memory_is_granted();
}

/* ---- the functions that are replaced ---- */

/* Declares a function and the one that replaces it, and defines that. */
#define REPLACE(type, name, is_granted, refusal, parameters, arguments)                            \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return is_granted ? __real_##name arguments : (refusal);                                   \
    }

REPLACE(void *, malloc, memory_is_granted(), NULL, (size_t size), (size))
REPLACE(void *, calloc, memory_is_granted(), NULL, (size_t count, size_t size), (count, size))
REPLACE(void *, realloc, memory_is_granted(), NULL, (void *moved, size_t size), (moved, size))
REPLACE(char *, strdup, memory_is_granted(), NULL, (const char *text), (text))
REPLACE(void *, tsearch, memory_is_granted(), NULL,
        (const void *key, void **root, int (*compare)(const void *, const void *)),
        (key, root, compare))

/* As when memory runs out, a buffer remembers a refusal. */
static bool buffer_may_grow(struct buffer *buffer)
{
    if (!may_grow())
        buffer->failed = true;
    return !buffer->failed;
}

REPLACE(bool, buffer_reserve, buffer_may_grow(buffer), false, (struct buffer * buffer, size_t more),
        (buffer, more))
REPLACE(bool, buffer_append, buffer_may_grow(buffer), false,
        (struct buffer * buffer, const void *data, size_t size), (buffer, data, size))
REPLACE(bool, buffer_append_zeros, buffer_may_grow(buffer), false,
        (struct buffer * buffer, size_t size), (buffer, size))
REPLACE(bool, buffer_append_uleb128, buffer_may_grow(buffer), false,
        (struct buffer * buffer, uint64_t value), (buffer, value))
REPLACE(bool, array_make_room, may_grow(), false,
        (void *array, size_t *capacity, size_t count, size_t more, size_t item_size),
        (array, capacity, count, more, item_size))
#define REFUSED_BY_ZSTD ((size_t)-ZSTD_error_memory_allocation)

REPLACE(bool, intern_table_add, may_grow(), false,
        (struct intern_table * table, uint64_t key, uint64_t *number), (table, key, number))
REPLACE(bool, intern_table_put, may_grow(), false,
        (struct intern_table * table, uint64_t key, uint64_t number), (table, key, number))
REPLACE(bool, digest_set_add, may_grow(), false,
        (struct digest_set * set, const struct digest *digest), (set, digest))

REPLACE(ZSTD_CCtx *, ZSTD_createCCtx, may_grow(), NULL, (void), ())
REPLACE(ZSTD_DCtx *, ZSTD_createDCtx, may_grow(), NULL, (void), ())
REPLACE(size_t, ZSTD_CCtx_setParameter, may_grow(), REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_cParameter parameter, int value), (context, parameter, value))
REPLACE(size_t, ZSTD_DCtx_setParameter, may_grow(), REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_dParameter parameter, int value), (context, parameter, value))
REPLACE(size_t, ZSTD_compressStream2, may_grow(), REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input,
         ZSTD_EndDirective directive),
        (context, output, input, directive))
REPLACE(size_t, ZSTD_compress2, may_grow(), REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, void *to, size_t room, const void *from, size_t size),
        (context, to, room, from, size))
REPLACE(size_t, ZSTD_decompressStream, may_grow(), REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input),
        (context, output, input))

/* ---- each way ---- */

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
