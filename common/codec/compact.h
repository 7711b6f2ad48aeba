/*
 * The compact codec: transforms that bring a section into a form which compresses to a fraction.
 *
 * A transform is a pair of functions for one kind of section, and a number that says which one, and
 * in which version, wrote the bytes at hand. It takes the section apart into parts
 * (codec/streams.h), which zstd compresses. Nothing is taken on trust: a section that does not come
 * back bit for bit is not stored in this form, so a transform may give up on whatever it does not
 * expect.
 *
 * Sections say the same things in several places: names imply the hashes in data and in the
 * coverage mapping, and data implies more of the latter. So a transform sees what was decoded
 * before it, in the order names, data, coverage mapping.
 */
#ifndef COVSPLIT_COMMON_CODEC_COMPACT_H
#define COVSPLIT_COMMON_CODEC_COMPACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/result.h"
#include "common/codec/data_hashes.h"
#include "common/codec/deflate/memo.h"
#include "common/codec/names/table.h"
#include "common/codec/number_table.h"
#include "common/codec/streams.h"
#include "common/codec/zstd.h"
#include "common/llvm/section.h"

/* ch_type of the sections in these forms, in the range that the gABI leaves to the system:
 * transform and version. Stored in sidecars: a number never changes its meaning. 0x6c760101, 201,
 * 301, 401 and 402 were others, before the first release. */
enum compact_type {
    COMPACT_NAMES_2 = 0x6c760102,
    COMPACT_DATA_2 = 0x6c760203,
    COMPACT_COVMAP_2 = 0x6c760302,
    COMPACT_COVFUN_3 = 0x6c760405,
    COMPACT_COVFUN_4 = 0x6c760406, /* blocks of COMPACT_COVFUN_3 */
};

/* A section that is larger should be cut into blocks of about this size. */
#define COMPACT_BLOCK_SIZE ((uint64_t)4 << 20)

/* What `names` and `data` of a context come from, by which a memo knows them: the section of names
 * in its packed form, and the data section itself. Zeros where there are none. */
struct compact_sources {
    struct digest names, data;
};

/* What a transform may rely on; the same when a section is written and when it is read. */
struct compact_context {
    bool big_endian;
    unsigned pointer_size;
    uint64_t raw_version;
    /* The NameRefs of the names, and perhaps not themselves. NULL: the sidecar has no names in a
     * compact form. */
    const struct name_table *names;
    struct bytes data; /* the data section; empty: the sidecar has none */
    /* These do not change what is decoded. */
    uint64_t block_size;                     /* of blocks that are written; not 0 */
    const struct data_hashes *data_hashes;   /* of `data`; NULL: whoever needs it makes it */
    const struct number_table *name_numbers; /* of `names`, likewise */
    struct zlib_memo *memo;                  /* NULL: none; grows when sections are encoded */
    uint64_t memory_limit;          /* of what is held at a time (memory_limit.h); 0: none */
    struct compact_sources sources; /* needed with a memo */
    unsigned threads;
};

struct compact_transform {
    enum compact_type type;
    unsigned kinds; /* mask of SECTION_BIT */
    bool needs_names;
    bool needs_data;
    /* How many bytes of parts there may be for each byte of the section; more are neither written
     * nor read. */
    unsigned parts_per_byte;
    /* NULL, or the section is cut into blocks (blocks.h) in this form. Then there are no encode and
     * decode, but `cut`: how much of the section the first block takes, more than 0, which should
     * be `wanted`. */
    const struct compact_transform *block;
    uint64_t (*cut)(const struct compact_context *context, struct bytes section, uint64_t wanted);
    /* The parts are empty before. */
    enum compact_result (*encode)(const struct compact_context *context, struct bytes section,
                                  struct compact_parts *parts);
    /* Appends the section, which must become `size` bytes. Parts may hold anything, and are
     * changed as the transform likes. */
    enum compact_result (*decode)(const struct compact_context *context,
                                  struct compact_parts *parts, uint64_t size,
                                  struct buffer *section);
};

/* The transform that writes sections of this kind, in blocks where that is wanted and there is one
 * that does so; NULL: none does. */
const struct compact_transform *compact_transform_for(enum section_kind kind, bool in_blocks);

/* The transform that reads this ch_type for that kind of section; NULL: none does. */
const struct compact_transform *compact_transform_of(uint32_t type, enum section_kind kind);

/* Appends the section's packed form, after it has been decoded again and compared. *fits is false,
 * and nothing appended, where the section does not come back or becomes clearly larger. (What is no
 * smaller may still serve other sections.) `name` is for messages. */
bool compact_encode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes section,
                    const struct codec_options *options, const char *name, struct buffer *packed,
                    bool *fits, struct error *error);

/* Appends the section of `size` bytes. Messages are as those of codec_stream_open. */
bool compact_decode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes packed, uint64_t size,
                    const char *name, const char *what, struct buffer *section,
                    struct error *error);

/* Whether the context's memo knows the section that compact_decode would append: *found, and then
 * it is appended. What is packed is unpacked to find that out, but neither names nor data are
 * needed, only where they come from. */
bool compact_recall(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes packed, uint64_t size,
                    const char *name, const char *what, struct buffer *section, bool *found,
                    struct error *error);

/* The distinct names of a section of names of `size` bytes, in the order of their first appearance,
 * without the rest of it. *are_all (NULL: nobody wants to know) is false where the section has
 * chunks that are stored as they are, whose names are not among them, and where nothing but the
 * section's digest would tell that the names are damaged. Of the context only the limit of memory
 * matters. Freed with name_table_free, also after a failure. */
bool compact_decode_names(const struct compact_context *context, struct bytes packed, uint64_t size,
                          const char *name, const char *what, struct name_table *names,
                          bool *are_all, struct error *error);

/* The context's limit as a number to compare with. */
static inline uint64_t compact_memory_limit(const struct compact_context *context)
{
    return context->memory_limit == 0 ? UINT64_MAX : context->memory_limit;
}

#endif
