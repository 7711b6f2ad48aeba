/*
 * x86-64 and i386 (Intel 64 manual, volume 2; System V psABI, Microsoft's x64 ABI).
 *
 * Instructions have any length and may start anywhere. x86-64 makes addresses in one instruction,
 * relative to the next one (%rip) or, in images at a fixed address, as an immediate: an accessor
 * has one to change, and a search looks at every four bytes that may be an operand. Since any four
 * bytes lead somewhere, they count only behind the opcode of an instruction that makes, loads or
 * compares, and a large range is still hit by chance.
 *
 * i386 (COFF) has no operands relative to %eip but those of calls and jumps. Its addresses are
 * immediates, each of which has a base relocation: only calls are searched for.
 *
 * Bodies seen in real images (clang 13 to 22, GNU ld and lld), where the instructions in brackets
 * come and go with compiler options; of `makers` below one is in the middle:
 *     [endbr64] [push %rbp; mov %rsp,%rbp]  makes X in %rax  [pop %rbp]  ret
 *     [endbr32] [push %ebp; mov %esp,%ebp]  mov $X,%eax      [pop %ebp]  ret
 */
#include "formats/machine/machine.h"

#include <elf.h>
#include <string.h>

/* ---- accessors ---- */

/* A few bytes of code. */
struct encoding {
    const char *bytes;
    size_t size;
};

/* Instructions that make the address: the opcode, with the operand behind it. */
struct maker {
    struct encoding opcode;
    size_t operand_size;
    enum accessor_form form;
    bool is_sign_extended;
};

static const struct maker makers_64[] = {
    {{"\x48\x8d\x05", 3}, 4, ACCESSOR_PC_RELATIVE, true}, /* lea disp32(%rip),%rax */
    {{"\x48\x8b\x05", 3}, 4, ACCESSOR_LOAD, true},        /* mov disp32(%rip),%rax */
    {{"\x48\xc7\xc0", 3}, 4, ACCESSOR_IMMEDIATE, true},   /* mov $imm32,%rax */
    {{"\xb8", 1}, 4, ACCESSOR_IMMEDIATE, false},          /* mov $imm32,%eax */
    {{"\x48\xb8", 2}, 8, ACCESSOR_IMMEDIATE, false},      /* movabs $imm64,%rax */
    {{NULL, 0}, 0, 0, false},
};

static const struct maker makers_32[] = {
    {{"\xb8", 1}, 4, ACCESSOR_IMMEDIATE, false}, /* mov $imm32,%eax */
    {{NULL, 0}, 0, 0, false},
};

static const struct encoding endbr64 = {"\xf3\x0f\x1e\xfa", 4};
static const struct encoding endbr32 = {"\xf3\x0f\x1e\xfb", 4};

static const struct encoding frames_64[] = {
    {"\x55\x48\x89\xe5", 4}, /* push %rbp; mov %rsp,%rbp */
    {NULL, 0},
};

static const struct encoding frames_32[] = {
    {"\x55\x89\xe5", 3}, /* push %ebp; mov %esp,%ebp */
    {"\x55\x8b\xec", 3}, /* the same, in MSVC's encoding */
    {NULL, 0},
};

static const struct encoding pop_frame = {"\x5d", 1}; /* pop %rbp */
static const struct encoding ret = {"\xc3", 1};       /* ret */

/* What code starts at a position with; *position is then behind it. */
static bool take(struct bytes code, const struct encoding *encoding, uint64_t *position)
{
    struct bytes part;

    if (!bytes_slice(code, *position, encoding->size, &part) ||
        memcmp(part.data, encoding->bytes, encoding->size) != 0)
        return false;
    *position += encoding->size;
    return true;
}

static bool take_operand(struct bytes code, const struct maker *maker, uint64_t *position,
                         uint64_t *value)
{
    struct bytes operand;

    if (!bytes_slice(code, *position, maker->operand_size, &operand))
        return false;
    *value = maker->operand_size == 8  ? load_u64(operand.data, false)
             : maker->is_sign_extended ? (uint64_t)(int64_t)(int32_t)load_u32(operand.data, false)
                                       : load_u32(operand.data, false);
    *position += maker->operand_size;
    return true;
}

static bool decode(const struct code *code, const struct encoding *endbr,
                   const struct encoding *frame, const struct maker *maker,
                   struct accessor *accessor)
{
    uint64_t position = 0, start, value;

    take(code->bytes, endbr, &position);
    while (frame->size != 0 && !take(code->bytes, frame, &position))
        frame++;
    start = position;
    while (maker->operand_size != 0 && !take(code->bytes, &maker->opcode, &position))
        maker++;
    if (maker->operand_size == 0 || !take_operand(code->bytes, maker, &position, &value))
        return false;
    *accessor = (struct accessor){
        .form = maker->form,
        .value = maker->form == ACCESSOR_IMMEDIATE ? value : code->address + position + value,
        .patch_offset = (size_t)start,
        .patch_size = (size_t)(position - start),
    };
    if ((frame->size != 0 && !take(code->bytes, &pop_frame, &position)) ||
        !take(code->bytes, &ret, &position))
        return false;
    accessor->size = (size_t)position;
    return true;
}

static bool decode_64(const struct code *code, struct accessor *accessor)
{
    return decode(code, &endbr64, frames_64, makers_64, accessor);
}

static bool decode_32(const struct code *code, struct accessor *accessor)
{
    return decode(code, &endbr32, frames_32, makers_32, accessor);
}

/* The operand changes; and a load of a slot becomes a lea of the address itself, from which it
 * differs in one opcode byte. */
static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    size_t size = accessor->patch_size;
    uint64_t next = code->address + accessor->patch_offset + size;
    uint8_t *operand = patch + size - 4;
    struct bytes old;

    if (!bytes_slice(code->bytes, accessor->patch_offset, size, &old))
        return false;
    memcpy(patch, old.data, size);
    if (size == 10) { /* movabs */
        store_u64(patch + 2, value, false);
        return true;
    }
    if (accessor->form != ACCESSOR_IMMEDIATE) {
        patch[1] = 0x8d; /* lea */
        value -= next;
    }
    store_u32(operand, (uint32_t)value, false);
    return size == 5 ? value <= UINT32_MAX : value == (uint64_t)(int64_t)(int32_t)value;
}

/* ---- references ---- */

/* Opcodes of two bytes, of which the first is 0f: movzx, movsx, and vector loads. */
static bool is_long_load(uint8_t opcode)
{
    return (opcode & 0xf6) == 0xb6 || opcode == 0x10 || opcode == 0x28 || opcode == 0x6f;
}

/* Whether the bytes before `end` are the opcode of an instruction that forms, loads or compares.
 * Code bytes are no random numbers, and a looser look finds many places that only seem to refer. */
static bool ends_in_opcode(const uint8_t *end, uint64_t before)
{
    if (before >= 1 && (end[-1] == 0x8d || end[-1] == 0x8b))
        return true;
    return before >= 2 && (((end[-2] & 0xf8) == 0x48 && (end[-1] == 0x39 || end[-1] == 0x3b)) ||
                           (end[-2] == 0x0f && is_long_load(end[-1])));
}

/* An operand relative to %rip: ModRM mod 00, r/m 101. */
static bool is_pc_relative(const uint8_t *field, uint64_t before)
{
    return before >= 1 && (field[-1] & 0xc7) == 0x05 && ends_in_opcode(field - 1, before - 1);
}

/* mov $imm32 to a register (32 bits, or 64 with REX.W), push $imm32, cmp $imm32 with REX.W, or an
 * operand at a fixed address (ModRM mod 00, r/m 100, and a SIB byte without base and index). */
static bool is_immediate(const uint8_t *field, uint64_t before)
{
    if (before >= 1 && ((field[-1] & 0xf8) == 0xb8 || field[-1] == 0x68))
        return true;
    if (before >= 2 && (field[-2] & 0xf8) == 0x48 && field[-1] == 0x3d)
        return true;
    if (before >= 2 && field[-1] == 0x25 && (field[-2] & 0xc7) == 0x04 &&
        ends_in_opcode(field - 2, before - 2))
        return true;
    return before >= 3 && (field[-3] & 0xf8) == 0x48 &&
           ((field[-2] == 0xc7 && (field[-1] & 0xf8) == 0xc0) ||
            (field[-2] == 0x81 && (field[-1] & 0xf8) == 0xf8));
}

/* call, jmp or a conditional jump. */
static bool is_call(const uint8_t *field, uint64_t before)
{
    return (before >= 1 && (field[-1] & 0xfe) == 0xe8) ||
           (before >= 2 && field[-2] == 0x0f && (field[-1] & 0xf0) == 0x80);
}

/* Who is looked for, in code that is loaded at `address`. */
struct search {
    uint64_t address;
    const struct reference_target *target;
    bool is_64_bit;
};

/* Whether the four bytes at a place are an operand that leads to the target. */
static bool refers(const struct search *search, const uint8_t *field, uint64_t place)
{
    const struct reference_target *target = search->target;
    uint32_t value = load_u32(field, false);
    uint64_t distant = search->address + place + 4 + (uint64_t)(int64_t)(int32_t)value;

    /* The distance check comes first: it is false nearly always, and cheap. */
    if (distant - target->first < target->size &&
        ((search->is_64_bit && is_pc_relative(field, place)) ||
         (target->called && is_call(field, place))) &&
        reference_counts(target, distant))
        return true;
    return target->absolute && (uint64_t)value - target->first < target->size &&
           (value == target->first || is_immediate(field, place)) &&
           reference_counts(target, value);
}

/* The distance check of many places at once; their operands overlap, so every fourth is in a
 * vector. */
#define VECTOR_LANES 4
#define BLOCK_PLACES (4 * VECTOR_LANES)

typedef uint32_t vector __attribute__((vector_size(VECTOR_LANES * sizeof(uint32_t))));
typedef int32_t signed_vector __attribute__((vector_size(VECTOR_LANES * sizeof(int32_t))));

/* Not 0 in each lane that is less. Many machines compare only signed numbers in vectors. */
static signed_vector is_less(vector values, uint32_t limit)
{
    return (signed_vector)(values ^ UINT32_C(0x80000000)) <
           (int32_t)(limit ^ UINT32_C(0x80000000)) - (signed_vector){0};
}

/* False where none of the places from `place` on leads to the target, by the low half of their
 * addresses. */
static bool block_may_refer(const struct search *search, const uint8_t *fields, uint64_t place)
{
    const struct reference_target *target = search->target;
    const vector every_fourth = {0, 4, 8, 12};
    uint32_t size = target->size < UINT32_MAX ? (uint32_t)target->size : UINT32_MAX;
    uint32_t distance = (uint32_t)(search->address + place + 4 - target->first);
    signed_vector found = {0};
    uint64_t halves[2];

    /* Lanes are in the machine's byte order, which is not that of the code. */
    if (HOST_IS_BIG_ENDIAN)
        return true;
    for (uint32_t i = 0; i < 4; i++) {
        vector values;

        memcpy(&values, fields + i, sizeof(values));
        found |= is_less(values + every_fourth + (distance + i), size);
        if (target->absolute)
            found |= is_less(values - (uint32_t)target->first, size);
    }
    memcpy(halves, &found, sizeof(halves));
    return (halves[0] | halves[1]) != 0 || target->size > UINT32_MAX;
}

static bool find_reference(const struct code *code, bool is_64_bit,
                           const struct reference_target *target, uint64_t *position)
{
    const struct search search = {code->address, target, is_64_bit};
    const uint8_t *data = code->bytes.data;
    uint64_t end, next;

    if (code->bytes.size < 4)
        return false;
    end = code->bytes.size - 4 + 1;
    for (uint64_t i = *position; i < end; i = next) {
        next = end - i < BLOCK_PLACES ? end : i + BLOCK_PLACES;
        if (next - i == BLOCK_PLACES && !block_may_refer(&search, data + i, i))
            continue;
        for (; i < next; i++) {
            if (refers(&search, data + i, i)) {
                *position = i;
                return true;
            }
        }
    }
    return false;
}

static bool find_reference_64(const struct code *code, const struct reference_target *target,
                              uint64_t *position)
{
    return find_reference(code, true, target, position);
}

static bool find_reference_32(const struct code *code, const struct reference_target *target,
                              uint64_t *position)
{
    return find_reference(code, false, target, position);
}

/* mov disp32(%rip),%r64 */
static bool find_load_64(const struct code *code, uint64_t *position, uint64_t *target)
{
    for (uint64_t i = *position; i + 7 <= code->bytes.size; i++) {
        const uint8_t *at = code->bytes.data + i;

        if ((at[0] & 0xfb) != 0x48 || at[1] != 0x8b || (at[2] & 0xc7) != 0x05)
            continue;
        *position = i + 7;
        *target = code->address + *position + (uint64_t)(int64_t)(int32_t)load_u32(at + 3, false);
        return true;
    }
    return false;
}

/* jmp rel32 */
static bool follow_jump_64(const struct code *code, uint64_t *target)
{
    struct bytes jump;

    if (!bytes_slice(code->bytes, 0, 5, &jump) || jump.data[0] != 0xe9)
        return false;
    *target = code->address + 5 + (uint64_t)(int64_t)(int32_t)load_u32(jump.data + 1, false);
    return true;
}

static bool follow_jump_32(const struct code *code, uint64_t *target)
{
    bool is_jump = follow_jump_64(code, target);

    *target &= is_jump ? UINT32_MAX : UINT64_MAX;
    return is_jump;
}

static const struct elf_relocation_types relocations_64 = {
    .none = R_X86_64_NONE,
    .relative = R_X86_64_RELATIVE,
    .absolute = R_X86_64_64,
    .irelative = R_X86_64_IRELATIVE,
    .no_address = {R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_DTPOFF32, R_X86_64_TPOFF64,
                   R_X86_64_TPOFF32, R_X86_64_TLSDESC, R_X86_64_SIZE32, R_X86_64_SIZE64},
};

const struct machine machine_x86_64 = {
    .name = "x86-64",
    .elf_machine = EM_X86_64,
    .address_size = 8,
    .page_size = 4096,
    .relocations = &relocations_64,
    .look_ahead = 8,
    .has_chance_hits = true,
    .decode_accessor = decode_64,
    .encode_accessor = encode,
    .find_reference = find_reference_64,
    .find_load = find_load_64,
    .follow_jump = follow_jump_64,
};

const struct machine machine_i386 = {
    .name = "i386",
    .elf_machine = EM_386,
    .address_size = 4,
    .page_size = 4096,
    .look_ahead = 8,
    .has_chance_hits = true,
    .decode_accessor = decode_32,
    .encode_accessor = encode,
    .find_reference = find_reference_32,
    .follow_jump = follow_jump_32,
};
