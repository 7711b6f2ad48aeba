/*
 * What the parts of the Mach-O planner share. Internal to formats/macho*.c.
 *
 * The planner works in steps, each in a file of its own: macho.c decides what may go, with
 * macho/runtime.c for names and data (with runtime/rules.c, the rules that all formats share, and
 * macho/references.c, which looks for pointers to them); macho/layout.c finds the pages to cut;
 * macho/relink.c and macho/recode.c take fixups out, in their two forms; macho/commands.c writes
 * the load commands of the stripped image, and macho/signature.c signs it anew.
 */
#ifndef COVSPLIT_FORMATS_MACHO_PLAN_H
#define COVSPLIT_FORMATS_MACHO_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/image.h"
#include "formats/macho/read.h"
#include "formats/macho/symbols.h"
#include "formats/runtime/stub.h"

/* Whole pages that leave the file: at most two runs in __DATA and one for each section of
 * __LLVM_COV. */
#define MACHO_HOLES_MAX 6

/* section_64.reserved3 of a section that was emptied ("covs"), by which it is known again: linkers
 * write 0. */
#define MACHO_EMPTIED_MARK 0x73766f63u

/* The segment of the coverage mapping, and that of names and data. */
#define MACHO_COVERAGE_SEGMENT "__LLVM_COV"
#define MACHO_DATA_SEGMENT     "__DATA"
/* What the first part of a split __DATA is called. */
#define MACHO_PROFILE_SEGMENT "__LLVM_PRF"
/* What earlier versions of covsplit called __llvm_covmap, which they left empty: llvm-cov passes
 * over such an image where it is given others too. Known so that such an image is known to be
 * split. */
#define MACHO_EMPTIED_MAPPING "__llvm_covsplit"

struct macho_hole {
    size_t segment;
    uint64_t offset; /* in the file */
    uint64_t size;
    bool is_tail; /* it reaches to the end of the segment's bytes in the file */
};

/* Where the tripwire (common/tripwire.h) that names leave is, and the header of their section. */
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

struct macho_plan_state {
    struct macho_image image;
    const struct image_options *options;
    struct image_plan *plan;

    /* Indices of sections by kind; MACHO_NONE where the image has none. */
    size_t section_index[SECTION_KIND_MAX + 1];
    /* Bytes at the start of a removed section's range that stay in the file, by kind. */
    uint64_t reserved[SECTION_KIND_MAX + 1];

    bool names_may_move; /* both of the accessors for their bounds may return something else */
    enum macho_names_place names_place;

    struct macho_hole holes[MACHO_HOLES_MAX];
    size_t hole_count;

    /* A segment whose bytes behind a hole get the load command of the next segment, which has lost
     * all its own (MACHO_NONE: no segment does); and the file offset where they start. */
    size_t split_segment;
    uint64_t split_fileoff;

    struct macho_runtime runtime;
    bool has_record_layout;
    struct profile_record_layout record_layout;
    uint8_t stub[STUB_RECORD_MAX];

    uint64_t chains_growth; /* bytes that LC_DYLD_CHAINED_FIXUPS has more */
    uint64_t rebase_growth; /* bytes that the rebase opcodes have more */

    size_t commands_literal; /* of the new load commands, in the edits' literals */
    struct macho_signature signature;
};

/* True where the section is in the plan and goes to the sidecar. */
bool macho_plan_removes(struct macho_plan_state *state, enum section_kind kind);
/* The section stays, for this reason. Returns false, so that checks can return it. */
bool macho_plan_keep(struct macho_plan_state *state, enum section_kind kind, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* True for a fixup at this address that goes with the data. */
bool macho_plan_removes_fixup(const struct macho_plan_state *state, uint64_t address);
/* True where a byte of the file that is not in a removed section goes with a hole. */
bool macho_plan_cuts(const struct macho_plan_state *state, uint64_t offset);
/* Where the tripwire of the names is, as a file offset in the original, and its address. */
uint64_t macho_plan_names_offset(struct macho_plan_state *state);
uint64_t macho_plan_names_address(struct macho_plan_state *state);
/* The same of the mapping's; where a segment is split it is not loaded at that address. */
uint64_t macho_plan_mapping_offset(struct macho_plan_state *state);
uint64_t macho_plan_mapping_address(struct macho_plan_state *state);
/* Where the segment's bytes in the file end after the split, as an offset in the segment. */
uint64_t macho_plan_filesize(const struct macho_plan_state *state, size_t segment);

/* Decides names and data (macho/runtime.c). Adds the edits of accessors and the stub. False only
 * for a real error: a section that cannot go is kept with its reason. */
bool macho_runtime_plan(struct macho_plan_state *state, struct error *error);
/* Makes the accessors of the names return the bounds of the tripwire, once its place is settled. */
bool macho_runtime_move_names(struct macho_plan_state *state, struct error *error);

/* Whether a pointer in the image leads to [address, address + size), other than from there: *from
 * is where. Also true where that cannot be told: *reason then says why, and is NULL otherwise
 * (macho/references.c). */
bool macho_find_pointer(const struct macho_plan_state *state, uint64_t address, uint64_t size,
                        uint64_t *from, const char **reason);

/* Add the edits of fixups: those in the data go, and those of a split segment find their places
 * (macho/relink.c, macho/recode.c). False where that cannot be done with the split that is planned:
 * *problem says why, or is NULL where there is no memory. Some edits may have been added then. */
bool macho_relink_plan(struct macho_plan_state *state, const char **problem);
bool macho_recode_plan(struct macho_plan_state *state, const char **problem);

/* Finds the pages to cut and the place of the tripwire, and adds the edits that take the removed
 * sections out of the file (macho/layout.c). */
bool macho_layout_plan(struct macho_plan_state *state, struct error *error);

/* Adds a place for the new load commands to the edits; and fills it in, once the edits are finished
 * (macho/commands.c). */
bool macho_commands_reserve(struct macho_plan_state *state, struct error *error);
void macho_commands_write(struct macho_plan_state *state);

/* Finds the code signature, and refuses one that covsplit cannot make anew, unless it
 * is to be dropped (macho/signature.c). */
bool macho_signature_read(struct macho_plan_state *state, struct error *error);
/* Adds a place for the new signature to the edits, of which no other may follow that changes sizes;
 * and makes it, once everything in front of it is final. */
bool macho_signature_reserve(struct macho_plan_state *state, struct error *error);
bool macho_signature_sign(struct macho_plan_state *state, struct error *error);

#endif
