/*
 * x86-64 and i386 (Intel 64 manual, volume 2; System V psABI, Microsoft's x64 ABI).
 *
 * Instructions have any length and may start anywhere. x86-64 forms an address in one instruction,
 * relative to the next one (%rip) or, in images at a fixed address, as an immediate: an accessor
 * has one instruction to change, and a search looks at every four bytes that may be an operand.
 * Since any four bytes lead somewhere, they count only where an instruction that starts at one of
 * the bytes before them has an operand there, whatever it does with it. Many places still seem to
 * refer to a large range; decoding a function from its start tells which of them do. The medium and
 * large code models, in position-independent code, have distances from the GOT as immediates of 8
 * bytes (movabs), or from a label whose address is formed near by; these are added to a register.
 * No other code has a movabs of a number so small, so all that lead to the target count.
 *
 * i386 has no operands relative to %eip except those of calls and jumps. Its addresses are
 * immediates and displacements: four bytes may be one if they follow an opcode with such an
 * operand, and its other operands. (COFF has a base relocation for each, so only calls are searched
 * for.) Position-independent code of ELF finds its own address by a call, adds the distance to the
 * GOT (_GLOBAL_OFFSET_TABLE_), and keeps the sum in some register; data is then at a displacement
 * of 4 bytes from that. Fields of structures look the same, so a range near the GOT is hit by
 * chance.
 *
 * Bodies seen in real images (clang 13 to 22, GNU ld and lld; i386 in ELF: clang 14 and 19, gcc,
 * and also gold and mold). The instructions in brackets depend on compiler options; one of `makers`
 * below is in the middle:
 *     [endbr64] [push %rbp; mov %rsp,%rbp]  forms X in %rax  [pop %rbp]  ret
 *     [endbr32] [push %ebp; mov %esp,%ebp]  forms X in %eax  [pop %ebp]  ret
 * In position-independent code for i386 one of these comes first:
 *     call 1f; 1: pop %eax; add $GOT-1b,%eax     clang
 *     call __x86.get_pc_thunk.ax; add $GOT-.,%eax  gcc; accepted if the sum is the GOT's address
 * After that, `mov slot-GOT(%eax),%eax` follows with lld; the others relax this to
 * `lea X-GOT(%eax),%eax`, and GNU ld, without PIC or if the symbol is 0, to `mov $X,%eax`. Without
 * PIC clang generates `lea X,%eax` at -O0.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>
#include <limits.h>
#include <string.h>

static bool is_64_bit(const struct code *code)
{
    return code->machine->address_size == 8;
}

static uint64_t signed_32(const uint8_t *from)
{
    return (uint64_t)(int64_t)(int32_t)load_u32(from, false);
}

/* ---- accessors ---- */

/* An instruction that forms the address: its opcode, which the operand follows. */
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
    {{"\xb8", 1}, 4, ACCESSOR_IMMEDIATE, false},     /* mov $imm32,%eax */
    {{"\xc7\xc0", 2}, 4, ACCESSOR_IMMEDIATE, false}, /* the same, replacing 6 bytes */
    {{"\x8d\x05", 2}, 4, ACCESSOR_IMMEDIATE, false}, /* lea disp32,%eax */
    {{"\x8b\x05", 2}, 4, ACCESSOR_LOAD, false},      /* mov disp32,%eax */
    {{NULL, 0}, 0, 0, false},
};

/* With the address of the GOT in %eax. */
static const struct maker makers_got[] = {
    {{"\x8d\x80", 2}, 4, ACCESSOR_PC_RELATIVE, false}, /* lea disp32(%eax),%eax */
    {{"\x8b\x80", 2}, 4, ACCESSOR_LOAD, false},        /* mov disp32(%eax),%eax */
    {{"\xb8", 1}, 4, ACCESSOR_IMMEDIATE, false},       /* mov $imm32,%eax */
    {{"\xc7\xc0", 2}, 4, ACCESSOR_IMMEDIATE, false},   {{NULL, 0}, 0, 0, false},
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

static bool take_operand(struct bytes code, const struct maker *maker, uint64_t *position,
                         uint64_t *value)
{
    struct bytes operand;

    if (!bytes_slice(code, *position, maker->operand_size, &operand))
        return false;
    *value = maker->operand_size == 8  ? load_u64(operand.data, false)
             : maker->is_sign_extended ? signed_32(operand.data)
                                       : load_u32(operand.data, false);
    *position += maker->operand_size;
    return true;
}

/* Takes the instructions of i386 that compute a base in %eax from the address of the code; false if
 * there are none. */
static bool take_base(const struct code *code, uint64_t *position, uint64_t *base)
{
    static const struct encoding call = {"\xe8", 1}, pop = {"\x58", 1};
    static const struct maker adds[] = {
        {{"\x81\xc0", 2}, 4, 0, false}, /* add $imm32,%eax */
        {{"\x05", 1}, 4, 0, false},
    };
    struct maker operand = {.operand_size = 4};
    uint64_t here, distance, to, at = *position;

    if (!take_encoding(code->bytes, &call, &at) ||
        !take_operand(code->bytes, &operand, &at, &distance))
        return false;
    here = at;
    to = distance;
    if (distance == 0 && !take_encoding(code->bytes, &pop, &at))
        return false;
    if ((!take_encoding(code->bytes, &adds[0].opcode, &at) &&
         !take_encoding(code->bytes, &adds[1].opcode, &at)) ||
        !take_operand(code->bytes, &operand, &at, &distance))
        return false;
    *base = (code->address + here + distance) & UINT32_MAX;
    *position = at;
    return to == 0 || (*base != 0 && (*base == code->base || *base == code->got));
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    bool is_64 = is_64_bit(code), has_frame;
    const struct encoding *frame = is_64 ? frames_64 : frames_32;
    const struct maker *maker = is_64 ? makers_64 : makers_32;
    uint64_t position = 0, start, value, base = 0;

    take_encoding(code->bytes, is_64 ? &endbr64 : &endbr32, &position);
    while (frame->size != 0 && !take_encoding(code->bytes, frame, &position))
        frame++;
    has_frame = frame->size != 0;
    if (!is_64 && take_base(code, &position, &base))
        maker = makers_got;
    start = position;
    while (maker->operand_size != 0 && !take_encoding(code->bytes, &maker->opcode, &position))
        maker++;
    if (maker->operand_size == 0 || !take_operand(code->bytes, maker, &position, &value))
        return false;
    if (maker->form != ACCESSOR_IMMEDIATE)
        value += is_64 ? code->address + position : base;
    *accessor = (struct accessor){
        .form = maker->form,
        .value = is_64 ? value : value & UINT32_MAX,
        .patch_offset = (size_t)start,
        .patch_size = (size_t)(position - start),
    };
    if ((has_frame && !take_encoding(code->bytes, &pop_frame, &position)) ||
        !take_encoding(code->bytes, &ret, &position))
        return false;
    accessor->size = (size_t)position;
    return true;
}

/* The operand changes by as much as the value does. The load of a slot becomes a lea of the address
 * itself; these two differ in the opcode, which precedes the ModRM byte. */
static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    size_t size = accessor->patch_size;
    uint8_t *operand = patch + size - 4;
    struct bytes old;
    uint64_t moved;

    if (!bytes_slice(code->bytes, accessor->patch_offset, size, &old))
        return false;
    memcpy(patch, old.data, size);
    if (size == 10) { /* movabs */
        store_u64(patch + 2, value, false);
        return true;
    }
    if (accessor->form == ACCESSOR_LOAD)
        patch[size - 6] = 0x8d; /* lea */
    moved = signed_32(operand) + (value - accessor->value);
    store_u32(operand, (uint32_t)moved, false);
    return !is_64_bit(code) || size == 5 ? value <= UINT32_MAX
                                         : moved == (uint64_t)(int64_t)(int32_t)moved;
}

/* ---- references ---- */

/* Opcodes of two bytes, of which the first is 0f: movzx, movsx, and vector loads. */
static bool is_long_load(uint8_t opcode)
{
    return (opcode & 0xf6) == 0xb6 || opcode == 0x10 || opcode == 0x28 || opcode == 0x6f;
}

/* True if the bytes before `end` are the opcode of an instruction that forms an address, loads or
 * compares. */
static bool ends_in_opcode(const uint8_t *end, uint64_t before)
{
    if (before >= 1 && (end[-1] == 0x8d || end[-1] == 0x8b))
        return true;
    return before >= 2 && (((end[-2] & 0xf8) == 0x48 && (end[-1] == 0x39 || end[-1] == 0x3b)) ||
                           (end[-2] == 0x0f && is_long_load(end[-1])));
}

/* Of x86-64: an operand relative to %rip (ModRM mod 00, r/m 101) or at a fixed address (r/m 100,
 * and a SIB byte without base and index); mov $imm32 to a register (32 bits, or 64 with REX.W),
 * push $imm32, cmp $imm32 with REX.W. */
static bool is_usual_reference_64(const struct code *code, uint64_t offset)
{
    const uint8_t *field = code->bytes.data + offset;

    if (offset >= 1 && (field[-1] & 0xc7) == 0x05 && ends_in_opcode(field - 1, offset - 1))
        return true;
    if (offset >= 1 && ((field[-1] & 0xf8) == 0xb8 || field[-1] == 0x68))
        return true;
    if (offset >= 2 && (field[-2] & 0xf8) == 0x48 && field[-1] == 0x3d)
        return true;
    if (offset >= 2 && field[-1] == 0x25 && (field[-2] & 0xc7) == 0x04 &&
        ends_in_opcode(field - 2, offset - 2))
        return true;
    return offset >= 3 && (field[-3] & 0xf8) == 0x48 &&
           ((field[-2] == 0xc7 && (field[-1] & 0xf8) == 0xc0) ||
            (field[-2] == 0x81 && (field[-1] & 0xf8) == 0xf8));
}

/* call, jmp or a conditional jump. */
static bool is_call(const uint8_t *field, uint64_t before)
{
    return (before >= 1 && (field[-1] & 0xfe) == 0xe8) ||
           (before >= 2 && field[-2] == 0x0f && (field[-1] & 0xf0) == 0x80);
}

/* True if the bytes before `end` are an i386 opcode with the ModRM byte at `end`, of those that
 * compilers use on names and records: not adc and sbb of bytes, and nothing that changes a byte in
 * memory (add and the like, but cmp is included). */
static bool ends_in_opcode_32(const uint8_t *end, uint64_t before)
{
    uint8_t opcode = before >= 1 ? end[-1] : 0;

    return ((opcode & 0xc4) == 0 && (opcode & 0xf5) != 0x10 &&
            ((opcode & 7) != 0 || opcode == 0x38)) || /* arithmetic */
           (opcode >= 0x80 && opcode <= 0x8b) ||
           opcode == 0x8d ||                                     /* test, mov, lea */
           opcode == 0x69 || opcode == 0x6b || opcode == 0xc1 || /* imul, shifts */
           (opcode & 0xfd) == 0xd1 || (opcode & 0xfe) == 0xc6 || (opcode & 0xf8) == 0xd8 ||
           (opcode & 0xfe) == 0xf6 ||                     /* x87; not, test, div */
           (opcode == 0xff && (end[0] & 0x38) != 0x38) || /* push, call */
           (before >= 2 && end[-2] == 0x0f);              /* of two bytes */
}

/* A displacement from a register that may hold the address of the GOT, so not %esp (ModRM mod 10,
 * with or without a SIB byte; or with that register as the index, base 101); or one that is loaded
 * by a lea without registers, to be added later (mod 00, r/m 101). */
static bool is_displacement(const uint8_t *field, uint64_t before)
{
    uint8_t last = before >= 2 ? field[-1] : 0, front = before >= 2 ? field[-2] : 0;
    bool is_plain = (last & 0xc0) == 0x80 && (last & 7) != 4;
    bool has_sib =
        ((front & 0xc7) == 0x84 && (last & 7) != 4) || ((front & 0xc7) == 0x04 && (last & 7) == 5);

    return (is_plain && ends_in_opcode_32(field - 1, before - 1)) ||
           (has_sib && ends_in_opcode_32(field - 2, before - 2)) ||
           (front == 0x8d && (last & 0xc7) == 0x05);
}

/* The size of a ModRM byte and of the SIB byte and displacement that it requires. */
static size_t operand_size(uint8_t modrm, uint8_t sib)
{
    static const size_t displacements[] = {0, 1, 4, 0};
    unsigned mod = modrm >> 6;
    bool has_sib = mod != 3 && (modrm & 7) == 4;

    if (mod == 0 && ((modrm & 7) == 5 || (has_sib && (sib & 7) == 5)))
        return (has_sib ? 2 : 1) + 4;
    return (has_sib ? 2 : 1) + displacements[mod];
}

/* An immediate behind a ModRM byte and its operands: mov, add and the like, imul, test. */
static bool is_immediate_of_operand(const uint8_t *field, uint64_t before)
{
    for (size_t size = 1; size <= 6 && size + 1 <= before; size++) {
        const uint8_t *modrm = field - size;
        uint8_t opcode = modrm[-1];

        if ((opcode == 0x69 || opcode == 0x81 || opcode == 0xc7 || opcode == 0xf7) &&
            operand_size(modrm[0], size > 1 ? modrm[1] : 0) == size)
            return true;
    }
    return false;
}

/* mov $imm32 to a register, mov between %eax and a fixed address, push $imm32, test and the like of
 * %eax with an immediate; an immediate behind another operand; or a displacement that is an
 * address. */
static bool is_absolute_32(const uint8_t *field, uint64_t before)
{
    uint8_t last = before >= 1 ? field[-1] : 0;
    /* c5 and c4 (VEX), 62 (EVEX): two, three or four bytes including this one, and then the opcode.
     */
    bool is_vector = (before >= 4 && field[-4] == 0xc5) || (before >= 5 && field[-5] == 0xc4) ||
                     (before >= 6 && field[-6] == 0x62) || (before >= 4 && field[-4] == 0x0f);

    if (before >= 1 && ((last & 0xf8) == 0xb8 || last == 0x68 || (last & 0xfc) == 0xa0 ||
                        last == 0xa9 || (last & 0xc7) == 0x05))
        return true;
    return is_displacement(field, before) || is_immediate_of_operand(field, before) ||
           (is_vector && operand_size(last, 0) == 5);
}

/* A search for operands. */
struct operand_search {
    struct bytes code;
    uint64_t address; /* where it is loaded */
    /* The addresses that a register with the address of the GOT may hold; 0: none. */
    uint64_t bases[2];
    const struct reference_target *target;
    bool is_64_bit;
    /* The most bytes between an operand and the place that it counts from: the next instruction, or
     * on x86-64 a label near by. */
    uint64_t around;
};

/* The most bytes between a movabs and the instruction that forms the address of a label, and from
 * there to the label. */
#define LABEL_MAKER_DISTANCE 64
#define LABEL_DISTANCE       128
#define LEA_SIZE             7

/* True if the immediate of a movabs leads to the target from an address that an instruction near by
 * forms: lea disp32(%rip), or a call of the next instruction. */
static bool counts_from_label(const struct operand_search *search, uint64_t place, uint64_t value)
{
    uint64_t from = place < LABEL_MAKER_DISTANCE ? 0 : place - LABEL_MAKER_DISTANCE;

    for (uint64_t i = from; i < place + LABEL_MAKER_DISTANCE && search->code.size - i >= LEA_SIZE;
         i++) {
        const uint8_t *at = search->code.data + i;
        uint64_t next = search->address + i, label;

        if ((at[0] & 0xfb) == 0x48 && at[1] == 0x8d && (at[2] & 0xc7) == 0x05)
            label = next + LEA_SIZE + signed_32(at + 3);
        else if (at[0] == 0xe8 && load_u32(at + 1, false) == 0)
            label = next + 5;
        else
            continue;
        if (reference_counts(search->target, label + value))
            return true;
    }
    return false;
}

/* True if the bytes at a place are the immediate of an x86-64 movabs, which leads to the target
 * from the GOT or from a label. */
static bool is_distance(const struct operand_search *search, uint64_t place)
{
    const uint8_t *field = search->code.data + place;
    uint64_t value;

    if (place < 2 || search->code.size - place < 8 || (field[-2] & 0xf8) != 0x48 ||
        (field[-1] & 0xf8) != 0xb8)
        return false;
    value = load_u64(field, false);
    for (size_t i = 0; i < 2; i++) {
        if (search->bases[i] != 0 && reference_counts(search->target, search->bases[i] + value))
            return true;
    }
    return counts_from_label(search, place, value);
}

/* True if the operand at an offset in the x86-64 instruction at `start` leads to the target. */
static bool operand_refers(const struct operand_search *search, uint64_t start,
                           const struct x86_instruction *instruction, uint64_t operand)
{
    const struct reference_target *target = search->target;
    uint32_t value = load_u32(search->code.data + start + operand, false);
    bool is_branch = instruction->is_branch && operand == instruction->immediate;
    bool is_relative =
        is_branch || (instruction->is_pc_relative && operand == instruction->displacement);
    uint64_t next = search->address + start + instruction->size;

    if (is_relative)
        return (target->called || !is_branch) &&
               reference_counts(target, next + (uint64_t)(int64_t)(int32_t)value);
    return (target->absolute && reference_counts(target, value)) ||
           is_distance(search, start + operand);
}

/* True if an x86-64 instruction that leads to the target may have its operand at a place: one that
 * starts at any byte before it. */
static bool may_be_operand(const struct operand_search *search, uint64_t place)
{
    struct x86_instruction instruction;
    struct bytes code = search->code;
    uint64_t before = place < X86_SIZE_MAX ? place : X86_SIZE_MAX;

    for (; before != 0; before--) {
        uint64_t start = place - before;

        if (x86_decode((struct bytes){code.data + start, code.size - start}, &instruction) &&
            (before == instruction.displacement || before == instruction.immediate) &&
            operand_refers(search, start, &instruction, before))
            return true;
    }
    return false;
}

/* True if the bytes before an operand may be part of one relative to the next instruction: ModRM
 * mod 00, r/m 101. */
static bool is_pc_relative(const uint8_t *field, uint64_t before)
{
    return before >= 1 && (field[-1] & 0xc7) == 0x05;
}

/* True if the four bytes at a place are an operand that leads to the target. */
static bool refers(const struct operand_search *search, const uint8_t *field, uint64_t place)
{
    const struct reference_target *target = search->target;
    uint32_t value = load_u32(field, false);
    uint64_t distant = search->address + place + 4 + (uint64_t)(int64_t)(int32_t)value;
    bool may_lead =
        distant - target->first < target->size || target->first - distant <= search->around;
    bool is_value = target->absolute && (uint64_t)value - target->first < target->size;

    /* The distance check comes first: it is false nearly always, and cheap. */
    if (target->called && may_lead && is_call(field, place) && reference_counts(target, distant))
        return true;
    if (search->is_64_bit && is_distance(search, place))
        return true;
    for (size_t i = 0; i < 2 && !search->is_64_bit; i++) {
        uint64_t from_base = (uint32_t)(search->bases[i] + value);

        if (search->bases[i] != 0 && from_base - target->first < target->size &&
            is_displacement(field, place) && reference_counts(target, from_base))
            return true;
    }
    if (is_value &&
        (value == target->first || (!search->is_64_bit && is_absolute_32(field, place))))
        return reference_counts(target, value);
    return search->is_64_bit && (is_value || (may_lead && is_pc_relative(field, place))) &&
           may_be_operand(search, place);
}

/* Many places are checked at once, by the upper halves of their numbers: a vector holds every
 * second place. Few upper halves lead from any place of a stretch to the target. */
#define VECTOR_LANES   8
#define BLOCK_PLACES   (2 * VECTOR_LANES)
#define STRETCH_PLACES (256 * BLOCK_PLACES)
#define HALVES_MAX     4

typedef uint16_t vector __attribute__((vector_size(VECTOR_LANES * sizeof(uint16_t))));
typedef int16_t signed_vector __attribute__((vector_size(VECTOR_LANES * sizeof(int16_t))));

/* The upper halves of a range of numbers. Many machines can only compare signed numbers in vectors:
 * with the bias, all halves in the range are less than the limit. */
struct upper_halves {
    vector bias;
    signed_vector limit;
};

struct stretch {
    struct upper_halves halves[HALVES_MAX];
    size_t count;
    bool is_blind; /* the check cannot be used: every place may refer */
};

static struct upper_halves upper_halves_of(uint32_t first, uint32_t size)
{
    uint16_t lowest = (uint16_t)(first >> 16);
    uint16_t more = (uint16_t)(((first + size - 1) >> 16) - lowest);

    return (struct upper_halves){(uint16_t)(0x8000 - lowest) + (vector){0},
                                 (int16_t)(more + 1 - 0x8000) + (signed_vector){0}};
}

static struct stretch stretch_start(const struct operand_search *search, uint64_t place,
                                    uint64_t end)
{
    const struct reference_target *target = search->target;
    uint32_t first = (uint32_t)target->first, size = (uint32_t)target->size;
    uint32_t around = (uint32_t)search->around, last = (uint32_t)(search->address + end - 1 + 4);
    /* Lanes are in the machine's byte order, which is not that of the code. */
    struct stretch stretch = {.is_blind = HOST_IS_BIG_ENDIAN || target->size > INT32_MAX};

    /* Relative to the next instruction; an address; relative to a base. */
    stretch.halves[stretch.count++] =
        upper_halves_of(first - around - last, size + 2 * around + (uint32_t)(end - place) - 1);
    if (target->absolute)
        stretch.halves[stretch.count++] = upper_halves_of(first, size);
    for (size_t i = 0; i < 2; i++) {
        if (search->bases[i] != 0 && (i == 0 || search->bases[i] != search->bases[0]))
            stretch.halves[stretch.count++] =
                upper_halves_of(first - (uint32_t)search->bases[i], size);
    }
    return stretch;
}

/* A bit for each place of a block, by whether its lane is set: places at even distances from the
 * start are in the first vector, those at odd ones in the second. */
static unsigned places_of(const signed_vector found[2])
{
    unsigned places = 0;

    for (unsigned i = 0; i < 2 * 2; i++) {
        uint64_t lanes;

        memcpy(&lanes, (const uint8_t *)found + i * sizeof(lanes), sizeof(lanes));
        /* The lowest bits of four lanes become every second one of a byte. */
        lanes = (lanes & UINT64_C(0x0001000100010001)) * UINT64_C(0x0001000400100040) >> 48 & 0x55;
        places |= (unsigned)lanes << (i % 2 * VECTOR_LANES + i / 2);
    }
    return places;
}

/* Skips blocks in which no place leads to the target. Sets a bit for each place of the next block
 * that may, and returns its start; if there is less than a block up to the end, of the rest, of
 * which all may. Made for each number of halves. */
static inline __attribute__((always_inline)) uint64_t skip_by(size_t count,
                                                              const struct stretch *stretch,
                                                              const uint8_t *data, uint64_t place,
                                                              uint64_t end, unsigned *may_refer)
{
    const struct stretch kept = *stretch; /* in registers */

    for (; end - place >= BLOCK_PLACES && !kept.is_blind; place += BLOCK_PLACES) {
        signed_vector found[2] = {{0}, {0}}, any;
        uint64_t parts[2];

        for (size_t i = 0; i < 2; i++) {
            vector values;

            memcpy(&values, data + place + 2 + i, sizeof(values));
            for (size_t j = 0; j < count; j++)
                found[i] |= (signed_vector)(values + kept.halves[j].bias) < kept.halves[j].limit;
        }
        any = found[0] | found[1];
        memcpy(parts, &any, sizeof(parts));
        if ((parts[0] | parts[1]) != 0) {
            *may_refer = places_of(found);
            return place;
        }
    }
    *may_refer = UINT_MAX;
    return place;
}

static uint64_t skip_blocks(const struct stretch *stretch, const uint8_t *data, uint64_t place,
                            uint64_t end, unsigned *may_refer)
{
    switch (stretch->count) {
    case 1:
        return skip_by(1, stretch, data, place, end, may_refer);
    case 2:
        return skip_by(2, stretch, data, place, end, may_refer);
    case 3:
        return skip_by(3, stretch, data, place, end, may_refer);
    default:
        return skip_by(HALVES_MAX, stretch, data, place, end, may_refer);
    }
}

/* Finds the first place from *place on, before the end, that refers to the target. */
static bool search_stretch(const struct operand_search *search, uint64_t *place, uint64_t end)
{
    const struct stretch stretch = stretch_start(search, *place, end);
    const uint8_t *data = search->code.data;

    while (*place < end) {
        unsigned may_refer;
        uint64_t start = skip_blocks(&stretch, data, *place, end, &may_refer);
        uint64_t next = end - start < BLOCK_PLACES ? end : start + BLOCK_PLACES;

        for (; may_refer != 0; may_refer &= may_refer - 1) {
            *place = start + (unsigned)__builtin_ctz(may_refer);
            if (*place >= next)
                break;
            if (refers(search, data + *place, *place))
                return true;
        }
        *place = next;
    }
    return false;
}

/* True if the code at an offset, behind a call, adds a number that gives the address. */
static bool adds_up_to(const struct code *code, uint64_t offset, uint64_t address)
{
    uint64_t left = code->bytes.size - offset, here = code->address + offset;
    const uint8_t *at = code->bytes.data + offset;
    uint64_t operand;

    if (address == 0 || left < 8)
        return false;
    if ((at[0] & 0xf8) == 0x58) /* pop %r32 */
        at++;
    operand = at[0] == 0x05 ? 1 : 2; /* add $imm32 to %eax, or to any */
    return (at[0] == 0x05 || (at[0] == 0x81 && (at[1] & 0xf8) == 0xc0)) &&
           (uint32_t)(here + load_u32(at + operand, false)) == address;
}

/* The addresses that the register may hold. Linkers disagree on the address of the GOT: the first
 * code that computes it decides. */
static void find_bases(const struct code *code, uint64_t bases[2])
{
    bases[0] = code->base;
    bases[1] = code->got != code->base ? code->got : 0;
    for (uint64_t i = 0; i + 5 <= code->bytes.size && bases[1] != 0; i++) {
        const uint8_t *call = memchr(code->bytes.data + i, 0xe8, (size_t)(code->bytes.size - i));

        if (call == NULL)
            return;
        i = (uint64_t)(call - code->bytes.data);
        if (i + 5 > code->bytes.size)
            return;
        if (adds_up_to(code, i + 5, code->got))
            bases[0] = code->got;
        else if (!adds_up_to(code, i + 5, code->base))
            continue;
        bases[1] = 0;
    }
}

static struct operand_search start_search(const struct code *code,
                                          const struct reference_target *target)
{
    struct operand_search search = {.code = code->bytes,
                                    .address = code->address,
                                    .bases = {code->base, code->got},
                                    .target = target,
                                    .is_64_bit = is_64_bit(code)};

    if (search.is_64_bit)
        search.around = LABEL_MAKER_DISTANCE + LEA_SIZE + LABEL_DISTANCE;
    else
        find_bases(code, search.bases);
    return search;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    const struct operand_search search = start_search(code, target);
    uint64_t end = code->bytes.size < 4 ? 0 : code->bytes.size - 4 + 1;

    while (*position < end) {
        uint64_t left = end - *position;

        if (search_stretch(&search, position,
                           *position + (left < STRETCH_PLACES ? left : STRETCH_PLACES)))
            return true;
    }
    return false;
}

static uint64_t judge_instruction_64(const struct code *code, uint64_t offset,
                                     const struct reference_target *target, bool *refers_to)
{
    const struct operand_search search = start_search(code, target);
    struct x86_instruction instruction;
    struct bytes rest;

    if (!bytes_slice(code->bytes, offset, code->bytes.size - offset, &rest) ||
        !x86_decode(rest, &instruction))
        return 0;
    *refers_to = (instruction.displacement != 0 &&
                  operand_refers(&search, offset, &instruction, instruction.displacement)) ||
                 (instruction.immediate != 0 &&
                  operand_refers(&search, offset, &instruction, instruction.immediate));
    return instruction.size;
}

/* mov disp32(%rip),%r64 */
static bool find_load_64(const struct code *code, uint64_t *position, uint64_t *target)
{
    for (uint64_t i = *position; i + 7 <= code->bytes.size; i++) {
        const uint8_t *at = code->bytes.data + i;

        if ((at[0] & 0xfb) != 0x48 || at[1] != 0x8b || (at[2] & 0xc7) != 0x05)
            continue;
        *position = i + 7;
        *target = code->address + *position + signed_32(at + 3);
        return true;
    }
    return false;
}

/* jmp rel32 */
static bool follow_jump(const struct code *code, uint64_t *target)
{
    struct bytes jump;
    uint64_t to;

    if (!bytes_slice(code->bytes, 0, 5, &jump) || jump.data[0] != 0xe9)
        return false;
    to = code->address + 5 + signed_32(jump.data + 1);
    *target = is_64_bit(code) ? to : to & UINT32_MAX;
    return true;
}

const struct machine machine_x86_64 = {
    .name = "x86-64",
    .elf_machine = EM_X86_64,
    .address_size = 8,
    .base_symbol = "_GLOBAL_OFFSET_TABLE_",
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_X86_64_NONE,
            .relative = R_X86_64_RELATIVE,
            .absolute = R_X86_64_64,
            .irelative = R_X86_64_IRELATIVE,
            .no_address = {R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_DTPOFF32,
                           R_X86_64_TPOFF64, R_X86_64_TPOFF32, R_X86_64_TLSDESC, R_X86_64_SIZE32,
                           R_X86_64_SIZE64},
        },
    /* An instruction that forms the address of a label. */
    .look_ahead = LABEL_MAKER_DISTANCE + 16,
    .has_chance_hits = true,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
    .judge_instruction = judge_instruction_64,
    .is_usual_reference = is_usual_reference_64,
    .find_load = find_load_64,
    .follow_jump = follow_jump,
};

const struct machine machine_i386 = {
    .name = "i386",
    .elf_machine = EM_386,
    .address_size = 4,
    .base_symbol = "_GLOBAL_OFFSET_TABLE_",
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_386_NONE,
            .relative = R_386_RELATIVE,
            .absolute = R_386_32,
            .irelative = R_386_IRELATIVE,
            .no_address = {R_386_TLS_DTPMOD32, R_386_TLS_DTPOFF32, R_386_TLS_TPOFF,
                           R_386_TLS_TPOFF32, R_386_TLS_DESC, R_386_SIZE32},
        },
    .look_ahead = 8,
    .has_chance_hits = true,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
    .follow_jump = follow_jump,
};
