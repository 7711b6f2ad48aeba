/*
 * ELF images, and the steps of a split of one.
 *
 * elf_image_open checks, once, everything that the rest of the ELF code relies on. After it has
 * returned true, every program header and section lies inside the file, the loadable segments do
 * not overlap in memory, and no sum of an offset or address and a size wraps around. They are in
 * ascending order, too, except in executables, where a linker script may have put RAM before flash.
 *
 * elf.c describes and checks sections; symbols.c reads symbol tables, relocations.c reads and
 * removes relocations, and pointers.c looks for pointers. layout.c finds the pages to cut, with
 * the zeros beside them, and room.c makes room for the program headers that cutting needs; write.c
 * writes the tables of the stripped image.
 */
#ifndef COVSPLIT_FORMATS_ELF_ELF_H
#define COVSPLIT_FORMATS_ELF_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/edit/symbols.h"
#include "common/elf_file/elf_file.h"
#include "formats/format.h"

/* Older headers do not define these. */
#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR   36
#endif
#ifndef SHT_RELR
#define SHT_RELR 19
#endif

/* ---- images (elf/read.c) ---- */

/* Sizes in bytes, in the file, of the structures of the image's class. */
struct elf_sizes {
    size_t ehdr;
    size_t phdr;
    size_t shdr;
    size_t sym;
    size_t dyn;
    size_t rel;
    size_t rela;
    size_t word; /* an address */
};

struct elf_image {
    const struct input *input;
    const char *path; /* of the input, for messages */
    struct elf_file elf;
    const struct machine *machine; /* its member `relocations` is not NULL */
    struct elf_sizes sizes;
    struct arena memory; /* for the tables below */
    Elf64_Phdr *phdrs;
    size_t phnum;
    Elf64_Shdr *shdrs;
    size_t shnum;
    struct bytes section_names; /* .shstrtab */
    Elf64_Dyn *dynamic;         /* up to and including DT_NULL */
    size_t dynamic_count;       /* 0: the image has no PT_DYNAMIC */
    uint64_t dynamic_offset;    /* in the file */
};

static inline struct elf_form elf_form(const struct elf_image *image)
{
    return elf_file_form(&image->elf);
}

/* True for a file with what a debugger needs of an image, and nothing else: its sections that are
 * loaded have no contents, but for notes (objcopy --only-keep-debug, eu-strip -f). */
bool elf_is_debug_file(struct elf_file *elf);

/* Opens an executable or shared library for one of the known machines. The input must outlive the
 * image. After a failure there is nothing to close. */
bool elf_image_open(struct elf_image *image, const struct input *input, struct error *error);
void elf_image_close(struct elf_image *image);

/* Appends the outline of an image: see image_outline in image.h. */
bool elf_outline(const struct input *input, struct buffer *outline, struct error *error);

/* "" if the name is not inside the string table. Points into the file. */
const char *elf_section_name(const struct elf_image *image, size_t index);
/* Index of the first section of that name behind `after` (0: from the start); NO_INDEX if none. */
size_t elf_section_find(const struct elf_image *image, const char *name, size_t after);
/* The section's bytes in the file: empty for SHT_NOBITS. */
struct bytes elf_section_bytes(const struct elf_image *image, size_t index);
/* The address and size of what the runtime finds in the section of that kind. In a stripped image
 * the last counters may be in the section of the stub (elf/layout.c). */
void elf_section_place(const struct elf_image *image, size_t index, enum section_kind kind,
                       uint64_t *address, uint64_t *size);
/* In a stripped image, the size in bytes of the stub at the end of the data section; 0 if there is
 * none. If counters precede it, sh_entsize is ELF_STUB_UNIT, of which its size is a multiple. */
#define ELF_STUB_UNIT 8
size_t elf_stub_size(const struct elf_image *image, size_t index);
/* The offset in the file of the first section, segment or table of section headers that starts
 * there or behind; the end of the file if none does. */
uint64_t elf_next_in_file(const struct elf_image *image, uint64_t offset);
/* What else of the image has bytes of the section: a phrase, at the end of which comes *name if
 * that is set; NULL if nothing has. */
const char *elf_why_shared(const struct elf_image *image, size_t section, const char **name);
/* True for a section that occupies bytes of the file. */
bool elf_section_in_file(const Elf64_Shdr *shdr);

/* Index of the PT_LOAD segment whose part in the file holds all of [address, address + size);
 * NO_INDEX if there is none. */
size_t elf_segment_of(const struct elf_image *image, uint64_t address, uint64_t size);
/* True if the address of a segment and its offset in the file agree with its alignment. Where it
 * has no bytes in the file, the offset means nothing; GNU ld makes it 0. */
bool elf_segment_is_aligned(const Elf64_Phdr *phdr);
/* True if the PT_LOAD segments are apart in memory and, unless the image is an executable, in
 * ascending order. */
bool elf_segments_are_apart(const struct elf_image *image, const Elf64_Phdr *phdrs, size_t count);

/* True if the bytes that the section header describes are those that are loaded at its address. */
bool elf_is_where_loaded(const Elf64_Shdr *shdr, const Elf64_Phdr *phdrs, size_t phnum);

/* The first PT_LOAD, and the difference of address and file offset in the one that holds the ELF
 * header. */
const Elf64_Phdr *elf_first_load(const struct elf_image *image);
uint64_t elf_header_base(const struct elf_image *image);
/* The bytes loaded at [address, address + size); false if they are not in the file. */
bool elf_bytes_at(const struct elf_image *image, uint64_t address, uint64_t size,
                  struct bytes *bytes);

/* Refuses an image with bytes behind everything that the headers describe. They belong to someone
 * else (an archive that the program opens, a signature), who may look for them at a fixed
 * offset. */
bool elf_check_tail(const struct elf_image *image, struct error *error);

/* An address, or another value of that size, in the file's byte order and size. */
uint64_t elf_load_word(const struct elf_image *image, const uint8_t *from);
void elf_store_word(const struct elf_image *image, uint8_t *to, uint64_t value);

/* The entry with that tag; NULL if there is none. */
const Elf64_Dyn *elf_dynamic_find(const struct elf_image *image, Elf64_Sxword tag);

/* ---- dynamic relocations (elf/relocations.c) ---- */

/* An image's dynamic relocations are in up to three tables, which the dynamic section names: the
 * main one (DT_RELA, or DT_REL on machines that keep addends at the relocated places), that of the
 * procedure linkage table (DT_JMPREL), and the packed relative ones (DT_RELR). A static image has
 * none, or tables that only its start-up code knows. `struct machine` has the meaning of each type.
 */
enum relocation_kind {
    RELOCATION_TABLE,  /* DT_RELA or DT_REL */
    RELOCATION_PLT,    /* DT_JMPREL */
    RELOCATION_RELR,   /* DT_RELR */
    RELOCATION_STATIC, /* an allocated table in an image without a dynamic section */
};

/* That of RELR consists of words. */
struct elf_relocation_table {
    enum relocation_kind kind;
    struct bytes bytes; /* in the file */
    uint64_t offset;    /* in the file */
    uint64_t entry_size;
    bool has_addends; /* addends are in its entries, not at the relocated places */
};

struct elf_relocation {
    uint64_t offset; /* r_offset: the address that it applies to */
    uint64_t target; /* the address that the loader stores there; only if has_target */
    bool has_target; /* false if another image or the start-up code decides it */
    uint32_t type;
    enum relocation_kind kind;
    uint64_t entry; /* file offset of its table entry; not of RELR */
};

/* The dynamic relocations that were not taken yet, in the order of the tables. */
struct elf_relocations {
    const struct elf_image *image;
    const char *reason;   /* the rest cannot be read, or is of an unknown kind: a phrase; or NULL */
    struct bytes symbols; /* .dynsym, for the targets of relocations with a symbol */
    struct elf_relocation_table tables[RELOCATION_STATIC]; /* of the dynamic section, by kind */
    struct elf_relocation_table table;                     /* the current one */
    size_t next_table; /* index in `tables`, or of a section of a static image */
    uint64_t position, released;
    /* Of RELR: the bits that are left of an entry, of which the lowest is for this address; and the
     * address for the lowest of the next bitmap. */
    uint64_t address, bits, next_bitmap;
};

struct elf_relocations elf_relocations_open(const struct elf_image *image);
/* Takes the next one. False if there is none left, or the member `reason` says why not. */
bool elf_relocations_next(struct elf_relocations *relocations, struct elf_relocation *relocation);

/* True for a tag of the dynamic section with the address of a table that may move (elf/room.c). */
bool elf_is_table_tag(Elf64_Sxword tag);

/* The changes of the tables. Sizes are in bytes. */
struct elf_relocation_changes {
    uint64_t table_removed;    /* size of the entries taken out of DT_RELA or DT_REL */
    uint64_t table_end;        /* its end in the file, if any were */
    uint64_t relative_removed; /* how many of them DT_RELACOUNT or DT_RELCOUNT counts */
    uint64_t relr_size;        /* new DT_RELRSZ */
    bool relr_changed;
};

/* ---- the state of a split ---- */

/* The names, and what is before and behind the stub record. */
#define HOLES_MAX 3
/* The sections of zeros in a hole: counters, bitmap, values, value nodes. */
#define ELF_EMPTIED_MAX 4
/* What shifts, and what moves behind the names (elf/room.c). */
#define MOVES_MAX 2

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
    /* Sections that become SHT_NOBITS, with their first `size` bytes (elf/layout.c). */
    struct {
        size_t section;
        uint64_t size;
    } emptied[ELF_EMPTIED_MAX];
    size_t emptied_count;
    uint64_t stub_section; /* where the section of the stub starts; 0: at the stub */
};

/* Sections, and the segments that cover them, that move to another address. */
struct elf_move {
    uint64_t address; /* old */
    uint64_t size;
    uint64_t distance; /* new address - old address, modulo 2^64 */
    bool is_behind_names;
};

/* Program headers that a stripped image can do without. */
#define SPARE_MAX 2
struct elf_spare {
    size_t omitted;
    size_t extended; /* the PT_NOTE that has its notes, too; NO_INDEX: none */
};

/* Sections that moved behind the names, with their headers: `count` from `first` on now follow that
 * of the names, which had the number `names`. */
struct elf_renumbered {
    size_t first;
    size_t count; /* 0: no header moves */
    size_t names;
};

/* Users of the end of another section, which is where names or data start (elf/pointers.c). */
#define END_USERS 9
struct elf_end_user {
    uint64_t end; /* 0: no such section ends there, or more than one thing has the user's name */
    bool is_found;
    uint64_t start, size;
};

struct elf_state {
    struct planning base;
    struct elf_image image;
    bool is_firmware;                /* no system maps it into memory (elf.c) */
    uint64_t code_base;              /* see struct code */
    uint64_t data_bases[DATA_BASES]; /* see struct image_data */
    struct code_mark *marks;
    size_t mark_count;
    struct elf_relocation_changes relocation_changes;
    struct elf_end_user end_users[END_USERS];

    struct elf_hole holes[HOLES_MAX];
    size_t hole_count;
    /* What makes way for the program headers (elf/room.c). */
    struct elf_move moves[MOVES_MAX];
    size_t move_count;
    struct elf_renumbered renumbered;
    struct elf_spare spares[SPARE_MAX];
    size_t spare_count;
    struct buffer moved;      /* the new start of the names' range: the tripwire, and behind it
                                 what moved; if remnants_are_joined, that of the records */
    size_t remnant_size;      /* of that, without what moved */
    uint64_t names_address;   /* of the tripwire */
    bool remnants_are_joined; /* the tripwire is behind the stub (elf/layout.c) */
    uint64_t headers_end;     /* end, in the file, of what the new headers replace */
    uint64_t headers_growth;  /* bytes inserted there, and removed again further on: */
    uint64_t table_shift;     /* as many of those that the table of relocations has lost */
    uint64_t segment_growth;  /* by which the segment of the headers gets longer */
    size_t headers_literal;   /* offset of the new program headers in the edits' literals */

    /* The symbols of the coverage records, which go with them; none if the count is 0. */
    struct symbol_cut symbol_cut;
    size_t symbols, names;  /* indices of .symtab and .strtab */
    size_t symbols_literal; /* offset of the new .symtab in the edits' literals */
};

/* ---- elf/symbols.c ---- */

/* Finds all definitions of the runtime's symbols, and the value of the machine's base symbol, which
 * becomes state->code_base (0: there is none). False if the symbol table is damaged. */
bool elf_symbols_find(struct elf_state *state, struct error *error);

/* Adds what symbols say of the kind of code (struct code) to none. False if
 * memory runs out. */
bool elf_symbols_mark(struct elf_image *image, struct code_mark **marks, size_t *count);

/* Takes the next function of the symbol table, as in runtime/runtime.h. */
bool elf_functions_next(const struct planning *planning, struct symbol_walk *walk,
                        struct image_symbol *symbol);

/* An entry of a symbol table. */
struct elf_symbol {
    size_t table; /* index of the section that contains it */
    Elf64_Word st_name;
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

/* Index of the first symbol table; NO_INDEX if there is none. */
size_t elf_symbol_table(const struct elf_image *image);

/* Takes the symbols of the section (SHT_SYMTAB or SHT_DYNSYM) except the first. If walk->bad is set
 * then, not all of them could be read. */
void elf_symbols_open(const struct elf_image *image, size_t section, struct symbol_walk *walk);
bool elf_symbols_next(const struct elf_image *image, struct symbol_walk *walk,
                      struct elf_symbol *symbol);

/* Finds the symbols of coverage records that go with them, for state->symbol_cut. None goes if
 * anything refers to symbols by number, or to their names. False if out of memory. */
bool elf_symbols_cut(struct elf_state *state);

/* True if the headers of sections up to `last` can get their place behind that of the names, at
 * `names`: all that refers to sections by number is known. */
bool elf_may_renumber(const struct elf_image *image, size_t last, size_t names);
/* The number that the section has in the stripped image. */
size_t elf_new_number(const struct elf_state *state, size_t section);

/* ---- retained relocations (elf/relocations.c) ---- */

/* False if the image has retained relocations that cannot be read. */
bool elf_retained_is_known(const struct elf_image *image);

/* True for a section of retained relocations that is removed, but for one entry, along with the
 * section that they are for. */
bool elf_retained_goes(const struct elf_state *state, size_t section);

/* The size of the entry that stays of such a section; 0 if its entries are of another size than all
 * others. */
uint64_t elf_retained_rest(const struct elf_image *image, const Elf64_Shdr *shdr);

/* Adds the edits that remove them. */
void elf_retained_empty(struct elf_state *state);

/* Adds the edits that neutralize all other retained relocations for code that is rewritten. */
void elf_retained_neutralize(struct elf_state *state);

/* ---- the other steps ---- */

/* Finds them all, once: an image may refer to such an end a million times. */
void elf_find_end_users(struct elf_state *state);

/* Operations of struct code_operations (elf/pointers.c). */
bool elf_find_pointer(const struct planning *planning, const struct reference_target *target,
                      uint64_t *from, const char **reason);
bool elf_means_other_end(const struct planning *planning, uint64_t address, uint64_t from);
bool elf_slot_value(const struct planning *planning, uint64_t slot, uint64_t *value);

/* Operations of struct format (elf/relocations.c, elf/layout.c, elf/write.c). elf_write also checks
 * that the new tables are consistent. */
bool elf_settle_relocations(struct planning *planning, enum section_kind kind);
bool elf_layout(struct planning *planning, struct error *error);
bool elf_write(struct planning *planning, struct error *error);

/* Cuts all of a section that is not loaded, except `remnant`, which stays at its start
 * (elf/layout.c). */
void elf_cut_unloaded(struct elf_state *state, const struct section *section, struct bytes remnant);

/* The operation replace_mapping of struct format (elf/write.c). */
bool elf_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                         struct edit_script *edits, struct error *error);

/* The move that includes the address; NULL if it stays (elf/room.c). */
const struct elf_move *elf_move_of(const struct elf_state *state, uint64_t address);

/* Makes room for `extra` more program headers (elf/room.c). On success sets what the state has of
 * it; after a failure elf_room_forget must be called. What follows may be shifted in the file, if
 * at all, by multiples of `unit`. */
bool elf_room_make(struct elf_state *state, size_t extra, uint64_t unit);

/* Undoes what a failed attempt has planned; edit_count is the number of edits before it. */
void elf_room_forget(struct elf_state *state, size_t edit_count);

#endif
