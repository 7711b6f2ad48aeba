/*
 * The AArch64 half of accessor.h, for accessor.c alone: the functions are those of the same names
 * there.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_AARCH64_H
#define COVSPLIT_FORMATS_MACHINE_AARCH64_H

#include "formats/machine/accessor.h"

/* How many instructions a search looks ahead for the second half of an address. */
#define AARCH64_LOOK_AHEAD 512

bool aarch64_decode(struct bytes code, uint64_t address, struct accessor *accessor);
/* `address` is the instruction's. */
bool aarch64_encode(uint64_t address, uint64_t value,
                    uint8_t instruction[ACCESSOR_INSTRUCTION_MAX]);
bool aarch64_find_reference(struct bytes code, uint64_t address,
                            const struct reference_target *target, uint64_t *position);
bool aarch64_find_load(struct bytes code, uint64_t address, uint64_t *position, uint64_t *target);
bool aarch64_follow_jump(struct bytes code, uint64_t address, uint64_t *target);

#endif
