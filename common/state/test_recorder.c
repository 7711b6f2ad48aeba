/*
 * The functions that tests reach: see test_recorder.h.
 *
 * The functions of an image are read once. Bits are computed outside of the lock.
 */
#include "common/state/test_recorder.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
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

/* ---- the recorder ---- */

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
