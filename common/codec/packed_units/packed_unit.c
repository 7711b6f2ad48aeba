/*
 * Packed units: see packed_units/packed_unit.h.
 *
 * Behind the header of the unit and the byte 0 come, as ULEB128, the number of this form, the
 * version of the ordinary unit, the number of records, the size of the filenames, that of the text,
 * and that of the starts of mappings in the text; then the filenames, and the NameRefs. These are
 * hashes, and would not become smaller. The rest is a zlib stream of the text, which has all values
 * of one kind behind each other:
 *
 *   - the groups of all records, a byte each;
 *   - the sizes of the mappings, as ULEB128;
 *   - the FuncHashes;
 *   - the starts of the mappings, which are lists of files;
 *   - the rests of the mappings.
 */
#include "common/codec/packed_units/packed_unit.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/inflate.h"
#include "common/codec/deflate/deflate.h"

/* The first byte behind the header. As the number of filenames, 0 is an error for LLVM. */
#define NO_FILENAMES 0
#define FORM         1

#define HASH_SIZE    8

void packed_unit_free(struct packed_unit *unit)
{
    free(unit->records);
    buffer_free(&unit->text);
    *unit = (struct packed_unit){0};
}

/* True if an ordinary unit of this version can be packed. */
static bool is_sound_version(uint64_t version)
{
    return version >= COVMAP_VERSION_4 && version < PACKED_UNIT_VERSION;
}

struct mapping_parts mapping_split(struct bytes mapping)
{
    const struct covfun_record record = {.mapping = mapping};
    struct mapping_parts parts = {{mapping.data, 0}, mapping};
    struct covfun_files files;

    if (covfun_read_files(&record, &files)) {
        parts.files.size = mapping.size - files.rest.size;
        parts.rest = files.rest;
    }
    return parts;
}

enum result packed_group_of(struct mapping *mapping, const struct covfun_record *record,
                            enum packed_group *group)
{
    bool is_unused;
    enum result result = covfun_tell_unused(mapping, record, &is_unused);

    *group = is_unused ? PACKED_GROUP_OF_UNUSED : PACKED_GROUP_OF_USED;
    return result;
}

/* ---- writing ---- */

/* Sets *heads_size to the size of all lists of files. */
static enum result make_text(const struct packed_unit *unit, bool big_endian, struct buffer *text,
                             uint64_t *heads_size)
{
    struct buffer rests = {0};
    bool sound = true;
    size_t heads;
    uint8_t *to;

    for (size_t i = 0; i < unit->count; i++) {
        const struct packed_record *record = &unit->records[i];

        if (record->mapping.size > UINT32_MAX || record->group > PACKED_GROUP_OF_USED)
            return RESULT_UNFIT;
    }
    if (!buffer_reserve(text, 1 + unit->count * (1 + NUMBER_32_SIZE_MAX + HASH_SIZE)))
        return RESULT_NO_MEMORY;
    to = text->data;
    for (size_t i = 0; i < unit->count; i++)
        *to++ = (uint8_t)unit->records[i].group;
    for (size_t i = 0; i < unit->count; i++)
        to = uleb128_put_32(to, (uint32_t)unit->records[i].mapping.size);
    for (size_t i = 0; i < unit->count; i++, to += HASH_SIZE)
        store_u64(to, unit->records[i].function_hash, big_endian);
    heads = text->size = (size_t)(to - text->data);
    for (size_t i = 0; i < unit->count; i++) {
        struct mapping_parts parts = mapping_split(unit->records[i].mapping);

        sound &= parts.files.size != 0;
        buffer_append(text, parts.files.data, (size_t)parts.files.size);
        buffer_append(&rests, parts.rest.data, (size_t)parts.rest.size);
    }
    *heads_size = text->size - heads;
    buffer_append(text, rests.data, rests.size);
    text->failed |= rests.failed;
    buffer_free(&rests);
    return text->failed ? RESULT_NO_MEMORY : sound ? RESULT_OK : RESULT_UNFIT;
}

/* Appends all but the stream. False if out of memory. */
static bool put_start(const struct packed_unit *unit, uint64_t text_size, uint64_t heads_size,
                      bool big_endian, struct buffer *section)
{
    static const uint8_t first = NO_FILENAMES;

    buffer_append_zeros(section, COVMAP_HEADER_SIZE);
    buffer_append(section, &first, 1);
    buffer_append_uleb128(section, FORM);
    buffer_append_uleb128(section, unit->version);
    buffer_append_uleb128(section, unit->count);
    buffer_append_uleb128(section, unit->filenames.size);
    buffer_append_uleb128(section, text_size);
    buffer_append_uleb128(section, heads_size);
    buffer_append(section, unit->filenames.data, (size_t)unit->filenames.size);
    if (!buffer_reserve(section, unit->count * HASH_SIZE))
        return false;
    for (size_t i = 0; i < unit->count; i++, section->size += HASH_SIZE)
        store_u64(section->data + section->size, unit->records[i].name_reference, big_endian);
    return true;
}

enum result packed_unit_write(const struct packed_unit *unit, bool big_endian,
                              struct buffer *section)
{
    size_t start = section->size, size;
    struct buffer text = {0};
    uint64_t heads_size;
    enum result result;

    if (!is_sound_version(unit->version) || unit->filenames.size > UINT32_MAX ||
        unit->count > UINT32_MAX / HASH_SIZE)
        return RESULT_UNFIT;
    result = make_text(unit, big_endian, &text, &heads_size);
    if (result == RESULT_OK && !put_start(unit, text.size, heads_size, big_endian, section))
        result = RESULT_NO_MEMORY;
    if (result == RESULT_OK)
        result = quick_compress(buffer_view(&text), section);
    buffer_free(&text);
    size = section->size - start - COVMAP_HEADER_SIZE;
    if (result == RESULT_OK && size > UINT32_MAX)
        result = RESULT_UNFIT;
    if (result != RESULT_OK) {
        section->size = start;
        return result;
    }
    store_u32(section->data + start + COVMAP_FILENAMES_SIZE, (uint32_t)size, big_endian);
    store_u32(section->data + start + COVMAP_VERSION, PACKED_UNIT_VERSION, big_endian);
    return RESULT_OK;
}

/* ---- reading ---- */

bool packed_unit_recognize(struct bytes section, bool big_endian)
{
    return section.size >= COVMAP_HEADER_SIZE &&
           load_u32(section.data + COVMAP_VERSION, big_endian) == PACKED_UNIT_VERSION;
}

bool packed_unit_take(struct bytes *section, bool big_endian, struct bytes *packed)
{
    struct covmap_unit unit;

    if (!packed_unit_recognize(*section, big_endian) ||
        !covmap_take_unhashed(section, big_endian, &unit))
        return false;
    *packed = (struct bytes){unit.header.data, COVMAP_HEADER_SIZE + unit.filenames.size};
    return true;
}

/* Reads the records from unit->text and their NameRefs. The mappings are put together behind the
 * text they are made of. */
static enum result read_records(struct packed_unit *unit, struct bytes references,
                                uint64_t heads_size, bool big_endian)
{
    size_t count = (size_t)(references.size / HASH_SIZE);
    struct cursor text, heads, rests;
    struct bytes groups, hashes;
    uint64_t total = 0;

    /* Mappings take no more room than the text, which must not move any more. */
    if (!buffer_reserve(&unit->text, unit->text.size + 1))
        return RESULT_NO_MEMORY;
    text = cursor_open(buffer_view(&unit->text), big_endian, false);
    groups = cursor_bytes(&text, count);
    for (size_t i = 0; i < count && !text.bad; i++) {
        struct packed_record *record = &unit->records[i];

        if (groups.data[i] > PACKED_GROUP_OF_USED)
            return RESULT_UNFIT;
        record->group = (enum packed_group)groups.data[i];
        record->mapping.size = cursor_uleb128_32(&text);
        total += record->mapping.size;
    }
    hashes = cursor_bytes(&text, count * HASH_SIZE);
    if (text.bad || total != cursor_left(&text))
        return RESULT_UNFIT;
    heads = cursor_open(cursor_bytes(&text, heads_size), big_endian, false);
    rests = text;
    for (size_t i = 0; i < count; i++) {
        struct packed_record *record = &unit->records[i];
        struct bytes head = {heads.at, cursor_left(&heads)}, rest;

        if (head.size > record->mapping.size)
            head.size = record->mapping.size;
        head = cursor_bytes(&heads, mapping_split(head).files.size);
        rest = cursor_bytes(&rests, record->mapping.size - head.size);
        if (head.size == 0 || rests.bad)
            return RESULT_UNFIT;
        record->name_reference = load_u64(references.data + i * HASH_SIZE, big_endian);
        record->function_hash = load_u64(hashes.data + i * HASH_SIZE, big_endian);
        record->mapping.data = unit->text.data + unit->text.size;
        buffer_append(&unit->text, head.data, (size_t)head.size);
        buffer_append(&unit->text, rest.data, (size_t)rest.size);
    }
    if (unit->text.failed)
        return RESULT_NO_MEMORY;
    if (!cursor_finished(&heads) || !cursor_finished(&rests))
        return RESULT_UNFIT;
    unit->count = count;
    return RESULT_OK;
}

enum result packed_unit_read(struct packed_unit *unit, struct bytes packed, bool big_endian,
                             uint64_t limit)
{
    struct cursor start = cursor_open(packed, big_endian, false);
    struct bytes section = packed, whole, references;
    uint64_t version, count, filenames_size, text_size, heads_size;
    enum result result;

    unit->count = 0;
    unit->text.size = 0;
    if (!packed_unit_take(&section, big_endian, &whole) || whole.size != packed.size)
        return RESULT_UNFIT;
    cursor_skip(&start, COVMAP_HEADER_SIZE);
    if (cursor_u8(&start) != NO_FILENAMES || cursor_uleb128(&start) != FORM)
        return RESULT_UNFIT;
    version = cursor_uleb128(&start);
    count = cursor_uleb128(&start);
    filenames_size = cursor_uleb128(&start);
    text_size = cursor_uleb128(&start);
    heads_size = cursor_uleb128(&start);
    unit->filenames = cursor_bytes(&start, filenames_size);
    if (start.bad || !is_sound_version(version) || count > cursor_left(&start) / HASH_SIZE)
        return RESULT_UNFIT;
    unit->version = (uint32_t)version;
    unit->reference = md5_name_reference(unit->filenames);
    references = cursor_bytes(&start, count * HASH_SIZE);
    if (text_size > limit / 2 || count > (limit - 2 * text_size) / sizeof(*unit->records))
        return RESULT_OVER_LIMIT;
    if (!array_make_room(&unit->records, &unit->capacity, 0, (size_t)count, sizeof(*unit->records)))
        return RESULT_NO_MEMORY;
    result = inflate_exactly(cursor_rest(&start), text_size, &unit->text);
    return result == RESULT_OK ? read_records(unit, references, heads_size, big_endian) : result;
}
