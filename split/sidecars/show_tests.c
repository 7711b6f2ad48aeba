/*
 * Which tests reach a function: see show_tests.h.
 */
#include "split/sidecars/show_tests.h"

#include <stdlib.h>
#include <string.h>

#include "common/state/tests_query.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/function_names.h"

#define INDENTATION 2

struct asking {
    struct state *state;
    const char *path;
    struct profile_sidecar_source source;
    uint64_t memory_limit;
    struct json_writer *json;
    const char **functions;
    size_t count;
};

/* What is printed of a function. */
struct told {
    const char *function;                /* as it was given */
    const struct text_set *names;        /* as profiles have it */
    const struct tests_answer *answer;   /* the whole */
    const struct found_function **found; /* of this function */
    size_t found_count;
    struct text_set tests; /* in any image */
};

/* ---- text ---- */

/* By profiles that belong to no test. */
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

static bool print_text(const struct told *told)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *table = table_new(columns, 2, INDENTATION);
    struct error images = {0};
    bool printed;

    print_heading(told);
    for (size_t i = 0; table != NULL && i < told->tests.count; i++) {
        if (told->found_count > 1)
            list_images(told, told->tests.items[i], &images);
        table_cell(table, "%s", told->tests.items[i]);
        table_cell(table, "%s", images.message);
    }
    printed = table != NULL && table_print(table, stdout);
    table_free(table);
    return printed;
}

/* ---- JSON ---- */

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

static void write_json(const struct asking *asking, const struct told *told)
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

/* ---- asking ---- */

#define ANY_INDEX SIZE_MAX

/* Prints what was found of the functions with that index, or with any. */
static bool tell(const struct asking *asking, const char *function, const struct text_set *names,
                 const struct tests_answer *answer, size_t index, struct error *error)
{
    struct told told = {.function = function, .names = names, .answer = answer};
    bool done = true;

    told.found = malloc((answer->found_count + 1) * sizeof(*told.found));
    if (told.found == NULL)
        return error_out_of_memory(error, asking->path, answer->found_count);
    for (size_t i = 0; done && i < answer->found_count; i++) {
        const struct found_function *found = &answer->found[i];

        if (index != ANY_INDEX && found->index != index)
            continue;
        told.found[told.found_count++] = found;
        done = text_set_add(&told.tests, found->tests, found->test_count);
    }
    if (done && asking->json != NULL)
        write_json(asking, &told);
    else if (done)
        done = print_text(&told);
    text_set_free(&told.tests);
    free(told.found);
    return done || error_out_of_memory(error, asking->path, answer->found_count);
}

/* Tells of a function whose name is not one in profiles. */
static bool tell_other_name(const struct asking *asking, const char *function, struct error *error)
{
    struct tests_answer answer = {0};
    struct text_set names = {0};
    bool done = function_names_find(asking->state, &asking->source, asking->memory_limit, function,
                                    &names, error) &&
                tests_find(asking->state, &asking->source, asking->memory_limit,
                           (const char *const *)names.items, names.count, &answer, error) &&
                tell(asking, function, &names, &answer, ANY_INDEX, error);

    tests_answer_free(&answer);
    text_set_free(&names);
    return done;
}

static bool is_found(const struct tests_answer *answer, size_t index)
{
    for (size_t i = 0; i < answer->found_count; i++) {
        if (answer->found[i].index == index)
            return true;
    }
    return false;
}

static bool tell_one(const struct asking *asking, const struct tests_answer *answer, size_t index,
                     struct error *error)
{
    const char *function = asking->functions[index];
    char *name = (char *)(uintptr_t)function;
    const struct text_set names = {.items = &name, .count = 1};

    return is_found(answer, index) ? tell(asking, function, &names, answer, index, error)
                                   : tell_other_name(asking, function, error);
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

static bool list_functions(const struct parsed_options *options, struct asking *asking,
                           struct error *error)
{
    const char *function;

    while (option_text_at(options, OPTION_TESTS, asking->count) != NULL)
        asking->count++;
    asking->functions = malloc(asking->count * sizeof(*asking->functions));
    if (asking->functions == NULL)
        return error_out_of_memory(error, asking->path, asking->count);
    for (size_t i = 0; (function = option_text_at(options, OPTION_TESTS, i)) != NULL; i++)
        asking->functions[i] = function;
    return true;
}

bool show_tests(const struct parsed_options *options, const char *path,
                struct profile_sidecars *sidecars, struct json_writer *json, bool *failed,
                struct error *error)
{
    struct asking asking = {.path = path,
                            .source = {profile_sidecars_find, profile_sidecars_release, sidecars},
                            .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
                            .json = json};
    bool done = list_functions(options, &asking, error) &&
                state_open(&asking.state, path, STATE_READ, asking.memory_limit, error);

    done = done && tell_all(&asking, failed, error);
    state_close(asking.state);
    free(asking.functions);
    return done;
}
