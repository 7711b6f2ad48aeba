/*
 * Numbers from 0 up, each used or not, where what is asked is which comes so many unused ones
 * behind another.
 *
 * A bit for each number says whether it is used, in chunks that are made when a number of theirs is
 * used; how many are used in each chunk is kept in a Fenwick tree. So no question takes more time
 * than two chunks and the height of the tree, and most are answered by the next few words of bits;
 * and where little is used, little memory is touched, however many numbers there are.
 */
#ifndef COVSPLIT_COMMON_CODEC_UNUSED_NUMBERS_H
#define COVSPLIT_COMMON_CODEC_UNUSED_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of a chunk, of 64 numbers each. */
#define UNUSED_CHUNK_WORDS 64

struct unused_numbers {
    uint64_t count;  /* all numbers are less than this */
    uint64_t unused; /* how many of them are */
    size_t chunk_count;
    uint64_t **chunks;   /* a bit is 1 where the number is used; NULL: none in the chunk is */
    uint64_t *used_sums; /* of the tree, from 1 */
};

/* All are unused. False: no memory. Freed with unused_numbers_free, also after a failure and when
 * zeroed. */
bool unused_numbers_start(struct unused_numbers *numbers, uint64_t count);
void unused_numbers_free(struct unused_numbers *numbers);

/* `number` is less than the count. */
bool unused_numbers_is_used(const struct unused_numbers *numbers, uint64_t number);

/* A number that is less than the count, and not used. False: no memory. */
bool unused_numbers_use(struct unused_numbers *numbers, uint64_t number);

/* How many unused numbers are less than `number`, which may be the count. */
uint64_t unused_numbers_below(const struct unused_numbers *numbers, uint64_t number);

/* The unused number with `difference` (as two's complement) more below it than `from` has, which
 * may be the count: with 0, the first one from there on. False where there is none. */
bool unused_numbers_find(const struct unused_numbers *numbers, uint64_t from, uint64_t difference,
                         uint64_t *found);

#endif
