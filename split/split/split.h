/*
 * The split of one file: its state, the state of each image in it, and the results.
 *
 * split_file is what the command calls for each file, and `covsplit link` for its output. The other
 * functions are its steps.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_SPLIT_H
#define COVSPLIT_SPLIT_SPLIT_SPLIT_H

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/uuid.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/cli/options.h"
#include "split/cli/path_list.h"

/* ---- the results ---- */

/* The result for one image. */
struct split_row {
    char *name;         /* the image, or a slice of a universal one */
    char *sidecar_path; /* NULL: no sidecar, as there was nothing to take out */
    struct uuid uuid;
    uint64_t size_before, size_after, sidecar_size; /* bytes */
    uint64_t load_end, load_end_after;              /* of firmware (formats/image.h) */
    struct buffer json;                             /* with --json, the whole row as an object */
};

/* The messages and results of one file, kept until the messages about the files before it are
 * printed. Initialize to {0}; free with split_results_free. */
struct split_results {
    bool shows_progress; /* this is the only file */
    bool was_found;      /* not named by the user: ignored if it has no coverage */
    bool was_split;      /* an image in it had been split before */
    struct buffer notes; /* see notes_add */
    struct split_row rows[SLICES_MAX];
    size_t row_count;
};

/* Prints the rows as lines, or as elements of an array. */
void split_results_print(const struct split_results *results, FILE *stream);
void split_results_print_json(const struct split_results *results, struct json_writer *json);
void split_results_free(struct split_results *results);

/* Checks what the table of options cannot express. Returns an enum exit_status. */
int split_check_usage(const struct parsed_options *options);

/* Splits the image at the path (also a universal one) according to the options, with this many
 * threads. */
bool split_file(const struct parsed_options *options, const char *path, unsigned threads,
                struct split_results *results, struct error *error);

/* ---- the state of a split ---- */

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
    char *row_name;                /* for the results */
    struct buffer json;            /* for the results, with --json */
    size_t notes_begin, notes_end; /* the range of its notes in the results */
    /* By kind: bytes of the sidecar's sections, and how many bytes of the file they take. */
    uint64_t sizes[SECTION_KIND_MAX + 1];
    uint64_t stored_sizes[SECTION_KIND_MAX + 1];
    struct proved_sections proved; /* while the sidecar was made */
    /* By kind: of an image of packed objects the ordinary coverage mapping. */
    struct buffer made[SECTION_KIND_MAX + 1];
};

struct split_job {
    const struct parsed_options *options;
    struct split_results *results;
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
    return paths_refer_to_same_file(job->output_path, job->file.path);
}

/* Before the first sidecar of an image that is split in place gets its name: of two processes that
 * do so at once, one would replace or remove the sidecar of the other, which alone has the rest of
 * the image by then. */
static inline bool split_hold_file(const struct split_job *job, struct error *error)
{
    return !split_replaces_file(job) || input_hold(&job->file, error);
}

/* ---- steps: results.c ---- */

/* Warns of the sections that stay, and says why. The second, only if there are reasons. */
void split_warn_of_sections(const struct slice_split *split);
void split_warn_of_what_stays(const struct slice_split *split);

/* With --json, makes the text of the row, once everything but the names of the outputs is
 * settled. */
void split_describe(struct slice_split *split);

/* Adds a row for a finished split, and takes ownership of the names of image and sidecar and of the
 * JSON text. Without --json, an image that had been split before gets no row. */
void split_add_row(struct slice_split *split);

/* ---- steps: outputs.c ----
 *
 * Nothing can be lost: both outputs are complete and checked (joining them in memory gives the
 * original's digest) before either gets its name. */

/* Writes split->stripped, and completes the plan's facts. */
bool outputs_write_stripped(struct slice_split *split, struct error *error);

/* Writes split->sidecar without checking or syncing it. */
bool outputs_write_sidecar(struct slice_split *split, struct error *error);

/* Has the results tell the sizes of this sidecar's sections. */
void outputs_note_sizes(struct slice_split *split, const struct sidecar *sidecar);

/* True if this sidecar and the stripped image make the original. */
bool outputs_check_with(struct slice_split *split, struct sidecar *sidecar, struct error *error);

/* Writes split->sidecar, checks that it and the stripped image make the original, and syncs both to
 * disk: everything that can fail for lack of space must be done before the first output gets its
 * name. */
bool outputs_make_sidecar(struct slice_split *split, struct error *error);

/* ---- steps: place.c ---- */

/* Chooses the path of the sidecar, and starts split->sidecar and split->stripped. */
bool place_create_outputs(struct slice_split *split, struct error *error);

/* Makes the sidecar, after the stripped image was written. In a store the sidecar also gets its
 * name, unless the one that is there can be used; elsewhere split->has_pending_sidecar says that it
 * is still to get its name. If the image was split before, at most a placeholder is written. If
 * there is nothing to take out, a sidecar (without contents) is written only if --sidecar names it;
 * if none is written, split->sidecar_path becomes NULL. */
bool place_settle_sidecar(struct slice_split *split, struct error *error);

/* ---- the command of a link: link_command.c ---- */

/* Which file a linker's or compiler's command line says it writes, and which files it reads. The
 * command line only tells what would be written: compilers are also called without linking
 * anything. Whether an output was written must be seen from the file itself. Free with
 * link_command_free. */
struct link_command {
    char *output;
    bool names_output;       /* else `output` is the default */
    bool links;              /* else it compiles, or archives, or tells a version */
    struct path_list inputs; /* words that are not options: files, and values of some options */
};

/* False, with nothing to free, if out of memory or if a response file is invalid. */
bool link_command_read(struct link_command *command, const char *const *words, size_t count,
                       struct error *error);
void link_command_free(struct link_command *command);

#endif
