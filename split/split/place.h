/*
 * Where the sidecar of a split goes, and what is there already: a file that nobody has written
 * before, one that must not be replaced, or in a store one that does as well.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_PLACE_H
#define COVSPLIT_SPLIT_SPLIT_PLACE_H

#include "split/split/job.h"

/* Chooses the path of the sidecar, and starts split->sidecar and split->stripped. */
bool place_create_outputs(struct slice_split *split, struct error *error);

/* For a split whose stripped image is written: makes the sidecar, and in a store gives it its name,
 * unless the one that is there will do. Of an image that was split before, at most a placeholder is
 * written; where there is nothing to take out, one without contents, and only if --sidecar names
 * it. split->has_pending_sidecar: it waits for its name. split->sidecar_path becomes NULL where
 * there was nothing to take out and no sidecar is written. */
bool place_settle_sidecar(struct slice_split *split, struct error *error);

#endif
