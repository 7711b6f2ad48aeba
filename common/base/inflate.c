/*
 * Decompressing zlib streams: see inflate.h.
 *
 * libdeflate takes a third of zlib's time, but needs a buffer for the whole output in advance. So
 * the first buffer has the size that most streams need, and only if that is too small is a larger
 * one tried, up to the declared size.
 */
#include "common/base/inflate.h"

#include <libdeflate.h>

/* The highest compression ratio of zlib. */
#define RATIO_MAX 1032

/* The first buffer allows for a compression ratio of RATIO_FIRST, which few streams exceed; each
 * further one is ROOM_GROWTH times as large. */
#define RATIO_FIRST 32
#define ROOM_MIN    ((uint64_t)4 << 10)
#define ROOM_GROWTH 4

enum result inflate_exactly(struct bytes stream, uint64_t size, struct buffer *text)
{
    uint64_t room = stream.size * RATIO_FIRST < ROOM_MIN ? ROOM_MIN : stream.size * RATIO_FIRST;
    struct libdeflate_decompressor *decompressor;
    enum libdeflate_result result;
    size_t consumed = 0, produced = 0;

    if (stream.size == 0 || size / RATIO_MAX > stream.size)
        return RESULT_UNFIT;
    decompressor = libdeflate_alloc_decompressor();
    if (decompressor == NULL)
        return RESULT_NO_MEMORY;
    if (room > size)
        room = size;
    for (;;) {
        /* At least one byte, so that the pointer is not NULL. */
        if (room >= SIZE_MAX || !buffer_reserve(text, (size_t)room + 1)) {
            libdeflate_free_decompressor(decompressor);
            return RESULT_NO_MEMORY;
        }
        result = libdeflate_zlib_decompress_ex(decompressor, stream.data, (size_t)stream.size,
                                               text->data + text->size, (size_t)room, &consumed,
                                               &produced);
        if (result != LIBDEFLATE_INSUFFICIENT_SPACE || room == size)
            break;
        room = room < size / ROOM_GROWTH ? room * ROOM_GROWTH : size;
    }
    libdeflate_free_decompressor(decompressor);
    if (result != LIBDEFLATE_SUCCESS || consumed != stream.size || produced != size)
        return RESULT_UNFIT;
    text->size += produced;
    return RESULT_OK;
}
