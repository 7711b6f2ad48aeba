/*
 * Profiles, stores, merging and states: see covsplit.h.
 *
 * A thin layer over common/llvm (profiles), common/store, common/sidecar and common/state (sums).
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/llvm/profile_reader.h"
#include "common/remote/store_list.h"
#include "common/sidecar/profile_groups.h"
#include "common/state/state.h"
#include "reader/internal.h"

/* ---- profiles ---- */

struct covsplit_profile {
    struct input input; /* owned; all zeros if the profile is in the caller's memory */
    struct profile_reader reader;
    char *name;
    struct profile profile; /* the current one */
};

/* Takes ownership of the input, even on failure. */
static covsplit_profile *open_input(struct input *input, struct bytes bytes, const char *name,
                                    covsplit_error **error)
{
    covsplit_profile *opened = new_object(sizeof(*opened), name, error);
    struct error why = {0};

    if (opened == NULL) {
        input_close(input);
        return NULL;
    }
    opened->input = *input;
    input_close_descriptor(&opened->input);
    opened->name = strdup(name);
    opened->reader = (struct profile_reader){.file = bytes, .name = opened->name};
    if (opened->name == NULL)
        error_out_of_memory(&why, name, strlen(name) + 1);
    else if (profile_reader_first(&opened->reader, &opened->profile, &why))
        return opened;
    covsplit_profile_close(opened);
    report_error(error, &why);
    return NULL;
}

covsplit_profile *covsplit_profile_open(const char *path, covsplit_error **error)
{
    struct input input;
    struct error why = {0};

    if (input_read(&input, path, &why))
        return open_input(&input, input.bytes, path, error);
    report_error(error, &why);
    return NULL;
}

covsplit_profile *covsplit_profile_open_memory(const void *data, size_t size, const char *name,
                                               covsplit_error **error)
{
    struct input none = {0};

    return open_input(&none, (struct bytes){data, size}, name, error);
}

void covsplit_profile_close(covsplit_profile *profile)
{
    if (profile == NULL)
        return;
    profile_reader_free(&profile->reader);
    input_close(&profile->input);
    free(profile->name);
    free(profile);
}

/* If there is no next one, or it is bad, the current one stays. */
bool covsplit_profile_next(covsplit_profile *profile, bool *found, covsplit_error **error)
{
    struct profile_reader next = profile->reader;
    struct profile view;
    struct error why = {0};
    bool done;

    next.expanded = (struct buffer){0};
    done = profile_reader_next(&next, &view, found, &why);
    if (done && *found) {
        profile_reader_free(&profile->reader);
        profile->reader = next;
        profile->profile = view;
    } else {
        profile_reader_free(&next);
    }
    return check_result(done, error, &why);
}

uint64_t covsplit_profile_raw_version(const covsplit_profile *profile)
{
    return profile->profile.header.version;
}

bool covsplit_profile_needs_sidecar(const covsplit_profile *profile)
{
    return profile_needs_sidecar(&profile->profile);
}

size_t covsplit_profile_uuid(const covsplit_profile *profile, uint8_t *uuid, size_t size)
{
    enum profile_uuid_source source;
    struct uuid found = profile_uuid(&profile->profile, &source);

    if (found.size != 0 && size != 0)
        memcpy(uuid, found.bytes, found.size < size ? found.size : size);
    return found.size;
}

uint64_t covsplit_profile_counter_count(const covsplit_profile *profile)
{
    return profile_whole_counters(&profile->profile).size /
           profile_counter_size(profile->profile.header.version);
}

uint64_t covsplit_profile_counter(const covsplit_profile *profile, uint64_t index)
{
    const struct profile *view = &profile->profile;
    struct bytes counters = profile_whole_counters(view);

    if (index >= covsplit_profile_counter_count(profile))
        return 0;
    /* With byte coverage, a function that runs clears its bytes. */
    if (profile_counter_size(view->header.version) == 1)
        return counters.data[index] == 0;
    return load_u64(counters.data + index * sizeof(uint64_t), view->big_endian);
}

bool covsplit_profile_check(const covsplit_profile *profile, const covsplit_sidecar *sidecar,
                            covsplit_error **error)
{
    struct error why = {0};

    return check_result(
        correlation_check(sidecar->opened.sidecar, &profile->profile, profile->name, &why), error,
        &why);
}

bool covsplit_profile_correlate(const covsplit_profile *profile, covsplit_sidecar *sidecar,
                                covsplit_sink sink, void *context, covsplit_error **error)
{
    struct caller_sink caller = {sink, context, profile->name};
    struct error why = {0};

    return check_result((profile_needs_sidecar(&profile->profile) ||
                         profile_check_functions(&profile->profile, profile->name, &why)) &&
                            profile_sidecar_correlate(sidecar == NULL ? NULL : &sidecar->opened,
                                                      &profile->profile, profile->name,
                                                      pass_to_caller, &caller, &why),
                        error, &why);
}

/* ---- stores ---- */

struct covsplit_store {
    struct store_list list;
};

static covsplit_store *open_store(const char *text, bool has_urls, covsplit_error **error)
{
    covsplit_store *store = new_object(sizeof(*store), text, error);
    struct error why = {0};

    if (store == NULL ||
        (store_list_open(&store->list, text, STORE_LIST_ALL, MEMORY_LIMIT_MOST, &why) &&
         (has_urls || !store_list_is_remote(&store->list) ||
          error_set(&why,
                    "%s: has a URL; give directories, or open it with covsplit_store_open_urls",
                    text))))
        return store;
    covsplit_store_close(store);
    report_error(error, &why);
    return NULL;
}

covsplit_store *covsplit_store_open(const char *directories, covsplit_error **error)
{
    return open_store(directories, false, error);
}

covsplit_store *covsplit_store_open_urls(const char *stores, covsplit_error **error)
{
    return open_store(stores, true, error);
}

covsplit_store *covsplit_store_open_directory(const char *directory, covsplit_error **error)
{
    covsplit_store *store = new_object(sizeof(*store), directory, error);
    struct error why = {0};

    if (store == NULL)
        return NULL;
    store->list.text = strdup(directory);
    if (store->list.text == NULL)
        error_out_of_memory(&why, directory, strlen(directory));
    else if (directory[0] == '\0' || store_list_add(&store->list, store->list.text, &why))
        return store;
    covsplit_store_close(store);
    report_error(error, &why);
    return NULL;
}

void covsplit_store_close(covsplit_store *store)
{
    if (store == NULL)
        return;
    store_list_close(&store->list);
    free(store);
}

static struct store_match match_uuid(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                     struct error *error)
{
    struct uuid wanted = {.size = size < UUID_SIZE_MAX ? size : UUID_SIZE_MAX};
    struct store_match match = {0};

    memcpy(wanted.bytes, uuid, wanted.size);
    if (size == 0 || size > UUID_SIZE_MAX)
        error_set(error, "a UUID cannot have %zu bytes; give 1 to %d", size, UUID_SIZE_MAX);
    else
        match = store_list_find_only(&store->list, &wanted, error);
    return match;
}

/* In one store. False with an error; the path of the match is NULL if there is none. */
static bool match_profile(const struct store *store, const struct profile *profile,
                          struct store_match *match, struct error *error)
{
    struct profile_uuids uuids = {.profile = profile};
    enum profile_uuid_source source;
    struct uuid uuid;

    while (match->path == NULL && profile_next_uuid(&uuids, &uuid, &source)) {
        if (!store_search(store, &uuid, source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT,
                          match, error))
            return false;
    }
    return true;
}

/* Opens the sidecar of a match and frees the match. NULL if there is no match, for which the error
 * has already been set. */
static struct sidecar *open_match(struct store_match match, struct error *error)
{
    struct sidecar *sidecar = match.path == NULL ? NULL : sidecar_read(match.path, error);

    if (sidecar != NULL &&
        !store_check_uuid(match.path, &sidecar->facts.uuid, &match.uuid, error)) {
        sidecar_close(sidecar);
        sidecar = NULL;
    }
    free(match.path);
    return sidecar;
}

static bool fits_no_other(const char *path, const char *other, struct error *error)
{
    return error_set(error, "%s: fits as well as %s, and is of another build; give the right one",
                     path, other);
}

/* The sidecar that fits the profile: that of another build, or of another split, may have its UUID
 * in another directory of the store. NULL with an error: that of the first which does not fit. */
static struct sidecar *find_for_profile(const covsplit_store *store, const struct profile *profile,
                                        const char *name, struct error *error)
{
    struct sidecar *found = NULL;
    struct error first = {0}, why;
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);
    bool goes_on = uuid.size != 0 || profile_has_no_uuid(profile, name, &first);

    for (size_t i = 0; goes_on && i < store->list.count; i++) {
        struct store_match match = {0};
        struct sidecar *sidecar = NULL;
        bool is_there =
            !match_profile(&store->list.stores[i], profile, &match, &why) || match.path != NULL;

        if (match.path != NULL)
            sidecar = open_match(match, &why);
        if (sidecar != NULL && correlation_check(sidecar, profile, name, &why)) {
            if (found == NULL) {
                found = sidecar;
                continue;
            }
            goes_on =
                sidecar_agrees(found, sidecar) || fits_no_other(sidecar->name, found->name, &first);
        } else if (is_there && (first.message[0] == '\0' || error_is_of_memory(&why))) {
            first = why;
            goes_on = !error_is_of_memory(&why);
        }
        sidecar_close(sidecar);
    }
    if (goes_on && found != NULL)
        return found;
    sidecar_close(found);
    *error = first;
    if (first.message[0] == '\0')
        store_list_not_found(&store->list, &uuid, name, error);
    return NULL;
}

char *covsplit_store_path(const covsplit_store *store, const uint8_t *uuid, size_t size,
                          covsplit_error **error)
{
    struct error why = {0};
    struct store_match match = match_uuid(store, uuid, size, &why);

    check_result(match.path != NULL, error, &why);
    return match.path;
}

covsplit_sidecar *covsplit_store_find(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                      covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(open_match(match_uuid(store, uuid, size, &why), &why), "a sidecar", &why,
                         error);
}

char *covsplit_store_path_for_profile(const covsplit_store *store, const covsplit_profile *profile,
                                      covsplit_error **error)
{
    struct error why = {0};
    struct sidecar *found = find_for_profile(store, &profile->profile, profile->name, &why);
    char *path = found == NULL ? NULL : strdup(found->name);

    if (found != NULL && path == NULL)
        error_out_of_memory(&why, profile->name, strlen(found->name));
    sidecar_close(found);
    check_result(path != NULL, error, &why);
    return path;
}

covsplit_sidecar *covsplit_store_find_for_profile(const covsplit_store *store,
                                                  const covsplit_profile *profile,
                                                  covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(find_for_profile(store, &profile->profile, profile->name, &why),
                         profile->name, &why, error);
}

struct caller_visit {
    covsplit_store_visitor visit;
    void *context;
};

static bool visit_for_caller(void *context, const char *path, const struct uuid *uuid,
                             struct error *error)
{
    const struct caller_visit *caller = context;

    return caller->visit(caller->context, path, uuid->bytes, uuid->size) ||
           error_set(error, "%s: the visit was stopped by the program; run it again", path);
}

bool covsplit_store_visit(const covsplit_store *store, covsplit_store_visitor visit, void *context,
                          covsplit_error **error)
{
    struct caller_visit caller = {visit, context};
    struct error why = {0};

    return check_result(store_list_walk(&store->list, visit_for_caller, &caller, &why), error,
                        &why);
}

/* ---- the sidecars of a merger ---- */

/* They are looked for first among those that the caller gave, then in a store. Must stay where it
 * is until all sidecars that were found have been released. */
struct sidecar_choice {
    struct profile_sidecar_source source; /* which finds in this */
    const covsplit_store *store;          /* may be NULL */
    covsplit_sidecar **given;
    size_t given_count, given_capacity;
};

static struct sidecar *find_sidecar(const struct sidecar_choice *choice,
                                    const struct profile *profile, const char *name,
                                    struct error *error)
{
    struct sidecar *sidecar, *found = NULL;

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    for (size_t i = 0; i < choice->given_count; i++) {
        struct error why = {0};

        sidecar = choice->given[i]->opened.sidecar;
        if (correlation_check(sidecar, profile, name, &why)) {
            if (found != NULL && !sidecar_agrees(found, sidecar)) {
                fits_no_other(sidecar->name, found->name, error);
                return NULL;
            }
            found = found != NULL ? found : sidecar;
            continue;
        }
        if (i == 0 || error_is_of_memory(&why))
            *error = why; /* why the first does not fit */
        if (error_is_of_memory(&why))
            return NULL;
    }
    if (found != NULL || choice->store == NULL) {
        if (found == NULL && choice->given_count == 0)
            error_set(error, "%s: needs the sidecar of its image; give that, or a store", name);
        return found;
    }
    return find_for_profile(choice->store, profile, name, error);
}

/* Finds the sidecar of a group: a profile_sidecar_source's find. */
static struct profile_sidecar *find_for_group(void *context, const struct profile *profile,
                                              const char *name, struct error *error)
{
    struct profile_sidecar *found = calloc(1, sizeof(*found));

    if (found == NULL) {
        error_out_of_memory(error, name, sizeof(*found));
        return NULL;
    }
    found->sidecar = find_sidecar(context, profile, name, error);
    if (found->sidecar != NULL)
        return found;
    free(found);
    return NULL;
}

/* Gives back a group's sidecar: a profile_sidecar_source's release. */
static void release_sidecar(void *context, struct profile_sidecar *found)
{
    const struct sidecar_choice *choice = context;
    bool is_given = false;

    for (size_t i = 0; i < choice->given_count; i++)
        is_given |= choice->given[i]->opened.sidecar == found->sidecar;
    profile_sidecar_unload(found);
    if (!is_given)
        sidecar_close(found->sidecar);
    free(found);
}

/* ---- states ---- */

struct covsplit_state {
    struct state *state;
};

covsplit_state *covsplit_state_open(const char *path, covsplit_error **error)
{
    covsplit_state *opened = new_object(sizeof(*opened), path, error);
    struct error why = {0};

    if (opened == NULL)
        return NULL;
    if (state_open(&opened->state, path, STATE_READ, 0, &why))
        return opened;
    covsplit_state_close(opened);
    report_error(error, &why);
    return NULL;
}

void covsplit_state_close(covsplit_state *state)
{
    if (state == NULL)
        return;
    state_close(state->state);
    free(state);
}

/* ---- merging ---- */

struct covsplit_merger {
    struct profile_groups groups;
    struct sidecar_choice sidecars;
    size_t place; /* of the next profile */
    /* The reason why the merger can no longer be used; NULL while it can. */
    const char *end;
};

covsplit_merger *covsplit_merger_new(const covsplit_store *store, covsplit_error **error)
{
    covsplit_merger *merger = new_object(sizeof(*merger), "a merger", error);

    if (merger != NULL) {
        merger->sidecars = (struct sidecar_choice){
            .source = {find_for_group, release_sidecar, &merger->sidecars}, .store = store};
        profile_groups_start(&merger->groups, &merger->sidecars.source);
    }
    return merger;
}

void covsplit_merger_free(covsplit_merger *merger)
{
    if (merger == NULL)
        return;
    profile_groups_free(&merger->groups);
    free(merger->sidecars.given);
    free(merger);
}

bool covsplit_merger_add_sidecar(covsplit_merger *merger, covsplit_sidecar *sidecar,
                                 covsplit_error **error)
{
    struct sidecar_choice *choice = &merger->sidecars;
    struct error why = {0};

    if (!ARRAY_ROOM_FOR_ONE(choice->given, choice->given_capacity, choice->given_count)) {
        error_out_of_memory(&why, sidecar->opened.sidecar->name, sizeof(sidecar));
        report_error(error, &why);
        return false;
    }
    choice->given[choice->given_count++] = sidecar;
    return true;
}

static bool check_usable(const covsplit_merger *merger, const char *name, struct error *error)
{
    return merger->end == NULL ||
           error_set(error, "%s: the merger %s; make another one", name, merger->end);
}

static bool add_profile(covsplit_merger *merger, const struct profile *profile, const char *name,
                        struct error *error)
{
    const struct profile_place place = {name, merger->place, 0, 0};
    struct profile_group *group;

    if (!check_usable(merger, name, error))
        return false;
    if (!profile_can_be_summed(profile))
        return error_set(error, "%s: %s cannot be added to others; correlate it by itself", name,
                         profile->value_data.size != 0 ? "a value profile" : "a temporal profile");
    /* Counters last: where bytes are missing, those that follow look like counts. */
    group = profile_groups_find(&merger->groups, profile, 1, name, error);
    if (group == NULL || !profile_check_counters(profile, name, error))
        return false;
    merger->place++;
    if (profile_groups_add(&merger->groups, group, profile, &place, 0, 1, error))
        return true;
    merger->end = "ran out of memory";
    return false;
}

bool covsplit_merger_add(covsplit_merger *merger, const covsplit_profile *profile,
                         covsplit_error **error)
{
    struct error why = {0};

    return check_result(add_profile(merger, &profile->profile, profile->name, &why), error, &why);
}

/* Adds what a state has of an image: a state_visitor. */
static bool add_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    covsplit_merger *merger = context;
    const struct profile_place place = {name, merger->place++, 0, 0};
    struct profile_group *group =
        profile_groups_find(&merger->groups, profile_sum_combined(sum), 1, name, error);

    return group != NULL && profile_group_add_sum(group, sum, &place, error);
}

bool covsplit_merger_add_state(covsplit_merger *merger, covsplit_state *state,
                               covsplit_error **error)
{
    struct error why = {0};
    bool done = check_usable(merger, state_path(state->state), &why);

    if (done && !state_read(state->state, add_sum, merger, &why)) {
        merger->end = "has only a part of a state";
        done = false;
    }
    return check_result(done, error, &why);
}

/* The destination of the sums, and the group whose sum is written. */
struct sums {
    struct caller_sink caller;
    uint64_t size; /* that the caller's sink has received */
    struct profile_group *group;
};

static bool count_and_pass(void *context, struct bytes part, struct error *error)
{
    struct sums *sums = context;

    sums->size += part.size;
    return pass_to_caller(&sums->caller, part, error);
}

/* A profile_sum_visitor. */
static bool write_part(void *context, const struct profile *part, uint64_t weight,
                       struct error *error)
{
    static const uint8_t zeros[PROFILE_ALIGNMENT];
    struct sums *sums = context;
    struct bytes padding = {zeros, profile_padding(sums->size)};

    (void)weight;
    return (padding.size == 0 || count_and_pass(sums, padding, error)) &&
           profile_sidecar_correlate(sums->group->sidecar, part, sums->group->name, count_and_pass,
                                     sums, error);
}

static bool finish(covsplit_merger *merger, struct sums *sums, struct error *error)
{
    if (!check_usable(merger, "the sum of the profiles", error))
        return false;
    if (merger->place == 0)
        return error_set(error, "the sum of the profiles: there are none; add one");
    merger->end = "has passed on its sums already";
    profile_groups_finish(&merger->groups);
    if (!profile_groups_combine(&merger->groups, error))
        return false;
    for (size_t i = 0; i < merger->groups.count; i++) {
        bool done;

        sums->group = merger->groups.list[i];
        sums->caller.name = sums->group->name;
        done = profile_sum_visit(sums->group->sum, false, write_part, sums, error);
        profile_sidecar_unload(sums->group->sidecar);
        if (!done)
            return false;
    }
    return true;
}

bool covsplit_merger_finish(covsplit_merger *merger, covsplit_sink sink, void *context,
                            covsplit_error **error)
{
    struct sums sums = {.caller = {.sink = sink, .context = context}};
    struct error why = {0};

    return check_result(finish(merger, &sums, &why), error, &why);
}
