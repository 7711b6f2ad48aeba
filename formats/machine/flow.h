/*
 * Following the high half of an address from the instruction that makes it to those that bring a
 * low half, through the code of a function. For machines whose instructions are 4 bytes.
 *
 * Compilers share one high half among many low ones, move it to where it costs least, copy it,
 * store it on the stack and load it again. And the registers that it was in hold other things soon
 * after, which would seem to lead to all kinds of places. So all ways that lead on from there are
 * gone, and what each instruction does to registers is looked at.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_FLOW_H
#define COVSPLIT_FORMATS_MACHINE_FLOW_H

#include "formats/machine/machine.h"

#define FLOW_INSTRUCTION_SIZE 4
/* How far a high half is followed, both ways. */
#define FLOW_RANGE (UINT64_C(24576) * FLOW_INSTRUCTION_SIZE)

/* What an instruction does, as far as that matters here. Registers are numbered from 1 to 31; a bit
 * each in masks; 0 is none. */
struct flow_instruction {
    uint32_t overwritten; /* what surely holds something else behind it */
    unsigned copied_from;
    unsigned copied_to;

    unsigned base; /* a register that `low` is added to */
    uint64_t low;
    bool is_low_or; /* it is no sum: bits are set */

    unsigned stored; /* a register that goes to the stack, or comes from there */
    unsigned loaded;
    uint64_t slot;         /* where on the stack */
    bool may_be_elsewhere; /* it is by a register that leads to the stack, or to something else */

    bool branches;      /* it may go to `to`, an offset in the code */
    bool goes_anywhere; /* or to what no instruction tells */
    bool is_end;        /* nothing goes on behind it */
    uint64_t to;
};

struct flow {
    /* Decodes the instruction at an offset in the code. */
    void (*decode)(const struct code *code, uint64_t offset, struct flow_instruction *instruction);
    /* A branch takes effect behind the instruction that follows it. */
    bool has_delay_slots;
    uint32_t changed_by_calls; /* registers */
    /* Whether a function is seen to start at an offset. */
    bool (*is_function)(const struct code *code, uint64_t offset);
};

/* What becomes of a high half. */
enum flow_end {
    FLOW_ELSEWHERE, /* addresses are made of it, of which none counts */
    FLOW_COUNTS,    /* one does, or that cannot be told */
    FLOW_UNUSED,    /* no address is made of it */
    FLOW_LEFT,      /* none that counts is seen to be, but it leaves the range */
};

/* Follows the high half that is in the register behind the instruction at `offset`. */
enum flow_end flow_follow(const struct flow *flow, const struct code *code, uint64_t offset,
                          unsigned number, uint64_t high, const struct reference_target *target);

#endif
