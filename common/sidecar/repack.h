/*
 * A sidecar once more, in the compact form: what was written quickly, or plain, becomes small.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_REPACK_H
#define COVSPLIT_COMMON_SIDECAR_REPACK_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/output.h"
#include "common/sidecar/sidecar.h"
#include "common/sidecar/write.h"

/* Whether a section of it is in a compact form: then those that are not did not fit one. */
bool sidecar_is_compact(const struct sidecar *sidecar);

/* Whether both hold the same of the same image, in whatever forms, by the digests that they record:
 * so that each may stand for the other. How the image is called does not count. */
bool sidecar_holds_same(const struct sidecar *one, const struct sidecar *other);

/* Writes what the sidecar holds to a started output, as a split of the image would have written it
 * with these options (`proved` is not used), and reads it back: each section must come out with the
 * digest that the sidecar has for it. The caller commits it. */
bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error);

#endif
