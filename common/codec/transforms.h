/*
 * Declarations of the transforms, each defined in its own file, for the table in registry.c.
 */
#ifndef COVSPLIT_COMMON_CODEC_TRANSFORMS_H
#define COVSPLIT_COMMON_CODEC_TRANSFORMS_H

#include "common/codec/transform.h"

extern const struct transform names_transform;
extern const struct transform data_transform;
extern const struct transform filenames_transform;
extern const struct transform mapping_transform;
extern const struct transform mapping_blocks_transform;
extern const struct transform linked_covmap_transform;
extern const struct transform linked_covfun_transform;

#endif
