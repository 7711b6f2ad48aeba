/*
 * XXH3-128 by libxxhash, and MD5: see digest.h.
 */
#include "common/base/digest.h"

#include <string.h>

/* Inlined, since the size of a stream's state may change from one libxxhash to the next. */
#define XXH_INLINE_ALL
#include <xxhash.h>

static struct digest canonical(XXH128_hash_t hash)
{
    XXH128_canonical_t form;
    struct digest digest;

    XXH128_canonicalFromHash(&form, hash);
    memcpy(digest.bytes, form.digest, sizeof(digest.bytes));
    return digest;
}

struct digest digest_of(struct bytes view)
{
    return canonical(XXH3_128bits(view.data, (size_t)view.size));
}

bool digest_equal(const struct digest *a, const struct digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

const char *digest_format(const struct digest *digest, char *text)
{
    return hex_format((struct bytes){digest->bytes, DIGEST_SIZE}, text);
}

_Static_assert(sizeof(XXH3_state_t) + DIGEST_STREAM_ALIGNMENT <=
                   sizeof(((struct digest_stream *)0)->storage),
               "room for libxxhash's state");
_Static_assert(_Alignof(XXH3_state_t) <= DIGEST_STREAM_ALIGNMENT, "its alignment");

/* A stream that was copied may be aligned in another way than before. */
static XXH3_state_t *state_of(struct digest_stream *stream)
{
    uint8_t offset = (uint8_t)(-(uintptr_t)stream->storage % DIGEST_STREAM_ALIGNMENT);

    if (offset != stream->offset) {
        memmove(stream->storage + offset, stream->storage + stream->offset, sizeof(XXH3_state_t));
        stream->offset = offset;
    }
    return (XXH3_state_t *)(void *)(stream->storage + offset);
}

void digest_stream_start(struct digest_stream *stream)
{
    *stream = (struct digest_stream){.offset = 0};
    XXH3_128bits_reset(state_of(stream));
}

void digest_stream_add(struct digest_stream *stream, struct bytes part)
{
    if (part.size != 0)
        XXH3_128bits_update(state_of(stream), part.data, (size_t)part.size);
}

struct digest digest_stream_finish(struct digest_stream *stream)
{
    return canonical(XXH3_128bits_digest(state_of(stream)));
}

/* ---- MD5: RFC 1321, sections 3.1 to 3.5, for messages that are completely in memory ---- */

/* Every reader of a compact sidecar hashes all names of the image. Each step of MD5 depends on the
 * one before, so a single message leaves a processor idle most of the time. Therefore eight
 * messages are hashed side by side in the lanes of vectors; a lane whose message has ended takes
 * the next. */

#define BLOCK_SIZE   64
#define BLOCK_WORDS  16
#define STATE_WORDS  4
#define LENGTH_SIZE  8 /* of the message's length in bits, at the end of the last block */
#define VECTOR_LANES 4
#define VECTORS      2
#define LANES        (VECTOR_LANES * VECTORS)

typedef uint32_t vector __attribute__((vector_size(VECTOR_LANES * sizeof(uint32_t))));

/* A word of each lane. */
struct word {
    vector vectors[VECTORS];
};

/* The additive constants: the integer part of 2^32 * abs(sin(i + 1)). */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static const uint32_t first_state[STATE_WORDS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

/* ---- blocks ---- */

/* The round's function of B, C, D. */
static inline vector mix(unsigned round, vector b, vector c, vector d)
{
    switch (round) {
    case 0:
        return (b & c) | (~b & d);
    case 1:
        return (b & d) | (c & ~d);
    case 2:
        return b ^ c ^ d;
    default:
        return c ^ (b | ~d);
    }
}

/* A = B + ((A + mix(B, C, D) + word + sine) rotated left). */
static inline void step(unsigned round, struct word *a, const struct word *b, const struct word *c,
                        const struct word *d, const struct word *word, uint32_t sine,
                        unsigned rotation)
{
    for (unsigned i = 0; i < VECTORS; i++) {
        vector sum = a->vectors[i] + mix(round, b->vectors[i], c->vectors[i], d->vectors[i]) +
                     word->vectors[i] + sine;
        a->vectors[i] = b->vectors[i] + (sum << rotation | sum >> (32 - rotation));
    }
}

/* One of the four rounds: its sixteen steps take the words `first`, `first` + `stride`, ... */
static inline void add_round(unsigned round, struct word state[STATE_WORDS],
                             const struct word words[BLOCK_WORDS], unsigned first, unsigned stride,
                             const unsigned rotations[4])
{
    struct word a = state[0], b = state[1], c = state[2], d = state[3];
    const uint32_t *sine = sines + round * BLOCK_WORDS;

    for (unsigned i = 0; i < BLOCK_WORDS; i += 4) {
        const struct word *word[4];

        for (unsigned j = 0; j < 4; j++)
            word[j] = &words[(first + (i + j) * stride) % BLOCK_WORDS];
        step(round, &a, &b, &c, &d, word[0], sine[i], rotations[0]);
        step(round, &d, &a, &b, &c, word[1], sine[i + 1], rotations[1]);
        step(round, &c, &d, &a, &b, word[2], sine[i + 2], rotations[2]);
        step(round, &b, &c, &d, &a, word[3], sine[i + 3], rotations[3]);
    }
    state[0] = a;
    state[1] = b;
    state[2] = c;
    state[3] = d;
}

/* Adds a block of each lane. */
static void add_blocks(struct word state[STATE_WORDS], const uint8_t *const blocks[LANES])
{
    struct word words[BLOCK_WORDS], next[STATE_WORDS];

    for (unsigned i = 0; i < BLOCK_WORDS; i++) {
        for (unsigned lane = 0; lane < LANES; lane++)
            words[i].vectors[lane / VECTOR_LANES][lane % VECTOR_LANES] =
                load_u32(blocks[lane] + i * sizeof(uint32_t), false);
    }
    memcpy(next, state, sizeof(next));
    add_round(0, next, words, 0, 1, (const unsigned[4]){7, 12, 17, 22});
    add_round(1, next, words, 1, 5, (const unsigned[4]){5, 9, 14, 20});
    add_round(2, next, words, 5, 3, (const unsigned[4]){4, 11, 16, 23});
    add_round(3, next, words, 0, 7, (const unsigned[4]){6, 10, 15, 21});
    for (unsigned i = 0; i < STATE_WORDS; i++) {
        for (unsigned j = 0; j < VECTORS; j++)
            state[i].vectors[j] += next[i].vectors[j];
    }
}

/* ---- messages ---- */

/* A message on its way through a lane. */
struct lane {
    size_t number;
    struct bytes rest; /* not yet put into a block */
    uint64_t size;
    enum {
        LANE_TEXT,
        LANE_LENGTH, /* only zeros and the length are left */
        LANE_ENDED,
    } stage;
    uint8_t last[BLOCK_SIZE];
};

static const uint8_t *next_block(struct lane *lane)
{
    const uint8_t *block = lane->rest.data;
    size_t left = (size_t)lane->rest.size;

    if (lane->stage == LANE_TEXT && left >= BLOCK_SIZE) {
        lane->rest = (struct bytes){block + BLOCK_SIZE, left - BLOCK_SIZE};
        return block;
    }
    memset(lane->last, 0, sizeof(lane->last));
    if (lane->stage == LANE_TEXT) {
        if (left != 0)
            memcpy(lane->last, block, left);
        lane->last[left] = 0x80;
        lane->stage = LANE_LENGTH;
    } else {
        left = 0;
    }
    if (left < BLOCK_SIZE - LENGTH_SIZE) {
        store_u64(lane->last + BLOCK_SIZE - LENGTH_SIZE, lane->size * 8, false);
        lane->stage = LANE_ENDED;
    }
    return lane->last;
}

static void start_lane(struct lane *lane, struct word state[STATE_WORDS], unsigned index,
                       struct bytes message, size_t number)
{
    lane->number = number;
    lane->rest = message;
    lane->size = message.size;
    lane->stage = LANE_TEXT;
    for (unsigned i = 0; i < STATE_WORDS; i++)
        state[i].vectors[index / VECTOR_LANES][index % VECTOR_LANES] = first_state[i];
}

/* When there are no more messages, idle lanes hash arbitrary bytes, and their results are ignored.
 */
static void hash_all(const struct bytes *messages, size_t count, uint8_t (*digests)[MD5_SIZE])
{
    struct lane lanes[LANES];
    struct word state[STATE_WORDS];
    const uint8_t *blocks[LANES];
    size_t started = 0, ended = 0;

    memset(state, 0, sizeof(state));
    for (unsigned i = 0; i < LANES; i++) {
        lanes[i].stage = LANE_ENDED;
        blocks[i] = (const uint8_t *)sines;
        if (started < count) {
            start_lane(&lanes[i], state, i, messages[started], started);
            started++;
        }
    }
    while (ended < count) {
        for (unsigned i = 0; i < LANES; i++) {
            if (lanes[i].stage != LANE_ENDED)
                blocks[i] = next_block(&lanes[i]);
        }
        add_blocks(state, blocks);
        for (unsigned i = 0; i < LANES; i++) {
            if (lanes[i].stage != LANE_ENDED || blocks[i] != lanes[i].last)
                continue;
            for (unsigned j = 0; j < STATE_WORDS; j++)
                store_u32(digests[lanes[i].number] + j * sizeof(uint32_t),
                          state[j].vectors[i / VECTOR_LANES][i % VECTOR_LANES], false);
            blocks[i] = (const uint8_t *)sines;
            ended++;
            if (started < count) {
                start_lane(&lanes[i], state, i, messages[started], started);
                started++;
            }
        }
    }
}

void md5_of(struct bytes view, uint8_t digest[MD5_SIZE])
{
    uint8_t digests[1][MD5_SIZE];

    hash_all(&view, 1, digests);
    memcpy(digest, digests[0], MD5_SIZE);
}

uint64_t md5_name_reference(struct bytes name)
{
    uint8_t digest[MD5_SIZE];

    md5_of(name, digest);
    return load_u64(digest, false);
}

void md5_name_references(const struct bytes *names, size_t count, uint64_t *references)
{
    uint8_t digests[MD5_NAMES_MAX][MD5_SIZE];

    hash_all(names, count, digests);
    for (size_t i = 0; i < count; i++)
        references[i] = load_u64(digests[i], false);
}
