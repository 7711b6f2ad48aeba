/*
 * The edit script, which turns an image into its stripped form.
 *
 * A script is a list of edits of the form *replace (offset, old size) by new bytes*, in file
 * offsets of the original, sorted and not overlapping. A cut has no new bytes, an overwrite as many
 * new as old ones, an insertion no old ones. Every image format plans its edits in this form, and
 * this module applies them. The script also gives the map from old to new file offsets.
 */
#ifndef COVSPLIT_COMMON_EDIT_SCRIPT_H
#define COVSPLIT_COMMON_EDIT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

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

struct edit_script {
    uint64_t original_size;
    struct edit *edits; /* in order once edit_script_finish has run */
    size_t count;
    size_t capacity;
    struct buffer literals;
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

/* The following work on a finished script. */

/* Size of the result in bytes. */
uint64_t edit_script_result_size(const struct edit_script *script);

/* Maps an offset in the original to the offset in the result. Edits that end at or before `offset`
 * count in full, so an offset at an insertion maps to the end of the inserted bytes. An offset
 * inside an edit maps to the same distance into the new bytes, or to their end. */
uint64_t edit_script_map(const struct edit_script *script, uint64_t offset);

/* The new bytes of an edit; must not be called for EDIT_ZEROS. */
struct bytes edit_new_bytes(const struct edit_script *script, const struct edit *edit);

#endif
