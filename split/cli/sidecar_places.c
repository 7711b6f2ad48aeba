/*
 * The places of options: see sidecar_places.h.
 */
#include "split/cli/sidecar_places.h"

#include <stdlib.h>

#include "common/base/file.h"

/* The most threads for one sidecar. If more are allowed, several sidecars are read at the same
 * time, and each of their threads holds what it decodes. */
#define THREADS_MAX 8

static bool add_given(struct sidecar_places *places, struct error *error)
{
    const char *path;

    for (size_t i = 0; (path = option_text_at(places->options, OPTION_SIDECAR, i)) != NULL; i++) {
        if (!(path_is_directory(path) ? store_list_add(&places->directories, path, error)
                                      : path_list_add(&places->files, path, error)))
            return false;
    }
    return true;
}

bool sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         bool goes_on, struct error *error)
{
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);

    *places = (struct sidecar_places){
        .options = options,
        .are_given = option_given(options, OPTION_SIDECAR) && !goes_on,
    };
    places->loose = loose_sidecars_new(&places->files, error);
    if (places->loose == NULL || !add_given(places, error))
        return false;
    if (store != NULL)
        return store_list_open(&places->store, store, false, error);
    return places->are_given || environment == NULL ||
           store_list_open(&places->environment, environment, true, error);
}

void sidecar_places_close(struct sidecar_places *places)
{
    loose_sidecars_free(places->loose);
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

/* ---- reading ---- */

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
