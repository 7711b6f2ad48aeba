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
 *                        compact forms (codec/registry.h); likewise a copy of names that stayed
 *                        in the image although coverage mapping was removed
 *   __llvm_prf_cnts, ... counters and bitmap as SHT_NOBITS: address and size only
 *   .covsplit.inverse    the inverse edit script (inverse.h), compressed like the sections
 *   .shstrtab
 *
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
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/section.h"
#include "common/sidecar/facts.h"

struct sidecar;
struct memo;

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
 * `bytes` must outlive the sidecar. Free with sidecar_close (NULL is allowed). */
struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error);
void sidecar_close(struct sidecar *sidecar);

/* The same for a file, which is read into memory: what becomes of it then does not matter. */
struct sidecar *sidecar_read(const char *path, struct error *error);
struct sidecar *sidecar_read_descriptor(int fd, const char *name, struct error *error);

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
/* NULL if there is no such section. */
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

/* The same with a fixed amount of memory: the sink gets the content piece by piece. It is only good
 * when the function has returned true, since the digest is checked at the end. */
bool sidecar_stream_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                            bytes_sink sink, void *context, struct error *error);

/* The `size` bytes of a section from `offset` on, none of which is given back unchecked: of a
 * section in blocks, the digests of those blocks that hold them, and no others are decoded; of any
 * other the section's own. That takes decoding it as a whole: of a plain zstd section once for an
 * open sidecar, as a stream. False also if the section ends before. */
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
                     const char *stripped_name, bytes_sink sink, void *context,
                     struct error *error);

/* The same for a mapped file, whose pages are given back once they are used: the resident size does
 * not grow with the image. */
bool sidecar_restore_input(const struct sidecar *sidecar, const struct input *stripped,
                           bytes_sink sink, void *context, struct error *error);

#endif
