/*
 * The stub record: see runtime/stub.h.
 */
#include "formats/runtime/stub.h"

#include <string.h>

bool stub_layout(uint64_t raw_version, size_t pointer_size, struct profile_record_layout *layout)
{
    for (unsigned bit = PROFILE_VARIANT_BIT_FIRST; bit <= PROFILE_VARIANT_BIT_LAST; bit++) {
        if ((raw_version >> bit & 1) != 0 && profile_variant_name(bit) == NULL)
            return false;
    }
    return profile_record_layout(raw_version, pointer_size, layout);
}

bool records_have_one(const struct profile_record_layout *layout, struct bytes records,
                      bool big_endian, record_test test)
{
    for (uint64_t start = 0; start + layout->fields_size <= records.size;
         start += layout->record_size) {
        if (test(layout, records.data + start, big_endian))
            return true;
    }
    return false;
}

static void store_pointer(uint8_t *to, uint64_t value, size_t pointer_size, bool big_endian)
{
    if (pointer_size == 4)
        store_u32(to, (uint32_t)value, big_endian);
    else
        store_u64(to, value, big_endian);
}

bool stub_encode(const struct profile_record_layout *layout, uint64_t raw_version,
                 const struct stub_place *place, const uint8_t id[PROFILE_STUB_ID_SIZE],
                 bool big_endian, uint8_t record[STUB_RECORD_MAX])
{
    uint64_t counter_size = profile_counter_size(raw_version);
    uint64_t counters = place->counters_size / counter_size;
    uint64_t origin = layout->relative ? place->record : 0;
    uint64_t mask = place->has_narrow_distances ? UINT32_MAX : UINT64_MAX;

    if (counters == 0 || counters > UINT32_MAX || place->counters_size % counter_size != 0 ||
        place->bitmap_size > UINT32_MAX)
        return false;
    if (place->bitmap_size != 0 && layout->bitmap_ptr == 0)
        return false;
    memset(record, 0, layout->record_size);
    memcpy(record, id, PROFILE_STUB_ID_SIZE);
    store_pointer(record + layout->counter_ptr, (place->counters - origin) & mask,
                  layout->pointer_size, big_endian);
    store_u32(record + layout->num_counters, (uint32_t)counters, big_endian);
    if (place->bitmap_size != 0) {
        store_pointer(record + layout->bitmap_ptr, (place->bitmap - origin) & mask,
                      layout->pointer_size, big_endian);
        store_u32(record + layout->num_bitmap_bytes, (uint32_t)place->bitmap_size, big_endian);
    }
    return true;
}
