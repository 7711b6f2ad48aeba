/*
 * Describing a state: see show_state.h.
 */
#include "split/sidecars/show_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/state/reached.h"
#include "common/state/state.h"
#include "split/cli/message.h"
#include "split/cli/table.h"

#define INDENTATION 2

struct image_row {
    char *name; /* NULL: not known */
    struct uuid uuid;
    uint64_t profile_count;
    uint64_t test_count;
    uint64_t size;
};

/* A test, in one image and then in all of them. */
struct test_row {
    char *name;
    uint64_t image_count;
    uint64_t function_count;
};

struct description {
    struct profile_sidecar_source source;
    uint64_t memory_limit;
    struct image_row *images;
    size_t image_count, image_capacity;
    struct test_row *tests;
    size_t test_count, test_capacity;
    uint64_t profile_count;
};

static void free_description(struct description *description)
{
    for (size_t i = 0; i < description->image_count; i++)
        free(description->images[i].name);
    for (size_t i = 0; i < description->test_count; i++)
        free(description->tests[i].name);
    free(description->images);
    free(description->tests);
}

/* ---- reading ---- */

/* The image's name is in its sidecar, which is there or not, or may not be read. */
static bool name_image(const struct description *description, const struct profile *profile,
                       const char *file, struct image_row *row, struct error *error)
{
    enum profile_uuid_source source;
    struct profile_sidecar *sidecar;
    struct error why = {0};

    row->uuid = profile_uuid(profile, &source);
    if (!profile_needs_sidecar(profile))
        return true;
    sidecar = description->source.find(description->source.context, profile, file, &why);
    if (sidecar == NULL) {
        if (error_is_of_machine(&why))
            *error = why;
        return !error_is_of_machine(&why);
    }
    row->uuid = sidecar_facts(sidecar->sidecar)->uuid;
    row->name = strdup(sidecar_image_name(sidecar->sidecar));
    description->source.release(description->source.context, sidecar);
    return row->name != NULL || error_out_of_memory(error, file, sizeof(*row));
}

/* Counts the functions that each test reaches. */
static bool count_functions(struct reached_table *table, struct test_row *rows, struct error *error)
{
    size_t size = bit_set_size(table->test_count);

    for (uint64_t function = 0; function < table->function_count; function++) {
        const uint8_t *tests;

        if (!reached_find(table, function, &tests, error))
            return false;
        for (size_t i = 0; i < size; i++) {
            for (unsigned byte = tests[i], bit = 0; byte != 0; byte >>= 1, bit++)
                rows[8 * i + bit].function_count += byte & 1;
        }
    }
    return true;
}

static bool add_tests(struct description *description, struct reached_table *table,
                      struct error *error)
{
    struct test_row *rows;

    if (!array_make_room(&description->tests, &description->test_capacity, description->test_count,
                         table->test_count, sizeof(*rows)))
        return error_out_of_memory(error, table->name, table->test_count * sizeof(*rows));
    rows = &description->tests[description->test_count];
    for (size_t i = 0; i < table->test_count; i++) {
        rows[i] = (struct test_row){strdup(table->tests[i]), 1, 0};
        if (rows[i].name == NULL)
            return error_out_of_memory(error, table->name, strlen(table->tests[i]));
        description->test_count++;
    }
    return count_functions(table, rows, error);
}

/* A state_visitor. */
static bool add_image(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct description *description = context;
    uint64_t limit = description->memory_limit != 0 ? description->memory_limit
                                                    : memory_limit_for(sum->tests.size);
    struct image_row row = {.profile_count = sum->profile_count};
    struct reached_table table = {0};
    struct profile profile;
    struct stat status;
    bool done = profile_parse(profile_sum_combined(sum), 0, name, &profile, error) &&
                name_image(description, &profile, name, &row, error) &&
                reached_open(&table, buffer_view(&sum->tests), name, limit, error) &&
                add_tests(description, &table, error);

    if (done && stat(name, &status) != 0)
        done = error_set_errno(error, errno, "%s: cannot be read", name);
    else if (done)
        row.size = (uint64_t)status.st_size;
    row.test_count = table.test_count;
    description->profile_count += sum->profile_count;
    reached_close(&table);
    if (done && !ARRAY_ROOM_FOR_ONE(description->images, description->image_capacity,
                                    description->image_count))
        done = error_out_of_memory(error, name, sizeof(row));
    if (done)
        description->images[description->image_count++] = row;
    else
        free(row.name);
    return done;
}

/* ---- order ---- */

static int compare_images(const void *a, const void *b)
{
    const struct image_row *left = a, *right = b;
    int order =
        strcmp(left->name == NULL ? "" : left->name, right->name == NULL ? "" : right->name);

    return order != 0 ? order : uuid_compare(&left->uuid, &right->uuid);
}

static int compare_tests(const void *a, const void *b)
{
    const struct test_row *left = a, *right = b;

    return strcmp(left->name, right->name);
}

/* Makes one row of those of a test in all images. */
static void unite_tests(struct description *description)
{
    struct test_row *tests = description->tests;
    size_t kept = 0;

    if (description->test_count > 1)
        qsort(tests, description->test_count, sizeof(*tests), compare_tests);
    for (size_t i = 0; i < description->test_count; i++) {
        if (kept == 0 || strcmp(tests[kept - 1].name, tests[i].name) != 0) {
            tests[kept++] = tests[i];
        } else {
            tests[kept - 1].image_count++;
            tests[kept - 1].function_count += tests[i].function_count;
            free(tests[i].name);
        }
    }
    description->test_count = kept;
}

static bool describe(const char *path, struct description *description, struct error *error)
{
    struct state *state = NULL;
    bool done = state_open(&state, path, STATE_READ, description->memory_limit, error) &&
                state_read(state, add_image, description, error);

    state_close(state);
    if (description->image_count > 1)
        qsort(description->images, description->image_count, sizeof(*description->images),
              compare_images);
    unite_tests(description);
    return done;
}

/* ---- JSON ---- */

static void write_images(struct json_writer *json, const struct description *description)
{
    char hex[UUID_HEX_MAX];

    json_begin_array(json, "images");
    for (size_t i = 0; i < description->image_count; i++) {
        const struct image_row *image = &description->images[i];

        json_begin_object(json, NULL);
        json_string_or_null(json, "image_name", image->name);
        json_string_or_null(json, "uuid",
                            image->uuid.size == 0 ? NULL : uuid_format(&image->uuid, hex));
        json_number(json, "profile_count", image->profile_count);
        json_number(json, "test_count", image->test_count);
        json_number(json, "size", image->size);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_json(struct json_writer *json, const char *path,
                       const struct description *description)
{
    json_begin_object(json, NULL);
    json_string(json, "file", path);
    json_string(json, "kind", "state");
    json_number(json, "profile_count", description->profile_count);
    write_images(json, description);
    json_begin_array(json, "tests");
    for (size_t i = 0; i < description->test_count; i++) {
        const struct test_row *test = &description->tests[i];

        json_begin_object(json, NULL);
        json_string(json, "name", test->name);
        json_number(json, "image_count", test->image_count);
        json_number(json, "function_count", test->function_count);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

/* ---- text ---- */

static void add_number(struct table *table, uint64_t number)
{
    char text[COUNT_TEXT_MAX];

    table_cell(table, "%s", number_text(number, text));
}

static struct table *table_of_images(const struct description *description)
{
    static const struct table_column columns[] = {{"image", TABLE_LEFT},
                                                  {"UUID", TABLE_LEFT},
                                                  {"profiles", TABLE_RIGHT},
                                                  {"tests", TABLE_RIGHT},
                                                  {"size", TABLE_RIGHT}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), INDENTATION);
    char hex[UUID_HEX_MAX];

    for (size_t i = 0; table != NULL && i < description->image_count; i++) {
        const struct image_row *image = &description->images[i];

        table_cell(table, "%s", image->name == NULL ? "" : image->name);
        table_cell(table, "%s", uuid_format(&image->uuid, hex));
        add_number(table, image->profile_count);
        add_number(table, image->test_count);
        add_number(table, image->size);
    }
    return table;
}

static struct table *table_of_tests(const struct description *description)
{
    static const struct table_column columns[] = {
        {"test", TABLE_LEFT}, {"images", TABLE_RIGHT}, {"functions", TABLE_RIGHT}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), INDENTATION);

    for (size_t i = 0; table != NULL && i < description->test_count; i++) {
        table_cell(table, "%s", description->tests[i].name);
        add_number(table, description->tests[i].image_count);
        add_number(table, description->tests[i].function_count);
    }
    return table;
}

static bool print_text(const char *path, const struct description *description)
{
    struct table *images = table_of_images(description), *tests = table_of_tests(description);
    char profiles[COUNT_TEXT_MAX], images_text[COUNT_TEXT_MAX], tests_text[COUNT_TEXT_MAX];
    bool printed = images != NULL && tests != NULL;

    message_line(stdout, "%s", path);
    message_line(stdout, "  state of a merge: %s of %s, %s",
                 count_text(description->profile_count, "profile", profiles),
                 count_text(description->image_count, "image", images_text),
                 count_text(description->test_count, "test", tests_text));
    if (printed && description->image_count != 0) {
        printf("\n");
        printed = table_print(images, stdout);
    }
    if (printed && description->test_count != 0) {
        printf("\n");
        printed = table_print(tests, stdout);
    }
    table_free(images);
    table_free(tests);
    return printed;
}

bool show_state(const char *path, struct profile_sidecars *sidecars, uint64_t memory_limit,
                struct json_writer *json, struct error *error)
{
    struct description description = {
        .source = {profile_sidecars_find, profile_sidecars_release, sidecars},
        .memory_limit = memory_limit};
    bool done = describe(path, &description, error);

    if (done && json != NULL)
        write_json(json, path, &description);
    else if (done)
        done = print_text(path, &description) ||
               error_out_of_memory(error, path, description.test_count);
    free_description(&description);
    return done;
}
