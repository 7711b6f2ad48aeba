/*
 * What counters are, for writing and for reading: see counters.h.
 */
#include "common/compact/counters.h"

#include <stdlib.h>

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
    recent_start(&counters->recent);
    if (!array_make_room((void **)&counters->values, &counters->value_capacity, 0, 2,
                         sizeof(*counters->values)))
        return false;
    counters->values[counters->value_count++] = (struct counter_value){COUNTER_ZERO, VALUE_ZERO};
    return counters_add(counters, COUNTER_REFERENCE, &entry);
}

bool counters_add(struct counters *counters, uint32_t counter, uint32_t *value)
{
    *value = (uint32_t)counters->value_count;
    if (counters->value_count == counters->value_capacity &&
        !array_make_room((void **)&counters->values, &counters->value_capacity,
                         counters->value_count, 1, sizeof(*counters->values)))
        return false;
    counters->values[counters->value_count++] = (struct counter_value){counter, VALUE_ZERO};
    recent_add(&counters->recent, COUNTERS_RECENT, *value);
    return true;
}

void counters_touch(struct counters *counters, uint32_t value)
{
    size_t place = recent_find(&counters->recent, COUNTERS_RECENT, value);

    if (place == recent_count(&counters->recent, COUNTERS_RECENT))
        recent_add(&counters->recent, COUNTERS_RECENT, value);
    else
        recent_touch(&counters->recent, place);
}

void counters_set_ways(struct counters *counters, uint32_t true_value, uint32_t false_value)
{
    counters->last_true = true_value;
    counters->last_false = false_value;
    /* The counter zero has no other way: it would be that of any code that is never executed. */
    if (true_value != VALUE_ZERO)
        counters->values[true_value].other_way = false_value;
    if (false_value != VALUE_ZERO)
        counters->values[false_value].other_way = true_value;
}
