/*
 * The file that already exists at the path where a split wants to write its sidecar: whether it may
 * be replaced, and whether it can be used as it is.
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
    bool is_there; /* there is a file, or a dangling link */
    struct input input;
    struct sidecar *sidecar; /* NULL: not a sidecar, or not a readable one */
    struct error why;        /* if sidecar is NULL: what is wrong with it */
};

/* Opens the file at the path, if there is one. The path must stay valid until
 * existing_sidecar_close, which must be called even after a failure. False if there is a file that
 * cannot be examined: it may be one that must not be replaced. */
bool existing_sidecar_open(struct existing_sidecar *existing, const char *path,
                           struct error *error);
void existing_sidecar_close(struct existing_sidecar *existing);

/* True if there is a file other than a placeholder, which holds nothing. */
bool existing_sidecar_counts(const struct existing_sidecar *existing);

/* Whether a split, whose stripped image is written already, may write its sidecar there at all: it
 * must not replace what was taken out of the same image before. */
bool existing_sidecar_check_own(const struct existing_sidecar *existing,
                                const struct slice_split *split, struct error *error);

/* Whether the file that a store has under the UUID (existing->is_there) is a readable sidecar of
 * the same image and the same split of it. Other differences do not matter, such as the name of the
 * image or the compression level. */
bool existing_sidecar_check_same(const struct existing_sidecar *existing,
                                 const struct slice_split *split, struct error *error);

/* Whether the existing sidecar is the same in that sense, and can restore the original image, which
 * the new one could not. It is then kept even where it could be replaced. */
bool existing_sidecar_is_better(const struct existing_sidecar *existing,
                                const struct slice_split *split);

#endif
