/*
 * Writing sidecars. For their contents and structure see sidecar.h.
 *
 * The same contents and options always give the same bytes, whatever the number of threads.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_WRITE_H
#define COVSPLIT_COMMON_SIDECAR_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/sidecar/facts.h"

struct sidecar_section_source {
    enum section_kind kind;
    uint64_t address;
    uint64_t alignment; /* sh_addralign of the original section */
    uint64_t size;
    struct bytes content;  /* empty for counters and bitmap: only address and size are recorded */
    uint64_t image_offset; /* file offset of `content` in the image, for input_release_pages */
    bool copied;           /* the section stays in the image */
    bool made;             /* the content is not in the image: it was made of what is */
};

struct sidecar_source {
    struct sidecar_facts facts;
    const char *image_name; /* file name without directory: a label for people */
    const struct sidecar_section_source *sections;
    size_t section_count;
    const struct kept_section *kept;
    size_t kept_count;
    struct bytes inverse;      /* from inverse_encode */
    const struct input *image; /* the file that contains the contents; NULL if it is not mapped */
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

#endif
