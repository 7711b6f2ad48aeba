/*
 * Stored bytes, as whoever decodes them is given them.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_H
#define COVSPLIT_COMMON_CODEC_PACKED_H

#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* All is viewed. */
struct packed {
    struct bytes bytes;
    uint64_t size; /* of what must come out of them; a claim */
    /* For messages: "`name`: `what` is damaged (how); get an intact copy". */
    const char *name;
    const char *what;
};

/* Says that they are damaged. Returns false. */
static inline bool packed_damaged(const struct packed *packed, const char *how, struct error *error)
{
    return error_set(error, "%s: %s is damaged (%s); get an intact copy", packed->name,
                     packed->what, how);
}

#endif
