/*
 * The outputs of a split: a stripped image and a sidecar. Nothing can be lost: both are complete
 * and checked (joining them in memory gives the original's digest) before either gets its name.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_OUTPUTS_H
#define COVSPLIT_SPLIT_SPLIT_OUTPUTS_H

#include "split/split/job.h"

/* Writes split->stripped, and completes the plan's facts. */
bool outputs_write_stripped(struct slice_split *split, struct error *error);

/* Writes split->sidecar, checks that it and the stripped image make the original, and syncs both to
 * disk: everything that can fail for lack of space must be done before the first output gets its
 * name. */
bool outputs_make_sidecar(struct slice_split *split, struct error *error);

/* Writes split->sidecar without checking or syncing it. */
bool outputs_write_sidecar(struct slice_split *split, struct error *error);

/* Whether this sidecar and the stripped image make the original. If both the split and the sidecar
 * are inexact, checks each of them on its own instead. */
bool outputs_check_with(struct slice_split *split, struct sidecar *sidecar, struct error *error);

#endif
