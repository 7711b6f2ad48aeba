/*
 * ppc64le (Power ISA 3.1, books I 2 and 3; the 64-bit ELF V2 ABI of OpenPOWER).
 *
 * Instructions are 4 bytes at multiples of 4. Data is reached through r2, the TOC pointer, which
 * holds one address (.TOC.) in all code that is linked with one table of contents. Either an
 * instruction adds 16 bits to it, or an addis adds the high half and another instruction the low
 * one. The addis may be far before the instructions that use it, and in between its result may be
 * copied, or stored and loaded again: a search follows it (flow.h), and treats an addis whose other
 * half is not found as a reference to everything that it may reach. If the target is close to the
 * TOC, GNU ld turns the addis into a nop.
 *
 * A function has two entries. At the global one it is called with its own address in r12, and its
 * first two instructions compute r2 from that; calls from the same image go to the local entry
 * behind these two. So only what follows the local entry may change. The first two instructions
 * also tell the value of r2: GNU ld may give an image several tables, and then r2 is not the same
 * in all its code.
 *
 * POWER10 has instructions of 8 bytes: their first half supplies 18 more bits, and a bit that makes
 * the address relative to the instruction. Code for POWER10 needs no r2.
 *
 * Bodies seen in real images (clang 14 to 22, gcc 12; GNU ld and lld); each takes one line of each
 * column:
 *     [addis 2,12,H; addi 2,2,L]   addis 3,2,h; addi 3,3,l        blr
 *     [lis 2,H; addi 2,2,L]        nop; addi 3,2,l
 *     [ld 2,-8(12); add 2,2,12]    addis 3,2,h; ld 3,l(3)
 *                                  nop; ld 3,l(2)
 *                                  ld 3,l(2)
 *                                  pla 3,X
 *                                  pld 3,X
 * lis is used in images at a fixed address, ld 2 with -mcmodel=large. For a frame, gcc puts std 31,
 * stdu 1, mr 31,1, addi 1,31, ld 31 and nops between all of these; without optimization it forms
 * the address in r9, and a mr 3,9 follows.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>

#define INSTRUCTION_SIZE 4
#define PREFIXED_SIZE    8

/* The size in bytes of what precedes the local entry, which calls from the same image skip. */
#define LOCAL_ENTRY 8

#define NO_REGISTER 32

/* r3 to r12: a bit each. (r0 cannot be a base register, and is not followed.) */
#define CHANGED_BY_CALLS UINT32_C(0x1ff8)

/* More instructions than any body with a frame has. */
#define BODY_INSTRUCTIONS 16

/* Primary opcodes. */
#define OPCODE_PREFIX 1
#define OPCODE_LXVP   6
#define OPCODE_ADDI   14
#define OPCODE_ADDIS  15
#define OPCODE_BC     16
#define OPCODE_B      18
#define OPCODE_ORI    24
#define OPCODE_LWZ    32 /* from here to stfdu: loads and stores with an offset of 16 bits */
#define OPCODE_STFDU  55
#define OPCODE_LQ     56
#define OPCODE_LXSD   57 /* and pld, behind a prefix */
#define OPCODE_LD     58
#define OPCODE_STXSD  61 /* and lxv, stxv */
#define OPCODE_STD    62

#define NOP           0x60000000u /* ori 0,0,0 */
#define NOP_GROUP     0x60420000u /* ori 2,2,0: ends a group of instructions */
#define BLR           0x4e800020u
#define BCTR          0x4e800420u
#define BCTRL         0x4e800421u
#define LD_2_12       0xe84cfff8u /* ld 2,-8(12) */
#define ADD_2_12      0x7c426214u /* add 2,2,12 */

static unsigned opcode_of(uint32_t instruction)
{
    return instruction >> 26;
}

/* RT, where most instructions put their result, and RA. */
static unsigned target_of(uint32_t instruction)
{
    return instruction >> 21 & 31;
}

static unsigned base_of(uint32_t instruction)
{
    return instruction >> 16 & 31;
}

static uint64_t low_16(uint32_t instruction)
{
    return (uint64_t)(int64_t)(int16_t)instruction;
}

/* The value that an addis adds. */
static uint64_t high_16(uint32_t instruction)
{
    return low_16(instruction) << 16;
}

static bool is_addi(uint32_t instruction, unsigned to, unsigned from)
{
    return opcode_of(instruction) == OPCODE_ADDI && target_of(instruction) == to &&
           base_of(instruction) == from;
}

static bool is_addis(uint32_t instruction, unsigned to, unsigned from)
{
    return opcode_of(instruction) == OPCODE_ADDIS && target_of(instruction) == to &&
           base_of(instruction) == from;
}

static bool is_ld(uint32_t instruction, unsigned to, unsigned from)
{
    return opcode_of(instruction) == OPCODE_LD && (instruction & 3) == 0 &&
           target_of(instruction) == to && base_of(instruction) == from;
}

/* True if the two instructions at an offset are those of a global entry: *base is the r2 that they
 * compute. */
static bool global_entry(const struct code *code, uint64_t offset, uint64_t *base)
{
    uint32_t first, second;
    struct bytes distance;

    if (!instruction_at(code->bytes, offset, &first) ||
        !instruction_at(code->bytes, offset + INSTRUCTION_SIZE, &second))
        return false;
    if ((is_addis(first, 2, 12) || is_addis(first, 2, 0)) && is_addi(second, 2, 2)) {
        *base =
            (base_of(first) == 12 ? code->address + offset : 0) + high_16(first) + low_16(second);
        return true;
    }
    if (first == LD_2_12 && second == ADD_2_12) {
        /* The distance is stored before the function; a view of the function alone does not include
         * it. */
        *base = offset >= 8 && bytes_slice(code->bytes, offset - 8, 8, &distance)
                    ? code->address + offset + load_u64(distance.data, false)
                    : code->base;
        return true;
    }
    return false;
}

/* ---- instructions of 8 bytes ---- */

/* An instruction of the types 8LS and MLS, with an operand of 34 bits: *immediate. The suffix is
 * nearly the same as the instruction of 4 bytes. */
static bool prefixed_at(struct bytes code, uint64_t offset, uint32_t *prefix, uint32_t *suffix,
                        uint64_t *immediate)
{
    if (!instruction_at(code, offset, prefix) || opcode_of(*prefix) != OPCODE_PREFIX ||
        (*prefix >> 24 & 1) != 0 || !instruction_at(code, offset + INSTRUCTION_SIZE, suffix))
        return false;
    *immediate = signed_field((uint64_t)(*prefix & 0x3ffff) << 16 | (*suffix & 0xffff), 34);
    return true;
}

#define PREFIX_RELATIVE (1u << 20) /* R: relative to the instruction */
#define PREFIX_PADDI    0x06000000u
#define PREFIX_PLD      0x04000000u
#define OPCODE_PLD      OPCODE_LXSD

/* ---- accessors ---- */

/* Instructions that set up and leave a frame, and nops. */
static bool is_of_frame(uint32_t instruction)
{
    return instruction == NOP || instruction == NOP_GROUP ||
           (instruction & 0xffff0003) == 0xfbe10000 || /* std 31,X(1) */
           (instruction & 0xffff0003) == 0xf8210001 || /* stdu 1,X(1) */
           instruction == 0x7c3f0b78 ||                /* mr 31,1 */
           is_addi(instruction, 1, 31) || is_ld(instruction, 31, 1);
}

/* An instruction that forms an address from one in the register `from`, or loads from it. */
static bool is_low_maker(uint32_t instruction, unsigned from)
{
    unsigned to = target_of(instruction);

    return (to == 3 || to == 9) && (is_addi(instruction, to, from) || is_ld(instruction, to, from));
}

/* Takes the instructions that form the address, and sets accessor->patch_...; *to is the register
 * that they form it in. */
static bool take_maker(const struct code *code, uint64_t base, uint64_t offset,
                       struct accessor *accessor, unsigned *to)
{
    uint32_t first, second;
    uint64_t immediate;

    *accessor = (struct accessor){.patch_offset = (size_t)offset, .patch_size = PREFIXED_SIZE};
    if (prefixed_at(code->bytes, offset, &first, &second, &immediate)) {
        *to = target_of(second);
        accessor->form = opcode_of(second) == OPCODE_PLD ? ACCESSOR_LOAD : ACCESSOR_PC_RELATIVE;
        accessor->value = code->address + offset + immediate;
        first &= ~0x3ffffu;
        return base_of(second) == 0 &&
               ((first == (PREFIX_PADDI | PREFIX_RELATIVE) && opcode_of(second) == OPCODE_ADDI) ||
                (first == (PREFIX_PLD | PREFIX_RELATIVE) && opcode_of(second) == OPCODE_PLD));
    }
    if (base == 0 || !instruction_at(code->bytes, offset, &first))
        return false;
    accessor->value = base;
    if (is_low_maker(first, 2)) {
        accessor->patch_size = INSTRUCTION_SIZE;
        second = first;
    } else if (!instruction_at(code->bytes, offset + INSTRUCTION_SIZE, &second)) {
        return false;
    } else if (is_addis(first, target_of(first), 2)) {
        accessor->value += high_16(first);
        if (!is_low_maker(second, target_of(first)) || target_of(second) != target_of(first))
            return false;
    } else if (first != NOP || !is_low_maker(second, 2)) {
        return false;
    }
    *to = target_of(second);
    accessor->value += low_16(second);
    accessor->form = opcode_of(second) == OPCODE_LD ? ACCESSOR_LOAD : ACCESSOR_PC_RELATIVE;
    return true;
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    uint64_t base = code->base, offset = 0;
    bool has_address = false;
    uint32_t instruction;
    unsigned to = 0;

    if (global_entry(code, 0, &base))
        offset = LOCAL_ENTRY;
    for (unsigned i = 0; i < BODY_INSTRUCTIONS; i++) {
        if (!has_address && take_maker(code, base, offset, accessor, &to)) {
            has_address = true;
            offset += accessor->patch_size;
            continue;
        }
        if (!instruction_at(code->bytes, offset, &instruction))
            return false;
        offset += INSTRUCTION_SIZE;
        if (instruction == BLR && has_address && to == 3) {
            accessor->size = (size_t)offset;
            return true;
        }
        if (has_address && to == 9 && instruction == 0x7d234b78) /* mr 3,9 */
            to = 3;
        else if (!is_of_frame(instruction))
            return false;
    }
    return false;
}

/* Encodes an addis and an addi, or the addi alone if there is no room; or a paddi. */
static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t base = code->base, offset = accessor->patch_offset, distance, high, immediate;
    uint32_t first, second, addi;
    unsigned to = 0;
    struct accessor again;

    global_entry(code, 0, &base);
    if (!take_maker(code, base, offset, &again, &to))
        return false;
    addi = (uint32_t)OPCODE_ADDI << 26 | to << 21;
    if (prefixed_at(code->bytes, offset, &first, &second, &immediate)) {
        distance = value - (code->address + offset);
        store_u32(patch, PREFIX_PADDI | PREFIX_RELATIVE | (uint32_t)(distance >> 16 & 0x3ffff),
                  false);
        store_u32(patch + INSTRUCTION_SIZE, addi | (uint32_t)(distance & 0xffff), false);
        return distance + (UINT64_C(1) << 33) < UINT64_C(1) << 34;
    }
    distance = value - base;
    if (accessor->patch_size == INSTRUCTION_SIZE) {
        store_u32(patch, addi | 2u << 16 | (uint32_t)(distance & 0xffff), false);
        return distance + 0x8000 < 0x10000;
    }
    high = distance + 0x8000;
    store_u32(patch,
              (uint32_t)OPCODE_ADDIS << 26 | to << 21 | 2u << 16 | (uint32_t)(high >> 16 & 0xffff),
              false);
    store_u32(patch + INSTRUCTION_SIZE, addi | to << 16 | (uint32_t)(distance & 0xffff), false);
    return high + (UINT64_C(1) << 31) < UINT64_C(1) << 32;
}

/* ---- references ---- */

/* The low half that an addi, load or store with this base register supplies; false for any other
 * instruction. (An ori supplies one only if the high half is a whole address.) */
static bool low_half(uint32_t instruction, unsigned base, uint64_t *low)
{
    unsigned opcode = opcode_of(instruction);

    *low = low_16(instruction);
    if (base_of(instruction) != base)
        return false;
    if (opcode == OPCODE_ADDI || (opcode >= OPCODE_LWZ && opcode <= OPCODE_STFDU))
        return true;
    /* ld, std and their like have an opcode extension in the low bits: 2 bits, or 4 if 16 bytes or
     * more are loaded or stored (lq; lxv and stxv; lxvp and stxvp). */
    if (opcode == OPCODE_LQ || opcode == OPCODE_LXVP ||
        (opcode == OPCODE_STXSD && (instruction & 3) == 1))
        *low &= ~UINT64_C(15);
    else if (opcode == OPCODE_LD || opcode == OPCODE_STD || opcode == OPCODE_LXSD ||
             opcode == OPCODE_STXSD)
        *low &= ~UINT64_C(3);
    else
        return false;
    return true;
}

/* Of the instructions with primary opcode 31 that compilers use most, the extended opcodes: loads
 * and arithmetic put their result into RT, logic into RA. */
static const uint16_t writes_target[] = {
    21, 23,  53,  87,  279, 341, 343, /* ldx, lwzx, ldux, lbzx, lhzx, lwax, lhax */
    40, 104, 233, 235, 266,           /* subf, neg, mulld, mullw, add */
};
static const uint16_t writes_base[] = {
    24,  26,  27,  28,  58,  316, 444, /* slw, cntlzw, sld, and, cntlzd, xor, or */
    536, 539, 824, 922, 954, 986,      /* srw, srd, srawi, extsh, extsb, extsw */
};

static bool is_listed(unsigned extended, const uint16_t *list, size_t count)
{
    while (count != 0 && *list != extended)
        list++, count--;
    return count != 0;
}

/* The register that the instruction surely overwrites; knows only the instructions that compilers
 * use most. NO_REGISTER for all others. */
static unsigned written(uint32_t instruction)
{
    unsigned opcode = opcode_of(instruction), extended = instruction >> 1 & 0x3ff;

    if ((opcode >= 7 && opcode <= OPCODE_ADDIS && opcode != 9 && opcode != 10 && opcode != 11) ||
        (opcode >= OPCODE_LWZ && opcode <= 35) || (opcode >= 40 && opcode <= 43) ||
        opcode == OPCODE_LD)
        return target_of(instruction);
    if (opcode == 21 || (opcode >= OPCODE_ORI && opcode <= 30)) /* rlwinm, ori to andis., rldicl */
        return base_of(instruction);
    if (opcode == 31 &&
        is_listed(extended, writes_target, sizeof(writes_target) / sizeof(uint16_t)))
        return target_of(instruction);
    if (opcode == 31 && is_listed(extended, writes_base, sizeof(writes_base) / sizeof(uint16_t)))
        return base_of(instruction);
    return NO_REGISTER;
}

/* Branches that return here: bl, and bctrl. */
static bool is_call(uint32_t instruction)
{
    return (instruction & 0xfc000001) == 0x48000001 || instruction == BCTRL;
}

/* Finds where a branch or call leads; false for other instructions. */
static bool is_branch(uint32_t instruction, uint64_t address, uint64_t *to)
{
    bool is_short = opcode_of(instruction) == OPCODE_BC;
    uint64_t distance =
        is_short ? low_16(instruction & 0xfffc) : signed_field(instruction & 0x3fffffc, 26);

    if (!is_short && opcode_of(instruction) != OPCODE_B)
        return false;
    *to = distance + ((instruction & 2) != 0 ? 0 : address);
    return true;
}

/* ---- high halves ---- */

static void decode_flow(const struct code *code, uint64_t offset,
                        struct flow_instruction *instruction)
{
    unsigned from, to;
    uint32_t bits;

    if (!instruction_at(code->bytes, offset, &bits))
        return;
    instruction->size = INSTRUCTION_SIZE;
    from = target_of(bits);
    to = base_of(bits);
    if (written(bits) != NO_REGISTER)
        instruction->overwritten = UINT32_C(1) << written(bits);
    instruction->calls = is_call(bits);
    if (instruction->calls)
        return;
    if (low_half(bits, to, &instruction->low)) {
        instruction->base = to;
    } else if (opcode_of(bits) == OPCODE_ORI) { /* its register fields are in the opposite order */
        instruction->base = from;
        instruction->low = bits & 0xffff;
    }
    /* mr is an or of a register with itself. */
    if (opcode_of(bits) == 31 && (bits >> 1 & 0x3ff) == 444 && (bits >> 11 & 31) == from) {
        instruction->passed_from = UINT32_C(1) << from;
        instruction->passed_to = to;
    }
    if (opcode_of(bits) == 31 && (bits >> 1 & 0x3ff) == 266) { /* add */
        instruction->passed_from = UINT32_C(1) << to | UINT32_C(1) << (bits >> 11 & 31);
        instruction->passed_to = from;
    }
    instruction->slot = low_16(bits);
    if (opcode_of(bits) == OPCODE_STD && (bits & 3) == 0 && to == 1)
        instruction->stored[0] = from;
    if (is_ld(bits, from, 1))
        instruction->loaded[0] = from;
    instruction->branches = is_branch(bits, offset, &instruction->to);
    instruction->goes_anywhere = bits == BCTR;
    instruction->is_end = bits == BLR || bits == BCTR || opcode_of(bits) == OPCODE_B;
}

static bool is_function(const struct code *code, uint64_t offset)
{
    uint64_t base;

    return global_entry(code, offset, &base);
}

/* An ori does not add its immediate but sets bits. */
static bool half_refers(const struct flow_half *half, uint64_t offset,
                        const struct flow_instruction *instruction)
{
    uint32_t bits;

    return instruction_at(half->search->code->bytes, offset, &bits) &&
           reference_counts(half->search->target, opcode_of(bits) == OPCODE_ORI
                                                      ? half->high | instruction->low
                                                      : half->high + instruction->low);
}

static const struct flow flow = {
    .unit = INSTRUCTION_SIZE,
    .decode = decode_flow,
    .refers = half_refers,
    .changed_by_calls = CHANGED_BY_CALLS,
    .uses_one_value = true,
    .is_function = is_function,
};

/* True if the instruction at `offset` refers to the target by a distance from r2, or by an address.
 * An addis leads to it if what it forms is followed there, or gets further than that. A lis may
 * just as well load a number: then only an address that is formed from it counts. */
static bool refers_by_base(struct search *search, uint64_t offset, uint32_t bits, uint64_t base)
{
    const struct reference_target *target = search->target;
    bool is_lis = base_of(bits) == 0;
    uint64_t high = high_16(bits), low;
    unsigned end;

    if (opcode_of(bits) != OPCODE_ADDIS)
        return base != 0 && !is_addi(bits, 2, 2) && low_half(bits, 2, &low) &&
               reference_counts(target, base + low);
    if (base_of(bits) == 2 && base != 0)
        high += base;
    else if (!is_lis || !target->absolute || target_of(bits) == 2)
        return false;
    /* The high half reaches from 32 KiB before it to 64 KiB behind it (with an ori). */
    if (target->first - (high - 0x8000) >= 0x18000 && high - 0x8000 - target->first >= target->size)
        return false;
    if (is_lis && reference_counts(target, high))
        return true;
    end = flow_follow(&flow, &(struct flow_half){search, offset, target_of(bits), high});
    return (end & FLOW_COUNTS) != 0 || ((end & FLOW_LEFT) != 0 && !is_lis);
}

static bool refers_by_prefixed(const struct code *code, uint64_t offset,
                               const struct reference_target *target)
{
    uint32_t prefix, suffix;
    uint64_t immediate;

    if (!prefixed_at(code->bytes, offset, &prefix, &suffix, &immediate) || base_of(suffix) != 0)
        return false;
    if ((prefix & PREFIX_RELATIVE) != 0)
        return reference_counts(target, code->address + offset + immediate);
    return target->absolute && reference_counts(target, immediate);
}

/* The value of r2 at an offset, as the last function that starts before it sets it. */
static uint64_t base_at(const struct code *code, uint64_t offset)
{
    uint64_t base = code->base;

    while (offset >= INSTRUCTION_SIZE) {
        offset -= INSTRUCTION_SIZE;
        if (global_entry(code, offset, &base))
            break;
    }
    return base;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    uint64_t start = first_instruction(code, *position, INSTRUCTION_SIZE);
    struct search search = {code, target, FLOW_STEPS_START};
    uint64_t base = base_at(code, start), to;
    uint32_t instruction;

    for (uint64_t i = start; instruction_at(code->bytes, i, &instruction); i += INSTRUCTION_SIZE) {
        search.steps_left += FLOW_STEPS_PER_INSTRUCTION;
        global_entry(code, i, &base);
        if (refers_by_base(&search, i, instruction, code->base) ||
            (base != code->base && refers_by_base(&search, i, instruction, base)) ||
            refers_by_prefixed(code, i, target) ||
            (target->called && is_branch(instruction, code->address + i, &to) &&
             reference_counts(target, to))) {
            *position = i;
            return true;
        }
    }
    return false;
}

const struct machine machine_ppc64le = {
    .name = "ppc64le",
    .elf_machine = EM_PPC64,
    .address_size = 8,
    .base_symbol = ".TOC.",
    .local_entry = LOCAL_ENTRY,
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_PPC64_NONE,
            .relative = R_PPC64_RELATIVE,
            .absolute = R_PPC64_ADDR64,
            .irelative = R_PPC64_IRELATIVE,
            .no_address = {R_PPC64_DTPMOD64, R_PPC64_DTPREL64, R_PPC64_TPREL64},
        },
    .look_ahead = FLOW_RANGE(INSTRUCTION_SIZE) + PREFIXED_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
