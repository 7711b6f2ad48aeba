/*
 * The transforms, for the table of compact.c.
 */
#ifndef COVSPLIT_COMMON_CODEC_TRANSFORMS_H
#define COVSPLIT_COMMON_CODEC_TRANSFORMS_H

#include "common/codec/compact.h"
#include "common/codec/names/text.h"

/* The parts of compact_names_2 that are the text of the names (names/text.h), the first of them,
 * and the one that tells whether all names are in it. */
#define COMPACT_NAMES_TEXT   0
#define COMPACT_NAMES_PIECES 5

/* All of them as bits: they are read without the section. */
#define COMPACT_NAMES_ALONE                                                                        \
    (((UINT64_C(1) << NAME_TEXT_PARTS) - 1) << COMPACT_NAMES_TEXT | UINT64_C(1)                    \
                                                                        << COMPACT_NAMES_PIECES)

/* Of names and file names, which are inflated: zlib's streams of them are a tenth of their size. */
#define COMPACT_NAMES_PARTS_PER_BYTE 64

bool compact_names_are_all(struct bytes pieces);

extern const struct compact_transform compact_names_2;
extern const struct compact_transform compact_data_2;
extern const struct compact_transform compact_covmap_2;
extern const struct compact_transform compact_covfun_3;
extern const struct compact_transform compact_covfun_4;

#endif
