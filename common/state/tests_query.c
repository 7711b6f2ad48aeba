/*
 * The tests that reach functions: see tests_query.h.
 */
#include "common/state/tests_query.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/memory_limit.h"
#include "common/llvm/profile_sum.h"
#include "common/state/reached.h"

/* ---- the functions of an image ---- */

/* Fails if the counters of a function are not in the profile. */
static bool read_list(struct image_functions *functions, const struct profile *full,
                      const char *name, struct error *error)
{
    functions->count = (size_t)profile_function_count(full);
    functions->list = malloc((functions->count + 1) * sizeof(*functions->list));
    if (functions->list == NULL)
        return error_out_of_memory(error, name, functions->count * sizeof(*functions->list));
    for (size_t i = 0; i < functions->count; i++) {
        struct profile_function function = profile_get_function(full, i);
        uint64_t size = function.counter_count * profile_counter_size(full->header.version);

        if (!range_within(function.offset, size, 0, full->counters.size))
            return error_set(error,
                             "%s: damaged (the counters of record %zu are not in it); copy it "
                             "again, or run the program again",
                             name, i);
        functions->list[i] = (struct image_function){function.name_ref, function.offset, size};
    }
    return true;
}

bool image_functions_read(struct image_functions *functions, const struct profile *profile,
                          struct profile_sidecar *sidecar, bool with_names, const char *name,
                          struct error *error)
{
    struct buffer relocated = {0};
    struct profile full = *profile;
    bool done = true;

    if (profile_needs_sidecar(profile))
        done = sidecar == NULL
                   ? error_set(error, "%s: its functions are in its sidecar; give that", name)
                   : profile_sidecar_apply(sidecar, profile, name, &relocated, &full, error);
    functions->has_byte_coverage = (full.header.version & PROFILE_VARIANT_BYTE_COVERAGE) != 0;
    done = done && read_list(functions, &full, name, error) &&
           (!with_names || names_read(&functions->names, full.names, name, error));
    buffer_free(&relocated);
    return done;
}

void image_functions_free(struct image_functions *functions)
{
    free(functions->list);
    names_free(&functions->names);
    *functions = (struct image_functions){0};
}

/* True if a byte is not 0: a counter is 0 in any byte order if its bytes are. */
static bool any_not_zero(const uint8_t *bytes, uint64_t size)
{
    uint64_t any = 0, word, i = 0;

    for (; i + sizeof(word) <= size && any == 0; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        any |= word;
    }
    return any != 0;
}

void image_functions_reached(const struct image_functions *functions, const struct profile *profile,
                             uint8_t *set)
{
    for (size_t i = 0; i < functions->count; i++) {
        const struct image_function *function = &functions->list[i];
        const uint8_t *counters = profile->counters.data + function->offset;

        if (function->size != 0 &&
            (functions->has_byte_coverage ? memchr(counters, 0, (size_t)function->size) != NULL
                                          : any_not_zero(counters, function->size)))
            bit_set_add(set, i);
    }
}

/* ---- the recorder: the functions of an image are read once, bits computed outside of the lock
 * ---- */

struct recorded_image {
    struct digest identity;
    struct image_functions functions;
    struct reached *reached; /* NULL: no test yet */
};

void test_recorder_start(struct test_recorder *recorder)
{
    *recorder = (struct test_recorder){0};
    pthread_mutex_init(&recorder->lock, NULL);
}

void test_recorder_clear(struct test_recorder *recorder)
{
    for (size_t i = 0; i < recorder->count; i++) {
        reached_free(recorder->images[i].reached);
        recorder->images[i].reached = NULL;
    }
    recorder->test_memory = 0;
}

void test_recorder_free(struct test_recorder *recorder)
{
    test_recorder_clear(recorder);
    for (size_t i = 0; i < recorder->count; i++)
        image_functions_free(&recorder->images[i].functions);
    free(recorder->images);
    pthread_mutex_destroy(&recorder->lock);
}

/* Under the lock. NULL: the image is not known. */
static struct recorded_image *find_image(const struct test_recorder *recorder,
                                         const struct digest *identity)
{
    for (size_t i = 0; i < recorder->count; i++) {
        if (digest_equal(&recorder->images[i].identity, identity))
            return &recorder->images[i];
    }
    return NULL;
}

bool test_recorder_know(struct test_recorder *recorder, const struct digest *identity,
                        struct profile_sidecar *sidecar, const struct profile *profile,
                        const char *name, struct error *error)
{
    struct recorded_image image = {.identity = *identity};
    bool known;

    pthread_mutex_lock(&recorder->lock);
    known = find_image(recorder, identity) != NULL;
    if (!known) {
        known = (ARRAY_ROOM_FOR_ONE(recorder->images, recorder->capacity, recorder->count) ||
                 error_out_of_memory(error, name, sizeof(image))) &&
                image_functions_read(&image.functions, profile, sidecar, false, name, error);
        if (known)
            recorder->images[recorder->count++] = image;
        else
            image_functions_free(&image.functions);
    }
    pthread_mutex_unlock(&recorder->lock);
    return known;
}

bool test_recorder_add(struct test_recorder *recorder, const struct digest *identity,
                       const struct profile *profile, const char *test, const char *name,
                       struct error *error)
{
    struct image_functions functions;
    struct recorded_image *image;
    uint8_t *set;
    bool added;

    /* The list of images may move, but what is in it stays until the recorder is freed. */
    pthread_mutex_lock(&recorder->lock);
    functions = find_image(recorder, identity)->functions;
    pthread_mutex_unlock(&recorder->lock);
    set = calloc(bit_set_size(functions.count) + 1, 1);
    if (set == NULL)
        return error_out_of_memory(error, name, functions.count / 8);
    image_functions_reached(&functions, profile, set);
    pthread_mutex_lock(&recorder->lock);
    image = find_image(recorder, identity);
    if (image->reached == NULL)
        image->reached = reached_new(functions.count);
    added = image->reached != NULL;
    if (added) {
        uint64_t before = reached_memory(image->reached);

        added = reached_add(image->reached, test, set);
        recorder->test_memory += reached_memory(image->reached) - before;
    }
    pthread_mutex_unlock(&recorder->lock);
    free(set);
    return added || error_out_of_memory(error, name, functions.count / 8);
}

bool test_recorder_encode(struct test_recorder *recorder, const struct digest *identity,
                          const char *name, struct buffer *to, struct error *error)
{
    const struct recorded_image *image = find_image(recorder, identity);
    struct buffer encoded = {0};
    bool done = image == NULL || image->reached == NULL ||
                (reached_encode(image->reached, name, &encoded, error) &&
                 reached_unite(to, buffer_view(&encoded), name, error));

    buffer_free(&encoded);
    return done;
}

/* ---- the images of a state ---- */

struct visit {
    const struct profile_sidecar_source *source;
    bool with_names;
    uint64_t memory_limit;
    state_image_visitor visit;
    void *context;
};

/* Reads what is asked of an image: its name, its functions, what they reached, and its tests. */
static bool read_image(const struct visit *visit, struct state_image *image,
                       struct profile_sidecar **sidecar, uint8_t **reached, struct error *error)
{
    struct profile profile;
    enum profile_uuid_source source;
    struct bytes tests = buffer_view(&image->sum->tests);
    uint64_t limit = visit->memory_limit != 0 ? visit->memory_limit : memory_limit_for(tests.size);

    if (!profile_parse((struct bytes){image->sum->bytes, image->sum->size}, 0, image->file,
                       &profile, error))
        return false;
    image->uuid = profile_uuid(&profile, &source);
    if (profile_needs_sidecar(&profile)) {
        *sidecar = visit->source->find(visit->source->context, &profile, image->file, error);
        if (*sidecar == NULL)
            return false;
        image->name = (*sidecar)->sidecar->image_name;
        image->uuid = (*sidecar)->sidecar->facts.uuid;
    }
    if (!image_functions_read(&image->functions, &profile, *sidecar, visit->with_names, image->file,
                              error))
        return false;
    *reached = calloc(bit_set_size(image->functions.count) + 1, 1);
    if (*reached == NULL)
        return error_out_of_memory(error, image->file, image->functions.count / 8);
    image_functions_reached(&image->functions, &profile, *reached);
    image->reached = *reached;
    return reached_open(&image->tests, tests, image->file, limit, error) &&
           (image->tests.test_count == 0 || image->tests.function_count == image->functions.count ||
            error_set(error,
                      "%s: its list of tests is of another image; restore the state from a copy",
                      image->file));
}

/* A state_visitor. */
static bool visit_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    const struct visit *visit = context;
    struct state_image image = {.file = name, .sum = sum};
    struct profile_sidecar *sidecar = NULL;
    uint8_t *reached = NULL;
    bool done;

    profile_sum_combined(sum);
    done = read_image(visit, &image, &sidecar, &reached, error) &&
           visit->visit(visit->context, &image, error);
    reached_close(&image.tests);
    free(reached);
    image_functions_free(&image.functions);
    if (sidecar != NULL)
        visit->source->release(visit->source->context, sidecar);
    return done;
}

bool state_visit_images(struct state *state, const struct profile_sidecar_source *source,
                        bool with_names, uint64_t memory_limit, state_image_visitor visit,
                        void *context, struct error *error)
{
    struct visit whole = {source, with_names, memory_limit, visit, context};

    return state_read(state, visit_sum, &whole, error);
}

/* ---- sets of texts ---- */

/* The number of items that are less than the text. */
static size_t place_of(const struct text_set *set, const char *text)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(set->items[middle], text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const char *text_set_find(const struct text_set *set, const char *text)
{
    size_t place = place_of(set, text);

    return place < set->count && strcmp(set->items[place], text) == 0 ? set->items[place] : NULL;
}

bool text_set_add(struct text_set *set, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t place = place_of(set, texts[i]);
        char *copy;

        if (place < set->count && strcmp(set->items[place], texts[i]) == 0)
            continue;
        if (!ARRAY_ROOM_FOR_ONE(set->items, set->capacity, set->count))
            return false;
        copy = strdup(texts[i]);
        if (copy == NULL)
            return false;
        memmove(&set->items[place + 1], &set->items[place],
                (set->count - place) * sizeof(*set->items));
        set->items[place] = copy;
        set->count++;
    }
    return true;
}

void text_set_free(struct text_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->items[i]);
    free(set->items);
    *set = (struct text_set){0};
}

/* ---- tests that reach functions ---- */

struct question {
    const uint64_t *name_refs; /* of the functions */
    size_t count;
    struct tests_answer *answer;
};

void tests_answer_free(struct tests_answer *answer)
{
    for (size_t i = 0; i < answer->found_count; i++) {
        free(answer->found[i].image);
        free(answer->found[i].tests);
    }
    free(answer->found);
    text_set_free(&answer->tests);
    *answer = (struct tests_answer){0};
}

/* The function in an image; it is added if it is not there. NULL if out of memory. */
static struct found_function *find_or_add(struct tests_answer *answer, size_t index,
                                          const struct state_image *image)
{
    struct found_function *found;

    for (size_t i = 0; i < answer->found_count && image->uuid.size != 0; i++) {
        found = &answer->found[i];
        if (found->index == index && uuid_equal(&found->uuid, &image->uuid))
            return found;
    }
    if (!ARRAY_ROOM_FOR_ONE(answer->found, answer->found_capacity, answer->found_count))
        return NULL;
    found = &answer->found[answer->found_count++];
    *found = (struct found_function){.index = index, .uuid = image->uuid};
    return found;
}

static int compare_tests(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the tests whose bits are set. */
static bool list_tests(const struct tests_answer *answer, struct found_function *found,
                       const struct state_image *image, const uint8_t *set)
{
    size_t count = found->test_count, kept = 0;
    const char **tests =
        realloc(found->tests, (count + image->tests.test_count + 1) * sizeof(*found->tests));

    if (tests == NULL)
        return false;
    found->tests = tests;
    for (size_t i = 0; i < image->tests.test_count; i++) {
        if (bit_set_has(set, i))
            tests[count++] = text_set_find(&answer->tests, image->tests.tests[i]);
    }
    if (found->test_count != 0) {
        qsort(tests, count, sizeof(*tests), compare_tests);
        for (size_t i = 0; i < count; i++) {
            if (kept == 0 || tests[kept - 1] != tests[i])
                tests[kept++] = tests[i];
        }
        count = kept;
    }
    found->test_count = count;
    return true;
}

/* Sets the bits of the tests that reach any function with this NameRef. *is_there is false if there
 * is none, *is_reached if no profile reaches it. */
static bool unite_functions(struct state_image *image, uint64_t name_ref, uint8_t *set,
                            bool *is_there, bool *is_reached, struct error *error)
{
    size_t size = bit_set_size(image->tests.test_count);
    const uint8_t *tests;

    memset(set, 0, size);
    *is_there = *is_reached = false;
    for (size_t i = 0; i < image->functions.count; i++) {
        if (image->functions.list[i].name_ref != name_ref)
            continue;
        *is_there = true;
        *is_reached = *is_reached || bit_set_has(image->reached, i);
        if (size != 0 && !reached_find(&image->tests, i, &tests, error))
            return false;
        for (size_t k = 0; k < size; k++)
            set[k] |= tests[k];
    }
    return true;
}

static bool answer_one(const struct question *question, size_t index, struct state_image *image,
                       uint8_t *set, struct error *error)
{
    struct found_function *found;
    bool is_there, is_reached;

    if (!unite_functions(image, question->name_refs[index], set, &is_there, &is_reached, error))
        return false;
    if (!is_there)
        return true;
    found = find_or_add(question->answer, index, image);
    if (found == NULL || !list_tests(question->answer, found, image, set))
        return error_out_of_memory(error, image->file, image->tests.test_count);
    found->is_reached = found->is_reached || is_reached;
    if (found->image != NULL || image->name == NULL)
        return true;
    found->image = strdup(image->name);
    return found->image != NULL || error_out_of_memory(error, image->file, strlen(image->name));
}

/* A state_image_visitor. */
static bool answer_all(void *context, struct state_image *image, struct error *error)
{
    const struct question *question = context;
    struct tests_answer *answer = question->answer;
    uint8_t *set = malloc(bit_set_size(image->tests.test_count) + 1);
    bool done = (set != NULL &&
                 text_set_add(&answer->tests, image->tests.tests, image->tests.test_count)) ||
                error_out_of_memory(error, image->file, image->tests.test_count);

    for (size_t i = 0; done && i < question->count; i++)
        done = answer_one(question, i, image, set, error);
    free(set);
    return done;
}

static int compare_found(const void *a, const void *b)
{
    const struct found_function *left = a, *right = b;
    int order = left->index == right->index ? strcmp(left->image == NULL ? "" : left->image,
                                                     right->image == NULL ? "" : right->image)
                                            : (left->index < right->index ? -1 : 1);

    return order != 0 ? order : uuid_compare(&left->uuid, &right->uuid);
}

bool tests_find(struct state *state, const struct profile_sidecar_source *source,
                uint64_t memory_limit, const char *const *functions, size_t count,
                struct tests_answer *answer, struct error *error)
{
    uint64_t *name_refs = malloc((count + 1) * sizeof(*name_refs));
    struct question question = {name_refs, count, answer};
    bool done;

    if (name_refs == NULL)
        return error_out_of_memory(error, state_path(state), count * sizeof(*name_refs));
    for (size_t i = 0; i < count; i++)
        name_refs[i] =
            md5_name_reference((struct bytes){(const uint8_t *)functions[i], strlen(functions[i])});
    done = state_visit_images(state, source, false, memory_limit, answer_all, &question, error);
    if (answer->found_count > 1)
        qsort(answer->found, answer->found_count, sizeof(*answer->found), compare_found);
    free(name_refs);
    return done;
}
