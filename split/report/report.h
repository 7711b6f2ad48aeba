/*
 * `covsplit report` and `covsplit test`, in parts:
 *
 *     report_command.c   the command, from operands to a report
 *     report_images.c    reads the profiles, and chooses the images that the report is of
 *     sources.c          chooses the source files, and gives each one name
 *     functions.c        finds functions of which the report does not have all counts
 *     write.c            has llvm-cov write the report
 *     tracefile.c        reads llvm-cov's tracefile, and writes Cobertura's form of it
 *     tables.c           tables of it, and what went up and down since another report
 *     test.c             `covsplit test`
 *
 * A verdict (--fail-under, --baseline) is about all that was given. What the report leaves out is
 * named, and is an error then, unless --ignore names its kind.
 */
#ifndef COVSPLIT_SPLIT_REPORT_REPORT_H
#define COVSPLIT_SPLIT_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/output.h"
#include "common/llvm/names.h"
#include "common/sidecar/union.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"
#include "split/cli/source_paths.h"
#include "split/profiles/function_places.h"
#include "split/profiles/llvm_tool.h"
#include "split/profiles/merge.h"

/* ---- what is left out (report_command.c) ---- */

/* The words of --ignore, in this order. */
enum left_out {
    LEFT_OUT_MISSING,    /* profiles whose sidecar is not found: an error also without a verdict */
    LEFT_OUT_EMPTY,      /* empty profiles */
    LEFT_OUT_UNMAPPED,   /* images without coverage mapping */
    LEFT_OUT_EARLIER,    /* profiles of an earlier build of an image */
    LEFT_OUT_FOREIGN,    /* counts of functions that no image of the report has */
    LEFT_OUT_MISMATCHED, /* functions whose counts are not of what the mapping describes */
    LEFT_OUT_KINDS,
};

struct report;

/* Warns of what the report leaves out, which is also to be said in it, and notes that a verdict is
 * not possible unless this kind is ignored. */
void report_leave_out(struct report *report, enum left_out kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool report_ignores(const struct report *report, enum left_out kind);

/* ---- a report ---- */

struct report_image {
    const struct sidecar *sidecar;
    struct sidecar *own;           /* to be closed; NULL: it is the merge's */
    struct profile_sidecar *found; /* to be released; or NULL */
    struct uuid changed_uuid;      /* that the file has now, if another tool changed it */
    bool is_named;                 /* by an operand */
    bool is_indexed;               /* an indexed profile is of it */
    int64_t newest;                /* the time of the newest of the others, in nanoseconds */
    uint64_t profile_count;        /* of the others */
    bool *has_file; /* it has functions of these `build_files`; NULL: they were not needed */
    size_t file_count;
    struct function_places mains; /* with has_file: its functions `main` */
    const struct profile_group *
        *groups; /* they, in the merge: a full profile may have another UUID */
    size_t group_count, group_capacity;
};

struct report {
    const struct parsed_options *options;
    struct profile_sidecars sidecars;
    struct merge_request request; /* of those operands that are raw profiles, directories, states */
    struct merge merge;
    char *spool;          /* a path in a directory for unnamed files */
    const char **indexed; /* those operands that are indexed profiles */
    size_t indexed_count;
    struct report_image *images;
    size_t image_count, image_capacity;
    struct names build_files;      /* source files of images of one name */
    struct lacking_images lacking; /* of full and indexed profiles */
    struct error first_lacking;
    bool has_strangers;   /* profiles that do not tell of which image they are */
    char *program;        /* llvm-cov */
    unsigned raw_version; /* the highest of the profiles; 0: indexed ones are among them */
    struct output profile, mapping; /* a .profdata file, and the union; in memory */
    uint64_t newest;                /* the modification time of the newest profile, in seconds */
    struct llvm_capture lines;      /* of the baseline: its lcov */
    struct llvm_capture totals;     /* JSON of llvm-cov, once it was needed */
    bool has_mismatches;            /* llvm-cov has dropped functions, which it does not name */
    bool are_mismatches_told;

    struct path_maps *maps;
    struct source_files *sources;
    char *root;               /* of the source tree */
    bool has_rust;            /* some source files are of Rust */
    bool sources_are_missing; /* some whose text is to be shown, which has been said */
    struct function_table *functions;
    size_t image_read; /* the image whose functions are visited */

    struct buffer left_out; /* as lines */
    uint64_t unproven;      /* how many of these prevent a verdict, and the first */
    struct error first_unproven;
    enum left_out first_kind;
};

/* ---- the images (report_images.c) ---- */

/* Reads the operands, which are images, sidecars and profiles, and finds the images that the
 * profiles are of; with --all also those of all sidecars in the store. Leaves out images of which
 * no sidecar was found, and those without coverage mapping. Of several builds of one image keeps
 * the one that the newest profiles are of, and takes the others and their groups out. */
bool report_gather(struct report *report, const char *const *operands, size_t count,
                   struct error *error);
void report_free_images(struct report *report);

/* ---- the source files (sources.c) ---- */

/* Chooses the source files of the images that are to be in the report, and their names. Free with
 * sources_free, even after a failure. */
bool sources_choose(struct report *report, struct error *error);
void sources_free(struct source_files *sources);

/* The `rename` of a covmap_renamer whose context is the report: gives the source files their names
 * in the union. Those that are left out get names that the regular expression matches. */
bool sources_rename(void *report, struct bytes path, struct bytes *name);
#define SOURCES_LEFT_OUT       "/.covsplit-left-out"
#define SOURCES_LEFT_OUT_REGEX "^/\\.covsplit-left-out"

/* The path of a source file below the root of the source tree, without a slash in front; other
 * paths as they are. Valid until the next call. */
struct bytes sources_below_root(struct report *report, struct bytes path);

/* ---- functions (functions.c) ---- */

void functions_free(struct function_table *table);

/* The `visit` of a union_writer whose context is the report. */
void functions_visit(void *report, const struct union_function *function);

/* Leaves out functions of which images have different forms, and those of the profile that no image
 * has. */
bool functions_check(struct report *report, struct error *error);

/* Leaves out functions of which the profile has only other hashes: llvm-cov drops them. */
bool functions_check_mismatches(struct report *report, struct error *error);

/* ---- writing (write.c) ---- */

/* Writes the report of the images and the profile as the options ask for it, and fails also if less
 * is covered than --fail-under wants. */
bool report_write(struct report *report, struct error *error);

/* Keeps the tracefile of the report in report->lines, for --baseline. */
bool report_keep_lines(struct report *report, struct error *error);

/* Takes METRIC=PERCENT apart. False if it is something else. */
bool report_read_limit(const char *text, size_t *metric, double *percent);

/* True if the report has the text of source files, which llvm-cov opens. */
bool report_shows_sources(const struct report *report);

/* Reports errors of the command line that parsing cannot find. Returns an enum exit_status. */
int report_check_usage(const struct parsed_options *options);

/* Makes the report of these operands. Returns an enum exit_status, after printing what is wrong. */
int report_profiles(const struct parsed_options *options, const char *const *operands,
                    size_t count);

/* ---- text ---- */

/* Takes the next line, without its newline, off the text. */
bool take_line(struct bytes *text, struct bytes *line);

/* Appends formatted text of any length. */
void coverage_print(struct buffer *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- coverage (tracefile.c) ---- */

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
    struct bytes path; /* below the root of the source tree; in `paths` */
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
    struct arena paths;
};

/* Reads a tracefile, which must outlive the coverage. */
bool coverage_read(struct coverage *coverage, struct report *report, struct bytes tracefile,
                   struct error *error);
void coverage_free(struct coverage *coverage);

/* Appends a document of the DTD coverage-04 of Cobertura, with paths relative to the root of the
 * source tree. What is left out becomes a comment. */
void coverage_write_cobertura(const struct coverage *coverage, const struct report *report,
                              struct buffer *text);

/* ---- tables (tables.c) ---- */

/* Appends one line for each file, and one for all, with bars and colours for a terminal. */
void coverage_write_summary(const struct coverage *coverage, bool for_terminal,
                            struct buffer *text);

/* The same as a table in Markdown. */
void coverage_write_markdown(const struct coverage *coverage, struct buffer *text);

/* Appends "FILE:3,7-9" for each file that has lines which were not executed. */
void coverage_write_missing(const struct coverage *coverage, struct buffer *text);

/* Appends what went up and down from one to the other: a line for each file in which something did,
 * that came or went, and one for all. Files are compared by path, functions by name. */
void coverage_compare(const struct coverage *before, const struct coverage *after,
                      struct buffer *text);

#endif
