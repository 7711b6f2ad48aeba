/*
 * Columns of hashes: see hashes.h.
 */
#include "common/compact/hashes.h"

#include "common/compact/compact.h"
#include "common/compact/numbers.h"

bool name_numbers_make(struct number_table *table, const struct name_table *names)
{
    if (!number_table_start(table) || (names != NULL && !number_table_reserve(table, names->count)))
        return false;
    for (size_t i = 0; names != NULL && i < names->count; i++) {
        uint64_t number;

        /* Names with the same NameRef, should there be any, have one number less than names: then
         * those that follow do not come back, and the section is not taken. */
        if (!number_table_get(table, names->references[i], &number))
            return false;
    }
    return true;
}

bool name_numbers_start(struct name_numbers *numbers, const struct compact_context *context)
{
    *numbers =
        (struct name_numbers){.names = context->names, .by_reference = context->name_numbers};
    if (numbers->by_reference != NULL)
        return true;
    numbers->by_reference = &numbers->own;
    return name_numbers_make(&numbers->own, context->names);
}

void name_numbers_free(struct name_numbers *numbers)
{
    number_table_free(&numbers->own);
}

bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others)
{
    uint64_t number, expected = numbers->next;
    uint8_t bytes[8];

    if (number_table_find(numbers->by_reference, reference, &number)) {
        numbers->next = number + 1;
        return buffer_append_uleb128(column, 1 + zigzag(number - expected));
    }
    store_u64(bytes, reference, false);
    return buffer_append_uleb128(column, 0) && buffer_append(others, bytes, sizeof(bytes));
}

bool name_numbers_take(struct name_numbers *numbers, struct bytes *column, struct bytes *others,
                       uint64_t *reference)
{
    const uint8_t *bytes;
    uint64_t code, number;

    if (!take_number(column, &code))
        return false;
    if (code == 0) {
        bytes = take_bytes(others, 8);
        if (bytes != NULL)
            *reference = load_u64(bytes, false);
        return bytes != NULL;
    }
    number = numbers->next + unzigzag(code - 1);
    if (numbers->names == NULL || number >= numbers->names->count)
        return false;
    numbers->next = number + 1;
    *reference = numbers->names->references[number];
    return true;
}

bool hash_put(uint64_t hash, struct buffer *sizes, struct buffer *bytes)
{
    uint8_t stored[8];
    uint8_t size = 0;

    store_u64(stored, hash, false);
    while (size < 8 && hash >> 8 * size != 0)
        size++;
    return buffer_append(sizes, &size, 1) && buffer_append(bytes, stored, size);
}

bool hash_take(struct bytes *sizes, struct bytes *bytes, uint64_t *hash)
{
    const uint8_t *size = take_bytes(sizes, 1), *stored;

    if (size == NULL || *size > 8)
        return false;
    stored = take_bytes(bytes, *size);
    if (stored == NULL && *size != 0)
        return false;
    *hash = 0;
    for (unsigned i = 0; i < *size; i++)
        *hash |= (uint64_t)stored[i] << 8 * i;
    return true;
}
