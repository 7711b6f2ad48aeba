/*
 * mips64el (MIPS64 up to release 5, volume II; the 64-bit ABI, n64, of the SVR4 ABI's supplement).
 *
 * Instructions are 4 bytes at multiples of 4; the one behind a branch is executed before the branch
 * is taken. All code is position-independent: a function is called with its address in $25, and
 * adds to it the distance to _gp, which is about 32 KiB into the GOT. From the GOT it loads every
 * address: that of an object, or that of a page (a multiple of 64 KiB), to which it then adds a low
 * half of 16 bits. The slots of the GOT have no relocations: the loader adjusts the GOT as a whole.
 * So a search must know what they hold (code->got_bytes): a load from a slot that holds an address
 * is a reference to that address, and a load of a page is followed to its low halves (flow.h). If
 * the GOT is small enough to be the only one, _gp is the same everywhere. Code without abicalls
 * forms addresses of 32 bits from a high half (lui) and a low one, and shifts in two more for 64
 * bits: here only the low 32 bits are compared.
 *
 * An accessor, too, adds a constant to $25: another constant gives any address, and the load
 * becomes an addition.
 *
 * Bodies seen in real images (clang 14 to 22, gcc 12; GNU ld and lld); LLVM 19's runtime has the
 * instructions in brackets (-mxgot):
 *     lui $1,H; daddu $1,$1,$25; daddiu $1,$1,L [lui $2,h; daddu $1,$2,$1] ld $2,l($1) jr $ra; nop
 * GNU ld turns the load of an absent section's bound into addiu $2,$zero,0. If there is a frame, it
 * is set up and left in between; gcc puts the load behind the jr.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>

#define INSTRUCTION_SIZE 4

/* More instructions than any body with a frame has. */
#define BODY_INSTRUCTIONS 20

/* Registers. */
#define RESULT         2
#define OWN            25 /* holds a function's address when it is called */
#define GP             28
#define SP             29
#define FP             30
#define RA             31

#define OPCODE_JAL     3
#define OPCODE_LUI     15
#define OPCODE_LD      55
#define OPCODE_SD      63
#define OPCODE_DADDIU  25
#define OPCODE_ADDIU   9

#define FUNCTION_JR    8
#define FUNCTION_JALR  9
#define FUNCTION_OR    0x25
#define FUNCTION_ADDU  0x21
#define FUNCTION_DADDU 0x2d

#define NOP            0u
#define JR_RA          0x03e00008u

/* $1 to $15, $24 and $25: a bit each. */
#define CHANGED_BY_CALLS UINT32_C(0x0300fffe)

#define PAGE_UNIT        UINT64_C(0x10000)

/* The size in bytes of the GOT up to _gp + 32 KiB: within it, the high halves of -mxgot are 0. */
#define GOT_SIZE_MAX 0xfff0

/* Compilers keep _gp in at most this many places of a function's stack, and compute it within this
 * many instructions from its start. */
#define SLOTS_MAX  8
#define MAKING_MAX 8

static unsigned opcode_of(uint32_t bits)
{
    return bits >> 26;
}

static unsigned rs_of(uint32_t bits)
{
    return bits >> 21 & 31;
}

static unsigned rt_of(uint32_t bits)
{
    return bits >> 16 & 31;
}

static unsigned rd_of(uint32_t bits)
{
    return bits >> 11 & 31;
}

static uint64_t low_16(uint32_t bits)
{
    return (uint64_t)(int64_t)(int16_t)bits;
}

/* The value that lui sets: sign-extended. */
static uint64_t high_16(uint32_t bits)
{
    return (uint64_t)(int64_t)(int32_t)(bits << 16);
}

/* An instruction on three registers. */
static bool is_register(uint32_t bits, unsigned function)
{
    return opcode_of(bits) == 0 && (bits & 0x7ff) == function;
}

static bool is_daddu(uint32_t bits, unsigned to, unsigned one, unsigned other)
{
    return is_register(bits, FUNCTION_DADDU) && rd_of(bits) == to &&
           ((rs_of(bits) == one && rt_of(bits) == other) ||
            (rs_of(bits) == other && rt_of(bits) == one));
}

static bool is_lui(uint32_t bits)
{
    return opcode_of(bits) == OPCODE_LUI && rs_of(bits) == 0;
}

/* ---- accessors ---- */

/* The instructions of a body that form the address (their indices), and the address. */
struct body {
    size_t high, low;   /* the distance from $25 */
    size_t second_high; /* 0: none */
    size_t last;
    unsigned sum; /* the register to which the last of these adds */
    size_t size;
    uint64_t value;
    enum accessor_form form;
};

/* Instructions that set up and leave a frame, and nops. */
static bool is_of_frame(uint32_t bits)
{
    unsigned saved = rt_of(bits);

    if (bits == NOP)
        return true;
    if (is_register(bits, FUNCTION_OR) && rt_of(bits) == 0) /* move */
        return (rd_of(bits) == FP && rs_of(bits) == SP) || (rd_of(bits) == SP && rs_of(bits) == FP);
    if (rs_of(bits) != SP)
        return false;
    return (opcode_of(bits) == OPCODE_DADDIU && saved == SP) ||
           ((opcode_of(bits) == OPCODE_SD || opcode_of(bits) == OPCODE_LD) &&
            (saved == FP || saved == RA || saved == GP));
}

/* The part of the address that has been formed so far. */
enum progress { STARTED, HIGH, SUMMED, BASED, SECOND_HIGH, MADE };

/* Takes the next of the instructions that form the address; false if this is not one of them. */
static bool take(struct body *body, enum progress *progress, uint32_t bits, size_t index)
{
    unsigned opcode = opcode_of(bits);

    if (*progress == STARTED && is_lui(bits)) {
        body->high = index;
        body->sum = rt_of(bits);
        body->value += high_16(bits);
        *progress = HIGH;
    } else if (*progress == HIGH && is_daddu(bits, body->sum, body->sum, OWN)) {
        *progress = SUMMED;
    } else if (*progress == SUMMED && opcode == OPCODE_DADDIU && rs_of(bits) == body->sum &&
               rt_of(bits) == body->sum) {
        body->low = index;
        body->value += low_16(bits);
        *progress = BASED;
    } else if (*progress == BASED && is_lui(bits) && rt_of(bits) == RESULT && body->sum != RESULT) {
        body->second_high = index;
        body->value += high_16(bits);
        *progress = SECOND_HIGH;
    } else if (*progress == SECOND_HIGH && (is_daddu(bits, body->sum, RESULT, body->sum) ||
                                            is_daddu(bits, RESULT, RESULT, body->sum))) {
        body->sum = rd_of(bits);
        *progress = BASED;
    } else if (*progress == BASED && rt_of(bits) == RESULT && rs_of(bits) == body->sum &&
               (opcode == OPCODE_LD || opcode == OPCODE_DADDIU)) {
        body->last = index;
        body->value += low_16(bits);
        body->form = opcode == OPCODE_LD ? ACCESSOR_LOAD : ACCESSOR_PC_RELATIVE;
        *progress = MADE;
    } else if (*progress == BASED && rt_of(bits) == RESULT && rs_of(bits) == 0 &&
               (opcode == OPCODE_ADDIU || opcode == OPCODE_DADDIU)) {
        body->last = index;
        body->value = low_16(bits);
        body->form = ACCESSOR_IMMEDIATE;
        *progress = MADE;
    } else {
        return false;
    }
    return true;
}

static bool read_body(const struct code *code, struct body *body)
{
    enum progress progress = STARTED;
    bool returns = false;
    uint32_t bits;

    *body = (struct body){.value = code->address};
    for (size_t i = 0; i < BODY_INSTRUCTIONS; i++) {
        if (!instruction_at(code->bytes, i * INSTRUCTION_SIZE, &bits))
            return false;
        if (!take(body, &progress, bits, i) && !is_of_frame(bits) && (returns || bits != JR_RA))
            return false;
        if (returns) {
            body->size = (i + 1) * INSTRUCTION_SIZE;
            return progress == MADE;
        }
        returns = bits == JR_RA;
    }
    return false;
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    struct body body;

    if (!read_body(code, &body))
        return false;
    *accessor = (struct accessor){
        .form = body.form,
        .value = body.value,
        .size = body.size,
        .patch_offset = body.high * INSTRUCTION_SIZE,
        .patch_size = (body.last + 1 - body.high) * INSTRUCTION_SIZE,
    };
    return accessor->patch_size <= ACCESSOR_PATCH_MAX;
}

/* Changes the immediate of the instruction at an index of the body. */
static void store_immediate(uint8_t *patch, const struct body *body, size_t index, uint64_t value)
{
    uint8_t *at = patch + (index - body->high) * INSTRUCTION_SIZE;

    store_u32(at, (load_u32(at, false) & 0xffff0000) | (uint32_t)(value & 0xffff), false);
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t distance = value - code->address, high = distance + 0x8000;
    struct body body;
    struct bytes old;

    if (!read_body(code, &body) ||
        !bytes_slice(code->bytes, accessor->patch_offset, accessor->patch_size, &old))
        return false;
    for (size_t i = 0; i < accessor->patch_size; i++)
        patch[i] = old.data[i];
    store_immediate(patch, &body, body.high, high >> 16);
    store_immediate(patch, &body, body.low, distance);
    if (body.second_high != 0)
        store_immediate(patch, &body, body.second_high, 0);
    store_u32(patch + (body.last - body.high) * INSTRUCTION_SIZE,
              (uint32_t)OPCODE_DADDIU << 26 | body.sum << 21 | RESULT << 16, false);
    return high + (UINT64_C(1) << 31) < UINT64_C(1) << 32;
}

/* ---- following high halves ---- */

/* True if the instruction adds 16 bits to the register rs, to form or use an address. */
static bool adds_low(uint32_t bits)
{
    unsigned opcode = opcode_of(bits);

    return opcode == OPCODE_ADDIU || opcode == OPCODE_DADDIU || opcode == 26 || opcode == 27 ||
           opcode >= 32; /* ldl, ldr; all loads and stores */
}

/* The register that the instruction surely overwrites; 0 for others. */
static unsigned written(uint32_t bits)
{
    unsigned opcode = opcode_of(bits), function = bits & 0x3f;

    if (opcode == 0 && (function < FUNCTION_JR || function == 0x10 || function == 0x12 ||
                        (function >= 0x14 && function <= 0x17) ||
                        (function >= 0x20 && function <= 0x2f) || function >= 0x38))
        return rd_of(bits);
    if ((opcode >= 8 && opcode <= OPCODE_LUI) || opcode == OPCODE_DADDIU ||
        (opcode >= 32 && opcode <= 39 && opcode != 34 && opcode != 38) || opcode == OPCODE_LD)
        return rt_of(bits);
    /* mfc1, dmfc1; ext, dext and their like; mul; seb, seh */
    if ((opcode == 17 && rs_of(bits) <= 1) || (opcode == 31 && function <= 3))
        return rt_of(bits);
    if ((opcode == 28 && function == 2) || (opcode == 31 && function == 0x20))
        return rd_of(bits);
    return 0;
}

static bool is_call(uint32_t bits)
{
    return opcode_of(bits) == OPCODE_JAL || (opcode_of(bits) == 1 && (rt_of(bits) & 0x10) != 0) ||
           (opcode_of(bits) == 0 && (bits & 0x3f) == FUNCTION_JALR && rd_of(bits) != 0);
}

/* Finds where the branch at an address leads, if it is relative to itself or within the same 256
 * MiB. */
static bool is_branch(uint32_t bits, uint64_t address, uint64_t *to)
{
    unsigned opcode = opcode_of(bits);
    bool is_floating = opcode == 17 && rs_of(bits) == 8;
    bool is_relative = opcode == 1 || (opcode >= 4 && opcode <= 7) ||
                       (opcode >= 20 && opcode <= 23) || is_floating;

    if (is_relative)
        *to = address + INSTRUCTION_SIZE + (low_16(bits) << 2);
    else if (opcode == 2 || opcode == OPCODE_JAL)
        *to = align_down(address + INSTRUCTION_SIZE, UINT64_C(1) << 28) | (bits & 0x3ffffff) << 2;
    return is_relative || opcode == 2 || opcode == OPCODE_JAL;
}

static void decode_flow(const struct code *code, uint64_t offset,
                        struct flow_instruction *instruction)
{
    uint32_t bits, before;
    bool returns;

    if (!instruction_at(code->bytes, offset, &bits))
        return;
    instruction->size = INSTRUCTION_SIZE;
    instruction->overwritten = UINT32_C(1) << written(bits);
    instruction->calls = offset >= INSTRUCTION_SIZE &&
                         instruction_at(code->bytes, offset - INSTRUCTION_SIZE, &before) &&
                         is_call(before);
    /* A move is written as an or; daddu and addu add an index to a page. */
    if ((is_register(bits, FUNCTION_OR) && rt_of(bits) == 0) || is_register(bits, FUNCTION_DADDU) ||
        is_register(bits, FUNCTION_ADDU)) {
        instruction->passed_from = UINT32_C(1) << rs_of(bits) | UINT32_C(1) << rt_of(bits);
        instruction->passed_to = rd_of(bits);
    }
    if (adds_low(bits)) {
        instruction->base = rs_of(bits);
        instruction->low = low_16(bits);
    }
    instruction->slot = low_16(bits);
    instruction->may_be_elsewhere = rs_of(bits) == FP;
    if ((rs_of(bits) == SP || rs_of(bits) == FP) && opcode_of(bits) == OPCODE_SD)
        instruction->stored[0] = rt_of(bits);
    if ((rs_of(bits) == SP || rs_of(bits) == FP) && opcode_of(bits) == OPCODE_LD)
        instruction->loaded[0] = rt_of(bits);
    if (is_call(bits))
        return;
    returns =
        opcode_of(bits) == 0 && ((bits & 0x3f) == FUNCTION_JR || (bits & 0x3f) == FUNCTION_JALR);
    instruction->branches = is_branch(bits, code->address + offset, &instruction->to);
    instruction->to -= code->address;
    instruction->goes_anywhere = returns && rs_of(bits) != RA;
    instruction->is_end = returns || opcode_of(bits) == 2 || bits >> 16 == 0x1000; /* jr, j, b */
}

static bool is_function(const struct code *code, uint64_t offset)
{
    uint32_t first, second;

    if (!instruction_at(code->bytes, offset, &first) || !is_lui(first))
        return false;
    for (uint64_t ahead = 1; ahead <= MAKING_MAX / 2; ahead++) {
        if (!instruction_at(code->bytes, offset + ahead * INSTRUCTION_SIZE, &second))
            return false;
        if (is_daddu(second, rt_of(first), rt_of(first), OWN))
            return true;
    }
    return false;
}

static const struct flow flow = {
    .unit = INSTRUCTION_SIZE,
    .decode = decode_flow,
    .has_delay_slots = true,
    .changed_by_calls = CHANGED_BY_CALLS,
    .uses_one_value = true,
    .is_function = is_function,
};

/* ---- references ---- */

/* True if the instruction at an offset computes _gp in the register *to: it adds the low part of
 * the distance to the sum of $25 and the high part, a few instructions behind the start of a
 * function. */
static bool makes_base(const struct code *code, uint64_t offset, unsigned *to)
{
    uint32_t bits, first;

    if (!instruction_at(code->bytes, offset, &bits) || opcode_of(bits) != OPCODE_DADDIU)
        return false;
    for (uint64_t back = 2; back <= MAKING_MAX; back++) {
        uint64_t distance = back * INSTRUCTION_SIZE;

        if (offset >= distance && is_function(code, offset - distance) &&
            instruction_at(code->bytes, offset - distance, &first) && rt_of(first) == rs_of(bits)) {
            *to = rt_of(bits);
            return true;
        }
    }
    return false;
}

/* The start of the function that has the instruction at an offset; looks back at most
 * FLOW_RANGE. */
static uint64_t function_before(const struct code *code, uint64_t offset)
{
    uint64_t left = FLOW_RANGE(INSTRUCTION_SIZE);

    while (offset >= INSTRUCTION_SIZE && left != 0 && !is_function(code, offset)) {
        offset -= INSTRUCTION_SIZE;
        left -= INSTRUCTION_SIZE;
    }
    return offset;
}

/* The registers that hold _gp in a function: always $28, and others into which it is computed,
 * copied, or loaded from the stack. */
struct bases {
    uint32_t registers; /* a bit each */
    uint32_t seen;      /* all that have held it in the function so far */
    uint64_t slots[SLOTS_MAX];
    size_t slot_count;
};

static bool is_stored(const struct bases *bases, uint64_t slot)
{
    for (size_t i = 0; i < bases->slot_count; i++) {
        if (bases->slots[i] == slot)
            return true;
    }
    return false;
}

/* Updates these for the instruction at an offset. A register that it overwrites no longer holds _gp
 * in what follows; but the code behind the end of a path is reached from elsewhere, where the
 * register may still hold it. */
static void carry_bases(const struct code *code, uint64_t offset, struct bases *bases)
{
    struct flow_instruction instruction = {0}, before = {0};
    uint32_t old;
    unsigned made;

    if (is_function(code, offset))
        *bases = (struct bases){.registers = UINT32_C(1) << GP};
    old = bases->registers;
    decode_flow(code, offset, &instruction);
    if (offset >= INSTRUCTION_SIZE)
        decode_flow(code, offset - INSTRUCTION_SIZE, &before);
    bases->registers &= ~instruction.overwritten | UINT32_C(1) << GP;
    if (instruction.calls)
        bases->registers &= ~CHANGED_BY_CALLS;
    if ((old & instruction.passed_from) != 0)
        bases->registers |= UINT32_C(1) << instruction.passed_to;
    if (instruction.stored[0] != 0 && (old >> instruction.stored[0] & 1) != 0 &&
        bases->slot_count < SLOTS_MAX && !is_stored(bases, instruction.slot))
        bases->slots[bases->slot_count++] = instruction.slot;
    if (instruction.loaded[0] != 0 && is_stored(bases, instruction.slot))
        bases->registers |= UINT32_C(1) << instruction.loaded[0];
    if (makes_base(code, offset, &made))
        bases->registers |= UINT32_C(1) << made;
    bases->seen |= bases->registers;
    if (before.is_end)
        bases->registers = bases->seen;
}

/* True if adding 16 signed bits to the high half may lead to the target. */
static bool reaches(uint64_t high, const struct reference_target *target)
{
    return target->first - (high - 0x8000) < 0x18000 ||
           high - 0x8000 - target->first < target->size;
}

/* True if the instruction is a load from the GOT that refers to the target. */
static bool refers_by_slot(struct search *search, uint64_t offset, uint32_t bits, uint32_t bases)
{
    const struct reference_target *target = search->target;
    const struct code *code = search->code;
    uint64_t slot = code->base + low_16(bits), value;
    struct bytes held;
    unsigned end;

    if (opcode_of(bits) != OPCODE_LD || (bases >> rs_of(bits) & 1) == 0 || code->base == 0 ||
        !bytes_slice(code->got_bytes, slot - code->got, 8, &held))
        return false;
    value = load_u64(held.data, false);
    if (reference_counts(target, slot))
        return true;
    if (value == 0 || value % PAGE_UNIT != 0 || !reaches(value, target))
        return reference_counts(target, value);
    end = flow_follow(&flow, &(struct flow_half){search, offset, rt_of(bits), value});
    return (end & (FLOW_COUNTS | FLOW_LEFT)) != 0 || (end == 0 && reference_counts(target, value));
}

/* True if a lui in an image at a fixed address forms the low 32 bits of an address that counts. A
 * lui at the start of a function is part of a distance. */
static bool refers_by_high_half(struct search *search, uint64_t offset, uint32_t bits)
{
    const struct reference_target *target = search->target;
    uint64_t high = align_down(target->first, UINT64_C(1) << 32) | (uint32_t)high_16(bits);
    const struct flow_half half = {search, offset, rt_of(bits), high};

    return target->absolute && is_lui(bits) && !is_function(search->code, offset) &&
           reaches(high, target) &&
           (reference_counts(target, high) || (flow_follow(&flow, &half) & FLOW_COUNTS) != 0);
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    uint64_t start = first_instruction(code, *position, INSTRUCTION_SIZE), to;
    struct bases bases = {.registers = UINT32_C(1) << GP};
    struct search search = {code, target, FLOW_STEPS_START};
    uint32_t bits;

    for (uint64_t i = function_before(code, start); instruction_at(code->bytes, i, &bits);
         i += INSTRUCTION_SIZE) {
        uint32_t registers = bases.registers;

        carry_bases(code, i, &bases);
        search.steps_left += FLOW_STEPS_PER_INSTRUCTION;
        if (i < start)
            continue;
        if (refers_by_slot(&search, i, bits, registers) || refers_by_high_half(&search, i, bits) ||
            (rs_of(bits) == GP && adds_low(bits) && code->base != 0 &&
             reference_counts(target, code->base + low_16(bits))) ||
            (target->called && is_branch(bits, code->address + i, &to) &&
             reference_counts(target, to))) {
            *position = i;
            return true;
        }
    }
    return false;
}

/* Composes two relocation types into one number; the first is in the low byte. */
#define COMPOSED(first, second) ((uint32_t)(first) | (uint32_t)(second) << 8)

const struct machine machine_mips64el = {
    .name = "mips64el",
    .elf_machine = EM_MIPS,
    .address_size = 8,
    .base_symbol = "_gp",
    .got_size_max = GOT_SIZE_MAX,
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_MIPS_NONE,
            .relative = COMPOSED(R_MIPS_REL32, R_MIPS_64),
            .absolute = COMPOSED(R_MIPS_REL32, R_MIPS_64),
            .irelative = NO_RELOCATION_TYPE,
            .no_address = {R_MIPS_TLS_DTPMOD64, R_MIPS_TLS_DTPREL64, R_MIPS_TLS_TPREL64},
            .are_composed = true,
        },
    .look_ahead = FLOW_RANGE(INSTRUCTION_SIZE) + INSTRUCTION_SIZE,
    .has_chance_hits = true, /* numbers of 32 bits at fixed addresses */
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
