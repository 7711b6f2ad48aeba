/*
 * The records of the coverage mapping's sections: see coverage.h.
 */
#include "common/llvm/coverage.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/inflate.h"
#include "common/llvm/mapping.h"

/* Moves to the end of what has been taken, `size` bytes, and of the padding after it. */
static void skip_padded(struct bytes *section, uint64_t size)
{
    uint64_t padded = align_up(size, COVERAGE_ALIGNMENT);

    take_bytes(section, padded < section->size ? padded : section->size);
}

/* ---- units ---- */

bool covmap_take_unhashed(struct bytes *section, bool big_endian, struct covmap_unit *unit)
{
    if (!bytes_slice(*section, 0, COVMAP_HEADER_SIZE, &unit->header) ||
        !bytes_slice(*section, COVMAP_HEADER_SIZE,
                     load_u32(unit->header.data + COVMAP_FILENAMES_SIZE, big_endian),
                     &unit->filenames))
        return false;
    unit->version = load_u32(unit->header.data + COVMAP_VERSION, big_endian);
    if (unit->version < COVMAP_VERSION_4 ||
        load_u32(unit->header.data + COVMAP_RECORD_COUNT, big_endian) != 0 ||
        load_u32(unit->header.data + COVMAP_COVERAGE_SIZE, big_endian) != 0)
        return false;
    skip_padded(section, COVMAP_HEADER_SIZE + unit->filenames.size);
    return true;
}

bool covmap_take(struct bytes *section, bool big_endian, struct covmap_unit *unit)
{
    if (!covmap_take_unhashed(section, big_endian, unit))
        return false;
    unit->reference = md5_name_reference(unit->filenames);
    return true;
}

bool covmap_append(struct buffer *section, uint32_t version, struct bytes filenames,
                   bool big_endian)
{
    uint8_t header[COVMAP_HEADER_SIZE] = {0};

    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, big_endian);
    store_u32(header + COVMAP_VERSION, version, big_endian);
    buffer_append(section, header, sizeof(header));
    return buffer_append(section, filenames.data, (size_t)filenames.size);
}

/* Splits a text of names, each after its size. */
static enum result split_names(struct covmap_names *names, struct bytes text, uint64_t count,
                               uint64_t limit)
{
    if (count > text.size)
        return RESULT_UNFIT;
    if (count > limit / sizeof(*names->names))
        return RESULT_OVER_LIMIT;
    if (!array_make_room(&names->names, &names->capacity, 0, (size_t)count, sizeof(*names->names)))
        return RESULT_NO_MEMORY;
    while (names->count < count) {
        struct bytes *name = &names->names[names->count];

        if (!bytes_take_uleb128(&text, &name->size) || !bytes_slice(text, 0, name->size, name))
            return RESULT_UNFIT;
        take_bytes(&text, name->size);
        names->count++;
    }
    return text.size == 0 ? RESULT_OK : RESULT_UNFIT;
}

enum result covmap_names_read(struct covmap_names *names, struct bytes filenames, uint64_t limit)
{
    uint64_t count, size, stored;
    enum result result;

    names->count = 0;
    names->text.size = 0;
    if (!bytes_take_uleb128(&filenames, &count) || !bytes_take_uleb128(&filenames, &size) ||
        !bytes_take_uleb128(&filenames, &stored) || filenames.size != (stored != 0 ? stored : size))
        return RESULT_UNFIT;
    if (stored == 0)
        return split_names(names, filenames, count, limit);
    if (size > limit)
        return RESULT_OVER_LIMIT;
    result = inflate_exactly(filenames, size, &names->text);
    if (result != RESULT_OK)
        return result;
    return split_names(names, buffer_view(&names->text), count, limit);
}

void covmap_names_free(struct covmap_names *names)
{
    buffer_free(&names->text);
    free(names->names);
    *names = (struct covmap_names){0};
}

/* ---- records of functions ---- */

bool covfun_take(struct bytes *section, bool big_endian, struct covfun_record *record)
{
    const uint8_t *header = section->data;

    if (section->size < COVFUN_HEADER_SIZE ||
        !bytes_slice(*section, COVFUN_HEADER_SIZE, covfun_mapping_size(header, big_endian),
                     &record->mapping))
        return false;
    record->name_reference = load_u64(header + COVFUN_NAME_REF, big_endian);
    record->function_hash = load_u64(header + COVFUN_FUNC_HASH, big_endian);
    record->filenames_reference = load_u64(header + COVFUN_FILENAMES_REF, big_endian);
    record->whole = (struct bytes){header, COVFUN_HEADER_SIZE + record->mapping.size};
    skip_padded(section, record->whole.size);
    return true;
}

bool covfun_append(struct buffer *section, const struct covfun_record *record, bool big_endian)
{
    uint8_t header[COVFUN_HEADER_SIZE];

    store_u64(header + COVFUN_NAME_REF, record->name_reference, big_endian);
    store_u32(header + COVFUN_DATA_SIZE, (uint32_t)record->mapping.size, big_endian);
    store_u64(header + COVFUN_FUNC_HASH, record->function_hash, big_endian);
    store_u64(header + COVFUN_FILENAMES_REF, record->filenames_reference, big_endian);
    buffer_append(section, header, sizeof(header));
    return buffer_append(section, record->mapping.data, (size_t)record->mapping.size);
}

bool covfun_read_files(const struct covfun_record *record, struct covfun_files *files)
{
    const uint8_t *data = record->mapping.data;
    uint64_t number;

    /* Nearly all mappings have one file, with a small number. */
    if (record->mapping.size >= 2 && data[0] == 1 && data[1] < 0x80) {
        files->count = 1;
        files->numbers = (struct bytes){data + 1, 1};
        files->rest = (struct bytes){data + 2, record->mapping.size - 2};
        return true;
    }
    files->rest = record->mapping;
    if (!bytes_take_uleb128(&files->rest, &files->count) || files->count > files->rest.size)
        return false;
    files->numbers = files->rest;
    for (uint64_t i = 0; i < files->count; i++) {
        if (!bytes_take_uleb128(&files->rest, &number))
            return false;
    }
    files->numbers.size -= files->rest.size;
    return true;
}

bool covfun_tell_dummy(const struct covfun_record *record, bool *is_dummy)
{
    struct bytes rest = record->mapping;
    uint64_t files, file, expressions, regions, counter;

    *is_dummy = false;
    if (record->function_hash != 0)
        return true;
    if (!bytes_take_uleb128(&rest, &files))
        return false;
    if (files != 1)
        return true;
    if (!bytes_take_uleb128(&rest, &file) || !bytes_take_uleb128(&rest, &expressions))
        return false;
    if (expressions != 0)
        return true;
    if (!bytes_take_uleb128(&rest, &regions))
        return false;
    if (regions != 1)
        return true;
    if (!bytes_take_uleb128(&rest, &counter))
        return false;
    *is_dummy = COUNTER_TAG(counter) == COUNTER_ZERO;
    return true;
}
