/*
 * The text of names: see name_text.h.
 */
#include "common/compact/name_text.h"

#include "common/compact/token_text.h"

/* What the text may have for each byte of its parts, and besides: bounds what a hostile sidecar can
 * take. Names of C++ have some four. */
#define TEXT_PER_BYTE 256
#define TEXT_FREE     ((uint64_t)1 << 20)

enum compact_result name_text_encode(struct bytes text, struct buffer *parts)
{
    struct buffer dictionary = {0};
    enum compact_result result =
        token_text_encode(text, TOKENS_OF_NAMES, &parts[NAME_TEXT_CODES], &dictionary);

    if (result == COMPACT_DONE)
        result = token_text_encode(buffer_view(&dictionary), TOKENS_OF_WORDS,
                                   &parts[NAME_TEXT_WORD_CODES], &parts[NAME_TEXT_WORDS]);
    buffer_free(&dictionary);
    return result;
}

enum compact_result name_text_decode(const struct buffer *parts, struct name_table *names)
{
    struct name_table dictionary;
    uint64_t limit = TEXT_FREE;
    enum compact_result result;

    *names = (struct name_table){0};
    for (size_t i = 0; i < NAME_TEXT_PARTS; i++)
        limit += TEXT_PER_BYTE * parts[i].size;
    result = token_text_decode(buffer_view(&parts[NAME_TEXT_WORD_CODES]),
                               buffer_view(&parts[NAME_TEXT_WORDS]), limit, &dictionary);
    if (result == COMPACT_DONE)
        result = token_text_decode(buffer_view(&parts[NAME_TEXT_CODES]),
                                   buffer_view(&dictionary.text), limit, names);
    name_table_free(&dictionary);
    return result;
}
