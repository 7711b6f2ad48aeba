/*
 * Quick compression: see deflate.h.
 *
 * At each place, only the latest place whose four bytes have the same hash is tried, and a match
 * that is found there is taken. The bytes that this makes are stored in sidecars only as a text and
 * the promise to make them again, so the search must never change: neither the hash, nor the size
 * of the table, nor which places are entered.
 */
#include "common/codec/deflate/deflate.h"

#include <libdeflate.h>
#include <stdlib.h>

#define WINDOW_SIZE     32768u
#define MATCH_MIN       4
#define HASH_BITS       14
#define HASH_MULTIPLIER UINT32_C(2654435761)

/* A window of 32 KiB, compressed by a fast algorithm (RFC 1950, 2.2). */
static const uint8_t stream_header[2] = {0x78, 0x5e};

struct quick {
    const uint8_t *text;
    uint32_t size;
    uint32_t block_start;
    uint32_t latest[1u << HASH_BITS]; /* the place of each hash, plus one; 0: none */
    struct deflate_blocks blocks;
};

/* Enters the place, which must have MATCH_MIN bytes. Returns the former entry. */
static uint32_t enter(struct quick *quick, uint32_t place)
{
    uint32_t hash = (load_u32(quick->text + place, false) * HASH_MULTIPLIER) >> (32 - HASH_BITS);
    uint32_t former = quick->latest[hash];

    quick->latest[hash] = place + 1;
    return former;
}

/* Enters the place and finds a match for it; 0 if there is none. */
static unsigned find_match(struct quick *quick, uint32_t place, uint32_t *distance)
{
    uint32_t left = quick->size - place, former;
    unsigned length;

    if (left < MATCH_MIN)
        return 0;
    former = enter(quick, place);
    *distance = place + 1 - former;
    if (former == 0 || *distance > WINDOW_SIZE)
        return 0;
    length = bytes_common_length(quick->text + former - 1, quick->text + place,
                                 left < DEFLATE_MATCH_MAX ? left : DEFLATE_MATCH_MAX);
    return length < MATCH_MIN ? 0 : length;
}

static bool end_block(struct quick *quick, uint32_t place)
{
    struct bytes text = {quick->text + quick->block_start, place - quick->block_start};

    quick->block_start = place;
    return deflate_blocks_end(&quick->blocks, text, place == quick->size);
}

static bool compress_all(struct quick *quick)
{
    uint32_t place = 0, distance = 0;

    while (place < quick->size) {
        unsigned length = find_match(quick, place, &distance);
        bool full;

        if (length == 0) {
            full = deflate_blocks_literal(&quick->blocks, quick->text[place++]);
        } else {
            uint32_t end = place + length;

            full = deflate_blocks_match(&quick->blocks, length, distance);
            while (++place < end) {
                if (quick->size - place >= MATCH_MIN)
                    enter(quick, place);
            }
        }
        if (full && place < quick->size && !end_block(quick, place))
            return false;
    }
    return end_block(quick, place);
}

enum result quick_compress(struct bytes text, struct buffer *stream)
{
    struct quick *quick;
    uint8_t sum[4];
    bool done;

    if (text.size >= DEFLATE_SIZE_MAX)
        return RESULT_UNFIT;
    quick = malloc(sizeof(*quick));
    if (quick == NULL)
        return RESULT_NO_MEMORY;
    memset(quick, 0, offsetof(struct quick, blocks));
    quick->text = text.size == 0 ? stream_header : text.data; /* must not be NULL */
    quick->size = (uint32_t)text.size;
    deflate_blocks_start(&quick->blocks, stream);
    store_u32(sum, libdeflate_adler32(1, quick->text, (size_t)text.size), true);
    done = buffer_append(stream, stream_header, sizeof(stream_header)) && compress_all(quick) &&
           buffer_append(stream, sum, sizeof(sum));
    free(quick);
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}
