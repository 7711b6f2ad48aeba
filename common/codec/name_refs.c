/*
 * NameRefs by number: see codec/name_refs.h.
 */
#include "common/codec/name_refs.h"

#include "common/base/numbers.h"
#include "common/codec/compact.h"

enum name_code {
    NAME_NEXT = 0,
    NAME_LEFT = 1, /* and NAME_PLACES - 1 more */
    NAME_NONE = 5,
    NAME_OF_DATA = 6,
    NAME_FAR = 7,
    NAME_NEAR = 8,
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
    return true;
}

bool name_numbers_start_writing(struct name_numbers *numbers, const struct compact_context *context)
{
    *numbers = (struct name_numbers){.names = context->names};
    numbers->by_reference = context->name_numbers;
    if (numbers->by_reference != NULL)
        return true;
    numbers->by_reference = &numbers->own;
    return name_numbers_make(&numbers->own, context->names);
}

void name_numbers_free(struct name_numbers *numbers)
{
    number_table_free(&numbers->own);
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

static bool put_code(struct buffer *column, unsigned code)
{
    uint8_t byte = (uint8_t)code;

    return buffer_append(column, &byte, 1);
}

/* The number behind that of the first record of the data with the NameRef before. */
static uint64_t next_record(const struct name_numbers *numbers)
{
    uint64_t record;

    return data_hashes_find_record(numbers->data, numbers->before, &record) ? record + 1 : 0;
}

/* How far the record of the data is from the one that is expected. False where there is none. */
static bool find_in_data(const struct name_numbers *numbers, uint64_t reference,
                         uint64_t *difference)
{
    uint64_t record;

    if (numbers->data == NULL || !data_hashes_find_record(numbers->data, reference, &record))
        return false;
    *difference = zigzag(record - next_record(numbers));
    return true;
}

/* The code of a name; *difference is what FAR and OF_DATA tell. */
static unsigned choose(const struct name_numbers *numbers, uint64_t reference, uint64_t number,
                       uint64_t *difference)
{
    uint64_t in_data;

    if (number == numbers->next)
        return NAME_NEXT;
    for (unsigned i = 0; i < numbers->left_count; i++) {
        if (numbers->left[i] == number)
            return NAME_LEFT + i;
    }
    *difference = zigzag(number - numbers->next);
    if (*difference < NEAR_COUNT)
        return NAME_NEAR + (unsigned)*difference;
    if (!find_in_data(numbers, reference, &in_data) || in_data > *difference)
        return NAME_FAR;
    *difference = in_data;
    return NAME_OF_DATA;
}

/* The name with that number comes, by its code. */
static void use(struct name_numbers *numbers, unsigned code, uint64_t number)
{
    if (code == NAME_OF_DATA)
        return;
    if (code >= NAME_LEFT && code < NAME_LEFT + NAME_PLACES)
        leave(numbers, code - NAME_LEFT);
    else if (code != NAME_NEXT)
        leave(numbers, numbers->left_count);
    numbers->next = number + 1;
}

bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others)
{
    uint64_t number = 0, difference = 0;
    unsigned code = NAME_NONE;
    uint8_t bytes[8];
    bool done;

    if (number_table_find(numbers->by_reference, reference, &number))
        code = choose(numbers, reference, number, &difference);
    else if (find_in_data(numbers, reference, &difference))
        code = NAME_OF_DATA;
    done = put_code(column, code);
    if (code == NAME_NONE) {
        store_u64(bytes, reference, false);
        done = done && buffer_append(others, bytes, sizeof(bytes));
    } else {
        if (code == NAME_FAR || code == NAME_OF_DATA)
            done = done && buffer_append_uleb128(others, difference);
        use(numbers, code, number);
    }
    numbers->before = reference;
    return done;
}

static bool take_number_of(struct name_numbers *numbers, unsigned code, struct bytes *others,
                           uint64_t *number)
{
    uint64_t difference = code - NAME_NEAR;

    if (code == NAME_NEXT) {
        *number = numbers->next;
    } else if (code < NAME_LEFT + NAME_PLACES) {
        if (code - NAME_LEFT >= numbers->left_count)
            return false;
        *number = numbers->left[code - NAME_LEFT];
    } else {
        if (code == NAME_FAR && !take_number(others, &difference))
            return false;
        *number = numbers->next + unzigzag(difference);
    }
    use(numbers, code, *number);
    return numbers->names != NULL && *number < numbers->names->count;
}

static bool take_of_data(const struct name_numbers *numbers, struct bytes *others,
                         uint64_t *reference)
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
    uint64_t number;
    bool done;

    if (code == NULL)
        return COMPACT_UNFIT;
    if (*code == NAME_NONE) {
        done = take_without_name(others, reference);
    } else if (*code == NAME_OF_DATA) {
        done = take_of_data(numbers, others, reference);
    } else {
        done = take_number_of(numbers, *code, others, &number);
        if (done)
            *reference = numbers->names->references[number];
    }
    if (done)
        numbers->before = *reference;
    return done ? COMPACT_DONE : COMPACT_UNFIT;
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
