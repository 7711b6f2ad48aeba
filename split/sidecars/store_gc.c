/*
 * covsplit store gc: removes sidecars that are no longer needed.
 *
 * It decides by file names and times alone, so it is as quick for large sidecars as for small ones;
 * sidecars are opened only to choose them by the names of their images. Splits may write to the
 * store meanwhile. Their sidecars are younger than the time limit, which is fixed when gc starts;
 * and the time of a file is read right before it is removed, so that a file which has just been
 * replaced stays. Between those two system calls a file could still be replaced and the new one be
 * removed: no file system can unlink by inode. A split that finds its sidecar in the store relies
 * on it, as if the split had ended before gc began.
 *
 * Then the bases go that no delta needs (cli/bases.h). Those that seem to are renamed first,
 * and deltas are looked for once more: who makes one has given the base a new time right
 * before. If that was earlier than the first look, the base is not renamed; if it was between that
 * and the renaming, the second look sees the time; and it fails after that.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/sidecar/delta.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "split/cli/bases.h"
#include "split/cli/commands.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

#define SECONDS_A_DAY   86400
#define DIRECTORY_COUNT 256
#define TICK_PAUSES     100

struct cleaning {
    struct keep_list keep;
    struct selection selection; /* which sidecars may be removed */
    bool has_keep_list;
    bool is_dry;
    struct timespec sidecar_limit;   /* sidecars written later stay */
    struct timespec temporary_limit; /* the same for the files of killed writers */
    uint64_t removed_count;
    uint64_t removed_size; /* bytes */
    uint64_t kept_count;
    bool has_failed; /* something could not be removed */
};

/* ---- what goes ---- */

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* A moment after which files get later times. Those are by the exact clock, or by one that is up to
 * a tick behind (since Linux 6.13 either), so this waits for a tick: then no file was given a later
 * time before, and none is given an earlier one from now on. If clocks are set back meanwhile, the
 * earlier moment is safe. */
static struct timespec start_moment(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct timespec exact, coarse;

    clock_gettime(CLOCK_REALTIME, &exact);
    for (unsigned i = 0; i < TICK_PAUSES; i++) {
        clock_gettime(CLOCK_REALTIME_COARSE, &coarse);
        if (is_later(&coarse, &exact))
            return exact;
        nanosleep(&pause, NULL);
    }
    return coarse;
}

/* The name of the image is in the sidecar. A sidecar that cannot be read stays: it is unknown
 * whether it was chosen. */
static bool is_chosen_by_name(struct cleaning *cleaning, const struct store_entry *entry)
{
    struct error error;
    struct sidecar *sidecar = sidecar_map(entry->path, &error);
    bool chosen = false;

    if (sidecar != NULL) {
        chosen = selection_has(&cleaning->selection, &entry->uuid, sidecar->image_name);
    } else if (error.number != ENOENT) {
        message_error(&error);
        cleaning->has_failed = true;
    }
    sidecar_close(sidecar);
    return chosen;
}

static bool is_chosen(struct cleaning *cleaning, const struct store_entry *entry)
{
    if (entry->kind != STORE_SIDECAR)
        return entry->kind != STORE_STRAY;
    return (cleaning->selection.needs_names
                ? is_chosen_by_name(cleaning, entry)
                : selection_has(&cleaning->selection, &entry->uuid, NULL)) &&
           !(cleaning->has_keep_list && keep_list_has(&cleaning->keep, &entry->uuid));
}

static void report_failure(struct cleaning *cleaning, const struct store_entry *entry,
                           const char *what)
{
    struct error error;

    if (errno == ENOENT) /* another process removed it first */
        return;
    error_set_errno(&error, errno, "%s: %s", entry->path, what);
    message_error(&error);
    cleaning->has_failed = true;
    cleaning->kept_count += entry->kind == STORE_SIDECAR;
}

static bool clean_entry(void *context, const struct store_entry *entry, struct error *error)
{
    struct cleaning *cleaning = context;
    bool is_sidecar = entry->kind == STORE_SIDECAR, stays = !is_chosen(cleaning, entry);
    const struct timespec *limit =
        is_sidecar ? &cleaning->sidecar_limit : &cleaning->temporary_limit;
    struct stat status;

    (void)error;
    if (!stays && lstat(entry->path, &status) != 0) {
        report_failure(cleaning, entry, "cannot be examined");
    } else if (stays || is_later(&status.st_mtim, limit)) {
        cleaning->kept_count += is_sidecar;
    } else if (cleaning->is_dry || unlink(entry->path) == 0) {
        message_line(stdout, "%s %s%s", cleaning->is_dry ? "would remove" : "removed", entry->path,
                     is_sidecar ? "" : " (left by a split that was killed)");
        cleaning->removed_count += is_sidecar;
        cleaning->removed_size += is_sidecar ? (uint64_t)status.st_size : 0;
    } else {
        report_failure(cleaning, entry, "cannot be removed");
    }
    return true;
}

/* Directories that are not empty are left alone. A split that was about to write to a removed one
 * makes it again. */
static void remove_empty_directories(const char *directory)
{
    char *root = store_root(directory);

    exit_unless_allocated(root != NULL, strlen(directory));
    for (unsigned first = 0; first < DIRECTORY_COUNT; first++) {
        char *path = command_text("%s/%02x", root, first);

        rmdir(path);
        free(path);
    }
    free(root);
}

/* ---- bases ---- */

/* A store_entry_visitor. Fails if it is not known whether a sidecar is a delta; also one that
 * is where no search finds it, since it may be put where it belongs. */
static bool add_needed(void *context, const struct store_entry *entry, struct error *error)
{
    struct digest_set *needed = context;
    struct sidecar *sidecar = NULL;
    struct input input;
    bool done;

    if (entry->kind == STORE_TEMPORARY)
        return true;
    done = input_open(&input, entry->path, error);
    if (!done && error->number == ENOENT)
        return true;
    if (done)
        sidecar = sidecar_open(input.bytes, entry->path, error);
    if (sidecar != NULL && sidecar->base.is_needed)
        exit_unless_allocated(digest_set_add(needed, &sidecar->base.digest), sizeof(*needed));
    done = sidecar != NULL || (done && !sidecar_recognize(input.bytes));
    sidecar_close(sidecar);
    input_close(&input);
    return done;
}

/* Finds the bases of the deltas in a store. */
static bool find_needed(struct digest_set *needed, const char *store)
{
    struct error error;

    if (store_scan(store, add_needed, needed, &error))
        return true;
    message_warning("%.900s; all bases stay", error.message);
    return false;
}

/* Gives bases that no delta needs their second name. */
static bool put_aside(struct cleaning *cleaning, const char *store, const char *directory,
                      struct error *error)
{
    struct directory_names names = {0};
    struct digest_set needed = {0};
    bool done = bases_list(directory, &names, error);
    bool is_known = done && names.count != 0 && find_needed(&needed, store);

    for (size_t i = 0; is_known && i < names.count; i++) {
        char *path = command_text("%s/%s", directory, names.items[i]);
        char *aside = command_text("%s" DELTA_ASIDE_SUFFIX, path);
        struct digest digest;
        struct stat status;

        if (bases_parse_name(names.items[i], &digest) && !digest_set_has(&needed, &digest) &&
            stat(path, &status) == 0 && !is_later(&status.st_atim, &cleaning->temporary_limit)) {
            if (cleaning->is_dry)
                message_line(stdout, "would remove %s (a base that no sidecar needs)", path);
            else
                rename(path, aside);
        }
        free(aside);
        free(path);
    }
    digest_set_free(&needed);
    directory_names_free(&names);
    return done;
}

static bool is_aside(const char *name)
{
    const char *end = strrchr(name, '.');

    return end != NULL && strcmp(end, DELTA_ASIDE_SUFFIX) == 0;
}

/* Removes what was put aside, now or by a gc that was killed, unless it is needed after all. */
static bool clean_bases(struct cleaning *cleaning, const char *store, struct error *error)
{
    char *directory = bases_directory(store);
    struct directory_names names = {0};
    struct digest_set needed = {0};
    bool done = put_aside(cleaning, store, directory, error) &&
                store_read_names(directory, is_aside, &names, error);
    bool is_known = done && !cleaning->is_dry && names.count != 0 && find_needed(&needed, store);

    for (size_t i = 0; done && !cleaning->is_dry && i < names.count; i++) {
        char *aside = command_text("%s/%s", directory, names.items[i]);
        char *path = command_copy(aside), *sample, bytes[COUNT_TEXT_MAX];
        const struct store_entry entry = {.kind = STORE_TEMPORARY, .path = path};
        struct digest digest;
        struct stat status;

        *strrchr(path, '.') = '\0';
        sample = command_text("%s" BASES_SAMPLE_SUFFIX, path);
        if (!bases_parse_name(path_file_name(path), &digest) || stat(aside, &status) != 0)
            ;
        else if (!is_known || digest_set_has(&needed, &digest) ||
                 is_later(&status.st_atim, &cleaning->temporary_limit))
            rename(aside, path);
        else if ((unlink(sample) == 0 || errno == ENOENT) && unlink(aside) == 0)
            message_line(stdout, "removed %s (a base that no sidecar needs, %s)", path,
                         count_text((uint64_t)status.st_size, "byte", bytes));
        else
            report_failure(cleaning, &entry, "cannot be removed");
        free(sample);
        free(aside);
        free(path);
    }
    if (!cleaning->is_dry)
        rmdir(directory); /* if nothing is left in it */
    directory_names_free(&names);
    digest_set_free(&needed);
    free(directory);
    return done;
}

/* ---- the keep-list ---- */

static bool mark_used(void *context, const char *path, const struct uuid *uuid, struct error *error)
{
    (void)path;
    (void)error;
    keep_list_has(context, uuid);
    return true;
}

/* Listed UUIDs should be in the store. If an entry too short for a prefix is not a whole UUID of
 * the store, it was probably meant as a prefix, which would keep nothing: then nothing is
 * removed. */
static bool check_keep_list(struct keep_list *keep, const char *name, const char *directory,
                            struct error *error)
{
    char hex[UUID_HEX_MAX];

    if (!store_walk(directory, mark_used, keep, error))
        return false;
    for (size_t i = 0; i < keep->count; i++) {
        const struct keep_entry *entry = &keep->entries[i];

        uuid_format(&entry->uuid, hex);
        if (!entry->is_used && entry->uuid.size < KEEP_PREFIX_MIN)
            return error_set(error,
                             "%s: '%s' is not a UUID in the store, and is too short for the "
                             "beginning of one; give at least %d digits",
                             name, hex, 2 * KEEP_PREFIX_MIN);
        if (!entry->is_used)
            message_warning("%s: %s is not in the store %s", name, hex, directory);
    }
    return true;
}

static bool prepare(struct cleaning *cleaning, const struct parsed_options *options,
                    struct error *error)
{
    const char *list = option_text(options, OPTION_KEEP_LIST);
    /* Before the list is read: reading from a pipe may take long. */
    const struct timespec start = start_moment();

    cleaning->sidecar_limit = cleaning->temporary_limit = start;
    cleaning->sidecar_limit.tv_sec -=
        (time_t)(option_number(options, OPTION_OLDER_THAN) * SECONDS_A_DAY);
    cleaning->temporary_limit.tv_sec -= SECONDS_A_DAY;
    cleaning->is_dry = option_given(options, OPTION_DRY_RUN);
    cleaning->has_keep_list = list != NULL;
    return selection_open(&cleaning->selection, options->operands + 1, options->operand_count - 1,
                          error) &&
           (list == NULL || (keep_list_read(&cleaning->keep, list, error) &&
                             check_keep_list(&cleaning->keep, list, options->operands[0], error)));
}

/* ---- the command ---- */

int command_store_gc(const struct parsed_options *options)
{
    struct cleaning cleaning = {.has_failed = false};
    const char *directory = options->operands[0];
    char removed[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], kept[COUNT_TEXT_MAX];
    struct error error;
    bool done;

    if (!option_given(options, OPTION_OLDER_THAN) && !option_given(options, OPTION_KEEP_LIST))
        return message_usage("store gc", "neither '--older-than DAYS' nor '--keep-list FILE'");
    done = prepare(&cleaning, options, &error) &&
           store_scan(directory, clean_entry, &cleaning, &error) &&
           clean_bases(&cleaning, directory, &error);
    if (done && !cleaning.is_dry)
        remove_empty_directories(directory);
    /* Only warnings: the same command may be run every night. */
    if (done && !cleaning.has_failed)
        selection_report_unused(&cleaning.selection, directory, false);
    if (done)
        printf("%s, %s %s; %s %s\n", count_text(cleaning.removed_count, "sidecar", removed),
               count_text(cleaning.removed_size, "byte", bytes),
               cleaning.is_dry ? "would be removed" : "removed",
               count_text(cleaning.kept_count, "sidecar", kept),
               cleaning.kept_count == 1 ? "stays" : "stay");
    else
        message_error(&error);
    keep_list_free(&cleaning.keep);
    selection_close(&cleaning.selection);
    return done && !cleaning.has_failed ? STATUS_DONE : STATUS_FAILED;
}
