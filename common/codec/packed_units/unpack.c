/*
 * The ordinary coverage mapping of an image of packed objects: see packed_units/packed_unit.h.
 *
 * Units are in link order. The records of a packed unit come where it stands among the units. The
 * records of ordinary units are in __llvm_covfun, in link order too, and name their units. Of all
 * records of a group the first stays. The linker has already done so among the objects that were
 * not packed, but without knowing of the others, so it is done once more among all. Records that
 * are not packed have lost their group; the record itself tells if the function was used.
 *
 * The ordinary units between two packed ones are a run. An object is packed or not, so a run
 * consists of whole objects, and its records are next to each other in __llvm_covfun, in the order
 * in which they stay. Only the run that a record belongs to must be found. It is a run with the
 * unit that the record names, and no run before that of the previous record. Since several units
 * can have equal filenames, this may leave a choice; then the earliest run and the latest one that
 * are possible differ, and there is no certain result.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/codec/packed_units/packed_unit.h"

/* A run with a unit of these filenames. */
struct place {
    uint64_t reference;
    uint32_t run;
};

/* A record of an ordinary unit. */
struct ordinary_record {
    struct covfun_record record;
    uint32_t run;
};

/* The kind of object whose record of a group stays. */
enum holder { HELD_BY_PACKED, HELD_BY_ORDINARY, HELD_BY_NONE };

struct unpacking {
    bool big_endian;
    uint64_t limit;
    const char *name;
    struct error *error;
    struct place *places; /* by reference, then run */
    size_t place_count, place_capacity;
    struct ordinary_record *records;
    size_t record_count, record_capacity;
    size_t records_used;
    struct mapping mapping;
    struct packed_unit unit;          /* the current one */
    struct intern_table used, unused; /* NameRefs of groups that have a record: its holder */
    struct buffer *covmap, *covfun;   /* the result */
    size_t covmap_start, covfun_start;
};

static bool fail_damaged(struct unpacking *unpacking, const char *section)
{
    return error_set(unpacking->error,
                     "%s: %s is damaged, or was packed by a later covsplit; link the image "
                     "again, or use that covsplit",
                     unpacking->name, section);
}

static bool fail_memory(struct unpacking *unpacking)
{
    return error_out_of_memory(unpacking->error, unpacking->name,
                               unpacking->covmap->size + unpacking->covfun->size);
}

/* Fails for an image whose result is not certain. */
static bool fail_mixed(struct unpacking *unpacking, const char *reason)
{
    return error_set(unpacking->error,
                     "%s: %s; pack all objects of the image, or none, and link it again",
                     unpacking->name, reason);
}

/* ---- the run that a record belongs to ---- */

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left, *b = right;

    if (a->reference != b->reference)
        return a->reference < b->reference ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run;
}

static bool find_places(struct unpacking *unpacking, struct bytes covmap)
{
    uint32_t run = 0;
    struct bytes packed;
    struct covmap_unit unit;

    while (covmap.size != 0) {
        if (packed_unit_take(&covmap, unpacking->big_endian, &packed)) {
            run++;
            continue;
        }
        if (!covmap_take(&covmap, unpacking->big_endian, &unit))
            return fail_damaged(unpacking, "__llvm_covmap");
        if (!ARRAY_ROOM_FOR_ONE(unpacking->places, unpacking->place_capacity,
                                unpacking->place_count))
            return fail_memory(unpacking);
        unpacking->places[unpacking->place_count++] = (struct place){unit.reference, run};
    }
    if (unpacking->place_count != 0)
        qsort(unpacking->places, unpacking->place_count, sizeof(*unpacking->places),
              compare_places);
    return true;
}

/* The number of places before this run with a unit of these filenames. *is_there tells if it is
 * the next one. */
static size_t places_before(const struct unpacking *unpacking, struct place place, bool *is_there)
{
    size_t low = 0, high = unpacking->place_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_places(&unpacking->places[middle], &place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there =
        low < unpacking->place_count && compare_places(&unpacking->places[low], &place) == 0;
    return low;
}

/* Gives each record the earliest run that is possible, and checks that no later one is. */
static bool find_runs(struct unpacking *unpacking)
{
    struct ordinary_record *records = unpacking->records;
    struct place place = {0};
    bool is_there;

    for (size_t i = 0; i < unpacking->record_count; i++) {
        size_t at;

        place.reference = records[i].record.filenames_reference;
        if (i == 0 || place.reference != records[i - 1].record.filenames_reference) {
            at = places_before(unpacking, place, &is_there);
            if (at == unpacking->place_count || unpacking->places[at].reference != place.reference)
                return fail_mixed(unpacking, "a record in __llvm_covfun has no unit in "
                                             "__llvm_covmap where the order of objects needs it, "
                                             "so mapping cannot be unpacked");
            place.run = unpacking->places[at].run;
        }
        records[i].run = place.run;
    }
    place.run = UINT32_MAX;
    for (size_t i = unpacking->record_count; i-- > 0;) {
        place.reference = records[i].record.filenames_reference;
        if (i + 1 == unpacking->record_count ||
            place.reference != records[i + 1].record.filenames_reference) {
            size_t at = places_before(unpacking, place, &is_there);

            place.run = unpacking->places[is_there ? at : at - 1].run;
        }
        if (place.run != records[i].run)
            return fail_mixed(unpacking,
                              "units of __llvm_covmap that are not packed have the same "
                              "filenames, so the order of their functions is not certain");
    }
    return true;
}

static bool read_ordinary(struct unpacking *unpacking, struct bytes covfun)
{
    while (covfun.size != 0) {
        if (!ARRAY_ROOM_FOR_ONE(unpacking->records, unpacking->record_capacity,
                                unpacking->record_count))
            return fail_memory(unpacking);
        if (!covfun_take(&covfun, unpacking->big_endian,
                         &unpacking->records[unpacking->record_count].record))
            return fail_damaged(unpacking, "__llvm_covfun");
        unpacking->record_count++;
    }
    return find_runs(unpacking);
}

/* ---- the ordinary sections ---- */

/* Checks the limit for a header and what it covers, and appends the padding that linkers put in
 * front of it. */
static bool pad(struct unpacking *unpacking, struct buffer *section, size_t start, uint64_t more)
{
    size_t made = section->size - start;
    size_t padding = (size_t)align_up(made, COVERAGE_ALIGNMENT) - made;
    uint64_t all = unpacking->covmap->size - unpacking->covmap_start + unpacking->covfun->size -
                   unpacking->covfun_start;

    return memory_limit_allows(unpacking->limit, all + padding + more, unpacking->name,
                               "unpacked coverage mapping", unpacking->error) &&
           (buffer_append_zeros(section, padding) || fail_memory(unpacking));
}

static bool put_unit(struct unpacking *unpacking, uint32_t version, struct bytes filenames)
{
    struct buffer *covmap = unpacking->covmap;

    return pad(unpacking, covmap, unpacking->covmap_start, COVMAP_HEADER_SIZE + filenames.size) &&
           ((covmap_append(covmap, version, filenames, unpacking->big_endian) &&
             buffer_append_zeros(covmap, -filenames.size % COVMAP_UNIT_PADDING)) ||
            fail_memory(unpacking));
}

/* Puts the record, unless its group has one already. */
static bool put_record(struct unpacking *unpacking, const struct covfun_record *record,
                       enum packed_group group, enum holder holder)
{
    struct intern_table *groups =
        group == PACKED_GROUP_OF_USED ? &unpacking->used : &unpacking->unused;
    uint64_t former = HELD_BY_NONE;

    if (group != PACKED_GROUP_NONE && !intern_table_find(groups, record->name_reference, &former)) {
        former = HELD_BY_NONE;
        if (!intern_table_put(groups, record->name_reference, holder))
            return fail_memory(unpacking);
    }
    /* A linker keeps one record of each group. If there are two, they were in none, and would both
     * have stayed; but which other records were in none is not known. */
    if (holder == HELD_BY_ORDINARY && former == HELD_BY_ORDINARY)
        return fail_mixed(unpacking,
                          "objects that are not packed have records in __llvm_covfun without "
                          "their groups, so which ones stay is not certain");
    return former != HELD_BY_NONE ||
           (pad(unpacking, unpacking->covfun, unpacking->covfun_start,
                COVFUN_HEADER_SIZE + record->mapping.size) &&
            (covfun_append(unpacking->covfun, record, unpacking->big_endian) ||
             fail_memory(unpacking)));
}

/* The records of ordinary units in front of the packed unit that ends the run. */
static bool put_run(struct unpacking *unpacking, uint32_t run)
{
    while (unpacking->records_used < unpacking->record_count &&
           unpacking->records[unpacking->records_used].run <= run) {
        const struct covfun_record *record = &unpacking->records[unpacking->records_used++].record;
        enum packed_group group;
        enum result result = packed_group_of(&unpacking->mapping, record, &group);

        if (result == RESULT_NO_MEMORY)
            return fail_memory(unpacking);
        if (result != RESULT_OK)
            return fail_damaged(unpacking, "__llvm_covfun");
        if (!put_record(unpacking, record, group, HELD_BY_ORDINARY))
            return false;
    }
    return true;
}

static bool put_packed(struct unpacking *unpacking, struct bytes packed)
{
    struct packed_unit *unit = &unpacking->unit;
    enum result result = packed_unit_read(unit, packed, unpacking->big_endian, unpacking->limit);

    if (result == RESULT_NO_MEMORY)
        return fail_memory(unpacking);
    if (result == RESULT_OVER_LIMIT)
        return error_set(unpacking->error,
                         "%s: packed coverage mapping needs more than the limit of %" PRIu64
                         " bytes of memory; raise it (--memory-limit) if the file is to be trusted",
                         unpacking->name, unpacking->limit);
    if (result != RESULT_OK)
        return fail_damaged(unpacking, "__llvm_covmap");
    if (!put_unit(unpacking, unit->version, unit->filenames))
        return false;
    for (size_t i = 0; i < unit->count; i++) {
        const struct packed_record *packed_record = &unit->records[i];
        const struct covfun_record record = {
            .name_reference = packed_record->name_reference,
            .function_hash = packed_record->function_hash,
            .filenames_reference = unit->reference,
            .mapping = packed_record->mapping,
        };

        if (!put_record(unpacking, &record, packed_record->group, HELD_BY_PACKED))
            return false;
    }
    return true;
}

static bool put_all(struct unpacking *unpacking, struct bytes covmap)
{
    uint32_t run = 0;
    struct bytes packed;
    struct covmap_unit unit;

    while (covmap.size != 0) {
        if (packed_unit_take(&covmap, unpacking->big_endian, &packed)) {
            if (!put_run(unpacking, run++) || !put_packed(unpacking, packed))
                return false;
        } else if (!covmap_take_unhashed(&covmap, unpacking->big_endian, &unit)) {
            return fail_damaged(unpacking, "__llvm_covmap");
        } else if (!put_unit(unpacking, unit.version, unit.filenames)) {
            return false;
        }
    }
    return put_run(unpacking, run);
}

bool unpack_is_needed(struct bytes covmap, bool big_endian)
{
    struct covmap_unit unit;

    do {
        if (packed_unit_recognize(covmap, big_endian))
            return true;
    } while (covmap_take_unhashed(&covmap, big_endian, &unit));
    return false;
}

bool unpack_mapping(const struct mapping_sections *linked, bool big_endian, uint64_t limit,
                    const char *name, struct buffer *covmap, struct buffer *covfun,
                    struct error *error)
{
    struct unpacking unpacking = {
        .big_endian = big_endian,
        .limit = limit,
        .name = name,
        .error = error,
        .covmap = covmap,
        .covfun = covfun,
        .covmap_start = covmap->size,
        .covfun_start = covfun->size,
    };
    bool done = find_places(&unpacking, linked->covmap) &&
                read_ordinary(&unpacking, linked->covfun) && put_all(&unpacking, linked->covmap);

    if (!done) {
        covmap->size = unpacking.covmap_start;
        covfun->size = unpacking.covfun_start;
    }
    free(unpacking.places);
    free(unpacking.records);
    packed_unit_free(&unpacking.unit);
    mapping_free(&unpacking.mapping);
    intern_table_free(&unpacking.used);
    intern_table_free(&unpacking.unused);
    return done;
}
