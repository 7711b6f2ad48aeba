/*
 * Function names: see names.h.
 *
 * The declared size of a chunk is not trusted: memory grows with zlib's actual output. One chunk is
 * inflated at a time, and only new names are kept.
 */
#include "common/llvm/names.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/inflate.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"

void names_free(struct names *names)
{
    buffer_free(&names->text);
    buffer_free(&names->chunk);
    free(names->ends);
    free(names->references);
    intern_table_free(&names->by_text);
    intern_table_free(&names->by_reference);
    *names = (struct names){0};
}

/* ---- by text ---- */

static bool append_name(struct names *names, struct bytes name)
{
    const char separator = NAME_SEPARATOR;

    if (!ARRAY_ROOM_FOR_ONE(names->ends, names->capacity, names->count) ||
        !buffer_append(&names->text, name.data, (size_t)name.size) ||
        !buffer_append(&names->text, &separator, 1))
        return false;
    names->ends[names->count++] = names->text.size - 1;
    return true;
}

bool names_add(struct names *names, struct bytes name, uint64_t *number)
{
    uint64_t key;

    if (names->by_text.capacity == 0 && !intern_table_reserve(&names->by_text, 0))
        return false;
    /* Each key stands for one name. If another name has the same hash, it gets the next key. */
    key = XXH3_64bits_withSeed(name.data, (size_t)name.size, names->by_text.seed);
    for (;; key++) {
        if (!intern_table_add(&names->by_text, key, number))
            return false;
        if (*number == names->count)
            return append_name(names, name);
        if (bytes_equal(names_get(names, (size_t)*number), name))
            return true;
    }
}

enum result names_take_text(struct names *names, struct buffer *text)
{
    const uint8_t *at, *end;
    size_t count = 0;

    *names = (struct names){.text = *text};
    *text = (struct buffer){0};
    if (names->text.size == 0)
        return RESULT_OK;
    at = names->text.data;
    end = at + names->text.size;
    if (end[-1] != NAME_SEPARATOR)
        return RESULT_UNFIT;
    for (size_t i = 0; i < names->text.size; i++)
        count += at[i] == NAME_SEPARATOR;
    names->ends = malloc(count * sizeof(*names->ends));
    if (names->ends == NULL)
        return RESULT_NO_MEMORY;
    for (; names->count < count; at++) {
        at = memchr(at, NAME_SEPARATOR, (size_t)(end - at));
        names->ends[names->count++] = (uint64_t)(at - names->text.data);
    }
    return RESULT_OK;
}

/* ---- sections ---- */

static bool names_damaged(const char *file, struct error *error)
{
    return error_set(error, "%s: damaged: its function names cannot be read; get an intact copy",
                     file);
}

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

static bool add_text(struct names *names, struct bytes text)
{
    uint64_t number;

    while (text.size != 0) {
        const uint8_t *end = memchr(text.data, NAME_SEPARATOR, (size_t)text.size);
        uint64_t size = end == NULL ? text.size : (uint64_t)(end - text.data);
        uint64_t taken = end == NULL ? size : size + 1;

        if (size != 0 && !names_add(names, (struct bytes){text.data, size}, &number))
            return false;
        text = (struct bytes){text.data + taken, text.size - taken};
    }
    return true;
}

/* Takes a chunk off the front of the section. *inflated: the size of all texts that were inflated,
 * which is limited even if they have the same names over and over, since that takes time. */
static bool add_chunk(struct names *names, struct bytes *section, uint64_t limit,
                      uint64_t *inflated, const char *file, struct error *error)
{
    struct name_chunk chunk;
    struct bytes content;
    enum result result;

    if (!name_chunk_take(section, &chunk))
        return names_damaged(file, error);
    content = chunk.content;
    if (chunk.compressed) {
        if (!add_fits(*inflated, chunk.size, inflated))
            *inflated = UINT64_MAX;
        if (!memory_limit_allows(limit, *inflated, file, "the text of its names", error))
            return false;
        names->chunk.size = 0;
        result = inflate_exactly(content, chunk.size, &names->chunk);
        if (result != RESULT_OK)
            return result == RESULT_NO_MEMORY ? error_out_of_memory(error, file, chunk.size)
                                              : names_damaged(file, error);
        content = buffer_view(&names->chunk);
    }
    return add_text(names, content) || error_out_of_memory(error, file, content.size);
}

bool names_add_section(struct names *names, struct bytes section, uint64_t limit, const char *file,
                       struct error *error)
{
    uint64_t inflated = names->text.size;
    bool done = true;

    if (limit == 0)
        limit = memory_limit_for(section.size);
    while (done && section.size != 0) {
        if (section.data[0] == 0)
            section = (struct bytes){section.data + 1, section.size - 1};
        else
            done = add_chunk(names, &section, limit, &inflated, file, error);
    }
    return done;
}

bool names_encode(const struct names *names, struct buffer *section)
{
    /* In a section there are separators between names, but not after the last one. */
    size_t size = names->text.size - 1;

    return names->count == 0 ||
           (buffer_append_uleb128(section, size) && buffer_append_uleb128(section, 0) &&
            buffer_append(section, names->text.data, size));
}

/* ---- by NameRef ---- */

static void hash_some(void *context, size_t index)
{
    struct names *names = context;
    struct bytes views[MD5_NAMES_MAX];
    size_t first = index * MD5_NAMES_MAX, count = 0;

    while (count < MD5_NAMES_MAX && first + count < names->count) {
        views[count] = names_get(names, first + count);
        count++;
    }
    md5_name_references(views, count, names->references + first);
}

bool names_hash(struct names *names, unsigned threads)
{
    if (names->references != NULL || names->count == 0)
        return true;
    names->references = malloc(names->count * sizeof(*names->references));
    if (names->references == NULL)
        return false;
    parallel_run((names->count + MD5_NAMES_MAX - 1) / MD5_NAMES_MAX, threads, hash_some, names);
    return true;
}

bool names_index(struct names *names, unsigned threads)
{
    if (names->by_reference.count != 0 || names->count == 0)
        return true;
    if (!names_hash(names, threads) || !intern_table_reserve(&names->by_reference, names->count))
        return false;
    for (size_t i = 0; i < names->count; i++) {
        if (!intern_table_put(&names->by_reference, names->references[i], i))
            return false;
    }
    return true;
}

bool names_read(struct names *names, struct bytes section, const char *file, struct error *error)
{
    *names = (struct names){0};
    if (!names_add_section(names, section, 0, file, error))
        return false;
    if (!names_index(names, 1))
        return error_out_of_memory(error, file, names->text.size);
    for (size_t i = 0; i < names->count; i++)
        names->text.data[names->ends[i]] = '\0';
    return true;
}

const char *names_find(const struct names *names, uint64_t reference)
{
    uint64_t number;

    if (!intern_table_find(&names->by_reference, reference, &number))
        return NULL;
    return (const char *)names_get(names, (size_t)number).data;
}
