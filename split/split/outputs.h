/*
 * What a split writes: a stripped image and a sidecar. Nothing can be lost: both are complete and
 * checked (joining them in memory gives the original's digest) before either gets its name.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_OUTPUTS_H
#define COVSPLIT_SPLIT_SPLIT_OUTPUTS_H

#include "split/split/job.h"

/* Writes split->stripped, and completes the plan's facts. */
bool outputs_write_stripped(struct slice_split *split, struct error *error);

/* Writes split->sidecar, checks that it and the stripped image make the original, and has both on
 * the disk: all that can fail for lack of space has to happen before the first output gets its
 * name. */
bool outputs_make_sidecar(struct slice_split *split, struct error *error);

/* Writes split->sidecar, no more. */
bool outputs_write_sidecar(struct slice_split *split, struct error *error);

/* Whether this sidecar and the stripped image make the original; or where neither is to give it
 * back, whether both are what they were meant to be. */
bool outputs_check_with(struct slice_split *split, struct sidecar *sidecar, struct error *error);

#endif
