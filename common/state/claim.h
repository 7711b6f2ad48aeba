/*
 * The names of claims, inside the state: see state.h.
 */
#ifndef COVSPLIT_COMMON_STATE_CLAIM_H
#define COVSPLIT_COMMON_STATE_CLAIM_H

#include "common/state/state_directory.h"

/* The length of the claimed name, and the nonce of the batch; 0 if the name is not that of a claim.
 */
size_t claim_parse(const char *name, struct digest *nonce);

/* The part of a path behind the last slash. */
const char *claim_file_name(const char *path);

/* The path of a claim. */
bool claim_format(const char *path, const struct digest *nonce, uint64_t number,
                  char claim[PATH_MAX], struct error *error);

#endif
