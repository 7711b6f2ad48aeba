/*
 * The notes of owner "covsplit", which say what a sidecar records about the image and about its own
 * sections. Their layouts are in docs/format.md ("The notes of owner covsplit").
 *
 * The types are so high because some tools name low ones regardless of the owner (binutils calls 1
 * NT_VERSION).
 */
#ifndef COVSPLIT_COMMON_SIDECAR_NOTES_H
#define COVSPLIT_COMMON_SIDECAR_NOTES_H

#include "common/elf_file/elf_file.h"

#define SIDECAR_NOTE_SECTION    ".note.covsplit"
#define SIDECAR_NOTE_OWNER      "covsplit"
#define SIDECAR_INVERSE_SECTION ".covsplit.inverse"

/* gABI, "Section Compression"; older versions of libelf do not define it. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* Objects (object.h) have a note with another type in a section of the same name. */
enum sidecar_note_type {
    SIDECAR_NOTE_FORMAT = 0x1001,
    SIDECAR_NOTE_IMAGE = 0x1002,
    SIDECAR_NOTE_REMOVED = 0x1003,
    SIDECAR_NOTE_KEPT = 0x1004,
    SIDECAR_NOTE_INVERSE = 0x1005,
    SIDECAR_NOTE_SEAL = 0x1006,
    SIDECAR_NOTE_STUB = 0x1007,
    SIDECAR_NOTE_RECORDS = 0x1008,
};

/* Flags of IMAGE and REMOVED. */
#define NOTE_IMAGE_STUB        1u
#define NOTE_IMAGE_PLACEHOLDER 2u
#define NOTE_IMAGE_INEXACT     4u
#define NOTE_REMOVED_COPY      1u

#endif
