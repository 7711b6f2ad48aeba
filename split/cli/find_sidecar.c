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
#include "split/cli/message.h"

/* One place of a search. */
struct sidecar_spot {
    enum {
        SPOT_FILE, /* a candidate whatever its UUID is; if not named by options: if it exists */
        SPOT_DIRECTORY, /* its *.covsplit files, or the files of --sidecar, by UUID */
        SPOT_STORE,     /* by UUID */
    } kind;
    const char *path; /* of a file, or as sidecar_index_find takes it; NULL for a store */
    struct store_list store;
};

struct search {
    const struct sidecar_places *places;
    const struct sidecar_wanted *wanted;
    struct sidecar_spot *spots;
    size_t spot_count, next_spot;
    size_t given_count; /* so many of the first spots were named by --sidecar */
    size_t named_count; /* and so many by any option */
    size_t near_count;  /* and so many are on this machine: others are at URLs */
    struct wanted_uuid *uuids;
    size_t uuid_count, uuid_capacity;
    bool has_uuids;              /* `uuids` is filled in */
    struct error no_uuid;        /* why it is empty */
    struct found_sidecars found; /* the candidates of the spots before next_spot */
    size_t next_found;
    bool is_other;        /* the last candidate is a placeholder, or of another stripped image */
    bool met_unusable;    /* some candidate failed for another reason */
    bool is_ambiguous;    /* the last candidate has a rival */
    struct error problem; /* of the first candidate that could not be read, else of the first that
                             failed; "" if none did */
    bool was_read;        /* the candidate that `problem` is of */
    struct error unasked; /* of the first URL that could not be asked; "" if none */
    struct remote *fails; /* that URL */
    struct arena memory;
};

/* ---- the spots of a search ---- */

/* The array has room for all of them; a path that there was no memory for is noticed at the end. */
static void add_spot(struct search *search, struct sidecar_spot spot)
{
    search->spots[search->spot_count++] = spot;
}

/* Each by itself: what the first one has need not fit. */
static void add_stores(struct search *search, const struct store_list *stores, bool are_remote)
{
    for (size_t i = 0; i < stores->count; i++) {
        if ((stores->stores[i].remote != NULL) == are_remote)
            add_spot(search, (struct sidecar_spot){
                                 .kind = SPOT_STORE,
                                 .store = {.stores = &stores->stores[i], .count = 1},
                             });
    }
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

static bool is_of_profile(const struct sidecar_wanted *wanted)
{
    return wanted->profile != NULL || wanted->group != NULL;
}

/* Call end_search in any case. */
static bool start_search(struct search *search, const struct sidecar_places *places,
                         const struct sidecar_wanted *wanted, struct error *error)
{
    const struct store_list *directories = &places->directories;
    const char *only = wanted->uuid == NULL ? sidecar_places_only_file(places) : NULL, *path;
    char directory[PATH_MAX];
    size_t name_count = 0;

    *search = (struct search){.places = places, .wanted = wanted};
    if (!sidecar_places_check(places, error))
        return false;
    while (wanted->names != NULL && wanted->names[name_count] != NULL)
        name_count++;
    search->spots = arena_array(&search->memory,
                                2 * directories->count + places->store.count +
                                    places->environment.count + 2 * name_count + 3,
                                sizeof(*search->spots));
    if (search->spots == NULL)
        return error_out_of_memory(error, "the search for sidecars", name_count);
    if (only != NULL) {
        add_spot(search, (struct sidecar_spot){.kind = SPOT_FILE, .path = only});
    } else {
        if (places->files.count != 0)
            add_directory(search, INDEX_FILES);
        add_stores(search, directories, false);
        for (size_t i = 0; i < directories->count; i++)
            add_directory(search, directories->stores[i].directory);
    }
    search->given_count = search->spot_count;
    if (!places->are_given)
        add_stores(search, &places->store, false);
    search->named_count = search->near_count = search->spot_count;
    if (places->are_given)
        return true;
    /* IMAGE.covsplit is only for images: a sidecar is not named after a profile. */
    for (size_t i = 0; !is_of_profile(wanted) && i < name_count; i++) {
        path = arena_text(&search->memory, "%s" STORE_SUFFIX, wanted->names[i]);
        add_spot(search, (struct sidecar_spot){.kind = SPOT_FILE, .path = path});
    }
    for (size_t i = 0; i < name_count; i++) {
        if (path_directory(wanted->names[i], directory) &&
            (path = arena_text(&search->memory, "%s", directory)) != NULL)
            add_directory(search, path);
    }
    add_directory(search, ".");
    add_stores(search, &places->environment, false);
    search->near_count = search->spot_count;
    if (!places->are_near) {
        add_stores(search, &places->store, true);
        add_stores(search, &places->environment, true);
    }
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
    const struct input *stripped = search->wanted->stripped;
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct split_image split = {.uuid = {.size = 0}};
    struct image_plan *plan;
    struct error why;

    if (!image_read_stripped_id(stripped, &split, &why)) {
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
    return add_uuid(search, &split.uuid,
                    split.uuid.size == 0 ? STORE_PREFIX
                    : split.uuid_is_stub ? STORE_STUB
                                         : STORE_EXACT,
                    error);
}

/* Called when they are first needed, since this may read a whole image. */
static bool need_uuids(struct search *search, struct error *error)
{
    const struct sidecar_wanted *wanted = search->wanted;
    struct profile_uuids uuids = {.profile = wanted->profile};
    enum profile_uuid_source source;
    struct uuid uuid;
    bool done = true;

    if (search->has_uuids)
        return true;
    search->uuid_count = 0; /* of a try without enough memory */
    if (wanted->stripped != NULL)
        done = add_uuid_of_stripped(search, error);
    else if (wanted->image != NULL)
        done = add_uuid(search, &wanted->image->uuid,
                        wanted->image->uuid_is_stub ? STORE_STUB : STORE_EXACT, error);
    else if (wanted->uuid != NULL)
        done = add_uuid(search, wanted->uuid, STORE_EXACT, error);
    else if (wanted->group != NULL && wanted->group->uuid.size != 0)
        done = add_uuid(search, &wanted->group->uuid, STORE_EXACT, error);
    else if (wanted->group != NULL)
        profile_has_no_uuid(&wanted->group->head, wanted->name, &search->no_uuid);
    else {
        while (done && profile_next_uuid(&uuids, &uuid, &source))
            done = add_uuid(search, &uuid, source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT,
                            error);
        if (done && search->uuid_count == 0)
            done = !profile_has_no_uuid(wanted->profile, wanted->name, &search->no_uuid);
    }
    search->has_uuids = done;
    return done;
}

/* True if the image was split, and no UUID of it is known. */
static bool is_any(const struct search *search)
{
    return search->uuid_count != 0 && search->uuids[0].uuid.size == 0;
}

/* ---- the candidates ---- */

/* Passes over the last candidate: one that could not be read may be the right one. Nothing is
 * searched any more if the machine failed, or if it is unknown which of several candidates is
 * right. */
static void reject(struct search *search, bool was_read, const struct error *why)
{
    bool is_final = search->is_ambiguous || error_is_of_system(why);

    if (search->problem.message[0] == '\0' || is_final || (search->was_read && !was_read)) {
        search->problem = *why;
        search->was_read = was_read;
    }
    if (is_final) {
        search->next_spot = search->spot_count;
        search->next_found = search->found.count;
    }
    search->met_unusable |= !search->is_other;
    search->is_other = search->is_ambiguous = false;
}

/* Adds the candidates of a spot that have one of these UUIDs. */
static bool look_by_uuid(const struct sidecar_places *places, const struct sidecar_spot *spot,
                         const struct wanted_uuid *wanted, size_t count,
                         struct found_sidecars *found, struct error *error)
{
    bool done = true;

    if (spot->kind == SPOT_DIRECTORY && count != 0)
        return sidecar_index_find(places, spot->path, wanted, count, found, error);
    for (size_t i = 0; done && i < count; i++) {
        struct store_match match = {0};

        if (wanted[i].uuid.size == 0 && spot->store.stores[0].remote == NULL)
            done = store_list_walk(&spot->store, found_sidecars_collect, found, error);
        else
            done = store_list_find(&spot->store, &wanted[i].uuid, wanted[i].query, &match, error) &&
                   (match.path == NULL ||
                    found_sidecars_add(found, &match.uuid, match.path, true, error));
        free(match.path);
    }
    return done;
}

/* Adds the candidates of the next spot. A file that exists but cannot be used is one too: opening
 * it says what is wrong. */
static bool look(struct search *search, struct error *error)
{
    const struct sidecar_spot *spot = &search->spots[search->next_spot++];
    bool is_named = search->next_spot <= search->named_count;
    bool is_afar = search->next_spot > search->near_count, done;
    size_t before = search->found.count;

    if (spot->kind == SPOT_FILE)
        return (!is_named && file_is_missing(spot->path, 0)) ||
               found_sidecars_add(&search->found, &(struct uuid){.size = 0}, spot->path, false,
                                  error);
    if (!need_uuids(search, error))
        return false;
    done = look_by_uuid(search->places, spot, search->uuids, search->uuid_count, &search->found,
                        error);
    for (size_t i = before; is_afar && i < search->found.count; i++)
        search->found.items[i].afar = spot->store.stores;
    if (!done && is_afar && search->fails == NULL) {
        search->fails = spot->store.stores->remote;
        search->unasked = *error;
    }
    return done;
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
            reject(search, false, &error);
    }
    return search->found.items[search->next_found++].path;
}

/* ---- what fits ---- */

static bool has_size(const struct sidecar *sidecar, enum section_kind kind, uint64_t size)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return size == (section == NULL ? 0 : section->size);
}

static bool fits_image(const struct sidecar_wanted *wanted, const struct sidecar *sidecar,
                       struct error *error)
{
    const struct split_image *image = wanted->image;
    const struct sidecar_facts *facts = &sidecar->facts;

    return (image->uuid.size != 0 &&
            store_uuid_fits(&facts->uuid, &image->uuid,
                            image->uuid_is_stub ? STORE_STUB : STORE_EXACT) &&
            has_size(sidecar, SECTION_COUNTERS, image->counters_size) &&
            has_size(sidecar, SECTION_BITMAP, image->bitmap_size) &&
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
    if (wanted->group != NULL)
        return profile_group_check(wanted->group, sidecar, error);
    if (wanted->stripped != NULL)
        return fits_stripped(search, sidecar, error);
    search->is_other = !sidecar_is_real(sidecar, error);
    return !search->is_other && (wanted->image == NULL || fits_image(wanted, sidecar, error));
}

/* True if a digest of what the split took out, in the profile or the image, is that of the sidecar.
 * A UUID alone may have been set by hand, and the records of a full profile do not tell all builds
 * apart (correlate.h). */
static bool is_proven(const struct sidecar_wanted *wanted, const struct sidecar *sidecar)
{
    const struct profile *profile = wanted->profile;
    bool has_stub = sidecar->facts.has_stub;

    if (profile != NULL)
        return (profile->lightweight && has_stub) ||
               (profile->has_tripwire && profile->header.num_data != 0);
    return wanted->stripped != NULL ||
           (wanted->image != NULL && wanted->image->has_stub && has_stub);
}

/* True if no other candidate fits equally well. Several builds can have the same UUID if it was
 * chosen by hand, and even the same functions. If there are sidecars of several such builds, it is
 * unknown which one is right. Places that --sidecar names are preferred to that of --store, and
 * this to the others; but among those of one kind, an earlier one is no more likely to be right:
 * all of them are searched. URLs are not asked for rivals of a sidecar that is here, or proven. */
static bool has_no_rival(struct search *search, const struct sidecar *sidecar, struct error *error)
{
    size_t end = search->next_spot <= search->given_count   ? search->given_count
                 : search->next_spot <= search->named_count ? search->named_count
                 : search->next_spot <= search->near_count  ? search->near_count
                                                            : search->spot_count;
    bool alone = true;

    if (search->next_spot > search->near_count && is_proven(search->wanted, sidecar))
        end = search->next_spot;

    for (size_t i = search->next_found; alone; i++) {
        const char *path;
        struct sidecar *rival;
        struct error why;

        while (i == search->found.count) {
            if (search->next_spot == end)
                return true;
            if (!look(search, &why) && error_is_of_system(&why)) {
                *error = why;
                return false;
            }
        }
        path = search->found.items[i].path;
        /* The accepted sidecar itself may be found at several places. */
        if (paths_refer_to_same_file(path, sidecar->name))
            continue;
        rival = sidecar_read_for(search->places->options, path, &why);
        if (rival == NULL && error_is_of_system(&why)) {
            *error = why;
            alone = false;
        } else if (rival != NULL && fits(search, rival, &why) && !sidecar_agrees(sidecar, rival)) {
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
    search->is_ambiguous =
        search->wanted->stripped == NULL && !has_no_rival(search, sidecar, error);
    return !search->is_ambiguous;
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

    for (size_t i = 0; i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];

        if (spot->kind == SPOT_FILE) {
            list_path(list, spot->path, "");
        } else if (search->uuid_count == 0) {
            continue;
        } else if (spot->kind == SPOT_STORE) {
            const struct store *store = spot->store.stores;
            const char *state;
            struct stat status;

            if (store->remote != NULL)
                state = search->uuids[0].query != STORE_EXACT || search->wanted->uuid != NULL
                            ? " (which takes whole UUIDs only)"
                            : "";
            else if (stat(store->directory, &status) == 0)
                state = S_ISDIR(status.st_mode) ? "" : " (not a directory)";
            else
                state = errno == ENOENT ? " (no such directory)" : "";
            list_path(list, store->name, state);
        } else if (strcmp(spot->path, INDEX_FILES) != 0) {
            list_path(list, spot->path, "/*" STORE_SUFFIX);
        } else {
            for (size_t k = 0; k < files->count; k++)
                list_path(list, files->paths[k], "");
        }
    }
    buffer_append(list, "", 1);
}

/* Sets the error that says why nothing was found. */
static void report_failure(struct search *search, struct error *error)
{
    const char *name = search->wanted->name, *why = search->no_uuid.message, *places;
    const char *first_fault = search->found.first_fault.message;
    const struct store_list *store = &search->places->store; /* one, or none */
    size_t fault_count = search->found.fault_count;
    char hex[UUID_HEX_MAX];
    struct buffer list = {0};
    struct error faults = {0}, said;

    *error = search->problem;
    /* That a sidecar is of another image says something only if a UUID or a place named it. */
    if (is_any(search) && !search->met_unusable)
        *error = (struct error){0};
    /* A directory of --store that is not there is more likely to be the reason than a sidecar that
     * lies about. */
    if (error->message[0] != '\0' && !error_is_of_system(error) && store->count != 0 &&
        store->stores[0].remote == NULL && file_is_missing(store->stores[0].directory, 0))
        error_set(error, "%.300s: no such directory; %.600s", store->stores[0].name,
                  search->problem.message);
    if (fault_count == 1)
        error_set(&faults, " (1 file there could not be read: %.250s)", first_fault);
    else if (fault_count != 0)
        error_set(&faults, " (%zu files there could not be read; the first: %.250s)", fault_count,
                  first_fault);
    if (error->message[0] != '\0' && search->was_read && fault_count != 0) {
        said = *error;
        error_set(error, "%.700s%s", said.message, faults.message);
        error->number = said.number;
    }
    if (error->message[0] == '\0' && need_uuids(search, error)) {
        list_spots(search, &list);
        places = (const char *)list.data;
        if (list.failed)
            error_out_of_memory(error, "the search for sidecars", list.size);
        else if (search->uuid_count == 0 && is_of_profile(search->wanted))
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
    /* What a server that cannot be asked has is unknown. */
    if (search->fails != NULL && !error_is_of_system(error) &&
        strcmp(error->message, search->unasked.message) != 0) {
        said = *error;
        error_set(error, "%.500s (%.500s)", said.message, search->unasked.message);
        error->number = said.number;
    }
    if (!search->met_unusable && !error_is_of_system(error))
        error->number = ENODATA;
}

/* ---- the whole search ---- */

/* Warns of a sidecar from afar that nothing proves, and of a server that could not be asked. Of an
 * indexed profile, all are so: that is said once. */
static void warn(const struct search *search, const struct sidecar *sidecar)
{
    const struct sidecar_wanted *wanted = search->wanted;
    const struct store *afar = search->found.items[search->next_found - 1].afar;
    char hex[UUID_HEX_MAX];

    if (afar != NULL && wanted->told_by != NULL &&
        remote_is_first_warning(afar->remote, REMOTE_IS_UNPROVEN))
        message_warning(
            "%s: its sidecars are used for %s by their UUIDs alone, as an indexed profile "
            "tells no more of a build",
            afar->name, wanted->told_by);
    if (afar != NULL && wanted->uuid == NULL && !is_proven(wanted, sidecar))
        message_warning(
            "%s: its sidecar of UUID %s is used for %s, though nothing but the UUID and the "
            "numbers of counters and records tell that it is of this build",
            afar->name, uuid_format(&sidecar->facts.uuid, hex), wanted->name);
    if (search->fails != NULL && remote_is_first_warning(search->fails, REMOTE_FAILS))
        message_warning("%s", search->unasked.message);
}

static struct sidecar *go_through(struct search *search)
{
    const struct sidecar_lender *lender = &search->places->lender;
    const char *path;

    while ((path = next_candidate(search)) != NULL) {
        struct error why;
        struct sidecar *sidecar = lender->lend != NULL
                                      ? lender->lend(lender->context, path, &why)
                                      : sidecar_read_for(search->places->options, path, &why);

        if (sidecar != NULL && accepts(search, sidecar, &why)) {
            warn(search, sidecar);
            return sidecar;
        }
        reject(search, sidecar != NULL, &why);
        if (sidecar != NULL && lender->lend != NULL)
            lender->take_back(lender->context, sidecar);
        else
            sidecar_close(sidecar);
    }
    return NULL;
}

struct sidecar *sidecar_search(const struct sidecar_places *places,
                               const struct sidecar_wanted *wanted, struct error *error)
{
    struct search search;
    struct sidecar *sidecar = NULL;

    if (start_search(&search, places, wanted, error)) {
        sidecar = go_through(&search);
        if (sidecar == NULL && places->lender.lend != NULL) {
            /* Directories may have changed since they were read. */
            sidecar_index_forget(places);
            found_sidecars_free(&search.found);
            search.next_found = search.next_spot = 0;
            search.problem = (struct error){0};
            search.fails = NULL;
            sidecar = go_through(&search);
        }
        if (sidecar == NULL)
            report_failure(&search, error);
    }
    end_search(&search);
    return sidecar;
}

bool sidecar_is_near(const struct sidecar_places *places, const struct sidecar_wanted *wanted)
{
    struct search search;
    struct error ignored;
    bool is_near = !start_search(&search, places, wanted, &ignored);

    while (!is_near && search.next_spot < search.near_count && look(&search, &ignored))
        is_near = search.found.count != 0;
    end_search(&search);
    return is_near;
}

struct sidecar *sidecar_search_of_image(const struct sidecar_places *places,
                                        const struct input *file, const struct split_image *image,
                                        struct error *error)
{
    const char *const names[] = {file->path, NULL};
    struct sidecar_wanted wanted = {.name = file->path, .names = names};

    if (image->uuid.size != 0)
        wanted.image = image;
    else
        wanted.stripped = file;
    return sidecar_search(places, &wanted, error);
}

/* ---- the beginning of a UUID ---- */

/* Sets *full to the UUID in the spots of the search that begins with the wanted one. */
static bool complete(const struct search *search, struct uuid *full, struct error *error)
{
    const struct wanted_uuid start = {*search->wanted->uuid, STORE_PREFIX};
    struct found_sidecars found = {0};
    bool done = true;

    for (size_t i = 0; done && i < search->spot_count; i++)
        done = look_by_uuid(search->places, &search->spots[i], &start, 1, &found, error);
    for (size_t i = 1; done && i < found.count; i++)
        done = uuid_equal(&found.items[0].uuid, &found.items[i].uuid) ||
               store_is_ambiguous(found.items[i].path, found.items[0].path, error);
    *full = found.count != 0 ? found.items[0].uuid : (struct uuid){.size = 0};
    found_sidecars_free(&found);
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
                                        const struct uuid *start, const char *told_by,
                                        struct error *error)
{
    struct uuid uuid = *start;
    const struct sidecar_wanted wanted = {.uuid = &uuid, .told_by = told_by};
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
    return done ? sidecar_search(places, &wanted, error) : NULL;
}
