/*
 * The length of x86-64 instructions (Intel 64 manual, volume 2, chapter 2 and appendix A), and
 * where their operands of four bytes are.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_X86_DECODE_H
#define COVSPLIT_FORMATS_MACHINE_X86_DECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* No instruction has more bytes. */
#define X86_SIZE_MAX 15

struct x86_instruction {
    uint64_t size; /* in bytes */
    /* Offsets in the instruction; 0: it has none. */
    uint64_t displacement; /* of 4 bytes, in a memory operand */
    uint64_t immediate;    /* of 4 or 8 bytes; also the address of an operand without ModRM byte */
    bool is_pc_relative;   /* the displacement counts from the end of the instruction */
    bool is_branch;        /* the immediate does, and tells where a call or jump leads */
};

/* Decodes the instruction at the start of the code. False if there is none that is known. */
bool x86_decode(struct bytes code, struct x86_instruction *instruction);

#endif
