/*
 * The counters of a mapping's regions, and the table of expressions that follows from them:
 * "Counters" in docs/format.md.
 *
 * The table is not stored, since it can be computed from each region's counter, as a tree
 * (expressions.h). A mapping whose table differs from the computed one is stored raw.
 *
 * Counters and expressions are numbered as *values*: value 0 is zero, value 1 the function's own
 * counter (number 0). A region's counter mostly follows from where the region is. It is stored as a
 * symbol, which is part of the region's pattern. For SYMBOL_TOKEN, there is also a token in one of
 * the streams. A counter "has been seen" if it has occurred before in the same mapping.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H

#include "common/base/array.h"
#include "common/codec/mapping/expressions.h"
#include "common/codec/mapping/move_to_front.h"
#include "common/codec/mapping/streams.h"

#define COUNTERS_MTF 64

/* For how many counters from the lowest unseen one on it is known which have been seen. */
#define COUNTERS_SEEN 64

/* The symbols and bytes are stored in sidecars. */
enum counter_symbol {
    SYMBOL_ZERO = 0,
    SYMBOL_ENCLOSING = 1, /* the counter of the innermost open region */
    SYMBOL_LOWEST = 2,    /* the lowest unseen counter */
    SYMBOL_NEXT = 3,      /* the number after the highest seen counter */
    SYMBOL_COMPLETED = 4, /* the counter of the region that ended last */
    SYMBOL_OPPOSITE = 5,  /* the opposite of that: the other side of its branch */
    SYMBOL_TRUE = 6,      /* the counters of the last branch */
    SYMBOL_FALSE = 7,
    /* A new expression. For code: the enclosing counter minus the completed one. For a side of a
     * branch: the condition's counter minus the other side's. */
    SYMBOL_DIFFERENCE = 8,
    /* A new expression: the enclosing counter plus the lowest unseen one, which is seen by that. */
    SYMBOL_LOOP = 9,
    SYMBOL_MTF = 10, /* one of the first three in the move-to-front list */
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
    uint32_t opposite; /* the value of a branch's other side; VALUE_ZERO: none is known */
};

/* Initialize to {0}; reused for one mapping after the other; free with counters_free. */
struct counters {
    struct counter_nodes nodes;
    struct counter_value *values;
    size_t value_count, value_capacity;
    struct mtf mtf;                 /* values */
    uint32_t last_true, last_false; /* values */
    uint32_t lowest;                /* the lowest unseen number */
    uint32_t highest;               /* the highest seen number; reading: it may be invalid */
    uint64_t seen;                  /* bit n is set if lowest + n has been seen */
    /* Reading: which operands of regions are expressions. For each a uint32_t, the region's number
     * times REGION_COUNTERS_MAX plus the operand's number. */
    struct buffer roots;
    uint32_t *of_table; /* writing: the counter for each entry of the mapping's table */
    size_t of_table_capacity;
    uint32_t *of_numbers; /* writing: the value of each plain counter, or VALUE_NONE */
    size_t of_numbers_capacity;
    uint32_t most; /* writing: the highest number in the mapping */
    /* Writing: a hash table of expressions by both sides: 1 + the node; 0: free. */
    uint32_t *buckets;
    size_t bucket_count, bucket_capacity;
    uint64_t seed;
};

/* The values from which a region's counter may follow. */
struct counter_context {
    uint32_t enclosing;
    uint32_t completed; /* VALUE_ZERO: no region ended here */
};

void counters_free(struct counters *counters);

/* ---- both ---- */

/* Starts a mapping, in which nothing has been seen. False if out of memory. */
bool counters_start(struct counters *counters);

/* Adds an unseen value and puts it at the front of the list. False if out of memory. */
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

/* Moves a seen value to the front of the list. */
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
    /* The zero counter has no opposite, since it is shared by all code that is never executed. */
    if (true_value != VALUE_ZERO)
        counters->values[true_value].opposite = false_value;
    if (false_value != VALUE_ZERO)
        counters->values[false_value].opposite = true_value;
}

/* Marks a plain counter as seen. */
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

/* Determines the symbol and the value of a code region's counter. Writes a token to the stream if
 * the symbol does not determine the counter. False if out of memory. */
bool counters_put_code(struct counters *counters, struct streams *streams, unsigned stream,
                       struct counter_context context, uint32_t counter, uint8_t *symbol,
                       uint32_t *value);

/* The same for both sides of a branch; `condition` is the value of its condition. */
bool counters_put_branch(struct counters *counters, struct streams *streams, uint32_t condition,
                         const uint32_t sides[2], uint8_t symbols[2]);

/* ---- reading ---- */

/* Makes room for the counters of `regions` more regions. False if out of memory. */
bool counters_reserve(struct counters *counters, size_t regions);

/* For how many regions there is room. */
static inline size_t counters_room(const struct counters *counters)
{
    return (counters->roots.capacity - counters->roots.size) /
           (REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* Reads the counter of the mapping's code region `index`. Until counters_finish_reading, an
 * expression's index is that of its node. There must be room. On failure returns zero and sets the
 * cursors' result. */
uint32_t counters_take_code(struct counters *counters, struct stream_cursors *cursors,
                            unsigned stream, struct counter_context context, uint8_t symbol,
                            size_t index, uint32_t *value);

/* Reads the counters of both sides of a branch. */
void counters_take_branch(struct counters *counters, struct stream_cursors *cursors,
                          uint32_t condition, const uint8_t symbols[2], size_t index,
                          uint32_t sides[2]);

/* Makes the table of expressions, of at most `limit` entries, and gives the regions their final
 * counters. The cursors' result must be RESULT_OK. */
enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit);

#endif
