/*
 * covsplit export: objects that unmodified llvm-cov and llvm-profdata read in place of images.
 *
 * common/sidecar/object.h makes them; this file decides which ones and where they go. One object
 * goes to -o; any number to the places where debuggers, llvm-cov and debuginfod look for debug
 * information by UUID: DIR/.build-id/ab/cdef....debug. What is there already and is no object of
 * ours may be real debug information, and stays. Of several objects each stands for itself: one
 * that fails is a message.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/uuid.h"
#include "common/sidecar/object.h"
#include "common/store/add.h"
#include "common/store/store.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"

/* Sidecars are counted in so many units of progress each, whatever their size: how much there is to
 * do in one is only known when it is open. */
#define UNITS_PER_SIDECAR 1000

struct export
{
    const struct parsed_options *options;
    struct sidecar_places places;
    struct progress progress;
    uint64_t count; /* of sidecars in the store */
    bool failed;    /* some object could not be made */
};

/* ---- one object ---- */

/* A sink that shows progress too. */
struct object_sink {
    struct output *output;
    struct progress *progress;
    uint64_t expected; /* bytes */
    uint64_t written;
    uint64_t units; /* that the progress knows of */
};

static bool write_part(void *context, struct bytes part, struct error *error)
{
    struct object_sink *sink = context;
    uint64_t units;

    sink->written += part.size;
    units = (uint64_t)((double)sink->written / (double)sink->expected * UNITS_PER_SIDECAR);
    if (units > UNITS_PER_SIDECAR)
        units = UNITS_PER_SIDECAR;
    progress_add(sink->progress, units - sink->units);
    sink->units = units;
    return output_write(sink->output, part, error);
}

/* About how large the object becomes, and not 0. */
static uint64_t expected_size(const struct sidecar *sidecar)
{
    uint64_t size = 1;

    for (size_t i = 0; i < sidecar_section_count(sidecar); i++) {
        const struct sidecar_section *section = sidecar_section(sidecar, i);

        if (section->stored_size != 0 && !add_fits(size, section->size, &size))
            return UINT64_MAX;
    }
    return size;
}

static bool write_object(struct export *export, const struct sidecar *sidecar,
                         struct output *output, struct error *error)
{
    struct object_sink sink = {
        .output = output,
        .progress = &export->progress,
        .expected = expected_size(sidecar),
    };
    bool done = object_write(sidecar, write_part, &sink, error);

    progress_add(&export->progress, UNITS_PER_SIDECAR - sink.units);
    return done;
}

/* Only what another export has left may go. A sidecar must not, even with --replace: it may be the
 * only place where an image's coverage data is. */
static bool check_existing(const struct export *export, const char *path, struct error *error)
{
    struct input input;
    struct error why;
    bool is_sidecar = false, may_go = option_given(export->options, OPTION_REPLACE);

    if (file_is_missing(path, 0))
        return true;
    if (input_open(&input, path, &why)) {
        is_sidecar = sidecar_recognize(input.bytes);
        may_go |= input.bytes.size == 0 || object_recognize(input.bytes);
        input_close(&input);
    } else if (why.number != 0) {
        *error = why;
        return false;
    }
    if (is_sidecar)
        return error_set(error, "%s: is a sidecar, which would be replaced; give another place",
                         path);
    return may_go || error_set(error,
                               "%s: is there, and covsplit did not make it; it may be debug "
                               "information; give another place, or --replace to overwrite it",
                               path);
}

/* The directories of the path are made where `in_directory` is set. */
static bool export_to(struct export *export, const struct sidecar *sidecar, const char *path,
                      bool in_directory, struct error *error)
{
    struct output_options output_options = {.mode = file_new_mode()};
    struct output output;
    enum output_result result;

    if (!check_existing(export, path, error) ||
        !(in_directory ? store_output_create(&output, path, &output_options, error)
                       : output_create(&output, path, &output_options, error)))
        return false;
    if (!write_object(export, sidecar, &output, error)) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

/* DIR/.build-id/ab/cdef....debug as a new string; NULL with an error. */
static char *debug_path(const char *directory, const struct uuid *uuid, struct error *error)
{
    char hex[UUID_HEX_MAX];
    char *root = store_root(directory), *path = NULL;

    uuid_format(uuid, hex);
    if (uuid->size < 2)
        error_set(error,
                  "UUID %s: is too short for --debug-dir, which needs two bytes or more; "
                  "use -o",
                  hex);
    else if (root == NULL || asprintf(&path, "%s/%.2s/%s.debug", root, hex, hex + 2) < 0)
        error_out_of_memory(error, directory, UUID_HEX_MAX);
    free(root);
    return path;
}

static bool export_one(struct export *export, const struct sidecar *sidecar, struct error *error)
{
    const char *directory = option_text(export->options, OPTION_DEBUG_DIRECTORY);
    char *path = NULL;
    bool done;

    if (directory == NULL)
        return export_to(export, sidecar, option_text(export->options, OPTION_OUTPUT), false,
                         error);
    path = debug_path(directory, &sidecar_facts(sidecar)->uuid, error);
    done = path != NULL && export_to(export, sidecar, path, true, error);
    if (done && option_given(export->options, OPTION_VERBOSE)) {
        progress_finish(&export->progress);
        message_line(stdout, "%s: %s", path, sidecar_image_name(sidecar));
    }
    free(path);
    return done;
}

/* ---- all of them ---- */

/* One line for each object that could not be made. */
static void report_failure(struct export *export, const struct error *error)
{
    progress_finish(&export->progress);
    message_error(error);
    export->failed = true;
}

static void export_from(struct export *export, const char *path, const struct uuid *uuid)
{
    struct error error = {0};
    struct sidecar *sidecar = sidecar_read_for(export->options, path, &error);

    if (sidecar == NULL || !store_check_uuid(path, &sidecar_facts(sidecar)->uuid, uuid, &error)) {
        progress_add(&export->progress, UNITS_PER_SIDECAR);
        report_failure(export, &error);
    } else if (!export_one(export, sidecar, &error)) {
        report_failure(export, &error);
    }
    sidecar_close(sidecar);
}

/* Of the UUID, or of the only one that begins so. */
static void export_found(struct export *export, const struct uuid *uuid)
{
    struct error error = {0};
    struct store_match match = store_list_find_only(&export->places.stores, uuid, &error);

    if (match.path != NULL) {
        export_from(export, match.path, &match.uuid);
    } else {
        progress_add(&export->progress, UNITS_PER_SIDECAR);
        report_failure(export, &error);
    }
    free(match.path);
}

static bool count_sidecar(void *context, const char *path, const struct uuid *uuid,
                          struct error *error)
{
    struct export *export = context;

    (void)path;
    (void)uuid;
    (void)error;
    export->count++;
    return true;
}

static bool export_sidecar(void *context, const char *path, const struct uuid *uuid,
                           struct error *error)
{
    (void)error;
    /* Somebody may clean up the store meanwhile. */
    if (access(path, F_OK) == 0 || errno != ENOENT)
        export_from(context, path, uuid);
    return true;
}

static bool export_store(struct export *export, struct error *error)
{
    const struct sidecar_places *places = &export->places;

    if (!store_list_walk(&places->stores, count_sidecar, export, error))
        return false;
    if (export->count == 0)
        return error_set(error,
                         "%s: no sidecars there to export; name a directory that was given "
                         "to split --store",
                         places->store_names);
    progress_start(&export->progress, places->store_names, export->count * UNITS_PER_SIDECAR);
    return store_list_walk(&places->stores, export_sidecar, export, error);
}

static void export_uuids(struct export *export)
{
    const struct parsed_options *options = export->options;

    progress_start(&export->progress, export->places.store_names,
                   options->operand_count * UNITS_PER_SIDECAR);
    for (size_t i = 0; i < options->operand_count; i++) {
        struct uuid uuid;

        uuid_parse(options->operands[i], &uuid);
        export_found(export, &uuid);
    }
}

static bool export_given(struct export *export, struct error *error)
{
    const char *path = export->places.given;
    struct sidecar *sidecar = sidecar_read_for(export->options, path, error);
    bool done = false;

    if (sidecar != NULL) {
        progress_start(&export->progress, path, UNITS_PER_SIDECAR);
        done = export_one(export, sidecar, error);
    }
    sidecar_close(sidecar);
    return done;
}

static bool export_all(struct export *export, struct error *error)
{
    if (!sidecar_places_open(&export->places, export->options, error))
        return false;
    if (export->places.given != NULL)
        return export_given(export, error);
    if (export->options->operand_count == 0)
        return export_store(export, error);
    export_uuids(export);
    return true;
}

/* ---- the command line ---- */

/* What the tables of options cannot say. */
static int check_usage(const struct parsed_options *options)
{
    const char *environment = getenv(STORE_ENVIRONMENT);
    bool to_file = option_given(options, OPTION_OUTPUT);
    bool has_sidecar = option_given(options, OPTION_SIDECAR);
    struct uuid uuid;

    if (!to_file && !option_given(options, OPTION_DEBUG_DIRECTORY))
        return message_usage("export", "-o or --debug-dir is missing");
    if (!has_sidecar && !option_given(options, OPTION_STORE) &&
        (environment == NULL || environment[0] == '\0'))
        return message_usage("export", "--sidecar or --store is missing, and " STORE_ENVIRONMENT
                                       " is not set");
    if (has_sidecar && options->operand_count != 0)
        return message_usage("export",
                             "'%s' is one operand too many: a UUID is looked for in "
                             "stores, not with --sidecar",
                             options->operands[0]);
    if (to_file && !has_sidecar && options->operand_count != 1)
        return message_usage("export", "-o takes one object; name one UUID, or use --debug-dir");
    for (size_t i = 0; i < options->operand_count; i++) {
        if (!uuid_parse(options->operands[i], &uuid))
            return message_usage("export", "'%s' is not a UUID: hexadecimal digits, two for a byte",
                                 options->operands[i]);
    }
    return STATUS_DONE;
}

int command_export(const struct parsed_options *options)
{
    struct export export = {.options = options};
    struct error error = {0};
    int status = check_usage(options);

    if (status != STATUS_DONE)
        return status;
    if (!export_all(&export, &error))
        report_failure(&export, &error);
    progress_finish(&export.progress);
    sidecar_places_close(&export.places);
    return export.failed ? STATUS_FAILED : STATUS_DONE;
}
