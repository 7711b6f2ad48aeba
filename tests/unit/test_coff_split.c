/*
 * Programs for Windows made by hand whose records are among other data, and programs that were
 * split: records, bitmap and stub are found by what they contain.
 */
#include <string.h>

#include "common/llvm/profile.h"
#include "tests/support/suite.h"
#include "tests/unit/coff_rows.h"
#include "tests/unit/forward.h"

/* Where records and bitmap are in .data. */
#define MERGED       (PROGRAM_DATA + 0x100)
#define MERGED_END   (MERGED + PROGRAM_RECORDS_SIZE)
#define BITMAP       (PROGRAM_DATA + 0x41)
#define LATE_BITMAP  (MERGED_END + 0x81)
#define DATA_END     (PROGRAM_DATA + 0x1000)

#define COUNTER_PTR  16
#define BITMAP_PTR   24
#define NUM_COUNTERS 48
#define NUM_BITMAP   60

/* The address of a record in .data. */
#define RECORD(number) (MERGED + ((number) + 1) * PROGRAM_RECORD)

/* Changes. */
#define NO_SECTION(number) SECTION_NAME(number, 'x')
#define NO_GUID            DIRECTORY(DIRECTORY_DEBUG, 0), DIRECTORY_SIZE(DIRECTORY_DEBUG, 0)
#define DAMAGED_NAMES      U64_AT(PROGRAM_NAMES + 1, UINT64_MAX), U64_AT(PROGRAM_NAMES + 9, UINT64_MAX)
#define SHORT_NAMES        SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 2)

static const struct change unchanged[COFF_CHANGES];

/* ---- making programs ---- */

static uint8_t *record_at(struct coff_program *program, uint32_t number)
{
    return coff_program_at(program, RECORD(number));
}

static void return_address(struct coff_program *program, enum runtime_symbol symbol,
                           uint32_t address)
{
    uint32_t own = coff_program_find(program, runtime_symbol_name(symbol))->address;

    store_u32(coff_program_at(program, own) + 3, address - (own + 7), false);
}

static void rename_section(struct coff_program *program, unsigned number)
{
    memcpy(coff_program_section(program, number), ".other\0", 8);
}

/* Moves the records into .data. */
static struct coff_program *make_merged(void)
{
    struct coff_program *program = coff_program_new();
    uint8_t *old = coff_program_at(program, PROGRAM_RECORDS);

    memcpy(coff_program_at(program, MERGED), old, PROGRAM_RECORDS_SIZE);
    memset(old, 0, PROGRAM_RECORDS_SIZE);
    rename_section(program, LPRFD);
    for (uint32_t i = 0; i < PROGRAM_RECORD_COUNT; i++) {
        uint8_t *pointer = record_at(program, i) + COUNTER_PTR;

        store_u64(pointer, load_u64(pointer, false) + PROGRAM_RECORDS - MERGED, false);
    }
    return_address(program, RUNTIME_BEGIN_DATA, MERGED + PROGRAM_RECORD);
    return_address(program, RUNTIME_END_DATA, MERGED_END - PROGRAM_RECORD);
    return program;
}

/* Each record has a byte of the bitmap, which begins there. */
static void put_bitmap(struct coff_program *program, uint32_t bitmap)
{
    for (uint32_t i = 0; i < PROGRAM_RECORD_COUNT; i++) {
        store_u64(record_at(program, i) + BITMAP_PTR, (uint64_t)bitmap + i - RECORD(i), false);
        store_u32(record_at(program, i) + NUM_BITMAP, 1, false);
    }
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_BEGIN_BITMAP),
                        coff_program_code(program, bitmap));
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_END_BITMAP),
                        coff_program_code(program, bitmap + PROGRAM_RECORD_COUNT));
}

/* ---- records among other data ---- */

static void too_many_counters(struct coff_program *program)
{
    for (uint32_t i = 0; i < PROGRAM_RECORD_COUNT; i++)
        store_u32(record_at(program, i) + NUM_COUNTERS, 0x80, false);
}

/* One more record with a marker on each side. */
static void second_run(struct coff_program *program)
{
    uint32_t address = MERGED_END + PROGRAM_RECORD;
    uint8_t *record = coff_program_at(program, address);

    memcpy(record, record_at(program, 0), PROGRAM_RECORD);
    store_u64(record + COUNTER_PTR, (uint64_t)PROGRAM_COUNTERS + 8 - address, false);
}

#define OTHER_DATA    "the linker merged it into .data, where other data follows"
#define NOT_TOLD      "the linker merged it into other data, and it cannot be told apart from that"
#define WITH_COUNTERS "the linker merged it and the counters into other data"
#define HIDDEN_BITMAP "its bitmap cannot be told apart from other data"

static const struct merging {
    const char *what;
    enum section_fate fate;
    const char *reason; /* NULL: there is no such section */
    uint32_t bitmap;    /* 0: there is none */
    struct change changes[COFF_CHANGES];
    void (*prepare)(struct coff_program *program); /* or NULL */
} mergings[] = {
    {"only zeros behind them", FATE_REMOVED, .reason = ""},
    {"other data behind them", FATE_ZEROED, OTHER_DATA, .changes = {BYTE_AT(DATA_END - 16, 1)}},
    {"zeros behind them that are a table", FATE_ZEROED, OTHER_DATA,
     .changes = {DIRECTORY(10, DATA_END - 64), DIRECTORY_SIZE(10, 8)}},
    {"a bitmap before them", FATE_REMOVED, "", .bitmap = BITMAP},
    {"a bitmap behind them", FATE_ZEROED, OTHER_DATA, .bitmap = LATE_BITMAP},
    {"no marker behind them", FATE_STAYS, NOT_TOLD, .changes = {BYTE_AT(MERGED_END - 8, 1)}},
    {"no marker before them", FATE_STAYS, NOT_TOLD, .changes = {BYTE_AT(MERGED + 8, 1)}},
    {"a name that is not there", FATE_STAYS, NOT_TOLD, .changes = {U64_AT(RECORD(5), 0x4242)}},
    {"more counters than there are", FATE_STAYS, NOT_TOLD, .prepare = too_many_counters},
    {"counters elsewhere", FATE_STAYS, NOT_TOLD,
     .changes = {U32_AT(RECORD(0) + COUNTER_PTR, 0x100)}},
    {"two runs of records", FATE_STAYS, NOT_TOLD, .prepare = second_run},
    {"damaged names", FATE_STAYS, NOT_TOLD, .changes = {DAMAGED_NAMES}},
    {"names of nothing but markers", FATE_STAYS, NULL, .changes = {SHORT_NAMES}},
    {"no names", FATE_STAYS, NULL, .changes = {NO_SECTION(LPRFN)}},
    {"no counters", FATE_STAYS, WITH_COUNTERS, .changes = {NO_SECTION(LPRFC)}},
    {"a bitmap without a marker", FATE_STAYS, HIDDEN_BITMAP, .bitmap = BITMAP,
     .changes = {BYTE_AT(BITMAP - 1, 1)}},
    {"a bitmap with gaps", FATE_STAYS, HIDDEN_BITMAP, .bitmap = BITMAP,
     .changes = {U32_AT(RECORD(3) + NUM_BITMAP, 0)}},
    {"a bitmap elsewhere", FATE_STAYS, HIDDEN_BITMAP, .bitmap = PROGRAM_COUNTERS + 0x100},
    {"a bitmap at the start of all data", FATE_STAYS, HIDDEN_BITMAP, .bitmap = PROGRAM_DATA},
    {"a bitmap at the end of all data", FATE_STAYS, HIDDEN_BITMAP,
     .bitmap = DATA_END - PROGRAM_RECORD_COUNT},
};

START_TEST(test_merged)
{
    const struct merging *merging = &mergings[_i];
    FREED_BY(drop_program) struct coff_program *program = make_merged();
    const struct section *data;
    FREED_BY(drop_plan) struct image_plan *plan;
    struct error error = {0};

    if (merging->bitmap != 0)
        put_bitmap(program, merging->bitmap);
    if (merging->prepare != NULL)
        merging->prepare(program);
    plan = coff_plan(program, merging->changes, &coff_all, &error);
    ck_assert_msg(plan != NULL, "%s: %s", merging->what, error.message);
    data = image_plan_section(plan, SECTION_DATA);
    ck_assert_msg((data != NULL) == (merging->reason != NULL), "%s", merging->what);
    if (data != NULL) {
        ck_assert_msg(data->fate == merging->fate, "%s: %s", merging->what, data->reason);
        ck_assert_msg(strstr(data->reason, merging->reason) != NULL, "%s: %s", merging->what,
                      data->reason);
    }
}
END_TEST

/* ---- programs that were split ---- */

static struct buffer split(struct coff_program *program, const struct change *changes)
{
    struct error error = {0};
    FREED_BY(drop_plan) struct image_plan *plan = coff_plan(program, changes, &coff_all, &error);
    struct buffer result;

    ck_assert_msg(plan != NULL, "%s", error.message);
    result = apply_forward(&plan->edits, program->input.bytes);
    ck_assert_uint_lt(result.size, program->size);
    return result;
}

static bool find_split(struct buffer *image, struct split_image *found)
{
    FREED_BY(input_close) struct input input = {0};
    struct error error = {0};
    bool is_split;

    *found = (struct split_image){.counters_size = 0};
    ck_assert(input_from_buffer(&input, image, "stripped", &error));
    is_split = image_read_stripped_id(&input, found, &error);
    ck_assert_str_eq(error.message, "");
    return is_split;
}

/* With and without a GUID, and with records of their own section, or among other data. */
START_TEST(test_split)
{
    static const struct change changes[][COFF_CHANGES] = {
        {{0}},
        {NO_GUID},
        {U64_AT(PROGRAM_RSDS + 4, 0), U64_AT(PROGRAM_RSDS + 12, 0)},
        {U32_AT(PROGRAM_DEBUG + DEBUG_SIZE_OF_DATA, 23)},
        {U32_AT(PROGRAM_RSDS, 0x3031424e)}, /* NB10 */
    };
    FREED_BY(drop_program)
    struct coff_program *program = _i % 2 != 0 ? make_merged() : coff_program_new();
    struct buffer result = split(program, changes[_i / 2]);
    struct split_image found;

    ck_assert(find_split(&result, &found));
    ck_assert_uint_eq(found.counters_size, PROGRAM_COUNTERS_SIZE - 2);
    ck_assert(found.has_mapping);
    ck_assert_uint_eq(found.uuid.size, found.uuid_is_stub ? UUID_STUB_SIZE : 16);
    ck_assert((memcmp(found.uuid.bytes, "0123456789abcdef", 16) == 0) == (_i / 2 == 0));
}
END_TEST

/* The bitmap of a stub among other data is known by the stub: so it must be in the file. */
START_TEST(test_split_bitmap)
{
    FREED_BY(drop_program) struct coff_program *program = make_merged();
    struct split_image found;
    struct buffer result;

    put_bitmap(program, _i == 0 ? BITMAP : LATE_BITMAP);
    result = split(program, unchanged);
    ck_assert(find_split(&result, &found));
    ck_assert_uint_eq(found.bitmap_size, PROGRAM_RECORD_COUNT);
}
END_TEST

/* ---- stubs ---- */

/* Where the stub's record is, in a section of its own and among other data. */
#define OWN_STUB    (PROGRAM_RECORDS + PROGRAM_RECORD)
#define MERGED_STUB RECORD(0)
/* A bitmap that the latter tells. */
#define STUB_BITMAP(bitmap, size)                                                                  \
    U64_AT(MERGED_STUB + BITMAP_PTR, (uint64_t)(bitmap)-MERGED_STUB),                              \
        U32_AT(MERGED_STUB + NUM_BITMAP, size)

/* What a stub is like beside names that were not removed. */
static const struct stub {
    const char *what;
    bool is_merged, is_split;
    bool has_guid; /* that of the image */
    bool has_name; /* the hash of the first name, as an ordinary record has it */
    struct change changes[COFF_CHANGES];
    uint32_t bitmap_size;
} stubs[] = {
    {"with the GUID", .has_guid = true, .is_split = true},
    {"with another UUID", .is_split = false},
    {"with another UUID, shorter", .is_split = true, /* than in memory */
     .changes = {SECTION_U32(LPRFD, COFF_SECTION_VIRTUAL_SIZE, 0x1000)}},
    {"of some counters", .has_guid = true, .changes = {U32_AT(OWN_STUB + NUM_COUNTERS, 16)}},
    {"of counters elsewhere", .has_guid = true,
     .changes = {U32_AT(OWN_STUB + COUNTER_PTR, PROGRAM_COUNTERS + 16 - OWN_STUB)}},
    {"with something behind it", .has_guid = true,
     .changes = {BYTE_AT(OWN_STUB + PROGRAM_RECORD + 8, 1)}},
    {"without counters", .has_guid = true, .changes = {NO_SECTION(LPRFC)}},
    {"without names", .has_guid = true, .changes = {NO_SECTION(LPRFN)}, .is_split = true},
    {"without mapping", .has_guid = true, .changes = {NO_SECTION(LCOVMAP)}, .is_split = true},
    {"with a short mapping", .has_guid = true, .is_split = true,
     .changes = {SECTION_U32(LCOVMAP, COFF_SECTION_VIRTUAL_SIZE, 8)}},
    {"in less than a record", .has_guid = true,
     .changes = {SECTION_U32(LPRFD, COFF_SECTION_VIRTUAL_SIZE, 0x50)}},
    {"among data, with a bitmap of no size", .is_merged = true, .has_guid = true, .is_split = true,
     .changes = {STUB_BITMAP(BITMAP, 0)}},
    {"among data, with a bitmap at the start of it", .is_merged = true, .has_guid = true,
     .is_split = true, .changes = {STUB_BITMAP(PROGRAM_DATA, 8)}},
    {"among data, with a bitmap past its end", .is_merged = true, .has_guid = true,
     .is_split = true, .changes = {STUB_BITMAP(DATA_END - 8, 8)}},
    {"among data, with a bitmap in a section", .is_merged = true, .has_guid = true,
     .is_split = true, .bitmap_size = 0x800 - 2,
     .changes = {STUB_BITMAP(BITMAP, 8), SECTION_NAME(LCOVFUN, UINT64_C(0x626672706c2e))}},
    {"among data, with the GUID", .is_merged = true, .has_guid = true, .is_split = true},
    {"among data, with a UUID", .is_merged = true, .changes = {NO_GUID}, .is_split = true},
    {"among data, with a name", .is_merged = true, .has_name = true, .changes = {NO_GUID}},
    {"among data, without names", .is_merged = true, .changes = {NO_GUID, NO_SECTION(LPRFN)}},
    {"among data, with bad names", .is_merged = true, .changes = {NO_GUID, DAMAGED_NAMES}},
    {"among data, of some counters", .is_merged = true, .has_guid = true,
     .changes = {U32_AT(MERGED_STUB + NUM_COUNTERS, 16)}},
    {"among data, with a function", .is_merged = true, .has_guid = true,
     .changes = {BYTE_AT(MERGED_STUB + 32, 1)}},
};

static struct coff_program *make_stub(const struct stub *stub)
{
    struct coff_program *program = coff_program_new();
    uint32_t address = stub->is_merged ? MERGED_STUB : OWN_STUB;
    uint64_t name = load_u64(coff_program_at(program, OWN_STUB), false);
    uint8_t *record = coff_program_at(program, address);

    memset(coff_program_at(program, PROGRAM_RECORDS), 0, PROGRAM_RECORDS_SIZE);
    memcpy(record, stub->has_guid ? "0123456789abcdef" : "fedcba9876543210", 16);
    if (stub->has_name)
        store_u64(record, name, false);
    store_u32(record + COUNTER_PTR, PROGRAM_COUNTERS + 8 - address, false);
    memset(record + COUNTER_PTR + 4, 0xff, 4);
    store_u32(record + NUM_COUNTERS, 0x100, false);
    if (stub->is_merged) {
        rename_section(program, LPRFD);
        store_u64(coff_program_at(program, DATA_END - 8), name, false);
    }
    coff_change(program, stub->changes);
    coff_program_finish(program);
    return program;
}

START_TEST(test_stub)
{
    const struct stub *stub = &stubs[_i];
    FREED_BY(drop_program) struct coff_program *program = make_stub(stub);
    struct split_image found = {.counters_size = 0};
    struct error error = {0};

    ck_assert_msg(image_read_stripped_id(&program->input, &found, &error) == stub->is_split,
                  "%s: %s", stub->what, error.message);
    ck_assert(!error_is_of_memory(&error));
    if (stub->is_split) {
        ck_assert_uint_eq(found.uuid.size, found.uuid_is_stub ? UUID_STUB_SIZE : 16);
        ck_assert_msg(found.bitmap_size == stub->bitmap_size, "%s: %u", stub->what,
                      (unsigned)found.bitmap_size);
    }
}
END_TEST

/* A section without bytes in the file, or a tripwire, is left by nobody else. */
#define EMPTY_COVFUN                                                                               \
    SECTION_U32(LCOVFUN, COFF_SECTION_SIZE_OF_RAW_DATA, 0),                                        \
        SECTION_U32(LCOVFUN, COFF_SECTION_POINTER_TO_RAW_DATA, 0)

START_TEST(test_rest)
{
    static const struct {
        bool is_split, has_empty_names;
        struct change changes[COFF_CHANGES];
    } rests[] = {
        {.is_split = true, .changes = {EMPTY_COVFUN}},
        {.changes = {EMPTY_COVFUN, SECTION_U32(LCOVFUN, COFF_SECTION_VIRTUAL_SIZE, 0)}},
        {.has_empty_names = true},
        {.changes = {SHORT_NAMES}},
    };

    for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
        FREED_BY(drop_program) struct coff_program *program = coff_program_new();
        struct split_image found;
        struct error error = {0};

        if (rests[i].has_empty_names)
            memset(coff_program_at(program, PROGRAM_NAMES), 0, PROGRAM_NAMES_SIZE);
        coff_change(program, rests[i].changes);
        coff_program_finish(program);
        ck_assert_msg(image_read_stripped_id(&program->input, &found, &error) == rests[i].is_split,
                      "row %zu", i);
    }
}
END_TEST

/* ---- what is written ---- */

/* The mapping of functions last, and nothing behind it that could move: its header goes too. */
static struct coff_program *make_ending(void)
{
    struct coff_program *program = coff_program_new();
    uint8_t *coff = program->file + PROGRAM_COFF_HEADER;

    memcpy(coff_program_section(program, LCOVFUN), ".lcovmap", 8);
    memcpy(coff_program_section(program, LCOVMAP), ".lcovfun", 8);
    store_u16(coff + HEADER_NUMBER_OF_SECTIONS, RELOC, false);
    store_u16(coff + HEADER_CHARACTERISTICS, 0x23, false);
    coff_program_directory(program, DIRECTORY_BASE_RELOCATION, 0, 0);
    store_u32(program->file + PROGRAM_OPTIONAL + OPTIONAL_SIZE_OF_IMAGE, PROGRAM_RELOCATIONS,
              false);
    program->symbol_count = 0;
    return program;
}

START_TEST(test_last_header)
{
    FREED_BY(drop_program) struct coff_program *program = make_ending();
    FREED_BY(buffer_free) struct buffer result = split(program, unchanged);
    const uint8_t *coff = result.data + PROGRAM_COFF_HEADER;
    const uint8_t *optional = result.data + PROGRAM_OPTIONAL;

    ck_assert_uint_eq(load_u16(coff + HEADER_NUMBER_OF_SECTIONS, false), RELOC - 1);
    ck_assert_uint_eq(load_u32(optional + OPTIONAL_SIZE_OF_IMAGE, false), PROGRAM_COVMAP);
    ck_assert(bytes_all_zero(
        (struct bytes){result.data + PROGRAM_SECTIONS + LCOVMAP * (size_t)COFF_SECTION_HEADER_SIZE,
                       COFF_SECTION_HEADER_SIZE}));
}
END_TEST

/* A relocation of a record. */
static void put_relocation(struct coff_program *program)
{
    uint8_t *block = coff_program_at(program, PROGRAM_RELOCATIONS);

    store_u32(block, PROGRAM_RECORDS, false);
    store_u16(block + 8, 10u << 12 | (PROGRAM_RECORD + 32), false);
    store_u64(coff_program_at(program, PROGRAM_RECORDS + PROGRAM_RECORD + 32),
              PROGRAM_BASE + 0x1200, false);
}

/* The table of relocations becomes empty with it. */
START_TEST(test_last_relocation)
{
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    const uint8_t *directory;
    FREED_BY(buffer_free) struct buffer result;

    put_relocation(program);
    result = split(program, unchanged);
    directory = result.data + PROGRAM_DIRECTORIES + DIRECTORY_BASE_RELOCATION * 8;
    ck_assert_uint_eq(load_u32(directory, false), PROGRAM_RELOCATIONS);
    ck_assert_uint_eq(load_u32(directory + 4, false), 0);
}
END_TEST

/* A relocation of the mapping, which must go with it, and a block of no size behind it. */
START_TEST(test_bad_relocations)
{
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    struct error error;

    store_u32(coff_program_at(program, PROGRAM_RELOCATIONS), PROGRAM_COVFUN, false);
    coff_program_directory(program, DIRECTORY_BASE_RELOCATION, PROGRAM_RELOCATIONS, 20);
    store_u32(coff_program_section(program, RELOC) + COFF_SECTION_VIRTUAL_SIZE, 20, false);
    ck_assert_ptr_null(coff_plan(program, unchanged, &coff_all, &error));
    ck_assert_str_eq(error.message,
                     "image: its base relocations cannot be rewritten; link it again");
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("all");

    suite_loops(test_case, sizeof(mergings) / sizeof(mergings[0]), test_merged);
    suite_loops(test_case, 10, test_split);
    suite_loops(test_case, sizeof(stubs) / sizeof(stubs[0]), test_stub);
    suite_loops(test_case, 2, test_split_bitmap);
    suite_tests(test_case, test_rest, test_last_header, test_last_relocation, test_bad_relocations);
    return suite_main("coff_split", test_case);
}
