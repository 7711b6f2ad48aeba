/*
 * s390x (z/Architecture Principles of Operation, chapter 7; the z/Architecture ELF psABI).
 *
 * Instructions are 2, 4 or 6 bytes at multiples of 2. An address takes one instruction of 6 bytes
 * (format RIL): its operand is half the distance from the instruction itself, in 32 bits. So it
 * reaches 4 GiB either way, but only even addresses. One such instruction forms an address (larl);
 * others load, store, compare or prefetch what is at the address. Everything is big-endian.
 *
 * The middle of an instruction with %r12 as a base, together with the next one, looks like such an
 * instruction. So a search steps from instruction to instruction by their lengths, which is
 * possible because there is no data among the code. At its starting point it takes each unit for
 * the possible start of an instruction; these alternatives converge after a few instructions.
 *
 * The address of an object that may be odd is loaded from the GOT (lgrl), as are the bounds of
 * sections; or, in code from gcc, its distance from the GOT is loaded from read-only data and added
 * to the GOT's address. The former is found by the relocation of the slot; the latter is not found
 * at all, but clang never generates it.
 *
 * Bodies seen in real images (clang 14 to 22, gcc 12; GNU ld, and lld, which turns lgrl into larl
 * if the address is even and known). The instructions in brackets are optional; those in the middle
 * form the address in %r2:
 *     [stmg %r11,%r15,88(%r15); lgr %r11,%r15]  larl or lgrl  [lmg %r11,%r15,88(%r11)]  br %r14
 *     [ldgr %f0,%r11; lgr %r11,%r15]            larl or lgrl  [lgdr %r11,%f0]           br %r14
 * gcc without optimization forms it in %r1, and an lgr %r2,%r1 follows.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>
#include <string.h>

#define INSTRUCTION_UNIT 2
/* Alternative starts have converged after this many bytes. */
#define SYNCHRONIZE 128
#define RIL_SIZE    6

/* The first byte and the low half of the second one; its high half is a register or a mask. */
#define OPCODE_LARL  0xc00
#define OPCODE_BRCL  0xc04
#define OPCODE_BRASL 0xc05
#define OPCODE_LGRL  0xc48
#define OPCODE_BRC   0xa74
#define OPCODE_BRAS  0xa75

/* ---- accessors ---- */

/* The instructions before and behind the one that forms the address. */
struct frame {
    struct encoding head, tail;
};

static const struct frame frames[] = {
    {{"\xeb\xbf\xf0\x58\x00\x24\xb9\x04\x00\xbf", 10}, {"\xeb\xbf\xb0\x58\x00\x04", 6}},
    {{"\xb3\xc1\x00\x0b\xb9\x04\x00\xbf", 8}, {"\xb3\xcd\x00\xb0", 4}},
    {{"", 0}, {"", 0}},
};

static const struct encoding move_result = {"\xb9\x04\x00\x21", 4}; /* lgr %r2,%r1 */
static const struct encoding ret = {"\x07\xfe", 2};                 /* br %r14 */

static unsigned opcode_of(const uint8_t *instruction)
{
    return (unsigned)instruction[0] << 4 | (instruction[1] & 0xf);
}

/* The address to which an instruction of format RIL at `address` refers. */
static uint64_t ril_target(const uint8_t *instruction, uint64_t address)
{
    return address + 2 * (uint64_t)(int64_t)(int32_t)load_u32(instruction + 2, true);
}

/* Takes the instruction that forms the address, and the one that moves it into %r2. */
static bool take_maker(const struct code *code, uint64_t *position, struct accessor *accessor)
{
    struct bytes maker;
    unsigned opcode, destination;

    if (!bytes_slice(code->bytes, *position, RIL_SIZE, &maker))
        return false;
    opcode = opcode_of(maker.data);
    destination = maker.data[1] >> 4;
    if ((opcode != OPCODE_LARL && opcode != OPCODE_LGRL) || (destination != 1 && destination != 2))
        return false;
    *accessor = (struct accessor){
        .form = opcode == OPCODE_LGRL ? ACCESSOR_LOAD : ACCESSOR_PC_RELATIVE,
        .value = ril_target(maker.data, code->address + *position),
        .patch_offset = (size_t)*position,
        .patch_size = RIL_SIZE,
    };
    *position += RIL_SIZE;
    return destination == 2 || take_encoding(code->bytes, &move_result, position);
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    const struct frame *frame = frames;
    uint64_t position = 0;

    while (!take_encoding(code->bytes, &frame->head, &position))
        frame++;
    if (!take_maker(code, &position, accessor) ||
        !take_encoding(code->bytes, &frame->tail, &position) ||
        !take_encoding(code->bytes, &ret, &position))
        return false;
    accessor->size = (size_t)position;
    return true;
}

/* Encodes a larl into the same register as before. */
static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    uint64_t distance = value - (code->address + accessor->patch_offset);
    int64_t halves = (int64_t)distance / 2;
    struct bytes old;

    if (!bytes_slice(code->bytes, accessor->patch_offset, RIL_SIZE, &old))
        return false;
    patch[0] = OPCODE_LARL >> 4;
    patch[1] = (uint8_t)((old.data[1] & 0xf0) | (OPCODE_LARL & 0xf));
    store_u32(patch + 2, (uint32_t)halves, true);
    return distance % 2 == 0 && halves == (int32_t)halves;
}

/* ---- references ---- */

/* Instructions, except branches, with a memory operand relative to themselves. In each group, a bit
 * mask of the low halves of their second bytes. */
static bool refers_to_data(unsigned opcode)
{
    switch (opcode >> 4) {
    case 0xc0: /* larl */
        return opcode == OPCODE_LARL;
    case 0xc4: /* llhrl, lghrl, lhrl, llghrl, sthrl, lgrl, stgrl, lgfrl, lrl, llgfrl, strl */
        return (0xf9f4 >> (opcode & 0xf) & 1) != 0;
    case 0xc6: /* exrl, pfdrl, cghrl, chrl, clghrl, clhrl, cgrl, clgrl, cgfrl, crl, clgfrl, clrl */
        return (0xf5f5 >> (opcode & 0xf) & 1) != 0;
    default:
        return false;
    }
}

/* True if the instruction at an offset, if one starts there, refers to the target. */
static bool refers(const struct code *code, uint64_t offset, const struct reference_target *target)
{
    uint64_t left = code->bytes.size - offset, address = code->address + offset;
    const uint8_t *at = code->bytes.data + offset;
    unsigned opcode;

    if (left < 4)
        return false;
    opcode = opcode_of(at);
    if (opcode == OPCODE_BRC || opcode == OPCODE_BRAS)
        return target->called &&
               reference_counts(target,
                                address + 2 * (uint64_t)(int64_t)(int16_t)load_u16(at + 2, true));
    return left >= RIL_SIZE &&
           (refers_to_data(opcode) ||
            (target->called && (opcode == OPCODE_BRCL || opcode == OPCODE_BRASL))) &&
           reference_counts(target, ril_target(at, address));
}

/* The length of an instruction in units, which its first two bits tell. */
static unsigned length_of(const uint8_t *instruction)
{
    return *instruction < 0x40 ? 1 : *instruction < 0xc0 ? 2 : 3;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    uint64_t start = *position < SYNCHRONIZE ? 0 : *position - SYNCHRONIZE;
    /* Possible starts of instructions: one bit for each unit from the current one on. */
    unsigned starts = 7;

    for (uint64_t i = align_up(code->address + start, INSTRUCTION_UNIT) - code->address;
         i < code->bytes.size; i += INSTRUCTION_UNIT, starts >>= 1) {
        if ((starts & 1) == 0)
            continue;
        starts |= 1u << length_of(code->bytes.data + i);
        if (i >= *position && refers(code, i, target)) {
            *position = i;
            return true;
        }
    }
    return false;
}

const struct machine machine_s390x = {
    .name = "s390x",
    .elf_machine = EM_S390,
    .address_size = 8,
    .big_endian = true,
    .address_unit = 2,
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_390_NONE,
            .relative = R_390_RELATIVE,
            .absolute = R_390_64,
            .irelative = R_390_IRELATIVE,
            .no_address = {R_390_TLS_DTPMOD, R_390_TLS_DTPOFF, R_390_TLS_TPOFF},
        },
    .look_ahead = RIL_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
