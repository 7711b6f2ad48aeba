/*
 * Lists of names: see members.h.
 */
#include "common/compact/members.h"

#include <string.h>

#include "common/compact/numbers.h"
#include "common/digest.h"

bool member_writer_start(struct member_writer *writer, struct buffer *text, struct buffer *members)
{
    *writer = (struct member_writer){.text = text, .members = members};
    return number_table_start(&writer->numbers);
}

void member_writer_free(struct member_writer *writer)
{
    number_table_free(&writer->numbers);
}

void member_writer_start_list(struct member_writer *writer)
{
    writer->before = 0;
}

bool member_writer_put(struct member_writer *writer, struct bytes name)
{
    struct digest digest = digest_of(name);
    uint64_t next = writer->numbers.count, number, code;
    uint8_t bytes[MEMBER_WIDTH_MAX];

    if (!number_table_get(&writer->numbers, load_u64(digest.bytes, false), &number))
        return false;
    code = number - writer->before + (number >= writer->before);
    writer->before = number;
    if (number == next) {
        code = 0;
        if (!buffer_append(writer->text, name.data, (size_t)name.size) ||
            !buffer_append(writer->text, "\1", 1))
            return false;
    }
    store_u32(bytes, (uint32_t)code, false);
    return buffer_append(writer->members, bytes, sizeof(bytes));
}

bool member_writer_finish(struct member_writer *writer, unsigned *width)
{
    struct buffer *members = writer->members;
    size_t count = members->size / MEMBER_WIDTH_MAX;

    *width = MEMBER_WIDTH_MIN;
    /* Differences with their signs take a bit more than numbers. */
    while (*width <= MEMBER_WIDTH_MAX && writer->numbers.count >> (8 * *width - 1) != 0)
        (*width)++;
    if (*width > MEMBER_WIDTH_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        memmove(members->data + i * *width, members->data + i * MEMBER_WIDTH_MAX, *width);
    members->size = count * *width;
    return true;
}

bool member_reader_take(struct member_reader *reader, uint64_t *number)
{
    const uint8_t *bytes = take_bytes(&reader->members, reader->width);
    uint64_t code = 0;

    if (bytes == NULL)
        return false;
    for (unsigned i = 0; i < reader->width; i++)
        code |= (uint64_t)bytes[i] << 8 * i;
    if (code == 0) {
        *number = reader->new_number++;
    } else {
        uint64_t difference = sign_extend(code, reader->width);

        *number = reader->before + difference - (difference >> 63 == 0);
    }
    reader->before = *number;
    return *number < reader->names->count;
}
