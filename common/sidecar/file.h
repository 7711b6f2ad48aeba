/*
 * What the files that write, read and restore from sidecars share: names in the ELF file, and the
 * opened sidecar. Nothing else includes this.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_FILE_H
#define COVSPLIT_COMMON_SIDECAR_FILE_H

#include <gelf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/registry.h"
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
    struct packed packed;
    struct digest digest;
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
    struct input input; /* the bytes, where they are the sidecar's own */
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

#endif
