/*
 * What a sidecar records about its image: the types, which the image formats use too.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_FACTS_H
#define COVSPLIT_COMMON_SIDECAR_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/uuid.h"
#include "common/llvm/profile.h"
#include "common/llvm/section.h"

/* The versions of the sidecar format. In version 2, some section is in a compact form. In version 3
 * there is a section of a kind in SECTION_LINKED. */
#define SIDECAR_FORMAT_VERSION         1
#define SIDECAR_FORMAT_VERSION_COMPACT 2
#define SIDECAR_FORMAT_VERSION_LINKED  3

/* Stored in sidecars: the numbers never change. */
enum image_format {
    IMAGE_ELF = 1,
    IMAGE_MACHO = 2,
    IMAGE_COFF = 3,
};

/* "ELF", "Mach-O", "COFF"; "unknown" for any other number. */
const char *image_format_name(enum image_format format);

/* Where the UUID comes from. Stored in sidecars: the numbers never change. */
enum uuid_source {
    UUID_FROM_BUILD_ID = 1, /* in the image itself: build ID, LC_UUID, RSDS GUID */
    UUID_FROM_OPTION = 2,   /* --uuid */
    UUID_FROM_DIGEST = 3,   /* the XXH3-128 digest of the original image */
};

/* "build ID", "--uuid", "digest of the image" */
const char *uuid_source_name(enum uuid_source source);

/* What the sidecar records about the image, apart from its sections. */
struct sidecar_facts {
    enum image_format format;
    uint8_t elf_class;    /* ELFCLASS32 or ELFCLASS64 */
    uint8_t elf_data;     /* ELFDATA2LSB or ELFDATA2MSB: the image's byte order */
    uint16_t elf_type;    /* ET_EXEC or ET_DYN */
    uint16_t machine;     /* EM_X86_64, ... */
    uint64_t raw_version; /* __llvm_profile_raw_version with its variant bits; 0: none found */
    struct uuid uuid;
    enum uuid_source uuid_source;
    uint64_t original_size;
    struct digest original_digest;
    uint64_t stripped_size;
    struct digest stripped_digest;
    uint64_t pointer_size; /* 4 or 8 */
    /* True if the first record of the data section was replaced by the stub record. Its first bytes
     * are then stub_id: see formats/runtime/runtime.h. */
    bool has_stub;
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
    /* If names went and records stayed: the digest of these (profile_records_digest), by which the
     * profiles of two builds of one UUID are told apart. Zeros if it is not known. */
    struct digest records;
    /* True if the image had been split before, so that this sidecar holds nothing and only takes
     * the place of the real one. The original cannot be restored from it. */
    bool is_placeholder;
    /* True if the sidecar was made with --no-exact: it has only the distinct names, in one chunk.
     * The original cannot be restored from it. */
    bool is_inexact;
};

/* The kinds whose digests are in a stub_id, in this order. */
#define STUB_KINDS                                                                                 \
    {                                                                                              \
        SECTION_NAMES, SECTION_DATA, SECTION_COVMAP, SECTION_COVFUN                                \
    }
#define STUB_KIND_COUNT 4

/* Makes a stub_id of the start of the UUID and a digest of the digests of these sections, as they
 * were linked (of no bytes for one that the image does not have). */
void facts_make_stub_id(uint8_t stub_id[PROFILE_STUB_ID_SIZE], const struct uuid *uuid,
                        const struct digest sections[STUB_KIND_COUNT]);

/* A section that was to be removed but stayed in the image, and why. */
struct kept_section {
    enum section_kind kind;
    uint64_t size;
    const char *reason;
};

#endif
