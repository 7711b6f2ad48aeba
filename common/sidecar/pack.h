/*
 * Encodes the sections of a new sidecar in their compact forms (codec/codec.h), and determines
 * which sections each of them may use.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_PACK_H
#define COVSPLIT_COMMON_SIDECAR_PACK_H

#include <stdbool.h>

#include "common/codec/codec.h"
#include "common/sidecar/write.h"

/* The packed sections, by kind. Initialize to {0}. */
struct sidecar_packed {
    struct {
        const struct transform *transform; /* NULL if no transform fits the section */
        struct buffer packed;
    } sections[SECTION_KIND_MAX + 1];
};

/* Encodes the sections for which a transform fits. `name` is for messages. Free with
 * sidecar_packed_free, even after a failure. */
bool sidecar_pack(struct sidecar_packed *packed, const struct sidecar_source *source,
                  const struct sidecar_write_options *options, const char *name,
                  struct error *error);
void sidecar_packed_free(struct sidecar_packed *packed);

#endif
