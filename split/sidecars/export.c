/*
 * covsplit export: objects that unmodified llvm-cov and llvm-profdata read in place of images.
 *
 * The reader library makes them; this file decides which ones and where they go. One object goes to
 * -o; any number to the places where debuggers, llvm-cov and debuginfod look for debug information
 * by UUID: DIR/.build-id/ab/cdef....debug. What is there already and is no object of ours may be
 * real debug information, and stays. Of several objects each stands for itself: one that fails is a
 * message.
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
#include "common/store/store.h"
#include "reader/covsplit.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/cli/output_sink.h"
#include "split/cli/progress.h"
#include "split/cli/store_output.h"
#include "split/profiles/profile_sidecars.h"

/* Sidecars are counted in so many units of progress each, whatever their size: how much there is to
 * do in one is only known when it is open. */
#define UNITS_PER_SIDECAR 1000

struct export
{
    const struct parsed_options *options;
    struct profile_sidecars sidecars;
    struct progress progress;
    uint64_t count; /* of sidecars in the store */
    bool failed;    /* some object could not be made */
};

/* ---- one object ---- */

/* A sink that shows progress too. */
struct object_sink {
    struct output_sink output;
    struct progress *progress;
    uint64_t expected; /* bytes */
    uint64_t written;
    uint64_t units; /* that the progress knows of */
};

static bool write_part(void *context, const void *data, size_t size)
{
    struct object_sink *sink = context;
    uint64_t units;

    sink->written += size;
    units = (uint64_t)((double)sink->written / (double)sink->expected * UNITS_PER_SIDECAR);
    if (units > UNITS_PER_SIDECAR)
        units = UNITS_PER_SIDECAR;
    progress_add(sink->progress, units - sink->units);
    sink->units = units;
    return output_sink_write(&sink->output, data, size);
}

/* About how large the object becomes, and not 0. */
static uint64_t expected_size(const covsplit_sidecar *sidecar)
{
    covsplit_section section;
    uint64_t size = 1;

    for (size_t i = 0; covsplit_sidecar_section(sidecar, i, &section); i++) {
        if (section.stored_size != 0 && !add_fits(size, section.size, &size))
            return UINT64_MAX;
    }
    return size;
}

static bool write_object(struct export *export, covsplit_sidecar *sidecar, struct output *output,
                         struct error *error)
{
    struct object_sink sink = {
        .output = {.output = output},
        .progress = &export->progress,
        .expected = expected_size(sidecar),
    };
    covsplit_error *reader_error = NULL;
    bool done = covsplit_sidecar_export(sidecar, write_part, &sink, &reader_error);

    progress_add(&export->progress, UNITS_PER_SIDECAR - sink.units);
    return done || output_sink_error(&sink.output, reader_error, error);
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
        size_t size = (size_t)input.bytes.size;

        is_sidecar = covsplit_is_sidecar(input.bytes.data, size);
        may_go |= size == 0 || covsplit_is_object(input.bytes.data, size);
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
static bool export_to(struct export *export, covsplit_sidecar *sidecar, const char *path,
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
static char *debug_path(const char *directory, const covsplit_sidecar *sidecar, struct error *error)
{
    struct uuid uuid = {0};
    char hex[UUID_HEX_MAX];
    size_t size;
    const uint8_t *bytes = covsplit_sidecar_uuid(sidecar, &size);
    char *root = store_root(directory), *path = NULL;

    memcpy(uuid.bytes, bytes, size);
    uuid.size = size;
    uuid_format(&uuid, hex);
    if (size < 2)
        error_set(error,
                  "UUID %s: is too short for --debug-dir, where the first byte of two or "
                  "more makes a directory; use -o",
                  hex);
    else if (root == NULL || asprintf(&path, "%s/%.2s/%s.debug", root, hex, hex + 2) < 0)
        error_out_of_memory(error, directory, UUID_HEX_MAX);
    free(root);
    return path;
}

static bool export_one(struct export *export, covsplit_sidecar *sidecar, struct error *error)
{
    const char *directory = option_text(export->options, OPTION_DEBUG_DIRECTORY);
    char *path = NULL;
    bool done;

    if (directory == NULL)
        return export_to(export, sidecar, option_text(export->options, OPTION_OUTPUT), false,
                         error);
    path = debug_path(directory, sidecar, error);
    done = path != NULL && export_to(export, sidecar, path, true, error);
    if (done && option_given(export->options, OPTION_VERBOSE)) {
        progress_finish(&export->progress);
        message_line(stdout, "%s: %s", path, covsplit_sidecar_image_name(sidecar));
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

static void export_found(struct export *export, const uint8_t *uuid, size_t size)
{
    covsplit_error *reader_error = NULL;
    struct error error = {0};
    covsplit_sidecar *sidecar =
        covsplit_store_find(export->sidecars.store, uuid, size, &reader_error);

    if (sidecar == NULL) {
        error_from_reader(&error, reader_error);
        progress_add(&export->progress, UNITS_PER_SIDECAR);
    } else {
        covsplit_sidecar_limit_memory(sidecar, export->sidecars.memory_limit);
    }
    if (sidecar == NULL || !export_one(export, sidecar, &error))
        report_failure(export, &error);
    covsplit_sidecar_close(sidecar);
}

static bool count_sidecar(void *context, const char *path, const uint8_t *uuid, size_t size)
{
    struct export *export = context;

    (void)path;
    (void)uuid;
    (void)size;
    export->count++;
    return true;
}

static bool export_sidecar(void *context, const char *path, const uint8_t *uuid, size_t size)
{
    struct export *export = context;

    /* Somebody may clean up the store meanwhile. */
    if (access(path, F_OK) == 0 || errno != ENOENT)
        export_found(export, uuid, size);
    return true;
}

static const char *store_names(const struct export *export)
{
    const char *store = option_text(export->options, OPTION_STORE);

    return store != NULL ? store : getenv(STORE_ENVIRONMENT);
}

static bool export_store(struct export *export, struct error *error)
{
    covsplit_error *reader_error = NULL;

    if (!covsplit_store_visit(export->sidecars.store, count_sidecar, export, &reader_error))
        return error_from_reader(error, reader_error);
    if (export->count == 0)
        return error_set(error,
                         "%s: no sidecars there to export; name a directory that was given "
                         "to split --store",
                         store_names(export));
    progress_start(&export->progress, store_names(export), export->count * UNITS_PER_SIDECAR);
    return covsplit_store_visit(export->sidecars.store, export_sidecar, export, &reader_error) ||
           error_from_reader(error, reader_error);
}

static void export_uuids(struct export *export)
{
    const struct parsed_options *options = export->options;

    progress_start(&export->progress, store_names(export),
                   options->operand_count * UNITS_PER_SIDECAR);
    for (size_t i = 0; i < options->operand_count; i++) {
        struct uuid uuid;

        uuid_parse(options->operands[i], &uuid);
        export_found(export, uuid.bytes, uuid.size);
    }
}

static bool export_all(struct export *export, struct error *error)
{
    if (!profile_sidecars_open(&export->sidecars, export->options, error))
        return false;
    if (export->sidecars.given != NULL) {
        progress_start(&export->progress, option_text(export->options, OPTION_SIDECAR),
                       UNITS_PER_SIDECAR);
        return export_one(export, export->sidecars.given, error);
    }
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
            return message_usage("export", "'%s' is no UUID: hexadecimal digits, two for a byte",
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
    profile_sidecars_close(&export.sidecars);
    return export.failed ? STATUS_FAILED : STATUS_DONE;
}
