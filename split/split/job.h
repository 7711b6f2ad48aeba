/*
 * A file on its way through `covsplit split`, and each image in it.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_JOB_H
#define COVSPLIT_SPLIT_SPLIT_JOB_H

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/codec/deflate/memo.h"
#include "common/sidecar/sidecar.h"
#include "formats/container.h"
#include "formats/image.h"
#include "split/cli/options.h"
#include "split/cli/progress.h"

struct split_report;

/* An image on its way: a slice of the file. */
struct slice_split {
    struct split_job *job;
    bool is_chosen;     /* else the slice is copied, and has nothing of what follows the image */
    struct input image; /* a view: never closed */
    struct image_plan *plan;
    struct output stripped;
    struct output sidecar;
    char *sidecar_path;                          /* NULL: not chosen yet, or none is written */
    bool has_pending_sidecar;                    /* which gets its name together with the image */
    uint64_t sidecar_size;                       /* bytes; of the one that is kept, or written */
    char *row_name;                              /* for the report */
    struct buffer json;                          /* for the report, with --json */
    size_t notes_begin, notes_end;               /* where the report has what is said of it */
    uint64_t stored_sizes[SECTION_KIND_MAX + 1]; /* bytes in the sidecar, by kind */
    struct memo *memo; /* of what the sidecar's making has proved; NULL: nothing */
    struct buffer names[SECTION_KIND_MAX + 1]; /* with --no-exact, what replaces them, by kind */
};

struct split_job {
    const struct parsed_options *options;
    struct split_report *report;
    unsigned threads; /* to compress with */
    const char *output_path;
    struct input file;
    struct input map;           /* empty where none is given */
    struct container container; /* as in the file, and later as in the result */
    struct slice_split slices[SLICES_MAX];
    struct output universal; /* the stripped file, where that is more than a slice */
    struct progress progress;
};

static inline bool split_replaces_file(const struct split_job *job)
{
    return paths_meet(job->output_path, job->file.path);
}

#endif
