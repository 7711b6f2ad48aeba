/*
 * The coverage mapping of functions, version 3.
 *
 * The section is a run of records, each aligned to 8 bytes (LLVM's CoverageMappingFormat, versions
 * 4 to 7): NameRef (64 bits), DataSize (32), FuncHash (64), FilenamesRef (64), packed, and DataSize
 * bytes of mapping. NameRef follows from the names, FuncHash from the data; of the FilenamesRefs
 * there is one for each translation unit. Mappings that are the same, as those of a template's
 * instances are, are stored once. How mappings are taken apart is told in regions.h and
 * counters.h.
 *
 * Parts (mapping/streams.h), of each record:
 *   COVFUN_NAMES, COVFUN_OTHER_NAMES
 *                        NameRef, as name_numbers_put writes it
 *   COVFUN_HASH_FORMS    a byte: 0 where FuncHash is that of the first data record with the
 *                        NameRef; 1 where it is 0; else 2, and the hash is in COVFUN_HASH_SIZES
 *                        and COVFUN_HASHES as hash_put writes it
 *   COVFUN_FILENAMES     0 where FilenamesRef is that of the record before; 1 where it is new,
 *                        and in COVFUN_FILENAMES_REFS (8 bytes, low one first); else 2 plus the
 *                        number that it had when it was new
 *   COVFUN_MAPPINGS      0 where the mapping is new and taken apart; 1 where it is new and in
 *                        COVFUN_RAW as it is, its size being the next number in COVFUN_MAPPINGS;
 *                        else 1 plus how many new mappings ago it was new
 *   COVFUN_REST          what follows the last record that is of this form, as it is
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/codec/data_hashes.h"
#include "common/codec/mapping/regions.h"
#include "common/codec/name_refs.h"
#include "common/codec/record_padding.h"
#include "common/codec/transforms.h"

#define HEADER_SIZE 28

/* What a mapping is written into may be so much larger than what is written. */
#define MAPPING_ROOM ((uint64_t)16 << 10)

/* A number of the section takes one byte at least, and what tells it hardly more than ten: its own
 * byte, and a difference that takes more bytes than both numbers do. */
#define PARTS_PER_BYTE 16

enum {
    NAME_REF_OFFSET = 0,
    DATA_SIZE_OFFSET = 8,
    FUNC_HASH_OFFSET = 12,
    FILENAMES_REF_OFFSET = 20,
};

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

/* ---- encoding ---- */

struct encoder {
    const struct compact_context *context;
    struct compact_parts *parts;
    struct name_numbers names;
    const struct data_hashes *data;
    struct data_hashes own_data; /* where the context has none */
    struct number_table filenames;
    uint64_t filenames_before;
    struct number_table mappings; /* by digest */
    struct mapping mapping;
    struct counters counters;
    struct regions regions;
};

static bool put_hash(struct encoder *encoder, const struct record *record)
{
    uint64_t hash;

    if (data_hashes_find(encoder->data, record->name_ref, &hash) && hash == record->func_hash)
        return covfun_put_byte(encoder->parts, COVFUN_HASH_FORMS, HASH_OF_DATA);
    if (record->func_hash == 0)
        return covfun_put_byte(encoder->parts, COVFUN_HASH_FORMS, HASH_ZERO);
    return covfun_put_byte(encoder->parts, COVFUN_HASH_FORMS, HASH_OTHER) &&
           hash_put(record->func_hash, &encoder->parts->parts[COVFUN_HASH_SIZES],
                    &encoder->parts->parts[COVFUN_HASHES]);
}

static bool put_filenames(struct encoder *encoder, uint64_t reference)
{
    uint64_t known = encoder->filenames.count, number, before = encoder->filenames_before;
    uint8_t bytes[8];

    encoder->filenames_before = reference;
    if (known != 0 && reference == before)
        return covfun_put(encoder->parts, COVFUN_FILENAMES, 0);
    if (!number_table_get(&encoder->filenames, reference, &number))
        return false;
    if (number != known)
        return covfun_put(encoder->parts, COVFUN_FILENAMES, 2 + number);
    store_u64(bytes, reference, false);
    return covfun_put(encoder->parts, COVFUN_FILENAMES, 1) &&
           buffer_append(&encoder->parts->parts[COVFUN_FILENAMES_REFS], bytes, sizeof(bytes));
}

static bool put_raw_mapping(struct encoder *encoder, struct bytes mapping)
{
    return covfun_put(encoder->parts, COVFUN_MAPPINGS, MAPPING_RAW) &&
           covfun_put(encoder->parts, COVFUN_MAPPINGS, mapping.size) &&
           (mapping.size == 0 ||
            buffer_append(&encoder->parts->parts[COVFUN_RAW], mapping.data, (size_t)mapping.size));
}

static enum compact_result put_mapping(struct encoder *encoder, const struct record *record)
{
    struct bytes bytes = record->mapping;
    struct digest digest = digest_of(bytes);
    uint64_t known = encoder->mappings.count, number;
    enum compact_result result;

    if (!number_table_get(&encoder->mappings, load_u64(digest.bytes, false), &number))
        return COMPACT_NO_MEMORY;
    if (number != known)
        return covfun_put(encoder->parts, COVFUN_MAPPINGS, 1 + known - number) ? COMPACT_DONE
                                                                               : COMPACT_NO_MEMORY;
    result = mapping_read(&encoder->mapping, bytes);
    if (result == COMPACT_DONE)
        result = counters_start_writing(&encoder->counters, &encoder->mapping);
    if (result == COMPACT_NO_MEMORY)
        return result;
    if (result == COMPACT_UNFIT)
        return put_raw_mapping(encoder, bytes) ? COMPACT_DONE : COMPACT_NO_MEMORY;
    return covfun_put(encoder->parts, COVFUN_MAPPINGS, MAPPING_NEW) &&
                   regions_put(&encoder->regions, &encoder->counters, &encoder->mapping,
                               encoder->parts)
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

/* The record at the offset, and where the next is. False where there is none of this form. */
static bool take_record(struct bytes section, bool big, uint64_t *offset, struct record *record)
{
    struct bytes header;
    uint64_t end;

    if (!bytes_slice(section, *offset, HEADER_SIZE, &header) ||
        !bytes_slice(section, *offset + HEADER_SIZE, load_u32(header.data + DATA_SIZE_OFFSET, big),
                     &record->mapping))
        return false;
    record->name_ref = load_u64(header.data + NAME_REF_OFFSET, big);
    record->func_hash = load_u64(header.data + FUNC_HASH_OFFSET, big);
    record->filenames_ref = load_u64(header.data + FILENAMES_REF_OFFSET, big);
    end = *offset + HEADER_SIZE + record->mapping.size;
    if (!record_padding_take(section, &end))
        return false;
    *offset = end;
    return true;
}

static enum compact_result encode_all(struct encoder *encoder, struct bytes section)
{
    struct compact_parts *parts = encoder->parts;
    struct record record;
    uint64_t offset = 0;

    encoder->data = encoder->context->data_hashes;
    if (encoder->data == NULL) {
        encoder->data = &encoder->own_data;
        if (!data_hashes_start(&encoder->own_data, encoder->context))
            return COMPACT_NO_MEMORY;
    }
    if (!name_numbers_start_writing(&encoder->names, encoder->context) ||
        !number_table_start(&encoder->filenames) || !number_table_start(&encoder->mappings) ||
        !regions_start_writing(&encoder->regions))
        return COMPACT_NO_MEMORY;
    encoder->names.data = encoder->data;
    while (take_record(section, encoder->context->big_endian, &offset, &record)) {
        enum compact_result result;

        if (!name_numbers_put(&encoder->names, record.name_ref, &parts->parts[COVFUN_NAMES],
                              &parts->parts[COVFUN_OTHER_NAMES]) ||
            !put_hash(encoder, &record) || !put_filenames(encoder, record.filenames_ref))
            return COMPACT_NO_MEMORY;
        result = put_mapping(encoder, &record);
        if (result != COMPACT_DONE)
            return result;
    }
    if (!regions_finish_writing(&encoder->regions, parts))
        return COMPACT_NO_MEMORY;
    return offset == section.size ||
                   buffer_append(&parts->parts[COVFUN_REST], section.data + offset,
                                 (size_t)(section.size - offset))
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

static enum compact_result encode(const struct compact_context *context, struct bytes section,
                                  struct compact_parts *parts)
{
    struct encoder encoder = {.context = context, .parts = parts};
    enum compact_result result;

    parts->count = COVFUN_PART_COUNT;
    result = encode_all(&encoder, section);
    name_numbers_free(&encoder.names);
    data_hashes_free(&encoder.own_data);
    number_table_free(&encoder.filenames);
    number_table_free(&encoder.mappings);
    mapping_free(&encoder.mapping);
    counters_free(&encoder.counters);
    regions_free(&encoder.regions);
    return result;
}

/* ---- decoding ---- */

/* A mapping that has come, where it is in the section. */
struct known_mapping {
    size_t offset;
    uint32_t size;
};

struct decoder {
    const struct compact_context *context;
    struct covfun_columns columns;
    /* What is left of parts that are not only numbers and bytes. */
    struct bytes name_numbers, other_names, hash_sizes, hashes, raw;
    struct name_numbers names;
    const struct data_hashes *data;
    struct data_hashes own_data; /* where the context has none */
    struct bytes filenames_refs; /* all of them */
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

    form = covfun_take_byte(&decoder->columns, COVFUN_HASH_FORMS);
    if (decoder->columns.broken || form > HASH_OTHER)
        return false;
    record->func_hash = 0;
    if (form == HASH_OF_DATA)
        return data_hashes_find(decoder->data, record->name_ref, &record->func_hash);
    return form == HASH_ZERO ||
           hash_take(&decoder->hash_sizes, &decoder->hashes, &record->func_hash);
}

static bool get_filenames(struct decoder *decoder, struct record *record)
{
    uint64_t code, number;
    struct bytes stored;

    code = covfun_take(&decoder->columns, COVFUN_FILENAMES);
    if (decoder->columns.broken || (code == 0 && decoder->filenames_known == 0))
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

/* Puts a mapping together. `limit`: how much the section may still grow. */
static enum compact_result make_mapping(struct decoder *decoder, uint64_t limit,
                                        struct buffer *section)
{
    enum compact_result result;

    mapping_clear(&decoder->mapping);
    if (!counters_start(&decoder->counters))
        return COMPACT_NO_MEMORY;
    result = regions_take(&decoder->regions, &decoder->counters, &decoder->columns, limit,
                          &decoder->mapping);
    if (result == COMPACT_DONE)
        result = counters_finish_reading(&decoder->counters, &decoder->mapping, limit / 2);
    if (result != COMPACT_DONE)
        return result;
    return mapping_write_files(&decoder->mapping, section) &&
                   counter_nodes_write_table(&decoder->counters.nodes, section) &&
                   mapping_write_regions(&decoder->mapping, section)
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

static enum compact_result copy_known(const struct decoder *decoder, uint64_t ago, uint64_t limit,
                                      struct buffer *section)
{
    const struct known_mapping *known = (const struct known_mapping *)(void *)decoder->known.data;
    uint64_t count = decoder->known.size / sizeof(*known);

    if (ago == 0 || ago > count || known[count - ago].size > limit)
        return COMPACT_UNFIT;
    known += count - ago;
    if (!buffer_reserve(section, known->size))
        return COMPACT_NO_MEMORY;
    memcpy(section->data + section->size, section->data + known->offset, known->size);
    section->size += known->size;
    return COMPACT_DONE;
}

static enum compact_result copy_raw(struct decoder *decoder, uint64_t limit, struct buffer *section)
{
    uint64_t size = covfun_take(&decoder->columns, COVFUN_MAPPINGS);
    const uint8_t *bytes;

    if (decoder->columns.broken || size > limit)
        return COMPACT_UNFIT;
    bytes = take_bytes(&decoder->raw, size);
    if (bytes == NULL && size != 0)
        return COMPACT_UNFIT;
    return size == 0 || buffer_append(section, bytes, (size_t)size) ? COMPACT_DONE
                                                                    : COMPACT_NO_MEMORY;
}

static enum compact_result get_mapping(struct decoder *decoder, uint64_t limit,
                                       struct buffer *section)
{
    struct known_mapping known = {.offset = section->size};
    enum compact_result result;
    uint64_t code = covfun_take(&decoder->columns, COVFUN_MAPPINGS);

    if (decoder->columns.broken)
        return COMPACT_UNFIT;
    if (code > MAPPING_RAW)
        return copy_known(decoder, code - 1, limit, section);
    result = code == MAPPING_NEW ? make_mapping(decoder, limit, section)
                                 : copy_raw(decoder, limit, section);
    if (result != COMPACT_DONE)
        return result;
    if (section->size - known.offset > UINT32_MAX || section->size - known.offset > limit)
        return COMPACT_UNFIT;
    known.size = (uint32_t)(section->size - known.offset);
    return buffer_append(&decoder->known, &known, sizeof(known)) ? COMPACT_DONE : COMPACT_NO_MEMORY;
}

/* `left`: how much the section may still grow. */
static enum compact_result decode_record(struct decoder *decoder, uint64_t left,
                                         struct buffer *section)
{
    bool big = decoder->context->big_endian;
    size_t start = section->size;
    enum compact_result result;
    struct record record;
    uint8_t *header;

    if (left < HEADER_SIZE)
        return COMPACT_UNFIT;
    result = name_numbers_take(&decoder->names, &decoder->name_numbers, &decoder->other_names,
                               &record.name_ref);
    if (result != COMPACT_DONE)
        return result;
    if (!get_hash(decoder, &record) || !get_filenames(decoder, &record))
        return COMPACT_UNFIT;
    if (!buffer_append_zeros(section, HEADER_SIZE))
        return COMPACT_NO_MEMORY;
    result = get_mapping(decoder, left - HEADER_SIZE, section);
    if (result != COMPACT_DONE)
        return result;
    header = section->data + start;
    store_u64(header + NAME_REF_OFFSET, record.name_ref, big);
    store_u32(header + DATA_SIZE_OFFSET, (uint32_t)(section->size - start - HEADER_SIZE), big);
    store_u64(header + FUNC_HASH_OFFSET, record.func_hash, big);
    store_u64(header + FILENAMES_REF_OFFSET, record.filenames_ref, big);
    return COMPACT_DONE;
}

static enum compact_result decode_all(struct decoder *decoder, struct bytes rest, uint64_t size,
                                      struct buffer *section)
{
    size_t start = section->size;
    enum compact_result result;

    decoder->data = decoder->context->data_hashes;
    if (decoder->data == NULL) {
        decoder->data = &decoder->own_data;
        if (!data_hashes_start(&decoder->own_data, decoder->context))
            return COMPACT_NO_MEMORY;
    }
    decoder->names.data = decoder->data;
    result = regions_start_reading(&decoder->regions, &decoder->columns);
    if (result != COMPACT_DONE)
        return result;
    while (decoder->name_numbers.size != 0) {
        result = decode_record(decoder, size - (section->size - start), section);
        if (result != COMPACT_DONE)
            return result;
        if (!record_padding_append(section, start, size))
            return COMPACT_NO_MEMORY;
    }
    if (rest.size != size - (section->size - start))
        return COMPACT_UNFIT;
    return rest.size == 0 || buffer_append(section, rest.data, (size_t)rest.size)
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

/* Room for the section at once, so that it is not moved as it grows; more of it than what its parts
 * would mostly make is left to growing, whatever size is claimed. False: no memory. */
static bool make_room(const struct compact_parts *parts, uint64_t size, struct buffer *section)
{
    static const struct compact_proportion usual = {
        .per_part_byte = 8, .per_section_byte = 1, .besides = MAPPING_ROOM};

    return buffer_reserve(
        section, (size_t)compact_parts_bound(parts->parts, COVFUN_PART_COUNT, size, &usual));
}

static void start_columns(struct decoder *decoder, const struct compact_parts *parts)
{
    for (size_t i = 0; i < COVFUN_PART_COUNT; i++) {
        const struct buffer *part = &parts->parts[i];

        if (part->size != 0)
            decoder->columns.parts[i] = (struct covfun_column){part->data, part->data + part->size};
    }
    decoder->name_numbers = buffer_view(&parts->parts[COVFUN_NAMES]);
    decoder->other_names = buffer_view(&parts->parts[COVFUN_OTHER_NAMES]);
    decoder->hash_sizes = buffer_view(&parts->parts[COVFUN_HASH_SIZES]);
    decoder->hashes = buffer_view(&parts->parts[COVFUN_HASHES]);
    decoder->raw = buffer_view(&parts->parts[COVFUN_RAW]);
    decoder->filenames_refs = buffer_view(&parts->parts[COVFUN_FILENAMES_REFS]);
}

static enum compact_result decode(const struct compact_context *context,
                                  struct compact_parts *parts, uint64_t size,
                                  struct buffer *section)
{
    struct decoder decoder = {.context = context};
    enum compact_result result;

    if (parts->count != COVFUN_PART_COUNT)
        return COMPACT_UNFIT;
    start_columns(&decoder, parts);
    result = make_room(parts, size, section) && name_numbers_start_reading(&decoder.names, context)
                 ? decode_all(&decoder, buffer_view(&parts->parts[COVFUN_REST]), size, section)
                 : COMPACT_NO_MEMORY;
    name_numbers_free(&decoder.names);
    data_hashes_free(&decoder.own_data);
    buffer_free(&decoder.known);
    mapping_free(&decoder.mapping);
    counters_free(&decoder.counters);
    regions_free(&decoder.regions);
    return result;
}

/* ---- blocks ---- */

/* Up to a record that ends behind the wanted size; all, where there is none. */
static uint64_t cut(const struct compact_context *context, struct bytes section, uint64_t wanted)
{
    struct record record;
    uint64_t offset = 0;

    while (offset < wanted && take_record(section, context->big_endian, &offset, &record))
        continue;
    return offset < wanted ? section.size : offset;
}

const struct compact_transform compact_covfun_3 = {
    .type = COMPACT_COVFUN_3,
    .kinds = SECTION_BIT(SECTION_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .parts_per_byte = PARTS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};

const struct compact_transform compact_covfun_4 = {
    .type = COMPACT_COVFUN_4,
    .kinds = SECTION_BIT(SECTION_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .block = &compact_covfun_3,
    .cut = cut,
};
