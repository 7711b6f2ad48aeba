/*
 * The sidecar: one ELF file that holds everything that was taken out of an image.
 *
 * Whatever the image's format, the sidecar is an ELF file of the image's class, byte order and
 * machine, so that tools like readelf, file and debuginfod can read it. It contains, in this order:
 *
 *   PT_NOTE              a segment with the build ID note, a copy of the following section
 *   .note.gnu.build-id   the UUID
 *   .note.covsplit       notes of owner "covsplit" (types and layouts: sidecar/note.h)
 *   __llvm_covmap, ...   each removed section under its ELF name, with its original address in
 *                        sh_addr; SHF_COMPRESSED with ch_type ELFCOMPRESS_ZSTD or one of the
 *                        compact forms (codec/registry.h). If names stayed in the image although
 *                        coverage mapping was removed, there is a copy of them here
 *   __llvm_prf_cnts, ... counters and bitmap as SHT_NOBITS: address and size only
 *   .covsplit.inverse    the inverse edit script (inverse.h), compressed like the sections
 *   .shstrtab
 *
 * A reader refuses unknown format versions and trusts no size: contents are read as a stream, or
 * for compact forms as a whole section, and memory use is bounded by what is actually decompressed.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_SIDECAR_H
#define COVSPLIT_COMMON_SIDECAR_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/section.h"
#include "common/sidecar/facts.h"

struct sidecar;

/* Sections of a new sidecar whose packed bytes were shown to come back when they were made, so that
 * the check of the finished sidecar need not decode them again. By kind; initialize to {0}. The
 * contents must outlive it. */
struct proved_section {
    struct digest packed;
    struct bytes content; /* empty: nothing is known */
};

struct proved_sections {
    struct proved_section kinds[SECTION_KIND_MAX + 1];
};

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

/* Whether the bytes look like a sidecar of any version: an ELF file with the FORMAT note. Fast. */
bool sidecar_recognize(struct bytes bytes);

/* Reads the structure and the notes but decompresses nothing. `name` is for messages and is copied;
 * `bytes` must outlive the sidecar. Free with sidecar_close (NULL is allowed). */
struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error);
void sidecar_close(struct sidecar *sidecar);

/* The same for a file, which is read into memory and may change afterwards. */
struct sidecar *sidecar_read(const char *path, struct error *error);
struct sidecar *sidecar_read_descriptor(int fd, const char *name, struct error *error);

/* Reads only the UUID, from the file's first page, however large the file is: to find out which of
 * many files is worth opening. Only sidecar_open checks the rest, and that it is a sidecar. */
bool sidecar_peek(const char *path, struct uuid *uuid, struct error *error);

/* Sets the limit for each block of data that is held in memory as a whole, such as a section or a
 * part of its compact form. The default is in proportion to the size of the file (memory_limit.h).
 * UINT64_MAX means no limit; 0 leaves the limit unchanged. */
void sidecar_limit_memory(struct sidecar *sidecar, uint64_t limit);
uint64_t sidecar_memory_limit(const struct sidecar *sidecar);

/* Everything returned is valid until the sidecar is closed. */
const struct sidecar_facts *sidecar_facts(const struct sidecar *sidecar);
const char *sidecar_name(const struct sidecar *sidecar);
const char *sidecar_image_name(const struct sidecar *sidecar);
uint32_t sidecar_format_version(const struct sidecar *sidecar);
size_t sidecar_section_count(const struct sidecar *sidecar);
/* Fails for a placeholder, with an error for callers that need its contents. */
bool sidecar_is_real(const struct sidecar *sidecar, struct error *error);
/* Whether it has neither a section nor a copy of one: there was nothing to take out of its image.
 */
bool sidecar_holds_nothing(const struct sidecar *sidecar);
const struct sidecar_section *sidecar_section(const struct sidecar *sidecar, size_t index);
/* NULL if there is no such section. */
const struct sidecar_section *sidecar_find(const struct sidecar *sidecar, enum section_kind kind);
size_t sidecar_kept_count(const struct sidecar *sidecar);
const struct kept_section *sidecar_kept(const struct sidecar *sidecar, size_t index);

/* Decompresses a whole section and checks its digest. The buffer grows with the output, so a false
 * size costs nothing. Fails if the size exceeds the memory limit. */
bool sidecar_read_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                          struct buffer *content, struct error *error);

struct names;

/* Reads the distinct names of a names section into an empty set, to which nothing can be added. For
 * a compact form, no zlib stream is recreated. With `for_others`, the NameRefs are kept with the
 * sidecar, for other sections that are read later. */
bool sidecar_read_names(const struct sidecar *sidecar, const struct sidecar_section *section,
                        bool for_others, struct names *set, struct error *error);

/* Passes a section to the sink piece by piece, with a fixed amount of memory where the form allows
 * it (content.h). The digest is checked at the end, so the output must not be used until the
 * function has returned true. */
bool sidecar_stream_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                            bytes_sink sink, void *context, struct error *error);

/* Reads the `size` bytes of a section at `offset`; all bytes returned have been checked. In a
 * section with blocks, only the blocks needed are decoded, and their digests checked. For any
 * other, the whole section has to be decoded to check its digest: for plain zstd only the first
 * time, as a stream, for other forms each time. Also fails if the section is too short. */
bool sidecar_read_part(const struct sidecar *sidecar, const struct sidecar_section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error);

/* Decompresses everything as streams, and checks every digest, the notes and, if the sidecar is
 * exact, the bounds of the inverse script. */
bool sidecar_verify(const struct sidecar *sidecar, struct error *error);

/* Sets how many threads may recreate zlib streams (the default is 1), and what need not be decoded
 * again (may be NULL), which must outlive the sidecar. */
void sidecar_help_restore(struct sidecar *sidecar, unsigned threads,
                          const struct proved_sections *proved);

/* Makes the checks that come first in sidecar_restore: that the sidecar can restore an original,
 * and from this stripped image. *is_other is set if it was made with another image. */
bool sidecar_check_stripped(const struct sidecar *sidecar, const struct input *stripped,
                            bool *is_other, struct error *error);

/* Restores the original from the stripped image. Checks the stripped image's size and digest first,
 * and the original's digest at the end. The sink may be called before a failure; its output must be
 * discarded then. `stripped_name` is for messages. */
bool sidecar_restore(const struct sidecar *sidecar, struct bytes stripped,
                     const char *stripped_name, bytes_sink sink, void *context,
                     struct error *error);

/* The same for a mapped file, whose pages are released after use, so that the resident size does
 * not grow with the image. */
bool sidecar_restore_input(const struct sidecar *sidecar, const struct input *stripped,
                           bytes_sink sink, void *context, struct error *error);

#endif
