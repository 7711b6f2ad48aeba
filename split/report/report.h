/*
 * `covsplit report` and `covsplit test`, and the line and branch coverage of a report (coverage.c):
 * read from the output of `llvm-cov export -format=lcov` (the tracefile format of geninfo(1)), it
 * becomes XML as of Cobertura, or the coverage of a change.
 */
#ifndef COVSPLIT_SPLIT_REPORT_REPORT_H
#define COVSPLIT_SPLIT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "split/cli/options.h"

/* Reports errors of the command line that parsing cannot find. Returns an enum exit_status. */
int report_check_usage(const struct parsed_options *options);

/* ---- coverage ---- */

struct line_coverage {
    uint32_t line;
    uint64_t count; /* how often it was executed */
    uint32_t branches, branches_taken;
};

struct file_coverage {
    struct bytes path; /* in the tracefile */
    size_t first_line, line_count;
};

/* Initialize to {0}; free with coverage_free. */
struct coverage {
    struct file_coverage *files; /* in the order of the tracefile */
    size_t count, capacity;
    struct line_coverage *lines; /* of one file after the other, in ascending order */
    size_t line_count, line_capacity;
};

/* Reads a tracefile, which must outlive the coverage. */
bool coverage_read(struct coverage *coverage, struct bytes tracefile, struct error *error);
void coverage_free(struct coverage *coverage);

/* Appends a document of the DTD coverage-04 of Cobertura. Paths below `root` are written relative
 * to it. `timestamp` is in seconds. */
void coverage_write_cobertura(const struct coverage *coverage, const char *root, uint64_t timestamp,
                              struct buffer *text);

/* ---- a change ---- */

/* Lines that a change adds, of those files that have any: how many of them have code, and how many
 * were executed. */
struct change_coverage {
    uint64_t added, with_code, covered;
    struct buffer table; /* lines of text for people: one for each file, and its uncovered lines */
};

/* Compares the coverage with a unified diff, whose paths are relative to some directory: that of a
 * file is found by `root`, or else as the only one in the coverage that ends so. Free change->table
 * even after a failure. */
bool coverage_of_change(const struct coverage *coverage, struct bytes diff, const char *name,
                        const char *root, struct change_coverage *change, struct error *error);

#endif
