/*
 * The places of functions: see function_places.h.
 */
#include "split/profiles/function_places.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/llvm/coverage.h"
#include "split/cli/memory.h"

/* A translation unit. */
struct unit {
    struct covmap_unit header;
    bool is_read;
    size_t first, count; /* of its filenames, in `numbers` */
};

struct reader {
    const struct sidecar *sidecar;
    struct names *files;
    bool big_endian;
    struct unit *units;
    size_t unit_count, unit_capacity;
    struct intern_table by_reference; /* the numbers of units, by FilenamesRef */
    uint32_t *numbers;                /* of files, which the mappings of each unit call 0, 1, ... */
    size_t number_count, number_capacity;
    struct covmap_names names; /* of one unit */
    struct buffer covmap;
    struct buffer scratch; /* a path, or the identity of a mapping */
};

/* ---- names of files ---- */

/* The number of a file, whose name is relative to the directory. */
static uint32_t number_file(struct reader *reader, struct bytes directory, struct bytes name)
{
    uint64_t number = 0;

    exit_unless_allocated(covmap_path(directory, name, reader->sidecar->facts.format == IMAGE_COFF,
                                      &reader->scratch, &name),
                          name.size);
    exit_unless_allocated(names_add(reader->files, name, &number), name.size);
    return (uint32_t)number;
}

/* Reads the filenames of a unit, unless that has been done. What is not sound is a unit without
 * files. */
static void need_unit(struct reader *reader, struct unit *unit)
{
    const struct covmap_names *names = &reader->names;
    struct bytes directory = {0};
    enum result result;

    if (unit->is_read)
        return;
    unit->is_read = true;
    result =
        covmap_names_read(&reader->names, unit->header.filenames, reader->sidecar->memory_limit);
    exit_unless_allocated(result != RESULT_NO_MEMORY, unit->header.filenames.size);
    if (result != RESULT_OK)
        return;
    if (unit->header.version >= COVMAP_VERSION_6 && names->count != 0)
        directory = names->names[0];
    unit->first = reader->number_count;
    unit->count = names->count;
    for (size_t i = 0; i < names->count; i++) {
        COMMAND_ROOM_FOR_ONE(reader->numbers, reader->number_capacity, reader->number_count);
        reader->numbers[reader->number_count++] = number_file(reader, directory, names->names[i]);
    }
}

/* ---- the mapping ---- */

static bool read_section(const struct sidecar *sidecar, enum section_kind kind,
                         struct buffer *content, struct error *error)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return section == NULL || sidecar_read_section(sidecar, section, content, error);
}

/* Lists the units. Free with close_reader, even after a failure. */
static bool open_reader(struct reader *reader, const struct sidecar *sidecar, struct names *files,
                        struct error *error)
{
    struct unit unit = {0};
    struct bytes rest;

    *reader = (struct reader){
        .sidecar = sidecar, .files = files, .big_endian = sidecar->facts.elf_data == 2};
    if (!read_section(sidecar, SECTION_COVMAP, &reader->covmap, error))
        return false;
    rest = buffer_view(&reader->covmap);
    while (covmap_take(&rest, reader->big_endian, &unit.header)) {
        exit_unless_allocated(
            intern_table_put(&reader->by_reference, unit.header.reference, reader->unit_count),
            reader->unit_count);
        COMMAND_ROOM_FOR_ONE(reader->units, reader->unit_capacity, reader->unit_count);
        reader->units[reader->unit_count++] = unit;
    }
    return true;
}

static void close_reader(struct reader *reader)
{
    buffer_free(&reader->covmap);
    buffer_free(&reader->scratch);
    covmap_names_free(&reader->names);
    intern_table_free(&reader->by_reference);
    free(reader->units);
    free(reader->numbers);
}

/* A digest of the names of the function's files and of what follows them in its mapping. */
static uint64_t digest_regions(struct reader *reader, const struct unit *unit,
                               struct covfun_files files)
{
    struct buffer *identity = &reader->scratch;
    uint64_t number, regions;
    struct digest digest;

    identity->size = 0;
    while (bytes_take_uleb128(&files.numbers, &number)) {
        uint32_t file = number < unit->count ? reader->numbers[unit->first + number] : UINT32_MAX;

        buffer_append(identity, &file, sizeof(file));
    }
    buffer_append(identity, files.rest.data, (size_t)files.rest.size);
    exit_unless_allocated(!identity->failed, identity->size);
    digest = digest_of(buffer_view(identity));
    memcpy(&regions, digest.bytes, sizeof(regions));
    return regions | 1;
}

static void add_place(struct reader *reader, const struct covfun_record *record, struct unit *unit,
                      struct function_places *places)
{
    struct function_place place = {.name_ref = record->name_reference,
                                   .hash = record->function_hash};
    struct covfun_files files;
    struct bytes numbers;
    uint64_t number;

    need_unit(reader, unit);
    if (!covfun_read_files(record, &files) || !covfun_tell_dummy(record, &place.is_dummy))
        return;
    numbers = files.numbers;
    if (!bytes_take_uleb128(&numbers, &number) || number >= unit->count)
        return;
    place.file = reader->numbers[unit->first + number];
    place.regions = digest_regions(reader, unit, files);
    COMMAND_ROOM_FOR_ONE(places->items, places->capacity, places->count);
    places->items[places->count++] = place;
}

/* As in llvm-cov, the first record of a function counts, unless it is a dummy and another one is
 * none. A hash of 0 alone does not tell: functions without control flow have it, too. */
static void index_places(struct function_places *places)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < places->count; i++) {
            const struct function_place *place = &places->items[i];

            if (place->is_dummy == (pass == 1))
                exit_unless_allocated(
                    intern_table_put(&places->by_both,
                                     function_places_key(place->name_ref, place->hash), i) &&
                        intern_table_put(&places->by_name, place->name_ref, i),
                    places->count);
        }
    }
}

void function_places_keep(struct function_places *places, uint64_t name_ref)
{
    struct function_places kept = {0};

    for (size_t i = 0; i < places->count; i++) {
        if (places->items[i].name_ref != name_ref)
            continue;
        COMMAND_ROOM_FOR_ONE(kept.items, kept.capacity, kept.count);
        kept.items[kept.count++] = places->items[i];
    }
    index_places(&kept);
    function_places_free(places);
    *places = kept;
}

bool function_places_read(struct function_places *places, const struct sidecar *sidecar,
                          const struct intern_table *wanted, struct names *files,
                          struct error *error)
{
    struct buffer covfun = {0};
    struct covfun_record record;
    struct reader reader;
    uint64_t number;
    bool done = open_reader(&reader, sidecar, files, error) &&
                read_section(sidecar, SECTION_COVFUN, &covfun, error);
    struct bytes rest = buffer_view(&covfun);

    while (done && covfun_take(&rest, reader.big_endian, &record)) {
        if ((wanted == NULL || intern_table_find(wanted, record.name_reference, &number)) &&
            intern_table_find(&reader.by_reference, record.filenames_reference, &number))
            add_place(&reader, &record, &reader.units[number], places);
    }
    index_places(places);
    close_reader(&reader);
    buffer_free(&covfun);
    return done;
}

const struct function_place *function_places_find(const struct function_places *places,
                                                  uint64_t name_ref, uint64_t hash)
{
    const struct function_place *place;
    uint64_t number;

    if (intern_table_find(&places->by_both, function_places_key(name_ref, hash), &number)) {
        place = &places->items[number];
        if (place->name_ref == name_ref && place->hash == hash)
            return place;
    }
    return intern_table_find(&places->by_name, name_ref, &number) ? &places->items[number] : NULL;
}

void function_places_free(struct function_places *places)
{
    intern_table_free(&places->by_both);
    intern_table_free(&places->by_name);
    free(places->items);
    *places = (struct function_places){0};
}

bool covered_files_read(const struct sidecar *sidecar, struct digest_set *units,
                        struct names *files, struct error *error)
{
    struct names all = {0};
    struct reader reader;
    bool done = open_reader(&reader, sidecar, &all, error);

    for (size_t i = 0; done && i < reader.unit_count; i++) {
        struct unit *unit = &reader.units[i];
        bool has_directory = unit->header.version >= COVMAP_VERSION_6;
        struct digest digest = digest_of(unit->header.filenames);
        uint64_t number;

        digest.bytes[0] ^= (uint8_t)(has_directory | (sidecar->facts.format == IMAGE_COFF) << 1);
        if (digest_set_has(units, &digest))
            continue;
        exit_unless_allocated(digest_set_add(units, &digest), units->count);
        need_unit(&reader, unit);
        /* The first name may be that of the compilation directory. */
        for (size_t k = has_directory; k < unit->count; k++) {
            struct bytes name = names_get(&all, reader.numbers[unit->first + k]);

            exit_unless_allocated(names_add(files, name, &number), name.size);
        }
    }
    close_reader(&reader);
    names_free(&all);
    return done;
}
