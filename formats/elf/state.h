/*
 * What the steps of an ELF split share. Internal to formats/elf.
 *
 * elf.c describes and checks sections; layout.c finds the pages to cut, with room.c, which makes
 * room for the program headers that this takes; write.c writes the tables of the stripped image.
 * references.c looks for pointers, relocations.c reads and takes out dynamic relocations, and
 * retained.c those that the linker left for other tools.
 */
#ifndef COVSPLIT_FORMATS_ELF_STATE_H
#define COVSPLIT_FORMATS_ELF_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/elf/read.h"
#include "formats/elf/relocations.h"
#include "formats/format.h"

/* At most names and data: two holes in loadable segments. */
#define HOLES_MAX 2
/* .interp and notes in front, and one section out of the run behind them. */
#define MOVES_MAX 16

/* sh_entsize of a section that was emptied, by which it is known again: linkers give none to these
 * sections. */
#define EMPTIED_SECTION_MARK 1

/* Whole pages of a removed section that leave the file and, in a read-only segment, memory. */
struct elf_hole {
    size_t segment;   /* index of the PT_LOAD */
    uint64_t address; /* both ends are multiples of the segments' alignment */
    uint64_t size;
    /* Behind it the segment has but the rest of the section. That goes from memory too: strip takes
     * a segment without sections for one without bytes, and gives it an offset that no loader
     * takes. */
    bool is_at_end;
};

/* A section, or the segments that cover it, that goes to another address. */
struct elf_move {
    uint64_t address; /* old */
    uint64_t size;
    uint64_t distance; /* new address - old address, modulo 2^64 */
};

struct elf_state {
    struct planning base;
    struct elf_image image;
    uint64_t code_base; /* see struct code */
    struct elf_relocation_changes relocation_changes;

    struct elf_hole holes[HOLES_MAX];
    size_t hole_count;
    /* What moved out of the way of the program headers: blocks with their bytes go into the names'
     * range (`moved`), the run between them only shifts within the file. */
    struct elf_move moves[MOVES_MAX];
    size_t move_count;
    struct buffer moved;     /* bytes for the head of the names' range: the tripwire and behind it
                                what moved */
    uint64_t headers_end;    /* file offset where what the new headers replace ends */
    uint64_t headers_growth; /* bytes inserted there; taken out again further on */
    size_t headers_literal;  /* of the new program headers, in the edits' literals */
    uint64_t new_phnum;      /* at most, until elf/write.c has made the table */
};

/* ---- elf/symbols.c ---- */

/* Finds all definitions of the runtime's symbols, and the machine's base symbol (0: there is none).
 * False for a damaged symbol table. */
bool elf_symbols_find(const struct elf_image *image, struct runtime_symbols *symbols,
                      uint64_t *code_base, struct error *error);

/* Calls `visit` for every function of the symbol table, as runtime/symbols.h has it. */
bool elf_symbols_visit(const struct elf_image *image, runtime_symbol_visitor visit, void *context);

/* An entry of a symbol table. */
struct elf_symbol {
    size_t table; /* the section that it is an entry of */
    GElf_Word st_name;
    unsigned char st_info;
    uint64_t st_value;
    uint64_t st_size;
    size_t section;  /* its index; SHN_UNDEF: none here; NO_INDEX: no section, as SHN_ABS says */
    uint64_t offset; /* of the entry in the file */
};

/* The name and what follows it in the string table; empty where it is not in there. */
struct bytes elf_symbol_name(const struct elf_image *image, const struct elf_symbol *symbol);

/* True for a symbol of the assembler's, where nothing starts: a mapping symbol, which says what
 * code or data follows ($a, $d, $t, $x), or a label that it kept. */
bool elf_symbol_is_mark(const struct elf_image *image, const struct elf_symbol *symbol);

/* True where st_value is an address in the loaded image. In sections that are not loaded (where
 * every __covrec_ symbol is) it is an offset from 0, and for TLS an offset too. */
bool elf_symbol_has_address(const struct elf_image *image, const struct elf_symbol *symbol);

/* Calls `visit` for every symbol but the first of the section (SHT_SYMTAB or SHT_DYNSYM). Stops at
 * false and returns it. A table that cannot be read as one gives false too. */
typedef bool (*elf_symbol_visitor)(void *context, const struct elf_symbol *symbol);
bool elf_symbols_each(const struct elf_image *image, size_t section, elf_symbol_visitor visit,
                      void *context);

/* ---- elf/retained.c ---- */

/* False where the image has retained relocations that cannot be read. */
bool elf_retained_is_known(const struct elf_image *image);

/* True for a section of retained relocations that goes, with the one that it is of. */
bool elf_retained_goes(const struct elf_state *state, size_t section);

/* Adds the edits that make all others say nothing of what is rewritten. False where there is no
 * memory. */
bool elf_retained_silence(struct elf_state *state);

/* ---- the other steps ---- */

/* elf/references.c, as code_operations has them. */
bool elf_find_pointer(const struct planning *planning, const struct reference_target *target,
                      uint64_t *from, const char **reason);
bool elf_means_other_end(const struct planning *planning, uint64_t address, uint64_t from);
bool elf_slot_value(const struct planning *planning, uint64_t slot, uint64_t *value);

/* elf/layout.c and elf/write.c, as struct format has them. What is written is checked to hold
 * together. */
bool elf_layout(struct planning *planning, struct error *error);
bool elf_write(struct planning *planning, struct error *error);

/* The move that the address takes part in; NULL if it stays (elf/room.c). */
const struct elf_move *elf_move_of(const struct elf_state *state, uint64_t address);

/* Makes room for `extra` more program headers (elf/room.c). On success headers_end, headers_growth,
 * moves and moved are set; on failure elf_room_forget must follow. */
bool elf_room_make(struct elf_state *state, size_t extra);

/* Undoes what an attempt has planned; edit_count is the number of edits before it. */
void elf_room_forget(struct elf_state *state, size_t edit_count);

#endif
