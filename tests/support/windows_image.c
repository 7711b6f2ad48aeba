/*
 * What is read from Windows images and expected of them: see windows_image.h.
 */
#include "tests/support/windows_image.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

/* ---- PE files ---- */

uint32_t pe_load_u32(const struct pe_file *pe, uint64_t offset)
{
    ck_assert(offset + 4 <= pe->file.size);
    const uint8_t *at = pe->file.data + offset;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void pe_store_u32(struct pe_file *pe, uint64_t offset, uint32_t value)
{
    ck_assert(offset + 4 <= pe->file.size);
    for (unsigned i = 0; i < 4; i++) {
        pe->file.data[offset + i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t load_u16(const struct pe_file *pe, uint64_t offset)
{
    return pe_load_u32(pe, offset) & 0xffff;
}

struct pe_file pe_file_read(const char *path)
{
    struct pe_file pe = {.file = file_read(path)};
    pe.coff_header = pe_load_u32(&pe, 60) + 4;
    pe.optional_header = pe.coff_header + 20;
    ck_assert(memcmp(pe.file.data + pe.coff_header - 4, "PE\0\0", 4) == 0);
    pe.is_64_bit = load_u16(&pe, pe.optional_header) == 0x20b;
    pe.directories = pe.optional_header + (pe.is_64_bit ? 112 : 96);
    pe.file_alignment = pe_load_u32(&pe, pe.optional_header + 36);
    pe.check_sum = pe_load_u32(&pe, pe.optional_header + 64);
    pe.section_count = load_u16(&pe, pe.coff_header + 2);
    ck_assert(pe.section_count <= PE_SECTIONS_MAX);
    uint64_t header = pe.optional_header + load_u16(&pe, pe.coff_header + 16);
    for (size_t i = 0; i < pe.section_count; i++, header += 40) {
        struct pe_section *section = &pe.sections[i];
        ck_assert(header + 40 <= pe.file.size);
        memcpy(section->name, pe.file.data + header, 8);
        section->header = header;
        section->virtual_size = pe_load_u32(&pe, header + 8);
        section->virtual_address = pe_load_u32(&pe, header + 12);
        section->raw_size = pe_load_u32(&pe, header + 16);
        section->raw_pointer = pe_load_u32(&pe, header + 20);
    }
    return pe;
}

void pe_file_free(struct pe_file *pe)
{
    contents_free(&pe->file);
}

const struct pe_section *pe_file_section(const struct pe_file *pe, const char *name)
{
    for (size_t i = 0; i < pe->section_count; i++) {
        if (strcmp(pe->sections[i].name, name) == 0) {
            return &pe->sections[i];
        }
    }
    return NULL;
}

/* " 0003:00004e28 00000040H .lprfd$A  DATA": section, offset and size. */
static uint32_t place_in_map(const char *map, const char *name, uint32_t *section, uint32_t *size)
{
    const char *line = strstr(map, text_format("H %s ", name));
    ck_assert_msg(line != NULL, "%s is not in the map file", name);
    while (line > map && line[-1] != '\n') {
        line--;
    }
    char *end;
    *section = (uint32_t)strtoul(line, &end, 16);
    uint32_t offset = (uint32_t)strtoul(end + 1, &end, 16);
    *size = (uint32_t)strtoul(end, NULL, 16);
    return offset;
}

struct pe_section pe_file_part(const struct pe_file *pe, const char *map_path, const char *name)
{
    struct contents contents = file_read(map_path);
    const char *map = text_format("%.*s", (int)contents.size, (const char *)contents.data);
    contents_free(&contents);
    uint32_t section, size;
    uint32_t start = place_in_map(map, text_format("%s$A", name), &section, &size);
    uint32_t end = place_in_map(map, text_format("%s$Z", name), &section, &size);
    ck_assert(section >= 1 && section <= pe->section_count);
    const struct pe_section *host = &pe->sections[section - 1];
    struct pe_section part = *host;
    memcpy(part.name, name, strlen(name) + 1);
    part.virtual_size = end + size - start;
    part.virtual_address += start;
    part.raw_pointer += start;
    part.raw_size = host->raw_size < start ? 0 : host->raw_size - start;
    return part;
}

uint64_t pe_file_offset(const struct pe_file *pe, uint32_t address)
{
    for (size_t i = 0; i < pe->section_count && address != 0; i++) {
        const struct pe_section *section = &pe->sections[i];
        if (address - section->virtual_address < section->raw_size) {
            return section->raw_pointer + (address - section->virtual_address);
        }
    }
    return pe->file.size;
}

uint64_t pe_file_debug_directory(const struct pe_file *pe)
{
    return pe_file_offset(pe, pe_load_u32(pe, pe->directories + 6 * 8));
}

uint32_t pe_file_check_sum(const struct pe_file *pe)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < pe->file.size; i++) {
        if (i < pe->optional_header + 64 || i >= pe->optional_header + 68) {
            sum += (uint64_t)pe->file.data[i] << (i % 2 == 0 ? 0 : 8);
        }
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint32_t)(sum + pe->file.size);
}

/* ---- before and after a split ---- */

struct pe_section windows_section(const struct pe_file *pe, const char *map_path, const char *name)
{
    const struct pe_section *section = pe_file_section(pe, name);
    return section != NULL ? *section : pe_file_part(pe, map_path, name);
}

uint32_t windows_record_size(const struct pe_file *pe)
{
    return pe->is_64_bit ? 64 : 48;
}

/* Behind the runtime's marker: 7f, the number of the bytes that follow, and text. */
uint32_t windows_tripwire_size(const struct pe_file *pe)
{
    static const char start[] = "\ncovsplit lightweight profile, UUID ";
    static const char end[] = ": use covsplit merge\n";
    const struct pe_section *names = pe_file_section(pe, ".lprfn");
    const uint8_t *at = pe->file.data + names->raw_pointer;
    if (names->raw_size < 256 || at[0] != 0 || at[1] != 0x7f || at[2] < sizeof start + sizeof end ||
        memcmp(at + 3, start, sizeof start - 1) != 0 ||
        memcmp(at + 3 + at[2] - (sizeof end - 1), end, sizeof end - 1) != 0) {
        return 0;
    }
    return 2u + at[2];
}

/* ---- sizes ---- */

static const char *const removed_sections[] = {".lcovmap", ".lcovfun", ".lprfn", ".lprfd"};

#define REMOVED_COUNT (sizeof removed_sections / sizeof *removed_sections)

/* Where records are merged into .data, that section ends behind the stub. */
static bool check_host(const struct pe_file *original, const struct pe_file *stripped,
                       const struct pe_section *part, struct verdict *verdict)
{
    const struct pe_section *host = pe_file_section(original, ".data");
    const struct pe_section *left = pe_file_section(stripped, ".data");
    uint32_t end =
        part->virtual_address - host->virtual_address + 2 * windows_record_size(stripped);
    if (left->raw_size < end || left->raw_size >= end + stripped->file_alignment ||
        left->virtual_size != host->virtual_size ||
        left->virtual_address != host->virtual_address) {
        return verdict_fail(verdict, "%u bytes of .data are left where records begin at %u",
                            left->raw_size, end);
    }
    return true;
}

/* What is left of a removed section: nothing, or a block with the stub or a tripwire. */
static bool check_section(const struct pe_file *stripped, const struct pe_section *original,
                          struct verdict *verdict)
{
    const struct pe_section *left = pe_file_section(stripped, original->name);
    uint32_t most = strcmp(original->name, ".lcovfun") == 0 ? 0 : stripped->file_alignment;
    if (left != NULL && (left->raw_size > most || left->virtual_size != original->virtual_size ||
                         left->virtual_address != original->virtual_address)) {
        return verdict_fail(verdict, "%s is still there, or is another", original->name);
    }
    return true;
}

/* What is counted in has the same memory as before, and no block of zeros at its end in the file.
 * Adds the bytes that went. */
static bool check_zeros(const struct pe_file *original, const struct pe_file *stripped,
                        uint64_t *removed, struct verdict *verdict)
{
    static const char *const names[] = {".lprfc", ".lprfb", ".lprfnd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct pe_section *old = pe_file_section(original, names[i]);
        const struct pe_section *new = pe_file_section(stripped, names[i]);
        if (old == NULL) {
            continue;
        }
        const uint8_t *bytes = original->file.data + old->raw_pointer;
        uint32_t used = old->raw_size;
        while (used != 0 && bytes[used - 1] == 0) {
            used--;
        }
        *removed += old->raw_size - new->raw_size;
        if (new->virtual_address != old->virtual_address ||
            new->virtual_size != old->virtual_size || new->raw_size < used ||
            new->raw_size >= used + stripped->file_alignment ||
            (new->raw_pointer == 0) != (new->raw_size == 0) ||
            memcmp(stripped->file.data + new->raw_pointer, bytes, new->raw_size) != 0) {
            return verdict_fail(verdict, "%s has %u bytes of %u in the file, of which %u are used",
                                names[i], new->raw_size, old->raw_size, used);
        }
    }
    return true;
}

/* SizeOfInitializedData counts what sections of such data have in the file. */
static uint32_t size_of_data(const struct pe_file *pe)
{
    uint32_t size = 0;
    for (size_t i = 0; i < pe->section_count; i++) {
        if ((pe_load_u32(pe, pe->sections[i].header + 36) & 0x40) != 0) {
            size += pe->sections[i].raw_size;
        }
    }
    return size;
}

static bool check_size_of_data(const struct pe_file *original, const struct pe_file *stripped,
                               struct verdict *verdict)
{
    uint32_t old = pe_load_u32(original, original->optional_header + 8);
    uint32_t new = pe_load_u32(stripped, stripped->optional_header + 8);
    return (old != new &&old - new == size_of_data(original) - size_of_data(stripped)) ||
           verdict_fail(verdict, "SizeOfInitializedData was %u and is %u", old, new);
}

bool windows_sizes_are_right(const char *original_path, const char *stripped_path,
                             struct verdict *verdict)
{
    struct pe_file original = pe_file_read(original_path);
    struct pe_file stripped = pe_file_read(stripped_path);
    const char *map_path = text_format("%s.map", original_path);
    uint64_t removed = 0, difference = original.file.size - stripped.file.size;
    bool fine = true;
    for (size_t i = 0; i < REMOVED_COUNT; i++) {
        struct pe_section section = windows_section(&original, map_path, removed_sections[i]);
        bool merged = pe_file_section(&original, removed_sections[i]) == NULL;
        removed += section.raw_size;
        fine = fine && (merged ? check_host(&original, &stripped, &section, verdict)
                               : check_section(&stripped, &section, verdict));
    }
    fine = fine && check_zeros(&original, &stripped, &removed, verdict);
    if (fine && (difference > removed ||
                 removed - difference > REMOVED_COUNT * (uint64_t)original.file_alignment)) {
        fine = verdict_fail(verdict, "%s shrank by %llu bytes, not by %llu", stripped_path,
                            (unsigned long long)difference, (unsigned long long)removed);
    }
    fine = fine && check_size_of_data(&original, &stripped, verdict);
    if (fine &&
        stripped.check_sum != (original.check_sum != 0 ? pe_file_check_sum(&stripped) : 0)) {
        fine = verdict_fail(verdict, "%s has the checksum 0x%x", stripped_path, stripped.check_sum);
    }
    pe_file_free(&original);
    pe_file_free(&stripped);
    return fine;
}

/* ---- profiles ---- */

static void put_bytes(FILE *file, const struct pe_file *pe, uint64_t offset, uint64_t size)
{
    ck_assert_uint_le(offset + size, pe->file.size);
    ck_assert_uint_eq(fwrite(pe->file.data + offset, 1, size, file), size);
}

/* With counters of one byte the program has a version of its own, with a bit that says so. */
static uint64_t raw_version(const struct pe_file *pe, const char *map_path)
{
    static const char name[] = "__llvm_profile_raw_version";
    uint64_t version = 10;
    if (file_exists(map_path)) {
        struct contents map = file_read(map_path);
        const char *text = text_format("%.*s", (int)map.size, (const char *)map.data);
        const char *line = strstr(text, name);
        ck_assert(line != NULL);
        uint32_t base = pe_load_u32(pe, pe->optional_header + (pe->is_64_bit ? 24 : 28));
        uint32_t address = (uint32_t)strtoull(line + sizeof name - 1, NULL, 16) - base;
        memcpy(&version, pe->file.data + pe_file_offset(pe, address), sizeof version);
        contents_free(&map);
    }
    return version;
}

/* Of counters of eight bytes, the first seven bytes, and the last one, are no counter's. Counters
 * and bitmap are made up. */
static void put_counters(FILE *file, uint64_t count, uint64_t counter_size)
{
    if (counter_size == 1) {
        for (uint64_t i = 0; i < (count + 7) / 8 * 8; i++) {
            fputc(i < count && i % 3 == 0 ? 0xff : 0, file);
        }
        return;
    }
    for (uint64_t i = 0; i < count * 8; i++) {
        fputc(i % 8 == 7 && i / 8 + 1 < count ? (int)(i / 8 % 5) : 0, file);
    }
}

void windows_profile_write(const struct pe_file *pe, const char *map_path, bool light,
                           const char *path)
{
    struct pe_section data = windows_section(pe, map_path, ".lprfd");
    struct pe_section names = windows_section(pe, map_path, ".lprfn");
    struct pe_section counters = windows_section(pe, map_path, ".lprfc");
    struct pe_section bitmap = windows_section(pe, map_path, ".lprfb");
    uint64_t size = windows_record_size(pe);
    uint64_t count = light ? 1 : data.virtual_size / size - 2;
    uint64_t version = raw_version(pe, map_path), unit = (version >> 60 & 1) != 0 ? 1 : 8;
    uint64_t counter_count = (counters.virtual_size - 2 + unit - 1) / unit;
    uint64_t names_size = light ? windows_tripwire_size(pe) : names.virtual_size - 2;
    uint64_t bitmap_size = bitmap.virtual_size - 2;
    uint64_t begin = data.virtual_address + size;
    const uint64_t header[] = {
        pe->is_64_bit ? UINT64_C(0xff6c70726f667281) : UINT64_C(0xff6c70726f665281),
        version,
        0,
        count,
        0,
        counter_count,
        (0 - counter_count * unit) % 8,
        bitmap_size,
        (0 - bitmap_size) % 8,
        names_size,
        (uint32_t)(counters.virtual_address + 1 - begin),
        (uint32_t)(bitmap.virtual_address + 1 - begin),
        names.virtual_address + 1,
        0,
        0,
        2,
    };
    FILE *file = fopen(path, "w");
    ck_assert(file != NULL);
    ck_assert_uint_eq(fwrite(header, sizeof header, 1, file), 1);
    put_bytes(file, pe, data.raw_pointer + size, count * size);
    put_counters(file, counter_count, unit);
    for (uint64_t i = 0; i < (bitmap_size + 7) / 8 * 8; i++) {
        fputc(i < bitmap_size ? (int)(i % 7) : 0, file);
    }
    put_bytes(file, pe, names.raw_pointer + 1, names_size);
    for (uint64_t i = names_size; i % 8 != 0; i++) {
        fputc(0, file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- small images of every kind ---- */

#define FUNCTIONS 30

const struct windows_program windows_image_programs[WINDOWS_IMAGES] = {
    [WINDOWS_IMAGE_X86_64] = {.clang = "22", .target = WINDOWS_MSVC_X86_64, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_ARM64] = {.clang = "22", .target = WINDOWS_MSVC_ARM64, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_I686] = {.clang = "22",
                            .target = WINDOWS_MSVC_I686,
                            .functions = FUNCTIONS,
                            .link_options = "/debug /release"},
    [WINDOWS_IMAGE_MINGW] = {.clang = "22", .target = WINDOWS_MINGW_LLD, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_MERGED] = {.clang = "22",
                              .target = WINDOWS_MSVC_X86_64,
                              .functions = FUNCTIONS,
                              .runtime_options = "-DPROFILE_MERGED",
                              .link_options = "/debug /release"},
};

char *windows_images[WINDOWS_IMAGES];

static char *scratch;

void windows_images_build(void)
{
    scratch = scratch_create("coff-images");
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        char *directory = path_join(scratch, text_format("build%zu", i));
        directory_create(directory);
        windows_program_build(&windows_image_programs[i], directory);
        windows_images[i] = path_join(directory, WINDOWS_PROGRAM);
    }
}

char *windows_images_directory(void)
{
    char *directory = path_join(scratch, text_format("test%d", (int)getpid()));
    directory_create(directory);
    return directory;
}

const char *windows_image_split(const struct pe_file *pe, const char *directory,
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

void windows_image_assert_joins(const char *directory)
{
    struct verdict verdict = {0};
    if (covsplit_expect(&verdict, 0, NULL, directory, "join", "--sidecar", "side", "-o", "joined",
                        "out", NULL)) {
        files_equal(path_join(directory, "joined"), path_join(directory, "input"), &verdict);
    }
    verdict_assert(&verdict, "join");
}

const char *windows_image_split_variant(const struct windows_program *program,
                                        const char *directory, const char *options)
{
    windows_program_build(program, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    const char *messages = windows_image_split(&pe, directory, options, 0);
    windows_image_assert_joins(directory);
    pe_file_free(&pe);
    return messages;
}

bool windows_image_lacks(const char *directory, const char *name)
{
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    const struct pe_section *section = pe_file_section(&out, name);
    bool lacks = section == NULL || section->raw_size == 0;
    if (!lacks && strcmp(name, ".lprfn") == 0) {
        lacks = windows_tripwire_size(&out) != 0;
    }
    pe_file_free(&out);
    return lacks;
}
