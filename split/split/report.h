/*
 * The messages of a split, and what it has saved: kept until the messages about the files before it
 * are printed.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_REPORT_H
#define COVSPLIT_SPLIT_SPLIT_REPORT_H

#include "common/base/bytes.h"
#include "common/base/uuid.h"
#include "split/cli/json.h"
#include "split/split/job.h"

/* The result for one image. */
struct split_row {
    char *name;         /* the image, or a slice of a universal one */
    char *sidecar_path; /* NULL: no sidecar, as there was nothing to take out */
    struct uuid uuid;
    uint64_t size_before, size_after, sidecar_size; /* bytes */
    struct buffer json;                             /* with --json, the whole row as an object */
};

/* The messages and results of one file. Initialize to {0}; free with split_report_free. */
struct split_report {
    bool shows_progress; /* this is the only file */
    bool was_found;      /* not named by the user: ignored if it has no coverage */
    struct buffer notes; /* delayed warnings, one on each line */
    bool has_lost_notes; /* there was no memory for some of them, so they were printed at once */
    struct split_row rows[SLICES_MAX];
    size_t row_count;
};
/* Prints the notes as warnings, and the rows as --verbose does, or as elements of an array. */
void split_report_print_notes(const struct split_report *report);
void split_report_print_rows(const struct split_report *report);
void split_report_print_json(const struct split_report *report, struct json_writer *json);
void split_report_free(struct split_report *report);

/* Adds a warning to the notes. */
void split_warn(const struct split_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Warns of the sections that stay, and says why. */
void split_warn_of_sections(const struct slice_split *split);

/* With --json, makes the text of the row, once everything but the names of the outputs is
 * settled. */
bool split_describe(struct slice_split *split, struct error *error);

/* Adds a row for a finished split, and takes ownership of the names of image and sidecar and of the
 * JSON text. Without --json, an image that had been split before gets no row. */
void split_add_row(struct slice_split *split);

#endif
