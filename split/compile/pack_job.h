/*
 * What packing an object file and packing an archive have in common: see pack_file.h. For the files
 * that implement it.
 */
#ifndef COVSPLIT_SPLIT_COMPILE_PACK_JOB_H
#define COVSPLIT_SPLIT_COMPILE_PACK_JOB_H

#include "common/base/file.h"
#include "common/base/output.h"
#include "formats/object/object.h"
#include "split/compile/pack_file.h"

struct pack_job {
    const char *path;
    const struct pack_options *options;
    struct pack_report *report;
    struct input input;
    bool is_overtaken; /* failed because another process has replaced or changed the file */
};

/* Notes that an object stays as it is. `name` is a file, or "ARCHIVE(MEMBER)". */
bool pack_add_note(struct pack_report *report, const char *name, const char *reason,
                   struct error *error);

/* Writes the new contents; the context is that of pack_write. */
typedef bool (*pack_writer)(void *context, struct output *output, struct error *error);

/* Writes the output that the options ask for, and sets report->size_after. */
bool pack_write(struct pack_job *job, pack_writer writer, void *context, struct error *error);

/* To be called if nothing changes: writes a copy if the options name an output. */
bool pack_leave(struct pack_job *job, struct error *error);

/* Packs job->input as an object. */
bool pack_object(struct pack_job *job, struct error *error);

/* Packs job->input, which is an archive. */
bool pack_archive(struct pack_job *job, struct error *error);

/* Opens the file and packs it with the function, again if it was overtaken. */
bool pack_open(const char *path, const struct pack_options *options, struct pack_report *report,
               bool (*pack)(struct pack_job *job, struct error *error), struct error *error);

/* Packs an object file, on behalf of a thin archive. */
bool pack_object_file(const char *path, const struct pack_options *options,
                      struct pack_report *report, struct error *error);

#endif
