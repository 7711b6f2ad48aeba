/*
 * Decoding and encoding of accessor bodies: see accessor.h. Here is x86, in 64 and 32 bits, after
 * the Intel 64 manual, volume 2; AArch64 is in machine/aarch64.c.
 */
#include "formats/machine/accessor.h"

#include <elf.h>
#include <string.h>

#include "formats/machine/aarch64.h"

/* A reader over a body. Every step checks that the bytes are there. */
struct cursor {
    struct bytes code;
    uint64_t position;
};

static bool take(struct cursor *cursor, const char *bytes, size_t size)
{
    struct bytes part;

    if (!bytes_slice(cursor->code, cursor->position, size, &part) ||
        memcmp(part.data, bytes, size) != 0)
        return false;
    cursor->position += size;
    return true;
}

static bool take_u32(struct cursor *cursor, uint32_t *value)
{
    struct bytes part;

    if (!bytes_slice(cursor->code, cursor->position, 4, &part))
        return false;
    *value = load_u32(part.data, false);
    cursor->position += 4;
    return true;
}

/* The instruction in the middle, with its address field. */
static bool take_address(struct cursor *cursor, uint64_t address, struct accessor *accessor)
{
    uint32_t field;
    struct bytes wide;

    accessor->instruction_offset = (size_t)cursor->position;
    if (take(cursor, "\x48\x8d\x05", 3)) { /* lea disp32(%rip),%rax */
        accessor->form = ACCESSOR_PC_RELATIVE;
    } else if (take(cursor, "\x48\x8b\x05", 3)) { /* mov disp32(%rip),%rax */
        accessor->form = ACCESSOR_LOAD;
    } else if (take(cursor, "\x48\xc7\xc0", 3)) { /* mov $imm32,%rax (sign-extended) */
        accessor->form = ACCESSOR_IMMEDIATE;
    } else if (take(cursor, "\xb8", 1)) { /* mov $imm32,%eax (zero-extended) */
        accessor->form = ACCESSOR_IMMEDIATE;
    } else if (take(cursor, "\x48\xb8", 2)) { /* movabs $imm64,%rax */
        if (!bytes_slice(cursor->code, cursor->position, 8, &wide))
            return false;
        accessor->form = ACCESSOR_IMMEDIATE;
        accessor->value = load_u64(wide.data, false);
        cursor->position += 8;
        accessor->instruction_size = 10;
        return true;
    } else {
        return false;
    }
    if (!take_u32(cursor, &field))
        return false;
    accessor->instruction_size = (size_t)cursor->position - accessor->instruction_offset;
    if (accessor->form == ACCESSOR_IMMEDIATE && accessor->instruction_size == 5)
        accessor->value = field;
    else if (accessor->form == ACCESSOR_IMMEDIATE)
        accessor->value = (uint64_t)(int64_t)(int32_t)field;
    else
        accessor->value = address + cursor->position + (uint64_t)(int64_t)(int32_t)field;
    return true;
}

static bool decode_x86_64(struct bytes code, uint64_t address, struct accessor *accessor)
{
    struct cursor cursor = {code, 0};
    bool framed;

    take(&cursor, "\xf3\x0f\x1e\xfa", 4);          /* endbr64 */
    framed = take(&cursor, "\x55\x48\x89\xe5", 4); /* push %rbp; mov %rsp,%rbp */
    if (!take_address(&cursor, address, accessor))
        return false;
    if (framed && !take(&cursor, "\x5d", 1)) /* pop %rbp */
        return false;
    if (!take(&cursor, "\xc3", 1)) /* ret */
        return false;
    accessor->size = (size_t)cursor.position;
    return true;
}

static bool decode_i386(struct bytes code, struct accessor *accessor)
{
    struct cursor cursor = {code, 0};
    uint32_t address;
    bool framed;

    take(&cursor, "\xf3\x0f\x1e\xfb", 4); /* endbr32 */
    /* push %ebp; mov %esp,%ebp in either encoding */
    framed = take(&cursor, "\x55\x89\xe5", 3) || take(&cursor, "\x55\x8b\xec", 3);
    accessor->instruction_offset = (size_t)cursor.position;
    if (!take(&cursor, "\xb8", 1) || !take_u32(&cursor, &address)) /* mov $imm32,%eax */
        return false;
    accessor->form = ACCESSOR_IMMEDIATE;
    accessor->value = address;
    accessor->instruction_size = 5;
    if ((framed && !take(&cursor, "\x5d", 1)) || !take(&cursor, "\xc3", 1))
        return false;
    accessor->size = (size_t)cursor.position;
    return true;
}

bool accessor_decode(uint16_t machine, struct bytes code, uint64_t address,
                     struct accessor *accessor)
{
    *accessor = (struct accessor){0};
    switch (machine) {
    case EM_X86_64:
        return decode_x86_64(code, address, accessor);
    case EM_386:
        return decode_i386(code, accessor);
    case EM_AARCH64:
        return aarch64_decode(code, address, accessor);
    default:
        return false;
    }
}

bool accessor_encode(uint16_t machine, const struct accessor *accessor, struct bytes code,
                     uint64_t address, uint64_t value,
                     uint8_t instruction[ACCESSOR_INSTRUCTION_MAX])
{
    struct bytes old;
    uint64_t size = accessor->instruction_size;
    uint64_t next = address + accessor->instruction_offset + size;
    uint8_t *field = instruction + size - 4;

    if (machine == EM_AARCH64)
        return aarch64_encode(next - size, value, instruction);
    if ((machine != EM_X86_64 && machine != EM_386) || size > ACCESSOR_INSTRUCTION_MAX ||
        !bytes_slice(code, accessor->instruction_offset, size, &old))
        return false;
    memcpy(instruction, old.data, (size_t)size);
    if (accessor->form == ACCESSOR_IMMEDIATE && size == 10) {
        store_u64(instruction + 2, value, false);
        return true;
    }
    if (accessor->form == ACCESSOR_IMMEDIATE) {
        store_u32(field, (uint32_t)value, false);
        return size == 5 ? value <= UINT32_MAX : value == (uint64_t)(int64_t)(int32_t)value;
    }
    /* A load of a slot becomes a lea of the address itself: the two differ in one opcode byte. */
    instruction[1] = 0x8d;
    store_u32(field, (uint32_t)(value - next), false);
    return value - next == (uint64_t)(int64_t)(int32_t)(value - next);
}

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
    bool is_32_bit;
};

bool reference_counts(const struct reference_target *target, uint64_t address)
{
    return address - target->first < target->size &&
           (target->counts == NULL || target->counts(target->context, address));
}

/* Whether the four bytes at a place are an operand that leads to the target. */
static bool refers(const struct search *search, const uint8_t *field, uint64_t place)
{
    const struct reference_target *target = search->target;
    uint32_t value = load_u32(field, false);
    uint64_t distant = search->address + place + 4 + (uint64_t)(int64_t)(int32_t)value;

    /* The distance check comes first: it is false nearly always, and cheap. */
    if (distant - target->first < target->size &&
        ((!search->is_32_bit && is_pc_relative(field, place)) ||
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

bool accessor_find_reference(uint16_t machine, struct bytes code, uint64_t address,
                             const struct reference_target *target, uint64_t *position)
{
    const struct search search = {address, target, machine == EM_386};
    uint64_t end, next;

    if (machine == EM_AARCH64)
        return aarch64_find_reference(code, address, target, position);
    if ((machine != EM_X86_64 && machine != EM_386) || code.size < 4)
        return false;
    end = code.size - 4 + 1;
    for (uint64_t i = *position; i < end; i = next) {
        next = end - i < BLOCK_PLACES ? end : i + BLOCK_PLACES;
        if (next - i == BLOCK_PLACES && !block_may_refer(&search, code.data + i, i))
            continue;
        for (; i < next; i++) {
            if (refers(&search, code.data + i, i)) {
                *position = i;
                return true;
            }
        }
    }
    return false;
}

/* How far in front of the instruction a body may start: endbr and a frame take 8 bytes. */
#define BODY_BEFORE 16

bool accessor_decode_around(uint16_t machine, struct bytes code, uint64_t address,
                            uint64_t position, uint64_t *start, struct accessor *accessor)
{
    uint64_t before = position < BODY_BEFORE ? position : BODY_BEFORE;
    struct bytes body;

    /* The longest body first: what is in front of the instruction may be a part of it. */
    for (*start = position - before; *start <= position; ++*start) {
        uint64_t inside = position - *start;

        if (bytes_slice(code, *start, code.size - *start, &body) &&
            accessor_decode(machine, body, address + *start, accessor) &&
            range_within(inside, 1, accessor->instruction_offset, accessor->instruction_size))
            return true;
    }
    return false;
}

bool accessor_find_load(uint16_t machine, struct bytes code, uint64_t address, uint64_t *position,
                        uint64_t *target)
{
    if (machine == EM_AARCH64)
        return aarch64_find_load(code, address, position, target);
    for (uint64_t i = *position; machine == EM_X86_64 && i + 7 <= code.size; i++) {
        const uint8_t *at = code.data + i;

        /* mov disp32(%rip),%r64 */
        if ((at[0] & 0xfb) != 0x48 || at[1] != 0x8b || (at[2] & 0xc7) != 0x05)
            continue;
        *target = address + i + 7 + (uint64_t)(int64_t)(int32_t)load_u32(at + 3, false);
        *position = i + 7;
        return true;
    }
    return false;
}

bool accessor_follow_jump(uint16_t machine, struct bytes code, uint64_t address, uint64_t *target)
{
    struct cursor cursor = {code, 0};
    uint32_t distance;

    if (machine == EM_AARCH64)
        return aarch64_follow_jump(code, address, target);
    if ((machine != EM_X86_64 && machine != EM_386) || !take(&cursor, "\xe9", 1) ||
        !take_u32(&cursor, &distance))
        return false;
    *target = address + cursor.position + (uint64_t)(int64_t)(int32_t)distance;
    if (machine == EM_386)
        *target &= UINT32_MAX;
    return true;
}
