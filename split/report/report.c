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
    const char **profiles; /* those operands that are no images */
    size_t profile_count;
    struct report_image *images;
    size_t image_count, image_capacity;
    char *root;    /* the current directory */
    char *program; /* llvm-cov */
    int profile;   /* a .profdata file */
    struct output mapping;
    struct output selection; /* the source files to be shown, as a response file */
    bool is_selected;        /* else all of them */
    uint64_t newest;         /* the modification time of the newest profile, in seconds */
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
static bool read_operands(struct report *report, struct error *error)
{
    const struct parsed_options *options = report->options;
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        struct report_image image = {0};
        struct split_image split;
        struct input input;
        struct stat status;
        bool is_image, is_sidecar;

        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
            report->profiles[report->profile_count++] = path;
            continue;
        }
        if (!input_open(&input, path, error))
            return false;
        is_sidecar = sidecar_recognize(input.bytes);
        is_image = !is_sidecar && (image_is_linked(input.bytes) || object_is_packed(input.bytes));
        error->message[0] = '\0';
        error->number = 0;
        if (is_sidecar) {
            image.own = sidecar_read_for(options, path, error);
        } else if (is_image && image_find_split(&input, &split, error)) {
            const struct sidecar_wanted wanted = {.name = path, .image = &split};

            image.own = sidecar_search(&report->sidecars.places, &wanted, error);
        } else if (is_image && !error_is_of_memory(error)) {
            image.own = image_sidecar_make(&input, limit, error);
        }
        input_close(&input);
        image.sidecar = image.own;
        if (!is_image && !is_sidecar)
            report->profiles[report->profile_count++] = path;
        else if (image.own == NULL)
            return false;
        else
            add_image(report, image);
    }
    return true;
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
        bool is_known = false;

        for (size_t j = 0; j < report->image_count; j++)
            is_known |= uuid.size != 0 && uuid_equal(&report->images[j].sidecar->facts.uuid, &uuid);
        if (is_known)
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
    struct union_writer writer = {.sink = output_sink, .context = &report->mapping};
    bool done = output_create_in_memory(&report->mapping, "the coverage mapping", error);

    if (!done)
        return false;
    qsort(report->images, report->image_count, sizeof(*report->images), compare_images);
    writer.name = report->mapping.path;
    for (size_t i = 0; done && i < report->image_count; i++)
        done = union_add(&writer, report->images[i].sidecar, error);
    done = done && union_finish(&writer, error) && output_lend(&report->mapping, error);
    union_free(&writer);
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

/* Selects the source files to be shown: those below the directories of --include, or else below the
 * current one, if there are any. Says how many are left out. */
static bool select_files(struct report *report, struct error *error)
{
    bool is_told = option_given(report->options, OPTION_INCLUDE), done = true;
    struct names files = {0};
    struct buffer list = {0};
    uint64_t selected = 0;

    for (size_t i = 0; done && i < report->image_count; i++)
        done = covered_files_read(report->images[i].sidecar, &files, error);
    for (uint64_t i = 0; i < files.count; i++) {
        struct bytes path = names_get(&files, i);

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
    report->is_selected = selected != 0 && selected != files.count;
    if (done && is_told && selected == 0)
        done = error_set(error, "%s: no source file of the report is there; name another directory",
                         option_text(report->options, OPTION_INCLUDE));
    if (done && report->is_selected && !is_told)
        fprintf(stderr,
                "covsplit: %ju of %ju source files are not below %s and left out; '--include /' "
                "shows all\n",
                (uintmax_t)(files.count - selected), (uintmax_t)files.count, report->root);
    buffer_free(&list);
    names_free(&files);
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
    if (first != NULL)
        llvm_command_add(&command, "%s", first);
    if (second != NULL)
        llvm_command_add(&command, "%s", second);
    for (size_t i = 0; (text = option_text_at(options, OPTION_IGNORE_FILES, i)) != NULL; i++)
        llvm_command_add(&command, "-ignore-filename-regex=%s", text);
    for (size_t i = 0; (text = option_text_at(options, OPTION_PATH_MAP, i)) != NULL; i++) {
        const char *equals = strchr(text, '=');

        llvm_command_add(&command, "-path-equivalence=%.*s,%s", (int)(equals - text), text,
                         equals + 1);
    }
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

/* The text with the paths of --path-map changed, as a new buffer. A path begins behind `mark`. */
static struct buffer map_paths(const struct report *report, struct bytes text, const char *mark)
{
    size_t mark_size = strlen(mark);
    uint64_t at = 0, copied = 0;
    struct buffer mapped = {0};

    while (at < text.size) {
        const uint8_t *found = memmem(text.data + at, (size_t)(text.size - at), mark, mark_size);
        const char *map;

        if (found == NULL)
            break;
        at = (uint64_t)(found - text.data) + mark_size;
        for (size_t i = 0; (map = option_text_at(report->options, OPTION_PATH_MAP, i)) != NULL;
             i++) {
            size_t from = (size_t)(strchr(map, '=') - map);
            char behind = at + from < text.size ? (char)text.data[at + from] : '\n';

            if (from > text.size - at || memcmp(text.data + at, map, from) != 0 ||
                (behind != '/' && behind != '\n' && behind != '"'))
                continue;
            buffer_append(&mapped, text.data + copied, (size_t)(at - copied));
            buffer_append(&mapped, map + from + 1, strlen(map + from + 1));
            at += from;
            copied = at;
            break;
        }
    }
    buffer_append(&mapped, text.data + copied, (size_t)(text.size - copied));
    command_require(!mapped.failed, text.size);
    return mapped;
}

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

static bool write_format(const struct report *report, enum report_format format,
                         struct error *error)
{
    static const char *const first[] = {"-format=lcov", "-format=text", "-format=text",
                                        "-format=lcov"};
    const char *second = format == REPORT_SUMMARY ? "-summary-only" : NULL;
    bool is_lines = format == REPORT_LCOV || format == REPORT_COBERTURA;
    struct coverage coverage = {0};
    struct buffer mapped = {0}, xml = {0};
    struct capture capture;
    bool done = run_llvm_cov(report, "export", first[format], second, &capture, NULL, error);

    if (done)
        mapped = map_paths(report, capture.text.bytes, is_lines ? "SF:" : "\"");
    if (done && format == REPORT_COBERTURA) {
        done = coverage_read(&coverage, buffer_view(&mapped), error);
        coverage_write_cobertura(&coverage, report->root, report->newest, &xml);
    }
    done = done &&
           write_result(report, buffer_view(format == REPORT_COBERTURA ? &xml : &mapped), error);
    coverage_free(&coverage);
    buffer_free(&mapped);
    buffer_free(&xml);
    capture_free(&capture);
    return done;
}

static bool write_table(const struct report *report, struct error *error)
{
    struct capture capture;
    bool done = run_llvm_cov(report, "report", NULL, NULL, &capture, NULL, error) &&
                write_result(report, capture.text.bytes, error);

    capture_free(&capture);
    return done;
}

static bool write_html(const struct report *report, const char *directory, struct error *error)
{
    char *option = command_text("-output-dir=%s", directory);
    bool done = run_llvm_cov(report, "show", "-format=html", option, NULL, directory, error);

    free(option);
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

/* Prints the coverage of the lines that --diff adds. With it, --fail-under is of these. */
static bool report_change(const struct report *report, struct error *error)
{
    const char *path = option_text(report->options, OPTION_DIFF), *limit;
    uint64_t size_limit = option_number(report->options, OPTION_MEMORY_LIMIT);
    struct change_coverage change = {0};
    struct coverage coverage = {0};
    struct capture capture = {.output.fd = -1, .text.fd = -1};
    struct input diff = {.fd = -1};
    struct buffer mapped = {0};
    bool done = stream_read_input(&diff, path, memory_limit_given(size_limit), NULL, NULL, error) &&
                run_llvm_cov(report, "export", "-format=lcov", NULL, &capture, NULL, error);
    char added[COUNT_TEXT_MAX], code[COUNT_TEXT_MAX], covered[COUNT_TEXT_MAX];

    if (done) {
        mapped = map_paths(report, capture.text.bytes, "SF:");
        done = coverage_read(&coverage, buffer_view(&mapped), error) &&
               coverage_of_change(&coverage, diff.bytes, stream_name(path), report->root, &change,
                                  error);
    }
    if (done) {
        fwrite(change.table.data, 1, change.table.size, stdout);
        printf("%s added, %s with code, %s covered (%.2f%%)\n",
               count_text(change.added, "line", added), number_text(change.with_code, code),
               number_text(change.covered, covered),
               change.with_code == 0 ? 100
                                     : (double)change.covered * 100 / (double)change.with_code);
    }
    for (size_t i = 0;
         done && (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        double percent = 0;
        size_t metric;

        read_limit(limit, &metric, &percent);
        done = check_limit("new lines", change.with_code, change.covered, percent, error);
    }
    buffer_free(&change.table);
    coverage_free(&coverage);
    buffer_free(&mapped);
    capture_free(&capture);
    input_close(&diff);
    return done;
}

static bool check_limits(const struct report *report, struct error *error)
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

/* Says what is left out with --ignore-missing. Other bad profiles are errors. */
static bool check_left_out(const struct report *report, const struct merge *merge,
                           struct error *error)
{
    uint64_t lacking = 0;
    char hex[UUID_HEX_MAX], count[COUNT_TEXT_MAX];

    (void)report;
    for (size_t i = 0; i < merge->lacking_count; i++) {
        message_warning("%s of the image with UUID %s left out, such as %s: no sidecar of it was "
                        "found, so the report lacks the image",
                        count_text(merge->lacking[i].profile_count, "profile", count),
                        uuid_format(&merge->lacking[i].uuid, hex), merge->lacking[i].first);
        lacking += merge->lacking[i].profile_count;
    }
    if (merge->failure_count > lacking) {
        *error = merge->failures[0].error;
        return false;
    }
    return true;
}

/* A merge_reader. */
static bool make_report(void *context, const struct merge *merge, int profile, struct error *error)
{
    struct report *report = context;
    const struct parsed_options *options = report->options;
    const char *directory = option_text(options, OPTION_HTML);
    struct stat status;

    report->profile = profile;
    for (size_t i = 0; i < merge->inputs->count; i++) {
        if (stat(merge->inputs->paths[i], &status) == 0 && status.st_mtime > 0 &&
            (uint64_t)status.st_mtime > report->newest)
            report->newest = (uint64_t)status.st_mtime;
    }
    report->program = llvm_tool_find(LLVM_COV, option_text(options, OPTION_LLVM_COV),
                                     merge->groups.list[0]->version, error);
    if (report->program == NULL || !check_left_out(report, merge, error) ||
        !add_merged(report, merge, error) ||
        (option_given(options, OPTION_ALL) &&
         (!store_list_walk(&report->sidecars.places.store, add_stored, report, error) ||
          !store_list_walk(&report->sidecars.places.environment, add_stored, report, error))))
        return false;
    if (report->image_count == 0)
        return error_set(error,
                         "%s: its image has no coverage mapping; build it with "
                         "-fcoverage-mapping for reports",
                         merge->groups.list[0]->name);
    if (!make_union(report, error) || !select_files(report, error))
        return false;
    if (option_given(options, OPTION_DIFF))
        return report_change(report, error);
    if (directory != NULL ? !write_html(report, directory, error)
        : option_given(options, OPTION_FORMAT)
            ? !write_format(report, (enum report_format)option_number(options, OPTION_FORMAT),
                            error)
            : !write_table(report, error))
        return false;
    return !option_given(options, OPTION_FAIL_UNDER) || check_limits(report, error);
}

int report_check_usage(const struct parsed_options *options)
{
    const char *text;
    size_t metric;
    double percent;

    for (size_t i = 0; (text = option_text_at(options, OPTION_PATH_MAP, i)) != NULL; i++) {
        if (text[0] == '=' || strchr(text, '=') == NULL)
            return message_usage(options->command->name, "'--path-map %s' is not FROM=TO", text);
    }
    for (size_t i = 0; (text = option_text_at(options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        if (!read_limit(text, &metric, &percent))
            return message_usage(options->command->name,
                                 "'--fail-under %s' is not METRIC=PERCENT, with lines, functions, "
                                 "regions or branches",
                                 text);
        if (option_given(options, OPTION_DIFF) && metric != 0)
            return message_usage(options->command->name,
                                 "with '--diff', '--fail-under' is of lines");
    }
    if (option_given(options, OPTION_DIFF) && option_given(options, OPTION_OUTPUT))
        return message_usage(options->command->name, "'--output' is not for '--diff'");
    if (option_given(options, OPTION_HTML) && option_given(options, OPTION_OUTPUT))
        return message_usage(options->command->name, "'--output' is not for '--html'");
    return STATUS_DONE;
}

int command_report(const struct parsed_options *options)
{
    struct report report = {
        .options = options, .merging = *options, .mapping = {.fd = -1}, .selection = {.fd = -1}};
    const char *temporary = getenv("TMPDIR");
    struct error error = {0};
    int status = report_check_usage(options);
    char *spool;
    bool done;

    if (status != STATUS_DONE)
        return status;
    /* merge puts unnamed files there. */
    spool =
        command_text("%s/profiles", temporary == NULL || temporary[0] == '\0' ? "/tmp" : temporary);
    report.root = current_directory();
    command_require(report.root != NULL, 1);
    report.profiles = command_array(options->operand_count, sizeof(*report.profiles));
    report.merging.values[OPTION_OUTPUT] = (struct option_value){.given = true, .text = spool};
    report.merging.values[OPTION_FORMAT] = (struct option_value){.given = false};
    report.merging.values[OPTION_FAILURE_MODE].number =
        option_given(options, OPTION_IGNORE_MISSING) ? 1 : 0;
    done =
        profile_sidecars_open(&report.sidecars, options, &error) && read_operands(&report, &error);
    if (done && report.profile_count == 0)
        done = error_set(&error, "%s: an image, and no profile is named; name the profiles, too",
                         options->operands[0]);
    done = done && merge_for_reader(&report.merging, report.profiles, report.profile_count,
                                    &report.sidecars, make_report, &report, &error);
    if (!done)
        message_error(&error);
    for (size_t i = 0; i < report.image_count; i++) {
        sidecar_close(report.images[i].own);
        profile_sidecars_release(&report.sidecars, report.images[i].found);
    }
    free(report.images);
    free(report.profiles);
    free(report.program);
    free(report.root);
    output_discard(&report.mapping);
    output_discard(&report.selection);
    profile_sidecars_close(&report.sidecars);
    free(spool);
    return done ? STATUS_DONE : STATUS_FAILED;
}
