/*
 * Where functions are: see function_places.h.
 *
 * As in llvm-cov, relative filenames are in the compilation directory of their translation unit, if
 * the mapping has that, and "." and ".." in the result are resolved.
 */
#include "split/profiles/function_places.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/llvm/coverage.h"

/* The filenames of a translation unit. */
struct unit {
    struct covmap_unit header;
    bool is_read;
    size_t first, count; /* in `numbers` */
};

struct reader {
    struct function_places *places;
    const struct sidecar *sidecar;
    const struct function_filter *filter;
    struct names *files;
    bool big_endian;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct intern_table by_reference; /* the numbers of units, by FilenamesRef */
    uint32_t *numbers;                /* of files: what the mappings of each unit call 0, 1, ... */
    size_t number_count, number_capacity;
    struct covmap_names names; /* of one unit */
    struct buffer path;        /* of one file */
    struct buffer identity;    /* of the mapping of one function */
};

static bool no_memory(const struct reader *reader, struct error *error)
{
    return error_out_of_memory(error, sidecar_name(reader->sidecar), reader->places->count);
}

/* ---- names of files ---- */

static bool is_absolute(struct bytes name)
{
    return name.size != 0 &&
           (name.data[0] == '/' || name.data[0] == '\\' || (name.size > 1 && name.data[1] == ':'));
}

/* Removes the last part of the path, if it is one that ".." can remove. */
static bool remove_last(struct buffer *path)
{
    size_t size = path->size;

    while (size != 0 && path->data[size - 1] != '/')
        size--;
    if (size == 0 || (path->size - size == 2 && memcmp(path->data + size, "..", 2) == 0))
        return false;
    path->size = size - 1;
    return true;
}

/* Appends the parts of a path, each after a slash, without "." and "..". */
static bool append_parts(struct buffer *path, struct bytes name)
{
    while (name.size != 0) {
        const uint8_t *slash = memchr(name.data, '/', (size_t)name.size);
        size_t size = slash == NULL ? (size_t)name.size : (size_t)(slash - name.data);
        const char *part = (const char *)name.data;
        bool goes_up = size == 2 && memcmp(part, "..", 2) == 0;

        if (size != 0 && !(size == 1 && part[0] == '.') && !(goes_up && remove_last(path)) &&
            !(buffer_append(path, "/", 1) && buffer_append(path, part, size)))
            return false;
        take_bytes(&name, slash == NULL ? size : size + 1);
    }
    return true;
}

/* The number of a file, whose name is relative to the directory. */
static bool number_file(struct reader *reader, struct bytes directory, struct bytes name,
                        uint64_t *number)
{
    struct bytes path = name;

    if (directory.size != 0 && directory.data[0] == '/' &&
        (!is_absolute(name) || name.data[0] == '/')) {
        reader->path.size = 0;
        if ((!is_absolute(name) && !append_parts(&reader->path, directory)) ||
            !append_parts(&reader->path, name))
            return false;
        path = buffer_view(&reader->path);
    }
    return names_add(reader->files, path, number);
}

static bool number_files(struct reader *reader, struct unit *unit, struct error *error)
{
    const struct covmap_names *names = &reader->names;
    bool has_directory = unit->header.version >= COVMAP_VERSION_6 && names->count != 0;
    struct bytes directory = has_directory ? names->names[0] : (struct bytes){0};

    unit->first = reader->number_count;
    if (!array_make_room(&reader->numbers, &reader->number_capacity, reader->number_count,
                         names->count, sizeof(*reader->numbers)))
        return no_memory(reader, error);
    for (size_t i = 0; i < names->count; i++) {
        uint64_t number;

        if (!number_file(reader, directory, names->names[i], &number))
            return no_memory(reader, error);
        reader->numbers[reader->number_count++] = (uint32_t)number;
    }
    unit->count = names->count;
    return true;
}

/* Reads the filenames of a unit, unless that has been done. */
static bool need_unit(struct reader *reader, struct unit *unit, struct error *error)
{
    if (unit->is_read)
        return true;
    unit->is_read = true;
    switch (covmap_names_read(&reader->names, unit->header.filenames,
                              sidecar_memory_limit(reader->sidecar))) {
    case RESULT_OK:
        return number_files(reader, unit, error);
    case RESULT_NO_MEMORY:
        return no_memory(reader, error);
    default:
        return true; /* a unit without files */
    }
}

static bool list_units(struct reader *reader, struct bytes covmap, struct error *error)
{
    struct unit unit = {0};

    while (covmap_take(&covmap, reader->big_endian, &unit.header)) {
        if (!intern_table_put(&reader->by_reference, unit.header.reference, reader->unit_count) ||
            !ARRAY_ROOM_FOR_ONE(reader->units, reader->unit_capacity, reader->unit_count))
            return no_memory(reader, error);
        reader->units[reader->unit_count++] = unit;
    }
    return true;
}

/* ---- functions ---- */

/* A digest of the names of the function's files and of what follows them in its mapping. */
static bool digest_regions(struct reader *reader, const struct unit *unit,
                           struct covfun_files files, uint64_t *regions)
{
    struct digest digest;
    uint64_t number;

    reader->identity.size = 0;
    while (bytes_take_uleb128(&files.numbers, &number)) {
        uint32_t file = number < unit->count ? reader->numbers[unit->first + number] : UINT32_MAX;

        if (!buffer_append(&reader->identity, &file, sizeof(file)))
            return false;
    }
    if (!buffer_append(&reader->identity, files.rest.data, (size_t)files.rest.size))
        return false;
    digest = digest_of(buffer_view(&reader->identity));
    memcpy(regions, digest.bytes, sizeof(*regions));
    *regions |= 1;
    return true;
}

static bool add_place(struct reader *reader, const struct covfun_record *record,
                      const struct unit *unit, struct error *error)
{
    struct function_places *places = reader->places;
    struct function_place place = {.name_ref = record->name_reference,
                                   .hash = record->function_hash};
    struct covfun_files files;
    struct bytes numbers;
    uint64_t number;

    if (!covfun_read_files(record, &files) || !covfun_tell_dummy(record, &place.is_dummy))
        return true;
    numbers = files.numbers;
    if (!bytes_take_uleb128(&numbers, &number) || number >= unit->count)
        return true;
    place.file = reader->numbers[unit->first + number];
    if (!digest_regions(reader, unit, files, &place.regions) ||
        !ARRAY_ROOM_FOR_ONE(places->items, places->capacity, places->count))
        return no_memory(reader, error);
    places->items[places->count++] = place;
    return true;
}

static bool add_functions(struct reader *reader, struct bytes covfun, struct error *error)
{
    const struct function_filter *filter = reader->filter;
    struct covfun_record record;
    uint64_t number;

    while (covfun_take(&covfun, reader->big_endian, &record)) {
        if (filter != NULL && !filter->wants(filter->context, record.name_reference))
            continue;
        if (!intern_table_find(&reader->by_reference, record.filenames_reference, &number))
            continue;
        if (!need_unit(reader, &reader->units[number], error) ||
            !add_place(reader, &record, &reader->units[number], error))
            return false;
    }
    return true;
}

/* ---- finding them ---- */

static uint64_t both(uint64_t name_ref, uint64_t hash)
{
    return name_ref ^ (hash * UINT64_C(0x9e3779b97f4a7c15));
}

/* As in llvm-cov, the first record of a function counts, unless it is a dummy and another one is
 * none. A hash of 0 alone does not tell: functions without control flow have it, too. */
static bool index_places(struct function_places *places)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < places->count; i++) {
            const struct function_place *place = &places->items[i];

            if (place->is_dummy != (pass == 1))
                continue;
            if (!intern_table_put(&places->by_both, both(place->name_ref, place->hash), i) ||
                !intern_table_put(&places->by_name, place->name_ref, i))
                return false;
        }
    }
    return true;
}

const struct function_place *function_places_find(const struct function_places *places,
                                                  uint64_t name_ref, uint64_t hash)
{
    const struct function_place *place;
    uint64_t number;

    if (intern_table_find(&places->by_both, both(name_ref, hash), &number)) {
        place = &places->items[number];
        if (place->name_ref == name_ref && place->hash == hash)
            return place;
    }
    return intern_table_find(&places->by_name, name_ref, &number) ? &places->items[number] : NULL;
}

/* ---- the whole ---- */

static bool read_section(const struct reader *reader, enum section_kind kind,
                         struct buffer *content, struct error *error)
{
    const struct sidecar_section *section = sidecar_find(reader->sidecar, kind);

    return section == NULL || sidecar_read_section(reader->sidecar, section, content, error);
}

bool function_places_read(struct function_places *places, const struct sidecar *sidecar,
                          const struct function_filter *filter, struct names *files,
                          struct error *error)
{
    struct reader reader = {.places = places,
                            .sidecar = sidecar,
                            .filter = filter,
                            .files = files,
                            .big_endian = sidecar_facts(sidecar)->elf_data == 2};
    struct buffer covmap = {0}, covfun = {0};
    bool done = read_section(&reader, SECTION_COVMAP, &covmap, error) &&
                read_section(&reader, SECTION_COVFUN, &covfun, error) &&
                list_units(&reader, buffer_view(&covmap), error) &&
                add_functions(&reader, buffer_view(&covfun), error) &&
                (index_places(places) || no_memory(&reader, error));

    buffer_free(&covmap);
    buffer_free(&covfun);
    buffer_free(&reader.path);
    buffer_free(&reader.identity);
    covmap_names_free(&reader.names);
    intern_table_free(&reader.by_reference);
    free(reader.units);
    free(reader.numbers);
    return done;
}

bool covered_files_read(const struct sidecar *sidecar, struct names *files, struct error *error)
{
    struct function_places places = {0};
    struct names all = {0};
    struct reader reader = {.places = &places,
                            .sidecar = sidecar,
                            .files = &all,
                            .big_endian = sidecar_facts(sidecar)->elf_data == 2};
    struct buffer covmap = {0};
    uint64_t number;
    bool done = read_section(&reader, SECTION_COVMAP, &covmap, error) &&
                list_units(&reader, buffer_view(&covmap), error);

    for (size_t i = 0; done && i < reader.unit_count; i++) {
        const struct unit *unit = &reader.units[i];

        done = need_unit(&reader, &reader.units[i], error);
        /* The first name may be that of the compilation directory. */
        for (size_t k = unit->header.version >= COVMAP_VERSION_6; done && k < unit->count; k++) {
            struct bytes name = names_get(&all, reader.numbers[unit->first + k]);

            done = names_add(files, name, &number) || no_memory(&reader, error);
        }
    }
    buffer_free(&covmap);
    buffer_free(&reader.path);
    names_free(&all);
    covmap_names_free(&reader.names);
    intern_table_free(&reader.by_reference);
    free(reader.units);
    free(reader.numbers);
    return done;
}

void function_places_free(struct function_places *places)
{
    intern_table_free(&places->by_both);
    intern_table_free(&places->by_name);
    free(places->items);
    *places = (struct function_places){0};
}
