/*
 * The transforms, for the table of compact.c.
 */
#ifndef COVSPLIT_COMMON_COMPACT_TRANSFORMS_H
#define COVSPLIT_COMMON_COMPACT_TRANSFORMS_H

#include "common/compact/compact.h"

/* The part of compact_names_1 that is the text of a name_table, and the one that tells whether all
 * names are in it. */
#define COMPACT_NAMES_TEXT   0
#define COMPACT_NAMES_PIECES 2

/* Both as bits: they are read without the section. */
#define COMPACT_NAMES_ALONE                                                                        \
    (UINT64_C(1) << COMPACT_NAMES_TEXT | UINT64_C(1) << COMPACT_NAMES_PIECES)

bool compact_names_are_all(struct bytes pieces);

extern const struct compact_transform compact_names_1;
extern const struct compact_transform compact_data_2;
extern const struct compact_transform compact_covmap_1;
extern const struct compact_transform compact_covfun_3;
extern const struct compact_transform compact_covfun_4;

#endif
