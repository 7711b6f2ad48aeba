/*
 * Asking a state which tests reach a function, and which functions there are.
 *
 * A function is given by its name as profiles have it: "main", "file.c:helper", "_ZN3foo3barEv". It
 * may be in several images, and in one image several times. The names are in the sidecars of the
 * images, or in the state if the profiles were full ones.
 */
#ifndef COVSPLIT_COMMON_STATE_TESTS_QUERY_H
#define COVSPLIT_COMMON_STATE_TESTS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/sidecar/profile_groups.h"
#include "common/state/reached.h"
#include "common/state/state.h"
#include "common/state/test_recorder.h"

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
