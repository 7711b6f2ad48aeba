/*
 * Going through the profiles of a file: plain ones (profile.h) and sparse ones in any
 * order, with zero bytes between them. All that reads raw profiles reads them with this.
 *
 *     struct profile_reader reader = {.file = bytes, .name = name};
 *     while ((done = profile_reader_next(&reader, &profile, &found, &error)) && found)
 *         ...
 *     profile_reader_free(&reader);
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_READER_H
#define COVSPLIT_COMMON_LLVM_PROFILE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"

struct profile_reader {
    /* Set by the caller. */
    struct bytes file;
    const char *name; /* of the file, in messages */
    uint64_t limit;   /* of the size of an expanded profile; 0: memory_limit_for(file.size) */

    /* The profile that was found last. */
    uint64_t offset;      /* in the file */
    uint64_t stored_size; /* in the file */
    bool is_sparse;

    struct buffer expanded;  /* that profile, if it is sparse */
    uint64_t expanded_total; /* the sizes of all sparse profiles so far */
};

/* True if the bytes start like a raw profile, plain or sparse. */
bool profile_reader_recognize(struct bytes bytes);

/* Finds the next profile, which is valid until the next one has been found. *found is false if
 * there is none; the last one stays valid then. False with an error if what follows is no whole
 * profile. */
bool profile_reader_next(struct profile_reader *reader, struct profile *profile, bool *found,
                         struct error *error);

/* The same, but it is an error if there is none. To be called at the start of the file. */
bool profile_reader_first(struct profile_reader *reader, struct profile *profile,
                          struct error *error);

/* Changes the advice of an error about damage if the file has the beginnings of several profiles
 * less than 64 MiB away: then processes have appended to it at the same time, as the children of a
 * server do that forks with %p in LLVM_PROFILE_FILE, since the runtime puts in the process's ID
 * only once. Returns false. */
bool profile_reader_explain(const struct profile_reader *reader, struct error *error);

/* Goes back to the start of the file, or to that of another one, whose bytes and name the caller
 * sets. Keeps the memory. */
void profile_reader_rewind(struct profile_reader *reader);

/* Frees what the reader has, but not the file. */
void profile_reader_free(struct profile_reader *reader);

/* ---- streams ---- */

/* Checks a stream of profiles while it comes in, so that one that is something else is not read to
 * its end, which it may not have. Initialize to {.limit = ...}. */
struct profile_stream {
    uint64_t limit;  /* of the size of a profile; 0: MEMORY_LIMIT_MOST */
    uint64_t offset; /* so much has been checked */
};

/* A stream_check (stream.h); the context is a struct profile_stream. True if `so_far` may be the
 * start of a file of profiles. */
bool profile_stream_check(void *context, const char *name, struct bytes so_far,
                          struct error *error);

#endif
