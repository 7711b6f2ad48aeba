/*
 * ELF relocatables (System V gABI, and LLVM's extensions to it), packed in three steps:
 *
 *   elf_object_read.c    finds the sections that go, and the units and records in them
 *   elf_object_number.c  gives new numbers to the sections and symbols that stay
 *   elf_object_write.c   writes the object, with new numbers wherever old ones were
 *
 * Objects can have a million sections, nearly all of which go. So nothing is stored of a section
 * but a few bytes, and headers are read again where they are needed.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_ELF_OBJECT_H
#define COVSPLIT_FORMATS_OBJECT_ELF_OBJECT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/llvm/section.h"
#include "formats/object/object.h"
#include "formats/object/units.h"

/* LLVM's, which elf.h does not have (LLVM's ELF.h). */
#define SHT_LLVM_CREL    0x40000014u
#define SHT_LLVM_ADDRSIG 0x6fff4c03u

/* What becomes of a section. */
enum elf_object_role {
    ROLE_STAYS,
    ROLE_COVMAP,       /* the first section with units: it becomes that of the packed ones */
    ROLE_OTHER_COVMAP, /* goes, as all that follow */
    ROLE_COVFUN,
    ROLE_GROUP,    /* the group of a record */
    ROLE_EXTENDED, /* SHT_SYMTAB_SHNDX of what has too few sections to need it */
};

/* The new number of what goes. */
#define NUMBER_GONE UINT32_MAX

struct elf_object {
    struct bytes file;
    struct object_packing *packing;
    struct object_units units;
    bool wide; /* ELFCLASS64 */
    bool big_endian;
    bool is_mips64;           /* r_info is not a number but several */
    uint64_t section_headers; /* e_shoff */
    uint32_t section_count;
    uint32_t names; /* e_shstrndx */
    struct bytes section_names;
    uint32_t symbol_table; /* 0: there is none, here and below */
    uint32_t symbol_names; /* its string table */
    uint32_t extended;     /* SHT_SYMTAB_SHNDX */
    uint32_t symbol_count;
    uint8_t *roles;       /* of the sections: enum elf_object_role */
    uint32_t *signatures; /* of each __llvm_covfun, the symbol of its group; 0: in none */
    uint32_t *new_sections;
    uint32_t *new_symbols; /* before the numbering: SYMBOL_SIGNATURE or 0 */
    uint32_t new_section_count;
    uint32_t new_symbol_count;
    uint32_t new_local_count;
};

/* Marks a symbol that is the name of a group that goes. */
#define SYMBOL_SIGNATURE 1

struct elf_object_symbol {
    uint32_t name;
    uint8_t info;     /* st_info */
    uint32_t section; /* extended numbers resolved; special ones, SHN_ABS and so on, as stored */
    bool is_special;
    uint64_t value;
};

/* ---- reading ---- */

/* Reads the headers of an object for a known machine, and the table of section names. RESULT_UNFIT
 * as for elf_object_read. */
enum result elf_object_read_headers(struct elf_object *object, struct bytes file,
                                    struct object_packing *packing);
/* True if the section has the name of this kind; its number is below section_count. */
bool elf_object_is_kind(const struct elf_object *object, uint32_t number, enum section_kind kind);

/* Finds what goes. RESULT_UNFIT: packing->outcome says why there is nothing to do. */
enum result elf_object_read(struct elf_object *object, struct bytes file,
                            struct object_packing *packing);
void elf_object_free(struct elf_object *object);

/* The header of a section, whose number is below section_count. */
Elf64_Shdr elf_object_section(const struct elf_object *object, uint32_t number);
/* Its bytes in the file; empty for SHT_NOBITS. Every section was checked to be inside. */
struct bytes elf_object_bytes(const struct elf_object *object, uint32_t number);

/* A symbol, whose number is below symbol_count. */
struct elf_object_symbol elf_object_symbol(const struct elf_object *object, uint32_t number);
/* Its name; "" if it is not inside the string table. */
const char *elf_object_symbol_name(const struct elf_object *object,
                                   const struct elf_object_symbol *symbol);

/* The sizes in the file, by class. */
static inline size_t elf_object_header_size(const struct elf_object *object)
{
    return object->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
}

static inline size_t elf_object_section_size(const struct elf_object *object)
{
    return object->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
}

static inline size_t elf_object_symbol_size(const struct elf_object *object)
{
    return object->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

/* Keeps the object because of damage. */
enum result elf_object_damaged(const struct elf_object *object, const char *what);

/* ---- numbering ---- */

/* Unfit if a symbol would go that is not only of the coverage mapping. */
enum result elf_object_number(struct elf_object *object);

/* ---- writing ---- */

enum result elf_object_write(struct elf_object *object);

#endif
