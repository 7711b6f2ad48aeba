/*
 * Random sections: see section_maker.h.
 */
#include "tests/unit/section_maker.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/llvm/profile.h"
#include "tests/unit/mapping_maker.h"

struct maker maker_start(uint64_t seed)
{
    struct maker maker = {.random = random_start(seed)};

    maker.name_count = 1 + (size_t)random_below(&maker.random, MAKER_NAMES_MAX);
    for (size_t i = 0; i < maker.name_count; i++)
        snprintf(maker.names[i], sizeof(maker.names[i]), "_ZN%u%.*sE%zu",
                 (unsigned)random_below(&maker.random, 20), (int)random_below(&maker.random, 16),
                 "component_member", i);
    return maker;
}

/* A text of names as a translation unit has them: mostly a run of all names. */
static struct buffer random_names(struct maker *maker)
{
    size_t count = 1 + (size_t)random_below(&maker->random, 60);
    size_t at = (size_t)random_below(&maker->random, maker->name_count);
    struct buffer text = {0};

    for (size_t i = 0; i < count; i++) {
        if (i != 0)
            ck_assert(buffer_append(&text, "\1", 1));
        ck_assert(buffer_append(&text, maker->names[at], strlen(maker->names[at])));
        at = random_below(&maker->random, 8) == 0
                 ? (size_t)random_below(&maker->random, maker->name_count)
                 : (at + 1) % maker->name_count;
    }
    return text;
}

/* Appends the text's sizes and its stream, of a level that zlib has; 0: the text as it is. */
static void put_zlib(struct buffer *section, const struct buffer *text, int level)
{
    uint8_t packed[16 * 1024];
    uLongf size = sizeof(packed);

    ck_assert(buffer_append_uleb128(section, text->size));
    if (level == 0) {
        ck_assert(buffer_append_uleb128(section, 0));
        ck_assert(buffer_append(section, text->data, text->size));
        return;
    }
    ck_assert_int_eq(compress2(packed, &size, text->data, text->size, level), Z_OK);
    ck_assert(buffer_append_uleb128(section, size));
    ck_assert(buffer_append(section, packed, size));
}

struct buffer maker_names(struct maker *maker)
{
    static const int level_choice[] = {9, 9, 9, 9, 6, 6, 0, 1, 8};
    size_t chunks = 1 + (size_t)random_below(&maker->random, 12);
    struct buffer section = {0};

    for (size_t i = 0; i < chunks; i++) {
        struct buffer text = random_names(maker);

        put_zlib(&section, &text,
                 level_choice[random_below(&maker->random,
                                           sizeof(level_choice) / sizeof(level_choice[0]))]);
        buffer_free(&text);
        if (random_below(&maker->random, 3) == 0)
            ck_assert(buffer_append_zeros(&section, (size_t)random_below(&maker->random, 9)));
    }
    return section;
}

static uint64_t reference_of(const struct maker *maker, size_t index)
{
    const char *name = maker->names[index];

    return md5_name_reference((struct bytes){(const uint8_t *)name, strlen(name)});
}

/* Simple functions have small hashes. */
static uint64_t random_hash(struct maker *maker)
{
    uint64_t hash = random_next(&maker->random);

    return random_below(&maker->random, 2) == 0 ? hash : hash % 1000;
}

/* One field in eight has something unexpected. */
static bool is_odd(struct maker *maker)
{
    return random_below(&maker->random, 8) == 0;
}

struct buffer maker_data(struct maker *maker, uint64_t raw_version, unsigned pointer_size,
                         bool big_endian)
{
    size_t count = 1 + (size_t)random_below(&maker->random, 100), name = 0;
    uint64_t place = random_below(&maker->random, 100000);
    struct profile_record_layout layout;
    struct buffer section = {0};

    ck_assert(profile_record_layout(raw_version, pointer_size, &layout));
    ck_assert(buffer_append_zeros(&section, count * layout.record_size));
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = section.data + i * layout.record_size;
        uint64_t counters = 1 + random_below(&maker->random, 20);
        uint64_t from = layout.relative ? i * layout.record_size : 0;

        if (is_odd(maker))
            name = (size_t)random_below(&maker->random, maker->name_count);
        store_u64(record, is_odd(maker) ? random_next(&maker->random) : reference_of(maker, name),
                  big_endian);
        name = (name + 1) % maker->name_count;
        store_u64(record + 8, random_hash(maker), big_endian);
        if (i != 0 && random_below(&maker->random, 2) == 0) {
            const uint8_t *like =
                section.data + random_below(&maker->random, i) * layout.record_size;

            memcpy(record + 8, like + 8, 8);
            if (!is_odd(maker))
                counters = load_u32(like + layout.num_counters, big_endian);
        }
        store_number(record + layout.counter_ptr,
                     is_odd(maker) ? random_next(&maker->random) : place - from, pointer_size,
                     big_endian);
        place += counters * profile_counter_size(raw_version);
        store_u32(record + layout.num_counters, (uint32_t)counters, big_endian);
        if (is_odd(maker))
            store_u16(record + layout.num_value_sites, (uint16_t)counters, big_endian);
        if (layout.bitmap_ptr != 0 && is_odd(maker)) {
            store_number(record + layout.bitmap_ptr, 5000 + place - from, pointer_size, big_endian);
            store_u32(record + layout.num_bitmap_bytes, (uint32_t)counters, big_endian);
        }
    }
    if (is_odd(maker))
        ck_assert(buffer_append_zeros(&section, (size_t)random_below(&maker->random, 40)));
    return section;
}

/* The names of a translation unit as a list of file names. */
static struct buffer random_list(struct maker *maker, uint64_t *count)
{
    struct buffer text = {0};

    *count = 1 + random_below(&maker->random, 30);
    for (uint64_t i = 0; i < *count; i++) {
        const char *name = maker->names[random_below(&maker->random, maker->name_count)];

        ck_assert(buffer_append_uleb128(&text, strlen(name)));
        ck_assert(buffer_append(&text, name, strlen(name)));
    }
    return text;
}

struct buffer maker_covmap(struct maker *maker, bool big_endian)
{
    static const int level_choice[] = {9, 9, 9, 6, 0, 0};
    uint64_t records = 1 + random_below(&maker->random, 10);
    struct buffer section = {0};

    for (uint64_t i = 0; i < records; i++) {
        size_t start = section.size;
        uint64_t count;
        struct buffer text = random_list(maker, &count);

        ck_assert(buffer_append_zeros(&section, 16));
        ck_assert(buffer_append_uleb128(&section, count));
        put_zlib(&section, &text, level_choice[random_below(&maker->random, 6)]);
        store_u32(section.data + start + 4, (uint32_t)(section.size - start - 16), big_endian);
        store_u32(section.data + start + 12, (uint32_t)random_below(&maker->random, 7), big_endian);
        buffer_free(&text);
        if (i + 1 < records || is_odd(maker))
            ck_assert(
                buffer_append_zeros(&section, (size_t)(align_up(section.size, 8) - section.size)));
    }
    if (is_odd(maker))
        ck_assert(buffer_append_zeros(&section, (size_t)random_below(&maker->random, 40)));
    return section;
}

/* NameRef, and FuncHash as the data has it, or not. */
static void random_function(struct maker *maker, struct bytes data, bool big_endian,
                            uint64_t *reference, uint64_t *hash)
{
    uint64_t index = random_below(&maker->random, data.size / 64);

    *reference = load_u64(data.data + index * 64, big_endian);
    *hash = load_u64(data.data + index * 64 + 8, big_endian);
    if (is_odd(maker)) {
        *reference = reference_of(maker, (size_t)random_below(&maker->random, maker->name_count));
        *hash = 0;
    }
    if (is_odd(maker))
        *hash = random_hash(maker);
    if (is_odd(maker))
        *reference = random_next(&maker->random);
}

struct buffer maker_covfun(struct maker *maker, struct bytes data, bool big_endian)
{
    uint64_t records = 1 + random_below(&maker->random, 40);
    struct buffer section = {0}, mapping = {0};

    for (uint64_t i = 0; i < records; i++) {
        size_t start = section.size;
        uint64_t reference, hash;

        random_function(maker, data, big_endian, &reference, &hash);
        if (i == 0 || !is_odd(maker)) {
            mapping.size = 0;
            mapping_make(&maker->random, &mapping);
        }
        ck_assert(buffer_append_zeros(&section, 28));
        store_u64(section.data + start, reference, big_endian);
        store_u32(section.data + start + 8, (uint32_t)mapping.size, big_endian);
        store_u64(section.data + start + 12, hash, big_endian);
        store_u64(section.data + start + 20, random_below(&maker->random, 3), big_endian);
        ck_assert(buffer_append(&section, mapping.data, mapping.size));
        if (i + 1 < records || is_odd(maker))
            ck_assert(
                buffer_append_zeros(&section, (size_t)(align_up(section.size, 8) - section.size)));
    }
    if (is_odd(maker))
        ck_assert(buffer_append_zeros(&section, (size_t)random_below(&maker->random, 60)));
    buffer_free(&mapping);
    return section;
}
