/*
 * Applying an edit script: writes the stripped image while the original is read once, front to
 * back.
 */
#ifndef COVSPLIT_COMMON_EDIT_APPLY_H
#define COVSPLIT_COMMON_EDIT_APPLY_H

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/edit/script.h"

/* Appends the result of the (finished) script to the output, and takes the digests of the original
 * and of the result on the way. The input's pages are given back behind the cursor. */
bool edit_script_apply(const struct edit_script *script, const struct input *original,
                       struct output *output, struct digest *original_digest,
                       struct digest *result_digest, struct error *error);

/* Called with bytes in order. False stops, with the error filled in. */
typedef bool (*edit_script_sink)(void *context, struct bytes part, struct error *error);

/* Passes the result of the (finished) script to the sink, without writing it anywhere. The input's
 * pages are given back behind the cursor. */
bool edit_script_stream(const struct edit_script *script, const struct input *original,
                        edit_script_sink sink, void *context, struct error *error);

/* The digest of a whole input, read once, its pages given back. */
bool input_digest(const struct input *input, struct digest *digest, struct error *error);

#endif
