/*
 * The tests' own reader of PE files, which shares nothing with the code under test.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_PE_FILE_H
#define COVSPLIT_TESTS_SUPPORT_PE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/file_system.h"

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

#endif
