/*
 * `covsplit report` and `covsplit test`, and the line and branch coverage of a report (coverage.c):
 * read from the output of `llvm-cov export -format=lcov` (the tracefile format of geninfo(1)), it
 * becomes XML as of Cobertura, or the coverage of a change; compare.c has summaries.
 */
#ifndef COVSPLIT_SPLIT_REPORT_REPORT_H
#define COVSPLIT_SPLIT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/output.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"

/* Reports errors of the command line that parsing cannot find. Returns an enum exit_status. */
int report_check_usage(const struct parsed_options *options);

/* ---- a report ---- */

struct report_image {
    const struct sidecar *sidecar;
    struct sidecar *own;           /* to be closed; NULL: it is the merge's */
    struct profile_sidecar *found; /* to be released; or NULL */
};

struct report {
    const struct parsed_options *options;
    struct parsed_options merging; /* the same, as options of `covsplit merge` */
    struct profile_sidecars sidecars;
    struct path_maps maps;
    const char **profiles; /* those operands that are raw profiles, directories and states */
    const char **indexed;  /* and those that are indexed profiles */
    size_t profile_count, indexed_count;
    struct report_image *images;
    size_t image_count, image_capacity;
    char *root;    /* the current directory */
    char *program; /* llvm-cov */
    int profile;   /* a .profdata file */
    struct output mapping;
    struct names files;      /* the source files in it */
    struct output selection; /* the source files to be shown, as a response file */
    bool is_selected;        /* else all of them */
    bool lacks_sources;      /* some of them are not there, which has been said */
    uint64_t newest;         /* the modification time of the newest profile, in seconds */
    struct buffer left_out;  /* what --ignore-missing leaves out, as lines */
    bool (*make)(struct report *report, struct error *error); /* makes the report of all this */
    struct buffer lines;                                      /* of the baseline: its lcov */
};

/* Writes the report of the images and the profile as the options ask for it, and fails also if less
 * is covered than --fail-under wants. */
bool report_write(struct report *report, struct error *error);

/* Appends the tracefile of the report to report->lines, for --baseline. */
bool report_keep_lines(struct report *report, struct error *error);

/* Takes METRIC=PERCENT apart. False if it is something else. The metric 0 is lines. */
bool report_read_limit(const char *text, size_t *metric, double *percent);

/* ---- text ---- */

/* Takes the next line, without its newline, off the text. */
bool take_line(struct bytes *text, struct bytes *line);

/* Appends formatted text of any length. */
void coverage_print(struct buffer *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The path below the root, without a slash in front; other paths as they are. */
struct bytes path_below(struct bytes path, const char *root);

/* ---- coverage ---- */

struct line_coverage {
    uint32_t line;
    uint64_t count; /* how often it was executed */
    uint32_t branches, branches_taken;
};

struct function_coverage {
    struct bytes name; /* in the tracefile */
    uint64_t count;
};

struct ratio {
    uint64_t count, covered;
};

struct file_coverage {
    struct bytes path; /* in the tracefile */
    size_t first_line, line_count;
    size_t first_function, function_count;
    struct ratio all_lines, functions, branches; /* as llvm-cov sums them up */
};

/* Initialize to {0}; free with coverage_free. */
struct coverage {
    struct file_coverage *files; /* in the order of the tracefile */
    size_t count, capacity;
    struct line_coverage *lines; /* of one file after the other, in ascending order */
    size_t line_count, line_capacity;
    struct function_coverage *functions; /* in the same way */
    size_t function_count, function_capacity;
};

/* Reads a tracefile, which must outlive the coverage. */
bool coverage_read(struct coverage *coverage, struct bytes tracefile, struct error *error);
void coverage_free(struct coverage *coverage);

/* Appends a document of the DTD coverage-04 of Cobertura. Paths below `root` are written relative
 * to it. `timestamp` is in seconds. The lines of left_out become a comment, if there are any. */
void coverage_write_cobertura(const struct coverage *coverage, const char *root, uint64_t timestamp,
                              struct bytes left_out, struct buffer *text);

/* The file's coverage of this path, or else of the only one that ends so; NULL if it has none. */
const struct file_coverage *coverage_find_file(const struct coverage *coverage, struct bytes path,
                                               const char *root);

/* The line with this number; NULL if it has no code. */
const struct line_coverage *coverage_find_line(const struct coverage *coverage,
                                               const struct file_coverage *file, uint64_t number);

/* ---- summaries (compare.c) ---- */

/* Appends one line for each file, and one for all, with bars and colours for a terminal. */
void coverage_write_summary(const struct coverage *coverage, const char *root, bool for_terminal,
                            struct buffer *text);

/* Appends what went up and down from one to the other: a line for each file in which something did,
 * and one for all. Functions are compared by name. Lines are compared only if there is
 * a diff, which tells which are the same; else it is NULL. */
void coverage_compare(const struct coverage *before, const struct coverage *after,
                      const struct bytes *diff, const char *root, struct buffer *text);

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

/* Numbers and ranges of lines: "3, 7-9". Free the text. */
struct line_ranges {
    struct buffer text;
    uint64_t first, last; /* of the open range; 0: none */
};

void line_ranges_add(struct line_ranges *ranges, uint64_t number);
void line_ranges_end(struct line_ranges *ranges);

/* The lines of a unified diff, one after the other: initialize to {.rest = DIFF}. */
struct diff_reader {
    struct bytes rest;
    bool is_git;
    uint64_t old_left, new_left;     /* lines of the hunk */
    struct bytes old_path, new_path; /* of the file; without a/ and b/ */
    uint64_t old_number, new_number; /* of the line */
};

enum diff_line {
    DIFF_END,
    DIFF_FILE, /* a file begins */
    DIFF_HUNK, /* a hunk begins: the next lines have these numbers */
    DIFF_SAME, /* a line that is in both */
    DIFF_REMOVED,
    DIFF_ADDED,
    DIFF_DAMAGED, /* a line that begins with "@@" cannot be read */
};

enum diff_line diff_next(struct diff_reader *reader);

#endif
