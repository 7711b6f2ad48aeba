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
#include "tests/support/mutation.h"
#include "tests/support/windows_image.h"

#define TRUNCATION_STEP 997

#define WINE_DIRECTORY  "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows"
/* Every so many of its images. */
#define FOREIGN_STEP 40

/* ---- damage ---- */

static struct pe_file files[WINDOWS_IMAGES];

static struct contents damage(unsigned long seed, char **description)
{
    return mutate_pe(&files[seed % WINDOWS_IMAGES], seed, description);
}

START_TEST(test_damaged)
{
    char *directory = windows_images_directory();
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        files[i] = pe_file_read(windows_images[i]);
    }
    hostile_run_seeds(_i, directory, damage, hostile_split, true);
    directory_remove(directory);
}
END_TEST

START_TEST(test_truncated)
{
    char *directory = windows_images_directory();
    struct contents whole[WINDOWS_IMAGES];
    size_t size = 0;
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        whole[i] = file_read(windows_images[i]);
    }
    /* Each size with another image. */
    for (size_t i = 0; size < whole[i].size;
         size += TRUNCATION_STEP * rounds_step(), i = (i + 1) % WINDOWS_IMAGES) {
        struct verdict verdict = {0};
        struct contents cut = {whole[i].data, size};
        int exit_code = -1;
        const char *label = text_format("%zu of %zu bytes of %zu", size, whole[i].size, i);
        hostile_split(directory, &cut, &exit_code, &verdict);
        verdict_assert(&verdict, label);
        ck_assert_msg(exit_code == 1, "%s were accepted", label);
    }
    ck_assert_uint_gt(size, 20 * TRUNCATION_STEP);
}
END_TEST

/* ---- what is unusual ---- */

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
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[_i]);
    append(&pe, overlay, sizeof overlay);
    ck_assert_str_eq(windows_image_split(&pe, directory, "", 0), "");
    struct contents out = file_read(path_join(directory, "out"));
    ck_assert_uint_lt(out.size, pe.file.size - 1000);
    ck_assert(memcmp(out.data + out.size - sizeof overlay, overlay, sizeof overlay) == 0);
    windows_image_assert_joins(directory);
}
END_TEST

/* What the debug directory tells of may be behind the image too; it moves. */
START_TEST(test_debug_data)
{
    uint8_t record[64];
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[_i]);
    uint64_t pointer = pe_file_debug_directory(&pe) + 24;
    memcpy(record, pe.file.data + pe_load_u32(&pe, pointer), sizeof record);
    ck_assert(memcmp(record, "RSDS", 4) == 0);
    pe_store_u32(&pe, pointer, (uint32_t)pe.file.size);
    append(&pe, record, sizeof record);
    ck_assert_str_eq(windows_image_split(&pe, directory, "", 0), "");
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    uint32_t found = pe_load_u32(&out, pe_file_debug_directory(&out) + 24);
    ck_assert_uint_lt(out.file.size, pe.file.size - 1000);
    ck_assert_uint_eq(found, out.file.size - sizeof record);
    ck_assert(memcmp(out.file.data + found, record, sizeof record) == 0);
    windows_image_assert_joins(directory);
}
END_TEST

START_TEST(test_signature)
{
    static const uint8_t certificate[64] = {64, 0, 0, 0, 0, 2, 2, 0, 0x30};
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_I686]);
    uint64_t entry = pe.directories + 4 * 8;
    pe_store_u32(&pe, entry, (uint32_t)pe.file.size);
    pe_store_u32(&pe, entry + 4, sizeof certificate);
    append(&pe, certificate, sizeof certificate);
    const char *messages = windows_image_split(&pe, directory, "", 1);
    ck_assert_msg(strstr(messages, "signed") != NULL, "%s", messages);
    ck_assert(!file_exists(path_join(directory, "out")));
    windows_image_split(&pe, directory, "--drop-signature", 0);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(pe_load_u32(&out, entry), 0);
    ck_assert_uint_eq(pe_load_u32(&out, entry + 4), 0);
    ck_assert_uint_eq(out.check_sum, pe_file_check_sum(&out));
    ck_assert_uint_le(out.file.size, pe.file.size - sizeof certificate - 1000);
    windows_image_assert_joins(directory);
    /* To look at it is no change. */
    covsplit_run_words(directory, 0, "show input");
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

/* What follows would not be aligned any more. */
static void change_raw_size(struct pe_file *pe)
{
    uint64_t size = pe_file_section(pe, ".lprfn")->header + 16;
    pe_store_u32(pe, size, pe_load_u32(pe, size) - 8);
}

static const char *const coverage_sections[] = {".lprfn", ".lprfd", ".lcovfun", ".lcovmap"};

#define COVERAGE_SECTIONS (sizeof coverage_sections / sizeof *coverage_sections)

/* Loaders take the size in the file for it, and that would be none. */
static void change_virtual_size(struct pe_file *pe)
{
    for (size_t i = 0; i < COVERAGE_SECTIONS; i++) {
        pe_store_u32(pe, pe_file_section(pe, coverage_sections[i])->header + 8, 0);
    }
}

static void change_directory(struct pe_file *pe)
{
    for (size_t i = 0; i < COVERAGE_SECTIONS; i++) {
        uint64_t entry = pe->directories + (uint64_t[]){2, 7, 8, 15}[i] * 8;
        pe_store_u32(pe, entry, pe_file_section(pe, coverage_sections[i])->virtual_address + 1);
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
    {"not aligned, in the file", change_raw_size},
    {"its size in memory is given only by", change_virtual_size},
    {"overlaps another part", change_directory},
};

START_TEST(test_unsplittable)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    unsplittable[_i].change(&pe);
    const char *messages = windows_image_split(&pe, directory, "", 0);
    ck_assert_msg(text_count(messages, unsplittable[_i].reason) == 4 &&
                      strstr(messages, "nothing to take out") != NULL,
                  "%s", messages);
    files_assert_equal(path_join(directory, "out"), path_join(directory, "input"),
                       unsplittable[_i].reason);
}
END_TEST

/* A section past the end of the file is damage. */
START_TEST(test_past_the_end)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    pe_store_u32(&pe, pe_file_section(&pe, ".rdata")->header + 20, (uint32_t)pe.file.size);
    const char *messages = windows_image_split(&pe, directory, "", 1);
    ck_assert_msg(strstr(messages, "not inside the file") != NULL, "%s", messages);
}
END_TEST

/* Names of more than eight bytes are in the string table: "/4" is the first one there. */
START_TEST(test_long_name)
{
    static const char strings[] = "\x0d\0\0\0.lcovfun";
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    pe_store_u32(&pe, pe.coff_header + 8, (uint32_t)pe.file.size);
    uint64_t header = pe_file_section(&pe, ".lcovfun")->header;
    memcpy(pe.file.data + header, "/4\0\0\0\0\0", 8);
    append(&pe, strings, sizeof strings);
    ck_assert_str_eq(windows_image_split(&pe, directory, "", 0), "");
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(pe_file_section(&out, "/4")->raw_size, 0);
    ck_assert(memcmp(out.file.data + pe_load_u32(&out, out.coff_header + 8), strings,
                     sizeof strings) == 0);
    windows_image_assert_joins(directory);
}
END_TEST

/* Such an image is passed on as it is. */
static void assert_passed_on(const struct pe_file *pe, const char *directory, const char *what)
{
    const char *messages = windows_image_split(pe, directory, "", 0);
    ck_assert_msg(strstr(messages, "nothing to take out") != NULL, "%s: %s", what, messages);
    files_assert_equal(path_join(directory, "out"), path_join(directory, "input"), what);
}

START_TEST(test_no_coverage)
{
    char *directory = windows_images_directory();
    struct windows_program plain = windows_image_programs[_i];
    plain.instrumentation = "-O1";
    /* Without instrumented objects the runtime's sections have nothing but its markers. */
    windows_program_build(&plain, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    assert_passed_on(&pe, directory, "no coverage");
    change_managed(&pe);
    assert_passed_on(&pe, directory, ".NET");
}
END_TEST

/* Drivers, libraries and programs that others have built: those of wine. */
START_TEST(test_foreign)
{
    char *directory = windows_images_directory();
    struct text_list names = directory_list(WINE_DIRECTORY);
    unsigned drivers = 0, others = 0;
    for (size_t i = 0; i < names.count; i++) {
        bool is_driver = strstr(names.items[i], ".sys") != NULL;
        if (is_driver || i % FOREIGN_STEP == 0) {
            struct pe_file pe = pe_file_read(path_join(WINE_DIRECTORY, names.items[i]));
            assert_passed_on(&pe, directory, names.items[i]);
            pe_file_free(&pe);
            *(is_driver ? &drivers : &others) += 1;
        }
    }
    ck_assert_msg(drivers > 5 && others > 5, "%u drivers, %u others", drivers, others);
}
END_TEST

#ifdef COVSPLIT_WITH_LIEF
/* A second reader that sees something else makes verify fail; one that fails itself only makes it
 * say so. */
static void check_second_reader(char *directory, int answer, const char *seen)
{
    run_or_abort(directory, "gcc", "-shared", "-fPIC", text_format("-DANSWER=%d", answer), "-o",
                 "libLIEF.so.0", path_join(COVSPLIT_FIXTURE_DIRECTORY, "windows/other_reader.c"),
                 NULL);
    struct command command = covsplit_command(directory, "verify", "--image", "out", "side", NULL);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", directory);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, answer == 2 ? 1 : 0) &&
                      strstr(outcome.errors, answer == 2 ? seen : "LIEF cannot read it") != NULL,
                  "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
}

START_TEST(test_second_reader)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    windows_image_split(&pe, directory, "", 0);
    check_second_reader(directory, _i, "but LIEF reads 'entry 0x1, base 0x0, size 0x0'");
}
END_TEST

START_TEST(test_second_reader_of_elf)
{
    char *directory = windows_images_directory();
    covsplit_run_words(directory, 0, "split --sidecar side -o out /proc/self/exe");
    check_second_reader(directory, _i, "but LIEF reads 'type 0, machine 0, entry 0x1, ");
}
END_TEST
#endif

int main(int argument_count, char **arguments)
{
    TCase *test_case = suite_case("bad", 1500, windows_images_build);
    hostile_in_memory();
    if (argument_count == 4 && strcmp(arguments[1], "images") == 0) {
        hostile_seeds(arguments[2], arguments[3]);
        suite_loops(test_case, hostile_tests(), test_damaged);
    } else if (argument_count == 2 && strcmp(arguments[1], "files") == 0) {
        suite_tests(test_case, test_truncated, test_signature, test_past_the_end, test_long_name,
                    test_foreign);
        suite_loops(test_case, WINDOWS_IMAGES, test_overlay, test_debug_data, test_no_coverage);
        suite_loops(test_case, sizeof unsplittable / sizeof *unsplittable, test_unsplittable);
#ifdef COVSPLIT_WITH_LIEF
        suite_loops(test_case, 3, test_second_reader);
        suite_loops(test_case, 3, test_second_reader_of_elf);
#endif
    } else {
        return suite_usage(arguments[0], "files | images FIRST COUNT");
    }
    return suite_main("bad COFF images", test_case);
}
