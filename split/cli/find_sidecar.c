/*
 * The sidecars of profiles: see find_sidecar.h.
 */
#include "split/cli/find_sidecar.h"

#include <stdlib.h>

#include "common/base/file.h"

bool sidecar_check_output(const struct parsed_options *options, const char *sidecar,
                          struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    return output == NULL || !paths_meet(sidecar, output) ||
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

/* ---- the set ---- */

/* Checks the given sidecar, even if it turns out that no profile needs it. */
static bool check_given(const struct parsed_options *options, struct error *error)
{
    const char *given;

    for (size_t i = 0; (given = option_text_at(options, OPTION_SIDECAR, i)) != NULL; i++) {
        if (!sidecar_check_output(options, given, error))
            return false;
    }
    return true;
}

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error)
{
    const char *only;

    if (!sidecar_places_open(&sidecars->places, options, false, error) ||
        !check_given(options, error) || !sidecar_check_no_output(options, error))
        return false;
    only = sidecar_places_only_file(&sidecars->places);
    if (only != NULL)
        sidecars->given.sidecar = sidecar_read_for(options, only, error);
    return only == NULL || sidecars->given.sidecar != NULL;
}

void profile_sidecars_close(struct profile_sidecars *sidecars)
{
    profile_sidecar_close(&sidecars->given);
    sidecar_places_close(&sidecars->places);
}

void profile_sidecars_release(const struct profile_sidecars *sidecars,
                              struct profile_sidecar *sidecar)
{
    if (sidecar == NULL || sidecar == &sidecars->given)
        return;
    profile_sidecar_close(sidecar);
    free(sidecar);
}

/* ---- searches ---- */

static struct sidecar *search(const struct sidecar_places *places,
                              const struct sidecar_wanted *wanted, struct error *error)
{
    struct sidecar_search search;
    struct sidecar *sidecar = NULL;

    if (sidecar_search_start(&search, places, wanted, error))
        sidecar = sidecar_search_read(&search, error);
    sidecar_search_end(&search);
    if (sidecar == NULL || sidecar_check_output(places->options, sidecar_name(sidecar), error))
        return sidecar;
    sidecar_close(sidecar);
    return NULL;
}

static struct profile_sidecar *open_found(const struct sidecar_places *places,
                                          const struct sidecar_wanted *wanted, struct error *error)
{
    struct profile_sidecar *sidecar = calloc(1, sizeof(*sidecar));

    if (sidecar == NULL) {
        error_out_of_memory(error, "a sidecar", sizeof(*sidecar));
        return NULL;
    }
    sidecar->sidecar = search(places, wanted, error);
    if (sidecar->sidecar != NULL)
        return sidecar;
    free(sidecar);
    return NULL;
}

struct profile_sidecar *profile_sidecars_find(struct profile_sidecars *sidecars,
                                              const struct profile *profile, const char *name,
                                              struct error *error)
{
    const char *const names[] = {name, NULL};
    const struct sidecar_wanted wanted = {.name = name, .names = names, .profile = profile};

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (sidecars->given.sidecar == NULL)
        return open_found(&sidecars->places, &wanted, error);
    return correlation_check(sidecars->given.sidecar, profile, name, error) ? &sidecars->given
                                                                            : NULL;
}

struct profile_sidecar *profile_sidecars_find_uuid(struct profile_sidecars *sidecars,
                                                   const struct uuid *start, struct error *error)
{
    struct uuid uuid;
    const struct sidecar_wanted wanted = {.uuid = &uuid};

    return sidecar_search_full_uuid(&sidecars->places, start, &uuid, error)
               ? open_found(&sidecars->places, &wanted, error)
               : NULL;
}

static struct profile_sidecar *find_for_source(void *context, const struct profile *profile,
                                               const char *name, struct error *error)
{
    return profile_sidecars_find(context, profile, name, error);
}

static void release_for_source(void *context, struct profile_sidecar *sidecar)
{
    profile_sidecars_release(context, sidecar);
}

struct profile_sidecar_source profile_sidecars_source(struct profile_sidecars *sidecars)
{
    return (struct profile_sidecar_source){find_for_source, release_for_source, sidecars};
}

/* ---- use ---- */

bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error)
{
    return output_write_zeros(output, profile_padding(output->size), error) &&
           profile_sidecar_correlate(sidecar, profile, name, output_sink, output, error);
}
