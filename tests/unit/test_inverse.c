/*
 * The inverse edit script: random scripts over random originals must come back to the byte, and no
 * encoded inverse, however damaged, may step outside what it is given.
 */
#include <stdlib.h>
#include <string.h>

#include "common/edit/edit.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/forward.h"
#include "tests/unit/refused_memory.h"

#define ORIGINAL_MAX 3000
#define NAME         "test"

struct world {
    uint8_t original[ORIGINAL_MAX];
    uint64_t original_size;
    struct edit_script script;
    struct section sections[SECTION_KIND_MAX];
    size_t section_count;
    struct buffer stripped;
    struct buffer encoded;
};

static struct bytes original_of(const struct world *world)
{
    return (struct bytes){world->original, world->original_size};
}

static struct section section_at(enum section_kind kind, uint64_t offset, uint64_t size)
{
    return (struct section){.kind = kind, .fate = FATE_REMOVED, .offset = offset, .size = size};
}

/* Random cuts, overwrites, zeroings and insertions, apart from each other. */
static void make_edits(struct world *world, struct random_state *random)
{
    uint64_t position = random_below(random, 40);

    edit_script_init(&world->script, world->original_size);
    while (position < world->original_size) {
        uint64_t left = world->original_size - position;
        uint64_t old_size = random_below(random, (left < 300 ? left : 300) + 1);
        uint64_t new_size = random_below(random, 120);
        uint8_t literals[120];

        for (size_t i = 0; i < sizeof(literals); i++)
            literals[i] = (uint8_t)random_next(random);
        switch (random_below(random, 4)) {
        case 0:
            ck_assert(edit_cut(&world->script, position, old_size));
            break;
        case 1:
            ck_assert(edit_replace_by_zeros(&world->script, position, old_size, old_size));
            break;
        case 2:
            ck_assert(edit_replace(&world->script, position, old_size,
                                   (struct bytes){literals, new_size}));
            break;
        default:
            old_size = 0;
            ck_assert(
                edit_replace(&world->script, position, 0, (struct bytes){literals, new_size}));
            break;
        }
        /* At times the next edit touches this one; two insertions at one place have no order. */
        position += old_size + (old_size == 0 ? 1 : 0);
        position += random_below(random, 3) == 0 ? 0 : random_below(random, 200);
    }
}

static void make_sections(struct world *world, struct random_state *random)
{
    uint64_t position = 0;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        uint64_t size = random_below(random, 500);

        position += random_below(random, 200);
        if ((SECTION_BIT(kind) & SECTION_REMOVABLE) == 0 || position > world->original_size ||
            size > world->original_size - position)
            continue;
        world->sections[world->section_count++] =
            section_at((enum section_kind)kind, position, size);
        position += size;
    }
    /* The caller need not sort them. */
    for (size_t i = world->section_count; i > 1; i--) {
        size_t j = (size_t)random_below(random, i);
        struct section swapped = world->sections[i - 1];
        world->sections[i - 1] = world->sections[j];
        world->sections[j] = swapped;
    }
}

static struct world *make_world(uint64_t seed)
{
    struct random_state random = random_start(seed);
    struct world *world = calloc(1, sizeof(*world));
    struct error error = {0};

    ck_assert_ptr_nonnull(world);
    world->original_size = random_below(&random, ORIGINAL_MAX + 1);
    for (size_t i = 0; i < world->original_size; i++)
        world->original[i] = (uint8_t)random_next(&random);
    make_edits(world, &random);
    make_sections(world, &random);
    ck_assert_msg(edit_script_finish(&world->script, NAME, &error), "%s", error.message);
    world->stripped = apply_forward(&world->script, original_of(world));
    ck_assert_uint_eq(world->stripped.size, edit_script_result_size(&world->script));
    ck_assert_msg(inverse_encode(&world->script, original_of(world), world->sections,
                                 world->section_count, NAME, &world->encoded, &error),
                  "%s", error.message);
    return world;
}

static void free_world(struct world *world)
{
    edit_script_free(&world->script);
    buffer_free(&world->stripped);
    buffer_free(&world->encoded);
    free(world);
}

DEFINE_DROP(drop_world, struct world, free_world)

static struct inverse open_inverse(const struct world *world, struct bytes encoded)
{
    return inverse_open(encoded, world->stripped.size, world->original_size, world->sections,
                        world->section_count);
}

static const struct section *find_section(const struct world *world, unsigned kind)
{
    for (size_t i = 0; i < world->section_count; i++) {
        if (world->sections[i].kind == kind)
            return &world->sections[i];
    }
    return NULL;
}

/* Does what the steps say, with every access checked. Whether the inverse is valid. */
static bool run_steps(const struct world *world, struct bytes encoded, struct buffer *result)
{
    struct inverse inverse = open_inverse(world, encoded);
    struct bytes stripped = buffer_view(&world->stripped), part;
    uint64_t position = 0, used[SECTION_KIND_MAX + 1] = {0};
    struct inverse_step step;
    struct error error = {0};

    while (inverse_next(&inverse, &step)) {
        ck_assert(bytes_slice(stripped, position, step.keep, &part));
        ck_assert(buffer_append(result, part.data, (size_t)part.size));
        position += step.keep + step.drop;
        if (step.source == 0) {
            ck_assert_uint_eq(step.literals.size, step.insert);
            part = step.literals;
        } else {
            const struct section *section = find_section(world, step.source);

            ck_assert_uint_le(step.source, SECTION_KIND_MAX);
            ck_assert_uint_ge(step.source_offset, used[step.source]);
            used[step.source] = step.source_offset + step.insert;
            ck_assert_uint_le(used[step.source], section == NULL ? 0 : section->size);
            part = (struct bytes){0};
            ck_assert(section == NULL ||
                      bytes_slice(original_of(world), section->offset + step.source_offset,
                                  step.insert, &part));
        }
        ck_assert(buffer_append(result, part.data, (size_t)part.size));
    }
    if (!inverse_finish(&inverse, NAME, &error)) {
        ck_assert_str_ne(error.message, "");
        return false;
    }
    ck_assert(bytes_slice(stripped, position, stripped.size - position, &part));
    ck_assert(buffer_append(result, part.data, (size_t)part.size));
    return true;
}

START_TEST(test_random_scripts)
{
    for (uint64_t seed = (uint64_t)_i * 500; seed < (uint64_t)(_i + 1) * 500; seed++) {
        FREED_BY(drop_world) struct world *world = make_world(seed);
        FREED_BY(buffer_free) struct buffer restored = {0};

        ck_assert_msg(run_steps(world, buffer_view(&world->encoded), &restored), "seed %d",
                      (int)seed);
        ck_assert_msg(bytes_equal(buffer_view(&restored), original_of(world)), "seed %d",
                      (int)seed);
    }
}
END_TEST

/* Bytes that the sidecar has as a section are not stored a second time. */
START_TEST(test_sections_are_no_literals)
{
    uint8_t original[1000];
    const struct section section = section_at(SECTION_COVMAP, 100, 800);
    struct inverse_step steps[4];
    size_t count = 0;
    struct bytes view = {original, sizeof(original)};
    FREED_BY(edit_script_free) struct edit_script script;
    FREED_BY(buffer_free) struct buffer encoded = {0};
    struct inverse inverse;
    struct error error = {0};

    memset(original, 'x', sizeof(original));
    edit_script_init(&script, sizeof(original));
    ck_assert(edit_cut(&script, 99, 802));
    ck_assert(edit_script_finish(&script, NAME, &error));
    ck_assert(inverse_encode(&script, view, &section, 1, NAME, &encoded, &error));
    ck_assert_uint_le(encoded.size, 30);
    inverse = inverse_open(buffer_view(&encoded), 198, 1000, &section, 1);
    while (count < 4 && inverse_next(&inverse, &steps[count]))
        count++;
    ck_assert(inverse_finish(&inverse, NAME, &error));
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(steps[1].source, SECTION_COVMAP);
    ck_assert_uint_eq(steps[1].insert, 800);
}
END_TEST

START_TEST(test_no_edits)
{
    FREED_BY(edit_script_free) struct edit_script script;
    FREED_BY(buffer_free) struct buffer encoded = {0};
    struct inverse inverse;
    struct inverse_step step;
    struct error error = {0};
    uint8_t original[5] = {0};

    edit_script_init(&script, 5);
    ck_assert(edit_script_finish(&script, NAME, &error));
    ck_assert(
        inverse_encode(&script, (struct bytes){original, 5}, NULL, 0, NAME, &encoded, &error));
    inverse = inverse_open(buffer_view(&encoded), 5, 5, NULL, 0);
    ck_assert(!inverse_next(&inverse, &step));
    ck_assert(inverse_finish(&inverse, NAME, &error));
    inverse = inverse_open(buffer_view(&encoded), 5, 6, NULL, 0);
    ck_assert(!inverse_next(&inverse, &step));
    ck_assert(!inverse_finish(&inverse, NAME, &error));
}
END_TEST

START_TEST(test_encode_refuses_bad_sections)
{
    static const struct {
        enum section_kind kind;
        uint64_t offset, size;
    } bad[][2] = {
        {{SECTION_COVMAP, 0, 6}, {SECTION_COVFUN, 5, 5}},
        {{SECTION_COVFUN, 5, 5}, {SECTION_COVMAP, 0, 6}},
        {{SECTION_COVMAP, 0, 2}, {SECTION_COVMAP, 4, 2}},
        {{SECTION_COVMAP, 0, 2}, {SECTION_COVFUN, 4, 7}},
        {{SECTION_COVMAP, 0, 2}, {SECTION_COVFUN, UINT64_MAX, 2}},
        {{(enum section_kind)0, 0, 2}, {SECTION_COVFUN, 4, 1}},
        {{(enum section_kind)99, 0, 2}, {SECTION_COVFUN, 4, 1}},
    };
    FREED_BY(edit_script_free) struct edit_script script;
    uint8_t original[10] = {0};

    edit_script_init(&script, sizeof(original));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct section sections[] = {
            section_at(bad[i][0].kind, bad[i][0].offset, bad[i][0].size),
            section_at(bad[i][1].kind, bad[i][1].offset, bad[i][1].size),
        };
        FREED_BY(buffer_free) struct buffer encoded = {0};
        struct error error = {0};

        ck_assert_msg(!inverse_encode(&script, (struct bytes){original, sizeof(original)}, sections,
                                      2, NAME, &encoded, &error),
                      "case %d", (int)i);
        ck_assert_str_ne(error.message, "");
    }
}
END_TEST

/* ---- hostile input ---- */

static void append_numbers(struct buffer *encoded, const uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert(buffer_append_uleb128(encoded, numbers[i]));
}

START_TEST(test_hostile_numbers)
{
    /* Steps, literals, recipe; then keep, drop, insert, source and its offset. The stripped image
     * has 10 bytes, the original 20, the names 12. */
    static const struct {
        uint64_t numbers[13];
        size_t count;
        bool sound;
    } cases[] = {
        {{1, 0, 0, 5, 0, 10, SECTION_NAMES, 0}, 8, true},
        {{1, 0, 0, 5, 0, 10, SECTION_NAMES, 2}, 8, true},
        {{1, 0, 0, 5, 0, 10, SECTION_NAMES, 3}, 8, false},
        {{1, 0, 0, 5, 0, 10, SECTION_NAMES, UINT64_MAX}, 8, false},
        {{1, 0, 0, 5, 0, 10, SECTION_NAMES, UINT64_MAX - 9}, 8, false},
        {{1, 0, 0, 5, 0, 10, SECTION_COVMAP, 0}, 8, false},
        {{1, 0, 0, 5, 0, 10, SECTION_COUNTERS, 0}, 8, false},
        {{1, 0, 0, 5, 0, 10, SECTION_KIND_MAX + 1, 0}, 8, false},
        {{1, 0, 0, 5, 0, 10, UINT64_MAX, 0}, 8, false},
        {{1, 0, 0, 11, 0, 10, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, UINT64_MAX, 0, 10, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, 5, 6, 10, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, 5, UINT64_MAX, 10, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, 5, 0, 9, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, 5, 0, UINT64_MAX, SECTION_NAMES, 0}, 8, false},
        {{1, 0, 0, 5, 0, 10, 0}, 7, false},
        {{UINT64_MAX, 0, 0, 5, 0, 10, SECTION_NAMES, 0}, 8, false},
        {{1, UINT64_MAX, 0, 5, 0, 10, SECTION_NAMES, 0}, 8, false},
        {{1, 1, 0, 5, 0, 10, SECTION_NAMES, 0}, 8, false},
        /* Twice from one section: in ascending order, and not. */
        {{2, 0, 0, 5, 0, 4, SECTION_NAMES, 0, 0, 0, 6, SECTION_NAMES, 4}, 13, true},
        {{2, 0, 0, 5, 0, 4, SECTION_NAMES, 0, 0, 0, 6, SECTION_NAMES, 3}, 13, false},
        /* A step that does nothing. */
        {{2, 0, 0, 5, 0, 10, SECTION_NAMES, 0, 0, 0, 0, 0}, 12, false},
        /* From symbol tables, of which the recipe says that they have 10 bytes. */
        {{1, 0, 1, 10, 5, 0, 10, INVERSE_TABLES, 0}, 9, true},
        {{1, 0, 1, 10, 5, 0, 10, INVERSE_TABLES, 1}, 9, false},
        {{1, 0, 1, 9, 5, 0, 10, INVERSE_TABLES, 0}, 9, false},
        {{1, 0, 0, 5, 0, 10, INVERSE_TABLES, 0}, 8, false},
        {{1, 0, UINT64_MAX, 10, 5, 0, 10, INVERSE_TABLES, 0}, 9, false},
    };
    const struct section sections[] = {
        {.kind = SECTION_NAMES, .size = 12},
        {.kind = SECTION_COUNTERS, .size = 12}, /* which sidecars do not hold */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FREED_BY(buffer_free) struct buffer encoded = {0};
        struct inverse inverse;
        struct inverse_step step;
        struct error error = {0};

        append_numbers(&encoded, cases[i].numbers, cases[i].count);
        inverse = inverse_open(buffer_view(&encoded), 10, 20, sections, 2);
        while (inverse_next(&inverse, &step))
            ;
        ck_assert_msg(inverse_finish(&inverse, NAME, &error) == cases[i].sound, "case %d: %s",
                      (int)i, error.message);
    }
}
END_TEST

/* What no script has that was finished: another inverse would lose data. */
START_TEST(test_encode_refuses_bad_edits)
{
    static const struct edit bad[][2] = {
        {{.offset = 5, .old_size = 2}, {.offset = 6, .old_size = 2}},
        {{.offset = 5, .old_size = 2}, {.offset = 0, .old_size = 2}},
        {{.offset = 0, .old_size = 2}, {.offset = 9, .old_size = 2}},
        {{.offset = 0, .old_size = 2}, {.offset = UINT64_MAX, .old_size = 2}},
    };
    const struct section sections[SECTION_KIND_MAX + 1] = {section_at(SECTION_COVMAP, 0, 1)};
    uint8_t original[10] = {0};
    struct bytes view = {original, sizeof(original)};
    struct buffer encoded = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct edit edits[2] = {bad[i][0], bad[i][1]};
        struct edit_script script = {.original_size = 10, .edits = edits, .count = 2};
        struct error error = {0};

        ck_assert(!inverse_encode(&script, view, NULL, 0, NAME, &encoded, &error));
        ck_assert_str_eq(error.message, NAME ": the planned edits or sections overlap; please "
                                             "report this image");
        script.count = 0;
        ck_assert(
            !inverse_encode(&script, view, sections, SECTION_KIND_MAX + 1, NAME, &encoded, &error));
        ck_assert_uint_eq(encoded.size, 0);
    }
}
END_TEST

static bool encode_again(void *subject)
{
    struct world *world = subject;
    FREED_BY(buffer_free) struct buffer encoded = {0};
    struct error error = {0};
    bool done = inverse_encode(&world->script, original_of(world), world->sections,
                               world->section_count, NAME, &encoded, &error);

    if (done)
        ck_assert(bytes_equal(buffer_view(&encoded), buffer_view(&world->encoded)));
    else
        expect_memory(&error);
    return done;
}

START_TEST(test_memory)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        FREED_BY(drop_world) struct world *world = make_world(seed);

        refuse_each_way(encode_again, world);
    }
}
END_TEST

int main(void)
{
    TCase *encoding = suite_case("encoding", 60, NULL);
    suite_loops(encoding, 4, test_random_scripts);
    suite_tests(encoding, test_sections_are_no_literals, test_no_edits,
                test_encode_refuses_bad_sections, test_encode_refuses_bad_edits, test_memory);
    TCase *hostile = suite_case("hostile", 60, NULL);
    tcase_add_test(hostile, test_hostile_numbers);
    return suite_main("inverse", encoding, hostile);
}
