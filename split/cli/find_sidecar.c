/*
 * The finder of sidecars: see find_sidecar.h.
 */
#include "split/cli/find_sidecar.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "split/cli/memory.h"

/* The most threads for one sidecar. If more are allowed, several sidecars are read at the same
 * time, and each of their threads holds what it decodes. */
#define THREADS_MAX       8

#define CURRENT_DIRECTORY "."

/* One place of a search. */
struct sidecar_spot {
    enum {
        SPOT_FILE, /* a candidate whatever its UUID is; if not named by options: if it exists */
        SPOT_DIRECTORY, /* its *.covsplit files, or the files of --sidecar, by UUID */
        SPOT_STORES,    /* by UUID */
    } kind;
    const char *path; /* of a file, or as sidecar_index_find takes it; NULL for stores */
    const struct store_list *stores;
};

struct wanted_uuid {
    struct uuid uuid; /* empty, with STORE_PREFIX: any */
    enum store_query query;
};

struct search {
    const struct sidecar_places *places;
    const struct sidecar_wanted *wanted;
    struct sidecar_spot *spots;
    size_t spot_count, next_spot;
    size_t named_count; /* so many of the first spots were named by options */
    struct wanted_uuid *uuids;
    size_t uuid_count, uuid_capacity;
    bool has_uuids;              /* `uuids` is filled in */
    struct error no_uuid;        /* why it is empty */
    struct found_sidecars found; /* the candidates of the spots before next_spot */
    size_t next_found;
    bool is_other;        /* the last candidate is a placeholder, or of another stripped image */
    bool met_unusable;    /* some candidate failed for another reason */
    struct error problem; /* the error of the first candidate that failed; "" if none did */
    struct arena memory;
};

/* ---- the places of the options ---- */

void sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         bool for_run)
{
    const char *store = option_text(options, OPTION_STORE), *path;
    const char *environment = getenv(STORE_ENVIRONMENT);
    struct error error;
    bool done = true;

    *places = (struct sidecar_places){
        .options = options,
        .are_given = option_given(options, OPTION_SIDECAR) && !for_run,
        .for_run = for_run,
        .index = sidecar_index_new(&places->files),
    };
    for (size_t i = 0; (path = option_text_at(options, OPTION_SIDECAR, i)) != NULL; i++) {
        if (!path_is_directory(path))
            path_list_add(&places->files, path);
        else
            done = done && store_list_add(&places->directories, path, &error);
    }
    if (store != NULL)
        done = done && store_list_open(&places->store, store, false, &error);
    else if (!places->are_given && environment != NULL)
        done = done && store_list_open(&places->environment, environment, true, &error);
    command_require(done, sizeof(*places));
}

void sidecar_places_close(struct sidecar_places *places)
{
    sidecar_index_free(places->index);
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
    unsigned threads = option_threads(options);

    sidecar_limit_memory(sidecar, option_number(options, OPTION_MEMORY_LIMIT));
    sidecar_help_restore(sidecar, threads < THREADS_MAX ? threads : THREADS_MAX, NULL);
}

struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error)
{
    struct sidecar *sidecar = sidecar_read(path, error);

    if (sidecar != NULL)
        sidecar_set_up(sidecar, options);
    return sidecar;
}

/* ---- the spots of a search ---- */

/* The array has room for all of them; a path that there was no memory for is noticed at the end. */
static void add_spot(struct search *search, struct sidecar_spot spot)
{
    search->spots[search->spot_count++] = spot;
}

static void add_stores(struct search *search, const struct store_list *stores)
{
    if (stores->count != 0)
        add_spot(search, (struct sidecar_spot){.kind = SPOT_STORES, .stores = stores});
}

/* Adds a directory, unless it is there already, perhaps under another name. */
static void add_directory(struct search *search, const char *directory)
{
    struct stat status;

    for (size_t i = 0; stat(directory, &status) == 0 && i < search->spot_count; i++) {
        if (search->spots[i].kind == SPOT_DIRECTORY && file_is(search->spots[i].path, &status))
            return;
    }
    add_spot(search, (struct sidecar_spot){.kind = SPOT_DIRECTORY, .path = directory});
}

/* Call end_search in any case. */
static bool start_search(struct search *search, const struct sidecar_places *places,
                         const struct sidecar_wanted *wanted, struct error *error)
{
    const struct store_list *directories = &places->directories;
    const char *only = wanted->uuid == NULL ? sidecar_places_only_file(places) : NULL;
    char directory[PATH_MAX];
    size_t name_count = 0;

    *search = (struct search){.places = places, .wanted = wanted};
    while (wanted->names != NULL && wanted->names[name_count] != NULL)
        name_count++;
    search->spots = arena_array(&search->memory, directories->count + 2 * name_count + 5,
                                sizeof(*search->spots));
    if (search->spots == NULL)
        return error_out_of_memory(error, "the search for sidecars", name_count);
    if (only != NULL) {
        add_spot(search, (struct sidecar_spot){.kind = SPOT_FILE, .path = only});
    } else {
        if (places->files.count != 0)
            add_directory(search, INDEX_FILES);
        add_stores(search, directories);
        for (size_t i = 0; i < directories->count; i++)
            add_directory(search, directories->directories[i]);
    }
    if (!places->are_given)
        add_stores(search, &places->store);
    search->named_count = search->spot_count;
    if (places->are_given)
        return true;
    /* IMAGE.covsplit is only for images: a sidecar is not named after a profile. */
    for (size_t i = 0; wanted->profile == NULL && i < name_count; i++) {
        const char *path = arena_text(&search->memory, "%s" STORE_SUFFIX, wanted->names[i]);

        add_spot(search, (struct sidecar_spot){.kind = SPOT_FILE, .path = path});
    }
    for (size_t i = 0; i < name_count; i++) {
        if (path_directory(wanted->names[i], directory)) {
            const char *path = arena_text(&search->memory, "%s", directory);

            if (path != NULL)
                add_directory(search, path);
        }
    }
    add_directory(search, CURRENT_DIRECTORY);
    add_stores(search, &places->environment);
    return !search->memory.failed ||
           error_out_of_memory(error, "the search for sidecars", sizeof(directory));
}

static void end_search(struct search *search)
{
    arena_free(&search->memory);
    free(search->uuids);
    found_sidecars_free(&search->found);
}

/* ---- the UUIDs that are looked for ---- */

static bool add_uuid(struct search *search, const struct uuid *uuid, enum store_query query,
                     struct error *error)
{
    /* If the whole UUID is known, searching for its stub would find the same again. */
    for (size_t i = 0; i < search->uuid_count; i++) {
        const struct uuid *known = &search->uuids[i].uuid;

        if (query == STORE_STUB ? uuid_has_stub(known, uuid->bytes) : uuid_equal(known, uuid))
            return true;
    }
    if (uuid->size == 0 && query != STORE_PREFIX)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(search->uuids, search->uuid_capacity, search->uuid_count))
        return error_out_of_memory(error, "the search for sidecars", sizeof(*search->uuids));
    search->uuids[search->uuid_count++] = (struct wanted_uuid){*uuid, query};
    return true;
}

/* An image that was not split can have a sidecar too, if there was nothing to take out. A stripped
 * image that has no UUID anywhere is known by its digest, which all sidecars contain. */
static bool add_uuid_of_stripped(struct search *search, struct error *error)
{
    static const struct uuid any = {.size = 0};
    const struct input *stripped = search->wanted->stripped;
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct split_image split = {.uuid = any};
    struct image_plan *plan;
    struct error why;

    if (!image_find_split(stripped, &split, &why)) {
        plan = error_is_of_memory(&why) ? NULL : image_plan_make(stripped, &options, &why);
        if (plan == NULL) {
            search->no_uuid = why;
            if (error_is_of_memory(&why))
                *error = why;
            return !error_is_of_memory(&why);
        }
        /* A stripped image never contains the digest of the original. */
        if (plan->facts.uuid_source != UUID_FROM_DIGEST)
            split = (struct split_image){.uuid = plan->facts.uuid};
        image_plan_free(plan);
    }
    if (split.uuid.size == 0)
        return add_uuid(search, &any, STORE_PREFIX, error);
    return add_uuid(search, &split.uuid, split.uuid_is_stub ? STORE_STUB : STORE_EXACT, error);
}

/* Called when they are first needed, since this may read a whole image. */
static bool need_uuids(struct search *search, struct error *error)
{
    const struct sidecar_wanted *wanted = search->wanted;
    struct profile_uuids uuids = {.profile = wanted->profile};
    enum profile_uuid_source source;
    struct uuid uuid;

    if (search->has_uuids)
        return true;
    search->has_uuids = true;
    if (wanted->stripped != NULL)
        return add_uuid_of_stripped(search, error);
    if (wanted->image != NULL)
        return add_uuid(search, &wanted->image->uuid,
                        wanted->image->uuid_is_stub ? STORE_STUB : STORE_EXACT, error);
    if (wanted->uuid != NULL)
        return add_uuid(search, wanted->uuid, STORE_EXACT, error);
    while (profile_next_uuid(&uuids, &uuid, &source)) {
        if (!add_uuid(search, &uuid, source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT, error))
            return false;
    }
    return search->uuid_count != 0 ||
           !profile_has_no_uuid(wanted->profile, wanted->name, &search->no_uuid);
}

/* True if the image was split, and no UUID of it is known. */
static bool is_any(const struct search *search)
{
    return search->uuid_count != 0 && search->uuids[0].uuid.size == 0;
}

/* ---- the candidates ---- */

static void end_here(struct search *search)
{
    search->next_spot = search->spot_count;
    search->next_found = search->found.count;
}

/* Passes over the last candidate. */
static void reject(struct search *search, const struct error *why)
{
    if (search->problem.message[0] == '\0' || error_is_of_machine(why))
        search->problem = *why;
    if (error_is_of_machine(why))
        end_here(search);
    search->met_unusable |= !search->is_other;
    search->is_other = false;
}

static bool look_by_uuid(const struct sidecar_places *places, const struct sidecar_spot *spot,
                         const struct wanted_uuid *wanted, struct found_sidecars *found,
                         struct error *error)
{
    struct store_match match = {0};
    bool done;

    if (spot->kind == SPOT_DIRECTORY)
        return sidecar_index_find(places->index, spot->path, &wanted->uuid, wanted->query, found,
                                  error);
    if (wanted->uuid.size == 0)
        return store_list_walk(spot->stores, found_sidecars_collect, found, error);
    done = store_list_find(spot->stores, &wanted->uuid, wanted->query, &match, error) &&
           (match.path == NULL || found_sidecars_add(found, &match.uuid, match.path, true, error));
    free(match.path);
    return done;
}

/* Adds the candidates of the next spot. */
static bool look(struct search *search, struct error *error)
{
    static const struct uuid none = {.size = 0};
    const struct sidecar_spot *spot = &search->spots[search->next_spot++];
    bool is_named = search->next_spot <= search->named_count;

    /* A file that exists but cannot be used is a candidate too: opening it says what is wrong. */
    if (spot->kind == SPOT_FILE)
        return (!is_named && file_is_missing(spot->path, 0)) ||
               found_sidecars_add(&search->found, &none, spot->path, false, error);
    if (!need_uuids(search, error))
        return false;
    for (size_t i = 0; i < search->uuid_count; i++) {
        if (!look_by_uuid(search->places, spot, &search->uuids[i], &search->found, error))
            return false;
    }
    return true;
}

/* Returns the path of the next candidate; NULL if there is none or the machine failed. */
static const char *next_candidate(struct search *search)
{
    struct error error;

    while (search->next_found == search->found.count) {
        if (search->next_spot == search->spot_count)
            return NULL;
        search->is_other = false;
        if (!look(search, &error))
            reject(search, &error);
    }
    return search->found.items[search->next_found++].path;
}

/* Starts the search again, after reading again the directories that may have changed. */
static bool search_again(struct search *search, struct error *error)
{
    for (size_t i = 0; i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];

        if (spot->kind == SPOT_DIRECTORY &&
            !sidecar_index_renew(search->places->index, spot->path, error))
            return false;
    }
    found_sidecars_free(&search->found);
    search->next_found = search->next_spot = 0;
    search->problem = (struct error){0};
    return true;
}

/* ---- what fits ---- */

static uint64_t section_size(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return section == NULL ? 0 : section->size;
}

static bool fits_image(const struct sidecar_wanted *wanted, const struct sidecar *sidecar,
                       struct error *error)
{
    const struct split_image *image = wanted->image;
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct uuid *uuid = &facts->uuid;

    return (image->uuid.size != 0 &&
            (image->uuid_is_stub ? uuid_has_stub(uuid, image->uuid.bytes)
                                 : uuid_equal(uuid, &image->uuid)) &&
            section_size(sidecar, SECTION_COUNTERS) == image->counters_size &&
            section_size(sidecar, SECTION_BITMAP) == image->bitmap_size &&
            (!image->has_stub || !facts->has_stub ||
             memcmp(image->stub_id, facts->stub_id, sizeof(facts->stub_id)) == 0)) ||
           error_set(error, "%s: of another build than %s; give the sidecar of this one",
                     sidecar->name, wanted->name);
}

static bool fits_stripped(struct search *search, const struct sidecar *sidecar, struct error *error)
{
    const struct input *stripped = search->wanted->stripped;
    struct error unknown;

    if (sidecar_check_stripped(sidecar, stripped, &search->is_other, error))
        return true;
    if (!search->is_other || !need_uuids(search, &unknown))
        return false;
    for (size_t i = 0; i < search->uuid_count; i++) {
        if (search->uuids[i].uuid.size != 0 &&
            store_uuid_fits(&sidecar->facts.uuid, &search->uuids[i].uuid, search->uuids[i].query))
            return error_set(error,
                             "%s: not the stripped image that %s belongs to, though it has its "
                             "UUID: was it stripped or changed after the split? join the image as "
                             "the split wrote it, or build it again",
                             stripped->path, sidecar->name);
    }
    return false;
}

static bool fits(struct search *search, const struct sidecar *sidecar, struct error *error)
{
    const struct sidecar_wanted *wanted = search->wanted;

    if (wanted->profile != NULL)
        return correlation_check(sidecar, wanted->profile, wanted->name, error);
    if (wanted->stripped != NULL)
        return fits_stripped(search, sidecar, error);
    search->is_other = !sidecar_is_real(sidecar, error);
    return !search->is_other && (wanted->image == NULL || fits_image(wanted, sidecar, error));
}

/* True if two sidecars give the same reports: they belong to one image, or have the same
 * sections. */
static bool agree(const struct sidecar *a, const struct sidecar *b)
{
    if (digest_equal(&a->facts.original_digest, &b->facts.original_digest))
        return true;
    for (size_t i = 0; i < a->section_count; i++) {
        const struct section *mine = &a->sections[i];
        const struct section *other = sidecar_find(b, mine->kind);

        if (other == NULL || !digest_equal(&mine->digest, &other->digest))
            return false;
    }
    return true;
}

/* True if no other candidate fits equally well. Several builds can have the same UUID if it was
 * chosen by hand, and even the same number of counters. If a place has sidecars of several such
 * builds, it is unknown which one is right. Places that options name are preferred to others, but
 * among those that are searched by default, an earlier one is no more likely to be right: all of
 * them are searched. */
static bool has_no_rival(struct search *search, const struct sidecar *sidecar, struct error *error)
{
    bool is_named = search->next_spot <= search->named_count, alone = true;

    for (size_t i = search->next_found; alone; i++) {
        const char *path;
        struct sidecar *rival;
        struct error why;

        while (i == search->found.count) {
            if (is_named || search->next_spot == search->spot_count)
                return true;
            if (!look(search, &why) && error_is_of_machine(&why)) {
                *error = why;
                return false;
            }
        }
        path = search->found.items[i].path;
        /* The accepted sidecar itself may be found at several places. */
        if (paths_refer_to_same_file(path, sidecar->name))
            continue;
        rival = sidecar_read_for(search->places->options, path, &why);
        if (rival == NULL && error_is_of_machine(&why)) {
            *error = why;
            alone = false;
        } else if (rival != NULL && fits(search, rival, &why) && !agree(sidecar, rival)) {
            alone = error_set(error,
                              "%s: fits as well as %s, and is of another build; give the right one "
                              "with --sidecar",
                              path, sidecar->name);
        }
        sidecar_close(rival);
    }
    return false;
}

/* True if the last candidate, opened as `sidecar`, is the one that is wanted. */
static bool accepts(struct search *search, const struct sidecar *sidecar, struct error *error)
{
    const struct found_sidecar *found = &search->found.items[search->next_found - 1];
    const struct uuid *uuid = &sidecar->facts.uuid;

    /* In a store the name must be right. Elsewhere the file may have been replaced since its UUID
     * was read. */
    if (found->uuid.size != 0 && !uuid_equal(uuid, &found->uuid))
        return found->is_stored ? store_check_uuid(found->path, uuid, &found->uuid, error)
                                : file_report_change(found->path, error);
    if (!fits(search, sidecar, error))
        return false;
    /* The digest of the stripped image leaves no doubt. */
    if (search->wanted->stripped != NULL || has_no_rival(search, sidecar, error))
        return true;
    search->problem = *error;
    end_here(search);
    return false;
}

/* ---- what was not found ---- */

/* Adds to a list: "A, B, C". */
static void list_path(struct buffer *list, const char *path, const char *suffix)
{
    if (list->size != 0)
        buffer_append(list, ", ", 2);
    buffer_append(list, path, strlen(path));
    buffer_append(list, suffix, strlen(suffix));
}

/* Lists the places. Without a UUID, those that are searched by UUID may not have been used. A store
 * that is not there is as good as an empty one, but its name is often a slip. */
static void list_spots(const struct search *search, struct buffer *list)
{
    const struct path_list *files = &search->places->files;
    bool has_uuid = search->uuid_count != 0;

    for (size_t i = 0; i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];
        bool is_stores = spot->kind == SPOT_STORES;

        if (spot->kind == SPOT_FILE)
            list_path(list, spot->path, "");
        else if (has_uuid && !is_stores && strcmp(spot->path, INDEX_FILES) != 0)
            list_path(list, spot->path, "/*" STORE_SUFFIX);
        else if (has_uuid && !is_stores)
            for (size_t j = 0; j < files->count; j++)
                list_path(list, files->paths[j], "");
        for (size_t j = 0; has_uuid && is_stores && j < spot->stores->count; j++) {
            const char *directory = spot->stores->directories[j], *state = "";
            struct stat status;

            if (stat(directory, &status) != 0)
                state = errno == ENOENT ? " (no such directory)" : "";
            else if (!S_ISDIR(status.st_mode))
                state = " (not a directory)";
            list_path(list, directory, state);
        }
    }
    buffer_append(list, "", 1);
}

/* Adds to `text` how many files could not be read in the places that were searched by UUID. */
static void tell_faults(const struct search *search, struct error *text)
{
    struct error first;
    size_t count = 0;

    *text = (struct error){0};
    for (size_t i = 0; i < search->spot_count; i++) {
        if (search->spots[i].kind == SPOT_DIRECTORY)
            sidecar_index_add_faults(search->places->index, search->spots[i].path, &count, &first);
    }
    if (count == 1)
        error_set(text, " (1 file there could not be read: %.250s)", first.message);
    else if (count != 0)
        error_set(text, " (%zu files there could not be read; the first: %.250s)", count,
                  first.message);
}

/* A directory of --store that is not there, which is more likely to be the reason than a sidecar
 * that lies about; NULL: there is none. */
static const char *missing_store(const struct search *search)
{
    const struct store_list *stores = &search->places->store;

    for (size_t i = 0; i < stores->count; i++) {
        if (file_is_missing(stores->directories[i], 0))
            return stores->directories[i];
    }
    return NULL;
}

/* Sets the error that says why nothing was found. */
static void report_failure(struct search *search, struct error *error)
{
    const char *name = search->wanted->name, *why = search->no_uuid.message, *places;
    char hex[UUID_HEX_MAX];
    struct buffer list = {0};
    struct error faults;

    *error = search->problem;
    /* That a sidecar is of another image says something only if a UUID or a place named it. */
    if (is_any(search) && !search->met_unusable)
        *error = (struct error){0};
    if (error->message[0] != '\0' && !error_is_of_machine(error) && missing_store(search) != NULL)
        error_set(error, "%.300s: no such directory; %.600s", missing_store(search),
                  search->problem.message);
    if (error->message[0] == '\0' && need_uuids(search, error)) {
        list_spots(search, &list);
        tell_faults(search, &faults);
        places = (const char *)list.data;
        if (list.failed)
            error_out_of_memory(error, "the search for sidecars", list.size);
        else if (search->uuid_count == 0 && search->wanted->profile != NULL)
            *error = search->no_uuid;
        else if (search->uuid_count == 0 || is_any(search))
            error_set(error,
                      "%.200s: no sidecar found; looked at %.350s (nowhere by UUID: %.300s); give "
                      "--sidecar",
                      name, places, why[0] != '\0' ? why : "it has none");
        else if (name == NULL)
            error_set(error, "%.400s: no sidecar of UUID %s%s; give another place", places,
                      uuid_format(&search->uuids[0].uuid, hex), faults.message);
        else
            error_set(error, "%.200s: no sidecar for its UUID %s in %.350s%s; %s", name,
                      uuid_format(&search->uuids[0].uuid, hex), places, faults.message,
                      search->places->are_given ? "give its own" : "give --store or --sidecar");
        buffer_free(&list);
    }
    if (!search->met_unusable && !error_is_of_machine(error))
        error->number = ENODATA;
}

/* ---- the whole search ---- */

static struct sidecar *go_through(struct search *search, const struct sidecar_opener *opener)
{
    const char *path;

    while ((path = next_candidate(search)) != NULL) {
        struct error why;
        struct sidecar *sidecar = opener != NULL
                                      ? opener->open(opener->context, path, &why)
                                      : sidecar_read_for(search->places->options, path, &why);

        if (sidecar != NULL && accepts(search, sidecar, &why))
            return sidecar;
        if (sidecar != NULL && opener != NULL)
            opener->close(opener->context, sidecar);
        else
            sidecar_close(sidecar);
        reject(search, &why);
    }
    return NULL;
}

struct sidecar *sidecar_search(const struct sidecar_places *places,
                               const struct sidecar_wanted *wanted,
                               const struct sidecar_opener *opener, struct error *error)
{
    struct search search;
    struct sidecar *sidecar = NULL;

    if (start_search(&search, places, wanted, error)) {
        sidecar = go_through(&search, opener);
        if (sidecar == NULL && places->for_run && search_again(&search, &search.problem))
            sidecar = go_through(&search, opener);
        if (sidecar == NULL)
            report_failure(&search, error);
    }
    end_search(&search);
    return sidecar;
}

bool sidecar_visit_candidates(const struct sidecar_places *places,
                              const struct sidecar_wanted *wanted,
                              void (*visit)(void *context, const char *path), void *context,
                              struct error *error)
{
    struct search search;
    const char *path;
    bool done = start_search(&search, places, wanted, error);

    while (done && (path = next_candidate(&search)) != NULL)
        visit(context, path);
    if (done && error_is_of_memory(&search.problem)) {
        *error = search.problem;
        done = false;
    }
    end_search(&search);
    return done;
}

/* ---- the beginning of a UUID ---- */

/* Sets *full to the UUID in the spots of the search that begins with the wanted one. */
static bool complete(const struct search *search, struct uuid *full, struct error *error)
{
    const struct wanted_uuid start = {*search->wanted->uuid, STORE_PREFIX};
    struct store_match match = {0};
    bool done = true;

    for (size_t i = 0; done && i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];
        struct found_sidecars found = {0};

        if (spot->kind == SPOT_STORES)
            done = store_list_find(spot->stores, &start.uuid, start.query, &match, error);
        else
            done = look_by_uuid(search->places, spot, &start, &found, error);
        for (size_t j = 0; done && j < found.count; j++)
            done =
                store_match_add(&match, &found.items[j].uuid, strdup(found.items[j].path), error);
        found_sidecars_free(&found);
    }
    *full = match.uuid;
    free(match.path);
    return done;
}

bool sidecar_complete_uuid(const struct sidecar_places *places, const struct uuid *start,
                           struct uuid *full, struct error *error)
{
    const struct sidecar_wanted wanted = {.uuid = start};
    struct search search;
    bool done = start_search(&search, places, &wanted, error) && complete(&search, full, error);

    end_search(&search);
    return done;
}

struct sidecar *sidecar_search_by_start(const struct sidecar_places *places,
                                        const struct uuid *start, struct error *error)
{
    struct uuid uuid = *start;
    const struct sidecar_wanted wanted = {.uuid = &uuid};
    struct search search;
    bool done = start_search(&search, places, &wanted, error);

    if (done && next_candidate(&search) == NULL) {
        done = complete(&search, &uuid, error);
        if (done && uuid.size == 0) {
            report_failure(&search, error);
            done = false;
        }
    }
    end_search(&search);
    return done ? sidecar_search(places, &wanted, NULL, error) : NULL;
}

/* ---- the sidecars of profiles ---- */

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error)
{
    const char *given;

    sidecar_places_open(&sidecars->places, options, false);
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
        return use(&sidecars->places, sidecar_search(&sidecars->places, &wanted, NULL, error),
                   error);
    return correlation_check(sidecars->given.sidecar, profile, name, error) ? &sidecars->given
                                                                            : NULL;
}

struct profile_sidecar *profile_sidecars_find_uuid(struct profile_sidecars *sidecars,
                                                   const struct uuid *start, struct error *error)
{
    return use(&sidecars->places, sidecar_search_by_start(&sidecars->places, start, error), error);
}

bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error)
{
    return output_write_zeros(output, profile_padding(output->size), error) &&
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
