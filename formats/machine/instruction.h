/*
 * What the decoders of several machines share: little-endian instructions of 4 bytes, and encodings
 * that are compared as a whole.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H
#define COVSPLIT_FORMATS_MACHINE_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "formats/machine/machine.h"

/* Reads the instruction at an offset; false if the code ends before its end. */
static inline bool instruction_at(struct bytes code, uint64_t offset, uint32_t *instruction)
{
    struct bytes part;

    if (!bytes_slice(code, offset, sizeof(*instruction), &part))
        return false;
    *instruction = load_u32(part.data, false);
    return true;
}

/* The position of the first instruction at or behind a position: instructions are aligned in
 * memory. */
static inline uint64_t first_instruction(const struct code *code, uint64_t position, uint64_t unit)
{
    return align_up(code->address + position, unit) - code->address;
}

/* Sign-extends a number of `bits` bits (at most 63); its higher bits must be 0. */
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

/* Whether the code has these bytes at *position; advances *position past them if so. */
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
