/*
 * What a split says, and what it has saved: kept until the messages on other files are out.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_REPORT_H
#define COVSPLIT_SPLIT_SPLIT_REPORT_H

#include "common/base/bytes.h"
#include "common/base/uuid.h"
#include "split/cli/json.h"
#include "split/split/job.h"

/* What became of one image. */
struct split_row {
    char *name;         /* of the image, or of the slice of a universal one */
    char *sidecar_path; /* NULL: none was written, as there was nothing to take out */
    struct uuid uuid;
    uint64_t size_before, size_after, sidecar_size; /* bytes */
    struct buffer json;                             /* with --json all of it, as an object */
};

/* What is said of a file, and what became of it. Start from {0}; freed with split_report_free. */
struct split_report {
    bool shows_progress; /* there is no other file */
    bool was_found;      /* in a directory, not named: without coverage it is left alone */
    struct buffer notes; /* what else would go to stderr: lines */
    bool has_lost_notes; /* there was no memory for some, so they were printed at once */
    struct split_row rows[SLICES_MAX];
    size_t row_count;
};
/* Prints the notes as warnings, and the rows as --verbose does, or as elements of an array. */
void split_report_print_notes(const struct split_report *report);
void split_report_print_rows(const struct split_report *report);
void split_report_print_json(const struct split_report *report, struct json_writer *json);
void split_report_free(struct split_report *report);

/* A warning, for later. */
void split_warn(const struct split_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says which sections stay, and why. */
void split_warn_of_sections(const struct slice_split *split);

/* For a split that only waits for its names: with --json, makes the text that the row will have. */
bool split_describe(struct slice_split *split, struct error *error);

/* Adds a row for a split that is done, which takes over the names of image and sidecar and the
 * text; without --json, none for an image that had been split before. */
void split_add_row(struct slice_split *split);

#endif
