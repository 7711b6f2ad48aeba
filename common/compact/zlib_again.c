/*
 * zlib streams made again: see zlib_again.h.
 *
 * This is the search for matches: at each place zlib looks through the earlier places whose three
 * bytes have the same hash, the nearest first, and puts a match off where the next place has a
 * longer one. Where it stops looking decides which match is found, so the limits are zlib's own;
 * so are the odd ones that come from its window, which holds 64 KiB and moves by 32: the place that
 * the window starts at is never found.
 */
#include "common/compact/zlib_again.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/compact/deflate_blocks.h"

#define WINDOW_SIZE   32768u
#define LOOKAHEAD_MIN (DEFLATE_MATCH_MAX + DEFLATE_MATCH_MIN + 1)
#define DISTANCE_MAX  (WINDOW_SIZE - LOOKAHEAD_MIN)
#define HASH_SIZE     32768u
/* Matches of the least length that are further away than this cost more than literals. */
#define SHORT_DISTANCE_MAX 4096

/* How far the search goes. */
struct effort {
    enum zlib_level level;
    uint8_t header[2];
    unsigned good; /* from this length of the former match on, a quarter of the chain is enough */
    unsigned lazy; /* from this length on, the next place is not looked at */
    unsigned nice; /* this length is long enough */
    unsigned chain;
};

static const struct effort efforts[] = {
    {ZLIB_LEVEL_DEFAULT, {0x78, 0x9c}, 8, 16, 128, 128},
    {ZLIB_LEVEL_BEST, {0x78, 0xda}, 32, 258, 258, 4096},
};

struct matcher {
    const uint8_t *text;
    uint32_t size;
    const struct effort *effort;
    uint32_t window_start;          /* the window's place in the text */
    uint32_t window_end;            /* how far the text was read into the window */
    uint32_t block_start;           /* of what is in no block yet */
    uint32_t head[HASH_SIZE];       /* the latest place of each hash; 0: none */
    uint32_t previous[WINDOW_SIZE]; /* of a place modulo the size: the place before in its chain */
    struct deflate_blocks blocks;
};

static const struct effort *effort_of(enum zlib_level level)
{
    for (size_t i = 0; i < sizeof(efforts) / sizeof(efforts[0]); i++) {
        if (efforts[i].level == level)
            return &efforts[i];
    }
    return NULL;
}

bool zlib_again_level(struct bytes stream, enum zlib_level *level)
{
    for (size_t i = 0; i < sizeof(efforts) / sizeof(efforts[0]); i++) {
        if (stream.size >= 2 && memcmp(stream.data, efforts[i].header, 2) == 0) {
            *level = efforts[i].level;
            return true;
        }
    }
    return false;
}

/* Reads on, and moves the window, when zlib would. */
static void fill_window(struct matcher *matcher, uint32_t place)
{
    while (matcher->window_end - place < LOOKAHEAD_MIN) {
        uint32_t room, left = matcher->size - matcher->window_end;

        if (place - matcher->window_start >= WINDOW_SIZE + DISTANCE_MAX)
            matcher->window_start += WINDOW_SIZE;
        if (left == 0)
            break;
        room = matcher->window_start + 2 * WINDOW_SIZE - matcher->window_end;
        matcher->window_end += left < room ? left : room;
    }
}

/* Enters the place; returns the one before with the same hash. */
static uint32_t enter(struct matcher *matcher, uint32_t place)
{
    const uint8_t *bytes = matcher->text + place;
    unsigned hash = ((unsigned)bytes[0] << 10 ^ (unsigned)bytes[1] << 5 ^ bytes[2]) % HASH_SIZE;
    uint32_t before = matcher->head[hash];

    matcher->previous[place % WINDOW_SIZE] = before;
    matcher->head[hash] = place;
    return before;
}

/* How many bytes at both places are the same, at most `most`. */
static unsigned common_length(const uint8_t *a, const uint8_t *b, unsigned most)
{
    unsigned length = 0;

    while (length + 8 <= most) {
        uint64_t left, right;

        memcpy(&left, a + length, sizeof(left));
        memcpy(&right, b + length, sizeof(right));
        if (left != right) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return length + (unsigned)__builtin_ctzll(left ^ right) / 8;
#else
            return length + (unsigned)__builtin_clzll(left ^ right) / 8;
#endif
        }
        length += 8;
    }
    while (length < most && a[length] == b[length])
        length++;
    return length;
}

static uint16_t pair_at(const uint8_t *bytes)
{
    uint16_t pair;

    memcpy(&pair, bytes, sizeof(pair));
    return pair;
}

/* Goes down the chain from `candidate` for a match of more than `best` bytes. Returns the length of
 * the longest and sets *start, or returns `best`. */
static unsigned longest_match(const struct matcher *matcher, uint32_t place, uint32_t candidate,
                              unsigned best, uint32_t *start)
{
    const uint8_t *text = matcher->text, *here = text + place;
    uint32_t left = matcher->size - place;
    unsigned most = left < DEFLATE_MATCH_MAX ? left : DEFLATE_MATCH_MAX;
    unsigned nice = matcher->effort->nice < left ? matcher->effort->nice : left;
    unsigned chain =
        best >= matcher->effort->good ? matcher->effort->chain >> 2 : matcher->effort->chain;
    uint32_t limit = matcher->window_start;

    if (place - limit > DISTANCE_MAX)
        limit = place - DISTANCE_MAX;
    if (best >= most)
        return most;
    do {
        const uint8_t *there = text + candidate;
        unsigned length;

        /* Nearly all candidates end here: what would make the match longer differs. */
        if (pair_at(there + best - 1) == pair_at(here + best - 1) &&
            pair_at(there) == pair_at(here)) {
            length = common_length(there, here, most);
            if (length > best) {
                *start = candidate;
                best = length;
                if (length >= nice)
                    break;
            }
        }
        candidate = matcher->previous[candidate % WINDOW_SIZE];
    } while (candidate > limit && --chain != 0);
    return best;
}

/* The best match at a place, which is better than one of `former` bytes at the place before. */
static unsigned find_match(struct matcher *matcher, uint32_t place, unsigned former,
                           uint32_t *start)
{
    uint32_t candidate;
    unsigned length;

    if (matcher->size - place < DEFLATE_MATCH_MIN)
        return DEFLATE_MATCH_MIN - 1;
    candidate = enter(matcher, place);
    if (candidate <= matcher->window_start || former >= matcher->effort->lazy ||
        place - candidate > DISTANCE_MAX)
        return DEFLATE_MATCH_MIN - 1;
    length = longest_match(matcher, place, candidate, former, start);
    if (length == DEFLATE_MATCH_MIN && place - *start > SHORT_DISTANCE_MAX)
        return DEFLATE_MATCH_MIN - 1;
    return length;
}

/* Ends the block in front of `place`. Stored as it is, it must be in the window still. */
static bool end_block(struct matcher *matcher, uint32_t place, bool last)
{
    struct bytes text = {matcher->text + matcher->block_start, place - matcher->block_start};

    if (matcher->block_start < matcher->window_start)
        text.data = NULL;
    matcher->block_start = place;
    return deflate_blocks_end(&matcher->blocks, text, last);
}

static bool deflate_all(struct matcher *matcher)
{
    uint32_t place = 0, start = 0;
    unsigned length = DEFLATE_MATCH_MIN - 1;
    bool pending = false; /* the byte before may become a literal */

    for (;;) {
        unsigned former = length;
        uint32_t former_start = start;

        fill_window(matcher, place);
        if (place == matcher->size)
            break;
        length = find_match(matcher, place, former, &start);
        if (former >= DEFLATE_MATCH_MIN && length <= former) {
            bool full = deflate_blocks_match(&matcher->blocks, former, place - 1 - former_start);
            uint32_t end = place - 1 + former;

            while (++place < end) {
                if (matcher->size - place >= DEFLATE_MATCH_MIN)
                    enter(matcher, place);
            }
            pending = false;
            length = DEFLATE_MATCH_MIN - 1;
            if (full && !end_block(matcher, place, false))
                return false;
            continue;
        }
        if (pending && deflate_blocks_literal(&matcher->blocks, matcher->text[place - 1]) &&
            !end_block(matcher, place, false))
            return false;
        pending = true;
        place++;
    }
    if (pending)
        deflate_blocks_literal(&matcher->blocks, matcher->text[place - 1]);
    return end_block(matcher, place, true);
}

bool zlib_again(struct bytes text, enum zlib_level level, struct buffer *stream)
{
    const struct effort *effort = effort_of(level);
    struct matcher *matcher;
    uint8_t sum[4];
    bool done;

    if (effort == NULL || text.size >= ZLIB_AGAIN_SIZE_MAX)
        return false;
    matcher = malloc(sizeof(*matcher));
    if (matcher == NULL)
        return false;
    memset(matcher, 0, offsetof(struct matcher, previous));
    matcher->text = text.size == 0 ? effort->header : text.data; /* no pointer to nothing */
    matcher->size = (uint32_t)text.size;
    matcher->effort = effort;
    deflate_blocks_start(&matcher->blocks, stream);
    store_u32(sum, (uint32_t)adler32(adler32(0, NULL, 0), text.data, (uInt)text.size), true);
    done = buffer_append(stream, effort->header, sizeof(effort->header)) && deflate_all(matcher) &&
           buffer_append(stream, sum, sizeof(sum));
    free(matcher);
    return done;
}
