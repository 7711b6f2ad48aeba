/*
 * What lies between the records of coverage sections.
 *
 * Each record starts at a multiple of 8 bytes, with zeros in front of it; the last one has as many
 * behind it as the section has room for.
 */
#ifndef COVSPLIT_COMMON_CODEC_RECORD_PADDING_H
#define COVSPLIT_COMMON_CODEC_RECORD_PADDING_H

#include "common/base/bytes.h"

#define RECORD_ALIGNMENT 8

/* Where the padding ends which starts at `offset`, in a section of `size` bytes. */
static inline uint64_t record_padding_end(uint64_t offset, uint64_t size)
{
    uint64_t aligned = align_up(offset, RECORD_ALIGNMENT);

    return aligned < size ? aligned : size;
}

/* Passes over the padding at *offset, which is in the section. False if it is not of zeros. */
static inline bool record_padding_take(struct bytes section, uint64_t *offset)
{
    uint64_t end = record_padding_end(*offset, section.size);
    struct bytes padding;

    if (!bytes_slice(section, *offset, end - *offset, &padding) || !bytes_all_zero(padding))
        return false;
    *offset = end;
    return true;
}

/* Appends it behind a record of a section which starts at `start` and is to have `size` bytes, of
 * which it has no more yet. False if out of memory. */
static inline bool record_padding_append(struct buffer *section, size_t start, uint64_t size)
{
    uint64_t made = section->size - start;

    return buffer_append_zeros(section, (size_t)(record_padding_end(made, size) - made));
}

#endif
