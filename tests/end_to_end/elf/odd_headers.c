/*
 * ELF files whose headers are not those of most images: offsets that no loader uses, tables that
 * are not aligned, segments that overlap, damaged names of sections, and separate debug files.
 *
 * Usage: odd_headers
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define CLANG     "19"
#define FUNCTIONS 180

static char *place;

/* As place/app: a program with a variable of each thread, which has no bytes in the file. */
static void build(const char *linker, const char *options)
{
    struct program program = {
        .clang = CLANG, .linker = linker, .link_options = options, .functions = FUNCTIONS};
    place = scratch_create("odd-headers");
    program_build_own(&program,
                      "#include <stdio.h>\nlong first_run(long seed);\n"
                      "static __thread int own;\nint *volatile place;\n"
                      "int main(int count, char **words) { (void)words; place = &own; *place = 3;\n"
                      "if (count > 1 && count < 9) *place += count;\n"
                      "printf(\"%ld\\n\", first_run(count)); return own; }\n",
                      place);
}

/* Splits place/app, which runs as before then, with a profile that merges to the same, and is
 * joined again. Returns what the split said. */
static const char *check_split(void)
{
    const char *profdata = versioned_tool("llvm-profdata", CLANG);
    const char *said =
        covsplit_assert(0, place, "split", "-o", "stripped", "--sidecar", "side", "app", NULL);
    struct outcome expected = program_run(place, "app"), found = program_run(place, "stripped");
    ck_assert_msg(outcome_exited(&expected, 3), "%s", expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "exit %d, signal %d: %s", found.exit_code,
                  found.signal, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    covsplit_run_words(place, 0, "join --sidecar side -o joined stripped");
    files_assert_equal(path_join(place, "joined"), path_join(place, "app"), "joined");
    run_or_abort(place, profdata, "merge", "-o", "expected.profdata", "app.profraw", NULL);
    covsplit_run_words(place, 0,
                       text_format("merge --sidecar side --llvm-profdata %s -o found.profdata "
                                   "stripped.profraw",
                                   profdata));
    files_assert_equal(path_join(place, "expected.profdata"), path_join(place, "found.profdata"),
                       said);
    return said;
}

static void check_all_goes(void)
{
    const char *said = check_split();
    ck_assert_msg(said[0] == '\0', "%s", said);
}

/* Overwrites a number of 8 bytes of place/app. */
static void patch(uint64_t offset, uint64_t value)
{
    struct contents app = file_read(path_join(place, "app"));
    ck_assert_uint_le(offset + sizeof value, app.size);
    memcpy(app.data + offset, &value, sizeof value);
    file_write(path_join(place, "app"), app.data, app.size);
}

/* ---- segments ---- */

static const char *const linkers[] = {"bfd", "gold", "lld", "mold"};

/* mold gives .tbss, and the PT_GNU_RELRO that begins with it, the offset 0. */
START_TEST(test_thread_variable)
{
    build(linkers[_i], NULL);
    check_all_goes();
}
END_TEST

/* Fields of which loaders make no use. */
static const struct unused {
    uint32_t type;
    size_t field;
    uint64_t value;
} unused[] = {
    {PT_GNU_RELRO, offsetof(Elf64_Phdr, p_offset), 0},
    {PT_GNU_RELRO, offsetof(Elf64_Phdr, p_filesz), 0},
    {PT_GNU_STACK, offsetof(Elf64_Phdr, p_offset), 0x123},
    {PT_TLS, offsetof(Elf64_Phdr, p_offset), 0},
    {PT_NOTE, offsetof(Elf64_Phdr, p_filesz), 0},
};

START_TEST(test_unused_field)
{
    build("lld", "-Wl,--build-id=none");
    struct elf_file app = elf_file_read(path_join(place, "app"));
    size_t index = 0;
    while (index < app.header->e_phnum && app.segments[index].p_type != unused[_i].type) {
        index++;
    }
    ck_assert_uint_lt(index, app.header->e_phnum);
    patch(app.header->e_phoff + index * sizeof(Elf64_Phdr) + unused[_i].field, unused[_i].value);
    check_all_goes();
}
END_TEST

/* As mold makes them with -Ttext. No loader keeps both. */
START_TEST(test_overlap)
{
    build("mold", "-Wl,-Ttext=0x1000");
    const char *said = covsplit_assert(1, place, "split", "app", NULL);
    ck_assert_msg(strstr(said, "its segments overlap in memory") != NULL, "%s", said);
}
END_TEST

/* ---- the table of sections ---- */

/* Old versions of dwz put it at any offset. */
static const unsigned table_places[] = {1, 2, 4};

START_TEST(test_unaligned_table)
{
    build("lld", NULL);
    struct elf_file app = elf_file_read(path_join(place, "app"));
    uint64_t size = app.header->e_shnum * sizeof(Elf64_Shdr);
    uint64_t start = (app.file.size + 7) / 8 * 8 + table_places[_i];
    uint8_t *longer = calloc(start + size, 1);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, app.file.data, app.file.size);
    memcpy(longer + start, app.file.data + app.header->e_shoff, size);
    file_write(path_join(place, "app"), longer, start + size);
    patch(offsetof(Elf64_Ehdr, e_shoff), start);
    check_all_goes();
}
END_TEST

/* Program headers may be anywhere, too. But the kernel and the profile runtime find them by their
 * offset, so nothing in front of them may go from the file. */
START_TEST(test_moved_headers)
{
    static const char *const sections[] = {"covmap,covfun", "covmap,covfun,names,data"};
    build("lld", "-shared -fPIC");
    struct elf_file app = elf_file_read(path_join(place, "app"));
    uint64_t size = app.header->e_phnum * sizeof(Elf64_Phdr);
    uint64_t table = app.header->e_shnum * sizeof(Elf64_Shdr);
    uint64_t start = (app.file.size + 15) / 16 * 16;
    uint8_t *longer = calloc(start + size + table, 1);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, app.file.data, app.file.size);
    memcpy(longer + start, app.file.data + app.header->e_phoff, size);
    memcpy(longer + start + size, app.file.data + app.header->e_shoff, table);
    ((Elf64_Phdr *)(longer + start))[0].p_type = PT_NULL; /* was PT_PHDR */
    file_write(path_join(place, "app"), longer, start + size + table);
    patch(offsetof(Elf64_Ehdr, e_phoff), start);
    patch(offsetof(Elf64_Ehdr, e_shoff), start + size);
    file_copy(path_join(place, "app"), path_join(place, "kept"));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const char *said =
            covsplit_assert(1, place, "split", "--sections", sections[i], "app", NULL);
        ck_assert_msg(strstr(said, "a layout that covsplit cannot strip safely") != NULL, "%s: %s",
                      sections[i], said);
        files_assert_equal(path_join(place, "app"), path_join(place, "kept"), sections[i]);
    }
}
END_TEST

/* ---- names of sections ---- */

static const char *const damaged[] = {"__llvm_prf_cnts", "__llvm_prf_bits", "__llvm_prf_data",
                                      "__llvm_prf_names"};

/* A section that has another name is not there, but the profiles have its bytes. */
START_TEST(test_damaged_name)
{
    build(_i % 2 == 0 ? "lld" : "bfd", "-fcoverage-mcdc");
    struct elf_file app = elf_file_read(path_join(place, "app"));
    const Elf64_Shdr *section = elf_file_section(&app, damaged[_i]);
    const Elf64_Shdr *names = &app.sections[app.header->e_shstrndx];
    ck_assert_ptr_nonnull(section);
    struct contents contents = file_read(path_join(place, "app"));
    contents.data[names->sh_offset + section->sh_name + 2] = 'X';
    file_write(path_join(place, "app"), contents.data, contents.size);
    const char *said = check_split();
    ck_assert_msg(strstr(said, " stays: ") != NULL, "%s", said);
}
END_TEST

/* ---- separate debug files ---- */

static const char *const debug_makers[] = {
    "objcopy --only-keep-debug app app.debug",
    "llvm-objcopy-19 --only-keep-debug app app.debug",
    "eu-strip -o app.stripped -f app.debug app",
    "eu-strip -g -o app.stripped -f app.debug app",
};

/* It is no image, and is said to be what it is; among others it is passed over. */
START_TEST(test_debug_file)
{
    static const char *const commands[] = {"split", "show"};
    build(linkers[_i], "-g");
    struct command maker = command_words(place, "%s", debug_makers[_i]);
    command_run_or_abort(&maker);
    struct contents before = file_read(path_join(place, "app.debug"));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *said = covsplit_assert(1, place, commands[i], "app.debug", NULL);
        ck_assert_msg(strstr(said, "app.debug: a separate debug file") != NULL, "%s", said);
    }
    directory_create(path_join(place, "tree"));
    file_copy(path_join(place, "app"), path_join(place, "tree/app"));
    file_copy(path_join(place, "app.debug"), path_join(place, "tree/app.debug"));
    const char *said = covsplit_assert(0, place, "split", "-r", "tree", NULL);
    ck_assert_msg(said[0] == '\0', "%s", said);
    struct contents after = file_read(path_join(place, "tree/app.debug"));
    ck_assert(before.size == after.size && memcmp(before.data, after.data, after.size) == 0);
    ck_assert(file_exists(path_join(place, "tree/app.covsplit")));
}
END_TEST

/* ---- after other tools ---- */

static const char *const tools[] = {
    "strip -o after stripped",
    "strip -x -o after stripped",
    "objcopy stripped after",
    "llvm-strip-19 -o after stripped",
    "llvm-objcopy-19 stripped after",
    "eu-strip -o after stripped",
    "patchelf --set-rpath /anywhere --output after stripped",
};

/* They write all headers anew, and what they make is still known as split, with the same sidecar.
 */
START_TEST(test_known_after_tools)
{
    build(linkers[_i], NULL);
    covsplit_assert(0, place, "split", "-o", "stripped", "app", NULL);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        struct command tool = command_words(place, "%s", tools[i]);
        command_run_or_abort(&tool);
        const char *said = covsplit_assert(0, place, "split", "-o", "again", "after", NULL);
        ck_assert_msg(strstr(said, "split already") != NULL &&
                          strstr(said, "its sidecar is app.covsplit") != NULL,
                      "%s: %s", tools[i], said);
        files_assert_equal(path_join(place, "again"), path_join(place, "after"), tools[i]);
        ck_assert(!file_exists(path_join(place, "after.covsplit")));
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("headers", 300, NULL);
    suite_loops(test_case, sizeof linkers / sizeof *linkers, test_thread_variable);
    suite_loops(test_case, sizeof unused / sizeof *unused, test_unused_field);
    suite_loops(test_case, sizeof table_places / sizeof *table_places, test_unaligned_table);
    suite_loops(test_case, sizeof damaged / sizeof *damaged, test_damaged_name);
    suite_loops(test_case, sizeof debug_makers / sizeof *debug_makers, test_debug_file);
    suite_loops(test_case, sizeof linkers / sizeof *linkers, test_known_after_tools);
    suite_tests(test_case, test_overlap, test_moved_headers);
    return suite_main("odd headers", test_case);
}
