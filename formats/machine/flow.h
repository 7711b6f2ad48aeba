/*
 * Following half of an address from the instruction that makes it to those that complete it,
 * through the code of a function: for machines that make addresses in two steps.
 *
 * Compilers share one high half among many low ones, move it to where it costs least, copy it, add
 * an index to it, store it on the stack and load it again. And the registers that it was in hold
 * other things soon after, which would seem to lead to all kinds of places. So all ways that lead
 * on from there are gone, and what each instruction does to registers is looked at.
 *
 * Where the half is taken to be may be too much, never too little, as far as a half is followed:
 * through branches, both ways; to all that a jump to what a register holds may lead to; and over
 * calls in registers that these keep, on machines with has_handlers also to handlers of exceptions
 * (on the others these seem to refer to too much). Where it may get further
 * (out of FLOW_RANGE, into another function, into memory that is not the stack), the answer says
 * so; and where following takes too long, it is that the address counts.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_FLOW_H
#define COVSPLIT_FORMATS_MACHINE_FLOW_H

#include "formats/machine/machine.h"

/* How far a half is followed in both directions, with instructions at multiples of `unit`. */
#define FLOW_RANGE_UNITS 24576
#define FLOW_RANGE(unit) ((uint64_t)FLOW_RANGE_UNITS * (unit))

/* What an instruction does, as far as that matters here. Registers are numbered from 1 to 31; a bit
 * each in masks; 0 is none. */
struct flow_instruction {
    unsigned size; /* in bytes; 0: there is none */

    uint32_t overwritten; /* what surely holds something else behind it */
    uint32_t passed_from; /* a copy, or a sum with an index */
    unsigned passed_to;

    unsigned base; /* a register that `low` is added to */
    uint64_t low;

    /* Registers that go to the stack, or come from there: the second one 8 bytes further. */
    unsigned stored[2];
    unsigned loaded[2];
    uint64_t slot;         /* where on the stack */
    bool may_be_elsewhere; /* it is by a register that leads to the stack, or to something else */
    uint32_t escapes;      /* registers that go to other memory */

    bool calls;         /* what calls may change is overwritten; the others may get to handlers */
    bool branches;      /* it may go to `to`, an offset in the code */
    bool goes_anywhere; /* or to what no instruction tells */
    bool is_end;        /* nothing goes on behind it */
    uint64_t to;
};

/* The half that is in a register behind the instruction at an offset in the code. */
struct flow_half {
    const struct code *code;
    const struct reference_target *target;
    uint64_t offset;
    unsigned number;
    uint64_t high;
    uint64_t *steps_left; /* instructions that may be looked at */
};

struct flow {
    unsigned unit; /* instructions start at multiples of it */
    /* Decodes the instruction at an offset in the code, into one that is all zero. */
    void (*decode)(const struct code *code, uint64_t offset, struct flow_instruction *instruction);
    /* Whether an instruction at an offset, with a base that holds the half, makes an address that
     * counts. */
    bool (*refers)(const struct flow_half *half, uint64_t offset,
                   const struct flow_instruction *instruction);
    /* A branch takes effect behind the instruction that follows it. */
    bool has_delay_slots;
    uint32_t changed_by_calls; /* registers */
    /* Calls may lead to handlers of exceptions behind them, with the registers that calls keep. */
    bool has_handlers;
    /* A register that is overwritten on one way to a place is not used there for what it holds on
     * another: that keeps jumps to anywhere apart. */
    bool uses_one_value;
    /* Whether a function is seen to start at an offset: jumps to anywhere, and to handlers, lead to
     * what is in front of that. */
    bool (*is_function)(const struct code *code, uint64_t offset);
};

/* What becomes of a half: any of these. */
enum flow_end {
    FLOW_COUNTS = 1, /* an address that counts is made of it, or that cannot be told */
    FLOW_FOUND = 2,  /* some address is made of it */
    FLOW_LEFT = 4,   /* it gets where it is not followed */
};

unsigned flow_follow(const struct flow *flow, const struct flow_half *half);

/* For each instruction of code that is searched, and for the start, so many steps are given: real
 * code takes a small part of them, and following cannot take long out of proportion to the code. */
#define FLOW_STEPS_START           (UINT64_C(1) << 22)
#define FLOW_STEPS_PER_INSTRUCTION 64

#endif
