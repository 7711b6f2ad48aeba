/*
 * Packing archives: see pack_job.h.
 *
 * The index at the front of an archive can only be made when the sizes of all members are known. So
 * packed members first go into a file without a name, in the order in which the threads are done
 * with them, and are copied from there when the archive is written. Memory is bounded by the
 * largest members and the index.
 *
 * The objects of a thin archive are packed first, each by a rename of its own. If that is cut
 * short, the archive still has the old sizes and symbols of records that no object refers to, which
 * linkers do not mind; packing it again makes them right, even if all objects are packed already.
 */
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parallel.h"
#include "formats/object/archive.h"
#include "split/compile/pack_job.h"

/* What is written at a time. */
#define PIECE_SIZE ((uint64_t)4 << 20)

/* What was done with a member. */
struct packed_member {
    struct pack_report report;
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

/* ---- names ---- */

/* "ARCHIVE(MEMBER)". NULL if out of memory. */
static char *member_title(const char *archive, struct bytes name)
{
    char *title;

    return asprintf(&title, "%s(%.*s)", archive, (int)name.size, (const char *)name.data) < 0
               ? NULL
               : title;
}

/* The path of a thin archive's file, which is relative to the directory of the archive. */
static char *member_path(const char *archive, struct bytes name)
{
    bool is_absolute = name.size != 0 && name.data[0] == '/';
    int directory = is_absolute ? 0 : (int)(path_file_name(archive) - archive);
    char *path;

    return asprintf(&path, "%.*s%.*s", directory, archive, (int)name.size,
                    (const char *)name.data) < 0
               ? NULL
               : path;
}

/* ---- packing a member ---- */

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
                          struct packed_member *packed, const char *title, struct error *error)
{
    const struct input *input = &packing->job->input;
    struct object_packing result = {0};
    bool done = object_pack(member->contents, title, &result, error);

    if (done) {
        member->has_changed = result.outcome == OBJECT_PACKED;
        member->has_no_records = member->has_changed || result.outcome == OBJECT_NO_COVERAGE;
        packed->report.object_count = member->has_changed;
    }
    if (done && result.outcome == OBJECT_KEPT)
        done = pack_add_note(&packed->report, title, result.reason, error);
    if (done && result.outcome == OBJECT_PACKED)
        done = spool_contents(packing, packed, buffer_view(&result.contents), error);
    object_packing_free(&result);
    input_release_pages(input, (uint64_t)(member->contents.data - input->bytes.data),
                        member->contents.size);
    return done;
}

/* Packs the file that a thin archive names. */
static bool pack_named_file(const struct packing *packing, struct archive_member *member,
                            struct packed_member *packed, const char *path, struct error *error)
{
    const struct pack_options options = {.threads = 1, .is_fast = packing->job->options->is_fast};
    struct pack_report *report = &packed->report;

    if (!pack_object_file(path, &options, report, error))
        return false;
    if (report->outcome == PACK_OTHER || report->outcome == PACK_IMAGE)
        report->size_after = report->size_before;
    member->has_no_records = report->outcome == PACK_DONE || report->outcome == PACK_NOTHING;
    member->new_size = report->size_after;
    member->has_changed = member->new_size != member->size;
    return true;
}

static bool pack_member(struct packing *packing, size_t index, struct error *error)
{
    struct archive_member *member = &packing->archive.members[index];
    struct packed_member *packed = &packing->packed[index];
    const char *archive = packing->job->path;
    char *name;
    bool done;

    if (member->role != ARCHIVE_FILE || member->is_nested)
        return true;
    name = member->has_contents ? member_title(archive, member->name)
                                : member_path(archive, member->name);
    if (name == NULL)
        return error_out_of_memory(error, archive, member->name.size);
    done = member->has_contents ? pack_contents(packing, member, packed, name, error)
                                : pack_named_file(packing, member, packed, name, error);
    free(name);
    return done;
}

/* A parallel_piece. */
static void pack_piece(void *context, size_t index)
{
    struct packing *packing = context;
    struct error error;

    if (pack_member(packing, index, &error))
        return;
    pthread_mutex_lock(&packing->lock);
    if (index < packing->failed) {
        packing->failed = index;
        packing->error = error;
    }
    pthread_mutex_unlock(&packing->lock);
}

/* ---- writing ---- */

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

/* Finds the new contents in the spool. */
static bool take_spool(struct packing *packing, struct error *error)
{
    struct archive *archive = &packing->archive;

    if (packing->spool.path == NULL)
        return true;
    if (!output_map(&packing->spool, &packing->spool_map, error))
        return false;
    for (size_t i = 0; i < archive->count; i++) {
        if (archive->members[i].has_contents && archive->members[i].has_changed)
            bytes_slice(packing->spool_map.bytes, packing->packed[i].spool_offset,
                        packing->packed[i].spool_size, &archive->members[i].new_contents);
    }
    return true;
}

/* ---- the whole ---- */

static bool add_reports(const struct packing *packing, struct error *error)
{
    struct pack_report *whole = packing->job->report;

    for (size_t i = 0; i < packing->archive.count; i++) {
        const struct pack_report *report = &packing->packed[i].report;

        whole->size_before += report->size_before;
        whole->size_after += report->size_after;
        whole->object_count += report->object_count;
        whole->kept_count += report->kept_count;
        if (!buffer_append(&whole->notes, report->notes.data, report->notes.size))
            return error_out_of_memory(error, packing->job->path, report->notes.size);
    }
    return true;
}

static bool changes(const struct packing *packing)
{
    for (size_t i = 0; i < packing->archive.count; i++) {
        if (packing->archive.members[i].has_changed)
            return true;
    }
    return archive_index_changes(&packing->archive);
}

static bool pack_members(struct packing *packing, struct error *error)
{
    struct pack_job *job = packing->job;

    parallel_run(packing->archive.count, job->options->threads, pack_piece, packing);
    if (packing->failed != packing->archive.count) {
        *error = packing->error;
        return false;
    }
    if (!add_reports(packing, error) || !take_spool(packing, error))
        return false;
    if (!changes(packing)) {
        job->report->outcome = job->report->object_count != 0 ? PACK_DONE
                               : job->report->kept_count != 0 ? PACK_KEPT
                                                              : PACK_NOTHING;
        return pack_leave(job, error);
    }
    job->report->outcome = PACK_DONE;
    return pack_write(job, write_archive, packing, error);
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
        job->report->outcome = has_objects ? PACK_KEPT : PACK_NOTHING; /* a library of Windows */
        return (!has_objects ||
                pack_add_note(job->report, job->path,
                              "the archive has a special member that covsplit does not know; pack "
                              "its objects and make the archive of them",
                              error)) &&
               pack_leave(job, error);
    }
    if (packing->archive.is_thin && job->options->output_path != NULL)
        return error_set(error,
                         "%s: a thin archive, whose objects are packed in place; leave out '-o'",
                         job->path);
    packing->packed = calloc(count + 1, sizeof(*packing->packed));
    if (packing->packed == NULL)
        return error_out_of_memory(error, job->path, count * sizeof(*packing->packed));
    packing->failed = count;
    done = pack_members(packing, error);
    for (size_t i = 0; i < count; i++)
        pack_report_free(&packing->packed[i].report);
    free(packing->packed);
    return done;
}

bool pack_archive(struct pack_job *job, struct error *error)
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
