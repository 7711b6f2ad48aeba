/*
 * What `covsplit show` says of each kind of file, for show.c, whose opening comment lists the keys.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_DESCRIBE_H
#define COVSPLIT_SPLIT_SIDECARS_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "split/cli/json.h"
#include "split/sidecars/report.h"

/* Of the reports of a file and of each profile in it. */
#define DESCRIBE_INDENTATION 2

struct file_kind {
    bool (*recognize)(struct bytes bytes);
    /* Fills in the report. NULL: a file of raw profiles, for which there are the functions below.
     */
    bool (*describe)(const struct input *input, struct report *report, struct error *error);
};

/* NULL, with an error, if the file is of no kind that can be described. */
const struct file_kind *describe_find_kind(const struct input *input, struct error *error);

/* Fills in the report on a file of raw profiles as a whole. The limit is that of --memory-limit; 0:
 * not given. */
bool describe_profiles(const struct input *input, uint64_t limit, struct report *report,
                       struct error *error);

/* Then prints a report on each of them; as JSON if `json` is not NULL. */
bool describe_print_profiles(const struct input *input, uint64_t limit, struct json_writer *json,
                             struct error *error);

#endif
