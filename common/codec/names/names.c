/*
 * Function names: "Names" in docs/format.md.
 *
 * The section is a sequence of chunks (common/llvm/names.h), one for each translation unit, most of
 * them zlib streams. The name of a function in a header is in many chunks, compressed differently
 * each time. So each name is stored once, and of each chunk only which names it holds.
 */
#include "common/codec/names/names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/parallel.h"
#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/name_lists.h"

enum stream {
    STREAM_TEXT = 0,
    STREAM_LIST_CODES = 3,
    STREAM_LIST_NUMBERS = 4,
    STREAM_PIECES = 5,
    STREAM_RAW_BYTES = 6,
    STREAM_COUNT = 7,
};

/* The streams needed to read the names alone. */
#define STREAMS_OF_NAMES                                                                           \
    (((UINT64_C(1) << NAME_TEXT_STREAMS) - 1) << STREAM_TEXT | UINT64_C(1) << STREAM_PIECES)

/* Forms of pieces, in addition to enum zlib_form. */
enum {
    FORM_ZEROS = 0,
    FORM_BYTES = 4,
};

static bool has_names(uint64_t form)
{
    return form != FORM_ZEROS && form != FORM_BYTES;
}

/* ---- the text ---- */

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
    struct cursor cursor = cursor_open(codes, false, false);
    uint64_t size = cursor_uleb128(&cursor);

    *strings = (struct names){0};
    if (size > memory && size <= limit)
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
    if (streams[NAME_TEXT_WORD_CODES].size == 0 && streams[NAME_TEXT_WORDS].size == 0) {
        struct buffer text = {0};

        if (streams[NAME_TEXT_CODES].size > memory)
            return RESULT_OVER_LIMIT;
        return buffer_append(&text, streams[NAME_TEXT_CODES].data, streams[NAME_TEXT_CODES].size)
                   ? names_take_text(names, &text)
                   : RESULT_NO_MEMORY;
    }
    result = decode_text(buffer_view(&streams[NAME_TEXT_WORD_CODES]),
                         buffer_view(&streams[NAME_TEXT_WORDS]), limit, memory, &dictionary);
    if (result == RESULT_OK)
        result = decode_text(buffer_view(&streams[NAME_TEXT_CODES]), buffer_view(&dictionary.text),
                             limit, memory, names);
    names_free(&dictionary);
    return result;
}

/* ---- encoding ---- */

struct piece {
    unsigned form;
    struct bytes whole;  /* in the section, including the sizes at its start */
    struct bytes stream; /* what follows the sizes */
    uint64_t claimed;    /* the declared size of the text */
    struct buffer text;
    enum result result;
};

/* The chunks of so many pieces a thread are inflated at once, since texts take more memory than all
 * else. */
#define PIECES_PER_THREAD 16

struct encoder {
    struct piece *pieces;
    size_t count, capacity;
    size_t first; /* of the pieces that are inflated at once */
};

/* Takes the chunk, or the zeros between chunks, off the front. The rest of a section whose first
 * bytes are neither, or a chunk whose sizes would not round-trip, is stored verbatim. */
static struct piece take_piece(struct bytes *section)
{
    struct piece piece = {.form = FORM_ZEROS, .whole = {section->data, 0}};
    struct bytes rest = *section;
    struct name_chunk chunk;
    uint64_t stored;

    while (piece.whole.size < section->size && section->data[piece.whole.size] == 0)
        piece.whole.size++;
    if (piece.whole.size == 0) {
        piece = (struct piece){.form = FORM_BYTES, .whole = *section};
        if (name_chunk_take(&rest, &chunk) && chunk.content.size != 0) {
            stored = chunk.compressed ? chunk.content.size : 0;
            if (section->size - rest.size ==
                uleb128_size(chunk.size) + uleb128_size(stored) + chunk.content.size)
                piece = (struct piece){.form = chunk.compressed ? ZLIB_FORM_BEST : ZLIB_FORM_NONE,
                                       .whole = {section->data, section->size - rest.size},
                                       .stream = chunk.content,
                                       .claimed = chunk.size};
        }
    }
    *section = (struct bytes){section->data + piece.whole.size, section->size - piece.whole.size};
    return piece;
}

/* Inflates a chunk and tests whether its stream can be recreated. */
static void prove_piece(void *context, size_t index)
{
    struct encoder *encoder = context;
    struct piece *piece = &encoder->pieces[encoder->first + index];
    enum zlib_form form;

    if (piece->form != ZLIB_FORM_BEST)
        return;
    piece->result = zlib_text_inflate(piece->stream, piece->claimed, &piece->text, &form);
    piece->form = piece->result == RESULT_OK ? form : FORM_BYTES;
    if (piece->result == RESULT_UNFIT)
        piece->result = RESULT_OK;
}

/* Adds the names of a text to the lists. The last one has no separator after it. */
static bool add_names(struct name_list_writer *lists, struct bytes text, uint64_t *count)
{
    const uint8_t *separator;

    name_list_writer_start_list(lists);
    do {
        struct bytes name = text;

        separator = text.size == 0 ? NULL : memchr(text.data, NAME_SEPARATOR, (size_t)text.size);
        if (separator != NULL) {
            name.size = (uint64_t)(separator - text.data);
            text = (struct bytes){separator + 1, text.size - name.size - 1};
        }
        if (!name_list_writer_put(lists, name))
            return false;
        ++*count;
    } while (separator != NULL);
    return true;
}

/* Writes all pieces after what comes before them, which is known at the end: *pieces. */
static enum result put_pieces(struct encoder *encoder, struct name_list_writer *lists,
                              unsigned threads, struct streams *streams, struct buffer *pieces)
{
    size_t at_once = (size_t)threads * PIECES_PER_THREAD;

    for (size_t i = 0; i < encoder->count; i++) {
        struct piece *piece = &encoder->pieces[i];
        struct bytes text;
        uint64_t number = 0;

        if (i % at_once == 0) {
            encoder->first = i;
            parallel_run(encoder->count - i < at_once ? encoder->count - i : at_once, threads,
                         prove_piece, encoder);
        }
        if (piece->result != RESULT_OK)
            return piece->result;
        text = piece->form == ZLIB_FORM_NONE ? piece->stream : buffer_view(&piece->text);
        if (!has_names(piece->form))
            number = piece->whole.size;
        else if (!add_names(lists, text, &number))
            return RESULT_NO_MEMORY;
        buffer_append_uleb128(pieces, piece->form);
        buffer_append_uleb128(pieces, number);
        if (piece->form == FORM_BYTES)
            buffer_append(&streams->stream[STREAM_RAW_BYTES], piece->whole.data,
                          (size_t)piece->whole.size);
        zlib_text_prove(&streams->proved, text, piece->stream);
        buffer_free(&piece->text);
    }
    return pieces->failed ? RESULT_NO_MEMORY : RESULT_OK;
}

static enum result encode_with(struct encoder *encoder, const struct transform_context *context,
                               struct bytes section, struct name_list_writer *lists,
                               struct streams *streams, struct buffer *pieces)
{
    struct buffer *stream = streams->stream;
    unsigned width;
    enum result result;

    while (section.size != 0) {
        if (!ARRAY_ROOM_FOR_ONE(encoder->pieces, encoder->capacity, encoder->count))
            return RESULT_NO_MEMORY;
        encoder->pieces[encoder->count++] = take_piece(&section);
    }
    result = put_pieces(encoder, lists, context->threads, streams, pieces);
    if (result != RESULT_OK)
        return result;
    if (lists->names.count == 0 || !name_list_writer_finish(lists, &width))
        return RESULT_UNFIT;
    buffer_append_uleb128(&stream[STREAM_PIECES], width);
    buffer_append_uleb128(&stream[STREAM_PIECES], encoder->count);
    buffer_append(&stream[STREAM_PIECES], pieces->data, pieces->size);
    return name_text_encode(buffer_view(&lists->names.text), &stream[STREAM_TEXT]);
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct name_list_writer lists = {.codes = &streams->stream[STREAM_LIST_CODES],
                                     .numbers = &streams->stream[STREAM_LIST_NUMBERS]};
    struct encoder encoder = {0};
    struct buffer pieces = {0};
    enum result result;

    streams->count = STREAM_COUNT;
    streams->checked = STREAMS_OF_NAMES;
    result = encode_with(&encoder, context, section, &lists, streams, &pieces);
    for (size_t i = 0; i < encoder.count; i++)
        buffer_free(&encoder.pieces[i].text);
    free(encoder.pieces);
    buffer_free(&pieces);
    name_list_writer_free(&lists);
    return result;
}

/* ---- decoding ---- */

/* A piece that is to be made. */
struct plan {
    unsigned form;
    uint64_t size;                /* from STREAM_PIECES: the count of names, or of bytes */
    const uint32_t *name_numbers; /* the numbers of its names */
    uint64_t text_size;
    struct buffer stream;
    enum result result;
};

struct decoder {
    const struct transform_context *context;
    const struct buffer *proved;
    struct names names;
    struct name_list_reader reader;
    uint32_t *name_numbers; /* the numbers of the names of all chunks */
    struct plan *plans;
    size_t count;
    uint64_t size;                     /* of the section */
    uint64_t text_size;                /* of all chunks so far */
    atomic_uint_least64_t stream_size; /* of all streams made so far */
};

/* Reads the numbers of a chunk's names to *next, and computes the size of its text without making
 * it. *left: how many bytes the texts of this and further chunks may have. */
static enum result measure_chunk(struct decoder *decoder, struct plan *plan, uint32_t **next,
                                 uint64_t *left)
{
    name_list_reader_start_list(&decoder->reader);
    plan->name_numbers = *next;
    for (uint64_t i = 0; i < plan->size; i++) {
        uint64_t number, size;

        if (!name_list_reader_take(&decoder->reader, &number))
            return RESULT_UNFIT;
        size = names_get(&decoder->names, (size_t)number).size + 1;
        if (size > *left)
            return RESULT_UNFIT;
        *left -= size;
        plan->text_size += size;
        decoder->text_size += size;
        /* All of them together, since each has to be compressed again, which takes time. */
        if (decoder->text_size > transform_memory_limit(decoder->context))
            return RESULT_OVER_LIMIT;
        *(*next)++ = (uint32_t)number;
    }
    plan->text_size--; /* the last name has no separator */
    return plan->size == 0 ? RESULT_UNFIT : RESULT_OK;
}

static enum result take_plans(struct decoder *decoder, const struct buffer *streams)
{
    struct bytes pieces = buffer_view(&streams[STREAM_PIECES]);
    uint64_t left = zlib_text_limit(streams, STREAM_LIST_NUMBERS + 1, decoder->size), count;
    uint32_t *next = decoder->name_numbers;
    struct cursor cursor;

    if (!name_list_reader_take_width(&decoder->reader, &pieces))
        return RESULT_UNFIT;
    cursor = cursor_open(pieces, false, false);
    count = cursor_uleb128(&cursor);
    if (count > cursor_left(&cursor) / 2 || count > decoder->size)
        return RESULT_UNFIT;
    decoder->plans = calloc((size_t)count + 1, sizeof(*decoder->plans));
    if (decoder->plans == NULL)
        return RESULT_NO_MEMORY;
    decoder->count = (size_t)count;
    for (size_t i = 0; i < decoder->count; i++) {
        struct plan *plan = &decoder->plans[i];
        uint64_t form = cursor_uleb128(&cursor);
        enum result result = RESULT_OK;

        plan->form = (unsigned)form;
        plan->size = cursor_uleb128(&cursor);
        if (cursor.bad || form > FORM_BYTES)
            return RESULT_UNFIT;
        if (has_names(form))
            result = measure_chunk(decoder, plan, &next, &left);
        if (result != RESULT_OK)
            return result;
    }
    return name_list_reader_at_end(&decoder->reader) ? RESULT_OK : RESULT_UNFIT;
}

/* Makes the text of a chunk that has been measured, and its stream. */
static void make_stream(void *context, size_t index)
{
    struct decoder *decoder = context;
    struct plan *plan = &decoder->plans[index];
    struct buffer text = {0};

    if (!has_names(plan->form))
        return;
    plan->result = RESULT_UNFIT;
    /* All streams are made before the first one is put into the section, so their total size must
     * be checked here. */
    if (atomic_load(&decoder->stream_size) > decoder->size)
        return;
    plan->result = RESULT_NO_MEMORY;
    if (buffer_reserve(&text, (size_t)plan->text_size + 1)) {
        for (uint64_t i = 0; i < plan->size; i++) {
            struct bytes name = names_get(&decoder->names, plan->name_numbers[i]);

            /* With its separator. */
            memcpy(text.data + text.size, name.data, (size_t)name.size + 1);
            text.size += (size_t)name.size + 1;
        }
        text.size--;
        plan->result =
            zlib_text_recompress(decoder->proved, index, NULL, buffer_view(&text),
                                 (enum zlib_form)plan->form, decoder->size, &plan->stream);
    }
    atomic_fetch_add(&decoder->stream_size, plan->stream.size);
    buffer_free(&text);
}

/* Appends the pieces, whose streams have been made. */
static enum result put_section(struct decoder *decoder, struct bytes raw, struct buffer *section)
{
    struct cursor cursor = cursor_open(raw, false, false);
    size_t start = section->size;

    for (size_t i = 0; i < decoder->count; i++) {
        struct plan *plan = &decoder->plans[i];
        struct buffer *stream = &plan->stream;
        uint64_t made = section->size - start;

        if (plan->result != RESULT_OK)
            return plan->result;
        if (made > decoder->size ||
            (has_names(plan->form) ? stream->size : plan->size) > decoder->size - made)
            return RESULT_UNFIT;
        if (plan->form == FORM_ZEROS) {
            buffer_append_zeros(section, (size_t)plan->size);
        } else if (plan->form == FORM_BYTES) {
            struct bytes bytes = cursor_bytes(&cursor, plan->size);

            buffer_append(section, bytes.data, (size_t)bytes.size);
        } else {
            buffer_append_uleb128(section, plan->text_size);
            buffer_append_uleb128(section, plan->form == ZLIB_FORM_NONE ? 0 : stream->size);
            buffer_append(section, stream->data, stream->size);
        }
        if (cursor.bad)
            return RESULT_UNFIT;
        if (section->failed)
            return RESULT_NO_MEMORY;
        buffer_free(stream);
    }
    return RESULT_OK;
}

static enum result decode_with(struct decoder *decoder, const struct buffer *streams,
                               struct buffer *section)
{
    size_t count = streams[STREAM_LIST_CODES].size;
    enum result result =
        name_text_decode(&streams[STREAM_TEXT], decoder->size,
                         transform_memory_limit(decoder->context), &decoder->names);

    if (result != RESULT_OK)
        return result;
    if (decoder->names.count > UINT32_MAX)
        return RESULT_UNFIT;
    decoder->name_numbers = malloc((count + 1) * sizeof(*decoder->name_numbers));
    if (decoder->name_numbers == NULL ||
        !name_list_reader_start(&decoder->reader, decoder->names.count,
                                buffer_view(&streams[STREAM_LIST_CODES]),
                                buffer_view(&streams[STREAM_LIST_NUMBERS])))
        return RESULT_NO_MEMORY;
    result = take_plans(decoder, streams);
    if (result != RESULT_OK)
        return result;
    parallel_run(decoder->count, decoder->context->threads, make_stream, decoder);
    return put_section(decoder, buffer_view(&streams[STREAM_RAW_BYTES]), section);
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct decoder decoder = {.context = context, .proved = &streams->proved, .size = size};
    enum result result;

    if (streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    result = decode_with(&decoder, streams->stream, section);
    if (result == RESULT_OK && context->decoded != NULL) {
        names_free(context->decoded);
        *context->decoded = decoder.names;
        decoder.names = (struct names){0};
    }
    for (size_t i = 0; i < decoder.count; i++)
        buffer_free(&decoder.plans[i].stream);
    free(decoder.plans);
    free(decoder.name_numbers);
    name_list_reader_free(&decoder.reader);
    names_free(&decoder.names);
    return result;
}

/* Texts of names that have most in common differ in few places, their codes in most: if a name is
 * new, the dictionary is another one. A text that is more than streams may be stays in codes. */
static enum result expand(struct streams *streams, uint64_t size, uint64_t limit)
{
    struct names names;
    enum result result = name_text_decode(&streams->stream[STREAM_TEXT], size, limit, &names);
    uint64_t all = names.text.size;

    for (size_t i = STREAM_LIST_CODES; i < STREAM_COUNT; i++)
        all += streams->stream[i].size;
    if (result == RESULT_OK && names.text.size != 0 && all / ZLIB_TEXT_STREAMS_PER_BYTE < size) {
        for (size_t i = 0; i < NAME_TEXT_STREAMS; i++)
            buffer_free(&streams->stream[STREAM_TEXT + i]);
        streams->stream[STREAM_TEXT] = names.text;
        names.text = (struct buffer){0};
    }
    names_free(&names);
    return result;
}

const struct transform names_transform = {
    .id = TRANSFORM_NAMES,
    .kinds = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES),
    .streams_per_byte = ZLIB_TEXT_STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
    .expand = expand,
};

/* ---- names alone ---- */

/* True if no piece of the section is stored verbatim. */
static bool has_all_names(struct bytes pieces)
{
    struct cursor cursor = cursor_open(pieces, false, false);

    cursor_uleb128(&cursor); /* the width of list numbers, and the number of pieces */
    cursor_uleb128(&cursor);
    if (cursor.bad)
        return false;
    while (!cursor_finished(&cursor)) {
        uint64_t form = cursor_uleb128(&cursor);

        cursor_uleb128(&cursor);
        if (cursor.bad)
            break;
        if (form == FORM_BYTES)
            return false;
    }
    return true;
}

bool names_decode(const struct transform_context *context, const struct encoded *encoded,
                  struct names *names, bool *are_all, struct error *error)
{
    struct streams streams = {0};
    bool done = codec_decompress_streams(&names_transform, context, encoded, STREAMS_OF_NAMES,
                                         &streams, error);

    *names = (struct names){0};
    if (done)
        done = codec_check(name_text_decode(&streams.stream[STREAM_TEXT], encoded->size,
                                            transform_memory_limit(context), names),
                           context, encoded, error);
    if (are_all != NULL)
        *are_all = (context->is_checked || streams.checked == STREAMS_OF_NAMES) &&
                   has_all_names(buffer_view(&streams.stream[STREAM_PIECES]));
    streams_free(&streams);
    return done;
}
