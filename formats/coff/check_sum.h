/*
 * The checksum in a COFF image's optional header: the sum of all 16-bit words, with carries added
 * again, plus the size of the file. Drivers and some system libraries must have a right one.
 */
#ifndef COVSPLIT_FORMATS_COFF_CHECK_SUM_H
#define COVSPLIT_FORMATS_COFF_CHECK_SUM_H

#include "common/base/file.h"
#include "formats/image.h"

/* Sums up what the finished plan will make of the input (whose pages are given back), and puts the
 * checksum where plan->check_sum_literal says. What is there, and the stub's UUID, must be zero. */
void coff_check_sum_plan(struct image_plan *plan, const struct input *input);

/* Puts the checksum in, with the UUID that the stub has now. */
void coff_check_sum_store(struct image_plan *plan);

#endif
