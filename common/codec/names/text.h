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

enum name_text_part {
    NAME_TEXT_CODES,      /* of the names */
    NAME_TEXT_WORD_CODES, /* of their dictionary */
    NAME_TEXT_WORDS,      /* the dictionary of that */
    NAME_TEXT_PARTS,
};

/* Takes the text apart into NAME_TEXT_PARTS empty streams; each name has a byte 1 behind it. */
enum result name_text_encode(struct bytes text, struct buffer *streams);

/* Makes the text again, and finds the names in it. Unfit where the streams are damaged, or claim a
 * text out of proportion to their size, or to that of the section which the names are of; over the
 * limit where that is more than `memory` bytes. Freed with names_free, also after a failure.
 */
enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names);

#endif
