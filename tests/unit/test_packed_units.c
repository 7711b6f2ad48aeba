/*
 * Packed units, and ordinary sections made of them: units of random records read as they were
 * written; whatever objects of a program are packed, the sections that are unpacked from its link
 * are those of the link without packing.
 */
#include <stdlib.h>

#include "common/base/md5.h"
#include "common/llvm/coverage.h"
#include "tests/support/suite.h"
#include "tests/unit/packed_maker.h"

#define UNITS    200
#define PROGRAMS 300
#define MEMORY   ((uint64_t)64 << 20)

static void check_same_unit(const struct packed_unit *a, const struct packed_unit *b)
{
    ck_assert_uint_eq(a->version, b->version);
    ck_assert(bytes_equal(a->filenames, b->filenames));
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        ck_assert_uint_eq(a->records[i].name_reference, b->records[i].name_reference);
        ck_assert_uint_eq(a->records[i].function_hash, b->records[i].function_hash);
        ck_assert_int_eq((int)a->records[i].group, (int)b->records[i].group);
        ck_assert(bytes_equal(a->records[i].mapping, b->records[i].mapping));
    }
}

START_TEST(test_round_trip)
{
    struct random_state random = random_start((uint64_t)_i);
    struct packed_unit unit, again = {0};
    struct buffer texts = {0}, section = {0};
    struct bytes rest, packed;
    bool big = _i % 2 != 0;

    packed_make_unit(&random, 1000, false, &unit, &texts);
    if (unit.count != 0)
        unit.records[0].group = PACKED_GROUP_NONE;
    for (int i = 0; i < 2; i++) {
        ck_assert(buffer_append_zeros(&section, -section.size % 8));
        ck_assert_int_eq(packed_unit_write(&unit, big, &section), RESULT_OK);
    }
    rest = buffer_view(&section);
    ck_assert(unpack_is_needed(rest, big));
    for (int i = 0; i < 2; i++) {
        ck_assert(packed_unit_take(&rest, big, &packed));
        ck_assert_int_eq(packed_unit_read(&again, packed, big, MEMORY), RESULT_OK);
        check_same_unit(&again, &unit);
        ck_assert_uint_eq(again.reference, md5_name_reference(unit.filenames));
    }
    ck_assert_uint_eq(rest.size, 0);
    ck_assert(!packed_unit_take(&rest, big, &packed));
    packed_unit_free(&unit);
    packed_unit_free(&again);
    buffer_free(&texts);
    buffer_free(&section);
}
END_TEST

/* Every subset of the objects is packed, in turn. */
START_TEST(test_unpack)
{
    struct random_state random = random_start((uint64_t)_i);
    struct linked_program program;
    struct buffer expected[2] = {{0}, {0}};
    bool big = _i % 2 != 0;

    packed_make_program(&random, false, &program);
    packed_link(&program, 0, big, &expected[0], &expected[1]);
    for (unsigned packed = 0; packed < 1u << program.object_count; packed += 1 + packed / 16) {
        struct buffer linked[2] = {{0}, {0}}, made[2] = {{0}, {0}};
        struct error error = {0};

        packed_link(&program, packed, big, &linked[0], &linked[1]);
        ck_assert_msg(unpack_mapping(&(struct mapping_sections){buffer_view(&linked[0]),
                                                                buffer_view(&linked[1])},
                                     big, MEMORY, "image", &made[0], &made[1], &error),
                      "%s", error.message);
        for (int i = 0; i < 2; i++) {
            ck_assert(bytes_equal(buffer_view(&made[i]), buffer_view(&expected[i])));
            buffer_free(&made[i]);
            buffer_free(&linked[i]);
        }
    }
    buffer_free(&expected[0]);
    buffer_free(&expected[1]);
    packed_free_program(&program);
}
END_TEST

/* Units that have the same filenames: the right sections, or an error; both occur. */
START_TEST(test_alike)
{
    size_t done = 0, refused = 0;

    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        struct random_state random = random_start(seed);
        struct linked_program program;
        struct buffer sections[6] = {{0}};
        struct error error = {0};

        packed_make_program(&random, true, &program);
        packed_link(&program, 0, false, &sections[0], &sections[1]);
        packed_link(&program, (unsigned)random_next(&random), false, &sections[2], &sections[3]);
        if (unpack_mapping(
                &(struct mapping_sections){buffer_view(&sections[2]), buffer_view(&sections[3])},
                false, MEMORY, "image", &sections[4], &sections[5], &error)) {
            ck_assert(bytes_equal(buffer_view(&sections[0]), buffer_view(&sections[4])));
            ck_assert(bytes_equal(buffer_view(&sections[1]), buffer_view(&sections[5])));
            done++;
        } else {
            ck_assert_ptr_nonnull(strstr(error.message, "have the same filenames"));
            refused++;
        }
        for (int i = 0; i < 6; i++)
            buffer_free(&sections[i]);
        packed_free_program(&program);
    }
    ck_assert_uint_gt(done, PROGRAMS / 4);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, UNITS, test_round_trip, test_unpack);
    suite_tests(all, test_alike);
    return suite_main("packed-units", all);
}
