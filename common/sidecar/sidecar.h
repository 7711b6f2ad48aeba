/*
 * The sidecar: one ELF file that holds all that was taken out of an image.
 *
 * Whatever the image's format, the sidecar is an ELF file of the image's class, byte order and
 * machine, so that readelf, file and a debuginfod index can read it. It has, in this order:
 *
 *   PT_NOTE              a segment with the build ID's note, a copy of the following section
 *   .note.gnu.build-id   the UUID
 *   .note.covsplit       notes of owner "covsplit" (types and layouts: sidecar/note.h)
 *   __llvm_covmap, ...   each removed section under its ELF name, with its original address in
 *                        sh_addr; SHF_COMPRESSED with ch_type ELFCOMPRESS_ZSTD, or one of the
 *                        compact forms (compact.h); likewise a copy of names that stayed
 *                        in the image although coverage mapping was removed
 *   __llvm_prf_cnts, ... counters and bitmap as SHT_NOBITS: address and size only
 *   .covsplit.inverse    the inverse edit script (inverse.h), compressed like the sections
 *   .shstrtab
 *
 * The same contents and options always give the same bytes, whatever the number of threads.
 * A reader refuses a format version that it does not know, and trusts no size: what is read comes
 * as a stream, or for compact forms as a whole section, and what is kept in memory is bounded by
 * what was really decompressed.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_SIDECAR_H
#define COVSPLIT_COMMON_SIDECAR_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/uuid.h"
#include "common/llvm/section.h"

/* The format versions: 2 says that some section is in a compact form. */
#define SIDECAR_FORMAT_VERSION         1
#define SIDECAR_FORMAT_VERSION_COMPACT 2

/* Stored in sidecars: the numbers never change. */
enum image_format {
    IMAGE_ELF = 1,
    IMAGE_MACHO = 2,
    IMAGE_COFF = 3,
};

/* "ELF", "Mach-O", "COFF"; "unknown" for any other number. */
const char *image_format_name(enum image_format format);

/* Where the UUID comes from. Stored in sidecars. */
enum uuid_source {
    UUID_FROM_BUILD_ID = 1, /* in the image itself: build ID, LC_UUID, RSDS GUID */
    UUID_FROM_OPTION = 2,   /* --uuid */
    UUID_FROM_DIGEST = 3,   /* the XXH3-128 digest of the original image */
};

/* "build ID", "--uuid", "digest of the image" */
const char *uuid_source_name(enum uuid_source source);

/* What the sidecar says of the image, apart from sections. */
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
    /* True where the first record of the data section was replaced by the stub record. */
    bool has_stub;
    /* True where the image had been split before, so that this sidecar has nothing of it and only
     * stands in for the real one. It restores nothing. */
    bool is_placeholder;
    /* True where nobody has proved that the sidecar gives the original back: the names are only
     * the distinct ones, in one chunk. It restores nothing. */
    bool is_inexact;
};

/* A section that stayed in the image though it was asked for, and why. */
struct kept_section {
    enum section_kind kind;
    uint64_t size;
    const char *reason;
};

/* ---- writing ---- */

struct sidecar_section_source {
    enum section_kind kind;
    uint64_t address;
    uint64_t alignment; /* sh_addralign of the original section */
    uint64_t size;
    struct bytes content; /* empty for counters and bitmap, of which only place and size are kept */
    uint64_t image_offset; /* file offset of `content` in the image: for input_release_pages */
    bool copied;           /* the section stays in the image */
};

struct sidecar_source {
    struct sidecar_facts facts;
    const char *image_name; /* file name without directory: a label for people */
    const struct sidecar_section_source *sections;
    size_t section_count;
    const struct kept_section *kept;
    size_t kept_count;
    struct bytes inverse;      /* as inverse_encode made it */
    const struct input *image; /* what the contents are views of; NULL: no mapped file */
};

struct memo;

struct sidecar_write_options {
    int level;           /* zstd's 1 to 19 */
    unsigned threads;    /* 1 or more */
    bool portable;       /* no compact forms */
    uint64_t block_size; /* larger sections are cut into such blocks; 0: the usual size */
    struct memo *memo;   /* what is proved is remembered here; NULL: it is not */
};

/* Compresses and writes the sidecar to a started output; the caller commits it. */
bool sidecar_write(const struct sidecar_source *source, const struct sidecar_write_options *options,
                   struct output *output, struct error *error);

/* ---- reading ---- */

struct sidecar;

struct sidecar_section {
    enum section_kind kind;
    const char *name;
    uint64_t address;
    uint64_t alignment;
    uint64_t size;        /* decompressed */
    uint64_t stored_size; /* in the sidecar; 0 for counters and bitmap */
    bool has_content;     /* false for counters and bitmap */
    bool copied;          /* the section stayed in the image; this is a copy */
    struct digest digest; /* of the decompressed content */
};

/* Whether the bytes look like a sidecar of any version: an ELF file with a note of ours. Cheap. */
bool sidecar_recognize(struct bytes bytes);

/* Reads the structure and the notes; decompresses nothing. `name` is for messages and is copied;
 * `bytes` must outlive the sidecar. Freed with sidecar_close (NULL allowed). */
struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error);
void sidecar_close(struct sidecar *sidecar);

/* Whatever of the sidecar is held in memory as a whole, a section or a part of its compact form,
 * must not be larger than the limit. It is in proportion to the size of the file (memory_limit.h)
 * until it is set. UINT64_MAX: none; 0: it stays as it is. */
void sidecar_limit_memory(struct sidecar *sidecar, uint64_t limit);
uint64_t sidecar_memory_limit(const struct sidecar *sidecar);

/* Everything returned lives as long as the sidecar. */
const struct sidecar_facts *sidecar_facts(const struct sidecar *sidecar);
const char *sidecar_name(const struct sidecar *sidecar);
const char *sidecar_image_name(const struct sidecar *sidecar);
uint32_t sidecar_format_version(const struct sidecar *sidecar);
size_t sidecar_section_count(const struct sidecar *sidecar);
/* False for a placeholder, with the error for who needs what it does not hold. */
bool sidecar_is_real(const struct sidecar *sidecar, struct error *error);
const struct sidecar_section *sidecar_section(const struct sidecar *sidecar, size_t index);
/* NULL where there is no such section. */
const struct sidecar_section *sidecar_find(const struct sidecar *sidecar, enum section_kind kind);
size_t sidecar_kept_count(const struct sidecar *sidecar);
const struct kept_section *sidecar_kept(const struct sidecar *sidecar, size_t index);

/* Decompresses a whole section and checks its digest. The buffer grows with what comes out, so a
 * false size costs nothing; one above the limit of memory is refused. */
bool sidecar_read_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                          struct buffer *content, struct error *error);

struct names;

/* The distinct names of a section of names, into an empty set that takes no more: in a compact form
 * no zlib stream is made again for it. With `for_others`, what other sections need of the names is
 * kept with the sidecar, so that it is not made again for those that are read next. */
bool sidecar_read_names(const struct sidecar *sidecar, const struct sidecar_section *section,
                        bool for_others, struct names *set, struct error *error);

/* Called with bytes in order. False stops, with the error filled in. */
typedef bool (*sidecar_sink)(void *context, struct bytes part, struct error *error);

/* The same with a fixed amount of memory: the sink gets the content piece by piece. It is only good
 * when the function has returned true, since the digest is checked at the end. */
bool sidecar_stream_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                            sidecar_sink sink, void *context, struct error *error);

/* The `size` bytes of a section from `offset` on, none of which is given back unchecked: of a
 * section in blocks, the digests of those blocks that hold them, and no others are decoded; of any
 * other the section's own. That takes decoding it as a whole: of a plain zstd section once for an
 * open sidecar, as a stream. False too where the section ends before. */
bool sidecar_read_part(const struct sidecar *sidecar, const struct sidecar_section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error);

/* Decompresses everything as streams and checks every digest, the notes, and the bounds of the
 * inverse script, unless the sidecar is not exact. */
bool sidecar_verify(const struct sidecar *sidecar, struct error *error);

/* What is needed for that: how many threads may make zlib streams again (1 unless it is called),
 * and a memo of what need not be decoded again (NULL: none), which must outlive the sidecar. */
void sidecar_help_restore(struct sidecar *sidecar, unsigned threads, struct memo *memo);

/* Produces the original from the stripped image: checks the stripped image's size and digest first,
 * and the original's digest at the end. The sink may have been called before a false result: what
 * it wrote must then be thrown away. `stripped_name` is for messages. */
bool sidecar_restore(const struct sidecar *sidecar, struct bytes stripped,
                     const char *stripped_name, sidecar_sink sink, void *context,
                     struct error *error);

/* The same for a mapped file, whose pages are given back once they are used: the resident size does
 * not grow with the image. */
bool sidecar_restore_input(const struct sidecar *sidecar, const struct input *stripped,
                           sidecar_sink sink, void *context, struct error *error);

#endif
