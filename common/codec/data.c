/*
 * Profile data: "Data" in docs/format.md; and the parts that its form shares with others
 * (records.h).
 *
 * A record has 48 to 72 bytes, but hardly any of them are new information: NameRef is the hash of a
 * name, and names come in the order of the records; the counters of a record follow those of the
 * record before, so CounterPtr follows from NumCounters; and so on. Each field has a stream, which
 * stores how its numbers differ from the expected ones. Everything without a stream is assumed to
 * be 0: the bytes between fields, and the fields that only GPU code uses. Data where it is not 0
 * does not round-trip, and so is not stored in this form.
 */
#include <string.h>

#include "common/base/cursor.h"
#include "common/codec/records.h"
#include "common/codec/transform.h"
#include "common/llvm/profile.h"

#define NAME_REF_OFFSET  0
#define FUNC_HASH_OFFSET 8

/* ---- NameRefs ---- */

/* Stored in sidecars. */
enum name_ref_code {
    CODE_NEXT = 0,
    CODE_RUN = 1, /* the first of NAME_REF_RUNS codes */
    CODE_NO_NAME = 5,
    CODE_FAR = 6,
};

/* Updates the state for a name with this code and number: unless it continues the current run, that
 * is left and put at the front of the list, from which the run that is resumed, or the oldest one
 * if the list is full, is removed. */
static void pass_name(struct name_refs *refs, unsigned code, uint64_t number)
{
    unsigned index = code - CODE_RUN;

    if (code != CODE_NEXT) {
        if (index >= NAME_REF_RUNS) {
            if (refs->run_count < NAME_REF_RUNS)
                refs->run_count++;
            index = refs->run_count - 1;
        }
        for (; index != 0; index--)
            refs->runs[index] = refs->runs[index - 1];
        refs->runs[0] = refs->next;
    }
    refs->next = number + 1;
}

/* The code of a name. *difference is the operand of CODE_FAR. */
static unsigned choose_code(const struct name_refs *refs, uint64_t number, uint64_t *difference)
{
    if (number == refs->next)
        return CODE_NEXT;
    for (unsigned i = 0; i < refs->run_count; i++) {
        if (refs->runs[i] == number)
            return CODE_RUN + i;
    }
    *difference = zigzag(number - refs->next);
    return CODE_FAR;
}

/* The number of a name: the next one, or what a look-up finds. False if it has none. */
static bool find_number(const struct name_refs *refs, uint64_t reference, uint64_t *number)
{
    const struct names *names = refs->names;

    *number = refs->next;
    return names != NULL &&
           ((refs->next < names->count && names->references[refs->next] == reference) ||
            intern_table_find(&names->by_reference, reference, number));
}

void name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands)
{
    uint64_t number, difference = 0;
    unsigned code = CODE_NO_NAME;
    uint8_t byte, bytes[8];

    if (find_number(refs, reference, &number)) {
        code = choose_code(refs, number, &difference);
        pass_name(refs, code, number);
    }
    byte = (uint8_t)code;
    buffer_append(codes, &byte, 1);
    store_u64(bytes, reference, false);
    if (code == CODE_FAR)
        buffer_append_uleb128(operands, difference);
    else if (code == CODE_NO_NAME)
        buffer_append(operands, bytes, sizeof(bytes));
}

uint64_t name_refs_take(struct name_refs *refs, struct cursor *codes, struct cursor *operands)
{
    unsigned code = cursor_u8(codes);
    uint64_t number = refs->next, reference;

    if (code == CODE_NO_NAME) {
        reference = cursor_u64(operands);
        if (operands->bad)
            cursor_spoil(codes);
        return reference;
    }
    if (code == CODE_FAR)
        number += unzigzag(cursor_uleb128(operands));
    else if (code > CODE_FAR)
        cursor_spoil(codes);
    else if (code >= CODE_RUN)
        number = code - CODE_RUN < refs->run_count ? refs->runs[code - CODE_RUN] : UINT64_MAX;
    if (codes->bad || operands->bad || refs->names == NULL || number >= refs->names->count) {
        cursor_spoil(codes);
        return 0;
    }
    pass_name(refs, code, number);
    return refs->names->references[number];
}

/* ---- FuncHashes ---- */

#define DIGIT_BITS 6
#define DIGITS_MAX 10
#define DIGIT_NONE (1 << DIGIT_BITS) /* a byte in place of digits: 8 bytes follow */

void func_hash_put(struct buffer *stream, uint64_t hash)
{
    uint8_t digits[DIGITS_MAX + 1], bytes[1 + 8] = {DIGIT_NONE};
    unsigned count = 0;
    bool are_digits = true;

    while (count < DIGITS_MAX && hash >> DIGIT_BITS * count != 0)
        count++;
    for (unsigned i = 0; i < count; i++) {
        digits[i] = hash >> DIGIT_BITS * (count - 1 - i) & (DIGIT_NONE - 1);
        are_digits = are_digits && digits[i] != 0;
    }
    if (are_digits && hash >> DIGIT_BITS * count == 0) {
        digits[count] = 0;
        buffer_append(stream, digits, count + 1);
    } else {
        store_u64(bytes + 1, hash, false);
        buffer_append(stream, bytes, sizeof(bytes));
    }
}

uint64_t func_hash_take(struct cursor *stream)
{
    uint64_t hash = 0;
    unsigned digit = cursor_u8(stream);

    if (digit == DIGIT_NONE)
        return cursor_u64(stream);
    for (unsigned count = 0; digit != 0; digit = cursor_u8(stream)) {
        if (count++ == DIGITS_MAX || digit >= DIGIT_NONE)
            cursor_spoil(stream);
        hash = hash << DIGIT_BITS | digit;
    }
    return hash;
}

/* ---- data records ---- */

void data_records_free(struct data_records *records)
{
    intern_table_free(&records->by_reference);
}

bool data_records_start(struct data_records *records, const struct transform_context *context)
{
    struct profile_record_layout layout;
    uint64_t count;

    *records = (struct data_records){.big_endian = context->big_endian};
    if (!profile_record_layout(context->raw_version, context->pointer_size, &layout))
        return true;
    records->data = context->data;
    records->record_size = layout.record_size;
    count = context->data.size / layout.record_size;
    if (count > UINT32_MAX)
        return true;
    if (!intern_table_reserve(&records->by_reference, (size_t)count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t reference =
            load_u64(context->data.data + i * layout.record_size, context->big_endian);

        if (!intern_table_put(&records->by_reference, reference, i))
            return false;
    }
    return true;
}

bool data_records_find_hash(const struct data_records *records, uint64_t reference, uint64_t *hash)
{
    uint64_t record;

    if (!intern_table_find(&records->by_reference, reference, &record))
        return false;
    *hash = load_u64(records->data.data + record * records->record_size + FUNC_HASH_OFFSET,
                     records->big_endian);
    return true;
}

/* ---- padding ---- */

bool record_padding_append(struct buffer *section, size_t start, uint64_t size)
{
    uint64_t made = section->size - start, aligned = align_up(made, COVERAGE_ALIGNMENT);

    return buffer_append_zeros(section, (size_t)((aligned < size ? aligned : size) - made));
}

/* ---- the fields of records ---- */

enum stream {
    STREAM_NAME_REF_CODES = 0,
    STREAM_NAME_REF_OPERANDS = 1,
    STREAM_FUNCTIONS = 2, /* NumCounters and FuncHash, which both follow from the control flow */
    STREAM_COUNTER_POINTERS = 3,
    STREAM_FUNCTION_POINTERS = 4,
    STREAM_VALUES = 5,
    STREAM_VALUE_SITES = 6,
    STREAM_BITMAP_POINTERS = 7,
    STREAM_BITMAP_BYTES = 8,
    STREAM_REST = 9,
    STREAM_COUNT = 10,
};

/* A record has at least 40 bytes, and is stored as at most ten numbers of up to ten bytes each. */
#define STREAMS_PER_BYTE 16

/* Fields other than NameRef, FuncHash and NumCounters. */
enum form {
    FORM_POSITION, /* CounterPtr, BitmapPtr */
    FORM_POINTER,  /* FunctionPointer, Values */
    FORM_NUMBER,   /* `count` of them, one behind the other */
};

struct field {
    enum stream stream;
    enum form form;
    size_t offset;
    unsigned width, count;
    /* For FORM_POSITION: the offset of the field that counts what is there, and the size of each
     * item in bytes. */
    size_t number_offset;
    uint64_t number_unit;
};

#define FIELDS_MAX 6

struct records {
    struct profile_record_layout layout;
    struct field fields[FIELDS_MAX]; /* those with numbers first: positions depend on them */
    size_t field_count;
    bool big_endian;
};

/* Describes the fields of the records; false for an unknown record layout. */
static bool describe_records(struct records *records, const struct transform_context *context)
{
    struct profile_record_layout *layout = &records->layout;
    unsigned pointer_size = context->pointer_size;
    size_t function;

    *records = (struct records){.big_endian = context->big_endian};
    if (!profile_record_layout(context->raw_version, pointer_size, layout))
        return false;
    function = layout->num_counters - 2 * pointer_size;
    const struct field fields[FIELDS_MAX] = {
        {STREAM_VALUE_SITES, FORM_NUMBER, layout->num_value_sites, sizeof(uint16_t),
         (unsigned)layout->value_kinds, 0, 0},
        {STREAM_COUNTER_POINTERS, FORM_POSITION, layout->counter_ptr, pointer_size, 1,
         layout->num_counters, profile_counter_size(context->raw_version)},
        {STREAM_FUNCTION_POINTERS, FORM_POINTER, function, pointer_size, 1, 0, 0},
        {STREAM_VALUES, FORM_POINTER, function + pointer_size, pointer_size, 1, 0, 0},
        {STREAM_BITMAP_BYTES, FORM_NUMBER, layout->num_bitmap_bytes, sizeof(uint32_t), 1, 0, 0},
        {STREAM_BITMAP_POINTERS, FORM_POSITION, layout->bitmap_ptr, pointer_size, 1,
         layout->num_bitmap_bytes, 1},
    };
    memcpy(records->fields, fields, sizeof(fields));
    records->field_count = layout->bitmap_ptr == 0 ? FIELDS_MAX - 2 : FIELDS_MAX;
    return true;
}

/* The number to add to a field for its position in the section: positions that are relative count
 * from their record, at `offset`. */
static uint64_t origin_of(const struct records *records, const struct field *field, uint64_t offset)
{
    return field->form == FORM_POSITION && records->layout.relative ? offset : 0;
}

/* The value that is expected for a pointer after one that was not 0. */
static uint64_t expected_after(const struct records *records, const struct field *field,
                               const uint8_t *record, uint64_t value, uint64_t offset)
{
    uint64_t items = 0;

    if (field->form == FORM_POSITION)
        items = load_u32(record + field->number_offset, records->big_endian) * field->number_unit;
    return value + origin_of(records, field, offset) + items;
}

/* ---- encoding ---- */

static void put_field(const struct records *records, const struct field *field,
                      struct bytes section, uint64_t count, struct buffer *stream)
{
    uint64_t expected = 0, offset = 0;

    for (uint64_t i = 0; i < count; i++, offset += records->layout.record_size) {
        const uint8_t *record = section.data + offset, *at = record + field->offset;

        for (unsigned k = 0; k < field->count; k++, at += field->width) {
            uint64_t value = load_number(at, field->width, records->big_endian), code = value;

            if (value != 0 && field->form != FORM_NUMBER) {
                code = value - (expected - origin_of(records, field, offset));
                code = 1 + zigzag(sign_extend(code, field->width));
                expected = expected_after(records, field, record, value, offset);
            }
            buffer_append_uleb128(stream, code);
        }
    }
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct name_refs name_refs = {.names = context->names};
    struct buffer *stream = streams->stream;
    struct records records;
    uint64_t count;
    size_t size;

    if (!describe_records(&records, context))
        return RESULT_UNFIT;
    size = records.layout.record_size;
    count = section.size / size;
    streams->count = STREAM_COUNT;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *record = section.data + i * size;

        name_refs_put(&name_refs, load_u64(record + NAME_REF_OFFSET, records.big_endian),
                      &stream[STREAM_NAME_REF_CODES], &stream[STREAM_NAME_REF_OPERANDS]);
        buffer_append_uleb128(&stream[STREAM_FUNCTIONS],
                              load_u32(record + records.layout.num_counters, records.big_endian));
        func_hash_put(&stream[STREAM_FUNCTIONS],
                      load_u64(record + FUNC_HASH_OFFSET, records.big_endian));
    }
    for (size_t i = 0; i < records.field_count; i++)
        put_field(&records, &records.fields[i], section, count, &stream[records.fields[i].stream]);
    if (section.size % size != 0)
        buffer_append(&stream[STREAM_REST], section.data + count * size, section.size % size);
    return RESULT_OK;
}

/* ---- decoding ---- */

/* Decodes a field of all records at once: each stream holds one kind of number, in most of them
 * nearly always the same one. */
static bool take_numbers(const struct records *records, const struct field *field, uint8_t *made,
                         uint64_t count, struct cursor cursor)
{
    bool big_endian = records->big_endian;

    for (uint8_t *at = made + field->offset; count != 0;
         count--, at += records->layout.record_size) {
        for (unsigned k = 0; k < field->count; k++)
            store_number(at + k * field->width, cursor_uleb128(&cursor), field->width, big_endian);
    }
    return !cursor.bad;
}

/* The same for a position or pointer. The fields that count the items at a position must already
 * have been decoded. */
static bool take_pointers(const struct records *records, const struct field *field, uint8_t *made,
                          uint64_t count, struct cursor cursor)
{
    unsigned width = field->width;
    uint64_t expected = 0, offset = 0;

    for (uint64_t i = 0; i < count; i++, offset += records->layout.record_size) {
        uint8_t *record = made + offset;
        uint64_t value = cursor_uleb128(&cursor);

        if (value != 0)
            value = unzigzag(value - 1) + expected - origin_of(records, field, offset);
        if (width == 4)
            value = (uint32_t)value;
        store_number(record + field->offset, value, width, records->big_endian);
        if (value != 0)
            expected = expected_after(records, field, record, value, offset);
    }
    return !cursor.bad;
}

static bool take_records(const struct records *records, const struct names *names,
                         const struct cursor cursors[STREAM_COUNT], uint8_t *made, uint64_t count)
{
    struct name_refs name_refs = {.names = names};
    struct cursor codes = cursors[STREAM_NAME_REF_CODES];
    struct cursor operands = cursors[STREAM_NAME_REF_OPERANDS];
    struct cursor functions = cursors[STREAM_FUNCTIONS];
    bool done = true;

    for (uint64_t i = 0; i < count; i++) {
        uint8_t *record = made + i * records->layout.record_size;
        uint64_t reference = name_refs_take(&name_refs, &codes, &operands);
        uint32_t counters = cursor_uleb128_32(&functions);

        store_u64(record + NAME_REF_OFFSET, reference, records->big_endian);
        store_u32(record + records->layout.num_counters, counters, records->big_endian);
        store_u64(record + FUNC_HASH_OFFSET, func_hash_take(&functions), records->big_endian);
    }
    for (size_t i = 0; done && i < records->field_count; i++) {
        const struct field *field = &records->fields[i];

        done = (field->form == FORM_NUMBER ? take_numbers : take_pointers)(
            records, field, made, count, cursors[field->stream]);
    }
    return done && !codes.bad && !functions.bad;
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    const struct buffer *rest = &streams->stream[STREAM_REST];
    struct cursor cursors[STREAM_COUNT];
    struct records records;
    size_t start = section->size;
    uint64_t count;
    uint8_t *made;

    if (!describe_records(&records, context) || streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    for (size_t i = 0; i < STREAM_COUNT; i++)
        cursors[i] = cursor_open(buffer_view(&streams->stream[i]), false, false);
    /* Each record has at least one byte in the first stream. */
    count = size / records.layout.record_size;
    if (count > streams->stream[STREAM_NAME_REF_CODES].size ||
        rest->size != size - count * records.layout.record_size)
        return RESULT_UNFIT;
    if (size == 0)
        return RESULT_OK;
    if (!buffer_append_zeros(section, (size_t)size))
        return RESULT_NO_MEMORY;
    made = section->data + start;
    if (!take_records(&records, context->names, cursors, made, count))
        return RESULT_UNFIT;
    if (rest->size != 0)
        memcpy(made + size - rest->size, rest->data, rest->size);
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
