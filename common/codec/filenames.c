/*
 * Filenames of the coverage mapping: "Filenames" in docs/format.md.
 *
 * A header is named by every translation unit that includes it. So each filename is stored once,
 * and of each record only which filenames it has.
 */
#include "common/base/cursor.h"
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

/* ---- encoding ---- */

struct encoder {
    const struct transform_context *context;
    struct streams *streams;
    struct name_list_writer lists;
    struct buffer records;
    uint64_t record_count;
    struct buffer text; /* of the current record */
};

/* True if the text is a well-formed list of `count` names and nothing else. */
static bool list_is_sound(struct bytes text, uint64_t count)
{
    struct cursor cursor = cursor_open(text, false, false);

    for (uint64_t i = 0; i < count && !cursor.bad; i++) {
        uint64_t left = cursor_left(&cursor), size = cursor_uleb128(&cursor);

        if (left - cursor_left(&cursor) != uleb128_size(size))
            cursor_spoil(&cursor);
        cursor_skip(&cursor, size);
    }
    return cursor_finished(&cursor);
}

/* Encodes the list of filenames, whose size FilenamesSize gives, after the record's other numbers,
 * the header. */
static enum result encode_list(struct encoder *encoder, struct bytes list, const uint32_t header[3])
{
    struct cursor cursor = cursor_open(list, false, false);
    uint64_t count = cursor_uleb128(&cursor), size = cursor_uleb128(&cursor);
    uint64_t stored = cursor_uleb128(&cursor);
    unsigned front = uleb128_size(count) + uleb128_size(size) + uleb128_size(stored);
    struct bytes content = cursor_rest(&cursor), text = content;
    enum zlib_form form = ZLIB_FORM_NONE;
    enum result result;

    if (cursor.bad || list.size - content.size != front ||
        content.size != (stored != 0 ? stored : size))
        return RESULT_UNFIT;
    if (stored != 0) {
        encoder->text.size = 0;
        result = zlib_text_inflate(content, size, &encoder->text, &form);
        if (result != RESULT_OK)
            return result;
        text = buffer_view(&encoder->text);
    }
    if (!list_is_sound(text, count))
        return RESULT_UNFIT;
    zlib_text_prove(&encoder->streams->proved, text, content);
    name_list_writer_start_list(&encoder->lists);
    cursor = cursor_open(text, false, false);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes name = cursor_bytes(&cursor, cursor_uleb128(&cursor));

        if (!name_list_writer_put(&encoder->lists, name))
            return RESULT_NO_MEMORY;
    }
    encoder->record_count++;
    for (unsigned i = 0; i < 3; i++)
        buffer_append_uleb128(&encoder->records, header[i]);
    buffer_append_uleb128(&encoder->records, form);
    buffer_append_uleb128(&encoder->records, count);
    return RESULT_OK;
}

/* Encodes the record at the front of the section and takes it off, with the padding after it. */
static enum result encode_record(struct encoder *encoder, struct bytes *section)
{
    bool big = encoder->context->big_endian;
    struct bytes header, list, padding;
    enum result result;
    uint64_t size, end;

    if (!bytes_slice(*section, 0, COVMAP_HEADER_SIZE, &header) ||
        !bytes_slice(*section, COVMAP_HEADER_SIZE,
                     load_u32(header.data + COVMAP_FILENAMES_SIZE, big), &list))
        return RESULT_UNFIT;
    const uint32_t numbers[3] = {load_u32(header.data + COVMAP_RECORD_COUNT, big),
                                 load_u32(header.data + COVMAP_COVERAGE_SIZE, big),
                                 load_u32(header.data + COVMAP_VERSION, big)};
    size = COVMAP_HEADER_SIZE + list.size;
    end = align_up(size, COVERAGE_ALIGNMENT);
    if (end > section->size)
        end = section->size;
    if (!bytes_slice(*section, size, end - size, &padding) || !bytes_all_zero(padding))
        return RESULT_UNFIT;
    result = encode_list(encoder, list, numbers);
    if (result == RESULT_OK)
        take_bytes(section, end);
    return result;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct buffer *stream = streams->stream;
    struct encoder encoder = {
        .context = context,
        .streams = streams,
        .lists = {.codes = &stream[STREAM_LIST_CODES], .numbers = &stream[STREAM_LIST_NUMBERS]}};
    enum result result = RESULT_OK;
    unsigned width;

    streams->count = STREAM_COUNT;
    while (result == RESULT_OK && section.size != 0)
        result = encode_record(&encoder, &section);
    if (result != RESULT_NO_MEMORY) {
        result = encoder.records.failed ? RESULT_NO_MEMORY : RESULT_OK;
        if (encoder.record_count == 0 || !name_list_writer_finish(&encoder.lists, &width))
            result = RESULT_UNFIT;
    }
    if (result == RESULT_OK) {
        buffer_append_uleb128(&stream[STREAM_RECORDS], width);
        buffer_append_uleb128(&stream[STREAM_RECORDS], encoder.record_count);
        buffer_append(&stream[STREAM_RECORDS], encoder.records.data, encoder.records.size);
        buffer_append(&stream[STREAM_REST], section.data, (size_t)section.size);
        stream[STREAM_FILENAMES] = encoder.lists.names.text;
        encoder.lists.names.text = (struct buffer){0};
    }
    name_list_writer_free(&encoder.lists);
    buffer_free(&encoder.records);
    buffer_free(&encoder.text);
    return result;
}

/* ---- decoding ---- */

struct decoder {
    const struct transform_context *context;
    const struct buffer *proved;
    struct names names;
    struct name_list_reader reader;
    struct cursor records;
    uint64_t inflated_left; /* bytes that all further texts together may have */
    uint64_t inflated;      /* bytes that all texts so far have */
    struct buffer text;     /* of the current record */
    struct buffer list;     /* its list of filenames, as it is in the section */
};

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
        decoder->inflated += name.size + 1;
        /* All of them together, since each has to be compressed again, which takes time. */
        if (decoder->inflated > transform_memory_limit(decoder->context))
            return RESULT_OVER_LIMIT;
        buffer_append_uleb128(&decoder->text, name.size);
        if (!buffer_append(&decoder->text, name.data, (size_t)name.size))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

/* Decodes the record with this number. `left`: how many bytes the section may still grow by. */
static enum result decode_record(struct decoder *decoder, size_t number, uint64_t left,
                                 struct buffer *section)
{
    bool big = decoder->context->big_endian;
    uint8_t header[COVMAP_HEADER_SIZE];
    struct buffer stream = {0}, *list = &decoder->list;
    uint64_t form, count;
    enum result result;

    store_u32(header + COVMAP_RECORD_COUNT, cursor_uleb128_32(&decoder->records), big);
    store_u32(header + COVMAP_COVERAGE_SIZE, cursor_uleb128_32(&decoder->records), big);
    store_u32(header + COVMAP_VERSION, cursor_uleb128_32(&decoder->records), big);
    form = cursor_uleb128(&decoder->records);
    count = cursor_uleb128(&decoder->records);
    if (decoder->records.bad || form < ZLIB_FORM_NONE || form > ZLIB_FORM_BEST)
        return RESULT_UNFIT;
    result = gather_text(decoder, count);
    if (result == RESULT_OK)
        result =
            zlib_text_recompress(decoder->proved, number, decoder->context->memo,
                                 buffer_view(&decoder->text), (enum zlib_form)form, left, &stream);
    if (result == RESULT_OK) {
        list->size = 0;
        buffer_append_uleb128(list, count);
        buffer_append_uleb128(list, decoder->text.size);
        buffer_append_uleb128(list, form == ZLIB_FORM_NONE ? 0 : stream.size);
        buffer_append(list, stream.data, stream.size);
        store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)list->size, big);
        if (list->failed)
            result = RESULT_NO_MEMORY;
        else if (list->size > UINT32_MAX || COVMAP_HEADER_SIZE + list->size > left)
            result = RESULT_UNFIT;
    }
    buffer_free(&stream);
    if (result != RESULT_OK)
        return result;
    buffer_append(section, header, sizeof(header));
    return buffer_append(section, list->data, list->size) ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result decode_with(struct decoder *decoder, struct streams *streams, uint64_t size,
                               struct buffer *section)
{
    struct bytes records = buffer_view(&streams->stream[STREAM_RECORDS]);
    const struct buffer *rest = &streams->stream[STREAM_REST];
    size_t start = section->size;
    enum result result;
    uint64_t count;

    decoder->inflated_left = zlib_text_limit(streams->stream, STREAM_LIST_NUMBERS + 1, size);
    result = names_take_text(&decoder->names, &streams->stream[STREAM_FILENAMES]);
    if (result != RESULT_OK)
        return result;
    if (!name_list_reader_start(&decoder->reader, decoder->names.count,
                                buffer_view(&streams->stream[STREAM_LIST_CODES]),
                                buffer_view(&streams->stream[STREAM_LIST_NUMBERS])))
        return RESULT_NO_MEMORY;
    if (!name_list_reader_take_width(&decoder->reader, &records))
        return RESULT_UNFIT;
    decoder->records = cursor_open(records, false, false);
    count = cursor_uleb128(&decoder->records);
    for (uint64_t i = 0; i < count; i++) {
        result = decode_record(decoder, (size_t)i, size - (section->size - start), section);
        if (result != RESULT_OK)
            return result;
        if (!record_padding_append(section, start, size))
            return RESULT_NO_MEMORY;
    }
    if (decoder->records.bad || !name_list_reader_at_end(&decoder->reader) ||
        rest->size != size - (section->size - start))
        return RESULT_UNFIT;
    return buffer_append(section, rest->data, rest->size) ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct decoder decoder = {.context = context, .proved = &streams->proved};
    enum result result;

    if (streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    result = decode_with(&decoder, streams, size, section);
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
