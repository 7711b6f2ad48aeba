/*
 * From the reader library into an output: what a sink of the library needs to write files.
 */
#ifndef COVSPLIT_SPLIT_CLI_OUTPUT_SINK_H
#define COVSPLIT_SPLIT_CLI_OUTPUT_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/output.h"
#include "reader/covsplit.h"

/* LLVM's reader passes over zeros between the profiles of a file and wants the next one aligned.
 * Those of version 7 may end anywhere. */
#define PROFILE_ALIGNMENT 8

/* How many zeros belong behind profiles of that many bytes. */
static inline uint64_t profile_padding(uint64_t size)
{
    return align_up(size, PROFILE_ALIGNMENT) - size;
}

/* Start from {.output = ...}. */
struct output_sink {
    struct output *output;
    struct error error; /* of the last write */
};

/* A covsplit_sink; the context is a struct output_sink. */
bool output_sink_write(void *context, const void *data, size_t size);

/* After a failure: the library's error is freed and *error is filled in, with what went wrong in
 * writing if that was the reason. Returns false. */
bool output_sink_error(const struct output_sink *sink, covsplit_error *from, struct error *error);

/* Appends the full raw profile to the output (see covsplit_profile_correlate). */
bool correlate_into(struct output *output, const covsplit_profile *profile,
                    covsplit_sidecar *sidecar, struct error *error);

#endif
