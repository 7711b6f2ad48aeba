/*
 * Correlating: see correlate.h.
 *
 * Pointers in records. From version 8 on, CounterPtr is the distance from the record to its
 * counters, a number that the linker knows, so the data section in the file is the same as in a
 * profile. The header's CountersDelta is the distance from the data section to the counters
 * section; a reader computes the offset of the counters as CounterPtr - (CountersDelta - position
 * of the record).
 *
 * In version 7, CounterPtr is an address: the linked one in the file, the one in memory in a
 * profile. They differ by the load bias, which follows from CountersDelta, in this version the
 * address of the counters. In position-independent images of version 7, CounterPtr is zero in the
 * file, because the addresses are in the dynamic relocations. Then the counters are assumed to be
 * in the order of the records, provided that they fill their section exactly.
 */
#include "common/sidecar/correlate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/names.h"
#include "common/llvm/tripwire.h"

/* ---- fields of records ---- */

bool correlation_is_big_endian(const struct correlation *correlation)
{
    return sidecar_facts(correlation->sidecar)->elf_data == 2; /* ELFDATA2MSB */
}

/* In COFF, distances have 32 bits, whatever the size of the field. */
static uint64_t pointer_mask(const struct correlation *correlation)
{
    bool narrow = sidecar_facts(correlation->sidecar)->format == IMAGE_COFF;

    return correlation->layout.pointer_size == 4 || (narrow && !correlation->is_binary)
               ? UINT32_MAX
               : UINT64_MAX;
}

static uint64_t load_pointer(const struct correlation *correlation, const uint8_t *from)
{
    bool big = correlation_is_big_endian(correlation);

    return correlation->layout.pointer_size == 4 ? load_u32(from, big) : load_u64(from, big);
}

static void store_pointer(const struct correlation *correlation, uint8_t *to, uint64_t value)
{
    bool big = correlation_is_big_endian(correlation);

    if (correlation->layout.pointer_size == 4)
        store_u32(to, (uint32_t)value, big);
    else
        store_u64(to, value, big);
}

static uint8_t *record_at(const struct correlation *correlation, uint64_t index)
{
    return correlation->data.data + index * correlation->layout.record_size;
}

static uint64_t record_count(const struct correlation *correlation)
{
    return correlation->data.size / correlation->layout.record_size;
}

static uint64_t counter_size(const struct correlation *correlation)
{
    return profile_counter_size(sidecar_facts(correlation->sidecar)->raw_version);
}

static uint64_t load_count(const struct correlation *correlation, const uint8_t *from)
{
    return load_u32(from, correlation_is_big_endian(correlation));
}

/* ---- loading ---- */

static bool damaged(const struct sidecar *sidecar, const char *how, struct error *error)
{
    return error_set(error, "%s: the sidecar is damaged (%s); get an intact copy",
                     sidecar_name(sidecar), how);
}

/* The last record may lack its padding; adds it. */
static bool complete_last_record(struct correlation *correlation, struct error *error)
{
    const struct profile_record_layout *layout = &correlation->layout;
    size_t rest = correlation->data.size % layout->record_size;

    if (rest == 0)
        return true;
    if (rest < layout->fields_size)
        return damaged(correlation->sidecar, "its data does not consist of whole records", error);
    return buffer_append_zeros(&correlation->data, layout->record_size - rest) ||
           error_out_of_memory(error, sidecar_name(correlation->sidecar), layout->record_size);
}

/* Reads the section of this kind; *found is false if there is none. */
static bool load_section(const struct sidecar *sidecar, enum section_kind kind,
                         struct buffer *content, bool *found, struct error *error)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    *found = section != NULL;
    return section == NULL || sidecar_read_section(sidecar, section, content, error);
}

/* Fills in addresses that are zero in the file because of dynamic relocations: see the opening
 * comment. */
static bool fill_in_addresses(struct correlation *correlation, uint64_t counters,
                              struct error *error)
{
    const struct profile_record_layout *layout = &correlation->layout;
    uint64_t count = record_count(correlation);
    uint64_t size = counter_size(correlation);
    uint64_t position = 0;

    for (uint64_t i = 0; i < count; i++) {
        if (load_pointer(correlation, record_at(correlation, i) + layout->counter_ptr) != 0)
            return true;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *record = record_at(correlation, i);

        store_pointer(correlation, record + layout->counter_ptr, counters + position);
        position += load_count(correlation, record + layout->num_counters) * size;
    }
    if (position != correlation->counters_size)
        return error_set(error,
                         "%s: raw profile version 7 of an image without fixed addresses: its "
                         "counters cannot be assigned to functions; link with -no-pie, or use "
                         "LLVM 14 or later",
                         sidecar_name(correlation->sidecar));
    return true;
}

/* With value sites, data stays in the image. Lightweight profiles have no value profile data, so
 * what comes after one would be taken for that. */
static bool check_value_sites(const struct correlation *correlation, struct error *error)
{
    uint64_t count = record_count(correlation);

    for (uint64_t i = 0; i < count; i++) {
        if (profile_record_has_value_sites(&correlation->layout, record_at(correlation, i),
                                           correlation_is_big_endian(correlation)))
            return damaged(correlation->sidecar, "a record in place of its stub has value sites",
                           error);
    }
    return true;
}

/* Loads the data section of the image. */
static bool load_image_data(struct correlation *correlation, uint64_t counters, uint64_t bitmap,
                            struct error *error)
{
    const struct sidecar_section *section = sidecar_find(correlation->sidecar, SECTION_DATA);

    if (!correlation->layout.relative) {
        correlation->counters_delta = counters;
        return fill_in_addresses(correlation, counters, error);
    }
    correlation->counters_delta = (counters - section->address) & pointer_mask(correlation);
    correlation->bitmap_delta = (bitmap - section->address) & pointer_mask(correlation);
    return true;
}

/* Whether the record's counters are in the image. If the linker dropped a function, its counters
 * are gone, but its record may remain in __llvm_covdata, which is not loaded. */
static bool is_live(const struct correlation *correlation, const uint8_t *record, uint64_t counters,
                    uint64_t *offset)
{
    uint64_t address = load_pointer(correlation, record + correlation->layout.counter_ptr);

    *offset = address - counters;
    return address >= counters && *offset < correlation->counters_size;
}

/* A record, by its index, and the offset of its counters. */
struct live_record {
    uint64_t offset;
    uint64_t index;
};

static int compare_offsets(const void *a, const void *b)
{
    const struct live_record *left = a, *right = b;

    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static int compare_indices(const void *a, const void *b)
{
    const struct live_record *left = a, *right = b;

    return left->index < right->index ? -1 : left->index > right->index;
}

/* Keeps the first record for each offset. Linkers do not merge the records of a function in
 * sections that are not loaded, but its counters must not be counted several times. */
static uint64_t drop_repeated(struct live_record *records, uint64_t count)
{
    uint64_t kept = 0;

    qsort(records, (size_t)count, sizeof(*records), compare_offsets);
    for (uint64_t i = 0; i < count; i++) {
        if (kept == 0 || records[i].offset != records[kept - 1].offset)
            records[kept++] = records[i];
    }
    qsort(records, (size_t)kept, sizeof(*records), compare_indices);
    return kept;
}

static uint64_t find_live_records(const struct correlation *correlation, uint64_t counters,
                                  struct live_record *records)
{
    uint64_t count = record_count(correlation), live = 0;

    for (uint64_t i = 0; i < count; i++) {
        records[live].index = i;
        if (is_live(correlation, record_at(correlation, i), counters, &records[live].offset))
            live++;
    }
    return drop_repeated(records, live);
}

/* Announces no value profile data: as llvm-profdata does, since such programs write none. */
static void clear_value_sites(const struct profile_record_layout *layout, uint8_t *record)
{
    memset(record + layout->num_value_sites, 0, layout->value_kinds * sizeof(uint16_t));
}

/* Converts __llvm_covdata to the form of data in a profile: drops records without counters, and
 * converts addresses to distances. These are as if the counters began where the data ends, so that
 * none is negative: of 32 bits, llvm-profdata takes them for 64. */
static bool convert_covdata(struct correlation *correlation, uint64_t counters, uint64_t bitmap,
                            struct error *error)
{
    const struct profile_record_layout *layout = &correlation->layout;
    struct live_record *records;
    bool are_whole = true;
    uint64_t live;

    records = malloc((size_t)(record_count(correlation) + 1) * sizeof(*records));
    if (records == NULL)
        return error_out_of_memory(error, sidecar_name(correlation->sidecar),
                                   correlation->data.size);
    live = find_live_records(correlation, counters, records);
    correlation->data.size = (size_t)(live * layout->record_size);
    correlation->counters_delta = correlation->bitmap_delta = correlation->data.size;
    for (uint64_t i = 0; are_whole && i < live; i++) {
        uint8_t *to = record_at(correlation, i);
        uint64_t distance = (live - i) * layout->record_size;

        memmove(to, record_at(correlation, records[i].index), layout->record_size);
        store_pointer(correlation, to + layout->counter_ptr, records[i].offset + distance);
        if (load_count(correlation, to + layout->num_bitmap_bytes) != 0)
            store_pointer(correlation, to + layout->bitmap_ptr,
                          load_pointer(correlation, to + layout->bitmap_ptr) - bitmap + distance);
        clear_value_sites(layout, to);
        are_whole = records[i].offset % counter_size(correlation) == 0;
    }
    free(records);
    return are_whole ||
           damaged(correlation->sidecar, "a record's counters begin within another counter", error);
}

static bool load_data(struct correlation *correlation, struct error *error)
{
    const struct sidecar *sidecar = correlation->sidecar;
    const struct sidecar_section *counters = sidecar_find(sidecar, SECTION_COUNTERS);
    const struct sidecar_section *bitmap = sidecar_find(sidecar, SECTION_BITMAP);
    uint64_t counters_address = counters != NULL ? counters->address : 0;
    uint64_t bitmap_address = bitmap != NULL ? bitmap->address : 0;

    correlation->counters_size = counters != NULL ? counters->size : 0;
    correlation->bitmap_size = bitmap != NULL ? bitmap->size : 0;
    if (!load_section(sidecar, SECTION_COVDATA, &correlation->data, &correlation->has_data, error))
        return false;
    if (correlation->is_binary) {
        if (correlation->layout.num_bitmap_bytes == 0)
            return damaged(sidecar, "its raw profile version has no binary correlation", error);
        return complete_last_record(correlation, error) &&
               convert_covdata(correlation, counters_address, bitmap_address, error);
    }
    if (!sidecar_facts(sidecar)->has_stub)
        return true;
    if (!load_section(sidecar, SECTION_DATA, &correlation->data, &correlation->has_data, error))
        return false;
    if (!correlation->has_data)
        return damaged(sidecar, "it has no data for its stub record", error);
    return complete_last_record(correlation, error) && check_value_sites(correlation, error) &&
           load_image_data(correlation, counters_address, bitmap_address, error);
}

/* Determined from the first record, as in profiles. */
static uint64_t find_counter_skew(const struct correlation *correlation)
{
    const struct profile_record_layout *layout = &correlation->layout;
    uint64_t skew;

    if (!correlation->has_data || record_count(correlation) == 0 || !layout->relative)
        return 0;
    skew = (load_pointer(correlation, record_at(correlation, 0) + layout->counter_ptr) -
            correlation->counters_delta) %
           counter_size(correlation);
    return skew < correlation->counters_size ? skew : 0;
}

/* Loads each name once, uncompressed. llvm-profdata treats that the same and reads it faster, and
 * no zlib stream has to be recreated. Contents that are not names are passed on unchanged. */
static bool load_names(struct correlation *correlation, struct error *error)
{
    const struct sidecar *sidecar = correlation->sidecar;
    enum section_kind kind = correlation->is_binary ? SECTION_COVNAMES : SECTION_NAMES;
    const struct sidecar_section *section = sidecar_find(sidecar, kind);
    struct names set = {0};
    bool are_known = false, done;

    correlation->has_names = section != NULL;
    done = section == NULL || sidecar_read_names(sidecar, section, true, &set, error);
    if (done && set.count != 0) {
        are_known = true;
        done = names_encode(&set, &correlation->names) ||
               error_out_of_memory(error, sidecar_name(sidecar), set.text.size);
    }
    names_free(&set);
    if (are_known || (!done && error_is_of_memory(error)))
        return done;
    return load_section(sidecar, kind, &correlation->names, &correlation->has_names, error);
}

bool correlation_load(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);

    *correlation = (struct correlation){
        .sidecar = sidecar, .is_binary = sidecar_find(sidecar, SECTION_COVDATA) != NULL};
    if (!profile_record_layout(facts->raw_version, (size_t)facts->pointer_size,
                               &correlation->layout))
        return error_set(error,
                         "%s: its image writes no profiles, or none of raw version %d to "
                         "%d; give the sidecar of the image that wrote the profile",
                         sidecar_name(sidecar), PROFILE_VERSION_MIN, PROFILE_VERSION_MAX);
    /* Names first, because decoding the data needs their NameRefs. */
    if (!load_names(correlation, error) || !load_data(correlation, error))
        return false;
    correlation->counter_skew = find_counter_skew(correlation);
    correlation->is_loaded = true;
    return true;
}

bool correlation_need(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error)
{
    if (correlation->is_loaded || correlation_load(correlation, sidecar, error))
        return true;
    correlation_free(correlation);
    return false;
}

void correlation_free(struct correlation *correlation)
{
    buffer_free(&correlation->data);
    buffer_free(&correlation->names);
    *correlation = (struct correlation){0};
}

bool correlation_range(const struct correlation *correlation, uint64_t index,
                       struct correlation_range *range)
{
    const struct profile_record_layout *layout = &correlation->layout;
    const uint8_t *record = record_at(correlation, index);
    uint64_t position = layout->relative ? index * layout->record_size : 0;
    uint64_t mask = pointer_mask(correlation), size = counter_size(correlation);
    uint64_t offset = (load_pointer(correlation, record + layout->counter_ptr) -
                       correlation->counters_delta - correlation->counter_skew + position) &
                      mask;

    *range = (struct correlation_range){
        .first_counter = offset / size,
        .counter_count = load_count(correlation, record + layout->num_counters),
    };
    if (offset % size != 0 || !range_within(offset, range->counter_count * size, 0,
                                            correlation->counters_size - correlation->counter_skew))
        return false;
    if (layout->num_bitmap_bytes == 0)
        return true;
    range->bitmap_byte_count = load_count(correlation, record + layout->num_bitmap_bytes);
    if (range->bitmap_byte_count == 0)
        return true;
    range->first_bitmap_byte = (load_pointer(correlation, record + layout->bitmap_ptr) -
                                correlation->bitmap_delta + position) &
                               mask;
    return range_within(range->first_bitmap_byte, range->bitmap_byte_count, 0,
                        correlation->bitmap_size);
}

/* ---- applying ---- */

/* Converts the addresses of version 7 to those in the memory of the program that wrote the profile.
 */
static bool relocate(const struct correlation *correlation, const struct profile *profile,
                     const char *name, struct buffer *relocated, struct error *error)
{
    const struct profile_record_layout *layout = &correlation->layout;
    uint64_t bias = profile->header.counters_delta - correlation->counters_delta;
    uint64_t count = record_count(correlation);

    relocated->size = 0;
    if (!buffer_append(relocated, correlation->data.data, correlation->data.size))
        return error_out_of_memory(error, name, correlation->data.size);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *pointer = relocated->data + i * layout->record_size + layout->counter_ptr;

        store_pointer(correlation, pointer, load_pointer(correlation, pointer) + bias);
    }
    return true;
}

static bool put_data_back(const struct correlation *correlation, const struct profile *profile,
                          const char *name, struct buffer *relocated, struct profile *full,
                          struct error *error)
{
    full->data = buffer_view(&correlation->data);
    full->header.num_data = record_count(correlation);
    full->lightweight = false;
    if (correlation->is_binary) {
        full->header.counters_delta = correlation->counters_delta;
        full->header.bitmap_delta = correlation->bitmap_delta;
        return true;
    }
    if (correlation->layout.relative) {
        uint64_t mask = UINT32_MAX; /* on 64-bit Windows the runtime writes only these bits */

        if (((profile->header.counters_delta ^ correlation->counters_delta) & mask) == 0 &&
            profile->counter_skew == correlation->counter_skew)
            return true;
        /* The stub of a Mach-O image may be elsewhere than the records were. It leads to all
         * counters (profile.c), and correlation_check has compared what it stands for. */
        if (sidecar_facts(correlation->sidecar)->format == IMAGE_MACHO && profile->lightweight &&
            profile->counter_skew == correlation->counter_skew) {
            full->header.counters_delta = correlation->counters_delta;
            full->header.bitmap_delta = correlation->bitmap_delta;
            return true;
        }
        return error_set(error,
                         "%s: its counters are not where those of the image of %s are; give the "
                         "sidecar of the image that wrote it",
                         name, sidecar_name(correlation->sidecar));
    }
    if (!relocate(correlation, profile, name, relocated, error))
        return false;
    full->data = buffer_view(relocated);
    return true;
}

/* Checks that a NameRef belongs to a name. Without exact names, their original size, from which it
 * was computed, is not certain: versions before tripwires made such sidecars of images whose
 * records stayed. */
static bool is_name_ref(const struct correlation *correlation, uint64_t name_ref, const char *name,
                        struct error *error)
{
    struct names names = {0};
    bool is = false, done = names_read(&names, buffer_view(&correlation->names),
                                       sidecar_name(correlation->sidecar), error);

    if (done)
        is = names_find(&names, name_ref) != NULL;
    names_free(&names);
    return is || !done
               ? done
               : error_set(error,
                           "%s: its first record belongs to no function in %s, which does not "
                           "say how large the names were (--no-exact); split the image again",
                           name, sidecar_name(correlation->sidecar));
}

/* If the records stayed in the image, the profile has them unchanged, except for the first one's
 * NameRef, which is restored here: see tripwire_signature. */
static bool put_name_ref_back(const struct correlation *correlation, const struct profile *profile,
                              const char *name, struct buffer *changed, struct profile *full,
                              struct error *error)
{
    const struct sidecar_section *names = sidecar_find(correlation->sidecar, SECTION_NAMES);
    uint64_t name_ref;

    if (names == NULL || profile->data.size < profile->layout.record_size)
        return true;
    changed->size = 0;
    if (!buffer_append(changed, profile->data.data, (size_t)profile->data.size))
        return error_out_of_memory(error, name, profile->data.size);
    name_ref = load_u64(changed->data, profile->big_endian) -
               tripwire_signature(names->size, profile->names.size);
    if (sidecar_facts(correlation->sidecar)->is_inexact &&
        !is_name_ref(correlation, name_ref, name, error))
        return false;
    store_u64(changed->data, name_ref, profile->big_endian);
    full->data = buffer_view(changed);
    return true;
}

bool correlation_apply(const struct correlation *correlation, const struct profile *profile,
                       const char *name, struct buffer *relocated, struct profile *full,
                       struct error *error)
{
    bool lacks_data = profile->header.num_data == (correlation->is_binary ? 0 : 1);

    *full = *profile;
    if (!profile_needs_sidecar(profile))
        return true;
    if (!correlation_check(correlation->sidecar, profile, name, error))
        return false;
    if (correlation->has_data && !lacks_data)
        return error_set(error,
                         "%s: has %" PRIu64 " data records where the image of %s writes none of "
                         "its own; give the sidecar of the image that wrote it",
                         name, profile->header.num_data, sidecar_name(correlation->sidecar));
    if (correlation->has_data && !put_data_back(correlation, profile, name, relocated, full, error))
        return false;
    if (!correlation->has_data && profile->has_tripwire &&
        !put_name_ref_back(correlation, profile, name, relocated, full, error))
        return false;
    if (profile_lacks_names(profile)) {
        if (!correlation->has_names)
            return error_set(error,
                             "%s: has no names, and neither has %s; give the sidecar of the image "
                             "that wrote it",
                             name, sidecar_name(correlation->sidecar));
        full->names = buffer_view(&correlation->names);
        full->header.names_size = full->names.size;
        full->has_tripwire = false;
    }
    profile_set_padding(full);
    return true;
}

bool correlation_write(struct correlation *correlation, const struct sidecar *sidecar,
                       const struct profile *profile, const char *name, bytes_sink sink,
                       void *context, struct error *error)
{
    struct buffer relocated = {0};
    struct profile full;
    bool done;

    if (!profile_needs_sidecar(profile))
        return profile_write(profile, sink, context, error);
    if (sidecar == NULL)
        return error_set(error, "%s: comes from a split image; give the sidecar of that image",
                         name);
    done = correlation_need(correlation, sidecar, error) &&
           correlation_apply(correlation, profile, name, &relocated, &full, error) &&
           profile_write(&full, sink, context, error);
    buffer_free(&relocated);
    return done;
}

/* ---- with its sidecar ---- */

bool profile_sidecar_correlate(struct profile_sidecar *sidecar, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error)
{
    return correlation_write(sidecar == NULL ? NULL : &sidecar->correlation,
                             sidecar == NULL ? NULL : sidecar->sidecar, profile, name, sink,
                             context, error);
}

void profile_sidecar_unload(struct profile_sidecar *sidecar)
{
    if (sidecar != NULL)
        correlation_free(&sidecar->correlation);
}

void profile_sidecar_close(struct profile_sidecar *sidecar)
{
    correlation_free(&sidecar->correlation);
    sidecar_close(sidecar->sidecar);
}
