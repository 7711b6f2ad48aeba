/*
 * Columns that are frequent.
 *
 * Who writes code indents it, so a region that starts or ends on another line does so in few
 * columns, as counted from that in which the block ends that is around it. Which ones those are is
 * another matter in each project: so they are counted, and the two that came most often are stored
 * without their number. They change only when there were 8 uses, 16, 32 and so on, so that what
 * stands for a column stays the same.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_FREQUENT_COLUMNS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_FREQUENT_COLUMNS_H

#include <stdint.h>

/* The form depends on it. */
#define FREQUENT_COLUMNS    2
#define FREQUENT_LOWEST     (-8)
#define FREQUENT_COUNTED    32 /* those that are counted, from the lowest on */
#define FREQUENT_CHANGE_MIN 8

struct frequent_columns {
    int64_t frequent[FREQUENT_COLUMNS]; /* differences to a column */
    uint32_t counts[FREQUENT_COUNTED];
    uint32_t uses;
};

static inline void frequent_columns_start(struct frequent_columns *columns)
{
    *columns = (struct frequent_columns){.frequent = {0, 1}};
}

/* Which one a difference is; FREQUENT_COLUMNS: none. */
static inline unsigned frequent_columns_find(const struct frequent_columns *columns,
                                             int64_t difference)
{
    return difference == columns->frequent[0] ? 0 : difference == columns->frequent[1] ? 1 : 2;
}

/* Chooses those that came most often, of equal ones the lower. What stays keeps its place. */
void frequent_columns_choose(struct frequent_columns *columns);

/* A difference has come. */
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
