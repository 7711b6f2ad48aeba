/*
 * covsplit report: from profiles to a report, in one command.
 *
 * The profiles are merged, the sidecars of their images become a union, and llvm-cov makes the
 * report of both, which are in memory. So a report has exactly the images that the profiles are of,
 * and what llvm-cov prints is what it would print of the images before they were split.
 *
 * This file chooses the images and the source files; write.c has llvm-cov write the report.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/sidecar/union.h"
#include "common/store/store.h"
#include "formats/image.h"
#include "formats/object/object.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/images.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/function_places.h"
#include "split/profiles/llvm_tool.h"
#include "split/profiles/merge.h"
#include "split/report/report.h"

/* ---- the images ---- */

/* Adds an image, unless it is there already or has nothing for a report. */
static void add_image(struct report *report, struct report_image image)
{
    const struct uuid *uuid = &image.sidecar->facts.uuid;
    bool is_needless = sidecar_holds_nothing(image.sidecar);

    for (size_t i = 0; i < report->image_count; i++)
        is_needless |= uuid_equal(&report->images[i].sidecar->facts.uuid, uuid);
    if (is_needless) {
        sidecar_close(image.own);
        profile_sidecars_release(&report->sidecars, image.found);
        return;
    }
    COMMAND_ROOM_FOR_ONE(report->images, report->image_capacity, report->image_count);
    report->images[report->image_count++] = image;
}

/* Takes the operands apart: images and sidecars are read, the others are profiles. */
static bool read_operands(struct report *report, const char *const *operands, size_t count,
                          struct error *error)
{
    const struct parsed_options *options = report->options;
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);

    report->profiles = command_array(count, sizeof(*report->profiles));
    report->indexed = command_array(count, sizeof(*report->indexed));
    for (size_t i = 0; i < count; i++) {
        const char *path = operands[i];
        struct report_image image = {0};
        struct split_image split;
        struct input input;
        struct stat status;
        bool is_image, is_sidecar, is_indexed;

        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
            report->profiles[report->profile_count++] = path;
            continue;
        }
        if (!input_open(&input, path, error))
            return false;
        is_sidecar = sidecar_recognize(input.bytes);
        is_indexed = profile_recognize_indexed(input.bytes);
        is_image = !is_sidecar && (image_is_linked(input.bytes) || object_is_packed(input.bytes));
        error->message[0] = '\0';
        error->number = 0;
        if (is_sidecar) {
            image.own = sidecar_read_for(options, path, error);
        } else if (is_image && image_find_split(&input, &split, error)) {
            image.own = sidecar_search_of_image(&report->sidecars.places, &input, &split, error);
        } else if (is_image && !error_is_of_memory(error)) {
            image.own = image_sidecar_make(&input, limit, error);
        }
        input_close(&input);
        image.sidecar = image.own;
        if (is_indexed)
            report->indexed[report->indexed_count++] = path;
        else if (!is_image && !is_sidecar)
            report->profiles[report->profile_count++] = path;
        else if (image.own == NULL)
            return false;
        else
            add_image(report, image);
    }
    return true;
}

static bool is_known(const struct report *report, const struct uuid *uuid)
{
    for (size_t i = 0; uuid->size != 0 && i < report->image_count; i++) {
        if (uuid_equal(&report->images[i].sidecar->facts.uuid, uuid))
            return true;
    }
    return false;
}

/* Notes what --ignore-missing leaves out. */
static void leave_out(struct report *report, const struct uuid *uuid, uint64_t count,
                      const char *first)
{
    char hex[UUID_HEX_MAX], profiles[COUNT_TEXT_MAX];
    char *line =
        command_text("%s of the image with UUID %s left out, such as %s: no sidecar of it "
                     "was found, so the report lacks the image",
                     count_text(count, "profile", profiles), uuid_format(uuid, hex), first);

    message_warning("%s", line);
    text_make_printable(line);
    buffer_append(&report->left_out, line, strlen(line));
    command_require(buffer_append(&report->left_out, "\n", 1), report->left_out.size);
    free(line);
}

/* Adds the images that an indexed profile is of. */
static bool add_indexed(struct report *report, const char *path, struct error *error)
{
    bool has_operands = report->image_count != 0, is_any = false, done = true;
    struct profile_uuids uuids = {0};
    enum profile_uuid_source source;
    struct profile profile;
    struct input input;
    struct uuid uuid;

    if (!input_open(&input, path, error))
        return false;
    profile_open_indexed(&profile, input.bytes);
    uuids.profile = &profile;
    while (done && profile_next_uuid(&uuids, &uuid, &source)) {
        struct report_image image = {0};

        is_any = true;
        if (is_known(report, &uuid))
            continue;
        image.found = profile_sidecars_find_uuid(&report->sidecars, &uuid, error);
        if (image.found != NULL) {
            image.sidecar = image.found->sidecar;
            add_image(report, image);
        } else if (option_given(report->options, OPTION_IGNORE_MISSING) &&
                   error->number == ENODATA) {
            leave_out(report, &uuid, 1, path);
        } else {
            done = false;
        }
    }
    input_close(&input);
    return done && (is_any || has_operands ||
                    error_set(error,
                              "%s: does not say of which images it is, as LLVM 16 and later "
                              "write it; name the images, too",
                              path));
}

/* Adds the images that the merged profiles are of. */
static bool add_merged(struct report *report, const struct merge *merge, struct error *error)
{
    bool has_operands = report->image_count != 0;

    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];
        struct profile_sidecar *found = profile_group_sidecar(group);
        struct uuid uuid = profile_group_uuid(group);
        struct report_image image = {0};

        if (is_known(report, &uuid))
            continue;
        if (uuid.size == 0 && found == NULL && has_operands) {
            message_warning(
                "%s: does not say of which image it is; taken for one of the images that "
                "are named",
                group->name);
            continue;
        }
        if (found == NULL && uuid.size == 0)
            return error_set(error,
                             "%s: a profile of an image that was not split, and it does not say of "
                             "which; name the image, too",
                             group->name);
        if (found == NULL)
            found = image.found = profile_sidecars_find_uuid(&report->sidecars, &uuid, error);
        if (found == NULL)
            return false;
        image.sidecar = found->sidecar;
        add_image(report, image);
    }
    return true;
}

/* A store_visitor, for --all. */
static bool add_stored(void *context, const char *path, const struct uuid *uuid,
                       struct error *error)
{
    struct report *report = context;
    struct report_image image = {.own = sidecar_read_for(report->options, path, error)};

    image.sidecar = image.own;
    if (image.own == NULL)
        return false;
    if (!store_check_uuid(path, &image.own->facts.uuid, uuid, error)) {
        sidecar_close(image.own);
        return false;
    }
    add_image(report, image);
    return true;
}

/* By name, then UUID: the same however the profiles are named. */
static int compare_images(const void *a, const void *b)
{
    const struct sidecar *left = ((const struct report_image *)a)->sidecar;
    const struct sidecar *right = ((const struct report_image *)b)->sidecar;
    int order = strcmp(left->image_name, right->image_name);

    return order != 0 ? order : uuid_compare(&left->facts.uuid, &right->facts.uuid);
}

static bool make_union(struct report *report, struct error *error)
{
    const struct timespec epoch[2] = {{0, 0}, {0, 0}};
    struct union_writer writer = {.sink = output_sink,
                                  .context = &report->mapping,
                                  .maps = report->maps,
                                  .files = &report->files};
    bool done = output_create_in_memory(&report->mapping, "the coverage mapping", error);

    if (!done)
        return false;
    qsort(report->images, report->image_count, sizeof(*report->images), compare_images);
    writer.name = report->mapping.path;
    for (size_t i = 0; done && i < report->image_count; i++) {
        done = union_add(&writer, report->images[i].sidecar, error);
        sidecar_forget(report->images[i].sidecar);
    }
    done = done && union_finish(&writer, error) && output_lend(&report->mapping, error);
    union_free(&writer);
    for (size_t i = 0; done && writer.lacks_files && i < report->image_count; i++)
        done = covered_files_read(report->images[i].sidecar, &report->files, error);
    /* llvm-cov warns of images that are newer than their profile. */
    return done && (futimens(report->mapping.fd, epoch) == 0 ||
                    error_set_errno(error, errno, "the coverage mapping: its time cannot be set"));
}

/* ---- the source files ---- */

static bool is_below(struct bytes path, const char *directory)
{
    size_t size = strlen(directory);

    while (size != 0 && directory[size - 1] == '/')
        size--;
    return path.size >= size && memcmp(path.data, directory, size) == 0 &&
           (path.size == size || path.data[size] == '/');
}

/* Compares with each directory as it is named, from the current one, and with what it leads to:
 * compilers record either. */
static bool is_included(const struct report *report, struct bytes path)
{
    const char *directory;

    if (!option_given(report->options, OPTION_INCLUDE))
        return is_below(path, report->root);
    for (size_t i = 0; (directory = option_text_at(report->options, OPTION_INCLUDE, i)) != NULL;
         i++) {
        char *real = realpath(directory, NULL), *named;
        bool is_in;

        command_require(real != NULL || errno != ENOMEM, PATH_MAX);
        named = command_text("%s/%s", report->root, directory);
        is_in = (real != NULL && is_below(path, real)) ||
                (directory[0] == '/' && is_below(path, directory)) || is_below(path, named);

        free(real);
        free(named);
        if (is_in)
            return true;
    }
    return false;
}

/* The current directory, by the name that the shell has for it, as compilers record it. */
static char *current_directory(void)
{
    const char *named = getenv("PWD");
    struct stat here, there;

    return named != NULL && named[0] == '/' && stat(".", &here) == 0 && stat(named, &there) == 0 &&
                   file_is_same(&here, &there)
               ? strdup(named)
               : getcwd(NULL, 0);
}

/* Names a source file that is not there, of those that are to be shown; llvm-cov would name each,
 * twice. */
static void check_sources(struct report *report)
{
    char *first = NULL, more[COUNT_TEXT_MAX];
    uint64_t missing = 0;

    for (uint64_t i = 0; i < report->files.count; i++) {
        struct bytes path = names_get(&report->files, i);
        char *source;

        if (report->is_selected && !is_included(report, path))
            continue;
        source = command_text("%.*s", (int)path.size, (const char *)path.data);
        if (file_is_missing(source, 0) && missing++ == 0)
            first = command_copy(source);
        free(source);
    }
    report->lacks_sources = missing != 0;
    if (missing == 1)
        message_warning("%s: is not there, so it has no page; if sources are elsewhere here, give "
                        "--path-map FROM=TO",
                        first);
    else if (missing != 0)
        message_warning("%s and %s: are not there, so they have no pages; if sources are elsewhere "
                        "here, give --path-map FROM=TO",
                        first, count_text(missing - 1, "other source file", more));
    free(first);
}

/* Selects the source files to be shown: those below the directories of --include, or else below the
 * current one, if there are any. Says how many are left out. */
static bool select_files(struct report *report, struct error *error)
{
    bool is_told = option_given(report->options, OPTION_INCLUDE), done = true;
    const struct names *files = &report->files;
    struct buffer list = {0};
    uint64_t selected = 0;

    for (uint64_t i = 0; i < files->count; i++) {
        struct bytes path = names_get(files, i);

        if (!is_included(report, path))
            continue;
        selected++;
        /* Response files know quotes and escapes, so each byte that may be one is escaped. */
        for (uint64_t j = 0; j < path.size; j++) {
            if (strchr("\\\"' \t\n\r", path.data[j]) != NULL)
                buffer_append(&list, "\\", 1);
            buffer_append(&list, path.data + j, 1);
        }
        buffer_append(&list, "\n", 1);
    }
    command_require(!list.failed, list.size);
    done = done && output_create_in_memory(&report->selection, "the list of source files", error) &&
           output_write(&report->selection, buffer_view(&list), error) &&
           output_lend(&report->selection, error);
    report->is_selected = selected != 0 && selected != files->count;
    if (done && is_told && selected == 0)
        done = error_set(error, "%s: no source file of the report is there; name another directory",
                         option_text(report->options, OPTION_INCLUDE));
    if (done && report->is_selected && !is_told)
        fprintf(stderr,
                "covsplit: %ju of %ju source files are not below %s and left out; '--include /' "
                "shows all\n",
                (uintmax_t)(files->count - selected), (uintmax_t)files->count, report->root);
    if (done && option_given(report->options, OPTION_HTML))
        check_sources(report);
    buffer_free(&list);
    return done;
}

/* ---- the whole ---- */

/* Notes what is left out with --ignore-missing. Other bad profiles are errors. */
static bool check_left_out(struct report *report, const struct merge *merge, struct error *error)
{
    uint64_t lacking = 0;

    for (size_t i = 0; i < merge->lacking_count; i++) {
        const struct merge_lacking *image = &merge->lacking[i];

        leave_out(report, &image->uuid, image->profile_count, image->first);
        lacking += image->profile_count;
    }
    if (merge->failure_count > lacking) {
        *error = merge->failures[0].error;
        return false;
    }
    return true;
}

static void note_time(struct report *report, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && status.st_mtime > 0 &&
        (uint64_t)status.st_mtime > report->newest)
        report->newest = (uint64_t)status.st_mtime;
}

/* Merges the indexed profiles, and the merged one, if there is one, to `merged`. */
static bool merge_indexed(struct report *report, unsigned raw_version, struct output *merged,
                          struct error *error)
{
    struct llvm_command command = {0};
    char *program = llvm_tool_find(
        LLVM_PROFDATA, option_text(report->options, OPTION_LLVM_PROFDATA), raw_version, error);
    bool done = program != NULL && output_create_in_memory(merged, "the merged profile", error) &&
                output_lend(merged, error);

    if (done) {
        llvm_command_add(&command, "%s", program);
        llvm_command_add(&command, "merge");
        llvm_command_add(&command, "-o");
        llvm_command_add_file(&command, "", merged->fd, merged->path);
        if (report->profile >= 0)
            llvm_command_add_file(&command, "", report->profile, "the merged profile");
        for (size_t i = 0; i < report->indexed_count; i++)
            llvm_command_add(&command, "%s", report->indexed[i]);
        done =
            llvm_command_run(&command, -1, merged->path, error) && output_take_back(merged, error);
        report->profile = merged->fd;
    }
    llvm_command_free(&command);
    free(program);
    return done;
}

/* Makes the report of the images that are known, and of those of the indexed profiles. */
static bool make_with_images(struct report *report, unsigned raw_version, struct error *error)
{
    const struct parsed_options *options = report->options;
    struct output merged = {.fd = -1};
    bool done;

    report->program =
        llvm_tool_find(LLVM_COV, option_text(options, OPTION_LLVM_COV), raw_version, error);
    done = report->program != NULL;
    for (size_t i = 0; done && i < report->indexed_count; i++) {
        note_time(report, report->indexed[i]);
        done = add_indexed(report, report->indexed[i], error);
    }
    done =
        done && (report->indexed_count == 0 || merge_indexed(report, raw_version, &merged, error));
    done = done &&
           (!option_given(options, OPTION_ALL) ||
            (store_list_walk(&report->sidecars.places.store, add_stored, report, error) &&
             store_list_walk(&report->sidecars.places.environment, add_stored, report, error)));
    if (done && report->image_count == 0)
        done = error_set(error,
                         "%s: its image has no coverage mapping; build it with "
                         "-fcoverage-mapping for reports",
                         report->indexed_count != 0 ? report->indexed[0] : report->profiles[0]);
    done = done && make_union(report, error) && select_files(report, error) &&
           report->make(report, error);
    output_discard(&merged);
    return done;
}

/* A merge_reader. */
static bool make_merged(void *context, const struct merge *merge, int profile, struct error *error)
{
    struct report *report = context;

    report->profile = profile;
    for (size_t i = 0; i < merge->inputs->count; i++)
        note_time(report, merge->inputs->paths[i]);
    return check_left_out(report, merge, error) && add_merged(report, merge, error) &&
           make_with_images(report, merge->groups.list[0]->version, error);
}

/* Reads the operands, and calls report->make. */
static bool run_report(struct report *report, const char *const *operands, size_t count,
                       struct error *error)
{
    bool done = read_operands(report, operands, count, error);

    if (done && report->profile_count == 0 && report->indexed_count == 0)
        return error_set(error, "%s: an image, and no profile is named; name the profiles, too",
                         operands[0]);
    return done &&
           (report->profile_count == 0
                ? make_with_images(report, 0, error)
                : merge_for_reader(&report->merging, report->profiles, report->profile_count,
                                   &report->sidecars, make_merged, report, error));
}

static void free_report(struct report *report)
{
    for (size_t i = 0; i < report->image_count; i++) {
        sidecar_close(report->images[i].own);
        profile_sidecars_release(&report->sidecars, report->images[i].found);
    }
    free(report->images);
    free(report->profiles);
    free(report->indexed);
    free(report->program);
    buffer_free(&report->left_out);
    output_discard(&report->mapping);
    names_free(&report->files);
    output_discard(&report->selection);
    profile_sidecars_close(&report->sidecars);
}

int report_check_usage(const struct parsed_options *options)
{
    const char *text;
    size_t metric;
    double percent;

    for (size_t i = 0; (text = option_text_at(options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        if (!report_read_limit(text, &metric, &percent))
            return message_usage(options->command->name,
                                 "'--fail-under %s' is not METRIC=PERCENT, with lines, functions, "
                                 "regions or branches",
                                 text);
        if (option_given(options, OPTION_BASELINE) && !option_given(options, OPTION_DIFF))
            return message_usage(options->command->name,
                                 "'--fail-under' is not for '--baseline' without '--diff'");
        if (option_given(options, OPTION_DIFF) && metric != 0)
            return message_usage(options->command->name,
                                 "with '--diff', '--fail-under' is of lines");
    }
    if (option_given(options, OPTION_SUMMARY) && option_given(options, OPTION_HTML))
        return message_usage(options->command->name, "'--summary' is not for '--html'");
    for (size_t i = 0; i < 2; i++) {
        enum option_id id = i == 0 ? OPTION_DIFF : OPTION_BASELINE;

        if (option_given(options, id) &&
            (option_given(options, OPTION_HTML) || option_given(options, OPTION_FORMAT) ||
             option_given(options, OPTION_SUMMARY)))
            return message_usage(options->command->name,
                                 "'--%s' is a report of its own, without --html, --format and "
                                 "--summary",
                                 i == 0 ? "diff" : "baseline");
    }
    if (option_given(options, OPTION_HTML) && option_given(options, OPTION_OUTPUT))
        return message_usage(options->command->name, "'--output' is not for '--html'");
    return STATUS_DONE;
}

int command_report(const struct parsed_options *options)
{
    const char *temporary = getenv("TMPDIR"), *other = option_text(options, OPTION_BASELINE);
    struct report start = {.options = options,
                           .merging = *options,
                           .mapping = {.fd = -1},
                           .selection = {.fd = -1},
                           .profile = -1};
    struct report report, baseline;
    struct error error = {0};
    int status = report_check_usage(options);
    char *spool;
    bool done;

    if (status == STATUS_DONE)
        status = path_maps_read(&start.maps, options);
    if (status != STATUS_DONE)
        return status;
    /* merge puts unnamed files there. */
    spool =
        command_text("%s/profiles", temporary == NULL || temporary[0] == '\0' ? "/tmp" : temporary);
    start.root = current_directory();
    command_require(start.root != NULL || errno != ENOMEM, PATH_MAX);
    done = start.root != NULL ||
           error_set_errno(&error, errno, ".: no path leads to this directory; run it in another");
    start.merging.values[OPTION_OUTPUT] = (struct option_value){.given = true, .text = spool};
    start.merging.values[OPTION_FORMAT] = (struct option_value){.given = false};
    start.merging.values[OPTION_INTO] = (struct option_value){.given = false};
    start.merging.values[OPTION_FAILURE_MODE].number =
        option_given(options, OPTION_IGNORE_MISSING) ? 1 : 0;
    report = baseline = start;
    report.make = report_write;
    baseline.make = report_keep_lines;
    done = done && (other == NULL || (profile_sidecars_open(&baseline.sidecars, options, &error) &&
                                      run_report(&baseline, &other, 1, &error)));
    report.lines = baseline.lines;
    done = done && profile_sidecars_open(&report.sidecars, options, &error) &&
           run_report(&report, options->operands, options->operand_count, &error);
    if (!done)
        message_error(&error);
    free_report(&report);
    free_report(&baseline);
    buffer_free(&baseline.lines);
    free(start.maps.items);
    free(start.root);
    free(spool);
    return done ? STATUS_DONE : STATUS_FAILED;
}
