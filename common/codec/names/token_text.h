/*
 * Texts of many strings as numbers of the tokens that they are made of (tokens.h).
 *
 * A text is of each string its bytes and a byte 1, as struct names has it. It becomes two texts
 * that compress better: the *dictionary*, which has each token once, with a byte 1 behind it, and
 * the *codes*, of mostly one byte for a token. zstd then finds the same tokens at the same places,
 * and what is between two like ones costs a byte or two instead of a match of its own.
 *
 * The codes are in docs/format.md ("Names").
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TOKEN_TEXT_H
#define COVSPLIT_COMMON_CODEC_NAMES_TOKEN_TEXT_H

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/codec/names/tokens.h"
#include "common/llvm/names.h"

/* Codes of one byte: the first ones of tokens are below these. */
enum token_code {
    TOKEN_CODE_END = 252,
    TOKEN_CODE_NEXT_NUMBER = 253,
    TOKEN_CODE_NEW_PLAIN = 254,
    TOKEN_CODE_NEW_COUNTED = 255,
};

/* Numbers that are counted up. */
#define TOKEN_NUMBER_MAX  999999999
#define TOKEN_NUMBER_NONE UINT32_MAX

/* The number that a plain token is; TOKEN_NUMBER_NONE: none that is counted up. */
uint32_t token_number(struct bytes token);

/* Appends the codes and the dictionary of a text whose last byte is a 1. Unfit if it has too
 * many tokens. */
enum result token_text_encode(struct bytes text, enum token_rule rule, struct buffer *codes,
                              struct buffer *dictionary);

/* Makes the text, and tells where its strings end. Unfit if it is not of this form, or would
 * have more than `limit` bytes, or more than 65536 tokens and more than one for each 16 bytes of
 * the limit. Free with names_free, even after a failure. */
enum result token_text_decode(struct bytes codes, struct bytes dictionary, uint64_t limit,
                              struct names *strings);

#endif
