/*
 * Finding the sidecar of a stripped image.
 */
#ifndef COVSPLIT_SPLIT_FIND_SIDECAR_H
#define COVSPLIT_SPLIT_FIND_SIDECAR_H

#include "common/error.h"
#include "common/file.h"
#include "split/options.h"

/* The path of the sidecar, as a new string: --sidecar where it is given; else the first file that
 * exists of the one for the image's UUID in --store (or in each directory of COVSPLIT_STORE), and
 * STRIPPED.covsplit. NULL with an error that names every place looked at. */
char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error);

#endif
