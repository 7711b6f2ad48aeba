/*
 * Distinct function names, by number and by NameRef.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TABLE_H
#define COVSPLIT_COMMON_CODEC_NAMES_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

struct name_table {
    struct buffer text; /* each name with a NAME_SEPARATOR (name_set.h) behind it */
    uint64_t *ends;     /* of each name in the text: where its separator is */
    size_t count;
    /* NULL until name_table_hash. Where nothing else is needed, there are only these and their
     * count. */
    uint64_t *references;
};

/* Takes the text over, and finds the names in it. False: no memory, or a name without its end;
 * *had_memory tells. Freed with name_table_free, also after a failure. */
bool name_table_index(struct name_table *table, struct buffer *text, bool *had_memory);

static inline struct bytes name_table_get(const struct name_table *table, size_t number)
{
    uint64_t start = number == 0 ? 0 : table->ends[number - 1] + 1;

    return (struct bytes){table->text.data + start, table->ends[number] - start};
}

/* Finds out the NameRefs. False: no memory. */
bool name_table_hash(struct name_table *table, unsigned threads);

void name_table_free(struct name_table *table);

#endif
