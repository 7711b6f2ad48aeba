/*
 * Edit scripts: order, overlap, and the map from old to new offsets, compared with what applying
 * the script in memory shows. And applying it to a file, piece by piece.
 */
#include <string.h>

#include "common/edit/edit.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/forward.h"

#define SIZE 1000

static struct bytes text(const char *literal)
{
    return (struct bytes){(const uint8_t *)literal, strlen(literal)};
}

static bool finish(struct edit_script *script)
{
    struct error error = {0};

    return edit_script_finish(script, "test", &error);
}

START_TEST(test_map_of_each_kind)
{
    FREED_BY(edit_script_free) struct edit_script script;

    edit_script_init(&script, 100);
    ck_assert(edit_cut(&script, 60, 10));
    ck_assert(edit_replace(&script, 20, 4, text("wxyz")));
    ck_assert(edit_replace(&script, 40, 0, text("inserted")));
    ck_assert(finish(&script));
    ck_assert_uint_eq(edit_script_result_size(&script), 100 - 10 + 8);
    ck_assert_uint_eq(edit_script_map(&script, 0), 0);
    ck_assert_uint_eq(edit_script_map(&script, 22), 22);
    ck_assert_uint_eq(edit_script_map(&script, 39), 39);
    /* Behind what is inserted in front of it. */
    ck_assert_uint_eq(edit_script_map(&script, 40), 48);
    ck_assert_uint_eq(edit_script_map(&script, 60), 68);
    /* What is cut is nowhere: it maps to the place of the cut. */
    ck_assert_uint_eq(edit_script_map(&script, 65), 68);
    ck_assert_uint_eq(edit_script_map(&script, 70), 68);
    ck_assert_uint_eq(edit_script_map(&script, 100), 98);
}
END_TEST

START_TEST(test_overlap_is_refused)
{
    static const struct {
        uint64_t offset, size;
    } other[] = {{10, 10}, {5, 6}, {19, 1}, {12, 2}};
    FREED_BY(edit_script_free) struct edit_script script;

    edit_script_init(&script, 100);
    ck_assert(edit_cut(&script, 10, 10));
    ck_assert(edit_replace_by_zeros(&script, other[_i].offset, other[_i].size, 3));
    ck_assert(!finish(&script));
}
END_TEST

START_TEST(test_neighbours_are_allowed)
{
    FREED_BY(edit_script_free) struct edit_script script;

    edit_script_init(&script, 100);
    ck_assert(edit_cut(&script, 10, 10));
    ck_assert(edit_cut(&script, 20, 10));
    ck_assert(edit_replace(&script, 10, 0, text("in front")));
    ck_assert(finish(&script));
    ck_assert_uint_eq(edit_script_result_size(&script), 88);
}
END_TEST

START_TEST(test_outside_is_refused)
{
    FREED_BY(edit_script_free) struct edit_script script;

    edit_script_init(&script, 100);
    ck_assert(!edit_cut(&script, 100, 1));
    ck_assert(!edit_cut(&script, UINT64_MAX, 2));
    ck_assert(!edit_cut(&script, 1, UINT64_MAX));
    ck_assert(edit_cut(&script, 100, 0));
    ck_assert_uint_eq(script.count, 0);
    /* Whoever did not look is told at the end. */
    ck_assert(!finish(&script));
}
END_TEST

/* Only what differs is written, and the result is as if all were. */
START_TEST(test_overwrite_differences)
{
    static const char old_text[] = "the same, then something else, and the same again, twice over";
    static const char new_text[] = "the same, then SOMETHING else, and the same again, twice OVER";
    struct bytes original = text(old_text);
    FREED_BY(edit_script_free) struct edit_script script;
    FREED_BY(buffer_free) struct buffer result;

    edit_script_init(&script, original.size);
    ck_assert(edit_overwrite_differences(&script, original, 0, text(new_text)));
    ck_assert(finish(&script));
    ck_assert_uint_eq(script.count, 2);
    result = apply_forward(&script, original);
    ck_assert(bytes_equal(buffer_view(&result), text(new_text)));
}
END_TEST

/* Each byte that no edit touches is where the map says. */
START_TEST(test_map_against_result)
{
    struct random_state random = random_start(1000 + (uint64_t)_i);
    uint8_t bytes[SIZE];
    struct bytes original = {bytes, SIZE};
    FREED_BY(edit_script_free) struct edit_script script;
    FREED_BY(buffer_free) struct buffer result;
    uint64_t position = 0;

    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)random_next(&random);
    edit_script_init(&script, SIZE);
    while (position < SIZE - 60) {
        uint64_t old_size = random_below(&random, 30), new_size = random_below(&random, 30);
        /* Replacing nothing by nothing is no edit; two at one place are not allowed. */
        position += 1 + random_below(&random, 25);
        ck_assert(edit_replace_by_zeros(&script, position, old_size, new_size));
        position += old_size;
    }
    ck_assert(finish(&script));
    result = apply_forward(&script, original);
    ck_assert_uint_eq(result.size, edit_script_result_size(&script));
    for (size_t i = 0, edit = 0; i < SIZE; i++) {
        while (edit < script.count && script.edits[edit].offset + script.edits[edit].old_size <= i)
            edit++;
        if (edit == script.count || i < script.edits[edit].offset)
            ck_assert_uint_eq(result.data[edit_script_map(&script, i)], bytes[i]);
    }
}
END_TEST

/* ---- applying ---- */

#define FILE_SIZE (UINT64_C(2500) << 10)

struct applied {
    struct buffer result;
    size_t left; /* how many parts are taken before one is refused */
};

static bool take_part(void *context, struct bytes part, struct error *error)
{
    struct applied *applied = context;

    if (applied->left == 0)
        return error_set(error, "refused");
    applied->left--;
    return buffer_append(&applied->result, part.data, (size_t)part.size);
}

/* A file of several pieces. */
static struct input make_input(uint64_t size)
{
    struct random_state random = random_start(size);
    struct buffer buffer = {0};
    struct input input = {0};
    struct error error;

    ck_assert(buffer_append_zeros(&buffer, (size_t)size));
    for (uint64_t i = 0; i + 8 <= size; i += 8)
        store_u64(buffer.data + i, random_next(&random), false);
    ck_assert(input_from_buffer(&input, &buffer, "original", &error));
    return input;
}

/* A cut, more zeros than fit a piece of them, an insertion, and an overwrite at the end. */
static struct edit_script make_script(void)
{
    struct edit_script script;

    edit_script_init(&script, FILE_SIZE);
    ck_assert(edit_cut(&script, 1000, 500000));
    ck_assert(edit_replace_by_zeros(&script, 800000, 20000, 20000));
    ck_assert(edit_replace(&script, 900000, 0, text("inserted")));
    ck_assert(edit_replace(&script, FILE_SIZE - 3, 3, text("end")));
    ck_assert(finish(&script));
    return script;
}

/* The result is that of the script's definition, or an error if a part is not taken. */
START_TEST(test_stream)
{
    FREED_BY(input_close) struct input input = make_input(FILE_SIZE);
    FREED_BY(edit_script_free) struct edit_script script = make_script();
    FREED_BY(buffer_free) struct buffer expected = apply_forward(&script, input.bytes);
    bool done = false;

    for (size_t left = 0; !done; left++) {
        struct applied applied = {.left = left};
        struct error error = {0};

        done = edit_script_stream(&script, &input, take_part, &applied, &error);
        ck_assert_str_eq(error.message, done ? "" : "refused");
        ck_assert_uint_le(applied.result.size, expected.size);
        ck_assert(memcmp(applied.result.data == NULL ? expected.data : applied.result.data,
                         expected.data, applied.result.size) == 0);
        ck_assert(done == (applied.result.size == expected.size));
        ck_assert_uint_lt(left, 100);
        buffer_free(&applied.result);
    }
}
END_TEST

/* A file that has become shorter: in a part that is kept, and in one that is cut. */
START_TEST(test_shorter_file)
{
    static const uint64_t sizes[] = {500, 300000, 810000, FILE_SIZE - 3, FILE_SIZE - 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        FREED_BY(input_close) struct input input = make_input(sizes[i]);
        FREED_BY(edit_script_free) struct edit_script script = make_script();
        struct applied applied = {.left = SIZE_MAX};
        struct error error = {0};

        ck_assert(!edit_script_stream(&script, &input, take_part, &applied, &error));
        ck_assert_msg(strstr(error.message, "original: ") == error.message, "%s", error.message);
        buffer_free(&applied.result);
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("scripts");
    tcase_add_test(all, test_map_of_each_kind);
    suite_loops(all, 4, test_overlap_is_refused);
    suite_tests(all, test_neighbours_are_allowed, test_outside_is_refused,
                test_overwrite_differences, test_stream, test_shorter_file);
    suite_loops(all, 100, test_map_against_result);
    return suite_main("edit", all);
}
