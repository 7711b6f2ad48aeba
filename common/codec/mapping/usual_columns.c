/*
 * Columns that are usual: see usual_columns.h.
 */
#include "common/codec/mapping/usual_columns.h"

#include <stdbool.h>

/* The place of the highest count but that at `but`. */
static unsigned find_most(const struct usual_columns *columns, unsigned but)
{
    unsigned most = but == 0 ? 1 : 0;

    for (unsigned i = most + 1; i < USUAL_COUNT; i++) {
        if (i != but && columns->counts[i] > columns->counts[most])
            most = i;
    }
    return most;
}

void usual_columns_choose(struct usual_columns *columns)
{
    unsigned first = find_most(columns, USUAL_COUNT), second = find_most(columns, first);
    int64_t most[USUAL_COLUMNS] = {(int64_t)first + USUAL_LOWEST, (int64_t)second + USUAL_LOWEST};
    bool is_swapped = columns->usual[0] == most[1] || columns->usual[1] == most[0];

    columns->usual[0] = most[is_swapped];
    columns->usual[1] = most[!is_swapped];
}
