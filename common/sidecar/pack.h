/*
 * The sections of a sidecar to be in their compact forms (codec/registry.h): which sees which
 * others.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_PACK_H
#define COVSPLIT_COMMON_SIDECAR_PACK_H

#include <stdbool.h>

#include "common/codec/registry.h"
#include "common/sidecar/write.h"

/* The packed sections, by kind. Initialize to {0}. */
struct sidecar_packed {
    struct {
        const struct transform *transform; /* NULL: the section does not fit any */
        struct buffer packed;
    } sections[SECTION_KIND_MAX + 1];
};

/* Encodes those sections that fit. `name` is for messages. Free with sidecar_packed_free, also
 * after a failure. */
bool sidecar_pack(struct sidecar_packed *packed, const struct sidecar_source *source,
                  const struct sidecar_write_options *options, const char *name,
                  struct error *error);
void sidecar_packed_free(struct sidecar_packed *packed);

#endif
