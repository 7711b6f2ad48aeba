/*
 * States, and the tests in them: see show.h.
 */
#include "split/sidecars/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/state/reached.h"
#include "common/state/state.h"
#include "common/state/tests_query.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"

#define INDENTATION 2

/* ---- a state as a whole ---- */

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
        if (error_is_of_system(&why))
            *error = why;
        return !error_is_of_system(&why);
    }
    row->uuid = sidecar->sidecar->facts.uuid;
    row->name = command_copy(sidecar->sidecar->image_name);
    description->source.release(description->source.context, sidecar);
    return true;
}

/* Adds the tests of an image, with the numbers of functions that they reach. */
static bool add_tests(struct description *description, struct reached_table *table,
                      struct error *error)
{
    size_t size = bit_set_size(table->test_count);
    struct test_row *rows;

    exit_unless_allocated(array_make_room(&description->tests, &description->test_capacity,
                                          description->test_count, table->test_count,
                                          sizeof(*rows)),
                          table->test_count * sizeof(*rows));
    if (table->test_count == 0)
        return true;
    rows = &description->tests[description->test_count];
    for (size_t i = 0; i < table->test_count; i++)
        rows[i] = (struct test_row){command_copy(table->tests[i]), 1, 0};
    description->test_count += table->test_count;
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

    /* An image may be in batches only, and has no file then. */
    if (done && stat(name, &status) == 0)
        row.size = (uint64_t)status.st_size;
    else if (done && errno != ENOENT)
        done = error_set_errno(error, errno, "%s: cannot be read", name);
    row.test_count = table.test_count;
    description->profile_count += sum->profile_count;
    reached_close(&table);
    COMMAND_ROOM_FOR_ONE(description->images, description->image_capacity,
                         description->image_count);
    description->images[description->image_count++] = row;
    return done;
}

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

static void print_images(const struct description *description, struct json_writer *json)
{
    static const struct table_column columns[] = {{"image", TABLE_LEFT},
                                                  {"UUID", TABLE_LEFT},
                                                  {"profiles", TABLE_RIGHT},
                                                  {"tests", TABLE_RIGHT},
                                                  {"size", TABLE_RIGHT}};
    char hex[UUID_HEX_MAX];
    struct rows rows;

    rows_begin(&rows, json, "images", columns, sizeof(columns) / sizeof(columns[0]), INDENTATION);
    for (size_t i = 0; i < description->image_count; i++) {
        const struct image_row *image = &description->images[i];

        rows_begin_row(&rows);
        rows_text(&rows, "image_name", image->name);
        rows_text(&rows, "uuid", uuid_format(&image->uuid, hex));
        rows_number(&rows, "profile_count", image->profile_count);
        rows_number(&rows, "test_count", image->test_count);
        rows_number(&rows, "size", image->size);
        rows_end_row(&rows);
    }
    if (json == NULL && description->image_count != 0)
        printf("\n");
    rows_end(&rows);
}

static void print_tests(const struct description *description, struct json_writer *json)
{
    static const struct table_column columns[] = {
        {"test", TABLE_LEFT}, {"images", TABLE_RIGHT}, {"functions", TABLE_RIGHT}};
    struct rows rows;

    rows_begin(&rows, json, "tests", columns, sizeof(columns) / sizeof(columns[0]), INDENTATION);
    for (size_t i = 0; i < description->test_count; i++) {
        const struct test_row *test = &description->tests[i];

        rows_begin_row(&rows);
        rows_text(&rows, "name", test->name);
        rows_number(&rows, "image_count", test->image_count);
        rows_number(&rows, "function_count", test->function_count);
        rows_end_row(&rows);
    }
    if (json == NULL && description->test_count != 0)
        printf("\n");
    rows_end(&rows);
}

static void print_description(const char *path, const struct description *description,
                              struct json_writer *json)
{
    char profiles[COUNT_TEXT_MAX], images[COUNT_TEXT_MAX], tests[COUNT_TEXT_MAX];

    if (json != NULL) {
        json_begin_object(json, NULL);
        json_string(json, "file", path);
        json_string(json, "kind", "state");
        json_number(json, "profile_count", description->profile_count);
    } else {
        message_line(stdout, "%s", path);
        message_line(stdout, "  state of a merge: %s of %s, %s",
                     count_text(description->profile_count, "profile", profiles),
                     count_text(description->image_count, "image", images),
                     count_text(description->test_count, "test", tests));
    }
    print_images(description, json);
    print_tests(description, json);
    if (json != NULL)
        json_end_object(json);
}

bool show_state(const char *path, struct profile_sidecars *sidecars, uint64_t memory_limit,
                struct json_writer *json, struct error *error)
{
    struct description description = {
        .source = {profile_sidecars_find, profile_sidecars_release, sidecars},
        .memory_limit = memory_limit};
    bool done = describe(path, &description, error);

    if (done)
        print_description(path, &description, json);
    free_description(&description);
    return done;
}

/* ---- the tests that reach a function: --tests ---- */

struct asking {
    struct state *state;
    const char *path;
    struct profile_sidecar_source source;
    uint64_t memory_limit;
    struct json_writer *json;
    const char **functions;
    size_t count;
};

/* The answer for one function. */
struct told {
    const char *function;                /* as it was given */
    const struct text_set *names;        /* as profiles have it */
    const struct tests_answer *answer;   /* the whole */
    const struct found_function **found; /* of this function */
    size_t found_count;
    struct text_set tests; /* in any image */
};

/* True if profiles that belong to no test reach it. */
static bool is_reached(const struct told *told)
{
    bool reached = false;

    for (size_t i = 0; i < told->found_count; i++)
        reached = reached || told->found[i]->is_reached;
    return reached;
}

static void print_heading(const struct told *told)
{
    char some[COUNT_TEXT_MAX], all[COUNT_TEXT_MAX];

    if (told->found_count == 0)
        message_line(stdout, "%s: has no code in any image, so no test reaches it", told->function);
    else if (told->tests.count == 0)
        message_line(stdout, "%s: no test reaches it, of %s%s", told->function,
                     number_text(told->answer->tests.count, all),
                     is_reached(told) ? "; profiles that belong to no test do" : "");
    else
        message_line(stdout, "%s: reached by %s of %s", told->function,
                     number_text(told->tests.count, some),
                     count_text(told->answer->tests.count, "test", all));
}

static bool has_test(const struct found_function *found, const char *test)
{
    for (size_t i = 0; i < found->test_count; i++) {
        if (strcmp(found->tests[i], test) == 0)
            return true;
    }
    return false;
}

static const char *image_label(const struct found_function *found, char hex[UUID_HEX_MAX])
{
    return found->image != NULL    ? found->image
           : found->uuid.size != 0 ? uuid_format(&found->uuid, hex)
                                   : "?";
}

/* The images in which the test reaches the function. */
static void list_images(const struct told *told, const char *test, struct error *list)
{
    char hex[UUID_HEX_MAX];

    list->message[0] = '\0';
    for (size_t i = 0; i < told->found_count; i++) {
        struct error before = *list;

        if (has_test(told->found[i], test))
            error_set(list, "%s%s%s", before.message, before.message[0] == '\0' ? "" : ", ",
                      image_label(told->found[i], hex));
    }
}

static void print_told(const struct told *told)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *table = table_new(columns, 2, INDENTATION);
    struct error images = {0};

    print_heading(told);
    for (size_t i = 0; i < told->tests.count; i++) {
        if (told->found_count > 1)
            list_images(told, told->tests.items[i], &images);
        table_cell(table, "%s", told->tests.items[i]);
        table_cell(table, "%s", images.message);
    }
    table_print(table, stdout);
    table_free(table);
}

static void write_texts(struct json_writer *json, const char *key, const char *const *texts,
                        size_t count)
{
    json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_string(json, NULL, texts[i]);
    json_end_array(json);
}

static void write_image(struct json_writer *json, const struct found_function *found)
{
    char hex[UUID_HEX_MAX];

    json_begin_object(json, NULL);
    json_string_or_null(json, "image_name", found->image);
    json_string_or_null(json, "uuid",
                        found->uuid.size == 0 ? NULL : uuid_format(&found->uuid, hex));
    json_boolean(json, "reached", found->is_reached);
    write_texts(json, "tests", found->tests, found->test_count);
    json_end_object(json);
}

static void write_told(const struct asking *asking, const struct told *told)
{
    struct json_writer *json = asking->json;

    json_begin_object(json, NULL);
    json_string(json, "file", asking->path);
    json_string(json, "function", told->function);
    write_texts(json, "names", (const char *const *)told->names->items, told->names->count);
    json_number(json, "test_count", told->answer->tests.count);
    write_texts(json, "tests", (const char *const *)told->tests.items, told->tests.count);
    json_begin_array(json, "images");
    for (size_t i = 0; i < told->found_count; i++)
        write_image(json, told->found[i]);
    json_end_array(json);
    json_end_object(json);
}

#define ANY_INDEX SIZE_MAX

/* Prints what was found of the functions with that index, or with any. */
static void tell(const struct asking *asking, const char *function, const struct text_set *names,
                 const struct tests_answer *answer, size_t index)
{
    struct told told = {.function = function, .names = names, .answer = answer};

    told.found = command_array(answer->found_count, sizeof(*told.found));
    for (size_t i = 0; i < answer->found_count; i++) {
        const struct found_function *found = &answer->found[i];

        if (index != ANY_INDEX && found->index != index)
            continue;
        told.found[told.found_count++] = found;
        exit_unless_allocated(text_set_add(&told.tests, found->tests, found->test_count),
                              found->test_count);
    }
    if (asking->json != NULL)
        write_told(asking, &told);
    else
        print_told(&told);
    text_set_free(&told.tests);
    free(told.found);
}

/* Tells of a function whose name is not one in profiles. */
static bool tell_other_name(const struct asking *asking, const char *function, struct error *error)
{
    struct tests_answer answer = {0};
    struct text_set names = {0};
    bool done = function_names_find(asking->state, &asking->source, asking->memory_limit, function,
                                    &names, error) &&
                tests_find(asking->state, &asking->source, asking->memory_limit,
                           (const char *const *)names.items, names.count, &answer, error);

    if (done)
        tell(asking, function, &names, &answer, ANY_INDEX);
    tests_answer_free(&answer);
    text_set_free(&names);
    return done;
}

static bool tell_one(const struct asking *asking, const struct tests_answer *answer, size_t index,
                     struct error *error)
{
    const char *function = asking->functions[index];
    char *name = (char *)(uintptr_t)function;
    const struct text_set names = {.items = &name, .count = 1};

    for (size_t i = 0; i < answer->found_count; i++) {
        if (answer->found[i].index == index) {
            tell(asking, function, &names, answer, index);
            return true;
        }
    }
    return tell_other_name(asking, function, error);
}

static bool tell_all(const struct asking *asking, bool *failed, struct error *error)
{
    struct tests_answer answer = {0};
    bool done = tests_find(asking->state, &asking->source, asking->memory_limit, asking->functions,
                           asking->count, &answer, error);

    if (done && answer.tests.count == 0)
        done = error_set(error,
                         "%s: has no tests; add profiles to it with 'covsplit merge --into %s "
                         "--by NAME'",
                         asking->path, asking->path);
    for (size_t i = 0; done && i < asking->count; i++) {
        struct error problem = {0};

        if (tell_one(asking, &answer, i, &problem))
            continue;
        message_error(&problem);
        *failed = true;
    }
    tests_answer_free(&answer);
    return done;
}

bool show_tests(const struct parsed_options *options, const char *path,
                struct profile_sidecars *sidecars, struct json_writer *json, bool *failed,
                struct error *error)
{
    struct asking asking = {.path = path,
                            .source = {profile_sidecars_find, profile_sidecars_release, sidecars},
                            .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
                            .json = json};
    bool done;

    while (option_text_at(options, OPTION_TESTS, asking.count) != NULL)
        asking.count++;
    asking.functions = command_array(asking.count, sizeof(*asking.functions));
    for (size_t i = 0; i < asking.count; i++)
        asking.functions[i] = option_text_at(options, OPTION_TESTS, i);
    done = state_open(&asking.state, path, STATE_READ, asking.memory_limit, error) &&
           tell_all(&asking, failed, error);
    state_close(asking.state);
    free(asking.functions);
    return done;
}
