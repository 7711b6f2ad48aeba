/*
 * Fixups as opcodes: what each opcode does, programs that are damaged, and what becomes of them
 * when fixups are removed or a segment is split.
 */
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/macho_maker.h"

/* The opcodes of the tests, with what they need of __DATA, which is segment 1. */
#define REBASE_TYPE   0x11
#define REBASE_DATA   0x21
#define BIND_TYPE     0x51
#define BIND_DATA     0x71
#define DO_BIND       0x90

#define PROGRAM_MAX   64
#define FIXUPS_MAX    64
#define SEGMENT_LIMIT 16

struct program {
    uint8_t bytes[PROGRAM_MAX];
    size_t size;
};

#define PROGRAM(...)                                                                               \
    {                                                                                              \
        {__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})                                      \
    }

/* An image with that program as one of its tables; none of the others has any. */
static struct macho_maker *make_image(uint32_t table, const struct program *program)
{
    struct macho_maker *maker = macho_maker_new();
    uint8_t *command = macho_maker_command(maker, LC_DYLD_INFO_ONLY, DYLD_INFO_SIZE);

    store_u32(command + table, MAKER_LINKEDIT, false);
    store_u32(command + table + 4, (uint32_t)program->size, false);
    memcpy(maker->file + MAKER_LINKEDIT, program->bytes, program->size);
    macho_maker_open(maker);
    return maker;
}

struct seen {
    uint32_t places[FIXUPS_MAX]; /* in __DATA */
    size_t count;
    bool is_rebase;
};

static bool see(void *context, const struct macho_fixup *fixup)
{
    struct seen *seen = context;

    ck_assert_uint_lt(seen->count, FIXUPS_MAX);
    ck_assert_uint_eq(fixup->segment, MAKER_DATA_INDEX);
    ck_assert_uint_ge(fixup->address, MAKER_BASE + MAKER_DATA);
    ck_assert(fixup->is_rebase == seen->is_rebase);
    seen->places[seen->count++] = (uint32_t)(fixup->address - MAKER_BASE - MAKER_DATA);
    return true;
}

/* ---- what is read ---- */

static const struct reading {
    const char *what;
    uint32_t table;
    struct program program;
    uint32_t places[5];
    size_t count;
} readings[] = {
    {"no opcodes", DYLD_INFO_REBASE, {{0}, 0}, {0}, 0},
    {"DO_REBASE_IMM_TIMES",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x90, 0x01, 0x53, 0x00, 0xff),
     {0x90, 0x98, 0xa0},
     3},
    {"DO_REBASE_ULEB_TIMES without an end",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x60, 0x82, 0x00),
     {0x10, 0x18},
     2},
    {"ADD_ADDR_ULEB",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x30, 0x04, 0x51, 0x30, 0x01, 0x51),
     {0x14, 0x1d},
     2},
    {"ADD_ADDR_IMM_SCALED",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x4f, 0x51),
     {0x88},
     1},
    {"DO_REBASE_ADD_ADDR_ULEB",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x70, 0x08, 0x51),
     {0x10, 0x20},
     2},
    {"DO_REBASE_ULEB_TIMES_SKIPPING_ULEB",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x80, 0x03, 0x10, 0x51),
     {0x10, 0x28, 0x40, 0x58},
     4},
    {"a bind",
     DYLD_INFO_BIND,
     PROGRAM(0x11, 0x40, '_', 'a', 0, BIND_TYPE, BIND_DATA, 0x08, DO_BIND, 0x00),
     {0x08},
     1},
    {"other ordinals and addends",
     DYLD_INFO_WEAK_BIND,
     PROGRAM(0x20, 0x81, 0x01, 0x3e, 0x60, 0xff, 0x7f, BIND_DATA, 0x08, DO_BIND, DO_BIND),
     {0x08, 0x10},
     2},
    {"DO_BIND_ADD_ADDR_ULEB",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x08, 0xa0, 0x08, 0x80, 0x08, DO_BIND),
     {0x08, 0x20},
     2},
    {"DO_BIND_ADD_ADDR_IMM_SCALED",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x08, 0xb2, DO_BIND),
     {0x08, 0x20},
     2},
    {"DO_BIND_ULEB_TIMES_SKIPPING_ULEB",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x08, 0xc0, 0x02, 0x08, DO_BIND),
     {0x08, 0x18, 0x28},
     3},
    {"lazy binds, which are many programs",
     DYLD_INFO_LAZY_BIND,
     PROGRAM(BIND_DATA, 0x08, DO_BIND, 0x00, BIND_DATA, 0x18, DO_BIND, 0x00, 0x00),
     {0x08, 0x18},
     2},
};

START_TEST(test_reading)
{
    const struct reading *reading = &readings[_i];
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(reading->table, &reading->program);
    struct seen seen = {.is_rebase = reading->table == DYLD_INFO_REBASE};
    const char *reason = "";

    ck_assert_msg(macho_fixups_each(&maker->state.image, see, &seen, &reason), "%s: %s",
                  reading->what, reason);
    ck_assert_msg(seen.count == reading->count, "%s: %zu fixups", reading->what, seen.count);
    for (size_t i = 0; i < seen.count; i++)
        ck_assert_msg(seen.places[i] == reading->places[i], "%s: 0x%x", reading->what,
                      seen.places[i]);
}
END_TEST

/* ---- damage ---- */

static const char malformed[] = "its fixup opcodes are malformed";
static const char unknown[] = "its fixup opcodes are of a kind that covsplit does not know";

/* A number of LEB128 that does not end. */
#define ENDLESS 0x80, 0x80

static const struct damage {
    const char *what;
    uint32_t table;
    struct program program;
    const char *reason;
} damages[] = {
    {"a rebase nowhere", DYLD_INFO_REBASE, PROGRAM(REBASE_TYPE, 0x51), malformed},
    {"a segment that the image has not", DYLD_INFO_REBASE, PROGRAM(0x24, 0x00, 0x51), malformed},
    {"an endless offset", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, ENDLESS), malformed},
    {"an endless step", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, 0x00, 0x30, ENDLESS), malformed},
    {"an endless count", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, 0x00, 0x60, ENDLESS), malformed},
    {"an endless distance", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, 0x00, 0x70, ENDLESS), malformed},
    {"an endless count with a distance", DYLD_INFO_REBASE,
     PROGRAM(REBASE_DATA, 0x00, 0x80, ENDLESS), malformed},
    {"a count with an endless distance", DYLD_INFO_REBASE,
     PROGRAM(REBASE_DATA, 0x00, 0x80, 0x01, ENDLESS), malformed},
    {"a rebase of 32 bits", DYLD_INFO_REBASE, PROGRAM(0x12, REBASE_DATA, 0x00, 0x51), unknown},
    {"an opcode of no rebase", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, 0x00, 0x90), unknown},
    {"a rebase past the segment", DYLD_INFO_REBASE, PROGRAM(REBASE_DATA, 0xf9, 0x7f, 0x51),
     malformed},
    {"a rebase past the end of memory", DYLD_INFO_REBASE,
     PROGRAM(REBASE_DATA, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x51),
     malformed},
    {"more rebases than fit", DYLD_INFO_REBASE,
     PROGRAM(REBASE_DATA, 0x00, 0x60, 0xff, 0xff, 0xff, 0xff, 0x0f), malformed},
    {"the same rebase again and again", DYLD_INFO_REBASE,
     PROGRAM(REBASE_DATA, 0x00, 0x80, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xf8, 0xff, 0xff, 0xff, 0xff,
             0xff, 0xff, 0xff, 0xff, 0x01),
     malformed},
    {"a bind nowhere", DYLD_INFO_BIND, PROGRAM(DO_BIND), malformed},
    {"an endless name", DYLD_INFO_BIND, PROGRAM(0x40, 'a', 'b'), malformed},
    {"a name past the end", DYLD_INFO_BIND, PROGRAM(0x40), malformed},
    {"an endless ordinal", DYLD_INFO_BIND, PROGRAM(0x20, ENDLESS), malformed},
    {"an endless addend", DYLD_INFO_BIND, PROGRAM(0x60, ENDLESS), malformed},
    {"no addend", DYLD_INFO_BIND, PROGRAM(0x60), malformed},
    {"an endless step of binds", DYLD_INFO_BIND, PROGRAM(BIND_DATA, 0x00, 0x80, ENDLESS),
     malformed},
    {"an endless distance of binds", DYLD_INFO_BIND, PROGRAM(BIND_DATA, 0x00, 0xa0, ENDLESS),
     malformed},
    {"an endless count of binds", DYLD_INFO_BIND, PROGRAM(BIND_DATA, 0x00, 0xc0, ENDLESS),
     malformed},
    {"binds with an endless distance", DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x00, 0xc0, 0x01, ENDLESS), malformed},
    {"a bind with a distance, past the end", DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0xf9, 0x7f, 0xa0, 1), malformed},
    {"a bind of another type", DYLD_INFO_WEAK_BIND, PROGRAM(0x53, BIND_DATA, 0x00, DO_BIND),
     unknown},
    {"threaded binds", DYLD_INFO_BIND, PROGRAM(0xd0, 0x01), unknown},
    {"an opcode of no lazy bind", DYLD_INFO_LAZY_BIND, PROGRAM(0x00, 0xe0), unknown},
};

static bool take_any(void *context, const struct macho_fixup *fixup)
{
    (void)context;
    (void)fixup;
    return true;
}

static void assert_reason(const char *found, const char *expected, const char *what)
{
    ck_assert_msg(found != NULL && strcmp(found, expected) == 0, "%s: %s", what,
                  found != NULL ? found : "no reason");
}

START_TEST(test_damage)
{
    const struct damage *damage = &damages[_i];
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(damage->table, &damage->program);
    const char *reason = NULL;

    ck_assert_msg(!macho_fixups_each(&maker->state.image, take_any, NULL, &reason), "%s",
                  damage->what);
    assert_reason(reason, damage->reason, damage->what);
    ck_assert(macho_segment_may_have_fixups(&maker->state.image, MAKER_COVER_INDEX));
}
END_TEST

/* Whoever looks may stop at any fixup, which is no damage. */
static bool stop(void *context, const struct macho_fixup *fixup)
{
    (void)context;
    (void)fixup;
    return false;
}

START_TEST(test_stop)
{
    static const struct program program = PROGRAM(REBASE_DATA, 0x10, 0x52);
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(DYLD_INFO_REBASE, &program);
    const char *reason = "";

    ck_assert(!macho_fixups_each(&maker->state.image, stop, NULL, &reason));
    ck_assert_ptr_null(reason);
    ck_assert(macho_segment_may_have_fixups(&maker->state.image, MAKER_DATA_INDEX));
    ck_assert(!macho_segment_may_have_fixups(&maker->state.image, MAKER_COVER_INDEX));
}
END_TEST

/* ---- rebases that are removed ---- */

/* A rebase of the result: the number of its segment, and its offset there. */
struct place {
    unsigned segment;
    uint64_t offset;
};

static uint64_t take_number(struct bytes *program)
{
    uint64_t value;

    ck_assert(bytes_take_uleb128(program, &value));
    return value;
}

static unsigned take_byte(struct bytes *program)
{
    unsigned byte = program->data[0];

    ck_assert(bytes_slice(*program, 1, program->size - 1, program));
    return byte;
}

/* Runs the opcodes that covsplit writes, by a machine of the test's own. */
static size_t run_rebases(struct bytes program, struct place *places)
{
    struct place here = {SEGMENT_LIMIT, 0};
    size_t count = 0;

    while (program.size != 0) {
        unsigned byte = take_byte(&program);
        uint64_t times = byte & 0xf;

        switch (byte & 0xf0) {
        case 0x00:
            ck_assert(bytes_all_zero(program));
            return count;
        case 0x10:
            ck_assert_uint_eq(byte, REBASE_TYPE);
            break;
        case 0x20:
            here = (struct place){byte & 0xf, take_number(&program)};
            break;
        case 0x30:
            here.offset += take_number(&program);
            break;
        case 0x40:
            here.offset += 8 * times;
            break;
        case 0x60:
            times = take_number(&program);
            __attribute__((fallthrough));
        case 0x50:
            for (; times > 0; times--, here.offset += 8) {
                ck_assert_uint_lt(count, FIXUPS_MAX);
                places[count++] = here;
            }
            break;
        default:
            ck_abort_msg("opcode 0x%x", byte);
        }
    }
    ck_abort_msg("no end");
}

/* Runs that are longer than an operand in the opcode can say, and all ways to go on. */
static const struct program many_rebases =
    PROGRAM(REBASE_TYPE, REBASE_DATA, 0x10, 0x60, 0x14, 0x30, 0x04, 0x51, 0x41, 0x52, REBASE_DATA,
            0x80, 0x20, 0x53, 0x30, 0xe0, 0x1f, 0x51, REBASE_DATA, 0xf0, 0x2f, 0x54, REBASE_DATA,
            0x08, 0x51, 0x00);

static const struct removal {
    uint32_t offset, size;   /* of the data in __DATA */
    uint32_t split, cut_end; /* the hole, if the segment is split */
} removals[] = {
    {0x3000, 0x100, 0, 0},
    {0, 0x4000, 0, 0},
    {0x10, 0x10, 0, 0},
    {0x18, 0x80, 0, 0},
    {0x1000, 0x1000, 0, 0},
    {0x1008, 0x8, 0, 0},
    {0xf00, 0x700, 0x1000, 0x1000},
    {0x0, 0x1800, 0x0, 0x1000},
    {0x1100, 0x800, 0x1800, 0x1800},
    {0x0, 0x1000, 0x0, 0x1000},
};

/* Exactly the rebases outside of the removed range are left, in their places of then. */
static void assert_left(const struct removal *removal, const struct seen *before,
                        const struct place *after, size_t count)
{
    size_t expected = 0;

    for (size_t i = 0; i < before->count; i++) {
        uint32_t place = before->places[i];
        bool is_behind = removal->cut_end != 0 && place >= removal->cut_end;

        if (place - removal->offset < removal->size)
            continue;
        ck_assert_uint_lt(expected, count);
        ck_assert_uint_eq(after[expected].segment, is_behind ? 2 : 1);
        ck_assert_uint_eq(after[expected].offset, is_behind ? place - removal->cut_end : place);
        expected++;
    }
    ck_assert_uint_eq(count, expected);
}

START_TEST(test_removal)
{
    const struct removal *removal = &removals[_i];
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(DYLD_INFO_REBASE, &many_rebases);
    struct seen before = {.is_rebase = true};
    struct place after[FIXUPS_MAX];
    const char *problem = "";
    FREED_BY(buffer_free) struct buffer result;
    struct bytes program;
    uint64_t growth;

    ck_assert(macho_fixups_each(&maker->state.image, see, &before, &problem));
    ck_assert_uint_eq(before.count, 20 + 1 + 2 + 3 + 1 + 4 + 1);
    macho_maker_remove(maker, SECTION_DATA, removal->offset, removal->size);
    if (removal->cut_end != 0)
        macho_maker_split(maker, removal->split, removal->cut_end - removal->split);
    ck_assert_msg(macho_recode_plan(&maker->state, &problem), "%s", problem);
    ck_assert_ptr_null(problem);
    growth = maker->state.rebase_growth;
    ck_assert_uint_eq(growth % 16, 0);
    result = macho_maker_apply(maker);
    ck_assert_uint_eq(result.size, MAKER_SIZE + growth);
    ck_assert(
        bytes_slice(buffer_view(&result), MAKER_LINKEDIT, many_rebases.size + growth, &program));
    assert_left(removal, &before, after, run_rebases(program, after));
}
END_TEST

/* ---- binds of a split segment ---- */

static const char both_parts[] = "opcodes of its fixups go from one part to the other";
static const char in_no_section[] = "dyld applies fixups outside all sections";

/* __DATA is cut from 0x800 to 0x1000. */
static const struct moving {
    const char *what;
    uint32_t table;
    struct program before;
    struct program after; /* empty: as before */
    const char *problem;  /* NULL: there is none */
} movings[] = {
    {"before the split",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x08, DO_BIND, DO_BIND),
     {{0}, 0},
     NULL},
    {"behind it", DYLD_INFO_BIND, PROGRAM(BIND_DATA, 0x88, 0x20, DO_BIND, DO_BIND),
     PROGRAM(0x72, 0x88, 0x00, DO_BIND, DO_BIND), NULL},
    {"behind it, in a longer number", DYLD_INFO_WEAK_BIND,
     PROGRAM(BIND_DATA, 0x88, 0xc1, 0x80, 0x00, DO_BIND),
     PROGRAM(0x72, 0x88, 0xa1, 0x80, 0x00, DO_BIND), NULL},
    {"lazy ones on both sides", DYLD_INFO_LAZY_BIND,
     PROGRAM(BIND_DATA, 0x08, DO_BIND, 0x00, BIND_DATA, 0x98, 0x28, DO_BIND, 0x00),
     PROGRAM(BIND_DATA, 0x08, DO_BIND, 0x00, 0x72, 0x98, 0x08, DO_BIND, 0x00), NULL},
    {"in another segment",
     DYLD_INFO_BIND,
     PROGRAM(0x72, 0x08, DO_BIND, BIND_DATA, 0x08, DO_BIND),
     {{0}, 0},
     NULL},
    {"from one part to the other",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x08, 0xa0, 0xf8, 0x1f, DO_BIND),
     {{0}, 0},
     both_parts},
    {"back to the first part",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x88, 0x20, 0xa0, 0xf0, 0xdf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
             0x01, DO_BIND),
     {{0}, 0},
     both_parts},
    {"set before it, and bound behind it",
     DYLD_INFO_LAZY_BIND,
     PROGRAM(BIND_DATA, 0x08, 0x80, 0x80, 0x20, DO_BIND),
     {{0}, 0},
     both_parts},
    {"in what is cut",
     DYLD_INFO_BIND,
     PROGRAM(BIND_DATA, 0x80, 0x10, DO_BIND),
     {{0}, 0},
     in_no_section},
    {"a rebase in what is cut",
     DYLD_INFO_REBASE,
     PROGRAM(REBASE_TYPE, REBASE_DATA, 0x80, 0x10, 0x51),
     {{0}, 0},
     in_no_section},
    {"a rebase that is malformed", DYLD_INFO_REBASE, PROGRAM(0x51), {{0}, 0}, malformed},
};

START_TEST(test_moving)
{
    const struct moving *moving = &movings[_i];
    const struct program *expected = moving->after.size != 0 ? &moving->after : &moving->before;
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(moving->table, &moving->before);
    const char *problem = NULL;
    struct buffer result;

    macho_maker_split(maker, 0x800, 0x800);
    if (moving->problem != NULL) {
        ck_assert_msg(!macho_recode_plan(&maker->state, &problem), "%s", moving->what);
        assert_reason(problem, moving->problem, moving->what);
        return;
    }
    ck_assert_msg(macho_recode_plan(&maker->state, &problem), "%s: %s", moving->what, problem);
    result = macho_maker_apply(maker);
    ck_assert_uint_eq(result.size, MAKER_SIZE);
    ck_assert_msg(memcmp(result.data + MAKER_LINKEDIT, expected->bytes, expected->size) == 0, "%s",
                  moving->what);
    buffer_free(&result);
}
END_TEST

/* Opcodes name a segment by four bits: none can name the second part of the sixteenth. */
START_TEST(test_last_segment)
{
    static const uint8_t rebase[] = {REBASE_TYPE, 0x2f, 0x88, 0x20, 0x51};
    static const uint8_t bind[] = {0x7f, 0x88, 0x20, DO_BIND};
    FREED_BY(drop_maker) struct macho_maker *maker = macho_maker_new();
    uint8_t *command = macho_maker_command(maker, LC_DYLD_INFO, DYLD_INFO_SIZE);
    const char *problem = NULL;

    store_u32(command + (_i == 0 ? DYLD_INFO_REBASE : DYLD_INFO_BIND), MAKER_LINKEDIT, false);
    store_u32(command + (_i == 0 ? DYLD_INFO_REBASE : DYLD_INFO_BIND) + 4,
              _i == 0 ? sizeof(rebase) : sizeof(bind), false);
    memcpy(maker->file + MAKER_LINKEDIT, _i == 0 ? rebase : bind,
           _i == 0 ? sizeof(rebase) : sizeof(bind));
    for (unsigned i = 4; i <= SEGMENT_LIMIT; i++)
        macho_maker_segment(maker, "__MORE", MAKER_BASE + 0x10000 * i, MAKER_DATA,
                            MAKER_DATA_PAGES * MAKER_PAGE);
    macho_maker_open(maker);
    macho_maker_split(maker, 0x800, 0x800);
    maker->state.split_segment = SEGMENT_LIMIT - 1;
    ck_assert(!macho_recode_plan(&maker->state, &problem));
    ck_assert_str_eq(problem, "opcodes of its fixups cannot name a segment behind the sixteenth");
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, sizeof(readings) / sizeof(readings[0]), test_reading);
    suite_loops(all, sizeof(damages) / sizeof(damages[0]), test_damage);
    suite_loops(all, sizeof(removals) / sizeof(removals[0]), test_removal);
    suite_loops(all, sizeof(movings) / sizeof(movings[0]), test_moving);
    suite_loops(all, 2, test_last_segment);
    suite_tests(all, test_stop);
    return suite_main("macho_opcodes", all);
}
