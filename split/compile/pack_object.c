/*
 * Packing object files, and what that has in common with packing archives: see pack_job.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sidecar/object.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/found_image.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/compile/pack_job.h"

#define PERMISSION_BITS 07777

/* How often to start again with a file because others have replaced it. */
#define ATTEMPTS 10

/* ---- reports ---- */

bool pack_add_note(struct pack_report *report, const char *name, const char *reason,
                   struct error *error)
{
    struct buffer *notes = &report->notes;

    report->kept_count++;
    return (buffer_append(notes, name, strlen(name)) && buffer_append(notes, ": ", 2) &&
            buffer_append(notes, reason, strlen(reason) + 1)) ||
           error_out_of_memory(error, name, strlen(reason));
}

void pack_report_warn(const struct pack_report *report)
{
    for (size_t place = 0; place < report->notes.size;) {
        const char *note = (const char *)report->notes.data + place;

        message_warning("%s", note);
        place += strlen(note) + 1;
    }
}

void pack_report_print(const struct pack_report *report, const char *path)
{
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX], count[COUNT_TEXT_MAX];

    if (report->outcome == PACK_DONE)
        message_line(stdout, "%s: %s packed: %s before, %s after", path,
                     count_text(report->object_count, "object", count),
                     human_size(report->size_before, before),
                     human_size(report->size_after, after));
    else
        message_line(stdout, "%s: %s", path,
                     report->outcome == PACK_KEPT ? "not packed" : "nothing to pack");
}

void pack_report_free(struct pack_report *report)
{
    buffer_free(&report->notes);
    *report = (struct pack_report){0};
}

/* ---- outputs ---- */

static bool create_output(struct pack_job *job, struct output *output, struct error *unkept,
                          struct error *error)
{
    const char *path = job->options->output_path;
    const struct output_options options = {
        .mode = job->input.status.st_mode & PERMISSION_BITS,
        .in_place = path == NULL ? &job->input : NULL,
        .unkept = unkept,
        .is_other_form = path == NULL,
        .needs_no_sync = job->options->is_fast,
    };

    if (output_create(output, path == NULL ? job->path : path, &options, error))
        return true;
    job->is_overtaken = path == NULL && error->number == 0; /* it has changed already */
    return false;
}

bool pack_write(struct pack_job *job, pack_writer writer, void *context, struct error *error)
{
    enum output_result result = OUTPUT_UNCHANGED;
    struct error unkept = {0};
    struct output output;
    bool done;

    if (!create_output(job, &output, &unkept, error))
        return false;
    done = writer(context, &output, error) && input_unchanged(&job->input, error);
    job->report->size_after += output.size;
    if (done)
        done = output_commit(&output, &result, error);
    if (done && unkept.message[0] != '\0')
        message_warning("%s", unkept.message);
    output_discard(&output);
    job->is_overtaken = result == OUTPUT_OVERTAKEN;
    return done;
}

/* A pack_writer. */
static bool write_bytes(void *context, struct output *output, struct error *error)
{
    return output_write(output, *(const struct bytes *)context, error);
}

bool pack_leave(struct pack_job *job, struct error *error)
{
    if (job->options->output_path != NULL)
        return pack_write(job, write_bytes, &job->input.bytes, error);
    job->report->size_after += job->input.bytes.size;
    return true;
}

/* ---- objects ---- */

/* What a file is that is no object of a format that can be packed. */
static enum pack_outcome judge_other(struct bytes bytes)
{
    static const struct {
        const char *magic;
        size_t size;
    } objects[] = {
        {"BC\xc0\xde", 4},
        {"\xde\xc0\x17\x0b", 4}, /* LLVM bitcode */
        {"\xcf\xfa\xed\xfe", 4},
        {"\xce\xfa\xed\xfe", 4}, /* Mach-O */
        {"\xfe\xed\xfa\xcf", 4},
        {"\xfe\xed\xfa\xce", 4},
        {"\x7f"
         "ELF",
         4},
        {"\0asm", 4},
        {"\0\0\xff\xff", 4}, /* COFF: import objects, and others without the usual header */
        {"\x64\x86", 2},
        {"\x4c\x01", 2},
        {"\x64\xaa", 2},
        {"\xc4\x01", 2},
        {"\x41\xa6", 2}, /* COFF of x86-64, i386, ARM64, 32-bit Arm, ARM64EC */
    };

    if (image_is_linked(bytes) && !sidecar_recognize(bytes) && !object_recognize(bytes))
        return found_image_has_no_coverage(bytes) ? PACK_NOTHING : PACK_IMAGE;
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        if (bytes.size >= objects[i].size &&
            memcmp(bytes.data, objects[i].magic, objects[i].size) == 0)
            return PACK_NOTHING;
    }
    return bytes.size == 0 ? PACK_NOTHING : PACK_OTHER;
}

bool pack_object(struct pack_job *job, struct error *error)
{
    static const enum pack_outcome outcomes[] = {[OBJECT_PACKED] = PACK_DONE,
                                                 [OBJECT_NO_COVERAGE] = PACK_NOTHING,
                                                 [OBJECT_KEPT] = PACK_KEPT};
    struct object_packing packing = {0};
    bool done = object_pack(job->input.bytes, job->path, &packing, error);
    struct bytes contents = buffer_view(&packing.contents);

    if (done) {
        job->report->outcome = packing.outcome == OBJECT_NOT_ONE ? judge_other(job->input.bytes)
                                                                 : outcomes[packing.outcome];
        job->report->object_count += packing.outcome == OBJECT_PACKED;
        if (packing.outcome == OBJECT_KEPT)
            done = pack_add_note(job->report, job->path, packing.reason, error);
        if (packing.outcome == OBJECT_PACKED)
            done = pack_write(job, write_bytes, &contents, error);
        else if (job->report->outcome == PACK_NOTHING || job->report->outcome == PACK_KEPT)
            done = done && pack_leave(job, error);
    }
    object_packing_free(&packing);
    return done;
}

/* ---- files ---- */

bool pack_open(const char *path, const struct pack_options *options, struct pack_report *report,
               bool (*pack)(struct pack_job *job, struct error *error), struct error *error)
{
    bool done = false;

    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct pack_job job = {.path = path, .options = options, .report = report};

        pack_report_free(report);
        if (!input_open(&job.input, path, error))
            return false;
        report->size_before = job.input.bytes.size;
        done = pack(&job, error);
        input_close(&job.input);
        if (!job.is_overtaken)
            break;
    }
    return done;
}

bool pack_object_file(const char *path, const struct pack_options *options,
                      struct pack_report *report, struct error *error)
{
    return pack_open(path, options, report, pack_object, error);
}
