/*
 * The machines whose code covsplit reads and changes: each is one file, declared below, and one
 * line in the table of machine.c.
 *
 * Two things are wanted of code. The profile runtime that clang links into an image asks tiny
 * functions, the accessors, for the bounds of its sections (__llvm_profile_begin_data,
 * __llvm_profile_end_data, ...). Each only returns one address, and making one return another is
 * all that has to change in an image's code: so a machine decodes and encodes just their bodies.
 * And that nobody else refers to what goes must be shown, so a machine finds, in any code, the
 * instructions that refer to a range of memory, as its compilers write them.
 *
 * A machine's file opens with what the machine means for this, after its psABI. It exports nothing
 * but its `struct machine`. Code is searched through search.h.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_MACHINE_H
#define COVSPLIT_FORMATS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* A view of bytes of the image, and where they are loaded. */
struct code {
    struct bytes bytes;
    uint64_t address;
    /* What the machine's base register holds (machine->base_symbol); 0: nothing, no code uses it.
     */
    uint64_t base;
    /* Where the GOT starts: mold takes that for the symbol's address; 0: there is none. */
    uint64_t got;
    struct bytes got_bytes; /* what it holds; empty unless machine->got_size_max is set */
    bool is_thumb;          /* of one function: it is T32 code (machine->state_bit) */
};

/* ---- accessors ---- */

/* How a body makes its address. */
enum accessor_form {
    ACCESSOR_PC_RELATIVE, /* computes it from the program counter, or from what is based on it */
    ACCESSOR_IMMEDIATE,   /* holds it, in an instruction or behind the code (a literal pool) */
    ACCESSOR_LOAD,        /* loads it from a slot that a relocation fills (of the GOT) */
};

struct accessor {
    enum accessor_form form;
    uint64_t value;      /* the address returned; for ACCESSOR_LOAD the address of the slot */
    size_t size;         /* of the whole body in bytes, its return included */
    size_t patch_offset; /* the bytes of the body that make the address, which are written over */
    size_t patch_size;
};

/* The most bytes that any machine writes over. */
#define ACCESSOR_PATCH_MAX 32

/* ---- references ---- */

/* What references are looked for: those to an address in [first, first + size). */
struct reference_target {
    uint64_t first;
    uint64_t size;
    bool absolute; /* code may hold addresses: the image is loaded where it says */
    bool called;   /* it is code: calls and jumps refer to it, too */
    /* Which of the addresses count; NULL: all. Among many bytes of code there are some that only
     * seem to refer to a large range, but hardly to one of a few addresses in it. */
    bool (*counts)(const void *context, uint64_t address);
    const void *context;
};

/* True where the address is in the range, and counts. */
static inline bool reference_counts(const struct reference_target *target, uint64_t address)
{
    return address - target->first < target->size &&
           (target->counts == NULL || target->counts(target->context, address));
}

/* ---- machines ---- */

/* The types of dynamic relocations of ELF images (the psABI's R_... numbers), by what the loader
 * puts where they apply. */
#define NO_ADDRESS_TYPES_MAX 12

struct elf_relocation_types {
    uint32_t none;
    uint32_t relative;  /* where the image is loaded + addend */
    uint32_t absolute;  /* the value of a symbol + addend: a word */
    uint32_t irelative; /* what a function says; NO_RELOCATION_TYPE: there is none */
    /* No address: numbers of modules, offsets in thread-local storage, sizes. Ends at a 0. */
    uint32_t no_address[NO_ADDRESS_TYPES_MAX];
    /* r_info is that of 64-bit MIPS: up to three types in one number, the first in its low byte. */
    bool are_composed;
};

#define NO_RELOCATION_TYPE UINT32_MAX

struct machine {
    const char *name;     /* for users */
    uint16_t elf_machine; /* EM_... */
    size_t address_size;  /* 4 or 8 bytes, as ELFCLASS32 and ELFCLASS64 */
    bool big_endian;      /* data; what code is in is the machine's own business */

    /* The smallest pages that kernels for it use: memory is mapped in multiples of that. */
    uint64_t page_size;
    /* Addresses that code makes are multiples of this, or 0 for 1. */
    uint64_t address_unit;
    /* The bit of a function's address that tells its instruction set (Arm: set for T32), and is no
     * part of where it is; 0: there is none. */
    uint64_t state_bit;
    /* Code reaches data by a register that holds one address throughout the image (of the GOT, the
     * TOC, or among small data): what ELF linkers call that address. NULL: there is none. */
    const char *base_symbol;
    /* How far behind the start of a function calls may lead that need not set that register: it has
     * a second entry there. 0: it has none. */
    uint64_t local_entry;
    /* Slots of the GOT have no relocations and hold addresses, to which code refers by loading
     * them: find_reference looks at what they hold. A GOT of more bytes than this may be several,
     * with a base each. 0: slots are pointers as others. */
    uint64_t got_size_max;
    /* Of ELF. NULL: covsplit knows the machine in other formats alone. */
    const struct elf_relocation_types *relocations;

    /* So many bytes in front of the position of a reference, and from it on, tell all of it. */
    uint64_t look_ahead;
    /* Many numbers in code look like references where there is none, so that only the few
     * addresses that code can have are looked for. */
    bool has_chance_hits;

    /* Decodes the function that starts at the first byte of the code. False where the body is not
     * one of the known ones, which is then not touched. */
    bool (*decode_accessor)(const struct code *code, struct accessor *accessor);

    /* Writes the accessor->patch_size bytes by which the function, decoded from this code, returns
     * `value`. False where that cannot be encoded in the space. */
    bool (*encode_accessor)(const struct code *code, const struct accessor *accessor,
                            uint64_t value, uint8_t patch[ACCESSOR_PATCH_MAX]);

    /* Looks for an instruction with an operand that refers to the target: relative to the program
     * counter or, where the code may hold absolute addresses, as an immediate. Starts at *position;
     * on a hit that is where the reference is. May see a reference where there is none, never
     * misses one of the forms that the file names. */
    bool (*find_reference)(const struct code *code, const struct reference_target *target,
                           uint64_t *position);

    /* Looks for the next load of 8 bytes from an address that the code forms: *target. Starts at
     * *position, which is then behind the hit. NULL: the machine has none. */
    bool (*find_load)(const struct code *code, uint64_t *position, uint64_t *target);

    /* Where an unconditional jump at the start of the code leads (MSVC's thunks for incremental
     * linking are such); false for anything else, which leaves *target as it is. */
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

/* The machine with this ELF number, class and data encoding (ELFCLASS..., ELFDATA...); NULL: none.
 */
const struct machine *machine_find(uint16_t elf_machine, uint8_t elf_class, uint8_t elf_data);

#endif
