/*
 * Where the sidecar of a split goes, and what to do if a file is there already: it may have to be
 * kept, or in a store it may serve as it is.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_PLACE_H
#define COVSPLIT_SPLIT_SPLIT_PLACE_H

#include "split/split/job.h"

/* Chooses the path of the sidecar, and starts split->sidecar and split->stripped. */
bool place_create_outputs(struct slice_split *split, struct error *error);

/* Makes the sidecar, after the stripped image was written. In a store the sidecar also gets its
 * name, unless the one that is there can be used; elsewhere split->has_pending_sidecar says that it
 * is still to get its name. If the image was split before, at most a placeholder is written. If
 * there is nothing to take out, a sidecar (without contents) is written only if --sidecar names it;
 * if none is written, split->sidecar_path becomes NULL. */
bool place_settle_sidecar(struct slice_split *split, struct error *error);

#endif
