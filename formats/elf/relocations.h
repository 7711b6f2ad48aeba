/*
 * Dynamic relocations: what they point to, and the removal of those that apply to removed bytes.
 *
 * An image's dynamic relocations are in up to three tables, which the dynamic section names: the
 * main one (DT_RELA, or DT_REL on machines that keep addends at the relocated places), that of the
 * procedure linkage table (DT_JMPREL), and the packed relative ones (DT_RELR). A static image has
 * none, or a table that only its start-up code knows. What each type means is in `struct machine`.
 */
#ifndef COVSPLIT_FORMATS_ELF_RELOCATIONS_H
#define COVSPLIT_FORMATS_ELF_RELOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/edit/script.h"
#include "formats/elf/read.h"

enum relocation_table {
    RELOCATION_TABLE,  /* DT_RELA or DT_REL */
    RELOCATION_PLT,    /* DT_JMPREL */
    RELOCATION_RELR,   /* DT_RELR */
    RELOCATION_STATIC, /* an allocated table in an image without a dynamic section */
};

struct elf_relocation {
    uint64_t offset; /* r_offset: the address that it applies to */
    uint64_t target; /* the address that the loader stores there; only if has_target */
    bool has_target; /* false if another image or the start-up code decides it */
    uint32_t type;
    enum relocation_table table;
    uint64_t entry; /* file offset of its table entry; with RELR, of the one with its bit */
};

/* Calls `visit` for every dynamic relocation, in the order of the tables; if it returns false,
 * stops and returns false with *reason NULL. If the tables cannot be read, or are of an unknown
 * kind, returns false with *reason set to a phrase. */
typedef bool (*elf_relocation_visitor)(void *context, const struct elf_relocation *relocation);
bool elf_relocations_each(const struct elf_image *image, elf_relocation_visitor visit,
                          void *context, const char **reason);

/* The entry of the dynamic section for DT_RELA or DT_REL; NULL if there is neither. */
const GElf_Dyn *elf_relocation_table(const struct elf_image *image);

/* How the tables change. Sizes are in bytes. */
struct elf_relocation_changes {
    uint64_t table_removed;    /* size of the entries taken out of DT_RELA or DT_REL */
    uint64_t relative_removed; /* how many of them DT_RELACOUNT or DT_RELCOUNT counts */
    uint64_t relr_size;        /* new DT_RELRSZ */
    bool relr_changed;
};

/* Which relocations to take out. */
struct elf_relocation_removal {
    uint64_t address; /* those that apply to [address, address + size), */
    uint64_t size;
    uint64_t kept_offset; /* except the one at this offset in it (UINT64_MAX: none), */
    uint64_t kept_target; /* which must be relative, and gets this new target */
};

/* Adds the edits that take relocations out. The tables keep their place and their space in the
 * file; what becomes free at their end is zeroed. False with *reason set if that is impossible, or
 * with *reason NULL if memory ran out; some edits may have been added by then. */
bool elf_relocations_remove(const struct elf_image *image,
                            const struct elf_relocation_removal *removal, struct edit_script *edits,
                            struct elf_relocation_changes *changes, const char **reason);

#endif
