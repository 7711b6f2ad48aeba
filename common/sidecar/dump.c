/*
 * Dumps: see dump.h.
 */
#include "common/sidecar/dump.h"

#include <inttypes.h>
#include <string.h>

#include "common/llvm/profile.h"

static struct profile_section section_of(const struct sidecar *sidecar, enum section_kind kind,
                                         struct bytes bytes)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return (struct profile_section){section == NULL ? 0 : section->address, bytes};
}

/* What the runtime writes before the data: the build ID, if the image has one. */
static bool add_binary_ids(struct dump *dump, const struct sidecar_facts *facts, bool big_endian)
{
    return facts->format != IMAGE_ELF || facts->uuid_source != UUID_FROM_BUILD_ID ||
           profile_append_binary_id(&dump->binary_ids, facts->raw_version, big_endian,
                                    &facts->uuid);
}

/* On Windows the last counter may be incomplete: see counter_skew in profile.h. */
static bool complete_counters(struct dump *dump, uint64_t counter_size)
{
    size_t missing = (size_t)(align_up(dump->counters.size, counter_size) - dump->counters.size);

    if (missing == 0)
        return true;
    if (!buffer_append(&dump->whole_counters, dump->counters.data, (size_t)dump->counters.size) ||
        !buffer_append_zeros(&dump->whole_counters, missing))
        return false;
    dump->counters = buffer_view(&dump->whole_counters);
    return true;
}

static bool check_sidecar(const struct correlation *correlation, const char *name,
                          struct error *error)
{
    const struct sidecar *sidecar = correlation->sidecar;

    return (correlation->has_data && correlation->has_names) ||
           error_set(error,
                     "%s: needs the data records and names of its image, but %s does not have "
                     "them: they stayed in the image; correlate a profile that the program writes",
                     name, sidecar_name(sidecar));
}

/* At a thousand million a second, a program counts to this for two years. */
#define COUNTER_MAX (UINT64_C(1) << 56)

/* Whether each counter has the value of one: bytes are 255, or 0 when they were reached. */
static bool are_plausible(struct bytes counters, uint64_t counter_size, bool big_endian,
                          uint64_t *offset)
{
    for (; counters.size - *offset >= counter_size; *offset += counter_size) {
        const uint8_t *counter = counters.data + *offset;

        if (counter_size == 1 ? *counter != 0 && *counter != UINT8_MAX
                              : load_u64(counter, big_endian) >= COUNTER_MAX)
            return false;
    }
    return true;
}

/* A copy from a wrong address is most often something else than counters, and in the other byte
 * order small numbers are huge. */
static bool check_counters(const struct dump *dump, const struct correlation *correlation,
                           const char *name, struct error *error)
{
    uint64_t size = profile_counter_size(sidecar_facts(correlation->sidecar)->raw_version);
    uint64_t offset = correlation->counter_skew, other = offset;
    bool big_endian = correlation_is_big_endian(correlation);

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

bool dump_make(struct dump *dump, const struct correlation *correlation, const char *name,
               struct error *error)
{
    const struct sidecar *sidecar = correlation->sidecar;
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    bool big_endian = correlation_is_big_endian(correlation);
    struct bytes stub = {dump->stub, correlation->is_binary ? 0 : correlation->layout.record_size};
    struct profile_source source = {
        .raw_version = facts->raw_version,
        .pointer_size = (size_t)facts->pointer_size,
        .big_endian = big_endian,
        .data = section_of(sidecar, SECTION_DATA, stub),
        .bitmap = section_of(sidecar, SECTION_BITMAP, dump->bitmap),
        .names = section_of(sidecar, SECTION_NAMES, (struct bytes){0}),
    };

    if (!check_sidecar(correlation, name, error) || !check_counters(dump, correlation, name, error))
        return false;
    if (!add_binary_ids(dump, facts, big_endian) ||
        !complete_counters(dump, profile_counter_size(facts->raw_version)))
        return error_out_of_memory(error, name, dump->counters.size);
    source.binary_ids = buffer_view(&dump->binary_ids);
    source.counters = section_of(sidecar, SECTION_COUNTERS, dump->counters);
    profile_compose(&dump->profile, &source);
    if (!correlation->is_binary) { /* on Windows they have 32 bits */
        dump->profile.header.counters_delta = correlation->counters_delta;
        dump->profile.header.bitmap_delta = correlation->bitmap_delta;
    }
    dump->profile.counter_skew = correlation->counter_skew;
    dump->profile.lightweight = !correlation->is_binary;
    memcpy(dump->profile.stub_id, facts->stub_id, sizeof(facts->stub_id));
    return true;
}

void dump_free(struct dump *dump)
{
    buffer_free(&dump->whole_counters);
    buffer_free(&dump->binary_ids);
}
