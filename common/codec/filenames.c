/*
 * Filenames of the coverage mapping: "Filenames" in docs/format.md.
 *
 * A header is named by every translation unit that includes it. So each filename is stored once,
 * and of each record only which filenames it has.
 */
#include <string.h>

#include "common/base/numbers.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/name_lists.h"
#include "common/codec/records.h"
#include "common/codec/transform.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"

enum stream {
    STREAM_FILENAMES = 0,
    STREAM_LIST_CODES = 1,
    STREAM_LIST_NUMBERS = 2,
    STREAM_RECORDS = 3,
    STREAM_REST = 4,
    STREAM_COUNT = 5,
};

/* A record without its filenames. */
struct record {
    uint32_t record_count;
    uint32_t coverage_size;
    uint32_t version;
    enum zlib_form form;
    uint64_t name_count;
};

/* ---- encoding ---- */

struct encoder {
    const struct transform_context *context;
    struct name_list_writer lists;
    struct buffer records;
    uint64_t record_count;
    struct buffer text; /* of the current record */
    struct buffer *proved;
};

/* Whether the text is a well-formed list of `count` names and nothing else. */
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

    name_list_writer_start_list(&encoder->lists);
    while (bytes_take_uleb128(&text, &size)) {
        struct bytes name = {text.data, size};

        take_bytes(&text, size);
        if (!name_list_writer_put(&encoder->lists, name))
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

/* Encodes the list of filenames, whose size FilenamesSize gives. */
static enum result encode_list(struct encoder *encoder, struct bytes list, struct record *record)
{
    uint64_t whole = list.size, size, stored;
    enum result result = RESULT_OK;
    struct bytes text;

    if (!bytes_take_uleb128(&list, &record->name_count) || !bytes_take_uleb128(&list, &size) ||
        !bytes_take_uleb128(&list, &stored) ||
        whole - list.size !=
            uleb128_size(record->name_count) + uleb128_size(size) + uleb128_size(stored) ||
        list.size != (stored != 0 ? stored : size))
        return RESULT_UNFIT;
    record->form = ZLIB_FORM_NONE;
    encoder->text.size = 0;
    if (stored != 0)
        result = zlib_text_inflate(list, size, &encoder->text, &record->form);
    if (result != RESULT_OK)
        return result;
    text = stored != 0 ? buffer_view(&encoder->text) : list;
    if (!list_is_sound(text, record->name_count))
        return RESULT_UNFIT;
    if (!put_names(encoder, text) || !put_record(encoder, record))
        return RESULT_NO_MEMORY;
    zlib_text_prove(encoder->proved, text, list);
    return RESULT_OK;
}

/* Encodes the record at *offset and the padding after it. */
static enum result encode_record(struct encoder *encoder, struct bytes section, uint64_t *offset)
{
    bool big = encoder->context->big_endian;
    const uint8_t *header = section.data + *offset;
    struct record record;
    struct bytes list;
    uint64_t end;
    enum result result;

    if (section.size - *offset < COVMAP_HEADER_SIZE)
        return RESULT_UNFIT;
    record = (struct record){.record_count = load_u32(header + COVMAP_RECORD_COUNT, big),
                             .coverage_size = load_u32(header + COVMAP_COVERAGE_SIZE, big),
                             .version = load_u32(header + COVMAP_VERSION, big)};
    if (!bytes_slice(section, *offset + COVMAP_HEADER_SIZE,
                     load_u32(header + COVMAP_FILENAMES_SIZE, big), &list))
        return RESULT_UNFIT;
    end = *offset + COVMAP_HEADER_SIZE + list.size;
    if (!record_padding_take(section, &end))
        return RESULT_UNFIT;
    result = encode_list(encoder, list, &record);
    if (result == RESULT_OK)
        *offset = end;
    return result;
}

static enum result encode_all(struct encoder *encoder, struct bytes section,
                              struct streams *streams)
{
    struct buffer *records = &streams->stream[STREAM_RECORDS];
    uint64_t offset = 0;
    unsigned width;

    while (offset < section.size) {
        enum result result = encode_record(encoder, section, &offset);

        if (result == RESULT_NO_MEMORY)
            return result;
        if (result == RESULT_UNFIT)
            break;
    }
    if (encoder->record_count == 0 || !name_list_writer_finish(&encoder->lists, &width))
        return RESULT_UNFIT;
    return buffer_append_uleb128(records, width) &&
                   buffer_append_uleb128(records, encoder->record_count) &&
                   buffer_append(records, encoder->records.data, encoder->records.size) &&
                   (offset == section.size ||
                    buffer_append(&streams->stream[STREAM_REST], section.data + offset,
                                  (size_t)(section.size - offset)))
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct encoder encoder = {.context = context, .proved = &streams->proved};
    enum result result;

    streams->count = STREAM_COUNT;
    encoder.lists = (struct name_list_writer){.codes = &streams->stream[STREAM_LIST_CODES],
                                              .numbers = &streams->stream[STREAM_LIST_NUMBERS]};
    result = encode_all(&encoder, section, streams);
    streams->stream[STREAM_FILENAMES] = encoder.lists.names.text;
    encoder.lists.names.text = (struct buffer){0};
    name_list_writer_free(&encoder.lists);
    buffer_free(&encoder.records);
    buffer_free(&encoder.text);
    return result;
}

/* ---- decoding ---- */

struct decoder {
    const struct transform_context *context;
    struct names names;
    struct name_list_reader reader;
    struct bytes records;
    const struct buffer *proved;
    size_t record;
    uint64_t inflated_left; /* bytes that all further texts together may have */
    struct buffer text;     /* of the current record */
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

static enum result gather_text(struct decoder *decoder, uint64_t count)
{
    decoder->text.size = 0;
    name_list_reader_start_list(&decoder->reader);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes name;
        uint64_t number;

        if (!name_list_reader_take(&decoder->reader, &number))
            return RESULT_UNFIT;
        name = names_get(&decoder->names, (size_t)number);
        if (name.size + 1 > decoder->inflated_left)
            return RESULT_UNFIT;
        decoder->inflated_left -= name.size + 1;
        if (decoder->text.size + name.size > transform_memory_limit(decoder->context))
            return RESULT_OVER_LIMIT;
        if (!buffer_append_uleb128(&decoder->text, name.size) ||
            !buffer_append(&decoder->text, name.data, (size_t)name.size))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* `left`: how many bytes the section may still grow by. */
static enum result decode_record(struct decoder *decoder, uint64_t left, struct buffer *section)
{
    bool big = decoder->context->big_endian;
    uint8_t header[COVMAP_HEADER_SIZE];
    struct record record;
    struct buffer front = {0};
    enum result result;
    uint64_t size;
    bool done;

    if (!take_record(decoder, &record))
        return RESULT_UNFIT;
    result = gather_text(decoder, record.name_count);
    decoder->list.size = 0;
    if (result == RESULT_OK)
        result = zlib_text_recompress(decoder->proved, decoder->record, buffer_view(&decoder->text),
                                      record.form, left, &decoder->list);
    if (result != RESULT_OK)
        return result;
    done = buffer_append_uleb128(&front, record.name_count) &&
           buffer_append_uleb128(&front, decoder->text.size) &&
           buffer_append_uleb128(&front, record.form == ZLIB_FORM_NONE ? 0 : decoder->list.size);
    size = front.size + decoder->list.size;
    if (!done || size > UINT32_MAX || COVMAP_HEADER_SIZE + size > left) {
        buffer_free(&front);
        return done ? RESULT_UNFIT : RESULT_NO_MEMORY;
    }
    store_u32(header + COVMAP_RECORD_COUNT, record.record_count, big);
    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)size, big);
    store_u32(header + COVMAP_COVERAGE_SIZE, record.coverage_size, big);
    store_u32(header + COVMAP_VERSION, record.version, big);
    done = buffer_append(section, header, sizeof(header)) &&
           buffer_append(section, front.data, front.size) &&
           buffer_append(section, decoder->list.data, decoder->list.size);
    buffer_free(&front);
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result decode_all(struct decoder *decoder, struct bytes rest, uint64_t size,
                              struct buffer *section)
{
    size_t start = section->size;
    uint64_t count;

    if (!name_list_reader_take_width(&decoder->reader, &decoder->records) ||
        !bytes_take_uleb128(&decoder->records, &count))
        return RESULT_UNFIT;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t left = size - (section->size - start);
        enum result result = decode_record(decoder, left, section);

        if (result != RESULT_OK)
            return result;
        decoder->record++;
        if (!record_padding_append(section, start, size))
            return RESULT_NO_MEMORY;
    }
    if (!name_list_reader_at_end(&decoder->reader) || rest.size != size - (section->size - start))
        return RESULT_UNFIT;
    return rest.size == 0 || buffer_append(section, rest.data, (size_t)rest.size)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct decoder decoder = {.context = context,
                              .proved = &streams->proved,
                              .records = buffer_view(&streams->stream[STREAM_RECORDS])};
    enum result result;

    if (streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    decoder.inflated_left = zlib_text_limit(streams->stream, STREAM_LIST_NUMBERS + 1, size);
    result = names_take_text(&decoder.names, &streams->stream[STREAM_FILENAMES]);
    if (result == RESULT_OK &&
        !name_list_reader_start(&decoder.reader, decoder.names.count,
                                buffer_view(&streams->stream[STREAM_LIST_CODES]),
                                buffer_view(&streams->stream[STREAM_LIST_NUMBERS])))
        result = RESULT_NO_MEMORY;
    if (result == RESULT_OK)
        result = decode_all(&decoder, buffer_view(&streams->stream[STREAM_REST]), size, section);
    /* The decoder borrowed the text; return it to the streams. */
    streams->stream[STREAM_FILENAMES] = decoder.names.text;
    decoder.names.text = (struct buffer){0};
    name_list_reader_free(&decoder.reader);
    names_free(&decoder.names);
    buffer_free(&decoder.text);
    buffer_free(&decoder.list);
    return result;
}

const struct transform filenames_transform = {
    .id = TRANSFORM_FILENAMES,
    .kinds = SECTION_BIT(SECTION_COVMAP),
    .streams_per_byte = ZLIB_TEXT_STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};
