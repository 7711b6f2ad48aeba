/*
 * Records by NameRef: see data_records.h.
 */
#include "common/codec/data_records.h"

#include "common/codec/transform.h"
#include "common/llvm/profile.h"

#define FUNC_HASH_OFFSET 8

void data_records_free(struct data_records *records)
{
    intern_table_free(&records->by_reference);
}

bool data_records_start(struct data_records *records, const struct transform_context *context)
{
    struct profile_record_layout layout;
    uint64_t count;

    *records = (struct data_records){.big_endian = context->big_endian};
    if (!profile_record_layout(context->raw_version, context->pointer_size, &layout))
        return true;
    records->data = context->data;
    records->record_size = layout.record_size;
    count = context->data.size / layout.record_size;
    if (count > UINT32_MAX)
        return true;
    if (!intern_table_reserve(&records->by_reference, (size_t)count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t reference =
            load_u64(context->data.data + i * layout.record_size, context->big_endian);

        if (!intern_table_put(&records->by_reference, reference, i))
            return false;
    }
    return true;
}

bool data_records_find(const struct data_records *records, uint64_t reference, uint64_t *record)
{
    return intern_table_find(&records->by_reference, reference, record);
}

bool data_records_find_hash(const struct data_records *records, uint64_t reference, uint64_t *hash)
{
    uint64_t record;

    if (!data_records_find(records, reference, &record))
        return false;
    *hash = load_u64(records->data.data + record * records->record_size + FUNC_HASH_OFFSET,
                     records->big_endian);
    return true;
}

bool data_records_get(const struct data_records *records, uint64_t record, uint64_t *reference)
{
    if (records->record_size == 0 || record >= records->data.size / records->record_size)
        return false;
    *reference = load_u64(records->data.data + record * records->record_size, records->big_endian);
    return true;
}
