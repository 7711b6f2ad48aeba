/*
 * A small reader of ELF files, for what the tests must know of an image or a sidecar without asking
 * the code under test. Of whatever class and byte order the file is, its headers come as those of
 * this machine.
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

/* Aborts the Check test where the file is no well-formed ELF file. */
struct elf_file elf_file_read(const char *path);
void elf_file_free(struct elf_file *elf);

/* NULL where there is no section of that name. */
const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name);
/* Its size in memory; 0 where there is none. */
uint64_t elf_file_section_size(const struct elf_file *elf, const char *name);
/* How many bytes the section has in the file: none for SHT_NOBITS. */
uint64_t elf_file_section_file_size(const struct elf_file *elf, const char *name);

/* A number of so many bytes, at most 8, in the file's order. */
uint64_t elf_file_number(const struct elf_file *elf, uint64_t offset, size_t size);

/* The GNU build ID as hexadecimal digits; NULL where there is none. Never freed. */
const char *elf_file_build_id(const struct elf_file *elf);

/* The largest p_align of the PT_LOAD segments. */
uint64_t elf_file_page_size(const struct elf_file *elf);

#endif
