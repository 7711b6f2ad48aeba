/*
 * The transforms, for the table of compact.c.
 */
#ifndef COVSPLIT_COMMON_COMPACT_TRANSFORMS_H
#define COVSPLIT_COMMON_COMPACT_TRANSFORMS_H

#include "common/compact/compact.h"

/* The part of compact_names_1 that is the text of a name_table. */
#define COMPACT_NAMES_TEXT 0

extern const struct compact_transform compact_names_1;

#endif
