/*
 * Refused allocations: see refused_memory.h.
 */
#include "tests/unit/refused_memory.h"

#include <check.h>
#include <execinfo.h>
#include <search.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/digest_set.h"
#include "common/base/intern_table.h"

/* With those of this file. */
#define CALLERS  8

#define WAYS_MAX 0x10000

size_t memory_granted = MEMORY_ALL;
bool memory_stays_refused;

/* For memory_refuse_each: the digests of all callers so far, at their places in a hash table, and
 * the numbers of the calls that are to be refused. */
static bool refuses_each, is_listing;
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
    ck_assert_uint_lt(++seen_count, WAYS_MAX / 2);
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

static bool is_granted(void)
{
    if (is_listing)
        list_call();
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
static bool is_call_granted(void)
{
    return !refuses_each || is_granted();
}

void memory_refuse_each(bool (*run)(void *subject), void *subject)
{
    refuses_each = is_listing = true;
    calls = listed_count = 0;
    ck_assert(run(subject));
    is_listing = false;
    for (size_t i = 0; i < listed_count; i++) {
        memory_granted = listed[i];
        run(subject);
        memory_granted = MEMORY_ALL;
    }
    refuses_each = false;
}

void memory_expect_reason(const struct error *error)
{
    ck_assert_msg(error_is_of_memory(error) ||
                      strstr(error->message, "use another version of libzstd") != NULL,
                  "%s", error->message);
}

/* ---- the functions that are replaced ---- */

/* Declares a function and the one that replaces it, and defines that. */
#define REPLACE(granted, type, name, refusal, parameters, arguments)                               \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return granted() ? __real_##name arguments : (refusal);                                    \
    }

#define REFUSED_BY_ZSTD ((size_t)-ZSTD_error_memory_allocation)

REPLACE(is_granted, void *, malloc, NULL, (size_t size), (size))
REPLACE(is_granted, void *, calloc, NULL, (size_t count, size_t size), (count, size))
REPLACE(is_granted, void *, realloc, NULL, (void *moved, size_t size), (moved, size))
REPLACE(is_granted, char *, strdup, NULL, (const char *text), (text))
REPLACE(is_granted, void *, tsearch, NULL,
        (const void *key, void **root, int (*compare)(const void *, const void *)),
        (key, root, compare))

REPLACE(is_call_granted, bool, buffer_reserve, false, (struct buffer * buffer, size_t more),
        (buffer, more))
REPLACE(is_call_granted, bool, buffer_append, false,
        (struct buffer * buffer, const void *data, size_t size), (buffer, data, size))
REPLACE(is_call_granted, bool, buffer_append_zeros, false, (struct buffer * buffer, size_t size),
        (buffer, size))
REPLACE(is_call_granted, bool, buffer_append_uleb128, false,
        (struct buffer * buffer, uint64_t value), (buffer, value))
REPLACE(is_call_granted, bool, array_make_room, false,
        (void *array, size_t *capacity, size_t count, size_t more, size_t item_size),
        (array, capacity, count, more, item_size))
REPLACE(is_call_granted, bool, intern_table_add, false,
        (struct intern_table * table, uint64_t key, uint64_t *number), (table, key, number))
REPLACE(is_call_granted, bool, intern_table_put, false,
        (struct intern_table * table, uint64_t key, uint64_t number), (table, key, number))
REPLACE(is_call_granted, bool, digest_set_add, false,
        (struct digest_set * set, const struct digest *digest), (set, digest))

REPLACE(is_call_granted, ZSTD_CCtx *, ZSTD_createCCtx, NULL, (void), ())
REPLACE(is_call_granted, ZSTD_DCtx *, ZSTD_createDCtx, NULL, (void), ())
REPLACE(is_call_granted, size_t, ZSTD_CCtx_setParameter, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_cParameter parameter, int value), (context, parameter, value))
REPLACE(is_call_granted, size_t, ZSTD_DCtx_setParameter, REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_dParameter parameter, int value), (context, parameter, value))
REPLACE(is_call_granted, size_t, ZSTD_compressStream2, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input,
         ZSTD_EndDirective directive),
        (context, output, input, directive))
REPLACE(is_call_granted, size_t, ZSTD_compress2, REFUSED_BY_ZSTD,
        (ZSTD_CCtx * context, void *to, size_t room, const void *from, size_t size),
        (context, to, room, from, size))
REPLACE(is_call_granted, size_t, ZSTD_decompressStream, REFUSED_BY_ZSTD,
        (ZSTD_DCtx * context, ZSTD_outBuffer *output, ZSTD_inBuffer *input),
        (context, output, input))
