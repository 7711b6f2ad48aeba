/*
 * What the modules that read and write raw profiles share: descriptions of the words of the header
 * and the parts after it. Nothing else includes this header.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_FILE_H
#define COVSPLIT_COMMON_LLVM_PROFILE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/profile.h"

/* A word of the header, 64 bits wide. */
struct profile_header_word {
    size_t offset;  /* in struct profile_header */
    unsigned since; /* the first version that has it */
};

#define PROFILE_HEADER_WORD_COUNT 19

/* In the order of the file. */
extern const struct profile_header_word profile_header_words[PROFILE_HEADER_WORD_COUNT];

/* A part of a profile, as its header describes it. */
struct profile_part {
    uint64_t count;
    uint64_t item_size;
    struct bytes *view; /* in the profile; NULL for padding */
    const char *name;   /* for messages; padding has that of the part before it */
};

#define PROFILE_PART_COUNT_MAX 16

/* Lists the parts that follow the header, up to the value profile data. Returns their number. */
size_t profile_list_parts(struct profile *profile,
                          struct profile_part parts[PROFILE_PART_COUNT_MAX]);

#endif
