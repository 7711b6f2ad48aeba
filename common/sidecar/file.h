/*
 * What the files that write, read and restore from sidecars share: names in the ELF file, and the
 * opened sidecar. Only the files of this folder include this header.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_FILE_H
#define COVSPLIT_COMMON_SIDECAR_FILE_H

#include <elf.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/codec.h"
#include "common/sidecar/note.h"
#include "common/sidecar/sidecar.h"

/* gABI, "Section Compression"; older versions of libelf do not define it. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define SIDECAR_INVERSE_SECTION ".covsplit.inverse"

/* A part of the sidecar that is stored compressed. */
struct sidecar_content {
    /* How it is stored; NULL for a plain zstd frame. */
    const struct transform *transform;
    struct packed packed;
    struct digest digest;
};

/* What is found out while a sidecar is read and then never changes until it is closed. So several
 * threads can read a sidecar at the same time. */
struct sidecar_references {
    /* The NameRefs of the distinct names, which several sections need; without the names
     * themselves, which are much larger. NULL until they are needed. */
    _Atomic(struct names *) known;
    /* SECTION_BIT of the sections whose stored bytes have been checked against their digest. */
    atomic_uint checked;
};

struct sidecar {
    char *name;
    struct input input; /* the bytes, if the sidecar owns them */
    struct sidecar_references *references;
    struct sidecar_notes notes; /* with all facts filled in */
    struct sidecar_section sections[SECTION_KIND_MAX];
    struct sidecar_content contents[SECTION_KIND_MAX]; /* of the section with the same index */
    size_t section_count;
    struct sidecar_content inverse;
    /* See sidecar_help_restore. */
    unsigned threads;
    const struct proved_sections *proved;
    uint64_t memory_limit; /* in bytes (memory_limit.h) */
};

#endif
