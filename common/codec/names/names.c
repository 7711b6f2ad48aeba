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
#include "common/base/numbers.h"
#include "common/base/parallel.h"
#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/name_lists.h"
#include "common/codec/names/text.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

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

/* Forms of pieces, in addition to enum zlib_form in deflate/text.h. */
enum {
    FORM_ZEROS = 0,
    FORM_BYTES = 4,
};

static bool has_names(unsigned form)
{
    return form != FORM_ZEROS && form != FORM_BYTES;
}

/* ---- encoding ---- */

struct piece {
    unsigned form;
    struct bytes whole;  /* in the section, including the sizes at its start */
    struct bytes stream; /* what follows the sizes */
    uint64_t claimed;    /* the declared size of the text */
    struct buffer text;
    size_t name_count;
    enum result result;
};

struct encoder {
    const struct transform_context *context;
    struct piece *pieces;
    size_t count;
    size_t capacity;
    struct name_list_writer lists;
    struct streams *streams;
};

static bool add_piece(struct encoder *encoder, struct piece piece)
{
    if (!ARRAY_ROOM_FOR_ONE(encoder->pieces, encoder->capacity, encoder->count))
        return false;
    encoder->pieces[encoder->count++] = piece;
    return true;
}

/* Takes the chunk off the front. False if there is none, or its sizes would not round-trip. */
static bool take_chunk(struct bytes *section, struct piece *piece)
{
    struct bytes rest = *section;
    struct name_chunk chunk;
    uint64_t stored;

    if (!name_chunk_take(&rest, &chunk) || chunk.content.size == 0)
        return false;
    stored = chunk.compressed ? chunk.content.size : 0;
    *piece = (struct piece){.form = chunk.compressed ? ZLIB_FORM_BEST : ZLIB_FORM_NONE,
                            .whole = {section->data, section->size - rest.size},
                            .stream = chunk.content,
                            .claimed = chunk.size};
    if (piece->whole.size != uleb128_size(chunk.size) + uleb128_size(stored) + chunk.content.size)
        return false;
    *section = rest;
    return true;
}

static size_t leading_zeros(struct bytes view)
{
    size_t count = 0;

    while (count < view.size && view.data[count] == 0)
        count++;
    return count;
}

/* Splits the section into pieces. From the first bytes on that are no chunk, the rest is stored
 * verbatim. */
static bool find_pieces(struct encoder *encoder, struct bytes section)
{
    while (section.size != 0) {
        size_t zeros = leading_zeros(section);
        struct piece piece = {.form = FORM_ZEROS, .whole = {section.data, zeros}};

        if (zeros != 0) {
            section = (struct bytes){section.data + zeros, section.size - zeros};
        } else if (!take_chunk(&section, &piece)) {
            piece = (struct piece){.form = FORM_BYTES, .whole = section};
            section.size = 0;
        }
        if (!add_piece(encoder, piece))
            return false;
    }
    return true;
}

/* Inflates a chunk and tests whether its stream can be recreated. */
static void prove_piece(void *context, size_t index)
{
    struct encoder *encoder = context;
    struct piece *piece = &encoder->pieces[index];
    enum zlib_form form;

    if (piece->form != ZLIB_FORM_BEST)
        return;
    piece->result = zlib_text_inflate(piece->stream, piece->claimed, &piece->text, &form);
    piece->form = piece->result == RESULT_OK ? form : FORM_BYTES;
    if (piece->result == RESULT_UNFIT)
        piece->result = RESULT_OK;
}

/* The uncompressed text of a chunk. */
static struct bytes text_of(const struct piece *piece)
{
    return piece->form == ZLIB_FORM_NONE ? piece->stream : buffer_view(&piece->text);
}

/* Takes the name off the front; the last one has no separator after it. False if none is left. */
static bool take_name(struct bytes *text, bool *at_end, struct bytes *name)
{
    const uint8_t *separator;

    if (*at_end)
        return false;
    separator = text->size == 0 ? NULL : memchr(text->data, NAME_SEPARATOR, (size_t)text->size);
    *at_end = separator == NULL;
    *name = (struct bytes){text->data, *at_end ? text->size : (uint64_t)(separator - text->data)};
    if (!*at_end)
        *text = (struct bytes){separator + 1, text->size - name->size - 1};
    return true;
}

static enum result add_names(struct encoder *encoder, struct piece *piece)
{
    struct bytes rest = text_of(piece), name;
    bool at_end = false;

    name_list_writer_start_list(&encoder->lists);
    while (take_name(&rest, &at_end, &name)) {
        if (!name_list_writer_put(&encoder->lists, name))
            return RESULT_NO_MEMORY;
        piece->name_count++;
    }
    return RESULT_OK;
}

static enum result put_pieces(struct encoder *encoder)
{
    struct buffer *pieces = &encoder->streams->stream[STREAM_PIECES];
    unsigned width;
    bool done;

    if (encoder->lists.names.count == 0 || !name_list_writer_finish(&encoder->lists, &width))
        return RESULT_UNFIT;
    done = buffer_append_uleb128(pieces, width) && buffer_append_uleb128(pieces, encoder->count);
    for (size_t i = 0; done && i < encoder->count; i++) {
        const struct piece *piece = &encoder->pieces[i];
        uint64_t size = has_names(piece->form) ? piece->name_count : piece->whole.size;

        done = buffer_append_uleb128(pieces, piece->form) && buffer_append_uleb128(pieces, size) &&
               (piece->form != FORM_BYTES ||
                buffer_append(&encoder->streams->stream[STREAM_RAW_BYTES], piece->whole.data,
                              (size_t)piece->whole.size));
    }
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result encode_all(struct encoder *encoder, struct bytes section)
{
    struct buffer *streams = encoder->streams->stream;
    enum result put;

    encoder->lists = (struct name_list_writer){.codes = &streams[STREAM_LIST_CODES],
                                               .numbers = &streams[STREAM_LIST_NUMBERS]};
    if (!find_pieces(encoder, section))
        return RESULT_NO_MEMORY;
    parallel_run(encoder->count, encoder->context->threads, prove_piece, encoder);
    for (size_t i = 0; i < encoder->count; i++) {
        struct piece *piece = &encoder->pieces[i];
        enum result result = piece->result;

        if (result == RESULT_OK && has_names(piece->form))
            result = add_names(encoder, piece);
        zlib_text_prove(&encoder->streams->proved, text_of(piece), piece->stream);
        buffer_free(&piece->text);
        if (result != RESULT_OK)
            return result;
    }
    put = put_pieces(encoder);
    return put == RESULT_OK
               ? name_text_encode(buffer_view(&encoder->lists.names.text), &streams[STREAM_TEXT])
               : put;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct encoder encoder = {.context = context, .streams = streams};
    enum result result;

    streams->count = STREAM_COUNT;
    streams->checked = STREAMS_OF_NAMES;
    result = encode_all(&encoder, section);
    for (size_t i = 0; i < encoder.count; i++)
        buffer_free(&encoder.pieces[i].text);
    free(encoder.pieces);
    name_list_writer_free(&encoder.lists);
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
    struct names names;
    struct name_list_reader reader;
    uint32_t *name_numbers; /* the numbers of the names of all chunks */
    uint32_t *next;         /* where the numbers of the next chunk go */
    struct plan *plans;
    size_t count;
    struct bytes bytes;
    const struct buffer *proved;
    uint64_t size;                     /* of the section */
    uint64_t inflated_left;            /* bytes that the texts of further chunks may have */
    bool is_over_limit;                /* the text of a chunk exceeds the memory limit */
    atomic_uint_least64_t stream_size; /* of all streams made so far */
};

/* Reads the numbers of a chunk's names, and computes the size of its text without making it. */
static bool measure_chunk(struct decoder *decoder, struct plan *plan)
{
    name_list_reader_start_list(&decoder->reader);
    plan->name_numbers = decoder->next;
    for (uint64_t i = 0; i < plan->size; i++) {
        uint64_t number, size;

        if (!name_list_reader_take(&decoder->reader, &number))
            return false;
        size = names_get(&decoder->names, (size_t)number).size + 1;
        if (size > decoder->inflated_left)
            return false;
        decoder->inflated_left -= size;
        plan->text_size += size;
        decoder->is_over_limit = plan->text_size > transform_memory_limit(decoder->context);
        if (decoder->is_over_limit)
            return false;
        *decoder->next++ = (uint32_t)number;
    }
    plan->text_size--; /* the last name has no separator */
    return true;
}

static bool take_plan(struct decoder *decoder, struct bytes *pieces, struct plan *plan)
{
    uint64_t form;

    if (!bytes_take_uleb128(pieces, &form) || !bytes_take_uleb128(pieces, &plan->size) ||
        form > FORM_BYTES)
        return false;
    plan->form = (unsigned)form;
    return !has_names(plan->form) || (plan->size != 0 && measure_chunk(decoder, plan));
}

static enum result take_plans(struct decoder *decoder, struct bytes pieces)
{
    uint64_t count;

    if (!name_list_reader_take_width(&decoder->reader, &pieces) ||
        !bytes_take_uleb128(&pieces, &count) || count > pieces.size / 2 || count > decoder->size)
        return RESULT_UNFIT;
    decoder->plans = calloc((size_t)count + 1, sizeof(*decoder->plans));
    if (decoder->plans == NULL)
        return RESULT_NO_MEMORY;
    decoder->count = (size_t)count;
    for (size_t i = 0; i < decoder->count; i++) {
        if (!take_plan(decoder, &pieces, &decoder->plans[i]))
            return decoder->is_over_limit ? RESULT_OVER_LIMIT : RESULT_UNFIT;
    }
    return name_list_reader_at_end(&decoder->reader) ? RESULT_OK : RESULT_UNFIT;
}

/* Makes the text of a chunk that has been measured. */
static bool gather_text(const struct decoder *decoder, const struct plan *plan, struct buffer *text)
{
    if (!buffer_reserve(text, (size_t)plan->text_size + 1))
        return false;
    for (uint64_t i = 0; i < plan->size; i++) {
        struct bytes name = names_get(&decoder->names, plan->name_numbers[i]);

        memcpy(text->data + text->size, name.data, (size_t)name.size + 1);
        text->size += (size_t)name.size + 1;
    }
    text->size--;
    return true;
}

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
    if (gather_text(decoder, plan, &text))
        plan->result =
            zlib_text_recompress(decoder->proved, index, buffer_view(&text),
                                 (enum zlib_form)plan->form, decoder->size, &plan->stream);
    atomic_fetch_add(&decoder->stream_size, plan->stream.size);
    buffer_free(&text);
}

/* `left`: how many bytes the section may still grow by. */
static enum result put_piece(struct decoder *decoder, struct plan *plan, uint64_t left,
                             struct buffer *section)
{
    const struct buffer *stream = &plan->stream;
    const uint8_t *bytes;
    bool done;

    if (plan->result != RESULT_OK)
        return plan->result;
    if ((has_names(plan->form) ? stream->size : plan->size) > left)
        return RESULT_UNFIT;
    if (plan->form == FORM_ZEROS) {
        done = buffer_append_zeros(section, (size_t)plan->size);
    } else if (plan->form == FORM_BYTES) {
        bytes = take_bytes(&decoder->bytes, plan->size);
        if (bytes == NULL)
            return RESULT_UNFIT;
        done = buffer_append(section, bytes, (size_t)plan->size);
    } else {
        done = buffer_append_uleb128(section, plan->text_size) &&
               buffer_append_uleb128(section, plan->form == ZLIB_FORM_NONE ? 0 : stream->size) &&
               buffer_append(section, stream->data, stream->size);
    }
    return done ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result put_pieces_together(struct decoder *decoder, struct buffer *section)
{
    size_t start = section->size;
    uint64_t size = decoder->size;

    parallel_run(decoder->count, decoder->context->threads, make_stream, decoder);
    for (size_t i = 0; i < decoder->count; i++) {
        uint64_t made = section->size - start;
        enum result result = made > size
                                 ? RESULT_UNFIT
                                 : put_piece(decoder, &decoder->plans[i], size - made, section);

        if (result != RESULT_OK)
            return result;
        buffer_free(&decoder->plans[i].stream);
    }
    return RESULT_OK;
}

/* Decodes the names, and makes room for the numbers in the lists. */
static enum result start_decoder(struct decoder *decoder, const struct buffer *streams)
{
    enum result result =
        name_text_decode(&streams[STREAM_TEXT], decoder->size,
                         transform_memory_limit(decoder->context), &decoder->names);
    size_t count = streams[STREAM_LIST_CODES].size;

    if (result != RESULT_OK)
        return result;
    if (decoder->names.count > UINT32_MAX)
        return RESULT_UNFIT;
    decoder->inflated_left = zlib_text_limit(streams, STREAM_LIST_NUMBERS + 1, decoder->size);
    decoder->name_numbers = malloc((count + 1) * sizeof(*decoder->name_numbers));
    decoder->next = decoder->name_numbers;
    return decoder->name_numbers != NULL &&
                   name_list_reader_start(&decoder->reader, decoder->names.count,
                                          buffer_view(&streams[STREAM_LIST_CODES]),
                                          buffer_view(&streams[STREAM_LIST_NUMBERS]))
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct decoder decoder = {.context = context,
                              .bytes = buffer_view(&streams->stream[STREAM_RAW_BYTES]),
                              .size = size,
                              .proved = &streams->proved};
    enum result result;

    if (streams->count != STREAM_COUNT)
        return RESULT_UNFIT;
    result = start_decoder(&decoder, streams->stream);
    if (result == RESULT_OK)
        result = take_plans(&decoder, buffer_view(&streams->stream[STREAM_PIECES]));
    if (result == RESULT_OK)
        result = put_pieces_together(&decoder, section);
    for (size_t i = 0; i < decoder.count; i++)
        buffer_free(&decoder.plans[i].stream);
    free(decoder.plans);
    free(decoder.name_numbers);
    name_list_reader_free(&decoder.reader);
    names_free(&decoder.names);
    return result;
}

const struct transform names_transform = {
    .id = TRANSFORM_NAMES,
    .kinds = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES),
    .streams_per_byte = ZLIB_TEXT_STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};

/* ---- names alone ---- */

/* Whether no chunk of the section is stored verbatim. */
static bool has_all_names(struct bytes pieces)
{
    uint64_t number, form, size;

    if (!bytes_take_uleb128(&pieces, &number) || !bytes_take_uleb128(&pieces, &number))
        return false;
    while (bytes_take_uleb128(&pieces, &form) && bytes_take_uleb128(&pieces, &size)) {
        if (form == FORM_BYTES)
            return false;
    }
    return true;
}

bool names_decode(const struct transform_context *context, const struct packed *packed,
                  struct names *names, bool *are_all, struct error *error)
{
    struct streams streams = {0};
    bool done = codec_unpack(&names_transform, context, packed, STREAMS_OF_NAMES, &streams, error);

    *names = (struct names){0};
    if (done)
        done = codec_check(name_text_decode(&streams.stream[STREAM_TEXT], packed->size,
                                            transform_memory_limit(context), names),
                           context, packed, error);
    if (are_all != NULL)
        *are_all = streams.checked == STREAMS_OF_NAMES &&
                   has_all_names(buffer_view(&streams.stream[STREAM_PIECES]));
    streams_free(&streams);
    return done;
}
