/*
 * Where mergers and states find the sidecars of profiles: first among those that the caller gave,
 * then in a store.
 */
#ifndef COVSPLIT_READER_SIDECAR_CHOICE_H
#define COVSPLIT_READER_SIDECAR_CHOICE_H

#include "common/sidecar/profile_groups.h"
#include "reader/internal.h"

struct sidecar_choice {
    struct profile_sidecar_source source; /* which finds in this */
    const covsplit_store *store;          /* may be NULL */
    covsplit_sidecar **given;
    size_t given_count, given_capacity;
};

/* The choice must stay where it is until it is freed, which must be after all sidecars that were
 * found have been released. */
void sidecar_choice_start(struct sidecar_choice *choice, const covsplit_store *store);
void sidecar_choice_free(struct sidecar_choice *choice);

/* Adds a sidecar of the caller. False if out of memory. */
bool sidecar_choice_add(struct sidecar_choice *choice, covsplit_sidecar *sidecar,
                        covsplit_error **error);

#endif
