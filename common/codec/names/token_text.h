/*
 * Texts of many strings as numbers of the tokens that they are made of (tokens.h).
 *
 * A text is of each string its bytes and a byte 1, as struct names has it. It becomes two texts
 * that compress better: the *dictionary*, which has each token once, with a byte 1 behind it, and
 * the *codes*, of mostly one byte for a token. zstd then finds the same tokens at the same places,
 * and what is between two like ones costs a byte or two instead of a match of its own.
 *
 * The codes begin with five numbers as unsigned LEB128: the size of the text, how many of the first
 * tokens in the dictionary are plain ones with a code of one byte, how many behind those are
 * counted ones with a code of one byte (their sum: `singles`), and how many first bytes (`pairs`
 * and `triples`) there are of codes of two and three bytes. Then, for each token:
 *     from 0             up to singles: that token of the dictionary;
 *     from singles       `pairs` bytes: with the byte behind it as the low one, the token of this
 *                        number, counted from token `singles` on;
 *     behind these       `triples` bytes: with two bytes behind it, the high one first, likewise
 *                        from token `singles` + 256 * `pairs` on;
 *     252                the string ends: a byte 1;
 *     253                a number that is one more than the one before in this string, which is a
 *                        token of this code or a plain token of 1 to 9 digits, without leading
 *                        zeros, that is no more than 999999999 now;
 *     254 and 255        the next token of the dictionary that has not come yet (at first, the one
 *                        behind the singles), a plain or a counted one.
 * A plain token is its bytes; a counted one its size, as a decimal number, and its bytes.
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
    TOKEN_CODE_NEXT_NUMBER,
    TOKEN_CODE_NEW_PLAIN,
    TOKEN_CODE_NEW_COUNTED,
};

/* Numbers that are counted up. */
#define TOKEN_NUMBER_MAX  999999999
#define TOKEN_NUMBER_NONE UINT32_MAX

/* The number that a plain token is; TOKEN_NUMBER_NONE: none that is counted up. */
uint32_t token_number(struct bytes token);

/* Appends the codes and the dictionary of a text whose last byte is a 1. Unfit where it has too
 * many tokens. */
enum result token_text_encode(struct bytes text, enum token_rule rule, struct buffer *codes,
                              struct buffer *dictionary);

/* Makes the text, and tells where its strings end. Unfit where it is not of this form, or would
 * have more than `limit` bytes, or more than 65536 tokens and more than one for each 16 bytes of
 * the limit. Freed with names_free, also after a failure. */
enum result token_text_decode(struct bytes codes, struct bytes dictionary, uint64_t limit,
                              struct names *strings);

#endif
