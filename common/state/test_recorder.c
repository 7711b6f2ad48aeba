/*
 * Which functions tests reach: see test_recorder.h.
 *
 * The functions of an image are read once. Bits are computed outside of the lock.
 */
#include "common/state/test_recorder.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/state/image_functions.h"
#include "common/state/reached.h"

struct recorded_image {
    struct digest identity;
    bool is_known;
    struct image_functions functions; /* if it is */
    struct reached *reached;          /* NULL: no test yet */
    struct buffer parts;              /* what was given encoded */
};

void test_recorder_start(struct test_recorder *recorder)
{
    *recorder = (struct test_recorder){0};
    pthread_mutex_init(&recorder->lock, NULL);
}

static void free_image(struct recorded_image *image)
{
    image_functions_free(&image->functions);
    reached_free(image->reached);
    buffer_free(&image->parts);
    free(image);
}

void test_recorder_free(struct test_recorder *recorder)
{
    for (size_t i = 0; i < recorder->count; i++)
        free_image(recorder->images[i]);
    free(recorder->images);
    pthread_mutex_destroy(&recorder->lock);
}

void test_recorder_clear(struct test_recorder *recorder)
{
    for (size_t i = 0; i < recorder->count; i++) {
        reached_free(recorder->images[i]->reached);
        recorder->images[i]->reached = NULL;
        buffer_free(&recorder->images[i]->parts);
    }
    recorder->test_memory = 0;
}

static struct recorded_image *find_image(const struct test_recorder *recorder,
                                         const struct digest *identity)
{
    for (size_t i = 0; i < recorder->count; i++) {
        if (digest_equal(&recorder->images[i]->identity, identity))
            return recorder->images[i];
    }
    return NULL;
}

static struct recorded_image *find_or_add_image(struct test_recorder *recorder,
                                                const struct digest *identity, const char *name,
                                                struct error *error)
{
    struct recorded_image *image = find_image(recorder, identity);

    if (image != NULL)
        return image;
    image = calloc(1, sizeof(*image));
    if (image == NULL ||
        !ARRAY_ROOM_FOR_ONE(recorder->images, recorder->capacity, recorder->count)) {
        free(image);
        error_out_of_memory(error, name, sizeof(*image));
        return NULL;
    }
    image->identity = *identity;
    return recorder->images[recorder->count++] = image;
}

static bool know_image(struct recorded_image *image, struct profile_sidecar *sidecar,
                       const struct profile *profile, const char *name, struct error *error)
{
    if (!image->is_known) {
        image->is_known =
            image_functions_read(&image->functions, profile, sidecar, false, name, error);
        if (!image->is_known)
            image_functions_free(&image->functions);
    }
    return image->is_known;
}

bool test_recorder_know(struct test_recorder *recorder, const struct digest *identity,
                        struct profile_sidecar *sidecar, const struct profile *profile,
                        const char *name, struct error *error)
{
    struct recorded_image *image;
    bool known;

    pthread_mutex_lock(&recorder->lock);
    image = find_or_add_image(recorder, identity, name, error);
    known = image != NULL && know_image(image, sidecar, profile, name, error);
    pthread_mutex_unlock(&recorder->lock);
    return known;
}

/* Under the lock. */
static bool add_set(struct test_recorder *recorder, struct recorded_image *image, const char *test,
                    const uint8_t *set)
{
    uint64_t before;

    if (image->reached == NULL)
        image->reached = reached_new(image->functions.count);
    if (image->reached == NULL)
        return false;
    before = reached_memory(image->reached);
    if (!reached_add(image->reached, test, set))
        return false;
    recorder->test_memory += reached_memory(image->reached) - before;
    return true;
}

bool test_recorder_add(struct test_recorder *recorder, const struct digest *identity,
                       const struct profile *profile, const char *test, const char *name,
                       struct error *error)
{
    struct recorded_image *image;
    uint8_t *set;
    bool added;

    pthread_mutex_lock(&recorder->lock);
    image = find_image(recorder, identity);
    pthread_mutex_unlock(&recorder->lock);
    set = calloc(bit_set_size(image->functions.count) + 1, 1);
    if (set == NULL)
        return error_out_of_memory(error, name, image->functions.count / 8);
    image_functions_reached(&image->functions, profile, set);
    pthread_mutex_lock(&recorder->lock);
    added = add_set(recorder, image, test, set);
    pthread_mutex_unlock(&recorder->lock);
    free(set);
    return added || error_out_of_memory(error, name, image->functions.count / 8);
}

/* Under the lock. */
static bool add_part(struct test_recorder *recorder, const struct digest *identity,
                     struct bytes tests, const char *name, struct error *error)
{
    struct recorded_image *image = find_or_add_image(recorder, identity, name, error);
    uint64_t before;

    if (image == NULL)
        return false;
    before = image->parts.size;
    if (!reached_unite(&image->parts, tests, name, error)) {
        /* The caller may free memory and add it again. */
        image->parts.failed = false;
        return false;
    }
    recorder->test_memory += image->parts.size - before;
    return true;
}

bool test_recorder_add_part(struct test_recorder *recorder, const struct digest *identity,
                            struct bytes tests, const char *name, struct error *error)
{
    bool added = true;

    pthread_mutex_lock(&recorder->lock);
    if (tests.size != 0)
        added = add_part(recorder, identity, tests, name, error);
    pthread_mutex_unlock(&recorder->lock);
    return added;
}

uint64_t test_recorder_memory(struct test_recorder *recorder)
{
    uint64_t memory;

    pthread_mutex_lock(&recorder->lock);
    memory = recorder->test_memory;
    pthread_mutex_unlock(&recorder->lock);
    return memory;
}

bool test_recorder_encode(struct test_recorder *recorder, const struct digest *identity,
                          const char *name, struct buffer *to, struct error *error)
{
    const struct recorded_image *image = find_image(recorder, identity);

    return image == NULL ||
           ((image->reached == NULL || reached_encode(image->reached, name, to, error)) &&
            reached_unite(to, buffer_view(&image->parts), name, error));
}
