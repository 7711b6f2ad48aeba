/*
 * Edit scripts: how an image becomes its stripped form, and how that becomes the image again.
 *
 * A script is a list of edits of the form *replace (offset, old size) by new bytes*, in file
 * offsets of the original, sorted and not overlapping. A cut has no new bytes, an overwrite as many
 * new as old ones, an insertion no old ones. Every image format plans its edits in this form, and
 * this module applies them. The script also gives the map from old to new file offsets.
 *
 * The inverse of a script turns the stripped image back into the original, with the help of the
 * sidecar's sections. It is a list of steps over the stripped image, which is encoded as
 * docs/format.md says ("The inverse script"). Parts of a section are used in ascending order, so
 * each section can be read as a stream.
 */
#ifndef COVSPLIT_COMMON_EDIT_EDIT_H
#define COVSPLIT_COMMON_EDIT_EDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/section.h"

/* ---- building ---- */

struct edit {
    uint64_t offset;   /* in the original */
    uint64_t old_size; /* how many bytes of the original are replaced */
    uint64_t new_size; /* by how many new bytes */
    /* The offset of the new bytes in the script's `literals`; EDIT_ZEROS if they are all zero, and
     * so need not be stored. */
    size_t literal;
    /* The offset in the result minus the offset in the original (modulo 2^64) of what follows this
     * edit. Set by edit_script_finish. */
    uint64_t shift;
};

#define EDIT_ZEROS SIZE_MAX

/* Symbol tables that the result has without the symbols of coverage records (symbols.h), in the
 * order of the file. */
#define EDIT_TABLES 2

struct edit_tables {
    struct buffer recipe; /* empty: there are none */
    struct {
        uint64_t offset, size; /* in the original */
    } ranges[EDIT_TABLES];
};

struct edit_script {
    uint64_t original_size;
    struct edit *edits; /* in order once edit_script_finish has run */
    size_t count;
    size_t capacity;
    struct buffer literals;
    struct edit_tables tables;
    /* An edit could not be added because memory ran out, so the script cannot be finished. */
    bool has_no_memory;
    bool is_misplaced; /* nor can it if an edit was not inside the original */
};

/* Makes an empty script for an original of this size in bytes. Free with edit_script_free. */
void edit_script_init(struct edit_script *script, uint64_t original_size);
void edit_script_free(struct edit_script *script);

/* Each of these adds an edit, in any order; the new bytes are copied. False (without a message) if
 * out of memory, or if the range is not inside the original; the script then cannot be finished, so
 * that a planner need not look each time. Edits that change nothing are dropped. */
bool edit_replace(struct edit_script *script, uint64_t offset, uint64_t old_size,
                  struct bytes new_bytes);
bool edit_replace_by_zeros(struct edit_script *script, uint64_t offset, uint64_t old_size,
                           uint64_t new_size);
bool edit_cut(struct edit_script *script, uint64_t offset, uint64_t size);

/* Adds overwrites only for the runs of bytes in which `new_bytes` differs from the original's bytes
 * at `offset`, so that equal bytes take no space in the sidecar. */
bool edit_overwrite_differences(struct edit_script *script, struct bytes original, uint64_t offset,
                                struct bytes new_bytes);

/* Sorts the edits. Fails if two of them touch the same byte (the plan is wrong), or if one could
 * not be added because memory ran out. */
bool edit_script_finish(struct edit_script *script, const char *name, struct error *error);

/* ---- a finished script ---- */

/* Size of the result in bytes. */
uint64_t edit_script_result_size(const struct edit_script *script);

/* Maps an offset in the original to the offset in the result. Edits that end at or before `offset`
 * count in full, so an offset at an insertion maps to the end of the inserted bytes. An offset
 * inside an edit maps to the same distance into the new bytes, or to their end. */
uint64_t edit_script_map(const struct edit_script *script, uint64_t offset);

/* The new bytes of an edit; must not be called for EDIT_ZEROS. */
struct bytes edit_new_bytes(const struct edit_script *script, const struct edit *edit);

/* Appends the result of the script to the output, and computes the digests of the original and of
 * the result. The original is read once, from start to end; its pages are released after use. */
bool edit_script_apply(const struct edit_script *script, const struct input *original,
                       struct output *output, struct digest *original_digest,
                       struct digest *result_digest, struct error *error);

/* The same, but passes the result to the sink. */
bool edit_script_stream(const struct edit_script *script, const struct input *original,
                        bytes_sink sink, void *context, struct error *error);

/* Computes the digest of a whole input. Its pages are released after use. */
bool input_digest(const struct input *input, struct digest *digest, struct error *error);

/* ---- the inverse ---- */

/* Appends the encoded inverse of a finished script to *encoded. The sidecar holds those of the
 * sections that go (section_goes), which must not overlap; the script's tables are made again;
 * the other old bytes become literals. */
bool inverse_encode(const struct edit_script *script, struct bytes original,
                    const struct section *sections, size_t count, const char *name,
                    struct buffer *encoded, struct error *error);

/* The source of the symbol tables. Those of sections are an enum section_kind. */
#define INVERSE_TABLES     31
#define INVERSE_SOURCE_MAX 31

/* A step: copy `keep` bytes of the stripped image, skip `drop` bytes of it, and insert bytes. After
 * the last step, the rest of the stripped image is copied. */
struct inverse_step {
    uint64_t keep;
    uint64_t drop;
    uint64_t insert;
    unsigned source; /* 0: literals; INVERSE_TABLES; otherwise an enum section_kind */
    uint64_t source_offset;
    struct bytes literals; /* if source is 0: the bytes to insert */
};

/* An encoded inverse that is being read. */
struct inverse {
    struct cursor steps;
    struct bytes literals; /* those not used yet */
    struct bytes recipe;   /* for symbol_recipe_apply; empty: there are no symbol tables */
    uint64_t steps_left;
    uint64_t stripped_left, original_left;
    uint64_t source_sizes[INVERSE_SOURCE_MAX + 1]; /* 0: the sidecar does not hold it */
    uint64_t source_used[INVERSE_SOURCE_MAX + 1];
};

/* Starts reading an inverse, which must outlive this. `sections` are the sidecar's; those of kinds
 * that have no contents in a sidecar do not count. */
struct inverse inverse_open(struct bytes encoded, uint64_t stripped_size, uint64_t original_size,
                            const struct section *sections, size_t count);

/* Takes the next step, which stays inside the stripped image, the original and its section, and
 * behind what was used of that before. False at the end, and at a step that does not. */
bool inverse_next(struct inverse *inverse, struct inverse_step *step);

/* False if a step was not right, or if all of them do not give an original of the right size. */
bool inverse_finish(const struct inverse *inverse, const char *name, struct error *error);

#endif
