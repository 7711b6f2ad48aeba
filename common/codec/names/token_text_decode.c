/*
 * Decoding texts of tokens: see names.h.
 *
 * A token is only about four bytes of text, so decoding one must take few instructions. A known
 * token is copied from its first occurrence in the text, in units of 32 bytes. This copies too many
 * bytes, so there is room for them after the end of the text.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/cursor.h"
#include "common/codec/names/names.h"
#include "common/llvm/names.h"

/* The number of bytes that are copied at once, and the room that there must be after both source
 * and destination. */
#define STRIDE     32

#define DIGITS_MAX 20

/* Token sizes are 32-bit numbers, and so may size_t be. */
#define TEXT_SIZE_MAX ((uint64_t)1 << 31)

/* Any text may have ENTRIES_IN_ANY_CASE tokens; for more, its limit must have TEXT_PER_ENTRY bytes
 * for each token. The same on all hosts, although the size of an entry is not. */
#define ENTRIES_IN_ANY_CASE 65536
#define TEXT_PER_ENTRY      16

/* The same for the ends of strings. */
#define TEXT_PER_END 8

struct entry {
    const uint8_t *data; /* the token as it is in the text; STRIDE bytes can be read */
    uint32_t size;
};

struct decoder {
    struct bytes codes;
    struct bytes dictionary; /* the tokens not used yet */
    uint64_t plain_singles;
    uint64_t singles;
    uint64_t pairs_end; /* the first bytes of two-byte codes are less than this */
    uint64_t triples_end;
    struct entry *entries;
    uint64_t known; /* the count of entries */
    struct buffer single_texts;
    uint8_t *start; /* of the text */
    uint8_t *at;
    uint8_t *end;
    uint64_t *string_end; /* where to store the next string's end: see names.h */
};

/* Writes the number's digits to the end of `digits`; returns how many there are. */
static unsigned format_number(uint64_t number, uint8_t digits[DIGITS_MAX])
{
    unsigned count = 0;

    do {
        digits[DIGITS_MAX - ++count] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return count;
}

struct half {
    uint64_t low, high;
};

/* Copies `size` bytes that do not overlap. At least STRIDE bytes must be readable at `from` and
 * writable at `to`, whatever the size. */
static inline void copy_some(uint8_t *to, const uint8_t *from, size_t size)
{
    struct half first, second;

    if (size > STRIDE) {
        memcpy(to, from, size);
        return;
    }
    memcpy(&first, from, sizeof(first));
    memcpy(&second, from + sizeof(first), sizeof(second));
    memcpy(to, &first, sizeof(first));
    memcpy(to + sizeof(first), &second, sizeof(second));
}

/* ---- the header and the tokens with one-byte codes ---- */

static bool take_token(struct decoder *decoder, struct bytes *token)
{
    const uint8_t *separator =
        decoder->dictionary.size == 0
            ? NULL
            : memchr(decoder->dictionary.data, NAME_SEPARATOR, (size_t)decoder->dictionary.size);

    if (separator == NULL)
        return false;
    *token =
        (struct bytes){decoder->dictionary.data, (uint64_t)(separator - decoder->dictionary.data)};
    take_bytes(&decoder->dictionary, token->size + 1);
    return true;
}

/* Writes a token of the dictionary, which is followed there by `rest`. Returns its end, or NULL if
 * it does not fit before `end`, after which STRIDE more bytes must be writable. */
static uint8_t *put_token(uint8_t *to, const uint8_t *end, struct bytes token, struct bytes rest,
                          bool counted)
{
    uint8_t digits[DIGITS_MAX];
    unsigned count = counted ? format_number(token.size, digits) : 0;

    if (token.size > (uint64_t)(end - to) || count > (uint64_t)(end - to) - token.size)
        return NULL;
    if (count == 1)
        *to = digits[DIGITS_MAX - 1];
    else if (count != 0)
        memcpy(to, digits + DIGITS_MAX - count, count);
    to += count;
    /* If so, STRIDE bytes can be read from the token on. */
    if (rest.size >= STRIDE)
        copy_some(to, token.data, (size_t)token.size);
    else if (token.size != 0)
        memcpy(to, token.data, (size_t)token.size);
    return to + token.size;
}

/* Singles, the tokens with one-byte codes, have no first occurrence in the text to be copied from,
 * so they are written to a buffer of their own, which has room for all of them with their counts.
 */
static enum result start_singles(struct decoder *decoder)
{
    struct bytes dictionary = decoder->dictionary, token;
    uint64_t room = STRIDE;
    uint8_t *to, *end;

    for (uint64_t i = 0; i < decoder->singles; i++) {
        if (!take_token(decoder, &token))
            return RESULT_UNFIT;
        room += DIGITS_MAX + token.size;
    }
    decoder->dictionary = dictionary;
    if (!buffer_append_zeros(&decoder->single_texts, (size_t)room))
        return RESULT_NO_MEMORY;
    to = decoder->single_texts.data;
    end = to + room - STRIDE;
    for (uint64_t i = 0; i < decoder->singles; i++) {
        bool counted = i >= decoder->plain_singles;
        struct entry entry = {.data = to};

        if (!take_token(decoder, &token))
            return RESULT_UNFIT;
        to = put_token(to, end, token, decoder->dictionary, counted);
        entry.size = (uint32_t)(to - entry.data);
        decoder->entries[decoder->known++] = entry;
    }
    return RESULT_OK;
}

static size_t count_bytes(struct bytes bytes, uint8_t byte)
{
    size_t count = 0;

    for (uint64_t i = 0; i < bytes.size; i++)
        count += bytes.data[i] == byte;
    return count;
}

/* Makes room for the text, the ends of its strings, and the entries. There are no more strings than
 * bytes TOKEN_CODE_END among the codes. Each entry takes a token off the dictionary and, except for
 * singles, a code. A hostile sidecar can hold many of these in few bytes, so entries must not take
 * more memory than the text, or only little; no real names have that many tokens. */
static enum result make_room(struct decoder *decoder, uint64_t size, uint64_t limit,
                             struct names *strings)
{
    size_t ends = count_bytes(decoder->codes, TOKEN_CODE_END);
    uint64_t entries = count_bytes(decoder->dictionary, NAME_SEPARATOR);

    if (entries > decoder->singles + decoder->codes.size)
        entries = decoder->singles + decoder->codes.size;
    if ((entries > ENTRIES_IN_ANY_CASE && entries > limit / TEXT_PER_ENTRY) ||
        (ends > ENTRIES_IN_ANY_CASE && ends > limit / TEXT_PER_END))
        return RESULT_UNFIT;
    decoder->entries = malloc(((size_t)entries + 1) * sizeof(*decoder->entries));
    strings->ends = malloc((ends + 1) * sizeof(*strings->ends));
    if (decoder->entries == NULL || strings->ends == NULL ||
        !buffer_reserve(&strings->text, (size_t)size + STRIDE))
        return RESULT_NO_MEMORY;
    decoder->start = decoder->at = strings->text.data;
    decoder->end = decoder->start + size;
    decoder->string_end = strings->ends;
    return RESULT_OK;
}

static enum result start(struct decoder *decoder, uint64_t limit, struct names *strings)
{
    struct cursor cursor = cursor_open(decoder->codes, false, false);
    uint64_t size = cursor_uleb128(&cursor), sum = 0,
             *parts[] = {&decoder->plain_singles, &decoder->singles, &decoder->pairs_end,
                         &decoder->triples_end};
    enum result result;

    /* Counts, which become the ends of the ranges of first bytes. */
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint64_t count = cursor_uleb128(&cursor);

        if (count > TOKEN_CODE_END - sum)
            return RESULT_UNFIT;
        sum += count;
        *parts[i] = sum;
    }
    if (cursor.bad || size > limit || size > TEXT_SIZE_MAX)
        return RESULT_UNFIT;
    decoder->codes = cursor_rest(&cursor);
    result = make_room(decoder, size, limit, strings);
    return result == RESULT_OK ? start_singles(decoder) : result;
}

/* ---- the text ---- */

/* Adds a token that occurs for the first time. There is room for its entry: see make_room. */
static enum result put_new(struct decoder *decoder, bool counted)
{
    struct entry entry = {.data = decoder->at};
    struct bytes token;
    uint8_t *to;

    if (!take_token(decoder, &token))
        return RESULT_UNFIT;
    to = put_token(decoder->at, decoder->end, token, decoder->dictionary, counted);
    if (to == NULL)
        return RESULT_UNFIT;
    entry.size = (uint32_t)(to - decoder->at);
    decoder->at = to;
    decoder->entries[decoder->known++] = entry;
    return RESULT_OK;
}

static enum result put_special(struct decoder *decoder, uint8_t code)
{
    switch (code) {
    case TOKEN_CODE_END:
        if (decoder->at == decoder->end)
            return RESULT_UNFIT;
        *decoder->string_end++ = (uint64_t)(decoder->at - decoder->start);
        *decoder->at++ = NAME_SEPARATOR;
        return RESULT_OK;
    case TOKEN_CODE_NEW_PLAIN:
    case TOKEN_CODE_NEW_COUNTED:
        return put_new(decoder, code == TOKEN_CODE_NEW_COUNTED);
    default:
        return RESULT_UNFIT;
    }
}

/* Appends a known token whose code, of one, two or three bytes, begins with the byte `number`. */
static bool put_any(struct decoder *decoder, const uint8_t **code, const uint8_t *end,
                    uint64_t number)
{
    const struct entry *entry;
    uint64_t low = 0;
    unsigned more = number >= decoder->pairs_end ? 2 : number >= decoder->singles ? 1 : 0;

    if ((size_t)(end - *code) < more)
        return false;
    for (unsigned i = 0; i < more; i++)
        low = low << 8 | *(*code)++;
    if (more == 1)
        number = decoder->singles + ((number - decoder->singles) << 8 | low);
    else if (more == 2)
        number = decoder->singles + ((decoder->pairs_end - decoder->singles) << 8) +
                 ((number - decoder->pairs_end) << 16 | low);
    if (number >= decoder->known)
        return false;
    entry = &decoder->entries[number];
    if (entry->size > (uint64_t)(decoder->end - decoder->at))
        return false;
    copy_some(decoder->at, entry->data, entry->size);
    decoder->at += entry->size;
    return true;
}

/* Appends known tokens and ends of strings, up to the first code that is of another kind, of three
 * bytes, or invalid. Most of the time is spent here. The decoder's members are copied to local
 * variables, because the compiler must assume that writing the text can change the members. */
static const uint8_t *put_known(struct decoder *decoder, const uint8_t *code, const uint8_t *end)
{
    const struct entry *entries = decoder->entries;
    struct entry entry;
    const uint64_t singles = decoder->singles, pairs_end = decoder->pairs_end;
    const uint64_t known = decoder->known;
    uint8_t *at = decoder->at, *const text_start = decoder->start, *const text_end = decoder->end;
    uint64_t *string_end = decoder->string_end;

    while (end - code > 1) {
        uint64_t number = *code;
        size_t taken = 1;

        if (number >= singles) {
            if (number == TOKEN_CODE_END && at != text_end) {
                *string_end++ = (uint64_t)(at - text_start);
                *at++ = NAME_SEPARATOR;
                code++;
                continue;
            }
            if (number >= pairs_end)
                break;
            number = singles + ((number - singles) << 8 | code[1]);
            if (number >= known)
                break;
            taken = 2;
        }
        entry = entries[number];
        if (entry.size > (uint64_t)(text_end - at))
            break;
        copy_some(at, entry.data, entry.size);
        at += entry.size;
        code += taken;
    }
    decoder->at = at;
    decoder->string_end = string_end;
    return code;
}

static enum result put_all(struct decoder *decoder)
{
    const uint8_t *code = decoder->codes.data, *end = code + decoder->codes.size;

    while ((code = put_known(decoder, code, end)) != end) {
        uint8_t first = *code++;
        enum result result = RESULT_OK;

        if (first >= decoder->triples_end)
            result = put_special(decoder, first);
        else if (!put_any(decoder, &code, end, first))
            result = RESULT_UNFIT;
        if (result != RESULT_OK)
            return result;
    }
    return decoder->at == decoder->end && decoder->dictionary.size == 0 ? RESULT_OK : RESULT_UNFIT;
}

enum result token_text_decode(struct bytes codes, struct bytes dictionary, uint64_t limit,
                              struct names *strings)
{
    struct decoder decoder = {.codes = codes, .dictionary = dictionary};
    enum result result;

    *strings = (struct names){0};
    result = start(&decoder, limit, strings);
    if (result == RESULT_OK)
        result = put_all(&decoder);
    if (result == RESULT_OK) {
        strings->text.size = (size_t)(decoder.at - decoder.start);
        strings->count = (size_t)(decoder.string_end - strings->ends);
        /* No text may follow the end of the last string. */
        if (strings->text.size != 0 &&
            (strings->count == 0 || strings->ends[strings->count - 1] != strings->text.size - 1))
            result = RESULT_UNFIT;
    }
    free(decoder.entries);
    buffer_free(&decoder.single_texts);
    return result;
}
