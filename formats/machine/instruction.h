/*
 * What machines' decoders share: instructions of 4 bytes, little-endian, and encodings that are
 * known as a whole.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H
#define COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "formats/machine/machine.h"

/* False where the code ends before it does. */
static inline bool instruction_at(struct bytes code, uint64_t offset, uint32_t *instruction)
{
    struct bytes part;

    if (!bytes_slice(code, offset, sizeof(*instruction), &part))
        return false;
    *instruction = load_u32(part.data, false);
    return true;
}

/* Where the first instruction at or behind a position is: they are aligned in memory. */
static inline uint64_t first_instruction(const struct code *code, uint64_t position, uint64_t unit)
{
    return align_up(code->address + position, unit) - code->address;
}

/* A number of so many bits (at most 63; none are set above) as a signed one. */
static inline uint64_t signed_field(uint64_t value, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);

    return (value ^ sign) - sign;
}

/* The bytes of an instruction, or of several. */
struct encoding {
    const char *bytes;
    size_t size;
};

/* Whether the code has them at a position; *position is then behind them. */
static inline bool take_encoding(struct bytes code, const struct encoding *encoding,
                                 uint64_t *position)
{
    struct bytes part;

    if (!bytes_slice(code, *position, encoding->size, &part) ||
        memcmp(part.data, encoding->bytes, encoding->size) != 0)
        return false;
    *position += encoding->size;
    return true;
}

#endif
