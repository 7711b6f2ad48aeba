/*
 * Distinct function names: see name_set.h.
 *
 * What a chunk says of its size is a claim: memory grows with what zlib really gives.
 */
#include "common/llvm/name_set.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "common/base/inflate.h"
#include "common/base/memory_limit.h"

#define CAPACITY_FIRST 1024

static bool damaged(const char *file, struct error *error)
{
    return error_set(error, "%s: damaged: its function names cannot be read; get an intact copy",
                     file);
}

/* ---- the hash table ---- */

/* The slot of the name, or the free one where it belongs. */
static struct name_slot *find_slot(const struct name_set *set, struct bytes name, uint64_t hash)
{
    size_t mask = set->capacity - 1;
    size_t i = (size_t)hash & mask;

    while (set->slots[i].size != 0 &&
           (set->slots[i].hash != hash || set->slots[i].size != name.size ||
            memcmp(set->text.data + set->slots[i].offset, name.data, (size_t)name.size) != 0))
        i = (i + 1) & mask;
    return &set->slots[i];
}

/* Twice as many slots. */
static bool grow(struct name_set *set)
{
    size_t capacity = set->capacity == 0 ? CAPACITY_FIRST : 2 * set->capacity;
    struct name_slot *slots = calloc(capacity, sizeof(*slots));

    if (slots == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        size_t to = (size_t)set->slots[i].hash & (capacity - 1);

        if (set->slots[i].size == 0)
            continue;
        while (slots[to].size != 0)
            to = (to + 1) & (capacity - 1);
        slots[to] = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return true;
}

/* Names that a file was made to have must not all fall into one slot. The order of the result does
 * not depend on it, so nothing is lost where there is no randomness yet. */
static void choose_seed(struct name_set *set)
{
    if (getrandom(&set->seed, sizeof(set->seed), GRND_NONBLOCK) != sizeof(set->seed))
        set->seed = (uintptr_t)set;
}

static bool add_name(struct name_set *set, struct bytes name)
{
    uint64_t hash;
    struct name_slot *slot;
    size_t offset = set->text.size;

    if (set->capacity == 0)
        choose_seed(set);
    if (set->count >= set->capacity / 2 && !grow(set))
        return false;
    hash = XXH3_64bits_withSeed(name.data, (size_t)name.size, set->seed);
    slot = find_slot(set, name, hash);
    if (slot->size != 0)
        return true;
    if (!buffer_append(&set->text, name.data, (size_t)name.size) ||
        !buffer_append(&set->text, "\1", 1))
        return false;
    *slot = (struct name_slot){.hash = hash, .offset = offset, .size = (size_t)name.size};
    set->count++;
    return true;
}

static bool add_names(struct name_set *set, struct bytes names)
{
    while (names.size != 0) {
        const uint8_t *end = memchr(names.data, NAME_SEPARATOR, (size_t)names.size);
        uint64_t size = end == NULL ? names.size : (uint64_t)(end - names.data);
        uint64_t taken = end == NULL ? size : size + 1;

        if (size != 0 && !add_name(set, (struct bytes){names.data, size}))
            return false;
        names = (struct bytes){names.data + taken, names.size - taken};
    }
    return true;
}

/* ---- chunks ---- */

bool name_chunk_take(struct bytes *section, struct name_chunk *chunk)
{
    struct bytes rest = *section;
    uint64_t stored;

    if (!bytes_take_uleb128(&rest, &chunk->size) || !bytes_take_uleb128(&rest, &stored) ||
        !bytes_slice(rest, 0, stored != 0 ? stored : chunk->size, &chunk->content) ||
        !bytes_slice(rest, chunk->content.size, rest.size - chunk->content.size, section))
        return false;
    chunk->compressed = stored != 0;
    return true;
}

/* Takes a chunk off the front of the section. */
static bool read_chunk(struct name_set *set, struct bytes *section, uint64_t limit,
                       const char *file, struct error *error)
{
    struct name_chunk chunk;
    struct bytes content;

    if (!name_chunk_take(section, &chunk))
        return damaged(file, error);
    content = chunk.content;
    if (chunk.compressed) {
        if (!memory_limit_allows(limit, set->text.size + chunk.size, file, "the text of its names",
                                 error))
            return false;
        set->chunk.size = 0;
        switch (inflate_exactly(content, chunk.size, &set->chunk)) {
        case INFLATE_DAMAGED:
            return damaged(file, error);
        case INFLATE_NO_MEMORY:
            return error_out_of_memory(error, file, chunk.size);
        case INFLATE_DONE:
            break;
        }
        content = buffer_view(&set->chunk);
    }
    return add_names(set, content) || error_out_of_memory(error, file, content.size);
}

/* ---- the section ---- */

bool name_set_read(struct name_set *set, struct bytes section, const char *file,
                   struct error *error)
{
    uint64_t limit = set->memory_limit != 0 ? set->memory_limit : memory_limit_for(section.size);

    for (;;) {
        while (section.size != 0 && section.data[0] == 0)
            section = (struct bytes){section.data + 1, section.size - 1};
        if (section.size == 0)
            return true;
        if (!read_chunk(set, &section, limit, file, error))
            return false;
    }
}

void name_set_free(struct name_set *set)
{
    buffer_free(&set->text);
    buffer_free(&set->chunk);
    free(set->slots);
    *set = (struct name_set){0};
}

bool name_set_encode(const struct name_set *set, struct buffer *section)
{
    /* Separators are between names, not behind the last one. */
    size_t size = set->text.size - 1;

    return set->count == 0 ||
           (buffer_append_uleb128(section, size) && buffer_append_uleb128(section, 0) &&
            buffer_append(section, set->text.data, size));
}
