/*
 * What the parts of the Mach-O planner share. Internal to formats/macho*.c.
 *
 * The planner works in steps, each in a file of its own: macho.c decides what may go,
 * macho_layout.c finds the pages to cut, macho_commands.c writes the load commands of the stripped
 * image, and macho_signature.c signs it anew.
 */
#ifndef COVSPLIT_FORMATS_MACHO_PLAN_H
#define COVSPLIT_FORMATS_MACHO_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/image.h"
#include "formats/macho_read.h"

/* Whole pages that leave the file: at most two runs in __DATA and one for each section of
 * __LLVM_COV. */
#define MACHO_HOLES_MAX 6

/* section_64.reserved3 of a section that was emptied, by which it is known again: linkers write 0.
 */
#define MACHO_EMPTIED_MARK 1

/* The segment of the coverage mapping, and that of names and data. */
#define MACHO_COVERAGE_SEGMENT "__LLVM_COV"
#define MACHO_DATA_SEGMENT     "__DATA"

struct macho_hole {
    size_t segment;
    uint64_t offset; /* in the file */
    uint64_t size;
    bool is_tail; /* it reaches to the end of the segment's bytes in the file */
};

/* What is known of a code signature, and where the new one goes. */
struct macho_signature {
    bool present;
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
    /* Bytes at the start of a removed section that stay in the image, by kind. */
    uint64_t reserved[SECTION_KIND_MAX + 1];

    struct macho_hole holes[MACHO_HOLES_MAX];
    size_t hole_count;

    size_t commands_literal; /* of the new load commands, in the edits' literals */
    struct macho_signature signature;
};

/* The section stays, for this reason. Returns false, so that checks can return it. */
bool macho_plan_keep(struct macho_plan_state *state, enum section_kind kind, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

/* Finds the pages to cut, and adds the edits that take the removed sections out of the file
 * (macho_layout.c). */
bool macho_layout_plan(struct macho_plan_state *state, struct error *error);

/* Adds a place for the new load commands to the edits; and fills it in, once the edits are finished
 * (macho_commands.c). */
bool macho_commands_reserve(struct macho_plan_state *state, struct error *error);
bool macho_commands_write(struct macho_plan_state *state, struct error *error);

/* Finds the code signature, and refuses one that covsplit cannot make anew (macho_signature.c). */
bool macho_signature_read(struct macho_plan_state *state, struct error *error);
/* Adds a place for the new signature to the edits, of which no other may follow that changes sizes;
 * and makes it, once everything in front of it is final. */
bool macho_signature_reserve(struct macho_plan_state *state, struct error *error);
bool macho_signature_sign(struct macho_plan_state *state, struct error *error);

#endif
