/*
 * covsplit merge --explain: see merge.h.
 *
 * Most names are settled by the data records, which a merge reads anyway: a table has the first
 * record of each name, and a name is looked at again only if a later record differs. Then all
 * records of these names become rows, and only for them the coverage mapping is read, to find out
 * in which files the functions are: `main` of two programs is not one function. With --explain, the
 * mapping of all functions is compared, too.
 *
 * A function that an image does not use has no data record, only a mapping with FuncHash 0; it is
 * never in conflict.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/llvm/names.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/profiles/merge.h"

/* The subjects of a disagreement, and what becomes of the counts. */
enum conflict_kind {
    CONFLICT_COUNTERS, /* the numbers of counters, with one FuncHash: llvm-profdata keeps those of
                        * the first image only */
    CONFLICT_HASH,    /* the FuncHash, in one file: llvm-cov shows the function of the first object,
                       * and only its counts */
    CONFLICT_REGIONS, /* lines and regions, in one file and with one FuncHash: the counts are added,
                       * and llvm-cov shows them at the regions of the first object */
    CONFLICT_FILES,   /* the file, with one FuncHash: the counts are added, and shown for each */
    CONFLICT_KINDS,
};

static const struct {
    const char *word, *heading;
} kinds[CONFLICT_KINDS] = {
    [CONFLICT_COUNTERS] = {"counters", "in the number of counters, so the merge has only the "
                                       "counts of the first image:"},
    [CONFLICT_HASH] = {"hash", "in one file, so a report shows only the one of the first object:"},
    [CONFLICT_REGIONS] = {"regions", "in lines or regions, so a report shows the sum of the counts "
                                     "at those of the first object:"},
    [CONFLICT_FILES] = {"files", "in nothing but the file, so a report shows the sum of their "
                                 "counts for each:"},
};

#define NO_FILE UINT32_MAX

/* The numbers by which rows are sorted: at first the function alone, and for a kind of conflict the
 * key in which rows must agree, then image and value. Rows of a conflict are sorted by the first
 * image with the value, the value, and the image, as LLVM's tools keep the value of the first. */
enum { KEY, KEY_COUNT = 3, IMAGE = KEY_COUNT, VALUE, ORDER_COUNT };

/* A function as one image has it. */
struct row {
    uint64_t order[ORDER_COUNT];
    uint64_t function; /* its number among those that are looked at again */
    uint64_t hash;     /* FuncHash */
    uint64_t regions;  /* a digest of its lines and regions; 0: not known */
    uint32_t counters; /* NumCounters */
    uint32_t file;     /* the number of its file; NO_FILE: not known */
    size_t image;
};

/* Rows that agree in one respect and disagree in another. */
struct conflict {
    enum conflict_kind kind;
    bool is_possible; /* the file of some of them is not known, and may be another one */
    const char *function;
    const struct row *rows;
    size_t row_count;
    size_t number; /* in the order in which they were found */
};

/* The first record of a name. */
struct seen {
    uint64_t hash;
    uint64_t place; /* a digest of file and regions; 0: not known, or not looked at */
    uint32_t counters;
};

/* A function that is looked at again. */
struct function {
    uint64_t name_ref;
    const char *name; /* NULL until an image with names has been met */
};

struct explainer {
    const struct merge *merge;
    bool thorough; /* --explain */
    /* The profile of an image, and its sidecar, which is looked for if the image was not split by
     * the time it ran. */
    struct buffer copy, relocated;
    struct profile_sidecar **found;

    struct names files;
    uint64_t main_ref;           /* the NameRef of `main` */
    struct intern_table by_name; /* the numbers of `seen`, by NameRef */
    struct seen *seen;
    size_t seen_count, seen_capacity;
    struct intern_table again; /* the numbers of `functions`, by NameRef */
    struct function *functions;
    size_t function_count, function_capacity;
    struct row *rows; /* of these functions */
    size_t row_count, row_capacity;
    struct conflict *conflicts; /* by kind and name; possible ones come last */
    size_t conflict_count, conflict_capacity;
    struct arena arena; /* for names, and the rows of conflicts */
};

/* ---- the images ---- */

static bool append_part(void *context, struct bytes part, struct error *error)
{
    (void)error;
    exit_unless_allocated(buffer_append(context, part.data, (size_t)part.size), part.size);
    return true;
}

/* A merge_user: keeps the first profile. */
static bool keep_first(void *context, const struct merge_found *found, struct error *error)
{
    const struct buffer *copy = context;

    return copy->size != 0 || profile_write(found->profile, append_part, context, error);
}

/* Sets *profile to a full profile of the image, of which only data and names are looked at. It is
 * valid until the next call. It has no data if the image is passed over: profiles for optimization
 * are not for reports, and those that cannot be summed must be read again. */
static bool image_profile(struct explainer *explainer, size_t image, struct profile *profile,
                          struct error *error)
{
    const struct profile_group *group = explainer->merge->groups.list[image];
    struct profile_sidecar *sidecar = group->sidecar;
    struct profile found;

    *profile = (struct profile){.layout.record_size = 1};
    if (!group->can_be_summed && !explainer->thorough)
        return true;
    explainer->copy.size = 0;
    if (group->can_be_summed)
        found = *profile_sum_combined(group->sum);
    else if (!merge_read_again(explainer->merge, &group, 1, keep_first, &explainer->copy, error) ||
             !profile_parse(buffer_view(&explainer->copy), 0, group->name, &found, error))
        return false;
    if ((found.header.version & PROFILE_VARIANT_IR) != 0)
        return true;
    *profile = found;
    return sidecar == NULL || profile_sidecar_apply(sidecar, &found, group->name,
                                                    &explainer->relocated, profile, error);
}

/* Reads the mapping of the functions in the table, or of all, if there is a sidecar of the image.
 */
static bool read_places(struct explainer *explainer, size_t image,
                        const struct intern_table *wanted, struct function_places *places,
                        struct error *error)
{
    const struct profile_group *group = explainer->merge->groups.list[image];
    struct profile_sidecar *sidecar = profile_group_sidecar(group);
    struct error why;

    if (sidecar == NULL && group->uuid.size != 0) {
        if (explainer->found[image] == NULL)
            explainer->found[image] =
                profile_sidecars_find_group(explainer->merge->request->sidecars, group, &why);
        sidecar = explainer->found[image];
        if (sidecar == NULL && error_is_of_memory(&why)) {
            *error = why;
            return false;
        }
    }
    return sidecar == NULL ||
           function_places_read(places, sidecar->sidecar, wanted, &explainer->files, error);
}

/* ---- which names disagree ---- */

/* Without --explain the hashes of `main` are not compared: every program has its own, and the
 * mapping of each would have to be read. */
static bool compare_image(struct explainer *explainer, size_t image, struct error *error)
{
    struct function_places places = {0};
    struct profile profile;
    bool done = image_profile(explainer, image, &profile, error) &&
                (!explainer->thorough || read_places(explainer, image, NULL, &places, error));

    for (uint64_t i = 0, count = done ? profile_function_count(&profile) : 0; i < count; i++) {
        struct profile_function record = profile_get_function(&profile, i);
        const struct function_place *found =
            explainer->thorough ? function_places_find(&places, record.name_ref, record.hash)
                                : NULL;
        uint64_t place = found == NULL ? 0 : found->regions, number = 0;
        struct seen *seen;

        exit_unless_allocated(intern_table_add(&explainer->by_name, record.name_ref, &number),
                              explainer->seen_count);
        if (number == explainer->seen_count) {
            COMMAND_ROOM_FOR_ONE(explainer->seen, explainer->seen_capacity, explainer->seen_count);
            explainer->seen[explainer->seen_count++] =
                (struct seen){record.hash, place, record.counter_count};
            continue;
        }
        seen = &explainer->seen[number];
        if (seen->hash != record.hash
                ? explainer->thorough || record.name_ref != explainer->main_ref
                : seen->counters != record.counter_count ||
                      (place != 0 && seen->place != 0 && place != seen->place)) {
            exit_unless_allocated(intern_table_add(&explainer->again, record.name_ref, &number),
                                  explainer->function_count);
            COMMAND_ROOM_FOR_ONE(explainer->functions, explainer->function_capacity, number);
            if (number == explainer->function_count)
                explainer->functions[explainer->function_count++] =
                    (struct function){.name_ref = record.name_ref};
        }
        if (seen->place == 0)
            seen->place = place;
    }
    function_places_free(&places);
    profile_sidecar_unload(explainer->merge->groups.list[image]->sidecar);
    return done;
}

/* ---- their records ---- */

/* Adds the rows of an image, with their files, and names the functions that have no name yet. */
static bool collect_image(struct explainer *explainer, size_t image, struct error *error)
{
    size_t first = explainer->row_count;
    struct function_places places = {0};
    struct names names = {0};
    struct profile profile;
    bool done = image_profile(explainer, image, &profile, error), are_read = false;

    for (uint64_t i = 0, count = done ? profile_function_count(&profile) : 0; done && i < count;
         i++) {
        struct profile_function record = profile_get_function(&profile, i);
        struct row row = {
            .hash = record.hash, .counters = record.counter_count, .file = NO_FILE, .image = image};
        struct function *function;

        if (!intern_table_find(&explainer->again, record.name_ref, &row.function))
            continue;
        row.order[KEY] = row.function;
        COMMAND_ROOM_FOR_ONE(explainer->rows, explainer->row_capacity, explainer->row_count);
        explainer->rows[explainer->row_count++] = row;
        function = &explainer->functions[row.function];
        if (function->name != NULL)
            continue;
        done = are_read || names_read(&names, profile.names, "names", error);
        are_read = true;
        if (done && names_find(&names, record.name_ref) != NULL)
            function->name =
                arena_text(&explainer->arena, "%s", names_find(&names, record.name_ref));
    }
    if (done && first != explainer->row_count)
        done = read_places(explainer, image, &explainer->again, &places, error);
    for (size_t i = first; done && i < explainer->row_count; i++) {
        struct row *row = &explainer->rows[i];
        const struct function_place *place =
            function_places_find(&places, explainer->functions[row->function].name_ref, row->hash);

        if (place == NULL)
            continue;
        row->file = place->file;
        row->regions = place->hash == row->hash ? place->regions : 0;
    }
    function_places_free(&places);
    names_free(&names);
    profile_sidecar_unload(explainer->merge->groups.list[image]->sidecar);
    return done;
}

/* ---- conflicts among the rows of a function ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    size_t i = 0;

    while (i < ORDER_COUNT - 1 && left->order[i] == right->order[i])
        i++;
    return left->order[i] < right->order[i] ? -1 : left->order[i] > right->order[i];
}

static void sort_rows(struct row *rows, size_t count)
{
    if (count > 1)
        qsort(rows, count, sizeof(*rows), compare_rows);
}

/* Sets the order of a row for this kind. False if too little is known of it. With any_file, its
 * file may be the same as any other. */
static bool set_order(struct row *row, enum conflict_kind kind, bool any_file)
{
    bool has_file = row->file != NO_FILE;
    const struct {
        bool is_known;
        uint64_t order[ORDER_COUNT];
    } of_kind[CONFLICT_KINDS] = {
        [CONFLICT_COUNTERS] = {true, {row->hash, 0, 0, row->image, row->counters}},
        [CONFLICT_HASH] = {has_file || any_file,
                           {any_file ? 0 : row->file, 0, 0, row->image, row->hash}},
        [CONFLICT_REGIONS] = {has_file && row->regions != 0,
                              {row->file, row->hash, row->counters, row->image, row->regions}},
        [CONFLICT_FILES] = {has_file, {row->hash, 0, 0, row->image, row->file}},
    };

    memcpy(row->order, of_kind[kind].order, sizeof(row->order));
    return of_kind[kind].is_known;
}

/* True if the values of all images are the same ones. An image may have several functions of one
 * name, if these are static, and so may the others. The rows have one key. */
static bool images_agree(const struct row *rows, size_t count)
{
    size_t first_count = 1;

    while (first_count < count && rows[first_count].image == rows[0].image)
        first_count++;
    if (count % first_count != 0)
        return false;
    for (size_t i = first_count; i < count; i++) {
        bool starts_image = rows[i].image != rows[i - 1].image;

        if (starts_image != (i % first_count == 0) ||
            rows[i].order[VALUE] != rows[i % first_count].order[VALUE])
            return false;
    }
    return true;
}

static void add_conflict(struct explainer *explainer, enum conflict_kind kind, bool is_possible,
                         struct row *rows, size_t count)
{
    const struct function *function = &explainer->functions[rows[0].function];
    struct conflict conflict = {.kind = kind,
                                .is_possible = is_possible,
                                .function = function->name,
                                .row_count = count,
                                .number = explainer->conflict_count};

    for (size_t i = 0; i < count; i++) {
        size_t first = 0;

        while (rows[first].order[VALUE] != rows[i].order[VALUE])
            first++;
        rows[i].order[KEY] = rows[first].image;
        rows[i].order[KEY + 1] = rows[i].order[VALUE];
        rows[i].order[KEY + 2] = rows[i].image;
    }
    sort_rows(rows, count);
    if (conflict.function == NULL)
        conflict.function = arena_text(&explainer->arena, "0x%016" PRIx64, function->name_ref);
    conflict.rows =
        arena_copy(&explainer->arena, (struct bytes){(const uint8_t *)rows, count * sizeof(*rows)});
    exit_unless_allocated(!explainer->arena.failed, count * sizeof(*rows));
    COMMAND_ROOM_FOR_ONE(explainer->conflicts, explainer->conflict_capacity,
                         explainer->conflict_count);
    explainer->conflicts[explainer->conflict_count++] = conflict;
}

/* Adds the conflicts of one kind among the rows of a function, and returns their number. */
static size_t add_kind(struct explainer *explainer, enum conflict_kind kind, bool any_file,
                       const struct row *all, size_t count)
{
    struct row *rows = command_array(count, sizeof(*rows));
    size_t known = 0, kept = 0, before = explainer->conflict_count;

    for (size_t i = 0; i < count; i++) {
        rows[known] = all[i];
        known += set_order(&rows[known], kind, any_file);
    }
    sort_rows(rows, known);
    /* Static functions of one name may be equal too. */
    for (size_t i = 0; i < known; i++) {
        if (kept == 0 || compare_rows(&rows[i], &rows[kept - 1]) != 0)
            rows[kept++] = rows[i];
    }
    for (size_t start = 0, end; start < kept; start = end) {
        end = start + 1;
        while (end < kept &&
               memcmp(rows[start].order, rows[end].order, KEY_COUNT * sizeof(uint64_t)) == 0)
            end++;
        if (!images_agree(&rows[start], end - start))
            add_conflict(explainer, kind, any_file, &rows[start], end - start);
    }
    free(rows);
    return explainer->conflict_count - before;
}

static int compare_conflicts(const void *a, const void *b)
{
    const struct conflict *left = a, *right = b;
    int order = (int)left->is_possible - (int)right->is_possible;

    if (order == 0)
        order = (int)left->kind - (int)right->kind;
    if (order == 0)
        order = strcmp(left->function, right->function);
    return order != 0 ? order : left->number < right->number ? -1 : 1;
}

/* Adds the conflicts among the rows of each function: those of the first two kinds, with --explain
 * of all kinds. */
static bool find_conflicts(struct explainer *explainer, struct error *error)
{
    struct row *rows;
    size_t images = explainer->merge->groups.count, end;

    explainer->main_ref = md5_name_reference((struct bytes){(const uint8_t *)"main", 4});
    for (size_t i = 0; i < images; i++) {
        if (!compare_image(explainer, i, error))
            return false;
    }
    for (size_t i = 0; explainer->function_count != 0 && i < images; i++) {
        if (!collect_image(explainer, i, error))
            return false;
    }
    exit_unless_allocated(!explainer->arena.failed, explainer->function_count);
    rows = explainer->rows;
    sort_rows(rows, explainer->row_count);
    for (size_t start = 0; start < explainer->row_count; start = end) {
        bool has_unknown_file = false;
        size_t count, hash_conflicts;

        for (end = start; end < explainer->row_count && rows[end].function == rows[start].function;)
            has_unknown_file |= rows[end++].file == NO_FILE;
        count = end - start;
        add_kind(explainer, CONFLICT_COUNTERS, false, &rows[start], count);
        hash_conflicts = add_kind(explainer, CONFLICT_HASH, false, &rows[start], count);
        if (explainer->thorough) {
            add_kind(explainer, CONFLICT_REGIONS, false, &rows[start], count);
            add_kind(explainer, CONFLICT_FILES, false, &rows[start], count);
        }
        if (hash_conflicts == 0 && has_unknown_file)
            add_kind(explainer, CONFLICT_HASH, true, &rows[start], count);
    }
    if (explainer->conflict_count > 1)
        qsort(explainer->conflicts, explainer->conflict_count, sizeof(*explainer->conflicts),
              compare_conflicts);
    return true;
}

/* ---- parts of what is said ---- */

/* The name of the image, from its sidecar; "" if there is none. */
static const char *image_name(const struct profile_group *group)
{
    const struct profile_sidecar *sidecar = profile_group_sidecar(group);

    return sidecar != NULL ? sidecar->sidecar->image_name : "";
}

static const char *uuid_text(const struct profile_group *group, char hex[UUID_HEX_MAX])
{
    struct uuid uuid = profile_group_uuid(group);

    hex[0] = '\0';
    return uuid.size == 0 ? hex : uuid_format(&uuid, hex);
}

/* The number of rows from this one on that differ only in their image. */
static size_t same_rows(const struct conflict *conflict, size_t first)
{
    const struct row *row = &conflict->rows[first];
    size_t next = first;

    while (next < conflict->row_count && conflict->rows[next].hash == row->hash &&
           conflict->rows[next].counters == row->counters &&
           conflict->rows[next].file == row->file &&
           (conflict->kind != CONFLICT_REGIONS || conflict->rows[next].regions == row->regions))
        next++;
    return next - first;
}

/* The name of the row's file, as a new string; NULL if it is not known. */
static char *file_text(const struct explainer *explainer, const struct row *row)
{
    struct bytes file;

    if (row->file == NO_FILE)
        return NULL;
    file = names_get(&explainer->files, row->file);
    return command_text("%.*s", (int)file.size, (const char *)file.data);
}

static void warn(const struct explainer *explainer)
{
    const struct conflict *first = explainer->conflicts;
    char count[COUNT_TEXT_MAX], *file;

    if (explainer->conflict_count == 0)
        return;
    file = file_text(explainer, &first->rows[0]);
    message_warning("the images %s about %s, such as '%s'%s%s: a report shows only the counts of "
                    "one of them; 'covsplit merge --explain' lists all",
                    first->is_possible ? "may disagree" : "disagree",
                    count_text(explainer->conflict_count, "function", count), first->function,
                    file == NULL ? "" : " in ", file == NULL ? "" : file);
    free(file);
}

/* ---- as text ---- */

/* Any number of images may agree: a cell holds that many, and lines follow with the others. */
#define IMAGES_ON_A_LINE 20

/* Adds a line of the table for some rows that differ only in their image, and lines with more
 * images.
 */
static void add_rows(struct table *table, const struct explainer *explainer, const char *function,
                     const struct row *rows, size_t count)
{
    char *file = file_text(explainer, rows), counters[COUNT_TEXT_MAX];

    for (size_t first = 0; first < count; first += IMAGES_ON_A_LINE) {
        char text[IMAGES_ON_A_LINE * 21] = "";
        size_t size = 0;

        table_cell(table, "%s", first == 0 ? function : "");
        if (first == 0)
            table_cell(table, "0x%016" PRIx64, rows->hash);
        else
            table_cell(table, "%s", "");
        table_cell(table, "%s", first == 0 ? number_text(rows->counters, counters) : "");
        for (size_t i = first; i < count && i < first + IMAGES_ON_A_LINE; i++)
            size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%zu",
                                     i == first ? "" : " ", rows[i].image + 1);
        table_cell(table, "%s", text);
        table_cell(table, "%s", first != 0 ? "" : file != NULL ? file : "not known");
    }
    free(file);
}

/* Prints the conflicts from `start` to `end`, which are of one kind. */
static void print_kind(const struct explainer *explainer, size_t start, size_t end)
{
    static const struct table_column columns[] = {
        {"function", TABLE_LEFT}, {"hash", TABLE_LEFT}, {"counters", TABLE_RIGHT},
        {"images", TABLE_LEFT},   {"file", TABLE_LEFT},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 2);
    const struct conflict *first = &explainer->conflicts[start];
    char count[COUNT_TEXT_MAX];

    for (size_t i = start; i < end; i++) {
        const struct conflict *conflict = &explainer->conflicts[i];

        for (size_t k = 0, same; k < conflict->row_count; k += same) {
            same = same_rows(conflict, k);
            add_rows(table, explainer, k == 0 ? conflict->function : "", &conflict->rows[k], same);
        }
    }
    if (first->is_possible)
        printf("\n%s may differ in one file, but the file is not known for all images:\n",
               count_text(end - start, "function", count));
    else
        printf("\n%s %s %s\n", count_text(end - start, "function", count),
               end - start == 1 ? "differs" : "differ", kinds[first->kind].heading);
    table_print(table, stdout);
    table_free(table);
}

static void print_text(const struct explainer *explainer)
{
    static const struct table_column columns[] = {
        {"", TABLE_RIGHT},         {"image", TABLE_LEFT},         {"UUID", TABLE_LEFT},
        {"profiles", TABLE_RIGHT}, {"first profile", TABLE_LEFT},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 0);
    const struct conflict *conflicts = explainer->conflicts;
    const struct merge *merge = explainer->merge;
    char hex[UUID_HEX_MAX], count[COUNT_TEXT_MAX];

    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        table_cell(table, "%s", number_text(i + 1, count));
        table_cell(table, "%s", image_name(group));
        table_cell(table, "%s", uuid_text(group, hex));
        table_cell(table, "%s", number_text(group->sum->profile_count, count));
        table_cell(table, "%s", group->name);
    }
    table_print(table, stdout);
    table_free(table);
    if (explainer->conflict_count == 0)
        printf("\nno function is in conflict\n");
    for (size_t start = 0, end; start < explainer->conflict_count; start = end) {
        end = start + 1;
        while (end < explainer->conflict_count && conflicts[end].kind == conflicts[start].kind &&
               conflicts[end].is_possible == conflicts[start].is_possible)
            end++;
        print_kind(explainer, start, end);
    }
    if (merge->failure_count != 0 || merge->empty_count != 0)
        printf("\nleft out:\n");
    for (size_t i = 0; i < merge->failure_count; i++)
        message_line(stdout, "  %s", merge->failures[i].error.message);
    if (merge->empty_count != 0)
        message_line(stdout, "  %s: empty%s", merge_input_name(merge, merge->first_empty),
                     merge->empty_count == 1 ? "" : ", and others");
    if (merge->lacking.count != 0)
        printf("\nwithout a sidecar:\n");
    for (size_t i = 0; i < merge->lacking.count; i++)
        message_line(stdout, "  %s: %s, such as %s",
                     uuid_format(&merge->lacking.items[i].uuid, hex),
                     count_text(merge->lacking.items[i].profile_count, "profile", count),
                     merge->lacking.items[i].first);
}

/* ---- as JSON ---- */

static void add_image(struct json_writer *json, const struct profile_group *group, bool is_long)
{
    char hex[UUID_HEX_MAX];

    json_begin_object(json, NULL);
    json_string_or_null(json, "name", image_name(group));
    json_string_or_null(json, "uuid", uuid_text(group, hex));
    if (is_long) {
        json_string_or_null(json, "sidecar",
                            group->sidecar == NULL ? "" : group->sidecar->sidecar->name);
        json_number(json, "raw_version", group->version);
    }
    json_number(json, "profiles", group->sum->profile_count);
    json_string(json, "first_profile", group->name);
    json_end_object(json);
}

static void add_json_conflict(struct json_writer *json, const struct explainer *explainer,
                              const struct conflict *conflict)
{
    json_begin_object(json, NULL);
    json_string(json, "function", conflict->function);
    json_string(json, "kind", kinds[conflict->kind].word);
    json_boolean(json, "certain", !conflict->is_possible);
    json_begin_array(json, "variants");
    for (size_t i = 0, count; i < conflict->row_count; i += count) {
        const struct row *row = &conflict->rows[i];
        char hash[24], *file = file_text(explainer, row);

        count = same_rows(conflict, i);
        json_begin_object(json, NULL);
        snprintf(hash, sizeof(hash), "0x%016" PRIx64, row->hash);
        json_string(json, "hash", hash);
        json_number(json, "counters", row->counters);
        json_string_or_null(json, "file", file);
        free(file);
        json_begin_array(json, "images");
        for (size_t k = 0; k < count; k++)
            add_image(json, explainer->merge->groups.list[row[k].image], false);
        json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void print_json(const struct explainer *explainer)
{
    const struct merge *merge = explainer->merge;
    struct json_writer json = {.stream = stdout};
    char hex[UUID_HEX_MAX];

    json_begin_object(&json, NULL);
    json_begin_array(&json, "images");
    for (size_t i = 0; i < merge->groups.count; i++)
        add_image(&json, merge->groups.list[i], true);
    json_end_array(&json);
    json_begin_array(&json, "conflicts");
    for (size_t i = 0; i < explainer->conflict_count; i++)
        add_json_conflict(&json, explainer, &explainer->conflicts[i]);
    json_end_array(&json);
    json_begin_array(&json, "left_out");
    for (size_t i = 0; i < merge->failure_count; i++) {
        json_begin_object(&json, NULL);
        json_string(&json, "profile", merge_input_name(merge, merge->failures[i].input));
        json_string(&json, "reason", merge->failures[i].error.message);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_number(&json, "empty", merge->empty_count);
    json_begin_array(&json, "without_sidecar");
    for (size_t i = 0; i < merge->lacking.count; i++) {
        json_begin_object(&json, NULL);
        json_string(&json, "uuid", uuid_format(&merge->lacking.items[i].uuid, hex));
        json_number(&json, "profiles", merge->lacking.items[i].profile_count);
        json_string(&json, "first_profile", merge->lacking.items[i].first);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
}

/* ---- the whole ---- */

/* If the conflicts cannot be found, it is an error only if they were asked for: the outputs do not
 * depend on them. */
bool explain_merge(const struct merge *merge, struct error *error)
{
    bool is_wanted = merge->request->explains, done = true;
    struct explainer explainer = {.merge = merge, .thorough = is_wanted};

    explainer.found = command_array(merge->groups.count, sizeof(struct profile_sidecar *));
    if (merge->groups.count > 1)
        done = find_conflicts(&explainer, error);
    if (done && !is_wanted)
        warn(&explainer);
    else if (done)
        (merge->request->is_json ? print_json : print_text)(&explainer);
    if (!done && !is_wanted && !error_is_of_memory(error)) {
        message_warning("%s (so it is not known whether the images disagree)", error->message);
        done = true;
    }
    for (size_t i = 0; i < merge->groups.count; i++)
        profile_sidecars_release(merge->request->sidecars, explainer.found[i]);
    free(explainer.found);
    buffer_free(&explainer.copy);
    buffer_free(&explainer.relocated);
    names_free(&explainer.files);
    intern_table_free(&explainer.by_name);
    intern_table_free(&explainer.again);
    free(explainer.seen);
    free(explainer.functions);
    free(explainer.rows);
    free(explainer.conflicts);
    arena_free(&explainer.arena);
    return done;
}
