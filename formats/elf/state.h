/*
 * What the steps of an ELF split share. Internal to formats/elf.
 *
 * elf.c describes and checks sections; layout.c finds the pages to cut, with zeros.c, which finds
 * the zeros beside them, and room.c, which makes room for the program headers that cutting needs;
 * write.c writes the tables of the stripped image.
 * references.c looks for pointers, relocations.c reads and removes dynamic relocations, and
 * retained.c removes those that the linker left for other tools.
 */
#ifndef COVSPLIT_FORMATS_ELF_STATE_H
#define COVSPLIT_FORMATS_ELF_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/elf/read.h"
#include "formats/elf/relocations.h"
#include "formats/format.h"

/* The names, and what is before and behind the stub record. */
#define HOLES_MAX 3
/* The sections of zeros in a hole: counters, bitmap, value nodes. */
#define ELF_EMPTIED_MAX 3
/* .interp, notes, and one section out of the run of tables behind them. */
#define MOVES_MAX 16

/* sh_entsize of an emptied section, by which a stripped image is recognized: linkers write 0
 * there. */
#define EMPTIED_SECTION_MARK 1

/* Whole pages that are cut from the file and, in a read-only segment, also from memory. */
struct elf_hole {
    size_t segment;   /* index of the PT_LOAD */
    uint64_t address; /* both ends are multiples of the segments' alignment, except in firmware, and
                         except in a tail */
    uint64_t size;
    uint64_t file_end;        /* from this address on, up to the hole, memory is zeros as in it */
    uint64_t cut_offset, cut; /* what goes from the file: in firmware, and of a tail, not all */
    /* Behind the hole, the segment has no bytes in the file: it needs no further program header. */
    bool is_tail;
    /* Behind the hole, the segment contains only the rest of the section. That rest goes from
     * memory too: strip treats a segment without sections as one without bytes, and gives it an
     * offset that loaders reject. */
    bool is_at_end;
    /* Sections that become SHT_NOBITS, with their first `size` bytes (elf/zeros.c). */
    struct {
        size_t section;
        uint64_t size;
    } emptied[ELF_EMPTIED_MAX];
    size_t emptied_count;
    uint64_t stub_section; /* where the section of the stub starts; 0: at the stub */
};

/* A section, or the segments that cover it, that moves to another address. */
struct elf_move {
    uint64_t address; /* old */
    uint64_t size;
    uint64_t distance; /* new address - old address, modulo 2^64 */
};

/* What uses the end of another section, which is where names or data start (elf/references.c). */
#define END_USERS 9
struct elf_end_user {
    uint64_t end; /* 0: no such section ends there, or more than one thing has the user's name */
    bool is_found;
    uint64_t start, size;
};

struct elf_state {
    struct planning base;
    struct elf_image image;
    bool is_firmware;                /* elf_is_firmware */
    uint64_t code_base;              /* see struct code */
    uint64_t data_bases[DATA_BASES]; /* see struct image_data */
    struct code_mark *marks;
    size_t mark_count;
    struct elf_relocation_changes relocation_changes;
    struct elf_end_user end_users[END_USERS];

    struct elf_hole holes[HOLES_MAX];
    size_t hole_count;
    /* What made way for the program headers: blocks of bytes moved into the names' range (`moved`);
     * the run between them is only shifted within the file. */
    struct elf_move moves[MOVES_MAX];
    size_t move_count;
    struct buffer moved;     /* the new start of the names' range: the tripwire, and behind it
                                what moved; if rests_are_joined, that of the records */
    size_t rest_size;        /* of that, without what moved */
    uint64_t names_address;  /* of the tripwire */
    bool rests_are_joined;   /* the tripwire is behind the stub (elf/layout.c) */
    uint64_t headers_end;    /* end, in the file, of what the new headers replace */
    uint64_t headers_growth; /* bytes inserted there, and removed again further on */
    size_t headers_literal;  /* offset of the new program headers in the edits' literals */
    uint64_t new_phnum;      /* an upper bound until elf/write.c has made the table */
};

/* ---- elf/symbols.c ---- */

/* Finds all definitions of the runtime's symbols, and the value of the machine's base symbol (0:
 * there is none). False if the symbol table is damaged. */
bool elf_symbols_find(const struct elf_image *image, struct runtime_symbols *symbols,
                      uint64_t *code_base, struct error *error);

/* Adds what symbols say of the kind of code (struct code) to none, for the caller to free. False if
 * memory runs out. */
bool elf_symbols_mark(const struct elf_image *image, struct code_mark **marks, size_t *count);

/* Calls `visit` for every function in the symbol table, as in runtime/symbols.h. */
bool elf_symbols_visit(const struct elf_image *image, runtime_symbol_visitor visit, void *context);

/* An entry of a symbol table. */
struct elf_symbol {
    size_t table; /* index of the section that contains it */
    GElf_Word st_name;
    unsigned char st_info;
    uint64_t st_value;
    uint64_t st_size;
    size_t section;  /* index; SHN_UNDEF: not defined here; NO_INDEX: none, as with SHN_ABS */
    uint64_t offset; /* of the entry in the file */
};

/* The name and what follows it in the string table; empty if it is not inside that. */
struct bytes elf_symbol_name(const struct elf_image *image, const struct elf_symbol *symbol);

/* True for a symbol of the assembler where nothing starts: a mapping symbol, which says whether
 * code or data follows ($a, $d, $t, $x), or a label that the assembler kept. */
bool elf_symbol_is_mark(const struct elf_image *image, const struct elf_symbol *symbol);

/* True if st_value is an address in the loaded image. In sections that are not loaded (where all
 * __covrec_ symbols are) it is an offset from 0, and for TLS symbols it is also an offset. */
bool elf_symbol_has_address(const struct elf_image *image, const struct elf_symbol *symbol);

/* Calls `visit` for every symbol of the section (SHT_SYMTAB or SHT_DYNSYM) except the first. If it
 * returns false, stops and returns false; also returns false if the table cannot be read. */
typedef bool (*elf_symbol_visitor)(void *context, const struct elf_symbol *symbol);
bool elf_symbols_each(const struct elf_image *image, size_t section, elf_symbol_visitor visit,
                      void *context);

/* ---- elf/retained.c ---- */

/* False if the image has retained relocations that cannot be read. */
bool elf_retained_is_known(const struct elf_image *image);

/* True for a section of retained relocations that is removed along with the section that they are
 * for. */
bool elf_retained_goes(const struct elf_state *state, size_t section);

/* Adds the edits that neutralize all other retained relocations for code that is rewritten. False
 * if memory runs out. */
bool elf_retained_silence(struct elf_state *state);

/* ---- the other steps ---- */

/* Finds them all, once: an image may refer to such an end a million times. */
void elf_find_end_users(struct elf_state *state);

/* Operations of struct code_operations (elf/references.c). */
bool elf_find_pointer(const struct planning *planning, const struct reference_target *target,
                      uint64_t *from, const char **reason);
bool elf_means_other_end(const struct planning *planning, uint64_t address, uint64_t from);
bool elf_slot_value(const struct planning *planning, uint64_t slot, uint64_t *value);

/* Operations of struct format (elf/layout.c, elf/write.c). elf_write also checks that the new
 * tables are consistent. */
bool elf_layout(struct planning *planning, struct error *error);
bool elf_write(struct planning *planning, struct error *error);

/* The operation replace_mapping of struct format (elf/mapping.c). */
bool elf_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                         struct edit_script *edits, struct error *error);

/* The zeros before and behind the stub (elf/zeros.c); false if nothing of them can go. What goes
 * from the file in the middle of a segment is a multiple of `unit`. Behind the stub, `has_zeros`
 * tells whether sections of zeros go as well as the records; of a tail the caller decides how much
 * is cut from the file. */
bool elf_zeros_before(const struct elf_state *state, uint64_t unit, struct elf_hole *hole);
bool elf_zeros_behind(const struct elf_state *state, uint64_t unit, bool has_zeros,
                      struct elf_hole *hole);

/* The move that includes the address; NULL if it stays (elf/room.c). */
const struct elf_move *elf_move_of(const struct elf_state *state, uint64_t address);

/* Makes room for `extra` more program headers (elf/room.c). On success sets headers_end,
 * headers_growth, moves and moved; after a failure elf_room_forget must be called. What follows may
 * be shifted in the file, if at all, by multiples of `unit`. */
bool elf_room_make(struct elf_state *state, size_t extra, uint64_t unit);

/* Undoes what a failed attempt has planned; edit_count is the number of edits before it. */
void elf_room_forget(struct elf_state *state, size_t edit_count);

#endif
