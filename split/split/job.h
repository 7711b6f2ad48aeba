/*
 * One image on its way through `covsplit split`: what command_split does with a thin image, and
 * with each slice of a universal one.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_JOB_H
#define COVSPLIT_SPLIT_SPLIT_JOB_H

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/codec/deflate/memo.h"
#include "formats/container.h"
#include "formats/image.h"
#include "split/cli/options.h"
#include "split/cli/progress.h"

/* What became of one image, for the summary of a batch. */
struct split_row {
    char *name; /* of the image, or of the slice of a universal one */
    char *sidecar_path;
    struct uuid uuid;
    uint64_t size_before, size_after, sidecar_size; /* bytes */
};

/* Where an image is one of several, what is said of it, and what became of it. Start from {0};
 * freed with split_report_free. */
struct split_report {
    bool was_found;      /* in a directory, not named: without coverage it is left alone */
    struct buffer notes; /* what else would go to stderr: lines */
    struct split_row rows[UNIVERSAL_SLICES_MAX];
    size_t row_count;
};
/* Prints the notes as warnings, and the rows as --verbose does. */
void split_report_print_notes(const struct split_report *report);
void split_report_print_rows(const struct split_report *report);
void split_report_free(struct split_report *report);

struct split {
    const struct parsed_options *options;
    struct split_report *report; /* NULL: the image is the only one, and messages are printed */
    unsigned threads;            /* to compress with */
    const char *image_path;
    const char *whole_path; /* of the universal image that this one is a slice of; NULL: of none */
    const char *output_path;
    char *sidecar_path;
    char *row_name;     /* for the report */
    struct input image; /* the caller's to open and close */
    struct input map;   /* empty where none is given */
    struct image_plan *plan;
    struct output stripped;
    struct output sidecar;
    uint64_t sidecar_size; /* bytes; of the one that is kept, or written */
    struct progress progress;
    struct memo *memo; /* of what the sidecar's making has proved; NULL: nothing */
    struct buffer names[SECTION_KIND_MAX + 1]; /* with --no-exact, what replaces them, by kind */
};

/* Splits the image at the path, which may be a universal one, as the options say. `report` as in
 * struct split. */
bool split_image(const struct parsed_options *options, const char *path, unsigned threads,
                 struct split_report *report, struct error *error);

/* A split that has nothing yet, of an image or of a slice of it. Freed with split_end, whatever
 * became of it. */
struct split split_start(const struct parsed_options *options, const char *image_path,
                         unsigned threads, struct split_report *report);
void split_end(struct split *split);

/* A warning, or a note for later. */
void split_warn(const struct split *split, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says what a split that is done has saved, where that is wanted. A report was prepared for it,
 * when the split could still fail, and takes the sidecar's path over. */
bool split_prepare_to_tell(struct split *split, struct error *error);
void split_tell(struct split *split, const char *name);

/* True where the image was only found, and there is nothing to do about it. */
bool split_is_needless(const struct split *split);

/* Plans the edits of split->image. */
bool split_plan(struct split *split, struct error *error);

/* Writes the stripped image and the sidecar, checks that they make the original, and says what
 * stays. Neither has its name yet, but for a sidecar that was added to a store. An image that was
 * split before (plan->already_split) has no sidecar. */
bool split_prepare(struct split *split, struct error *error);

/* True where the sidecar goes to a store, which split_prepare has added it to. */
bool split_is_for_store(const struct split *split);

#endif
