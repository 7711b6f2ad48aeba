/*
 * Universal images, on the command line: each slice is an image with a UUID and a sidecar of its
 * own. Messages call a slice FILE.ARCH, and so is its sidecar named where nothing else is said:
 * FILE.ARCH.covsplit.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_UNIVERSAL_H
#define COVSPLIT_SPLIT_SPLIT_UNIVERSAL_H

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "formats/container.h"
#include "split/cli/options.h"

/* What split_image and command_join do with a universal image. `whole` was started for the image,
 * and has opened it. */
struct split;
bool universal_split(const struct split *whole, struct error *error);
bool universal_join(const struct parsed_options *options, const struct input *stripped,
                    struct error *error);

/* A slice as an input of its own: it views the whole one, which must outlive it. Freed with
 * universal_part_free, also after a failure. */
bool universal_part(const struct input *whole, const struct universal_slice *slice,
                    struct input *part, struct error *error);
void universal_part_free(struct input *part);

/* Starts the output: the header, for the slices' sizes as they are now. */
bool universal_output_start(struct universal *universal, const struct input *image,
                            const char *path, struct output *output, struct error *error);
/* Appends zeros up to where the slice starts. */
bool universal_output_pad(const struct universal *universal, size_t index, struct output *output,
                          struct error *error);

#endif
