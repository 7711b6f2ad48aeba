/*
 * Encoding texts as tokens: see names.h.
 *
 * The first pass numbers the tokens in the order of their first occurrence and counts them. The
 * most frequent ones get the one-byte codes. The second pass writes the codes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/codec/names/names.h"
#include "common/llvm/names.h"

/* ---- splitting strings ---- */

/* A number with more digits is not taken for the size of an identifier. */
#define COUNT_DIGITS_MAX 4

/* A string whose words and numbers have less than 2.5 bytes on average is probably not made of
 * words, but a hash in base 16 or 62: it becomes one token, unless it is shorter than this. */
#define HASH_SIZE_MIN 8

/* The most digits of a substitution's number, in base 36; larger numbers are rare. */
#define SUBSTITUTION_DIGITS_MAX 2

struct token {
    struct bytes bytes; /* in the string, not empty */
    /* True for an identifier that is preceded in the string by its size, as a decimal number
     * without leading zeros. The size is not part of `bytes`. */
    bool counted;
};

/* A string that is being split. */
struct tokenizer {
    enum token_rule rule;
    bool mangled;
    bool rust;
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
};

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

/* Takes the next token. False at the end of the string. */
static bool take_token(struct tokenizer *tokenizer, struct token *token)
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

/* ---- encoding ---- */

/* Rarer tokens get no one-byte code; they are stored better at their first occurrence. */
#define SINGLE_COUNT_MIN 4

/* The most first bytes of two-byte codes. Only if these do not suffice are there three-byte codes.
 */
#define PAIRS_MAX 100

/* In the array of tokens. */
#define STRING_ENDS UINT32_MAX
#define TOKENS_MAX  ((size_t)1 << 24)

struct kind {
    struct bytes bytes;
    bool counted;
    size_t count;
    uint32_t code; /* its number in the dictionary; for singles, its one-byte code */
    bool is_single;
};

struct encoder {
    struct intern_table numbers;
    uint32_t of_bytes[256]; /* for plain tokens of one byte: their number plus 1 */
    struct kind *kinds;
    size_t count;
    size_t capacity;
    uint32_t *tokens;
    size_t token_count;
    size_t token_capacity;
    uint32_t singles[TOKEN_CODE_END]; /* tokens with one-byte codes, plain ones first */
    size_t single_count;
    size_t plain_count; /* of plain singles */
    size_t pairs;
    size_t triples;
};

/* ---- which tokens there are ---- */

/* Short tokens are their own keys; longer ones are hashed. If two tokens have the same key by
 * chance, the text does not round-trip, and so is stored in another form. */
static uint64_t key_of(const struct token *token)
{
    uint64_t low = (uint64_t)token->counted << 7, key = 0;
    struct digest digest;

    if (token->bytes.size < sizeof(key)) {
        for (uint64_t i = 0; i < token->bytes.size; i++)
            key = key << 8 | token->bytes.data[i];
        return key << 8 | low | token->bytes.size;
    }
    digest = digest_of(token->bytes);
    return (load_u64(digest.bytes, false) & ~UINT64_C(0xff)) | low | sizeof(key);
}

/* False if out of memory. */
static bool number_of(struct encoder *encoder, const struct token *token, uint32_t *number)
{
    uint32_t *of_byte =
        token->bytes.size == 1 && !token->counted ? &encoder->of_bytes[token->bytes.data[0]] : NULL;
    uint64_t found;

    if (of_byte != NULL && *of_byte != 0) {
        *number = *of_byte - 1;
        return true;
    }
    if (!intern_table_add(&encoder->numbers, key_of(token), &found))
        return false;
    if (found == encoder->count) {
        if (!ARRAY_ROOM_FOR_ONE(encoder->kinds, encoder->capacity, encoder->count))
            return false;
        encoder->kinds[encoder->count++] =
            (struct kind){.bytes = token->bytes, .counted = token->counted};
    }
    *number = (uint32_t)found;
    if (of_byte != NULL)
        *of_byte = *number + 1;
    return true;
}

static bool add_number(struct encoder *encoder, uint32_t number)
{
    if (!ARRAY_ROOM_FOR_ONE(encoder->tokens, encoder->token_capacity, encoder->token_count))
        return false;
    encoder->tokens[encoder->token_count++] = number;
    return true;
}

/* False if out of memory. */
static bool put_string(struct encoder *encoder, enum token_rule rule, struct bytes string)
{
    uint32_t number;
    struct tokenizer tokenizer = {
        .rule = rule, .start = string.data, .at = string.data, .end = string.data + string.size};
    struct token token;

    while (take_token(&tokenizer, &token)) {
        if (!number_of(encoder, &token, &number) || !add_number(encoder, number))
            return false;
        encoder->kinds[number].count++;
    }
    return add_number(encoder, STRING_ENDS);
}

static enum result take_tokens(struct encoder *encoder, struct bytes text, enum token_rule rule)
{
    while (text.size != 0) {
        const uint8_t *separator = memchr(text.data, NAME_SEPARATOR, (size_t)text.size);
        struct bytes string = {text.data, 0};

        if (separator == NULL || encoder->count >= TOKENS_MAX)
            return RESULT_UNFIT;
        string.size = (uint64_t)(separator - text.data);
        if (!put_string(encoder, rule, string))
            return RESULT_NO_MEMORY;
        take_bytes(&text, string.size + 1);
    }
    return RESULT_OK;
}

/* ---- their codes ---- */

/* True if there are codes for `count` tokens, if `first` different bytes may begin a code. */
static bool enough_codes(size_t count, size_t first, size_t pairs, size_t triples)
{
    return first - pairs - triples + (pairs << 8) + (triples << 16) >= count;
}

/* A token that may get a code of one byte. */
struct candidate {
    size_t count;
    uint32_t number;
};

/* Sorts by descending frequency, then by first occurrence. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *first = a, *second = b;

    if (first->count != second->count)
        return first->count > second->count ? -1 : 1;
    return (first->number > second->number) - (first->number < second->number);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

/* Sorts the singles: plain ones first, then by first occurrence. */
static void order_singles(struct encoder *encoder)
{
    uint32_t counted[TOKEN_CODE_END];
    size_t counted_count = 0;

    qsort(encoder->singles, encoder->single_count, sizeof(encoder->singles[0]), compare_numbers);
    for (size_t i = 0; i < encoder->single_count; i++) {
        if (encoder->kinds[encoder->singles[i]].counted)
            counted[counted_count++] = encoder->singles[i];
        else
            encoder->singles[encoder->plain_count++] = encoder->singles[i];
    }
    for (size_t i = 0; i < counted_count; i++)
        encoder->singles[encoder->plain_count + i] = counted[i];
    for (size_t i = 0; i < encoder->single_count; i++) {
        encoder->kinds[encoder->singles[i]].is_single = true;
        encoder->kinds[encoder->singles[i]].code = (uint32_t)i;
    }
}

/* Gives codes of one byte to the most frequent tokens, `most` at most. False if out of memory. */
static bool choose_singles(struct encoder *encoder, size_t most)
{
    struct candidate *candidates = malloc((encoder->count + 1) * sizeof(*candidates));
    size_t count = 0;

    if (candidates == NULL)
        return false;
    for (size_t i = 0; i < encoder->count; i++) {
        if (encoder->kinds[i].count >= SINGLE_COUNT_MIN)
            candidates[count++] = (struct candidate){encoder->kinds[i].count, (uint32_t)i};
    }
    qsort(candidates, count, sizeof(*candidates), compare_candidates);
    encoder->single_count = count < most ? count : most;
    for (size_t i = 0; i < encoder->single_count; i++)
        encoder->singles[i] = candidates[i].number;
    free(candidates);
    order_singles(encoder);
    return true;
}

static enum result choose_codes(struct encoder *encoder)
{
    size_t most = TOKEN_CODE_END;

    while (encoder->pairs < PAIRS_MAX && !enough_codes(encoder->count, most, encoder->pairs, 0))
        encoder->pairs++;
    while (!enough_codes(encoder->count, most, encoder->pairs, encoder->triples)) {
        if (encoder->pairs + ++encoder->triples > TOKEN_CODE_END)
            return RESULT_UNFIT;
    }
    most -= encoder->pairs + encoder->triples;
    if (!choose_singles(encoder, most))
        return RESULT_NO_MEMORY;
    /* If few tokens are frequent, first bytes are left for more of the longer codes. */
    while (!enough_codes(encoder->count, encoder->single_count + encoder->pairs + encoder->triples,
                         encoder->pairs, encoder->triples))
        encoder->pairs++;
    return RESULT_OK;
}

/* ---- writing ---- */

static void put_in_dictionary(struct buffer *dictionary, const struct kind *kind)
{
    buffer_append(dictionary, kind->bytes.data, (size_t)kind->bytes.size);
    buffer_append(dictionary, "\1", 1);
}

/* Writes the code of a token that has occurred before, or is a single. */
static uint8_t *put_code(const struct encoder *encoder, uint32_t code, uint8_t *to)
{
    size_t number = code;

    if (number < encoder->single_count) {
        *to++ = (uint8_t)number;
        return to;
    }
    number -= encoder->single_count;
    if (number >> 8 < encoder->pairs) {
        *to++ = (uint8_t)(encoder->single_count + (number >> 8));
    } else {
        number -= encoder->pairs << 8;
        *to++ = (uint8_t)(encoder->single_count + encoder->pairs + (number >> 16));
        *to++ = (uint8_t)(number >> 8);
    }
    *to++ = (uint8_t)number;
    return to;
}

static enum result put_codes(struct encoder *encoder, struct buffer *codes,
                             struct buffer *dictionary)
{
    uint32_t known = (uint32_t)encoder->single_count;
    uint8_t *to;

    /* A code has at most three bytes. */
    if (encoder->token_count > SIZE_MAX / 3 || !buffer_reserve(codes, 3 * encoder->token_count))
        return RESULT_NO_MEMORY;
    to = codes->data + codes->size;
    for (size_t i = 0; i < encoder->token_count; i++) {
        uint32_t number = encoder->tokens[i];
        struct kind *kind;

        if (number == STRING_ENDS) {
            *to++ = TOKEN_CODE_END;
            continue;
        }
        kind = &encoder->kinds[number];
        if (kind->is_single || kind->code != 0) {
            to = put_code(encoder, kind->is_single ? kind->code : kind->code - 1, to);
            continue;
        }
        *to++ = kind->counted ? TOKEN_CODE_NEW_COUNTED : TOKEN_CODE_NEW_PLAIN;
        kind->code = ++known;
        put_in_dictionary(dictionary, kind);
    }
    codes->size = (size_t)(to - codes->data);
    return dictionary->failed ? RESULT_NO_MEMORY : RESULT_OK;
}

enum result token_text_encode(struct bytes text, enum token_rule rule, struct buffer *codes,
                              struct buffer *dictionary)
{
    struct encoder encoder = {0};
    enum result result = take_tokens(&encoder, text, rule);

    if (result == RESULT_OK)
        result = choose_codes(&encoder);
    if (result == RESULT_OK) {
        buffer_append_uleb128(codes, text.size);
        buffer_append_uleb128(codes, encoder.plain_count);
        buffer_append_uleb128(codes, encoder.single_count - encoder.plain_count);
        buffer_append_uleb128(codes, encoder.pairs);
        buffer_append_uleb128(codes, encoder.triples);
        for (size_t i = 0; i < encoder.single_count; i++)
            put_in_dictionary(dictionary, &encoder.kinds[encoder.singles[i]]);
        result = put_codes(&encoder, codes, dictionary);
    }
    intern_table_free(&encoder.numbers);
    free(encoder.kinds);
    free(encoder.tokens);
    return result;
}
