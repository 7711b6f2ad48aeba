/*
 * FuncHash and NumCounters: see function_hashes.h.
 */
#include "common/codec/function_hashes.h"

#include "common/base/numbers.h"

enum function_code {
    CODE_ONCE = 0,
    CODE_NEW = 1,
    CODE_KNOWN = 2,
    CODE_TWO_BYTES = 202,
    CODE_NUMBER = 255,
};

#define ONE_BYTE_COUNT  (CODE_TWO_BYTES - CODE_KNOWN)
#define TWO_BYTES_COUNT ((CODE_NUMBER - CODE_TWO_BYTES) * 256)

#define DIGIT_BITS      6
#define DIGITS_MAX      10
#define DIGIT_NONE      (1 << DIGIT_BITS)

/* ---- writing ---- */

/* A pair of FuncHash and NumCounters. */
struct kind {
    struct function_hash function;
    uint32_t records; /* how many records have it */
};

void function_writer_free(struct function_writer *writer)
{
    intern_table_free(&writer->hashes);
    intern_table_free(&writer->pairs);
    buffer_free(&writer->kinds);
    buffer_free(&writer->records);
}

bool function_writer_add(struct function_writer *writer, struct function_hash function)
{
    struct kind kind = {.function = function};
    uint64_t known = writer->pairs.count, number;
    uint32_t stored;

    /* There are fewer than 2^32 hashes, so the key below is unique for each pair. */
    if (!intern_table_add(&writer->hashes, function.hash, &number) ||
        !intern_table_add(&writer->pairs, number << 32 | function.counters, &number) ||
        (number == known && !buffer_append(&writer->kinds, &kind, sizeof(kind))))
        return false;
    ((struct kind *)(void *)writer->kinds.data)[number].records++;
    stored = (uint32_t)number;
    return buffer_append(&writer->records, &stored, sizeof(stored));
}

static bool put_byte(struct buffer *stream, uint64_t value)
{
    uint8_t byte = (uint8_t)value;

    return buffer_append(stream, &byte, 1);
}

static bool put_known(struct buffer *stream, uint64_t number)
{
    if (number < ONE_BYTE_COUNT)
        return put_byte(stream, CODE_KNOWN + number);
    number -= ONE_BYTE_COUNT;
    if (number < TWO_BYTES_COUNT)
        return put_byte(stream, CODE_TWO_BYTES + number / 256) && put_byte(stream, number % 256);
    return put_byte(stream, CODE_NUMBER) && buffer_append_uleb128(stream, number - TWO_BYTES_COUNT);
}

/* Splits the hash into digits (statements), followed by a 0. Returns how many bytes that is, or 0
 * if the hash does not consist of digits. */
static size_t digits_of(uint64_t hash, uint8_t digits[DIGITS_MAX + 1])
{
    size_t count = 0, size;

    while (count < DIGITS_MAX && hash >> DIGIT_BITS * count != 0)
        count++;
    if (hash >> DIGIT_BITS * count != 0)
        return 0;
    size = count + 1;
    digits[count] = 0;
    while (count != 0) {
        digits[--count] = (uint8_t)(hash % DIGIT_NONE);
        if (digits[count] == 0)
            return 0;
        hash >>= DIGIT_BITS;
    }
    return size;
}

static bool put_new(struct buffer *streams, const struct function_hash *function)
{
    uint8_t digits[DIGITS_MAX + 1], bytes[8];
    size_t size = digits_of(function->hash, digits);

    if (size != 0)
        return buffer_append(&streams[FUNCTION_DIGITS], digits, size) &&
               buffer_append_uleb128(&streams[FUNCTION_COUNTERS], function->counters);
    store_u64(bytes, function->hash, false);
    return put_byte(&streams[FUNCTION_DIGITS], DIGIT_NONE) &&
           buffer_append(&streams[FUNCTION_HASHES], bytes, sizeof(bytes)) &&
           buffer_append_uleb128(&streams[FUNCTION_COUNTERS_OF_HASHES], function->counters);
}

bool function_writer_finish(const struct function_writer *writer, struct buffer *streams)
{
    const struct kind *kinds = (const struct kind *)(const void *)writer->kinds.data;
    const uint32_t *records = (const uint32_t *)(const void *)writer->records.data;
    struct buffer known = {0}; /* of each pair: its number among the known ones, uint32_t */
    struct buffer *codes = &streams[FUNCTION_CODES];
    uint32_t seen = 0, seen_often = 0;
    bool done = buffer_reserve(&known, writer->pairs.count * sizeof(uint32_t));

    for (size_t i = 0; done && i < writer->records.size / sizeof(*records); i++) {
        uint32_t *number = (uint32_t *)(void *)known.data + records[i];

        if (records[i] != seen) {
            done = put_known(codes, *number);
            continue;
        }
        /* Pairs are numbered in the order of their first occurrence, so this one is new. */
        *number = seen_often;
        seen++;
        if (kinds[records[i]].records > 1)
            seen_often++;
        done = put_byte(codes, kinds[records[i]].records > 1 ? CODE_NEW : CODE_ONCE) &&
               put_new(streams, &kinds[records[i]].function);
    }
    buffer_free(&known);
    return done;
}

/* ---- reading ---- */

static bool take_new(struct bytes *streams, struct function_hash *function)
{
    struct bytes *counters = &streams[FUNCTION_COUNTERS];
    const uint8_t *digit = take_bytes(&streams[FUNCTION_DIGITS], 1), *bytes;
    uint64_t number;

    function->hash = 0;
    if (digit != NULL && *digit == DIGIT_NONE) {
        bytes = take_bytes(&streams[FUNCTION_HASHES], 8);
        if (bytes == NULL)
            return false;
        function->hash = load_u64(bytes, false);
        counters = &streams[FUNCTION_COUNTERS_OF_HASHES];
    } else {
        for (unsigned i = 0; digit != NULL && *digit != 0; i++) {
            if (i == DIGITS_MAX || *digit >= DIGIT_NONE)
                return false;
            function->hash = function->hash << DIGIT_BITS | *digit;
            digit = take_bytes(&streams[FUNCTION_DIGITS], 1);
        }
    }
    if (digit == NULL || !take_number(counters, &number) || number > UINT32_MAX)
        return false;
    function->counters = (uint32_t)number;
    return true;
}

/* Reads the number of a known pair. */
static bool take_known(struct bytes *codes, unsigned code, uint64_t *number)
{
    const uint8_t *low;

    if (code < CODE_TWO_BYTES) {
        *number = code - CODE_KNOWN;
        return true;
    }
    if (code == CODE_NUMBER)
        return take_number(codes, number) &&
               add_fits(*number, ONE_BYTE_COUNT + TWO_BYTES_COUNT, number);
    low = take_bytes(codes, 1);
    if (low != NULL)
        *number = (code - CODE_TWO_BYTES) * 256 + *low + ONE_BYTE_COUNT;
    return low != NULL;
}

enum result function_reader_take(struct function_reader *reader, struct function_hash *function)
{
    struct bytes *codes = &reader->streams[FUNCTION_CODES];
    const struct function_hash *known;
    const uint8_t *code = take_bytes(codes, 1);
    uint64_t number;

    if (code == NULL)
        return RESULT_UNFIT;
    if (*code < CODE_KNOWN) {
        if (!take_new(reader->streams, function))
            return RESULT_UNFIT;
        return *code == CODE_ONCE || buffer_append(&reader->known, function, sizeof(*function))
                   ? RESULT_OK
                   : RESULT_NO_MEMORY;
    }
    known = (const struct function_hash *)(const void *)reader->known.data;
    if (!take_known(codes, *code, &number) || number >= reader->known.size / sizeof(*known))
        return RESULT_UNFIT;
    *function = known[number];
    return RESULT_OK;
}
