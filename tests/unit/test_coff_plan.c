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
     {COFF_U16(0, 0x1c4)},
     false},
    {DAMAGED("its optional header is cut short"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 111)},
     false},
    {DAMAGED("its optional header does not fit its machine"), {OPTIONAL_U16(0, 0x10b)}, false},
    {DAMAGED("an alignment is not a power of two"),
     {OPTIONAL_U32(OPTIONAL_SECTION_ALIGNMENT, 0x1800)},
     false},
    {DAMAGED("an alignment is not a power of two"),
     {OPTIONAL_U32(OPTIONAL_FILE_ALIGNMENT, 0)},
     false},
    {DAMAGED("its base address is impossible"), {OPTIONAL_U64(24, UINT64_C(1) << 63)}, false},
    {DAMAGED("its data directories do not fit the optional header"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8)},
     false},
    {DAMAGED("its data directories do not fit the optional header"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8), OPTIONAL_U32(108, UINT32_MAX)},
     false},
    {DAMAGED("its symbol table is not inside the file"),
     {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, UINT32_MAX)},
     false},
    {DAMAGED("its section table is not inside the file"),
     {COFF_U16(HEADER_NUMBER_OF_SECTIONS, 0xffff)},
     false},
    {DAMAGED("a section is not inside the file"),
     {SECTION_U32(RELOC, COFF_SECTION_SIZE_OF_RAW_DATA, 0x10000)},
     false},
    {"image: the image has two sections named .lprfn; link it so that it has one",
     {SECTION_NAME(LPRFC, UINT64_C(0x6e6672706c2e))},
     false},
    {DAMAGED("SizeOfHeaders is wrong"), {OPTIONAL_U32(OPTIONAL_SIZE_OF_HEADERS, 0x200)}, false},
    {SIGNED,
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     false},
    {DAMAGED("its signature is not inside the file"),
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 0x10000)},
     true},
    {DAMAGED("its signature is not inside the file"),
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x100), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     true},
};

START_TEST(test_refusal)
{
    const struct refusal *refusal = &refusals[_i];
    struct image_options options = {.sections = SECTION_REMOVABLE,
                                    .drop_signature = refusal->drop_signature};
    struct coff_program *program = coff_program_new();
    struct error error;

    ck_assert_msg(coff_plan(program, refusal->changes, &options, &error) == NULL, "%s",
                  refusal->message);
    ck_assert_str_eq(error.message, refusal->message);
    coff_program_free(program);
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
    {"nothing unusual", NULL, {{0}}, NULL, NULL, NULL, NULL},
    {"a jump to a function", thunk, {{0}}, NULL, NULL, NULL, NULL},
    {"a jump with two symbols", thunk_of_two_symbols, {{0}}, NULL, NULL, NULL, NULL},
    {"a jump to nowhere", thunk_to_nowhere, {{0}}, UNKNOWN_CODE, COFF_NAMES_STAY, NULL, NULL},
    {"code in data", code_in_data, {{0}}, UNKNOWN_CODE, COFF_NAMES_STAY, NULL, NULL},
    {"code behind a section", code_nowhere, {{0}}, UNKNOWN_CODE, COFF_NAMES_STAY, NULL, NULL},
    {"folded code",
     folded_code,
     {{0}},
     "__llvm_profile_end_names shares its code with another function; link without /opt:icf",
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"an end before zeros", early_end, {{0}}, NULL, NULL, NULL, NULL},
    {"a late begin", late_begin, {{0}}, BOUNDS, COFF_NAMES_STAY, NULL, NULL},
    {"bounds that cross", crossed_bounds, {{0}}, BOUNDS, COFF_NAMES_STAY, NULL, NULL},
    {"no marker in front", NULL, {BYTE_AT(PROGRAM_NAMES, 1)}, BOUNDS, COFF_NAMES_STAY, NULL, NULL},
    {"no marker behind",
     NULL,
     {BYTE_AT(PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1, 1)},
     BOUNDS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"names that are longer in memory",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x800)},
     BOUNDS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"names that end before the end",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x300)},
     BOUNDS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"an unknown version",
     NULL,
     {U64_AT(PROGRAM_VERSION, 7)},
     "the version of its raw profiles is not known to covsplit",
     "the version of its raw profiles is not known to covsplit",
     NULL,
     NULL},
    {".NET",
     NULL,
     {DIRECTORY(DIRECTORY_CLR, PROGRAM_VERSION + 0x180), DIRECTORY_SIZE(DIRECTORY_CLR, 72)},
     "covsplit does not support .NET images",
     "covsplit does not support .NET images",
     "covsplit does not support .NET images",
     "covsplit does not support .NET images"},
    {"an image that ends late",
     NULL,
     {OPTIONAL_U32(OPTIONAL_SIZE_OF_IMAGE, 0xc000)},
     NOT_FOLLOWING,
     NOT_FOLLOWING,
     NOT_FOLLOWING,
     NOT_FOLLOWING},
    {"sections out of their units",
     NULL,
     {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x4100)},
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED},
    {"a section in the headers",
     NULL,
     {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x200)},
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED},
    {"code that uses the mapping",
     use_of_mapping,
     {{0}},
     NULL,
     NULL,
     "the program refers to it",
     COVMAP_STAYS},
    {"a pointer to the mapping",
     pointer_to_mapping,
     {{0}},
     NULL,
     NULL,
     NULL,
     "the program refers to it"},
    {"no exports", export_of_nothing, {{0}}, NULL, NULL, NULL, NULL},
    {"exports of code", export_of_code, {{0}}, NULL, NULL, NULL, NULL},
    {"exports of names",
     export_of_names,
     {{0}},
     "the image exports something in it",
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"endless exports",
     endless_exports,
     {{0}},
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it"},
    {"exports nowhere",
     NULL,
     {DIRECTORY(DIRECTORY_EXPORT, 0x100000), DIRECTORY_SIZE(DIRECTORY_EXPORT, 40)},
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it"},
    {"a debug directory nowhere",
     NULL,
     {DIRECTORY(DIRECTORY_DEBUG, 0x100000)},
     OVERLAPS,
     OVERLAPS,
     OVERLAPS,
     OVERLAPS},
    {"debug data in names",
     NULL,
     {U32_AT(PROGRAM_DEBUG + DEBUG_POINTER_TO_RAW_DATA, 0x3100)},
     OVERLAPS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"symbols in the names",
     NULL,
     {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, 0x3100), COFF_U32(HEADER_NUMBER_OF_SYMBOLS, 1)},
     OVERLAPS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"a certificate in the names",
     NULL,
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x3100), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     OVERLAPS,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"relocations of its own",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_POINTER_TO_RELOCATIONS, 0x100)},
     OWN,
     COFF_NAMES_STAY,
     NULL,
     NULL},
    {"line numbers of its own",
     NULL,
     {SECTION_U32(LCOVMAP, COFF_SECTION_POINTER_TO_LINENUMBERS, 0x100)},
     NULL,
     NULL,
     OWN,
     COVMAP_STAYS},
    {"no counters", NULL, {SECTION_NAME(LPRFC, 'x')}, NO_COUNTERS, NO_COUNTERS, NULL, NULL},
    {"zeros behind the counters", early_counters, {{0}}, NULL, NULL, NULL, NULL},
    {"zeros behind the counters, and no GUID",
     early_counters,
     {DIRECTORY_SIZE(DIRECTORY_DEBUG, 0)},
     NULL,
     "there are zeros behind the counters, and without a debug directory only the counters would",
     NULL,
     NULL},
    {"a relocation in data", relocation_in_data, {{0}}, NULL, NULL, NULL, NULL},
    {"a relocation in names, to names", relocation_in_names, {{0}}, NULL, NULL, NULL, NULL},
    {"a name that is a number of nothing",
     NULL,
     {SECTION_NAME(RELOC, 0x39393939392f)},
     NULL,
     NULL,
     NULL,
     NULL},
    {"a name that is no number", NULL, {SECTION_NAME(RELOC, 0x78342f)}, NULL, NULL, NULL, NULL},
    {"a name that is less than a number",
     NULL,
     {SECTION_NAME(RELOC, 0x212f)},
     NULL,
     NULL,
     NULL,
     NULL},
    {"a name that is among the symbols' names",
     NULL,
     {SECTION_NAME(RELOC, 0x342f)},
     NULL,
     NULL,
     NULL,
     NULL},
    {"a symbol without a name",
     NULL,
     {FILE_U32(0x4404, 0xffffff)},
     "the image has no symbol __llvm_profile_begin_data",
     "the image has no symbol __llvm_profile_begin_data",
     NULL,
     NULL},
    {"a bitmap without a section",
     one_bitmap,
     {{0}},
     "its bitmap cannot be told apart from other data",
     "its bitmap cannot be told apart from other data",
     NULL,
     NULL},
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
        struct coff_program *program = coff_program_new();
        struct error error = {0};
        struct image_plan *plan;

        if (no_records[i].prepare != NULL)
            no_records[i].prepare(program);
        plan = coff_plan(program, changes, &coff_all, &error);
        ck_assert_msg(plan != NULL, "%s", error.message);
        coff_assert_reason(plan, SECTION_NAMES, no_records[i].names, "no records");
        image_plan_free(plan);
        coff_program_free(program);
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
        struct coff_program *program = coff_program_new();
        struct error error = {0};
        struct image_plan *plan = coff_plan(program, changes[i], &coff_all, &error);

        ck_assert_msg(plan != NULL, "%s", error.message);
        coff_assert_reason(plan, kinds[i], NOT_SUPPORTED, "binary correlation");
        image_plan_free(plan);
        coff_program_free(program);
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
