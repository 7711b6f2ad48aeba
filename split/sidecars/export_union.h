/*
 * The file of `export --union`: a union (common/sidecar/union.h) on its way to its name.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_EXPORT_UNION_H
#define COVSPLIT_SPLIT_SIDECARS_EXPORT_UNION_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/output.h"
#include "common/sidecar/sidecar.h"

struct union_writer;

struct union_output {
    const char *path;
    struct output output;
    struct union_writer *writer; /* NULL: nothing to discard */
};

/* End it with union_output_finish or union_output_discard; a failure leaves nothing to discard. */
bool union_output_start(struct union_output *all, const char *path, struct error *error);

/* Adds the sidecar's image. Sidecars of images without coverage are passed over, and placeholders
 * that were not named: one that was takes the place of a sidecar that is needed. */
bool union_output_add(struct union_output *all, const struct sidecar *sidecar, bool is_named,
                      struct error *error);

/* Gives the file its name. With `verbose`, prints what is in it. */
bool union_output_finish(struct union_output *all, bool verbose, struct error *error);

void union_output_discard(struct union_output *all);

#endif
