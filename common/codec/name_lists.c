/*
 * Lists of names: see codec/name_lists.h.
 */
#include "common/codec/name_lists.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/numbers.h"

#define NONE UINT64_MAX

/* ---- what is expected ---- */

static void start_list(struct member_state *state)
{
    state->list++;
    state->next = 0;
    state->left = NONE;
}

static bool came(const struct member_state *state, uint64_t number)
{
    return number < state->new_number && state->lists[number] == state->list;
}

static uint64_t expected(const struct member_state *state)
{
    uint64_t number = state->next;

    for (unsigned i = 0; i < MEMBER_PASSED_MAX && came(state, number); i++)
        number++;
    return number;
}

/* What is left so far; NONE: nothing, or it has come. */
static uint64_t left(const struct member_state *state)
{
    return state->left != NONE && !came(state, state->left) ? state->left : NONE;
}

/* Enters a member, which `next` was expected in the place of. */
static void enter(struct member_state *state, uint64_t number, uint64_t next)
{
    if (number != next && next < state->new_number && !came(state, next))
        state->left = next;
    state->new_number += number == state->new_number;
    state->lists[number] = state->list;
    state->next = number + 1;
}

/* ---- writing ---- */

void member_writer_free(struct member_writer *writer)
{
    names_free(&writer->names);
    free(writer->state.lists);
}

void member_writer_start_list(struct member_writer *writer)
{
    start_list(&writer->state);
}

/* Room for one more name in the state. */
static bool make_room(struct member_writer *writer)
{
    return ARRAY_ROOM_FOR_ONE(writer->state.lists, writer->capacity, writer->state.new_number);
}

bool member_writer_put(struct member_writer *writer, struct bytes name)
{
    struct member_state *state = &writer->state;
    uint64_t next = expected(state), number;
    uint8_t kind, bytes[MEMBER_WIDTH_MAX];

    if (!make_room(writer) || !names_add(&writer->names, name, &number))
        return false;
    kind = number == next                ? MEMBER_EXPECTED
           : number == state->new_number ? MEMBER_NEW
           : number == left(state)       ? MEMBER_LEFT
                                         : MEMBER_OTHER;
    enter(state, number, next);
    store_u32(bytes, (uint32_t)number, false);
    return buffer_append(writer->kinds, &kind, 1) &&
           (kind != MEMBER_OTHER || buffer_append(writer->others, bytes, sizeof(bytes)));
}

bool member_writer_finish(struct member_writer *writer, unsigned *width)
{
    struct buffer *others = writer->others;
    size_t count = others->size / MEMBER_WIDTH_MAX;

    *width = MEMBER_WIDTH_MIN;
    while (*width <= MEMBER_WIDTH_MAX && writer->state.new_number >> 8 * *width != 0)
        (*width)++;
    if (*width > MEMBER_WIDTH_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        memmove(others->data + i * *width, others->data + i * MEMBER_WIDTH_MAX, *width);
    others->size = count * *width;
    return true;
}

/* ---- reading ---- */

bool member_reader_start(struct member_reader *reader, size_t count, struct bytes kinds,
                         struct bytes others)
{
    *reader = (struct member_reader){.kinds = kinds, .others = others, .count = count};
    reader->state.lists = calloc(count + 1, sizeof(*reader->state.lists));
    return reader->state.lists != NULL;
}

void member_reader_free(struct member_reader *reader)
{
    free(reader->state.lists);
}

bool member_reader_take_width(struct member_reader *reader, struct bytes *from)
{
    uint64_t width;

    if (!bytes_take_uleb128(from, &width) || width < MEMBER_WIDTH_MIN || width > MEMBER_WIDTH_MAX)
        return false;
    reader->width = (unsigned)width;
    return true;
}

void member_reader_start_list(struct member_reader *reader)
{
    start_list(&reader->state);
}

static bool take_other(struct member_reader *reader, uint64_t *number)
{
    const uint8_t *bytes = take_bytes(&reader->others, reader->width);

    *number = 0;
    for (unsigned i = 0; bytes != NULL && i < reader->width; i++)
        *number |= (uint64_t)bytes[i] << 8 * i;
    return bytes != NULL && *number < reader->state.new_number;
}

bool member_reader_take(struct member_reader *reader, uint64_t *number)
{
    struct member_state *state = &reader->state;
    uint64_t next = expected(state);
    const uint8_t *kind = take_bytes(&reader->kinds, 1);

    if (kind == NULL)
        return false;
    switch (*kind) {
    case MEMBER_EXPECTED:
        *number = next;
        break;
    case MEMBER_NEW:
        *number = state->new_number;
        break;
    case MEMBER_LEFT:
        *number = left(state);
        break;
    case MEMBER_OTHER:
        if (!take_other(reader, number))
            return false;
        break;
    default:
        return false;
    }
    if (*number >= reader->count)
        return false;
    enter(state, *number, next);
    return true;
}

bool member_reader_at_end(const struct member_reader *reader)
{
    return reader->kinds.size == 0 && reader->others.size == 0;
}
