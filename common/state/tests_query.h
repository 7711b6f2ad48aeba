/*
 * Which tests reach a function: recording it while profiles are added up, and asking a state.
 *
 * A function is given by its name as profiles have it: "main", "file.c:helper", "_ZN3foo3barEv". It
 * may be in several images, and in one image several times. The names are in the sidecars of the
 * images, or in the state if the profiles were full ones.
 */
#ifndef COVSPLIT_COMMON_STATE_TESTS_QUERY_H
#define COVSPLIT_COMMON_STATE_TESTS_QUERY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/profile_groups.h"
#include "common/state/reached.h"
#include "common/state/state.h"

/* ---- the functions of an image ---- */

/* The functions of an image, as its profiles have them: one for each data record, with its NameRef
 * and the place of its counters. They are read from one profile, and are then used to find out
 * which functions another profile of the same image has reached: those with a counter that is not
 * 0, or with byte coverage, where 0 means "executed", those with a counter that is 0. This is what
 * llvm-profdata calls covered. */
struct image_function {
    uint64_t name_ref;
    uint64_t offset; /* of its counters in those of the profile, in bytes */
    uint64_t size;   /* of its counters, in bytes */
};

/* Initialize to {0}; free with image_functions_free. */
struct image_functions {
    struct image_function *list;
    size_t count;
    bool has_byte_coverage;
    struct names names; /* if they were wanted */
};

/* Reads the functions of the image that wrote the profile. `sidecar` may be NULL if the profile
 * lacks nothing; it is not needed afterwards. `name` is the profile's. Free them even after a
 * failure. */
bool image_functions_read(struct image_functions *functions, const struct profile *profile,
                          struct profile_sidecar *sidecar, bool with_names, const char *name,
                          struct error *error);
void image_functions_free(struct image_functions *functions);

/* Adds the functions that a profile of this image has reached to the bit set (reached.h). The
 * profile must have the same identity (profile_sum.h) as the one that the functions were read from.
 */
void image_functions_reached(const struct image_functions *functions, const struct profile *profile,
                             uint8_t *set);

/* ---- the recorder ---- */

/* Records which functions each test reaches, while profiles of any images are added up. The result
 * is the field `tests` of a sum (profile_sum.h).
 *
 *     test_recorder_start(&recorder);
 *     for each profile, also in several threads at a time:
 *         test_recorder_know(&recorder, &identity, sidecar, &profile, name, &error);
 *         test_recorder_add(&recorder, &identity, &profile, "the test", name, &error);
 *     for each image, when all have been added:
 *         test_recorder_encode(&recorder, &identity, name, &tests, &error);
 *     test_recorder_clear(&recorder);      and so on with the next batch
 *     test_recorder_free(&recorder);
 */

struct test_recorder {
    pthread_mutex_t lock;
    struct recorded_image *images;
    size_t count, capacity;
    uint64_t test_memory; /* what the tests take, and test_recorder_clear frees */
};

void test_recorder_start(struct test_recorder *recorder);
void test_recorder_free(struct test_recorder *recorder);

/* Reads the functions of the image, unless it is known. `sidecar` may be NULL if the profile lacks
 * nothing. `name` is the profile's. */
bool test_recorder_know(struct test_recorder *recorder, const struct digest *identity,
                        struct profile_sidecar *sidecar, const struct profile *profile,
                        const char *name, struct error *error);

/* Adds what a profile of a known image has reached. The test's name must have been checked
 * (reached_check_name). False only if out of memory; nothing has changed then. */
bool test_recorder_add(struct test_recorder *recorder, const struct digest *identity,
                       const struct profile *profile, const char *test, const char *name,
                       struct error *error);

/* Adds the encoded matrix of an image to *to, which has another one of it, or is empty. After a
 * failure it is as it was. */
bool test_recorder_encode(struct test_recorder *recorder, const struct digest *identity,
                          const char *name, struct buffer *to, struct error *error);

/* Forgets the tests, but not the functions of the images. */
void test_recorder_clear(struct test_recorder *recorder);

/* ---- the images of a state ---- */

struct state_image {
    const char *file; /* in the state, for messages */
    const char *name; /* of the image; NULL: not known, since no sidecar was needed */
    struct uuid uuid; /* size 0: none */
    const struct profile_sum *sum;
    struct image_functions functions;
    const uint8_t *reached; /* a bit set: the functions that profiles reached, of tests or not */
    struct reached_table tests;
};

typedef bool (*state_image_visitor)(void *context, struct state_image *image, struct error *error);

/* Visits all images, in the order of state_read. `source` finds their sidecars, `with_names` is for
 * image->functions. False if a sidecar cannot be found, or if a visitor has returned false. */
bool state_visit_images(struct state *state, const struct profile_sidecar_source *source,
                        bool with_names, uint64_t memory_limit, state_image_visitor visit,
                        void *context, struct error *error);

/* ---- sets of texts ---- */

/* Texts in ascending order, each once. Initialize to {0}; free with text_set_free. The texts stay
 * where they are until then. */
struct text_set {
    char **items;
    size_t count, capacity;
};

/* Adds texts. False if out of memory. */
bool text_set_add(struct text_set *set, const char *const *texts, size_t count);
/* NULL if the set has no such text. */
const char *text_set_find(const struct text_set *set, const char *text);
void text_set_free(struct text_set *set);

/* ---- tests that reach functions ---- */

/* A function that was found in an image. */
struct found_function {
    size_t index; /* in the functions that were asked for */
    char *image;  /* the image's name; NULL: not known */
    struct uuid uuid;
    const char **tests; /* those that reach it, in ascending order; in tests_answer.tests */
    size_t test_count;
    bool is_reached; /* by any profile, also one that belongs to no test */
};

/* Initialize to {0}; free with tests_answer_free. */
struct tests_answer {
    struct text_set tests; /* all tests of the state */
    /* By index, name of the image and UUID. A function that no test reaches is here, too. What a
     * state has of one image twice, from before and after a split, is united. */
    struct found_function *found;
    size_t found_count, found_capacity;
};

/* Finds functions by their names. Free the answer even after a failure. */
bool tests_find(struct state *state, const struct profile_sidecar_source *source,
                uint64_t memory_limit, const char *const *functions, size_t count,
                struct tests_answer *answer, struct error *error);
void tests_answer_free(struct tests_answer *answer);

#endif
