/*
 * Making profiles: see profile_maker.h.
 */
#include "tests/unit/profile_maker.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/base/error.h"

#define MAGIC_64 UINT64_C(0xff6c70726f667281)
#define MAGIC_32 UINT64_C(0xff6c70726f665281)

static void put_pointer(uint8_t *to, uint64_t value, const struct profile_recipe *recipe)
{
    if (recipe->is_32_bit)
        store_u32(to, (uint32_t)value, recipe->big_endian);
    else
        store_u64(to, value, recipe->big_endian);
}

static uint64_t counters_per_record(const struct profile_recipe *recipe)
{
    return recipe->stub_counters != 0 ? recipe->stub_counters : recipe->counters_each;
}

static uint64_t counter_total(const struct profile_recipe *recipe)
{
    return recipe->stub_counters != 0 ? recipe->stub_counters
           : recipe->records == 0     ? recipe->counters_each
                                      : recipe->records * recipe->counters_each;
}

#define WINDOWS_SKEW 7

static uint64_t skew_of(const struct profile_recipe *recipe)
{
    return recipe->windows ? WINDOWS_SKEW : 0;
}

static uint64_t narrow(uint64_t distance, const struct profile_recipe *recipe)
{
    return recipe->windows ? distance & UINT32_MAX : distance;
}

static uint64_t distance_of(uint64_t distance, const struct profile_recipe *recipe)
{
    return recipe->windows ? 0 - distance : distance;
}

static struct bytes function_name(uint64_t index, char text[8])
{
    return (struct bytes){(const uint8_t *)text,
                          (uint64_t)snprintf(text, 8, "f%u", (unsigned)index % 100)};
}

/* A chunk that is stored as it is. */
static struct bytes make_names(const struct profile_recipe *recipe, struct buffer *made)
{
    char text[8];

    if (recipe->names != NULL || !recipe->is_named || recipe->stub != NULL || recipe->records == 0)
        return (struct bytes){(const uint8_t *)recipe->names,
                              recipe->names == NULL ? 0 : strlen(recipe->names)};
    ck_assert(buffer_append_zeros(made, 2));
    for (uint64_t i = 0; i < recipe->records; i++) {
        struct bytes name = function_name(i, text);

        ck_assert(i == 0 || buffer_append(made, "\1", 1));
        ck_assert(buffer_append(made, name.data, (size_t)name.size));
    }
    ck_assert_uint_lt(made->size, 128 + 2);
    made->data[0] = (uint8_t)(made->size - 2);
    return buffer_view(made);
}

struct buffer profile_make_data(const struct profile_recipe *recipe, uint64_t counters_address)
{
    uint64_t counter_size = profile_counter_size(recipe->raw_version);
    struct profile_record_layout layout;
    struct buffer data = {0};
    char text[8];

    ck_assert(profile_record_layout(recipe->raw_version, recipe->is_32_bit ? 4 : 8, &layout));
    for (uint64_t i = 0; i < recipe->records; i++) {
        uint64_t position = i * layout.record_size;
        uint64_t offset = i * recipe->counters_each * counter_size;
        uint64_t distance = distance_of(MAKER_COUNTERS_DISTANCE, recipe) + skew_of(recipe);
        uint64_t from = layout.relative ? distance - position : counters_address;
        uint64_t bitmap_from =
            layout.relative ? distance_of(MAKER_BITMAP_DISTANCE, recipe) - position : 0;
        uint8_t *record;

        ck_assert(buffer_append_zeros(&data, layout.record_size));
        record = data.data + position;
        if (recipe->stub != NULL) {
            memcpy(record, recipe->stub, PROFILE_STUB_ID_SIZE);
        } else {
            store_u64(record,
                      recipe->is_named ? md5_name_reference(function_name(i, text))
                                       : 0x1111 * (i + 1),
                      recipe->big_endian);
            store_u64(record + 8, 0xabcdef + i, recipe->big_endian);
        }
        put_pointer(record + layout.counter_ptr, narrow(from + offset, recipe), recipe);
        store_u32(record + layout.num_counters, (uint32_t)counters_per_record(recipe),
                  recipe->big_endian);
        if (layout.bitmap_ptr != 0 && recipe->bitmap) {
            put_pointer(record + layout.bitmap_ptr,
                        narrow(bitmap_from + i * recipe->counters_each, recipe), recipe);
            store_u32(record + layout.num_bitmap_bytes, (uint32_t)counters_per_record(recipe),
                      recipe->big_endian);
        }
    }
    return data;
}

static bool append_part(void *context, struct bytes part, struct error *error)
{
    (void)error;
    return buffer_append(context, part.data, (size_t)part.size);
}

struct profile_recipe profile_form(int number)
{
    struct profile_recipe recipe = {.raw_version = 7 + (unsigned)number % PROFILE_VERSIONS,
                                    .is_32_bit = (number / PROFILE_VERSIONS & 1) != 0,
                                    .big_endian = (number / PROFILE_VERSIONS & 2) != 0,
                                    .bitmap = true,
                                    .records = 5,
                                    .counters_each = 3,
                                    .names = "some names",
                                    .binary_id = "build-id",
                                    .load_address = 0x4000};

    if (number >= PROFILE_FORMS) {
        recipe.windows = true;
        recipe.raw_version = 8 + (unsigned)(number - PROFILE_FORMS) % 4;
        recipe.is_32_bit = number - PROFILE_FORMS >= 4;
        recipe.big_endian = false;
    }
    return recipe;
}

struct buffer profile_make(const struct profile_recipe *recipe)
{
    FREED_BY(buffer_free) struct buffer data = profile_make_data(recipe, recipe->load_address);
    FREED_BY(buffer_free) struct buffer counters = {0}, bitmap = {0}, ids = {0}, names = {0};
    struct buffer made = {0};
    struct profile profile = {.version = PROFILE_VERSION(recipe->raw_version),
                              .is_64_bit = !recipe->is_32_bit,
                              .big_endian = recipe->big_endian};
    bool is_bytes = profile_counter_size(recipe->raw_version) == 1;
    size_t total = (size_t)counter_total(recipe);
    size_t stored = total + recipe->windows;
    struct error error = {0};

    ck_assert(
        profile_record_layout(recipe->raw_version, recipe->is_32_bit ? 4 : 8, &profile.layout));
    ck_assert(buffer_append_zeros(&counters, is_bytes ? stored : stored * 8));
    if (is_bytes)
        memset(counters.data, 0xff, counters.size);
    if (recipe->bitmap && profile.layout.bitmap_ptr != 0)
        ck_assert(buffer_append_zeros(&bitmap, total));
    if (recipe->binary_id != NULL) {
        ck_assert(buffer_append_zeros(&ids, 8));
        store_u64(ids.data, strlen(recipe->binary_id), recipe->big_endian);
        ck_assert(buffer_append(&ids, recipe->binary_id, strlen(recipe->binary_id)));
    }
    profile.binary_ids = buffer_view(&ids);
    profile.data = buffer_view(&data);
    profile.counters = buffer_view(&counters);
    profile.bitmap = buffer_view(&bitmap);
    profile.names = make_names(recipe, &names);
    profile.header = (struct profile_header){
        .magic = recipe->is_32_bit ? MAGIC_32 : MAGIC_64,
        .version = recipe->raw_version,
        .binary_ids_size = ids.size,
        .num_data = recipe->records,
        .num_counters = stored,
        .num_bitmap_bytes = bitmap.size,
        .names_size = profile.names.size,
        .counters_delta = profile.layout.relative
                              ? narrow(distance_of(MAKER_COUNTERS_DISTANCE, recipe), recipe)
                              : recipe->load_address,
        .bitmap_delta =
            bitmap.size != 0 ? narrow(distance_of(MAKER_BITMAP_DISTANCE, recipe), recipe) : 0,
        .value_kind_last = profile.layout.value_kinds - 1,
    };
    profile_set_padding(&profile);
    ck_assert(profile_write(&profile, append_part, &made, &error));
    ck_assert_uint_eq(made.size, profile_written_size(&profile));
    return made;
}

struct profile profile_of(const struct buffer *made)
{
    struct profile profile;
    struct error error = {0};

    ck_assert_msg(profile_parse(buffer_view(made), 0, "made", &profile, &error), "%s",
                  error.message);
    ck_assert_uint_eq(profile.size, made->size);
    return profile;
}

void profile_set_counter(struct buffer *made, uint64_t index, uint64_t value)
{
    struct profile profile = profile_of(made);
    uint8_t *counters = made->data + (profile.counters.data - made->data) + profile.counter_skew;

    if (profile_counter_size(profile.header.version) == 1)
        counters[index] = (uint8_t)value;
    else
        store_u64(counters + index * 8, value, profile.big_endian);
}

uint64_t profile_get_counter(const struct profile *profile, uint64_t index)
{
    if (profile_counter_size(profile->header.version) == 1)
        return profile->counters.data[index];
    return load_u64(profile->counters.data + profile->counter_skew + index * 8,
                    profile->big_endian);
}
