/*
 * Making a raw profile from what is in a program's memory, as the profile runtime does.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_COMPOSE_H
#define COVSPLIT_COMMON_LLVM_PROFILE_COMPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/uuid.h"
#include "common/llvm/profile.h"

/* A section in the program: where it is in memory (0 if there is none), and its bytes. */
struct profile_section {
    uint64_t address;
    struct bytes bytes;
};

struct profile_source {
    uint64_t raw_version; /* with the variant bits */
    size_t pointer_size;
    bool big_endian;
    struct bytes binary_ids; /* by profile_append_binary_id */
    struct profile_section data;
    struct profile_section counters;
    struct profile_section bitmap; /* left out by versions that have none */
    struct profile_section names;
    struct bytes value_data;
};

/* Appends a binary ID as profiles have it; false if out of memory. */
bool profile_append_binary_id(struct buffer *binary_ids, uint64_t raw_version, bool big_endian,
                              const struct uuid *uuid);

/* The number of items in a section of `size` bytes as the runtime counts them: the last one may be
 * incomplete. */
uint64_t profile_count_items(uint64_t size, uint64_t item_size);

/* Describes the profile that the runtime writes for the source: for profile_write. It points into
 * the source's bytes; data must be whole records, and counters whole counters. False for an
 * unsupported version or pointer size. */
bool profile_compose(struct profile *profile, const struct profile_source *source);

#endif
