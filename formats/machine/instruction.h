/*
 * What machines with instructions of 4 bytes share.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H
#define COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* False where the code ends before it does. */
static inline bool instruction_at(struct bytes code, uint64_t offset, uint32_t *instruction)
{
    struct bytes part;

    if (!bytes_slice(code, offset, sizeof(*instruction), &part))
        return false;
    *instruction = load_u32(part.data, false);
    return true;
}

/* A number of so many bits (at most 63; none are set above) as a signed one. */
static inline uint64_t signed_field(uint64_t value, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);

    return (value ^ sign) - sign;
}

#endif
