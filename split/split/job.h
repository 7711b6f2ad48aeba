/*
 * The state of one file in `covsplit split`, and of each image in it.
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

/* The state of one image, which is the whole file or a slice of a universal one. */
struct slice_split {
    struct split_job *job;
    bool is_chosen; /* else the slice is only copied, and the members after `image` are unused */
    struct input image; /* a view of the file's input: never closed */
    struct image_plan *plan;
    struct output stripped;
    struct output sidecar;
    char *sidecar_path;            /* NULL: not chosen yet, or there is no sidecar */
    bool has_pending_sidecar;      /* the sidecar gets its name when the image does */
    uint64_t sidecar_size;         /* bytes; of the sidecar, written now or before */
    char *row_name;                /* for the report */
    struct buffer json;            /* for the report, with --json */
    size_t notes_begin, notes_end; /* the range of its notes in the report */
    /* By kind: bytes of the sidecar's sections, and how many bytes of the file they take. */
    uint64_t sizes[SECTION_KIND_MAX + 1];
    uint64_t stored_sizes[SECTION_KIND_MAX + 1];
    struct memo *memo; /* what was proved while making the sidecar; may be NULL */
    /* Contents that are not the image's own, by kind: with --no-exact the new names, and of an
     * image of packed objects the ordinary coverage mapping. */
    struct buffer made[SECTION_KIND_MAX + 1];
};

struct split_job {
    const struct parsed_options *options;
    struct split_report *report;
    unsigned threads; /* for compression */
    const char *output_path;
    struct input file;
    struct input map;           /* empty without --map */
    struct container container; /* as in the file; later as in the output */
    struct slice_split slices[SLICES_MAX];
    struct output universal; /* the stripped file, if it is universal */
    struct error unkept;     /* of a file that is split in place: see output_options */
    struct progress progress;
};

static inline bool split_replaces_file(const struct split_job *job)
{
    return paths_meet(job->output_path, job->file.path);
}

/* Before the first sidecar of an image that is split in place gets its name: of two processes that
 * do so at once, one would replace or remove the sidecar of the other, which alone has the rest of
 * the image by then. */
static inline bool split_hold_file(const struct split_job *job, struct error *error)
{
    return !split_replaces_file(job) || input_hold(&job->file, error);
}

#endif
