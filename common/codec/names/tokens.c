/*
 * Tokens: see tokens.h.
 */
#include "common/codec/names/tokens.h"

#include <string.h>

/* A number with more digits is not taken for the size of an identifier. */
#define COUNT_DIGITS_MAX 4

/* A string whose words and numbers have less than 2.5 bytes on average is probably not made of
 * words, but a hash in base 16 or 62: it becomes one token, unless it is shorter than this. */
#define HASH_SIZE_MIN 8

/* The most digits of a substitution's number, in base 36; larger numbers are rare. */
#define SUBSTITUTION_DIGITS_MAX 2

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_lower(uint8_t byte)
{
    return byte >= 'a' && byte <= 'z';
}

static bool is_upper(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z';
}

static bool is_letter(uint8_t byte)
{
    return is_lower(byte) || is_upper(byte);
}

static bool begins_mangled(const uint8_t *at, const uint8_t *end)
{
    return end - at > 2 && at[0] == '_' && (at[1] == 'Z' || (at[1] == 'R' && is_upper(at[2])));
}

/* The name of a function with local linkage is preceded by its file name and ';' or ':' (LLVM's
 * InstrProf.cpp, "getPGOFuncName"). Returns the start of the mangled name, or `end` if there is
 * none.
 */
static const uint8_t *find_mangled(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *underscore = at;

    while (underscore != end) {
        if (begins_mangled(underscore, end) &&
            (underscore == at || underscore[-1] == ':' || underscore[-1] == ';'))
            return underscore;
        underscore = memchr(underscore + 1, '_', (size_t)(end - underscore - 1));
        if (underscore == NULL)
            break;
    }
    return end;
}

void tokenizer_start(struct tokenizer *tokenizer, enum token_rule rule, struct bytes string)
{
    *tokenizer = (struct tokenizer){.rule = rule, .start = string.data, .at = string.data};
    tokenizer->end = string.size == 0 ? string.data : string.data + string.size;
}

/* Reads the size of an identifier; 0 if the number here is something else. */
static size_t take_count(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *digit = *at;
    size_t count = 0;

    for (; digit != end && is_digit(*digit) && digit - *at <= COUNT_DIGITS_MAX; digit++)
        count = count * 10 + (size_t)(*digit - '0');
    if (digit - *at > COUNT_DIGITS_MAX || count > (size_t)(end - digit) || digit == end ||
        **at == '0' || !(is_letter(*digit) || *digit == '_'))
        return 0;
    *at = digit;
    return count;
}

/* A literal: "Lj10E", in Rust "Kja_". */
static bool is_literal(const struct tokenizer *tokenizer)
{
    const uint8_t *at = tokenizer->at;

    return at - tokenizer->start >= 2 && is_lower(at[-1]) &&
           at[-2] == (tokenizer->rust ? 'K' : 'L');
}

static size_t digits(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *digit = at;

    while (digit != end && is_digit(*digit))
        digit++;
    return (size_t)(digit - at);
}

/* The size of one or two letters followed by a number in base 36 or 62 and '_'. If there is no such
 * number, 1: the letter is a token by itself. */
static size_t reference(const uint8_t *at, const uint8_t *end, size_t front, size_t most,
                        bool (*is_also)(uint8_t))
{
    const uint8_t *digit = at + front;

    while (digit < end && (size_t)(digit - at) < front + most &&
           (is_digit(*digit) || is_upper(*digit) || is_also(*digit)))
        digit++;
    return digit < end && *digit == '_' ? (size_t)(digit - at) + 1 : 1;
}

static size_t size_in_rust(const uint8_t *at, const uint8_t *end)
{
    const size_t most = 16;

    switch (at[0]) {
    case 'C':
        return end - at > 1 && at[1] == 's' ? reference(at, end, 2, most, is_lower) : 1;
    case 'B':
    case 's':
        return reference(at, end, 1, most, is_lower);
    default:
        return 1;
    }
}

/* The size of the token here, which does not begin with a digit, in an Itanium-mangled name. */
static size_t size_in_itanium(const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at);

    switch (at[0]) {
    case 'S':
        if (left > 1 && is_lower(at[1]))
            return 2;
        return reference(at, end, 1, SUBSTITUTION_DIGITS_MAX, is_digit);
    case 'T': {
        size_t size = 1 + digits(at + 1, end);
        return size < left && at[size] == '_' ? size + 1 : 1;
    }
    case 'C':
    case 'D': /* a constructor or destructor, with the end of the nested name */
        return left > 2 && is_digit(at[1]) && at[2] == 'E' ? 3 : 1;
    /* Letters that usually occur together. */
    case 'E':
        return left > 1 && (at[1] == 'v' || at[1] == 'E') ? 2 : 1;
    case 'L':
        return left > 1 && is_lower(at[1]) ? 2 : 1;
    case 'R':
    case 'P':
        return left > 1 && at[1] == 'K' ? 2 : 1;
    case '_':
        if (left > 1 && at[1] == 'Z')
            return left <= 2 || at[2] != 'N' ? 2 : left > 3 && at[3] == 'K' ? 4 : 3;
        return 1;
    default:
        return 1;
    }
}

static void take_of_mangled(struct tokenizer *tokenizer, struct token *token)
{
    const uint8_t *at = tokenizer->at, *end = tokenizer->end;
    size_t size;

    if (is_digit(*at)) {
        size = is_literal(tokenizer) ? 0 : take_count(&at, end);
        token->counted = size != 0;
        if (size == 0)
            size = digits(at, end);
    } else {
        size = (tokenizer->rust ? size_in_rust : size_in_itanium)(at, end);
    }
    token->bytes = (struct bytes){at, size};
}

static void take_of_names(struct tokenizer *tokenizer, struct token *token)
{
    const uint8_t *mangled;

    if (tokenizer->mangled) {
        take_of_mangled(tokenizer, token);
        return;
    }
    mangled = find_mangled(tokenizer->at, tokenizer->end);
    if (mangled != tokenizer->end) {
        tokenizer->mangled = true;
        tokenizer->rust = mangled[1] == 'R';
    }
    if (mangled == tokenizer->at)
        take_of_mangled(tokenizer, token);
    else
        token->bytes = (struct bytes){tokenizer->at, (uint64_t)(mangled - tokenizer->at)};
}

/* The size of a word: several capitals, or lower-case letters with or without a capital before. */
static size_t word_size(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *next = at;

    while (next != end && is_upper(*next))
        next++;
    /* The last of several capitals belongs to the following word. */
    if (next - at > 1)
        return (size_t)(next - at) - (next != end && is_lower(*next));
    while (next != end && is_lower(*next))
        next++;
    return (size_t)(next - at);
}

/* The size of the word, number or single byte here. */
static size_t size_in_words(const uint8_t *at, const uint8_t *end)
{
    return is_letter(*at) ? word_size(at, end) : is_digit(*at) ? digits(at, end) : 1;
}

static bool is_hash(const uint8_t *at, const uint8_t *end)
{
    size_t size = 0, words = 0;

    while (at != end) {
        size_t word = size_in_words(at, end);

        if (is_letter(*at) || is_digit(*at)) {
            size += word;
            words++;
        }
        at += word;
    }
    return size >= HASH_SIZE_MIN && 2 * size < 5 * words;
}

bool tokenizer_take(struct tokenizer *tokenizer, struct token *token)
{
    const uint8_t *at = tokenizer->at, *end = tokenizer->end;

    if (at == end)
        return false;
    token->counted = false;
    if (tokenizer->rule == TOKENS_OF_NAMES)
        take_of_names(tokenizer, token);
    else if (at == tokenizer->start && is_hash(at, end))
        token->bytes = (struct bytes){at, (uint64_t)(end - at)};
    else
        token->bytes = (struct bytes){at, size_in_words(at, end)};
    tokenizer->at = token->bytes.data + token->bytes.size;
    return true;
}
