/*
 * Images for Darwin that are refused, for one thing that is not as linkers leave it: each with its
 * reason.
 */
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/macho_program.h"

#define UNKNOWN_LAYOUT(what)                                                                       \
    "image: the image has a layout that covsplit does not know: " what "; it stays as it is"
#define DAMAGED(what) "image: damaged Mach-O image: " what "; link it again"

static const struct refusal {
    const char *message;
    struct program_change changes[PROGRAM_CHANGES];
} refusals[] = {
    /* segments */
    {UNKNOWN_LAYOUT("a segment has a wrong size"),
     {{PROGRAM_DATA_SEGMENT, SEGMENT_VMSIZE, 8, 0x6000}}},
    {UNKNOWN_LAYOUT("a segment has a wrong size"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMSIZE, 8, INT64_MAX}}},
    {UNKNOWN_LAYOUT("a segment does not start at a page boundary"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, MAKER_BASE + PROGRAM_LINKEDIT + 8}}},
    {UNKNOWN_LAYOUT("a segment does not start at a page boundary"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_LINKEDIT + 8},
      {PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x5ff8}}},
    {UNKNOWN_LAYOUT("segments overlap or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, MAKER_BASE + PROGRAM_COVMAP}}},
    {UNKNOWN_LAYOUT("segments overlap in the file, or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_COVMAP}}},
    {UNKNOWN_LAYOUT("segments overlap in the file, or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_COVMAP},
      {PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0}}},
    {UNKNOWN_LAYOUT("__TEXT does not hold the load commands"),
     {{PROGRAM_TEXT, SEGMENT_SEGNAME, 8, 0x30}}},
    {UNKNOWN_LAYOUT("__TEXT does not hold the load commands"),
     {{PROGRAM_TEXT, SEGMENT_FILESIZE, 8, 0x100}}},
    {UNKNOWN_LAYOUT("__LINKEDIT is not the last segment"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_SEGNAME, 8, 0x30}}},
    {UNKNOWN_LAYOUT("__LINKEDIT is not the last segment"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0}}},
    {"image: data is appended to the image, and may have to stay in its place; run covsplit before "
     "it is appended",
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x5ff8}}},
    {DAMAGED("a segment is not inside the file"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x6001}}},
    {DAMAGED("a segment is not inside the file"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, UINT64_MAX}}},
    {DAMAGED("a segment's sections do not fill its load command"),
     {{PROGRAM_COVERAGE, SEGMENT_NSECTS, 4, 1}}},
    {DAMAGED("a segment's sections do not fill its load command"),
     {{PROGRAM_COVERAGE, SEGMENT_NSECTS, 4, 0x1000}}},
    /* sections */
    {DAMAGED("a section has a wrong size"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, UINT64_MAX}}},
    {UNKNOWN_LAYOUT("a section is not inside its segment"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, 0x1001}}},
    {UNKNOWN_LAYOUT("sections overlap or are out of order"),
     {{PROGRAM_COVFUN_SECTION, SECTION_64_BYTES, 8, 0x1001}}},
    {UNKNOWN_LAYOUT("a section has relocations of its own"),
     {{PROGRAM_CODE_SECTION, SECTION_64_NRELOC, 4, 1}}},
    {UNKNOWN_LAYOUT("a section is not where its segment is in the file"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_OFFSET, 4, PROGRAM_COVMAP + 8}}},
    {UNKNOWN_LAYOUT("a section is not where its segment is in the file"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_OFFSET, 4, 0xfff0}}},
    {UNKNOWN_LAYOUT("a section overlaps the load commands"),
     {{PROGRAM_CODE_SECTION, SECTION_64_OFFSET, 4, 0x100},
      {PROGRAM_CODE_SECTION, SECTION_64_ADDR, 8, MAKER_BASE + 0x100}}},
    {"image: the image has two sections named __llvm_prf_names; link it so that it has one",
     {{PROGRAM_COUNTERS_SECTION, 11, 4, 0x656d616e}, {PROGRAM_COUNTERS_SECTION, 15, 1, 's'}}},
    /* load commands and tables */
    {"image: the image has a load command 0x7777 that covsplit does not know; it stays as it is",
     {{PROGRAM_DYSYMTAB, COMMAND_CMD, 4, 0x7777}}},
    {UNKNOWN_LAYOUT("it is encrypted"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_ENCRYPTION_INFO_64},
      {PROGRAM_DYLD_INFO, ENCRYPTION_CRYPTID, 4, 1}}},
    {UNKNOWN_LAYOUT("it is encrypted"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_ENCRYPTION_INFO},
      {PROGRAM_DYLD_INFO, ENCRYPTION_CRYPTID, 4, 1}}},
    {UNKNOWN_LAYOUT("a load command occurs twice"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_SYMTAB}}},
    {UNKNOWN_LAYOUT("a table is not inside __LINKEDIT"),
     {{PROGRAM_DYLD_INFO, DYLD_INFO_EXPORT, 4, PROGRAM_COVMAP},
      {PROGRAM_DYLD_INFO, DYLD_INFO_EXPORT + 4, 4, 8}}},
    {DAMAGED("its symbol table is cut short"), {{PROGRAM_SYMTAB, SYMTAB_NSYMS, 4, UINT32_MAX}}},
    {DAMAGED("its symbol table is cut short"), {{PROGRAM_SYMTAB, SYMTAB_STROFF, 4, UINT32_MAX}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 16}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 20}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 0x10000}}},
    {UNKNOWN_LAYOUT("its code signature is not at the end"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_CODE_SIGNATURE},
      {PROGRAM_DYLD_INFO, LINKEDIT_DATAOFF, 4, 0xf000},
      {PROGRAM_DYLD_INFO, LINKEDIT_DATASIZE, 4, 0x800}}},
    {UNKNOWN_LAYOUT("a table overlaps its code signature"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_CODE_SIGNATURE},
      {PROGRAM_DYLD_INFO, LINKEDIT_DATAOFF, 4, 0xc000},
      {PROGRAM_DYLD_INFO, LINKEDIT_DATASIZE, 4, 0x4000}}},
    {DAMAGED("its load commands are not inside the file"),
     {{PROGRAM_FILE, HEADER_SIZEOFCMDS, 4, 0x10000}}},
    {DAMAGED("its load commands are not inside the file"),
     {{PROGRAM_FILE, HEADER_NCMDS, 4, 0x10001}}},
    {DAMAGED("its load commands are not inside the file"),
     {{PROGRAM_FILE, HEADER_NCMDS, 4, 0x1000}}},
    {DAMAGED("its load commands do not fill their place"), {{PROGRAM_FILE, HEADER_NCMDS, 4, 7}}},
    {DAMAGED("a load command is cut short"), {{PROGRAM_FILE, HEADER_NCMDS, 4, 9}}},
    {DAMAGED("a segment's sections do not fill its load command"),
     {{PROGRAM_LINKEDIT_SEGMENT, COMMAND_CMDSIZE, 4, SEGMENT_SIZE + 24},
      {PROGRAM_FILE, HEADER_NCMDS, 4, 7}}},
    /* the header */
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xfeedfacf, cputype "
     "0x7); this version of covsplit cannot split it",
     {{PROGRAM_FILE, HEADER_CPUTYPE, 4, 7}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xfeedface, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_MAGIC}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xcefaedfe, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_CIGAM}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xcffaedfe, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_CIGAM_64}}},
    {"image: a Mach-O file of type 1, not a linked image; name an executable, a dynamic library or "
     "a bundle",
     {{PROGRAM_FILE, HEADER_FILETYPE, 4, 1}}},
};

START_TEST(test_refusal)
{
    const struct refusal *refusal = &refusals[_i];
    struct macho_program program;
    struct image_plan *plan;
    struct error error;

    macho_program_begin(&program);
    plan = macho_program_plan(&program, refusal->changes, SECTION_REMOVABLE, &error);
    ck_assert_msg(plan == NULL, "%s", refusal->message);
    ck_assert_str_eq(error.message, refusal->message);
    macho_program_end(&program, plan);
}
END_TEST

/* As the first bytes of a file tell. */
START_TEST(test_linked)
{
    static const struct {
        uint32_t magic, type;
        bool is_linked;
    } headers[] = {
        {MH_MAGIC_64, MH_EXECUTE, true},     {MH_MAGIC_64, MH_DYLIB, true},
        {MH_MAGIC_64, MH_BUNDLE, true},      {MH_MAGIC_64, 1, false},
        {MH_MAGIC, MH_EXECUTE, true},        {MH_CIGAM, MH_EXECUTE << 24, true},
        {MH_CIGAM_64, MH_DYLIB << 24, true}, {MH_CIGAM_64, MH_DYLIB, false},
        {0xfeedfac0, MH_EXECUTE, false},
    };
    uint8_t header[HEADER_SIZE] = {0};

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        store_u32(header, headers[i].magic, false);
        store_u32(header + HEADER_FILETYPE, headers[i].type, false);
        ck_assert_msg(image_is_linked((struct bytes){header, sizeof(header)}) ==
                          headers[i].is_linked,
                      "row %zu", i);
        ck_assert(!image_is_linked((struct bytes){header, sizeof(header) - 1}));
        ck_assert(!image_is_linked((struct bytes){header, 3}));
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, sizeof(refusals) / sizeof(refusals[0]), test_refusal);
    suite_tests(all, test_linked);
    return suite_main("macho_read", all);
}
