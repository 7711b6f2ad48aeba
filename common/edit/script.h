/*
 * The edit script: what turns an image into its stripped form.
 *
 * A script is a list of *replace (offset, old size) by new bytes*, in file offsets of the original,
 * in order and apart from each other. A cut has no new bytes, an overwrite as many as before, an
 * insertion no old ones. Every image format plans its edits in this form, and this one module
 * applies them; the map from old to new file offsets falls out of it.
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
    uint64_t old_size; /* bytes of the original that go */
    uint64_t new_size; /* bytes that come in their place */
    /* The new bytes start here in the script's `literals`; EDIT_ZEROS: they are all zero and need
     * no storage, however many they are. */
    size_t literal;
    /* By how much (modulo 2^64) what follows this edit is further on in the result than in the
     * original. Set by edit_script_finish. */
    uint64_t shift;
};

#define EDIT_ZEROS SIZE_MAX

struct edit_script {
    uint64_t original_size;
    struct edit *edits; /* in order once edit_script_finish has run */
    size_t count;
    size_t capacity;
    struct buffer literals;
    /* An edit could not be added for lack of memory: the script can no longer be finished. */
    bool has_no_memory;
};

/* An empty script for an original of so many bytes. Free with edit_script_free. */
void edit_script_init(struct edit_script *script, uint64_t original_size);
void edit_script_free(struct edit_script *script);

/* Each adds one edit, in any order; the new bytes are copied. False (no message) if
 * out of memory or the range is not inside the original. An edit that changes nothing is dropped. */
bool edit_replace(struct edit_script *script, uint64_t offset, uint64_t old_size,
                  struct bytes new_bytes);
bool edit_replace_by_zeros(struct edit_script *script, uint64_t offset, uint64_t old_size,
                           uint64_t new_size);
bool edit_cut(struct edit_script *script, uint64_t offset, uint64_t size);

/* Adds overwrites for just those runs of bytes in which `new_bytes` differs from the original's
 * bytes at `offset`: what stays the same then needs no place in the sidecar. */
bool edit_overwrite_differences(struct edit_script *script, struct bytes original, uint64_t offset,
                                struct bytes new_bytes);

/* Puts the edits in order. False if two of them touch the same byte (the plan is wrong), or
 * where one is missing for lack of memory. */
bool edit_script_finish(struct edit_script *script, const char *name, struct error *error);

/* The following work on a finished script. */

/* Size of the result in bytes. */
uint64_t edit_script_result_size(const struct edit_script *script);

/* Where the byte at `offset` of the original is in the result. Edits that end at or before it count
 * in full, so an offset at an insertion is behind the inserted bytes; an offset inside an edit maps
 * to the same distance into the new bytes, or to their end. */
uint64_t edit_script_map(const struct edit_script *script, uint64_t offset);

/* The new bytes of an edit; must not be called for EDIT_ZEROS. */
struct bytes edit_new_bytes(const struct edit_script *script, const struct edit *edit);

#endif
