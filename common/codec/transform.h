/*
 * A transform is a pair of functions that convert a section into a form that compresses much
 * better, and back.
 *
 * A transform handles certain kinds of section. Its number identifies both the transform and the
 * version of its form. It splits the section into streams, which zstd compresses. A section that
 * does not round-trip bit for bit is not stored in this form, so a transform may give up on
 * anything it does not expect.
 *
 * Sections repeat each other's information: names imply the hashes in data and in the mapping of
 * functions, and data implies more of the latter. The coverage mapping implies nearly all of the
 * sections that it was decoded from. So a transform may use the sections decoded before it, in the
 * order names, data, mapping, linked mapping. The forms are described in docs/format.md.
 */
#ifndef COVSPLIT_COMMON_CODEC_TRANSFORM_H
#define COVSPLIT_COMMON_CODEC_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/zstd.h"
#include "common/llvm/section.h"

/* ---- streams ---- */

#define STREAMS_MAX 64

/* The streams into which a transform divides a section. Each holds numbers or texts of one kind,
 * which zstd compresses well together. The encoded form is described in docs/format.md ("Compact
 * forms").
 *
 * Initialize to {0}; free with streams_free. Encoders append without looking whether memory ran
 * out; codec_encode looks at the end. */
struct streams {
    struct buffer stream[STREAMS_MAX];
    size_t count;
    /* A bit for each stream: set if the stream is always stored as a zstd frame
     * with a checksum (unless it is empty), even if that is not smaller. Such streams are also used
     * without decoding the whole section, when its digest cannot be checked. Decompressing sets the
     * bits of the wanted streams. */
    uint64_t checked;
    struct buffer proved; /* while encoding: what zlib_text_prove has shown (deflate.h) */
};

void streams_free(struct streams *streams);

/* Limits how many bytes a transform makes of streams, which may be hostile. */
struct stream_proportion {
    unsigned per_part_byte;    /* this many bytes for each byte of the streams, */
    unsigned per_section_byte; /* but at most this many for each byte of the section, */
    uint64_t besides;          /* plus this many in any case */
};

/* The limit in bytes. Never so large that adding a little to it overflows a size_t. */
uint64_t streams_bound(const struct buffer *streams, size_t count, uint64_t section_size,
                       const struct stream_proportion *proportion);

/* Appends the encoded form; the bytes do not depend on the number of threads. `name` is for
 * messages. */
bool streams_compress(const struct streams *streams, const struct codec_options *options,
                      const char *name, struct buffer *encoded, struct error *error);

/* The most bytes that streams may have together. */
struct streams_limits {
    uint64_t streams; /* all streams; no encoder writes more, so more mean damage */
    uint64_t memory;  /* the streams that are decompressed (memory_limit.h) */
};

/* Decompresses the streams whose bits are set in `wanted`; the others become empty. Free with
 * streams_free, even after a failure. */
bool streams_decompress(const struct encoded *encoded, uint64_t wanted,
                        const struct streams_limits *limits, struct streams *streams,
                        struct error *error);

/* ---- transforms ---- */

struct data_records;
struct names;
struct zlib_memo;

/* The ch_type of sections in these forms, in the gABI's range for operating systems. Stored in
 * sidecars: a number never changes its meaning, and a changed form gets a new number. Retired
 * numbers: 0x6c760101 and 102, 201 to 204, 301 and 302, 401 to 408, 501, and 601. */
enum transform_id {
    TRANSFORM_NAMES = 0x6c760103,
    TRANSFORM_DATA = 0x6c760205,
    TRANSFORM_FILENAMES = 0x6c760303,
    TRANSFORM_MAPPING = 0x6c760409,
    TRANSFORM_MAPPING_BLOCKS = 0x6c76040a, /* blocks of TRANSFORM_MAPPING */
    TRANSFORM_LINKED_COVMAP = 0x6c760502,
};

/* Larger sections should be cut into blocks of about this size, in bytes. */
#define TRANSFORM_BLOCK_SIZE ((uint64_t)4 << 20)

/* The input of a transform besides the section. It must be the same when a section is written and
 * when it is read. */
struct transform_context {
    bool big_endian;
    unsigned pointer_size;
    uint64_t raw_version;
    /* For reading, only the NameRefs are needed; for writing, the names must be indexed. NULL if
     * the sidecar has no names in a transformed form. */
    const struct names *names;
    struct bytes data;           /* the data section; empty if the sidecar has none */
    struct bytes covmap, covfun; /* the ordinary coverage mapping; likewise */
    /* The following do not affect what is decoded. */
    uint64_t block_size;                /* of blocks to write, in bytes; not 0 */
    const struct data_records *records; /* of `data`; NULL: made where they are needed */
    uint64_t memory_limit;              /* in bytes (memory_limit.h); 0: no limit */
    unsigned threads;                   /* 1 or more for writing */
    struct zlib_memo *memo;             /* of zlib streams of filenames (deflate.h); may be NULL */
    struct names *decoded;              /* gets the names of a section of names; may be NULL */
    bool is_checked; /* the encoded form was compared with a checksum; streams need none */
};

struct transform {
    enum transform_id id;
    unsigned kinds; /* mask of SECTION_BIT */
    bool needs_names;
    bool needs_data;
    bool needs_mapping; /* covmap and covfun */
    /* The most bytes of streams for each byte of the section; more are neither written nor read. */
    unsigned streams_per_byte;
    /* If not NULL, the section is cut into blocks (codec.h), which this transform encodes. Then
     * encode and decode are NULL, and `cut` returns how many bytes of the section the first block
     * takes: more than 0, and about `wanted`. */
    const struct transform *block;
    uint64_t (*cut)(const struct transform_context *context, struct bytes section, uint64_t wanted);
    /* The streams must be empty before. */
    enum result (*encode)(const struct transform_context *context, struct bytes section,
                          struct streams *streams);
    /* Appends the section, which must have exactly `size` bytes. The streams are not to be trusted;
     * the transform may modify them. */
    enum result (*decode)(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section);
    /* If not NULL: changes streams of a section of `size` bytes, which decode takes as well then,
     * so that they have more in common with those of a similar section. */
    enum result (*expand)(struct streams *streams, uint64_t size, uint64_t limit);
};

extern const struct transform names_transform;
extern const struct transform data_transform;
extern const struct transform filenames_transform;
extern const struct transform mapping_transform;
extern const struct transform mapping_blocks_transform;
extern const struct transform linked_covmap_transform;

/* The context's memory limit in bytes, UINT64_MAX for no limit. */
static inline uint64_t transform_memory_limit(const struct transform_context *context)
{
    return context->memory_limit == 0 ? UINT64_MAX : context->memory_limit;
}

#endif
