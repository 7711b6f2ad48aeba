/*
 * The units and records of an object: see units.h.
 */
#include "formats/object/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/llvm/coverage.h"

enum result object_keep(struct object_packing *packing, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(packing->reason, sizeof(packing->reason), format, arguments);
    va_end(arguments);
    packing->outcome = OBJECT_KEPT;
    return RESULT_UNFIT;
}

void object_units_free(struct object_units *units)
{
    for (size_t i = 0; i < units->count; i++)
        packed_unit_free(&units->units[i]);
    free(units->units);
    intern_table_free(&units->by_reference);
    *units = (struct object_units){0};
}

/* Whether what was taken off `before`, of which `after` is left, is `size` bytes and zeros up to
 * the next unit or record. Behind the last one there are only those of the compiler. */
static bool is_padded(struct bytes before, struct bytes after, uint64_t size, uint64_t last)
{
    uint64_t taken = before.size - after.size;
    struct bytes padding = {before.data + size, taken - size};

    return bytes_all_zero(padding) && (after.size != 0 || taken == align_up(size, last));
}

static enum result add_unit(struct object_units *units, const struct covmap_unit *found,
                            struct object_packing *packing)
{
    uint64_t number;

    if (intern_table_find(&units->by_reference, found->reference, &number))
        return object_keep(packing, "two of its translation units have the same files, so that it "
                                    "is not known which of them a record belongs to; pack the "
                                    "objects before they are linked into one");
    if (!ARRAY_ROOM_FOR_ONE(units->units, units->capacity, units->count) ||
        !intern_table_put(&units->by_reference, found->reference, units->count))
        return RESULT_NO_MEMORY;
    units->units[units->count++] = (struct packed_unit){
        .version = found->version, .filenames = found->filenames, .reference = found->reference};
    return RESULT_OK;
}

enum result object_units_add_covmap(struct object_units *units, struct bytes covmap,
                                    struct object_packing *packing)
{
    struct covmap_unit unit;
    enum result result;

    packing->mapping_size += covmap.size;
    while (covmap.size != 0) {
        struct bytes before = covmap;

        if (packed_unit_recognize(covmap, units->big_endian))
            return object_keep(packing, "it was linked from packed objects and ordinary ones; pack "
                                        "all of them before that");
        if (!covmap_take(&covmap, units->big_endian, &unit) ||
            !is_padded(before, covmap, COVMAP_HEADER_SIZE + unit.filenames.size,
                       COVMAP_UNIT_PADDING))
            return object_keep(packing, "its list of source files (__llvm_covmap) is damaged or of "
                                        "an unknown version; compile it with clang 13 or later");
        result = add_unit(units, &unit, packing);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* The longest name of a group: __covrec_NAMEREFu. */
#define SIGNATURE_MAX 32

static bool tell_group(struct bytes signature, uint64_t name_reference, enum packed_group *group)
{
    char name[SIGNATURE_MAX];
    uint64_t length =
        (uint64_t)snprintf(name, sizeof(name), "__covrec_%" PRIX64 "u", name_reference);

    *group = PACKED_GROUP_NONE;
    if (signature.data == NULL)
        return true;
    *group = signature.size == length ? PACKED_GROUP_OF_USED : PACKED_GROUP_OF_UNUSED;
    return (signature.size == length || signature.size == length - 1) &&
           memcmp(signature.data, name, signature.size) == 0;
}

static enum result add_record(struct object_units *units, const struct covfun_record *found,
                              enum packed_group group, struct object_packing *packing)
{
    struct packed_unit *unit;
    uint64_t number;

    if (!intern_table_find(&units->by_reference, found->filenames_reference, &number))
        return object_keep(packing, "a function's record names files that are not in the object; "
                                    "compile it again");
    if (number < units->open)
        return object_keep(packing, "its records are not in the order of its translation units; "
                                    "pack the objects before they are linked into one");
    units->open = (size_t)number;
    unit = &units->units[number];
    if (!ARRAY_ROOM_FOR_ONE(unit->records, unit->capacity, unit->count))
        return RESULT_NO_MEMORY;
    unit->records[unit->count++] = (struct packed_record){.name_reference = found->name_reference,
                                                          .function_hash = found->function_hash,
                                                          .mapping = found->mapping,
                                                          .group = group};
    return RESULT_OK;
}

enum result object_units_add_covfun(struct object_units *units, struct bytes covfun,
                                    struct bytes signature, struct object_packing *packing)
{
    bool is_one = signature.data != NULL;
    struct covfun_record record;
    enum packed_group group;
    enum result result;

    packing->mapping_size += covfun.size;
    if (is_one && covfun.size == 0)
        return object_keep(packing, "a group for a function's record is empty; compile it again");
    while (covfun.size != 0) {
        struct bytes before = covfun;

        if (!covfun_take(&covfun, units->big_endian, &record) ||
            !is_padded(before, covfun, record.whole.size, 1) || (is_one && covfun.size != 0))
            return object_keep(packing, "a function's record (__llvm_covfun) is damaged; compile "
                                        "it again");
        if (!tell_group(signature, record.name_reference, &group))
            return object_keep(packing,
                               "a function's record is in a group that does not have its "
                               "name (__covrec_%" PRIX64 "); compile it with clang 13 or "
                               "later",
                               record.name_reference);
        result = add_record(units, &record, group, packing);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* Whether two units are the same but for where they are. */
static bool is_same(const struct packed_unit *one, const struct packed_unit *other)
{
    if (one->version != other->version || one->count != other->count ||
        one->reference != other->reference || !bytes_equal(one->filenames, other->filenames))
        return false;
    for (size_t i = 0; i < one->count; i++) {
        const struct packed_record *a = &one->records[i], *b = &other->records[i];

        if (a->name_reference != b->name_reference || a->function_hash != b->function_hash ||
            a->group != b->group || !bytes_equal(a->mapping, b->mapping))
            return false;
    }
    return true;
}

/* Appends a packed unit, and proves that it can be read. */
static enum result write_unit(const struct object_units *units, const struct packed_unit *unit,
                              struct buffer *section, struct packed_unit *again)
{
    size_t start = section->size;
    enum result result = packed_unit_write(unit, units->big_endian, section);
    struct bytes packed;

    if (result != RESULT_OK)
        return result;
    packed = (struct bytes){section->data + start, section->size - start};
    result = packed_unit_read(again, packed, units->big_endian, MEMORY_LIMIT_MOST);
    if (result == RESULT_NO_MEMORY)
        return result;
    return result == RESULT_OK && is_same(unit, again) ? RESULT_OK : RESULT_UNFIT;
}

enum result object_units_write(const struct object_units *units, struct buffer *section,
                               struct object_packing *packing)
{
    size_t start = section->size;
    struct packed_unit again = {0};
    enum result result = RESULT_OK;

    packing->record_count = 0;
    for (size_t i = 0; result == RESULT_OK && i < units->count; i++) {
        uint64_t padding = -(uint64_t)(section->size - start) % COVERAGE_ALIGNMENT;

        if (!buffer_append_zeros(section, (size_t)padding))
            result = RESULT_NO_MEMORY;
        else
            result = write_unit(units, &units->units[i], section, &again);
        packing->record_count += units->units[i].count;
    }
    packed_unit_free(&again);
    packing->packed_size = section->size - start;
    return result != RESULT_UNFIT
               ? result
               : object_keep(packing, "its records are damaged, or too large to be packed; compile "
                                      "it again");
}
