/*
 * covsplit store add and store copy copy sidecars from anywhere, or from another store, which may
 * be at a URL, into a store; covsplit store list lists those of a store.
 *
 * A sidecar that is copied is read into memory, checked and copied from there, so later changes to
 * the source do not matter. The store may have many writers (store/store.h). A sidecar that it
 * already has is kept if it has the same contents, whether compact or not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"
#include "common/remote/store_list.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/images.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

struct copying {
    const struct parsed_options *options;
    const char *store;            /* the destination */
    struct selection selection;   /* which sidecars to copy */
    const struct uuid *from_uuid; /* its UUID in the source store; NULL: none */
    uint64_t added, size, same, passed_over, faults;
};

/* A sidecar being copied, and what the store has under its UUID. */
struct copy {
    const char *path; /* the source */
    struct sidecar *sidecar;
    char *target;
    struct output output;
};

/* ---- what the store has ---- */

enum presence {
    PRESENCE_FAULT,
    PRESENCE_NONE,
    PRESENCE_SAME,
    PRESENCE_OTHER,
};

/* The user may remove the added sidecar afterwards. So the one in the store is decoded, unless it
 * has the same bytes: only its start is sealed, and the rest may be damaged. PRESENCE_OTHER is
 * everything that is not known to serve as well. */
static enum presence look(const struct copying *copying, const struct copy *copy,
                          struct error *error)
{
    struct sidecar *existing = sidecar_read(copy->target, error);
    bool has_same_bytes, serves;
    struct stat status;

    if (existing == NULL) {
        /* A dangling link takes the name too. What another process has added since is found by the
         * next attempt, as the name is taken then. */
        if (error->number == ENOENT &&
            !(lstat(copy->target, &status) == 0 && S_ISLNK(status.st_mode)))
            return PRESENCE_NONE;
        return error->number == 0 || error->number == ENOENT ? PRESENCE_OTHER : PRESENCE_FAULT;
    }
    *error = (struct error){.number = 0};
    sidecar_set_up(existing, copying->options);
    has_same_bytes = bytes_equal(existing->input.bytes, copy->sidecar->input.bytes);
    serves = sidecar_holds_same(existing, copy->sidecar) &&
             ((has_same_bytes && !option_given(copying->options, OPTION_VERIFY)) ||
              sidecar_verify(existing, error));
    sidecar_close(existing);
    return serves ? PRESENCE_SAME : error_is_of_memory(error) ? PRESENCE_FAULT : PRESENCE_OTHER;
}

static bool refuse_other(const struct copy *copy, struct error *error)
{
    struct error why = *error;
    char hex[UUID_HEX_MAX];

    uuid_format(&copy->sidecar->facts.uuid, hex);
    if (why.message[0] != '\0')
        return error_set(
            error,
            "%.300s: not added: the store has something unusable under the UUID %s (%.500s); "
            "give --replace",
            copy->path, hex, why.message);
    return error_set(
        error,
        "%.400s: not added: the store has a different sidecar of UUID %s, %.400s; give "
        "--replace, or another store",
        copy->path, hex, copy->target);
}

/* ---- one sidecar ---- */

/* A delta is copied as a whole sidecar, which is made in memory. */
static bool make_whole(struct copy *copy, struct error *error)
{
    const struct sidecar_write_options options = {
        .level = CODEC_LEVEL_DEFAULT, .threads = 1, .portable = !sidecar_is_compact(copy->sidecar)};
    struct output output = {.fd = -1};
    struct sidecar *whole = NULL;

    if (output_create_in_memory(&output, copy->path, error) &&
        sidecar_repack(copy->sidecar, &options, &output, error))
        whole = sidecar_read_back(&output, error);
    output_discard(&output);
    if (whole == NULL)
        return false;
    sidecar_close(copy->sidecar);
    copy->sidecar = whole;
    return true;
}

/* Copies into an unnamed file, and checks the copy. */
static bool write_copy(struct copy *copy, struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct input written = {.fd = -1};
    bool done;

    if (copy->output.path != NULL)
        return true;
    if (copy->sidecar->base.is_needed && !make_whole(copy, error))
        return false;
    done = store_output_create(&copy->output, copy->target, &options, error) &&
           output_write(&copy->output, copy->sidecar->input.bytes, error) &&
           output_map(&copy->output, &written, error);
    if (done && !bytes_equal(written.bytes, copy->sidecar->input.bytes))
        done = error_set(error, "%s: was changed while it was written; run again", copy->target);
    input_close(&written);
    return done;
}

static bool add(struct copying *copying, struct copy *copy, bool *is_same, struct error *error)
{
    bool replaces = option_given(copying->options, OPTION_REPLACE);

    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS; attempt++) {
        enum presence presence = look(copying, copy, error);
        enum output_result result;

        *is_same = presence == PRESENCE_SAME;
        if (*is_same)
            return true;
        if (presence == PRESENCE_FAULT)
            return false;
        if (presence == PRESENCE_OTHER && !replaces)
            return refuse_other(copy, error);
        if (!write_copy(copy, error) ||
            !store_output_commit(&copy->output, presence == PRESENCE_OTHER, &result, error))
            return false;
        if (result != OUTPUT_NAME_TAKEN)
            return true;
    }
    return error_set(
        error,
        "%s: other processes keep adding and removing it; run again when none removes sidecars",
        copy->target);
}

/* A sidecar is found in a store by its UUID, so the stripped image must contain that. */
static bool check(const struct copying *copying, const struct copy *copy, struct error *error)
{
    const struct sidecar_facts *facts = &copy->sidecar->facts;

    if (copying->from_uuid != NULL &&
        !store_check_uuid(copy->path, &facts->uuid, copying->from_uuid, error))
        return false;
    if (facts->uuid_source != UUID_FROM_BUILD_ID && !facts->has_stub)
        return error_set(error,
                         "%s: its stripped image has no UUID by which it could be found in a "
                         "store; use it with --sidecar",
                         copy->path);
    return !option_given(copying->options, OPTION_VERIFY) || sidecar_verify(copy->sidecar, error);
}

/* Build rules write a sidecar for every image. That of an image without coverage is of no use in a
 * store, and an export of the whole store would fail with it. */
static bool is_wanted(struct copying *copying, const struct copy *copy)
{
    const struct sidecar_facts *facts = &copy->sidecar->facts;

    if (!selection_has(&copying->selection, &facts->uuid, copy->sidecar->image_name))
        return false;
    if (facts->is_placeholder)
        message_warning("%s: skipped: a placeholder, which holds nothing", copy->path);
    else if (!sidecar_holds_nothing(copy->sidecar) ||
             !digest_equal(&facts->original_digest, &facts->stripped_digest))
        return true;
    else if (option_given(copying->options, OPTION_VERBOSE))
        message_line(stdout, "%s: skipped: nothing was taken out of its image", copy->path);
    copying->passed_over++;
    return false;
}

static bool copy_read(struct copying *copying, struct copy *copy, struct error *error)
{
    bool is_verbose = option_given(copying->options, OPTION_VERBOSE), is_same;

    sidecar_set_up(copy->sidecar, copying->options);
    if (!is_wanted(copying, copy))
        return true;
    copy->target = store_path(copying->store, &copy->sidecar->facts.uuid);
    exit_unless_allocated(copy->target != NULL, strlen(copying->store));
    if (!check(copying, copy, error) || !add(copying, copy, &is_same, error))
        return false;
    if (is_verbose)
        message_line(stdout, is_same ? "%s: already there: %s" : "%s: added as %s", copy->path,
                     copy->target);
    copying->same += is_same;
    copying->added += !is_same;
    copying->size += is_same ? 0 : copy->sidecar->input.bytes.size;
    return true;
}

/* Copies a sidecar; a failure does not affect the others. */
static void copy_sidecar(struct copying *copying, const char *path)
{
    struct copy copy = {.path = path, .output = {.fd = -1}};
    struct error error;
    bool done;

    copy.sidecar = sidecar_read(path, &error);
    done = copy.sidecar != NULL ? copy_read(copying, &copy, &error)
                                /* It may have been removed from the store meanwhile. */
                                : copying->from_uuid != NULL && error.number == ENOENT;
    output_discard(&copy.output);
    sidecar_close(copy.sidecar);
    free(copy.target);
    if (done)
        return;
    message_error(&error);
    copying->faults++;
}

static int finish(const struct copying *copying)
{
    char size[HUMAN_SIZE_MAX];
    char added[COUNT_TEXT_MAX], same[COUNT_TEXT_MAX], skipped[COUNT_TEXT_MAX];

    printf("%s added, %s; %s already there, %s skipped\n",
           count_text(copying->added, "sidecar", added), human_size(copying->size, size),
           number_text(copying->same, same), number_text(copying->passed_over, skipped));
    return copying->faults == 0 ? STATUS_DONE : STATUS_FAILED;
}

int command_store_add(const struct parsed_options *options)
{
    struct copying copying = {.options = options, .store = options->operands[0]};
    struct path_list files = {0};

    sidecar_files_add(&files, options->operands + 1, options->operand_count - 1, &copying.faults);
    for (size_t i = 0; i < files.count; i++)
        copy_sidecar(&copying, files.paths[i]);
    path_list_free(&files);
    return finish(&copying);
}

/* A store_visitor. */
static bool copy_stored(void *context, const char *path, const struct uuid *uuid,
                        struct error *error)
{
    struct copying *copying = context;

    (void)error;
    if (!copying->selection.needs_names && !selection_has(&copying->selection, uuid, NULL))
        return true;
    copying->from_uuid = uuid;
    copy_sidecar(copying, path);
    return true;
}

/* A path_filter. */
static bool is_profile_name(void *context, const char *path, const struct stat *status)
{
    const char *dot = strrchr(path, '.');

    (void)context;
    (void)status;
    return dot != NULL && (strcmp(dot, ".profraw") == 0 || strcmp(dot, ".profdata") == 0);
}

/* An operand_visitor: the same for a profile, or all of a directory. */
static bool add_profiles(void *context, const char *path, struct error *error)
{
    struct path_list files = {0};
    bool done = true;

    if (!path_is_directory(path))
        path_list_add(&files, path);
    else
        done = path_list_add_directory(&files, path, true, is_profile_name, NULL, error);
    if (done && files.count == 0)
        done = error_set(
            error, "%s: no profile (.profraw, .profdata) in it; give one with profiles", path);
    for (size_t i = 0; done && i < files.count; i++)
        done = uuid_list_add_file(context, files.paths[i], true, error);
    path_list_free(&files);
    return done;
}

/* Copies from a store at a URL, which has no list, the sidecars of these UUIDs. */
static bool copy_remote(struct copying *copying, const struct store_list *list,
                        const struct uuid_list *uuids, struct error *error)
{
    const char *url = list->stores[0].name;
    char hex[UUID_HEX_MAX];
    bool done =
        uuids->count != 0 ||
        error_set(error,
                  "%s: a URL cannot be asked which sidecars it has; name UUIDs, or profiles "
                  "with --for",
                  url);

    if (done)
        store_list_fetch(list, uuids->items, uuids->count);
    for (size_t i = 0; done && i < uuids->count; i++) {
        struct store_match match = {0};

        if (store_list_find(list, &uuids->items[i], STORE_EXACT, &match, error) &&
            (match.path != NULL ||
             error_set(error, "%s: has no sidecar of UUID %s; give another store", url,
                       uuid_format(&uuids->items[i], hex)))) {
            done = copy_stored(copying, match.path, &uuids->items[i], error);
        } else {
            message_error(error);
            copying->faults++;
        }
        free(match.path);
    }
    return done;
}

/* Opens the source and the selection. Of a URL, patterns are UUIDs. */
static bool open_copying(struct copying *copying, struct store_list *list, struct uuid_list *uuids,
                         struct path_list *patterns, struct error *error)
{
    const struct parsed_options *options = copying->options;
    uint64_t most = memory_limit_given(option_number(options, OPTION_MEMORY_LIMIT));
    const char *profile;
    char hex[UUID_HEX_MAX];

    if (!store_list_open(list, options->operands[0], STORE_LIST_ONE, most, error) ||
        !store_check_directory(copying->store, error))
        return false;
    uuids->takes_whole = store_list_is_remote(list);
    for (size_t i = 0; (profile = option_text_at(options, OPTION_FOR, i)) != NULL; i++) {
        if (!operand_visit(profile, add_profiles, uuids, error))
            return false;
    }
    for (size_t i = 0; i < uuids->count; i++)
        path_list_add(patterns, uuid_format(&uuids->items[i], hex));
    for (size_t i = 2; i < options->operand_count; i++) {
        path_list_add(patterns, options->operands[i]);
        if (!store_list_is_remote(list))
            continue;
        COMMAND_ROOM_FOR_ONE(uuids->items, uuids->capacity, uuids->count);
        if (!uuid_parse(options->operands[i], &uuids->items[uuids->count++]))
            return error_set(error, "%s: not a UUID; a URL is asked for whole ones only",
                             options->operands[i]);
    }
    return selection_open(&copying->selection, (const char *const *)patterns->paths,
                          patterns->count, error);
}

int command_store_copy(const struct parsed_options *options)
{
    struct copying copying = {.options = options, .store = options->operands[1]};
    struct path_list patterns = {0};
    struct uuid_list uuids = {0};
    struct store_list list = {0};
    struct error error;
    bool done = open_copying(&copying, &list, &uuids, &patterns, &error);

    if (done && store_list_is_remote(&list))
        done = copy_remote(&copying, &list, &uuids, &error);
    else if (done)
        done = store_walk(list.count == 0 ? "" : list.stores[0].directory, copy_stored, &copying,
                          &error);
    if (!done)
        message_error(&error);
    else if (copying.faults == 0)
        copying.faults += selection_report_unused(&copying.selection, options->operands[0], true);
    selection_close(&copying.selection);
    store_list_close(&list);
    path_list_free(&patterns);
    free(uuids.items);
    return done ? finish(&copying) : STATUS_FAILED;
}

/* ---- listing ---- */

struct listing {
    struct facts rows;
    struct selection selection;
    uint64_t count;
    uint64_t original_size; /* bytes; sum of all sidecars */
    uint64_t stripped_size;
    uint64_t sidecar_size, whole_size;
    uint64_t deltas;
    bool has_failed; /* some sidecar cannot be read, or a pattern matches none */
};

#define DATE_MAX 32

/* Writes "2026-11-21T01:13:11Z" into text[DATE_MAX] and returns it. */
static const char *format_date(time_t moment, char *text)
{
    struct tm parts;

    if (gmtime_r(&moment, &parts) == NULL ||
        strftime(text, DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
    return text;
}

/* A store_visitor. Only headers and notes are read. */
static bool list_sidecar(void *context, const char *path, const struct uuid *uuid,
                         struct error *error)
{
    struct listing *listing = context;
    struct facts *rows = &listing->rows;
    struct error fault;
    struct sidecar *sidecar = sidecar_map(path, &fault);
    struct stat status;
    char hex[UUID_HEX_MAX];

    (void)error;
    if (sidecar == NULL && (lstat(path, &status) == 0 || errno != ENOENT)) {
        message_error(&fault);
        listing->has_failed = true;
    } else if (sidecar != NULL && selection_has(&listing->selection, uuid, sidecar->image_name)) {
        const struct sidecar_facts *facts = &sidecar->facts;
        const struct input *file = &sidecar->input;
        uint64_t whole_size = sidecar->base.is_needed ? sidecar->base.whole_size : file->bytes.size;
        char machine[MACHINE_TEXT_MAX], date[DATE_MAX], base[DIGEST_HEX_MAX];

        /* Keys that come from the sidecar are those of `covsplit show --json`. */
        rows_begin_row(rows);
        if (rows->json != NULL)
            json_string(rows->json, "file", path);
        facts_text(rows, "uuid", NULL, uuid_format(uuid, hex));
        facts_text(rows, "image_name", NULL,
                   sidecar->image_name[0] == '\0' ? NULL : sidecar->image_name);
        facts_text(rows, "format", NULL, image_format_name(facts->format));
        facts_text(rows, "machine", NULL, machine_text(facts, machine));
        facts_text(rows, "modified", NULL, format_date(file->status.st_mtime, date));
        facts_size(rows, "original_size", NULL, facts->original_size);
        facts_size(rows, "stripped_size", NULL, facts->stripped_size);
        facts_size(rows, "file_size", NULL, file->bytes.size);
        if (rows->json != NULL || sidecar->base.is_needed)
            facts_size(rows, "whole_size", NULL, whole_size);
        else
            facts_text(rows, "whole_size", NULL, NULL);
        facts_text(rows, "base", NULL,
                   sidecar->base.is_needed ? digest_format(&sidecar->base.digest, base) : NULL);
        rows_end_row(rows);
        listing->count++;
        listing->original_size += sidecar->facts.original_size;
        listing->stripped_size += sidecar->facts.stripped_size;
        listing->sidecar_size += file->bytes.size;
        listing->whole_size += whole_size;
        listing->deltas += sidecar->base.is_needed;
    }
    sidecar_close(sidecar);
    return true;
}

int command_store_list(const struct parsed_options *options)
{
    static const struct table_column columns[] = {
        {"UUID", TABLE_LEFT},      {"image", TABLE_LEFT},    {"format", TABLE_LEFT},
        {"machine", TABLE_LEFT},   {"added", TABLE_LEFT},    {"original", TABLE_RIGHT},
        {"stripped", TABLE_RIGHT}, {"sidecar", TABLE_RIGHT}, {"whole", TABLE_RIGHT},
        {"base", TABLE_LEFT},
    };
    struct json_writer array = {.stream = stdout};
    struct json_writer *json = option_given(options, OPTION_JSON) ? &array : NULL;
    struct listing listing = {.count = 0};
    char original[HUMAN_SIZE_MAX], stripped[HUMAN_SIZE_MAX], sidecars[HUMAN_SIZE_MAX];
    char count[COUNT_TEXT_MAX];
    const char *directory = options->operands[0];
    struct error error;
    bool done = selection_open(&listing.selection, options->operands + 1,
                               options->operand_count - 1, &error);

    if (done) {
        rows_begin(&listing.rows, json, NULL, columns, sizeof(columns) / sizeof(columns[0]), 0);
        done = store_walk(directory, list_sidecar, &listing, &error);
        if (done || json != NULL)
            rows_end(&listing.rows);
        else
            table_free(listing.rows.table);
    }
    /* The totals are computed from exact sizes; those in the table are rounded. */
    if (done && json == NULL)
        printf("%s of %s; images of %s before, %s after\n",
               count_text(listing.count, "sidecar", count),
               human_size(listing.sidecar_size, sidecars),
               human_size(listing.original_size, original),
               human_size(listing.stripped_size, stripped));
    if (done && json == NULL && listing.deltas != 0)
        printf("%s; as whole sidecars they would all take %s\n",
               count_text(listing.deltas, "delta", count),
               human_size(listing.whole_size, sidecars));
    if (!done)
        message_error(&error);
    else if (!listing.has_failed &&
             selection_report_unused(&listing.selection, directory, true) != 0)
        listing.has_failed = true;
    selection_close(&listing.selection);
    return done && !listing.has_failed ? STATUS_DONE : STATUS_FAILED;
}
