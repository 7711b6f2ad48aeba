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

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/llvm/profile_sum.h"
#include "common/sidecar/delta.h"

/* ---- fields of records ---- */

/* In COFF, distances have 32 bits, whatever the size of the field. */
static uint64_t pointer_mask(const struct profile_sidecar *opened)
{
    bool narrow = opened->sidecar->facts.format == IMAGE_COFF;

    return opened->layout.pointer_size == 4 || (narrow && !opened->is_binary_correlated)
               ? UINT32_MAX
               : UINT64_MAX;
}

static uint64_t load_pointer(const struct profile_sidecar *opened, const uint8_t *from)
{
    return opened->layout.pointer_size == 4 ? load_u32(from, opened->big_endian)
                                            : load_u64(from, opened->big_endian);
}

static void store_pointer(const struct profile_sidecar *opened, uint8_t *to, uint64_t value)
{
    if (opened->layout.pointer_size == 4)
        store_u32(to, (uint32_t)value, opened->big_endian);
    else
        store_u64(to, value, opened->big_endian);
}

static uint8_t *record_at(const struct profile_sidecar *opened, uint64_t index)
{
    return opened->data.data + index * opened->layout.record_size;
}

static uint64_t record_count(const struct profile_sidecar *opened)
{
    return opened->data.size / opened->layout.record_size;
}

static uint64_t counter_size(const struct profile_sidecar *opened)
{
    return profile_counter_size(opened->sidecar->facts.raw_version);
}

static uint64_t load_count(const struct profile_sidecar *opened, const uint8_t *from)
{
    return load_u32(from, opened->big_endian);
}

/* ---- loading ---- */

/* Reads the records of this kind, if there are any. The last one may lack its padding, which is
 * added. */
static bool load_records(struct profile_sidecar *opened, enum section_kind kind,
                         struct error *error)
{
    const struct section *section = sidecar_find(opened->sidecar, kind);
    const struct profile_record_layout *layout = &opened->layout;
    size_t rest;

    opened->has_data = section != NULL;
    if (section == NULL)
        return true;
    if (!sidecar_read_section(opened->sidecar, section, &opened->data, error))
        return false;
    rest = opened->data.size % layout->record_size;
    if (rest == 0)
        return true;
    if (rest < layout->fields_size)
        return sidecar_damaged(opened->sidecar, "its data does not consist of whole records",
                               error);
    return buffer_append_zeros(&opened->data, layout->record_size - rest) ||
           error_out_of_memory(error, opened->sidecar->name, layout->record_size);
}

/* Fills in addresses that are zero in the file because of dynamic relocations: see the opening
 * comment. */
static bool fill_in_addresses(struct profile_sidecar *opened, uint64_t counters,
                              struct error *error)
{
    const struct profile_record_layout *layout = &opened->layout;
    uint64_t count = record_count(opened), size = counter_size(opened), position = 0;

    for (uint64_t i = 0; i < count; i++) {
        if (load_pointer(opened, record_at(opened, i) + layout->counter_ptr) != 0)
            return true;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *record = record_at(opened, i);

        store_pointer(opened, record + layout->counter_ptr, counters + position);
        position += load_count(opened, record + layout->num_counters) * size;
    }
    if (position != opened->counters_size)
        return error_set(error,
                         "%s: raw profile version 7 of an image without fixed addresses: its "
                         "counters cannot be assigned to functions; link with -no-pie, or use "
                         "LLVM 14 or later",
                         opened->sidecar->name);
    return true;
}

/* Loads the data section that a stub stands for. */
static bool load_image_data(struct profile_sidecar *opened, uint64_t counters, uint64_t bitmap,
                            struct error *error)
{
    const struct section *section = sidecar_find(opened->sidecar, SECTION_DATA);

    if (section == NULL)
        return sidecar_damaged(opened->sidecar, "it has no data for its stub record", error);
    if (!load_records(opened, SECTION_DATA, error))
        return false;
    /* With value sites, data stays in the image. Lightweight profiles have no value profile data,
     * so what comes after one would be taken for that. */
    for (uint64_t i = 0; i < record_count(opened); i++) {
        if (profile_record_has_value_sites(&opened->layout, record_at(opened, i),
                                           opened->big_endian))
            return sidecar_damaged(opened->sidecar, "a record in place of its stub has value sites",
                                   error);
    }
    if (!opened->layout.relative) {
        opened->counters_delta = counters;
        return fill_in_addresses(opened, counters, error);
    }
    opened->counters_delta = (counters - section->address) & pointer_mask(opened);
    opened->bitmap_delta = (bitmap - section->address) & pointer_mask(opened);
    return true;
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

/* The records whose counters are in the image, in their order; of those that have the same
 * counters, the first. If the linker dropped a function, its counters are gone, but its record may
 * remain in __llvm_covdata, which is not loaded. And linkers do not merge the records of a function
 * in sections that are not loaded, but its counters must not be counted several times. */
static uint64_t find_live_records(const struct profile_sidecar *opened, uint64_t counters,
                                  struct live_record *records)
{
    uint64_t count = record_count(opened), live = 0, kept = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t address = load_pointer(opened, record_at(opened, i) + opened->layout.counter_ptr);

        if (range_within(address, 1, counters, opened->counters_size))
            records[live++] = (struct live_record){address - counters, i};
    }
    qsort(records, (size_t)live, sizeof(*records), compare_offsets);
    for (uint64_t i = 0; i < live; i++) {
        if (kept == 0 || records[i].offset != records[kept - 1].offset)
            records[kept++] = records[i];
    }
    qsort(records, (size_t)kept, sizeof(*records), compare_indices);
    return kept;
}

/* Loads __llvm_covdata and converts it to the form of data in a profile: drops records without
 * counters, and converts addresses to distances. These are as if the counters began where the data
 * ends, so that none is negative: of 32 bits, llvm-profdata takes them for 64. No value profile
 * data is announced, as by llvm-profdata, since such programs write none. */
static bool load_covdata(struct profile_sidecar *opened, uint64_t counters, uint64_t bitmap,
                         struct error *error)
{
    const struct profile_record_layout *layout = &opened->layout;
    struct live_record *records;
    bool are_whole = true;
    uint64_t live;

    if (layout->num_bitmap_bytes == 0)
        return sidecar_damaged(opened->sidecar, "its raw profile version has no binary correlation",
                               error);
    if (!load_records(opened, SECTION_COVDATA, error))
        return false;
    records = malloc((size_t)(record_count(opened) + 1) * sizeof(*records));
    if (records == NULL)
        return error_out_of_memory(error, opened->sidecar->name, opened->data.size);
    live = find_live_records(opened, counters, records);
    opened->data.size = (size_t)(live * layout->record_size);
    opened->counters_delta = opened->bitmap_delta = opened->data.size;
    for (uint64_t i = 0; are_whole && i < live; i++) {
        uint8_t *to = record_at(opened, i);
        uint64_t distance = (live - i) * layout->record_size;

        memmove(to, record_at(opened, records[i].index), layout->record_size);
        store_pointer(opened, to + layout->counter_ptr, records[i].offset + distance);
        if (load_count(opened, to + layout->num_bitmap_bytes) != 0)
            store_pointer(opened, to + layout->bitmap_ptr,
                          load_pointer(opened, to + layout->bitmap_ptr) - bitmap + distance);
        memset(to + layout->num_value_sites, 0, layout->value_kinds * sizeof(uint16_t));
        are_whole = records[i].offset % counter_size(opened) == 0;
    }
    free(records);
    return are_whole || sidecar_damaged(opened->sidecar,
                                        "a record's counters begin within another counter", error);
}

/* Loads each name once, uncompressed. llvm-profdata treats that the same and reads it faster, and
 * no zlib stream has to be recreated. Contents that are not names are passed on unchanged. */
static bool load_names(struct profile_sidecar *opened, struct error *error)
{
    const struct sidecar *sidecar = opened->sidecar;
    const struct section *section =
        sidecar_find(sidecar, opened->is_binary_correlated ? SECTION_COVNAMES : SECTION_NAMES);
    struct names set = {0};
    bool are_known, done;

    opened->has_names = section != NULL;
    if (section == NULL)
        return true;
    /* A base that cannot be read says nothing of the content. */
    if (section->form != 0 && !delta_restore(sidecar, section, error))
        return false;
    done = sidecar_read_names(sidecar, section, &set, error);
    are_known = done && set.count != 0;
    if (are_known)
        done = names_encode(&set, &opened->names) ||
               error_out_of_memory(error, sidecar->name, set.text.size);
    names_free(&set);
    if (are_known || (!done && error_is_of_memory(error)))
        return done;
    return sidecar_read_section(sidecar, section, &opened->names, error);
}

static bool load(struct profile_sidecar *opened, struct error *error)
{
    const struct sidecar_facts *facts = &opened->sidecar->facts;
    const struct section *counters = sidecar_find(opened->sidecar, SECTION_COUNTERS);
    const struct section *bitmap = sidecar_find(opened->sidecar, SECTION_BITMAP);
    uint64_t counters_address = counters != NULL ? counters->address : 0;
    uint64_t bitmap_address = bitmap != NULL ? bitmap->address : 0;
    const struct profile_record_layout *layout = &opened->layout;

    opened->is_binary_correlated = sidecar_find(opened->sidecar, SECTION_COVDATA) != NULL;
    opened->big_endian = facts->elf_data == ELFDATA2MSB;
    opened->counters_size = counters != NULL ? counters->size : 0;
    opened->bitmap_size = bitmap != NULL ? bitmap->size : 0;
    if (!profile_record_layout(facts->raw_version, (size_t)facts->pointer_size, &opened->layout))
        return error_set(error,
                         "%s: its image writes no profiles, or none of raw version %d to "
                         "%d; give the sidecar of the image that wrote the profile",
                         opened->sidecar->name, PROFILE_VERSION_MIN, PROFILE_VERSION_MAX);
    /* Names first, because decoding the data needs their NameRefs. */
    if (!load_names(opened, error))
        return false;
    if (opened->is_binary_correlated
            ? !load_covdata(opened, counters_address, bitmap_address, error)
            : facts->has_stub && !load_image_data(opened, counters_address, bitmap_address, error))
        return false;
    /* Determined from the first record, as in profiles. */
    if (opened->has_data && record_count(opened) != 0 && layout->relative) {
        uint64_t skew = (load_pointer(opened, record_at(opened, 0) + layout->counter_ptr) -
                         opened->counters_delta) %
                        counter_size(opened);

        opened->counter_skew = skew < opened->counters_size ? skew : 0;
    }
    return true;
}

bool profile_sidecar_load(struct profile_sidecar *opened, struct error *error)
{
    if (opened->is_loaded)
        return true;
    opened->is_loaded = load(opened, error);
    if (!opened->is_loaded)
        profile_sidecar_unload(opened);
    return opened->is_loaded;
}

void profile_sidecar_unload(struct profile_sidecar *opened)
{
    if (opened == NULL)
        return;
    buffer_free(&opened->data);
    buffer_free(&opened->names);
    buffer_free(&opened->binary_ids);
    *opened = (struct profile_sidecar){.sidecar = opened->sidecar};
}

void profile_sidecar_close(struct profile_sidecar *opened)
{
    profile_sidecar_unload(opened);
    sidecar_close(opened->sidecar);
}

bool profile_sidecar_range(const struct profile_sidecar *opened, uint64_t index,
                           struct profile_range *range)
{
    const struct profile_record_layout *layout = &opened->layout;
    const uint8_t *record = record_at(opened, index);
    uint64_t position = layout->relative ? index * layout->record_size : 0;
    uint64_t mask = pointer_mask(opened), size = counter_size(opened);
    uint64_t offset = (load_pointer(opened, record + layout->counter_ptr) - opened->counters_delta -
                       opened->counter_skew + position) &
                      mask;

    *range = (struct profile_range){
        .first_counter = offset / size,
        .counter_count = load_count(opened, record + layout->num_counters),
    };
    if (offset % size != 0 || !range_within(offset, range->counter_count * size, 0,
                                            opened->counters_size - opened->counter_skew))
        return false;
    if (layout->num_bitmap_bytes == 0)
        return true;
    range->bitmap_byte_count = load_count(opened, record + layout->num_bitmap_bytes);
    if (range->bitmap_byte_count == 0)
        return true;
    range->first_bitmap_byte =
        (load_pointer(opened, record + layout->bitmap_ptr) - opened->bitmap_delta + position) &
        mask;
    return range_within(range->first_bitmap_byte, range->bitmap_byte_count, 0, opened->bitmap_size);
}

/* ---- applying ---- */

/* Converts the addresses of version 7 to those in the memory of the program that wrote the profile.
 */
static bool relocate(const struct profile_sidecar *opened, const struct profile *profile,
                     const char *name, struct buffer *relocated, struct error *error)
{
    uint64_t bias = profile->header.counters_delta - opened->counters_delta;
    uint64_t count = record_count(opened);

    relocated->size = 0;
    if (!buffer_append(relocated, opened->data.data, opened->data.size))
        return error_out_of_memory(error, name, opened->data.size);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *pointer =
            relocated->data + i * opened->layout.record_size + opened->layout.counter_ptr;

        store_pointer(opened, pointer, load_pointer(opened, pointer) + bias);
    }
    return true;
}

static bool put_data_back(const struct profile_sidecar *opened, const struct profile *profile,
                          const char *name, struct buffer *relocated, struct profile *full,
                          struct error *error)
{
    full->data = buffer_view(&opened->data);
    full->header.num_data = record_count(opened);
    full->lightweight = false;
    if (opened->is_binary_correlated) {
        full->header.counters_delta = opened->counters_delta;
        full->header.bitmap_delta = opened->bitmap_delta;
        return true;
    }
    if (opened->layout.relative) {
        uint64_t mask = UINT32_MAX; /* on 64-bit Windows the runtime writes only these bits */

        if (((profile->header.counters_delta ^ opened->counters_delta) & mask) == 0 &&
            profile->counter_skew == opened->counter_skew)
            return true;
        /* The stub of a Mach-O image may be elsewhere than the records were. It leads to all
         * counters (profile.c), and correlation_check has compared what it stands for. */
        if (opened->sidecar->facts.format == IMAGE_MACHO && profile->lightweight &&
            profile->counter_skew == opened->counter_skew) {
            full->header.counters_delta = opened->counters_delta;
            full->header.bitmap_delta = opened->bitmap_delta;
            return true;
        }
        return error_set(error,
                         "%s: its counters are not where those of the image of %s are; give the "
                         "sidecar of the image that wrote it",
                         name, opened->sidecar->name);
    }
    if (!relocate(opened, profile, name, relocated, error))
        return false;
    full->data = buffer_view(relocated);
    return true;
}

/* If the records stayed in the image, the profile has them unchanged, except for the first one's
 * NameRef, which is restored here: see facts_make_record_change. */
static bool put_name_ref_back(const struct profile_sidecar *opened, const struct profile *profile,
                              const char *name, struct buffer *changed, struct profile *full,
                              struct error *error)
{
    uint64_t name_ref;

    if (profile->data.size < profile->layout.record_size)
        return true;
    changed->size = 0;
    if (!buffer_append(changed, profile->data.data, (size_t)profile->data.size))
        return error_out_of_memory(error, name, profile->data.size);
    name_ref = load_u64(changed->data, profile->big_endian) - opened->sidecar->facts.record_change;
    store_u64(changed->data, name_ref, profile->big_endian);
    full->data = buffer_view(changed);
    return true;
}

/* The profile has the build ID that its image has now. Other tools may have changed that since the
 * split (debugedit -i), but everybody searches for the full profile's image by the ID that it had
 * then, as the sidecar does. */
static bool put_binary_id_back(struct profile_sidecar *opened, const struct profile *profile,
                               const char *name, struct profile *full, struct error *error)
{
    const struct sidecar_facts *facts = &opened->sidecar->facts;
    struct bytes rest = profile->binary_ids, binary_id, own = {facts->uuid.bytes, facts->uuid.size};
    bool has_id = false;

    if (facts->uuid_source != UUID_FROM_BUILD_ID)
        return true;
    while (profile_take_binary_id(profile, &rest, &binary_id)) {
        if (bytes_equal(binary_id, own))
            return true;
        has_id = true;
    }
    if (!has_id)
        return true;
    if (opened->binary_ids.size == 0 &&
        !profile_append_binary_id(&opened->binary_ids, facts->raw_version, opened->big_endian,
                                  &facts->uuid))
        return error_out_of_memory(error, name, facts->uuid.size);
    full->binary_ids = buffer_view(&opened->binary_ids);
    full->header.binary_ids_size = full->binary_ids.size;
    return true;
}

bool profile_sidecar_apply(struct profile_sidecar *opened, const struct profile *profile,
                           const char *name, struct buffer *relocated, struct profile *full,
                           struct error *error)
{
    const char *sidecar_name;
    bool lacks_data;

    *full = *profile;
    if (!profile_needs_sidecar(profile))
        return true;
    if (opened == NULL)
        return error_set(error, "%s: comes from a split image; give the sidecar of that image",
                         name);
    if (!profile_sidecar_load(opened, error) ||
        !correlation_check(opened->sidecar, profile, name, error) ||
        !put_binary_id_back(opened, profile, name, full, error))
        return false;
    sidecar_name = opened->sidecar->name;
    lacks_data = profile->header.num_data == (opened->is_binary_correlated ? 0 : 1);
    if (opened->has_data && !lacks_data)
        return error_set(error,
                         "%s: has %" PRIu64 " data records where the image of %s writes none of "
                         "its own; give the sidecar of the image that wrote it",
                         name, profile->header.num_data, sidecar_name);
    if (opened->has_data && !put_data_back(opened, profile, name, relocated, full, error))
        return false;
    if (!opened->has_data && profile->has_tripwire &&
        !put_name_ref_back(opened, profile, name, relocated, full, error))
        return false;
    if (profile_lacks_names(profile)) {
        if (!opened->has_names)
            return error_set(error,
                             "%s: has no names, and neither has %s; give the sidecar of the image "
                             "that wrote it",
                             name, sidecar_name);
        full->names = buffer_view(&opened->names);
        full->header.names_size = full->names.size;
        full->has_tripwire = false;
    }
    profile_set_padding(full);
    /* Of records that are the profile's own, only NameRef and FuncHash were compared. */
    return opened->has_data || profile_check_places(full, name, error);
}

bool profile_sidecar_correlate(struct profile_sidecar *opened, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error)
{
    struct buffer relocated = {0};
    struct profile full;
    bool done = profile_sidecar_apply(opened, profile, name, &relocated, &full, error) &&
                profile_write(&full, sink, context, error);

    buffer_free(&relocated);
    return done;
}

/* ---- dumps ---- */

/* At a thousand million a second, a program counts to this for two years. */
#define COUNTER_MAX (UINT64_C(1) << 56)

/* True if each counter has the value of one: bytes are 255, or 0 when they were reached. */
static bool are_plausible(struct bytes counters, uint64_t size, bool big_endian, uint64_t *offset)
{
    for (; counters.size - *offset >= size; *offset += size) {
        const uint8_t *counter = counters.data + *offset;

        if (size == 1 ? *counter != 0 && *counter != UINT8_MAX
                      : load_u64(counter, big_endian) >= COUNTER_MAX)
            return false;
    }
    return true;
}

/* A copy from a wrong address is most often something else than counters, and in the other byte
 * order small numbers are huge. */
static bool check_counters(const struct dump *dump, const struct profile_sidecar *opened,
                           const char *name, struct error *error)
{
    uint64_t size = counter_size(opened), offset = opened->counter_skew, other = offset;
    bool big_endian = opened->big_endian;

    if (offset > dump->counters.size || are_plausible(dump->counters, size, big_endian, &offset))
        return true;
    if (size != 1 && are_plausible(dump->counters, size, !big_endian, &other))
        return error_set(error,
                         "%s: its counters are %s-endian, but its image is not; copy the bytes as "
                         "they are in memory",
                         name, big_endian ? "little" : "big");
    return error_set(error,
                     "%s: the value at byte %" PRIu64 " cannot be a counter; copy the counters of "
                     "this image from where it is loaded ('covsplit show --map')",
                     name, offset);
}

static struct profile_section section_of(const struct sidecar *sidecar, enum section_kind kind,
                                         struct bytes bytes)
{
    const struct section *section = sidecar_find(sidecar, kind);

    return (struct profile_section){section == NULL ? 0 : section->address, bytes};
}

bool dump_make(struct dump *dump, struct profile_sidecar *opened, const char *name,
               struct error *error)
{
    const struct sidecar *sidecar = opened->sidecar;
    const struct sidecar_facts *facts = &sidecar->facts;
    struct bytes stub = {dump->stub, 0};
    struct profile_source source;
    size_t missing;

    if (!profile_sidecar_load(opened, error))
        return false;
    if (!opened->has_data || !opened->has_names)
        return error_set(error,
                         "%s: needs the data records and names of its image, but %s does not have "
                         "them: they stayed in the image; correlate a profile that the program "
                         "writes",
                         name, sidecar->name);
    if (!check_counters(dump, opened, name, error))
        return false;
    /* Before the data, the runtime writes the build ID, if the image has one. */
    if (facts->format == IMAGE_ELF && facts->uuid_source == UUID_FROM_BUILD_ID &&
        !profile_append_binary_id(&dump->binary_ids, facts->raw_version, opened->big_endian,
                                  &facts->uuid))
        return error_out_of_memory(error, name, facts->uuid.size);
    /* On Windows the last counter may be incomplete: see counter_skew in profile.h. */
    missing = (size_t)(align_up(dump->counters.size, counter_size(opened)) - dump->counters.size);
    if (missing != 0) {
        buffer_append(&dump->whole_counters, dump->counters.data, (size_t)dump->counters.size);
        if (!buffer_append_zeros(&dump->whole_counters, missing))
            return error_out_of_memory(error, name, dump->counters.size);
        dump->counters = buffer_view(&dump->whole_counters);
    }
    if (!opened->is_binary_correlated)
        stub.size = opened->layout.record_size;
    source = (struct profile_source){
        .raw_version = facts->raw_version,
        .pointer_size = (size_t)facts->pointer_size,
        .big_endian = opened->big_endian,
        .binary_ids = buffer_view(&dump->binary_ids),
        .data = section_of(sidecar, SECTION_DATA, stub),
        .counters = section_of(sidecar, SECTION_COUNTERS, dump->counters),
        .bitmap = section_of(sidecar, SECTION_BITMAP, dump->bitmap),
        .names = section_of(sidecar, SECTION_NAMES, (struct bytes){0}),
    };
    profile_compose(&dump->profile, &source);
    if (!opened->is_binary_correlated) { /* on Windows they have 32 bits */
        dump->profile.header.counters_delta = opened->counters_delta;
        dump->profile.header.bitmap_delta = opened->bitmap_delta;
    }
    dump->profile.counter_skew = opened->counter_skew;
    dump->profile.lightweight = !opened->is_binary_correlated;
    memcpy(dump->profile.stub_id, facts->stub_id, sizeof(facts->stub_id));
    return true;
}

void dump_free(struct dump *dump)
{
    buffer_free(&dump->whole_counters);
    buffer_free(&dump->binary_ids);
}
