/*
 * What the files that write, read and restore from sidecars share: names in the ELF file, the
 * header of a compressed section, and the opened sidecar. Nothing else includes this.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_FILE_H
#define COVSPLIT_COMMON_SIDECAR_FILE_H

#include <gelf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/registry.h"
#include "common/edit/inverse.h"
#include "common/sidecar/note.h"
#include "common/sidecar/sidecar.h"

/* gABI, "Section Compression"; libelf learnt it later than its users did. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define SIDECAR_INVERSE_SECTION ".covsplit.inverse"

/* A part of the sidecar that is stored compressed. */
struct sidecar_content {
    /* How it is stored; NULL: as a zstd frame. */
    const struct transform *transform;
    struct bytes frame; /* the stored bytes */
    uint64_t size;      /* decompressed */
    struct digest digest;
    const char *what; /* for messages */
};

/* What is found out while a sidecar is read, and then stays as it is until it is closed: so whoever
 * reads a sidecar, on several threads too, changes nothing for others. */
struct sidecar_references {
    /* The NameRefs of the distinct names, which several sections need, once they were needed:
     * without the names themselves, of which they are a small part. NULL: not yet. */
    _Atomic(struct names *) known;
    /* SECTION_BIT of those whose stored bytes were seen to give what their digest says. */
    atomic_uint checked;
};

struct sidecar {
    char *name;
    struct sidecar_references *references;
    struct sidecar_notes notes; /* with facts complete */
    struct sidecar_section sections[SECTION_KIND_MAX];
    struct sidecar_content contents[SECTION_KIND_MAX]; /* of the section of the same index */
    size_t section_count;
    struct sidecar_content inverse;
    /* See sidecar_help_restore. */
    unsigned threads;
    struct memo *memo;
    uint64_t memory_limit; /* of what is held at a time (memory_limit.h) */
};

/* Decompresses into a buffer that grows with what comes out, and checks the digest. */
bool sidecar_content_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                          struct buffer *loaded, struct error *error);

/* Checks what was decompressed against the digest. */
bool sidecar_content_check(const struct sidecar *sidecar, const struct sidecar_content *content,
                           struct bytes loaded, struct error *error);

/* Loads and decodes the inverse edit script. *encoded backs *inverse; the caller frees both, also
 * after a failure. */
bool sidecar_inverse_load(const struct sidecar *sidecar, struct buffer *encoded,
                          struct inverse *inverse, struct error *error);

#endif
