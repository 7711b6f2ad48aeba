/*
 * What an image format must supply so that its images can be described and split: the operations
 * that the planner (planner.c, names_and_data.c) calls. Each format consists of a private state,
 * static functions and one `struct format`.
 */
#ifndef COVSPLIT_FORMATS_FORMAT_H
#define COVSPLIT_FORMATS_FORMAT_H

#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/profile.h"
#include "common/llvm/tripwire.h"
#include "formats/runtime/runtime.h"

/* A range of addresses: the first one, and the one behind the last. */
struct bounds {
    uint64_t begin;
    uint64_t end;
};

/* The part of the state of a split that all formats share; a format's own state starts with it. */
struct planning {
    const struct format *format;
    const struct input *input;
    const struct image_options *options;
    struct image_plan *plan;
    struct image_code code;
    bool big_endian;

    /* The format's index of the section of each kind; NO_INDEX if the image has none. */
    size_t section_index[SECTION_KIND_MAX + 1];
    struct bounds whole[SECTION_KIND_MAX + 1]; /* each section, including its markers */
    bool has_record_layout; /* the raw version is known, and so are its records */
    bool has_other_bounds;  /* a section does not have the bounds that profiles are written by */
    struct profile_record_layout record_layout;

    /* What a split leaves of sections that it removes; it carries the UUID. */
    uint8_t stub[STUB_RECORD_MAX];
    uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    size_t tripwire_size;
    /* Bytes from the start of the names to the tripwire. The tripwire must be at an address that
     * code can form (a multiple of machine->address_unit), so this is less than that unit. */
    size_t tripwire_padding;
    uint8_t mapping_tripwire[TRIPWIRE_MAPPING_SIZE];
};

/* An operation that takes an error refuses the image by setting it. A check that takes none keeps
 * the section, records the reason, and returns false. Pointers that may be NULL say so. */
struct format {
    const char *name;
    enum image_format id;
    size_t state_size;
    /* The runtime puts a marker of its own before a section's contents and one behind: a record of
     * zeros for data, a zero byte for any other section (COFF). */
    bool has_markers;
    struct code_operations code;

    bool (*recognize)(struct bytes bytes);
    /* True if recognized bytes are a linked image. */
    bool (*is_linked)(struct bytes bytes);
    /* See image_outline. */
    bool (*outline)(const struct input *input, struct buffer *outline, struct error *error);

    /* ---- describing ---- */

    /* Reads and checks the headers. After success, close must be called. */
    bool (*open)(struct planning *planning, struct error *error);
    void (*close)(struct planning *planning);
    /* Fills in whatever the headers tell of plan->facts, and code.has_absolute_operands. The UUID
     * is the image's own, or has size 0 if the image has none. */
    bool (*describe)(struct planning *planning, struct error *error);

    /* The name that the format gives sections of the kind, NULL if it has none; the first such
     * section behind index `after` (NO_INDEX: from the start), or NO_INDEX if there is none; and
     * its description, except for kind, name and fate. */
    const char *(*section_name)(enum section_kind kind);
    size_t (*find_section)(const struct planning *planning, enum section_kind kind, size_t after);
    void (*describe_section)(const struct planning *planning, size_t index,
                             struct section *section);

    /* In a stripped image, adds the sections that no header mentions any more (may be NULL). */
    void (*find_hidden_remnants)(struct planning *planning);
    /* Sets *is_remnant: true if the section looks as a split leaves a section of that kind. */
    bool (*is_remnant)(const struct planning *planning, enum section_kind kind, bool *is_remnant,
                       struct error *error);
    /* In a stripped image, the tripwire in the names or the stub in the data; empty if it is not
     * there. */
    struct bytes (*remnant_of)(const struct planning *planning, enum section_kind kind);

    /* Finds the definitions of the runtime's symbols and adds them to code.symbols. */
    bool (*find_symbols)(struct planning *planning, struct error *error);
    /* Finds symbols that can only be found by the layout of records, once that is known (may be
     * NULL). */
    void (*find_by_layout)(struct planning *planning);
    /* Narrows the described sections to the contents between their markers (may be NULL). */
    void (*describe_contents)(struct planning *planning);

    bool (*bytes_at)(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes);

    /* ---- deciding ---- */

    /* Checks a section that was chosen for removal, and keeps it if it cannot go. False only on an
     * error. */
    bool (*check_section)(struct planning *planning, struct section *section, struct error *error);
    /* The remaining checks are for names and data only. True if enough is known about the image to
     * judge either of them; symbols and layout are checked elsewhere. */
    bool (*check_known)(struct planning *planning, enum section_kind kind);
    /* True if the section's bytes belong to nothing else (may be NULL). */
    bool (*check_claims)(struct planning *planning, enum section_kind kind);
    /* True if the bounds that the runtime's functions return are those of the section of that kind.
     * NULL: they must be exactly the section's bounds. */
    bool (*are_bounds)(const struct planning *planning, enum section_kind kind,
                       const struct bounds *bounds);
    /* True if it is known which bytes are counters and bitmap, as the removal of `victim` requires
     * (may be NULL). */
    bool (*check_counted)(struct planning *planning, enum section_kind victim);
    /* True if the first record, which stays, may be changed in place (may be NULL). */
    bool (*check_first_record)(struct planning *planning);
    /* True if relocations allow the section to go; adds the edits that do not depend on the layout.
     * This is the last of the checks (may be NULL). */
    bool (*settle_relocations)(struct planning *planning, enum section_kind kind);
    /* The tripwire need not be at the start of the names: the layout chooses its address, and then
     * calls names_move. */
    bool moves_names;
    /* Nor need the stub be at the start of the data: in the same way, with data_move. */
    bool moves_data;

    /* ---- the edits ---- */

    /* Adds all edits that change sizes, and reserves room for whatever will be written later. */
    bool (*layout)(struct planning *planning, struct error *error);
    /* Called once offsets can be mapped: writes headers and tables into the reserved room, or over
     * bytes of the same length. */
    bool (*write)(struct planning *planning, struct error *error);
    /* Called last: writes what depends on all other bytes, such as checksums (may be NULL). */
    bool (*seal)(struct planning *planning, struct error *error);

    /* ---- other edits ---- */

    /* Adds the edits that put this coverage mapping in place of the image's own. Nothing that is
     * loaded may change or move. NULL: the format has no room for it. */
    bool (*replace_mapping)(const struct input *input, const struct mapping_sections *mapping,
                            struct edit_script *edits, struct error *error);
};

extern const struct format elf_format;
extern const struct format macho_format;
extern const struct format coff_format;

/* ---- what formats use (names_and_data.c) ---- */

/* Adds the section of the kind, which has that index in the format, to the plan. */
void planning_add_section(struct planning *planning, enum section_kind kind, size_t index);

/* True if it is one of the sections that the plan describes. */
bool planning_is_described(const struct planning *planning, size_t index);

/* The bytes that stay in the image when a section of this kind and size is removed: the stub, a
 * tripwire, or none. */
struct bytes planning_remnant(const struct planning *planning, enum section_kind kind,
                              uint64_t size);

/* Appends a formatted line to an outline (image.h). */
void outline_append(struct buffer *outline, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds the edits that empty a section: `rest` at its start, zeros up to `cut`, nothing from there
 * to `cut_end`, and zeros up to the section's end (offsets in the file). */
bool planning_empty(struct planning *planning, const struct section *section, struct bytes rest,
                    uint64_t cut, uint64_t cut_end);

/* ---- names and records (names_and_data.c) ---- */

/* Decides which of the two sections can go, and adds the edits to the runtime's functions. False
 * only on an error: a section that cannot go is kept, with its reason. */
bool names_and_data_plan(struct planning *planning, struct error *error);

/* Called when the tripwire's address is known: makes the runtime's functions return its bounds. */
bool names_move(struct planning *planning, uint64_t address, struct error *error);

/* The same for the stub, which is written anew for this address. */
bool data_move(struct planning *planning, uint64_t address, struct error *error);

#endif
