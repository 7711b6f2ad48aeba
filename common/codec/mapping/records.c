/*
 * Function records of the coverage mapping, and the patterns of their regions: "The mapping of
 * functions" in docs/format.md.
 *
 * NameRef follows from the names, and FuncHash from the data; there is one FilenamesRef for each
 * translation unit. Identical mappings, such as those of the instances of a C++ template, are
 * stored once. How a mapping is encoded is described in mapping.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/codec/mapping/mapping.h"
#include "common/codec/records.h"
#include "common/codec/transform.h"
#include "common/llvm/coverage.h"

/* ---- patterns of regions ---- */

/* The number of patterns with two-byte codes; and the byte that stands for a pattern outside the
 * table. Stored in sidecars. */
#define PATTERNS_LONG      (15 * 256)
#define PATTERN_AS_IT_IS   255
#define PATTERNS_TABLE_MAX (PATTERNS_SHORT + PATTERNS_LONG)

#define PATTERN_FILE_ENDS  0

struct pattern_use {
    uint32_t pattern;
    uint32_t place; /* in order of first occurrence; after sorting, in the table */
    uint64_t count;
};

void patterns_free(struct patterns *patterns)
{
    intern_table_free(&patterns->places);
    buffer_free(&patterns->sequence);
    free(patterns->uses);
    free(patterns->table);
    *patterns = (struct patterns){0};
}

static uint32_t number_of_pattern(const struct region_pattern *pattern)
{
    uint32_t number = (uint32_t)(pattern->kind | pattern->is_gap << 3);

    if (pattern->kind == REGION_KINDS)
        return PATTERN_FILE_ENDS;
    number = number << 5 | pattern->completed;
    number = number << 4 | pattern->start;
    number = number << 5 | pattern->end;
    number = number << 5 | pattern->symbols[0];
    return (number << 5 | pattern->symbols[1]) + 1;
}

/* False if no pattern has this number. */
static bool pattern_of_number(uint64_t number, struct region_pattern *pattern)
{
    *pattern = (struct region_pattern){.kind = REGION_KINDS};
    if (number == PATTERN_FILE_ENDS)
        return true;
    if (number-- > UINT32_C(1) << 28)
        return false;
    pattern->symbols[1] = number & 31;
    pattern->symbols[0] = number >> 5 & 31;
    pattern->end = number >> 10 & 31;
    pattern->start = number >> 15 & 15;
    pattern->completed = number >> 19 & 31;
    pattern->kind = number >> 24 & 7;
    pattern->is_gap = number >> 27 & 1;
    return pattern->kind < REGION_KINDS && pattern->completed <= COMPLETED_FIRST &&
           pattern->start < START_FORMS && pattern->end >= END_ACTIVE && pattern->end < END_FORMS;
}

bool patterns_add(struct patterns *patterns, const struct region_pattern *pattern)
{
    uint64_t known = patterns->places.count, place;
    uint32_t number = number_of_pattern(pattern), stored;

    if (!intern_table_add(&patterns->places, number, &place))
        return false;
    if (place == known) {
        if (!ARRAY_ROOM_FOR_ONE(patterns->uses, patterns->use_capacity, (size_t)known))
            return false;
        patterns->uses[place] = (struct pattern_use){.pattern = number, .place = (uint32_t)place};
    }
    patterns->uses[place].count++;
    stored = (uint32_t)place;
    return buffer_append_few(&patterns->sequence, &stored, sizeof(stored));
}

static int by_pattern(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    return a->pattern < b->pattern ? -1 : a->pattern > b->pattern;
}

static int by_count(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return by_pattern(first, second);
}

bool patterns_write(struct patterns *patterns, struct mapping_coder *coder)
{
    size_t count = (size_t)patterns->places.count, length = patterns->sequence.size;
    size_t brief = count < PATTERNS_SHORT ? count : PATTERNS_SHORT;
    size_t listed = count < PATTERNS_TABLE_MAX ? count : PATTERNS_TABLE_MAX;
    const uint32_t *sequence = (const uint32_t *)(void *)patterns->sequence.data;
    struct pattern_use *uses = patterns->uses;
    uint32_t *places;

    if (count == 0)
        return true;
    places = malloc(count * sizeof(*places));
    if (places == NULL)
        return false;
    qsort(uses, count, sizeof(*uses), by_count);
    qsort(uses, brief, sizeof(*uses), by_pattern);
    qsort(uses + brief, listed - brief, sizeof(*uses), by_pattern);
    for (size_t i = 0; i < listed; i++) {
        uint32_t before = i == 0 || i == brief ? 0 : uses[i - 1].pattern;

        code_number(coder, STREAM_PATTERN_TABLE, uses[i].pattern - before);
    }
    for (size_t i = 0; i < count; i++)
        places[uses[i].place] = (uint32_t)i;
    for (size_t i = 0; i < length / sizeof(*sequence); i++) {
        uint32_t place = places[sequence[i]], further = place - PATTERNS_SHORT;

        if (place < PATTERNS_SHORT) {
            code_byte(coder, STREAM_PATTERN_CODES, place);
        } else if (place < PATTERNS_TABLE_MAX) {
            code_byte(coder, STREAM_PATTERN_CODES, PATTERNS_SHORT + (further >> 8));
            code_byte(coder, STREAM_PATTERN_LOW_BYTES, further & 0xff);
        } else {
            code_byte(coder, STREAM_PATTERN_CODES, PATTERN_AS_IT_IS);
            code_number(coder, STREAM_RARE_PATTERNS, uses[place].pattern);
        }
    }
    free(places);
    return true;
}

enum result patterns_start_reading(struct patterns *patterns, struct mapping_coder *coder)
{
    const struct cursor *cursor = &coder->cursors[STREAM_PATTERN_TABLE];
    size_t capacity = 0;
    uint64_t number = 0;

    while (cursor->at != cursor->end) {
        if (patterns->count == PATTERNS_TABLE_MAX)
            return RESULT_UNFIT;
        if (!ARRAY_ROOM_FOR_ONE(patterns->table, capacity, patterns->count))
            return RESULT_NO_MEMORY;
        number = (patterns->count == PATTERNS_SHORT ? 0 : number) +
                 code_32(coder, STREAM_PATTERN_TABLE, 0);
        if (coder->result != RESULT_OK ||
            !pattern_of_number(number, &patterns->table[patterns->count++]))
            return RESULT_UNFIT;
    }
    return RESULT_OK;
}

bool patterns_take_long(const struct patterns *patterns, struct mapping_coder *coder, uint8_t first,
                        struct region_pattern *pattern)
{
    size_t place = first;

    if (first == PATTERN_AS_IT_IS)
        return pattern_of_number(code_number(coder, STREAM_RARE_PATTERNS, 0), pattern);
    if (first >= PATTERNS_SHORT)
        place = PATTERNS_SHORT + ((size_t)(first - PATTERNS_SHORT) << 8) +
                code_byte(coder, STREAM_PATTERN_LOW_BYTES, 0);
    if (place < patterns->count)
        *pattern = patterns->table[place];
    return place < patterns->count;
}

/* ---- function records ---- */

/* The room for mappings that is made in any case, in bytes. */
#define MAPPING_ROOM ((uint64_t)16 << 10)

/* A number takes at least one byte in the section, and hardly more than ten in the streams: a code
 * of one byte, and a difference. */
#define STREAMS_PER_BYTE 16

/* FuncHash codes. */
enum {
    HASH_OF_DATA = 0,
    HASH_ZERO = 1,
    HASH_OTHER = 2,
};

/* FilenamesRef codes; from FILENAMES_KNOWN on, a number in the order of first occurrence follows.
 */
enum {
    FILENAMES_SAME = 0,
    FILENAMES_NEW = 1,
    FILENAMES_KNOWN = 2,
};

/* Mapping codes; higher ones say how many new mappings ago this one was new, plus MAPPING_RAW. */
enum {
    MAPPING_NEW = 0,
    MAPPING_RAW = 1,
};

/* The state of either direction. */
struct form {
    const struct transform_context *context;
    struct mapping_coder coder;
    struct name_refs name_refs;
    const struct data_records *data;
    struct data_records own_data; /* used if the context has none */
    uint64_t filenames_before;
    struct mapping mapping;
    struct counters counters;
    struct regions regions;
    /* Writing. */
    struct intern_table filenames;
    struct intern_table mappings; /* by digest */
    /* Reading. */
    struct bytes filenames_refs; /* all of them */
    uint64_t filenames_known;
    struct buffer known; /* struct known_mapping */
};

uint64_t coder_take_long(struct mapping_coder *coder, unsigned stream)
{
    uint64_t number = cursor_uleb128(&coder->cursors[stream]);

    if (coder->cursors[stream].bad)
        coder_fail(coder, RESULT_UNFIT);
    return number;
}

static enum result start(struct form *form, const struct transform_context *context)
{
    form->context = context;
    form->name_refs.names = context->names;
    form->data = context->records;
    if (form->data == NULL) {
        form->data = &form->own_data;
        if (!data_records_start(&form->own_data, context))
            return RESULT_NO_MEMORY;
    }
    return regions_start(&form->regions, &form->coder);
}

static void form_free(struct form *form)
{
    data_records_free(&form->own_data);
    mapping_free(&form->mapping);
    counters_free(&form->counters);
    regions_free(&form->regions);
    intern_table_free(&form->filenames);
    intern_table_free(&form->mappings);
    buffer_free(&form->known);
}

/* ---- encoding ---- */

static void put_hash(struct form *form, const struct covfun_record *record)
{
    unsigned code = HASH_OTHER;
    uint64_t hash;

    if (data_records_find_hash(form->data, record->name_reference, &hash) &&
        hash == record->function_hash)
        code = HASH_OF_DATA;
    else if (record->function_hash == 0)
        code = HASH_ZERO;
    code_byte(&form->coder, STREAM_FUNC_HASH_CODES, code);
    if (code == HASH_OTHER)
        func_hash_put(&form->coder.streams->stream[STREAM_FUNC_HASHES], record->function_hash);
}

/* False if out of memory. */
static bool put_filenames(struct form *form, uint64_t reference)
{
    uint64_t known = form->filenames.count, number, code = FILENAMES_SAME;
    uint8_t bytes[8];

    if (known == 0 || reference != form->filenames_before) {
        if (!intern_table_add(&form->filenames, reference, &number))
            return false;
        code = number == known ? FILENAMES_NEW : FILENAMES_KNOWN + number;
    }
    form->filenames_before = reference;
    code_number(&form->coder, STREAM_FILENAMES_REF_CODES, code);
    store_u64(bytes, reference, false);
    if (code == FILENAMES_NEW)
        buffer_append(&form->coder.streams->stream[STREAM_FILENAMES_REFS], bytes, sizeof(bytes));
    return true;
}

static enum result put_mapping(struct form *form, struct bytes bytes)
{
    struct digest digest = digest_of(bytes);
    uint64_t known = form->mappings.count, number;
    enum result result;

    if (!intern_table_add(&form->mappings, load_u64(digest.bytes, false), &number))
        return RESULT_NO_MEMORY;
    if (number != known) {
        code_number(&form->coder, STREAM_MAPPING_CODES, MAPPING_RAW + known - number);
        return RESULT_OK;
    }
    result = mapping_read(&form->mapping, bytes);
    if (result == RESULT_OK)
        result = counters_start_writing(&form->counters, &form->mapping);
    if (result == RESULT_UNFIT) {
        code_number(&form->coder, STREAM_MAPPING_CODES, MAPPING_RAW);
        code_number(&form->coder, STREAM_MAPPING_CODES, bytes.size);
        buffer_append(&form->coder.streams->stream[STREAM_RAW_MAPPINGS], bytes.data,
                      (size_t)bytes.size);
        return RESULT_OK;
    }
    code_number(&form->coder, STREAM_MAPPING_CODES, MAPPING_NEW);
    return result != RESULT_OK ? result
                               : regions_code(&form->regions, &form->counters, &form->coder,
                                              UINT64_MAX, &form->mapping);
}

/* Takes a record and the padding after it off the front of *section. False, without a change, if
 * there is no valid record, or if its padding is not all zeros. */
static bool take_record(struct bytes *section, bool big, struct covfun_record *record)
{
    const struct bytes before = *section;
    struct bytes padding;

    if (covfun_take(section, big, record) &&
        bytes_slice(before, record->whole.size, before.size - section->size - record->whole.size,
                    &padding) &&
        bytes_all_zero(padding))
        return true;
    *section = before;
    return false;
}

static enum result encode(const struct transform_context *context, struct bytes section,
                          struct streams *streams)
{
    struct form form = {.coder = {.is_writing = true, .streams = streams}};
    enum result result = start(&form, context);
    struct covfun_record record;

    streams->count = MAPPING_STREAMS;
    while (result == RESULT_OK && take_record(&section, context->big_endian, &record)) {
        name_refs_put(&form.name_refs, record.name_reference,
                      &streams->stream[STREAM_NAME_REF_CODES],
                      &streams->stream[STREAM_NAME_REF_OPERANDS]);
        put_hash(&form, &record);
        result = put_filenames(&form, record.filenames_reference)
                     ? put_mapping(&form, record.mapping)
                     : RESULT_NO_MEMORY;
    }
    if (result == RESULT_OK)
        result = regions_finish_writing(&form.regions, &form.coder);
    if (result == RESULT_OK)
        buffer_append(&streams->stream[STREAM_REST], section.data, (size_t)section.size);
    form_free(&form);
    return result;
}

/* ---- decoding ---- */

/* A mapping that has occurred before: its place in the section. */
struct known_mapping {
    size_t offset;
    uint32_t size;
};

static uint64_t get_hash(struct form *form, uint64_t name_ref)
{
    struct cursor *hashes = &form->coder.cursors[STREAM_FUNC_HASHES];
    uint8_t code = code_byte(&form->coder, STREAM_FUNC_HASH_CODES, 0);
    uint64_t hash = 0;

    if (code == HASH_OTHER)
        hash = func_hash_take(hashes);
    if (hashes->bad || code > HASH_OTHER ||
        (code == HASH_OF_DATA && !data_records_find_hash(form->data, name_ref, &hash)))
        coder_fail(&form->coder, RESULT_UNFIT);
    return hash;
}

static uint64_t get_filenames(struct form *form)
{
    uint64_t code = code_number(&form->coder, STREAM_FILENAMES_REF_CODES, 0);
    uint64_t number = code == FILENAMES_NEW ? form->filenames_known++ : code - FILENAMES_KNOWN;
    struct bytes stored;

    if (code == FILENAMES_SAME && form->filenames_known != 0)
        return form->filenames_before;
    if (number >= form->filenames_known || number > UINT32_MAX ||
        !bytes_slice(form->filenames_refs, number * 8, 8, &stored))
        coder_fail(&form->coder, RESULT_UNFIT);
    else
        form->filenames_before = load_u64(stored.data, false);
    return form->filenames_before;
}

/* Decodes a mapping. `limit`: how many bytes the section may still grow by. */
static enum result make_mapping(struct form *form, uint64_t limit, struct buffer *section)
{
    enum result result;

    mapping_clear(&form->mapping);
    if (!counters_start(&form->counters))
        return RESULT_NO_MEMORY;
    result = regions_code(&form->regions, &form->counters, &form->coder, limit, &form->mapping);
    if (result == RESULT_OK)
        result = counters_finish_reading(&form->counters, &form->mapping, limit / 2);
    if (result != RESULT_OK)
        return result;
    return mapping_write_files(&form->mapping, section) &&
                   counters_write_table(&form->counters, section) &&
                   mapping_write_regions(&form->mapping, section)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* Appends a mapping; `limit`: how many bytes the section may still grow by. */
static enum result get_mapping(struct form *form, uint64_t limit, struct buffer *section)
{
    struct known_mapping *known = (struct known_mapping *)(void *)form->known.data;
    struct known_mapping new = {.offset = section->size};
    uint64_t code = code_number(&form->coder, STREAM_MAPPING_CODES, 0), ago = code - MAPPING_RAW;
    uint64_t known_count = form->known.size / sizeof(*known);

    if (form->coder.result != RESULT_OK)
        return form->coder.result;
    if (code == MAPPING_NEW) {
        enum result result = make_mapping(form, limit, section);

        if (result != RESULT_OK)
            return result;
    } else if (code == MAPPING_RAW) {
        uint64_t size = code_number(&form->coder, STREAM_MAPPING_CODES, 0);
        struct bytes raw;

        if (form->coder.result != RESULT_OK || size > limit)
            return RESULT_UNFIT;
        raw = cursor_bytes(&form->coder.cursors[STREAM_RAW_MAPPINGS], size);
        if (raw.size != size)
            return RESULT_UNFIT;
        buffer_append(section, raw.data, (size_t)raw.size);
    } else {
        if (ago > known_count || known[known_count - ago].size > limit)
            return RESULT_UNFIT;
        known += known_count - ago;
        if (buffer_reserve(section, known->size))
            buffer_append(section, section->data + known->offset, known->size);
        return section->failed ? RESULT_NO_MEMORY : RESULT_OK;
    }
    if (section->size - new.offset > UINT32_MAX || section->size - new.offset > limit)
        return RESULT_UNFIT;
    new.size = (uint32_t)(section->size - new.offset);
    return buffer_append(&form->known, &new, sizeof(new)) && !section->failed ? RESULT_OK
                                                                              : RESULT_NO_MEMORY;
}

/* `left`: how many bytes the section may still grow by. */
static enum result decode_record(struct form *form, uint64_t left, struct buffer *section)
{
    struct cursor *codes = &form->coder.cursors[STREAM_NAME_REF_CODES];
    size_t start = section->size;
    struct covfun_record record;
    enum result result;

    record.name_reference =
        name_refs_take(&form->name_refs, codes, &form->coder.cursors[STREAM_NAME_REF_OPERANDS]);
    record.function_hash = get_hash(form, record.name_reference);
    record.filenames_reference = get_filenames(form);
    if (left < COVFUN_HEADER_SIZE || codes->bad)
        return RESULT_UNFIT;
    if (!buffer_append_zeros(section, COVFUN_HEADER_SIZE))
        return RESULT_NO_MEMORY;
    result = get_mapping(form, left - COVFUN_HEADER_SIZE, section);
    if (result != RESULT_OK)
        return result;
    record.mapping.size = section->size - start - COVFUN_HEADER_SIZE;
    covfun_store_header(section->data + start, &record, form->context->big_endian);
    return RESULT_OK;
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

static enum result decode(const struct transform_context *context, struct streams *streams,
                          uint64_t size, struct buffer *section)
{
    const struct cursor *codes;
    struct form form = {.coder = {.is_writing = false}};
    struct bytes rest = buffer_view(&streams->stream[STREAM_REST]);
    size_t begin = section->size;
    enum result result;

    if (streams->count != MAPPING_STREAMS)
        return RESULT_UNFIT;
    for (size_t i = 0; i < MAPPING_STREAMS; i++)
        form.coder.cursors[i] = cursor_open(buffer_view(&streams->stream[i]), false, false);
    form.filenames_refs = buffer_view(&streams->stream[STREAM_FILENAMES_REFS]);
    codes = &form.coder.cursors[STREAM_NAME_REF_CODES];
    result = make_room(streams, size, section) ? start(&form, context) : RESULT_NO_MEMORY;
    while (result == RESULT_OK && codes->at != codes->end) {
        result = decode_record(&form, size - (section->size - begin), section);
        if (result == RESULT_OK && !record_padding_append(section, begin, size))
            result = RESULT_NO_MEMORY;
    }
    if (result == RESULT_OK && rest.size != size - (section->size - begin))
        result = RESULT_UNFIT;
    if (result == RESULT_OK && !buffer_append(section, rest.data, (size_t)rest.size))
        result = RESULT_NO_MEMORY;
    form_free(&form);
    return result;
}

/* ---- blocks ---- */

/* Cuts after the first record that ends at or after the wanted size; if there is none, takes all.
 */
static uint64_t cut(const struct transform_context *context, struct bytes section, uint64_t wanted)
{
    struct bytes rest = section;
    struct covfun_record record;

    while (section.size - rest.size < wanted && take_record(&rest, context->big_endian, &record))
        continue;
    return section.size - rest.size < wanted ? section.size : section.size - rest.size;
}

const struct transform mapping_transform = {
    .id = TRANSFORM_MAPPING,
    .kinds = SECTION_BIT(SECTION_COVFUN) | SECTION_BIT(SECTION_LINKED_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .streams_per_byte = STREAMS_PER_BYTE,
    .encode = encode,
    .decode = decode,
};

const struct transform mapping_blocks_transform = {
    .id = TRANSFORM_MAPPING_BLOCKS,
    .kinds = SECTION_BIT(SECTION_COVFUN) | SECTION_BIT(SECTION_LINKED_COVFUN),
    .needs_names = true,
    .needs_data = true,
    .block = &mapping_transform,
    .cut = cut,
};
