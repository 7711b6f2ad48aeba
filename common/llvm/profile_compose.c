/*
 * Making raw profiles: see profile_compose.h.
 */
#include "common/llvm/profile_compose.h"

bool profile_append_binary_id(struct buffer *binary_ids, uint64_t raw_version, bool big_endian,
                              const struct uuid *uuid)
{
    bool is_padded = PROFILE_VERSION(raw_version) >= PROFILE_VERSION_PADDED_BINARY_IDS;
    uint8_t size[sizeof(uint64_t)];

    store_u64(size, uuid->size, big_endian);
    return buffer_append(binary_ids, size, sizeof(size)) &&
           buffer_append(binary_ids, uuid->bytes, uuid->size) &&
           (!is_padded || buffer_append_zeros(binary_ids, (0 - uuid->size) % sizeof(uint64_t)));
}

uint64_t profile_count_items(uint64_t size, uint64_t item_size)
{
    return size / item_size + (size % item_size != 0);
}

/* The distances in the header, which the runtime computes with the numbers of its machine. */
static void set_addresses(struct profile *profile, const struct profile_source *source)
{
    struct profile_header *header = &profile->header;
    uint64_t mask = source->pointer_size == 8 ? UINT64_MAX : UINT32_MAX;
    uint64_t data = profile->layout.relative ? source->data.address : 0;

    if (header->num_data == 0 && header->names_size == 0)
        return; /* -profile-correlate: there is nothing that the counters could be distant from */
    header->counters_delta = (source->counters.address - data) & mask;
    header->names_delta = source->names.address & mask;
    if (profile->layout.num_bitmap_bytes != 0)
        header->bitmap_delta = (source->bitmap.address - data) & mask;
}

bool profile_compose(struct profile *profile, const struct profile_source *source)
{
    *profile = (struct profile){
        .version = PROFILE_VERSION(source->raw_version),
        .is_64_bit = source->pointer_size == 8,
        .big_endian = source->big_endian,
        .binary_ids = source->binary_ids,
        .data = source->data.bytes,
        .counters = source->counters.bytes,
        .bitmap = source->bitmap.bytes,
        .names = source->names.bytes,
        .value_data = source->value_data,
    };
    if (!profile_record_layout(source->raw_version, source->pointer_size, &profile->layout))
        return false;
    if (profile->layout.num_bitmap_bytes == 0) /* other code in the image may have one */
        profile->bitmap = (struct bytes){0};
    profile->header = (struct profile_header){
        .magic = profile_magic(profile->is_64_bit),
        .version = source->raw_version,
        .binary_ids_size = source->binary_ids.size,
        .num_data = source->data.bytes.size / profile->layout.record_size,
        .num_counters = source->counters.bytes.size / profile_counter_size(source->raw_version),
        .num_bitmap_bytes = profile->bitmap.size,
        .names_size = source->names.bytes.size,
        .value_kind_last = profile->layout.value_kinds - 1,
    };
    set_addresses(profile, source);
    profile_set_padding(profile);
    profile->size = profile_written_size(profile);
    return true;
}
