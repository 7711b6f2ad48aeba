/*
 * What an image format supplies, so that its images can be described and split: the operations that
 * the planner (planner.c, names_and_data.c) calls. Each format is a private state, static functions
 * and one `struct format`.
 */
#ifndef COVSPLIT_FORMATS_FORMAT_H
#define COVSPLIT_FORMATS_FORMAT_H

#include "common/llvm/profile.h"
#include "common/llvm/tripwire.h"
#include "formats/plan.h"
#include "formats/runtime/rules.h"
#include "formats/runtime/stub.h"

/* Addresses: the first one, and the one behind the last. */
struct bounds {
    uint64_t begin;
    uint64_t end;
};

/* The state of a split that all formats have; a format's own state starts with it. */
struct planning {
    const struct format *format;
    const struct input *input;
    const struct image_options *options;
    struct image_plan *plan;
    struct image_code code;
    bool big_endian;

    /* The format's index of each kind of section; NO_INDEX where the image has none. */
    size_t section_index[SECTION_KIND_MAX + 1];
    struct bounds whole[SECTION_KIND_MAX + 1]; /* of sections with the markers in them */
    bool has_record_layout; /* the raw version is known, and so are its records */
    struct profile_record_layout record_layout;

    /* What stays of sections that go, with the UUID in it. */
    uint8_t stub[STUB_RECORD_MAX];
    uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    size_t tripwire_size;
    /* Bytes from the start of the names to the tripwire, which must be at an address that code can
     * make (machine->address_unit); less than that. */
    size_t tripwire_padding;
    uint8_t mapping_tripwire[TRIPWIRE_MAPPING_SIZE];
};

/* An operation that takes an error refuses the image with it. A check without one keeps the section
 * with the reason, and returns false. What may be NULL says so. */
struct format {
    const char *name;
    enum image_format id;
    size_t state_size;
    /* The runtime has a marker of its own in front of a section's contents and one behind: a record
     * of zeros each for data, a zero byte each for all else (COFF). */
    bool has_markers;
    bool has_archived; /* it may have sections of SECTION_ARCHIVED */
    struct code_operations code;

    bool (*recognize)(struct bytes bytes);
    /* Of what is recognized. NULL: all of it is linked. */
    bool (*is_linked)(struct bytes bytes);
    /* NULL where no second reader knows the format. */
    bool (*outline)(const struct input *input, struct buffer *outline, struct error *error);

    /* ---- describing ---- */

    /* Reads and checks the headers; what is opened is closed. */
    bool (*open)(struct planning *planning, struct error *error);
    void (*close)(struct planning *planning);
    /* All of plan->facts that the headers tell, and code.has_absolute_operands. The UUID is the
     * image's own; size 0: it has none. */
    bool (*describe)(struct planning *planning, struct error *error);

    /* What sections of the kind are called; the first one behind `after` (NO_INDEX: from the
     * start), NO_INDEX if there is none; and its description, without kind, name and fate. */
    const char *(*section_name)(enum section_kind kind);
    size_t (*find_section)(const struct planning *planning, enum section_kind kind, size_t after);
    void (*describe_section)(const struct planning *planning, size_t index,
                             struct image_section *section);

    /* Adds, of a stripped image, the sections that no header tells of (may be NULL). */
    void (*find_hidden_rests)(struct planning *planning);
    /* Whether the section is as a split leaves one of that kind. */
    bool (*is_rest)(const struct planning *planning, enum section_kind kind, bool *is_rest,
                    struct error *error);
    /* Of a stripped image: the tripwire in the names, the stub in the data; empty: none is there.
     */
    struct bytes (*rest_of)(const struct planning *planning, enum section_kind kind);

    /* Finds the definitions of the runtime's symbols, into code.symbols. */
    bool (*find_symbols)(struct planning *planning, struct error *error);
    /* Finds, where the layout of records is known, what only that tells (may be NULL). */
    void (*find_by_layout)(struct planning *planning);
    /* Makes the sections those of what is between the markers (may be NULL). */
    void (*describe_contents)(struct planning *planning);

    bool (*bytes_at)(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes);

    /* ---- deciding ---- */

    /* A section that may go: keeps it where it cannot. False only with an error. */
    bool (*check_section)(struct planning *planning, struct image_section *section,
                          struct error *error);
    /* The rest is of names and data. Whether enough is known of the image to judge either; the
     * symbols and the layout are checked elsewhere. */
    bool (*check_known)(struct planning *planning, enum section_kind kind);
    /* Whether nothing else has a claim to the section's bytes (may be NULL). */
    bool (*check_claims)(struct planning *planning, enum section_kind kind);
    /* Whether the bounds that the runtime's functions tell are those of a section with contents of
     * that kind. NULL: they are those of the section. */
    bool (*are_bounds)(const struct planning *planning, enum section_kind kind,
                       const struct bounds *bounds);
    /* Whether it is known which bytes are counters and bitmap, for `victim` to go (may be NULL). */
    bool (*check_counted)(struct planning *planning, enum section_kind victim);
    /* Whether the first record, which stays, may change where it is (may be NULL). */
    bool (*check_first_record)(struct planning *planning);
    /* Whether relocations allow the section to go; adds the edits that need no layout. The last of
     * the checks (may be NULL). */
    bool (*settle_relocations)(struct planning *planning, enum section_kind kind);
    /* The tripwire is not at the start of the names: where it is, the layout finds out, which then
     * calls names_move. */
    bool moves_names;

    /* ---- the edits ---- */

    /* Adds all edits that change sizes, with places for what they make room for. */
    bool (*layout)(struct planning *planning, struct error *error);
    /* Once offsets can be mapped: writes headers and tables, into those places or over what is
     * there, as long as that is. */
    bool (*write)(struct planning *planning, struct error *error);
    /* Once nothing else changes: what depends on all bytes (may be NULL). */
    bool (*seal)(struct planning *planning, struct error *error);
};

extern const struct format elf_format;
extern const struct format macho_format;
extern const struct format coff_format;

/* Adds the section of the kind at the format's index to the plan. */
void planning_add_section(struct planning *planning, enum section_kind kind, size_t index);

/* The bytes that stay in the image of a section of this size that goes: the stub, a tripwire, or
 * none. */
struct bytes planning_rest(const struct planning *planning, enum section_kind kind, uint64_t size);

/* What takes the place of a section that goes: `rest` at its start, zeros up to `cut`, nothing up
 * to `cut_end`, and zeros where the section goes on (offsets in the file). */
bool planning_empty(struct planning *planning, const struct image_section *section,
                    struct bytes rest, uint64_t cut, uint64_t cut_end);

#endif
