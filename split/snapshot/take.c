/*
 * Taking a profile: see snapshot.h.
 *
 * A running program counts on while its counters are copied. The copy of a counter could then be
 * torn: no manual promises that the kernel copies words whole (x86's string moves may go byte by
 * byte). So counters are copied three times, and the second copy of one is taken if it is between
 * the other two: counters only grow, so that is a value that it had. Otherwise another copy is
 * made, a few times. Different counters are of different moments, as in a profile that a program
 * with threads writes itself.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/cursor.h"
#include "formats/runtime/runtime.h"
#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

/* After so many copies a counter is believed as it is. Threads that count without atomic operations
 * lose counts, so theirs may go back a little. */
#define COPIES_MAX 8

struct taking {
    struct target *memory;
    const struct module *module;
    const struct coverage *coverage;
    const struct input *file;
    struct profile_record_layout layout;
    size_t pointer_size;
    struct error *error;
};

/* ---- copies ---- */

/* Copies a section. That it is not all there is an error. */
static bool copy_section(const struct taking *taking, enum section_kind kind, uint64_t address,
                         uint64_t size, struct buffer *buffer)
{
    return memory_copy(taking->memory, address, size, buffer) ||
           error_set(taking->error,
                     "%s: its %s, %" PRIu64 " bytes at 0x%" PRIx64 ", are not in %s from 0x%" PRIx64
                     " on: %s",
                     taking->module->name, section_kind_name(kind), size, address,
                     taking->memory->name, address + buffer->size,
                     taking->memory->operations->absent_because);
}

/* ---- counters ---- */

/* Copies of counters that change, one made after the other. */
struct copies {
    struct buffer older, middle, newer;
    struct buffer is_settled; /* a byte for each counter */
};

/* Sets the counters that were not settled yet to those of the middle copy. Returns true if all are
 * settled now. */
static bool settle(struct copies *copies, bool big_endian, struct buffer *counters)
{
    bool all = true;

    for (size_t i = 0; i < copies->is_settled.size; i++) {
        size_t at = i * sizeof(uint64_t);
        uint64_t value = load_u64(copies->middle.data + at, big_endian);

        if (copies->is_settled.data[i] != 0)
            continue;
        store_u64(counters->data + at, value, big_endian);
        copies->is_settled.data[i] = load_u64(copies->older.data + at, big_endian) <= value &&
                                     value <= load_u64(copies->newer.data + at, big_endian);
        all = all && copies->is_settled.data[i] != 0;
    }
    return all;
}

/* Replaces the counters, which are a copy of the size wanted, by such that are not torn. */
static bool copy_changing(const struct taking *taking, uint64_t address, struct buffer *counters)
{
    struct copies copies = {0};
    uint64_t size = counters->size;
    bool is_settled = false, done;

    exit_unless_allocated(
        buffer_append_zeros(&copies.is_settled, (size_t)(size / sizeof(uint64_t))), size);
    done = copy_section(taking, SECTION_COUNTERS, address, size, &copies.middle) &&
           copy_section(taking, SECTION_COUNTERS, address, size, &copies.newer);
    for (int count = 2; done && !is_settled && count < COPIES_MAX; count++) {
        struct buffer oldest = copies.older;

        copies.older = copies.middle;
        copies.middle = copies.newer;
        copies.newer = oldest;
        done = copy_section(taking, SECTION_COUNTERS, address, size, &copies.newer);
        is_settled = done && settle(&copies, taking->module->big_endian, counters);
    }
    buffer_free(&copies.older);
    buffer_free(&copies.middle);
    buffer_free(&copies.newer);
    buffer_free(&copies.is_settled);
    return done;
}

/* Finds where the program counts: at `address`, or that far from it. In a program that was not
 * compiled for counting elsewhere, the runtime's variable has the value -1. */
static bool add_bias(const struct taking *taking, uint64_t variable, uint64_t *address)
{
    uint64_t mask = taking->module->wide ? UINT64_MAX : UINT32_MAX, bias;
    uint8_t bytes[sizeof(uint64_t)];

    if (variable == 0)
        return true;
    if (!memory_read(taking->memory, module_address(taking->module, variable), bytes,
                     taking->pointer_size))
        return error_set(
            taking->error, "%s: the variables with the place of its counters are not in %s: %s",
            taking->module->name, taking->memory->name, taking->memory->operations->absent_because);
    bias = load_number(bytes, (unsigned)taking->pointer_size, taking->module->big_endian);
    if (bias != mask)
        *address = (*address + bias) & mask;
    return true;
}

static bool take_counters_and_bitmap(const struct taking *taking, struct taken *taken)
{
    const struct section *section = &taking->coverage->sections[SECTION_COUNTERS];
    const struct section *bitmap = &taking->coverage->sections[SECTION_BITMAP];
    uint64_t bitmap_address = module_address(taking->module, bitmap->address);
    uint64_t item = profile_counter_size(taking->coverage->raw_version);
    uint64_t size = profile_count_items(section->size, item) * item;
    uint64_t address = module_address(taking->module, section->address);

    if (!taking->coverage->knows_biases && taking->memory->maps_profile)
        return error_set(
            taking->error,
            "%s: %s keeps counters in a mapped profile (%%c), and without symbols it is not "
            "known whether this module does; merge the mapped profile instead",
            taking->module->name, taking->memory->name);
    return add_bias(taking, taking->coverage->counter_bias, &address) &&
           copy_section(taking, SECTION_COUNTERS, address, size, &taken->counters) &&
           (!taking->memory->is_running || item != sizeof(uint64_t) ||
            copy_changing(taking, address, &taken->counters)) &&
           (bitmap->size == 0 ||
            (add_bias(taking, taking->coverage->bitmap_bias, &bitmap_address) &&
             copy_section(taking, SECTION_BITMAP, bitmap_address, bitmap->size, &taken->bitmap)));
}

/* ---- recorded values ---- */

/*
 * The values that a program has recorded (value profiling) are the part behind the names in its raw
 * profiles.
 *
 * A record with value sites has a pointer, Values, to a table with a pointer for each of its sites,
 * kind after kind, or NULL if none was reached yet. Each leads to a list of nodes: a value and how
 * often it was seen, 64 bits each, and a pointer to the next node.
 *
 * In the profile, each such record has a block: TotalSize and NumValueKinds; and for each kind that
 * it has sites of, the kind's number and NumValueSites (all of these have 32 bits), a byte for each
 * site with the number of its values, zeros up to a multiple of 8, and the values with their
 * counts.
 */

#define HEADER_SIZE 8 /* of a block, and of a kind in it */
#define VALUE_SIZE  16
/* The runtime counts no more values of a site than this. */
#define SITE_VALUES_MAX UINT8_MAX
/* No program records that much; but a damaged list can lead in a circle, from every site. */
#define VALUES_SIZE_MAX (UINT64_C(1) << 30)

static bool read_value(const struct taking *taking, uint64_t address, void *to, size_t size)
{
    return memory_read(taking->memory, address, to, size) ||
           error_set(taking->error,
                     "%s: %zu bytes at 0x%" PRIx64
                     ", part of its recorded values, are not in %s: %s",
                     taking->module->name, size, address, taking->memory->name,
                     taking->memory->operations->absent_because);
}

static uint64_t load_pointer(const struct taking *taking, const uint8_t *from)
{
    return load_number(from, (unsigned)taking->pointer_size, taking->module->big_endian);
}

static void append_header(const struct taking *taking, uint32_t first, uint32_t second,
                          struct buffer *values)
{
    uint8_t header[HEADER_SIZE];

    store_u32(header, first, taking->module->big_endian);
    store_u32(header + sizeof(uint32_t), second, taking->module->big_endian);
    buffer_append(values, header, sizeof(header));
}

static bool check_values(const struct taking *taking, const struct buffer *values)
{
    exit_unless_allocated(!values->failed, values->size);
    return values->size <= VALUES_SIZE_MAX ||
           error_set(taking->error,
                     "%s: its recorded values are damaged in %s; take the snapshot again",
                     taking->module->name, taking->memory->name);
}

/* Appends the sites of a kind. `table` is where the pointers to their lists are; 0: there is
 * none. */
static bool append_kind(const struct taking *taking, uint32_t kind, uint32_t sites, uint64_t table,
                        struct buffer *values)
{
    uint8_t bytes[VALUE_SIZE + sizeof(uint64_t)];
    size_t counts = values->size + HEADER_SIZE;

    append_header(taking, kind, sites, values);
    buffer_append_zeros(values, (size_t)align_up(sites, sizeof(uint64_t)));
    for (uint32_t i = 0; table != 0 && i < sites; i++) {
        uint8_t count = 0;
        uint64_t node;

        if (!read_value(taking, table + (uint64_t)i * taking->pointer_size, bytes,
                        taking->pointer_size))
            return false;
        node = load_pointer(taking, bytes);
        for (; node != 0 && count < SITE_VALUES_MAX; count++) {
            if (!read_value(taking, node, bytes, VALUE_SIZE + taking->pointer_size))
                return false;
            if (!check_values(taking, values))
                return false;
            buffer_append(values, bytes, VALUE_SIZE);
            node = load_pointer(taking, bytes + VALUE_SIZE);
        }
        if (!check_values(taking, values))
            return false;
        values->data[counts + i] = count;
    }
    return check_values(taking, values);
}

/* Appends the blocks for all records in `data`, which must be whole. */
static bool take_values(const struct taking *taking, struct bytes data, struct buffer *values)
{
    const struct profile_record_layout *layout = &taking->layout;
    bool big_endian = taking->module->big_endian;

    for (uint64_t i = 0; i < data.size; i += layout->record_size) {
        const uint8_t *record = data.data + i;
        /* The field before NumCounters. */
        uint64_t table = load_pointer(taking, record + layout->num_counters - taking->pointer_size);
        size_t start = values->size;
        uint32_t kinds = 0;

        if (!profile_record_has_value_sites(layout, record, big_endian))
            continue;
        append_header(taking, 0, 0, values);
        for (size_t kind = 0; kind < layout->value_kinds; kind++) {
            uint32_t sites =
                load_u16(record + layout->num_value_sites + kind * sizeof(uint16_t), big_endian);

            if (sites == 0)
                continue;
            if (!append_kind(taking, (uint32_t)kind, sites, table, values))
                return false;
            table += table == 0 ? 0 : (uint64_t)sites * taking->pointer_size;
            kinds++;
        }
        if (!check_values(taking, values))
            return false;
        store_u32(values->data + start, (uint32_t)(values->size - start), big_endian);
        store_u32(values->data + start + sizeof(uint32_t), kinds, big_endian);
    }
    return true;
}

/* ---- data and names ---- */

static bool is_other_build(const struct taking *taking, const char *what)
{
    return error_set(taking->error, "%s: %s; give the sidecar of the build that was loaded",
                     taking->module->name, what);
}

/* The record that a split leaves is known. Where it is in the target, it proves that the sidecar is
 * the right one. */
static bool take_stub(const struct taking *taking, struct taken *taken)
{
    const struct section *sections = taking->coverage->sections;
    const struct stub_place place = {
        .record = module_address(taking->module, sections[SECTION_DATA].address),
        .counters = module_address(taking->module, sections[SECTION_COUNTERS].address),
        .counters_size = sections[SECTION_COUNTERS].size,
        .bitmap = module_address(taking->module, sections[SECTION_BITMAP].address),
        .bitmap_size = sections[SECTION_BITMAP].size,
    };
    size_t size = taking->layout.record_size;
    uint8_t record[STUB_RECORD_MAX];

    if (!stub_encode(&taking->layout, taking->coverage->raw_version, &place,
                     taking->coverage->stub_id, taking->module->big_endian, record))
        return is_other_build(taking, "its sidecar is not of a split image");
    if (memory_copy(taking->memory, place.record, size, &taken->data) &&
        memcmp(taken->data.data, record, size) != 0)
        return is_other_build(taking, "its data in memory is not what the split left of it");
    taken->data.size = 0;
    exit_unless_allocated(buffer_append(&taken->data, record, size), size);
    return true;
}

/* The bytes of the section in the file; false if the program could have written to them. */
static bool find_constant(const struct taking *taking, const struct section *section,
                          struct bytes *bytes)
{
    for (size_t i = 0; taking->file != NULL && i < taking->module->load_count; i++) {
        const Elf64_Phdr *load = &taking->module->loads[i];

        if (range_within(section->address, section->size, load->p_vaddr, load->p_filesz))
            return (load->p_flags & PF_W) == 0 &&
                   bytes_slice(taking->file->bytes,
                               load->p_offset + (section->address - load->p_vaddr), section->size,
                               bytes);
    }
    return false;
}

/* Names are constant, and a kernel does not dump constant pages of files. */
static bool take_names(const struct taking *taking, struct taken *taken)
{
    const struct coverage *coverage = taking->coverage;
    const struct section *section = &coverage->sections[SECTION_NAMES];
    struct bytes known = {coverage->tripwire, coverage->tripwire_size};
    uint64_t address = module_address(taking->module, section->address);
    bool is_known = known.size != 0 || find_constant(taking, section, &known);

    if (memory_copy(taking->memory, address, section->size, &taken->names))
        return coverage->tripwire_size == 0 || bytes_equal(buffer_view(&taken->names), known) ||
               is_other_build(taking, "its names in memory are not what the split left of them");
    if (!is_known)
        return copy_section(taking, SECTION_NAMES, address, section->size, &taken->names);
    taken->names.size = 0;
    exit_unless_allocated(buffer_append(&taken->names, known.data, (size_t)known.size), known.size);
    return true;
}

/* ---- all of it ---- */

/* A range that is in no segment of the module is none of its sections: this guards against files
 * and sidecars that are not what they say. */
static bool check_sections(const struct taking *taking)
{
    const struct coverage *coverage = taking->coverage;
    uint64_t counters = coverage->sections[SECTION_COUNTERS].address;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const struct section *section = &coverage->sections[kind];

        if (section->size != 0 &&
            !module_has_range(taking->module, section->address, section->size))
            return error_set(taking->error,
                             "%s: its %s are outside its segments; give the sidecar of the build "
                             "that was loaded",
                             taking->module->name, section_kind_name((enum section_kind)kind));
    }
    if (coverage->has_vtables)
        return error_set(
            taking->error,
            "%s: has value profiling of vtables, which a snapshot cannot take from memory; "
            "let the program write its profile",
            taking->module->name);
    return taking->memory->operations->is_writable(taking->memory,
                                                   module_address(taking->module, counters)) ||
           is_other_build(taking, "its counters are in memory that is not writable");
}

static struct profile_section section_in(const struct taking *taking, enum section_kind kind,
                                         const struct buffer *bytes)
{
    const struct section *section = &taking->coverage->sections[kind];

    return (struct profile_section){
        section->address == 0 ? 0 : module_address(taking->module, section->address),
        buffer_view(bytes)};
}

/* True if the module of a running process is still where it was, and is the same one. */
static bool is_still_there(const struct taking *taking)
{
    const struct module *module = taking->module;
    struct module now;
    bool is_there;

    if (!taking->memory->is_running)
        return true;
    is_there = module_read(taking->memory, module->listed, &now) == MODULE_READ &&
               now.bias == module->bias && uuid_equal(&now.uuid, &module->uuid);
    module_free(&now);
    return is_there ||
           error_set(taking->error,
                     "%s: was unloaded from %s while it was read; take the snapshot again",
                     module->name, taking->memory->name);
}

bool take_profile(struct target *memory, const struct module *module,
                  const struct coverage *coverage, const struct input *file, struct taken *taken,
                  struct error *error)
{
    struct taking taking = {
        memory, module, coverage, file, .pointer_size = module->wide ? 8 : 4, .error = error};
    struct profile_source source = {.raw_version = coverage->raw_version,
                                    .pointer_size = taking.pointer_size,
                                    .big_endian = module->big_endian};
    const struct section *data = &coverage->sections[SECTION_DATA];
    uint64_t record;

    if (!profile_record_layout(coverage->raw_version, taking.pointer_size, &taking.layout))
        return error_set(error, "%s: " PROFILE_VERSION_UNKNOWN "; use LLVM's tools for it",
                         module->name, PROFILE_VERSION(coverage->raw_version), PROFILE_VERSION_MIN,
                         PROFILE_VERSION_MAX);
    record = taking.layout.record_size;
    if (module->uuid.size != 0)
        exit_unless_allocated(profile_append_binary_id(&taken->binary_ids, coverage->raw_version,
                                                       module->big_endian, &module->uuid),
                              UUID_SIZE_MAX);
    if (!check_sections(&taking) || !take_counters_and_bitmap(&taking, taken) ||
        (coverage->has_stub && !take_stub(&taking, taken)))
        return false;
    if (!coverage->has_stub &&
        (!copy_section(&taking, SECTION_DATA, module_address(module, data->address),
                       profile_count_items(data->size, record) * record, &taken->data) ||
         !take_values(&taking, buffer_view(&taken->data), &taken->values)))
        return false;
    if (!take_names(&taking, taken))
        return false;
    source.binary_ids = buffer_view(&taken->binary_ids);
    source.data = section_in(&taking, SECTION_DATA, &taken->data);
    source.counters = section_in(&taking, SECTION_COUNTERS, &taken->counters);
    source.bitmap = section_in(&taking, SECTION_BITMAP, &taken->bitmap);
    source.names = section_in(&taking, SECTION_NAMES, &taken->names);
    source.value_data = buffer_view(&taken->values);
    return profile_compose(&taken->profile, &source) && is_still_there(&taking);
}

void taken_free(struct taken *taken)
{
    buffer_free(&taken->binary_ids);
    buffer_free(&taken->data);
    buffer_free(&taken->counters);
    buffer_free(&taken->bitmap);
    buffer_free(&taken->names);
    buffer_free(&taken->values);
}
