/*
 * An object while it is packed: packing.c reads it, and finds its coverage mapping; object_write.c
 * writes it without. For these two.
 *
 * Objects can have a million sections, nearly all of which go. So nothing is stored of a section
 * but a few bytes, and headers are read again where they are needed.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_OBJECT_PARTS_H
#define COVSPLIT_FORMATS_OBJECT_OBJECT_PARTS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/elf_file/elf_file.h"
#include "formats/object/packing.h"

/* LLVM's, which elf.h does not have (LLVM's ELF.h). */
#define SHT_LLVM_CREL    0x40000014u
#define SHT_LLVM_ADDRSIG 0x6fff4c03u
/* Weights of calls, whose functions are told by relocations. */
#define SHT_LLVM_CALL_GRAPH_PROFILE 0x6fff4c09u

/* The future of a section. */
enum section_role {
    ROLE_STAYS,
    ROLE_COVMAP,       /* the first section with units: it becomes that of the packed ones */
    ROLE_OTHER_COVMAP, /* goes, as all that follow */
    ROLE_COVFUN,
    ROLE_GROUP,    /* the group of a record */
    ROLE_EXTENDED, /* SHT_SYMTAB_SHNDX of an object with too few sections to need it */
};

struct object {
    struct elf_file file;
    struct object_packing *packing;
    bool out_of_memory;
    struct arena arena;
    bool is_mips64; /* r_info is not a number but several */
    uint32_t section_count;
    struct bytes section_names;
    uint32_t symbol_table; /* section numbers; 0: there is none */
    uint32_t symbol_names;
    uint32_t extended;            /* SHT_SYMTAB_SHNDX */
    struct bytes symbols;         /* the contents of these sections */
    struct bytes symbol_strings;  /* ends with a NUL */
    struct bytes extended_number; /* a word for each symbol; or empty */
    uint32_t symbol_count;
    uint8_t *roles;       /* of the sections: enum section_role */
    uint32_t *signatures; /* of each __llvm_covfun, the symbol of its group; 0: in none */
    bool *is_signature;   /* of the symbols: names a group that goes */
    struct packed_unit *units;
    size_t unit_count, unit_capacity;
};

struct object_symbol {
    Elf64_Sym sym;
    uint32_t section; /* extended numbers resolved; special ones, SHN_ABS and so on, as stored */
    bool is_special;
    const char *name; /* "" if it is not inside the string table */
};

/* The object must stay as it is: sets the outcome and the reason, which says what is wrong and what
 * to do. The second is for damage: "WHAT damaged; compile it again". All return false. */
bool object_keep(struct object *object, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool object_damaged(struct object *object, const char *what);
bool object_no_memory(struct object *object);

/* The bytes of a section, which was checked to be inside the file; empty for SHT_NOBITS. */
struct bytes object_contents(const struct object *object, uint32_t number);

/* A symbol, whose number is below symbol_count. */
struct object_symbol object_symbol(const struct object *object, uint32_t number);

/* Appends the section with the packed units, and sets the counts in object->packing. */
bool object_write_units(struct object *object, struct buffer *section);

/* Writes the object without the ordinary mapping to packing->contents. False if it must stay, or
 * memory ran out. */
bool object_write_packed(struct object *object);

#endif
