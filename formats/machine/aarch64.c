/*
 * Accessor bodies on AArch64: see accessor.h. The encodings are those of the Arm Architecture
 * Reference Manual for A-profile, C6.2.
 *
 * An address takes two instructions there: adrp makes that of a page of 4 KiB, and an add or a load
 * brings the rest. Compilers may put others between the two, so a search looks many instructions
 * ahead, and takes an adrp whose other half is not found for a reference to its whole page. It ends
 * where the register surely has another value: as long as nothing branches.
 */
#include "formats/machine/aarch64.h"

#define INSTRUCTION_SIZE  4
#define BODY_SIZE         12 /* adrp, add, ret */
#define PAGE_SIZE         UINT64_C(4096)

#define INSTRUCTION_BTI_C 0xd503245fu
#define INSTRUCTION_NOP   0xd503201fu
#define INSTRUCTION_RET   0xd65f03c0u
#define ADD_X0_X0         0x91000000u /* without its immediate */
#define ADRP_X0           0x90000000u

/* Instructions behind an adrp among which its other half is looked for: that of a load is close,
 * any may be far where compilers have moved the adrp out of a loop. */
#define LOOK_AHEAD_LOAD 16
#define LOOK_AHEAD      AARCH64_LOOK_AHEAD

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

bool aarch64_decode(struct bytes code, uint64_t address, struct accessor *accessor)
{
    uint64_t offset = 0, value;
    uint32_t page, low, last;

    if (!instruction_at(code, 0, &page))
        return false;
    if (page == INSTRUCTION_BTI_C)
        offset = INSTRUCTION_SIZE;
    if (!instruction_at(code, offset, &page) ||
        !instruction_at(code, offset + INSTRUCTION_SIZE, &low) ||
        !instruction_at(code, offset + 2 * INSTRUCTION_SIZE, &last))
        return false;
    if (last != INSTRUCTION_RET || !pair_value(page, low, address + offset, &value))
        return false;
    *accessor = (struct accessor){
        .form = ACCESSOR_PC_RELATIVE,
        .value = value,
        .size = (size_t)offset + BODY_SIZE,
        .instruction_offset = (size_t)offset,
        .instruction_size = 2 * INSTRUCTION_SIZE,
    };
    return true;
}

bool aarch64_encode(uint64_t address, uint64_t value, uint8_t instruction[ACCESSOR_INSTRUCTION_MAX])
{
    uint64_t distance = align_down(value, PAGE_SIZE) - align_down(address, PAGE_SIZE);
    uint32_t pages = (uint32_t)(distance / PAGE_SIZE) & 0x1fffff;

    if (sign_extend(pages, 21) * PAGE_SIZE != distance)
        return false;
    store_u32(instruction, ADRP_X0 | (pages & 3) << 29 | (pages >> 2) << 5, false);
    store_u32(instruction + INSTRUCTION_SIZE, ADD_X0_X0 | (uint32_t)(value % PAGE_SIZE) << 10,
              false);
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
    *target = address + sign_extend(instruction & 0x3ffffff, 26) * INSTRUCTION_SIZE;
    return (instruction & 0x7c000000) == 0x14000000;
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

bool aarch64_find_reference(struct bytes code, uint64_t address,
                            const struct reference_target *target, uint64_t *position)
{
    uint64_t first = target->first, size = target->size, branched_to;
    uint32_t instruction;
    /* Instructions are aligned in memory. */
    uint64_t start = align_up(address + *position, INSTRUCTION_SIZE) - address;

    for (uint64_t i = start; instruction_at(code, i, &instruction); i += INSTRUCTION_SIZE) {
        bool refers = false;

        if (is_adrp(instruction)) {
            uint64_t page = adrp_page(instruction, address + i);
            refers = size != 0 && page <= first + (size - 1) && first <= page + (PAGE_SIZE - 1) &&
                     adrp_refers(code, i, page, instruction & 0x1f, target);
        } else if (is_adr(instruction)) {
            refers = reference_counts(target, address + i + address_immediate(instruction));
        } else if (target->called && is_branch(instruction, address + i, &branched_to)) {
            refers = reference_counts(target, branched_to);
        }
        if (refers) {
            *position = i;
            return true;
        }
    }
    return false;
}

bool aarch64_find_load(struct bytes code, uint64_t address, uint64_t *position, uint64_t *target)
{
    uint32_t instruction, other;
    uint64_t start = align_up(address + *position, INSTRUCTION_SIZE) - address;
    uint64_t low;

    for (uint64_t i = start; instruction_at(code, i, &instruction); i += INSTRUCTION_SIZE) {
        if (!is_adrp(instruction))
            continue;
        for (unsigned ahead = 1; ahead <= LOOK_AHEAD_LOAD; ahead++) {
            if (!instruction_at(code, i + ahead * INSTRUCTION_SIZE, &other))
                break;
            /* ldr, 64 bits, unsigned offset */
            if ((other & 0xffc00000) != 0xf9400000 || !low_half(other, instruction & 0x1f, &low))
                continue;
            *target = adrp_page(instruction, address + i) + low;
            *position = i + INSTRUCTION_SIZE;
            return true;
        }
    }
    return false;
}

bool aarch64_follow_jump(struct bytes code, uint64_t address, uint64_t *target)
{
    uint32_t instruction;

    return instruction_at(code, 0, &instruction) && (instruction >> 31) == 0 &&
           is_branch(instruction, address, target);
}
