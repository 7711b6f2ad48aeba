/*
 * Programs for Windows made by hand whose records are among other data, and programs that were
 * split: records, bitmap and stub are found by what they contain.
 */
#include <string.h>

#include "common/llvm/profile.h"
#include "formats/image.h"
#include "tests/support/suite.h"
#include "tests/unit/coff_program.h"
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

static const struct image_options all = {.sections = SECTION_REMOVABLE};

/* ---- making programs ---- */

static uint8_t *record_at(struct coff_program *program, uint32_t number)
{
    return coff_program_at(program, MERGED + (number + 1) * PROGRAM_RECORD);
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
        uint32_t address = MERGED + (i + 1) * PROGRAM_RECORD;

        store_u64(record_at(program, i) + BITMAP_PTR, (uint64_t)bitmap + i - address, false);
        store_u32(record_at(program, i) + NUM_BITMAP, 1, false);
    }
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_BEGIN_BITMAP),
                        coff_program_code(program, bitmap));
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_END_BITMAP),
                        coff_program_code(program, bitmap + PROGRAM_RECORD_COUNT));
}

static struct image_plan *make_plan(struct coff_program *program, struct error *error)
{
    coff_program_add_symbols(program);
    coff_program_finish(program);
    return image_plan_make(&program->input, &all, error);
}

/* ---- records among other data ---- */

static void more_data(struct coff_program *program)
{
    *coff_program_at(program, DATA_END - 16) = 1;
}

static void no_marker_behind(struct coff_program *program)
{
    *coff_program_at(program, MERGED_END - 8) = 1;
}

static void no_marker_before(struct coff_program *program)
{
    *coff_program_at(program, MERGED + 8) = 1;
}

static void unknown_name(struct coff_program *program)
{
    store_u64(record_at(program, 5), 0x4242, false);
}

static void too_many_counters(struct coff_program *program)
{
    for (uint32_t i = 0; i < PROGRAM_RECORD_COUNT; i++)
        store_u32(record_at(program, i) + NUM_COUNTERS, 0x80, false);
}

static void counters_elsewhere(struct coff_program *program)
{
    store_u32(record_at(program, 0) + COUNTER_PTR, 0x100, false);
}

/* One more record with a marker on each side. */
static void second_run(struct coff_program *program)
{
    uint32_t address = MERGED_END + PROGRAM_RECORD;
    uint8_t *record = coff_program_at(program, address);

    memcpy(record, record_at(program, 0), PROGRAM_RECORD);
    store_u64(record + COUNTER_PTR, (uint64_t)PROGRAM_COUNTERS + 8 - address, false);
}

static void damaged_names(struct coff_program *program)
{
    memset(coff_program_at(program, PROGRAM_NAMES + 1), 0xff, 16);
}

static void short_names(struct coff_program *program)
{
    store_u32(coff_program_section(program, LPRFN) + COFF_SECTION_VIRTUAL_SIZE, 2, false);
}

static void no_names(struct coff_program *program)
{
    rename_section(program, LPRFN);
}

static void no_counters(struct coff_program *program)
{
    rename_section(program, LPRFC);
}

static void bitmap(struct coff_program *program)
{
    put_bitmap(program, BITMAP);
}

static void late_bitmap(struct coff_program *program)
{
    put_bitmap(program, LATE_BITMAP);
}

static void bitmap_without_marker(struct coff_program *program)
{
    put_bitmap(program, BITMAP);
    *coff_program_at(program, BITMAP - 1) = 1;
}

static void bitmap_with_gaps(struct coff_program *program)
{
    put_bitmap(program, BITMAP);
    store_u32(record_at(program, 3) + NUM_BITMAP, 0, false);
}

static void bitmap_elsewhere(struct coff_program *program)
{
    put_bitmap(program, PROGRAM_COUNTERS + 0x100);
}

static void bitmap_at_start(struct coff_program *program)
{
    put_bitmap(program, PROGRAM_DATA);
}

static void bitmap_at_end(struct coff_program *program)
{
    put_bitmap(program, DATA_END - PROGRAM_RECORD_COUNT);
}

static void claimed_zeros(struct coff_program *program)
{
    coff_program_directory(program, 10, DATA_END - 64, 8);
}

#define OTHER_DATA    "the linker merged it into .data, where other data follows"
#define NOT_TOLD      "the linker merged it into other data, and it cannot be told apart from that"
#define WITH_COUNTERS "the linker merged it and the counters into other data"
#define HIDDEN_BITMAP "its bitmap cannot be told apart from other data"

static const struct merging {
    const char *what;
    void (*prepare)(struct coff_program *program); /* or NULL */
    enum section_fate fate;
    const char *reason; /* NULL: there is no such section */
} mergings[] = {
    {"only zeros behind them", NULL, FATE_REMOVED, ""},
    {"other data behind them", more_data, FATE_ZEROED, OTHER_DATA},
    {"zeros behind them that are a table", claimed_zeros, FATE_ZEROED, OTHER_DATA},
    {"a bitmap before them", bitmap, FATE_REMOVED, ""},
    {"a bitmap behind them", late_bitmap, FATE_ZEROED, OTHER_DATA},
    {"no marker behind them", no_marker_behind, FATE_STAYS, NOT_TOLD},
    {"no marker before them", no_marker_before, FATE_STAYS, NOT_TOLD},
    {"a name that is not there", unknown_name, FATE_STAYS, NOT_TOLD},
    {"more counters than there are", too_many_counters, FATE_STAYS, NOT_TOLD},
    {"counters elsewhere", counters_elsewhere, FATE_STAYS, NOT_TOLD},
    {"two runs of records", second_run, FATE_STAYS, NOT_TOLD},
    {"damaged names", damaged_names, FATE_STAYS, NOT_TOLD},
    {"names of nothing but markers", short_names, FATE_STAYS, NULL},
    {"no names", no_names, FATE_STAYS, NULL},
    {"no counters", no_counters, FATE_STAYS, WITH_COUNTERS},
    {"a bitmap without a marker", bitmap_without_marker, FATE_STAYS, HIDDEN_BITMAP},
    {"a bitmap with gaps", bitmap_with_gaps, FATE_STAYS, HIDDEN_BITMAP},
    {"a bitmap elsewhere", bitmap_elsewhere, FATE_STAYS, HIDDEN_BITMAP},
    {"a bitmap at the start of all data", bitmap_at_start, FATE_STAYS, HIDDEN_BITMAP},
    {"a bitmap at the end of all data", bitmap_at_end, FATE_STAYS, HIDDEN_BITMAP},
};

START_TEST(test_merged)
{
    const struct merging *merging = &mergings[_i];
    FREED_BY(drop_program) struct coff_program *program = make_merged();
    const struct section *data;
    FREED_BY(drop_plan) struct image_plan *plan;
    struct error error = {0};

    if (merging->prepare != NULL)
        merging->prepare(program);
    plan = make_plan(program, &error);
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

static struct buffer split(struct coff_program *program)
{
    struct error error = {0};
    FREED_BY(drop_plan) struct image_plan *plan = make_plan(program, &error);
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

static void no_guid(struct coff_program *program)
{
    coff_program_directory(program, DIRECTORY_DEBUG, 0, 0);
}

static void zero_guid(struct coff_program *program)
{
    memset(coff_program_at(program, PROGRAM_RSDS + 4), 0, 16);
}

static void short_guid(struct coff_program *program)
{
    store_u32(coff_program_at(program, PROGRAM_DEBUG) + DEBUG_SIZE_OF_DATA, 23, false);
}

static void other_debug_data(struct coff_program *program)
{
    memcpy(coff_program_at(program, PROGRAM_RSDS), "NB10", 4);
}

/* With and without a GUID, and with records of their own section, or among other data. */
START_TEST(test_split)
{
    static void (*const changes[])(struct coff_program *) = {NULL, no_guid, zero_guid, short_guid,
                                                             other_debug_data};
    bool is_merged = _i % 2 != 0;
    FREED_BY(drop_program)
    struct coff_program *program = is_merged ? make_merged() : coff_program_new();
    struct split_image found;
    struct buffer result;

    if (changes[_i / 2] != NULL)
        changes[_i / 2](program);
    result = split(program);
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
    result = split(program);
    ck_assert(find_split(&result, &found));
    ck_assert_uint_eq(found.bitmap_size, PROGRAM_RECORD_COUNT);
}
END_TEST

/* ---- stubs ---- */

/* What a stub is like beside names that were not removed. */
struct stub {
    const char *what;
    bool is_merged;
    bool has_guid;        /* that of the image */
    uint32_t address_off; /* of the counters: added */
    uint32_t count;       /* of counters; 0: all */
    uint32_t stray;       /* offset of another byte in the record; 0: none */
    bool is_short;        /* the section is larger in memory */
    void (*change)(struct coff_program *program);
    uint32_t bitmap_size;
    bool is_split;
};

static void no_image_guid_and_no_names(struct coff_program *program)
{
    no_guid(program);
    no_names(program);
}

static void no_image_guid_and_bad_names(struct coff_program *program)
{
    no_guid(program);
    damaged_names(program);
}

/* The hash of the first name, as an ordinary record has it. */
static void name_of_record(struct coff_program *program)
{
    uint64_t reference = load_u64(coff_program_at(program, DATA_END - 8), false);

    no_guid(program);
    store_u64(record_at(program, 0), reference, false);
}

static void no_mapping(struct coff_program *program)
{
    rename_section(program, LCOVMAP);
}

static void short_mapping(struct coff_program *program)
{
    store_u32(coff_program_section(program, LCOVMAP) + COFF_SECTION_VIRTUAL_SIZE, 8, false);
}

static void short_data(struct coff_program *program)
{
    store_u32(coff_program_section(program, LPRFD) + COFF_SECTION_VIRTUAL_SIZE, 0x50, false);
}

/* The bitmap of a stub: where it would be no part of .data, or has no size. */
static void put_stub_bitmap(struct coff_program *program, uint32_t bitmap, uint32_t size)
{
    store_u64(record_at(program, 0) + BITMAP_PTR, (uint64_t)bitmap - MERGED - PROGRAM_RECORD,
              false);
    store_u32(record_at(program, 0) + NUM_BITMAP, size, false);
}

static void bitmap_of_no_size(struct coff_program *program)
{
    put_stub_bitmap(program, BITMAP, 0);
}

static void bitmap_at_the_start(struct coff_program *program)
{
    put_stub_bitmap(program, PROGRAM_DATA, 8);
}

static void bitmap_past_the_end(struct coff_program *program)
{
    put_stub_bitmap(program, DATA_END - 8, 8);
}

static void bitmap_of_a_section(struct coff_program *program)
{
    put_stub_bitmap(program, BITMAP, 8);
    memcpy(coff_program_section(program, LCOVFUN), ".lprfb\0", 8);
}

static const struct stub stubs[] = {
    {"with the GUID", .has_guid = true, .is_split = true},
    {"with another UUID", .is_split = false},
    {"with another UUID, shorter", .is_short = true, .is_split = true},
    {"of some counters", .has_guid = true, .count = 16},
    {"of counters elsewhere", .has_guid = true, .address_off = 8},
    {"with something behind it", .has_guid = true, .stray = PROGRAM_RECORD + 8},
    {"without counters", .has_guid = true, .change = no_counters},
    {"without names", .has_guid = true, .change = no_names, .is_split = true},
    {"without mapping", .has_guid = true, .change = no_mapping, .is_split = true},
    {"with a short mapping", .has_guid = true, .change = short_mapping, .is_split = true},
    {"in less than a record", .has_guid = true, .change = short_data},
    {"among data, with a bitmap of no size", .is_merged = true, .has_guid = true,
     .change = bitmap_of_no_size, .is_split = true},
    {"among data, with a bitmap at the start of it", .is_merged = true, .has_guid = true,
     .change = bitmap_at_the_start, .is_split = true},
    {"among data, with a bitmap past its end", .is_merged = true, .has_guid = true,
     .change = bitmap_past_the_end, .is_split = true},
    {"among data, with a bitmap in a section", .is_merged = true, .has_guid = true,
     .change = bitmap_of_a_section, .bitmap_size = 0x800 - 2, .is_split = true},
    {"among data, with the GUID", .is_merged = true, .has_guid = true, .is_split = true},
    {"among data, with a UUID", .is_merged = true, .change = no_guid, .is_split = true},
    {"among data, with a name", .is_merged = true, .change = name_of_record},
    {"among data, without names", .is_merged = true, .change = no_image_guid_and_no_names},
    {"among data, with bad names", .is_merged = true, .change = no_image_guid_and_bad_names},
    {"among data, of some counters", .is_merged = true, .has_guid = true, .count = 16},
    {"among data, with a function", .is_merged = true, .has_guid = true, .stray = 32},
};

static struct coff_program *make_stub(const struct stub *stub)
{
    struct coff_program *program = coff_program_new();
    uint32_t start = stub->is_merged ? MERGED : PROGRAM_RECORDS, address = start + PROGRAM_RECORD;
    uint64_t name = load_u64(coff_program_at(program, PROGRAM_RECORDS + PROGRAM_RECORD), false);
    uint8_t *record = coff_program_at(program, address);

    memset(coff_program_at(program, PROGRAM_RECORDS), 0, PROGRAM_RECORDS_SIZE);
    memcpy(record, stub->has_guid ? "0123456789abcdef" : "fedcba9876543210", 16);
    store_u32(record + COUNTER_PTR, PROGRAM_COUNTERS + 8 + stub->address_off - address, false);
    memset(record + COUNTER_PTR + 4, 0xff, 4);
    store_u32(record + NUM_COUNTERS, stub->count != 0 ? stub->count : 0x100, false);
    if (stub->stray != 0)
        record[stub->stray] = 1;
    if (stub->is_merged) {
        rename_section(program, LPRFD);
        store_u64(coff_program_at(program, DATA_END - 8), name, false);
    }
    if (stub->is_short)
        store_u32(coff_program_section(program, LPRFD) + COFF_SECTION_VIRTUAL_SIZE, 0x1000, false);
    if (stub->change != NULL)
        stub->change(program);
    return program;
}

START_TEST(test_stub)
{
    const struct stub *stub = &stubs[_i];
    FREED_BY(drop_program) struct coff_program *program = make_stub(stub);
    struct split_image found = {.counters_size = 0};
    struct error error = {0};

    coff_program_finish(program);
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
static void emptied(struct coff_program *program)
{
    uint8_t *section = coff_program_section(program, LCOVFUN);

    store_u32(section + COFF_SECTION_SIZE_OF_RAW_DATA, 0, false);
    store_u32(section + COFF_SECTION_POINTER_TO_RAW_DATA, 0, false);
}

static void never_there(struct coff_program *program)
{
    emptied(program);
    store_u32(coff_program_section(program, LCOVFUN) + COFF_SECTION_VIRTUAL_SIZE, 0, false);
}

static void empty_names(struct coff_program *program)
{
    memset(coff_program_at(program, PROGRAM_NAMES), 0, PROGRAM_NAMES_SIZE);
}

START_TEST(test_rest)
{
    static const struct {
        void (*change)(struct coff_program *program);
        bool is_split;
    } rests[] = {{emptied, true}, {never_there, false}, {empty_names, false}, {short_names, false}};

    for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
        FREED_BY(drop_program) struct coff_program *program = coff_program_new();
        struct split_image found;
        struct error error = {0};

        rests[i].change(program);
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
    FREED_BY(buffer_free) struct buffer result = split(program);
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
    result = split(program);
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
    ck_assert_ptr_null(make_plan(program, &error));
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
