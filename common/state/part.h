/*
 * Parts of a state, what it has of an image, in files and in memory: see state.h.
 */
#ifndef COVSPLIT_COMMON_STATE_PART_H
#define COVSPLIT_COMMON_STATE_PART_H

#include "common/state/state.h"
#include "common/state/state_file.h"

/* A part that grows. Initialize to {0}. */
struct whole_part {
    struct state_part part; /* its view of tests is set by whole_part_view only */
    struct buffer tests;
};

/* Appends the records of a part. */
bool state_writer_put_part(struct state_writer *writer, const struct state_part *part,
                           struct error *error);

/* Adds the part that begins with this record to the whole, which may be empty. The limit is that of
 * each record. */
bool whole_part_add(struct whole_part *whole, const struct state_file *file, size_t record,
                    uint64_t limit, struct error *error);

/* The whole, as a part that is valid as long as the whole. */
struct state_part *whole_part_view(struct whole_part *whole);
void whole_part_free(struct whole_part *whole);

/* The identity in a record that begins a part, and its number of profiles. */
bool state_read_part_head(const struct state_file *file, size_t record, struct digest *identity,
                          uint64_t *profile_count, struct error *error);

#endif
