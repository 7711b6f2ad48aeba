/*
 * Writing sidecars. For their contents and structure see sidecar.h.
 *
 * The same contents and options always give the same bytes, whatever the number of threads.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_SIDECAR_WRITE_H
#define COVSPLIT_COMMON_SIDECAR_SIDECAR_WRITE_H

#include "common/base/output.h"
#include "common/sidecar/sidecar.h"

struct sidecar_source {
    struct sidecar_facts facts;
    const char *image_name; /* file name without directory: a label for people */
    /* The sections, with contents as they are in the image; FATE_COPIED for those that stay in it.
     * Of kinds that are not in SECTION_STORED, only address and size are recorded. */
    const struct section *sections;
    size_t section_count;
    /* Of these, the sections that do not go and have a reason for that are told. */
    const struct section *kept;
    size_t kept_count;
    struct bytes inverse;      /* from inverse_encode */
    const struct input *image; /* pages of it are released after use; NULL if it is not mapped */
};

struct sidecar_write_options {
    int level;           /* zstd's 1 to 19 */
    unsigned threads;    /* 1 or more */
    bool portable;       /* no compact forms */
    uint64_t block_size; /* larger sections are cut into blocks of this size; 0: the default */
    struct proved_sections *proved; /* receives what was shown to come back; may be NULL */
};

/* Compresses and writes the sidecar to a started output; the caller commits it. */
bool sidecar_write(const struct sidecar_source *source, const struct sidecar_write_options *options,
                   struct output *output, struct error *error);

/* Writes what the sidecar holds to a started output, as a split of the image would have written it
 * with these options (`proved` is not used), and reads it back: each section must come out with the
 * digest that the sidecar has for it. The caller commits it. */
bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error);

#endif
