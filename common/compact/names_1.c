/*
 * Function names, version 1.
 *
 * The section is a run of chunks (names.h), one a translation unit, most of them zlib streams. A
 * function that is in a header has its name in every chunk, and what zlib makes of it is different
 * each time. So each name is stored once, and of the chunks only which names they hold.
 *
 * Parts:
 *   0  the distinct names, in the order in which they come first, each with a byte 1 behind it
 *   1  the names of all chunks, a number of W bytes (low byte first) for each: 0 for the first name
 *      that has not come yet; else the name's number less that of the name before in the chunk (the
 *      first: less 0) and plus 1 where that is not negative, modulo 2^8W. Headers bring the same
 *      names in the same order, so differences repeat where numbers would not.
 *   2  W, the number of pieces, and of each piece its form and its size, as unsigned LEB128:
 *      0 zero bytes, their number; 1 a chunk that is not compressed, its number of names; 2 or 3 a
 *      chunk of a zlib stream of level 6 or 9, its number of names; 4 bytes as they are, their
 *      number
 *   3  the bytes of the pieces of form 4
 */
#include <stdlib.h>
#include <string.h>

#include "common/compact/number_table.h"
#include "common/compact/transforms.h"
#include "common/digest.h"
#include "common/inflate.h"
#include "common/name_set.h"
#include "common/parallel.h"

enum part {
    PART_TEXT = COMPACT_NAMES_TEXT,
    PART_MEMBERS,
    PART_PIECES = COMPACT_NAMES_PIECES,
    PART_BYTES,
    PART_COUNT,
};

enum form {
    FORM_ZEROS,
    FORM_STORED,
    FORM_ZLIB_DEFAULT,
    FORM_ZLIB_BEST,
    FORM_BYTES,
};

#define WIDTH_MIN 2
#define WIDTH_MAX 4

/* How much more the chunks may be, inflated, than what the sidecar holds of them: bounds the time
 * that a hostile sidecar can take. Real ones are some ten times as large. */
#define INFLATED_PER_BYTE 256
#define INFLATED_FREE     ((uint64_t)16 << 20)

struct piece {
    enum form form;
    struct bytes whole;  /* in the section, with the sizes in front */
    struct bytes stream; /* what follows the sizes */
    uint64_t claimed;    /* size of the text */
    struct buffer text;
    size_t name_count;
    enum compact_result result;
};

static enum zlib_level level_of(enum form form)
{
    return form == FORM_ZLIB_BEST ? ZLIB_LEVEL_BEST : ZLIB_LEVEL_DEFAULT;
}

/* ---- encoding ---- */

struct encoder {
    const struct compact_context *context;
    struct piece *pieces;
    size_t count;
    size_t capacity;
    struct number_table numbers; /* from the digest of a name to its number */
    struct compact_parts *parts;
    unsigned width;
};

static size_t uleb128_size(uint64_t value)
{
    size_t size = 1;

    while ((value >>= 7) != 0)
        size++;
    return size;
}

static struct piece *add_piece(struct encoder *encoder, enum form form, struct bytes whole)
{
    struct piece *piece;

    if (encoder->count == encoder->capacity) {
        size_t capacity = encoder->capacity == 0 ? 64 : encoder->capacity * 2;
        struct piece *pieces = realloc(encoder->pieces, capacity * sizeof(*pieces));

        if (pieces == NULL)
            return NULL;
        encoder->pieces = pieces;
        encoder->capacity = capacity;
    }
    piece = &encoder->pieces[encoder->count++];
    *piece = (struct piece){.form = form, .whole = whole};
    return piece;
}

/* Takes the chunk at the front. False where there is none that would come back. */
static bool take_chunk(struct bytes *section, struct piece *piece)
{
    struct bytes rest = *section;
    struct name_chunk chunk;
    uint64_t stored;

    if (!name_chunk_take(&rest, &chunk) || chunk.content.size == 0)
        return false;
    stored = chunk.compressed ? chunk.content.size : 0;
    *piece = (struct piece){.form = chunk.compressed ? FORM_ZLIB_BEST : FORM_STORED,
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

/* Finds the pieces; what is no chunk is kept as it is, up to the end. */
static bool find_pieces(struct encoder *encoder, struct bytes section)
{
    while (section.size != 0) {
        size_t zeros = leading_zeros(section);
        struct piece chunk, *piece;

        if (zeros != 0) {
            piece = add_piece(encoder, FORM_ZEROS, (struct bytes){section.data, zeros});
            section = (struct bytes){section.data + zeros, section.size - zeros};
        } else if (take_chunk(&section, &chunk)) {
            piece = add_piece(encoder, chunk.form, chunk.whole);
            if (piece != NULL)
                *piece = chunk;
        } else {
            piece = add_piece(encoder, FORM_BYTES, section);
            section.size = 0;
        }
        if (piece == NULL)
            return false;
    }
    return true;
}

/* Inflates a chunk, and tries whether its stream can be made again. */
static void prove_piece(void *context, size_t index)
{
    struct encoder *encoder = context;
    struct piece *piece = &encoder->pieces[index];
    struct buffer again = {0};
    enum zlib_level level;

    if (piece->form != FORM_ZLIB_BEST)
        return;
    if (!zlib_again_level(piece->stream, &level) || piece->claimed >= ZLIB_AGAIN_SIZE_MAX) {
        piece->form = FORM_BYTES;
        return;
    }
    piece->form = level == ZLIB_LEVEL_BEST ? FORM_ZLIB_BEST : FORM_ZLIB_DEFAULT;
    switch (inflate_exactly(piece->stream, piece->claimed, &piece->text)) {
    case INFLATE_DONE:
        if (!zlib_again(buffer_view(&piece->text), level, &again))
            piece->result = COMPACT_NO_MEMORY;
        else if (!bytes_equal(buffer_view(&again), piece->stream))
            piece->form = FORM_BYTES;
        break;
    case INFLATE_DAMAGED:
        piece->form = FORM_BYTES;
        break;
    case INFLATE_NO_MEMORY:
        piece->result = COMPACT_NO_MEMORY;
        break;
    }
    buffer_free(&again);
}

/* The text of a chunk, wherever it is. */
static struct bytes text_of(const struct piece *piece)
{
    return piece->form == FORM_STORED ? piece->stream : buffer_view(&piece->text);
}

static bool has_names(enum form form)
{
    return form == FORM_STORED || form == FORM_ZLIB_DEFAULT || form == FORM_ZLIB_BEST;
}

/* Takes the name at the front; the last has no separator behind it. False where none is left. */
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

static bool put_member(struct buffer *members, uint64_t number, unsigned width)
{
    uint8_t bytes[8];

    store_u64(bytes, number, false);
    return buffer_append(members, bytes, width);
}

/* Adds a chunk's names to the text, if they are new, and to the members. */
static enum compact_result add_names(struct encoder *encoder, struct piece *piece)
{
    struct buffer *text = &encoder->parts->parts[PART_TEXT];
    struct buffer *members = &encoder->parts->parts[PART_MEMBERS];
    struct bytes rest = text_of(piece), name;
    uint64_t before = 0;
    bool at_end = false;

    while (take_name(&rest, &at_end, &name)) {
        struct digest digest = digest_of(name);
        uint64_t next = encoder->numbers.count;
        uint64_t number, difference;

        if (!number_table_get(&encoder->numbers, load_u64(digest.bytes, false), &number))
            return COMPACT_NO_MEMORY;
        difference = number - before + (number >= before);
        if (number == next) {
            difference = 0;
            if (!buffer_append(text, name.data, (size_t)name.size) || !buffer_append(text, "\1", 1))
                return COMPACT_NO_MEMORY;
        }
        if (!put_member(members, difference, WIDTH_MAX))
            return COMPACT_NO_MEMORY;
        before = number;
        piece->name_count++;
    }
    return COMPACT_DONE;
}

/* Members have been put with the greatest width, since the number of names was not known. */
static void narrow_members(struct encoder *encoder)
{
    struct buffer *members = &encoder->parts->parts[PART_MEMBERS];
    size_t count = members->size / WIDTH_MAX;

    encoder->width = WIDTH_MIN;
    /* Differences and their signs take a bit more than numbers. */
    while (encoder->width < WIDTH_MAX && encoder->numbers.count >> (8 * encoder->width - 1) != 0)
        encoder->width++;
    for (size_t i = 0; i < count; i++)
        memmove(members->data + i * encoder->width, members->data + i * WIDTH_MAX, encoder->width);
    members->size = count * encoder->width;
}

static bool put_pieces(struct encoder *encoder)
{
    struct buffer *pieces = &encoder->parts->parts[PART_PIECES];
    bool done = buffer_append_uleb128(pieces, encoder->width) &&
                buffer_append_uleb128(pieces, encoder->count);

    for (size_t i = 0; done && i < encoder->count; i++) {
        const struct piece *piece = &encoder->pieces[i];

        done = buffer_append_uleb128(pieces, piece->form) &&
               buffer_append_uleb128(pieces, has_names(piece->form) ? piece->name_count
                                                                    : piece->whole.size) &&
               (piece->form != FORM_BYTES ||
                buffer_append(&encoder->parts->parts[PART_BYTES], piece->whole.data,
                              (size_t)piece->whole.size));
    }
    return done;
}

/* Enters what was proved, so that it need not be made again. */
static bool remember(const struct encoder *encoder, const struct piece *piece)
{
    return encoder->context->memo == NULL || piece->form == FORM_STORED ||
           zlib_memo_add(encoder->context->memo, buffer_view(&piece->text), level_of(piece->form),
                         piece->stream);
}

static enum compact_result encode_all(struct encoder *encoder, struct bytes section)
{
    if (!find_pieces(encoder, section) || !number_table_start(&encoder->numbers))
        return COMPACT_NO_MEMORY;
    parallel_run(encoder->count, encoder->context->threads, prove_piece, encoder);
    for (size_t i = 0; i < encoder->count; i++) {
        struct piece *piece = &encoder->pieces[i];
        enum compact_result result = piece->result;

        if (result == COMPACT_DONE && has_names(piece->form)) {
            result = add_names(encoder, piece);
            if (result == COMPACT_DONE && !remember(encoder, piece))
                result = COMPACT_NO_MEMORY;
        }
        buffer_free(&piece->text);
        if (result != COMPACT_DONE)
            return result;
    }
    if (encoder->numbers.count == 0 || encoder->numbers.count >> (8 * WIDTH_MAX - 1) != 0)
        return COMPACT_UNFIT;
    narrow_members(encoder);
    return put_pieces(encoder) ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

static enum compact_result encode(const struct compact_context *context, struct bytes section,
                                  struct compact_parts *parts)
{
    struct encoder encoder = {.context = context, .parts = parts};
    enum compact_result result;

    parts->count = PART_COUNT;
    result = encode_all(&encoder, section);
    for (size_t i = 0; i < encoder.count; i++)
        buffer_free(&encoder.pieces[i].text);
    free(encoder.pieces);
    number_table_free(&encoder.numbers);
    return result;
}

/* ---- decoding ---- */

/* Whether all names of the section are in its first part. */
bool compact_names_are_all(struct bytes pieces)
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

/* A piece to be: its names are members first_member and following. */
struct plan {
    enum form form;
    uint64_t size; /* as part 2 says it */
    uint64_t first_member;
    uint64_t text_size;
    uint64_t first_number; /* that name new in this chunk would have */
    struct bytes known;    /* data != NULL: the stream */
    struct buffer stream;
    enum compact_result result;
};

struct decoder {
    const struct compact_context *context;
    struct name_table names;
    struct bytes members;
    unsigned width;
    struct plan *plans;
    size_t count;
    struct bytes bytes;
    uint64_t inflated_left;
};

/* The numbers of a chunk's names, one after the other. */
struct member_reader {
    const struct decoder *decoder;
    uint64_t next; /* member */
    uint64_t new_number;
    uint64_t before;
};

static bool take_number(struct member_reader *reader, uint64_t *number)
{
    const struct decoder *decoder = reader->decoder;
    uint8_t bytes[8] = {0};
    uint64_t difference, modulus = (UINT64_C(1) << (8 * decoder->width)) - 1;

    memcpy(bytes, decoder->members.data + reader->next++ * decoder->width, decoder->width);
    difference = load_u64(bytes, false);
    if (difference == 0) {
        *number = reader->new_number++;
    } else if (difference >> (8 * decoder->width - 1) == 0) {
        *number = reader->before + difference - 1;
    } else {
        *number = reader->before - (modulus - difference + 1);
    }
    reader->before = *number;
    return *number < decoder->names.count;
}

static struct member_reader read_members(const struct decoder *decoder, const struct plan *plan)
{
    return (struct member_reader){
        .decoder = decoder, .next = plan->first_member, .new_number = plan->first_number};
}

/* Goes over a chunk's names without copying any: how large is it? */
static bool measure_chunk(struct decoder *decoder, struct plan *plan, uint64_t *new_number)
{
    struct member_reader reader;

    plan->first_number = *new_number;
    reader = read_members(decoder, plan);
    for (uint64_t i = 0; i < plan->size; i++) {
        uint64_t number, size;

        if (!take_number(&reader, &number))
            return false;
        size = name_table_get(&decoder->names, (size_t)number).size + 1;
        if (size > decoder->inflated_left)
            return false;
        decoder->inflated_left -= size;
        plan->text_size += size;
    }
    if (plan->text_size > ZLIB_AGAIN_SIZE_MAX)
        return false;
    plan->text_size--; /* the last has no separator */
    *new_number = reader.new_number;
    return true;
}

static bool take_plan(struct decoder *decoder, struct bytes *pieces, struct plan *plan,
                      uint64_t *member, uint64_t *new_number)
{
    uint64_t form, members = decoder->members.size / decoder->width;

    if (!bytes_take_uleb128(pieces, &form) || !bytes_take_uleb128(pieces, &plan->size) ||
        form > FORM_BYTES)
        return false;
    plan->form = (enum form)form;
    if (!has_names(plan->form))
        return true;
    if (plan->size == 0 || plan->size > members - *member)
        return false;
    plan->first_member = *member;
    *member += plan->size;
    return measure_chunk(decoder, plan, new_number);
}

static enum compact_result take_plans(struct decoder *decoder, struct bytes pieces)
{
    uint64_t width, count, member = 0, new_number = 0;

    if (!bytes_take_uleb128(&pieces, &width) || width < WIDTH_MIN || width > WIDTH_MAX ||
        !bytes_take_uleb128(&pieces, &count) || count > pieces.size / 2 ||
        decoder->members.size % width != 0)
        return COMPACT_UNFIT;
    decoder->width = (unsigned)width;
    decoder->plans = calloc((size_t)count + 1, sizeof(*decoder->plans));
    if (decoder->plans == NULL)
        return COMPACT_NO_MEMORY;
    decoder->count = (size_t)count;
    for (size_t i = 0; i < decoder->count; i++) {
        if (!take_plan(decoder, &pieces, &decoder->plans[i], &member, &new_number))
            return COMPACT_UNFIT;
    }
    return COMPACT_DONE;
}

/* Puts a chunk's text together; it has been measured. */
static bool gather_text(const struct decoder *decoder, const struct plan *plan, struct buffer *text)
{
    struct member_reader reader = read_members(decoder, plan);

    if (!buffer_reserve(text, (size_t)plan->text_size + 1))
        return false;
    for (uint64_t i = 0; i < plan->size; i++) {
        uint64_t number = 0;
        struct bytes name;

        take_number(&reader, &number);
        name = name_table_get(&decoder->names, (size_t)number);
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
    struct zlib_memo *memo = decoder->context->memo;
    struct buffer text = {0};

    if (!has_names(plan->form))
        return;
    if (!gather_text(decoder, plan, &text)) {
        plan->result = COMPACT_NO_MEMORY;
    } else if (plan->form == FORM_STORED) {
        plan->stream = text;
        return;
    } else if (memo == NULL ||
               !zlib_memo_find(memo, buffer_view(&text), level_of(plan->form), &plan->known)) {
        if (!zlib_again(buffer_view(&text), level_of(plan->form), &plan->stream))
            plan->result = COMPACT_NO_MEMORY;
    }
    buffer_free(&text);
}

static enum compact_result put_piece(struct decoder *decoder, struct plan *plan, uint64_t left,
                                     struct buffer *section)
{
    struct bytes stream = plan->known.data != NULL ? plan->known : buffer_view(&plan->stream);
    bool done;

    if (plan->result != COMPACT_DONE)
        return plan->result;
    if (!has_names(plan->form) && plan->size > left)
        return COMPACT_UNFIT;
    if (plan->form == FORM_ZEROS) {
        done = buffer_append_zeros(section, (size_t)plan->size);
    } else if (plan->form == FORM_BYTES) {
        if (!bytes_slice(decoder->bytes, 0, plan->size, &stream) ||
            !bytes_slice(decoder->bytes, plan->size, decoder->bytes.size - plan->size,
                         &decoder->bytes))
            return COMPACT_UNFIT;
        done = buffer_append(section, stream.data, (size_t)stream.size);
    } else {
        if (stream.size > left)
            return COMPACT_UNFIT;
        done = buffer_append_uleb128(section, plan->text_size) &&
               buffer_append_uleb128(section, plan->form == FORM_STORED ? 0 : stream.size) &&
               buffer_append(section, stream.data, (size_t)stream.size);
    }
    return done ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

static enum compact_result put_pieces_together(struct decoder *decoder, uint64_t size,
                                               struct buffer *section)
{
    size_t start = section->size;

    parallel_run(decoder->count, decoder->context->threads, make_stream, decoder);
    for (size_t i = 0; i < decoder->count; i++) {
        uint64_t made = section->size - start;
        enum compact_result result =
            made > size ? COMPACT_UNFIT
                        : put_piece(decoder, &decoder->plans[i], size - made, section);

        if (result != COMPACT_DONE)
            return result;
    }
    return COMPACT_DONE;
}

static enum compact_result decode(const struct compact_context *context,
                                  struct compact_parts *parts, uint64_t size,
                                  struct buffer *section)
{
    struct decoder decoder = {.context = context,
                              .members = buffer_view(&parts->parts[PART_MEMBERS]),
                              .bytes = buffer_view(&parts->parts[PART_BYTES])};
    struct buffer text = {0};
    bool had_memory = true;
    enum compact_result result;

    if (parts->count != PART_COUNT)
        return COMPACT_UNFIT;
    decoder.inflated_left =
        INFLATED_FREE + INFLATED_PER_BYTE * (parts->parts[PART_TEXT].size + decoder.members.size);
    text = parts->parts[PART_TEXT];
    parts->parts[PART_TEXT] = (struct buffer){0};
    if (name_table_index(&decoder.names, &text, &had_memory))
        result = take_plans(&decoder, buffer_view(&parts->parts[PART_PIECES]));
    else
        result = had_memory ? COMPACT_UNFIT : COMPACT_NO_MEMORY;
    if (result == COMPACT_DONE)
        result = put_pieces_together(&decoder, size, section);
    parts->parts[PART_TEXT] = decoder.names.text;
    decoder.names.text = (struct buffer){0};
    for (size_t i = 0; i < decoder.count; i++)
        buffer_free(&decoder.plans[i].stream);
    free(decoder.plans);
    name_table_free(&decoder.names);
    return result;
}

const struct compact_transform compact_names_1 = {
    .type = COMPACT_NAMES_1,
    .kinds = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES),
    .encode = encode,
    .decode = decode,
};
