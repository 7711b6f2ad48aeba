/*
 * The sidecar that is there already, where a split wants to write one: whether it may be replaced,
 * and whether it will do as it is.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_EXISTING_SIDECAR_H
#define COVSPLIT_SPLIT_SPLIT_EXISTING_SIDECAR_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/sidecar/sidecar.h"
#include "split/split/job.h"

struct existing_sidecar {
    const char *path;
    bool is_there; /* something is */
    struct input input;
    struct sidecar *sidecar; /* NULL: it is none, or one that cannot be read */
    struct error why;        /* then: what is wrong with it */
};

/* Opens what is at the path, which must live as long. False where something is there that cannot be
 * looked at: it may be what must not be replaced. Closed with existing_sidecar_close, also then. */
bool existing_sidecar_open(struct existing_sidecar *existing, const char *path,
                           struct error *error);
void existing_sidecar_close(struct existing_sidecar *existing);

/* True for a file that a split must think about: all but a placeholder, which holds nothing. */
bool existing_sidecar_counts(const struct existing_sidecar *existing);

/* Whether a split, whose stripped image is written, may write its sidecar there at all: not over
 * what was taken out of the very image before. */
bool existing_sidecar_check_own(const struct existing_sidecar *existing,
                                const struct slice_split *split, struct error *error);

/* Whether what a store has under the UUID (existing->is_there) stands for the same image and the
 * same split of it, and can be read. That is all that counts: the name of the image, the
 * compression level and other things that make the bytes differ do not. */
bool existing_sidecar_check_same(const struct existing_sidecar *existing,
                                 const struct slice_split *split, struct error *error);

/* Whether that is so, and besides it gives the original back, which ours would not: then it is to
 * stay even where it could be replaced. */
bool existing_sidecar_is_better(const struct existing_sidecar *existing,
                                const struct slice_split *split);

#endif
