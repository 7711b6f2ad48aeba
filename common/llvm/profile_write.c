/*
 * Writing raw profiles: see profile.h.
 *
 * Writing uses the same table of words and the same list of parts as reading, so the two cannot
 * disagree.
 */
#include <string.h>

#include "common/llvm/profile_file.h"

static bool put(struct bytes part, bytes_sink sink, void *context, struct error *error)
{
    return part.size == 0 || sink(context, part, error);
}

/* Writes the padding between parts. The runtime writes at most a page of it, but the size is not to
 * be trusted. */
static bool put_zeros(uint64_t size, bytes_sink sink, void *context, struct error *error)
{
    static const uint8_t zeros[4096];

    while (size != 0) {
        struct bytes piece = {zeros, size < sizeof(zeros) ? size : sizeof(zeros)};

        if (!put(piece, sink, context, error))
            return false;
        size -= piece.size;
    }
    return true;
}

static size_t encode_header(const struct profile *profile,
                            uint8_t words[PROFILE_HEADER_WORD_COUNT * sizeof(uint64_t)])
{
    size_t size = 0;

    for (size_t i = 0; i < PROFILE_HEADER_WORD_COUNT; i++) {
        uint64_t value;

        if (profile->version < profile_header_words[i].since)
            continue;
        memcpy(&value, (const char *)&profile->header + profile_header_words[i].offset,
               sizeof(value));
        store_u64(words + size, value, profile->big_endian);
        size += sizeof(value);
    }
    return size;
}

void profile_set_padding(struct profile *profile)
{
    struct profile_header *header = &profile->header;

    header->padding_bytes_before_counters = 0;
    header->padding_bytes_after_counters = (0 - profile->counters.size) % sizeof(uint64_t);
    header->padding_bytes_after_bitmap_bytes = (0 - profile->bitmap.size) % sizeof(uint64_t);
    header->padding_bytes_after_uniform_counters = 0;
}

uint64_t profile_written_size(const struct profile *profile)
{
    uint8_t words[PROFILE_HEADER_WORD_COUNT * sizeof(uint64_t)];
    struct profile_part parts[PROFILE_PART_COUNT_MAX];
    struct profile copy = *profile;
    size_t count = profile_list_parts(&copy, parts);
    uint64_t size = encode_header(profile, words) + profile->value_data.size;

    for (size_t i = 0; i < count; i++)
        size += parts[i].count * parts[i].item_size;
    return size;
}

bool profile_write(const struct profile *profile, bytes_sink sink, void *context,
                   struct error *error)
{
    uint8_t words[PROFILE_HEADER_WORD_COUNT * sizeof(uint64_t)];
    struct profile_part parts[PROFILE_PART_COUNT_MAX];
    struct profile copy = *profile; /* profile_list_parts gives pointers to non-const views */
    size_t count = profile_list_parts(&copy, parts);
    struct bytes header = {words, encode_header(profile, words)};

    if (!put(header, sink, context, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].view == NULL
                ? !put_zeros(parts[i].count * parts[i].item_size, sink, context, error)
                : !put(*parts[i].view, sink, context, error))
            return false;
    }
    return put(profile->value_data, sink, context, error);
}
