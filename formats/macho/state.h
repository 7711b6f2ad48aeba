/*
 * What the steps of a Mach-O split share. Internal to formats/macho.
 *
 * macho.c describes and checks sections; layout.c finds the pages to cut and places the tripwires;
 * relink.c and recode.c take out fixups, in their two forms; write.c writes the load commands of
 * the stripped image, and signature.c signs it again. references.c looks for pointers.
 */
#ifndef COVSPLIT_FORMATS_MACHO_STATE_H
#define COVSPLIT_FORMATS_MACHO_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/format.h"
#include "formats/macho/read.h"

/* section_64.reserved3 of an emptied section ("covs"), by which a stripped image is recognized:
 * linkers write 0. */
#define MACHO_EMPTIED_MARK 0x73766f63u

/* The segment of the coverage mapping, and that of names and data. */
#define MACHO_COVERAGE_SEGMENT "__LLVM_COV"
#define MACHO_DATA_SEGMENT     "__DATA"
/* The new name of the first part of a split __DATA. */
#define MACHO_PROFILE_SEGMENT "__LLVM_PRF"

/* Runs of whole pages that are cut from the file: at most two in __DATA and one for each section of
 * __LLVM_COV. */
#define MACHO_HOLES_MAX 6

struct macho_hole {
    size_t segment;
    uint64_t offset; /* in the file */
    uint64_t size;
    bool is_tail; /* it reaches the end of the segment's bytes in the file */
};

/* The place of the tripwire (common/llvm/tripwire.h) that names leave, and of their section. */
enum macho_names_place {
    MACHO_NAMES_AT_START,    /* at the start of the names */
    MACHO_NAMES_BEHIND_STUB, /* behind the stub, on its page, which stays */
    MACHO_NAMES_AT_SPLIT,    /* at the start of the second part of a split segment */
};

/* The old code signature, and the place of the new one. */
struct macho_signature {
    bool is_renewed;
    bool is_dropped; /* it cannot be made again, and is removed with its load command */
    uint64_t offset; /* of the old one in the file */
    uint64_t size;
    size_t literal;        /* offset of the new one in the edits' literals */
    struct buffer content; /* the new one, without hashes until macho_signature_sign has run */
};

struct macho_state {
    struct planning base;
    struct macho_image image;

    /* By kind: how many bytes at the start of a removed section's range stay in the file. */
    uint64_t reserved[SECTION_KIND_MAX + 1];

    bool names_may_move; /* both accessors of their bounds can be rewritten */
    enum macho_names_place names_place;

    struct macho_hole holes[MACHO_HOLES_MAX];
    size_t hole_count;

    /* The segment that is split (NO_INDEX: none): its bytes behind a hole, from this file offset
     * on, get the load command of the next segment, which has lost all its own bytes. */
    size_t split_segment;
    uint64_t split_fileoff;

    /* The stub is before those bytes, too, so that the sections from this one up to the data, which
     * are zeros, need not be in the file. NO_INDEX: it is at the start of the data. */
    size_t zeros;

    uint64_t chains_growth; /* bytes by which LC_DYLD_CHAINED_FIXUPS grows */
    uint64_t rebase_growth; /* bytes by which the rebase opcodes grow */

    size_t commands_literal; /* offset of the new load commands in the edits' literals */
    struct macho_signature signature;
};

/* True if a fixup at this address is removed with the data. */
bool macho_removes_fixup(const struct macho_state *state, uint64_t address);
/* True if a byte of the file that is not in a removed section is cut out with a hole. */
bool macho_cuts(const struct macho_state *state, uint64_t offset);
/* The place of the stub: its file offset in the original, and its address. */
uint64_t macho_stub_offset(struct macho_state *state);
uint64_t macho_stub_address(struct macho_state *state);
/* The place of the names' tripwire: its file offset in the original, and its address. */
uint64_t macho_names_offset(struct macho_state *state);
uint64_t macho_names_address(struct macho_state *state);
/* The same for the mapping's tripwire; if a segment is split, it is not loaded at that address. */
uint64_t macho_mapping_offset(struct macho_state *state);
uint64_t macho_mapping_address(struct macho_state *state);
/* The end of the segment's bytes in the file after the split, as an offset in the segment. */
uint64_t macho_filesize(const struct macho_state *state, size_t segment);

/* ---- macho/symbols.c ---- */

/* False if the symbol table is damaged. *has_symbols tells whether it has local symbols, which
 * those of the profile runtime are. */
bool macho_symbols_check(const struct macho_image *image, bool *has_symbols, struct error *error);

/* Calls `visit` for every symbol that is an address, as in runtime/symbols.h. */
bool macho_symbols_visit(const struct macho_image *image, runtime_symbol_visitor visit,
                         void *context);

/* ---- the other steps ---- */

/* A macho_fixup_visitor, whose context is a section: false for a fixup in it. */
struct macho_fixup;
bool macho_fixup_is_outside(void *context, const struct macho_fixup *fixup);

/* An operation of struct code_operations (macho/references.c). */
bool macho_is_loaders(const struct planning *planning, uint64_t address);
bool macho_find_pointer(const struct planning *planning, const struct reference_target *target,
                        uint64_t *from, const char **reason);

/* Adds the edits of fixups: those in the data are removed, and those in a split segment are
 * adjusted (macho/relink.c, macho/recode.c). False if that is impossible with the planned split
 * (*problem says why) or memory ran out (*problem is NULL); some edits may have been added by
 * then. */
bool macho_relink_plan(struct macho_state *state, const char **problem);
bool macho_recode_plan(struct macho_state *state, const char **problem);

/* Finds the pages to cut and the place of the tripwire, and adds the edits that take the removed
 * sections out of the file (macho/layout.c). */
bool macho_layout(struct macho_state *state, struct error *error);

/* Reserves room for the new load commands in the edits; and fills it in, once the edits are in
 * order (macho/write.c). */
bool macho_commands_reserve(struct macho_state *state, struct error *error);
bool macho_commands_write(struct planning *planning, struct error *error);

/* Finds the code signature, and refuses one that covsplit cannot make again, unless it is to be
 * dropped (macho/signature.c). */
bool macho_signature_read(struct macho_state *state, struct error *error);
/* Reserves room for the new signature in the edits, after which none may change sizes; and makes
 * the signature, once everything before it is final. */
bool macho_signature_reserve(struct macho_state *state, struct error *error);
bool macho_signature_sign(struct planning *planning, struct error *error);

#endif
