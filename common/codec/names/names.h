/*
 * Function names: the distinct names of a section, as a text and as streams.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_NAMES_H
#define COVSPLIT_COMMON_CODEC_NAMES_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

/* Reads the names of a section encoded by names_transform, in the order of their first occurrence,
 * without decoding the whole section. Sets *are_all (may be NULL) to false if some chunks are
 * stored verbatim: their names are not among those returned, and then only the section's digest
 * could tell that the names are damaged. Only the context's memory limit is used. Free with
 * names_free, even after a failure. */
bool names_decode(const struct transform_context *context, const struct encoded *encoded,
                  struct names *names, bool *are_all, struct error *error);

/* The text of distinct names as streams: the names are encoded as a text of tokens,
 * mangled names being split into identifiers and what is between them, and the dictionary of these
 * tokens is encoded again as a text of words. */
enum name_text_stream {
    NAME_TEXT_CODES = 0,      /* the codes of the names */
    NAME_TEXT_WORD_CODES = 1, /* the codes of their dictionary */
    NAME_TEXT_WORDS = 2,      /* the dictionary of their dictionary */
    NAME_TEXT_STREAMS = 3,
};

/* Encodes the text into NAME_TEXT_STREAMS streams, which must be empty. In the text, each name is
 * followed by a byte 1. */
enum result name_text_encode(struct bytes text, struct buffer *streams);

/* Decodes the text and finds the names in it; the text itself, uncoded, is in the first stream if
 * the others are empty. Unfit if the streams are damaged, or the text would be out of proportion to
 * their size or to that of the names section; over the limit if it would have more than `memory`
 * bytes. Free with names_free, even after a failure. */
enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names);

/* ---- texts of tokens ---- */

/* A text of many strings is encoded by replacing the tokens that it consists of by numbers.
 *
 * A text consists of strings, each followed by a byte 1, as in struct names. It is converted into
 * two parts that compress better: the *dictionary*, which holds each token once, followed by a byte
 * 1, and the *codes*, mostly one byte for each token. zstd then finds longer matches, and a token
 * that differs between two similar strings costs a byte or two instead of a new match.
 *
 * The codes are described in docs/format.md ("Names"). */

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
    TOKEN_CODE_END = 253,
    TOKEN_CODE_NEW_PLAIN = 254,
    TOKEN_CODE_NEW_COUNTED = 255,
};

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
