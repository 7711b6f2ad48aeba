/*
 * The accessor functions of the profile runtime, as machine code.
 *
 * The runtime that clang links into an image asks tiny functions for the bounds of its sections
 * (__llvm_profile_begin_data, __llvm_profile_end_data, ...). Each only returns one address. Making
 * such a function return another address is all that has to change in an image's code, so this
 * module knows just their bodies: one decoder and one encoder a machine, shared by all formats.
 *
 * x86-64 bodies seen in real images (clang 13 to 22, GNU ld and lld), where the instructions in
 * brackets come and go with compiler options:
 *     [endbr64] [push %rbp; mov %rsp,%rbp]  lea X(%rip),%rax       [pop %rbp]  ret
 *     [endbr64] [push %rbp; mov %rsp,%rbp]  mov $X,%rax or %eax    [pop %rbp]  ret
 *     [endbr64] [push %rbp; mov %rsp,%rbp]  mov X@GOT(%rip),%rax   [pop %rbp]  ret
 * i386 (COFF), where a mov holds the address and a base relocation applies to it:
 *     [endbr32] [push %ebp; mov %esp,%ebp]  mov $X,%eax  [pop %ebp]  ret
 * AArch64:
 *     [bti c]  adrp x0, X; add x0, x0, :lo12:X  ret
 *     [bti c]  adr x0, X; nop  (or nop; adr)    ret
 * Anything else is not recognized, and then not touched.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_ACCESSOR_H
#define COVSPLIT_FORMATS_MACHINE_ACCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define ACCESSOR_INSTRUCTION_MAX 10

enum accessor_form {
    ACCESSOR_PC_RELATIVE, /* computes the address from the program counter */
    ACCESSOR_IMMEDIATE,   /* holds the address */
    ACCESSOR_LOAD,        /* loads the address from a slot (of the GOT) */
};

struct accessor {
    enum accessor_form form;
    uint64_t value;            /* the address returned; for ACCESSOR_LOAD the address of the slot */
    size_t size;               /* of the whole body in bytes, its return included */
    size_t instruction_offset; /* of the instruction that makes the address, in the body */
    size_t instruction_size;
};

/* Decodes the function that starts at the first byte of `code`, which is loaded at `address`.
 * `machine` is an ELF machine number. False where the body is not one of the known ones. */
bool accessor_decode(uint16_t machine, struct bytes code, uint64_t address,
                     struct accessor *accessor);

/* Writes the accessor->instruction_size bytes that take the place of the old instruction so that
 * the function at `address` returns `value`. False where that cannot be encoded in the space. */
bool accessor_encode(uint16_t machine, const struct accessor *accessor, struct bytes code,
                     uint64_t address, uint64_t value,
                     uint8_t instruction[ACCESSOR_INSTRUCTION_MAX]);

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
bool reference_counts(const struct reference_target *target, uint64_t address);

/* Looks in `code`, loaded at `address`, for an instruction with an operand that refers to the
 * target: relative to the program counter or, where the code may hold absolute addresses, as an
 * immediate. An absolute address that is just the first one needs no instruction before it. Starts
 * at *position; on a hit *position is where the instruction's address field is. Used to prove that
 * nobody else refers to what will go.
 * i386 has no such operands but absolute ones, which have relocations, and those of calls: only
 * these are found there. */
bool accessor_find_reference(uint16_t machine, struct bytes code, uint64_t address,
                             const struct reference_target *target, uint64_t *position);

/* Looks for a body that has the byte at `position` in the instruction that makes the address:
 * *start is where in `code` it starts. Used where no symbol tells. */
bool accessor_decode_around(uint16_t machine, struct bytes code, uint64_t address,
                            uint64_t position, uint64_t *start, struct accessor *accessor);

/* Looks for the next load of 8 bytes (of any load, where the machine has none of 8) from an address
 * that the code forms. Starts at *position, which is then behind the hit. i386: always false. */
bool accessor_find_load(uint16_t machine, struct bytes code, uint64_t address, uint64_t *position,
                        uint64_t *target);

/* Where an unconditional jump at the start of the code leads (MSVC's thunks for incremental
 * linking are such); false for anything else. */
bool accessor_follow_jump(uint16_t machine, struct bytes code, uint64_t address, uint64_t *target);

#endif
