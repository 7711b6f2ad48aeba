/*
 * The text of names: see name_text.h.
 */
#include "common/compact/name_text.h"

#include "common/compact/parts.h"
#include "common/compact/token_text.h"

/* Of C++ the names have some four bytes for each byte of their parts, and of the section. */
static const struct compact_proportion proportion_of_text = {
    .per_part_byte = 256,
    .per_section_byte = 64,
    .besides = (uint64_t)1 << 20,
};

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

enum compact_result name_text_decode(const struct buffer *parts, uint64_t section_size,
                                     struct name_table *names)
{
    struct name_table dictionary;
    uint64_t limit = compact_parts_bound(parts, NAME_TEXT_PARTS, section_size, &proportion_of_text);
    enum compact_result result;

    *names = (struct name_table){0};
    result = token_text_decode(buffer_view(&parts[NAME_TEXT_WORD_CODES]),
                               buffer_view(&parts[NAME_TEXT_WORDS]), limit, &dictionary);
    if (result == COMPACT_DONE)
        result = token_text_decode(buffer_view(&parts[NAME_TEXT_CODES]),
                                   buffer_view(&dictionary.text), limit, names);
    name_table_free(&dictionary);
    return result;
}
