/*
 * Layouts that are told once for both directions: a coder either appends what it is given to a
 * buffer, or it ignores that and gives back what it reads. So a function that goes through the
 * fields of a structure serves to write it and to read it.
 *
 * Reading, it goes bad like the cursor that it has; writing, it fails like the buffer.
 */
#ifndef COVSPLIT_COMMON_BASE_CODER_H
#define COVSPLIT_COMMON_BASE_CODER_H

#include "common/base/bytes.h"
#include "common/base/cursor.h"

struct coder {
    struct buffer *to; /* NULL: it reads */
    struct cursor from;
};

/* A number as unsigned LEB128. */
static inline uint64_t code_uleb128(struct coder *coder, uint64_t number)
{
    if (coder->to == NULL)
        return cursor_uleb128(&coder->from);
    buffer_append_uleb128(coder->to, number);
    return number;
}

/* Bytes as they are; unchanged if they are not there. */
static inline void code_bytes(struct coder *coder, void *bytes, size_t size)
{
    struct bytes taken;

    if (coder->to != NULL) {
        buffer_append(coder->to, bytes, size);
        return;
    }
    taken = cursor_bytes(&coder->from, size);
    if (taken.size != 0)
        memcpy(bytes, taken.data, size);
}

#endif
