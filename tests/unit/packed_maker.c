/*
 * Random objects with coverage mapping: see packed_maker.h.
 */
#include "tests/unit/packed_maker.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/llvm/coverage.h"
#include "tests/support/suite.h"
#include "tests/unit/mapping_maker.h"

#define FILES     9
#define TEXTS_MAX ((size_t)8 << 20)

/* Regions without counters, as of functions that are not used: one, two, and one of rustc's. */
static const uint8_t unused[][16] = {
    {1, 0, 0, 1, 0, 3, 1, 2, 9},
    {1, 1, 0, 2, 0, 3, 1, 2, 9, 0, 1, 1, 0, 3},
    {1, 7, 0, 1, 0, 200, 1, 2, 0, 9},
};
static const uint8_t unused_size[] = {9, 14, 10};

/* Texts stay where they are, since units point to them. */
static struct bytes keep(struct buffer *texts, const void *data, size_t size)
{
    struct bytes kept;

    if (texts->capacity == 0)
        ck_assert(buffer_reserve(texts, TEXTS_MAX));
    ck_assert_uint_le(texts->size + size, TEXTS_MAX);
    kept = (struct bytes){texts->data + texts->size, size};
    ck_assert(buffer_append(texts, data, size));
    return kept;
}

static struct bytes random_mapping(struct random_state *random, struct buffer *texts)
{
    struct buffer mapping = {0};
    struct bytes kept;
    struct covfun_files files;

    do {
        mapping.size = 0;
        mapping_make(random, &mapping);
        kept = buffer_view(&mapping);
    } while (!covfun_read_files(&(struct covfun_record){.mapping = kept}, &files));
    kept = keep(texts, mapping.data, mapping.size);
    buffer_free(&mapping);
    return kept;
}

/* A function of a header: the same in all units, except for the number of its file. */
static struct bytes shared_mapping(uint64_t function, const struct packed_unit *unit,
                                   struct buffer *texts)
{
    uint8_t mapping[] = {1, 0, 0, 1, 1, (uint8_t)(function % 100), 1, 2, 9};

    /* Behind the number of names, the sizes and the names before it. */
    for (size_t at = 4; at < unit->filenames.size; at += 2) {
        if (unit->filenames.data[at] == 'a' + function % FILES)
            mapping[1] = (uint8_t)((at - 4) / 2);
    }
    return keep(texts, mapping, sizeof(mapping));
}

static void add_record(struct random_state *random, size_t variety, struct packed_unit *unit,
                       struct buffer *texts)
{
    static const uint8_t used_without_hash[] = {1, 0, 0, 1, 1, 3, 1, 2, 9};
    uint64_t function = random_below(random, variety), kind = random_below(random, 8);
    struct packed_record record = {.name_reference = function * UINT64_C(0x9e3779b97f4a7c15),
                                   .group = PACKED_GROUP_OF_USED};

    if (kind == 0) {
        size_t which = (size_t)random_below(random, 3);

        record.group = PACKED_GROUP_OF_UNUSED;
        record.mapping = keep(texts, unused[which], unused_size[which]);
    } else if (kind == 1) {
        record.mapping = keep(texts, used_without_hash, sizeof(used_without_hash));
    } else if (kind < 6) {
        record.function_hash = 1 + function;
        record.mapping = shared_mapping(function, unit, texts);
    } else {
        record.function_hash = 1 + random_below(random, 3) * random_next(random) / 2;
        record.mapping = random_mapping(random, texts);
    }
    for (size_t i = 0; i < unit->count; i++) {
        /* An object has each group once. */
        if (unit->records[i].name_reference == record.name_reference &&
            unit->records[i].group == record.group)
            return;
    }
    ck_assert(ARRAY_ROOM_FOR_ONE(unit->records, unit->capacity, unit->count));
    unit->records[unit->count++] = record;
}

/* Some of the names "a", "b" and so on, in any order, not compressed, behind how many they are and
 * the size of the text. */
static struct bytes random_filenames(struct random_state *random, bool alike, struct buffer *texts)
{
    uint8_t list[3 + 2 * FILES] = {0}, order[FILES];
    uint8_t count = alike ? FILES : (uint8_t)(FILES - random_below(random, FILES));

    for (uint8_t i = 0; i < FILES; i++)
        order[i] = (uint8_t)('a' + i);
    for (uint8_t i = 0; i < FILES && (!alike || (i < 1 && random_below(random, 2) == 0)); i++) {
        size_t other = (size_t)random_below(random, FILES);
        uint8_t former = order[i];

        order[i] = order[other];
        order[other] = former;
    }
    list[0] = count;
    list[1] = (uint8_t)(2 * count);
    for (uint8_t i = 0; i < count; i++) {
        list[3 + 2 * i] = 1;
        list[4 + 2 * i] = order[i];
    }
    return keep(texts, list, 3 + 2 * (size_t)count);
}

void packed_make_unit(struct random_state *random, size_t variety, bool alike,
                      struct packed_unit *unit, struct buffer *texts)
{
    size_t count = (size_t)random_below(random, 20);

    *unit = (struct packed_unit){.version = (uint32_t)(3 + random_below(random, 4)),
                                 .filenames = random_filenames(random, alike, texts)};
    for (size_t i = 0; i < count; i++)
        add_record(random, variety, unit, texts);
}

/* Whether an earlier object has a unit with the same filenames. */
static bool is_known(const struct linked_program *program, size_t before,
                     const struct packed_unit *unit)
{
    for (size_t i = 0; i < before; i++) {
        for (size_t j = 0; j < program->objects[i].unit_count; j++) {
            if (bytes_equal(program->objects[i].units[j].filenames, unit->filenames))
                return true;
        }
    }
    return false;
}

void packed_make_program(struct random_state *random, bool alike, struct linked_program *program)
{
    size_t variety = 1 + (size_t)random_below(random, 60);

    *program = (struct linked_program){0};
    program->object_count = 1 + (size_t)random_below(random, LINKED_OBJECTS_MAX);
    for (size_t i = 0; i < program->object_count; i++) {
        struct linked_object *object = &program->objects[i];

        object->unit_count =
            random_below(random, 3) != 0 ? 1 : (size_t)random_below(random, LINKED_UNITS_MAX + 1);
        for (size_t j = 0; j < object->unit_count; j++) {
            packed_make_unit(random, variety, alike, &object->units[j], &program->texts);
            while (!alike && is_known(program, i, &object->units[j])) {
                packed_unit_free(&object->units[j]);
                packed_make_unit(random, variety, alike, &object->units[j], &program->texts);
            }
        }
    }
}

void packed_free_program(struct linked_program *program)
{
    for (size_t i = 0; i < program->object_count; i++) {
        for (size_t j = 0; j < program->objects[i].unit_count; j++)
            packed_unit_free(&program->objects[i].units[j]);
    }
    buffer_free(&program->texts);
}

/* ---- linking ---- */

static void pad(struct buffer *section)
{
    ck_assert(buffer_append_zeros(section, -section->size % 8));
}

/* What compilers add to a unit. */
static void pad_unit(struct buffer *covmap)
{
    ck_assert(buffer_append_zeros(covmap, -covmap->size % 4));
}

static void link_unit(const struct packed_unit *unit, bool big_endian, struct buffer *covmap)
{
    uint8_t header[COVMAP_HEADER_SIZE] = {0};

    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)unit->filenames.size, big_endian);
    store_u32(header + COVMAP_VERSION, unit->version, big_endian);
    ck_assert(buffer_append(covmap, header, sizeof(header)) &&
              buffer_append(covmap, unit->filenames.data, (size_t)unit->filenames.size));
    pad_unit(covmap);
}

static void link_record(const struct packed_record *record, uint64_t reference, bool big_endian,
                        struct buffer *covfun)
{
    uint8_t header[COVFUN_HEADER_SIZE];

    store_u64(header + COVFUN_NAME_REF, record->name_reference, big_endian);
    store_u32(header + COVFUN_DATA_SIZE, (uint32_t)record->mapping.size, big_endian);
    store_u64(header + COVFUN_FUNC_HASH, record->function_hash, big_endian);
    store_u64(header + COVFUN_FILENAMES_REF, reference, big_endian);
    pad(covfun);
    ck_assert(buffer_append(covfun, header, sizeof(header)) &&
              buffer_append(covfun, record->mapping.data, (size_t)record->mapping.size));
}

/* Whether the linker has seen the group. */
static bool is_seen(struct buffer *seen, const struct packed_record *record)
{
    uint64_t group[2] = {record->name_reference, record->group};

    for (size_t i = 0; i < seen->size; i += sizeof(group)) {
        if (memcmp(seen->data + i, group, sizeof(group)) == 0)
            return true;
    }
    ck_assert(buffer_append(seen, group, sizeof(group)));
    return false;
}

void packed_link(const struct linked_program *program, unsigned packed, bool big_endian,
                 struct buffer *covmap, struct buffer *covfun)
{
    struct buffer seen = {0};

    for (size_t i = 0; i < program->object_count; i++) {
        const struct linked_object *object = &program->objects[i];

        for (size_t j = 0; j < object->unit_count; j++) {
            const struct packed_unit *unit = &object->units[j];

            pad(covmap);
            if ((packed >> i & 1) != 0) {
                ck_assert_int_eq(packed_unit_write(unit, big_endian, covmap), RESULT_OK);
                continue;
            }
            link_unit(unit, big_endian, covmap);
            for (size_t k = 0; k < unit->count; k++) {
                if (!is_seen(&seen, &unit->records[k]))
                    link_record(&unit->records[k], md5_name_reference(unit->filenames), big_endian,
                                covfun);
            }
        }
    }
    buffer_free(&seen);
}
