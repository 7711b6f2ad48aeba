/*
 * The functions of an image: see covsplit.h.
 *
 * A data record identifies its function by the hash of the name; the names themselves are in
 * another section. So all names are hashed once, and the name of a record is found by binary
 * search.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/llvm/names.h"
#include "reader/internal.h"

struct covsplit_functions {
    const struct correlation *correlation; /* the sidecar's */
    struct names names;
    size_t count;
};

/* Checks all records at once, so that later calls can rely on them. */
static bool check_ranges(const struct correlation *correlation, size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct correlation_range range;

        if (!correlation_range(correlation, i, &range))
            return error_set(error,
                             "%s: the sidecar is damaged (the counters of record %zu are not in "
                             "the image); get an intact copy",
                             sidecar_name(correlation->sidecar), i);
    }
    return true;
}

static bool open_functions(covsplit_functions *functions, covsplit_sidecar *sidecar,
                           struct error *error)
{
    const struct correlation *correlation = &sidecar->correlation;

    if (!correlation_need(&sidecar->correlation, sidecar->sidecar, error))
        return false;
    if (!correlation->has_data)
        return error_set(error,
                         "%s: its profile data stayed in the image; look at what it was kept for "
                         "with 'covsplit show'",
                         sidecar_name(sidecar->sidecar));
    functions->correlation = correlation;
    functions->count = correlation->data.size / correlation->layout.record_size;
    return check_ranges(correlation, functions->count, error) &&
           names_read(&functions->names, buffer_view(&correlation->names),
                      sidecar_name(sidecar->sidecar), error);
}

covsplit_functions *covsplit_functions_open(covsplit_sidecar *sidecar, covsplit_error **error)
{
    covsplit_functions *functions = calloc(1, sizeof(*functions));
    struct error why = {0};

    if (functions == NULL)
        error_out_of_memory(&why, sidecar_name(sidecar->sidecar), sizeof(*functions));
    else if (open_functions(functions, sidecar, &why))
        return functions;
    covsplit_functions_close(functions);
    report_error(error, &why);
    return NULL;
}

void covsplit_functions_close(covsplit_functions *functions)
{
    if (functions == NULL)
        return;
    names_free(&functions->names);
    free(functions);
}

size_t covsplit_functions_count(const covsplit_functions *functions)
{
    return functions->count;
}

bool covsplit_functions_get(const covsplit_functions *functions, size_t index,
                            covsplit_function *function)
{
    const struct correlation *correlation = functions->correlation;
    bool big_endian = correlation_is_big_endian(correlation);
    struct correlation_range range;
    const uint8_t *record;

    if (index >= functions->count || !correlation_range(correlation, index, &range))
        return false;
    /* NameRef and FuncHash are the first two fields in every version. */
    record = correlation->data.data + index * correlation->layout.record_size;
    *function = (covsplit_function){
        .name_hash = load_u64(record, big_endian),
        .hash = load_u64(record + sizeof(uint64_t), big_endian),
        .first_counter = range.first_counter,
        .counter_count = range.counter_count,
        .first_bitmap_byte = range.first_bitmap_byte,
        .bitmap_byte_count = range.bitmap_byte_count,
    };
    function->name = names_find(&functions->names, function->name_hash);
    return true;
}
