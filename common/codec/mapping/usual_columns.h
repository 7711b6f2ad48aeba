/*
 * Columns that are usual.
 *
 * Who writes code indents it, so a region that starts or ends on another line does so in few
 * columns, as counted from that in which the block ends that is around it. Which ones those are is
 * another matter in each project: so they are counted, and the two that came most often are told
 * without their number. They change only when there were 8 uses, 16, 32 and so on, so that what
 * stands for a column stays the same.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_USUAL_COLUMNS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_USUAL_COLUMNS_H

#include <stdint.h>

/* Stored in sidecars, in a way. */
#define USUAL_COLUMNS    2
#define USUAL_LOWEST     (-8)
#define USUAL_COUNT      32 /* those that are counted, from the lowest on */
#define USUAL_CHANGE_MIN 8

struct usual_columns {
    int64_t usual[USUAL_COLUMNS]; /* differences to a column */
    uint32_t counts[USUAL_COUNT];
    uint32_t uses;
};

static inline void usual_columns_start(struct usual_columns *columns)
{
    *columns = (struct usual_columns){.usual = {0, 1}};
}

/* Which one a difference is; USUAL_COLUMNS: none. */
static inline unsigned usual_columns_find(const struct usual_columns *columns, int64_t difference)
{
    return difference == columns->usual[0] ? 0 : difference == columns->usual[1] ? 1 : 2;
}

/* Chooses those that came most often, of equal ones the lower. What stays keeps its place. */
void usual_columns_choose(struct usual_columns *columns);

/* A difference has come. */
static inline void usual_columns_use(struct usual_columns *columns, int64_t difference)
{
    uint64_t place = (uint64_t)difference - (uint64_t)(int64_t)USUAL_LOWEST;

    if (place < USUAL_COUNT)
        columns->counts[place]++;
    columns->uses++;
    if (columns->uses >= USUAL_CHANGE_MIN && (columns->uses & (columns->uses - 1)) == 0)
        usual_columns_choose(columns);
}

#endif
