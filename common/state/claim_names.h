/*
 * The names of claims (state.h), and the records of them in batches.
 */
#ifndef COVSPLIT_COMMON_STATE_CLAIM_NAMES_H
#define COVSPLIT_COMMON_STATE_CLAIM_NAMES_H

#include "common/base/bytes.h"
#include "common/state/state_directory.h"
#include "common/state/state_file.h"

/* The length of the claimed name, and the nonce of the batch; 0 if the name is not that of a claim.
 */
size_t claim_parse(const char *name, struct digest *nonce);

/* A claim as a batch lists it. Device and inode tell its directory from another one that has the
 * same path later. */
struct listed_claim {
    uint64_t device, inode; /* of the directory */
    char *path;             /* absolute; to be freed */
};

/* Appends the record of a claim, whose directory is looked up. */
bool claim_put(struct state_writer *writer, const char *claim, struct error *error);

/* Reads it. */
bool claim_read(const struct state_file *batch, size_t record, struct listed_claim *claim,
                struct error *error);

/* The path of a claim. */
bool claim_format(const char *path, const struct digest *nonce, uint64_t number,
                  char claim[PATH_MAX], struct error *error);

#endif
