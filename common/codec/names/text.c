/*
 * The text of names: see names/text.h.
 */
#include "common/codec/names/text.h"

#include "common/codec/names/token_text.h"
#include "common/codec/streams.h"

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

/* Decodes a text whose size is at most `limit`, unless that is more than `memory`. */
static enum compact_result decode_text(struct bytes codes, struct bytes dictionary, uint64_t limit,
                                       uint64_t memory, struct name_table *strings)
{
    struct bytes rest = codes;
    uint64_t size;

    *strings = (struct name_table){0};
    if (limit > memory && bytes_take_uleb128(&rest, &size) && size > memory && size <= limit)
        return COMPACT_OVER_LIMIT;
    return token_text_decode(codes, dictionary, limit < memory ? limit : memory, strings);
}

enum compact_result name_text_decode(const struct buffer *parts, uint64_t section_size,
                                     uint64_t memory, struct name_table *names)
{
    struct name_table dictionary;
    uint64_t limit = compact_parts_bound(parts, NAME_TEXT_PARTS, section_size, &proportion_of_text);
    enum compact_result result;

    *names = (struct name_table){0};
    result = decode_text(buffer_view(&parts[NAME_TEXT_WORD_CODES]),
                         buffer_view(&parts[NAME_TEXT_WORDS]), limit, memory, &dictionary);
    if (result == COMPACT_DONE)
        result = decode_text(buffer_view(&parts[NAME_TEXT_CODES]), buffer_view(&dictionary.text),
                             limit, memory, names);
    name_table_free(&dictionary);
    return result;
}
