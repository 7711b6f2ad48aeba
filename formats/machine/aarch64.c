/*
 * AArch64 (Arm Architecture Reference Manual for A-profile, C6.2; AAPCS64).
 *
 * Instructions are 4 bytes at multiples of 4. An address takes two of them: adrp forms the address
 * of a page of 4 KiB, and an add or a load supplies the rest. So an accessor has two instructions
 * to change. Compilers may put others between the two: a search looks many instructions ahead, and
 * treats an adrp whose other half is not found as a reference to its whole page. It stops where the
 * register surely has another value, as long as nothing branches. Two instructions hardly ever form
 * an address by chance. Code at a fixed address may also contain one: in movz and movk, or as a
 * word between functions.
 *
 * Bodies seen in real images. One of the lines below forms the address; the instructions in
 * brackets depend on compiler options (-mbranch-protection, -mno-omit-leaf-frame-pointer):
 *     [bti c] [paciasp] [stp x29, x30, [sp, #-16]!; mov x29, sp]
 *         forms X in x0
 *     [ldp x29, x30, [sp], #16] [autiasp] ret       (or retaa; with the B key, pacibsp and so on)
 *
 *     adrp x0, slot; ldr x0, [x0, :lo12:slot]    clang 14 to 22 and gcc, PIC or not, because the
 *                                                symbols are weak. Kept by GNU ld and gold, and by
 *                                                lld and mold if the section is absent
 *     adrp x0, X; add x0, x0, :lo12:X            the same, relaxed by mold; lld for COFF
 *     nop; adr x0, X  (or adr; nop)              the same, relaxed by lld if X is near; ld64.lld
 *     adr x0, page; ldr or add as above          GNU ld's and gold's fix for erratum 843419 of
 *                                                Cortex-A53, which is about the last two words of a
 *                                                page
 *     adr x0, X  or  ldr x0, slot                -mcmodel=tiny
 *     movz x0, X; movk x0, ... (three times)     clang -mcmodel=large (gcc loads a literal, as it
 *                                                does from a slot)
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>

#define INSTRUCTION_SIZE    4
#define PAGE_SIZE           UINT64_C(4096)
#define ERRATUM_PLACE       (PAGE_SIZE - 8) /* where an adrp is, in its page, that becomes an adr */

#define INSTRUCTION_BTI_C   0xd503245fu /* bti c */
#define INSTRUCTION_NOP     0xd503201fu /* nop */
#define INSTRUCTION_RET     0xd65f03c0u /* ret */
#define INSTRUCTION_PACIASP 0xd503233fu /* paciasp; with SIGN_KEY_B pacibsp */
#define INSTRUCTION_AUTIASP 0xd50323bfu /* autiasp; with SIGN_KEY_B autibsp */
#define SIGN_KEY_B          0x40u
#define INSTRUCTION_RETAA   0xd65f0bffu /* retaa; with RETURN_KEY_B retab */
#define RETURN_KEY_B        0x400u
#define INSTRUCTION_STP     0xa9bf7bfdu /* stp x29, x30, [sp, #-16]! */
#define STP_NEW_FRAME       0xa9a07bfdu /* stp x29, x30, [sp, #-...]! */
#define STP_NEW_FRAME_MASK  0xffe07fffu
#define STP_IN_FRAME        0xa9007bfdu /* stp x29, x30, [sp, #...] */
#define STP_IN_FRAME_MASK   0xffe07fffu
#define SUB_SP              0xd10003ffu /* sub sp, sp, #... */
#define SUB_SP_MASK         0xff8003ffu
#define INSTRUCTION_FRAME   0x910003fdu /* mov x29, sp */
#define INSTRUCTION_LDP     0xa8c17bfdu /* ldp x29, x30, [sp], #16 */
#define ADD_X0_X0           0x91000000u /* add x0, x0, #0 */
#define LDR_X0_X0           0xf9400000u /* ldr x0, [x0, #0] */
#define LDR_X0_LITERAL      0x58000000u /* ldr x0, . */
#define ADRP_X0             0x90000000u /* adrp x0, . */
#define ADR_X0              0x10000000u /* adr x0, . */
#define MOVZ_X0             0xd2800000u /* movz x0, #0 */
#define MOVK_X0             0xf2800000u /* movk x0, #0 */
#define SHIFT_16            0x00200000u /* of movz and movk: lsl #16 */
#define IMMEDIATE_PARTS     4           /* of 16 bits */

/* The number of instructions behind an adrp in which its other half is searched: a load is close,
 * any other may be far away if the compiler has moved the adrp out of a loop. */
#define LOOK_AHEAD_LOAD 16

/* The immediate of adr and adrp, immhi:immlo: 21 bits. */
static uint64_t address_immediate(uint32_t instruction)
{
    return signed_field((instruction >> 3 & 0x1ffffc) | (instruction >> 29 & 3), 21);
}

static bool is_adrp(uint32_t instruction)
{
    return (instruction & 0x9f000000) == 0x90000000;
}

static uint64_t adrp_page(uint32_t instruction, uint64_t address)
{
    return align_down(address, PAGE_SIZE) + address_immediate(instruction) * PAGE_SIZE;
}

static bool is_adr(uint32_t instruction)
{
    return (instruction & 0x9f000000) == 0x10000000;
}

static uint64_t literal_address(uint32_t instruction, uint64_t address)
{
    return address + signed_field(instruction >> 5 & 0x7ffff, 19) * INSTRUCTION_SIZE;
}

/* ---- accessors ---- */

/* Decodes the one or two instructions at the start of the code that form the address: how they do,
 * and in how many bytes. False for other instructions. */
static bool decode_pc_relative(const struct code *code, struct accessor *accessor)
{
    uint32_t first, second = 0;
    uint64_t low;

    if (!instruction_at(code->bytes, 0, &first))
        return false;
    instruction_at(code->bytes, INSTRUCTION_SIZE, &second);
    low = second >> 10 & 0xfff;
    *accessor = (struct accessor){.form = ACCESSOR_PC_RELATIVE, .patch_size = 2 * INSTRUCTION_SIZE};
    if (first == INSTRUCTION_NOP && is_adr(second) && (second & 0x1f) == 0) {
        accessor->value = code->address + INSTRUCTION_SIZE + address_immediate(second);
        return true;
    }
    if ((first & 0x1f) != 0)
        return false;
    if ((first & 0xff000000) == LDR_X0_LITERAL) {
        accessor->form = ACCESSOR_LOAD;
        accessor->patch_size = INSTRUCTION_SIZE;
        accessor->value = literal_address(first, code->address);
        return true;
    }
    if (!is_adr(first) && !is_adrp(first))
        return false;
    accessor->value =
        is_adr(first) ? code->address + address_immediate(first) : adrp_page(first, code->address);
    if ((second & 0xffc003ff) == ADD_X0_X0) {
        accessor->value += low;
    } else if ((second & 0xffc003ff) == LDR_X0_X0) {
        accessor->form = ACCESSOR_LOAD;
        accessor->value += low * 8;
    } else if (is_adr(first) && second != INSTRUCTION_NOP) {
        accessor->patch_size = INSTRUCTION_SIZE;
    }
    return is_adr(first) || (second & 0xffc003ff) == ADD_X0_X0 ||
           (second & 0xffc003ff) == LDR_X0_X0;
}

static bool decode_immediate(const struct code *code, struct accessor *accessor)
{
    uint32_t instruction;

    *accessor = (struct accessor){.form = ACCESSOR_IMMEDIATE,
                                  .patch_size = IMMEDIATE_PARTS * INSTRUCTION_SIZE};
    for (unsigned i = 0; i < IMMEDIATE_PARTS; i++) {
        uint32_t opcode = (i == 0 ? MOVZ_X0 : MOVK_X0) + i * SHIFT_16;

        if (!instruction_at(code->bytes, i * INSTRUCTION_SIZE, &instruction) ||
            (instruction & 0xffe0001f) != opcode)
            return false;
        accessor->value |= (uint64_t)(instruction >> 5 & 0xffff) << 16 * i;
    }
    return true;
}

/* True if the next instruction is this one; *offset is then behind it. */
static bool take(const struct code *code, uint32_t instruction, uint64_t *offset)
{
    uint32_t found;

    if (!instruction_at(code->bytes, *offset, &found) || found != instruction)
        return false;
    *offset += INSTRUCTION_SIZE;
    return true;
}

/* A signed return address is authenticated before the return, or by it, with the key that signed
 * it. */
static bool take_signed_return(const struct code *code, bool is_key_b, uint64_t *offset)
{
    return take(code, INSTRUCTION_RETAA | (is_key_b ? RETURN_KEY_B : 0), offset) ||
           (take(code, INSTRUCTION_AUTIASP | (is_key_b ? SIGN_KEY_B : 0), offset) &&
            take(code, INSTRUCTION_RET, offset));
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    bool is_key_a, is_key_b, has_frame;
    uint64_t offset = 0;
    struct code maker = *code;

    take(code, INSTRUCTION_BTI_C, &offset);
    is_key_a = take(code, INSTRUCTION_PACIASP, &offset);
    is_key_b = !is_key_a && take(code, INSTRUCTION_PACIASP | SIGN_KEY_B, &offset);
    has_frame = take(code, INSTRUCTION_STP, &offset);
    if (has_frame && !take(code, INSTRUCTION_FRAME, &offset))
        return false;
    maker.address += offset;
    if (!bytes_slice(code->bytes, offset, code->bytes.size - offset, &maker.bytes) ||
        (!decode_pc_relative(&maker, accessor) && !decode_immediate(&maker, accessor)))
        return false;
    accessor->patch_offset = (size_t)offset;
    offset += accessor->patch_size;
    if (has_frame && !take(code, INSTRUCTION_LDP, &offset))
        return false;
    if (is_key_a || is_key_b ? !take_signed_return(code, is_key_b, &offset)
                             : !take(code, INSTRUCTION_RET, &offset))
        return false;
    accessor->size = (size_t)offset;
    return true;
}

/* Encodes the immediate of adr or adrp; false if the distance takes more than 21 bits. */
static bool encode_address(uint32_t opcode, uint64_t distance, uint8_t *patch)
{
    uint32_t immediate = (uint32_t)distance & 0x1fffff;

    store_u32(patch, opcode | (immediate & 3) << 29 | (immediate >> 2) << 5, false);
    return signed_field(immediate, 21) == distance;
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t address = code->address + accessor->patch_offset;
    uint64_t pages = (value >> 12) - (address >> 12);

    if (accessor->patch_size == INSTRUCTION_SIZE)
        return encode_address(ADR_X0, value - address, patch);
    if (accessor->form == ACCESSOR_IMMEDIATE) {
        for (unsigned i = 0; i < IMMEDIATE_PARTS; i++) {
            uint32_t opcode = (i == 0 ? MOVZ_X0 : MOVK_X0) + i * SHIFT_16;

            store_u32(patch + i * INSTRUCTION_SIZE,
                      opcode | (uint32_t)(value >> 16 * i & 0xffff) << 5, false);
        }
        return true;
    }
    store_u32(patch + INSTRUCTION_SIZE, ADD_X0_X0 | (uint32_t)(value % PAGE_SIZE) << 10, false);
    return encode_address(ADRP_X0, pages, patch);
}

/* ---- references ---- */

/* The low 12 bits that an add, load or store with this base register supplies; false for any other
 * instruction. */
static bool low_half(uint32_t instruction, uint32_t base, uint64_t *low)
{
    uint64_t immediate = instruction >> 10 & 0xfff;

    if ((instruction >> 5 & 0x1f) != base)
        return false;
    if ((instruction & 0xffc00000) == 0x91000000) { /* add, 64 bits, no shift */
        *low = immediate;
        return true;
    }
    if ((instruction & 0x3b000000) != 0x39000000) /* load or store, unsigned offset */
        return false;
    /* The scale is the size, except for vector registers of 128 bits (opc 1x with size 00). */
    *low = immediate << ((instruction & 0xc4800000) == 0x04800000 ? 4 : instruction >> 30);
    return true;
}

/* A load of a general register, with an immediate or a register as its offset. */
static bool is_load(uint32_t instruction)
{
    bool is_prefetch = instruction >> 30 == 3 && (instruction >> 23 & 1) != 0;

    if ((instruction & 0x3f000000) != 0x39000000 && (instruction & 0x3f200c00) != 0x38200800)
        return false;
    return (instruction >> 22 & 3) != 0 && !is_prefetch;
}

/* True if the instruction surely puts another value into its register; knows only the instructions
 * that compilers use most. */
static bool overwrites(uint32_t instruction)
{
    bool calculates = (instruction & 0x1f800000) == 0x11000000 || /* add, sub: immediate */
                      (instruction & 0x1f000000) == 0x0a000000 || /* logical: register */
                      (instruction & 0x1f000000) == 0x0b000000;   /* add, sub: register */
    /* movn, movz; movk would leave a part. */
    bool moves = (instruction & 0x1f800000) == 0x12800000 && (instruction >> 29 & 3) != 3;

    return calculates || moves || is_load(instruction);
}

/* tbz, tbnz: compilers never leave a function by these. */
static bool is_bit_branch(uint32_t instruction)
{
    return (instruction & 0x7e000000) == 0x36000000;
}

/* A branch or call, and where it leads: in words, from the lowest bit or bit 5 on. */
static bool is_branch(uint32_t instruction, uint64_t address, uint64_t *target)
{
    static const struct {
        uint32_t mask, bits;
        unsigned place, width;
    } branches[] = {
        {0x7c000000, 0x14000000, 0, 26}, /* b, bl */
        {0xfe000000, 0x54000000, 5, 19}, /* b.cond */
        {0x7e000000, 0x34000000, 5, 19}, /* cbz, cbnz */
        {0x7e000000, 0x36000000, 5, 14}, /* tbz, tbnz */
    };

    for (size_t i = 0; i < sizeof(branches) / sizeof(branches[0]); i++) {
        uint32_t field = instruction >> branches[i].place & ((1u << branches[i].width) - 1);

        if ((instruction & branches[i].mask) == branches[i].bits) {
            *target = address + signed_field(field, branches[i].width) * INSTRUCTION_SIZE;
            return true;
        }
    }
    return false;
}

/* br, blr, ret and their variants that authenticate; *kind tells which of them it is. */
static bool is_register_branch(uint32_t instruction, unsigned *kind)
{
    *kind = instruction >> 21 & 7;
    return (instruction & 0xfe1f0000) == 0xd61f0000;
}

#define KIND_BR  0u
#define KIND_BLR 1u

/* ---- pages ---- */

/* Registers as flow.h numbers them: x0 becomes 31, and the stack pointer 0 (none). */
static unsigned number_of(uint32_t field)
{
    return field % 32 == 31 ? 0 : field % 32 == 0 ? 31 : field % 32;
}

static uint32_t mask_of(uint32_t field)
{
    return UINT32_C(1) << number_of(field) & ~UINT32_C(1);
}

/* Stores and loads of 64 bits: str, stur, stp, ldr, ldur, ldp. Those by sp or x29 access the
 * stack. */
static void decode_memory(uint32_t bits, struct flow_instruction *flow)
{
    bool is_pair = (bits & 0xfe000000) == 0xa8000000;
    bool is_scaled = (bits & 0xff800000) == 0xf9000000;
    bool is_plain = is_scaled || (bits & 0xffa00c00) == 0xf8000000 ||
                    (bits & 0xff800000) == 0xa9000000; /* the base is not changed */
    bool is_load = (bits >> 22 & 1) != 0;
    uint32_t base = bits >> 5 & 0x1f;
    unsigned first = number_of(bits), second = is_pair ? number_of(bits >> 10) : 0;

    if (!is_pair && !is_scaled && (bits & 0xff800000) != 0xf8000000)
        return;
    if (is_pair)
        flow->slot = signed_field(bits >> 15 & 0x7f, 7) * 8;
    else
        flow->slot =
            is_scaled ? (uint64_t)(bits >> 10 & 0xfff) * 8 : signed_field(bits >> 12 & 0x1ff, 9);
    if (base == 29)
        flow->slot += UINT64_C(1) << 32;
    if (is_pair && is_load)
        flow->overwritten |= mask_of(bits) | mask_of(bits >> 10);
    if (is_plain && (base == 29 || base == 31)) {
        unsigned *registers = is_load ? flow->loaded : flow->stored;

        registers[0] = first;
        registers[1] = second;
    } else if (!is_load) {
        flow->escapes = mask_of(bits) | (is_pair ? mask_of(bits >> 10) : 0);
    }
}

/* What linkers and compilers put between functions: nop, or zeros. */
static bool is_padding(uint32_t bits)
{
    return bits == INSTRUCTION_NOP || bits == 0;
}

/* Functions are at multiples of 64 bytes at most. */
#define PADDING_MAX 15

/* True if x29 and x30 are saved at an offset, or behind padding there, before anything else is done
 * but to make room for them. */
static bool saves_return_address(const struct code *code, uint64_t offset)
{
    uint32_t bits;

    for (unsigned i = 0; i < PADDING_MAX; i++) {
        if (!take(code, INSTRUCTION_NOP, &offset))
            take(code, 0, &offset);
    }
    take(code, INSTRUCTION_BTI_C, &offset);
    if (!take(code, INSTRUCTION_PACIASP, &offset))
        take(code, INSTRUCTION_PACIASP | SIGN_KEY_B, &offset);
    if (!instruction_at(code->bytes, offset, &bits))
        return false;
    if ((bits & STP_NEW_FRAME_MASK) == STP_NEW_FRAME)
        return true;
    return (bits & SUB_SP_MASK) == SUB_SP &&
           instruction_at(code->bytes, offset + INSTRUCTION_SIZE, &bits) &&
           (bits & STP_IN_FRAME_MASK) == STP_IN_FRAME;
}

static bool is_function(const struct code *code, uint64_t offset);

static void decode_flow(const struct code *code, uint64_t offset, struct flow_instruction *flow)
{
    bool is_register, is_sum, is_move;
    unsigned kind;
    uint32_t bits;

    if (!instruction_at(code->bytes, offset, &bits))
        return;
    flow->size = INSTRUCTION_SIZE;
    if (overwrites(bits) || is_adrp(bits) || is_adr(bits))
        flow->overwritten = mask_of(bits);
    if (low_half(bits, bits >> 5 & 0x1f, &flow->low))
        flow->base = number_of(bits >> 5);
    is_move = (bits & 0xffe0ffe0) == 0xaa0003e0;
    is_sum = (bits & 0xff200000) == 0x8b000000;
    if (is_move || is_sum) {
        flow->passed_from = mask_of(bits >> 16) | (is_sum ? mask_of(bits >> 5) : 0);
        flow->passed_to = number_of(bits);
    }
    decode_memory(bits, flow);
    is_register = is_register_branch(bits, &kind);
    flow->calls = (bits & 0xfc000000) == 0x94000000 || (is_register && kind == KIND_BLR);
    /* A call overwrites x30. So if that is saved behind the call, another function starts there,
     * and this one does not come back from the call. */
    if (flow->calls) {
        flow->is_end = saves_return_address(code, offset + INSTRUCTION_SIZE);
        return;
    }
    if (is_padding(bits)) /* the last one before a function is never executed */
        flow->is_end = is_function(code, offset + INSTRUCTION_SIZE);
    flow->branches = is_branch(bits, offset, &flow->to);
    flow->goes_anywhere = is_register && kind == KIND_BR;
    flow->is_end |= is_register || (bits & 0xfc000000) == 0x14000000;
}

/* With -fpic, code from gcc reaches slots further on in the GOT from the address of its first
 * page. */
#define REACH_IN_GOT (8 * PAGE_SIZE)

static uint64_t reach_of(const struct code *code, uint64_t page)
{
    return code->got != 0 && page == align_down(code->got, PAGE_SIZE) ? REACH_IN_GOT : PAGE_SIZE;
}

static bool half_refers(const struct flow_half *half, uint64_t offset,
                        const struct flow_instruction *instruction)
{
    (void)offset;
    return instruction->low < reach_of(half->search->code, half->high) &&
           reference_counts(half->search->target, half->high + instruction->low);
}

/* bti c; paciasp, pacibsp; or what sets up a frame: sub sp, sp, #...; stp, str [sp, #-...]! */
static bool starts_function(uint32_t bits)
{
    return bits == INSTRUCTION_BTI_C || (bits & ~SIGN_KEY_B) == INSTRUCTION_PACIASP ||
           (bits & SUB_SP_MASK) == SUB_SP || (bits & 0xffe003e0) == 0xa9a003e0 ||
           (bits & 0xfff00fe0) == 0xf8100fe0;
}

/* Such an instruction starts a function only if it follows the end of another one, or padding
 * behind it. */
static bool is_function(const struct code *code, uint64_t offset)
{
    struct flow_instruction before = {0};
    uint32_t bits;

    if (!instruction_at(code->bytes, offset, &bits) || !starts_function(bits))
        return false;
    do {
        if (offset < INSTRUCTION_SIZE)
            return false;
        offset -= INSTRUCTION_SIZE;
    } while (instruction_at(code->bytes, offset, &bits) && is_padding(bits));
    decode_flow(code, offset, &before);
    return before.is_end;
}

static const struct flow flow = {
    .unit = INSTRUCTION_SIZE,
    .uses_one_value = true,
    .is_function = is_function,
    .decode = decode_flow,
    .refers = half_refers,
    .changed_by_calls = UINT32_C(0xc007fffe), /* x0 to x18, x30 */
    .has_handlers = true,
};

/* True if the page that the instruction at `offset` forms leads to an address that counts. If
 * nothing tells which part of the page is used, the whole page counts. */
static bool page_refers(struct search *search, uint64_t offset, uint32_t instruction, uint64_t page)
{
    const struct reference_target *target = search->target;
    unsigned end;

    if (!ranges_overlap(page, reach_of(search->code, page), target->first, target->size))
        return false;
    end = flow_follow(&flow, &(struct flow_half){search, offset, number_of(instruction), page});
    return (end & FLOW_COUNTS) != 0 ||
           ((end & FLOW_FOUND) == 0 &&
            ranges_overlap(page, PAGE_SIZE, target->first, target->size));
}

/* The bits that a movz or movk sets. */
static uint64_t move_part(uint32_t instruction)
{
    return (uint64_t)(instruction >> 5 & 0xffff) << 16 * (instruction >> 21 & 3);
}

/* True if the code contains an address that counts: in a movz, of 32 or 64 bits, and the movk
 * behind it, or in a literal between functions. */
static bool holds_address(struct bytes code, uint64_t offset, uint32_t bits,
                          const struct reference_target *target)
{
    uint64_t value = move_part(bits);
    uint32_t next;

    if (instruction_at(code, offset + INSTRUCTION_SIZE, &next) &&
        reference_counts(target, (uint64_t)next << 32 | bits))
        return true;
    if ((bits & 0x7f800000) != 0x52800000)
        return false;
    for (unsigned i = 1; i <= LOOK_AHEAD_LOAD && !reference_counts(target, value); i++) {
        if (!instruction_at(code, offset + i * INSTRUCTION_SIZE, &next) ||
            next == INSTRUCTION_RET || ((next & 0x1f) == (bits & 0x1f) && overwrites(next)))
            return false;
        if ((next & 0x7f80001f) == (0x72800000 | (bits & 0x1f)))
            value |= move_part(next);
    }
    return reference_counts(target, value);
}

static bool refers(struct search *search, uint64_t offset)
{
    const struct reference_target *target = search->target;
    uint64_t address = search->code->address + offset, made;
    uint32_t bits;

    if (!instruction_at(search->code->bytes, offset, &bits))
        return false;
    if (target->absolute && holds_address(search->code->bytes, offset, bits, target))
        return true;
    if (is_adrp(bits))
        return page_refers(search, offset, bits, adrp_page(bits, address));
    if (is_adr(bits)) { /* it may also be what a linker made of an adrp */
        made = address + address_immediate(bits);
        return reference_counts(target, made) ||
               (made % PAGE_SIZE == 0 && address % PAGE_SIZE >= ERRATUM_PLACE &&
                page_refers(search, offset, bits, made));
    }
    if ((bits & 0x3b000000) == 0x18000000) /* ldr with a literal */
        return reference_counts(target, literal_address(bits, address));
    return target->called && !is_bit_branch(bits) && is_branch(bits, address, &made) &&
           reference_counts(target, made);
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    return search_each(code, target, INSTRUCTION_SIZE, refers, position);
}

static bool find_load(const struct code *code, uint64_t *position, uint64_t *target)
{
    uint32_t instruction, other;
    uint64_t low;

    for (uint64_t i = first_instruction(code, *position, INSTRUCTION_SIZE);
         instruction_at(code->bytes, i, &instruction); i += INSTRUCTION_SIZE) {
        if (!is_adrp(instruction))
            continue;
        for (unsigned ahead = 1; ahead <= LOOK_AHEAD_LOAD; ahead++) {
            if (!instruction_at(code->bytes, i + ahead * INSTRUCTION_SIZE, &other))
                break;
            /* ldr, 64 bits, unsigned offset */
            if ((other & 0xffc00000) != 0xf9400000 || !low_half(other, instruction & 0x1f, &low))
                continue;
            *target = adrp_page(instruction, code->address + i) + low;
            *position = i + INSTRUCTION_SIZE;
            return true;
        }
    }
    return false;
}

static bool follow_jump(const struct code *code, uint64_t *target)
{
    uint32_t instruction;

    return instruction_at(code->bytes, 0, &instruction) &&
           (instruction & 0xfc000000) == 0x14000000 && /* b */
           is_branch(instruction, code->address, target);
}

const struct machine machine_aarch64 = {
    .name = "aarch64",
    .elf_machine = EM_AARCH64,
    .address_size = 8,
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_AARCH64_NONE,
            .relative = R_AARCH64_RELATIVE,
            .absolute = R_AARCH64_ABS64,
            .irelative = R_AARCH64_IRELATIVE,
            .no_address = {R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL, R_AARCH64_TLS_TPREL,
                           R_AARCH64_TLSDESC},
        },
    .look_ahead = FLOW_RANGE(INSTRUCTION_SIZE) + INSTRUCTION_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
    .find_load = find_load,
    .follow_jump = follow_jump,
};
