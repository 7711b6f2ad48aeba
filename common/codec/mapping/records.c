/*
 * Function records of the coverage mapping: "The mapping of functions" in docs/format.md.
 *
 * NameRef follows from the names, and FuncHash from the data; there is one FilenamesRef for each
 * translation unit. Identical mappings, such as those of the instances of a C++ template, are
 * stored once. How a mapping is encoded is described in regions.h and counters.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/codec/data_records.h"
#include "common/codec/mapping/regions.h"
#include "common/codec/name_refs.h"
#include "common/codec/record_padding.h"
#include "common/codec/transforms.h"
#include "common/llvm/coverage.h"

/* How much larger than a mapping the buffer for it may be, in bytes. */
#define MAPPING_ROOM ((uint64_t)16 << 10)

/* A number takes at least one byte in the section, and hardly more than ten in the streams: a code
 * of one byte, and a difference. */
#define STREAMS_PER_BYTE 16

enum hash_form {
    HASH_OF_DATA,
    HASH_ZERO,
    HASH_OTHER,
};

enum mapping_form {
    MAPPING_NEW,
    MAPPING_RAW,
};

struct record {
    uint64_t name_ref, func_hash, filenames_ref;
    struct bytes mapping;
};

/* ---- hashes that the data does not have ---- */

/* Stores a hash as a number of bytes, and these bytes in little-endian order: hashes of simple
 * functions have few. */
static bool put_other_hash(uint64_t hash, struct buffer *sizes, struct buffer *bytes)
{
    uint8_t stored[8];
    uint8_t size = 0;

    store_u64(stored, hash, false);
    while (size < 8 && hash >> 8 * size != 0)
        size++;
    return buffer_append(sizes, &size, 1) && buffer_append(bytes, stored, size);
}

static bool take_other_hash(struct bytes *sizes, struct bytes *bytes, uint64_t *hash)
{
    const uint8_t *size = take_bytes(sizes, 1), *stored;

    if (size == NULL || *size > 8)
        return false;
    stored = take_bytes(bytes, *size);
    if (stored == NULL && *size != 0)
        return false;
    *hash = 0;
    for (unsigned i = 0; i < *size; i++)
        *hash |= (uint64_t)stored[i] << 8 * i;
    return true;
}

/* ---- encoding ---- */

struct encoder {
    const struct transform_context *context;
    struct streams *streams;
    struct name_refs name_refs;
    const struct data_records *data;
    struct data_records own_data; /* used if the context has none */
    struct intern_table filenames;
    uint64_t filenames_before;
    struct intern_table mappings; /* by digest */
    struct mapping mapping;
    struct counters counters;
    struct regions regions;
};

static bool put_hash(struct encoder *encoder, const struct record *record)
{
    uint64_t hash;

    if (data_records_find_hash(encoder->data, record->name_ref, &hash) && hash == record->func_hash)
        return stream_put_byte(encoder->streams, STREAM_FUNC_HASH_CODES, HASH_OF_DATA);
    if (record->func_hash == 0)
        return stream_put_byte(encoder->streams, STREAM_FUNC_HASH_CODES, HASH_ZERO);
    return stream_put_byte(encoder->streams, STREAM_FUNC_HASH_CODES, HASH_OTHER) &&
           put_other_hash(record->func_hash, &encoder->streams->stream[STREAM_FUNC_HASH_SIZES],
                          &encoder->streams->stream[STREAM_FUNC_HASH_BYTES]);
}

static bool put_filenames(struct encoder *encoder, uint64_t reference)
{
    uint64_t known = encoder->filenames.count, number, before = encoder->filenames_before;
    uint8_t bytes[8];

    encoder->filenames_before = reference;
    if (known != 0 && reference == before)
        return stream_put(encoder->streams, STREAM_FILENAMES_REF_CODES, 0);
    if (!intern_table_add(&encoder->filenames, reference, &number))
        return false;
    if (number != known)
        return stream_put(encoder->streams, STREAM_FILENAMES_REF_CODES, 2 + number);
    store_u64(bytes, reference, false);
    return stream_put(encoder->streams, STREAM_FILENAMES_REF_CODES, 1) &&
           buffer_append(&encoder->streams->stream[STREAM_FILENAMES_REFS], bytes, sizeof(bytes));
}

static bool put_raw_mapping(struct encoder *encoder, struct bytes mapping)
{
    return stream_put(encoder->streams, STREAM_MAPPING_CODES, MAPPING_RAW) &&
           stream_put(encoder->streams, STREAM_MAPPING_CODES, mapping.size) &&
           (mapping.size == 0 || buffer_append(&encoder->streams->stream[STREAM_RAW_MAPPINGS],
                                               mapping.data, (size_t)mapping.size));
}

static enum result put_mapping(struct encoder *encoder, const struct record *record)
{
    struct bytes bytes = record->mapping;
    struct digest digest = digest_of(bytes);
    uint64_t known = encoder->mappings.count, number;
    enum result result;

    if (!intern_table_add(&encoder->mappings, load_u64(digest.bytes, false), &number))
        return RESULT_NO_MEMORY;
    if (number != known)
        return stream_put(encoder->streams, STREAM_MAPPING_CODES, 1 + known - number)
                   ? RESULT_OK
                   : RESULT_NO_MEMORY;
    result = mapping_read(&encoder->mapping, bytes);
    if (result == RESULT_OK)
        result = counters_start_writing(&encoder->counters, &encoder->mapping);
    if (result == RESULT_NO_MEMORY)
        return result;
    if (result == RESULT_UNFIT)
        return put_raw_mapping(encoder, bytes) ? RESULT_OK : RESULT_NO_MEMORY;
    return stream_put(encoder->streams, STREAM_MAPPING_CODES, MAPPING_NEW) &&
                   regions_put(&encoder->regions, &encoder->counters, &encoder->mapping,
                               encoder->streams)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* Takes the record at *offset and moves *offset to the next. False if there is no valid record. */
static bool take_record(struct bytes section, bool big, uint64_t *offset, struct record *record)
{
    struct bytes header;
    uint64_t end;

    if (!bytes_slice(section, *offset, COVFUN_HEADER_SIZE, &header) ||
        !bytes_slice(section, *offset + COVFUN_HEADER_SIZE,
                     load_u32(header.data + COVFUN_DATA_SIZE, big), &record->mapping))
        return false;
    record->name_ref = load_u64(header.data + COVFUN_NAME_REF, big);
    record->func_hash = load_u64(header.data + COVFUN_FUNC_HASH, big);
    record->filenames_ref = load_u64(header.data + COVFUN_FILENAMES_REF, big);
    end = *offset + COVFUN_HEADER_SIZE + record->mapping.size;
    if (!record_padding_take(section, &end))
        return false;
    *offset = end;
    return true;
}

static enum result encode_all(struct encoder *encoder, struct bytes section)
{
    struct streams *streams = encoder->streams;
    struct record record;
    uint64_t offset = 0;

    encoder->data = encoder->context->records;
    if (encoder->data == NULL) {
        encoder->data = &encoder->own_data;
        if (!data_records_start(&encoder->own_data, encoder->context))
            return RESULT_NO_MEMORY;
    }
    if (!regions_start_writing(&encoder->regions))
        return RESULT_NO_MEMORY;
    encoder->name_refs =
        (struct name_refs){.names = encoder->context->names, .data = encoder->data};
    while (take_record(section, encoder->context->big_endian, &offset, &record)) {
        enum result result;

        if (!name_refs_put(&encoder->name_refs, record.name_ref,
                           &streams->stream[STREAM_NAME_REF_CODES],
                           &streams->stream[STREAM_NAME_REF_OPERANDS]) ||
            !put_hash(encoder, &record) || !put_filenames(encoder, record.filenames_ref))
            return RESULT_NO_MEMORY;
        result = put_mapping(encoder, &record);
        if (result != RESULT_OK)
            return result;
    }
    if (!regions_finish_writing(&encoder->regions, streams))
        return RESULT_NO_MEMORY;
    return offset == section.size ||
                   buffer_append(&streams->stream[STREAM_REST], section.data + offset,
                                 (size_t)(section.size - offset))
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct encoder encoder = {.context = context, .streams = streams};
    enum result result;

    streams->count = MAPPING_STREAMS;
    result = encode_all(&encoder, section);
    data_records_free(&encoder.own_data);
    intern_table_free(&encoder.filenames);
    intern_table_free(&encoder.mappings);
    mapping_free(&encoder.mapping);
    counters_free(&encoder.counters);
    regions_free(&encoder.regions);
    return result;
}

/* ---- decoding ---- */

/* A mapping that has occurred before: where it is in the section. */
struct known_mapping {
    size_t offset;
    uint32_t size;
};

struct decoder {
    const struct transform_context *context;
    struct stream_cursors cursors;
    /* The unread rests of the streams for which there are no cursors. */
    struct bytes name_ref_codes, name_ref_operands, hash_sizes, hashes, raw;
    struct name_refs name_refs;
    const struct data_records *data;
    struct data_records own_data; /* used if the context has none */
    struct bytes filenames_refs;  /* all of them */
    uint64_t filenames_known;
    uint64_t filenames_before;
    struct buffer known; /* struct known_mapping */
    struct mapping mapping;
    struct counters counters;
    struct regions regions;
};

static bool get_hash(struct decoder *decoder, struct record *record)
{
    uint8_t form;

    form = stream_take_byte(&decoder->cursors, STREAM_FUNC_HASH_CODES);
    if (decoder->cursors.result != RESULT_OK || form > HASH_OTHER)
        return false;
    record->func_hash = 0;
    if (form == HASH_OF_DATA)
        return data_records_find_hash(decoder->data, record->name_ref, &record->func_hash);
    return form == HASH_ZERO ||
           take_other_hash(&decoder->hash_sizes, &decoder->hashes, &record->func_hash);
}

static bool get_filenames(struct decoder *decoder, struct record *record)
{
    uint64_t code, number;
    struct bytes stored;

    code = stream_take(&decoder->cursors, STREAM_FILENAMES_REF_CODES);
    if (decoder->cursors.result != RESULT_OK || (code == 0 && decoder->filenames_known == 0))
        return false;
    if (code != 0) {
        number = code == 1 ? decoder->filenames_known++ : code - 2;
        if (number >= decoder->filenames_known || number > UINT32_MAX ||
            !bytes_slice(decoder->filenames_refs, number * 8, 8, &stored))
            return false;
        decoder->filenames_before = load_u64(stored.data, false);
    }
    record->filenames_ref = decoder->filenames_before;
    return true;
}

/* Decodes a mapping. `limit`: how many bytes the section may still grow by. */
static enum result make_mapping(struct decoder *decoder, uint64_t limit, struct buffer *section)
{
    enum result result;

    mapping_clear(&decoder->mapping);
    if (!counters_start(&decoder->counters))
        return RESULT_NO_MEMORY;
    result = regions_take(&decoder->regions, &decoder->counters, &decoder->cursors, limit,
                          &decoder->mapping);
    if (result == RESULT_OK)
        result = counters_finish_reading(&decoder->counters, &decoder->mapping, limit / 2);
    if (result != RESULT_OK)
        return result;
    return mapping_write_files(&decoder->mapping, section) &&
                   counter_nodes_write_table(&decoder->counters.nodes, section) &&
                   mapping_write_regions(&decoder->mapping, section)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result copy_known(const struct decoder *decoder, uint64_t ago, uint64_t limit,
                              struct buffer *section)
{
    const struct known_mapping *known = (const struct known_mapping *)(void *)decoder->known.data;
    uint64_t count = decoder->known.size / sizeof(*known);

    if (ago == 0 || ago > count || known[count - ago].size > limit)
        return RESULT_UNFIT;
    known += count - ago;
    if (!buffer_reserve(section, known->size))
        return RESULT_NO_MEMORY;
    memcpy(section->data + section->size, section->data + known->offset, known->size);
    section->size += known->size;
    return RESULT_OK;
}

static enum result copy_raw(struct decoder *decoder, uint64_t limit, struct buffer *section)
{
    uint64_t size = stream_take(&decoder->cursors, STREAM_MAPPING_CODES);
    const uint8_t *bytes;

    if (decoder->cursors.result != RESULT_OK || size > limit)
        return RESULT_UNFIT;
    bytes = take_bytes(&decoder->raw, size);
    if (bytes == NULL && size != 0)
        return RESULT_UNFIT;
    return size == 0 || buffer_append(section, bytes, (size_t)size) ? RESULT_OK : RESULT_NO_MEMORY;
}

static enum result get_mapping(struct decoder *decoder, uint64_t limit, struct buffer *section)
{
    struct known_mapping known = {.offset = section->size};
    enum result result;
    uint64_t code = stream_take(&decoder->cursors, STREAM_MAPPING_CODES);

    if (decoder->cursors.result != RESULT_OK)
        return RESULT_UNFIT;
    if (code > MAPPING_RAW)
        return copy_known(decoder, code - 1, limit, section);
    result = code == MAPPING_NEW ? make_mapping(decoder, limit, section)
                                 : copy_raw(decoder, limit, section);
    if (result != RESULT_OK)
        return result;
    if (section->size - known.offset > UINT32_MAX || section->size - known.offset > limit)
        return RESULT_UNFIT;
    known.size = (uint32_t)(section->size - known.offset);
    return buffer_append(&decoder->known, &known, sizeof(known)) ? RESULT_OK : RESULT_NO_MEMORY;
}

/* `left`: how many bytes the section may still grow by. */
static enum result decode_record(struct decoder *decoder, uint64_t left, struct buffer *section)
{
    bool big = decoder->context->big_endian;
    size_t start = section->size;
    enum result result;
    struct record record;
    uint8_t *header;

    if (left < COVFUN_HEADER_SIZE)
        return RESULT_UNFIT;
    if (!name_refs_take(&decoder->name_refs, &decoder->name_ref_codes, &decoder->name_ref_operands,
                        &record.name_ref) ||
        !get_hash(decoder, &record) || !get_filenames(decoder, &record))
        return RESULT_UNFIT;
    if (!buffer_append_zeros(section, COVFUN_HEADER_SIZE))
        return RESULT_NO_MEMORY;
    result = get_mapping(decoder, left - COVFUN_HEADER_SIZE, section);
    if (result != RESULT_OK)
        return result;
    header = section->data + start;
    store_u64(header + COVFUN_NAME_REF, record.name_ref, big);
    store_u32(header + COVFUN_DATA_SIZE, (uint32_t)(section->size - start - COVFUN_HEADER_SIZE),
              big);
    store_u64(header + COVFUN_FUNC_HASH, record.func_hash, big);
    store_u64(header + COVFUN_FILENAMES_REF, record.filenames_ref, big);
    return RESULT_OK;
}

static enum result decode_all(struct decoder *decoder, struct bytes rest, uint64_t size,
                              struct buffer *section)
{
    size_t start = section->size;
    enum result result;

    decoder->data = decoder->context->records;
    if (decoder->data == NULL) {
        decoder->data = &decoder->own_data;
        if (!data_records_start(&decoder->own_data, decoder->context))
            return RESULT_NO_MEMORY;
    }
    decoder->name_refs =
        (struct name_refs){.names = decoder->context->names, .data = decoder->data};
    result = regions_start_reading(&decoder->regions, &decoder->cursors);
    if (result != RESULT_OK)
        return result;
    while (decoder->name_ref_codes.size != 0) {
        result = decode_record(decoder, size - (section->size - start), section);
        if (result != RESULT_OK)
            return result;
        if (!record_padding_append(section, start, size))
            return RESULT_NO_MEMORY;
    }
    if (rest.size != size - (section->size - start))
        return RESULT_UNFIT;
    return rest.size == 0 || buffer_append(section, rest.data, (size_t)rest.size)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* Makes room for the section in advance, so that it is not moved as it grows; but no more than such
 * streams usually decode to, whatever size is declared. False if out of memory. */
static bool make_room(const struct streams *streams, uint64_t size, struct buffer *section)
{
    static const struct stream_proportion frequent = {
        .per_part_byte = 8, .per_section_byte = 1, .besides = MAPPING_ROOM};

    return buffer_reserve(section,
                          (size_t)streams_bound(streams->stream, MAPPING_STREAMS, size, &frequent));
}

static void start_columns(struct decoder *decoder, const struct streams *streams)
{
    for (size_t i = 0; i < MAPPING_STREAMS; i++) {
        const struct buffer *part = &streams->stream[i];

        if (part->size != 0)
            decoder->cursors.stream[i] =
                (struct stream_cursor){part->data, part->data + part->size};
    }
    decoder->name_ref_codes = buffer_view(&streams->stream[STREAM_NAME_REF_CODES]);
    decoder->name_ref_operands = buffer_view(&streams->stream[STREAM_NAME_REF_OPERANDS]);
    decoder->hash_sizes = buffer_view(&streams->stream[STREAM_FUNC_HASH_SIZES]);
    decoder->hashes = buffer_view(&streams->stream[STREAM_FUNC_HASH_BYTES]);
    decoder->raw = buffer_view(&streams->stream[STREAM_RAW_MAPPINGS]);
    decoder->filenames_refs = buffer_view(&streams->stream[STREAM_FILENAMES_REFS]);
}

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    struct decoder decoder = {.context = context};
    enum result result;

    if (streams->count != MAPPING_STREAMS)
        return RESULT_UNFIT;
    start_columns(&decoder, streams);
    result = make_room(streams, size, section)
                 ? decode_all(&decoder, buffer_view(&streams->stream[STREAM_REST]), size, section)
                 : RESULT_NO_MEMORY;
    data_records_free(&decoder.own_data);
    buffer_free(&decoder.known);
    mapping_free(&decoder.mapping);
    counters_free(&decoder.counters);
    regions_free(&decoder.regions);
    return result;
}

/* ---- blocks ---- */

/* Cuts after the first record that ends at or after the wanted size; if there is none, takes all.
 */
static uint64_t cut(const struct transform_context *context, struct bytes section, uint64_t wanted)
{
    struct record record;
    uint64_t offset = 0;

    while (offset < wanted && take_record(section, context->big_endian, &offset, &record))
        continue;
    return offset < wanted ? section.size : offset;
}

const struct transform mapping_transform = {
    .id = TRANSFORM_MAPPING,
    .kinds = SECTION_BIT(SECTION_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};

const struct transform mapping_blocks_transform = {
    .id = TRANSFORM_MAPPING_BLOCKS,
    .kinds = SECTION_BIT(SECTION_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .block = &mapping_transform,
    .cut = cut,
};
