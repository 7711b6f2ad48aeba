/*
 * Finding conflicts: see find_conflicts.h.
 *
 * All images are read at most twice. The first time, each data record is compared with the
 * first one of its name. The second time, which is needed only if some differed, all records of
 * these names become rows, with the files from the mapping.
 */
#include "split/profiles/find_conflicts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/intern_table.h"
#include "common/base/md5.h"
#include "split/profiles/function_places.h"

/* The first record of a name. */
struct seen {
    uint64_t name_ref;
    uint64_t hash;
    uint64_t place;    /* a digest of file and regions; 0: not known, or not looked at */
    uint64_t function; /* if a later record differs: 1 + its number in `functions`; else 0 */
    uint32_t counters;
};

/* A name that is looked at again. */
struct function {
    uint64_t name_ref;
    char *name; /* NULL until an image with names has been met */
};

struct finder {
    const struct conflict_source *source;
    struct conflicts *conflicts;
    bool thorough;
    uint64_t main_ref;           /* the NameRef of `main` */
    struct intern_table by_name; /* the numbers of `seen`, by NameRef */
    struct seen *seen;
    size_t seen_count, seen_capacity;
    size_t likely; /* the number of the next record's name, if images have them in one order */
    struct function *functions;
    size_t function_count, function_capacity;
    struct conflict_row *rows; /* of these functions, by image */
    size_t row_count, row_capacity;
};

static bool no_memory(const struct finder *finder, struct error *error)
{
    return error_out_of_memory(error, "the functions of all images", finder->seen_count);
}

/* ---- records ---- */

struct record {
    uint64_t name_ref, hash;
    uint32_t counters;
};

static uint64_t record_count(const struct profile *profile)
{
    return profile->data.size / profile->layout.record_size;
}

static struct record read_record(const struct profile *profile, uint64_t index)
{
    const uint8_t *record = profile->data.data + index * profile->layout.record_size;

    return (struct record){
        .name_ref = load_u64(record, profile->big_endian),
        .hash = load_u64(record + 8, profile->big_endian),
        .counters = load_u32(record + profile->layout.num_counters, profile->big_endian),
    };
}

/* ---- which names disagree ---- */

static uint64_t place_of(const struct function_places *places, const struct record *record)
{
    const struct function_place *place =
        function_places_find(places, record->name_ref, record->hash);

    return place == NULL ? 0 : place->regions;
}

static bool differs(const struct finder *finder, const struct seen *seen,
                    const struct record *record, uint64_t place)
{
    if (seen->counters != record->counters && seen->hash == record->hash)
        return true;
    if (seen->hash != record->hash)
        return finder->thorough || record->name_ref != finder->main_ref;
    return place != 0 && seen->place != 0 && place != seen->place;
}

static bool add_function(struct finder *finder, struct seen *seen, uint64_t name_ref,
                         struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(finder->functions, finder->function_capacity, finder->function_count))
        return no_memory(finder, error);
    finder->functions[finder->function_count++] = (struct function){.name_ref = name_ref};
    seen->function = finder->function_count;
    return true;
}

/* Sets *number to that of a name, which may be the next new one. Images of one library have its
 * functions in one order, so the table is seldom needed. */
static bool number_name(struct finder *finder, uint64_t name_ref, uint64_t *number)
{
    *number = finder->likely;
    if ((finder->likely >= finder->seen_count ||
         finder->seen[finder->likely].name_ref != name_ref) &&
        !intern_table_add(&finder->by_name, name_ref, number))
        return false;
    finder->likely = (size_t)*number + 1;
    return true;
}

static bool compare_record(struct finder *finder, const struct record *record, uint64_t place,
                           struct error *error)
{
    struct seen *seen;
    uint64_t number;

    if (!number_name(finder, record->name_ref, &number))
        return no_memory(finder, error);
    if (number == finder->seen_count) {
        if (!ARRAY_ROOM_FOR_ONE(finder->seen, finder->seen_capacity, finder->seen_count))
            return no_memory(finder, error);
        finder->seen[finder->seen_count++] = (struct seen){.name_ref = record->name_ref,
                                                           .hash = record->hash,
                                                           .place = place,
                                                           .counters = record->counters};
        return true;
    }
    seen = &finder->seen[number];
    if (seen->function == 0 && differs(finder, seen, record, place) &&
        !add_function(finder, seen, record->name_ref, error))
        return false;
    if (seen->place == 0)
        seen->place = place;
    return true;
}

static bool read_places(const struct finder *finder, size_t image,
                        const struct function_filter *filter, struct function_places *places,
                        struct error *error)
{
    const struct sidecar *sidecar = finder->source->sidecar(finder->source->context, image);

    return sidecar == NULL ||
           function_places_read(places, sidecar, filter, &finder->conflicts->files, error);
}

static bool compare_image(struct finder *finder, size_t image, struct error *error)
{
    struct function_places places = {0};
    struct profile profile;
    bool done;

    done = finder->source->profile(finder->source->context, image, &profile, error) &&
           (!finder->thorough || read_places(finder, image, NULL, &places, error));
    for (uint64_t i = 0; done && i < record_count(&profile); i++) {
        struct record record = read_record(&profile, i);

        done = compare_record(finder, &record, finder->thorough ? place_of(&places, &record) : 0,
                              error);
    }
    function_places_free(&places);
    return done;
}

/* ---- their records ---- */

/* The number of the function, if its name is one that is looked at; false if it is not. */
static bool find_function(const struct finder *finder, uint64_t name_ref, uint64_t *function)
{
    uint64_t number;

    if (!intern_table_find(&finder->by_name, name_ref, &number) ||
        finder->seen[number].function == 0)
        return false;
    *function = finder->seen[number].function - 1;
    return true;
}

/* A function_filter. */
static bool is_looked_at(const void *context, uint64_t name_ref)
{
    uint64_t function;

    return find_function(context, name_ref, &function);
}

static bool add_row(struct finder *finder, size_t image, uint64_t function,
                    const struct record *record, struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(finder->rows, finder->row_capacity, finder->row_count))
        return no_memory(finder, error);
    finder->rows[finder->row_count++] = (struct conflict_row){.function = function,
                                                              .hash = record->hash,
                                                              .counters = record->counters,
                                                              .file = CONFLICT_NO_FILE,
                                                              .image = image};
    return true;
}

/* Sets the files of the rows from `first` on, which are those of an image. */
static bool place_rows(struct finder *finder, size_t image, size_t first, struct error *error)
{
    const struct function_filter filter = {is_looked_at, finder};
    struct function_places places = {0};
    bool done = read_places(finder, image, &filter, &places, error);

    for (size_t i = first; done && i < finder->row_count; i++) {
        struct conflict_row *row = &finder->rows[i];
        const struct function_place *place =
            function_places_find(&places, finder->functions[row->function].name_ref, row->hash);

        if (place == NULL)
            continue;
        row->file = place->file;
        row->regions = place->hash == row->hash ? place->regions : 0;
    }
    function_places_free(&places);
    return done;
}

static bool set_name(struct function *function, const struct names *names)
{
    const char *name = names_find(names, function->name_ref);

    if (name == NULL)
        return true;
    function->name = strdup(name);
    return function->name != NULL;
}

/* Names the functions of the rows from `first` on that have no name yet. */
static bool name_rows(struct finder *finder, const struct profile *profile, size_t first,
                      struct error *error)
{
    struct names names = {0};
    bool done = true, is_read = false;

    for (size_t i = first; done && i < finder->row_count; i++) {
        struct function *function = &finder->functions[finder->rows[i].function];

        if (function->name != NULL)
            continue;
        if (!is_read)
            done = names_read(&names, profile->names, "names", error);
        is_read = true;
        if (done && !set_name(function, &names))
            done = no_memory(finder, error);
    }
    names_free(&names);
    return done;
}

static bool collect_image(struct finder *finder, size_t image, struct error *error)
{
    size_t first = finder->row_count;
    struct profile profile;
    bool done = finder->source->profile(finder->source->context, image, &profile, error);

    for (uint64_t i = 0; done && i < record_count(&profile); i++) {
        struct record record = read_record(&profile, i);
        uint64_t function;

        if (find_function(finder, record.name_ref, &function))
            done = add_row(finder, image, function, &record, error);
    }
    if (!done || first == finder->row_count)
        return done;
    return name_rows(finder, &profile, first, error) && place_rows(finder, image, first, error);
}

/* ---- conflicts ---- */

/* Adds the conflicts among the rows of a function. */
static bool add_conflicts(struct finder *finder, const struct conflict_row *rows, size_t count,
                          struct error *error)
{
    const struct function *function = &finder->functions[rows[0].function];
    struct function_rows all = {function->name, rows, count};
    char reference[32];

    if (function->name == NULL) {
        snprintf(reference, sizeof(reference), "0x%016" PRIx64, function->name_ref);
        all.name = reference;
    }
    return conflicts_add(finder->conflicts, finder->thorough, &all) || no_memory(finder, error);
}

static int compare_functions(const void *a, const void *b)
{
    const struct conflict_row *left = a, *right = b;

    return left->function < right->function ? -1 : left->function > right->function;
}

static bool add_all_conflicts(struct finder *finder, struct error *error)
{
    if (finder->row_count == 0)
        return true;
    qsort(finder->rows, finder->row_count, sizeof(*finder->rows), compare_functions);
    for (size_t start = 0, end; start < finder->row_count; start = end) {
        for (end = start;
             end < finder->row_count && finder->rows[end].function == finder->rows[start].function;)
            end++;
        if (!add_conflicts(finder, &finder->rows[start], end - start, error))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

static void free_finder(struct finder *finder)
{
    for (size_t i = 0; i < finder->function_count; i++)
        free(finder->functions[i].name);
    free(finder->functions);
    free(finder->seen);
    free(finder->rows);
    intern_table_free(&finder->by_name);
}

static bool find(struct finder *finder, struct error *error)
{
    for (size_t i = 0; i < finder->source->image_count; i++) {
        if (!compare_image(finder, i, error))
            return false;
    }
    for (size_t i = 0; finder->function_count != 0 && i < finder->source->image_count; i++) {
        if (!collect_image(finder, i, error))
            return false;
    }
    return add_all_conflicts(finder, error);
}

bool conflicts_find(const struct conflict_source *source, bool thorough,
                    struct conflicts *conflicts, struct error *error)
{
    static const char main_name[] = "main";
    const struct bytes name = {(const uint8_t *)main_name, sizeof(main_name) - 1};
    struct finder finder = {.source = source, .conflicts = conflicts, .thorough = thorough};
    bool done;

    finder.main_ref = md5_name_reference(name);
    done = find(&finder, error);
    conflicts_sort(conflicts);
    free_finder(&finder);
    return done;
}
