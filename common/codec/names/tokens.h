/*
 * Strings cut into tokens, the pieces that come again in other strings.
 *
 * How a string is cut changes how small it becomes, but not what is read: no reader has to know.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TOKENS_H
#define COVSPLIT_COMMON_CODEC_NAMES_TOKENS_H

#include <stdbool.h>

#include "common/base/bytes.h"

enum token_rule {
    /* Mangled names (Itanium C++ ABI, 5.1; Rust's v0 form of it) into identifiers, substitutions,
     * numbers and single letters; file names in front of them are tokens; any other name is one. */
    TOKENS_OF_NAMES,
    /* Identifiers and other texts into words, a capital starting one, numbers, and single bytes. */
    TOKENS_OF_WORDS,
};

struct token {
    struct bytes bytes; /* in the string, not empty */
    /* It is an identifier, and its size stands before it in the string, as a decimal number without
     * leading zeros: not among the bytes. */
    bool counted;
};

/* A string that is being cut; the string must outlive it. */
struct tokenizer {
    enum token_rule rule;
    bool mangled;
    bool rust;
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
};

void tokenizer_start(struct tokenizer *tokenizer, enum token_rule rule, struct bytes string);

/* Takes the next token. False: the string is at its end. */
bool tokenizer_take(struct tokenizer *tokenizer, struct token *token);

#endif
