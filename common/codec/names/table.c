/*
 * Distinct function names: see names/table.h.
 */
#include "common/codec/names/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/md5.h"
#include "common/base/parallel.h"
#include "common/llvm/name_set.h"

static size_t count_names(const struct buffer *text)
{
    size_t count = 0;

    for (size_t i = 0; i < text->size; i++)
        count += text->data[i] == NAME_SEPARATOR;
    return count;
}

bool name_table_index(struct name_table *table, struct buffer *text, bool *had_memory)
{
    size_t count = count_names(text), number = 0;

    *table = (struct name_table){.text = *text};
    *text = (struct buffer){0};
    *had_memory = true;
    if (table->text.size == 0)
        return true;
    if (table->text.data[table->text.size - 1] != NAME_SEPARATOR)
        return false;
    table->ends = malloc(count * sizeof(*table->ends));
    *had_memory = table->ends != NULL;
    if (table->ends == NULL)
        return false;
    for (const uint8_t *at = table->text.data; number < count; at++) {
        at = memchr(at, NAME_SEPARATOR, table->text.size - (size_t)(at - table->text.data));
        table->ends[number++] = (uint64_t)(at - table->text.data);
    }
    table->count = count;
    return true;
}

static void hash_some(void *context, size_t index)
{
    struct name_table *table = context;
    struct bytes names[MD5_NAMES_MAX];
    size_t first = index * MD5_NAMES_MAX, count = 0;

    while (count < MD5_NAMES_MAX && first + count < table->count) {
        names[count] = name_table_get(table, first + count);
        count++;
    }
    md5_name_references(names, count, table->references + first);
}

bool name_table_hash(struct name_table *table, unsigned threads)
{
    if (table->references != NULL || table->count == 0)
        return true;
    table->references = malloc(table->count * sizeof(*table->references));
    if (table->references == NULL)
        return false;
    parallel_run((table->count + MD5_NAMES_MAX - 1) / MD5_NAMES_MAX, threads, hash_some, table);
    return true;
}

void name_table_free(struct name_table *table)
{
    buffer_free(&table->text);
    free(table->ends);
    free(table->references);
    *table = (struct name_table){0};
}
