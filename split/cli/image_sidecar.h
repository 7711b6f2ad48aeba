/*
 * The sidecar of an image that was not split, for commands that make of sidecars what LLVM's tools
 * read. It has the image's coverage mapping, as ordinary sections if objects of the image were
 * packed, and what else reports and binary correlation need. It has no edit script, so it cannot
 * join anything, and it is only in memory.
 */
#ifndef COVSPLIT_SPLIT_CLI_IMAGE_SIDECAR_H
#define COVSPLIT_SPLIT_CLI_IMAGE_SIDECAR_H

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/sidecar/sidecar.h"

/* NULL with an error; also for an image that was split. The limit is that of --memory-limit; 0: not
 * given. Close it with sidecar_close. */
struct sidecar *image_sidecar_make(const struct input *image, uint64_t limit, struct error *error);

#endif
