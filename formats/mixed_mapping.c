/*
 * The check of mixed mapping: see mixed_mapping.h.
 */
#include "formats/mixed_mapping.h"

#include "common/base/intern_table.h"
#include "common/base/numbers.h"
#include "common/llvm/coverage.h"

/* Data records begin with NameRef and FuncHash, and are aligned to this. */
#define RECORD_ALIGNMENT 8
#define RECORD_START     16

/* What tells functions of one name apart. */
static uint64_t function_key(uint64_t name_reference, uint64_t function_hash)
{
    return name_reference ^ function_hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* Whether the program may have code that the record is of. A function without control flow has the
 * hash 0, as has the record of one that its translation unit does not use. */
static bool has_code(const struct covfun_record *record)
{
    bool is_dummy;

    return !covfun_tell_dummy(record, &is_dummy) || !is_dummy;
}

/* Adds the used functions of the section that are not in `known`, which may be NULL. */
static bool add_functions(struct bytes covfun, bool big_endian, const struct intern_table *known,
                          struct intern_table *functions)
{
    struct covfun_record record;
    uint64_t ignored;

    while (covfun_take(&covfun, big_endian, &record)) {
        uint64_t key = function_key(record.name_reference, record.function_hash);

        if (has_code(&record) && (known == NULL || !intern_table_find(known, key, &ignored)) &&
            !intern_table_put(functions, key, 0))
            return false;
    }
    return true;
}

/* The functions of records. */
struct functions {
    struct intern_table made; /* of those that were made */
    struct intern_table lost; /* of the others in the image's own section */
    struct intern_table kept; /* NameRefs of data records whose functions are in `made` */
};

/* Takes a place where a data record may begin off the data. Sets *key to what its function is. */
static bool take_place(struct bytes *data, bool big_endian, uint64_t *name_reference, uint64_t *key)
{
    if (data->size < RECORD_START)
        return false;
    *name_reference = load_u64(data->data, big_endian);
    *key = function_key(*name_reference, load_u64(data->data + sizeof(uint64_t), big_endian));
    take_bytes(data, RECORD_ALIGNMENT);
    return true;
}

/* Sets *is_sound to whether no function that was lost has a data record, unless the one whose
 * record was made in its place has one, too. False if out of memory. */
static bool look_for_lost(struct functions *functions, struct bytes data, bool big_endian,
                          bool *is_sound)
{
    struct bytes rest = data;
    uint64_t name_reference, key, ignored;

    *is_sound = true;
    if (functions->lost.count == 0)
        return true;
    while (take_place(&rest, big_endian, &name_reference, &key)) {
        if (intern_table_find(&functions->made, key, &ignored) &&
            !intern_table_put(&functions->kept, name_reference, 0))
            return false;
    }
    rest = data;
    while (*is_sound && take_place(&rest, big_endian, &name_reference, &key))
        *is_sound = !intern_table_find(&functions->lost, key, &ignored) ||
                    intern_table_find(&functions->kept, name_reference, &ignored);
    return true;
}

bool mixed_mapping_check(const struct mixed_mapping *mapping, bool big_endian, const char *name,
                         struct error *error)
{
    struct functions functions = {0};
    bool is_sound = true;
    bool done = mapping->covfun.size == 0 ||
                (add_functions(mapping->made_covfun, big_endian, NULL, &functions.made) &&
                 add_functions(mapping->covfun, big_endian, &functions.made, &functions.lost) &&
                 look_for_lost(&functions, mapping->data, big_endian, &is_sound));

    if (!done)
        error_out_of_memory(error, name, mapping->made_covfun.size);
    else if (!is_sound)
        done = error_set(error,
                         "%s: a packed object and bitcode (LTO) have different records of a "
                         "function, and the first is not that of the code; pack all objects of "
                         "the image, or none, and link it again",
                         name);
    intern_table_free(&functions.made);
    intern_table_free(&functions.lost);
    intern_table_free(&functions.kept);
    return done;
}
