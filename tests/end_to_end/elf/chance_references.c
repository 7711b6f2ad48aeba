/*
 * Libraries with numbers in them that only seem to refer to what makes room for program headers:
 * the whole pages of names and data go all the same. And programs with tables of numbers, some of
 * which seem to be distances of names or data: both go without a word.
 *
 * Usage: chance_references CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/random.h"

#define FUNCTIONS 400
#define PAGE      4096

/* Of the library with much code. Every other instruction is a lea of an address up to 2 GiB in
 * front of it; with a .dynsym of half a megabyte, some thirty of them lead there. The ones between
 * are numbers, with the bytes of such an instruction for addresses behind it: a dozen of them are
 * in names and records. The start of the generator is one with which no lea leads to names, which
 * some linkers put in front of code, and no number is near a bound: those count. */
#define START            5
#define EXPORTED_SYMBOLS 20000
#define PAIR_COUNT       (UINT64_C(1) << 17)
#define PAIR_SIZE        18

static const char *clang_version;

static void write_code(const char *path)
{
    struct random_state random = random_start(START);
    uint8_t *code = malloc(PAIR_COUNT * PAIR_SIZE);
    for (uint64_t i = 0; i < PAIR_COUNT; i++) {
        uint8_t *pair = code + i * PAIR_SIZE;
        uint32_t distance = (uint32_t)random_next(&random) | UINT32_C(0x80000000);
        memcpy(pair, "\x90\x48\x8d\x05", 4);
        memcpy(pair + 4, &distance, sizeof distance);
        distance = (uint32_t)random_next(&random) % (512 << 20);
        memcpy(pair + 8, "\x48\xb8\x90\x48\x8d\x05", 6);
        memcpy(pair + 14, &distance, sizeof distance);
    }
    file_write(path, code, PAIR_COUNT * PAIR_SIZE);
}

static void write_much_code(const char *directory)
{
    FILE *file = fopen(path_join(directory, "extra.s"), "w");
    ck_assert_ptr_nonnull(file);
    fputs(".section .text.much,\"ax\",@progbits\n.incbin \"code\"\n", file);
    for (int i = 0; i < EXPORTED_SYMBOLS; i++) {
        fprintf(file, ".globl s%d\n.type s%d,@function\ns%d: ret\n", i, i, i);
    }
    fputs(".section .note.GNU-stack,\"\",@progbits\n", file);
    ck_assert_int_eq(fclose(file), 0);
    write_code(path_join(directory, "code"));
}

/* The offset of the second variable in its module's storage is the address of what comes behind
 * the program headers. */
static void write_thread_local(const char *directory)
{
    file_write_text(path_join(directory, "extra.c"),
                    "__thread char padding[0x380] = {1};\n__thread int one = 7;\n"
                    "__thread long two;\n"
                    "int count(void) { padding[two]++; two++; return ++one; }\n");
}

struct library {
    const char *what;
    void (*write)(const char *directory);
    const char *source;
    const char *relocation; /* that it must have, for readelf; NULL: any */
};

static const struct library libraries[] = {
    {"exported thread-local variables", write_thread_local, "extra.c", "R_X86_64_DTPMOD64"},
    {"much code and a large .dynsym", write_much_code, "extra.s", NULL},
};

#define LIBRARY_COUNT (sizeof libraries / sizeof *libraries)
static const char *const linkers[] = {"bfd", "lld"};

static void build(const struct library *library, const char *linker, const char *directory)
{
    const char *clang = versioned_tool("clang", clang_version);
    const char *use = text_format("-fuse-ld=%s", linker);
    struct command command = {.directory = directory};
    library->write(directory);
    source_generate(path_join(directory, "first.c"), LANGUAGE_C, "first", FUNCTIONS);
    file_write_text(path_join(directory, "main.c"),
                    "#include <stdio.h>\nlong first_run(long seed);\n"
                    "int main(int count, char **words) { (void)words;\n"
                    "  printf(\"%ld\\n\", first_run(count)); return 3; }\n");
    text_list_add(&command.arguments, clang);
    text_list_add_words(&command.arguments, "-O1 -fPIC -shared -Wl,--build-id=sha1 -mllvm "
                                            "-enable-name-compression=false " INSTRUMENT_COVERAGE);
    text_list_add(&command.arguments, use);
    text_list_add_words(&command.arguments, "first.c -o libfirst.so");
    text_list_add(&command.arguments, library->source);
    command_run_or_abort(&command);
    run_or_abort(directory, clang, use, "main.c", "-o", "program", "-L.", "-lfirst",
                 "-Wl,-rpath,$ORIGIN", NULL);
}

static struct outcome run(const char *directory, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, "./program");
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s", directory, profile);
    struct outcome outcome = command_run(&command);
    return outcome;
}

/* Less than a page at either end of the two sections stays. */
static void check_size(const char *original, const char *stripped, const char *label)
{
    struct elf_file elf = elf_file_read(original);
    uint64_t gone = elf_file_section_size(&elf, "__llvm_prf_names") +
                    elf_file_section_size(&elf, "__llvm_prf_data");
    ck_assert_uint_gt(gone, 8 * PAGE);
    ck_assert_msg(file_size(stripped) + gone < file_size(original) + 5 * PAGE,
                  "%s: %lu bytes became %lu, and %lu should go", label,
                  (unsigned long)file_size(original), (unsigned long)file_size(stripped),
                  (unsigned long)gone);
}

START_TEST(test_library)
{
    const struct library *library = &libraries[(size_t)_i % LIBRARY_COUNT];
    const char *linker = linkers[(size_t)_i / LIBRARY_COUNT];
    const char *label = text_format("%s, %s", library->what, linker);
    char *directory = scratch_create("chance-references");
    struct verdict verdict = {0};
    build(library, linker, directory);
    if (library->relocation != NULL) {
        const char *relocations = run_or_abort(directory, "readelf", "-rW", "libfirst.so", NULL);
        ck_assert_ptr_nonnull(strstr(relocations, library->relocation));
    }
    struct outcome expected = run(directory, "full.profraw");
    file_copy(path_join(directory, "libfirst.so"), path_join(directory, "original"));
    const char *errors =
        covsplit_assert(0, directory, "split", "--sidecar", "side", "libfirst.so", NULL);
    ck_assert_msg(errors[0] == '\0', "%s: %s", label, errors);
    check_size(path_join(directory, "original"), path_join(directory, "libfirst.so"), label);

    struct outcome found = run(directory, "light.profraw");
    ck_assert_msg(outcome_exited(&expected, 3), "%s: %s", label, expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "%s: %s", label, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    covsplit_run_words(directory, 0,
                       "correlate --sidecar side -o correlated.profraw light.profraw");
    for (size_t i = 0; i < 2; i++) {
        run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge", "-o",
                     i == 0 ? "full.profdata" : "correlated.profdata",
                     i == 0 ? "full.profraw" : "correlated.profraw", NULL);
    }
    files_equal(path_join(directory, "full.profdata"), path_join(directory, "correlated.profdata"),
                &verdict);
    verdict_assert(&verdict, label);
}
END_TEST

/* ---- tables of numbers ---- */

#define ENTRIES 4096

static unsigned ascending(unsigned i)
{
    return i;
}

static unsigned eights(unsigned i)
{
    return 8 * i;
}

static unsigned repeated(unsigned i)
{
    (void)i;
    return 100;
}

/* As in a table of the characters of a script: small steps of different sizes. */
static unsigned characters(unsigned i)
{
    return 2 * i + i / 7 % 3 * 8 + i % 5;
}

struct number_table {
    const char *what;
    const char *type;  /* of an entry */
    const char *entry; /* with a %u for its number, and after it one for the index */
    unsigned (*number)(unsigned i);
};

static const struct number_table number_tables[] = {
    {"numbers that ascend", "struct { unsigned number; }", "{%u},", ascending},
    {"multiples of 8", "struct { unsigned number; }", "{%u},", eights},
    {"one number", "struct { unsigned number; }", "{%u},", repeated},
    {"numbers of 8 bytes", "struct { unsigned long number; }", "{%u},", ascending},
    {"numbers with other fields between", "struct { unsigned number; char text[8]; }",
     "{%u, \"%u\"},", ascending},
    {"characters", "struct { unsigned number; }", "{%u},", characters},
    {"characters and their other case", "struct { unsigned number, other; }", "{%u, %u},",
     characters},
};

#define NUMBER_TABLES (sizeof number_tables / sizeof *number_tables)
static const char *const all_linkers[] = {"bfd", "lld", "gold", "mold"};
#define ALL_LINKERS (sizeof all_linkers / sizeof *all_linkers)

static void expect_all_goes(const char *directory, const char *label)
{
    struct command before = {.directory = directory}, after = {.directory = directory};
    const char *errors =
        covsplit_assert(0, directory, "split", "-o", "stripped", "--sidecar", "side", "app", NULL);
    ck_assert_msg(errors[0] == '\0', "%s: %s", label, errors);
    text_list_add(&before.arguments, "./app");
    text_list_add(&after.arguments, "./stripped");
    ck_assert_str_eq(command_expect(&before, 0).output, command_expect(&after, 0).output);
}

START_TEST(test_table)
{
    const struct number_table *table = &number_tables[(size_t)_i % NUMBER_TABLES];
    const char *linker = all_linkers[(size_t)_i / NUMBER_TABLES];
    char *directory = scratch_create("chance-references");
    FILE *file = fopen(path_join(directory, "app.c"), "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "#include <stdio.h>\nstatic const %s table[%u] = {", table->type, ENTRIES);
    for (unsigned i = 0; i < ENTRIES; i++) {
        fprintf(file, table->entry, table->number(i), i);
    }
    fputs("};\nint main(int count, char **words) { (void)words;\n"
          "  printf(\"%d\\n\", (int)table[37 * count].number); return 0; }\n",
          file);
    ck_assert_int_eq(fclose(file), 0);
    run_or_abort(directory, versioned_tool("clang", clang_version), "-O1",
                 "-fprofile-instr-generate", "-fcoverage-mapping", "-Wl,--build-id",
                 text_format("-fuse-ld=%s", linker), "app.c", "-o", "app", NULL);
    expect_all_goes(directory, text_format("%s, %s", table->what, linker));
}
END_TEST

/* Rust's library has tables of the cases of letters. The numbers that they seem to hold depend on
 * the lengths of names. */
static const char *const crates[] = {"a", "cases", "table_of_cases", "letters_and_their_cases"};

START_TEST(test_rust)
{
    char *directory = scratch_create("chance-references");
    const char *source = text_format("%s.rs", crates[_i]);
    struct command version = command_words(directory, "rustc --version");
    struct outcome outcome = command_run(&version);
    if (!outcome_exited(&outcome, 0)) {
        printf("no rustc here: not tested with it\n");
        return;
    }
    file_write_text(path_join(directory, source),
                    "fn main() { println!(\"{}\", "
                    "std::env::args().skip(9).collect::<String>().to_uppercase()); }\n");
    run_or_abort(directory, "rustc", "-O", "-Cinstrument-coverage", source, "-o", "app", NULL);
    expect_all_goes(directory, crates[_i]);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("libraries", 300, NULL);
    suite_loops(test_case, (int)(LIBRARY_COUNT * (sizeof linkers / sizeof *linkers)), test_library);
    suite_loops(test_case, (int)(NUMBER_TABLES * ALL_LINKERS), test_table);
    suite_loops(test_case, sizeof crates / sizeof *crates, test_rust);
    return suite_main("chance references", test_case);
}
