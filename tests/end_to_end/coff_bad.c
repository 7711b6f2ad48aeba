/*
 * COFF images that are not as they should be, or not as linkers leave them: damaged, cut short,
 * signed, with something appended, without coverage.
 *
 * Usage: coff_bad files
 *        coff_bad images FIRST COUNT      seeds of the mutations
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/hostile.h"
#include "tests/support/mutation.h"
#include "tests/support/suite.h"
#include "tests/support/windows_program.h"

#define TEST_TIMEOUT_SECONDS 1500
#define SEEDS_IN_A_TEST      50
#define TRUNCATION_STEP      997
#define FUNCTIONS            30

static const struct windows_program programs[] = {
    {.clang = "22", .target = WINDOWS_MSVC_X86_64, .functions = FUNCTIONS},
    {.clang = "22", .target = WINDOWS_MSVC_ARM64, .functions = FUNCTIONS},
    {.clang = "22",
     .target = WINDOWS_MSVC_I686,
     .functions = FUNCTIONS,
     .link_options = "/debug /release"},
    {.clang = "22", .target = WINDOWS_MINGW_LLD, .functions = FUNCTIONS},
    {.clang = "22",
     .target = WINDOWS_MSVC_X86_64,
     .functions = FUNCTIONS,
     .runtime_options = "-DPROFILE_MERGED",
     .link_options = "/debug /release"},
};

/* Of the programs. */
#define MINGW         3
#define MERGED        4

#define PROGRAM_COUNT (sizeof programs / sizeof *programs)

static char *scratch;
static char *images[PROGRAM_COUNT];
static unsigned long first_seed;
static unsigned long seed_count;

static void prepare(void)
{
    scratch = scratch_create("coff-bad");
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        char *directory = path_join(scratch, text_format("build%zu", i));
        directory_create(directory);
        windows_program_build(&programs[i], directory);
        images[i] = path_join(directory, WINDOWS_PROGRAM);
    }
}

static void clean_up(void)
{
    scratch_remove(scratch);
}

/* A new directory for one test. */
static char *test_directory(void)
{
    char *directory = path_join(scratch, text_format("test%d", (int)getpid()));
    directory_create(directory);
    return directory;
}

/* ---- damage ---- */

START_TEST(test_damaged)
{
    char *directory = test_directory();
    struct pe_file files[PROGRAM_COUNT];
    unsigned refused = 0, accepted = 0;
    unsigned long first = first_seed + (unsigned long)_i * SEEDS_IN_A_TEST;
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        files[i] = pe_file_read(images[i]);
    }
    for (unsigned long seed = first;
         seed < first + SEEDS_IN_A_TEST && seed < first_seed + seed_count; seed++) {
        struct verdict verdict = {0};
        char *description = NULL;
        int exit_code = -1;
        struct contents damaged = mutate_pe(&files[seed % PROGRAM_COUNT], seed, &description);
        hostile_split(directory, &damaged, &exit_code, &verdict);
        verdict_assert(&verdict, description);
        refused += exit_code == 1;
        accepted += exit_code == 0;
        contents_free(&damaged);
        free(description);
    }
    /* Mutations that are all refused, or all harmless, would show little. */
    ck_assert_msg(accepted + refused < SEEDS_IN_A_TEST || (accepted != 0 && refused != 0),
                  "%u accepted, %u refused", accepted, refused);
    directory_remove(directory);
}
END_TEST

START_TEST(test_truncated)
{
    char *directory = test_directory();
    struct contents image = file_read(images[0]);
    ck_assert_uint_gt(image.size, 20 * TRUNCATION_STEP);
    for (size_t size = 0; size < image.size; size += TRUNCATION_STEP) {
        struct verdict verdict = {0};
        struct contents cut = {image.data, size};
        int exit_code = -1;
        const char *label = text_format("%zu of %zu bytes", size, image.size);
        hostile_split(directory, &cut, &exit_code, &verdict);
        verdict_assert(&verdict, label);
        ck_assert_msg(exit_code == 1, "%s were accepted", label);
    }
}
END_TEST

/* ---- what is unusual ---- */

/* Splits what is in memory, with options, and gives what covsplit said. */
static const char *split_changed(const struct pe_file *pe, const char *directory,
                                 const char *options, int exit_code)
{
    struct command command =
        covsplit_command(directory, "split", "-o", "out", "--sidecar", "side", "input", NULL);
    text_list_add_words(&command.arguments, options);
    file_write(path_join(directory, "input"), pe->file.data, pe->file.size);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, exit_code), "%s", outcome_describe(&command, &outcome));
    const char *messages = text_format("%s", outcome.errors);
    outcome_free(&outcome);
    command_free(&command);
    return messages;
}

static void assert_joins(const char *directory)
{
    struct verdict verdict = {0};
    if (covsplit_expect(&verdict, 0, NULL, directory, "join", "--sidecar", "side", "-o", "joined",
                        "out", NULL)) {
        files_equal(path_join(directory, "joined"), path_join(directory, "input"), &verdict);
    }
    verdict_assert(&verdict, "join");
}

/* Appends bytes to the image. */
static void append(struct pe_file *pe, const void *data, size_t size)
{
    pe->file.data = realloc(pe->file.data, pe->file.size + size);
    ck_assert(pe->file.data != NULL);
    memcpy(pe->file.data + pe->file.size, data, size);
    pe->file.size += size;
}

/* Installers and self-extracting archives have their data behind the image. */
START_TEST(test_overlay)
{
    static const char overlay[] = "an archive behind the image";
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[_i]);
    append(&pe, overlay, sizeof overlay);
    ck_assert_str_eq(split_changed(&pe, directory, "", 0), "");
    struct contents out = file_read(path_join(directory, "out"));
    ck_assert_uint_lt(out.size, pe.file.size - 1000);
    ck_assert(memcmp(out.data + out.size - sizeof overlay, overlay, sizeof overlay) == 0);
    assert_joins(directory);
}
END_TEST

START_TEST(test_signature)
{
    static const uint8_t certificate[64] = {64, 0, 0, 0, 0, 2, 2, 0, 0x30};
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[2]);
    uint64_t entry = pe.directories + 4 * 8;
    pe_store_u32(&pe, entry, (uint32_t)pe.file.size);
    pe_store_u32(&pe, entry + 4, sizeof certificate);
    append(&pe, certificate, sizeof certificate);
    const char *messages = split_changed(&pe, directory, "", 1);
    ck_assert_msg(strstr(messages, "signed") != NULL, "%s", messages);
    ck_assert(!file_exists(path_join(directory, "out")));
    split_changed(&pe, directory, "--drop-signature", 0);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(pe_load_u32(&out, entry), 0);
    ck_assert_uint_eq(pe_load_u32(&out, entry + 4), 0);
    ck_assert_uint_eq(out.check_sum, pe_file_check_sum(&out));
    ck_assert_uint_le(out.file.size, pe.file.size - sizeof certificate - 1000);
    assert_joins(directory);
    /* To look at it is no change. */
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, directory, "show", "input", NULL);
    verdict_assert(&verdict, "show");
}
END_TEST

/* Changes that make the image one in which nothing can go. */
static void change_managed(struct pe_file *pe)
{
    pe_store_u32(pe, pe->directories + 14 * 8, pe->sections[0].virtual_address);
    pe_store_u32(pe, pe->directories + 14 * 8 + 4, 72);
}

static void change_alignment(struct pe_file *pe)
{
    pe_store_u32(pe, pe->optional_header + 32, 512);
}

static void change_overlapping(struct pe_file *pe)
{
    uint64_t pointer = pe_file_section(pe, ".lprfn")->header + 20;
    pe_store_u32(pe, pointer, pe_file_section(pe, ".lprfd")->raw_pointer);
}

static void change_gap(struct pe_file *pe)
{
    uint64_t address = pe_file_section(pe, ".lcovmap")->header + 12;
    pe_store_u32(pe, address, pe_load_u32(pe, address) + 0x10000);
}

static void change_directory(struct pe_file *pe)
{
    for (unsigned i = 0; i < 4; i++) {
        static const char *const names[] = {".lprfn", ".lprfd", ".lcovfun", ".lcovmap"};
        uint64_t entry = pe->directories + (uint64_t[]){2, 7, 8, 15}[i] * 8;
        pe_store_u32(pe, entry, pe_file_section(pe, names[i])->virtual_address + 1);
        pe_store_u32(pe, entry + 4, 1);
    }
}

static const struct {
    const char *reason;
    void (*change)(struct pe_file *pe);
} unsplittable[] = {
    {".NET", change_managed},
    {"not aligned to pages", change_alignment},
    {"overlap", change_overlapping},
    {"do not follow each other", change_gap},
    {"overlaps another part", change_directory},
};

START_TEST(test_unsplittable)
{
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    unsplittable[_i].change(&pe);
    const char *messages = split_changed(&pe, directory, "", 0);
    ck_assert_msg(text_count(messages, unsplittable[_i].reason) == 4 &&
                      strstr(messages, "nothing to take out") != NULL,
                  "%s", messages);
    struct verdict verdict = {0};
    files_equal(path_join(directory, "out"), path_join(directory, "input"), &verdict);
    verdict_assert(&verdict, unsplittable[_i].reason);
}
END_TEST

/* A section past the end of the file is damage. */
START_TEST(test_past_the_end)
{
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    pe_store_u32(&pe, pe_file_section(&pe, ".rdata")->header + 20, (uint32_t)pe.file.size);
    const char *messages = split_changed(&pe, directory, "", 1);
    ck_assert_msg(strstr(messages, "not inside the file") != NULL, "%s", messages);
}
END_TEST

/* Names of more than eight bytes are in the string table: "/4" is the first one there. */
START_TEST(test_long_name)
{
    static const char strings[] = "\x0d\0\0\0.lcovfun";
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    pe_store_u32(&pe, pe.coff_header + 8, (uint32_t)pe.file.size);
    uint64_t header = pe_file_section(&pe, ".lcovfun")->header;
    memcpy(pe.file.data + header, "/4\0\0\0\0\0", 8);
    append(&pe, strings, sizeof strings);
    ck_assert_str_eq(split_changed(&pe, directory, "", 0), "");
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(pe_file_section(&out, "/4")->raw_size, 0);
    ck_assert(memcmp(out.file.data + pe_load_u32(&out, out.coff_header + 8), strings,
                     sizeof strings) == 0);
    assert_joins(directory);
}
END_TEST

/* Another build's program, whose runtime is inlined: nothing says what could be changed. */
START_TEST(test_no_runtime)
{
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    const struct pe_section *text = pe_file_section(&pe, ".text");
    /* Every lea to %rax in front of a return becomes one to %rcx. */
    for (uint32_t i = 0; i + 8 <= text->raw_size; i++) {
        uint8_t *at = pe.file.data + text->raw_pointer + i;
        if (memcmp(at, "\x48\x8d\x05", 3) == 0 && at[7] == 0xc3) {
            at[2] = 0x0d;
        }
    }
    const char *messages = split_changed(&pe, directory, "", 0);
    ck_assert_uint_eq(text_count(messages, "--map"), 2);
    ck_assert(strstr(messages, ".lprfn stays: no function can be told") != NULL);
    assert_joins(directory);
}
END_TEST

/* ---- what only a map file tells ---- */

/* Builds a variant of the first program, and splits it; gives what covsplit said. */
static const char *split_variant(const struct windows_program *program, const char *directory,
                                 const char *options)
{
    windows_program_build(program, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    const char *messages = split_changed(&pe, directory, options, 0);
    assert_joins(directory);
    pe_file_free(&pe);
    return messages;
}

static bool is_removed(const char *directory, const char *name)
{
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    const struct pe_section *section = pe_file_section(&out, name);
    bool removed = section == NULL || section->raw_size == 0;
    pe_file_free(&out);
    return removed;
}

/* With a map file the result is the same as without, where both can tell. */
START_TEST(test_map)
{
    if (_i == MINGW) {
        return; /* it has symbols */
    }
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[_i]);
    struct verdict verdict = {0};
    ck_assert_str_eq(split_changed(&pe, directory, "", 0), "");
    ck_assert_str_eq(split_changed(&pe, directory,
                                   text_format("--map %s.map -o named --sidecar other", images[_i]),
                                   0),
                     "");
    files_equal(path_join(directory, "named"), path_join(directory, "out"), &verdict);
    verdict_assert(&verdict, "the two images");
}
END_TEST

/* The map of another program names places where other code is. */
START_TEST(test_wrong_map)
{
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    const char *messages = split_changed(&pe, directory, text_format("--map %s.map", images[1]), 0);
    ck_assert(!is_removed(directory, ".lprfn"));
    ck_assert_msg(text_count(messages, " stays: ") == 2, "%s", messages);
    assert_joins(directory);
}
END_TEST

/* ---- records that the linker merged into .data ---- */

/* Changes after which nothing proves that they are records; `part` has them, between markers. */
static void change_name(struct pe_file *pe, const struct pe_section *part)
{
    pe->file.data[part->raw_pointer + (uint64_t)part->virtual_size / 2 / 64 * 64] ^= 1;
}

static void change_front_marker(struct pe_file *pe, const struct pe_section *part)
{
    pe->file.data[part->raw_pointer] = 1;
}

static void change_back_marker(struct pe_file *pe, const struct pe_section *part)
{
    pe->file.data[part->raw_pointer + part->virtual_size - 1] = 1;
}

static void change_counters(struct pe_file *pe, const struct pe_section *part)
{
    pe_store_u32(pe, part->raw_pointer + part->virtual_size - 2 * 64 + 48, 1u << 20);
}

static void (*const unproven[])(struct pe_file *pe, const struct pe_section *part) = {
    change_name, change_front_marker, change_back_marker, change_counters};

#define UNPROVEN_COUNT ((int)(sizeof unproven / sizeof *unproven))

/* All that covsplit knows then is what a map file tells. */
static void assert_records_stay(const struct pe_file *pe, const char *directory, const char *map)
{
    const char *messages = split_changed(pe, directory, "", 0);
    ck_assert_msg(strstr(messages, ".lprfn stays") != NULL && strstr(messages, "--map") != NULL,
                  "%s", messages);
    ck_assert(!is_removed(directory, ".lprfn"));
    assert_joins(directory);
    ck_assert_str_eq(split_changed(pe, directory, text_format("--map %s", map), 0), "");
    ck_assert(is_removed(directory, ".lprfn"));
    assert_joins(directory);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    const struct pe_section *left = pe_file_section(&out, ".data");
    const struct pe_section *data = pe_file_section(pe, ".data");
    ck_assert_uint_eq(left->raw_size, data->raw_size);
    ck_assert(memcmp(out.file.data + left->raw_pointer, pe->file.data + data->raw_pointer,
                     data->raw_size) == 0);
}

START_TEST(test_merged_unproven)
{
    const char *map = text_format("%s.map", images[MERGED]);
    struct pe_file pe = pe_file_read(images[MERGED]);
    struct pe_section part = pe_file_part(&pe, map, ".lprfd");
    unproven[_i](&pe, &part);
    assert_records_stay(&pe, test_directory(), map);
}
END_TEST

/* Runtimes up to LLVM 17 have the counters merged too. */
START_TEST(test_merged_counters)
{
    char *directory = test_directory();
    struct windows_program program = programs[MERGED];
    program.link_options = "/debug /merge:.lprfc=.data";
    windows_program_build(&program, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    assert_records_stay(&pe, directory, WINDOWS_PROGRAM ".map");
}
END_TEST

/* An image from which nothing but the records went still is known to be split. */
START_TEST(test_merged_alone)
{
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[MERGED]);
    ck_assert_str_eq(split_changed(&pe, directory, "--sections data", 0), "");
    assert_joins(directory);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    struct pe_section part = pe_file_part(&pe, text_format("%s.map", images[MERGED]), ".lprfd");
    ck_assert_uint_ge(pe.file.size - out.file.size, part.virtual_size - 2 * 64 - pe.file_alignment);
    const char *messages = split_changed(&out, directory, "-o again --sidecar other", 0);
    ck_assert_msg(strstr(messages, "split already") != NULL, "%s", messages);
}
END_TEST

/* Zeros stay where the program's own data is behind the records. */
START_TEST(test_merged_followed)
{
    char *directory = test_directory();
    struct windows_program program = programs[MERGED];
    program.runtime_options = "-DPROFILE_MERGED -DPROFILE_FOLLOWED";
    const char *messages = split_variant(&program, directory, "");
    ck_assert_msg(text_count(messages, "warning") == 1 &&
                      strstr(messages, ".lprfd is filled with zeros: the linker merged it into "
                                       ".data, where other data follows") != NULL,
                  "%s", messages);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    const struct pe_section *data = pe_file_section(&pe, ".data");
    const struct pe_section *left = pe_file_section(&out, ".data");
    struct pe_section part =
        pe_file_part(&pe, path_join(directory, WINDOWS_PROGRAM ".map"), ".lprfd");
    uint64_t stub = part.raw_pointer - data->raw_pointer + 64;
    uint64_t end = stub - 64 + part.virtual_size;
    const uint8_t *old = pe.file.data + data->raw_pointer, *new = out.file.data + left->raw_pointer;
    ck_assert_uint_eq(left->raw_size, data->raw_size);
    ck_assert(memcmp(old, new, stub) == 0);
    ck_assert(memcmp(old + end, new + end, data->raw_size - end) == 0);
    ck_assert_uint_ne(pe_load_u32(&out, left->raw_pointer + stub), 0);
    for (uint64_t i = stub + 64; i < end; i++) {
        ck_assert_uint_eq(new[i], 0);
    }
}
END_TEST

/* ---- what nothing tells ---- */

/* Functions that became part of the writer cannot be changed. */
START_TEST(test_inlined_runtime)
{
    if (_i == MINGW) {
        return;
    }
    char *directory = test_directory();
    struct windows_program program = programs[_i];
    program.runtime_options = _i == MERGED ? "-flto -DPROFILE_MERGED" : "-flto";
    const char *messages = split_variant(&program, directory, "");
    ck_assert_msg(strstr(messages, ".lprfn stays") != NULL &&
                      strstr(messages, ".lprfd stays") != NULL,
                  "%s", messages);
    ck_assert(!is_removed(directory, ".lprfn"));
    ck_assert(is_removed(directory, ".lcovfun"));
}
END_TEST

START_TEST(test_binary_correlation)
{
    char *directory = test_directory();
    struct windows_program program = programs[0];
    program.instrumentation = INSTRUMENT_COVERAGE " -mllvm -profile-correlate=binary";
    const char *messages = split_variant(&program, directory, "");
    ck_assert_msg(text_count(messages, "-profile-correlate=binary") == 2, "%s", messages);
    ck_assert(is_removed(directory, ".lcovfun"));
    ck_assert(!is_removed(directory, ".lcovd"));
}
END_TEST

START_TEST(test_no_coverage)
{
    char *directory = test_directory();
    struct windows_program plain = programs[_i];
    plain.instrumentation = "-O1";
    /* Without instrumented objects the runtime's sections have nothing but its markers. */
    windows_program_build(&plain, directory);
    struct verdict verdict = {0};
    const char *messages = "";
    covsplit_expect(&verdict, 0, &messages, directory, "split", "-o", "out", "--sidecar", "side",
                    WINDOWS_PROGRAM, NULL);
    verdict_assert(&verdict, "split");
    ck_assert_msg(strstr(messages, "nothing to take out") != NULL, "%s", messages);
    files_equal(path_join(directory, "out"), path_join(directory, WINDOWS_PROGRAM), &verdict);
    verdict_assert(&verdict, "the copy");
}
END_TEST

#ifdef COVSPLIT_WITH_LIEF
/* A second reader that sees something else makes verify fail; one that fails itself only makes it
 * say so. */
START_TEST(test_second_reader)
{
    static const struct {
        int exit_code;
        const char *message;
    } answers[] = {
        {0, "LIEF cannot read it"},
        {0, "LIEF cannot read it"},
        {1, "where LIEF reads 'entry 0x1, base 0x0, size 0x0'"},
    };
    char *directory = test_directory();
    struct pe_file pe = pe_file_read(images[0]);
    split_changed(&pe, directory, "", 0);
    run_or_abort(directory, "gcc", "-shared", "-fPIC", text_format("-DANSWER=%d", _i), "-o",
                 "libLIEF.so.0", path_join(COVSPLIT_FIXTURE_DIRECTORY, "windows/other_reader.c"),
                 NULL);
    struct command command = covsplit_command(directory, "verify", "--image", "out", "side", NULL);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", directory);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, answers[_i].exit_code) &&
                      strstr(outcome.errors, answers[_i].message) != NULL,
                  "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
}
END_TEST
#endif

static void add_files(Suite *suite)
{
    TCase *test_case = suite_add_case(suite, "files", TEST_TIMEOUT_SECONDS);
    tcase_add_unchecked_fixture(test_case, prepare, clean_up);
    tcase_add_test(test_case, test_truncated);
    tcase_add_loop_test(test_case, test_overlay, 0, PROGRAM_COUNT);
    tcase_add_test(test_case, test_signature);
    tcase_add_loop_test(test_case, test_unsplittable, 0,
                        sizeof unsplittable / sizeof *unsplittable);
    tcase_add_test(test_case, test_past_the_end);
#ifdef COVSPLIT_WITH_LIEF
    tcase_add_loop_test(test_case, test_second_reader, 0, 3);
#endif
    tcase_add_test(test_case, test_long_name);
    tcase_add_test(test_case, test_no_runtime);
    tcase_add_loop_test(test_case, test_map, 0, PROGRAM_COUNT);
    tcase_add_test(test_case, test_wrong_map);
    tcase_add_loop_test(test_case, test_merged_unproven, 0, UNPROVEN_COUNT);
    tcase_add_test(test_case, test_merged_counters);
    tcase_add_test(test_case, test_merged_alone);
    tcase_add_test(test_case, test_merged_followed);
    tcase_add_loop_test(test_case, test_inlined_runtime, 0, PROGRAM_COUNT);
    tcase_add_test(test_case, test_binary_correlation);
    tcase_add_loop_test(test_case, test_no_coverage, 0, PROGRAM_COUNT);
}

int main(int argument_count, char **arguments)
{
    /* Thousands of small files that nobody keeps: in memory, where there is a place for that. */
    if (access("/dev/shm", W_OK) == 0) {
        setenv("TMPDIR", "/dev/shm", 0);
    }
    Suite *suite = suite_create("bad COFF images");
    if (argument_count == 2 && strcmp(arguments[1], "files") == 0) {
        add_files(suite);
    } else if (argument_count == 4 && strcmp(arguments[1], "images") == 0) {
        first_seed = strtoul(arguments[2], NULL, 10);
        seed_count = strtoul(arguments[3], NULL, 10);
        TCase *test_case = suite_add_case(suite, "images", TEST_TIMEOUT_SECONDS);
        tcase_add_unchecked_fixture(test_case, prepare, clean_up);
        tcase_add_loop_test(test_case, test_damaged, 0,
                            (int)((seed_count + SEEDS_IN_A_TEST - 1) / SEEDS_IN_A_TEST));
    } else {
        fprintf(stderr, "usage: %s files | images FIRST COUNT\n", arguments[0]);
        return EXIT_FAILURE;
    }
    return suite_run(suite);
}
