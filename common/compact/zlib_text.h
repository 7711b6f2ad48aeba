/*
 * Texts that a section holds as zlib streams: out of the stream, and back into it.
 */
#ifndef COVSPLIT_COMMON_COMPACT_ZLIB_TEXT_H
#define COVSPLIT_COMMON_COMPACT_ZLIB_TEXT_H

#include <stdint.h>

#include "common/bytes.h"
#include "common/compact/result.h"
#include "common/compact/zlib_again.h"
#include "common/compact/zlib_memo.h"

/* How a text is stored. Stored in sidecars. */
enum zlib_form {
    ZLIB_FORM_NONE = 1, /* as it is */
    ZLIB_FORM_DEFAULT = 2,
    ZLIB_FORM_BEST = 3,
};

/* Appends the text of a stream that claims to hold `size` bytes, and finds its form. Unfit where
 * the stream is damaged, or is not what zlib_again makes of the text. */
enum compact_result zlib_text_prove(struct bytes stream, uint64_t size, struct buffer *text,
                                    enum zlib_form *form);

/* Enters what was proved, unless the memo is NULL. */
enum compact_result zlib_text_remember(struct zlib_memo *memo, struct bytes text,
                                       enum zlib_form form, struct bytes stream);

/* Appends the text in its form. */
enum compact_result zlib_text_again(struct zlib_memo *memo, struct bytes text, enum zlib_form form,
                                    struct buffer *stream);

#endif
