/*
 * Images of packed objects that were never split, and what gives them ordinary coverage mapping:
 * join --mapping, run, and export. LLVM's tools must say of each what they say of the image of
 * ordinary objects; and of the image of packed objects itself they must say nothing but an error.
 *
 * Usage: packed_ordinary CLANG LINKER MACHINE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/random.h"

#define DAMAGES      200
#define SEED         2121
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What the objects are compiled by and for, and linked by. */
static struct program program = {.language = LANGUAGE_C, /* the driver: there is no libstdc++ */
                                 .optimization = "-O1",
                                 .compile_options = "-fPIC"};
static char *directory;

/* All are of main.cc and the same two units, and a library has two more. */
#define PLAIN   "plain/"
#define PACKED  "packed/"
#define LIBRARY "libunits.so"

/* Images of one program, and which of their objects are packed. */
static const struct image {
    const char *name, *objects;
} images[] = {
    {"ordinary", PLAIN "main.o " PLAIN "unit0.o " PLAIN "unit1.o"},
    {"all", PACKED "main.o " PACKED "unit0.o " PACKED "unit1.o"},
    {"first", PACKED "main.o " PLAIN "unit0.o " PLAIN "unit1.o"},
    {"last", PLAIN "main.o " PLAIN "unit0.o " PACKED "unit1.o"},
    {"ends", PACKED "main.o " PLAIN "unit0.o " PACKED "unit1.o"},
};
#define FIRST_PACKED 1
#define PACKED_COUNT (COUNT(images) - FIRST_PACKED)

static const char *const objects[] = {"main", "unit0", "unit1", "unit2", "unit3"};

/* ---- steps ---- */

static struct outcome run(int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words);
}

static const char *run_tool(const char *words)
{
    struct command command = command_words(directory, "%s", words);
    return command_run_or_abort(&command);
}

static const char *llvm_cov(const char *words)
{
    return text_format("%s %s", versioned_tool("llvm-cov", program.clang), words);
}

/* ---- the images ---- */

static void compile(void)
{
    directory_create(path_join(directory, "plain"));
    directory_create(path_join(directory, "packed"));
    for (size_t i = 0; i < COUNT(objects); i++) {
        const char *plain = text_format(PLAIN "%s.o", objects[i]);
        program_compile(&program, directory, text_format("%s.cc", objects[i]), plain);
        file_copy(path_join(directory, plain),
                  path_join(directory, text_format(PACKED "%s.o", objects[i])));
        run(0, text_format("pack " PACKED "%s.o", objects[i]));
    }
}

/* The sources call as many units as there are; the tests have the first two. */
static void write_main(void)
{
    file_write_text(path_join(directory, "main.cc"),
                    "#include \"shared.h\"\n"
                    "int unit0(int value);\nint unit1(int value);\n"
                    "int main(int count, char **) {\n"
                    "  return shared_branch(count) + unit0(3) + unit1(4) == 77;\n}\n");
}

/* The words that go before a program to run it. */
static const char *emulator(void)
{
    return program.target == NULL ? "" : target_emulator(program.target);
}

/* Runs the image, and makes an indexed profile of what it writes. */
static void make_profile(const char *image, const char *profile)
{
    run_tool(text_format("env LLVM_PROFILE_FILE=%s.raw %s ./%s", profile, emulator(), image));
    run_tool(text_format("%s merge -o %s %s.raw", versioned_tool("llvm-profdata", program.clang),
                         profile, profile));
}

static void prepare(void)
{
    scratch_use_memory();
    directory = scratch_create("packed-ordinary");
    many_units_write(directory);
    write_main();
    compile();
    for (size_t i = 0; i < COUNT(images); i++) {
        program_link(&program, directory, "", images[i].objects, images[i].name);
    }
    program_link(&program, directory, "-shared", PLAIN "unit2.o " PLAIN "unit3.o",
                 "plain-" LIBRARY);
    program_link(&program, directory, "-shared", PACKED "unit2.o " PACKED "unit3.o",
                 "packed-" LIBRARY);
    make_profile("ordinary", "app.profdata");
}

/* ---- comparing ---- */

static const char *const reports[] = {
    "report",
    "show -show-branches=count -show-expansions -show-instantiations",
    "export",
    "export -format=lcov",
};

/* What a report says of images (words), in front of which there may be words to run it with. */
static const char *report_of(const char *front, const char *report, const char *words)
{
    const char *found = run_tool(text_format(
        "%s %s", front, llvm_cov(text_format("%s -instr-profile=app.profdata %s", report, words))));
    ck_assert_msg(strlen(found) > 100, "nothing is reported of %s: %s", words, found);
    return found;
}

static void assert_reports(const char *front, const char *words, const char *ordinary)
{
    for (size_t i = 0; i < COUNT(reports); i++) {
        ck_assert_msg(strcmp(report_of(front, reports[i], words),
                             report_of("env", reports[i], ordinary)) == 0,
                      "llvm-cov-%s %s: %s and %s differ", program.clang, reports[i], words,
                      ordinary);
    }
}

static void assert_same_section(const char *path, const char *other, const char *name)
{
    struct elf_file file = elf_file_read(path_join(directory, path));
    struct elf_file expected = elf_file_read(path_join(directory, other));
    const Elf64_Shdr *section = elf_file_section(&file, name);
    const Elf64_Shdr *wanted = elf_file_section(&expected, name);
    ck_assert_msg(section != NULL && wanted != NULL && wanted->sh_size != 0, "no %s", name);
    ck_assert_msg(section->sh_size == wanted->sh_size &&
                      section->sh_addralign == wanted->sh_addralign &&
                      section->sh_flags == wanted->sh_flags &&
                      section->sh_offset % section->sh_addralign == 0 &&
                      memcmp(file.file.data + section->sh_offset,
                             expected.file.data + wanted->sh_offset, wanted->sh_size) == 0,
                  "%s: %s is not that of %s", path, name, other);
    elf_file_free(&file);
    elf_file_free(&expected);
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(directory, name), path_join(directory, other), name);
}

static void assert_ordinary(const char *path)
{
    assert_same_section(path, "ordinary", "__llvm_covmap");
    assert_same_section(path, "ordinary", "__llvm_covfun");
}

static const char *covsplit_run_front(void)
{
    return text_format("%s run --", covsplit_path());
}

/* ---- what LLVM's tools say of packed images ---- */

static void assert_fails(const char *words)
{
    struct command command = command_words(
        directory, "%s", llvm_cov(text_format("report -instr-profile=app.profdata %s", words)));
    struct outcome outcome = command_expect(&command, 1);
    assert_contains(outcome.errors, "error: ");
    ck_assert_msg(strstr(outcome.output, "TOTAL") == NULL, "%s: %s", words, outcome.output);
}

/* ---- what gives ordinary mapping ---- */

START_TEST(test_join)
{
    if (!rounds_have((unsigned)_i, 2)) {
        return;
    }
    const char *name = images[FIRST_PACKED + _i].name;
    run(0, text_format("join --mapping -o mapped %s", name));
    assert_ordinary("mapped");
    assert_reports("env", "mapped", "ordinary");
    make_profile(name, "packed.profdata");
    make_profile("mapped", "mapped.profdata");
    assert_same("mapped.profdata", "packed.profdata");

    /* After a split it is the same, and join without --mapping gives the packed image. */
    run(0, text_format("split -o out --sidecar side %s", name));
    run(0, "join --mapping --sidecar side -o mapped-again out");
    assert_same("mapped-again", "mapped");
    run(0, "join --sidecar side -o joined out");
    assert_same("joined", name);
    /* In place too. */
    run(0, "join --mapping --sidecar side -o out out");
    assert_same("out", "mapped");
    /* It is an ordinary image: it can be split like one. */
    run(0, "split -o out --sidecar side mapped");
    run(0, "join --sidecar side -o joined out");
    assert_same("joined", "mapped");
}
END_TEST

START_TEST(test_run)
{
    if (!rounds_have((unsigned)_i, 2)) {
        return;
    }
    assert_reports(covsplit_run_front(), images[FIRST_PACKED + _i].name, "ordinary");
}
END_TEST

START_TEST(test_export)
{
    if (!rounds_have((unsigned)_i, 2)) {
        return;
    }
    const char *name = images[FIRST_PACKED + _i].name;
    run(0, text_format("export -o object %s", name));
    assert_reports("env", "object", "ordinary");
    /* It is the object of the image's sidecar. */
    run(0, text_format("split -o out --sidecar side %s", name));
    run(0, "export --sidecar side -o of-sidecar");
    assert_same("object", "of-sidecar");
}
END_TEST

/* Without packed objects, it is what join gives; and an image that was not split has no sidecar. */
START_TEST(test_not_packed)
{
    run(0, "split -o out --sidecar side ordinary");
    run(0, "join --mapping --sidecar side -o joined out");
    assert_same("joined", "ordinary");
    assert_contains(run(1, "join --mapping -o none ordinary").errors, "ordinary");
    ck_assert(!file_exists(path_join(directory, "none")));
    run(0, "export -o object ./ordinary");
    assert_reports("env", "object", "ordinary");
}
END_TEST

/* Images that were split, are packed, or are neither, in one report and in one union. */
START_TEST(test_many)
{
    static const char *const kinds[] = {"plain-" LIBRARY, "packed-" LIBRARY, "split-" LIBRARY};
    const char *ordinary = "ordinary -object plain-" LIBRARY;
    const char *library = kinds[_i];
    run(0, "split -o split-" LIBRARY " --sidecar split-" LIBRARY ".covsplit packed-" LIBRARY);
    assert_reports(covsplit_run_front(), text_format("all -object %s", library), ordinary);
    assert_reports(covsplit_run_front(), text_format("ordinary -object %s", library), ordinary);
    run(0, text_format("export --union -o union.a last %s%s", library, _i == 2 ? ".covsplit" : ""));
    assert_reports("env", "union.a", ordinary);
    run(0, "export --debug-dir debug first packed-" LIBRARY);
    ck_assert_uint_eq(directory_list(path_join(directory, "debug/.build-id")).count, 2);
}
END_TEST

/* A split that leaves the mapping in the image. */
START_TEST(test_part)
{
    run(0, "split --sections names,data -o part --sidecar part.covsplit all");
    assert_reports(covsplit_run_front(), "part", "ordinary");
    run(0, "join --mapping --sidecar part.covsplit -o mapped part");
    assert_ordinary("mapped");
}
END_TEST

/* What is in the image, for people and for programs. */
START_TEST(test_show)
{
    const char *text = run(0, "show ends").output;
    assert_contains(text, "packed units         2\n");
    assert_contains(text, "split it, or read it with 'covsplit run' or 'covsplit export'");
    text = run(0, "show --json all").output;
    assert_contains(text, "\"packed_units\": 3");
    assert_contains(text, "\"packed_records\": ");
    ck_assert_ptr_null(strstr(run(0, "show --json ordinary").output, "packed"));
}
END_TEST

/* It must never be a report in which some of the functions are missing. */
START_TEST(test_never_split)
{
    const char *name = images[FIRST_PACKED + _i].name;
    assert_fails(name);
    assert_fails(text_format("%s -object plain-" LIBRARY, name));
    assert_fails(text_format("plain-" LIBRARY " -object %s", name));
    assert_fails(text_format("ordinary -object %s", name));
    assert_fails("ordinary -object packed-" LIBRARY);
    assert_fails("all -object packed-" LIBRARY);
}
END_TEST

/* So does an image without a build ID. */
START_TEST(test_without_id)
{
    struct program nameless = program;
    nameless.build_id = "none";
    program_link(&nameless, directory, "", images[FIRST_PACKED].objects, "nameless");
    assert_reports(covsplit_run_front(), "nameless", "ordinary");
}
END_TEST

/* A packed object that was never linked gives the reports of the ordinary one. */
START_TEST(test_object)
{
    const char *packed = text_format(PACKED "%s.o", objects[_i]);
    const char *plain = text_format(PLAIN "%s.o", objects[_i]);
    assert_fails(packed);
    assert_reports(covsplit_run_front(), packed, plain);
    run(0, text_format("export -o object %s", packed));
    assert_reports("env", "object", plain);
    assert_contains(run(0, text_format("show %s", packed)).output, "packed records");
    assert_contains(run(0, text_format("show --json %s", packed)).output, "packed object");
}
END_TEST

/* ---- readers ---- */

/* How many lines of complaint a reader has of an image. */
static size_t complaints(const char *reader, const char *name)
{
    struct command command = command_words(directory, "%s %s", reader, name);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(!outcome.timed_out && outcome.signal == 0, "%s %s", reader, name);
    return strstr(reader, "lint") != NULL ? text_count(outcome.output, "\n")
                                          : text_count(outcome.errors, "\n");
}

START_TEST(test_readers)
{
    if (!rounds_have((unsigned)_i, 2)) {
        return;
    }
    const char *name = images[FIRST_PACKED + _i].name;
    static const char *const readers[] = {"readelf -aW", "llvm-readelf-19 -a",
                                          "eu-elflint --gnu-ld", "llvm-objdump-19 -d", "nm"};
    run(0, text_format("join --mapping -o mapped %s", name));
    for (size_t i = 0; i < COUNT(readers); i++) {
        ck_assert_msg(complaints(readers[i], "mapped") <= complaints(readers[i], name), "%s: %s",
                      readers[i], name);
    }
    ck_assert_str_eq(run_tool("llvm-objdump-19 -d mapped") + strlen("\nmapped"),
                     run_tool(text_format("llvm-objdump-19 -d %s", name)) + 1 + strlen(name));
    run_tool("llvm-strip-19 -o stripped mapped");
    make_profile("stripped", "stripped.profdata");
}
END_TEST

/* ---- damage ---- */

#define HEADER_SIZE 16

static uint64_t offset_of_covmap(void)
{
    struct elf_file file = elf_file_read(path_join(directory, "all"));
    uint64_t offset = elf_file_section(&file, "__llvm_covmap")->sh_offset;
    elf_file_free(&file);
    return offset;
}

static void write_damaged(uint64_t offset, uint8_t value)
{
    struct contents file = file_read(path_join(directory, "all"));
    file.data[offset] = value;
    file_write(path_join(directory, "damaged"), file.data, file.size);
    contents_free(&file);
}

/* Each command refuses, or accepts and writes its output. Returns its exit code. */
static int run_damaged(const char *words)
{
    struct command command = covsplit_words(directory, words);
    struct verdict verdict = {0};
    directory_remove(path_join(directory, "debug"));
    remove(path_join(directory, "new"));
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0)) {
        covsplit_refused(&command, &outcome, &verdict);
        verdict_assert(&verdict, words);
        ck_assert_msg(!file_exists(path_join(directory, "new")), "%s", words);
    }
    return outcome.exit_code;
}

static const char *const damaged_words[] = {"join --mapping -o new damaged", "show damaged",
                                            "export -o new damaged",
                                            "export --union -o new damaged ordinary"};

/* The sizes of units, so that no unit can be read. */
START_TEST(test_damaged)
{
    for (uint64_t field = 4; field < 8; field++) {
        write_damaged(offset_of_covmap() + field, 0xee);
        for (size_t i = 0; i < COUNT(damaged_words); i++) {
            ck_assert_msg(run_damaged(damaged_words[i]) == 1, "byte %llu: %s",
                          (unsigned long long)field, damaged_words[i]);
        }
        struct command command = covsplit_words(directory, "run --");
        text_list_add_words(&command.arguments,
                            llvm_cov("report -instr-profile=app.profdata damaged"));
        ck_assert_int_ne(command_run(&command).exit_code, 0);
    }
}
END_TEST

/* Any byte of the section: refused, or a file that can be read. */
/* A unit in a form that does not exist yet: the error says that a later covsplit may know it. */
START_TEST(test_later_form)
{
    write_damaged(offset_of_covmap() + HEADER_SIZE + 1, 2);
    remove(path_join(directory, "new"));
    for (size_t i = 0; i < COUNT(damaged_words); i++) {
        const char *errors = run(1, damaged_words[i]).errors;
        ck_assert_msg(strstr(errors, "by a later covsplit") != NULL, "%s: %s", damaged_words[i],
                      errors);
    }
    ck_assert_ptr_nonnull(strstr(run(1, "split -o new damaged").errors, "by a later covsplit"));
    ck_assert(!file_exists(path_join(directory, "new")));
}
END_TEST

START_TEST(test_any_damage)
{
    struct elf_file file = elf_file_read(path_join(directory, "all"));
    uint64_t size = elf_file_section_size(&file, "__llvm_covmap"), start = offset_of_covmap();
    unsigned refused = 0;
    elf_file_free(&file);
    for (unsigned i = 0; i < rounds(DAMAGES); i++) {
        struct random_state random = random_start(SEED + i);
        write_damaged(start + random_below(&random, size),
                      (uint8_t)random_below(&random, UINT8_MAX));
        refused += run_damaged(damaged_words[i % COUNT(damaged_words)]) != 0;
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

int main(int count, char **words)
{
    const char *machine;
    suite_arguments(count, words, "CLANG LINKER MACHINE", &program.clang, &program.linker,
                    &machine);
    program.target = target_find(machine); /* NULL: this one */
    TCase *all = suite_case("packed-ordinary", 600, prepare);
    suite_loops(all, PACKED_COUNT, test_join, test_run, test_export, test_never_split,
                test_readers);
    suite_loops(all, 3, test_many, test_object);
    suite_tests(all, test_without_id, test_not_packed, test_part, test_show, test_damaged,
                test_later_form, test_any_damage);
    return suite_main("packed-ordinary", all);
}
