/*
 * Columns of hashes: see codec/name_refs.h.
 */
#include "common/codec/name_refs.h"

#include "common/base/numbers.h"
#include "common/codec/compact.h"

enum name_code {
    NAME_NEXT,
    NAME_LEFT, /* and NAME_PLACES - 1 more */
    NAME_NONE = NAME_LEFT + NAME_PLACES,
    NAME_REPEATED,
    NAME_OF_DATA,
    NAME_FAR,
    NAME_NEAR,
};

/* Differences that go into the byte. Were there more of them, each would be too rare for its byte
 * to be worth a code of its own. */
#define NEAR_COUNT 80

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

bool name_numbers_start_reading(struct name_numbers *numbers, const struct compact_context *context)
{
    *numbers = (struct name_numbers){.names = context->names};
    return unused_numbers_start(&numbers->unused,
                                context->names == NULL ? 0 : context->names->count);
}

bool name_numbers_start_writing(struct name_numbers *numbers, const struct compact_context *context)
{
    if (!name_numbers_start_reading(numbers, context))
        return false;
    numbers->by_reference = context->name_numbers;
    if (numbers->by_reference != NULL)
        return true;
    numbers->by_reference = &numbers->own;
    return name_numbers_make(&numbers->own, context->names);
}

void name_numbers_free(struct name_numbers *numbers)
{
    number_table_free(&numbers->own);
    unused_numbers_free(&numbers->unused);
}

/* Takes a place off the list, or the last one where there are too many, and puts in front the one
 * that is left now. */
static void leave(struct name_numbers *numbers, unsigned place)
{
    if (place == numbers->left_count && place < NAME_PLACES)
        numbers->left_count++;
    else if (place == NAME_PLACES)
        place--;
    for (; place != 0; place--)
        numbers->left[place] = numbers->left[place - 1];
    numbers->left[0] = numbers->next;
}

static bool use(struct name_numbers *numbers, uint64_t number)
{
    numbers->next = number + 1;
    return unused_numbers_use(&numbers->unused, number);
}

static bool put_code(struct buffer *column, unsigned code)
{
    uint8_t byte = (uint8_t)code;

    return buffer_append(column, &byte, 1);
}

static bool is_first_from(const struct name_numbers *numbers, uint64_t from, uint64_t number)
{
    uint64_t found;

    return unused_numbers_find(&numbers->unused, from, 0, &found) && found == number;
}

static bool put_new(struct name_numbers *numbers, uint64_t number, struct buffer *column,
                    struct buffer *others)
{
    uint64_t difference;
    bool done;

    if (is_first_from(numbers, numbers->next, number))
        return put_code(column, NAME_NEXT) && use(numbers, number);
    for (unsigned i = 0; i < numbers->left_count; i++) {
        if (is_first_from(numbers, numbers->left[i], number)) {
            leave(numbers, i);
            return put_code(column, NAME_LEFT + i) && use(numbers, number);
        }
    }
    difference = zigzag(unused_numbers_below(&numbers->unused, number) -
                        unused_numbers_below(&numbers->unused, numbers->next));
    if (difference < NEAR_COUNT)
        done = put_code(column, NAME_NEAR + (unsigned)difference);
    else
        done = put_code(column, NAME_FAR) && buffer_append_uleb128(others, difference);
    leave(numbers, numbers->left_count);
    return done && use(numbers, number);
}

/* The number behind that of the first record of the data with the NameRef before. */
static uint64_t next_record(const struct name_numbers *numbers)
{
    uint64_t record;

    return data_hashes_find_record(numbers->data, numbers->before, &record) ? record + 1 : 0;
}

/* A name that has come, or none. */
static bool put_other(struct name_numbers *numbers, uint64_t reference, uint64_t number,
                      bool has_name, struct buffer *column, struct buffer *others)
{
    uint64_t record, expected = numbers->next_repeated;
    uint8_t bytes[8];

    if (numbers->data != NULL && data_hashes_find_record(numbers->data, reference, &record))
        return put_code(column, NAME_OF_DATA) &&
               buffer_append_uleb128(others, zigzag(record - next_record(numbers)));
    if (!has_name) {
        store_u64(bytes, reference, false);
        return put_code(column, NAME_NONE) && buffer_append(others, bytes, sizeof(bytes));
    }
    numbers->next_repeated = number + 1;
    return put_code(column, NAME_REPEATED) &&
           buffer_append_uleb128(others, zigzag(number - expected));
}

bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others)
{
    uint64_t number = 0;
    bool has_name = number_table_find(numbers->by_reference, reference, &number);
    bool done = has_name && !unused_numbers_is_used(&numbers->unused, number)
                    ? put_new(numbers, number, column, others)
                    : put_other(numbers, reference, number, has_name, column, others);

    numbers->before = reference;
    return done;
}

/* A name that has not come. */
static enum compact_result take_new(struct name_numbers *numbers, unsigned code,
                                    struct bytes *others, uint64_t *number)
{
    uint64_t from = numbers->next, difference = 0;

    if (code >= NAME_LEFT && code < NAME_LEFT + NAME_PLACES) {
        if (code - NAME_LEFT >= numbers->left_count)
            return COMPACT_UNFIT;
        from = numbers->left[code - NAME_LEFT];
        leave(numbers, code - NAME_LEFT);
    } else if (code != NAME_NEXT) {
        difference = code - NAME_NEAR;
        if (code == NAME_FAR && !take_number(others, &difference))
            return COMPACT_UNFIT;
        difference = unzigzag(difference);
        leave(numbers, numbers->left_count);
    }
    if (!unused_numbers_find(&numbers->unused, from, difference, number))
        return COMPACT_UNFIT;
    return use(numbers, *number) ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

/* A name that has come. */
static bool take_repeated(struct name_numbers *numbers, struct bytes *others, uint64_t *number)
{
    if (!take_number(others, number))
        return false;
    *number = numbers->next_repeated + unzigzag(*number);
    if (*number >= numbers->unused.count)
        return false;
    numbers->next_repeated = *number + 1;
    return true;
}

static bool take_of_data(struct name_numbers *numbers, struct bytes *others, uint64_t *reference)
{
    uint64_t difference;

    return numbers->data != NULL && take_number(others, &difference) &&
           data_hashes_get(numbers->data, next_record(numbers) + unzigzag(difference), reference);
}

static bool take_without_name(struct bytes *others, uint64_t *reference)
{
    const uint8_t *bytes = take_bytes(others, 8);

    if (bytes != NULL)
        *reference = load_u64(bytes, false);
    return bytes != NULL;
}

enum compact_result name_numbers_take(struct name_numbers *numbers, struct bytes *column,
                                      struct bytes *others, uint64_t *reference)
{
    const uint8_t *code = take_bytes(column, 1);
    enum compact_result result = COMPACT_DONE;
    bool has_number = true, done = true;
    uint64_t number;

    if (code == NULL)
        return COMPACT_UNFIT;
    if (*code == NAME_NONE || *code == NAME_OF_DATA) {
        has_number = false;
        done = *code == NAME_NONE ? take_without_name(others, reference)
                                  : take_of_data(numbers, others, reference);
    } else if (*code == NAME_REPEATED) {
        done = take_repeated(numbers, others, &number);
    } else {
        result = take_new(numbers, *code, others, &number);
    }
    if (!done || result != COMPACT_DONE)
        return done ? result : COMPACT_UNFIT;
    if (has_number)
        *reference = numbers->names->references[number];
    numbers->before = *reference;
    return COMPACT_DONE;
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
