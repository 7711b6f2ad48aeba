/*
 * What the files of machines share: reading instructions, the search from one to the next, and
 * flow_follow, which follows half of an address from the instruction that forms it to those that
 * complete it, through the code of a function: for machines that form addresses in two steps.
 *
 * Compilers share one high half among many low ones, move it to where it costs least, copy it, add
 * an index to it, store it on the stack and load it again. Soon after, the registers that held it
 * hold other things, which would seem to lead to all kinds of places. So every path from there is
 * followed, and the effect of each instruction on registers is tracked.
 *
 * The places that are taken to hold the half may be too many but never too few, within what is
 * followed: branches, both ways; all possible targets of a jump through a register; calls, in the
 * registers that these preserve; and, on machines with has_handlers, also handlers of exceptions
 * (on the other machines handlers would seem to refer to too much). If the half may get further
 * (out of FLOW_RANGE, into another function, into memory other than the stack), the result says so.
 * If following takes too long, the half is taken to form an address that counts.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_FLOW_H
#define COVSPLIT_FORMATS_MACHINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "formats/machine/machine.h"

/* ---- instructions: little-endian ones of 4 bytes, and encodings compared as a whole ---- */

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

/* True if the code has these bytes at *position, which is advanced past them. */
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

/* ---- searching ---- */

/* A search for references in code. */
struct search {
    const struct code *code;
    const struct reference_target *target;
    uint64_t steps_left; /* how many more instructions may be looked at to follow halves */
};

/* The number of steps (instructions looked at) that a search may take: a fixed number at the start,
 * and more for each instruction of the code. Real code needs a small part of them; the limit keeps
 * the time proportional to the size of the code. */
#define FLOW_STEPS_START           (UINT64_C(1) << 22)
#define FLOW_STEPS_PER_INSTRUCTION 64

/* For find_reference: asks at each multiple of `unit`, from *position on, if the instruction that
 * may start there refers to the target. Inline, since most instructions are told by a few bits. */
static inline bool search_each(const struct code *code, const struct reference_target *target,
                               uint64_t unit,
                               bool (*refers)(struct search *search, uint64_t offset),
                               uint64_t *position)
{
    struct search search = {code, target, FLOW_STEPS_START};

    for (uint64_t i = first_instruction(code, *position, unit); i < code->bytes.size; i += unit) {
        search.steps_left += FLOW_STEPS_PER_INSTRUCTION;
        if (refers(&search, i)) {
            *position = i;
            return true;
        }
    }
    return false;
}

/* ---- following half of an address ---- */

/* The distance over which a half is followed in both directions, in bytes; instructions are at
 * multiples of `unit`. */
#define FLOW_RANGE_UNITS 24576
#define FLOW_RANGE(unit) ((uint64_t)FLOW_RANGE_UNITS * (unit))

/* The effect of an instruction, as far as it matters here. Registers are numbered from 1 to 31, and
 * 0 stands for none; masks have bit N for register N. */
struct flow_instruction {
    unsigned size; /* in bytes; 0: there is no instruction */

    uint32_t overwritten; /* registers that surely hold another value behind it */
    uint32_t passed_from; /* registers that are copied, or added to an index */
    unsigned passed_to;

    unsigned base; /* a register that `low` is added to */
    uint64_t low;

    /* Registers that are stored on the stack or loaded from it; the second one 8 bytes further
     * on. */
    unsigned stored[2];
    unsigned loaded[2];
    uint64_t slot;         /* where on the stack, of the first one */
    bool may_be_elsewhere; /* the base register may also point to other memory */
    uint32_t escapes;      /* registers that are stored to other memory */

    bool calls;         /* overwrites what calls may change; may lead to handlers */
    bool branches;      /* it may go to `to`, an offset in the code */
    bool goes_anywhere; /* it may go to a place that no instruction tells */
    bool is_end;        /* control never goes on to the next instruction */
    uint64_t to;
};

/* The half of an address: in a register behind the instruction at `offset` in the code. */
struct flow_half {
    struct search *search;
    uint64_t offset;
    unsigned number;
    uint64_t high;
};

struct flow {
    unsigned unit; /* in bytes; instructions start at multiples of it */
    /* Decodes the instruction at an offset in the code into *instruction, which the caller has
     * zeroed. */
    void (*decode)(const struct code *code, uint64_t offset, struct flow_instruction *instruction);
    /* True if the instruction at an offset, if its base register holds the half, forms an address
     * that counts. NULL: if the sum does. */
    bool (*refers)(const struct flow_half *half, uint64_t offset,
                   const struct flow_instruction *instruction);
    /* A branch takes effect behind the instruction after it. */
    bool has_delay_slots;
    uint32_t changed_by_calls; /* a mask of registers */
    /* Calls may lead to exception handlers behind them, which see the registers that calls
     * preserve. */
    bool has_handlers;
    /* A register that is overwritten on one path to a place is not used there for the value that it
     * has on another path. This keeps the targets of jumps through registers apart. */
    bool uses_one_value;
    /* True if a function seems to start at an offset: jumps through registers, and handlers, only
     * lead to places before the next such offset. */
    bool (*is_function)(const struct code *code, uint64_t offset);
};

/* The end of following a half: any combination of these. */
enum flow_end {
    FLOW_COUNTS = 1, /* it forms an address that counts, or this is not known */
    FLOW_FOUND = 2,  /* it forms some address */
    FLOW_LEFT = 4,   /* it goes to a place where it is not followed */
};

unsigned flow_follow(const struct flow *flow, const struct flow_half *half);

/* ---- the length of x86-64 instructions, and their operands of four bytes (x86_decode.c) ---- */

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
