/*
 * Applying an edit script: writes the stripped image while reading the original once from start to
 * end.
 */
#ifndef COVSPLIT_COMMON_EDIT_APPLY_H
#define COVSPLIT_COMMON_EDIT_APPLY_H

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/edit/script.h"

/* Appends the result of the script to the output, and computes the digests of the original and of
 * the result. The script must be finished. The input's pages are released after use. */
bool edit_script_apply(const struct edit_script *script, const struct input *original,
                       struct output *output, struct digest *original_digest,
                       struct digest *result_digest, struct error *error);

/* Receives bytes in order. To stop, it fills in the error and returns false. */
typedef bool (*edit_script_sink)(void *context, struct bytes part, struct error *error);

/* Passes the result of the script to the sink instead of an output. The script must be finished.
 * The input's pages are released after use. */
bool edit_script_stream(const struct edit_script *script, const struct input *original,
                        edit_script_sink sink, void *context, struct error *error);

/* Computes the digest of a whole input. Its pages are released after use. */
bool input_digest(const struct input *input, struct digest *digest, struct error *error);

#endif
