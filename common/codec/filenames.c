/*
 * File names of the coverage mapping, version 2.
 *
 * The section is a run of records, one a translation unit, each aligned to 8 bytes (LLVM's
 * CoverageMappingFormat, versions 4 to 7): NRecords, FilenamesSize, CoverageSize and Version, 32
 * bits each, then FilenamesSize bytes: the number of file names, the size of their text and the
 * size of its zlib stream (0: none) as unsigned LEB128, and then the text or the stream. The text
 * is of each name its size as unsigned LEB128, and the name. A header is named in every translation
 * unit that has it, so each name is stored once.
 *
 * Parts:
 *   0  the distinct names, in the order in which they come first, each with a byte 1 behind it
 *   1, 2  the names of all records, as codec/name_lists.h has it: their kinds, and the numbers of
 * others 3  the width of these numbers, the number of records, and of each record NRecords,
 *      CoverageSize, Version, the form of its text (deflate/text.h), its number of names, as
 * unsigned LEB128 4  what follows the last record that is of this form, as it is
 */
#include <string.h>

#include "common/base/numbers.h"
#include "common/codec/deflate/text.h"
#include "common/codec/name_lists.h"
#include "common/codec/names/table.h"
#include "common/codec/record_padding.h"
#include "common/codec/transforms.h"

enum part {
    PART_TEXT,
    PART_KINDS,
    PART_OTHERS,
    PART_RECORDS,
    PART_REST,
    PART_COUNT,
};

#define HEADER_SIZE 16

/* The record without its names. */
struct record {
    uint32_t record_count;
    uint32_t coverage_size;
    uint32_t version;
    enum zlib_form form;
    uint64_t name_count;
};

/* ---- encoding ---- */

struct encoder {
    const struct compact_context *context;
    struct member_writer members;
    struct buffer records;
    uint64_t record_count;
    struct buffer text; /* of the record at hand */
};

/* Takes the list of names apart; false where it is not just that. */
static bool list_is_sound(struct bytes text, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct bytes before = text;
        uint64_t size;

        if (!bytes_take_uleb128(&text, &size) || before.size - text.size != uleb128_size(size) ||
            (take_bytes(&text, size) == NULL && size != 0))
            return false;
    }
    return text.size == 0;
}

static bool put_names(struct encoder *encoder, struct bytes text)
{
    uint64_t size;

    member_writer_start_list(&encoder->members);
    while (bytes_take_uleb128(&text, &size)) {
        struct bytes name = {text.data, size};

        take_bytes(&text, size);
        if (!member_writer_put(&encoder->members, name))
            return false;
    }
    return true;
}

static bool put_record(struct encoder *encoder, const struct record *record)
{
    encoder->record_count++;
    return buffer_append_uleb128(&encoder->records, record->record_count) &&
           buffer_append_uleb128(&encoder->records, record->coverage_size) &&
           buffer_append_uleb128(&encoder->records, record->version) &&
           buffer_append_uleb128(&encoder->records, record->form) &&
           buffer_append_uleb128(&encoder->records, record->name_count);
}

/* Encodes what FilenamesSize says the size of. */
static enum compact_result encode_list(struct encoder *encoder, struct bytes list,
                                       struct record *record)
{
    uint64_t whole = list.size, size, stored;
    enum compact_result result = COMPACT_DONE;
    struct bytes text;

    if (!bytes_take_uleb128(&list, &record->name_count) || !bytes_take_uleb128(&list, &size) ||
        !bytes_take_uleb128(&list, &stored) ||
        whole - list.size !=
            uleb128_size(record->name_count) + uleb128_size(size) + uleb128_size(stored) ||
        list.size != (stored != 0 ? stored : size))
        return COMPACT_UNFIT;
    record->form = ZLIB_FORM_NONE;
    encoder->text.size = 0;
    if (stored != 0)
        result = zlib_text_prove(list, size, &encoder->text, &record->form);
    if (result != COMPACT_DONE)
        return result;
    text = stored != 0 ? buffer_view(&encoder->text) : list;
    if (!list_is_sound(text, record->name_count))
        return COMPACT_UNFIT;
    if (!put_names(encoder, text) || !put_record(encoder, record))
        return COMPACT_NO_MEMORY;
    return zlib_text_remember(encoder->context->memo, text, record->form, list);
}

/* Encodes the record at the front of the rest, and the padding behind it. */
static enum compact_result encode_record(struct encoder *encoder, struct bytes section,
                                         uint64_t *offset)
{
    bool big = encoder->context->big_endian;
    const uint8_t *header = section.data + *offset;
    struct record record;
    struct bytes list;
    uint64_t end;
    enum compact_result result;

    if (section.size - *offset < HEADER_SIZE)
        return COMPACT_UNFIT;
    record = (struct record){.record_count = load_u32(header, big),
                             .coverage_size = load_u32(header + 8, big),
                             .version = load_u32(header + 12, big)};
    if (!bytes_slice(section, *offset + HEADER_SIZE, load_u32(header + 4, big), &list))
        return COMPACT_UNFIT;
    end = *offset + HEADER_SIZE + list.size;
    if (!record_padding_take(section, &end))
        return COMPACT_UNFIT;
    result = encode_list(encoder, list, &record);
    if (result == COMPACT_DONE)
        *offset = end;
    return result;
}

static enum compact_result encode_all(struct encoder *encoder, struct bytes section,
                                      struct compact_parts *parts)
{
    struct buffer *records = &parts->parts[PART_RECORDS];
    uint64_t offset = 0;
    unsigned width;

    while (offset < section.size) {
        enum compact_result result = encode_record(encoder, section, &offset);

        if (result == COMPACT_NO_MEMORY)
            return result;
        if (result == COMPACT_UNFIT)
            break;
    }
    if (encoder->record_count == 0 || !member_writer_finish(&encoder->members, &width))
        return COMPACT_UNFIT;
    return buffer_append_uleb128(records, width) &&
                   buffer_append_uleb128(records, encoder->record_count) &&
                   buffer_append(records, encoder->records.data, encoder->records.size) &&
                   (offset == section.size ||
                    buffer_append(&parts->parts[PART_REST], section.data + offset,
                                  (size_t)(section.size - offset)))
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

static enum compact_result encode(const struct compact_context *context, struct bytes section,
                                  struct compact_parts *parts)
{
    struct encoder encoder = {.context = context};
    enum compact_result result = COMPACT_NO_MEMORY;

    parts->count = PART_COUNT;
    if (member_writer_start(&encoder.members, &parts->parts[PART_TEXT], &parts->parts[PART_KINDS],
                            &parts->parts[PART_OTHERS]))
        result = encode_all(&encoder, section, parts);
    member_writer_free(&encoder.members);
    buffer_free(&encoder.records);
    buffer_free(&encoder.text);
    return result;
}

/* ---- decoding ---- */

struct decoder {
    const struct compact_context *context;
    struct name_table names;
    struct member_reader reader;
    struct bytes records;
    uint64_t inflated_left; /* how much all texts may still be */
    struct buffer text;     /* of the record at hand */
    struct buffer list;
};

static bool take_32(struct bytes *from, uint32_t *number)
{
    uint64_t value;

    if (!bytes_take_uleb128(from, &value) || value > UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool take_record(struct decoder *decoder, struct record *record)
{
    uint32_t form;

    if (!take_32(&decoder->records, &record->record_count) ||
        !take_32(&decoder->records, &record->coverage_size) ||
        !take_32(&decoder->records, &record->version) || !take_32(&decoder->records, &form) ||
        form < ZLIB_FORM_NONE || form > ZLIB_FORM_BEST ||
        !bytes_take_uleb128(&decoder->records, &record->name_count))
        return false;
    record->form = (enum zlib_form)form;
    return true;
}

static enum compact_result gather_text(struct decoder *decoder, uint64_t count)
{
    decoder->text.size = 0;
    member_reader_start_list(&decoder->reader);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes name;
        uint64_t number;

        if (!member_reader_take(&decoder->reader, &number))
            return COMPACT_UNFIT;
        name = name_table_get(&decoder->names, (size_t)number);
        if (name.size + 1 > decoder->inflated_left)
            return COMPACT_UNFIT;
        decoder->inflated_left -= name.size + 1;
        if (decoder->text.size + name.size > compact_memory_limit(decoder->context))
            return COMPACT_OVER_LIMIT;
        if (!buffer_append_uleb128(&decoder->text, name.size) ||
            !buffer_append(&decoder->text, name.data, (size_t)name.size))
            return COMPACT_NO_MEMORY;
    }
    return COMPACT_DONE;
}

/* `left`: how much the section may still grow. */
static enum compact_result decode_record(struct decoder *decoder, uint64_t left,
                                         struct buffer *section)
{
    bool big = decoder->context->big_endian;
    uint8_t header[HEADER_SIZE];
    struct record record;
    struct buffer front = {0};
    enum compact_result result;
    uint64_t size;
    bool done;

    if (!take_record(decoder, &record))
        return COMPACT_UNFIT;
    result = gather_text(decoder, record.name_count);
    decoder->list.size = 0;
    if (result == COMPACT_DONE)
        result = zlib_text_again(decoder->context->memo, buffer_view(&decoder->text), record.form,
                                 left, &decoder->list);
    if (result != COMPACT_DONE)
        return result;
    done = buffer_append_uleb128(&front, record.name_count) &&
           buffer_append_uleb128(&front, decoder->text.size) &&
           buffer_append_uleb128(&front, record.form == ZLIB_FORM_NONE ? 0 : decoder->list.size);
    size = front.size + decoder->list.size;
    if (!done || size > UINT32_MAX || HEADER_SIZE + size > left) {
        buffer_free(&front);
        return done ? COMPACT_UNFIT : COMPACT_NO_MEMORY;
    }
    store_u32(header, record.record_count, big);
    store_u32(header + 4, (uint32_t)size, big);
    store_u32(header + 8, record.coverage_size, big);
    store_u32(header + 12, record.version, big);
    done = buffer_append(section, header, sizeof(header)) &&
           buffer_append(section, front.data, front.size) &&
           buffer_append(section, decoder->list.data, decoder->list.size);
    buffer_free(&front);
    return done ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

static enum compact_result decode_all(struct decoder *decoder, struct bytes rest, uint64_t size,
                                      struct buffer *section)
{
    size_t start = section->size;
    uint64_t count;

    if (!member_reader_take_width(&decoder->reader, &decoder->records) ||
        !bytes_take_uleb128(&decoder->records, &count))
        return COMPACT_UNFIT;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t left = size - (section->size - start);
        enum compact_result result = decode_record(decoder, left, section);

        if (result != COMPACT_DONE)
            return result;
        if (!record_padding_append(section, start, size))
            return COMPACT_NO_MEMORY;
    }
    if (!member_reader_at_end(&decoder->reader) || rest.size != size - (section->size - start))
        return COMPACT_UNFIT;
    return rest.size == 0 || buffer_append(section, rest.data, (size_t)rest.size)
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

static enum compact_result decode(const struct compact_context *context,
                                  struct compact_parts *parts, uint64_t size,
                                  struct buffer *section)
{
    struct decoder decoder = {.context = context,
                              .records = buffer_view(&parts->parts[PART_RECORDS])};
    bool had_memory = true;
    enum compact_result result;

    if (parts->count != PART_COUNT)
        return COMPACT_UNFIT;
    decoder.inflated_left = zlib_text_limit(parts->parts, PART_OTHERS + 1, size);
    if (!name_table_index(&decoder.names, &parts->parts[PART_TEXT], &had_memory))
        result = had_memory ? COMPACT_UNFIT : COMPACT_NO_MEMORY;
    else if (!member_reader_start(&decoder.reader, decoder.names.count,
                                  buffer_view(&parts->parts[PART_KINDS]),
                                  buffer_view(&parts->parts[PART_OTHERS])))
        result = COMPACT_NO_MEMORY;
    else
        result = decode_all(&decoder, buffer_view(&parts->parts[PART_REST]), size, section);
    /* The text was taken over; it is the parts' again. */
    parts->parts[PART_TEXT] = decoder.names.text;
    decoder.names.text = (struct buffer){0};
    member_reader_free(&decoder.reader);
    name_table_free(&decoder.names);
    buffer_free(&decoder.text);
    buffer_free(&decoder.list);
    return result;
}

const struct compact_transform compact_covmap_2 = {
    .type = COMPACT_COVMAP_2,
    .kinds = SECTION_BIT(SECTION_COVMAP),
    .parts_per_byte = COMPACT_NAMES_PARTS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};
