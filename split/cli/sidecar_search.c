/*
 * Searches for sidecars: see sidecar_search.h.
 */
#include "split/cli/sidecar_search.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/sidecar/correlate.h"

#define CURRENT_DIRECTORY "."

/* ---- spots ---- */

/* Takes ownership of the path. If the spot needs one, NULL means that memory for it was lacking. */
static bool add_spot(struct sidecar_search *search, struct sidecar_spot spot, struct error *error)
{
    if ((spot.kind != SPOT_STORES && spot.path == NULL) ||
        !ARRAY_ROOM_FOR_ONE(search->spots, search->spot_capacity, search->spot_count)) {
        free(spot.path);
        return error_out_of_memory(error, "the search for sidecars", sizeof(spot));
    }
    search->spots[search->spot_count++] = spot;
    return true;
}

static bool add_stores(struct sidecar_search *search, const struct store_list *stores,
                       struct error *error)
{
    return stores->count == 0 ||
           add_spot(search, (struct sidecar_spot){.kind = SPOT_STORES, .stores = stores}, error);
}

/* Adds a directory, unless it is there already, perhaps under another name. */
static bool add_loose(struct sidecar_search *search, const char *directory, struct error *error)
{
    struct stat status;

    for (size_t i = 0; stat(directory, &status) == 0 && i < search->spot_count; i++) {
        if (search->spots[i].kind == SPOT_LOOSE && file_is(search->spots[i].path, &status))
            return true;
    }
    return add_spot(search, (struct sidecar_spot){.kind = SPOT_LOOSE, .path = strdup(directory)},
                    error);
}

static bool add_given_spots(struct sidecar_search *search, struct error *error)
{
    const struct sidecar_places *places = search->places;
    const char *only = sidecar_places_only_file(places);
    bool done = true;

    if (only != NULL && search->wanted->uuid == NULL)
        return add_spot(search, (struct sidecar_spot){.kind = SPOT_GIVEN, .path = strdup(only)},
                        error);
    if (places->files.count != 0)
        done = add_loose(search, LOOSE_FILES, error);
    done = done && add_stores(search, &places->directories, error);
    for (size_t i = 0; done && i < places->directories.count; i++)
        done = add_loose(search, places->directories.directories[i], error);
    return done;
}

/* IMAGE.covsplit is only for images: a sidecar is not named after a profile. */
static bool add_spots_beside(struct sidecar_search *search, struct error *error)
{
    const char *const *names = search->wanted->names;
    char directory[PATH_MAX];
    bool done = true;

    for (size_t i = 0; done && search->wanted->profile == NULL && names != NULL && names[i] != NULL;
         i++) {
        struct sidecar_spot spot = {.kind = SPOT_BESIDE};

        if (asprintf(&spot.path, "%s" STORE_SUFFIX, names[i]) < 0)
            spot.path = NULL;
        done = add_spot(search, spot, error);
    }
    for (size_t i = 0; done && names != NULL && names[i] != NULL; i++) {
        if (path_directory(names[i], directory))
            done = add_loose(search, directory, error);
    }
    return done;
}

bool sidecar_search_start(struct sidecar_search *search, const struct sidecar_places *places,
                          const struct sidecar_wanted *wanted, struct error *error)
{
    *search = (struct sidecar_search){.places = places, .wanted = wanted};
    if (!add_given_spots(search, error) ||
        (!places->are_given && !add_stores(search, &places->store, error)))
        return false;
    search->named_count = search->spot_count;
    return places->are_given ||
           (add_spots_beside(search, error) && add_loose(search, CURRENT_DIRECTORY, error) &&
            add_stores(search, &places->environment, error));
}

void sidecar_search_end(struct sidecar_search *search)
{
    for (size_t i = 0; i < search->spot_count; i++)
        free(search->spots[i].path);
    free(search->spots);
    free(search->uuids);
    loose_matches_free(&search->found);
}

/* ---- the UUIDs that are looked for ---- */

/* If the whole UUID is known, searching for its stub would find the same again. */
static bool is_known(const struct sidecar_search *search, const struct uuid *uuid, bool is_stub)
{
    for (size_t i = 0; i < search->uuid_count; i++) {
        const struct uuid *known = &search->uuids[i].uuid;

        if (is_stub ? uuid_has_stub(known, uuid->bytes) : uuid_equal(known, uuid))
            return true;
    }
    return false;
}

static bool add_uuid(struct sidecar_search *search, const struct uuid *uuid, bool is_stub,
                     struct error *error)
{
    if (uuid->size == 0 || is_known(search, uuid, is_stub))
        return true;
    if (!ARRAY_ROOM_FOR_ONE(search->uuids, search->uuid_capacity, search->uuid_count))
        return error_out_of_memory(error, "the search for sidecars", sizeof(*search->uuids));
    search->uuids[search->uuid_count++] =
        (struct wanted_uuid){*uuid, is_stub ? STORE_STUB : STORE_EXACT};
    return true;
}

static bool add_uuids_of_profile(struct sidecar_search *search, struct error *error)
{
    struct profile_uuids uuids = {.profile = search->wanted->profile};
    enum profile_uuid_source source;
    struct uuid uuid;

    while (profile_next_uuid(&uuids, &uuid, &source)) {
        if (!add_uuid(search, &uuid, source == PROFILE_UUID_STUB, error))
            return false;
    }
    return search->uuid_count != 0 ||
           !profile_has_no_uuid(search->wanted->profile, search->wanted->name, &search->no_uuid);
}

/* An image that was not split can have a sidecar too, if there was nothing to take out. */
static bool add_uuid_of_stripped(struct sidecar_search *search, struct error *error)
{
    const struct input *stripped = search->wanted->stripped;
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct split_image split;
    struct image_plan *plan;
    struct error why = {0};
    bool done = true;

    if (image_find_split(stripped, &split, &why))
        return add_uuid(search, &split.uuid, split.uuid_is_stub, error);
    if (!error_is_of_memory(&why) && (plan = image_plan_make(stripped, &options, &why)) != NULL) {
        /* A stripped image never contains the digest of the original. */
        if (plan->facts.uuid_source != UUID_FROM_DIGEST)
            done = add_uuid(search, &plan->facts.uuid, false, error);
        image_plan_free(plan);
        return done;
    }
    search->no_uuid = why;
    if (error_is_of_memory(&why))
        *error = why;
    return !error_is_of_memory(&why);
}

/* Called when they are first needed, since this may read a whole image. */
static bool need_uuids(struct sidecar_search *search, struct error *error)
{
    const struct sidecar_wanted *wanted = search->wanted;

    if (search->has_uuids)
        return true;
    search->has_uuids = true;
    if (wanted->profile != NULL)
        return add_uuids_of_profile(search, error);
    if (wanted->stripped != NULL)
        return add_uuid_of_stripped(search, error);
    if (wanted->image != NULL)
        return add_uuid(search, &wanted->image->uuid, wanted->image->uuid_is_stub, error);
    return add_uuid(search, wanted->uuid, false, error);
}

/* ---- the files ---- */

static void end_here(struct sidecar_search *search)
{
    search->next_spot = search->spot_count;
    search->next_found = search->found.count;
}

void sidecar_search_reject(struct sidecar_search *search, const struct error *why)
{
    if (search->problem.message[0] == '\0' || error_is_of_machine(why))
        search->problem = *why;
    if (error_is_of_machine(why))
        end_here(search);
    search->met_other |= search->is_other;
    search->met_unusable |= !search->is_other;
    search->is_other = false;
}

static bool look_in_stores(const struct store_list *stores, const struct wanted_uuid *wanted,
                           struct loose_matches *found, struct error *error)
{
    struct store_match match = {0};
    bool done = store_list_find(stores, &wanted->uuid, wanted->query, &match, error) &&
                (match.path == NULL || loose_matches_add(found, &match.uuid, match.path, error));

    free(match.path);
    return done;
}

static bool collect(void *context, const char *path, const struct uuid *uuid, struct error *error)
{
    return loose_matches_add(context, uuid, path, error);
}

/* A stripped image that has no UUID anywhere is known by its digest, which all sidecars contain.
 * The candidates are those of stripped images of its size. */
static bool look_by_size(struct sidecar_search *search, const struct sidecar_spot *spot,
                         struct loose_matches *found, struct error *error)
{
    struct loose_matches all = {0};
    bool done = spot->kind == SPOT_STORES
                    ? store_list_walk(spot->stores, collect, &all, error)
                    : loose_list(search->places->loose, spot->path, &all, error);

    for (size_t i = 0; done && i < all.count; i++) {
        const struct store_match *match = &all.items[i];
        struct error why;
        struct sidecar *sidecar = sidecar_read_for(search->places->options, match->path, &why);

        if (sidecar == NULL && error_is_of_machine(&why)) {
            *error = why;
            done = false;
        } else if (sidecar != NULL &&
                   sidecar_facts(sidecar)->stripped_size == search->wanted->stripped->bytes.size) {
            done = loose_matches_add(found, &match->uuid, match->path, error);
        }
        sidecar_close(sidecar);
    }
    loose_matches_free(&all);
    return done;
}

/* True if the image was split and no UUID is known of it. */
static bool looks_by_size(const struct sidecar_search *search)
{
    return search->has_uuids && search->uuid_count == 0 && search->wanted->stripped != NULL &&
           search->no_uuid.message[0] == '\0';
}

static bool look_by_uuid(struct sidecar_search *search, const struct sidecar_spot *spot,
                         struct loose_matches *found, struct error *error)
{
    if (!need_uuids(search, error))
        return false;
    if (looks_by_size(search))
        return look_by_size(search, spot, found, error);
    for (size_t i = 0; i < search->uuid_count; i++) {
        const struct wanted_uuid *wanted = &search->uuids[i];

        if (!(spot->kind == SPOT_STORES ? look_in_stores(spot->stores, wanted, found, error)
                                        : loose_find(search->places->loose, spot->path,
                                                     &wanted->uuid, wanted->query, found, error)))
            return false;
    }
    return true;
}

/* Adds the candidates at the place. */
static bool look(struct sidecar_search *search, const struct sidecar_spot *spot,
                 struct loose_matches *found, struct error *error)
{
    static const struct uuid none = {.size = 0};

    if (spot->kind == SPOT_STORES || spot->kind == SPOT_LOOSE)
        return look_by_uuid(search, spot, found, error);
    /* A file that exists but cannot be used is a candidate too: opening it says what is wrong. */
    return (spot->kind == SPOT_BESIDE && file_is_missing(spot->path, 0)) ||
           loose_matches_add(found, &none, spot->path, error);
}

const char *sidecar_search_next(struct sidecar_search *search)
{
    struct error error;

    while (search->next_found == search->found.count) {
        if (search->next_spot == search->spot_count)
            return NULL;
        loose_matches_free(&search->found);
        search->next_found = 0;
        search->is_other = false;
        if (!look(search, &search->spots[search->next_spot++], &search->found, &error))
            sidecar_search_reject(search, &error);
    }
    return search->found.items[search->next_found++].path;
}

bool sidecar_search_again(struct sidecar_search *search, struct error *error)
{
    for (size_t i = 0; i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];

        if (spot->kind == SPOT_LOOSE && !loose_renew(search->places->loose, spot->path, error))
            return false;
    }
    loose_matches_free(&search->found);
    search->next_found = search->next_spot = 0;
    search->problem = (struct error){0};
    return true;
}

/* ---- what fits ---- */

static uint64_t section_size(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section == NULL ? 0 : section->size;
}

static bool fits_image(const struct sidecar_wanted *wanted, const struct sidecar *sidecar,
                       struct error *error)
{
    const struct split_image *image = wanted->image;
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    const struct uuid *uuid = &facts->uuid;

    return (image->uuid.size != 0 &&
            (image->uuid_is_stub ? uuid_has_stub(uuid, image->uuid.bytes)
                                 : uuid_equal(uuid, &image->uuid)) &&
            section_size(sidecar, SECTION_COUNTERS) == image->counters_size &&
            section_size(sidecar, SECTION_BITMAP) == image->bitmap_size &&
            (!image->has_stub || !facts->has_stub ||
             memcmp(image->stub_id, facts->stub_id, sizeof(facts->stub_id)) == 0)) ||
           error_set(error, "%s: of another build than %s; give the sidecar of this one",
                     sidecar_name(sidecar), wanted->name);
}

static bool has_uuid(struct sidecar_search *search, const struct uuid *uuid)
{
    struct error unknown;

    if (!need_uuids(search, &unknown))
        return false;
    for (size_t i = 0; i < search->uuid_count; i++) {
        if (store_uuid_fits(uuid, &search->uuids[i].uuid, search->uuids[i].query))
            return true;
    }
    return false;
}

static bool fits_stripped(struct sidecar_search *search, const struct sidecar *sidecar,
                          struct error *error)
{
    const struct input *stripped = search->wanted->stripped;

    if (sidecar_check_stripped(sidecar, stripped, &search->is_other, error))
        return true;
    if (search->is_other && has_uuid(search, &sidecar_facts(sidecar)->uuid))
        return error_set(error,
                         "%s: not the stripped image that %s belongs to, though it has its UUID: "
                         "was it stripped or changed after the split? join the image as the split "
                         "wrote it, or build it again",
                         stripped->path, sidecar_name(sidecar));
    return false;
}

static bool fits(struct sidecar_search *search, const struct sidecar *sidecar, struct error *error)
{
    const struct sidecar_wanted *wanted = search->wanted;

    if (wanted->profile != NULL)
        return correlation_check(sidecar, wanted->profile, wanted->name, error);
    if (wanted->stripped != NULL)
        return fits_stripped(search, sidecar, error);
    search->is_other = !sidecar_is_real(sidecar, error);
    return !search->is_other && (wanted->image == NULL || fits_image(wanted, sidecar, error));
}

/* In a store the name must be right. Elsewhere the file may have been replaced since its UUID was
 * read. */
static bool has_expected_uuid(const struct sidecar_search *search, const struct store_match *match,
                              const struct sidecar *sidecar, struct error *error)
{
    const struct uuid *uuid = &sidecar_facts(sidecar)->uuid;

    if (match->uuid.size == 0 || uuid_equal(uuid, &match->uuid))
        return true;
    return search->spots[search->next_spot - 1].kind == SPOT_STORES
               ? store_check_uuid(match->path, uuid, &match->uuid, error)
               : file_report_change(match->path, error);
}

/* Whether two sidecars give the same reports: they belong to one image, or have the same
 * sections. */
static bool agree(const struct sidecar *a, const struct sidecar *b)
{
    if (digest_equal(&sidecar_facts(a)->original_digest, &sidecar_facts(b)->original_digest))
        return true;
    for (size_t i = 0; i < sidecar_section_count(a); i++) {
        const struct sidecar_section *mine = sidecar_section(a, i);
        const struct sidecar_section *other = sidecar_find(b, mine->kind);

        if (other == NULL || mine->has_content != other->has_content ||
            (mine->has_content && !digest_equal(&mine->digest, &other->digest)))
            return false;
    }
    return true;
}

/* Whether no candidate, from the first on, is a rival. */
static bool has_no_rival_among(struct sidecar_search *search, const struct loose_matches *found,
                               size_t first, const struct sidecar *sidecar, struct error *error)
{
    bool alone = true;

    for (size_t i = first; alone && i < found->count; i++) {
        const char *path = found->items[i].path;
        struct sidecar *rival;
        struct error unfit;

        /* The accepted sidecar itself may be found at several places. */
        if (paths_meet(path, sidecar_name(sidecar)))
            continue;
        rival = sidecar_read_for(search->places->options, path, &unfit);
        if (rival == NULL && error_is_of_machine(&unfit)) {
            *error = unfit;
            alone = false;
        } else if (rival != NULL && fits(search, rival, &unfit) && !agree(sidecar, rival)) {
            alone = error_set(error,
                              "%s: fits as well as %s, and is of another build; give the right one "
                              "with --sidecar",
                              path, sidecar_name(sidecar));
        }
        sidecar_close(rival);
    }
    return alone;
}

/* Several builds can have the same UUID if it was chosen by hand, and even the same number of
 * counters. If a place has sidecars of several such builds, it is unknown which one is right.
 * Places that options name are preferred to others, but among those that are searched by default,
 * an earlier one is no more likely to be right: all of them are searched. */
static bool has_no_rival(struct sidecar_search *search, const struct sidecar *sidecar,
                         struct error *error)
{
    bool alone = has_no_rival_among(search, &search->found, search->next_found, sidecar, error);

    if (search->next_spot <= search->named_count)
        return alone;
    for (size_t i = search->next_spot; alone && i < search->spot_count; i++) {
        struct loose_matches found = {0};
        struct error why;

        if (look(search, &search->spots[i], &found, &why)) {
            alone = has_no_rival_among(search, &found, 0, sidecar, error);
        } else if (error_is_of_machine(&why)) {
            *error = why;
            alone = false;
        }
        loose_matches_free(&found);
    }
    return alone;
}

bool sidecar_search_accepts(struct sidecar_search *search, const struct sidecar *sidecar,
                            struct error *error)
{
    const struct store_match *match = &search->found.items[search->next_found - 1];

    if (!has_expected_uuid(search, match, sidecar, error) || !fits(search, sidecar, error))
        return false;
    /* The digest of the stripped image leaves no doubt. */
    if (search->wanted->stripped != NULL || has_no_rival(search, sidecar, error))
        return true;
    search->problem = *error;
    end_here(search);
    return false;
}

struct sidecar *sidecar_search_read(struct sidecar_search *search, struct error *error)
{
    const char *path;
    struct error why;

    while ((path = sidecar_search_next(search)) != NULL) {
        struct sidecar *sidecar = sidecar_read_for(search->places->options, path, &why);

        if (sidecar != NULL && sidecar_search_accepts(search, sidecar, &why))
            return sidecar;
        sidecar_close(sidecar);
        sidecar_search_reject(search, &why);
    }
    sidecar_search_fail(search, error);
    return NULL;
}

/* ---- what was not found ---- */

/* "A, B, C" */
static bool list_one(struct buffer *list, const char *path, const char *suffix)
{
    return (list->size == 0 || buffer_append(list, ", ", 2)) &&
           buffer_append(list, path, strlen(path)) && buffer_append(list, suffix, strlen(suffix));
}

/* A store that is not there is as good as an empty one, but its name is often a slip. */
static const char *store_state(const char *directory)
{
    struct stat status;

    if (stat(directory, &status) != 0)
        return errno == ENOENT ? " (no such directory)" : "";
    return S_ISDIR(status.st_mode) ? "" : " (not a directory)";
}

static bool list_all(struct buffer *list, char *const *paths, size_t count, bool are_stores)
{
    for (size_t i = 0; i < count; i++) {
        if (!list_one(list, paths[i], are_stores ? store_state(paths[i]) : ""))
            return false;
    }
    return true;
}

/* Lists the places. Without a UUID, those that are searched by UUID may not have been used. */
static bool list_spots(const struct sidecar_search *search, struct buffer *list)
{
    bool has_uuid = search->uuid_count != 0 || looks_by_size(search), done = true;

    for (size_t i = 0; done && i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];

        if (spot->kind == SPOT_GIVEN || spot->kind == SPOT_BESIDE)
            done = list_one(list, spot->path, "");
        else if (has_uuid && spot->kind == SPOT_STORES)
            done = list_all(list, spot->stores->directories, spot->stores->count, true);
        else if (has_uuid && strcmp(spot->path, LOOSE_FILES) == 0)
            done = list_all(list, search->places->files.paths, search->places->files.count, false);
        else if (has_uuid)
            done = list_one(list, spot->path, "/*" STORE_SUFFIX);
    }
    return done && buffer_append(list, "", 1);
}

/* "", or " (N files there could not be read; the first: ...)" */
static void tell_faults(const struct sidecar_search *search, struct error *text)
{
    struct loose_faults faults = {0};

    for (size_t i = 0; search->uuid_count != 0 && i < search->spot_count; i++) {
        const struct sidecar_spot *spot = &search->spots[i];

        if (spot->kind == SPOT_LOOSE)
            loose_add_faults(search->places->loose, spot->path, &faults);
    }
    *text = (struct error){0};
    if (faults.count == 1)
        error_set(text, " (1 file there could not be read: %.250s)", faults.first.message);
    else if (faults.count != 0)
        error_set(text, " (%zu files there could not be read; the first: %.250s)", faults.count,
                  faults.first.message);
}

static void report_no_uuid(const struct sidecar_search *search, const char *places,
                           struct error *error)
{
    const char *why = search->no_uuid.message;

    if (search->wanted->profile != NULL)
        *error = search->no_uuid;
    else
        error_set(error,
                  "%.200s: no sidecar found; looked at %.350s (nowhere by UUID: %.300s); give "
                  "--sidecar",
                  search->wanted->name, places, why[0] != '\0' ? why : "it has none");
}

static void report_nothing_found(const struct sidecar_search *search, const char *places,
                                 struct error *error)
{
    const char *name = search->wanted->name;
    const char *what_to_do =
        search->places->are_given ? "give its own" : "give --store or --sidecar";
    char hex[UUID_HEX_MAX];
    struct error faults;

    tell_faults(search, &faults);
    uuid_format(&search->uuids[0].uuid, hex);
    if (name == NULL)
        error_set(error, "%.400s: no sidecar of UUID %s%s; give another place", places, hex,
                  faults.message);
    else
        error_set(error, "%.200s: no sidecar for its UUID %s in %.350s%s; %s", name, hex, places,
                  faults.message, what_to_do);
}

void sidecar_search_fail(struct sidecar_search *search, struct error *error)
{
    struct buffer places = {0};

    *error = search->problem;
    if (error->message[0] != '\0' || !need_uuids(search, error))
        return;
    if (!list_spots(search, &places))
        error_out_of_memory(error, "the search for sidecars", places.size);
    else
        (search->uuid_count == 0 ? report_no_uuid
                                 : report_nothing_found)(search, (const char *)places.data, error);
    buffer_free(&places);
}

/* ---- the beginning of a UUID ---- */

static bool complete_in(const struct sidecar_search *search, const struct sidecar_spot *spot,
                        const struct uuid *start, struct store_match *match, struct error *error)
{
    struct loose_matches matches = {0};
    bool done;

    if (spot->kind == SPOT_STORES)
        return store_list_find(spot->stores, start, STORE_PREFIX, match, error);
    done = loose_find(search->places->loose, spot->path, start, STORE_PREFIX, &matches, error);
    for (size_t i = 0; done && i < matches.count; i++)
        done = store_match_add(match, &matches.items[i].uuid, strdup(matches.items[i].path), error);
    loose_matches_free(&matches);
    return done;
}

bool sidecar_search_complete(const struct sidecar_search *search, struct uuid *full,
                             struct error *error)
{
    struct store_match match = {0};
    bool done = true;

    for (size_t i = 0; done && i < search->spot_count; i++)
        done = complete_in(search, &search->spots[i], search->wanted->uuid, &match, error);
    *full = match.uuid;
    free(match.path);
    return done;
}

bool sidecar_search_full_uuid(const struct sidecar_places *places, const struct uuid *start,
                              struct uuid *full, struct error *error)
{
    const struct sidecar_wanted wanted = {.uuid = start};
    struct sidecar_search search;
    bool done = sidecar_search_start(&search, places, &wanted, error);

    if (done && sidecar_search_next(&search) != NULL) {
        *full = *start;
    } else if (done) {
        done = sidecar_search_complete(&search, full, error);
        if (done && full->size == 0) {
            sidecar_search_fail(&search, error);
            done = false;
        }
    }
    sidecar_search_end(&search);
    return done;
}
