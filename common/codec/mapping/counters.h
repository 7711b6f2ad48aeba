/*
 * The counters of a mapping's regions, and the list of expressions that follows from them:
 * "Counters" in docs/format.md.
 *
 * The list is not stored, since it follows from what each region's counter is, as a tree
 * (expressions.h). A mapping whose list is another one is not taken apart.
 *
 * Counters and expressions are *values*, by number; value 0 is zero, and value 1 the function's own
 * counter, number 0. What a region's counter is follows mostly from where the region is, and is a
 * symbol, which is a part of the region's pattern. Where the symbol is SYMBOL_TOKEN, there is a
 * token in one of the streams.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H

#include "common/base/array.h"
#include "common/codec/mapping/expressions.h"
#include "common/codec/mapping/move_to_front.h"
#include "common/codec/mapping/streams.h"

#define COUNTERS_MTF 64

/* How far above the lowest counter that has not come it is known which ones have. */
#define COUNTERS_SEEN 64

/* The symbols and bytes are stored in sidecars. */
enum counter_symbol {
    SYMBOL_ZERO = 0,
    SYMBOL_ENCLOSING = 1, /* that of the innermost region that is open */
    SYMBOL_LOWEST = 2,    /* the lowest counter that has not come */
    SYMBOL_NEXT = 3,      /* the one behind the highest that has come */
    SYMBOL_COMPLETED = 4, /* that of the region that was completed last */
    SYMBOL_OPPOSITE = 5,  /* its opposite */
    SYMBOL_TRUE = 6,      /* the counters of the last branch */
    SYMBOL_FALSE = 7,
    /* A new expression. Code: the enclosing one less the completed one. Of a branch: that of the
     * condition less the other one. */
    SYMBOL_DIFFERENCE = 8,
    /* A new expression: the enclosing one plus the lowest counter that has not come, which comes by
     * that. */
    SYMBOL_LOOP = 9,
    SYMBOL_MTF = 10, /* one of the first three in the list */
    SYMBOL_TOKEN = 31,
};

#define SYMBOLS_MTF 3

enum counter_token {
    TOKEN_ZERO = 0,
    TOKEN_LOWEST = 1,
    TOKEN_SUBTRACT = COUNTER_SUBTRACT,
    TOKEN_ADD = COUNTER_ADD,
    TOKEN_NUMBER = 4,
    TOKEN_MTF = 5,
    TOKEN_OLD = 255,
};

/* Numbers of values. */
#define VALUE_ZERO  0
#define VALUE_ENTRY 1
#define VALUE_NONE  UINT32_MAX

struct counter_value {
    uint32_t counter;  /* as in mapping/expressions.h */
    uint32_t opposite; /* a value; VALUE_ZERO: none is known */
};

/* Initialize to {0}; is used for one mapping after the other; free with counters_free. */
struct counters {
    struct counter_nodes nodes;
    struct counter_value *values;
    size_t value_count, value_capacity;
    struct mtf mtf;                 /* values */
    uint32_t last_true, last_false; /* values */
    uint32_t lowest;                /* the lowest number that has not come */
    uint32_t highest;               /* that has come; reading: it may be too high */
    uint64_t seen;                  /* bit n: lowest + n has come */
    /* Reading: which operands of regions are expressions; uint32_t each, the region's number times
     * REGION_COUNTERS_MAX, and the operand's. */
    struct buffer roots;
    uint32_t *of_table; /* writing: for each entry of the mapping's table its counter */
    size_t of_table_capacity;
    uint32_t *of_numbers; /* writing: by plain counter its value, or VALUE_NONE */
    size_t of_numbers_capacity;
    uint32_t most; /* writing: the highest number that the mapping has */
    /* Writing: by hash of both sides of an expression 1 + its node; 0: free. */
    uint32_t *buckets;
    size_t bucket_count, bucket_capacity;
    uint64_t seed;
};

/* What a region's counter may follow from, as values. */
struct counter_context {
    uint32_t enclosing;
    uint32_t completed; /* VALUE_ZERO: none was completed */
};

void counters_free(struct counters *counters);

/* ---- both ---- */

/* Starts a mapping without anything that came. False if out of memory. */
bool counters_start(struct counters *counters);

/* Adds a value that has not come, and brings it to the front. False if out of memory. */
static inline bool counters_add(struct counters *counters, uint32_t counter, uint32_t *value)
{
    *value = (uint32_t)counters->value_count;
    if (counters->value_count == counters->value_capacity &&
        !array_make_room((void **)&counters->values, &counters->value_capacity,
                         counters->value_count, 1, sizeof(*counters->values)))
        return false;
    counters->values[counters->value_count++] = (struct counter_value){counter, VALUE_ZERO};
    mtf_add(&counters->mtf, COUNTERS_MTF, *value);
    return true;
}

/* Brings a value that has come to the front. */
static inline void counters_touch(struct counters *counters, uint32_t value)
{
    size_t place = mtf_find(&counters->mtf, COUNTERS_MTF, value);

    if (place == mtf_count(&counters->mtf, COUNTERS_MTF))
        mtf_add(&counters->mtf, COUNTERS_MTF, value);
    else
        mtf_touch(&counters->mtf, place);
}

/* Remembers the counters of a branch. */
static inline void counters_set_branch(struct counters *counters, uint32_t true_value,
                                       uint32_t false_value)
{
    counters->last_true = true_value;
    counters->last_false = false_value;
    /* The counter zero has no opposite: it would be that of any code that is never executed. */
    if (true_value != VALUE_ZERO)
        counters->values[true_value].opposite = false_value;
    if (false_value != VALUE_ZERO)
        counters->values[false_value].opposite = true_value;
}

/* A plain counter comes. */
static inline void counters_see(struct counters *counters, uint32_t number)
{
    uint32_t above = number - counters->lowest;

    if (number > counters->highest)
        counters->highest = number;
    if (number < counters->lowest || above >= COUNTERS_SEEN)
        return;
    counters->seen |= UINT64_C(1) << above;
    while ((counters->seen & 1) != 0) {
        counters->seen >>= 1;
        counters->lowest++;
    }
}

static inline uint32_t counter_of_number(uint32_t number)
{
    return number << COUNTER_TAG_BITS | COUNTER_REFERENCE;
}

/* ---- writing ---- */

/* Starts a mapping. Unfit if its table of expressions is not the one that follows from the
 * regions. */
enum result counters_start_writing(struct counters *counters, const struct mapping *mapping);

/* The symbol, and the value, of the counter that the mapping has for code; what the symbol does not
 * stand for goes to the stream. False if out of memory. */
bool counters_put_code(struct counters *counters, struct streams *streams, unsigned stream,
                       struct counter_context context, uint32_t counter, uint8_t *symbol,
                       uint32_t *value);

/* The symbols of both sides of a branch, from the value of its condition. False if out of memory. */
bool counters_put_branch(struct counters *counters, struct streams *streams, uint32_t condition,
                         const uint32_t sides[2], uint8_t symbols[2]);

/* ---- reading ---- */

/* Makes room for the counters of so many regions more. False if out of memory. */
bool counters_reserve(struct counters *counters, size_t regions);

/* For how many there is room. */
static inline size_t counters_room(const struct counters *counters)
{
    return (counters->roots.capacity - counters->roots.size) /
           (REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* Takes the counter of code which is the mapping's region `index`; it is one of this module's until
 * counters_finish_reading. There is room for it. Zero, with the cursors' result, where there is
 * none. */
uint32_t counters_take_code(struct counters *counters, struct stream_cursors *cursors,
                            unsigned stream, struct counter_context context, uint8_t symbol,
                            size_t index, uint32_t *value);

/* Takes both sides of a branch. */
void counters_take_branch(struct counters *counters, struct stream_cursors *cursors,
                          uint32_t condition, const uint8_t symbols[2], size_t index,
                          uint32_t sides[2]);

/* Makes the table of expressions, of `limit` at most, and gives the regions their final counters.
 * The cursors' result is RESULT_OK. */
enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit);

#endif
