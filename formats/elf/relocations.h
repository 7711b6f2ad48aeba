/*
 * Dynamic relocations: who points where, and taking out those that apply to removed bytes.
 *
 * An image's dynamic relocations are in up to three tables, which the dynamic section names: one
 * (DT_RELA, or DT_REL on machines whose addends are where they apply), those of the procedure
 * linkage table (DT_JMPREL), and packed relative ones (DT_RELR). A static image has none, or a bare
 * table that its start-up code walks. Which type means what is the machine's data.
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
    uint64_t offset; /* r_offset: the address it applies to */
    uint64_t target; /* the address that will be there; only if has_target */
    bool has_target; /* false where another image or the start-up code decides */
    uint32_t type;
    enum relocation_table table;
    uint64_t entry; /* file offset of the table entry; for RELR of the entry that has its bit */
};

/* Calls `visit` for every dynamic relocation, in the order of the tables. Stops at false and
 * returns it. Where the tables cannot be read, or are of a kind that is not known, returns false
 * with *reason set (to a phrase; NULL means that `visit` stopped). */
typedef bool (*elf_relocation_visitor)(void *context, const struct elf_relocation *relocation);
bool elf_relocations_each(const struct elf_image *image, elf_relocation_visitor visit,
                          void *context, const char **reason);

/* The entry of the dynamic section for DT_RELA or DT_REL; NULL where there is neither. */
const GElf_Dyn *elf_relocation_table(const struct elf_image *image);

/* How the tables change. Sizes are in bytes. */
struct elf_relocation_changes {
    uint64_t table_removed;    /* entries taken out of DT_RELA or DT_REL, times the size of one */
    uint64_t relative_removed; /* how many of those DT_RELACOUNT or DT_RELCOUNT counted */
    uint64_t relr_size;        /* new DT_RELRSZ */
    bool relr_changed;
};

/* What to take out. */
struct elf_relocation_removal {
    uint64_t address; /* relocations that apply to [address, address + size) go, */
    uint64_t size;
    uint64_t kept_offset; /* but for the one here (UINT64_MAX: none), */
    uint64_t kept_target; /* which must then be relative, and gets this target */
};

/* Adds the edits that take relocations out. The tables keep their place and their allotted bytes;
 * what becomes free at their end is zero. False with *reason set where it cannot be done, and with
 * NULL there where memory ran out: some edits may have been added then. */
bool elf_relocations_remove(const struct elf_image *image,
                            const struct elf_relocation_removal *removal, struct edit_script *edits,
                            struct elf_relocation_changes *changes, const char **reason);

#endif
