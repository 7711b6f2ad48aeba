/*
 * What the versions of raw profiles have: the words of the header, and the fields of a data record.
 * See profile.h and profile_file.h.
 *
 * Both are described here alone, by a table and a computed layout, so that the same code reads and
 * writes every version, pointer size and byte order.
 */
#include <stddef.h>
#include <string.h>

#include "common/llvm/profile_file.h"

/* The versions that changed the format. */
#define VERSION_RELATIVE 8
#define VERSION_BITMAP   9
#define VERSION_VTABLES  10
#define VERSION_UNIFORM  11

const struct profile_header_word profile_header_words[PROFILE_HEADER_WORD_COUNT] = {
    {offsetof(struct profile_header, magic), 0},
    {offsetof(struct profile_header, version), 0},
    {offsetof(struct profile_header, binary_ids_size), 0},
    {offsetof(struct profile_header, num_data), 0},
    {offsetof(struct profile_header, padding_bytes_before_counters), 0},
    {offsetof(struct profile_header, num_counters), 0},
    {offsetof(struct profile_header, padding_bytes_after_counters), 0},
    {offsetof(struct profile_header, num_bitmap_bytes), VERSION_BITMAP},
    {offsetof(struct profile_header, padding_bytes_after_bitmap_bytes), VERSION_BITMAP},
    {offsetof(struct profile_header, num_uniform_counters), VERSION_UNIFORM},
    {offsetof(struct profile_header, padding_bytes_after_uniform_counters), VERSION_UNIFORM},
    {offsetof(struct profile_header, uniform_counters_delta), VERSION_UNIFORM},
    {offsetof(struct profile_header, names_size), 0},
    {offsetof(struct profile_header, counters_delta), 0},
    {offsetof(struct profile_header, bitmap_delta), VERSION_BITMAP},
    {offsetof(struct profile_header, names_delta), 0},
    {offsetof(struct profile_header, num_vtables), VERSION_VTABLES},
    {offsetof(struct profile_header, vnames_size), VERSION_VTABLES},
    {offsetof(struct profile_header, value_kind_last), 0},
};

const char *profile_variant_name(unsigned bit)
{
    switch (bit) {
    case 55:
        return "loop-entries";
    case 56:
        return "IR";
    case 57:
        return "CSIR";
    case 58:
        return "entry-first";
    case 59:
        return "debug-info-correlation";
    case 60:
        return "byte-coverage";
    case 61:
        return "function-entry-only";
    case 62:
        return "memprof";
    case 63:
        return "temporal";
    default:
        return NULL;
    }
}

/* ---- records ---- */

uint64_t profile_counter_size(uint64_t raw_version)
{
    return (raw_version & PROFILE_VARIANT_BYTE_COVERAGE) != 0 ? 1 : sizeof(uint64_t);
}

bool profile_record_layout(uint64_t raw_version, size_t pointer_size,
                           struct profile_record_layout *layout)
{
    unsigned version = PROFILE_VERSION(raw_version);
    bool has_bitmap = version >= VERSION_BITMAP, has_uniform = version >= VERSION_UNIFORM;
    size_t end;

    if (version < PROFILE_VERSION_MIN || version > PROFILE_VERSION_MAX ||
        (pointer_size != 4 && pointer_size != 8))
        return false;
    memset(layout, 0, sizeof(*layout));
    layout->pointer_size = pointer_size;
    layout->relative = version >= VERSION_RELATIVE;
    layout->counter_ptr = 2 * sizeof(uint64_t); /* after NameRef and FuncHash */
    end = layout->counter_ptr + pointer_size;
    if (has_uniform) {
        layout->uniform_counter_ptr = end;
        end += pointer_size;
    }
    if (has_bitmap) {
        layout->bitmap_ptr = end;
        end += pointer_size;
    }
    layout->num_counters = end + 2 * pointer_size; /* after FunctionPointer and Values */
    layout->num_value_sites = layout->num_counters + sizeof(uint32_t);
    layout->value_kinds = version >= VERSION_VTABLES ? 3 : 2;
    end = layout->num_value_sites + layout->value_kinds * sizeof(uint16_t);
    if (has_uniform) {
        layout->offload_device_wave_size = end;
        end += sizeof(uint16_t);
    }
    if (has_bitmap) {
        layout->num_bitmap_bytes = (size_t)align_up(end, sizeof(uint32_t));
        end = layout->num_bitmap_bytes + sizeof(uint32_t);
    }
    layout->fields_size = end;
    /* LLVM aligns records to 8 bytes, whatever the pointer size. */
    layout->record_size = (size_t)align_up(end, sizeof(uint64_t));
    return true;
}

bool profile_record_has_value_sites(const struct profile_record_layout *layout,
                                    const uint8_t *record, bool big_endian)
{
    for (size_t kind = 0; kind < layout->value_kinds; kind++) {
        if (load_u16(record + layout->num_value_sites + kind * sizeof(uint16_t), big_endian) != 0)
            return true;
    }
    return false;
}

bool profile_records_digest(const struct profile_record_layout *layout, struct bytes records,
                            uint64_t signature, bool big_endian, struct digest *digest)
{
    struct digest_stream *stream = digest_stream_new();

    if (stream == NULL)
        return false;
    for (uint64_t start = 0; start + layout->fields_size <= records.size;
         start += layout->record_size) {
        uint8_t id[PROFILE_STUB_ID_SIZE];

        memcpy(id, records.data + start, sizeof(id));
        if (start == 0)
            store_u64(id, load_u64(id, big_endian) - signature, big_endian);
        digest_stream_add(stream, (struct bytes){id, sizeof(id)});
    }
    *digest = digest_stream_finish(stream);
    digest_stream_free(stream);
    return true;
}

bool profile_record_is_of_device(const struct profile_record_layout *layout, const uint8_t *record,
                                 bool big_endian)
{
    struct bytes pointer = {record + layout->uniform_counter_ptr, layout->pointer_size};

    return layout->uniform_counter_ptr != 0 &&
           (!bytes_all_zero(pointer) ||
            load_u16(record + layout->offload_device_wave_size, big_endian) != 0);
}
