/*
 * A set of digests: see digest_set.h.
 *
 * Open addressing. A digest's place depends on a seed, so that a hostile file cannot contain many
 * digests with the same place; no result depends on the seed. A digest of zeros would look like a
 * free place, so another one stands for it.
 */
#include "common/base/digest_set.h"

#include <stdlib.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_CAPACITY 1024

void digest_set_free(struct digest_set *set)
{
    free(set->digests);
    *set = (struct digest_set){0};
}

static bool is_free(const struct digest *digest)
{
    static const struct digest none;

    return digest_equal(digest, &none);
}

static struct digest as_kept(const struct digest *digest)
{
    struct digest kept = *digest;

    kept.bytes[0] |= is_free(digest);
    return kept;
}

/* The place of the digest, or the free place where it belongs. */
static struct digest *place_of(const struct digest_set *set, const struct digest *digest)
{
    size_t place = (size_t)XXH3_64bits_withSeed(digest, sizeof(*digest), set->seed);

    for (;; place++) {
        struct digest *found = &set->digests[place & (set->capacity - 1)];

        if (is_free(found) || digest_equal(found, digest))
            return found;
    }
}

static bool grow(struct digest_set *set)
{
    struct digest_set larger = {.count = set->count, .seed = set->seed};

    larger.capacity = set->capacity == 0 ? FIRST_CAPACITY : 2 * set->capacity;
    if (larger.seed == 0 &&
        getrandom(&larger.seed, sizeof(larger.seed), GRND_NONBLOCK) != sizeof(larger.seed))
        larger.seed = (uintptr_t)set;
    larger.digests = calloc(larger.capacity, sizeof(*larger.digests));
    if (larger.digests == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (!is_free(&set->digests[i]))
            *place_of(&larger, &set->digests[i]) = set->digests[i];
    }
    free(set->digests);
    *set = larger;
    return true;
}

bool digest_set_has(const struct digest_set *set, const struct digest *digest)
{
    struct digest kept = as_kept(digest);

    return set->count != 0 && !is_free(place_of(set, &kept));
}

bool digest_set_add(struct digest_set *set, const struct digest *digest)
{
    struct digest kept = as_kept(digest), *place;

    if (set->count >= set->capacity / 4 * 3 && !grow(set))
        return false;
    place = place_of(set, &kept);
    set->count += is_free(place);
    *place = kept;
    return true;
}
