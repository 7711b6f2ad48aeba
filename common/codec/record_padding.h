/*
 * The padding between the records of coverage sections.
 *
 * Each record starts at a multiple of 8 bytes and is preceded by zeros as needed. The last one is
 * followed by zeros up to the next multiple of 8 or the end of the section.
 */
#ifndef COVSPLIT_COMMON_CODEC_RECORD_PADDING_H
#define COVSPLIT_COMMON_CODEC_RECORD_PADDING_H

#include "common/base/bytes.h"
#include "common/llvm/coverage.h"

/* The end of the padding that starts at `offset`, in a section of `size` bytes. */
static inline uint64_t record_padding_end(uint64_t offset, uint64_t size)
{
    uint64_t aligned = align_up(offset, COVERAGE_ALIGNMENT);

    return aligned < size ? aligned : size;
}

/* Moves *offset over the padding there. False if the padding is not all zeros. */
static inline bool record_padding_take(struct bytes section, uint64_t *offset)
{
    uint64_t end = record_padding_end(*offset, section.size);
    struct bytes padding;

    if (!bytes_slice(section, *offset, end - *offset, &padding) || !bytes_all_zero(padding))
        return false;
    *offset = end;
    return true;
}

/* Appends the padding after a record. The section starts at `start` in the buffer, and must not yet
 * have more than the `size` bytes that it is to have. False if out of memory. */
static inline bool record_padding_append(struct buffer *section, size_t start, uint64_t size)
{
    uint64_t made = section->size - start;

    return buffer_append_zeros(section, (size_t)(record_padding_end(made, size) - made));
}

#endif
