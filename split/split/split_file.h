/*
 * The split of one file: used for a single file, for each file of a batch, and for the output of a
 * link.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_SPLIT_FILE_H
#define COVSPLIT_SPLIT_SPLIT_SPLIT_FILE_H

#include "split/split/report.h"

/* Splits the image at the path (also a universal one) according to the options. */
bool split_file(const struct parsed_options *options, const char *path, unsigned threads,
                struct split_report *report, struct error *error);

#endif
