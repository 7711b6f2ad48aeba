/*
 * One image on its way through `covsplit split`: what command_split does with a thin image, and
 * with each slice of a universal one.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_JOB_H
#define COVSPLIT_SPLIT_SPLIT_JOB_H

#include "common/compact/zlib_memo.h"
#include "common/file.h"
#include "formats/image.h"
#include "split/options.h"
#include "split/progress.h"

struct split {
    const struct parsed_options *options;
    const char *image_path;
    const char *whole_path; /* of the universal image that this one is a slice of; NULL: of none */
    const char *output_path;
    char *sidecar_path;
    struct input image; /* the caller's to open and close */
    struct input map;   /* empty where none is given */
    struct image_plan *plan;
    struct output stripped;
    struct output sidecar;
    uint64_t sidecar_size; /* bytes; of the one that is kept, or written */
    struct progress progress;
    struct zlib_memo *memo; /* of what the sidecar's making has proved; NULL: nothing */
};

/* A split that has nothing yet. Freed with split_end, whatever became of it. */
struct split split_start(const struct parsed_options *options, const char *image_path);
void split_end(struct split *split);

/* Plans the edits of split->image. */
bool split_plan(struct split *split, struct error *error);

/* Writes the stripped image and the sidecar, checks that they make the original, and says what
 * stays. Neither has its name yet, but for a sidecar that was added to a store. An image that was
 * split before (plan->already_split) has no sidecar. */
bool split_prepare(struct split *split, struct error *error);

/* True where the sidecar goes to a store, which split_prepare has added it to. */
bool split_is_for_store(const struct split *split);

#endif
