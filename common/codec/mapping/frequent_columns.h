/*
 * Frequent columns.
 *
 * Code is indented, so regions that start or end on a new line do so in few different columns,
 * relative to the column where the enclosing block ends. Which ones are frequent depends on the
 * project, so they are counted, and for the two most frequent ones no number is stored. The choice
 * is only updated after 8, 16, 32, ... uses, so that the same code mostly means the same column.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_FREQUENT_COLUMNS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_FREQUENT_COLUMNS_H

#include <stdint.h>

/* The stored form depends on these numbers. */
#define FREQUENT_COLUMNS    2
#define FREQUENT_LOWEST     (-8)
#define FREQUENT_COUNTED    32 /* how many differences are counted, from the lowest on */
#define FREQUENT_CHANGE_MIN 8

struct frequent_columns {
    int64_t frequent[FREQUENT_COLUMNS]; /* as differences from the base column */
    uint32_t counts[FREQUENT_COUNTED];
    uint32_t uses;
};

static inline void frequent_columns_start(struct frequent_columns *columns)
{
    *columns = (struct frequent_columns){.frequent = {0, 1}};
}

/* The index of a difference among the frequent ones; FREQUENT_COLUMNS if it is none of them. */
static inline unsigned frequent_columns_find(const struct frequent_columns *columns,
                                             int64_t difference)
{
    return difference == columns->frequent[0] ? 0 : difference == columns->frequent[1] ? 1 : 2;
}

/* Chooses the most frequent differences, of equally frequent ones the lower. One that was chosen
 * before keeps its index. */
void frequent_columns_choose(struct frequent_columns *columns);

/* Counts a use of a difference. */
static inline void frequent_columns_use(struct frequent_columns *columns, int64_t difference)
{
    uint64_t place = (uint64_t)difference - (uint64_t)(int64_t)FREQUENT_LOWEST;

    if (place < FREQUENT_COUNTED)
        columns->counts[place]++;
    columns->uses++;
    if (columns->uses >= FREQUENT_CHANGE_MIN && (columns->uses & (columns->uses - 1)) == 0)
        frequent_columns_choose(columns);
}

#endif
