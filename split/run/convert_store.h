/*
 * Converting stores: a part of convert.h.
 *
 * The directory of a store, opened as if it were a file, becomes the union of all its sidecars
 * (sidecar/union.h). The directory is read through the descriptor that the program opened, and if
 * one sidecar cannot be read there is no union: a report that lacks an image would look right, but
 * be wrong.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERT_STORE_H
#define COVSPLIT_SPLIT_RUN_CONVERT_STORE_H

#include "split/run/convert.h"
#include "split/run/memory_file.h"

/* Whether the subject, a directory, is a store. */
bool store_is_subject(const struct subject *subject);

/* Adds all its sidecars to the digest: see subject_identify. */
bool store_identify(const struct subject *subject, struct digest_stream *digest,
                    struct error *error);

/* Writes the union. */
bool convert_store(const struct subject *subject, const struct run_sidecars *sidecars,
                   struct memory_file *file, struct error *error);

#endif
