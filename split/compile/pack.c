/*
 * covsplit pack: packs the coverage mapping of objects and archives that exist.
 *
 * If a file is named twice, or is also in a thin archive, whichever comes later finds it packed.
 */
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/parallel.h"
#include "common/sidecar/exported.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "formats/object/packing.h"
#include "split/cli/commands.h"
#include "split/cli/images.h"
#include "split/cli/jobs.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/compile/compile.h"

/* The most times that a file is tried again because others have replaced it. */
#define ATTEMPTS 10

/* ---- results ---- */

/* Notes that an object stays as it is. `name` is a file, or "ARCHIVE(MEMBER)". */
static void note_kept(struct pack_result *result, const char *name, const char *reason)
{
    result->kept_count++;
    notes_add(&result->notes, "%s: %s", name, reason);
}

void pack_result_print(const struct pack_result *result, const char *path)
{
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX], count[COUNT_TEXT_MAX];

    if (result->outcome == PACK_DONE)
        message_line(stdout, "%s: %s packed: %s before, %s after", path,
                     count_text(result->object_count, "object", count),
                     human_size(result->size_before, before),
                     human_size(result->size_after, after));
    else
        message_line(stdout, "%s: %s", path,
                     result->outcome == PACK_KEPT ? "not packed" : "nothing to pack");
}

void pack_result_free(struct pack_result *result)
{
    buffer_free(&result->notes);
    *result = (struct pack_result){0};
}

/* ---- one file ---- */

struct pack_job {
    const char *path;
    const struct pack_options *options;
    struct pack_result *result;
    struct input input;
    bool is_overtaken; /* failed because another process has replaced or changed the file */
};

/* Writes the new contents. */
typedef bool (*pack_writer)(void *context, struct output *output, struct error *error);

/* A pack_writer. */
static bool write_bytes(void *context, struct output *output, struct error *error)
{
    return output_write(output, *(const struct bytes *)context, error);
}

/* Writes the output that the options ask for, and sets result->size_after. */
static bool write_output(struct pack_job *job, pack_writer writer, void *context,
                         struct error *error)
{
    const char *path = job->options->output_path;
    enum output_result result = OUTPUT_UNCHANGED;
    struct error unkept = {0};
    const struct output_options options = {
        .mode = job->input.status.st_mode & PERMISSION_BITS,
        .in_place = path == NULL ? &job->input : NULL,
        .unkept = &unkept,
        .is_other_form = path == NULL,
        .needs_no_sync = job->options->is_fast,
    };
    struct output output;
    bool done;

    if (!output_create(&output, path == NULL ? job->path : path, &options, error)) {
        job->is_overtaken = path == NULL && error->number == 0; /* it has changed already */
        return false;
    }
    done = writer(context, &output, error) && input_unchanged(&job->input, error);
    job->result->size_after += output.size;
    if (done)
        done = output_commit(&output, &result, error);
    if (done && unkept.message[0] != '\0')
        message_warning("%s", unkept.message);
    output_discard(&output);
    job->is_overtaken = result == OUTPUT_OVERTAKEN;
    return done;
}

/* Nothing changes; a copy is written if the options name an output. */
static bool leave(struct pack_job *job, struct error *error)
{
    if (job->options->output_path != NULL)
        return write_output(job, write_bytes, &job->input.bytes, error);
    job->result->size_after += job->input.bytes.size;
    return true;
}

/* The outcome for a file that is no object of a format that can be packed. */
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

    if (image_is_linked(bytes) && !sidecar_recognize(bytes) && !export_recognize(bytes))
        return found_image_has_no_coverage(bytes) ? PACK_NOTHING : PACK_IMAGE;
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        if (bytes.size >= objects[i].size &&
            memcmp(bytes.data, objects[i].magic, objects[i].size) == 0)
            return PACK_NOTHING;
    }
    return bytes.size == 0 ? PACK_NOTHING : PACK_OTHER;
}

/* A universal file of objects or archives is left alone, as Mach-O objects are. */
static bool judge_universal(const struct pack_job *job, enum pack_outcome *outcome,
                            struct error *error)
{
    struct container container;
    struct error why;
    bool done = container_open(&container, &job->input, &why) || !error_is_of_memory(&why);

    *outcome = PACK_NOTHING;
    for (size_t i = 0; done && i < container.count; i++) {
        const struct bytes bytes = container.slices[i].input.bytes;

        if (image_is_linked(bytes) && !found_image_has_no_coverage(bytes))
            *outcome = PACK_IMAGE;
    }
    container_close(&container);
    if (!done)
        *error = why;
    return done;
}

static bool pack_object(struct pack_job *job, struct error *error)
{
    static const enum pack_outcome outcomes[] = {[OBJECT_PACKED] = PACK_DONE,
                                                 [OBJECT_NO_COVERAGE] = PACK_NOTHING,
                                                 [OBJECT_KEPT] = PACK_KEPT};
    struct pack_result *result = job->result;
    struct object_packing packing = {0};
    bool done = object_pack(job->input.bytes, job->path, &packing, error);
    struct bytes contents = buffer_view(&packing.contents);

    if (done) {
        if (packing.outcome != OBJECT_NOT_ONE)
            result->outcome = outcomes[packing.outcome];
        else if (container_is_universal(job->input.bytes))
            done = judge_universal(job, &result->outcome, error);
        else
            result->outcome = judge_other(job->input.bytes);
        result->object_count += packing.outcome == OBJECT_PACKED;
        if (packing.outcome == OBJECT_KEPT)
            note_kept(result, job->path, packing.reason);
        if (packing.outcome == OBJECT_PACKED)
            done = write_output(job, write_bytes, &contents, error);
        else if (done && (result->outcome == PACK_NOTHING || result->outcome == PACK_KEPT))
            done = leave(job, error);
    }
    object_packing_free(&packing);
    return done;
}

/* Opens the file and packs it with the function, again if it was overtaken. */
static bool pack_path(const char *path, const struct pack_options *options,
                      struct pack_result *result,
                      bool (*pack)(struct pack_job *job, struct error *error), struct error *error)
{
    bool done = false;

    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct pack_job job = {.path = path, .options = options, .result = result};

        pack_result_free(result);
        if (!input_open(&job.input, path, error))
            return false;
        result->size_before = job.input.bytes.size;
        done = pack(&job, error);
        input_close(&job.input);
        if (!job.is_overtaken)
            break;
    }
    return done;
}

/* ---- members of an archive ---- */

/*
 * The index at the front of an archive can only be made when the sizes of all members are known. So
 * packed members first go into a file without a name, in the order in which the threads are done
 * with them, and are copied from there when the archive is written. Memory is bounded by the
 * largest members and the index.
 *
 * The objects of a thin archive are packed first, each by a rename of its own. If that is cut
 * short, the archive still has the old sizes and symbols of records that no object refers to, which
 * linkers do not mind; packing it again makes them right, even if all objects are packed already.
 */

/* The most that is written at a time. */
#define PIECE_SIZE ((uint64_t)4 << 20)

struct packed_member {
    struct pack_result result;
    uint64_t spool_offset, spool_size; /* the new contents, unless the archive is thin */
};

struct packing {
    struct pack_job *job;
    struct archive archive;
    struct packed_member *packed; /* one for each member */
    struct input spool_map;

    pthread_mutex_t lock; /* for what follows */
    struct output spool;
    struct error error; /* of the first member that failed, as far as is known */
    size_t failed;      /* its index; archive.count: none */
};

/* Keeps the new contents until the archive is written. */
static bool spool_contents(struct packing *packing, struct packed_member *packed,
                           struct bytes contents, struct error *error)
{
    const struct output_options options = {.mode = 0600, .is_nameless = true};
    const char *path = packing->job->options->output_path;
    bool done;

    pthread_mutex_lock(&packing->lock);
    done =
        packing->spool.path != NULL ||
        output_create(&packing->spool, path == NULL ? packing->job->path : path, &options, error);
    if (done) {
        packed->spool_offset = packing->spool.size;
        packed->spool_size = contents.size;
        done = output_write(&packing->spool, contents, error);
    }
    pthread_mutex_unlock(&packing->lock);
    return done;
}

static bool pack_contents(struct packing *packing, struct archive_member *member,
                          struct packed_member *packed, struct error *error)
{
    const struct input *input = &packing->job->input;
    struct object_packing result = {0};
    char *title = command_text("%s(%.*s)", packing->job->path, (int)member->name.size,
                               (const char *)member->name.data);
    bool done = object_pack(member->contents, title, &result, error);

    if (done) {
        member->has_changed = result.outcome == OBJECT_PACKED;
        member->has_no_records = member->has_changed || result.outcome == OBJECT_NO_COVERAGE;
        packed->result.object_count = member->has_changed;
    }
    if (done && result.outcome == OBJECT_KEPT)
        note_kept(&packed->result, title, result.reason);
    if (done && result.outcome == OBJECT_PACKED)
        done = spool_contents(packing, packed, buffer_view(&result.contents), error);
    object_packing_free(&result);
    input_release_pages(input, (uint64_t)(member->contents.data - input->bytes.data),
                        member->contents.size);
    free(title);
    return done;
}

/* Packs the file that a thin archive names, relative to the directory of the archive. */
static bool pack_named_file(const struct packing *packing, struct archive_member *member,
                            struct packed_member *packed, struct error *error)
{
    const struct pack_options options = {.threads = 1, .is_fast = packing->job->options->is_fast};
    const char *archive = packing->job->path;
    bool is_absolute = member->name.size != 0 && member->name.data[0] == '/';
    int directory = is_absolute ? 0 : (int)(path_file_name(archive) - archive);
    char *path = command_text("%.*s%.*s", directory, archive, (int)member->name.size,
                              (const char *)member->name.data);
    struct pack_result *result = &packed->result;
    bool done = pack_path(path, &options, result, pack_object, error);

    free(path);
    if (!done)
        return false;
    if (result->outcome == PACK_OTHER || result->outcome == PACK_IMAGE)
        result->size_after = result->size_before;
    member->has_no_records = result->outcome == PACK_DONE || result->outcome == PACK_NOTHING;
    member->new_size = result->size_after;
    member->has_changed = member->new_size != member->size;
    return true;
}

/* A parallel_piece. */
static void pack_member(void *context, size_t index)
{
    struct packing *packing = context;
    struct archive_member *member = &packing->archive.members[index];
    struct packed_member *packed = &packing->packed[index];
    struct error error;

    if (member->role != ARCHIVE_FILE || member->is_nested ||
        (member->has_contents ? pack_contents(packing, member, packed, &error)
                              : pack_named_file(packing, member, packed, &error)))
        return;
    pthread_mutex_lock(&packing->lock);
    if (index < packing->failed) {
        packing->failed = index;
        packing->error = error;
    }
    pthread_mutex_unlock(&packing->lock);
}

/* ---- archives ---- */

/* Memory of what has been written is released, if the bytes are those of the input. */
static void release_written(const struct input *input, struct bytes part)
{
    struct bytes all = input->bytes;

    if (all.size != 0 && part.data >= all.data && part.data < all.data + all.size)
        input_release_pages(input, (uint64_t)(part.data - all.data), part.size);
}

struct archive_output {
    const struct packing *packing;
    struct output *output;
};

/* A bytes_sink. Large members are written in pieces, so that not all of them is in memory. */
static bool write_part(void *context, struct bytes part, struct error *error)
{
    const struct archive_output *to = context;
    bool done = true;

    while (done && part.size != 0) {
        struct bytes piece = {part.data, part.size < PIECE_SIZE ? part.size : PIECE_SIZE};

        done = output_write(to->output, piece, error);
        release_written(&to->packing->job->input, piece);
        release_written(&to->packing->spool_map, piece);
        part.data += piece.size;
        part.size -= piece.size;
    }
    return done;
}

/* A pack_writer. */
static bool write_archive(void *context, struct output *output, struct error *error)
{
    struct packing *packing = context;
    struct archive_output to = {packing, output};

    return archive_write(&packing->archive, write_part, &to, error);
}

/* Packs all members, and writes the archive if something changes. */
static bool pack_members(struct packing *packing, struct error *error)
{
    struct pack_job *job = packing->job;
    struct pack_result *whole = job->result;
    struct archive *archive = &packing->archive;
    bool changes = false;

    parallel_run(archive->count, job->options->threads, pack_member, packing);
    if (packing->failed != archive->count) {
        *error = packing->error;
        return false;
    }
    if (packing->spool.path != NULL && !output_map(&packing->spool, &packing->spool_map, error))
        return false;
    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];
        const struct packed_member *packed = &packing->packed[i];
        const struct buffer *notes = &packed->result.notes;

        if (member->has_contents && member->has_changed)
            bytes_slice(packing->spool_map.bytes, packed->spool_offset, packed->spool_size,
                        &member->new_contents);
        changes |= member->has_changed;
        whole->size_before += packed->result.size_before;
        whole->size_after += packed->result.size_after;
        whole->object_count += packed->result.object_count;
        whole->kept_count += packed->result.kept_count;
        exit_unless_allocated(buffer_append(&whole->notes, notes->data, notes->size), notes->size);
    }
    whole->outcome = whole->object_count != 0 ? PACK_DONE
                     : whole->kept_count != 0 ? PACK_KEPT
                                              : PACK_NOTHING;
    if (!changes && !archive_index_changes(archive))
        return leave(job, error);
    whole->outcome = PACK_DONE;
    return write_output(job, write_archive, packing, error);
}

static bool pack_opened(struct packing *packing, struct error *error)
{
    struct pack_job *job = packing->job;
    size_t count = packing->archive.count;
    bool has_unknown = false, has_objects = packing->archive.is_thin, done;

    for (size_t i = 0; i < count; i++) {
        const struct archive_member *member = &packing->archive.members[i];

        has_unknown |= member->role == ARCHIVE_UNKNOWN;
        has_objects |=
            member->contents.size > SELFMAG && memcmp(member->contents.data, ELFMAG, SELFMAG) == 0;
    }
    if (has_unknown) {
        job->result->outcome = has_objects ? PACK_KEPT : PACK_NOTHING; /* a library of Windows */
        if (has_objects)
            note_kept(job->result, job->path,
                      "the archive has a special member that covsplit does not know; pack "
                      "its objects and make the archive of them");
        return leave(job, error);
    }
    if (packing->archive.is_thin && job->options->output_path != NULL)
        return error_set(error,
                         "%s: a thin archive, whose objects are packed in place; leave out '-o'",
                         job->path);
    packing->packed = command_array(count, sizeof(*packing->packed));
    packing->failed = count;
    done = pack_members(packing, error);
    for (size_t i = 0; i < count; i++)
        pack_result_free(&packing->packed[i].result);
    free(packing->packed);
    return done;
}

static bool pack_archive(struct pack_job *job, struct error *error)
{
    struct packing packing = {.job = job,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .spool = {.fd = -1},
                              .spool_map = {.fd = -1}};
    bool done = archive_read(&packing.archive, job->input.bytes, job->path, error) &&
                pack_opened(&packing, error);

    input_close(&packing.spool_map);
    output_discard(&packing.spool);
    archive_free(&packing.archive);
    return done;
}

static bool pack_either(struct pack_job *job, struct error *error)
{
    return archive_recognize(job->input.bytes) ? pack_archive(job, error) : pack_object(job, error);
}

bool pack_file(const char *path, const struct pack_options *options, struct pack_result *result,
               struct error *error)
{
    return pack_path(path, options, result, pack_either, error);
}

/* ---- the command ---- */

struct named_file {
    struct job job;
    struct pack_result result;
};

struct pack_run {
    const struct parsed_options *options;
    struct pack_options file_options;
    struct jobs jobs;
};

static bool pack_named(void *context, void *item, struct error *error)
{
    const struct pack_run *run = context;
    struct named_file *file = item;
    const char *path = file->job.path;

    if (!pack_file(path, &run->file_options, &file->result, error))
        return false;
    if (file->result.outcome == PACK_IMAGE)
        return error_set(
            error, "%s: a linked image, not an object or archive; use 'covsplit split'", path);
    return file->result.outcome != PACK_OTHER ||
           error_set(error, "%s: neither an object nor an archive; leave it out", path);
}

static void tell_of_file(void *context, void *item)
{
    const struct pack_run *run = context;
    const struct named_file *file = item;

    notes_print(&file->result.notes);
    if (file->job.error == NULL && option_given(run->options, OPTION_VERBOSE))
        pack_result_print(&file->result, file->job.path);
}

int command_pack(const struct parsed_options *options)
{
    unsigned threads = option_threads(options);
    size_t count = options->operand_count;
    struct pack_run run = {
        .options = options,
        .file_options = {.output_path = option_text(options, OPTION_OUTPUT),
                         .threads = parallel_share(threads, count)},
        .jobs = {.name = "all files",
                 .item_size = sizeof(struct named_file),
                 .work = pack_named,
                 .tell = tell_of_file,
                 .context = &run},
    };
    struct json_writer array, *json;

    if (option_given(options, OPTION_OUTPUT) && count != 1)
        return message_usage("pack", "'--output' is for one file");
    for (size_t i = 0; i < count; i++)
        jobs_add(&run.jobs, options->operands[i], 1);
    jobs_run(&run.jobs, threads);
    json = json_begin_if(option_given(options, OPTION_JSON), &array);
    for (size_t i = 0; i < count; i++) {
        struct named_file *file = jobs_at(&run.jobs, i);

        if (json != NULL && file->job.error == NULL) {
            json_begin_object(json, NULL);
            json_string(json, "file", file->job.path);
            json_number(json, "size_before", file->result.size_before);
            json_number(json, "size_after", file->result.size_after);
            json_number(json, "objects_packed", file->result.object_count);
            json_number(json, "objects_kept", file->result.kept_count);
            json_end_object(json);
        }
        pack_result_free(&file->result);
    }
    json_end_if(json);
    jobs_free(&run.jobs);
    return run.jobs.failed == 0 ? STATUS_DONE : STATUS_FAILED;
}
