/*
 * Converts the text of distinct names into streams that compress better.
 *
 * The names are encoded as a text of tokens (token_text.h): mangled names are split into
 * identifiers and what is between them. The dictionary of these tokens is encoded again as a text
 * of words.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TEXT_H
#define COVSPLIT_COMMON_CODEC_NAMES_TEXT_H

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/llvm/names.h"

enum name_text_stream {
    NAME_TEXT_CODES = 0,      /* the codes of the names */
    NAME_TEXT_WORD_CODES = 1, /* the codes of their dictionary */
    NAME_TEXT_WORDS = 2,      /* the dictionary of their dictionary */
    NAME_TEXT_STREAMS = 3,
};

/* Encodes the text into NAME_TEXT_STREAMS streams, which must be empty. In the text, each name is
 * followed by a byte 1. */
enum result name_text_encode(struct bytes text, struct buffer *streams);

/* Decodes the text and finds the names in it. RESULT_UNFIT if the streams are damaged, or the text
 * would be out of proportion to their size or to that of the names section; RESULT_OVER_LIMIT if it
 * would have more than `memory` bytes. Free with names_free, even after a failure. */
enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names);

#endif
