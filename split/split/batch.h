/*
 * covsplit split of many images.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_BATCH_H
#define COVSPLIT_SPLIT_SPLIT_BATCH_H

#include "split/cli/options.h"

/* Carries out covsplit split with several operands, or with --recursive: splits all images, even if
 * some of them fail, and prints a table of what was saved. Returns an enum exit_status. */
int split_batch(const struct parsed_options *options);

#endif
