/*
 * Decompressing zlib streams: see inflate.h.
 */
#include "common/inflate.h"

#include <limits.h>
#include <zlib.h>

#define STEP ((size_t)64 << 10)

/* No byte of a zlib stream stands for more. */
#define RATIO_MAX 1032

/* There is always room for one byte more than is left, so that the end of the stream is reached
 * where it should be, and a stream that is too long is seen. */
static enum inflate_result run(z_stream *zlib, uint64_t size, struct buffer *text)
{
    size_t end = text->size + (size_t)size;
    int result;

    do {
        size_t left = end - text->size + 1;
        size_t room = left < STEP ? left : STEP;

        if (!buffer_reserve(text, room))
            return INFLATE_NO_MEMORY;
        zlib->next_out = text->data + text->size;
        zlib->avail_out = (uInt)room;
        result = inflate(zlib, Z_NO_FLUSH);
        text->size += room - zlib->avail_out;
    } while (result == Z_OK && text->size <= end);
    if (result == Z_MEM_ERROR)
        return INFLATE_NO_MEMORY;
    return result == Z_STREAM_END && text->size == end && zlib->avail_in == 0 ? INFLATE_DONE
                                                                              : INFLATE_DAMAGED;
}

enum inflate_result inflate_exactly(struct bytes stream, uint64_t size, struct buffer *text)
{
    z_stream zlib = {.next_in = (Bytef *)(uintptr_t)stream.data, .avail_in = (uInt)stream.size};
    enum inflate_result result;

    if (stream.size > UINT_MAX || size / RATIO_MAX > stream.size)
        return INFLATE_DAMAGED;
    if (inflateInit(&zlib) != Z_OK)
        return INFLATE_NO_MEMORY;
    result = run(&zlib, size, text);
    inflateEnd(&zlib);
    return result;
}
