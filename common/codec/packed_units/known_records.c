/*
 * The records of ordinary coverage mapping: see packed_units/known_records.h.
 */
#include "common/codec/packed_units/known_records.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/numbers.h"
#include "common/llvm/names.h"

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

void known_records_free(struct known_records *known)
{
    free(known->units);
    free(known->names);
    free(known->records);
    intern_table_free(&known->units_by_reference);
    intern_table_free(&known->file_numbers);
    *known = (struct known_records){0};
}

/* ---- units ---- */

static uint64_t file_key(uint32_t unit, uint32_t name)
{
    return (uint64_t)unit << 32 | name;
}

/* What a filename of a unit takes: its number, and two entries of a table, which may be half empty,
 * of a key and a value each. */
#define NAME_COST (sizeof(uint32_t) + 4 * sizeof(uint64_t))

/* Adds the filenames of the last unit. `all` are the distinct filenames of all units. Many small
 * units can each have many filenames, compressed, so these are counted, too. */
static enum result add_names(struct known_records *known, const struct covmap_names *list,
                             struct names *all, uint64_t limit)
{
    struct known_unit *unit = &known->units[known->unit_count - 1];

    if (known->name_count + list->count > limit / NAME_COST || all->text.size > limit)
        return RESULT_OVER_LIMIT;
    if (!array_make_room(&known->names, &known->name_capacity, known->name_count, list->count,
                         sizeof(*known->names)))
        return RESULT_NO_MEMORY;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t name;

        if (!names_add(all, list->names[i], &name) ||
            !intern_table_put(&known->file_numbers, file_key(unit->first, (uint32_t)name), i))
            return RESULT_NO_MEMORY;
        known->names[known->name_count++] = (uint32_t)name;
    }
    unit->name_end = known->name_count;
    return known->name_count > UINT32_MAX ? RESULT_UNFIT : RESULT_OK;
}

static enum result add_unit(struct known_records *known, const struct covmap_unit *unit,
                            struct covmap_names *list, struct names *all, uint64_t limit)
{
    uint64_t first = known->unit_count;
    enum result result;

    if (known->unit_count >= UINT32_MAX)
        return RESULT_UNFIT;
    if (!ARRAY_ROOM_FOR_ONE(known->units, known->unit_capacity, known->unit_count) ||
        !intern_table_put(&known->units_by_reference, unit->reference, first))
        return RESULT_NO_MEMORY;
    intern_table_find(&known->units_by_reference, unit->reference, &first);
    known->units[known->unit_count++] = (struct known_unit){
        .version = unit->version,
        .filenames = unit->filenames,
        .reference = unit->reference,
        .first = (uint32_t)first,
        .name_start = known->name_count,
        .name_end = known->name_count,
    };
    if (first + 1 != known->unit_count)
        return RESULT_OK;
    result = covmap_names_read(list, unit->filenames, limit);
    return result == RESULT_OK      ? add_names(known, list, all, limit)
           : result == RESULT_UNFIT ? RESULT_OK
                                    : result;
}

static enum result read_units(struct known_records *known, struct bytes covmap, bool big_endian,
                              uint64_t limit)
{
    struct covmap_names list = {0};
    struct names all = {0};
    enum result result = RESULT_OK;
    struct covmap_unit unit;

    while (result == RESULT_OK && covmap_take(&covmap, big_endian, &unit))
        result = add_unit(known, &unit, &list, &all, limit);
    covmap_names_free(&list);
    names_free(&all);
    return result;
}

uint32_t known_records_unit(const struct known_records *known, uint64_t reference)
{
    uint64_t unit;

    return intern_table_find(&known->units_by_reference, reference, &unit) ? (uint32_t)unit
                                                                           : UINT32_MAX;
}

/* ---- records ---- */

enum result known_group(struct mapping *mapping, const struct covfun_record *record,
                        enum packed_group *group)
{
    enum result result;

    *group = PACKED_GROUP_OF_USED;
    if (record->function_hash != 0)
        return RESULT_OK;
    result = mapping_read(mapping, record->mapping);
    if (result != RESULT_OK)
        return result;
    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned j = 0; j < region_counters(region->kind); j++) {
            if (COUNTER_TAG(region->operands[j]) != COUNTER_ZERO)
                return RESULT_OK;
        }
    }
    *group = PACKED_GROUP_OF_UNUSED;
    return RESULT_OK;
}

bool known_records_add(struct known_records *known, const struct known_record *record)
{
    if (!ARRAY_ROOM_FOR_ONE(known->records, known->capacity, known->count))
        return false;
    known->records[known->count++] = *record;
    return true;
}

static enum result read_records(struct known_records *known, struct bytes covfun, bool big_endian)
{
    struct mapping mapping = {0};
    enum result result = RESULT_OK;
    struct covfun_record record;

    while (result == RESULT_OK && covfun_take(&covfun, big_endian, &record)) {
        struct known_record added = {
            .name_reference = record.name_reference,
            .function_hash = record.function_hash,
            .mapping = mapping_split(record.mapping),
            .unit = known_records_unit(known, record.filenames_reference),
        };

        result = known_group(&mapping, &record, &added.group);
        if (result == RESULT_UNFIT)
            result = RESULT_OK;
        if (result == RESULT_OK && !known_records_add(known, &added))
            result = RESULT_NO_MEMORY;
    }
    mapping_free(&mapping);
    return result;
}

enum result known_records_read(struct known_records *known, const struct mapping_sections *ordinary,
                               bool big_endian, uint64_t limit)
{
    enum result result = read_units(known, ordinary->covmap, big_endian, limit);

    return result == RESULT_OK ? read_records(known, ordinary->covfun, big_endian) : result;
}

/* ---- files ---- */

/* Finds the number of the file in the unit. */
static bool find_file(struct known_records *known, uint32_t unit, uint32_t name, uint64_t *number)
{
    uint64_t key = file_key(unit, name);
    size_t place = (name ^ unit) % KNOWN_FILES;

    if (known->files[place].number_and_one == 0 || known->files[place].key != key) {
        if (!intern_table_find(&known->file_numbers, key, number))
            return false;
        known->files[place].key = key;
        known->files[place].number_and_one = *number + 1;
    }
    *number = known->files[place].number_and_one - 1;
    return true;
}

enum result known_records_files(struct known_records *known, const struct known_record *record,
                                uint32_t unit, struct buffer *files)
{
    struct bytes from = record->mapping.files;
    const struct known_unit *own;
    uint64_t count, number;

    if (record->unit == unit || from.size == 0)
        return buffer_append(files, from.data, (size_t)from.size) ? RESULT_OK : RESULT_NO_MEMORY;
    if (record->unit == UINT32_MAX)
        return RESULT_UNFIT;
    own = &known->units[record->unit];
    take_number(&from, &count);
    if (!buffer_append_uleb128(files, count))
        return RESULT_NO_MEMORY;
    for (uint64_t i = 0; i < count; i++) {
        take_number(&from, &number);
        if (number >= own->name_end - own->name_start ||
            !find_file(known, unit, known->names[own->name_start + number], &number))
            return RESULT_UNFIT;
        if (!buffer_append_uleb128(files, number))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}
