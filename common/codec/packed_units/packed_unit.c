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
#include "common/base/inflate.h"
#include "common/base/md5.h"
#include "common/base/numbers.h"
#include "common/codec/deflate/quick.h"
#include "common/llvm/coverage.h"

/* What the bytes behind the header begin with. As the number of filenames, 0 is an error for LLVM.
 */
#define NO_FILENAMES 0
#define FORM         1

#define HASH_SIZE    8

void packed_unit_free(struct packed_unit *unit)
{
    free(unit->records);
    buffer_free(&unit->text);
    *unit = (struct packed_unit){0};
}

/* Whether an ordinary unit of this version can be packed. */
static bool is_sound_version(uint64_t version)
{
    return version >= COVMAP_VERSION_4 && version < PACKED_UNIT_VERSION;
}

/* Splits a mapping into the list of its files and the rest. */
static bool split_mapping(struct bytes mapping, struct bytes *head, struct bytes *rest)
{
    const struct covfun_record record = {.mapping = mapping};
    struct covfun_files files;

    if (mapping.size > UINT32_MAX || !covfun_read_files(&record, &files))
        return false;
    *head = (struct bytes){mapping.data, mapping.size - files.rest.size};
    *rest = files.rest;
    return true;
}

/* ---- writing ---- */

static bool put_groups_and_sizes(const struct packed_unit *unit, struct buffer *text)
{
    uint8_t *to;

    if (!buffer_reserve(text, 1 + unit->count * (1 + NUMBER_32_SIZE_MAX)))
        return false;
    to = text->data + text->size;
    for (size_t i = 0; i < unit->count; i++)
        *to++ = (uint8_t)unit->records[i].group;
    for (size_t i = 0; i < unit->count; i++)
        to = put_32(to, (uint32_t)unit->records[i].mapping.size);
    text->size = (size_t)(to - text->data);
    return true;
}

static bool put_hashes(const struct packed_unit *unit, bool big_endian, struct buffer *text)
{
    if (!buffer_reserve(text, unit->count * HASH_SIZE))
        return false;
    for (size_t i = 0; i < unit->count; i++, text->size += HASH_SIZE)
        store_u64(text->data + text->size, unit->records[i].function_hash, big_endian);
    return true;
}

/* Sets *heads_size to the size of all lists of files. */
static enum result put_mappings(const struct packed_unit *unit, struct buffer *text,
                                uint64_t *heads_size)
{
    size_t start = text->size;
    struct buffer rests = {0};
    enum result result = RESULT_OK;

    for (size_t i = 0; result == RESULT_OK && i < unit->count; i++) {
        struct bytes head, rest;

        if (!split_mapping(unit->records[i].mapping, &head, &rest))
            result = RESULT_UNFIT;
        else if (!buffer_append(text, head.data, (size_t)head.size) ||
                 !buffer_append(&rests, rest.data, (size_t)rest.size))
            result = RESULT_NO_MEMORY;
    }
    *heads_size = text->size - start;
    if (result == RESULT_OK && !buffer_append(text, rests.data, rests.size))
        result = RESULT_NO_MEMORY;
    buffer_free(&rests);
    return result;
}

static enum result make_text(const struct packed_unit *unit, bool big_endian, struct buffer *text,
                             uint64_t *heads_size)
{
    for (size_t i = 0; i < unit->count; i++) {
        if (unit->records[i].mapping.size > UINT32_MAX ||
            unit->records[i].group > PACKED_GROUP_OF_USED)
            return RESULT_UNFIT;
    }
    return put_groups_and_sizes(unit, text) && put_hashes(unit, big_endian, text)
               ? put_mappings(unit, text, heads_size)
               : RESULT_NO_MEMORY;
}

static bool put_start(const struct packed_unit *unit, uint64_t text_size, uint64_t heads_size,
                      bool big_endian, struct buffer *section)
{
    static const uint8_t first = NO_FILENAMES;

    if (!buffer_append_zeros(section, COVMAP_HEADER_SIZE) || !buffer_append(section, &first, 1) ||
        !buffer_append_uleb128(section, FORM) || !buffer_append_uleb128(section, unit->version) ||
        !buffer_append_uleb128(section, unit->count) ||
        !buffer_append_uleb128(section, unit->filenames.size) ||
        !buffer_append_uleb128(section, text_size) || !buffer_append_uleb128(section, heads_size) ||
        !buffer_append(section, unit->filenames.data, (size_t)unit->filenames.size) ||
        !buffer_reserve(section, unit->count * HASH_SIZE))
        return false;
    for (size_t i = 0; i < unit->count; i++, section->size += HASH_SIZE)
        store_u64(section->data + section->size, unit->records[i].name_reference, big_endian);
    return true;
}

/* Fills in the header of the unit that starts at `start`. */
static enum result put_header(struct buffer *section, size_t start, bool big_endian)
{
    size_t size = section->size - start - COVMAP_HEADER_SIZE;
    uint8_t *header = section->data + start;

    if (size > UINT32_MAX)
        return RESULT_UNFIT;
    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)size, big_endian);
    store_u32(header + COVMAP_VERSION, PACKED_UNIT_VERSION, big_endian);
    return RESULT_OK;
}

enum result packed_unit_write(const struct packed_unit *unit, bool big_endian,
                              struct buffer *section)
{
    size_t start = section->size;
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
    if (result == RESULT_OK)
        result = put_header(section, start, big_endian);
    if (result != RESULT_OK)
        section->size = start;
    buffer_free(&text);
    return result;
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

/* What is in front of the text. */
struct start {
    uint64_t count, text_size, heads_size;
    struct bytes references, stream;
};

static bool read_start(struct bytes rest, struct packed_unit *unit, struct start *start)
{
    uint64_t form, version, filenames_size;
    const uint8_t *first = take_bytes(&rest, 1);

    if (first == NULL || *first != NO_FILENAMES || !bytes_take_uleb128(&rest, &form) ||
        form != FORM || !bytes_take_uleb128(&rest, &version) || !is_sound_version(version) ||
        !bytes_take_uleb128(&rest, &start->count) || !bytes_take_uleb128(&rest, &filenames_size) ||
        !bytes_take_uleb128(&rest, &start->text_size) ||
        !bytes_take_uleb128(&rest, &start->heads_size) ||
        !bytes_slice(rest, 0, filenames_size, &unit->filenames))
        return false;
    take_bytes(&rest, filenames_size);
    if (start->count > rest.size / HASH_SIZE)
        return false;
    unit->version = (uint32_t)version;
    unit->reference = md5_name_reference(unit->filenames);
    bytes_slice(rest, 0, start->count * HASH_SIZE, &start->references);
    take_bytes(&rest, start->references.size);
    start->stream = rest;
    return true;
}

/* The records without their mappings, of which only the sizes are known; these are taken off the
 * text. */
static bool read_records(struct packed_unit *unit, const struct start *start, struct bytes *text,
                         bool big_endian)
{
    const uint8_t *groups = take_bytes(text, start->count), *hashes;

    if (groups == NULL && start->count != 0)
        return false;
    for (size_t i = 0; i < start->count; i++) {
        struct packed_record *record = &unit->records[i];
        uint64_t size;

        if (groups[i] > PACKED_GROUP_OF_USED || !take_number(text, &size) || size > UINT32_MAX)
            return false;
        record->name_reference = load_u64(start->references.data + i * HASH_SIZE, big_endian);
        record->group = (enum packed_group)groups[i];
        record->mapping.size = size;
    }
    hashes = take_bytes(text, start->count * HASH_SIZE);
    if (hashes == NULL && start->count != 0)
        return false;
    for (size_t i = 0; i < start->count; i++)
        unit->records[i].function_hash = load_u64(hashes + i * HASH_SIZE, big_endian);
    unit->count = (size_t)start->count;
    return true;
}

/* Puts the mappings together in unit->text, behind the text they are made of, in which `parts` are
 * the lists of their files, and then their rests. */
static enum result read_mappings(struct packed_unit *unit, uint64_t heads_size, struct bytes parts)
{
    uint64_t total = 0, offset = (uint64_t)(parts.data - unit->text.data);
    struct bytes heads, rests;

    for (size_t i = 0; i < unit->count; i++)
        total += unit->records[i].mapping.size;
    if (total != parts.size || heads_size > parts.size)
        return RESULT_UNFIT;
    if (!buffer_reserve(&unit->text, (size_t)total + 1))
        return RESULT_NO_MEMORY;
    heads = (struct bytes){unit->text.data + offset, heads_size};
    rests = (struct bytes){heads.data + heads_size, total - heads_size};
    for (size_t i = 0; i < unit->count; i++) {
        struct bytes *mapping = &unit->records[i].mapping, head = heads, ignored;
        uint8_t *to = unit->text.data + unit->text.size;

        if (head.size > mapping->size)
            head.size = mapping->size;
        if (!split_mapping(head, &head, &ignored) || mapping->size - head.size > rests.size)
            return RESULT_UNFIT;
        memcpy(to, take_bytes(&heads, head.size), (size_t)head.size);
        memcpy(to + head.size, take_bytes(&rests, mapping->size - head.size),
               (size_t)(mapping->size - head.size));
        mapping->data = to;
        unit->text.size += (size_t)mapping->size;
    }
    return heads.size == 0 && rests.size == 0 ? RESULT_OK : RESULT_UNFIT;
}

static enum result read_all(struct packed_unit *unit, bool big_endian, uint64_t limit,
                            struct bytes rest)
{
    struct start start;
    struct bytes text;
    enum result result;

    if (!read_start(rest, unit, &start))
        return RESULT_UNFIT;
    if (start.text_size > limit / 2 ||
        start.count > (limit - 2 * start.text_size) / sizeof(*unit->records))
        return RESULT_OVER_LIMIT;
    if (!array_make_room(&unit->records, &unit->capacity, 0, (size_t)start.count,
                         sizeof(*unit->records)))
        return RESULT_NO_MEMORY;
    result = inflate_exactly(start.stream, start.text_size, &unit->text);
    if (result != RESULT_OK)
        return result;
    text = buffer_view(&unit->text);
    return read_records(unit, &start, &text, big_endian)
               ? read_mappings(unit, start.heads_size, text)
               : RESULT_UNFIT;
}

enum result packed_unit_read(struct packed_unit *unit, struct bytes packed, bool big_endian,
                             uint64_t limit)
{
    struct bytes section = packed, whole;
    enum result result;

    unit->count = 0;
    unit->text.size = 0;
    if (!packed_unit_take(&section, big_endian, &whole) || whole.size != packed.size)
        return RESULT_UNFIT;
    take_bytes(&packed, COVMAP_HEADER_SIZE);
    result = read_all(unit, big_endian, limit, packed);
    if (result != RESULT_OK)
        unit->count = 0;
    return result;
}
