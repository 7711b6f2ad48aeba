/*
 * The machines whose code covsplit reads and changes. Each family is one file, and each machine is
 * declared below and has a line in the table of machine.c.
 *
 * A split needs two things from code. First, the profile runtime that clang links into an image
 * asks tiny functions, the accessors, for the bounds of its sections (__llvm_profile_begin_data,
 * __llvm_profile_end_data, ...). Each does nothing but return one address, and making it return
 * another is all that has to change in an image's code; so a machine decodes and encodes only the
 * bodies of accessors. Second, it must be shown that nothing else refers to the bytes that are
 * removed; so a machine finds, in any code, the instructions that refer to a range of memory, in
 * the forms that compilers generate.
 *
 * A machine's file opens with what matters of the machine and its psABI for this. It exports
 * nothing but one `struct machine` or two. Code is searched through code_search_next.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_MACHINE_H
#define COVSPLIT_FORMATS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/file.h"

/* The contents of a section with code. */
enum code_kind {
    CODE_UNKNOWN, /* instructions of any set, or data */
    CODE_DATA,
    CODE_A32,
    CODE_T32,
};

/* From this address up to that of the next mark. */
struct code_mark {
    uint64_t address;
    enum code_kind kind;
};

/* A view of code in the image, and the address where it is loaded. */
struct code {
    const struct machine *machine; /* set by whoever calls one of its functions */
    struct bytes bytes;
    uint64_t address;
    /* The value of the machine's base register (machine->base_symbol); 0: no code uses it. */
    uint64_t base;
    /* The start of the GOT, which mold takes for the address of that symbol; 0: there is no GOT. */
    uint64_t got;
    struct bytes got_bytes; /* contents of the GOT; empty unless machine->got_size_max is set */
    bool is_thumb;          /* for a function: it is T32 code (machine->state_bit) */
    /* The kinds of code that the image's symbols tell, ascending, where it has several instruction
     * sets (machine->state_bit); none: nothing. */
    const struct code_mark *marks;
    size_t mark_count;
};

/* ---- accessors ---- */

/* The way in which an accessor's body forms its address. */
enum accessor_form {
    ACCESSOR_PC_RELATIVE, /* relative to the program counter, or to a base made from it */
    ACCESSOR_IMMEDIATE,   /* contains it, in an instruction or in a literal pool */
    ACCESSOR_LOAD,        /* loads it from a slot of the GOT, which a relocation fills */
};

struct accessor {
    enum accessor_form form;
    uint64_t value;      /* the address returned; with ACCESSOR_LOAD that of the slot */
    size_t size;         /* of the whole body in bytes, its return included */
    size_t patch_offset; /* the bytes of the body that form the address: these are overwritten */
    size_t patch_size;
};

/* The most bytes that are overwritten on any machine. */
#define ACCESSOR_PATCH_MAX 32

/* ---- references ---- */

/* The target of a search: references to an address in [first, first + size). */
struct reference_target {
    uint64_t first;
    uint64_t size;
    bool absolute; /* code may hold addresses: the image is loaded at a fixed one */
    /* Only operands relative to the program counter or the GOT count, and where instructions can be
     * decoded (judge_instruction) only those that are known to be some. */
    bool relative;
    bool called;        /* the target is code: calls and jumps refer to it, too */
    bool loaded;        /* the target is slots of the GOT: code loads words from there */
    bool inside_counts; /* so do references that are in the range themselves */
    /* Tells which of the addresses count; NULL: all of them. In much code some bytes seem to refer
     * to a large range by chance, but hardly ever to one of a few given addresses in it. */
    bool (*counts)(const void *context, uint64_t address);
    const void *context;
};

/* True if the address is in the range and counts. */
static inline bool reference_counts(const struct reference_target *target, uint64_t address)
{
    return address - target->first < target->size &&
           (target->counts == NULL || target->counts(target->context, address));
}

/* True if a reference at the address is one from the target to itself, which does not count. */
static inline bool reference_is_own(const struct reference_target *target, uint64_t from)
{
    return !target->inside_counts && from - target->first < target->size;
}

/* ---- machines ---- */

/* The types of dynamic relocations in ELF images (the psABI's R_... numbers), grouped by what the
 * loader stores at the place that is relocated. */
#define NO_ADDRESS_TYPES_MAX 12

struct elf_relocation_types {
    uint32_t none;
    uint32_t relative;  /* load address of the image + addend */
    uint32_t absolute;  /* value of a symbol + addend, as a word */
    uint32_t irelative; /* result of a function; NO_RELOCATION_TYPE if there is none */
    /* Types whose result is no address: module numbers, offsets in thread-local storage, sizes.
     * Ends with a 0. */
    uint32_t no_address[NO_ADDRESS_TYPES_MAX];
    /* r_info is as on 64-bit MIPS: up to three types in one number, the first in the low byte. */
    bool are_composed;
};

#define NO_RELOCATION_TYPE UINT32_MAX

/* The smallest page size in bytes that kernels of these machines use: memory is mapped in multiples
 * of it. */
#define MACHINE_PAGE_SIZE UINT64_C(4096)

struct machine {
    const char *name;     /* for users */
    uint16_t elf_machine; /* EM_... */
    size_t address_size;  /* 4 or 8 bytes, as ELFCLASS32 and ELFCLASS64 */
    bool big_endian;      /* byte order of data; that of code is known to the machine alone */
    /* Code can only form addresses that are multiples of this; 0 means 1. */
    uint64_t address_unit;
    /* The bit of a function's address that tells its instruction set (Arm: set for T32) and is not
     * part of the location; 0: there is none. */
    uint64_t state_bit;
    /* The symbol by which ELF linkers name the address that one register holds throughout the
     * image, or where a function needs it, and through which code reaches data (in the GOT, the
     * TOC, or the small data area). NULL: there is none. */
    const char *base_symbol;
    /* Offset in bytes of a function's second entry, which calls may use when that register is
     * already set. 0: functions have no such entry. */
    uint64_t local_entry;
    /* If not 0: slots of the GOT hold addresses but have no relocations, and code refers to these
     * addresses by loading the slots; find_reference looks at what they hold. A GOT of more bytes
     * than this may be several, each with its own base. 0: slots are pointers like any others. */
    uint64_t got_size_max;
    /* For ELF. NULL: covsplit supports the machine in other formats only. */
    const struct elf_relocation_types *relocations;

    /* A reference is recognized by at most this many bytes before its position and from there
     * on. */
    uint64_t look_ahead;
    /* Many numbers in code look like references by chance, so in large ranges only the few
     * addresses that code can really use are looked for. */
    bool has_chance_hits;

    /* Decodes the function that starts at the first byte of the code. False if its body is not one
     * of the known ones; it is then left alone. */
    bool (*decode_accessor)(const struct code *code, struct accessor *accessor);

    /* Writes the accessor->patch_size bytes that make the function, which was decoded from this
     * code, return `value`. False if these cannot be encoded in that space. */
    bool (*encode_accessor)(const struct code *code, const struct accessor *accessor,
                            uint64_t value, uint8_t patch[ACCESSOR_PATCH_MAX]);

    /* Looks for an instruction with an operand that refers to the target: relative to the program
     * counter or, if target->absolute, as an immediate. Starts at *position; on success *position
     * is where the reference is. May find a reference where there is none, but never misses one of
     * the forms that the file describes. */
    bool (*find_reference)(const struct code *code, const struct reference_target *target,
                           uint64_t *position);

    /* Decodes the instruction at an offset in the code, and finds out if an operand of it refers to
     * the target. Its size; 0 if it is not known, and *refers is then unchanged. NULL:
     * what find_reference finds needs no second look. */
    uint64_t (*judge_instruction)(const struct code *code, uint64_t offset,
                                  const struct reference_target *target, bool *refers);

    /* True if an operand that find_reference found at this offset is behind an opcode by which
     * compilers form addresses, load or compare. NULL if judge_instruction is. */
    bool (*is_usual_reference)(const struct code *code, uint64_t offset);

    /* Looks for the next load of 8 bytes from an address that the code forms: *target. Starts at
     * *position, which is then behind the load. NULL: the machine does not support this. */
    bool (*find_load)(const struct code *code, uint64_t *position, uint64_t *target);

    /* Finds where an unconditional jump at the start of the code leads (as in MSVC's thunks for
     * incremental linking). False for any other instruction; *target is then unchanged. */
    bool (*follow_jump)(const struct code *code, uint64_t *target);
};

extern const struct machine machine_x86_64;
extern const struct machine machine_i386;
extern const struct machine machine_aarch64;
extern const struct machine machine_arm;
extern const struct machine machine_riscv64;
extern const struct machine machine_riscv32;
extern const struct machine machine_loongarch64;
extern const struct machine machine_mips64el;
extern const struct machine machine_ppc64le;
extern const struct machine machine_s390x;

/* The machine with this ELF number, class and data encoding (ELFCLASS..., ELFDATA...); NULL if
 * none. */
const struct machine *machine_find(uint16_t elf_machine, uint8_t elf_class, uint8_t elf_data);

/* ---- searching code, in sections of any size ---- */

struct code_search {
    const struct input *input; /* of which the code is a view */
    const struct machine *machine;
    struct reference_target target;
    struct code code;
    uint64_t piece, position; /* offsets in the code: of the piece that is searched, and in it */
};

/* Finds the next operand that refers to the target: *from is its address; some may be found twice.
 * Releases pages of the input that were searched. */
bool code_search_next(struct code_search *search, uint64_t *from);

/* Looks for an accessor's body in which the byte at `position` is among those that form the
 * address: *start is the offset in `code` where it starts. */
bool code_decode_around(const struct machine *machine, const struct code *code, uint64_t position,
                        uint64_t *start, struct accessor *accessor);

#endif
