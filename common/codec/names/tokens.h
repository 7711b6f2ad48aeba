/*
 * Splits strings into tokens, pieces that are likely to occur in other strings too.
 *
 * How a string is split affects how well it compresses, but not the stored form: readers need not
 * know the rules.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_TOKENS_H
#define COVSPLIT_COMMON_CODEC_NAMES_TOKENS_H

#include <stdbool.h>

#include "common/base/bytes.h"

enum token_rule {
    /* Splits mangled names (Itanium C++ ABI, 5.1; Rust's v0 mangling) into identifiers,
     * substitutions, numbers and single letters. A file name before one is a token; any other name
     * is a single token. */
    TOKENS_OF_NAMES,
    /* Splits identifiers and other texts into words (a capital letter starts a new one), numbers,
     * and single bytes. */
    TOKENS_OF_WORDS,
};

struct token {
    struct bytes bytes; /* in the string, not empty */
    /* True for an identifier that is preceded in the string by its size, as a decimal number
     * without leading zeros. The size is not part of `bytes`. */
    bool counted;
};

/* A string that is being split; the string must outlive it. */
struct tokenizer {
    enum token_rule rule;
    bool mangled;
    bool rust;
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
};

void tokenizer_start(struct tokenizer *tokenizer, enum token_rule rule, struct bytes string);

/* Takes the next token. False at the end of the string. */
bool tokenizer_take(struct tokenizer *tokenizer, struct token *token);

#endif
