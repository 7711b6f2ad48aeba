/*
 * LoongArch of 64 bits (LoongArch Reference Manual, volume 1; ABI for the LoongArch Architecture).
 *
 * Instructions are 4 bytes at multiples of 4. An address takes two of them: pcalau12i forms the
 * address of a page of 4 KiB, and the 12 signed bits of an addi.d, a load or a store supply the
 * rest. pcaddu12i instead adds a multiple of 4 KiB to its own address; pcaddi alone reaches up to 2
 * MiB away, in words. Absolute addresses begin with lu12i.w; ori completes them to 32 bits, and
 * lu32i.d and lu52i.d to 64. Far functions are called by pcaddu18i and jirl. Compilers may put
 * other instructions between the two: a search looks many instructions ahead, for as long as the
 * register still holds the first half, and treats a first half whose other half is not found as a
 * reference to everything that it may reach. In images at a fixed address, numbers of the same size
 * look like addresses.
 *
 * Bodies seen in real images (clang 16 to 22; lld); `maker` stands for one of the lines below:
 *     [addi.d $sp,$sp,-16; st.d $ra,$sp,8; st.d $fp,$sp,0; addi.d $fp,$sp,16]  maker
 *            [ld.d $fp,$sp,0; ld.d $ra,$sp,8; addi.d $sp,$sp,16]  ret
 *     pcalau12i $a0,X; ld.d $a0,$a0,X      the GOT: what compilers make
 *     pcalau12i $a0,X; addi.d $a0,$a0,X    relaxed by lld, from 20 on
 *     pcaddi $a0,X                         relaxed where X is near and at a multiple of 4
 * So code can only form addresses that are multiples of 4; an accessor's new result must be one,
 * too.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>

#define INSTRUCTION_SIZE 4
#define PAGE_SIZE        UINT64_C(4096)
#define BODY_FRAME       8 /* instructions of a body before and behind those that make the address */

#define REGISTER_ZERO    0
#define REGISTER_RA      1
#define REGISTER_SP      3
#define REGISTER_A0      4
#define REGISTER_FP      22

#define INSTRUCTION_RET  0x4c000020u /* jirl $zero, $ra, 0 */

/* Opcodes of 7 bits: of instructions with an immediate of 20 bits and a register. */
#define OPCODE_20_MASK 0xfe000000u
#define LU12I_W        0x14000000u
#define LU32I_D        0x16000000u
#define PCADDI         0x18000000u
#define PCALAU12I      0x1a000000u
#define PCADDU12I      0x1c000000u
#define PCADDU18I      0x1e000000u

/* Opcodes of 10 bits: of instructions with an immediate of 12 bits and two registers. */
#define OPCODE_12_MASK 0xffc00000u
#define ADDI_W         0x02800000u
#define ADDI_D         0x02c00000u
#define ORI            0x03800000u
#define LD_B           0x28000000u
#define LD_D           0x28c00000u
#define ST_D           0x29c00000u
#define LD_BU          0x2a000000u
#define LD_WU          0x2a800000u
#define XVST           0x2cc00000u

/* Opcodes of 6 bits: of jumps. */
#define OPCODE_JUMP_MASK 0xfc000000u
#define BEQZ             0x40000000u
#define BNEZ             0x44000000u
#define BCEQZ            0x48000000u
#define JIRL             0x4c000000u
#define B                0x50000000u
#define BL               0x54000000u
#define BEQ              0x58000000u
#define BGEU             0x6c000000u

/* ---- instructions ---- */

static uint32_t destination(uint32_t instruction)
{
    return instruction & 0x1f;
}

static uint32_t source(uint32_t instruction)
{
    return instruction >> 5 & 0x1f;
}

static uint64_t immediate_12(uint32_t instruction)
{
    return signed_field(instruction >> 10 & 0xfff, 12);
}

static uint64_t immediate_20(uint32_t instruction)
{
    return signed_field(instruction >> 5 & 0xfffff, 20);
}

/* The first half that an instruction forms; false if it does not start an address. */
static bool first_half(uint32_t instruction, uint64_t address, uint64_t *made)
{
    uint64_t immediate = immediate_20(instruction);

    switch (instruction & OPCODE_20_MASK) {
    case LU12I_W:
        *made = immediate * PAGE_SIZE;
        return true;
    case PCALAU12I:
        *made = align_down(address, PAGE_SIZE) + immediate * PAGE_SIZE;
        return true;
    case PCADDU12I:
        *made = address + immediate * PAGE_SIZE;
        return true;
    case PCADDU18I:
        *made = address + (immediate << 18);
        return true;
    default:
        return false;
    }
}

/* ---- accessors ---- */

/* True if the instruction saves or restores registers or sets up the frame: none of these changes
 * $a0. */
static bool is_frame(uint32_t instruction)
{
    uint32_t rd = destination(instruction), opcode = instruction & OPCODE_12_MASK;

    return source(instruction) == REGISTER_SP &&
           ((opcode == ADDI_D && (rd == REGISTER_SP || rd == REGISTER_FP)) ||
            ((opcode == LD_D || opcode == ST_D) && (rd == REGISTER_RA || rd == REGISTER_FP)));
}

/* Moves *offset to the first instruction from there on that does not belong to the frame. */
static bool skip_frame(struct bytes code, uint64_t *offset, uint32_t *instruction)
{
    uint64_t end = *offset + BODY_FRAME * INSTRUCTION_SIZE;

    while (instruction_at(code, *offset, instruction)) {
        if (!is_frame(*instruction) || *offset == end)
            return true;
        *offset += INSTRUCTION_SIZE;
    }
    return false;
}

/* An opcode with $a0 as source and destination. */
#define WITH_A0(opcode) ((opcode) | REGISTER_A0 << 5 | REGISTER_A0)

/* The instructions at `offset` that form the address in $a0: their value, form and size. */
static bool take_maker(const struct code *code, uint64_t offset, uint32_t first,
                       struct accessor *accessor)
{
    uint64_t address = code->address + offset, made;
    uint32_t second, operation;

    *accessor = (struct accessor){.form = ACCESSOR_PC_RELATIVE,
                                  .patch_offset = (size_t)offset,
                                  .patch_size = INSTRUCTION_SIZE};
    if (destination(first) != REGISTER_A0)
        return false;
    if ((first & OPCODE_20_MASK) == PCADDI) {
        accessor->value = address + immediate_20(first) * INSTRUCTION_SIZE;
        return true;
    }
    if ((first & OPCODE_20_MASK) != PCALAU12I || !first_half(first, address, &made) ||
        !instruction_at(code->bytes, offset + INSTRUCTION_SIZE, &second))
        return false;
    accessor->value = made + immediate_12(second);
    accessor->patch_size += INSTRUCTION_SIZE;
    operation = second & (OPCODE_12_MASK | 0x3ff);
    if (operation == WITH_A0(LD_D))
        accessor->form = ACCESSOR_LOAD;
    return operation == WITH_A0(LD_D) || operation == WITH_A0(ADDI_D);
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    struct accessor decoded = {0};
    uint64_t offset = 0;
    uint32_t instruction;

    if (!skip_frame(code->bytes, &offset, &instruction) ||
        !take_maker(code, offset, instruction, &decoded))
        return false;
    offset += decoded.patch_size;
    if (!skip_frame(code->bytes, &offset, &instruction) || instruction != INSTRUCTION_RET)
        return false;
    decoded.size = (size_t)offset + INSTRUCTION_SIZE;
    *accessor = decoded;
    return true;
}

/* Encodes an immediate of 20 bits, which counts in units of `unit` bytes. */
static bool put_20(uint8_t *to, uint32_t opcode, uint64_t distance, uint64_t unit)
{
    uint32_t field = (uint32_t)(distance / unit) & 0xfffff;

    store_u32(to, opcode | field << 5 | REGISTER_A0, false);
    return signed_field(field, 20) * unit == distance;
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t address = code->address + accessor->patch_offset;
    uint64_t page = align_down(value + PAGE_SIZE / 2, PAGE_SIZE);

    if (accessor->patch_size == INSTRUCTION_SIZE)
        return put_20(patch, PCADDI, value - address, INSTRUCTION_SIZE);
    store_u32(patch + INSTRUCTION_SIZE, WITH_A0(ADDI_D) | (uint32_t)(value % PAGE_SIZE) << 10,
              false);
    return put_20(patch, PCALAU12I, page - align_down(address, PAGE_SIZE), PAGE_SIZE);
}

/* ---- references ---- */

/* Finds what the second half of an address adds; false if the instruction is no second half. */
static bool second_half(uint32_t instruction, uint32_t base, uint64_t *low)
{
    uint32_t opcode = instruction & OPCODE_12_MASK;

    if (source(instruction) != base)
        return false;
    if ((instruction & OPCODE_JUMP_MASK) == JIRL) {
        *low = signed_field(instruction >> 10 & 0xffff, 16) * INSTRUCTION_SIZE;
        return true;
    }
    *low = opcode == ORI ? immediate_12(instruction) & 0xfff : immediate_12(instruction);
    /* Loads and stores of all sizes, and preld. */
    return opcode == ORI || opcode == ADDI_D || opcode == ADDI_W ||
           (opcode >= LD_B && opcode <= XVST);
}

/* True if the instruction at `offset` completes the half to an address that counts. If the half is
 * that of lu12i.w, the low 32 bits alone decide, because an image may be at any address; unless the
 * next instruction sets the upper half. */
static bool second_half_refers(const struct flow_half *half, uint64_t offset,
                               const struct flow_instruction *instruction)
{
    const struct reference_target *target = half->search->target;
    struct bytes code = half->search->code->bytes;
    uint64_t address = half->high + instruction->low;
    uint32_t first, bits, next;

    if (!instruction_at(code, half->offset, &first) || !instruction_at(code, offset, &bits) ||
        ((bits & OPCODE_JUMP_MASK) == JIRL && !target->called))
        return false;
    if ((first & OPCODE_20_MASK) != LU12I_W)
        return reference_counts(target, address);
    address = target->first + (uint32_t)(address - target->first);
    return reference_counts(target, address) &&
           (!instruction_at(code, offset + INSTRUCTION_SIZE, &next) ||
            (next & (OPCODE_20_MASK | 0x1f)) != (LU32I_D | destination(bits)) ||
            (immediate_20(next) & 0xfffff) == (address >> 32 & 0xfffff));
}

/* Arithmetic on registers, except for instructions that only trap. */
static bool calculates(uint32_t instruction)
{
    return instruction >= 0x00100000 && instruction < 0x002a0000;
}

/* The register that the instruction surely overwrites; knows only the instructions that compilers
 * use most. 0 for all others. */
static uint32_t written(uint32_t instruction)
{
    uint32_t opcode = instruction & OPCODE_12_MASK;
    bool loads = (opcode >= LD_B && opcode <= LD_D) || (opcode >= LD_BU && opcode <= LD_WU);
    bool adds = opcode == ADDI_D || opcode == ADDI_W || opcode == ORI;
    uint64_t made;

    return loads || adds || calculates(instruction) || first_half(instruction, 0, &made) ||
                   (instruction & OPCODE_20_MASK) == PCADDI
               ? destination(instruction)
               : REGISTER_ZERO;
}

/* Finds where the branch or call at an offset leads; false for other instructions. */
static bool is_branch(uint32_t instruction, uint64_t offset, uint64_t *to)
{
    uint64_t low = instruction >> 10 & 0xffff, distance;
    uint32_t opcode = instruction & OPCODE_JUMP_MASK;

    if (opcode == BEQZ || opcode == BNEZ || opcode == BCEQZ)
        distance = signed_field(low | (instruction & 0x1f) << 16, 21);
    else if (opcode == B || opcode == BL)
        distance = signed_field(low | (instruction & 0x3ff) << 16, 26);
    else if (opcode >= BEQ && opcode <= BGEU)
        distance = signed_field(low, 16);
    else
        return false;
    *to = offset + distance * INSTRUCTION_SIZE;
    return true;
}

static void decode_flow(const struct code *code, uint64_t offset, struct flow_instruction *flow)
{
    uint32_t bits, jump, opcode;
    bool is_jirl;

    if (!instruction_at(code->bytes, offset, &bits))
        return;
    jump = bits & OPCODE_JUMP_MASK;
    opcode = bits & OPCODE_12_MASK;
    is_jirl = jump == JIRL;
    flow->size = INSTRUCTION_SIZE;
    flow->overwritten = UINT32_C(1) << written(bits);
    if (second_half(bits, source(bits), &flow->low))
        flow->base = source(bits);
    if (calculates(bits)) { /* a move is written as an or */
        flow->passed_from = UINT32_C(1) << source(bits) | UINT32_C(1) << (bits >> 10 & 0x1f);
        flow->passed_to = destination(bits);
    }
    flow->slot = immediate_12(bits);
    if (opcode == ST_D && source(bits) == REGISTER_SP)
        flow->stored[0] = destination(bits);
    else if (opcode == ST_D)
        flow->escapes = UINT32_C(1) << destination(bits);
    if (opcode == LD_D && source(bits) == REGISTER_SP)
        flow->loaded[0] = destination(bits);
    flow->calls = jump == BL || (is_jirl && destination(bits) != REGISTER_ZERO);
    flow->branches = jump != BL && is_branch(bits, offset, &flow->to);
    flow->goes_anywhere = is_jirl && !flow->calls && bits != INSTRUCTION_RET;
    flow->is_end = jump == B || (is_jirl && !flow->calls);
}

/* True if a function starts there: a frame is set up, behind the end of another function. */
static bool is_function(const struct code *code, uint64_t offset)
{
    struct flow_instruction before = {0};
    uint32_t bits;

    if (offset < INSTRUCTION_SIZE || !instruction_at(code->bytes, offset, &bits) ||
        !is_frame(bits) || destination(bits) != REGISTER_SP || immediate_12(bits) >> 63 == 0)
        return false;
    decode_flow(code, offset - INSTRUCTION_SIZE, &before);
    return before.is_end;
}

static const struct flow flow = {
    .is_function = is_function,
    .unit = INSTRUCTION_SIZE,
    .decode = decode_flow,
    .refers = second_half_refers,
    .changed_by_calls = UINT32_C(0x001ffff2), /* ra, a0 to t8 */
    .has_handlers = true,
};

static bool refers(struct search *search, uint64_t offset)
{
    const struct reference_target *target = search->target;
    uint64_t address = search->code->address + offset, made, reach, behind, before, to;
    uint32_t bits, opcode, jump;
    unsigned end;

    if (!instruction_at(search->code->bytes, offset, &bits))
        return false;
    opcode = bits & OPCODE_20_MASK;
    jump = bits & OPCODE_JUMP_MASK;
    if (jump == B || jump == BL)
        return target->called && is_branch(bits, address, &to) && reference_counts(target, to);
    if (opcode == PCADDI)
        return reference_counts(target, address + immediate_20(bits) * INSTRUCTION_SIZE);
    if (!first_half(bits, address, &made) || target->size == 0 ||
        (opcode == LU12I_W && !target->absolute) || (opcode == PCADDU18I && !target->called))
        return false;
    /* A second half must be able to lead to the target: jirl reaches furthest, and the immediate of
     * ori is unsigned. */
    reach = opcode == PCADDU18I ? UINT64_C(0x20000) : PAGE_SIZE;
    behind = made - reach - target->first;
    before = target->first - (made - reach);
    if (opcode == LU12I_W) {
        behind &= UINT32_MAX;
        before &= UINT32_MAX;
    }
    if (behind >= target->size && before >= 2 * reach)
        return false;
    /* The result of lu12i.w is a mere number if every place that it reaches was looked at and
     * nothing completes it. */
    end = flow_follow(&flow, &(struct flow_half){search, offset, destination(bits), made});
    return (end & FLOW_COUNTS) != 0 ||
           ((end & FLOW_FOUND) == 0 && (opcode != LU12I_W || (end & FLOW_LEFT) != 0));
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    return search_each(code, target, INSTRUCTION_SIZE, refers, position);
}

/* Older headers do not define these. */
#ifndef R_LARCH_TLS_DESC64
#define R_LARCH_TLS_DESC32 13
#define R_LARCH_TLS_DESC64 14
#endif

const struct machine machine_loongarch64 = {
    .name = "loongarch64",
    .elf_machine = EM_LOONGARCH,
    .address_size = 8,
    .address_unit = INSTRUCTION_SIZE,
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_LARCH_NONE,
            .relative = R_LARCH_RELATIVE,
            .absolute = R_LARCH_64,
            .irelative = R_LARCH_IRELATIVE,
            .no_address = {R_LARCH_TLS_DTPMOD32, R_LARCH_TLS_DTPMOD64, R_LARCH_TLS_DTPREL32,
                           R_LARCH_TLS_DTPREL64, R_LARCH_TLS_TPREL32, R_LARCH_TLS_TPREL64,
                           R_LARCH_TLS_DESC32, R_LARCH_TLS_DESC64},
        },
    .has_chance_hits = true,
    .look_ahead = FLOW_RANGE(INSTRUCTION_SIZE) + 2 * INSTRUCTION_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
