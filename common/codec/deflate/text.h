/*
 * Texts that a section holds as zlib streams: out of the stream, and back into it.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_TEXT_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/codec/deflate/memo.h"
#include "common/codec/deflate/recompress.h"

/* How a text is stored. Stored in sidecars. */
enum zlib_form {
    ZLIB_FORM_NONE = 1, /* as it is */
    ZLIB_FORM_DEFAULT = 2,
    ZLIB_FORM_BEST = 3,
};

/* Bytes of streams for each byte of a section of such texts (streams_per_byte): zlib's streams of
 * names are a tenth of their size. */
#define ZLIB_TEXT_STREAMS_PER_BYTE 64

/* Appends the text of a stream that claims to hold `size` bytes, and finds its form. Unfit if
 * the stream is damaged, or is not what recompress makes of the text. */
enum result zlib_text_inflate(struct bytes stream, uint64_t size, struct buffer *text,
                              enum zlib_form *form);

/* How many bytes the texts of a section may have together, which these streams of it make:
 * bounds the time and the memory that a hostile sidecar can take. */
uint64_t zlib_text_limit(const struct buffer *streams, size_t count, uint64_t section_size);

/* Enters what was proved, unless the memo is NULL. */
enum result zlib_text_remember(struct memo *memo, struct bytes text, enum zlib_form form,
                               struct bytes stream);

/* Appends the text in its form. Unfit if that is more than `most` bytes. */
enum result zlib_text_recompress(struct memo *memo, struct bytes text, enum zlib_form form,
                                 uint64_t most, struct buffer *stream);

#endif
