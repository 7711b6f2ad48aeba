/*
 * FuncHash and NumCounters of the profile data records, as streams: "FuncHashes and NumCounters" in
 * docs/format.md.
 *
 * Both follow from a function's control flow, so each pair of them is stored once, however many
 * functions have it. If a function has at most ten statements that matter, Clang's hash consists of
 * these statements, six bits each; otherwise it is an MD5. The former is stored as one byte for
 * each statement, so that zstd can find patterns.
 */
#ifndef COVSPLIT_COMMON_CODEC_FUNCTION_HASHES_H
#define COVSPLIT_COMMON_CODEC_FUNCTION_HASHES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"

enum function_stream {
    FUNCTION_CODES = 0,
    FUNCTION_DIGITS = 1,
    FUNCTION_HASHES = 2,
    FUNCTION_COUNTERS = 3,
    FUNCTION_COUNTERS_OF_HASHES = 4,
    FUNCTION_STREAMS = 5,
};

struct function_hash {
    uint64_t hash;
    uint32_t counters;
};

/* Initialize to {0}; free with function_writer_free. Takes at most UINT32_MAX records. */
struct function_writer {
    struct intern_table hashes;
    struct intern_table pairs;
    struct buffer kinds;   /* of each pair: struct kind */
    struct buffer records; /* of each record: the number of its pair, uint32_t */
};

void function_writer_free(struct function_writer *writer);

/* Adds the next record. False if out of memory. */
bool function_writer_add(struct function_writer *writer, struct function_hash function);

/* Appends all records to the FUNCTION_STREAMS streams. False if out of memory. */
bool function_writer_finish(const struct function_writer *writer, struct buffer *streams);

struct function_reader {
    struct bytes streams[FUNCTION_STREAMS]; /* their unread rests */
    struct buffer known;                    /* struct function_hash; freed by the caller */
};

/* Reads the next record. Unfit if the streams are damaged. */
enum result function_reader_take(struct function_reader *reader, struct function_hash *function);

#endif
