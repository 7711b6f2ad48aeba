/*
 * Stored bytes that are to be decoded, with what error messages say about them.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_H
#define COVSPLIT_COMMON_CODEC_PACKED_H

#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Owns none of what it points to. */
struct packed {
    struct bytes bytes;
    uint64_t size; /* the declared decoded size, in bytes; not to be trusted */
    /* For messages: "`name`: `what` is damaged (how); get an intact copy". */
    const char *name;
    const char *what;
};

/* Reports that the bytes are damaged. Returns false. */
static inline bool packed_damaged(const struct packed *packed, const char *how, struct error *error)
{
    return error_set(error, "%s: %s is damaged (%s); get an intact copy", packed->name,
                     packed->what, how);
}

#endif
