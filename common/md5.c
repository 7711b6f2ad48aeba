/*
 * MD5: see md5.h. RFC 1321, sections 3.1 to 3.5, for messages that are in memory as a whole.
 *
 * A few thousand short names are hashed when functions are looked up by name, so this is written to
 * be read next to the RFC rather than to be fast.
 */
#include "common/md5.h"

#include <string.h>

#define BLOCK_SIZE  64
#define LENGTH_SIZE 8 /* of the message's length in bits, at the end of the last block */

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

/* How far each of the four steps of a round rotates. */
static const unsigned rotations[4][4] = {
    {7, 12, 17, 22},
    {5, 9, 14, 20},
    {4, 11, 16, 23},
    {6, 10, 15, 21},
};

static uint32_t rotate_left(uint32_t value, unsigned count)
{
    return value << count | value >> (32 - count);
}

/* The round's function of B, C, D, and which word of the block the step takes. */
static uint32_t mix(unsigned step, const uint32_t state[4], unsigned *word)
{
    uint32_t b = state[1], c = state[2], d = state[3];

    switch (step / 16) {
    case 0:
        *word = step;
        return (b & c) | (~b & d);
    case 1:
        *word = (5 * step + 1) % 16;
        return (b & d) | (c & ~d);
    case 2:
        *word = (3 * step + 5) % 16;
        return b ^ c ^ d;
    default:
        *word = 7 * step % 16;
        return c ^ (b | ~d);
    }
}

static void add_block(uint32_t state[4], const uint8_t block[BLOCK_SIZE])
{
    uint32_t next[4];

    memcpy(next, state, sizeof(next));
    for (unsigned step = 0; step < 64; step++) {
        unsigned word;
        uint32_t sum = next[0] + mix(step, next, &word) + sines[step];

        sum += load_u32(block + word * sizeof(uint32_t), false);
        next[0] = next[3];
        next[3] = next[2];
        next[2] = next[1];
        next[1] += rotate_left(sum, rotations[step / 16][step % 4]);
    }
    for (unsigned i = 0; i < 4; i++)
        state[i] += next[i];
}

void md5_of(struct bytes view, uint8_t digest[MD5_SIZE])
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t tail[2 * BLOCK_SIZE] = {0};
    uint64_t whole = view.size / BLOCK_SIZE * BLOCK_SIZE;
    size_t rest = (size_t)(view.size - whole);
    size_t tail_size = rest + 1 + LENGTH_SIZE <= BLOCK_SIZE ? BLOCK_SIZE : 2 * BLOCK_SIZE;

    for (uint64_t offset = 0; offset < whole; offset += BLOCK_SIZE)
        add_block(state, view.data + offset);
    if (rest != 0)
        memcpy(tail, view.data + whole, rest);
    tail[rest] = 0x80;
    store_u64(tail + tail_size - LENGTH_SIZE, view.size * 8, false);
    for (size_t offset = 0; offset < tail_size; offset += BLOCK_SIZE)
        add_block(state, tail + offset);
    for (size_t i = 0; i < 4; i++)
        store_u32(digest + i * sizeof(uint32_t), state[i], false);
}

uint64_t md5_name_reference(struct bytes name)
{
    uint8_t digest[MD5_SIZE];

    md5_of(name, digest);
    return load_u64(digest, false);
}
