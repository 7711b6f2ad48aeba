/*
 * The compact codec (compact.h) at work in a sidecar: which sections see which others.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_COMPACT_H
#define COVSPLIT_COMMON_SIDECAR_COMPACT_H

#include <stdbool.h>

#include "common/codec/registry.h"
#include "common/sidecar/file.h"

/* The packed sections of a sidecar to be, by kind. Starts as {0}. */
struct sidecar_compact {
    struct {
        const struct transform *transform; /* NULL: the section does not fit any */
        struct buffer packed;
    } sections[SECTION_KIND_MAX + 1];
};

/* Encodes those sections that fit. `name` is for messages. Freed with sidecar_compact_free, also
 * after a failure. */
bool sidecar_compact_encode(struct sidecar_compact *compact, const struct sidecar_source *source,
                            const struct sidecar_write_options *options, const char *name,
                            struct error *error);
void sidecar_compact_free(struct sidecar_compact *compact);

/* What decoding a section takes of other sections. Start from {0}. */
struct sidecar_compact_reader {
    struct transform_context context;
    struct buffer data;
};

/* What an open sidecar keeps for that. NULL is allowed. */
void sidecar_references_free(struct sidecar_references *references);

/* Decodes what this content needs. The reader must stay where it is, and the sidecar open. Freed
 * with sidecar_compact_reader_free, also after a failure. */
bool sidecar_compact_reader_open(struct sidecar_compact_reader *reader,
                                 const struct sidecar *sidecar,
                                 const struct sidecar_content *content, struct error *error);
void sidecar_compact_reader_free(struct sidecar_compact_reader *reader);

/* Appends a section whose content has a transform, with all that it needs of other sections. Checks
 * no digest of the section itself. */
bool sidecar_compact_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                          struct buffer *loaded, struct error *error);

#endif
