/*
 * The functions of an image: see image_functions.h.
 */
#include "common/state/image_functions.h"

#include <stdlib.h>
#include <string.h>

#include "common/state/reached.h"

/* ---- reading ---- */

static uint64_t load_pointer(const struct profile *profile, const uint8_t *from)
{
    return profile->is_64_bit ? load_u64(from, profile->big_endian)
                              : load_u32(from, profile->big_endian);
}

/* False if the counters are not in the profile. On Windows distances have 32 bits, whatever the
 * size of the field, and no section of counters is larger. */
static bool read_function(const struct profile *full, uint64_t index,
                          struct image_function *function)
{
    const struct profile_record_layout *layout = &full->layout;
    const uint8_t *record = full->data.data + index * layout->record_size;
    uint64_t position = layout->relative ? index * layout->record_size : 0;

    *function =
        (struct image_function){.name_ref = load_u64(record, full->big_endian),
                                .offset = (load_pointer(full, record + layout->counter_ptr) -
                                           full->header.counters_delta + position) &
                                          UINT32_MAX,
                                .size = load_u32(record + layout->num_counters, full->big_endian) *
                                        profile_counter_size(full->header.version)};
    return range_within(function->offset, function->size, 0, full->counters.size);
}

static bool read_list(struct image_functions *functions, const struct profile *full,
                      const char *name, struct error *error)
{
    functions->count = (size_t)(full->data.size / full->layout.record_size);
    functions->list = malloc((functions->count + 1) * sizeof(*functions->list));
    if (functions->list == NULL)
        return error_out_of_memory(error, name, functions->count * sizeof(*functions->list));
    for (size_t i = 0; i < functions->count; i++) {
        if (!read_function(full, i, &functions->list[i]))
            return error_set(error,
                             "%s: damaged (the counters of record %zu are not in it); copy it "
                             "again, or run the program again",
                             name, i);
    }
    return true;
}

bool image_functions_read(struct image_functions *functions, const struct profile *profile,
                          struct profile_sidecar *sidecar, bool with_names, const char *name,
                          struct error *error)
{
    struct buffer relocated = {0};
    struct profile full = *profile;
    bool done = true;

    if (profile_needs_sidecar(profile))
        done = sidecar == NULL
                   ? error_set(error, "%s: its functions are in its sidecar; give that", name)
                   : correlation_need(&sidecar->correlation, sidecar->sidecar, error) &&
                         correlation_apply(&sidecar->correlation, profile, name, &relocated, &full,
                                           error);
    functions->has_byte_coverage = (full.header.version & PROFILE_VARIANT_BYTE_COVERAGE) != 0;
    done = done && read_list(functions, &full, name, error) &&
           (!with_names || names_read(&functions->names, full.names, name, error));
    buffer_free(&relocated);
    return done;
}

void image_functions_free(struct image_functions *functions)
{
    free(functions->list);
    names_free(&functions->names);
    *functions = (struct image_functions){0};
}

/* ---- what a profile reached ---- */

/* Whether a byte is not 0: a counter is 0 in any byte order if its bytes are. */
static bool any_not_zero(const uint8_t *bytes, uint64_t size)
{
    uint64_t any = 0, word, i = 0;

    for (; i + sizeof(word) <= size && any == 0; i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        any |= word;
    }
    return any != 0;
}

void image_functions_reached(const struct image_functions *functions, const struct profile *profile,
                             uint8_t *set)
{
    for (size_t i = 0; i < functions->count; i++) {
        const struct image_function *function = &functions->list[i];
        const uint8_t *counters = profile->counters.data + function->offset;

        if (function->size != 0 &&
            (functions->has_byte_coverage ? memchr(counters, 0, (size_t)function->size) != NULL
                                          : any_not_zero(counters, function->size)))
            bit_set_add(set, i);
    }
}
