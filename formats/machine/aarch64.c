/*
 * AArch64 (Arm Architecture Reference Manual for A-profile, C6.2; AAPCS64).
 *
 * Instructions are 4 bytes at multiples of 4. An address takes two of them: adrp makes that of a
 * page of 4 KiB, and an add or a load brings the rest. So an accessor has two to change, and
 * compilers may put others between the two elsewhere: a search looks many instructions ahead, and
 * takes an adrp whose other half is not found for a reference to its whole page. It ends where the
 * register surely has another value: as long as nothing branches. Two instructions hardly ever make
 * an address by chance.
 *
 * Bodies seen in real images (clang 13 to 22; lld for COFF, ld64.lld for Mach-O):
 *     [bti c]  adrp x0, X; add x0, x0, :lo12:X  ret
 *     [bti c]  adr x0, X; nop  (or nop; adr)    ret
 */
#include "formats/machine/machine.h"

#include <elf.h>

#define INSTRUCTION_SIZE  4
#define BODY_SIZE         12 /* adrp, add, ret */
#define PAGE_SIZE         UINT64_C(4096)

#define INSTRUCTION_BTI_C 0xd503245fu /* bti c */
#define INSTRUCTION_NOP   0xd503201fu /* nop */
#define INSTRUCTION_RET   0xd65f03c0u /* ret */
#define ADD_X0_X0         0x91000000u /* add x0, x0, #0 */
#define ADRP_X0           0x90000000u /* adrp x0, . */

/* Instructions behind an adrp among which its other half is looked for: that of a load is close,
 * any may be far where compilers have moved the adrp out of a loop. */
#define LOOK_AHEAD_LOAD 16
#define LOOK_AHEAD      512

static bool instruction_at(struct bytes code, uint64_t offset, uint32_t *instruction)
{
    struct bytes part;

    if (!bytes_slice(code, offset, INSTRUCTION_SIZE, &part))
        return false;
    *instruction = load_u32(part.data, false);
    return true;
}

static uint64_t sign_extend(uint64_t value, unsigned bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);

    return (value ^ sign) - sign;
}

/* immhi:immlo of adr and adrp: 21 bits. */
static uint64_t address_immediate(uint32_t instruction)
{
    return sign_extend((instruction >> 3 & 0x1ffffc) | (instruction >> 29 & 3), 21);
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

/* What a pair of instructions, of which the first is at `address`, leaves in x0. */
static bool pair_value(uint32_t first, uint32_t second, uint64_t address, uint64_t *value)
{
    /* Both with x0, and the add without a shift. */
    if (is_adrp(first) && (first & 0x1f) == 0 && (second & 0xffc003ff) == ADD_X0_X0) {
        *value = adrp_page(first, address) + (second >> 10 & 0xfff);
        return true;
    }
    /* Linkers for Darwin make this of it where the distance allows. */
    if (is_adr(first) && (first & 0x1f) == 0 && second == INSTRUCTION_NOP) {
        *value = address + address_immediate(first);
        return true;
    }
    if (first == INSTRUCTION_NOP && is_adr(second) && (second & 0x1f) == 0) {
        *value = address + INSTRUCTION_SIZE + address_immediate(second);
        return true;
    }
    return false;
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    uint64_t offset = 0, value;
    uint32_t page, low, last;

    if (!instruction_at(code->bytes, 0, &page))
        return false;
    if (page == INSTRUCTION_BTI_C)
        offset = INSTRUCTION_SIZE;
    if (!instruction_at(code->bytes, offset, &page) ||
        !instruction_at(code->bytes, offset + INSTRUCTION_SIZE, &low) ||
        !instruction_at(code->bytes, offset + 2 * INSTRUCTION_SIZE, &last))
        return false;
    if (last != INSTRUCTION_RET || !pair_value(page, low, code->address + offset, &value))
        return false;
    *accessor = (struct accessor){
        .form = ACCESSOR_PC_RELATIVE,
        .value = value,
        .size = (size_t)offset + BODY_SIZE,
        .patch_offset = (size_t)offset,
        .patch_size = 2 * INSTRUCTION_SIZE,
    };
    return true;
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t address = code->address + accessor->patch_offset;
    uint64_t distance = align_down(value, PAGE_SIZE) - align_down(address, PAGE_SIZE);
    uint32_t pages = (uint32_t)(distance / PAGE_SIZE) & 0x1fffff;

    if (sign_extend(pages, 21) * PAGE_SIZE != distance)
        return false;
    store_u32(patch, ADRP_X0 | (pages & 3) << 29 | (pages >> 2) << 5, false);
    store_u32(patch + INSTRUCTION_SIZE, ADD_X0_X0 | (uint32_t)(value % PAGE_SIZE) << 10, false);
    return true;
}

/* The low 12 bits that an add, a load or a store with this base register brings: false for any
 * other instruction. */
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
    /* The scale is the size, but for vector registers of 128 bits (opc 1x with size 00). */
    *low = immediate << ((instruction & 0xc4800000) == 0x04800000 ? 4 : instruction >> 30);
    return true;
}

/* Branches, exceptions and the like; but not hints, of which nop and the marks of functions are. */
static bool may_branch(uint32_t instruction)
{
    return (instruction & 0x1c000000) == 0x14000000 && (instruction & 0xfffff01f) != 0xd503201f;
}

/* A load of a general register: with an unsigned offset, or with a register as one. */
static bool is_load(uint32_t instruction)
{
    bool is_prefetch = instruction >> 30 == 3 && (instruction >> 23 & 1) != 0;

    if ((instruction & 0x3f000000) != 0x39000000 && (instruction & 0x3f200c00) != 0x38200800)
        return false;
    return (instruction >> 22 & 3) != 0 && !is_prefetch;
}

/* Whether the instruction surely puts another value into the register; of those that do only the
 * ones that compilers make most are known. */
static bool overwrites(uint32_t instruction, uint32_t base)
{
    bool calculates = (instruction & 0x1f800000) == 0x11000000 || /* add, sub: immediate */
                      (instruction & 0x1f000000) == 0x0a000000 || /* logical: register */
                      (instruction & 0x1f000000) == 0x0b000000;   /* add, sub: register */
    /* movn, movz; movk would leave a part. */
    bool moves = (instruction & 0x1f800000) == 0x12800000 && (instruction >> 29 & 3) != 3;

    return (instruction & 0x1f) == base && (calculates || moves || is_load(instruction));
}

/* Where a branch (b) or a call (bl) leads. */
static bool is_branch(uint32_t instruction, uint64_t address, uint64_t *target)
{
    if ((instruction & 0x7c000000) != 0x14000000)
        return false;
    *target = address + sign_extend(instruction & 0x3ffffff, 26) * INSTRUCTION_SIZE;
    return true;
}

/* Whether the adrp at `offset` makes an address that counts. */
static bool adrp_refers(struct bytes code, uint64_t offset, uint64_t page, uint32_t base,
                        const struct reference_target *target)
{
    bool found = false, branched = false;
    uint32_t instruction;
    uint64_t low;

    for (unsigned i = 1; i <= LOOK_AHEAD; i++) {
        if (!instruction_at(code, offset + i * INSTRUCTION_SIZE, &instruction))
            break;
        if (low_half(instruction, base, &low)) {
            found = true;
            if (reference_counts(target, page + low))
                return true;
        }
        if (is_adrp(instruction) && (instruction & 0x1f) == base)
            break;
        if (!branched && (instruction == INSTRUCTION_RET || overwrites(instruction, base)))
            break;
        branched |= may_branch(instruction);
    }
    return !found;
}

/* Where the first instruction at or behind a position is: they are aligned in memory. */
static uint64_t first_instruction(const struct code *code, uint64_t position)
{
    return align_up(code->address + position, INSTRUCTION_SIZE) - code->address;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    uint64_t first = target->first, size = target->size, branched_to;
    uint32_t instruction;

    for (uint64_t i = first_instruction(code, *position);
         instruction_at(code->bytes, i, &instruction); i += INSTRUCTION_SIZE) {
        uint64_t address = code->address + i;
        bool refers = false;

        if (is_adrp(instruction)) {
            uint64_t page = adrp_page(instruction, address);
            refers = size != 0 && page <= first + (size - 1) && first <= page + (PAGE_SIZE - 1) &&
                     adrp_refers(code->bytes, i, page, instruction & 0x1f, target);
        } else if (is_adr(instruction)) {
            refers = reference_counts(target, address + address_immediate(instruction));
        } else if (target->called && is_branch(instruction, address, &branched_to)) {
            refers = reference_counts(target, branched_to);
        }
        if (refers) {
            *position = i;
            return true;
        }
    }
    return false;
}

static bool find_load(const struct code *code, uint64_t *position, uint64_t *target)
{
    uint32_t instruction, other;
    uint64_t low;

    for (uint64_t i = first_instruction(code, *position);
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

/* b, not bl */
static bool follow_jump(const struct code *code, uint64_t *target)
{
    uint32_t instruction;

    return instruction_at(code->bytes, 0, &instruction) && (instruction >> 31) == 0 &&
           is_branch(instruction, code->address, target);
}

const struct machine machine_aarch64 = {
    .name = "AArch64",
    .elf_machine = EM_AARCH64,
    .address_size = 8,
    .page_size = 4096,
    .look_ahead = (LOOK_AHEAD + 1) * INSTRUCTION_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
    .find_load = find_load,
    .follow_jump = follow_jump,
};
