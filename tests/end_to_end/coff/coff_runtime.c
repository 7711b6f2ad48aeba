/*
 * Finding the profile runtime in COFF images: without symbols, by map files, among other data; and
 * what is done where nothing tells.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/windows_image.h"

/* Another build's program, whose runtime is inlined: nothing says what could be changed. */
START_TEST(test_no_runtime)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    const struct pe_section *text = pe_file_section(&pe, ".text");
    /* Every lea to %rax in front of a return becomes one to %rcx. */
    for (uint32_t i = 0; i + 8 <= text->raw_size; i++) {
        uint8_t *at = pe.file.data + text->raw_pointer + i;
        if (memcmp(at, "\x48\x8d\x05", 3) == 0 && at[7] == 0xc3) {
            at[2] = 0x0d;
        }
    }
    const char *messages = windows_image_split(&pe, directory, "", 0);
    ck_assert_uint_eq(text_count(messages, "--map"), 2);
    ck_assert(strstr(messages, ".lprfn stays: covsplit cannot tell which function is") != NULL);
    windows_image_assert_joins(directory);
}
END_TEST

/* ---- what only a map file tells ---- */

/* With a map file the result is the same as without, where both can tell. */
static void assert_map_says_the_same(const char *directory, const char *map)
{
    struct pe_file pe = pe_file_read(path_join(directory, "input"));
    const char *options = text_format("--map %s -o named --sidecar other", map);
    ck_assert_str_eq(windows_image_split(&pe, directory, options, 0), "");
    files_assert_equal(path_join(directory, "named"), path_join(directory, "out"),
                       "the two images");
}

static const char *read_map(size_t image)
{
    struct contents map = file_read(text_format("%s.map", windows_images[image]));
    return text_format("%.*s", (int)map.size, (const char *)map.data);
}

static const char *write_map(const char *directory, const char *text)
{
    const char *path = path_join(directory, "written.map");
    file_write(path, text, strlen(text));
    return path;
}

START_TEST(test_map)
{
    if (_i == WINDOWS_IMAGE_MINGW) {
        return; /* it has symbols */
    }
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[_i]);
    ck_assert_str_eq(windows_image_split(&pe, directory, "", 0), "");
    assert_map_says_the_same(directory, text_format("%s.map", windows_images[_i]));
    /* MSVC's linker has a column that tells what is a function, and Windows' line ends. */
    const char *text = text_replace(read_map((size_t)_i), "     sections.o", " f   sections.o");
    ck_assert_uint_ge(text_count(text, " f   sections.o"), 8);
    assert_map_says_the_same(directory, write_map(directory, text_replace(text, "\n", "\r\n")));
}
END_TEST

/* What MSVC's linker makes for incremental linking: the functions' names stand for jumps to them.
 */
START_TEST(test_thunks)
{
    static const char *const functions[] = {"__llvm_profile_begin_names",
                                            "__llvm_profile_end_names", "__llvm_profile_begin_data",
                                            "__llvm_profile_end_data"};
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    const struct pe_section *text = pe_file_section(&pe, ".text");
    const char *map = read_map(WINDOWS_IMAGE_X86_64);
    uint64_t base = 0x140000000;
    uint32_t thunk = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const char *line = strstr(map, functions[i]);
        uint64_t function = strtoull(line + strlen(functions[i]), NULL, 16);
        /* Between functions, on Windows, there are breakpoints. */
        uint8_t *code = pe.file.data + text->raw_pointer;
        while (memcmp(code + thunk, "\xcc\xcc\xcc\xcc\xcc", 5) != 0) {
            ck_assert_uint_lt(++thunk + 5, text->virtual_size);
        }
        uint64_t address = base + text->virtual_address + thunk;
        code[thunk] = 0xe9;
        pe_store_u32(&pe, text->raw_pointer + thunk + 1, (uint32_t)(function - address - 5));
        map = text_replace(map, text_format("%016llx", (unsigned long long)function),
                           text_format("%016llx", (unsigned long long)address));
    }
    ck_assert_str_eq(windows_image_split(&pe, directory, "", 0), "");
    assert_map_says_the_same(directory, write_map(directory, map));
}
END_TEST

/* The map of another program names places where other code is. */
START_TEST(test_wrong_map)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    const char *messages = windows_image_split(
        &pe, directory, text_format("--map %s.map", windows_images[WINDOWS_IMAGE_ARM64]), 0);
    ck_assert(!windows_image_lacks(directory, ".lprfn"));
    ck_assert_msg(text_count(messages, " stays: ") == 2, "%s", messages);
    windows_image_assert_joins(directory);
}
END_TEST

/* lld has a form of its own for the maps of mingw images. What is not understood tells nothing, and
 * must not be taken for advice that was followed. */
START_TEST(test_other_map)
{
    char *directory = windows_images_directory();
    struct windows_program program = windows_image_programs[WINDOWS_IMAGE_MINGW];
    program.link_options = "-s -Wl,-Map=other.map";
    program.runtime_options = "-DPROFILE_REFERENCE";
    ck_assert_str_eq(windows_image_split_variant(&program, directory, ""), "");
    struct pe_file pe = pe_file_read(path_join(directory, "input"));
    const char *maps[] = {"other.map", "empty.map", "input"};
    file_write(path_join(directory, "empty.map"), "", 0);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        const char *options = text_format("--map %s -o none --sidecar none.side", maps[i]);
        const char *messages = windows_image_split(&pe, directory, options, 1);
        ck_assert_msg(strstr(messages, text_format("%s: not a map file", maps[i])) != NULL, "%s",
                      messages);
        ck_assert(!file_exists(path_join(directory, "none")));
    }
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

static void assert_same_section(const struct pe_file *pe, const struct pe_file *out)
{
    const struct pe_section *left = pe_file_section(out, ".data");
    const struct pe_section *data = pe_file_section(pe, ".data");
    ck_assert_uint_eq(left->raw_size, data->raw_size);
    ck_assert(memcmp(out->file.data + left->raw_pointer, pe->file.data + data->raw_pointer,
                     data->raw_size) == 0);
}

static void assert_same_data(const struct pe_file *pe, const char *directory)
{
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    assert_same_section(pe, &out);
}

static void assert_names_stay(const struct pe_file *pe, const char *directory, const char *options,
                              const char *reason)
{
    const char *messages = windows_image_split(pe, directory, options, 0);
    ck_assert_msg(strstr(messages, ".lprfn stays") != NULL && strstr(messages, reason) != NULL,
                  "%s", messages);
    ck_assert(!windows_image_lacks(directory, ".lprfn"));
    assert_same_data(pe, directory);
    windows_image_assert_joins(directory);
}

/* The records are as they were, but for the NameRef of the first one, to which a digest was added.
 */
static void assert_first_record_changed(const struct pe_file *pe, const char *directory,
                                        const char *map)
{
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    uint64_t record = pe_file_part(pe, map, ".lprfd").raw_pointer + 64;
    uint64_t place = record - pe_file_section(pe, ".data")->raw_pointer +
                     pe_file_section(&out, ".data")->raw_pointer;
    ck_assert(memcmp(out.file.data + place, pe->file.data + record, sizeof(uint64_t)) != 0);
    memcpy(out.file.data + place, pe->file.data + record, sizeof(uint64_t));
    assert_same_section(pe, &out);
}

/* All that covsplit knows then is what a map file tells. */
static void assert_records_stay(const struct pe_file *pe, const char *directory, const char *map)
{
    assert_names_stay(pe, directory, "", "--map");
    const char *messages = windows_image_split(pe, directory, text_format("--map %s", map), 0);
    ck_assert_msg(text_count(messages, "warning") == 1 &&
                      strstr(messages, ".lprfd stays: the linker merged it") != NULL,
                  "%s", messages);
    ck_assert(windows_image_lacks(directory, ".lprfn"));
    windows_image_assert_joins(directory);
    assert_first_record_changed(pe, directory, map);
}

START_TEST(test_merged_unproven)
{
    const char *map = text_format("%s.map", windows_images[WINDOWS_IMAGE_MERGED]);
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_MERGED]);
    struct pe_section part = pe_file_part(&pe, map, ".lprfd");
    unproven[_i](&pe, &part);
    assert_records_stay(&pe, windows_images_directory(), map);
}
END_TEST

/* Runtimes up to LLVM 17 have the counters merged too. How many there are no header tells then, and
 * profiles without names could not be completed. */
START_TEST(test_merged_counters)
{
    char *directory = windows_images_directory();
    struct windows_program program = windows_image_programs[WINDOWS_IMAGE_MERGED];
    program.link_options = "/debug /merge:.lprfc=.data";
    windows_program_build(&program, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    assert_names_stay(&pe, directory, "", "LLVM 17");
    const char *messages = windows_image_split(&pe, directory, "", 0);
    ck_assert_msg(text_count(messages, "LLVM 17") == 2 && text_count(messages, "--map") == 0, "%s",
                  messages); /* nothing would be gained by a map file */
    assert_names_stay(&pe, directory, "--map " WINDOWS_PROGRAM ".map", "LLVM 17");
}
END_TEST

/* The first pointer that the base relocations tell of. */
static uint64_t find_pointer(const struct pe_file *pe)
{
    uint64_t block = pe_file_section(pe, ".reloc")->raw_pointer;
    uint32_t entry = pe_load_u32(pe, block + 8) & 0xffff;
    ck_assert_uint_eq(entry >> 12, 10);
    return pe_file_offset(pe, pe_load_u32(pe, block) + (entry & 0xfff));
}

/* A program may keep the address of a record. */
START_TEST(test_merged_referenced)
{
    const char *map = text_format("%s.map", windows_images[WINDOWS_IMAGE_MERGED]);
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_MERGED]);
    struct pe_section part = pe_file_part(&pe, map, ".lprfd");
    uint32_t record = part.virtual_size / 2 / 64 * 64;
    uint64_t pointer = find_pointer(&pe);
    ck_assert(pointer < part.raw_pointer || pointer >= part.raw_pointer + part.virtual_size);
    pe_store_u32(&pe, pointer, 0x40000000 + part.virtual_address + record + (uint32_t)_i);
    const char *messages = windows_image_split(&pe, directory, "", 0);
    ck_assert_msg(text_count(messages, "warning") == 1 &&
                      strstr(messages, " refers to it, other than the runtime's") != NULL,
                  "%s", messages);
    ck_assert(windows_image_lacks(directory, ".lprfn"));
    assert_first_record_changed(&pe, directory, map);
    windows_image_assert_joins(directory);
}
END_TEST

/* What is at the address of the first one is not what it was once names go, so these stay too. */
START_TEST(test_merged_watched)
{
    const char *map = text_format("%s.map", windows_images[WINDOWS_IMAGE_MERGED]);
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_MERGED]);
    struct pe_section part = pe_file_part(&pe, map, ".lprfd");
    pe_store_u32(&pe, find_pointer(&pe), 0x40000000 + part.virtual_address + 64);
    assert_names_stay(&pe, directory, "", ".lprfd stays");
}
END_TEST

/* An image from which nothing but names and records went still is known to be split, with its GUID
 * or without. */
START_TEST(test_merged_alone)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_MERGED]);
    if (_i == 1) {
        pe_store_u32(&pe, pe.directories + 6 * 8 + 4, 0);
    }
    ck_assert_str_eq(windows_image_split(&pe, directory, "--sections names,data", 0), "");
    windows_image_assert_joins(directory);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    struct pe_section part =
        pe_file_part(&pe, text_format("%s.map", windows_images[WINDOWS_IMAGE_MERGED]), ".lprfd");
    ck_assert_uint_ge(pe.file.size - out.file.size, part.virtual_size - 2 * 64 - pe.file_alignment);
    const char *messages = windows_image_split(&out, directory, "-o again --sidecar other", 0);
    ck_assert_msg(strstr(messages, "split already") != NULL, "%s", messages);
}
END_TEST

/* Without a GUID, and with names that stay, only the digest of the stripped image is left. */
START_TEST(test_without_uuid)
{
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_X86_64]);
    pe_store_u32(&pe, pe.directories + 6 * 8 + 4, 0);
    ck_assert_str_eq(windows_image_split(&pe, directory, "--sections covmap,covfun", 0), "");
    struct command command =
        covsplit_command(directory, "run", "--sidecar", "side", "--", "head", "-c4", "out", NULL);
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_str_eq(outcome.errors, "");
    ck_assert_str_eq(outcome.output, "\177ELF"); /* the object of its sidecar */
}
END_TEST

/* Zeros stay where the program's own data is behind the records. */
START_TEST(test_merged_followed)
{
    char *directory = windows_images_directory();
    struct windows_program program = windows_image_programs[WINDOWS_IMAGE_MERGED];
    program.runtime_options = "-DPROFILE_MERGED -DPROFILE_FOLLOWED";
    const char *messages = windows_image_split_variant(&program, directory, "");
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

/* So it is where another part of the image has a claim to what is behind them. */
START_TEST(test_merged_claimed)
{
    const char *map = text_format("%s.map", windows_images[WINDOWS_IMAGE_MERGED]);
    char *directory = windows_images_directory();
    struct pe_file pe = pe_file_read(windows_images[WINDOWS_IMAGE_MERGED]);
    struct pe_section part = pe_file_part(&pe, map, ".lprfd");
    uint64_t resources = pe.directories + 2 * 8;
    pe_store_u32(&pe, resources, part.virtual_address + part.virtual_size + 8);
    pe_store_u32(&pe, resources + 4, 8);
    const char *messages = windows_image_split(&pe, directory, "", 0);
    ck_assert_msg(text_count(messages, "warning") == 1 &&
                      strstr(messages, "where other data follows") != NULL,
                  "%s", messages);
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(pe_file_section(&out, ".data")->raw_size,
                      pe_file_section(&pe, ".data")->raw_size);
    windows_image_assert_joins(directory);
}
END_TEST

/* ---- what nothing tells ---- */

/* Functions that became part of the writer cannot be changed. */
START_TEST(test_inlined_runtime)
{
    if (_i == WINDOWS_IMAGE_MINGW) {
        return;
    }
    char *directory = windows_images_directory();
    struct windows_program program = windows_image_programs[_i];
    program.runtime_options = _i == WINDOWS_IMAGE_MERGED ? "-flto -DPROFILE_MERGED" : "-flto";
    const char *messages = windows_image_split_variant(&program, directory, "");
    ck_assert_msg(strstr(messages, ".lprfn stays") != NULL &&
                      strstr(messages, ".lprfd stays") != NULL,
                  "%s", messages);
    ck_assert(!windows_image_lacks(directory, ".lprfn"));
    ck_assert(windows_image_lacks(directory, ".lcovfun"));
}
END_TEST

START_TEST(test_binary_correlation)
{
    char *directory = windows_images_directory();
    struct windows_program program = windows_image_programs[WINDOWS_IMAGE_X86_64];
    program.instrumentation = INSTRUMENT_COVERAGE " -mllvm -profile-correlate=binary";
    const char *messages = windows_image_split_variant(&program, directory, "");
    ck_assert_msg(text_count(messages, "-profile-correlate=binary") == 2, "%s", messages);
    ck_assert(windows_image_lacks(directory, ".lcovfun"));
    ck_assert(!windows_image_lacks(directory, ".lcovd"));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("runtime", 600, windows_images_build);
    tcase_add_test(test_case, test_no_runtime);
    suite_loops(test_case, WINDOWS_IMAGES, test_map);
    suite_tests(test_case, test_without_uuid, test_thunks, test_wrong_map, test_other_map);
    suite_loops(test_case, UNPROVEN_COUNT, test_merged_unproven);
    tcase_add_test(test_case, test_merged_counters);
    suite_loops(test_case, 2, test_merged_referenced);
    tcase_add_test(test_case, test_merged_watched);
    suite_loops(test_case, 2, test_merged_alone);
    suite_tests(test_case, test_merged_followed, test_merged_claimed);
    suite_loops(test_case, WINDOWS_IMAGES, test_inlined_runtime);
    tcase_add_test(test_case, test_binary_correlation);
    return suite_main("runtime in COFF images", test_case);
}
