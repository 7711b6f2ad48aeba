/*
 * What a transform is: a pair of functions that bring a section into a form which compresses to a
 * fraction, and back.
 *
 * A transform is for some kinds of section, and has a number that says which one, and in which
 * version, wrote the bytes at hand. It takes the section apart into streams (streams.h), which zstd
 * compresses. Nothing is taken on trust: a section that does not come back bit for bit is not
 * stored in this form, so a transform may give up on whatever it does not expect.
 *
 * Sections say the same things in several places: names imply the hashes in data and in the mapping
 * of functions, and data implies more of the latter. So a transform sees what was decoded before
 * it, in the order names, data, mapping. The forms are in docs/format.md.
 */
#ifndef COVSPLIT_COMMON_CODEC_TRANSFORM_H
#define COVSPLIT_COMMON_CODEC_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/codec/streams.h"
#include "common/llvm/section.h"

struct data_records;
struct memo;
struct names;

/* ch_type of the sections in these forms, in the range that the gABI leaves to the system. Stored
 * in sidecars: a number never changes its meaning, and a form that changes gets another one. Gone
 * are 0x6c760101, 201, 202, 301, and 401 to 404. */
enum transform_id {
    TRANSFORM_NAMES = 0x6c760102,
    TRANSFORM_DATA = 0x6c760203,
    TRANSFORM_FILENAMES = 0x6c760302,
    TRANSFORM_MAPPING = 0x6c760405,
    TRANSFORM_MAPPING_BLOCKS = 0x6c760406, /* blocks of TRANSFORM_MAPPING */
};

/* A section that is larger should be cut into blocks of about this size. */
#define TRANSFORM_BLOCK_SIZE ((uint64_t)4 << 20)

/* What `names` and `data` of a context come from, by which a memo knows them: the section of names
 * in its packed form, and the data section itself. Zeros if there are none. */
struct transform_sources {
    struct digest names, data;
};

/* What a transform may rely on; the same when a section is written and when it is read. */
struct transform_context {
    bool big_endian;
    unsigned pointer_size;
    uint64_t raw_version;
    /* For reading their NameRefs alone; for writing they are indexed. NULL: the sidecar has no
     * names in a transformed form. */
    const struct names *names;
    struct bytes data; /* the data section; empty: the sidecar has none */
    /* These do not change what is decoded. */
    uint64_t block_size;                /* of blocks that are written; not 0 */
    const struct data_records *records; /* of `data`; NULL: whoever needs them makes them */
    struct memo *memo;                  /* NULL: none; grows when sections are encoded */
    uint64_t memory_limit;              /* of what is held at a time (memory_limit.h); 0: none */
    struct transform_sources sources;   /* needed with a memo */
    unsigned threads;
};

struct transform {
    enum transform_id id;
    unsigned kinds; /* mask of SECTION_BIT */
    bool needs_names;
    bool needs_data;
    /* How many bytes of streams there may be for each byte of the section; more are neither written
     * nor read. */
    unsigned streams_per_byte;
    /* NULL, or the section is cut into blocks (blocks.h) in this form. Then there are no encode and
     * decode, but `cut`: how much of the section the first block takes, more than 0, which should
     * be `wanted`. */
    const struct transform *block;
    uint64_t (*cut)(const struct transform_context *context, struct bytes section, uint64_t wanted);
    /* The streams are empty before. */
    enum result (*encode)(const struct transform_context *context, struct bytes section,
                          struct streams *streams);
    /* Appends the section, which must become `size` bytes. Streams may hold anything, and are
     * changed as the transform likes. */
    enum result (*decode)(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section);
};

/* The context's limit as a number to compare with. */
static inline uint64_t transform_memory_limit(const struct transform_context *context)
{
    return context->memory_limit == 0 ? UINT64_MAX : context->memory_limit;
}

#endif
