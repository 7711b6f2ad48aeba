/*
 * Counters, the part that writing and reading share: see counters.h.
 */
#include "common/codec/mapping/counters.h"

#include <stdlib.h>

#include "common/base/array.h"

void counters_free(struct counters *counters)
{
    counter_nodes_free(&counters->nodes);
    free(counters->values);
    free(counters->of_table);
    free(counters->of_numbers);
    free(counters->buckets);
    buffer_free(&counters->roots);
    *counters = (struct counters){0};
}

bool counters_start(struct counters *counters)
{
    uint32_t entry;

    counter_nodes_clear(&counters->nodes);
    counters->value_count = 0;
    counters->roots.size = 0;
    counters->lowest = 1;
    counters->highest = 0;
    counters->seen = 0;
    counters->last_true = counters->last_false = VALUE_ZERO;
    mtf_start(&counters->mtf);
    if (!array_make_room((void **)&counters->values, &counters->value_capacity, 0, 2,
                         sizeof(*counters->values)))
        return false;
    counters->values[counters->value_count++] = (struct counter_value){COUNTER_ZERO, VALUE_ZERO};
    return counters_add(counters, COUNTER_REFERENCE, &entry);
}
