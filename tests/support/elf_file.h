/*
 * A small reader of ELF files, for what the tests must know about an image or a sidecar without
 * relying on the code under test. Headers are converted to this machine's class and byte order.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_ELF_FILE_H
#define COVSPLIT_TESTS_SUPPORT_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/file_system.h"

struct elf_file {
    struct contents file;
    bool is_32_bit;
    bool is_big_endian;
    const Elf64_Ehdr *header;
    const Elf64_Phdr *segments; /* header->e_phnum of them */
    const Elf64_Shdr *sections; /* header->e_shnum of them */
};

/* Aborts the Check test if the file is not a well-formed ELF file. */
struct elf_file elf_file_read(const char *path);
void elf_file_free(struct elf_file *elf);

/* NULL if there is no section of that name. */
const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name);
/* Its size in memory; 0 if there is none. */
uint64_t elf_file_section_size(const struct elf_file *elf, const char *name);
/* The section's size in the file: 0 for SHT_NOBITS. */
uint64_t elf_file_section_file_size(const struct elf_file *elf, const char *name);

/* Fails the Check test unless both files have a section of that name, not empty, with equal
 * contents. */
void elf_files_assert_same_section(const char *path, const char *other, const char *name);

/* Reads a number of `size` bytes, at most 8, in the file's byte order. */
uint64_t elf_file_number(const struct elf_file *elf, uint64_t offset, size_t size);

/* The GNU build ID as hexadecimal digits; NULL if there is none. Never freed. */
const char *elf_file_build_id(const struct elf_file *elf);

/* The largest p_align of the PT_LOAD segments. */
uint64_t elf_file_page_size(const struct elf_file *elf);

#endif
