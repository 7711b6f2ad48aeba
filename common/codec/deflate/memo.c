/*
 * What a split has proved: see deflate/memo.h.
 *
 * A hash table with open addressing. 128-bit digests do not collide by chance. Someone who could
 * provoke a collision by the texts in an image could also change the image itself; and the digest
 * of the whole original is checked in the end, whatever is found here.
 */
#include "common/codec/deflate/memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

/* Used instead of a level for sections. */
#define NO_LEVEL ((enum zlib_level)0)

struct entry {
    struct digest digest;
    enum zlib_level level;
    struct bytes stream; /* data == NULL: the entry is free */
};

struct memo {
    pthread_mutex_t lock;
    struct entry *entries;
    size_t capacity; /* a power of two */
    size_t count;
};

struct memo *memo_new(void)
{
    struct memo *memo = calloc(1, sizeof(*memo));

    if (memo == NULL)
        return NULL;
    memo->entries = calloc(FIRST_CAPACITY, sizeof(*memo->entries));
    if (memo->entries == NULL) {
        free(memo);
        return NULL;
    }
    memo->capacity = FIRST_CAPACITY;
    pthread_mutex_init(&memo->lock, NULL);
    return memo;
}

void memo_free(struct memo *memo)
{
    if (memo == NULL)
        return;
    pthread_mutex_destroy(&memo->lock);
    free(memo->entries);
    free(memo);
}

/* The entry of the text, or the free entry where it belongs. */
static struct entry *place_of(const struct memo *memo, const struct digest *digest,
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

static bool grow(struct memo *memo)
{
    struct entry *entries = memo->entries;
    size_t capacity = memo->capacity;

    memo->entries = calloc(2 * capacity, sizeof(*entries));
    if (memo->entries == NULL) {
        memo->entries = entries;
        return false;
    }
    memo->capacity = 2 * capacity;
    for (size_t i = 0; i < capacity; i++) {
        if (entries[i].stream.data != NULL)
            *place_of(memo, &entries[i].digest, entries[i].level) = entries[i];
    }
    free(entries);
    return true;
}

static bool add(struct memo *memo, const struct digest *digest, enum zlib_level level,
                struct bytes stream)
{
    bool done;

    pthread_mutex_lock(&memo->lock);
    done = memo->count * 2 < memo->capacity || grow(memo);
    if (done) {
        struct entry *entry = place_of(memo, digest, level);

        if (entry->stream.data == NULL)
            memo->count++;
        *entry = (struct entry){*digest, level, stream};
    }
    pthread_mutex_unlock(&memo->lock);
    return done;
}

static bool find(struct memo *memo, const struct digest *digest, enum zlib_level level,
                 struct bytes *stream)
{
    pthread_mutex_lock(&memo->lock);
    *stream = place_of(memo, digest, level)->stream;
    pthread_mutex_unlock(&memo->lock);
    return stream->data != NULL;
}

bool memo_add(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes stream)
{
    struct digest digest = digest_of(text);

    return add(memo, &digest, level, stream);
}

bool memo_find(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes *stream)
{
    struct digest digest = digest_of(text);

    return find(memo, &digest, level, stream);
}

bool memo_add_section(struct memo *memo, const struct digest *digest, struct bytes section)
{
    return add(memo, digest, NO_LEVEL, section);
}

bool memo_find_section(struct memo *memo, const struct digest *digest, struct bytes *section)
{
    return find(memo, digest, NO_LEVEL, section);
}
