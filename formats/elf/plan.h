/*
 * What the parts of the ELF planner share. Internal to formats/elf*.c.
 *
 * The planner works in steps, each in a file of its own: elf/runtime.c decides whether names and
 * data can go and rewrites the runtime (with runtime/rules.c, the rules that all
 * formats share, and elf/references.c, which looks for pointers to them), elf/layout.c finds the
 * pages to cut (with elf/room.c, which makes room for the program headers that this takes),
 * elf/tables.c writes the tables of the stripped image.
 */
#ifndef COVSPLIT_FORMATS_ELF_PLAN_H
#define COVSPLIT_FORMATS_ELF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/elf/read.h"
#include "formats/elf/relocations.h"
#include "formats/elf/symbols.h"
#include "formats/image.h"
#include "formats/runtime/rules.h"
#include "formats/runtime/stub.h"

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
};

/* A section, or the segments that cover it, that goes to another address. */
struct elf_move {
    uint64_t address; /* old */
    uint64_t size;
    uint64_t distance; /* new address - old address, modulo 2^64 */
};

struct elf_plan_state {
    struct elf_image image;
    const struct image_options *options;
    struct image_plan *plan;
    struct elf_runtime runtime;

    /* Section indices by kind; NO_INDEX where the image has none. */
    size_t section_index[SECTION_KIND_MAX + 1];
    bool has_record_layout;
    struct profile_record_layout record_layout;

    struct elf_relocation_changes relocation_changes;
    uint8_t stub[STUB_RECORD_MAX];

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
    uint64_t new_phnum;      /* at most, until elf/tables.c has made the table */
};

/* The description of a section in the plan; NULL where the image has none. */
struct image_section *elf_plan_section(struct elf_plan_state *state, enum section_kind kind);
/* True where the section is in the plan and goes to the sidecar. */
bool elf_plan_removes(struct elf_plan_state *state, enum section_kind kind);
/* The section stays, for this reason. Returns false, so that checks can return it. */
bool elf_plan_keep(struct elf_plan_state *state, enum section_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An allocation has failed, as for an edit (edits.has_no_memory). Returns false, for checks that
 * are asked whether something can be done: this was no answer, and ends the split. */
bool elf_plan_no_memory(struct elf_plan_state *state);

/* Index of the first PT_LOAD. */
size_t elf_first_load(const struct elf_image *image);

/* Address minus file offset where the ELF header is loaded. */
uint64_t elf_header_base(const struct elf_image *image);

/* The move that the address takes part in; NULL if it stays. */
const struct elf_move *elf_plan_move_of(const struct elf_plan_state *state, uint64_t address);

/* How many bytes of a section that goes are left in the image: the stub, a tripwire, or none. */
uint64_t elf_plan_rest_size(const struct elf_plan_state *state,
                            const struct image_section *section);

/* Shared checks on one section, whatever its kind: nothing else uses its bytes. */
bool elf_section_is_alone(struct elf_plan_state *state, enum section_kind kind);

/* Decides names and data (elf/runtime.c). Adds the edits of accessors and relocations. False only
 * for a real error: a section that cannot go is kept with its reason. */
bool elf_runtime_plan(struct elf_plan_state *state, struct error *error);

/* The image as the shared rules see it: a view of the state. */
struct runtime_image elf_runtime_image(const struct elf_plan_state *state);

/* Whether a pointer in the image leads to the target, other than from its range or from a slot that
 * an accessor loads: *from is where. Also true where that cannot be told: *reason then says why,
 * and is NULL otherwise. */
bool elf_find_pointer(const struct elf_plan_state *state, const struct reference_target *target,
                      uint64_t *from, const char **reason);

/* Adds the edits that take the removed sections out of the file (elf/layout.c). */
bool elf_layout_plan(struct elf_plan_state *state, struct error *error);

/* Makes room for `extra` more program headers (elf/room.c). On success headers_end, headers_growth,
 * moves and moved are set; on failure elf_room_forget must follow. */
bool elf_room_make(struct elf_plan_state *state, size_t extra);

/* Undoes what an attempt has planned; edit_count is the number of edits before it. */
void elf_room_forget(struct elf_plan_state *state, size_t edit_count);

/* Adds the edits of the ELF header, program headers, section headers, dynamic section and symbols
 * (elf/tables.c), and checks that the result holds together. */
bool elf_tables_plan(struct elf_plan_state *state, struct error *error);

#endif
