/*
 * Profile data: "Data" in docs/format.md.
 *
 * A record has 48 to 72 bytes, but hardly any of them are new information: NameRef is the hash of a
 * name, and names come in the order of the records; the counters of a record follow those of the
 * record before, so CounterPtr follows from NumCounters; and so on. Each field has a stream, which
 * stores how its numbers differ from the expected ones. Everything without a stream is assumed to
 * be 0: the bytes between fields, and the fields that only GPU code uses. Data where it is not 0
 * does not round-trip, and so is not stored in this form.
 */
#include <string.h>

#include "common/base/numbers.h"
#include "common/codec/function_hashes.h"
#include "common/codec/name_refs.h"
#include "common/codec/transforms.h"
#include "common/llvm/profile.h"

enum stream {
    STREAM_NAME_REF_CODES = 0,
    STREAM_NAME_REF_OPERANDS = 1,
    STREAM_FUNCTIONS = 2,
    STREAM_COUNTER_POINTERS = 7,
    STREAM_FUNCTION_POINTERS = 8,
    STREAM_VALUES = 9,
    STREAM_VALUE_SITES = 10,
    STREAM_BITMAP_POINTERS = 11,
    STREAM_BITMAP_BYTES = 12,
    STREAM_REST = 13,
    STREAM_COUNT = 14,
};

/* A record has at least 40 bytes, and is stored as ten numbers of up to ten bytes each. */
#define STREAMS_PER_BYTE 16

#define NAME_REF_OFFSET  0
#define FUNC_HASH_OFFSET 8

enum form {
    FORM_POSITION, /* CounterPtr, BitmapPtr */
    FORM_POINTER,  /* FunctionPointer, Values */
    FORM_NUMBER,
};

/* A field other than NameRef, FuncHash and NumCounters. */
struct field {
    enum stream stream;
    enum form form;
    size_t offset;
    unsigned width;
    /* For FORM_POSITION: the offset of the field that counts what is there, and the size of each
     * item in bytes. */
    size_t number_offset;
    uint64_t number_unit;
    uint64_t expected;
};

#define FIELDS_MAX 8

struct records {
    struct profile_record_layout layout;
    struct field fields[FIELDS_MAX];
    size_t field_count;
    struct name_refs name_refs;
    struct function_writer functions;
    bool big_endian;
};

/* ---- fields ---- */

static void add_field(struct records *records, struct field field)
{
    records->fields[records->field_count++] = field;
}

static void add_position(struct records *records, enum stream stream, size_t offset,
                         size_t number_offset, uint64_t unit)
{
    add_field(records, (struct field){.stream = stream,
                                      .form = FORM_POSITION,
                                      .offset = offset,
                                      .width = (unsigned)records->layout.pointer_size,
                                      .number_offset = number_offset,
                                      .number_unit = unit});
}

/* Describes the fields of the records; false for an unknown record layout. */
static bool describe(struct records *records, const struct transform_context *context)
{
    const struct profile_record_layout *layout = &records->layout;
    unsigned pointer_size = context->pointer_size;
    size_t function;

    *records =
        (struct records){.big_endian = context->big_endian, .name_refs.names = context->names};
    if (!profile_record_layout(context->raw_version, pointer_size, &records->layout))
        return false;
    function = layout->num_counters - 2 * pointer_size;
    add_position(records, STREAM_COUNTER_POINTERS, layout->counter_ptr, layout->num_counters,
                 profile_counter_size(context->raw_version));
    add_field(records, (struct field){STREAM_FUNCTION_POINTERS, FORM_POINTER, function,
                                      pointer_size, 0, 0, 0});
    add_field(records, (struct field){STREAM_VALUES, FORM_POINTER, function + pointer_size,
                                      pointer_size, 0, 0, 0});
    for (size_t kind = 0; kind < layout->value_kinds; kind++)
        add_field(records, (struct field){STREAM_VALUE_SITES, FORM_NUMBER,
                                          layout->num_value_sites + kind * sizeof(uint16_t),
                                          sizeof(uint16_t), 0, 0, 0});
    if (layout->bitmap_ptr == 0)
        return true;
    add_position(records, STREAM_BITMAP_POINTERS, layout->bitmap_ptr, layout->num_bitmap_bytes, 1);
    add_field(records, (struct field){STREAM_BITMAP_BYTES, FORM_NUMBER, layout->num_bitmap_bytes,
                                      sizeof(uint32_t), 0, 0, 0});
    return true;
}

/* Updates the value that is expected for the field in the next record. */
static void expect(const struct records *records, struct field *field, const uint8_t *record,
                   uint64_t value, uint64_t offset)
{
    uint64_t number;

    if (value == 0 || field->form == FORM_NUMBER)
        return;
    field->expected = value;
    if (field->form == FORM_POINTER)
        return;
    number = load_u32(record + field->number_offset, records->big_endian);
    field->expected += number * field->number_unit + (records->layout.relative ? offset : 0);
}

/* The expected value of a field, as it would be stored in the record at `offset`. */
static uint64_t expected_value(const struct records *records, const struct field *field,
                               uint64_t offset)
{
    if (field->form == FORM_POSITION && records->layout.relative)
        return field->expected - offset;
    return field->expected;
}

/* ---- encoding ---- */

static bool put_field(struct records *records, struct field *field, const uint8_t *record,
                      uint64_t offset, struct streams *streams)
{
    uint64_t value = load_number(record + field->offset, field->width, records->big_endian);
    uint64_t code = value;

    if (value != 0 && field->form != FORM_NUMBER)
        code =
            1 + zigzag(sign_extend(value - expected_value(records, field, offset), field->width));
    expect(records, field, record, value, offset);
    return buffer_append_uleb128(&streams->stream[field->stream], code);
}

static bool put_record(struct records *records, const uint8_t *record, uint64_t offset,
                       struct streams *streams)
{
    uint64_t reference = load_u64(record + NAME_REF_OFFSET, records->big_endian);
    struct function_hash function = {
        .hash = load_u64(record + FUNC_HASH_OFFSET, records->big_endian),
        .counters = load_u32(record + records->layout.num_counters, records->big_endian),
    };
    bool done =
        name_refs_put(&records->name_refs, reference, &streams->stream[STREAM_NAME_REF_CODES],
                      &streams->stream[STREAM_NAME_REF_OPERANDS]) &&
        function_writer_add(&records->functions, function);

    for (size_t i = 0; done && i < records->field_count; i++)
        done = put_field(records, &records->fields[i], record, offset, streams);
    return done;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct records records;
    size_t size;
    uint64_t offset = 0;
    bool done = true;

    if (!describe(&records, context))
        return RESULT_UNFIT;
    size = records.layout.record_size;
    if (section.size / size > UINT32_MAX)
        return RESULT_UNFIT;
    streams->count = STREAM_COUNT;
    for (; done && section.size - offset >= size; offset += size)
        done = put_record(&records, section.data + offset, offset, streams);
    if (done && offset != section.size)
        done = buffer_append(&streams->stream[STREAM_REST], section.data + offset,
                             (size_t)(section.size - offset));
    done = done && function_writer_finish(&records.functions, &streams->stream[STREAM_FUNCTIONS]);
    function_writer_free(&records.functions);
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

/* ---- decoding ---- */

/* The records that are being decoded. This is done one stream after the other, because each stream
 * holds one kind of number, in most of them nearly always the same one. */
struct made {
    uint8_t *records;
    uint64_t count;
    struct bytes streams[STREAM_COUNT]; /* their unread rests */
};

static enum result take_names(struct records *records, struct made *made)
{
    uint8_t *record = made->records + NAME_REF_OFFSET;
    uint64_t reference;

    for (uint64_t i = 0; i < made->count; i++, record += records->layout.record_size) {
        if (!name_refs_take(&records->name_refs, &made->streams[STREAM_NAME_REF_CODES],
                            &made->streams[STREAM_NAME_REF_OPERANDS], &reference))
            return RESULT_UNFIT;
        store_u64(record, reference, records->big_endian);
    }
    return RESULT_OK;
}

static enum result take_functions(const struct records *records, struct made *made)
{
    struct function_reader reader = {0};
    uint8_t *record = made->records;
    enum result result = RESULT_OK;
    struct function_hash function;

    memcpy(reader.streams, &made->streams[STREAM_FUNCTIONS], sizeof(reader.streams));
    for (uint64_t i = 0; i < made->count; i++, record += records->layout.record_size) {
        result = function_reader_take(&reader, &function);
        if (result != RESULT_OK)
            break;
        store_u64(record + FUNC_HASH_OFFSET, function.hash, records->big_endian);
        store_u32(record + records->layout.num_counters, function.counters, records->big_endian);
    }
    buffer_free(&reader.known);
    return result;
}

/* Decodes `fields` adjacent number fields that share a stream. */
static bool take_numbers(const struct records *records, const struct field *field, size_t fields,
                         struct made *made)
{
    struct bytes stream = made->streams[field->stream];
    uint8_t *record = made->records + field->offset;
    uint64_t value;

    for (uint64_t i = 0; i < made->count; i++, record += records->layout.record_size) {
        for (size_t j = 0; j < fields; j++) {
            if (!take_number(&stream, &value))
                return false;
            store_number(record + j * field->width, value, field->width, records->big_endian);
        }
    }
    made->streams[field->stream] = stream;
    return true;
}

/* Decodes a position or pointer field. The fields that count the items at a position must already
 * have been decoded. */
static bool take_pointers(const struct records *records, const struct field *field,
                          struct made *made)
{
    unsigned width = field->width;
    bool big_endian = records->big_endian;
    bool is_relative = field->form == FORM_POSITION && records->layout.relative;
    struct bytes stream = made->streams[field->stream];
    uint64_t expected = 0, offset = 0, value;

    for (uint64_t i = 0; i < made->count; i++, offset += records->layout.record_size) {
        uint8_t *record = made->records + offset;

        if (!take_number(&stream, &value))
            return false;
        if (value != 0)
            value = unzigzag(value - 1) + expected - (is_relative ? offset : 0);
        if (width == 4)
            value = (uint32_t)value;
        store_number(record + field->offset, value, width, big_endian);
        if (value == 0)
            continue;
        expected = value + (is_relative ? offset : 0);
        if (field->form == FORM_POSITION)
            expected += load_u32(record + field->number_offset, big_endian) * field->number_unit;
    }
    made->streams[field->stream] = stream;
    return true;
}

/* Decodes all fields other than NameRef, FuncHash and NumCounters. */
static bool take_fields(const struct records *records, struct made *made)
{
    const struct field *end = records->fields + records->field_count;
    bool done = true;

    for (const struct field *field = records->fields; done && field < end; field++) {
        size_t fields = 1;

        if (field->form != FORM_NUMBER)
            continue;
        while (field + fields < end && field[fields].stream == field->stream)
            fields++;
        done = take_numbers(records, field, fields, made);
        field += fields - 1;
    }
    for (const struct field *field = records->fields; done && field < end; field++)
        done = field->form == FORM_NUMBER || take_pointers(records, field, made);
    return done;
}

static enum result take_streams(struct records *records, struct made *made)
{
    enum result result = take_names(records, made);

    if (result == RESULT_OK)
        result = take_functions(records, made);
    if (result == RESULT_OK && !take_fields(records, made))
        result = RESULT_UNFIT;
    return result;
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct made made;
    struct records records;
    size_t record_size, start = section->size;
    enum result result;
    struct bytes rest;

    if (!describe(&records, context) || streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    for (size_t i = 0; i < STREAM_COUNT; i++)
        made.streams[i] = buffer_view(&streams->stream[i]);
    rest = made.streams[STREAM_REST];
    record_size = records.layout.record_size;
    /* Each record has at least one byte in the first stream. */
    made.count = size / record_size;
    if (made.count > made.streams[STREAM_NAME_REF_CODES].size ||
        size - made.count * record_size != rest.size)
        return RESULT_UNFIT;
    if (size == 0)
        return RESULT_OK;
    if (!buffer_append_zeros(section, (size_t)size))
        return RESULT_NO_MEMORY;
    made.records = section->data + start;
    result = take_streams(&records, &made);
    if (result != RESULT_OK)
        return result;
    if (rest.size != 0)
        memcpy(made.records + made.count * record_size, rest.data, (size_t)rest.size);
    return RESULT_OK;
}

const struct transform data_transform = {
    .id = TRANSFORM_DATA,
    .kinds = SECTION_BIT(SECTION_DATA) | SECTION_BIT(SECTION_COVDATA),
    .needs_names = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};
