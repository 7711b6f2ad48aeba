/*
 * The text of distinct names, in streams that compress better.
 *
 * Names are texts of tokens (token_text.h), mangled names of identifiers and what is between them;
 * and these tokens are a text as well, of words.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TEXT_H
#define COVSPLIT_COMMON_CODEC_NAMES_TEXT_H

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/llvm/names.h"

enum name_text_stream {
    NAME_TEXT_CODES = 0,      /* of the names */
    NAME_TEXT_WORD_CODES = 1, /* of their dictionary */
    NAME_TEXT_WORDS = 2,      /* the dictionary of that */
    NAME_TEXT_STREAMS = 3,
};

/* Takes the text apart into NAME_TEXT_STREAMS empty streams; each name has a byte 1 behind it. */
enum result name_text_encode(struct bytes text, struct buffer *streams);

/* Makes the text again, and finds the names in it. Unfit if the streams are damaged, or claim a
 * text out of proportion to their size, or to that of the section which the names are of; over the
 * limit where that is more than `memory` bytes. Free with names_free, even after a failure.
 */
enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names);

#endif
