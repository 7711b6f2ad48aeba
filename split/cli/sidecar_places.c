/*
 * The places where sidecars are searched, with the files of their directories, and the sidecars
 * that commands read there for profiles: see find_sidecar.h.
 */
#include "split/cli/find_sidecar.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/llvm/profile_reader.h"
#include "common/sidecar/delta.h"
#include "split/cli/memory.h"

/* The most threads for one sidecar. If more are allowed, several sidecars are read at the same
 * time, and each of their threads holds what it decodes. */
#define THREADS_MAX 8

struct directory {
    char *path; /* or INDEX_FILES */
    /* By UUID, those of one UUID in the order of their names, or as --sidecar names them. */
    struct found_sidecars files;
    struct directory *next;
};

struct sidecar_index {
    pthread_mutex_t lock; /* protects the member below */
    struct directory *directories;
};

/* ---- lists of candidates ---- */

bool found_sidecars_add(struct found_sidecars *found, const struct uuid *uuid, const char *path,
                        bool is_stored, struct error *error)
{
    const char *copy = arena_text(&found->memory, "%s", path);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(found->items, found->capacity, found->count)) {
        found->memory.failed = true;
        return error_out_of_memory(error, path, strlen(path));
    }
    found->items[found->count] = (struct found_sidecar){*uuid, copy, is_stored, found->count, NULL};
    found->count++;
    return true;
}

bool found_sidecars_collect(void *found, const char *path, const struct uuid *uuid,
                            struct error *error)
{
    return found_sidecars_add(found, uuid, path, true, error);
}

static int compare_found(const void *a, const void *b)
{
    const struct found_sidecar *left = a, *right = b;
    int order = uuid_compare(&left->uuid, &right->uuid);

    return order != 0 ? order : (left->number > right->number) - (left->number < right->number);
}

void found_sidecars_sort(struct found_sidecars *found)
{
    if (found->count != 0)
        qsort(found->items, found->count, sizeof(*found->items), compare_found);
}

void found_sidecars_free(struct found_sidecars *found)
{
    arena_free(&found->memory);
    free(found->items);
    *found = (struct found_sidecars){0};
}

static void add_fault(struct found_sidecars *found, size_t count, const struct error *first)
{
    if (found->fault_count == 0 && count != 0)
        found->first_fault = *first;
    found->fault_count += count;
}

/* ---- the files of a directory ---- */

/* Adds the file, or a fault. Fails if the machine does: the file may be one of several that fit.
 * Only regular files are opened, since opening a device can have side effects. */
static bool add_file(struct found_sidecars *files, const char *path, bool is_listed,
                     struct error *error)
{
    struct stat status;
    struct uuid uuid;

    if (stat(path, &status) != 0)
        error_set_errno(error, errno, "%s: cannot be read", path);
    else if (!S_ISREG(status.st_mode))
        error_set(error, "%s: not a regular file", path);
    else if (sidecar_peek(path, &uuid, error))
        return found_sidecars_add(files, &uuid, path, false, error);
    if (error_is_of_system(error))
        return false;
    /* It is not a fault if a file was removed after its name was read. */
    if (error->number != ENOENT || is_listed)
        add_fault(files, 1, error);
    return true;
}

static bool is_sidecar_name(const char *name)
{
    /* Names that begin with a dot are of files that are being written. */
    return name[0] != '.' && store_has_suffix(name);
}

static bool read_directory(const char *path, struct found_sidecars *files, struct error *error)
{
    bool is_here = strcmp(path, ".") == 0;
    struct arena memory = {0};
    struct directory_names names;
    bool done = directory_names_read(path, is_sidecar_name, &names, error);

    if (!done && !error_is_of_system(error)) {
        if (error->number != ENOENT && error->number != ENOTDIR)
            add_fault(files, 1, error);
        done = true;
    }
    for (size_t i = 0; done && i < names.count; i++) {
        const char *file =
            is_here ? names.items[i] : arena_text(&memory, "%s/%s", path, names.items[i]);

        done = file != NULL ? add_file(files, file, false, error)
                            : error_out_of_memory(error, path, strlen(names.items[i]));
    }
    directory_names_free(&names);
    arena_free(&memory);
    return done;
}

static void free_directory(struct directory *directory)
{
    if (directory == NULL)
        return;
    found_sidecars_free(&directory->files);
    free(directory->path);
    free(directory);
}

/* The directory, which is read if it is not known. NULL with an error if that fails. The lock must
 * be held. */
static const struct directory *find_directory(const struct sidecar_places *places, const char *path,
                                              struct error *error)
{
    struct directory *directory = places->index->directories;
    bool done = true;

    while (directory != NULL && strcmp(directory->path, path) != 0)
        directory = directory->next;
    if (directory != NULL)
        return directory;
    directory = calloc(1, sizeof(*directory));
    if (directory == NULL || (directory->path = strdup(path)) == NULL)
        done = error_out_of_memory(error, "the list of directories", sizeof(*directory));
    else if (strcmp(path, INDEX_FILES) != 0)
        done = read_directory(path, &directory->files, error);
    else
        for (size_t i = 0; done && i < places->files.count; i++)
            done = add_file(&directory->files, places->files.paths[i], true, error);
    if (!done) {
        free_directory(directory);
        return NULL;
    }
    found_sidecars_sort(&directory->files);
    directory->next = places->index->directories;
    places->index->directories = directory;
    return directory;
}

/* The first file whose UUID does not sort before the wanted one. All that fit, for any query,
 * follow there in a row. */
static size_t find_first(const struct found_sidecars *files, const struct uuid *wanted)
{
    size_t low = 0, high = files->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memcmp(files->items[middle].uuid.bytes, wanted->bytes, wanted->size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sidecar_index_find(const struct sidecar_places *places, const char *path,
                        const struct wanted_uuid *wanted, size_t wanted_count,
                        struct found_sidecars *found, struct error *error)
{
    const struct directory *directory;
    bool done;

    pthread_mutex_lock(&places->index->lock);
    directory = find_directory(places, path, error);
    done = directory != NULL;
    if (done)
        add_fault(found, directory->files.fault_count, &directory->files.first_fault);
    for (size_t i = 0; done && i < wanted_count; i++) {
        const struct uuid *uuid = &wanted[i].uuid;

        for (size_t k = find_first(&directory->files, uuid); done && k < directory->files.count;
             k++) {
            const struct found_sidecar *file = &directory->files.items[k];

            if (memcmp(file->uuid.bytes, uuid->bytes, uuid->size) != 0)
                break;
            if (store_uuid_fits(&file->uuid, uuid, wanted[i].query))
                done = found_sidecars_add(found, &file->uuid, file->path, false, error);
        }
    }
    pthread_mutex_unlock(&places->index->lock);
    return done;
}

void sidecar_index_forget(const struct sidecar_places *places)
{
    struct sidecar_index *index = places->index;

    pthread_mutex_lock(&index->lock);
    while (index->directories != NULL) {
        struct directory *directory = index->directories;

        index->directories = directory->next;
        free_directory(directory);
    }
    pthread_mutex_unlock(&index->lock);
}

/* ---- the places that options name ---- */

void sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         const struct sidecar_lender *lender)
{
    const char *store = option_text(options, OPTION_STORE), *path;
    const char *environment = getenv(STORE_ENVIRONMENT);
    uint64_t most = memory_limit_given(option_number(options, OPTION_MEMORY_LIMIT));
    struct error *error = &places->fault;
    bool done = true;

    *places = (struct sidecar_places){
        .options = options,
        .are_given = option_given(options, OPTION_SIDECAR) && lender == NULL,
        .index = command_array(1, sizeof(*places->index)),
    };
    if (lender != NULL)
        places->lender = *lender;
    pthread_mutex_init(&places->index->lock, NULL);
    for (size_t i = 0; (path = option_text_at(options, OPTION_SIDECAR, i)) != NULL; i++) {
        if (store_is_url(path))
            done = done && error_set(error, "%s: a URL, which is for --store; give that", path);
        else if (!path_is_directory(path))
            path_list_add(&places->files, path);
        else
            done = done && store_list_add(&places->directories, path, error);
    }
    if (store != NULL)
        done = done && store_list_open(&places->store, store, STORE_LIST_ONE, most, error);
    else if (!places->are_given && environment != NULL)
        done =
            done && store_list_open(&places->environment, environment, STORE_LIST_ALL, most, error);
    exit_unless_allocated(done || !error_is_of_memory(error), sizeof(*places));
}

bool sidecar_places_check(const struct sidecar_places *places, struct error *error)
{
    if (places->fault.message[0] != '\0')
        *error = places->fault;
    return places->fault.message[0] == '\0';
}

void sidecar_places_close(struct sidecar_places *places)
{
    if (places->index != NULL) {
        sidecar_index_forget(places);
        pthread_mutex_destroy(&places->index->lock);
        free(places->index);
    }
    path_list_free(&places->files);
    store_list_close(&places->directories);
    store_list_close(&places->store);
    store_list_close(&places->environment);
}

const char *sidecar_places_only_file(const struct sidecar_places *places)
{
    return places->files.count == 1 && places->directories.count == 0 ? places->files.paths[0]
                                                                      : NULL;
}

void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options)
{
    static struct sidecar_bases bases = SIDECAR_BASES_EMPTY; /* of the process */
    unsigned threads = option_threads(options);

    sidecar_limit_memory(sidecar, option_number(options, OPTION_MEMORY_LIMIT));
    sidecar_help_restore(sidecar, threads < THREADS_MAX ? threads : THREADS_MAX, NULL);
    sidecar_share_bases(sidecar, &bases);
}

struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error)
{
    struct sidecar *sidecar = sidecar_read(path, error);

    if (sidecar != NULL)
        sidecar_set_up(sidecar, options);
    return sidecar;
}

/* ---- the sidecars of profiles ---- */

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error)
{
    const char *given;

    sidecar_places_open(&sidecars->places, options, NULL);
    if (!sidecar_places_check(&sidecars->places, error))
        return false;
    /* Also if it turns out that no profile needs it. */
    for (size_t i = 0; (given = option_text_at(options, OPTION_SIDECAR, i)) != NULL; i++) {
        if (!sidecar_check_output(options, given, error))
            return false;
    }
    if (!sidecar_check_no_output(options, error))
        return false;
    given = sidecar_places_only_file(&sidecars->places);
    if (given != NULL)
        sidecars->given.sidecar = sidecar_read_for(options, given, error);
    return given == NULL || sidecars->given.sidecar != NULL;
}

void profile_sidecars_close(struct profile_sidecars *sidecars)
{
    profile_sidecar_close(&sidecars->given);
    sidecar_places_close(&sidecars->places);
}

void profile_sidecars_release(void *context, struct profile_sidecar *sidecar)
{
    struct profile_sidecars *sidecars = context;

    if (sidecar == NULL || sidecar == &sidecars->given)
        return;
    profile_sidecar_close(sidecar);
    free(sidecar);
}

/* Takes over a sidecar that was found, unless the command would write over it. */
static struct profile_sidecar *use(const struct sidecar_places *places, struct sidecar *found,
                                   struct error *error)
{
    struct profile_sidecar *sidecar;

    if (found == NULL)
        return NULL;
    if (!sidecar_check_output(places->options, found->name, error)) {
        sidecar_close(found);
        return NULL;
    }
    sidecar = command_array(1, sizeof(*sidecar));
    sidecar->sidecar = found;
    return sidecar;
}

struct profile_sidecar *profile_sidecars_find(void *context, const struct profile *profile,
                                              const char *name, struct error *error)
{
    struct profile_sidecars *sidecars = context;
    const char *const names[] = {name, NULL};
    const struct sidecar_wanted wanted = {.name = name, .names = names, .profile = profile};

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (sidecars->given.sidecar == NULL)
        return use(&sidecars->places, sidecar_search(&sidecars->places, &wanted, error), error);
    return correlation_check(sidecars->given.sidecar, profile, name, error) ? &sidecars->given
                                                                            : NULL;
}

struct profile_sidecar *profile_sidecars_find_group(struct profile_sidecars *sidecars,
                                                    const struct profile_group *group,
                                                    struct error *error)
{
    const char *const names[] = {group->name, NULL};
    const struct sidecar_wanted wanted = {.name = group->name, .names = names, .group = group};

    if (sidecars->given.sidecar == NULL)
        return use(&sidecars->places, sidecar_search(&sidecars->places, &wanted, error), error);
    return profile_group_check(group, sidecars->given.sidecar, error) ? &sidecars->given : NULL;
}

struct profile_sidecar *profile_sidecars_find_uuid(struct profile_sidecars *sidecars,
                                                   const struct uuid *start, const char *told_by,
                                                   struct error *error)
{
    return use(&sidecars->places, sidecar_search_by_start(&sidecars->places, start, told_by, error),
               error);
}

static void add_uuid(struct uuid_list *list, const struct uuid *uuid)
{
    for (size_t i = 0; i < list->count; i++) {
        if (uuid_equal(&list->items[i], uuid))
            return;
    }
    COMMAND_ROOM_FOR_ONE(list->items, list->capacity, list->count);
    list->items[list->count++] = *uuid;
}

bool uuid_list_add_file(struct uuid_list *list, const char *path, bool of_all, struct error *error)
{
    struct profile_reader reader = {.name = path};
    enum profile_uuid_source source;
    struct profile profile;
    struct input input;
    struct uuid uuid;
    bool found = true, done;

    if (!input_open(&input, path, error))
        return false;
    reader.file = input.bytes;
    if (profile_recognize_indexed(input.bytes)) {
        struct profile_uuids uuids = {.profile = &profile};

        profile_open_indexed(&profile, input.bytes);
        for (done = false; profile_next_uuid(&uuids, &uuid, &source); done = true)
            add_uuid(list, &uuid);
        done = done || profile_has_no_uuid(&profile, path, error);
    } else {
        for (done = profile_reader_first(&reader, &profile, error); done && found;
             done = done && profile_reader_next(&reader, &profile, &found, error)) {
            uuid = profile_uuid(&profile, &source);
            if (uuid.size == 0)
                done = profile_has_no_uuid(&profile, path, error);
            else if (source == PROFILE_UUID_STUB && list->takes_whole)
                done = error_set(error,
                                 "%s: tells only the first bytes of a UUID, and a URL is asked for "
                                 "whole ones; name the UUID, or give a directory",
                                 path);
            else if (of_all || profile_needs_sidecar(&profile))
                add_uuid(list, &uuid);
        }
    }
    profile_reader_free(&reader);
    input_close(&input);
    return done;
}

void sidecars_fetch(const struct sidecar_places *places, const char *const *paths, size_t count,
                    bool of_all)
{
    struct uuid_list list = {.takes_whole = true};
    struct error ignored;
    size_t kept = 0;

    if (places->are_near ||
        !(store_list_is_remote(&places->store) || store_list_is_remote(&places->environment)))
        return;
    for (size_t i = 0; i < count; i++) {
        const char *const names[] = {paths[i], NULL};
        struct stat status;
        struct uuid uuid;

        if (stat(paths[i], &status) == 0 && S_ISREG(status.st_mode))
            uuid_list_add_file(&list, paths[i], of_all, &ignored);
        else if (uuid_parse(paths[i], &uuid))
            add_uuid(&list, &uuid);
        for (; kept < list.count; kept++) {
            const struct sidecar_wanted wanted = {.names = names, .uuid = &list.items[kept]};

            if (sidecar_is_near(places, &wanted))
                list.items[kept--] = list.items[--list.count];
        }
    }
    store_list_fetch(&places->store, list.items, list.count);
    store_list_fetch(&places->environment, list.items, list.count);
    free(list.items);
}

bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error)
{
    static const uint8_t zeros[PROFILE_ALIGNMENT];

    return output_write(output, (struct bytes){zeros, profile_padding(output->size)}, error) &&
           profile_sidecar_correlate(sidecar, profile, name, output_sink, output, error);
}

/* ---- outputs ---- */

bool sidecar_check_output(const struct parsed_options *options, const char *sidecar,
                          struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    return output == NULL || !paths_refer_to_same_file(sidecar, output) ||
           error_set(error, "%s: is the sidecar, which would be replaced; give another -o",
                     sidecar);
}

bool sidecar_check_no_output(const struct parsed_options *options, struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);
    struct input input;
    struct error why;
    bool is_sidecar;

    if (output == NULL || file_is_missing(output, 0))
        return true;
    if (!input_open(&input, output, &why)) {
        if (error_is_of_memory(&why))
            *error = why;
        return !error_is_of_memory(&why);
    }
    is_sidecar = sidecar_recognize(input.bytes);
    input_close(&input);
    return !is_sidecar ||
           error_set(error, "%s: is a sidecar, which would be replaced; give another -o", output);
}
