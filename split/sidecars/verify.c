/*
 * covsplit verify and store check: check sidecars one after the other, or all sidecars of a store,
 * which must also be in the right place.
 *
 * Sidecars are decompressed as streams, so memory is needed only for the list of a store's files
 * and a few megabytes for each thread, however large sidecars and store are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/jobs.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/second_reader.h"

/* ---- one sidecar ---- */

struct checked_sidecar {
    struct uuid uuid; /* size 0: the sidecar cannot be read */
    bool is_empty;    /* there was nothing to take out of its image */
};

/* A sidecar belongs to the slice that it can be joined with. */
static bool check_join(const struct sidecar *sidecar, const char *stripped_path,
                       struct error *error)
{
    struct input stripped;
    struct container container;
    bool done = false;

    if (!input_open(&stripped, stripped_path, error))
        return false;
    if (container_open(&container, &stripped, error)) {
        error_set(error, "%s: belongs to no slice of %s; give the sidecar of a slice",
                  sidecar->name, stripped_path);
        for (size_t i = 0; i < container.count && !done; i++) {
            const struct input *slice = &container.slices[i].input;

            done = (!container.is_universal || slice->bytes.size == sidecar->facts.stripped_size) &&
                   sidecar_restore(sidecar, slice, NULL, NULL, error);
        }
        done = done && input_unchanged(&stripped, error) &&
               second_reader_agrees(&stripped, &container, error);
    }
    container_close(&container);
    input_close(&stripped);
    return done;
}

/* Decompresses everything and checks every digest. In a store (`uuid` is not NULL) the sidecar must
 * have that UUID. If `stripped` is not NULL, the sidecar must restore the original from this image,
 * and a second reader must see the same image as covsplit. A placeholder is an error. */
static bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                          const struct parsed_options *options, struct checked_sidecar *checked,
                          struct error *error)
{
    struct sidecar *sidecar = sidecar_read_for(options, path, error);
    bool good;

    *checked = (struct checked_sidecar){.is_empty = false};
    if (sidecar == NULL)
        return false;
    checked->uuid = sidecar->facts.uuid;
    checked->is_empty = sidecar_holds_nothing(sidecar);
    good = (uuid == NULL || store_check_uuid(path, &sidecar->facts.uuid, uuid, error)) &&
           (!sidecar->facts.is_placeholder ||
            error_set(error,
                      "%s: is a placeholder, which holds nothing; split the original image again, "
                      "or remove it",
                      path)) &&
           sidecar_verify(sidecar, error) &&
           (stripped == NULL || check_join(sidecar, stripped, error));
    sidecar_close(sidecar);
    return good;
}

/* `error` is NULL for a good sidecar. */
static void write_checked(struct json_writer *json, const char *path,
                          const struct checked_sidecar *checked, const struct error *error)
{
    char uuid[UUID_HEX_MAX];

    json_begin_object(json, NULL);
    json_string(json, "file", path);
    json_string_or_null(json, "uuid", uuid_format(&checked->uuid, uuid));
    json_boolean(json, "ok", error == NULL);
    json_boolean(json, "empty", checked->is_empty);
    json_string_or_null(json, "error", error == NULL ? NULL : error->message);
    json_end_object(json);
}

/* ---- a store ---- */

#define LEFTOVER_SECONDS 86400 /* younger files may still be being written */

enum check_result {
    RESULT_CHECKED, /* the sidecar is good, or the job has an error */
    RESULT_LEFTOVER,
    RESULT_GONE, /* removed by another process */
};

struct check_job {
    struct job job;
    enum store_entry_kind kind;
    struct uuid uuid;
    int number; /* why its size is not known: the errno; 0: it is */
    enum check_result result;
    struct checked_sidecar checked;
};

struct check {
    const struct parsed_options *options;
    struct jobs jobs;
    struct json_writer array, *json; /* instead of lines and totals; NULL: not asked for */
    uint64_t sidecars, bytes;
};

/* What is not a sidecar in its place. */
static bool check_other(struct check_job *job, struct error *error)
{
    const char *path = job->job.path;
    struct stat status;

    if (lstat(path, &status) != 0) {
        job->result = errno == ENOENT ? RESULT_GONE : RESULT_CHECKED;
        return job->result == RESULT_GONE ||
               error_set_errno(error, errno, "%s: cannot be examined", path);
    }
    if (job->kind == STORE_STRAY)
        return error_set(error,
                         "%s: no search finds a sidecar there; move it to the place of its UUID, "
                         "or remove it",
                         path);
    job->result = time(NULL) - status.st_mtime > LEFTOVER_SECONDS ? RESULT_LEFTOVER : RESULT_GONE;
    return true;
}

static bool check_entry(void *context, void *item, struct error *error)
{
    const struct check *check = context;
    struct check_job *job = item;
    const char *path = job->job.path;
    struct stat status;

    if (job->kind != STORE_SIDECAR)
        return check_other(job, error);
    if (job->number != 0
            ? error_set_errno(error, job->number, "%s: cannot be read", path)
            : check_sidecar(path, &job->uuid, NULL, check->options, &job->checked, error))
        return true;
    if (lstat(path, &status) == 0 || errno != ENOENT)
        return false;
    job->result = RESULT_GONE;
    return true;
}

static void tell_of_entry(void *context, void *item)
{
    struct check *check = context;
    const struct check_job *job = item;
    const char *path = job->job.path;

    if (job->result == RESULT_LEFTOVER)
        message_warning("%s: left by a split that was killed; 'covsplit store gc' removes it",
                        path);
    if (job->result != RESULT_CHECKED)
        return;
    if (job->kind == STORE_SIDECAR) {
        check->sidecars++;
        check->bytes += job->job.size;
    }
    if (check->json != NULL) {
        progress_finish();
        write_checked(check->json, path, &job->checked, job->job.error);
    } else if (job->job.error == NULL && option_given(check->options, OPTION_VERBOSE)) {
        message_line(stdout, "%s: ok", path);
    }
}

/* A store_entry_visitor. */
static bool add_entry(void *context, const struct store_entry *entry, struct error *error)
{
    struct check *check = context;
    struct check_job *job = jobs_add(&check->jobs, entry->path, 0);
    struct stat status;

    (void)error;
    job->kind = entry->kind;
    job->uuid = entry->uuid;
    if (entry->kind != STORE_SIDECAR)
        return true;
    if (stat(entry->path, &status) == 0)
        job->job.size = (uint64_t)status.st_size;
    else
        job->number = errno;
    return true;
}

/* Prints a line for each fault, with --verbose also for each good sidecar, and the totals. */
int command_store_check(const struct parsed_options *options)
{
    const char *directory = options->operands[0];
    struct check check = {.options = options,
                          .jobs = {.name = directory,
                                   .item_size = sizeof(struct check_job),
                                   .work = check_entry,
                                   .tell = tell_of_entry,
                                   .context = &check}};
    bool done;
    char sidecars[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], faults[COUNT_TEXT_MAX];
    char *root = store_root(directory);
    struct error error;

    exit_unless_allocated(root != NULL, strlen(directory));
    check.json = json_begin_if(option_given(options, OPTION_JSON), &check.array);
    /* A directory without the place of sidecars would check out as a store without any. */
    done = (path_is_directory(root) || !path_is_directory(directory) ||
            error_set(&error,
                      "%s: not a store: there is no .build-id in it; name a directory that was "
                      "given to split --store",
                      directory)) &&
           store_scan(directory, add_entry, &check, &error);
    jobs_run(&check.jobs, option_threads(options));
    json_end_if(check.json);
    if (!done)
        message_error(&error);
    else if (check.json == NULL)
        printf("%s, %s, %s\n", count_text(check.sidecars, "sidecar", sidecars),
               count_text(check.bytes, "byte", bytes),
               count_text(check.jobs.failed, "fault", faults));
    free(root);
    jobs_free(&check.jobs);
    return done && check.jobs.failed == 0 ? STATUS_DONE : STATUS_FAILED;
}

/* ---- files ---- */

/* Checks a sidecar and prints the result; with `json`, also as an object. */
static bool verify_file(const char *path, const struct parsed_options *options,
                        struct json_writer *json)
{
    struct checked_sidecar checked = {.is_empty = false};
    struct error error;
    bool good;

    if (path_is_directory(path))
        good = error_set(&error, "%s: is a directory; a store is checked by 'store check'", path);
    else
        good = check_sidecar(path, NULL, option_text(options, OPTION_IMAGE), options, &checked,
                             &error);
    if (!good)
        message_error(&error);
    else if (checked.is_empty)
        message_warning("%s: holds nothing: there was nothing to take out of its image", path);
    if (json != NULL)
        write_checked(json, path, &checked, good ? NULL : &error);
    else if (good)
        message_line(stdout, "%s: ok", path);
    return good;
}

int command_verify(const struct parsed_options *options)
{
    struct json_writer array;
    struct json_writer *json = json_begin_if(option_given(options, OPTION_JSON), &array);
    int status = STATUS_DONE;

    for (size_t i = 0; i < options->operand_count; i++) {
        if (!verify_file(options->operands[i], options, json))
            status = STATUS_FAILED;
    }
    json_end_if(json);
    return status;
}
