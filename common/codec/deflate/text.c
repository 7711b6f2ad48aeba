/*
 * Texts in zlib streams: see deflate/text.h.
 */
#include "common/codec/deflate/text.h"

#include "common/base/inflate.h"
#include "common/codec/streams.h"

/* In real sections each name takes at least one byte of the streams, and the texts are about ten
 * times as large as their zlib streams. */
static const struct stream_proportion proportion_of_texts = {
    .per_part_byte = 1024,
    .per_section_byte = 256,
    .besides = (uint64_t)16 << 20,
};

uint64_t zlib_text_limit(const struct buffer *streams, size_t count, uint64_t section_size)
{
    return streams_bound(streams, count, section_size, &proportion_of_texts);
}

static enum zlib_level level_of(enum zlib_form form)
{
    return form == ZLIB_FORM_BEST ? ZLIB_LEVEL_BEST : ZLIB_LEVEL_DEFAULT;
}

enum result zlib_text_inflate(struct bytes stream, uint64_t size, struct buffer *text,
                              enum zlib_form *form)
{
    struct buffer again = {0};
    enum zlib_level level;
    enum result result;

    if (size >= RECOMPRESS_SIZE_MAX || !recompress_level(stream, &level))
        return RESULT_UNFIT;
    result = inflate_exactly(stream, size, text);
    if (result != RESULT_OK)
        return result;
    result = recompress(buffer_view(text), level, stream.size, &again);
    if (result == RESULT_OK && !bytes_equal(buffer_view(&again), stream))
        result = RESULT_UNFIT;
    buffer_free(&again);
    *form = level == ZLIB_LEVEL_BEST ? ZLIB_FORM_BEST : ZLIB_FORM_DEFAULT;
    return result;
}

enum result zlib_text_remember(struct memo *memo, struct bytes text, enum zlib_form form,
                               struct bytes stream)
{
    if (memo == NULL || form == ZLIB_FORM_NONE)
        return RESULT_OK;
    return memo_add(memo, text, level_of(form), stream) ? RESULT_OK : RESULT_NO_MEMORY;
}

enum result zlib_text_recompress(struct memo *memo, struct bytes text, enum zlib_form form,
                                 uint64_t most, struct buffer *stream)
{
    struct bytes known = text;

    if (form != ZLIB_FORM_NONE && (memo == NULL || !memo_find(memo, text, level_of(form), &known)))
        return recompress(text, level_of(form), most, stream);
    if (known.size > most)
        return RESULT_UNFIT;
    return buffer_append(stream, known.data, (size_t)known.size) ? RESULT_OK : RESULT_NO_MEMORY;
}
