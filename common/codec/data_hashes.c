/*
 * Records by NameRef: see data_hashes.h.
 */
#include "common/codec/data_hashes.h"

#include <stdlib.h>

#include "common/codec/compact.h"
#include "common/llvm/profile.h"

void data_hashes_free(struct data_hashes *hashes)
{
    number_table_free(&hashes->by_reference);
    free(hashes->records);
}

bool data_hashes_start(struct data_hashes *hashes, const struct compact_context *context)
{
    struct profile_record_layout layout;
    uint64_t count, number;

    *hashes = (struct data_hashes){.big_endian = context->big_endian};
    if (!number_table_start(&hashes->by_reference))
        return false;
    if (!profile_record_layout(context->raw_version, context->pointer_size, &layout))
        return true;
    hashes->data = context->data;
    hashes->record_size = layout.record_size;
    count = context->data.size / layout.record_size;
    if (count == 0 || count > UINT32_MAX)
        return true;
    hashes->records = malloc((size_t)count * sizeof(*hashes->records));
    if (hashes->records == NULL || !number_table_reserve(&hashes->by_reference, (size_t)count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t known = hashes->by_reference.count;
        uint64_t reference =
            load_u64(context->data.data + i * layout.record_size, context->big_endian);

        if (!number_table_get(&hashes->by_reference, reference, &number))
            return false;
        if (number == known)
            hashes->records[number] = (uint32_t)i;
    }
    return true;
}

bool data_hashes_find_record(const struct data_hashes *hashes, uint64_t reference, uint64_t *record)
{
    uint64_t number;

    if (!number_table_find(&hashes->by_reference, reference, &number))
        return false;
    *record = hashes->records[number];
    return true;
}

bool data_hashes_find(const struct data_hashes *hashes, uint64_t reference, uint64_t *hash)
{
    uint64_t record;

    if (!data_hashes_find_record(hashes, reference, &record))
        return false;
    *hash = load_u64(hashes->data.data + record * hashes->record_size + 8, hashes->big_endian);
    return true;
}

bool data_hashes_get(const struct data_hashes *hashes, uint64_t record, uint64_t *reference)
{
    if (hashes->record_size == 0 || record >= hashes->data.size / hashes->record_size)
        return false;
    *reference = load_u64(hashes->data.data + record * hashes->record_size, hashes->big_endian);
    return true;
}
