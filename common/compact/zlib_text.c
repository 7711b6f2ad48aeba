/*
 * Texts in zlib streams: see zlib_text.h.
 */
#include "common/compact/zlib_text.h"

#include "common/inflate.h"

static enum zlib_level level_of(enum zlib_form form)
{
    return form == ZLIB_FORM_BEST ? ZLIB_LEVEL_BEST : ZLIB_LEVEL_DEFAULT;
}

enum compact_result zlib_text_prove(struct bytes stream, uint64_t size, struct buffer *text,
                                    enum zlib_form *form)
{
    struct buffer again = {0};
    enum zlib_level level;
    enum compact_result result = COMPACT_NO_MEMORY;

    if (size >= ZLIB_AGAIN_SIZE_MAX || !zlib_again_level(stream, &level))
        return COMPACT_UNFIT;
    switch (inflate_exactly(stream, size, text)) {
    case INFLATE_DAMAGED:
        return COMPACT_UNFIT;
    case INFLATE_NO_MEMORY:
        return COMPACT_NO_MEMORY;
    case INFLATE_DONE:
        break;
    }
    if (zlib_again(buffer_view(text), level, &again))
        result = bytes_equal(buffer_view(&again), stream) ? COMPACT_DONE : COMPACT_UNFIT;
    buffer_free(&again);
    *form = level == ZLIB_LEVEL_BEST ? ZLIB_FORM_BEST : ZLIB_FORM_DEFAULT;
    return result;
}

enum compact_result zlib_text_remember(struct zlib_memo *memo, struct bytes text,
                                       enum zlib_form form, struct bytes stream)
{
    if (memo == NULL || form == ZLIB_FORM_NONE)
        return COMPACT_DONE;
    return zlib_memo_add(memo, text, level_of(form), stream) ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

enum compact_result zlib_text_again(struct zlib_memo *memo, struct bytes text, enum zlib_form form,
                                    struct buffer *stream)
{
    struct bytes known = text;

    if (form == ZLIB_FORM_NONE ||
        (memo != NULL && zlib_memo_find(memo, text, level_of(form), &known)))
        return buffer_append(stream, known.data, (size_t)known.size) ? COMPACT_DONE
                                                                     : COMPACT_NO_MEMORY;
    if (text.size >= ZLIB_AGAIN_SIZE_MAX)
        return COMPACT_UNFIT;
    return zlib_again(text, level_of(form), stream) ? COMPACT_DONE : COMPACT_NO_MEMORY;
}
