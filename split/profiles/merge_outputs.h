/*
 * The files that a merge writes: the one of all images, and with --per-image one for each.
 *
 * A .profraw file gets one profile for each group of profiles. For a .profdata file, each group's
 * profile is written to an unnamed file, and llvm-profdata makes the result from these: it does
 * once for each group what it would otherwise do for every profile.
 *
 * All files are made before the first one gets its name.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_OUTPUTS_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/output.h"
#include "split/cli/options.h"
#include "split/profiles/merge_read.h"

enum profile_format { /* the words of --format */
                      FORMAT_RAW,
                      FORMAT_INDEXED,
                      FORMAT_UNKNOWN,
};

enum profile_format merge_output_format(const struct parsed_options *options);

/* Initialize to {0}; free with merge_outputs_free, which discards what was not committed. */
struct merge_outputs {
    struct output *files; /* the one of all images comes last */
    size_t count;
};

/* Makes the files that the options ask for, of groups that are in order. */
bool merge_outputs_make(struct merge_outputs *outputs, const struct merge *merge,
                        const struct parsed_options *options, struct error *error);

/* Makes a .profdata file of all groups in memory: read it through output->fd, and discard it. The
 * option OPTION_OUTPUT names a path in a directory for unnamed files. */
bool merge_outputs_make_in_memory(struct output *output, const struct merge *merge,
                                  const struct parsed_options *options, struct error *error);

/* Gives them their names. */
bool merge_outputs_commit(struct merge_outputs *outputs, struct error *error);
void merge_outputs_free(struct merge_outputs *outputs);

#endif
