/*
 * Windows images: a reader that shares nothing with the code under test, checks before and after a
 * split, and small images of every kind.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H
#define COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/windows_program.h"

/* ---- PE files ---- */

#define PE_SECTIONS_MAX 64

struct pe_section {
    char name[9];    /* as in the header: "/4" for a long name */
    uint64_t header; /* offset in the file */
    uint32_t virtual_size;
    uint32_t virtual_address;
    uint32_t raw_size;
    uint32_t raw_pointer;
};

struct pe_file {
    struct contents file;
    bool is_64_bit;
    uint64_t coff_header; /* offsets in the file */
    uint64_t optional_header;
    uint64_t directories;
    uint32_t file_alignment;
    uint32_t check_sum;
    struct pe_section sections[PE_SECTIONS_MAX];
    size_t section_count;
};

/* Aborts the Check test if the file is not a PE file. Free with pe_file_free. */
struct pe_file pe_file_read(const char *path);
void pe_file_free(struct pe_file *pe);

/* NULL if there is none. */
const struct pe_section *pe_file_section(const struct pe_file *pe, const char *name);

/* A section that, according to the map file, the linker merged into another one. Its data in the
 * file extends to the end of that one. `name` must outlive the result. */
struct pe_section pe_file_part(const struct pe_file *pe, const char *map_path, const char *name);

/* The offset in the file of what is loaded at that RVA, or the file's size if there is nothing. */
uint64_t pe_file_offset(const struct pe_file *pe, uint32_t address);

/* The offset in the file of the first entry of the debug directory, or the file's size if there is
 * none. */
uint64_t pe_file_debug_directory(const struct pe_file *pe);

/* What the checksum should be. */
uint32_t pe_file_check_sum(const struct pe_file *pe);

uint32_t pe_load_u32(const struct pe_file *pe, uint64_t offset);
void pe_store_u32(struct pe_file *pe, uint64_t offset, uint32_t value);

/* ---- before and after a split ---- */

/* Finds a section by its name, even if the linker merged it into another one, as the map file of
 * the original tells. Aborts the Check test if there is none. */
struct pe_section windows_section(const struct pe_file *pe, const char *map_path, const char *name);

/* The size of the tripwire in place of the names of a stripped image; 0: there is none. */
uint32_t windows_tripwire_size(const struct pe_file *pe);

/* The size of a data record of version 10, which is also that of the marker before the records. */
uint32_t windows_record_size(const struct pe_file *pe);

/* Whether the stripped file is smaller than the original by exactly what was removed, within a
 * FileAlignment for each section, and its headers and checksum are right. A map file is at
 * ORIGINAL.map. */
bool windows_sizes_are_right(const char *original_path, const char *stripped_path,
                             struct verdict *verdict);

/* Writes the raw profile of version 10 that the running image would write, with all records and
 * names, or with only the stub. Counters and bitmap are made up. */
void windows_profile_write(const struct pe_file *pe, const char *map_path, bool light,
                           const char *path);

/* ---- small images of every kind ----
 *
 * For the suites that damage or change them and test what covsplit does. */

enum {
    WINDOWS_IMAGE_X86_64, /* made by lld-link, like the next two */
    WINDOWS_IMAGE_ARM64,
    WINDOWS_IMAGE_I686,
    WINDOWS_IMAGE_MINGW,  /* made by lld, with symbols */
    WINDOWS_IMAGE_MERGED, /* x86-64, with the records in .data, as with LLVM's own runtime */
    WINDOWS_IMAGES,
};

extern const struct windows_program windows_image_programs[WINDOWS_IMAGES];

/* The paths of the images. Those made by lld-link have map files beside them: PATH.map. */
extern char *windows_images[WINDOWS_IMAGES];

/* For unchecked fixtures. */
void windows_images_build(void);

/* A new directory for one test. */
char *windows_images_directory(void);

/* Splits an image in memory, with options (words): writes it to "input", and splits that into "out"
 * and "side", all in the directory. Returns what covsplit printed. Aborts the Check test if the
 * exit code is wrong. */
const char *windows_image_split(const struct pe_file *pe, const char *directory,
                                const char *options, int exit_code);

/* Builds a program in the directory, splits it and joins it. Returns what covsplit printed. */
const char *windows_image_split_variant(const struct windows_program *program,
                                        const char *directory, const char *options);

/* Aborts the Check test unless "out" and "side" join to "input". */
void windows_image_assert_joins(const char *directory);

/* True if "out" has nothing of the section but a tripwire. */
bool windows_image_lacks(const char *directory, const char *name);

#endif
