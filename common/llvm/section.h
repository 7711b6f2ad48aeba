/*
 * The kinds of section that covsplit knows, with the same names for all image formats.
 *
 * The numbers are stored in sidecars: they never change and are never reused.
 */
#ifndef COVSPLIT_COMMON_LLVM_SECTION_H
#define COVSPLIT_COMMON_LLVM_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"

enum section_kind {
    SECTION_COVMAP = 1,   /* __llvm_covmap: file names of the coverage mapping */
    SECTION_COVFUN = 2,   /* __llvm_covfun: the coverage mapping of each function */
    SECTION_NAMES = 3,    /* __llvm_prf_names */
    SECTION_DATA = 4,     /* __llvm_prf_data */
    SECTION_COVNAMES = 5, /* __llvm_covnames: names under -profile-correlate=binary */
    SECTION_COVDATA = 6,  /* __llvm_covdata: data under -profile-correlate=binary */
    SECTION_COUNTERS = 7, /* __llvm_prf_cnts: never removed; address and size are recorded */
    SECTION_BITMAP = 8,   /* __llvm_prf_bits: likewise */
    /* Never removed, but copied: a program instrumented by XRay uses them to patch itself. */
    SECTION_XRAY_MAP = 9,    /* xray_instr_map */
    SECTION_XRAY_INDEX = 10, /* xray_fn_idx */
    /* The coverage mapping of an image of packed objects, as it was linked; only joining needs
     * it. What everybody else reads is SECTION_COVMAP and SECTION_COVFUN, which are made of it
     * (codec/packed_units/packed_unit.h). No image has sections of these names. */
    SECTION_LINKED_COVMAP = 11, /* .covsplit.covmap: the image's __llvm_covmap */
    SECTION_LINKED_COVFUN = 12, /* .covsplit.covfun: its __llvm_covfun */
};

#define SECTION_KIND_MAX 12

/* The names of a kind. */
struct section_kind_names {
    const char *name;          /* in ELF and Mach-O images, and in all sidecars */
    const char *word;          /* see section_kind_word */
    const char *coff_name;     /* NULL: COFF images have no such section */
    const char *macho_segment; /* that has it; NULL: Mach-O images have no such section */
};

extern const struct section_kind_names section_kinds[SECTION_KIND_MAX + 1];

/* Sets of kinds are bit masks. */
#define SECTION_BIT(kind) (1u << (kind))
#define SECTION_REMOVABLE                                                                          \
    (SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_COVFUN) | SECTION_BIT(SECTION_NAMES) |      \
     SECTION_BIT(SECTION_DATA) | SECTION_BIT(SECTION_COVNAMES) | SECTION_BIT(SECTION_COVDATA))
/* Those that the profile runtime reads: they go only by the rules of formats/runtime, and leave a
 * stub or a tripwire that the runtime reads instead. Nothing in an image reads the others. */
#define SECTION_OF_RUNTIME (SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_DATA))
/* A bit of no kind: zeros of sections that stay, which need not be in the file ("zeros"). */
#define SECTION_ZEROS SECTION_BIT(0)
/* The sections that a split takes out by default. */
#define SECTION_DEFAULT (SECTION_REMOVABLE | SECTION_ZEROS)
/* Kinds that are copied to the sidecar whenever the image has them. */
#define SECTION_ARCHIVED (SECTION_BIT(SECTION_XRAY_MAP) | SECTION_BIT(SECTION_XRAY_INDEX))
/* Kinds that only sidecars have, of what images have as SECTION_COVMAP and SECTION_COVFUN. */
#define SECTION_LINKED (SECTION_BIT(SECTION_LINKED_COVMAP) | SECTION_BIT(SECTION_LINKED_COVFUN))
/* Kinds whose contents a sidecar may hold. */
#define SECTION_STORED (SECTION_REMOVABLE | SECTION_ARCHIVED | SECTION_LINKED)

/* The fate of a section when its image is split. */
enum section_fate {
    FATE_STAYS,   /* nothing is done */
    FATE_COPIED,  /* it stays in the image, and its bytes also go to the sidecar */
    FATE_ZEROED,  /* its bytes go to the sidecar, but the file keeps zeros in their place */
    FATE_REMOVED, /* its bytes go to the sidecar and out of the file (as far as pages allow) */
};

/* A section of an image or of a sidecar. Members that are not known, or do not apply, are zero. */
struct section {
    enum section_kind kind;
    enum section_fate fate;
    const char *name; /* in the file */
    uint64_t address; /* 0 for sections that are not loaded */
    uint64_t offset;  /* in the file */
    uint64_t size;    /* in bytes; for a section that was split before: what is left of it */
    uint64_t alignment;
    bool loaded;
    bool encoded; /* its bytes in the file are not its contents: compressed, or of another type */
    const char *reason; /* why it is not cut out of the file; "" if it is */
    /* In sidecars. */
    struct bytes content; /* in a sidecar that was opened: as it is stored, in this form */
    uint32_t form;        /* a ch_type: ELFCOMPRESS_ZSTD or an enum transform_id */
    uint64_t stored_size; /* in bytes, with the compression header */
    struct digest digest; /* of what the section contains, decompressed */
};

/* True if the split takes its bytes out of the image. */
static inline bool section_goes(const struct section *section)
{
    return section->fate >= FATE_ZEROED;
}

/* The ELF name, which is used in sidecars for all formats: "__llvm_covmap". NULL for an invalid
 * kind.
 */
const char *section_kind_name(enum section_kind kind);

/* The short name that --sections takes: "covmap", "covfun", "names", "data", "covnames",
 * "covdata"; "counters" and "bitmap" for the two that stay. NULL for an invalid kind. */
const char *section_kind_word(enum section_kind kind);

/* The kind of section with this ELF name; false if there is none. */
bool section_kind_of_name(const char *name, enum section_kind *kind);

#endif
