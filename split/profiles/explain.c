/*
 * Explaining a merge: see explain.h.
 */
#include "split/profiles/explain.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/find_conflicts.h"

/* ---- the images ---- */

struct images {
    const struct merge *merge;
    bool thorough;
    struct buffer copy;             /* of a profile that cannot be summed */
    struct buffer relocated;        /* see correlation_apply */
    struct profile_sidecar *loaded; /* of the image whose profile is valid; NULL: none */
    struct profile_sidecar **found; /* by group: the sidecar of unsplit images, if it was found */
    struct error no_memory;         /* of a search that ran out of it; "": none did */
};

static bool append_part(void *context, struct bytes part, struct error *error)
{
    return buffer_append(context, part.data, (size_t)part.size) ||
           error_out_of_memory(error, "a profile", part.size);
}

/* A merge_user: keeps the first profile. */
static bool keep_first(void *context, const struct merge_found *found, struct error *error)
{
    struct images *images = context;

    return images->copy.size != 0 ||
           profile_write(found->profile, append_part, &images->copy, error);
}

/* Sets *profile to a profile of the group, with its data as they were read. */
static bool find_profile(struct images *images, const struct profile_group *group,
                         struct profile *profile, struct error *error)
{
    if (group->can_be_summed)
        return profile_parse(profile_sum_combined(group->sum), 0, group->name, profile, error);
    images->copy.size = 0;
    return merge_read_again(images->merge, &group, 1, keep_first, images, error) &&
           profile_parse(buffer_view(&images->copy), 0, group->name, profile, error);
}

/* For conflict_source. */
static bool image_profile(void *context, size_t image, struct profile *profile, struct error *error)
{
    struct images *images = context;
    const struct profile_group *group = images->merge->groups.list[image];
    struct profile_sidecar *sidecar = group->sidecar;
    struct profile lightweight;

    profile_sidecar_unload(images->loaded);
    images->loaded = sidecar;
    *profile = (struct profile){.layout.record_size = 1};
    if (!group->can_be_summed && !images->thorough)
        return true;
    if (!find_profile(images, group, &lightweight, error))
        return false;
    if ((lightweight.header.version & PROFILE_VARIANT_IR) != 0)
        return true; /* such profiles are for optimization, not for reports */
    *profile = lightweight;
    return sidecar == NULL || (correlation_need(&sidecar->correlation, sidecar->sidecar, error) &&
                               correlation_apply(&sidecar->correlation, &lightweight, group->name,
                                                 &images->relocated, profile, error));
}

/* For conflict_source. The sidecar of an image that was not split by the time it ran is looked for
 * too, by its UUID: there may be one. */
static const struct sidecar *image_sidecar(void *context, size_t image)
{
    struct images *images = context;
    const struct profile_group *group = images->merge->groups.list[image];
    struct uuid uuid = profile_group_uuid(group);
    struct error error;

    if (group->sidecar != NULL)
        return group->sidecar->sidecar;
    if (group->sidecar_of_split != NULL)
        return group->sidecar_of_split->sidecar;
    if (images->found[image] == NULL && uuid.size != 0) {
        images->found[image] = profile_sidecars_find_uuid(images->merge->sidecars, &uuid, &error);
        if (images->found[image] == NULL && error_is_of_memory(&error))
            images->no_memory = error;
    }
    return images->found[image] == NULL ? NULL : images->found[image]->sidecar;
}

bool explain_find(const struct merge *merge, bool thorough, struct conflicts *conflicts,
                  struct error *error)
{
    size_t count = merge->groups.count;
    struct images images = {.merge = merge, .thorough = thorough};
    const struct conflict_source source = {.image_count = count,
                                           .profile = image_profile,
                                           .sidecar = image_sidecar,
                                           .context = &images};
    bool done;

    images.found = calloc(count + 1, sizeof(struct profile_sidecar *));
    done = images.found != NULL ? conflicts_find(&source, thorough, conflicts, error)
                                : error_out_of_memory(error, "the images", count);
    if (done && images.no_memory.message[0] != '\0') {
        *error = images.no_memory;
        done = false;
    }
    profile_sidecar_unload(images.loaded);
    for (size_t i = 0; images.found != NULL && i < count; i++)
        profile_sidecars_release(merge->sidecars, images.found[i]);
    free(images.found);
    buffer_free(&images.copy);
    buffer_free(&images.relocated);
    return done;
}

/* ---- one line ---- */

/* The name and file of the function, for messages. */
static void describe_first(const struct conflicts *conflicts, struct error *text)
{
    const struct conflict *conflict = &conflicts->items[0];
    struct bytes file;

    if (conflicts_file(conflicts, conflicts->rows[conflict->first_row].file, &file))
        error_set(text, "'%s' in %.*s", conflict->function, (int)file.size,
                  (const char *)file.data);
    else
        error_set(text, "'%s'", conflict->function);
}

void explain_warn(const struct conflicts *conflicts)
{
    char count[COUNT_TEXT_MAX];
    struct error first;

    if (conflicts->count == 0)
        return;
    describe_first(conflicts, &first);
    message_warning("the images %s about %s, such as %s: a report shows only the counts of one of "
                    "them; 'covsplit merge --explain' lists all",
                    conflicts->items[0].is_possible ? "may disagree" : "disagree",
                    count_text(conflicts->count, "function", count), first.message);
}

/* ---- the parts ---- */

/* The name of the image, from its sidecar; "" if there is none. */
static const char *image_name(const struct profile_group *group)
{
    const struct profile_sidecar *sidecar =
        group->sidecar != NULL ? group->sidecar : group->sidecar_of_split;

    return sidecar != NULL ? sidecar_image_name(sidecar->sidecar) : "";
}

static const char *uuid_text(const struct profile_group *group, char hex[UUID_HEX_MAX])
{
    struct uuid uuid = profile_group_uuid(group);

    hex[0] = '\0';
    return uuid.size == 0 ? hex : uuid_format(&uuid, hex);
}

/* The number of the first conflict after `start` that is of another kind. */
static size_t end_of_kind(const struct conflicts *conflicts, size_t start)
{
    const struct conflict *items = conflicts->items;
    size_t end = start;

    while (end < conflicts->count && items[end].kind == items[start].kind &&
           items[end].is_possible == items[start].is_possible)
        end++;
    return end;
}

/* The number of rows from `row` on that differ only in their image. */
static size_t same_rows(const struct conflicts *conflicts, const struct conflict *conflict,
                        size_t row)
{
    size_t end = conflict->first_row + conflict->row_count, next = row;
    const struct conflict_row *first = &conflicts->rows[row];

    while (next < end && conflicts->rows[next].hash == first->hash &&
           conflicts->rows[next].counters == first->counters &&
           conflicts->rows[next].file == first->file &&
           (conflict->kind != CONFLICT_REGIONS || conflicts->rows[next].regions == first->regions))
        next++;
    return next - row;
}

/* ---- as text ---- */

static void print_images(struct table *table, const struct merge *merge)
{
    char hex[UUID_HEX_MAX], profiles[COUNT_TEXT_MAX];

    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        table_cell(table, "%s", number_text(i + 1, profiles));
        table_cell(table, "%s", image_name(group));
        table_cell(table, "%s", uuid_text(group, hex));
        table_cell(table, "%s", number_text(group->sum->profile_count, profiles));
        table_cell(table, "%s", group->name);
    }
}

/* Any number of images may agree: a cell holds that many, and lines follow with the others. */
#define IMAGES_ON_A_LINE 20

static size_t images_on_line(size_t count)
{
    return count < IMAGES_ON_A_LINE ? count : IMAGES_ON_A_LINE;
}

/* Adds a cell with the numbers of the images of some rows, as in the table of images. */
static void add_images(struct table *table, const struct conflict_row *rows, size_t count)
{
    char text[IMAGES_ON_A_LINE * 21] = "";
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%zu", i == 0 ? "" : " ",
                                 rows[i].image + 1);
    table_cell(table, "%s", text);
}

/* Adds lines of which only the cell for images is not empty. */
static void add_more_images(struct table *table, const struct conflict_row *rows, size_t count)
{
    for (size_t first = 0; first < count; first += IMAGES_ON_A_LINE) {
        for (unsigned i = 0; i < 3; i++)
            table_cell(table, "%s", "");
        add_images(table, rows + first, images_on_line(count - first));
        table_cell(table, "%s", "");
    }
}

static void add_rows(struct table *table, const struct conflicts *conflicts,
                     const struct conflict *conflict)
{
    size_t end = conflict->first_row + conflict->row_count, count;

    for (size_t i = conflict->first_row; i < end; i += count) {
        const struct conflict_row *row = &conflicts->rows[i];
        char counters[COUNT_TEXT_MAX];
        struct bytes file;
        size_t on_line;

        count = same_rows(conflicts, conflict, i);
        on_line = images_on_line(count);
        table_cell(table, "%s", i == conflict->first_row ? conflict->function : "");
        table_cell(table, "0x%016" PRIx64, row->hash);
        table_cell(table, "%s", number_text(row->counters, counters));
        add_images(table, row, on_line);
        if (conflicts_file(conflicts, row->file, &file))
            table_cell(table, "%.*s", (int)file.size, (const char *)file.data);
        else
            table_cell(table, "not known");
        add_more_images(table, row + on_line, count - on_line);
    }
}

static void print_kind(const struct conflicts *conflicts, size_t start, size_t end)
{
    static const struct table_column columns[] = {
        {"function", TABLE_LEFT}, {"hash", TABLE_LEFT}, {"counters", TABLE_RIGHT},
        {"images", TABLE_LEFT},   {"file", TABLE_LEFT},
    };
    static const char *const headings[CONFLICT_KINDS] = {
        [CONFLICT_COUNTERS] = "in the number of counters, so the merge has only the counts of the "
                              "first image:",
        [CONFLICT_HASH] = "in one file, so a report shows only the one of the first object:",
        [CONFLICT_REGIONS] = "in lines or regions, so a report shows the sum of the counts at "
                             "those of the first object:",
        [CONFLICT_FILES] = "in nothing but the file, so a report shows the sum of their counts for "
                           "each:",
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 2);
    char count[COUNT_TEXT_MAX];

    for (size_t i = start; i < end; i++)
        add_rows(table, conflicts, &conflicts->items[i]);
    if (conflicts->items[start].is_possible)
        printf("\n%s may differ in one file, but the file is not known for all images:\n",
               count_text(end - start, "function", count));
    else
        printf("\n%s %s %s\n", count_text(end - start, "function", count),
               end - start == 1 ? "differs" : "differ", headings[conflicts->items[start].kind]);
    table_print(table, stdout);
    table_free(table);
}

static void print_left_out(const struct merge *merge)
{
    char hex[UUID_HEX_MAX], count[COUNT_TEXT_MAX];

    if (merge->failure_count != 0 || merge->empty_count != 0)
        printf("\nleft out:\n");
    for (size_t i = 0; i < merge->failure_count; i++)
        message_line(stdout, "  %s", merge->failures[i].error.message);
    if (merge->empty_count != 0)
        message_line(stdout, "  %s: empty%s", merge_input_name(merge, merge->first_empty),
                     merge->empty_count == 1 ? "" : ", and others");
    if (merge->lacking_count != 0)
        printf("\nwithout a sidecar:\n");
    for (size_t i = 0; i < merge->lacking_count; i++)
        message_line(stdout, "  %s: %s, such as %s", uuid_format(&merge->lacking[i].uuid, hex),
                     count_text(merge->lacking[i].profile_count, "profile", count),
                     merge->lacking[i].first);
}

void explain_print(const struct merge *merge, const struct conflicts *conflicts)
{
    static const struct table_column columns[] = {
        {"", TABLE_RIGHT},         {"image", TABLE_LEFT},         {"UUID", TABLE_LEFT},
        {"profiles", TABLE_RIGHT}, {"first profile", TABLE_LEFT},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 0);

    print_images(table, merge);
    table_print(table, stdout);
    table_free(table);
    if (conflicts->count == 0)
        printf("\nno function is in conflict\n");
    for (size_t start = 0, end; start < conflicts->count; start = end) {
        end = end_of_kind(conflicts, start);
        print_kind(conflicts, start, end);
    }
    print_left_out(merge);
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
                            group->sidecar == NULL ? "" : sidecar_name(group->sidecar->sidecar));
        json_number(json, "raw_version", group->version);
    }
    json_number(json, "profiles", group->sum->profile_count);
    json_string(json, "first_profile", group->name);
    json_end_object(json);
}

static bool add_file(struct json_writer *json, const struct conflicts *conflicts, uint32_t number)
{
    struct bytes file;
    char *text;

    if (!conflicts_file(conflicts, number, &file)) {
        json_null(json, "file");
        return true;
    }
    text = strndup((const char *)file.data, (size_t)file.size);
    if (text != NULL)
        json_string(json, "file", text);
    free(text);
    return text != NULL;
}

static bool add_conflict(struct json_writer *json, const struct merge *merge,
                         const struct conflicts *conflicts, const struct conflict *conflict)
{
    static const char *const kinds[CONFLICT_KINDS] = {[CONFLICT_COUNTERS] = "counters",
                                                      [CONFLICT_HASH] = "hash",
                                                      [CONFLICT_REGIONS] = "regions",
                                                      [CONFLICT_FILES] = "files"};
    size_t end = conflict->first_row + conflict->row_count, count;
    bool added = true;

    json_begin_object(json, NULL);
    json_string(json, "function", conflict->function);
    json_string(json, "kind", kinds[conflict->kind]);
    json_boolean(json, "certain", !conflict->is_possible);
    json_begin_array(json, "variants");
    for (size_t i = conflict->first_row; i < end && added; i += count) {
        const struct conflict_row *row = &conflicts->rows[i];
        char hash[24];

        count = same_rows(conflicts, conflict, i);
        json_begin_object(json, NULL);
        snprintf(hash, sizeof(hash), "0x%016" PRIx64, row->hash);
        json_string(json, "hash", hash);
        json_number(json, "counters", row->counters);
        added = add_file(json, conflicts, row->file);
        json_begin_array(json, "images");
        for (size_t k = i; k < i + count; k++)
            add_image(json, merge->groups.list[conflicts->rows[k].image], false);
        json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
    return added;
}

static void add_left_out(struct json_writer *json, const struct merge *merge)
{
    char hex[UUID_HEX_MAX];

    json_begin_array(json, "left_out");
    for (size_t i = 0; i < merge->failure_count; i++) {
        json_begin_object(json, NULL);
        json_string(json, "profile", merge_input_name(merge, merge->failures[i].input));
        json_string(json, "reason", merge->failures[i].error.message);
        json_end_object(json);
    }
    json_end_array(json);
    json_number(json, "empty", merge->empty_count);
    json_begin_array(json, "without_sidecar");
    for (size_t i = 0; i < merge->lacking_count; i++) {
        json_begin_object(json, NULL);
        json_string(json, "uuid", uuid_format(&merge->lacking[i].uuid, hex));
        json_number(json, "profiles", merge->lacking[i].profile_count);
        json_string(json, "first_profile", merge->lacking[i].first);
        json_end_object(json);
    }
    json_end_array(json);
}

bool explain_print_json(const struct merge *merge, const struct conflicts *conflicts,
                        struct error *error)
{
    struct json_writer json = {.stream = stdout};
    bool added = true;

    json_begin_object(&json, NULL);
    json_begin_array(&json, "images");
    for (size_t i = 0; i < merge->groups.count; i++)
        add_image(&json, merge->groups.list[i], true);
    json_end_array(&json);
    json_begin_array(&json, "conflicts");
    for (size_t i = 0; i < conflicts->count && added; i++)
        added = add_conflict(&json, merge, conflicts, &conflicts->items[i]);
    json_end_array(&json);
    add_left_out(&json, merge);
    json_end_object(&json);
    return added || error_out_of_memory(error, "the explanation", conflicts->row_count);
}
