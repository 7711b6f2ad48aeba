/*
 * covsplit export: objects that unmodified llvm-cov and llvm-profdata read in place of images.
 *
 * common/sidecar/object.h makes the objects; this file decides which ones, and where they go: a
 * single object to -o, or any number to the places where debuggers, llvm-cov and debuginfod look
 * for debug information by UUID: DIR/.build-id/ab/cdef....debug. A file that is already there and
 * was not made by covsplit may be real debug information, and is kept. If one of several objects
 * cannot be made, that is reported, and the others are made.
 *
 * An operand that is no UUID is an image that was not split, of which the object is made directly
 * (cli/image_sidecar.h), or with --union also a sidecar.
 *
 * With --union, all go into one file (export_union.h), or none if one cannot be read: nobody would
 * see from a report that an image is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "common/sidecar/union.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "formats/object/object.h"
#include "split/cli/commands.h"
#include "split/cli/found_image.h"
#include "split/cli/image_sidecar.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"
#include "split/cli/sidecar_search.h"
#include "split/sidecars/export_union.h"

/* The units of progress for each sidecar, whatever its size: the work for a sidecar is known only
 * when it is open. */
#define UNITS_PER_SIDECAR 1000

struct export
{
    const struct parsed_options *options;
    struct sidecar_places places;
    struct progress progress;
    uint64_t count; /* number of sidecars in the stores */
    bool failed;    /* some object could not be made */
    bool is_union;
    struct union_output all; /* the union */
};

/* ---- one object ---- */

/* A sink that also shows progress. */
struct object_sink {
    struct output *output;
    struct progress *progress;
    uint64_t expected; /* bytes */
    uint64_t written;
    uint64_t units; /* units that the progress bar has counted */
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

/* The approximate size of the object, at least 1. */
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

/* Checks that a file may be replaced: only what another export has written may. A sidecar must not
 * be replaced even with --replace: it may be the only place with an image's coverage data. */
static bool check_existing(const struct export *export, const char *path, struct error *error)
{
    struct input input;
    struct error why;
    bool is_sidecar = false, may_go = option_given(export->options, OPTION_REPLACE);

    if (file_is_missing(path, 0))
        return true;
    if (input_open(&input, path, &why)) {
        is_sidecar = sidecar_recognize(input.bytes);
        may_go |=
            input.bytes.size == 0 || object_recognize(input.bytes) || union_recognize(input.bytes);
        input_close(&input);
    } else if (why.number != 0) {
        *error = why;
        return false;
    }
    if (is_sidecar)
        return error_set(error, "%s: is a sidecar, which would be replaced; give another place",
                         path);
    return may_go || error_set(error,
                               "%s: exists, and covsplit did not make it; it may be debug "
                               "information; give another place, or --replace to overwrite it",
                               path);
}

/* Makes the directories of the path if `in_directory` is set. */
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

    if (export->is_union) {
        progress_add(&export->progress, UNITS_PER_SIDECAR);
        return export->failed ||
               union_output_add(&export->all, sidecar, export->options->operand_count != 0, error);
    }
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

/* Prints one line for an object that could not be made. */
static void report_failure(struct export *export, const struct error *error)
{
    progress_finish(&export->progress);
    message_error(error);
    export->failed = true;
}

/* Exports the sidecar, and closes it; reports the error if it is NULL. */
static void export_opened(struct export *export, struct sidecar *sidecar, struct error *error)
{
    if (sidecar == NULL)
        progress_add(&export->progress, UNITS_PER_SIDECAR);
    if (sidecar == NULL || !export_one(export, sidecar, error))
        report_failure(export, error);
    sidecar_close(sidecar);
}

/* Exports a sidecar of a store. */
static void export_stored(struct export *export, const char *path, const struct uuid *uuid)
{
    struct error error = {0};
    struct sidecar *sidecar = sidecar_read_for(export->options, path, &error);

    if (sidecar != NULL && !store_check_uuid(path, &sidecar_facts(sidecar)->uuid, uuid, &error)) {
        sidecar_close(sidecar);
        sidecar = NULL;
    }
    export_opened(export, sidecar, &error);
}

/* Exports a sidecar, or an image that was not split. */
static void export_file(struct export *export, const char *path)
{
    struct error error = {0};
    struct sidecar *sidecar = NULL;
    struct input input;
    bool done = input_open(&input, path, &error);

    if (done && (image_is_linked(input.bytes) || object_is_packed(input.bytes)))
        sidecar =
            image_sidecar_make(&input, option_number(export->options, OPTION_MEMORY_LIMIT), &error);
    else if (done)
        sidecar = sidecar_read_for(export->options, path, &error);
    if (done)
        input_close(&input);
    export_opened(export, sidecar, &error);
}

/* Finds a sidecar. NULL with an error if there is none to export; *is_placeholder says that there
 * is one, but it is a placeholder. */
static struct sidecar *find_sidecar(const struct export *export, const struct uuid *uuid,
                                    bool *is_placeholder, struct error *error)
{
    const struct sidecar_wanted wanted = {.uuid = uuid};
    struct sidecar_search search;
    struct sidecar *sidecar = NULL;

    if (sidecar_search_start(&search, &export->places, &wanted, error))
        sidecar = sidecar_search_read(&search, error);
    *is_placeholder = sidecar == NULL && search.met_other && !search.met_unusable;
    sidecar_search_end(&search);
    return sidecar;
}

/* Exports the sidecar of the UUID, or of the only one that begins with it. */
static void export_found(struct export *export, const struct uuid *start)
{
    struct error error = {0};
    struct sidecar *sidecar = NULL;
    bool is_placeholder;
    struct uuid uuid;

    if (sidecar_search_full_uuid(&export->places, start, &uuid, &error))
        sidecar = find_sidecar(export, &uuid, &is_placeholder, &error);
    export_opened(export, sidecar, &error);
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
    /* Another process may clean up the store meanwhile. */
    if (access(path, F_OK) == 0 || errno != ENOENT)
        export_stored(context, path, uuid);
    return true;
}

static bool export_stores(struct export *export, const struct store_list *stores, const char *names,
                          struct error *error)
{

    if (!store_list_walk(stores, count_sidecar, export, error))
        return false;
    if (export->count == 0)
        return error_set(error,
                         "%s: no sidecars there to export; name a directory that was given "
                         "to split --store",
                         names);
    progress_start(&export->progress, names, export->count * UNITS_PER_SIDECAR);
    return store_list_walk(stores, export_sidecar, export, error);
}

static void export_operand(struct export *export, const char *operand)
{
    struct error error;
    struct uuid uuid;

    if (uuid_parse(operand, &uuid)) {
        export_found(export, &uuid);
    } else if (path_is_directory(operand)) {
        error_set(&error,
                  "%s: is a directory; name a store with --store, or another directory of sidecars "
                  "with --sidecar",
                  operand);
        report_failure(export, &error);
    } else {
        export_file(export, operand);
    }
}

static void export_operands(struct export *export)
{
    const struct parsed_options *options = export->options;

    progress_start(&export->progress, options->operands[0],
                   options->operand_count * UNITS_PER_SIDECAR);
    for (size_t i = 0; i < options->operand_count; i++)
        export_operand(export, options->operands[i]);
}

static bool export_given(struct export *export, const char *path, struct error *error)
{
    struct sidecar *sidecar = sidecar_read_for(export->options, path, error);
    bool done = false;

    if (sidecar != NULL) {
        progress_start(&export->progress, path, UNITS_PER_SIDECAR);
        done = export_one(export, sidecar, error);
    }
    sidecar_close(sidecar);
    return done;
}

/* ---- without a store ---- */

static bool collect(void *context, const char *path, const struct uuid *uuid, struct error *error)
{
    return loose_matches_add(context, uuid, path, error);
}

static int compare_uuids(const void *a, const void *b)
{
    const struct store_match *left = a, *right = b;

    return uuid_compare(&left->uuid, &right->uuid);
}

/* Lists the sidecars that --sidecar names, or else those of the current directory, one for each
 * UUID. */
static bool list_loose(struct export *export, struct loose_matches *all, struct error *error)
{
    const struct sidecar_places *places = &export->places;
    const struct store_list *directories = &places->directories;
    size_t count = 0;
    bool done = places->are_given ? loose_list(places->loose, LOOSE_FILES, all, error) &&
                                        store_list_walk(directories, collect, all, error)
                                  : loose_list(places->loose, ".", all, error);

    for (size_t i = 0; done && i < directories->count; i++)
        done = loose_list(places->loose, directories->directories[i], all, error);
    if (done && all->count != 0)
        qsort(all->items, all->count, sizeof(*all->items), compare_uuids);
    for (size_t i = 0; done && i < all->count; i++) {
        if (count != 0 && uuid_equal(&all->items[count - 1].uuid, &all->items[i].uuid))
            free(all->items[i].path);
        else
            all->items[count++] = all->items[i];
    }
    if (done)
        all->count = count;
    return done;
}

/* Exports the sidecar of a UUID. Placeholders, and sidecars of images without coverage, are
 * ignored. */
static void export_loose_one(struct export *export, const struct uuid *uuid)
{
    struct error error = {0};
    bool is_placeholder;
    struct sidecar *sidecar = find_sidecar(export, uuid, &is_placeholder, &error);

    if (sidecar != NULL && sidecar_holds_nothing(sidecar)) {
        sidecar_close(sidecar);
        sidecar = NULL;
        is_placeholder = true;
    }
    if (sidecar == NULL)
        progress_add(&export->progress, UNITS_PER_SIDECAR);
    if (sidecar != NULL ? !export_one(export, sidecar, &error) : !is_placeholder)
        report_failure(export, &error);
    export->count += sidecar != NULL;
    sidecar_close(sidecar);
}

static void report_faults(struct export *export)
{
    const struct store_list *directories = &export->places.directories;
    struct loose_faults faults = {0};
    struct error error;

    loose_add_faults(export->places.loose, LOOSE_FILES, &faults);
    loose_add_faults(export->places.loose, ".", &faults);
    for (size_t i = 0; i < directories->count; i++)
        loose_add_faults(export->places.loose, directories->directories[i], &faults);
    if (faults.count == 0)
        return;
    error_set(&error, "%.800s (%zu such files in all); remove what is not a sidecar",
              faults.first.message, faults.count);
    report_failure(export, faults.count == 1 ? &faults.first : &error);
}

/* Checks the number of sidecars: one for -o, and not 0, unless that was reported already. */
static bool check_count(const struct export *export, uint64_t count, struct error *error)
{
    if (count > 1 && option_given(export->options, OPTION_OUTPUT) && !export->is_union)
        return error_set(error,
                         "%s: takes one object, and there are sidecars of %" PRIu64
                         " UUIDs; name one of these, or use --union or --debug-dir",
                         option_text(export->options, OPTION_OUTPUT), count);
    return count != 0 || export->failed ||
           error_set(error,
                     "%s: no sidecars to export; name them with --sidecar, or a store with --store",
                     export->places.are_given ? option_text(export->options, OPTION_SIDECAR)
                                              : "the current directory");
}

static bool export_loose(struct export *export, struct error *error)
{
    struct loose_matches all = {0};
    bool done = list_loose(export, &all, error);

    if (done)
        report_faults(export);
    done = done && check_count(export, all.count, error);
    if (done)
        progress_start(&export->progress, "sidecars", all.count * UNITS_PER_SIDECAR);
    for (size_t i = 0; done && i < all.count; i++)
        export_loose_one(export, &all.items[i].uuid);
    done = done && check_count(export, export->count, error);
    loose_matches_free(&all);
    return done;
}

static bool export_all(struct export *export, struct error *error)
{
    const struct sidecar_places *places = &export->places;
    const char *only;

    if (!sidecar_places_open(&export->places, export->options, false, error))
        return false;
    only = sidecar_places_only_file(places);
    if (export->options->operand_count != 0)
        export_operands(export);
    else if (only != NULL)
        return export_given(export, only, error);
    else if (places->store.count != 0)
        return export_stores(export, &places->store, option_text(export->options, OPTION_STORE),
                             error);
    else if (places->environment.count != 0)
        return export_stores(export, &places->environment, getenv(STORE_ENVIRONMENT), error);
    else
        return export_loose(export, error);
    return true;
}

/* Nothing of a union gets its name if any sidecar could not be read. */
static bool export_union(struct export *export, struct error *error)
{
    const char *path = option_text(export->options, OPTION_OUTPUT);
    bool done = check_existing(export, path, error) &&
                union_output_start(&export->all, path, error) && export_all(export, error);

    progress_finish(&export->progress);
    if (done && !export->failed)
        done =
            union_output_finish(&export->all, option_given(export->options, OPTION_VERBOSE), error);
    union_output_discard(&export->all);
    return done;
}

/* ---- the command line ---- */

/* Whether --sidecar names a single file. Among several files, or those of a directory, UUIDs can
 * choose. */
static bool names_one_file(const struct parsed_options *options)
{
    const char *path = option_text_at(options, OPTION_SIDECAR, 0);

    return path != NULL && option_text_at(options, OPTION_SIDECAR, 1) == NULL &&
           !path_is_directory(path);
}

/* Whether operand `i` is a UUID. */
static bool is_uuid(const struct parsed_options *options, size_t i)
{
    struct uuid uuid;

    return uuid_parse(options->operands[i], &uuid);
}

static bool has_uuid(const struct parsed_options *options)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        if (is_uuid(options, i))
            return true;
    }
    return false;
}

/* Whether an option or the environment names a store in which sidecars are looked for. */
static bool names_store(const struct parsed_options *options)
{
    const char *environment = getenv(STORE_ENVIRONMENT);

    return option_given(options, OPTION_STORE) || (!option_given(options, OPTION_SIDECAR) &&
                                                   environment != NULL && environment[0] != '\0');
}

static int check_operands_usage(const struct parsed_options *options)
{
    if (options->operand_count != 0 && !has_uuid(options) &&
        (option_given(options, OPTION_STORE) || option_given(options, OPTION_SIDECAR)))
        return message_usage("export",
                             "'%s' is a file, for which --store and --sidecar are not searched; "
                             "leave them out, or give a UUID ('covsplit show IMAGE' prints an "
                             "image's)",
                             options->operands[0]);
    return STATUS_DONE;
}

/* True for an image and for a packed object; also for what cannot be read, of which an error tells.
 */
static bool can_be_exported(const char *path)
{
    struct input input;
    struct error why;
    bool is_packed;

    if (found_image_is_linked(path) || !input_open(&input, path, &why))
        return true;
    is_packed = object_is_packed(input.bytes);
    input_close(&input);
    return is_packed;
}

static int check_object_usage(const struct parsed_options *options)
{
    if (option_given(options, OPTION_OUTPUT) &&
        (options->operand_count > 1 || (names_store(options) && options->operand_count == 0)))
        return message_usage("export",
                             "-o takes one object; name one UUID or image, or use --union or "
                             "--debug-dir");
    for (size_t i = 0; i < options->operand_count; i++) {
        const char *operand = options->operands[i];

        if (!is_uuid(options, i) &&
            (file_is_missing(operand, AT_SYMLINK_NOFOLLOW) || !can_be_exported(operand)))
            return message_usage("export",
                                 "'%s' is not an image, nor a UUID: hexadecimal digits, two for a "
                                 "byte; 'covsplit show IMAGE' prints an image's",
                                 operand);
    }
    return STATUS_DONE;
}

/* Checks what the table of options cannot express. */
static int check_usage(const struct parsed_options *options)
{
    int status;

    if (!option_given(options, OPTION_OUTPUT) && !option_given(options, OPTION_DEBUG_DIRECTORY))
        return message_usage("export", option_given(options, OPTION_UNION)
                                           ? "--union makes one file: -o is missing"
                                           : "-o or --debug-dir is missing");
    if (options->operand_count != 0 && names_one_file(options))
        return message_usage("export",
                             "'%s' is one operand too many: a UUID is looked for in stores and "
                             "directories, not in one sidecar",
                             options->operands[0]);
    status = check_operands_usage(options);
    return status != STATUS_DONE || option_given(options, OPTION_UNION)
               ? status
               : check_object_usage(options);
}

int command_export(const struct parsed_options *options)
{
    struct export export = {.options = options, .is_union = option_given(options, OPTION_UNION)};
    struct error error = {0};
    int status = check_usage(options);

    if (status != STATUS_DONE)
        return status;
    if (!(export.is_union ? export_union : export_all)(&export, &error))
        report_failure(&export, &error);
    progress_finish(&export.progress);
    sidecar_places_close(&export.places);
    return export.failed ? STATUS_FAILED : STATUS_DONE;
}
