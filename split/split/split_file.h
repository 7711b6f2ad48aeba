/*
 * The split of one file, for whoever has files to split: one, a batch of them, or what a link
 * wrote.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_SPLIT_FILE_H
#define COVSPLIT_SPLIT_SPLIT_SPLIT_FILE_H

#include "split/split/report.h"

/* Splits the image at the path, which may be a universal one, as the options say. */
bool split_file(const struct parsed_options *options, const char *path, unsigned threads,
                struct split_report *report, struct error *error);

#endif
