/*
 * The distinct function names of __llvm_prf_names, in the order of their first appearance.
 *
 * The section is a run of chunks, one a translation unit, with zero bytes allowed between: the size
 * of the names and the size of their zlib stream as unsigned LEB128 numbers (the latter 0: stored
 * as they are), then that. The names in a chunk are separated by bytes 1 (LLVM's InstrProf.h,
 * "getInstrProfNameSeparator"). Inline functions come in the chunk of each translation unit that
 * has them, so that of all names in a large C++ image only one in twenty is a new one.
 *
 * One chunk at a time is inflated, and only names that are new are kept: a hash table over them
 * tells.
 */
#ifndef COVSPLIT_COMMON_LLVM_NAME_SET_H
#define COVSPLIT_COMMON_LLVM_NAME_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define NAME_SEPARATOR '\1'

/* A chunk, as it is in the section. */
struct name_chunk {
    uint64_t size; /* of the names, as the chunk claims it */
    bool compressed;
    struct bytes content; /* a zlib stream, or the names */
};

/* Takes the chunk off the front of *section, which must not begin with zero bytes between chunks.
 * False, with *section untouched, where there is no whole one. */
bool name_chunk_take(struct bytes *section, struct name_chunk *chunk);

struct name_slot {
    uint64_t hash;
    size_t offset; /* in the text */
    size_t size;   /* 0: the slot is free */
};

/* Start from {0}; freed with name_set_free. */
struct name_set {
    struct buffer text; /* each name with a NAME_SEPARATOR behind it */
    size_t count;
    struct name_slot *slots;
    size_t capacity;       /* slots: a power of two, or 0 */
    uint64_t seed;         /* of the hashes */
    struct buffer chunk;   /* the one that was inflated last */
    uint64_t memory_limit; /* of what is held (memory_limit.h); 0: as the section's size has it */
};

/* Adds the names of a section; `file` is for messages. Empty names are none. */
bool name_set_read(struct name_set *set, struct bytes section, const char *file,
                   struct error *error);
void name_set_free(struct name_set *set);

/* Appends a section with all names in one chunk, as they are: LLVM's tools read it faster than the
 * compressed chunks that it stands for. Without names it is empty. False: no memory. */
bool name_set_encode(const struct name_set *set, struct buffer *section);

#endif
