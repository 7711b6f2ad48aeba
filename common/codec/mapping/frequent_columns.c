/*
 * Frequent columns: see frequent_columns.h.
 */
#include "common/codec/mapping/frequent_columns.h"

#include <stdbool.h>

/* The index of the highest count, except for the one at `but`. */
static unsigned find_most(const struct frequent_columns *columns, unsigned but)
{
    unsigned most = but == 0 ? 1 : 0;

    for (unsigned i = most + 1; i < FREQUENT_COUNTED; i++) {
        if (i != but && columns->counts[i] > columns->counts[most])
            most = i;
    }
    return most;
}

void frequent_columns_choose(struct frequent_columns *columns)
{
    unsigned first = find_most(columns, FREQUENT_COUNTED), second = find_most(columns, first);
    int64_t most[FREQUENT_COLUMNS] = {(int64_t)first + FREQUENT_LOWEST,
                                      (int64_t)second + FREQUENT_LOWEST};
    bool is_swapped = columns->frequent[0] == most[1] || columns->frequent[1] == most[0];

    columns->frequent[0] = most[is_swapped];
    columns->frequent[1] = most[!is_swapped];
}
