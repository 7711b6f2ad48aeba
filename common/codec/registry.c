/*
 * The table of transforms: see registry.h.
 */
#include "common/codec/registry.h"

#include "common/base/error.h"
#include "common/codec/blocks.h"
#include "common/codec/coding.h"
#include "common/codec/transforms.h"

static const struct transform *const transforms[] = {
    &names_transform,         &data_transform,           &filenames_transform,
    &mapping_transform,       &mapping_blocks_transform, &linked_covmap_transform,
    &linked_covfun_transform,
};

#define TRANSFORM_COUNT (sizeof(transforms) / sizeof(transforms[0]))

const struct transform *transform_for(enum section_kind kind, bool in_blocks)
{
    const struct transform *found = NULL;

    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        bool is_blocks = transforms[i]->block != NULL;

        if ((transforms[i]->kinds & SECTION_BIT(kind)) != 0 &&
            (is_blocks ? in_blocks : found == NULL))
            found = transforms[i];
    }
    return found;
}

const struct transform *transform_of(uint32_t type, enum section_kind kind)
{
    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        if (transforms[i]->id == type && (transforms[i]->kinds & SECTION_BIT(kind)) != 0)
            return transforms[i];
    }
    return NULL;
}

bool codec_encode(const struct transform *transform, const struct transform_context *context,
                  struct bytes section, const struct codec_options *options, const char *name,
                  struct buffer *packed, bool *fits, struct error *error)
{
    size_t start = packed->size;
    bool done = (transform->block != NULL ? blocks_encode : coding_encode)(
        transform, context, section, options, name, packed, fits, error);

    if (done && *fits && packed->size - start > section.size + section.size / 8) {
        packed->size = start;
        *fits = false;
    }
    return done;
}

bool codec_decode(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, struct error *error)
{
    /* On 32-bit machines: transforms rely on sizes that fit a size_t. */
    if (packed->size >= SIZE_MAX)
        return error_out_of_memory(error, packed->name, packed->size);
    return (transform->block != NULL ? blocks_decode_all : coding_decode)(transform, context,
                                                                          packed, section, error);
}

bool codec_recall(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, bool *found,
                  struct error *error)
{
    *found = false;
    return transform->block != NULL ||
           coding_recall(transform, context, packed, section, found, error);
}
