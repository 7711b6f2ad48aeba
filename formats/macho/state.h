/*
 * What the steps of a Mach-O split share. Internal to formats/macho.
 *
 * macho.c describes and checks sections; layout.c finds the pages to cut and the places of the
 * tripwires; relink.c and recode.c take fixups out, in their two forms; write.c writes the load
 * commands of the stripped image, and signature.c signs it anew. references.c looks for pointers.
 */
#ifndef COVSPLIT_FORMATS_MACHO_STATE_H
#define COVSPLIT_FORMATS_MACHO_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/format.h"
#include "formats/macho/read.h"

/* section_64.reserved3 of a section that was emptied ("covs"), by which it is known again: linkers
 * write 0. */
#define MACHO_EMPTIED_MARK 0x73766f63u

/* The segment of the coverage mapping, and that of names and data. */
#define MACHO_COVERAGE_SEGMENT "__LLVM_COV"
#define MACHO_DATA_SEGMENT     "__DATA"
/* What the first part of a split __DATA is called. */
#define MACHO_PROFILE_SEGMENT "__LLVM_PRF"

/* Whole pages that leave the file: at most two runs in __DATA and one for each section of
 * __LLVM_COV. */
#define MACHO_HOLES_MAX 6

struct macho_hole {
    size_t segment;
    uint64_t offset; /* in the file */
    uint64_t size;
    bool is_tail; /* it reaches to the end of the segment's bytes in the file */
};

/* Where the tripwire (common/llvm/tripwire.h) that names leave is, and the header of their section.
 */
enum macho_names_place {
    MACHO_NAMES_AT_START,    /* where the names start */
    MACHO_NAMES_BEHIND_STUB, /* on the page of the stub, which stays */
    MACHO_NAMES_AT_SPLIT,    /* where the second part of a split segment starts */
};

/* What is known of a code signature, and where the new one goes. */
struct macho_signature {
    bool is_renewed;
    bool is_dropped; /* it cannot be made anew, and goes with its load command */
    uint64_t offset; /* of the old one in the file */
    uint64_t size;
    size_t literal;        /* of the new one, in the edits' literals */
    struct buffer content; /* the new one, without hashes until macho_signature_sign has run */
};

struct macho_state {
    struct planning base;
    struct macho_image image;

    /* Bytes at the start of a removed section's range that stay in the file, by kind. */
    uint64_t reserved[SECTION_KIND_MAX + 1];

    bool names_may_move; /* both of the accessors for their bounds may return something else */
    enum macho_names_place names_place;

    struct macho_hole holes[MACHO_HOLES_MAX];
    size_t hole_count;

    /* A segment whose bytes behind a hole get the load command of the next segment, which has lost
     * all its own (NO_INDEX: no segment does); and the file offset where they start. */
    size_t split_segment;
    uint64_t split_fileoff;

    uint64_t chains_growth; /* bytes that LC_DYLD_CHAINED_FIXUPS has more */
    uint64_t rebase_growth; /* bytes that the rebase opcodes have more */

    size_t commands_literal; /* of the new load commands, in the edits' literals */
    struct macho_signature signature;
};

/* True for a fixup at this address that goes with the data. */
bool macho_removes_fixup(const struct macho_state *state, uint64_t address);
/* True where a byte of the file that is not in a removed section goes with a hole. */
bool macho_cuts(const struct macho_state *state, uint64_t offset);
/* Where the tripwire of the names is, as a file offset in the original, and its address. */
uint64_t macho_names_offset(struct macho_state *state);
uint64_t macho_names_address(struct macho_state *state);
/* The same of the mapping's; where a segment is split it is not loaded at that address. */
uint64_t macho_mapping_offset(struct macho_state *state);
uint64_t macho_mapping_address(struct macho_state *state);
/* Where the segment's bytes in the file end after the split, as an offset in the segment. */
uint64_t macho_filesize(const struct macho_state *state, size_t segment);

/* ---- macho/symbols.c ---- */

/* False for a damaged symbol table. *has_symbols: there is one with local symbols, where those of
 * the profile runtime are. */
bool macho_symbols_check(const struct macho_image *image, bool *has_symbols, struct error *error);

/* Calls `visit` for every symbol that is an address, as runtime/symbols.h has it. */
bool macho_symbols_visit(const struct macho_image *image, runtime_symbol_visitor visit,
                         void *context);

/* ---- the other steps ---- */

/* As code_operations has it (macho/references.c). */
bool macho_find_pointer(const struct planning *planning, const struct reference_target *target,
                        uint64_t *from, const char **reason);

/* Add the edits of fixups: those in the data go, and those of a split segment find their places
 * (macho/relink.c, macho/recode.c). False where that cannot be done with the split that is planned:
 * *problem says why, or is NULL where there is no memory. Some edits may have been added then. */
bool macho_relink_plan(struct macho_state *state, const char **problem);
bool macho_recode_plan(struct macho_state *state, const char **problem);

/* Finds the pages to cut and the place of the tripwire, and adds the edits that take the removed
 * sections out of the file (macho/layout.c). */
bool macho_layout(struct macho_state *state, struct error *error);

/* Adds a place for the new load commands to the edits; and fills it in, once the edits are in order
 * (macho/write.c). */
bool macho_commands_reserve(struct macho_state *state, struct error *error);
bool macho_commands_write(struct planning *planning, struct error *error);

/* Finds the code signature, and refuses one that covsplit cannot make anew, unless it
 * is to be dropped (macho/signature.c). */
bool macho_signature_read(struct macho_state *state, struct error *error);
/* Adds a place for the new signature to the edits, of which no other may follow that changes sizes;
 * and makes it, once everything in front of it is final. */
bool macho_signature_reserve(struct macho_state *state, struct error *error);
bool macho_signature_sign(struct planning *planning, struct error *error);

#endif
