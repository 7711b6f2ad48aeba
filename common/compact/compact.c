/*
 * The compact codec: see compact.h.
 */
#include "common/compact/compact.h"

#include "common/compact/blocks.h"
#include "common/compact/transforms.h"

static const struct compact_transform *const transforms[] = {
    &compact_names_1, &compact_data_2, &compact_covmap_1, &compact_covfun_3, &compact_covfun_4,
};

#define TRANSFORM_COUNT (sizeof(transforms) / sizeof(transforms[0]))

/* What parts may hold for each byte of the section, where the transform does not say: zlib streams
 * become 1032 times as large, and names are told by up to four bytes each. */
#define PARTS_PER_BYTE ((uint64_t)8192)

const struct compact_transform *compact_transform_for(enum section_kind kind, bool in_blocks)
{
    const struct compact_transform *found = NULL;

    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        bool is_blocks = transforms[i]->block != NULL;

        if ((transforms[i]->kinds & SECTION_BIT(kind)) != 0 &&
            (is_blocks ? in_blocks : found == NULL))
            found = transforms[i];
    }
    return found;
}

const struct compact_transform *compact_transform_of(uint32_t type, enum section_kind kind)
{
    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        if (transforms[i]->type == type && (transforms[i]->kinds & SECTION_BIT(kind)) != 0)
            return transforms[i];
    }
    return NULL;
}

static uint64_t parts_limit(uint64_t size, uint64_t parts_per_byte)
{
    uint64_t limit;

    if (__builtin_mul_overflow(size, parts_per_byte != 0 ? parts_per_byte : PARTS_PER_BYTE, &limit))
        return UINT64_MAX;
    return limit;
}

static bool damaged(const char *name, const char *what, struct error *error)
{
    return error_set(error, "%s: %s is damaged (it cannot be put together); get an intact copy",
                     name, what);
}

static uint64_t parts_size(const struct compact_parts *parts)
{
    uint64_t size = 0;

    for (size_t i = 0; i < parts->count; i++)
        size += parts->parts[i].size;
    return size;
}

/* Takes the section apart, and puts it together again. */
static enum compact_result encode_and_prove(const struct compact_transform *transform,
                                            const struct compact_context *context,
                                            struct bytes section, struct compact_parts *parts)
{
    struct buffer again = {0};
    enum compact_result result = transform->encode(context, section, parts);

    if (result == COMPACT_DONE &&
        parts_size(parts) > parts_limit(section.size, transform->parts_per_byte))
        result = COMPACT_UNFIT;
    if (result == COMPACT_DONE)
        result = transform->decode(context, parts, section.size, &again);
    if (result == COMPACT_DONE && !bytes_equal(buffer_view(&again), section))
        result = COMPACT_UNFIT;
    buffer_free(&again);
    return result;
}

static bool encode_section(const struct compact_transform *transform,
                           const struct compact_context *context, struct bytes section,
                           const struct codec_options *options, const char *name,
                           struct buffer *packed, bool *fits, struct error *error)
{
    struct compact_parts parts = {0};
    enum compact_result result = encode_and_prove(transform, context, section, &parts);
    bool done = true;

    *fits = result == COMPACT_DONE;
    if (result == COMPACT_NO_MEMORY)
        done = error_out_of_memory(error, name, section.size);
    else if (result == COMPACT_DONE)
        done = compact_parts_pack(&parts, options, name, packed, error);
    compact_parts_free(&parts);
    return done;
}

bool compact_encode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes section,
                    const struct codec_options *options, const char *name, struct buffer *packed,
                    bool *fits, struct error *error)
{
    size_t start = packed->size;
    bool done = (transform->block != NULL ? compact_blocks_encode : encode_section)(
        transform, context, section, options, name, packed, fits, error);

    if (done && *fits && packed->size - start > section.size + section.size / 8) {
        packed->size = start;
        *fits = false;
    }
    return done;
}

static bool decode_section(const struct compact_transform *transform,
                           const struct compact_context *context, struct bytes packed,
                           uint64_t size, const char *name, const char *what,
                           struct buffer *section, struct error *error)
{
    struct compact_parts parts = {0};
    uint64_t limit = parts_limit(size, transform->parts_per_byte);
    bool done = compact_parts_unpack(packed, UINT64_MAX, limit, name, what, &parts, error);
    size_t start = section->size;

    if (done) {
        switch (transform->decode(context, &parts, size, section)) {
        case COMPACT_DONE:
            done = section->size - start == size || damaged(name, what, error);
            break;
        case COMPACT_UNFIT:
            done = damaged(name, what, error);
            break;
        case COMPACT_NO_MEMORY:
            done = error_out_of_memory(error, name, size);
            break;
        }
    }
    compact_parts_free(&parts);
    return done;
}

static bool decode_blocks(const struct compact_transform *transform,
                          const struct compact_context *context, struct bytes packed, uint64_t size,
                          const char *name, const char *what, struct buffer *section,
                          struct error *error)
{
    struct compact_blocks blocks;
    bool done = compact_blocks_open(&blocks, transform, context, packed, size, name, what, error) &&
                compact_blocks_decode(&blocks, 0, blocks.count, section, error);

    compact_blocks_close(&blocks);
    return done;
}

bool compact_decode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes packed, uint64_t size,
                    const char *name, const char *what, struct buffer *section, struct error *error)
{
    return (transform->block != NULL ? decode_blocks : decode_section)(
        transform, context, packed, size, name, what, section, error);
}

bool compact_decode_names(struct bytes packed, uint64_t size, const char *name, const char *what,
                          struct name_table *names, bool *are_all, struct error *error)
{
    const uint64_t wanted = COMPACT_NAMES_ALONE;
    struct compact_parts parts = {0};
    bool had_memory = true;
    bool done =
        compact_parts_unpack(packed, wanted, parts_limit(size, 0), name, what, &parts, error);

    *names = (struct name_table){0};
    if (done && !name_table_index(names, &parts.parts[COMPACT_NAMES_TEXT], &had_memory))
        done = had_memory ? damaged(name, what, error) : error_out_of_memory(error, name, size);
    if (are_all != NULL)
        *are_all = parts.checked == wanted &&
                   compact_names_are_all(buffer_view(&parts.parts[COMPACT_NAMES_PIECES]));
    compact_parts_free(&parts);
    return done;
}
