/*
 * Converts the zlib streams in a section to their texts and back.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_TEXT_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/codec/deflate/memo.h"
#include "common/codec/deflate/recompress.h"

/* How a text is compressed in the section. These numbers are stored in sidecars. */
enum zlib_form {
    ZLIB_FORM_NONE = 1, /* uncompressed */
    ZLIB_FORM_DEFAULT = 2,
    ZLIB_FORM_BEST = 3,
};

/* streams_per_byte of transforms for such texts. zlib streams are a tenth of the size of the names
 * in them. */
#define ZLIB_TEXT_STREAMS_PER_BYTE 64

/* Appends the text of a stream, which must have `size` bytes, and determines its form. Unfit if the
 * stream is damaged, or is not what recompress makes of the text. */
enum result zlib_text_inflate(struct bytes stream, uint64_t size, struct buffer *text,
                              enum zlib_form *form);

/* The most bytes that all texts decoded from these streams may have together. Bounds the time and
 * the memory that a hostile sidecar can take. */
uint64_t zlib_text_limit(const struct buffer *streams, size_t count, uint64_t section_size);

/* Adds what was proved to the memo, unless that is NULL. */
enum result zlib_text_remember(struct memo *memo, struct bytes text, enum zlib_form form,
                               struct bytes stream);

/* Appends the text, compressed in this form. Unfit if that would be more than `most` bytes. */
enum result zlib_text_recompress(struct memo *memo, struct bytes text, enum zlib_form form,
                                 uint64_t most, struct buffer *stream);

#endif
