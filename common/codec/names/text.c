/*
 * The text of names: see names/text.h.
 */
#include "common/codec/names/text.h"

#include "common/codec/names/token_text.h"
#include "common/codec/streams.h"

/* Typical C++ names have about four bytes for each byte of their streams and of the section. */
static const struct stream_proportion proportion_of_text = {
    .per_part_byte = 256,
    .per_section_byte = 64,
    .besides = (uint64_t)1 << 20,
};

enum result name_text_encode(struct bytes text, struct buffer *streams)
{
    struct buffer dictionary = {0};
    enum result result =
        token_text_encode(text, TOKENS_OF_NAMES, &streams[NAME_TEXT_CODES], &dictionary);

    if (result == RESULT_OK)
        result = token_text_encode(buffer_view(&dictionary), TOKENS_OF_WORDS,
                                   &streams[NAME_TEXT_WORD_CODES], &streams[NAME_TEXT_WORDS]);
    buffer_free(&dictionary);
    return result;
}

/* Decodes a text of at most `limit` bytes; over the limit if it has more than `memory` bytes. */
static enum result decode_text(struct bytes codes, struct bytes dictionary, uint64_t limit,
                               uint64_t memory, struct names *strings)
{
    struct bytes rest = codes;
    uint64_t size;

    *strings = (struct names){0};
    if (limit > memory && bytes_take_uleb128(&rest, &size) && size > memory && size <= limit)
        return RESULT_OVER_LIMIT;
    return token_text_decode(codes, dictionary, limit < memory ? limit : memory, strings);
}

enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names)
{
    struct names dictionary;
    uint64_t limit = streams_bound(streams, NAME_TEXT_STREAMS, section_size, &proportion_of_text);
    enum result result;

    *names = (struct names){0};
    result = decode_text(buffer_view(&streams[NAME_TEXT_WORD_CODES]),
                         buffer_view(&streams[NAME_TEXT_WORDS]), limit, memory, &dictionary);
    if (result == RESULT_OK)
        result = decode_text(buffer_view(&streams[NAME_TEXT_CODES]), buffer_view(&dictionary.text),
                             limit, memory, names);
    names_free(&dictionary);
    return result;
}
