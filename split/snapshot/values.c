/*
 * Recorded values: see values.h.
 */
#include "split/snapshot/values.h"

#include <inttypes.h>

#include "common/base/numbers.h"

#define HEADER_SIZE 8 /* of a block, and of a kind in it */
#define VALUE_SIZE  16
/* The runtime counts no more values of a site than this. */
#define SITE_VALUES_MAX UINT8_MAX
/* No program records that much; but a damaged list can lead in a circle, from every site. */
#define VALUES_SIZE_MAX (UINT64_C(1) << 30)

struct values {
    struct memory *memory;
    const struct module *module;
    const struct profile_record_layout *layout;
    unsigned pointer_size;
    bool big_endian;
    struct buffer *output;
    struct error *error;
};

/* ---- memory ---- */

static bool read_whole(const struct values *values, uint64_t address, void *to, size_t size)
{
    if (memory_read_whole(values->memory, address, to, size, values->error))
        return true;
    return values->error->message[0] != '\0'
               ? false
               : error_set(values->error,
                           "%s: %zu bytes at 0x%" PRIx64
                           ", part of its recorded values, are not in %s: %s",
                           values->module->name, size, address, values->memory->name,
                           values->memory->operations->absent_because);
}

static bool read_pointer(const struct values *values, uint64_t address, uint64_t *pointer)
{
    uint8_t bytes[sizeof(uint64_t)];

    if (!read_whole(values, address, bytes, values->pointer_size))
        return false;
    *pointer = load_number(bytes, values->pointer_size, values->big_endian);
    return true;
}

/* ---- output ---- */

static bool append(const struct values *values, const void *bytes, size_t size)
{
    if (values->output->size > VALUES_SIZE_MAX)
        return error_set(values->error,
                         "%s: its recorded values are damaged in %s; take the snapshot again",
                         values->module->name, values->memory->name);
    return (bytes == NULL ? buffer_append_zeros(values->output, size)
                          : buffer_append(values->output, bytes, size)) ||
           error_out_of_memory(values->error, values->module->name, size);
}

static bool append_header(const struct values *values, uint32_t first, uint32_t second)
{
    uint8_t header[HEADER_SIZE];

    store_u32(header, first, values->big_endian);
    store_u32(header + sizeof(uint32_t), second, values->big_endian);
    return append(values, header, sizeof(header));
}

/* Appends the values of a site, whose list starts at `node`. */
static bool append_site(const struct values *values, uint64_t node, uint8_t *count)
{
    for (*count = 0; node != 0 && *count < SITE_VALUES_MAX; ++*count) {
        uint8_t bytes[VALUE_SIZE + sizeof(uint64_t)];

        if (!read_whole(values, node, bytes, VALUE_SIZE + values->pointer_size) ||
            !append(values, bytes, VALUE_SIZE))
            return false;
        node = load_number(bytes + VALUE_SIZE, values->pointer_size, values->big_endian);
    }
    return true;
}

/* Appends the sites of a kind. `table` is where the pointers to their lists are; 0: there is
 * none. */
static bool append_kind(const struct values *values, uint32_t kind, uint32_t sites, uint64_t table)
{
    size_t counts = values->output->size + HEADER_SIZE;

    if (!append_header(values, kind, sites) ||
        !append(values, NULL, (size_t)align_up(sites, sizeof(uint64_t))))
        return false;
    for (uint32_t i = 0; table != 0 && i < sites; i++) {
        uint64_t node;
        uint8_t count;

        if (!read_pointer(values, table + (uint64_t)i * values->pointer_size, &node) ||
            !append_site(values, node, &count))
            return false;
        values->output->data[counts + i] = count;
    }
    return true;
}

/* ---- records ---- */

static bool append_record(const struct values *values, const uint8_t *record)
{
    const struct profile_record_layout *layout = values->layout;
    /* The field before NumCounters. */
    uint64_t table = load_number(record + layout->num_counters - values->pointer_size,
                                 values->pointer_size, values->big_endian);
    size_t start = values->output->size;
    uint32_t kinds = 0;

    if (!append_header(values, 0, 0))
        return false;
    for (size_t kind = 0; kind < layout->value_kinds; kind++) {
        uint32_t sites = load_u16(record + layout->num_value_sites + kind * sizeof(uint16_t),
                                  values->big_endian);

        if (sites == 0)
            continue;
        if (!append_kind(values, (uint32_t)kind, sites, table))
            return false;
        table += table == 0 ? 0 : (uint64_t)sites * values->pointer_size;
        kinds++;
    }
    store_u32(values->output->data + start, (uint32_t)(values->output->size - start),
              values->big_endian);
    store_u32(values->output->data + start + sizeof(uint32_t), kinds, values->big_endian);
    return true;
}

bool values_take(struct memory *memory, const struct module *module,
                 const struct profile_record_layout *layout, struct bytes data,
                 struct buffer *output, struct error *error)
{
    const struct values values = {.memory = memory,
                                  .module = module,
                                  .layout = layout,
                                  .pointer_size = (unsigned)layout->pointer_size,
                                  .big_endian = module->header.big_endian,
                                  .output = output,
                                  .error = error};

    for (uint64_t i = 0; i < data.size; i += layout->record_size) {
        if (profile_record_has_value_sites(layout, data.data + i, values.big_endian) &&
            !append_record(&values, data.data + i))
            return false;
    }
    return true;
}
