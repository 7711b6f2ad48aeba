/*
 * Encodes a text of many strings by replacing the tokens that it consists of by numbers.
 *
 * A text consists of strings, each followed by a byte 1, as in struct names. It is converted into
 * two parts that compress better: the *dictionary*, which holds each token once, followed by a byte
 * 1, and the *codes*, mostly one byte for each token. zstd then finds longer matches, and a token
 * that differs between two similar strings costs a byte or two instead of a new match.
 *
 * The codes are described in docs/format.md ("Names").
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TOKEN_TEXT_H
#define COVSPLIT_COMMON_CODEC_NAMES_TOKEN_TEXT_H

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/names.h"

/* Rules by which strings are split into tokens, pieces that are likely to occur in other strings
 * too. That affects how well they compress, but not the stored form: readers need not know the
 * rules. */
enum token_rule {
    /* Splits mangled names (Itanium C++ ABI, 5.1; Rust's v0 mangling) into identifiers,
     * substitutions, numbers and single letters. A file name before one is a token; any other name
     * is a single token. */
    TOKENS_OF_NAMES,
    /* Splits identifiers and other texts into words (a capital letter starts a new one), numbers,
     * and single bytes. */
    TOKENS_OF_WORDS,
};

/* Special codes of one byte. The first bytes of token codes are less than these. */
enum token_code {
    TOKEN_CODE_END = 252,
    TOKEN_CODE_NEXT_NUMBER = 253,
    TOKEN_CODE_NEW_PLAIN = 254,
    TOKEN_CODE_NEW_COUNTED = 255,
};

/* Numbers for which TOKEN_CODE_NEXT_NUMBER can be used. */
#define TOKEN_NUMBER_MAX  999999999
#define TOKEN_NUMBER_NONE UINT32_MAX

/* The value of a token that is a decimal number; TOKEN_NUMBER_NONE if it is not one, or has leading
 * zeros or too many digits. */
uint32_t token_number(struct bytes token);

/* Appends the codes and the dictionary of a text whose last byte is a 1. Unfit if it has too
 * many tokens. */
enum result token_text_encode(struct bytes text, enum token_rule rule, struct buffer *codes,
                              struct buffer *dictionary);

/* Decodes the text and finds the ends of its strings. Unfit if the codes are invalid, if the text
 * would have more than `limit` bytes, or if there are more than 65536 tokens and more than one for
 * each 16 bytes of the limit. Free with names_free, even after a failure. */
enum result token_text_decode(struct bytes codes, struct bytes dictionary, uint64_t limit,
                              struct names *strings);

#endif
