/*
 * Used and unused numbers: see unused_numbers.h.
 */
#include "common/codec/unused_numbers.h"

#include <stdlib.h>

#define WORD_BITS  64
#define CHUNK_BITS ((uint64_t)UNUSED_CHUNK_WORDS * WORD_BITS)

/* Words that are looked through before the tree is asked. */
#define NEAR_WORDS 16

bool unused_numbers_start(struct unused_numbers *numbers, uint64_t count)
{
    *numbers = (struct unused_numbers){.count = count, .unused = count};
    if (count == 0)
        return true;
    if (count > SIZE_MAX / 2)
        return false;
    numbers->chunk_count = (size_t)((count - 1) / CHUNK_BITS + 1);
    numbers->chunks = calloc(numbers->chunk_count, sizeof(*numbers->chunks));
    numbers->used_sums = calloc(numbers->chunk_count + 1, sizeof(*numbers->used_sums));
    return numbers->chunks != NULL && numbers->used_sums != NULL;
}

void unused_numbers_free(struct unused_numbers *numbers)
{
    for (size_t i = 0; numbers->chunks != NULL && i < numbers->chunk_count; i++)
        free(numbers->chunks[i]);
    free(numbers->chunks);
    free(numbers->used_sums);
    *numbers = (struct unused_numbers){0};
}

/* The bits of 64 numbers that are not used. Those behind the last number are among them. */
static inline uint64_t unused_bits(const struct unused_numbers *numbers, uint64_t word)
{
    const uint64_t *chunk = numbers->chunks[word / UNUSED_CHUNK_WORDS];

    return chunk == NULL ? UINT64_MAX : ~chunk[word % UNUSED_CHUNK_WORDS];
}

bool unused_numbers_is_used(const struct unused_numbers *numbers, uint64_t number)
{
    return (unused_bits(numbers, number / WORD_BITS) >> number % WORD_BITS & 1) == 0;
}

bool unused_numbers_use(struct unused_numbers *numbers, uint64_t number)
{
    uint64_t **chunk = &numbers->chunks[number / CHUNK_BITS];

    if (*chunk == NULL) {
        *chunk = calloc(UNUSED_CHUNK_WORDS, sizeof(**chunk));
        if (*chunk == NULL)
            return false;
    }
    (*chunk)[number / WORD_BITS % UNUSED_CHUNK_WORDS] |= UINT64_C(1) << number % WORD_BITS;
    numbers->unused--;
    for (size_t i = (size_t)(number / CHUNK_BITS) + 1; i <= numbers->chunk_count; i += i & -i)
        numbers->used_sums[i]++;
    return true;
}

/* Not the compiler's: where it may not count on an instruction for it, it calls a function. */
static inline unsigned ones(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
    bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)(bits * 0x0101010101010101 >> 56);
}

uint64_t unused_numbers_below(const struct unused_numbers *numbers, uint64_t number)
{
    uint64_t first = number / CHUNK_BITS * UNUSED_CHUNK_WORDS, end = number / WORD_BITS;
    uint64_t unused = number / CHUNK_BITS * CHUNK_BITS;

    for (size_t i = (size_t)(number / CHUNK_BITS); i != 0; i -= i & -i)
        unused -= numbers->used_sums[i];
    for (uint64_t word = first; word < end; word++)
        unused += ones(unused_bits(numbers, word));
    if (number % WORD_BITS != 0)
        unused += ones(unused_bits(numbers, end) & ((UINT64_C(1) << number % WORD_BITS) - 1));
    return unused;
}

/* The place of a bit with so many lower ones. */
static inline unsigned find_bit(uint64_t bits, uint64_t lower)
{
    while (lower-- != 0)
        bits &= bits - 1;
    return (unsigned)__builtin_ctzll(bits);
}

/* The unused number with so many below it, which is less than the number of unused ones. */
static uint64_t find_by_tree(const struct unused_numbers *numbers, uint64_t below)
{
    size_t chunk = 0, step = 1;
    uint64_t word;

    while (step <= numbers->chunk_count / 2)
        step *= 2;
    for (; step != 0; step /= 2) {
        uint64_t unused;

        if (step > numbers->chunk_count - chunk)
            continue;
        unused = step * CHUNK_BITS - numbers->used_sums[chunk + step];
        if (unused > below)
            continue;
        below -= unused;
        chunk += step;
    }
    for (word = (uint64_t)chunk * UNUSED_CHUNK_WORDS;; word++) {
        uint64_t bits = unused_bits(numbers, word);

        if (below < ones(bits))
            return word * WORD_BITS + find_bit(bits, below);
        below -= ones(bits);
    }
}

/* Looks through the words that are near. False where the number is not in them. */
static inline bool find_near(const struct unused_numbers *numbers, uint64_t from,
                             uint64_t difference, uint64_t *found)
{
    uint64_t word = from / WORD_BITS, end = numbers->chunk_count * UNUSED_CHUNK_WORDS;
    uint64_t lower = (UINT64_C(1) << from % WORD_BITS) - 1, bits;
    bool down = difference >> 63 != 0;
    /* How many to pass by. */
    uint64_t between = down ? ~difference : difference;

    if (word >= end)
        return false;
    bits = unused_bits(numbers, word) & (down ? lower : ~lower);
    for (unsigned i = 0; i < NEAR_WORDS; i++) {
        unsigned count = between == 0 ? bits != 0 : ones(bits);

        if (between < count) {
            *found = word * WORD_BITS + (!down          ? find_bit(bits, between)
                                         : between == 0 ? 63 - (unsigned)__builtin_clzll(bits)
                                                        : find_bit(bits, count - 1 - between));
            return true;
        }
        between -= count;
        word = down ? word - 1 : word + 1;
        if (word >= end)
            return false;
        bits = unused_bits(numbers, word);
    }
    return false;
}

bool unused_numbers_find(const struct unused_numbers *numbers, uint64_t from, uint64_t difference,
                         uint64_t *found)
{
    uint64_t below;

    if (find_near(numbers, from, difference, found))
        return *found < numbers->count;
    below = unused_numbers_below(numbers, from) + difference;
    if (below >= numbers->unused)
        return false;
    *found = find_by_tree(numbers, below);
    return true;
}
