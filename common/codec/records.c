/*
 * Parts of the forms of records: see records.h.
 */
#include "common/codec/records.h"

#include "common/base/cursor.h"
#include "common/codec/transform.h"
#include "common/llvm/profile.h"

/* ---- NameRefs ---- */

/* Stored in sidecars. */
enum name_ref_code {
    CODE_NEXT = 0,
    CODE_RUN = 1, /* the first of NAME_REF_RUNS codes */
    CODE_NO_NAME = 5,
    CODE_FAR = 6,
    CODE_NEAR = 7,
};

/* The number of differences that have a code of their own. Larger ones are too rare for that. */
#define NEAR_COUNT 80

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
    return *difference < NEAR_COUNT ? CODE_NEAR + (unsigned)*difference : CODE_FAR;
}

void name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands)
{
    uint64_t number, difference = 0;
    unsigned code = CODE_NO_NAME;
    uint8_t byte, bytes[8];

    if (refs->names != NULL && intern_table_find(&refs->names->by_reference, reference, &number)) {
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
    else if (code >= CODE_NEAR)
        number += unzigzag(code - CODE_NEAR);
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

#define FUNC_HASH_OFFSET 8

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

/* The end of the padding that starts at `offset`, in a section of `size` bytes. */
static uint64_t padding_end(uint64_t offset, uint64_t size)
{
    uint64_t aligned = align_up(offset, COVERAGE_ALIGNMENT);

    return aligned < size ? aligned : size;
}

bool record_padding_take(struct bytes section, uint64_t *offset)
{
    uint64_t end = padding_end(*offset, section.size);
    struct bytes padding;

    if (!bytes_slice(section, *offset, end - *offset, &padding) || !bytes_all_zero(padding))
        return false;
    *offset = end;
    return true;
}

bool record_padding_append(struct buffer *section, size_t start, uint64_t size)
{
    uint64_t made = section->size - start;

    return buffer_append_zeros(section, (size_t)(padding_end(made, size) - made));
}
