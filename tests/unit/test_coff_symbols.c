/*
 * How the runtime's functions are found in a program for Windows: by symbols, by a map file, or by
 * what they return.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/coff_rows.h"

/* ---- without symbols ---- */

static void ends_first(struct coff_program *program)
{
    uint8_t *begin = coff_code_of_symbol(program, RUNTIME_BEGIN_NAMES);
    uint8_t *end = coff_code_of_symbol(program, RUNTIME_END_NAMES);
    uint32_t first = load_u32(begin + 3, false), last = load_u32(end + 3, false);
    uint32_t distance = (uint32_t)(end - begin);

    store_u32(begin + 3, last + distance, false);
    store_u32(end + 3, first - distance, false);
    program->symbol_count = 0;
}

static uint8_t *add_load(struct coff_program *program, uint32_t address)
{
    uint8_t *code = coff_program_at(program, coff_program_code(program, address));

    code[1] = 0x8b;
    program->symbol_count = 0;
    return code;
}

static void load_of_names(struct coff_program *program)
{
    add_load(program, PROGRAM_NAMES + 1);
}

static void load_of_other_variable(struct coff_program *program)
{
    add_load(program, PROGRAM_VERSION + 0x1c0);
    store_u64(coff_program_at(program, PROGRAM_VERSION + 0x1c0), 0x1234, false);
}

static void load_of_second_version(struct coff_program *program)
{
    add_load(program, PROGRAM_VERSION + 0x1c0);
    store_u64(coff_program_at(program, PROGRAM_VERSION + 0x1c0), UINT64_C(1) << 56 | 10, false);
}

static void load_of_odd_variable(struct coff_program *program)
{
    add_load(program, PROGRAM_VERSION + 0x1c4);
    store_u64(coff_program_at(program, PROGRAM_VERSION + 0x1c4), UINT64_C(1) << 56 | 10, false);
}

/* As mingw's compilers do it: the address is in a variable, too. */
static void indirect_load(struct coff_program *program)
{
    uint8_t *version = coff_program_at(program, PROGRAM_VERSION);

    store_u64(version, PROGRAM_BASE + PROGRAM_VERSION + 0x1c0, false);
    store_u64(coff_program_at(program, PROGRAM_VERSION + 0x1c0), 10, false);
    program->symbol_count = 0;
}

static void no_counters_in_record(struct coff_program *program)
{
    store_u32(coff_program_at(program, PROGRAM_RECORDS + PROGRAM_RECORD + 48), 0, false);
    program->symbol_count = 0;
}

static void no_symbols(struct coff_program *program)
{
    program->symbol_count = 0;
}

static void no_symbols_and_two_ends(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1);
    program->symbol_count = 0;
}

static void no_symbols_and_three_bounds(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_NAMES + 2);
    program->symbol_count = 0;
}

/* ---- callers of the runtime's functions ---- */

/* A function of that name that calls another one. */
static void call_from(struct coff_program *program, const char *name, enum runtime_symbol symbol)
{
    uint32_t to = coff_program_find(program, runtime_symbol_name(symbol))->address;
    uint32_t own = coff_program_code(program, 0);
    uint8_t *code = coff_program_at(program, own);

    memset(code, 0xc3, 16);
    code[0] = 0xe8;
    store_u32(code + 1, to - (own + 5), false);
    coff_program_symbol(program, name, own);
}

static void own_callers(struct coff_program *program)
{
    static const char *const names[] = {"__llvm_profile_write_buffer", "lprofWriteData",
                                        "mmapForContinuousMode", "parseAndSetFilename.part.0"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        call_from(program, names[i], RUNTIME_END_DATA);
}

static void foreign_caller(struct coff_program *program)
{
    call_from(program, "a_function_of_the_program", RUNTIME_END_DATA);
}

static void caller_with_a_like_name(struct coff_program *program)
{
    call_from(program, "lprofile_of_the_program", RUNTIME_BEGIN_NAMES);
}

static void caller_with_a_longer_name(struct coff_program *program)
{
    call_from(program, "mmapForContinuousMode2", RUNTIME_BEGIN_NAMES);
}

static void caller_of_counters(struct coff_program *program)
{
    call_from(program, "a_function_of_the_program", RUNTIME_BEGIN_COUNTERS);
}

static void value_sites(struct coff_program *program)
{
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_SET_VALUE_SITES),
                        coff_program_code(program, 0));
    call_from(program, "a_function_of_the_program", RUNTIME_SET_VALUE_SITES);
}

static void pointer_to_function(struct coff_program *program)
{
    store_u64(coff_program_at(program, PROGRAM_DATA + 0x10),
              PROGRAM_BASE + coff_program_find(program, "__llvm_profile_end_data")->address, false);
}

#define WATCHED     "the program looks at its own records"
#define CANNOT_TELL "covsplit cannot tell which function is __llvm_profile_begin_names"
#define NO_VERSION  "the version of its raw profiles is not known; link with /map"

static const struct coff_row rows[] = {
    {"no symbols", .prepare = no_symbols},
    {"no symbols, and two functions that return the end", .prepare = no_symbols_and_two_ends,
     .names = CANNOT_TELL, .data = COFF_NAMES_STAY},
    {"no symbols, and functions that return three bounds", .prepare = no_symbols_and_three_bounds,
     .names = CANNOT_TELL, .data = COFF_NAMES_STAY},
    {"no symbols, and the end first", .prepare = ends_first},
    {"no symbols, and a load of names", .prepare = load_of_names,
     .names = "refers to it, other than the runtime's accessors", .data = COFF_NAMES_STAY},
    {"no symbols, and another variable", .prepare = load_of_other_variable},
    {"no symbols, and a version at an odd place", .prepare = load_of_odd_variable},
    {"no symbols, and the version's address in a variable", .prepare = indirect_load},
    {"no symbols, and two versions", .prepare = load_of_second_version, .names = NO_VERSION,
     .data = NO_VERSION},
    {"no symbols, and a record without counters", .prepare = no_counters_in_record,
     .names = NO_VERSION, .data = NO_VERSION},
    {"calls of the runtime itself", .prepare = own_callers},
    {"a call of the program", .prepare = foreign_caller, .names = WATCHED, .data = WATCHED},
    {"a call of a function with a like name", .prepare = caller_with_a_like_name, .names = WATCHED,
     .data = WATCHED},
    {"a call of a function with a longer name", .prepare = caller_with_a_longer_name,
     .names = WATCHED, .data = WATCHED},
    {"a call of other bounds", .prepare = caller_of_counters},
    {"a call that changes records", .prepare = value_sites, .names = WATCHED, .data = WATCHED},
    {"a pointer to a function", .prepare = pointer_to_function, .names = WATCHED, .data = WATCHED},
};

START_TEST(test_search)
{
    coff_check_row(&rows[_i]);
}
END_TEST

START_TEST(test_many_definitions)
{
    static const struct change none[COFF_CHANGES];
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    struct error error;

    while (program->symbol_count <= RUNTIME_DEFINITIONS_MAX)
        coff_program_symbol(program, runtime_symbol_name(RUNTIME_END_NAMES), 0x1000);
    ck_assert_ptr_null(coff_plan(program, none, &coff_all, &error));
    ck_assert_str_eq(error.message, "image: damaged COFF image or map file: the profile runtime is "
                                    "defined too many times; link it again");
}
END_TEST

/* ---- map files ---- */

/* As lld-link writes it, with lines of other kinds. */
static const char map_text[] =
    " image.exe\r\n\r\n Preferred load address is 0000000140000000\r\n\r\n"
    " Start         Length     Name                   Class\r\n"
    " 0001:00000000 00000400H .text                   CODE\r\n\r\n"
    "  Address         Publics by Value              Rva+Base               Lib:Object\r\n\r\n"
    " 0001:00000000       __llvm_profile_begin_data  0000000140001000     runtime.obj\r\n"
    " 0001:00000010       __llvm_profile_end_data    0000000140001010     runtime.obj\r\n"
    " 0001:00000020       __llvm_profile_begin_names 0000000140001020     runtime.obj\r\n"
    " 0001:00000030       __llvm_profile_end_names   0000000140001030     runtime.obj\r\n"
    " 0001:00000040       __llvm_profile_begin_counters 0000000140001040 f runtime.obj\r\n"
    " 0001:00000050       __llvm_profile_end_counters 0000000140001050 f   runtime.obj\r\n"
    " 0002:00000000       __llvm_profile_raw_version 0000000140002000     runtime.obj";

static const char no_map[] =
    ": not a map file of this image: no line has an address in it, in the form that MSVC and "
    "lld-link write; give the one that /map writes (mingw: link without -s instead)";

static struct image_plan *plan_with_map(struct coff_program *program, const char *text,
                                        struct error *error)
{
    static const struct change none[COFF_CHANGES];
    struct image_options options = {.sections = SECTION_REMOVABLE};
    struct buffer buffer = {0};
    FREED_BY(input_close) struct input map = {0};

    ck_assert(buffer_append(&buffer, text, strlen(text)));
    ck_assert(input_from_buffer(&map, &buffer, "map", error));
    options.map = &map;
    program->symbol_count = 0;
    return coff_plan(program, none, &options, error);
}

/* It names the functions where two of them return the same. */
START_TEST(test_map)
{
    static const struct coff_row row = {.what = "a map"};
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    FREED_BY(drop_plan) struct image_plan *plan;
    struct error error = {0};

    coff_program_code(program, 0);
    plan = plan_with_map(program, map_text, &error);
    ck_assert_msg(plan != NULL, "%s", error.message);
    coff_assert_row(plan, &row);
}
END_TEST

/* Lines that tell no address of the image. */
START_TEST(test_no_map)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        " 0001:00000000",
        " 0001:00000000 name",
        " 0001:00000000 name ",
        " 01 name 0000000140001000",
        " 0100000000 name 0000000140001000",
        " 0001:00000000 name 1000",
        " 0001:00000000 name 00000001400010g0",
        " 0001:00000000 name 00000001400010-0",
        " 0001:00000000 name 10000000140001000",
        " 0001:00000000 name 0000000140009000000000",
        " 0001:00000000 name 0000000140000fff",
        " 0001:00000000 name 000000014000900c",
        " 0001:00000000 name\n0000000140001000",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FREED_BY(drop_program) struct coff_program *program = coff_program_new();
        struct error error = {0};

        ck_assert_msg(plan_with_map(program, texts[i], &error) == NULL, "'%s'", texts[i]);
        ck_assert_msg(strncmp(error.message, "map", 3) == 0 &&
                          strcmp(error.message + 3, no_map) == 0,
                      "'%s': %s", texts[i], error.message);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("all");

    suite_loops(test_case, sizeof(rows) / sizeof(rows[0]), test_search);
    suite_tests(test_case, test_many_definitions, test_map, test_no_map);
    return suite_main("coff_symbols", test_case);
}
