/*
 * Plans of a whole program for Windows that differs in one thing from one in which all can go: what
 * stays then, and why; or why the image is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/coff_rows.h"

/* ---- images that are refused ---- */

#define DAMAGED(what) "image: damaged COFF image: " what "; link it again"

#define SIGNED                                                                                     \
    "image: the image is signed, and a split makes the signature invalid; split it before it is "  \
    "signed, or give --drop-signature and sign the stripped image"

static const struct refusal {
    const char *message;
    struct change changes[COFF_CHANGES];
    bool drop_signature;
} refusals[] = {
    {"image: a COFF image for a machine other than x86-64, AArch64 and i386 (machine 0x1c4); this "
     "version of covsplit cannot split it",
     .changes = {COFF_U16(0, 0x1c4)}},
    {DAMAGED("its optional header is cut short"),
     .changes = {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 111)}},
    {DAMAGED("its optional header does not fit its machine"), .changes = {OPTIONAL_U16(0, 0x10b)}},
    {DAMAGED("an alignment is not a power of two"),
     .changes = {OPTIONAL_U32(OPTIONAL_SECTION_ALIGNMENT, 0x1800)}},
    {DAMAGED("an alignment is not a power of two"),
     .changes = {OPTIONAL_U32(OPTIONAL_FILE_ALIGNMENT, 0)}},
    {DAMAGED("its base address is impossible"), .changes = {OPTIONAL_U64(24, UINT64_C(1) << 63)}},
    {DAMAGED("its data directories do not fit the optional header"),
     .changes = {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8)}},
    {DAMAGED("its data directories do not fit the optional header"),
     .changes = {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8), OPTIONAL_U32(108, UINT32_MAX)}},
    {DAMAGED("its symbol table is not inside the file"),
     .changes = {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, UINT32_MAX)}},
    {DAMAGED("its section table is not inside the file"),
     .changes = {COFF_U16(HEADER_NUMBER_OF_SECTIONS, 0xffff)}},
    {DAMAGED("a section is not inside the file"),
     .changes = {SECTION_U32(RELOC, COFF_SECTION_SIZE_OF_RAW_DATA, 0x10000)}},
    {"image: the image has two sections named .lprfn; link it so that it has one",
     .changes = {SECTION_NAME(LPRFC, UINT64_C(0x6e6672706c2e))}},
    {DAMAGED("SizeOfHeaders is wrong"), .changes = {OPTIONAL_U32(OPTIONAL_SIZE_OF_HEADERS, 0x200)}},
    {SIGNED, .changes = {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400),
                         DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)}},
    {DAMAGED("its signature is not inside the file"),
     .changes = {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400),
                 DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 0x10000)},
     .drop_signature = true},
    {DAMAGED("its signature is not inside the file"),
     .changes = {DIRECTORY(DIRECTORY_CERTIFICATE, 0x100), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     .drop_signature = true},
};

START_TEST(test_refusal)
{
    const struct refusal *refusal = &refusals[_i];
    struct image_options options = {.sections = SECTION_REMOVABLE,
                                    .drop_signature = refusal->drop_signature};
    FREED_BY(drop_program) struct coff_program *program = coff_program_new();
    struct error error;

    ck_assert_msg(coff_plan(program, refusal->changes, &options, &error) == NULL, "%s",
                  refusal->message);
    ck_assert_str_eq(error.message, refusal->message);
}
END_TEST

/* ---- what stays ---- */

/* A jump to the function, as incremental linking has it. */
static void thunk(struct coff_program *program)
{
    struct coff_symbol *symbol = coff_program_find(program, runtime_symbol_name(RUNTIME_END_NAMES));
    uint32_t own = coff_program_code(program, 0);
    uint8_t *code = coff_program_at(program, own);

    memset(code, 0xc3, 16);
    code[0] = 0xe9;
    store_u32(code + 1, symbol->address - (own + 5), false);
    symbol->address = own;
}

/* The symbol table and the map file may name the same jump. */
static void thunk_of_two_symbols(struct coff_program *program)
{
    const char *name = runtime_symbol_name(RUNTIME_END_NAMES);

    thunk(program);
    coff_program_symbol(program, name, coff_program_find(program, name)->address);
}

static void thunk_to_nowhere(struct coff_program *program)
{
    uint8_t *code = coff_code_of_symbol(program, RUNTIME_END_NAMES);

    code[0] = 0xe9;
    store_u32(code + 1, 0x100000, false);
}

static void code_in_data(struct coff_program *program)
{
    coff_program_find(program, runtime_symbol_name(RUNTIME_END_NAMES))->address = PROGRAM_DATA;
}

static void code_nowhere(struct coff_program *program)
{
    coff_program_find(program, runtime_symbol_name(RUNTIME_END_NAMES))->address = 0x1fff;
}

static void folded_code(struct coff_program *program)
{
    coff_program_symbol(
        program, "mine_with_a_long_name",
        coff_program_find(program, runtime_symbol_name(RUNTIME_END_NAMES))->address);
}

static void early_end(struct coff_program *program)
{
    coff_code_of_symbol(program, RUNTIME_END_NAMES)[3]--;
}

static void late_begin(struct coff_program *program)
{
    coff_code_of_symbol(program, RUNTIME_BEGIN_NAMES)[3]++;
}

static void crossed_bounds(struct coff_program *program)
{
    uint8_t *code = coff_code_of_symbol(program, RUNTIME_END_NAMES) + 3;

    store_u32(code, load_u32(code, false) - (PROGRAM_NAMES_SIZE - 2), false);
}

static void use_of_mapping(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_COVMAP + 8);
}

static void pointer_to_mapping(struct coff_program *program)
{
    store_u64(coff_program_at(program, PROGRAM_DATA + 0x10), PROGRAM_BASE + PROGRAM_COVFUN + 8,
              false);
}

/* The exports are in .rdata: `count` addresses at `table`, all of them `address`. */
static void export(struct coff_program *program, uint32_t count, uint32_t table, uint32_t address)
{
    uint8_t *header = coff_program_at(program, PROGRAM_VERSION + 0x100);

    coff_program_directory(program, DIRECTORY_EXPORT, PROGRAM_VERSION + 0x100, 40);
    store_u32(header + 20, count, false);
    store_u32(header + 28, table, false);
    for (uint32_t i = 0; i < 2; i++)
        store_u32(header + 40 + 4 * (size_t)i, address, false);
}

static void export_of_nothing(struct coff_program *program)
{
    export(program, 0, 0, 0);
}

static void export_of_code(struct coff_program *program)
{
    export(program, 2, PROGRAM_VERSION + 0x128, 0x1000);
}

static void export_of_names(struct coff_program *program)
{
    export(program, 2, PROGRAM_VERSION + 0x128, PROGRAM_NAMES + 8);
}

static void endless_exports(struct coff_program *program)
{
    export(program, 0x1000, PROGRAM_VERSION + 0x128, 0x1000);
}

/* As many counters as before, and zeros behind them. */
static void early_counters(struct coff_program *program)
{
    uint8_t *code = coff_code_of_symbol(program, RUNTIME_END_COUNTERS) + 3;

    store_u32(code, load_u32(code, false) - 8, false);
}

static void bitmap_functions(struct coff_program *program, uint32_t size)
{
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_BEGIN_BITMAP),
                        coff_program_code(program, PROGRAM_DATA + 0x100));
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_END_BITMAP),
                        coff_program_code(program, PROGRAM_DATA + 0x100 + size));
}

static void empty_bitmap(struct coff_program *program)
{
    bitmap_functions(program, 0);
}

static void some_bitmap(struct coff_program *program)
{
    bitmap_functions(program, 8);
}

/* One relocation, of 64 bits, at that address. */
static void relocate(struct coff_program *program, uint32_t address, uint32_t to)
{
    uint8_t *block = coff_program_at(program, PROGRAM_RELOCATIONS);

    store_u32(block, address & ~0xfffu, false);
    store_u16(block + 8, (uint16_t)(10u << 12 | (address & 0xfff)), false);
    store_u64(coff_program_at(program, address), PROGRAM_BASE + to, false);
}

static void relocation_in_data(struct coff_program *program)
{
    relocate(program, PROGRAM_RECORDS + PROGRAM_RECORD + 32, 0x1200);
}

static void relocation_in_names(struct coff_program *program)
{
    relocate(program, PROGRAM_NAMES + 8, PROGRAM_NAMES + 16);
}

static void one_bitmap(struct coff_program *program)
{
    store_u32(coff_program_at(program, PROGRAM_RECORDS + PROGRAM_RECORD + 60), 4, false);
}

#define BOUNDS                                                                                     \
    "__llvm_profile_begin_names and __llvm_profile_end_names do not return the bounds of the "     \
    "section"
#define UNKNOWN_CODE                                                                               \
    "covsplit does not know the code of __llvm_profile_end_names; link with LLVM's own profile "   \
    "runtime, without LTO"
#define OVERLAPS      "it overlaps another part of the image"
#define OWN           "it has relocations or line numbers of its own"
#define COVMAP_STAYS  ".lcovmap stays"
#define NOT_SUPPORTED "it belongs to -profile-correlate=binary, which covsplit does not support"
#define NOT_ALIGNED   "the image's sections overlap, or are not aligned, in the file"
#define NOT_FOLLOWING "the image's sections do not follow each other in memory"
#define NO_COUNTERS   "the linker merged the counters into other data"

static const struct coff_row rows[] = {
    {.what = "nothing unusual"},
    {"a jump to a function", .prepare = thunk},
    {"a jump with two symbols", .prepare = thunk_of_two_symbols},
    {"a jump to nowhere", .prepare = thunk_to_nowhere, .names = UNKNOWN_CODE,
     .data = COFF_NAMES_STAY},
    {"code in data", .prepare = code_in_data, .names = UNKNOWN_CODE, .data = COFF_NAMES_STAY},
    {"code behind a section", .prepare = code_nowhere, .names = UNKNOWN_CODE,
     .data = COFF_NAMES_STAY},
    {"folded code", .prepare = folded_code,
     .names =
         "__llvm_profile_end_names shares its code with another function; link without /opt:icf",
     .data = COFF_NAMES_STAY},
    {"an end before zeros", .prepare = early_end},
    {"a late begin", .prepare = late_begin, .names = BOUNDS, .data = COFF_NAMES_STAY},
    {"bounds that cross", .prepare = crossed_bounds, .names = BOUNDS, .data = COFF_NAMES_STAY},
    {"no marker in front", .changes = {BYTE_AT(PROGRAM_NAMES, 1)}, .names = BOUNDS,
     .data = COFF_NAMES_STAY},
    {"no marker behind", .changes = {BYTE_AT(PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1, 1)},
     .names = BOUNDS, .data = COFF_NAMES_STAY},
    {"names that are longer in memory",
     .changes = {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x800)}, .names = BOUNDS,
     .data = COFF_NAMES_STAY},
    {"names that end before the end",
     .changes = {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x300)}, .names = BOUNDS,
     .data = COFF_NAMES_STAY},
    {"an unknown version", .changes = {U64_AT(PROGRAM_VERSION, 7)},
     .names = "the version of its raw profiles is not known to covsplit",
     .data = "the version of its raw profiles is not known to covsplit"},
    {".NET",
     .changes = {DIRECTORY(DIRECTORY_CLR, PROGRAM_VERSION + 0x180),
                 DIRECTORY_SIZE(DIRECTORY_CLR, 72)},
     .names = "covsplit does not support .NET images",
     .data = "covsplit does not support .NET images",
     .covmap = "covsplit does not support .NET images",
     .covfun = "covsplit does not support .NET images"},
    {"an image that ends late", .changes = {OPTIONAL_U32(OPTIONAL_SIZE_OF_IMAGE, 0xc000)},
     .names = NOT_FOLLOWING, .data = NOT_FOLLOWING, .covmap = NOT_FOLLOWING,
     .covfun = NOT_FOLLOWING},
    {"sections out of their units",
     .changes = {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x4100)},
     .names = NOT_ALIGNED, .data = NOT_ALIGNED, .covmap = NOT_ALIGNED, .covfun = NOT_ALIGNED},
    {"a section in the headers",
     .changes = {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x200)}, .names = NOT_ALIGNED,
     .data = NOT_ALIGNED, .covmap = NOT_ALIGNED, .covfun = NOT_ALIGNED},
    {"code that uses the mapping", .prepare = use_of_mapping, .covmap = "the program refers to it",
     .covfun = COVMAP_STAYS},
    {"a pointer to the mapping", .prepare = pointer_to_mapping,
     .covfun = "the program refers to it"},
    {"no exports", .prepare = export_of_nothing},
    {"exports of code", .prepare = export_of_code},
    {"exports of names", .prepare = export_of_names, .names = "the image exports something in it",
     .data = COFF_NAMES_STAY},
    {"endless exports", .prepare = endless_exports, .names = "the image exports something in it",
     .data = "the image exports something in it", .covmap = "the image exports something in it",
     .covfun = "the image exports something in it"},
    {"exports nowhere",
     .changes = {DIRECTORY(DIRECTORY_EXPORT, 0x100000), DIRECTORY_SIZE(DIRECTORY_EXPORT, 40)},
     .names = "the image exports something in it", .data = "the image exports something in it",
     .covmap = "the image exports something in it", .covfun = "the image exports something in it"},
    {"a debug directory nowhere", .changes = {DIRECTORY(DIRECTORY_DEBUG, 0x100000)},
     .names = OVERLAPS, .data = OVERLAPS, .covmap = OVERLAPS, .covfun = OVERLAPS},
    {"debug data in names", .changes = {U32_AT(PROGRAM_DEBUG + DEBUG_POINTER_TO_RAW_DATA, 0x3100)},
     .names = OVERLAPS, .data = COFF_NAMES_STAY},
    {"symbols in the names",
     .changes = {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, 0x3100),
                 COFF_U32(HEADER_NUMBER_OF_SYMBOLS, 1)},
     .names = OVERLAPS, .data = COFF_NAMES_STAY},
    {"a certificate in the names",
     .changes = {DIRECTORY(DIRECTORY_CERTIFICATE, 0x3100),
                 DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     .names = OVERLAPS, .data = COFF_NAMES_STAY},
    {"relocations of its own",
     .changes = {SECTION_U32(LPRFN, COFF_SECTION_POINTER_TO_RELOCATIONS, 0x100)}, .names = OWN,
     .data = COFF_NAMES_STAY},
    {"line numbers of its own",
     .changes = {SECTION_U32(LCOVMAP, COFF_SECTION_POINTER_TO_LINENUMBERS, 0x100)}, .covmap = OWN,
     .covfun = COVMAP_STAYS},
    {"no counters", .changes = {SECTION_NAME(LPRFC, 'x')}, .names = NO_COUNTERS,
     .data = NO_COUNTERS},
    {"zeros behind the counters", .prepare = early_counters},
    {"zeros behind the counters, and no GUID", .prepare = early_counters,
     .changes = {DIRECTORY_SIZE(DIRECTORY_DEBUG, 0)},
     .data = "there are zeros behind the counters, and without a debug directory only the counters "
             "would"},
    {"a relocation in data", .prepare = relocation_in_data},
    {"a relocation in names, to names", .prepare = relocation_in_names},
    {"a name that is a number of nothing", .changes = {SECTION_NAME(RELOC, 0x39393939392f)}},
    {"a name that is no number", .changes = {SECTION_NAME(RELOC, 0x78342f)}},
    {"a name that is less than a number", .changes = {SECTION_NAME(RELOC, 0x212f)}},
    {"a name that is among the symbols' names", .changes = {SECTION_NAME(RELOC, 0x342f)}},
    {"a symbol without a name", .changes = {FILE_U32(0x4404, 0xffffff)},
     .names = "the image has no symbol __llvm_profile_begin_data",
     .data = "the image has no symbol __llvm_profile_begin_data"},
    {"a bitmap without a section", .prepare = one_bitmap,
     .names = "its bitmap cannot be told apart from other data",
     .data = "its bitmap cannot be told apart from other data"},
};

START_TEST(test_plan)
{
    coff_check_row(&rows[_i]);
}
END_TEST

/* Without records in a section, functions tell whether there is a bitmap. */
START_TEST(test_no_records)
{
    static const struct {
        void (*prepare)(struct coff_program *program);
        const char *names;
    } no_records[] = {
        {NULL, "the image has no symbol __llvm_profile_begin_bitmap"},
        {empty_bitmap, NULL},
        {some_bitmap, "its bitmap cannot be told apart from other data"},
    };

    for (size_t i = 0; i < sizeof(no_records) / sizeof(no_records[0]); i++) {
        static const struct change changes[COFF_CHANGES] = {SECTION_NAME(LPRFD, 'x')};
        FREED_BY(drop_program) struct coff_program *program = coff_program_new();
        struct error error = {0};
        FREED_BY(drop_plan) struct image_plan *plan;

        if (no_records[i].prepare != NULL)
            no_records[i].prepare(program);
        plan = coff_plan(program, changes, &coff_all, &error);
        ck_assert_msg(plan != NULL, "%s", error.message);
        coff_assert_reason(plan, SECTION_NAMES, no_records[i].names, "no records");
    }
}
END_TEST

/* Sections of -profile-correlate=binary. */
START_TEST(test_binary_correlation)
{
    static const struct change changes[2][COFF_CHANGES] = {
        {SECTION_NAME(LCOVMAP, UINT64_C(0x6e766f636c2e))},
        {SECTION_NAME(LCOVMAP, UINT64_C(0x64766f636c2e))},
    };
    static const enum section_kind kinds[] = {SECTION_COVNAMES, SECTION_COVDATA};

    for (size_t i = 0; i < 2; i++) {
        FREED_BY(drop_program) struct coff_program *program = coff_program_new();
        struct error error = {0};
        FREED_BY(drop_plan)
        struct image_plan *plan = coff_plan(program, changes[i], &coff_all, &error);

        ck_assert_msg(plan != NULL, "%s", error.message);
        coff_assert_reason(plan, kinds[i], NOT_SUPPORTED, "binary correlation");
    }
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("all");

    suite_loops(test_case, sizeof(refusals) / sizeof(refusals[0]), test_refusal);
    suite_loops(test_case, sizeof(rows) / sizeof(rows[0]), test_plan);
    suite_tests(test_case, test_no_records, test_binary_correlation);
    return suite_main("coff_plan", test_case);
}
