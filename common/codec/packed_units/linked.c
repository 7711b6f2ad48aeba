/*
 * The linked coverage mapping of an image of packed objects, stored in terms of the ordinary one
 * that is made of it: "Linked mapping" in docs/format.md.
 *
 * The units of both are the same, in the same order, so of each only whether it was packed is
 * stored, and which records it has. A packed unit is written again as `covsplit pack` wrote it. The
 * records of objects that were not packed are the linked __llvm_covfun.
 */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/numbers.h"
#include "common/base/parallel.h"
#include "common/codec/packed_units/linked_records.h"
#include "common/codec/record_padding.h"
#include "common/codec/streams.h"
#include "common/codec/transforms.h"

/* The codes of units. */
enum {
    UNIT_ORDINARY = 0,
    UNIT_PACKED = 1,
};

/* How many packed units are made at a time, by several threads; unless they have this much text. */
#define BATCH_UNITS 32
#define BATCH_TEXT  ((size_t)4 << 20)

/* The streams have a byte or two for a record, of which a section may have one for two bytes. */
#define STREAMS_PER_BYTE 4

static enum result put_rest(struct streams *streams, struct bytes section, uint64_t offset)
{
    return offset == section.size ||
                   buffer_append(&streams->stream[LINKED_REST], section.data + offset,
                                 (size_t)(section.size - offset))
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* What is left of the section after what was decoded. */
static enum result take_rest(const struct linked_reader *reader, const struct streams *streams,
                             uint64_t left, struct buffer *section)
{
    const struct buffer *rest = &streams->stream[LINKED_REST];

    if (!linked_reader_at_end(reader) || rest->size != left)
        return RESULT_UNFIT;
    return buffer_append(section, rest->data, rest->size) ? RESULT_OK : RESULT_NO_MEMORY;
}

/* ---- units, encoding ---- */

static enum result encode_packed(struct linked_writer *writer,
                                 const struct transform_context *context, struct bytes packed,
                                 const struct known_unit *ordinary, struct packed_unit *unit)
{
    struct buffer *units = &writer->streams->stream[LINKED_UNITS];
    enum result result =
        packed_unit_read(unit, packed, context->big_endian, transform_memory_limit(context));

    if (result != RESULT_OK)
        return result;
    if (unit->version != ordinary->version || !bytes_equal(unit->filenames, ordinary->filenames))
        return RESULT_UNFIT;
    if (!buffer_append_uleb128(units, UNIT_PACKED) || !buffer_append_uleb128(units, unit->count))
        return RESULT_NO_MEMORY;
    linked_writer_start_list(writer);
    for (size_t i = 0; result == RESULT_OK && i < unit->count; i++)
        result = linked_writer_put(writer, &unit->records[i], ordinary->first);
    return result;
}

static enum result encode_units(struct linked_writer *writer,
                                const struct transform_context *context, struct bytes section,
                                struct packed_unit *unit)
{
    struct bytes rest = section, packed;
    uint64_t offset = 0;
    size_t number = 0;
    enum result result = RESULT_OK;

    for (; number < writer->known.unit_count; number++) {
        const struct known_unit *ordinary = &writer->known.units[number];
        struct covmap_unit found;

        if (packed_unit_take(&rest, context->big_endian, &packed)) {
            result = encode_packed(writer, context, packed, ordinary, unit);
            if (result != RESULT_OK)
                return result;
        } else if (covmap_take_unhashed(&rest, context->big_endian, &found)) {
            if (found.version != ordinary->version ||
                !bytes_equal(found.filenames, ordinary->filenames))
                return RESULT_UNFIT;
            if (!buffer_append_uleb128(&writer->streams->stream[LINKED_UNITS], UNIT_ORDINARY))
                return RESULT_NO_MEMORY;
        } else {
            break;
        }
        offset = section.size - rest.size;
    }
    return put_rest(writer->streams, section, offset);
}

static enum result encode_covmap(const struct transform_context *context, struct bytes section,
                                 struct streams *streams)
{
    struct linked_writer writer = {0};
    struct packed_unit unit = {0};
    enum result result = linked_writer_start(&writer, context, streams);

    if (result == RESULT_OK)
        result = encode_units(&writer, context, section, &unit);
    if (result == RESULT_OK)
        result = linked_writer_finish(&writer);
    packed_unit_free(&unit);
    linked_writer_free(&writer);
    return result;
}

/* ---- units, decoding ---- */

/* A unit that is to be made. */
struct piece {
    const struct known_unit *ordinary;
    bool is_packed;
    struct packed_unit unit; /* the text is that of the mappings */
    struct buffer made;
    enum result result;
};

struct covmap_decoder {
    const struct transform_context *context;
    struct linked_reader reader;
    struct bytes units;
    size_t unit_count; /* units that were taken */
    struct piece pieces[BATCH_UNITS];
};

static void free_pieces(struct covmap_decoder *decoder)
{
    for (size_t i = 0; i < BATCH_UNITS; i++) {
        packed_unit_free(&decoder->pieces[i].unit);
        buffer_free(&decoder->pieces[i].made);
    }
}

/* Takes `count` records, and lets their mappings point into the text. */
static enum result take_records(struct covmap_decoder *decoder, struct piece *piece, uint64_t count)
{
    struct packed_unit *unit = &piece->unit;
    const uint8_t *mapping;

    linked_reader_start_list(&decoder->reader);
    for (uint64_t i = 0; i < count; i++) {
        enum result result;

        if (!ARRAY_ROOM_FOR_ONE(unit->records, unit->capacity, unit->count))
            return RESULT_NO_MEMORY;
        result = linked_reader_take(&decoder->reader, piece->ordinary->first,
                                    &unit->records[unit->count++], &unit->text);
        if (result != RESULT_OK)
            return result;
        if (unit->text.size > transform_memory_limit(decoder->context))
            return RESULT_OVER_LIMIT;
    }
    mapping = unit->text.data;
    for (size_t i = 0; mapping != NULL && i < unit->count; i++) { /* NULL: all are empty */
        unit->records[i].mapping.data = mapping;
        mapping += unit->records[i].mapping.size;
    }
    return RESULT_OK;
}

static enum result take_piece(struct covmap_decoder *decoder, struct piece *piece)
{
    uint64_t code, count;

    if (decoder->unit_count == decoder->reader.known.unit_count ||
        !bytes_take_uleb128(&decoder->units, &code) || code > UNIT_PACKED)
        return RESULT_UNFIT;
    piece->ordinary = &decoder->reader.known.units[decoder->unit_count++];
    piece->is_packed = code == UNIT_PACKED;
    piece->made.size = 0;
    piece->unit.version = piece->ordinary->version;
    piece->unit.filenames = piece->ordinary->filenames;
    piece->unit.count = 0;
    piece->unit.text.size = 0;
    if (!piece->is_packed)
        return RESULT_OK;
    return bytes_take_uleb128(&decoder->units, &count) ? take_records(decoder, piece, count)
                                                       : RESULT_UNFIT;
}

static enum result make_ordinary(const struct piece *piece, bool big_endian, struct buffer *made)
{
    struct bytes filenames = piece->ordinary->filenames;
    uint8_t header[COVMAP_HEADER_SIZE] = {0};

    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, big_endian);
    store_u32(header + COVMAP_VERSION, piece->ordinary->version, big_endian);
    return buffer_append(made, header, sizeof(header)) &&
                   buffer_append(made, filenames.data, (size_t)filenames.size)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static void make_piece(void *context, size_t index)
{
    struct covmap_decoder *decoder = context;
    struct piece *piece = &decoder->pieces[index];
    bool big_endian = decoder->context->big_endian;

    piece->result = piece->is_packed ? packed_unit_write(&piece->unit, big_endian, &piece->made)
                                     : make_ordinary(piece, big_endian, &piece->made);
}

/* Makes some units. */
static enum result decode_batch(struct covmap_decoder *decoder, size_t start, uint64_t size,
                                struct buffer *section)
{
    size_t count = 0, text = 0;

    while (count < BATCH_UNITS && text < BATCH_TEXT && decoder->units.size != 0) {
        struct piece *piece = &decoder->pieces[count++];
        enum result result = take_piece(decoder, piece);

        if (result != RESULT_OK)
            return result;
        text += piece->unit.text.size;
    }
    parallel_run(count, decoder->context->threads, make_piece, decoder);
    for (size_t i = 0; i < count; i++) {
        const struct piece *piece = &decoder->pieces[i];

        if (piece->result != RESULT_OK)
            return piece->result;
        if (piece->made.size > size - (section->size - start))
            return RESULT_UNFIT;
        if (!buffer_append(section, piece->made.data, piece->made.size) ||
            !record_padding_append(section, start, size))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

static enum result decode_covmap_with(struct covmap_decoder *decoder, const struct streams *streams,
                                      uint64_t size, struct buffer *section)
{
    size_t start = section->size;
    enum result result = linked_reader_start(&decoder->reader, decoder->context, streams, size);

    decoder->units = buffer_view(&streams->stream[LINKED_UNITS]);
    while (result == RESULT_OK && decoder->units.size != 0)
        result = decode_batch(decoder, start, size, section);
    return result == RESULT_OK
               ? take_rest(&decoder->reader, streams, size - (section->size - start), section)
               : result;
}

static enum result decode_covmap(const struct transform_context *context, struct streams *streams,
                                 uint64_t size, struct buffer *section)
{
    struct covmap_decoder *decoder;
    enum result result;

    if (streams->count != LINKED_STREAMS)
        return RESULT_UNFIT;
    decoder = calloc(1, sizeof(*decoder));
    if (decoder == NULL)
        return RESULT_NO_MEMORY;
    decoder->context = context;
    result = decode_covmap_with(decoder, streams, size, section);
    free_pieces(decoder);
    linked_reader_free(&decoder->reader);
    free(decoder);
    return result;
}

/* ---- records of objects that are not packed ---- */

static enum result encode_records(struct linked_writer *writer, bool big_endian,
                                  struct bytes section, struct mapping *mapping)
{
    struct buffer *units = &writer->streams->stream[LINKED_UNITS];
    struct bytes rest = section;
    uint64_t offset = 0;
    uint32_t before = 0;
    struct covfun_record found;

    linked_writer_start_list(writer);
    while (covfun_take(&rest, big_endian, &found)) {
        struct packed_record record = {.name_reference = found.name_reference,
                                       .function_hash = found.function_hash,
                                       .mapping = found.mapping};
        uint32_t unit = known_records_unit(&writer->known, found.filenames_reference);
        enum result result;

        if (unit == UINT32_MAX)
            break;
        if (known_group(mapping, &found, &record.group) == RESULT_NO_MEMORY ||
            !buffer_append_uleb128(units, zigzag((uint64_t)unit - before)))
            return RESULT_NO_MEMORY;
        before = unit;
        result = linked_writer_put(writer, &record, unit);
        if (result != RESULT_OK)
            return result;
        offset = section.size - rest.size;
    }
    return put_rest(writer->streams, section, offset);
}

static enum result encode_covfun(const struct transform_context *context, struct bytes section,
                                 struct streams *streams)
{
    struct linked_writer writer = {0};
    struct mapping mapping = {0};
    enum result result = linked_writer_start(&writer, context, streams);

    if (result == RESULT_OK)
        result = encode_records(&writer, context->big_endian, section, &mapping);
    if (result == RESULT_OK)
        result = linked_writer_finish(&writer);
    mapping_free(&mapping);
    linked_writer_free(&writer);
    return result;
}

static enum result decode_record(struct linked_reader *reader, uint32_t unit, bool big_endian,
                                 uint64_t left, struct buffer *section)
{
    size_t start = section->size;
    struct packed_record record;
    enum result result;
    uint8_t *header;

    if (!buffer_append_zeros(section, COVFUN_HEADER_SIZE))
        return RESULT_NO_MEMORY;
    result = linked_reader_take(reader, unit, &record, section);
    if (result != RESULT_OK)
        return result;
    if (section->size - start > left)
        return RESULT_UNFIT;
    header = section->data + start;
    store_u64(header + COVFUN_NAME_REF, record.name_reference, big_endian);
    store_u32(header + COVFUN_DATA_SIZE, (uint32_t)record.mapping.size, big_endian);
    store_u64(header + COVFUN_FUNC_HASH, record.function_hash, big_endian);
    store_u64(header + COVFUN_FILENAMES_REF, reader->known.units[unit].reference, big_endian);
    return RESULT_OK;
}

static enum result decode_records(struct linked_reader *reader, bool big_endian,
                                  const struct streams *streams, uint64_t size,
                                  struct buffer *section)
{
    struct bytes units = buffer_view(&streams->stream[LINKED_UNITS]);
    size_t start = section->size;
    uint64_t unit = 0, step;

    linked_reader_start_list(reader);
    while (units.size != 0) {
        enum result result;

        if (!bytes_take_uleb128(&units, &step))
            return RESULT_UNFIT;
        unit += unzigzag(step);
        if (unit >= reader->known.unit_count)
            return RESULT_UNFIT;
        result = decode_record(reader, (uint32_t)unit, big_endian, size - (section->size - start),
                               section);
        if (result != RESULT_OK)
            return result;
        if (!record_padding_append(section, start, size))
            return RESULT_NO_MEMORY;
    }
    return take_rest(reader, streams, size - (section->size - start), section);
}

static enum result decode_covfun(const struct transform_context *context, struct streams *streams,
                                 uint64_t size, struct buffer *section)
{
    struct linked_reader reader = {0};
    enum result result;

    if (streams->count != LINKED_STREAMS)
        return RESULT_UNFIT;
    result = linked_reader_start(&reader, context, streams, size);
    if (result == RESULT_OK)
        result = decode_records(&reader, context->big_endian, streams, size, section);
    linked_reader_free(&reader);
    return result;
}

const struct transform linked_covmap_transform = {
    .id = TRANSFORM_LINKED_COVMAP,
    .kinds = SECTION_BIT(SECTION_LINKED_COVMAP),
    .needs_mapping = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode_covmap,
    .decode = decode_covmap,
};

const struct transform linked_covfun_transform = {
    .id = TRANSFORM_LINKED_COVFUN,
    .kinds = SECTION_BIT(SECTION_LINKED_COVFUN),
    .needs_mapping = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode_covfun,
    .decode = decode_covfun,
};
