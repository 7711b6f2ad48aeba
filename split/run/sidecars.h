/*
 * The sidecars that `covsplit run` converts with: found by UUID, read once for as long as their
 * files stay as they are, and kept for the files that come after. All threads share them.
 */
#ifndef COVSPLIT_SPLIT_RUN_SIDECARS_H
#define COVSPLIT_SPLIT_RUN_SIDECARS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "formats/image.h"
#include "reader/covsplit.h"
#include "split/cli/options.h"

struct run_sidecars;

/* Takes --sidecar, --store and COVSPLIT_STORE. Nothing is opened yet. NULL with an error where
 * there is no memory. Closed with run_sidecars_close (NULL allowed), when no thread uses it any
 * more. */
struct run_sidecars *run_sidecars_open(const struct parsed_options *options, struct error *error);
void run_sidecars_close(struct run_sidecars *sidecars);

/* What a file is, apart from its name: device, inode, size and times. A UUID does not tell: a build
 * may use the same one again for another program. */
struct digest run_sidecars_file_identity(const struct stat *status);

/* Sets the limit of --memory-limit for a sidecar. */
void run_sidecars_limit(const struct run_sidecars *sidecars, covsplit_sidecar *sidecar);

/* A sidecar that is the caller's until run_sidecars_release. */
struct run_sidecar;
covsplit_sidecar *run_sidecar_opened(const struct run_sidecar *sidecar);
void run_sidecars_release(struct run_sidecars *sidecars, struct run_sidecar *sidecar);

/* The sidecar of the image that wrote the profile, which it is checked to be: the one of --sidecar,
 * or one from a store. NULL with an error where there is none. */
struct run_sidecar *run_sidecars_for_profile(struct run_sidecars *sidecars,
                                             const covsplit_profile *profile, const char *name,
                                             struct error *error);

/* The sidecar of an image that was split, which it is checked to be: the one of --sidecar, one from
 * a store, or NAME.covsplit for one of the image's names. `names` ends with NULL; the first one is
 * for messages. NULL with an error where there is none. */
struct run_sidecar *run_sidecars_for_image(struct run_sidecars *sidecars,
                                           const struct split_image *image,
                                           const char *const *names, struct error *error);

/* Adds to the digest which files these functions would look at now: as long as it is the same, so
 * is the sidecar that they find. Waits for no other thread. False with an error where there is no
 * memory. */
bool run_sidecars_identify_for_profile(const struct run_sidecars *sidecars,
                                       const covsplit_profile *profile, const char *name,
                                       struct digest_stream *digest, struct error *error);
bool run_sidecars_identify_for_image(const struct run_sidecars *sidecars,
                                     const struct split_image *image, const char *const *names,
                                     struct digest_stream *digest, struct error *error);

#endif
