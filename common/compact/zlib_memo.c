/*
 * What has been seen of zlib_again: see zlib_memo.h.
 *
 * A table by digest with open places. Digests of 128 bits do not meet by chance, and the texts are
 * those of the image that is being split, so whoever could make them meet could as well change the
 * image; the digest of the whole original is checked in the end whatever is found here.
 */
#include "common/compact/zlib_memo.h"

#include <stdlib.h>
#include <string.h>

#include "common/digest.h"

#define FIRST_CAPACITY 64

struct entry {
    struct digest digest;
    enum zlib_level level;
    struct bytes stream; /* data == NULL: the place is free */
};

struct zlib_memo {
    struct entry *entries;
    size_t capacity; /* a power of two */
    size_t count;
};

struct zlib_memo *zlib_memo_new(void)
{
    struct zlib_memo *memo = calloc(1, sizeof(*memo));

    if (memo == NULL)
        return NULL;
    memo->entries = calloc(FIRST_CAPACITY, sizeof(*memo->entries));
    if (memo->entries == NULL) {
        free(memo);
        return NULL;
    }
    memo->capacity = FIRST_CAPACITY;
    return memo;
}

void zlib_memo_free(struct zlib_memo *memo)
{
    if (memo == NULL)
        return;
    free(memo->entries);
    free(memo);
}

/* The entry of that text, or the free one where it belongs. */
static struct entry *place_of(const struct zlib_memo *memo, const struct digest *digest,
                              enum zlib_level level)
{
    size_t place = (size_t)load_u64(digest->bytes, false);

    for (;; place++) {
        struct entry *entry = &memo->entries[place & (memo->capacity - 1)];

        if (entry->stream.data == NULL ||
            (entry->level == level && digest_equal(&entry->digest, digest)))
            return entry;
    }
}

static bool grow(struct zlib_memo *memo)
{
    struct zlib_memo larger = {.capacity = memo->capacity * 2, .count = memo->count};

    larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i < memo->capacity; i++) {
        const struct entry *entry = &memo->entries[i];
        if (entry->stream.data != NULL)
            *place_of(&larger, &entry->digest, entry->level) = *entry;
    }
    free(memo->entries);
    *memo = larger;
    return true;
}

bool zlib_memo_add(struct zlib_memo *memo, struct bytes text, enum zlib_level level,
                   struct bytes stream)
{
    struct digest digest = digest_of(text);
    struct entry *entry;

    if (memo->count * 2 >= memo->capacity && !grow(memo))
        return false;
    entry = place_of(memo, &digest, level);
    if (entry->stream.data == NULL)
        memo->count++;
    *entry = (struct entry){digest, level, stream};
    return true;
}

bool zlib_memo_find(const struct zlib_memo *memo, struct bytes text, enum zlib_level level,
                    struct bytes *stream)
{
    struct digest digest = digest_of(text);
    const struct entry *entry = place_of(memo, &digest, level);

    *stream = entry->stream;
    return entry->stream.data != NULL;
}
