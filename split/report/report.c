/*
 * covsplit report: from profiles to a report, in one command.
 *
 * The profiles are merged, the sidecars of their images become a union, and llvm-cov makes the
 * report of both, which are in memory. So a report has exactly the images that the profiles are of,
 * and what llvm-cov prints is what it would print of the images before they were split.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
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

enum report_format { /* the words of --format */
                     REPORT_LCOV,
                     REPORT_JSON,
                     REPORT_SUMMARY,
                     REPORT_COBERTURA,
};

struct report_image {
    const struct sidecar *sidecar;
    struct sidecar *own;           /* to be closed; NULL: it is the merge's */
    struct profile_sidecar *found; /* to be released; or NULL */
};

struct report {
    const struct parsed_options *options;
    struct parsed_options merging; /* the same, as options of `covsplit merge` */
    struct profile_sidecars sidecars;
    struct path_maps maps;
    const char **profiles; /* those operands that are raw profiles, directories and states */
    const char **indexed;  /* and those that are indexed profiles */
    size_t profile_count, indexed_count;
    struct report_image *images;
    size_t image_count, image_capacity;
    char *root;    /* the current directory */
    char *program; /* llvm-cov */
    int profile;   /* a .profdata file */
    struct output mapping;
    struct names files;      /* the source files in it */
    struct output selection; /* the source files to be shown, as a response file */
    bool is_selected;        /* else all of them */
    bool lacks_sources;      /* some of them are not there, which has been said */
    uint64_t newest;         /* the modification time of the newest profile, in seconds */
    struct buffer left_out;  /* what --ignore-missing leaves out, as lines */
    bool (*make)(struct report *report, struct error *error); /* makes the report of all this */
    struct buffer lines;                                      /* of the baseline: its lcov */
};

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
        char *real = realpath(directory, NULL);
        char *named = command_text("%s/%s", report->root, directory);
        bool is_in = (real != NULL && is_below(path, real)) ||
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

/* ---- llvm-cov ---- */

/* The output of llvm-cov, in memory. */
struct capture {
    struct output output;
    struct input text;
};

static void capture_free(struct capture *capture)
{
    input_close(&capture->text);
    output_discard(&capture->output);
}

/* Runs `llvm-cov VERB` with the two files, and up to two more options. Its output goes to the
 * capture, which must be freed even after a failure; NULL: it has none but the files in
 * `directory`.
 */
static bool run_llvm_cov(const struct report *report, const char *verb, const char *first,
                         const char *second, struct capture *capture, const char *directory,
                         struct error *error)
{
    const struct parsed_options *options = report->options;
    struct llvm_command command = {0};
    const char *text;
    bool done = true;

    llvm_command_add(&command, "%s", report->program);
    llvm_command_add(&command, "%s", verb);
    llvm_command_add_file(&command, "", report->mapping.fd, report->mapping.path);
    llvm_command_add_file(&command, "-instr-profile=", report->profile, "the merged profile");
    command.lacks_sources = report->lacks_sources;
    if (capture == NULL)
        llvm_command_add(&command, "-format=html");
    if (first != NULL)
        llvm_command_add(&command, "%s", first);
    if (second != NULL)
        llvm_command_add(&command, "%s", second);
    for (size_t i = 0; (text = option_text_at(options, OPTION_IGNORE_FILES, i)) != NULL; i++)
        llvm_command_add(&command, "-ignore-filename-regex=%s", text);
    if (report->is_selected)
        llvm_command_add_file(&command, "@", report->selection.fd, report->selection.path);
    if (capture == NULL) {
        done = llvm_command_run(&command, -1, directory, error);
    } else {
        *capture = (struct capture){.output.fd = -1, .text.fd = -1};
        done = output_create_in_memory(&capture->output, "the report", error) &&
               output_lend(&capture->output, error) &&
               llvm_command_run(&command, capture->output.fd, capture->output.path, error) &&
               output_take_back(&capture->output, error) &&
               output_map(&capture->output, &capture->text, error);
    }
    llvm_command_free(&command);
    return done;
}

/* ---- formats ---- */

/* Writes to -o, or else to standard output. */
static bool write_result(const struct report *report, struct bytes text, struct error *error)
{
    const char *path = option_text(report->options, OPTION_OUTPUT);
    const struct output_options options = {.mode = file_new_mode()};
    enum output_result result;
    struct output output;
    bool done;

    if (path == NULL)
        return fwrite(text.data, 1, (size_t)text.size, stdout) == text.size ||
               error_set_errno(error, errno, "standard output: cannot be written");
    if (!output_create(&output, path, &options, error))
        return false;
    done = output_write(&output, text, error) && output_commit(&output, &result, error);
    output_discard(&output);
    return done;
}

/* True if what is printed may have colours and bars. */
static bool is_for_terminal(const struct report *report)
{
    return !option_given(report->options, OPTION_OUTPUT) && has_colour(STDOUT_FILENO);
}

/* Appends to a JSON object what --ignore-missing left out. */
static void add_left_out(const struct report *report, struct bytes json, struct buffer *text)
{
    struct bytes rest = buffer_view(&report->left_out), line;
    bool is_first = true;

    while (json.size != 0 && json.data[json.size - 1] != '}')
        json.size--;
    buffer_append(text, json.data, (size_t)json.size - (json.size != 0));
    coverage_print(text, ",\"left_out\":[");
    while (take_line(&rest, &line)) {
        coverage_print(text, "%s\"", is_first ? "" : ",");
        for (uint64_t i = 0; i < line.size; i++)
            coverage_print(text, line.data[i] == '"' || line.data[i] == '\\' ? "\\%c" : "%c",
                           line.data[i]);
        coverage_print(text, "\"");
        is_first = false;
    }
    coverage_print(text, "]}");
}

static bool write_format(struct report *report, struct error *error)
{
    static const char *const first[] = {"-format=lcov", "-format=text", "-format=text",
                                        "-format=lcov"};
    enum report_format format = (enum report_format)option_number(report->options, OPTION_FORMAT);
    const char *second = format == REPORT_SUMMARY ? "-summary-only" : NULL;
    struct coverage coverage = {0};
    struct buffer text = {0};
    struct capture capture;
    bool done = run_llvm_cov(report, "export", first[format], second, &capture, NULL, error);

    if (done && format == REPORT_COBERTURA) {
        done = coverage_read(&coverage, capture.text.bytes, error);
        coverage_write_cobertura(&coverage, report->root, report->newest,
                                 buffer_view(&report->left_out), &text);
    } else if (done && format != REPORT_LCOV && report->left_out.size != 0) {
        add_left_out(report, capture.text.bytes, &text);
    }
    done = done &&
           write_result(report, text.size != 0 ? buffer_view(&text) : capture.text.bytes, error);
    coverage_free(&coverage);
    buffer_free(&text);
    capture_free(&capture);
    return done;
}

static bool write_table(struct report *report, struct error *error)
{
    bool is_summary = option_given(report->options, OPTION_SUMMARY);
    struct coverage coverage = {0};
    struct buffer text = {0};
    struct capture capture;
    bool done = run_llvm_cov(report, is_summary ? "export" : "report",
                             is_summary                ? "-format=lcov"
                             : is_for_terminal(report) ? "-use-color"
                                                       : NULL,
                             NULL, &capture, NULL, error);

    if (done && is_summary) {
        done = coverage_read(&coverage, capture.text.bytes, error);
        coverage_write_summary(&coverage, report->root, is_for_terminal(report), &text);
    } else if (done) {
        buffer_append(&text, capture.text.bytes.data, (size_t)capture.text.bytes.size);
    }
    buffer_append(&text, report->left_out.data, report->left_out.size);
    command_require(!text.failed, text.size);
    done = done && write_result(report, buffer_view(&text), error);
    coverage_free(&coverage);
    buffer_free(&text);
    capture_free(&capture);
    return done;
}

static bool write_html(struct report *report, struct error *error)
{
    const char *directory = option_text(report->options, OPTION_HTML);
    char *option = command_text("-output-dir=%s", directory);
    char *title = report->left_out.size == 0
                      ? NULL
                      : command_text("-project-title=%.*s", (int)report->left_out.size - 1,
                                     (const char *)report->left_out.data);
    bool done = run_llvm_cov(report, "show", option, title, NULL, directory, error);

    free(option);
    free(title);
    return done;
}

/* ---- limits ---- */

static const char *const metrics[] = {"lines", "functions", "regions", "branches"};
#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

/* Takes METRIC=PERCENT apart. False if it is something else. */
static bool read_limit(const char *text, size_t *metric, double *percent)
{
    const char *equals = strchr(text, '=');
    char *end;

    if (equals == NULL)
        return false;
    for (*metric = 0; *metric < METRICS; (*metric)++) {
        if (strlen(metrics[*metric]) == (size_t)(equals - text) &&
            memcmp(text, metrics[*metric], (size_t)(equals - text)) == 0)
            break;
    }
    *percent = strtod(equals + 1, &end);
    return *metric < METRICS && end != equals + 1 && *end == '\0' && *percent >= 0 &&
           *percent <= 100;
}

/* Finds a member of the totals in what `llvm-cov export -summary-only` wrote. */
static bool find_total(struct bytes json, const char *metric, uint64_t *count, uint64_t *covered)
{
    char key[64];
    const char *at = memmem(json.data, (size_t)json.size, "\"totals\":", strlen("\"totals\":"));
    size_t left = at == NULL ? 0 : (size_t)((const char *)json.data + json.size - at);
    char number[64];

    snprintf(key, sizeof(key), "\"%s\":{\"count\":", metric);
    at = left == 0 ? NULL : memmem(at, left, key, strlen(key));
    if (at == NULL)
        return false;
    at += strlen(key);
    left = (size_t)((const char *)json.data + json.size - at);
    snprintf(number, sizeof(number), "%.*s", (int)(left < 60 ? left : 60), at);
    return sscanf(number, "%ju,\"covered\":%ju", count, covered) == 2;
}

static bool check_limit(const char *metric, uint64_t count, uint64_t covered, double percent,
                        struct error *error)
{
    double have = count == 0 ? 100 : (double)covered * 100 / (double)count;
    char all[COUNT_TEXT_MAX], some[COUNT_TEXT_MAX];

    return have >= percent ||
           error_set(error, "%s: %.2f%% covered (%s of %s), and --fail-under wants %g%%", metric,
                     have, number_text(covered, some), number_text(count, all), percent);
}

/* ---- a change ---- */

/* Prints the coverage of the lines that --diff adds, of which --fail-under is then, and how it
 * differs from the baseline. */
static bool report_change(struct report *report, struct error *error)
{
    const char *path = option_text(report->options, OPTION_DIFF), *limit;
    uint64_t size_limit = option_number(report->options, OPTION_MEMORY_LIMIT);
    struct change_coverage change = {0};
    struct coverage coverage = {0}, before = {0};
    struct capture capture = {.output.fd = -1, .text.fd = -1};
    struct input diff = {.fd = -1};
    char added[COUNT_TEXT_MAX], code[COUNT_TEXT_MAX], covered[COUNT_TEXT_MAX];
    bool done = (path == NULL || stream_read_input(&diff, path, memory_limit_given(size_limit),
                                                   NULL, NULL, error)) &&
                run_llvm_cov(report, "export", "-format=lcov", NULL, &capture, NULL, error) &&
                coverage_read(&coverage, capture.text.bytes, error);

    if (done && path != NULL) {
        done = coverage_of_change(&coverage, diff.bytes, stream_name(path), report->root, &change,
                                  error);
        coverage_print(
            &change.table, "%s added, %s with code, %s covered (%.2f%%)\n",
            count_text(change.added, "line", added), number_text(change.with_code, code),
            number_text(change.covered, covered),
            change.with_code == 0 ? 100 : (double)change.covered * 100 / (double)change.with_code);
    }
    if (done && option_given(report->options, OPTION_BASELINE)) {
        done = coverage_read(&before, buffer_view(&report->lines), error);
        coverage_compare(&before, &coverage, path == NULL ? NULL : &diff.bytes, report->root,
                         &change.table);
    }
    buffer_append(&change.table, report->left_out.data, report->left_out.size);
    done = done && write_result(report, buffer_view(&change.table), error);
    for (size_t i = 0; done && path != NULL &&
                       (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL;
         i++) {
        double percent = 0;
        size_t metric;

        read_limit(limit, &metric, &percent);
        done = check_limit("new lines", change.with_code, change.covered, percent, error);
    }
    buffer_free(&change.table);
    coverage_free(&coverage);
    coverage_free(&before);
    capture_free(&capture);
    input_close(&diff);
    return done;
}

/* The `make` of the baseline. */
static bool keep_lines(struct report *report, struct error *error)
{
    struct capture capture;
    bool done = run_llvm_cov(report, "export", "-format=lcov", NULL, &capture, NULL, error);

    if (done)
        command_require(
            buffer_append(&report->lines, capture.text.bytes.data, (size_t)capture.text.bytes.size),
            capture.text.bytes.size);
    capture_free(&capture);
    return done;
}

static bool check_limits(struct report *report, struct error *error)
{
    struct capture capture;
    bool done =
        run_llvm_cov(report, "export", "-format=text", "-summary-only", &capture, NULL, error);
    const char *limit;

    for (size_t i = 0;
         done && (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        uint64_t count, covered;
        double percent = 0;
        size_t metric;

        read_limit(limit, &metric, &percent);
        done = find_total(capture.text.bytes, metrics[metric], &count, &covered)
                   ? check_limit(metrics[metric], count, covered, percent, error)
                   : error_set(error,
                               "--fail-under %s: this llvm-cov does not tell these; give another "
                               "--llvm-cov",
                               limit);
    }
    capture_free(&capture);
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

/* The `make` of the report itself. */
static bool make_report(struct report *report, struct error *error)
{
    const struct parsed_options *options = report->options;

    if (option_given(options, OPTION_DIFF) || option_given(options, OPTION_BASELINE))
        return report_change(report, error);
    return (option_given(options, OPTION_HTML)     ? write_html
            : option_given(options, OPTION_FORMAT) ? write_format
                                                   : write_table)(report, error) &&
           (!option_given(options, OPTION_FAIL_UNDER) || check_limits(report, error));
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
        if (!read_limit(text, &metric, &percent))
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
    command_require(start.root != NULL, 1);
    start.merging.values[OPTION_OUTPUT] = (struct option_value){.given = true, .text = spool};
    start.merging.values[OPTION_FORMAT] = (struct option_value){.given = false};
    start.merging.values[OPTION_INTO] = (struct option_value){.given = false};
    start.merging.values[OPTION_FAILURE_MODE].number =
        option_given(options, OPTION_IGNORE_MISSING) ? 1 : 0;
    report = baseline = start;
    report.make = make_report;
    baseline.make = keep_lines;
    done = other == NULL || (profile_sidecars_open(&baseline.sidecars, options, &error) &&
                             run_report(&baseline, &other, 1, &error));
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
