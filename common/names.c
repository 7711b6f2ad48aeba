/*
 * Function names: see names.h.
 *
 * What a chunk says of its size is a claim: memory grows with what zlib really gives.
 */
#include "common/names.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/md5.h"

#define SEPARATOR    '\1'
#define INFLATE_STEP ((size_t)64 << 10)

struct name_entry {
    uint64_t reference;
    size_t offset; /* in the text */
};

static bool damaged(const char *file, struct error *error)
{
    return error_set(error, "%s: damaged: its function names cannot be read; get an intact copy",
                     file);
}

/* ---- chunks ---- */

/* Appends just `size` bytes. There is always room for one more than that, so that the end of the
 * stream is reached where it should be, and a stream that is too long is seen. */
static bool inflate_all(z_stream *stream, uint64_t size, struct buffer *text, bool *good)
{
    size_t end = text->size + (size_t)size;
    int result;

    do {
        size_t left = end - text->size + 1;
        size_t room = left < INFLATE_STEP ? left : INFLATE_STEP;

        if (!buffer_reserve(text, room))
            return false;
        stream->next_out = text->data + text->size;
        stream->avail_out = (uInt)room;
        result = inflate(stream, Z_NO_FLUSH);
        text->size += room - stream->avail_out;
    } while (result == Z_OK && text->size <= end);
    *good = result == Z_STREAM_END && text->size == end && stream->avail_in == 0;
    return true;
}

static bool inflate_chunk(struct bytes compressed, uint64_t size, const char *file,
                          struct buffer *text, struct error *error)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)compressed.data,
                       .avail_in = (uInt)compressed.size};
    bool good = false, had_memory;

    /* No byte of a zlib stream stands for more than 1032 bytes. */
    if (compressed.size > UINT_MAX || size / 1032 > compressed.size)
        return damaged(file, error);
    if (inflateInit(&stream) != Z_OK)
        return error_out_of_memory(error, file, sizeof(stream));
    had_memory = inflate_all(&stream, size, text, &good);
    inflateEnd(&stream);
    if (!had_memory)
        return error_out_of_memory(error, file, size);
    return good || damaged(file, error);
}

static bool read_chunk(struct bytes *section, const char *file, struct buffer *text,
                       struct error *error)
{
    uint64_t size, stored;
    struct bytes content;

    if (!bytes_take_uleb128(section, &size) || !bytes_take_uleb128(section, &stored) ||
        !bytes_slice(*section, 0, stored != 0 ? stored : size, &content) ||
        !bytes_slice(*section, content.size, section->size - content.size, section))
        return damaged(file, error);
    if (stored != 0) {
        if (!inflate_chunk(content, size, file, text, error))
            return false;
    } else if (!buffer_append(text, content.data, (size_t)content.size)) {
        return error_out_of_memory(error, file, content.size);
    }
    /* Between chunks names are as apart as inside of one. */
    return buffer_append(text, "\1", 1) || error_out_of_memory(error, file, 1);
}

/* ---- the index ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct name_entry *left = a, *right = b;

    if (left->reference != right->reference)
        return left->reference < right->reference ? -1 : 1;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static void drop_repeated(struct names *names)
{
    size_t kept = 0;

    for (size_t i = 0; i < names->count; i++) {
        if (kept == 0 || names->entries[i].reference != names->entries[kept - 1].reference)
            names->entries[kept++] = names->entries[i];
    }
    names->count = kept;
}

/* Makes strings of the names, and hashes them. */
static bool index_names(struct names *names, const char *file, struct error *error)
{
    struct buffer entries = {0};
    size_t start = 0;

    for (size_t i = 0; i < names->text.size; i++) {
        struct bytes name = {names->text.data + start, i - start};
        struct name_entry entry = {.offset = start};

        if (names->text.data[i] != SEPARATOR)
            continue;
        names->text.data[i] = '\0';
        start = i + 1;
        if (name.size == 0)
            continue;
        entry.reference = md5_name_reference(name);
        if (!buffer_append(&entries, &entry, sizeof(entry))) {
            buffer_free(&entries);
            return error_out_of_memory(error, file, sizeof(entry));
        }
    }
    names->entries = (struct name_entry *)(void *)entries.data;
    names->count = entries.size / sizeof(struct name_entry);
    if (names->count != 0)
        qsort(names->entries, names->count, sizeof(*names->entries), compare_entries);
    drop_repeated(names);
    return true;
}

bool names_read(struct names *names, struct bytes section, const char *file, struct error *error)
{
    *names = (struct names){0};
    for (;;) {
        while (section.size != 0 && section.data[0] == 0)
            section = (struct bytes){section.data + 1, section.size - 1};
        if (section.size == 0)
            break;
        if (!read_chunk(&section, file, &names->text, error))
            return false;
    }
    return index_names(names, file, error);
}

void names_free(struct names *names)
{
    buffer_free(&names->text);
    free(names->entries);
    *names = (struct names){0};
}

const char *names_find(const struct names *names, uint64_t reference)
{
    size_t low = 0, high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (names->entries[middle].reference < reference)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == names->count || names->entries[low].reference != reference)
        return NULL;
    return (const char *)names->text.data + names->entries[low].offset;
}
