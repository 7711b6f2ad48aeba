/*
 * Making ordinary coverage mapping of packed units: see packed_units/unpack.h.
 *
 * The ordinary units between two packed ones are a run. An object is packed or not, so a run
 * consists of whole objects, and its records are next to each other in __llvm_covfun, in the order
 * in which they stay. Only which run a record belongs to must be found out. It is a run with the
 * unit that the record names, and no run before that of the previous record. Since several units
 * can have equal filenames, this may leave a choice; then the earliest run and the latest one that
 * are possible differ, and there is no certain result.
 */
#include "common/codec/packed_units/unpack.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/intern_table.h"
#include "common/base/memory_limit.h"
#include "common/codec/packed_units/known_records.h"
#include "common/codec/packed_units/packed_unit.h"

/* A run with a unit of these filenames. */
struct place {
    uint64_t reference;
    uint32_t run;
};

struct unpacking {
    bool big_endian;
    uint64_t limit;
    const char *name;
    struct error *error;
    struct place *places; /* by reference, then run */
    size_t place_count, place_capacity;
    struct covfun_record *records; /* the ordinary ones */
    uint32_t *runs;                /* of each record */
    size_t record_count, record_capacity, run_capacity;
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

/* ---- which run a record belongs to ---- */

static int compare_places(const void *left, const void *right)
{
    const struct place *a = left, *b = right;

    if (a->reference != b->reference)
        return a->reference < b->reference ? -1 : 1;
    return a->run < b->run ? -1 : a->run > b->run;
}

static bool find_places(struct unpacking *unpacking, struct bytes covmap)
{
    bool big_endian = unpacking->big_endian;
    uint32_t run = 0;
    struct bytes packed;
    struct covmap_unit unit;

    while (covmap.size != 0) {
        if (packed_unit_take(&covmap, big_endian, &packed)) {
            run++;
            continue;
        }
        if (!covmap_take(&covmap, big_endian, &unit))
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

/* The number of places before this one. */
static size_t places_before(const struct unpacking *unpacking, const struct place *place)
{
    size_t low = 0, high = unpacking->place_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_places(&unpacking->places[middle], place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first run from `run` on with a unit of these filenames; UINT32_MAX if there is none. */
static uint32_t first_run_from(const struct unpacking *unpacking, uint64_t reference, uint32_t run)
{
    size_t at = places_before(unpacking, &(struct place){reference, run});

    return at < unpacking->place_count && unpacking->places[at].reference == reference
               ? unpacking->places[at].run
               : UINT32_MAX;
}

/* The last run up to `run` with a unit of these filenames, of which there must be one. */
static uint32_t last_run_to(const struct unpacking *unpacking, uint64_t reference, uint32_t run)
{
    size_t at = places_before(unpacking, &(struct place){reference, run});

    return at < unpacking->place_count && unpacking->places[at].reference == reference &&
                   unpacking->places[at].run == run
               ? run
               : unpacking->places[at - 1].run;
}

/* The earliest run that is possible for each record. */
static bool find_earliest(struct unpacking *unpacking)
{
    uint32_t run = 0;

    for (size_t i = 0; i < unpacking->record_count; i++) {
        uint64_t reference = unpacking->records[i].filenames_reference;

        if (i == 0 || reference != unpacking->records[i - 1].filenames_reference)
            run = first_run_from(unpacking, reference, run);
        if (run == UINT32_MAX)
            return error_set(unpacking->error,
                             "%s: a record in __llvm_covfun has no unit in __llvm_covmap where the "
                             "order of objects needs it, so mapping cannot be unpacked; pack all "
                             "objects of the image, or none, and link it again",
                             unpacking->name);
        unpacking->runs[i] = run;
    }
    return true;
}

/* Checks that no later run is possible. */
static bool check_latest(struct unpacking *unpacking)
{
    uint32_t run = UINT32_MAX;

    for (size_t i = unpacking->record_count; i-- > 0;) {
        uint64_t reference = unpacking->records[i].filenames_reference;

        if (i + 1 == unpacking->record_count ||
            reference != unpacking->records[i + 1].filenames_reference)
            run = last_run_to(unpacking, reference, run);
        if (run != unpacking->runs[i])
            return error_set(unpacking->error,
                             "%s: units of __llvm_covmap that are not packed have the same "
                             "filenames, so the order of their functions is not certain; pack all "
                             "objects of the image, or none, and link it again",
                             unpacking->name);
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
                         &unpacking->records[unpacking->record_count]))
            return fail_damaged(unpacking, "__llvm_covfun");
        unpacking->record_count++;
    }
    if (!array_make_room(&unpacking->runs, &unpacking->run_capacity, 0, unpacking->record_count,
                         sizeof(*unpacking->runs)))
        return fail_memory(unpacking);
    return find_earliest(unpacking) && check_latest(unpacking);
}

/* ---- groups ---- */

/* Who has the record of a group that stays. */
enum holder { HELD_BY_PACKED, HELD_BY_ORDINARY, HELD_BY_NONE };

/* Makes `holder` the holder of the group, if it has none. Sets *former to the one it had. */
static bool claim_group(struct unpacking *unpacking, uint64_t name_reference,
                        enum packed_group group, enum holder holder, enum holder *former)
{
    struct intern_table *groups =
        group == PACKED_GROUP_OF_USED ? &unpacking->used : &unpacking->unused;
    uint64_t found;

    *former = HELD_BY_NONE;
    if (intern_table_find(groups, name_reference, &found)) {
        *former = (enum holder)found;
        return true;
    }
    return intern_table_put(groups, name_reference, holder) || fail_memory(unpacking);
}

/* ---- the ordinary sections ---- */

static bool allow(struct unpacking *unpacking, uint64_t more)
{
    uint64_t made = unpacking->covmap->size - unpacking->covmap_start + unpacking->covfun->size -
                    unpacking->covfun_start;

    return memory_limit_allows(unpacking->limit, made + more, unpacking->name,
                               "unpacked coverage mapping", unpacking->error);
}

/* Appends a header, of zeros, and what it covers, behind the padding that linkers put in front of
 * it. Returns where the header is; NULL after a failure. */
static uint8_t *append(struct unpacking *unpacking, struct buffer *section, size_t start,
                       size_t header_size, struct bytes covered)
{
    size_t made = section->size - start;
    size_t padding = (size_t)align_up(made, COVERAGE_ALIGNMENT) - made;

    if (!allow(unpacking, padding + header_size + covered.size))
        return NULL;
    if (!buffer_append_zeros(section, padding + header_size) ||
        !buffer_append(section, covered.data, (size_t)covered.size)) {
        fail_memory(unpacking);
        return NULL;
    }
    return section->data + section->size - covered.size - header_size;
}

static bool put_unit(struct unpacking *unpacking, uint32_t version, struct bytes filenames)
{
    uint8_t *header = append(unpacking, unpacking->covmap, unpacking->covmap_start,
                             COVMAP_HEADER_SIZE, filenames);

    if (header == NULL)
        return false;
    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, unpacking->big_endian);
    store_u32(header + COVMAP_VERSION, version, unpacking->big_endian);
    return buffer_append_zeros(unpacking->covmap, -filenames.size % COVMAP_UNIT_PADDING) ||
           fail_memory(unpacking);
}

static bool put_record(struct unpacking *unpacking, const struct covfun_record *record)
{
    bool big_endian = unpacking->big_endian;
    uint8_t *header = append(unpacking, unpacking->covfun, unpacking->covfun_start,
                             COVFUN_HEADER_SIZE, record->mapping);

    if (header == NULL)
        return false;
    store_u64(header + COVFUN_NAME_REF, record->name_reference, big_endian);
    store_u32(header + COVFUN_DATA_SIZE, (uint32_t)record->mapping.size, big_endian);
    store_u64(header + COVFUN_FUNC_HASH, record->function_hash, big_endian);
    store_u64(header + COVFUN_FILENAMES_REF, record->filenames_reference, big_endian);
    return true;
}

static bool put_packed_record(struct unpacking *unpacking, const struct packed_record *packed)
{
    enum holder former = HELD_BY_NONE;

    if (packed->group != PACKED_GROUP_NONE &&
        !claim_group(unpacking, packed->name_reference, packed->group, HELD_BY_PACKED, &former))
        return false;
    return former != HELD_BY_NONE ||
           put_record(unpacking, &(struct covfun_record){
                                     .name_reference = packed->name_reference,
                                     .function_hash = packed->function_hash,
                                     .filenames_reference = unpacking->unit.reference,
                                     .mapping = packed->mapping,
                                 });
}

/* A linker keeps one record of each group. If there are two, they were in none, and would both have
 * stayed; but which other records were in none is not known. */
static bool put_ordinary_record(struct unpacking *unpacking, const struct covfun_record *record)
{
    enum holder former;
    enum packed_group group;
    enum result result = known_group(&unpacking->mapping, record, &group);

    if (result == RESULT_NO_MEMORY)
        return fail_memory(unpacking);
    if (result != RESULT_OK)
        return fail_damaged(unpacking, "__llvm_covfun");
    if (!claim_group(unpacking, record->name_reference, group, HELD_BY_ORDINARY, &former))
        return false;
    if (former == HELD_BY_ORDINARY)
        return error_set(unpacking->error,
                         "%s: objects that are not packed have records in __llvm_covfun without "
                         "their groups, so which ones stay is not certain; pack all objects of the "
                         "image, or none, and link it again",
                         unpacking->name);
    return former == HELD_BY_PACKED || put_record(unpacking, record);
}

/* The records of ordinary units in front of the packed unit that ends the run. */
static bool put_run(struct unpacking *unpacking, uint32_t run)
{
    while (unpacking->records_used < unpacking->record_count &&
           unpacking->runs[unpacking->records_used] <= run) {
        if (!put_ordinary_record(unpacking, &unpacking->records[unpacking->records_used++]))
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
        if (!put_packed_record(unpacking, &unit->records[i]))
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
        } else if (!covmap_take(&covmap, unpacking->big_endian, &unit)) {
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
    free(unpacking.runs);
    packed_unit_free(&unpacking.unit);
    mapping_free(&unpacking.mapping);
    intern_table_free(&unpacking.used);
    intern_table_free(&unpacking.unused);
    return done;
}
