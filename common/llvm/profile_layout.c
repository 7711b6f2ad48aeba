/*
 * The layout of raw profiles in every version, and writing them: see profile.h.
 *
 * The words of the header, the fields of a data record and the parts of the file are described here
 * alone, by a table, a computed layout and a list, so that the same code reads and writes every
 * version, pointer size and byte order.
 */
#include "common/llvm/profile.h"

#include <stddef.h>
#include <string.h>

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

struct digest profile_records_digest(const struct profile_record_layout *layout,
                                     struct bytes records, uint64_t change, bool big_endian)
{
    struct digest_stream stream;

    digest_stream_start(&stream);
    for (uint64_t start = 0; start + layout->fields_size <= records.size;
         start += layout->record_size) {
        uint8_t id[PROFILE_STUB_ID_SIZE];

        memcpy(id, records.data + start, sizeof(id));
        if (start == 0)
            store_u64(id, load_u64(id, big_endian) - change, big_endian);
        digest_stream_add(&stream, (struct bytes){id, sizeof(id)});
        digest_stream_add(
            &stream, (struct bytes){records.data + start + layout->num_counters, sizeof(uint32_t)});
    }
    return digest_stream_finish(&stream);
}

bool profile_record_is_of_device(const struct profile_record_layout *layout, const uint8_t *record,
                                 bool big_endian)
{
    struct bytes pointer = {record + layout->uniform_counter_ptr, layout->pointer_size};

    return layout->uniform_counter_ptr != 0 &&
           (!bytes_all_zero(pointer) ||
            load_u16(record + layout->offload_device_wave_size, big_endian) != 0);
}

bool profile_record_is_bare(const struct profile_record_layout *layout, const uint8_t *record,
                            bool big_endian)
{
    uint8_t rest[PROFILE_RECORD_SIZE_MAX];

    memcpy(rest, record, layout->record_size);
    memset(rest, 0, PROFILE_STUB_ID_SIZE);
    memset(rest + layout->counter_ptr, 0, layout->pointer_size);
    memset(rest + layout->num_counters, 0, sizeof(uint32_t));
    if (layout->bitmap_ptr != 0 && load_u32(rest + layout->num_bitmap_bytes, big_endian) != 0) {
        memset(rest + layout->bitmap_ptr, 0, layout->pointer_size);
        memset(rest + layout->num_bitmap_bytes, 0, sizeof(uint32_t));
    }
    return bytes_all_zero((struct bytes){rest, layout->record_size});
}

/* ---- the parts of the file ---- */

uint64_t profile_header_size(unsigned version)
{
    uint64_t size = 0;

    for (size_t i = 0; i < PROFILE_HEADER_WORD_COUNT; i++)
        size += profile_header_words[i].since <= version ? sizeof(uint64_t) : 0;
    return size;
}

/* The padding to a multiple of 8 bytes, which the runtime writes where the header does not give it.
 */
static uint64_t padding_after(uint64_t count, uint64_t item_size)
{
    return (0 - count * item_size) % sizeof(uint64_t);
}

void profile_list_parts(struct profile *profile, struct profile_part parts[PROFILE_PART_COUNT])
{
    const struct profile_header *header = &profile->header;
    /* A hash, a pointer and a 32-bit size, aligned to 8. */
    uint64_t vtable_size = profile->is_64_bit ? 24 : 16;
    const struct profile_part all[PROFILE_PART_COUNT] = {
        {header->binary_ids_size, 1, &profile->binary_ids, "binary IDs"},
        {header->num_data, profile->layout.record_size, &profile->data, "data records"},
        {header->padding_bytes_before_counters, 1, NULL, "data records"},
        {header->num_counters, profile_counter_size(header->version), &profile->counters,
         "counters"},
        {header->padding_bytes_after_counters, 1, NULL, "counters"},
        {header->num_bitmap_bytes, 1, &profile->bitmap, "bitmap"},
        {header->padding_bytes_after_bitmap_bytes, 1, NULL, "bitmap"},
        /* Without uniform counters, which are refused, padding may still be declared. */
        {header->padding_bytes_after_uniform_counters, 1, NULL, "bitmap"},
        {header->names_size, 1, &profile->names, "names"},
        {padding_after(header->names_size, 1), 1, NULL, "names"},
        {header->num_vtables, vtable_size, &profile->vtables, "vtables"},
        {padding_after(header->num_vtables, vtable_size), 1, NULL, "vtables"},
        {header->vnames_size, 1, &profile->vtable_names, "vtable names"},
        {padding_after(header->vnames_size, 1), 1, NULL, "vtable names"},
    };

    memcpy(parts, all, sizeof(all));
}

const char *profile_part_name(const struct profile *profile, uint64_t position)
{
    struct profile_part parts[PROFILE_PART_COUNT];
    struct profile copy = *profile; /* profile_list_parts gives pointers to non-const views */
    uint64_t end = profile_header_size(profile->version);
    const char *name = "header";

    profile_list_parts(&copy, parts);
    for (size_t i = 0; i < PROFILE_PART_COUNT && position >= end; i++) {
        name = parts[i].name;
        end += parts[i].count * parts[i].item_size;
    }
    return name;
}

/* ---- writing ---- */

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
    struct profile_part parts[PROFILE_PART_COUNT];
    struct profile copy = *profile;
    uint64_t size = profile_header_size(profile->version) + profile->value_data.size;

    profile_list_parts(&copy, parts);
    for (size_t i = 0; i < PROFILE_PART_COUNT; i++)
        size += parts[i].count * parts[i].item_size;
    return size;
}

bool profile_write(const struct profile *profile, bytes_sink sink, void *context,
                   struct error *error)
{
    uint8_t words[PROFILE_HEADER_WORD_COUNT * sizeof(uint64_t)];
    struct profile_part parts[PROFILE_PART_COUNT];
    struct profile copy = *profile; /* profile_list_parts gives pointers to non-const views */
    struct bytes header = {words, 0};

    for (size_t i = 0; i < PROFILE_HEADER_WORD_COUNT; i++) {
        uint64_t value;

        if (profile->version < profile_header_words[i].since)
            continue;
        memcpy(&value, (const char *)&profile->header + profile_header_words[i].offset,
               sizeof(value));
        store_u64(words + header.size, value, profile->big_endian);
        header.size += sizeof(value);
    }
    if (!put(header, sink, context, error))
        return false;
    profile_list_parts(&copy, parts);
    for (size_t i = 0; i < PROFILE_PART_COUNT; i++) {
        if (parts[i].view == NULL
                ? !put_zeros(parts[i].count * parts[i].item_size, sink, context, error)
                : !put(*parts[i].view, sink, context, error))
            return false;
    }
    return put(profile->value_data, sink, context, error);
}

/* ---- making ---- */

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
