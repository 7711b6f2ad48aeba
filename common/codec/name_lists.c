/*
 * Lists of names: see codec/name_lists.h.
 */
#include "common/codec/name_lists.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"

/* ---- what is expected ---- */

static void start_list(struct name_list_state *state)
{
    state->list++;
    state->next = 0;
}

static bool is_in_list(const struct name_list_state *state, uint64_t number)
{
    return number < state->new_number && state->lists[number] == state->list;
}

static uint64_t expected(const struct name_list_state *state)
{
    uint64_t number = state->next;

    for (unsigned i = 0; i < NAME_SKIPPED_MAX && is_in_list(state, number); i++)
        number++;
    return number;
}

static void enter(struct name_list_state *state, uint64_t number)
{
    state->new_number += number == state->new_number;
    state->lists[number] = state->list;
    state->next = number + 1;
}

/* ---- writing ---- */

void name_list_writer_free(struct name_list_writer *writer)
{
    names_free(&writer->names);
    free(writer->state.lists);
}

void name_list_writer_start_list(struct name_list_writer *writer)
{
    start_list(&writer->state);
}

uint64_t name_list_writer_expected(const struct name_list_writer *writer)
{
    return expected(&writer->state);
}

bool name_list_writer_put(struct name_list_writer *writer, struct bytes name)
{
    uint64_t number;

    return names_add(&writer->names, name, &number) && name_list_writer_put_number(writer, number);
}

bool name_list_writer_put_number(struct name_list_writer *writer, uint64_t number)
{
    struct name_list_state *state = &writer->state;
    uint8_t code, bytes[NAME_WIDTH_MAX];

    if (!ARRAY_ROOM_FOR_ONE(state->lists, writer->capacity, state->new_number))
        return false;
    code = number == expected(state)     ? NAME_EXPECTED
           : number == state->new_number ? NAME_NEW
                                         : NAME_NUMBERED;
    enter(state, number);
    store_u32(bytes, (uint32_t)number, false);
    return buffer_append(writer->codes, &code, 1) &&
           (code != NAME_NUMBERED || buffer_append(writer->numbers, bytes, sizeof(bytes)));
}

bool name_list_writer_finish(struct name_list_writer *writer, unsigned *width)
{
    struct buffer *numbers = writer->numbers;
    size_t count = numbers->size / NAME_WIDTH_MAX;

    *width = NAME_WIDTH_MIN;
    while (*width <= NAME_WIDTH_MAX && writer->state.new_number >> 8 * *width != 0)
        (*width)++;
    if (*width > NAME_WIDTH_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        memmove(numbers->data + i * *width, numbers->data + i * NAME_WIDTH_MAX, *width);
    numbers->size = count * *width;
    return true;
}

/* ---- reading ---- */

bool name_list_reader_start(struct name_list_reader *reader, size_t count, struct bytes codes,
                            struct bytes numbers)
{
    *reader = (struct name_list_reader){.codes = codes, .numbers = numbers, .count = count};
    reader->state.lists = calloc(count + 1, sizeof(*reader->state.lists));
    return reader->state.lists != NULL;
}

void name_list_reader_free(struct name_list_reader *reader)
{
    free(reader->state.lists);
}

bool name_list_reader_take_width(struct name_list_reader *reader, struct bytes *from)
{
    uint64_t width;

    if (!bytes_take_uleb128(from, &width) || width < NAME_WIDTH_MIN || width > NAME_WIDTH_MAX)
        return false;
    reader->width = (unsigned)width;
    return true;
}

void name_list_reader_start_list(struct name_list_reader *reader)
{
    start_list(&reader->state);
}

bool name_list_reader_take(struct name_list_reader *reader, uint64_t *number)
{
    struct name_list_state *state = &reader->state;
    const uint8_t *code = take_bytes(&reader->codes, 1), *bytes;

    if (code == NULL)
        return false;
    switch (*code) {
    case NAME_EXPECTED:
        *number = expected(state);
        break;
    case NAME_NEW:
        *number = state->new_number;
        break;
    case NAME_NUMBERED:
        bytes = take_bytes(&reader->numbers, reader->width);
        *number = 0;
        for (unsigned i = 0; bytes != NULL && i < reader->width; i++)
            *number |= (uint64_t)bytes[i] << 8 * i;
        if (bytes == NULL || *number >= state->new_number)
            return false;
        break;
    default:
        return false;
    }
    if (*number >= reader->count)
        return false;
    enter(state, *number);
    return true;
}

bool name_list_reader_at_end(const struct name_list_reader *reader)
{
    return reader->codes.size == 0 && reader->numbers.size == 0;
}
