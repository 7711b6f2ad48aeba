/*
 * The choice of sidecars: see sidecar_choice.h.
 */
#include "reader/sidecar_choice.h"

#include <stdlib.h>

#include "common/base/array.h"

static bool is_given(const struct sidecar_choice *choice, const struct sidecar *sidecar)
{
    for (size_t i = 0; i < choice->given_count; i++) {
        if (choice->given[i]->sidecar == sidecar)
            return true;
    }
    return false;
}

/* Gives back a group's sidecar: a profile_sidecar_source's release. */
static void release(void *context, struct profile_sidecar *sidecar)
{
    correlation_free(&sidecar->correlation);
    if (!is_given(context, sidecar->sidecar))
        sidecar_close(sidecar->sidecar);
    free(sidecar);
}

/* Sets *found to the first given sidecar that fits, or NULL; the error then says why the first does
 * not. False if out of memory. */
static bool find_given(const struct sidecar_choice *choice, const struct profile *profile,
                       const char *name, struct sidecar **found, struct error *error)
{
    *found = NULL;
    for (size_t i = 0; i < choice->given_count; i++) {
        struct sidecar *sidecar = choice->given[i]->sidecar;
        struct error why = {0};

        if (correlation_check(sidecar, profile, name, &why)) {
            *found = sidecar;
            return true;
        }
        if (i == 0 || error_is_of_memory(&why))
            *error = why;
        if (error_is_of_memory(&why))
            return false;
    }
    return true;
}

static struct sidecar *find_in_store(const covsplit_store *store, const struct profile *profile,
                                     const char *name, struct error *error)
{
    struct sidecar *sidecar = open_for_profile(store, profile, name, error);

    if (sidecar == NULL || correlation_check(sidecar, profile, name, error))
        return sidecar;
    sidecar_close(sidecar);
    return NULL;
}

static struct sidecar *find_sidecar(const struct sidecar_choice *choice,
                                    const struct profile *profile, const char *name,
                                    struct error *error)
{
    struct sidecar *sidecar;

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (!find_given(choice, profile, name, &sidecar, error) || sidecar != NULL)
        return sidecar;
    if (choice->store != NULL)
        return find_in_store(choice->store, profile, name, error);
    if (choice->given_count == 0)
        error_set(error, "%s: needs the sidecar of its image; give that, or a store", name);
    return NULL;
}

/* Finds the sidecar of a group: a profile_sidecar_source's find. */
static struct profile_sidecar *find(void *context, const struct profile *profile, const char *name,
                                    struct error *error)
{
    struct profile_sidecar *sidecar = calloc(1, sizeof(*sidecar));

    if (sidecar == NULL) {
        error_out_of_memory(error, name, sizeof(*sidecar));
        return NULL;
    }
    sidecar->sidecar = find_sidecar(context, profile, name, error);
    if (sidecar->sidecar != NULL)
        return sidecar;
    free(sidecar);
    return NULL;
}

void sidecar_choice_start(struct sidecar_choice *choice, const covsplit_store *store)
{
    *choice = (struct sidecar_choice){.source = {find, release, choice}, .store = store};
}

void sidecar_choice_free(struct sidecar_choice *choice)
{
    free(choice->given);
}

bool sidecar_choice_add(struct sidecar_choice *choice, covsplit_sidecar *sidecar,
                        covsplit_error **error)
{
    struct error why = {0};
    bool added = ARRAY_ROOM_FOR_ONE(choice->given, choice->given_capacity, choice->given_count);

    if (added)
        choice->given[choice->given_count++] = sidecar;
    else
        error_out_of_memory(&why, sidecar_name(sidecar->sidecar), sizeof(sidecar));
    return check_result(added, error, &why);
}
