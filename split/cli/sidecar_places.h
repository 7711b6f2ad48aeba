/*
 * The places where sidecars are searched for, according to the options and the environment, and the
 * reading of sidecars according to the options. The order of the places is in sidecar_search.h.
 */
#ifndef COVSPLIT_SPLIT_CLI_SIDECAR_PLACES_H
#define COVSPLIT_SPLIT_CLI_SIDECAR_PLACES_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "split/cli/loose_sidecars.h"
#include "split/cli/options.h"
#include "split/cli/path_list.h"

/* The places that the options name. The texts are not copied. */
struct sidecar_places {
    const struct parsed_options *options;
    struct path_list files;        /* files that --sidecar names */
    struct store_list directories; /* directories that --sidecar names */
    struct store_list store;       /* --store */
    struct store_list environment; /* COVSPLIT_STORE, unless --store is given */
    bool are_given;                /* only --sidecar is searched */
    struct loose_sidecars *loose;
};

/* `goes_on`: the other places are searched after those of --sidecar. Close with
 * sidecar_places_close, even after a failure. Several threads can search at the same time. */
bool sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         bool goes_on, struct error *error);
void sidecar_places_close(struct sidecar_places *places);

/* Returns the file that --sidecar names, or NULL if it names none, several, or a directory. */
const char *sidecar_places_only_file(const struct sidecar_places *places);

/* Reads a sidecar into memory, with the memory limit and the number of threads that the options
 * give. NULL with an error. */
struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error);
void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options);

#endif
