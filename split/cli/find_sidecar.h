/*
 * Finding sidecars: where the user says that they are, in the stores that he has named, and beside
 * their images.
 *
 * An image has its sidecar in a store, under its UUID, or beside it as IMAGE.covsplit; a profile
 * has that of the image that wrote it in a store. --sidecar stands for all of that.
 */
#ifndef COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H
#define COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "split/cli/options.h"

/* What the options say. The texts are not copied. */
struct sidecar_places {
    const char *given;        /* --sidecar; NULL: none */
    const char *store_names;  /* --store, else COVSPLIT_STORE; NULL: none */
    struct store_list stores; /* the same */
    const struct parsed_options *options;
};

/* Closed with sidecar_places_close, also after a failure. */
bool sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         struct error *error);
void sidecar_places_close(struct sidecar_places *places);

/* Reads a sidecar into memory, and tells it what the options say: the limit of memory, and how many
 * threads there may be. NULL with an error. */
struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error);
void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options);

/* ---- paths, which are new strings of the caller's ---- */

/* NAME.covsplit; *path is NULL where there is no such file. One that is there but cannot be used
 * counts: opening it then says what is wrong with it, which helps more than "not found". */
bool find_beside(const char *name, char **path, struct error *error);

/* In the stores: *path is NULL where they have none of that UUID, of which the image may have only
 * what its stub record has (uuid.h). */
bool find_in_stores(const struct store_list *stores, const struct uuid *uuid, bool is_stub,
                    char **path, struct error *error);

/* In the stores, for the image that wrote the profile; NULL with an error where they have none. */
struct store_match find_for_profile(const struct store_list *stores, const struct profile *profile,
                                    const char *name, struct error *error);

/* --sidecar where it is given; else the first file that exists of the one for the image's UUID in
 * the stores, and STRIPPED.covsplit. NULL with an error that names every place looked at. */
char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error);

/* ---- the sidecars of profiles ---- */

/* A sidecar, and what it has for profiles, once that was needed. */
struct profile_sidecar {
    struct sidecar *sidecar;
    struct correlation correlation;
};

void profile_sidecar_close(struct profile_sidecar *sidecar);

/* Start from {0}; closed with profile_sidecars_close. */
struct profile_sidecars {
    struct sidecar_places places;
    struct profile_sidecar given; /* --sidecar, opened at once */
};

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error);
void profile_sidecars_close(struct profile_sidecars *sidecars);

/* The sidecar of the image that wrote the profile, which it is checked to be. NULL with an error
 * where there is none. Given back with profile_sidecars_release. */
struct profile_sidecar *profile_sidecars_find(struct profile_sidecars *sidecars,
                                              const struct profile *profile, const char *name,
                                              struct error *error);
void profile_sidecars_release(const struct profile_sidecars *sidecars,
                              struct profile_sidecar *sidecar);

/* Gives the sink the full raw profile. The sidecar is NULL for a profile that needs none. */
bool profile_sidecar_correlate(struct profile_sidecar *sidecar, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error);

/* The same behind what the output has already, with zeros between. */
bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error);

#endif
