/*
 * The sidecar: one ELF file that holds everything that was taken out of an image.
 *
 * Whatever the image's format, the sidecar is an ELF file of the image's class, byte order and
 * machine, so that tools like readelf, file and debuginfod can read it. It contains, in this order:
 *
 *   .note.gnu.build-id   the UUID, and the note of owner "covsplit" with all that is known of image
 *                        and sections
 *   __llvm_covmap, ...   each removed section under its ELF name, with its original address in
 *                        sh_addr; SHF_COMPRESSED with ch_type ELFCOMPRESS_ZSTD or one of the
 *                        compact forms (codec/transform.h). If names stayed in the image although
 *                        coverage mapping was removed, there is a copy of them here
 *   .covsplit.inverse    the inverse edit script (edit.h), compressed like the sections
 *   .shstrtab
 *
 * A program with one function has a few hundred bytes to remove, so nothing is told twice: there
 * are no segments, counters have no section header, and numbers in the note are as short as they
 * are.
 *
 * docs/format.md has every layout. A reader refuses unknown format versions and trusts no size:
 * contents are read as a stream, or for compact forms as a whole section, and memory use is bounded
 * by what is actually decompressed.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_SIDECAR_H
#define COVSPLIT_COMMON_SIDECAR_SIDECAR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/uuid.h"
#include "common/codec/deflate/deflate.h"
#include "common/llvm/profile.h"
#include "common/llvm/section.h"

/* ---- the image ---- */

/* The version of the sidecar format; earlier ones are not read. */
#define SIDECAR_FORMAT_VERSION 5

/* Stored in sidecars: the numbers never change. */
enum image_format {
    IMAGE_ELF = 1,
    IMAGE_MACHO = 2,
    IMAGE_COFF = 3,
};

/* "ELF", "Mach-O", "COFF"; "unknown" for any other number. */
const char *image_format_name(enum image_format format);

/* Source of the UUID. Stored in sidecars: the numbers never change. */
enum uuid_source {
    UUID_FROM_BUILD_ID = 1, /* in the image itself: build ID, LC_UUID, RSDS GUID */
    UUID_FROM_OPTION = 2,   /* --uuid */
    UUID_FROM_DIGEST = 3,   /* the XXH3-128 digest of the original image */
};

/* "build ID", "--uuid", "digest of the image" */
const char *uuid_source_name(enum uuid_source source);

/* How to link images of the format so that each build has a UUID of its own: "with --build-id=sha1"
 */
const char *uuid_link_advice(enum image_format format);

/* A sidecar's record of the image, apart from its sections. */
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
    /* The digest of the image's records (profile_records_digest), by which full profiles, and those
     * of an image whose records stayed, are told from the ones of other builds. Zeros if it is not
     * known. */
    struct digest records;
    /* If names went and records stayed: what was added to the NameRef of the first record
     * (facts_make_record_change). */
    uint64_t record_change;
    /* True if the image had been split before, so that this sidecar holds nothing and only takes
     * the place of the real one. The original cannot be restored from it. */
    bool is_placeholder;
    /* True if names or data went although something seemed to refer to them, as the user knew
     * better (--assume-unreferenced). */
    bool is_assumed;
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

/* Makes a number of the same digest of digests, never 0. If names go and records stay, it is added
 * to the NameRef of the first record in the image (modulo 2^64). So the profiles of builds whose
 * functions are the same, and whose mapping is not, differ; and so do the sums by which the runtime
 * tells images apart (%m, and where it adds to a file). It is subtracted when a profile is
 * correlated. */
uint64_t facts_make_record_change(const struct digest sections[STUB_KIND_COUNT]);

/* ---- deltas ---- */

/* The base of a delta. */
struct sidecar_base {
    bool is_needed; /* false for a whole sidecar; the rest is zeros then */
    struct digest digest;
    uint64_t size;       /* in bytes, of its file */
    uint64_t whole_size; /* the size of the delta's own file before it became one */
};

/* A section of a delta, whose content or streams are in a frame after those of its base. */
struct sidecar_part {
    bool is_of_streams;
    uint64_t size; /* decompressed */
    struct bytes frame;
};

struct sidecar_bases;
struct elf_reader;

/* ---- opening ---- */

struct names;

/* Sections of a new sidecar whose encoded bytes were shown to come back when they were made, so
 * that the check of the finished sidecar need not decode them again. By kind; initialize to {0}.
 * The contents must outlive it. A section was shown to come back with the encoded names, and with
 * the contents of the other sections that its form needs: with others, it may not. */
struct proved_section {
    struct digest encoded;
    struct bytes content; /* empty: nothing was shown */
    struct digest digest; /* of the content, also if nothing was shown */
};

struct proved_sections {
    struct proved_section kinds[SECTION_KIND_MAX + 1];
    const struct input
        *image; /* if not NULL: contents are in it, and pages are dropped after use */
};

/* What was made for a sidecar, for those that are read after it, and what was read of sidecars that
 * are read several times. Initialize to {.room = ...}; free with zlib_memo_free(&memo.streams).
 * With room, only one thread may read the sidecars. */
struct sidecar_memo {
    struct zlib_memo streams;
    uint64_t room; /* for contents, in bytes */
};

/* What is known of a section. */
enum {
    CACHED_CONTENT = 1, /* its content */
    CACHED_PART = 2,    /* of a delta: its part, decompressed after the base's */
    CACHED_CHECK = 4,   /* that its stored bytes have its digest */
};

struct cached_section {
    _Atomic(unsigned) known;
    struct bytes content; /* in `own`, in `part`, or what was shown to come back (proved) */
    struct buffer own, part;
};

/* Results of reading, which never change until they are dropped or the sidecar is closed. So
 * several threads can read a sidecar at the same time. */
struct sidecar_cache {
    /* The NameRefs of the distinct names, which several sections need. With a memo that had room,
     * also the text of the names, which is much larger. NULL until they are needed. */
    _Atomic(struct names *) names;
    struct cached_section sections[SECTION_KIND_MAX + 1]; /* by kind; 0: the inverse script */
};

/* An opened sidecar, for all to read. The functions below change it. */
struct sidecar {
    const char *name;       /* for messages */
    const char *image_name; /* the image's file name without directory, for people; may be "" */
    uint32_t format_version;
    struct sidecar_facts facts;
    /* In the order of the file. Those with contents are of the kinds in SECTION_STORED; `fate` is
     * FATE_COPIED for a section that is still in the image. */
    struct section sections[SECTION_KIND_MAX];
    size_t section_count;
    /* Sections that were to be removed but stayed, each with the reason. */
    struct section kept[SECTION_KIND_MAX];
    size_t kept_count;
    struct section inverse; /* the inverse edit script, which has no kind */
    struct sidecar_base base;
    struct sidecar_part parts[SECTION_KIND_MAX + 1]; /* of a delta, by kind */
    struct sidecar_bases *bases, *own_bases;         /* where a delta finds its base */
    uint64_t memory_limit, work_limit;               /* in bytes: see sidecar_limit_memory */
    uint64_t claimed;          /* the size of all that has to be decoded, in bytes */
    unsigned threads;          /* see sidecar_help_restore */
    const struct input *image; /* of what was proved; may be NULL */
    struct sidecar_cache *cache;
    struct sidecar_memo *memo; /* may be NULL; must outlive the sidecar, or its use */
    struct input input;        /* the bytes, if the sidecar owns them */
    struct arena memory;       /* of all of this */
};

/* True if the bytes look like a sidecar of any version: an ELF file with the FORMAT note. Fast. */
bool sidecar_recognize(struct bytes bytes);

/* Reads the structure and the notes but decompresses nothing. `name` is for messages and is copied;
 * `bytes` must outlive the sidecar. Free with sidecar_close (NULL is allowed). */
struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error);
void sidecar_close(struct sidecar *sidecar);

/* The same for a file, which is read into memory and may change afterwards; or is mapped, to look
 * at headers and notes. */
struct sidecar *sidecar_read(const char *path, struct error *error);
struct sidecar *sidecar_map(const char *path, struct error *error);
/* The same for one that was just written. What is in it has been in memory, so there is no limit.
 */
struct sidecar *sidecar_read_back(struct output *output, struct error *error);
struct sidecar *sidecar_read_descriptor(int fd, const char *name, struct error *error);

/* Reads only the UUID, from the file's first page, however large the file is: to find out which of
 * many files is worth opening. Only sidecar_open checks the rest, and that it is a sidecar. */
bool sidecar_peek(const char *path, struct uuid *uuid, struct error *error);

/* Sets the limit for each block of data that is held in memory as a whole, such as a section or a
 * part of its compact form. The default is in proportion to the size of the file (memory_limit.h).
 * UINT64_MAX means no limit; 0 leaves the limit unchanged. A limit above that of all sections
 * together, which is always in proportion to the file, raises that, too. */
void sidecar_limit_memory(struct sidecar *sidecar, uint64_t limit);

/* Sets how many threads may recreate zlib streams (the default is 1), and what need not be decoded
 * again (may be NULL), which must outlive the sidecar. */
void sidecar_help_restore(struct sidecar *sidecar, unsigned threads,
                          const struct proved_sections *proved);

/* Frees the contents that were kept because of the memo, and those of a delta. */
void sidecar_drop_cached(const struct sidecar *sidecar);

/* Sets the error of a sidecar that was damaged. Returns false. */
bool sidecar_damaged(const struct sidecar *sidecar, const char *how, struct error *error);

/* True if the contents of the section are in the sidecar; otherwise only address and size are. */
static inline bool section_is_stored(const struct section *section)
{
    return (SECTION_BIT(section->kind) & SECTION_STORED) != 0;
}

/* True if the image's stub tells these sections and this UUID. *are_all: whether all the sections
 * that it tells are here; others count as sections of no bytes. */
bool sidecar_stub_agrees(const struct sidecar *sidecar, bool *are_all);

/* Fails for a placeholder, with an error for callers that need its contents. */
bool sidecar_is_real(const struct sidecar *sidecar, struct error *error);
/* True if it has neither a section nor a copy of one: there was nothing to take out of its image.
 */
bool sidecar_holds_nothing(const struct sidecar *sidecar);
/* Whether reports can be made of a sidecar. */
enum sidecar_mapping {
    MAPPING_IS_THERE,  /* coverage mapping, and the names that it needs */
    MAPPING_IS_ABSENT, /* the image has none: it was compiled without -fcoverage-mapping */
    MAPPING_IS_APART,  /* some of it is only in the image (--sections), or may be */
};

enum sidecar_mapping sidecar_mapping(const struct sidecar *sidecar);
/* Sets the error of a sidecar that has to have mapping, and whose image has none. Returns false. */
bool sidecar_report_no_mapping(const struct sidecar *sidecar, struct error *error);
/* True if a section of it is in a compact form: then those that are not did not fit one. */
bool sidecar_is_compact(const struct sidecar *sidecar);
/* True if both hold the same of the same image, in whatever forms, by the digests that they record:
 * so that each may stand for the other. How the image is called does not count. */
bool sidecar_holds_same(const struct sidecar *one, const struct sidecar *other);
/* True if both give the same reports: they are of one image, or have the same sections. */
bool sidecar_agrees(const struct sidecar *one, const struct sidecar *other);
/* NULL if there is no such section. */
const struct section *sidecar_find(const struct sidecar *sidecar, enum section_kind kind);

/* ---- contents ---- */

/* Decompresses a section of the sidecar, or the inverse script, as a whole, and checks its digest.
 * The buffer grows with the output, so a false size costs nothing. Fails if the size exceeds the
 * memory limit. */
bool sidecar_read_section(const struct sidecar *sidecar, const struct section *section,
                          struct buffer *content, struct error *error);

/* The same, but only if the content is not known: *content is where it is, in *loaded or not. */
bool sidecar_view_section(const struct sidecar *sidecar, const struct section *section,
                          struct buffer *loaded, struct bytes *content, struct error *error);

/* The same, but the content stays with the sidecar, and is valid until that is closed. */
bool sidecar_hold_section(const struct sidecar *sidecar, const struct section *section,
                          struct bytes *content, struct error *error);

/* Reads the distinct names of a names section into an empty set, to which nothing can be added. For
 * a compact form, no zlib stream is recreated, and the NameRefs are kept with the sidecar, for
 * other sections that are read later. */
bool sidecar_read_names(const struct sidecar *sidecar, const struct section *section,
                        struct names *set, struct error *error);

/* Passes a section to the sink (NULL is allowed) piece by piece. A zstd frame is decompressed as it
 * is read, with a fixed amount of memory; a section in a compact form is decoded as a whole, but if
 * it is stored in blocks, a few of these at a time. The digest is checked at the end, so the output
 * must not be used until the function has returned true. */
bool sidecar_stream_section(const struct sidecar *sidecar, const struct section *section,
                            bytes_sink sink, void *context, struct error *error);

/* A section of which parts are passed on in ascending order, without a check of its digest. NULL on
 * failure; *error gets all further errors of the stream, too. Close with section_stream_close (NULL
 * is allowed). */
struct section_stream;
struct section_stream *section_stream_open(const struct sidecar *sidecar,
                                           const struct section *section, struct error *error);
bool section_stream_pass(struct section_stream *stream, uint64_t offset, uint64_t size,
                         bytes_sink sink, void *context);
void section_stream_close(struct section_stream *stream);

/* Reads the `size` bytes of a section at `offset`; all bytes returned have been checked. In a
 * section with blocks, only the blocks needed are decoded, and their digests checked. For any
 * other, the whole section has to be decoded to check its digest: for plain zstd only the first
 * time, as a stream, for other forms each time. Also fails if the section is too short. */
bool sidecar_read_part(const struct sidecar *sidecar, const struct section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error);

/* Decompresses everything as streams, and checks every digest, the notes and, if the sidecar is
 * exact, the bounds of the inverse script. */
bool sidecar_verify(const struct sidecar *sidecar, struct error *error);

/* Makes the checks that come first in sidecar_restore: that the sidecar can restore an original,
 * and from this stripped image. *is_other is set if it was made with another image. */
bool sidecar_check_stripped(const struct sidecar *sidecar, const struct input *stripped,
                            bool *is_other, struct error *error);

/* Restores the original from the stripped image. Checks the stripped image's size and digest first,
 * and the original's digest at the end. The sink (NULL is allowed) may be called before a failure;
 * its output must be discarded then. The pages of a mapped file are released after use, so that the
 * resident size does not grow with the image. */
bool sidecar_restore(const struct sidecar *sidecar, const struct input *stripped, bytes_sink sink,
                     void *context, struct error *error);

/* ---- the note of owner "covsplit": docs/format.md has its layout ---- */

/* The type is so high because some tools name low ones regardless of the owner (binutils calls 1
 * NT_VERSION). Objects (exported.h) have a note with another type. */

#define SIDECAR_NOTE_TYPE       0x1001
#define SIDECAR_NOTE_OWNER      "covsplit"
#define SIDECAR_INVERSE_SECTION ".covsplit.inverse"

/* gABI, "Section Compression"; older versions of libelf do not define it. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* The ch_type of the sections of a delta; beside those of enum transform_id. */
#define SIDECAR_DELTA_TYPE 0x6c760701

/* Codes the note behind its version and the seal: appends what the sidecar tells, or reads that
 * into a sidecar of zeros, which has its name. Writing, only facts, base, sections and digests are
 * used, and the coder's buffer tells whether memory ran out. */
bool sidecar_code_note(struct sidecar *sidecar, struct coder *coder, struct error *error);

/* ---- writing ---- */

/* The same contents and options always give the same bytes, whatever the number of threads. */

struct edit_script;

struct sidecar_source {
    struct sidecar_facts facts;
    const char *image_name; /* file name without directory: a label for people */
    /* The sections, with contents as they are in the image; FATE_COPIED for those that stay in it.
     * Of kinds that are not in SECTION_STORED, only address and size are recorded. */
    const struct section *sections;
    size_t section_count;
    /* Of these, the sections that do not go and have a reason for that are told. */
    const struct section *kept;
    size_t kept_count;
    struct bytes inverse;             /* from inverse_encode, or */
    const struct edit_script *script; /* what it is to be made of; NULL: it is there */
    const struct input *image; /* pages of it are released after use; NULL if it is not mapped */
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

/* What is stored of sections, by kind; 0: the inverse script. */
struct sidecar_stored {
    uint32_t types[SECTION_KIND_MAX + 1]; /* ch_type */
    struct buffer bytes[SECTION_KIND_MAX + 1];
};

/* Writes a sidecar of which the facts, sections with digests and the rest are told, and which
 * stores this; the caller commits the output. */
bool sidecar_write_stored(const struct sidecar *told, const struct sidecar_stored *stored,
                          struct output *output, struct error *error);

/* Opens what was written of a sidecar in another form, which must hold the same, to verify it with
 * the help that sidecar_help_restore takes. NULL if it does not. */
struct sidecar *sidecar_open_again(const struct sidecar *sidecar, struct output *output,
                                   unsigned threads, const struct proved_sections *proved,
                                   struct error *error);

/* Writes what the sidecar holds to a started output, as a split of the image would have written it
 * with these options (`proved` is not used), and reads it back: each section must come out with the
 * digest that the sidecar has for it. The caller commits it. */
bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error);

#endif
