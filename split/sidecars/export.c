/*
 * covsplit export: objects that unmodified llvm-cov and llvm-profdata read in place of images.
 *
 * common/sidecar/exported.h makes the objects; this file decides which ones, and where they go: a
 * single object to -o, or any number to the places where debuggers, llvm-cov and debuginfod look
 * for debug information by UUID: DIR/.build-id/ab/cdef....debug. A file that is already there and
 * was not made by covsplit may be real debug information, and is kept. If one of several objects
 * cannot be made, that is reported, and the others are made.
 *
 * An operand that is no UUID is an image, of which the object is made directly (cli/images.h) if it
 * was not split, or with --union also a sidecar.
 *
 * With --union, all go into one file (common/sidecar/union.h), or none if one cannot be read:
 * nobody would see from a report that an image is missing.
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
#include "common/sidecar/exported.h"
#include "common/sidecar/union.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "formats/object/packing.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/source_paths.h"

struct export
{
    const struct parsed_options *options;
    struct sidecar_places places;
    struct progress progress;
    uint64_t count;           /* number of sidecars that were found by their UUIDs */
    bool is_any;              /* some sidecar was not left out */
    bool failed;              /* some object could not be made */
    struct union_writer *all; /* NULL: each object has a file of its own */
    struct timespec newest;   /* of the sidecars and images in the object or union */
    struct path_maps maps;    /* for unions */
    struct unmapped_images unmapped;
};

/* ---- one object ---- */

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
            input.bytes.size == 0 || export_recognize(input.bytes) || union_recognize(input.bytes);
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

static void note_time(struct export *export, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && (status.st_mtim.tv_sec != export->newest.tv_sec
                                         ? status.st_mtim.tv_sec > export->newest.tv_sec
                                         : status.st_mtim.tv_nsec > export->newest.tv_nsec))
        export->newest = status.st_mtim;
}

/* The output gets the time of what it is made of: with a later one, llvm-cov would say of profiles
 * written before that the object is newer; with an earlier one, make would make it again. */
static bool commit(const struct export *export, struct output *output, struct error *error)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, export->newest};
    enum output_result result;

    return output_sync(output, error) &&
           (export->newest.tv_sec == 0 || futimens(output->fd, times) == 0 ||
            error_set_errno(error, errno, "%s: its time cannot be set", output->path)) &&
           output_commit(output, &result, error);
}

/* Writes an object. Makes the directories of the path if `in_store` is set. */
static bool export_to(struct export *export, const struct sidecar *sidecar, const char *path,
                      bool in_store, struct error *error)
{
    /* Executable for those who may read it, as images are: grcov takes no other files. */
    mode_t mode = file_new_mode();
    struct output_options options = {.mode = mode | (mode & (S_IRUSR | S_IRGRP | S_IROTH)) >> 2};
    struct output output;

    note_time(export, sidecar->name);
    if (!check_existing(export, path, error) ||
        !(in_store ? store_output_create(&output, path, &options, error)
                   : output_create(&output, path, &options, error)))
        return false;
    if (export_write(sidecar, output_sink, &output, error) && commit(export, &output, error))
        return true;
    output_discard(&output);
    return false;
}

/* Makes the object for DIR/.build-id/ab/cdef....debug. */
static bool export_to_directory(struct export *export, const struct sidecar *sidecar,
                                const char *directory, struct error *error)
{
    const struct uuid *uuid = &sidecar->facts.uuid;
    char hex[UUID_HEX_MAX], *root, *path;
    bool done;

    uuid_format(uuid, hex);
    if (uuid->size < 2)
        return error_set(error,
                         "UUID %s: is too short for --debug-dir, which needs two bytes or more; "
                         "use -o",
                         hex);
    root = store_root(directory);
    exit_unless_allocated(root != NULL, strlen(directory));
    path = command_text("%s/%.2s/%s.debug", root, hex, hex + 2);
    done = export_to(export, sidecar, path, true, error);
    if (done && option_given(export->options, OPTION_VERBOSE))
        message_line(stdout, "%s: %s", path, sidecar->image_name);
    free(path);
    free(root);
    return done;
}

/* True if the sidecar is one of several, and has nothing for an object. Of an image that is
 * instrumented, people may expect coverage, so it is noted. A placeholder that was named takes the
 * place of a sidecar that is needed. */
static bool is_left_out(struct export *export, const struct sidecar *sidecar)
{
    if (export->all == NULL)
        return option_given(export->options, OPTION_DEBUG_DIRECTORY) &&
               sidecar_find(sidecar, SECTION_COVNAMES) == NULL &&
               unmapped_images_note(&export->unmapped, sidecar);
    if (sidecar->facts.is_placeholder)
        return export->options->operand_count == 0;
    return sidecar_holds_nothing(sidecar) ? sidecar_mapping(sidecar) == MAPPING_IS_ABSENT
                                          : unmapped_images_note(&export->unmapped, sidecar);
}

/* ---- all of them ---- */

/* Prints one line for an object that could not be made. */
static void report_failure(struct export *export, const struct error *error)
{
    message_error(error);
    export->failed = true;
}

/* Exports the sidecar, and closes it; reports the error if it is NULL. */
static void export_opened(struct export *export, struct sidecar *sidecar, struct error *error)
{
    const char *directory = option_text(export->options, OPTION_DEBUG_DIRECTORY);
    bool is_made = sidecar != NULL && !is_left_out(export, sidecar);
    bool done = sidecar != NULL && !is_made;

    if (is_made && export->all != NULL) {
        note_time(export, sidecar->name);
        done = export->failed || union_add(export->all, sidecar, error);
    } else if (is_made && directory != NULL) {
        done = export_to_directory(export, sidecar, directory, error);
    } else if (is_made) {
        done =
            export_to(export, sidecar, option_text(export->options, OPTION_OUTPUT), false, error);
    }
    if (!done)
        report_failure(export, error);
    export->is_any |= is_made;
    progress_add(&export->progress, 1);
    sidecar_close(sidecar);
    if (export->all == NULL)
        export->newest = (struct timespec){0};
}

/* Exports what an operand names: the sidecar of a UUID, or of the only one that begins with it; a
 * sidecar; or an image, of which the sidecar is found if it was split. */
static void export_operand(struct export *export, const char *operand)
{
    uint64_t limit = option_number(export->options, OPTION_MEMORY_LIMIT);
    struct sidecar *sidecar = NULL;
    struct error error = {0};
    struct input input;
    struct uuid uuid;

    if (uuid_parse(operand, &uuid)) {
        sidecar = sidecar_search_by_start(&export->places, &uuid, NULL, &error);
    } else if (path_is_directory(operand)) {
        error_set(&error,
                  "%s: is a directory; name a store with --store, or another directory of sidecars "
                  "with --sidecar",
                  operand);
    } else if (input_open(&input, operand, &error)) {
        note_time(export, operand); /* a split writes the image after its sidecar */
        if (!image_is_linked(input.bytes) && !object_is_packed(input.bytes))
            sidecar = sidecar_read_for(export->options, operand, &error);
        else
            sidecar = image_sidecar_open(&export->places, &input, limit, &uuid, &error);
        input_close(&input);
    }
    export_opened(export, sidecar, &error);
}

/* ---- without operands ---- */

/* Lists the sidecars that --sidecar names, or else those of the current directory, one for each
 * UUID. Reports what could not be read there. */
static bool list_named(struct export *export, struct found_sidecars *all, struct error *error)
{
    const struct sidecar_places *places = &export->places;
    const struct store_list *directories = &places->directories;
    static const struct wanted_uuid any = {.query = STORE_PREFIX};
    struct error faults;
    size_t count = 0;

    if (!sidecar_index_find(places, places->are_given ? INDEX_FILES : ".", &any, 1, all, error) ||
        !store_list_walk(directories, found_sidecars_collect, all, error))
        return false;
    for (size_t i = 0; i < directories->count; i++) {
        if (!sidecar_index_find(places, directories->stores[i].directory, &any, 1, all, error))
            return false;
    }
    found_sidecars_sort(all);
    for (size_t i = 0; i < all->count; i++) {
        if (count == 0 || !uuid_equal(&all->items[count - 1].uuid, &all->items[i].uuid))
            all->items[count++] = all->items[i];
    }
    all->count = count;
    if (all->fault_count > 1)
        error_set(&faults, "%.800s (%zu such files in all); remove what is not a sidecar",
                  all->first_fault.message, all->fault_count);
    if (all->fault_count != 0)
        report_failure(export, all->fault_count == 1 ? &all->first_fault : &faults);
    return true;
}

/* Checks the number of sidecars: one for -o, and not 0, unless that was reported already. */
static bool check_count(const struct export *export, uint64_t count, struct error *error)
{
    if (count > 1 && option_given(export->options, OPTION_OUTPUT) && export->all == NULL)
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

/* Exports the sidecar of a store, unless another process has removed it meanwhile. */
static void export_stored(struct export *export, const struct found_sidecar *found)
{
    struct sidecar *sidecar;
    struct error error;

    if (access(found->path, F_OK) != 0 && errno == ENOENT)
        return;
    sidecar = sidecar_read_for(export->options, found->path, &error);
    if (sidecar != NULL &&
        !store_check_uuid(found->path, &sidecar->facts.uuid, &found->uuid, &error)) {
        sidecar_close(sidecar);
        sidecar = NULL;
    }
    export_opened(export, sidecar, &error);
}

static bool export_stores(struct export *export, const struct store_list *stores, const char *names,
                          struct error *error)
{
    struct found_sidecars all = {0};
    bool done = store_list_walk(stores, found_sidecars_collect, &all, error);

    if (done && all.count == 0)
        done = error_set(error,
                         "%s: no sidecars there to export; name a directory that was given "
                         "to split --store",
                         names);
    if (done)
        progress_start(&export->progress, names, all.count);
    for (size_t i = 0; done && i < all.count; i++)
        export_stored(export, &all.items[i]);
    found_sidecars_free(&all);
    return done;
}

/* Placeholders, and sidecars of images without coverage, are ignored. */
static bool export_named(struct export *export, struct error *error)
{
    struct found_sidecars all = {0};
    bool done = list_named(export, &all, error) && check_count(export, all.count, error);

    if (done)
        progress_start(&export->progress, "sidecars", all.count);
    for (size_t i = 0; done && i < all.count; i++) {
        const struct sidecar_wanted wanted = {.uuid = &all.items[i].uuid};
        struct error why;
        struct sidecar *sidecar = sidecar_search(&export->places, &wanted, &why);

        if (sidecar != NULL ? sidecar_holds_nothing(sidecar) : why.number == ENODATA) {
            progress_add(&export->progress, 1);
            sidecar_close(sidecar);
            continue;
        }
        export->count += sidecar != NULL;
        export_opened(export, sidecar, &why);
    }
    done = done && check_count(export, export->count, error);
    found_sidecars_free(&all);
    return done;
}

static bool export_all(struct export *export, struct error *error)
{
    const struct sidecar_places *places = &export->places;
    const struct parsed_options *options = export->options;
    const char *only = sidecar_places_only_file(places);
    struct sidecar *sidecar;

    if (options->operand_count != 0) {
        sidecars_fetch(places, options->operands, options->operand_count, true);
        progress_start(&export->progress, options->operands[0], options->operand_count);
        for (size_t i = 0; i < options->operand_count; i++)
            export_operand(export, options->operands[i]);
        return true;
    }
    if (!sidecar_places_check(places, error))
        return false;
    if (only != NULL) {
        sidecar = sidecar_read_for(options, only, error);
        progress_start(&export->progress, only, 1);
        export_opened(export, sidecar, error);
        return true;
    }
    if (places->store.count != 0)
        return export_stores(export, &places->store, option_text(options, OPTION_STORE), error);
    if (places->environment.count != 0)
        return export_stores(export, &places->environment, getenv(STORE_ENVIRONMENT), error);
    return export_named(export, error);
}

/* Warns of images that are left out. That none is left is an error. */
static bool tell_left_out(struct export *export, struct error *error)
{
    struct error text;

    if (!unmapped_images_tell(&export->unmapped, &text))
        return true;
    if (export->is_any)
        message_warning("%s", text.message);
    else
        *error = text;
    return export->is_any;
}

/* Nothing of a union gets its name if any sidecar could not be read. */
static bool export_union(struct export *export, struct error *error)
{
    const char *path = option_text(export->options, OPTION_OUTPUT);
    const struct output_options options = {.mode = file_new_mode()};
    struct output output;
    struct union_writer all = {.name = path, .sink = output_sink, .context = &output};
    bool done;

    if (export->maps.count != 0)
        all.renamer = (struct covmap_renamer){path_maps_apply, &export->maps};

    if (!check_existing(export, path, error) || !output_create(&output, path, &options, error))
        return false;
    export->all = &all;
    done = export_all(export, error);
    if (done && !export->failed) {
        done = tell_left_out(export, error) && union_finish(&all, error) &&
               commit(export, &output, error);
        path_maps_warn(&export->maps);
        if (done && option_given(export->options, OPTION_VERBOSE))
            message_line(stdout, "%s: images: %zu; records of functions: %" PRIu64 " of %" PRIu64,
                         path, all.member_count, all.records_kept, all.records_read);
    }
    output_discard(&output);
    union_free(&all);
    return done;
}

/* ---- the command line ---- */

/* What a file is that has no object of its own, and what to do; NULL for an image and for a packed
 * object, also for what cannot be read, of which an error tells. */
static const char *why_no_object(const char *path)
{
    const char *why = NULL;
    struct input input;
    struct error ignored;

    if (found_image_is_linked(path) || !input_open(&input, path, &ignored))
        return NULL;
    if (sidecar_recognize(input.bytes))
        why = "is a sidecar; name it by --sidecar";
    else if (!object_is_packed(input.bytes))
        why = "is not an image";
    input_close(&input);
    return why;
}

/* Checks what the table of options cannot express. */
static int check_usage(const struct parsed_options *options)
{
    const char *given = option_text_at(options, OPTION_SIDECAR, 0);
    const char *environment = getenv(STORE_ENVIRONMENT);
    bool is_union = option_given(options, OPTION_UNION);
    bool has_output = option_given(options, OPTION_OUTPUT);
    bool names_store = option_given(options, OPTION_STORE) ||
                       (given == NULL && environment != NULL && environment[0] != '\0');

    if (option_given(options, OPTION_PATH_MAP) && !is_union)
        return message_usage("export", "'--path-map' is for '--union'");
    if (!has_output && !option_given(options, OPTION_DEBUG_DIRECTORY))
        return message_usage("export", is_union ? "--union makes one file: -o is missing"
                                                : "-o or --debug-dir is missing");
    /* Among several files, or those of a directory, UUIDs can choose. */
    if (options->operand_count != 0 && given != NULL &&
        option_text_at(options, OPTION_SIDECAR, 1) == NULL && !path_is_directory(given))
        return message_usage("export",
                             "'%s' is one operand too many: --sidecar names what to export; leave "
                             "out one of them",
                             options->operands[0]);
    if (!is_union && has_output &&
        (options->operand_count > 1 || (names_store && options->operand_count == 0)))
        return message_usage("export",
                             "-o takes one object; name one UUID or image, or use --union or "
                             "--debug-dir");
    for (size_t i = 0; !is_union && i < options->operand_count; i++) {
        const char *operand = options->operands[i];
        struct uuid uuid;
        const char *why = uuid_parse(operand, &uuid)                      ? NULL
                          : file_is_missing(operand, AT_SYMLINK_NOFOLLOW) ? "does not exist"
                                                                          : why_no_object(operand);

        if (why != NULL)
            return message_usage("export",
                                 "'%s' %s; a UUID is hexadecimal digits, two for a byte; 'covsplit "
                                 "show IMAGE' prints an image's",
                                 operand, why);
    }
    return STATUS_DONE;
}

int command_export(const struct parsed_options *options)
{
    struct export export = {.options = options};
    bool is_union = option_given(options, OPTION_UNION);
    struct error error = {0};
    int status = check_usage(options);

    if (status == STATUS_DONE)
        status = path_maps_read(&export.maps, options);
    if (status != STATUS_DONE) {
        path_maps_free(&export.maps);
        return status;
    }
    sidecar_places_open(&export.places, options, NULL);
    if (is_union ? !export_union(&export, &error)
                 : !export_all(&export, &error) || !tell_left_out(&export, &error))
        report_failure(&export, &error);
    progress_finish();
    sidecar_places_close(&export.places);
    unmapped_images_free(&export.unmapped);
    path_maps_free(&export.maps);
    return export.failed ? STATUS_FAILED : STATUS_DONE;
}
