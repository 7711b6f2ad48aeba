/*
 * The ELF header and the program headers, of either class and byte order, in whatever bytes there
 * are: a core file, or the memory that a file is loaded in.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_ELF_HEADER_H
#define COVSPLIT_SPLIT_SNAPSHOT_ELF_HEADER_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define ELF_HEADER_SIZE_MAX sizeof(Elf64_Ehdr)

struct elf_header {
    bool wide; /* ELFCLASS64 */
    bool big_endian;
    uint16_t type;
    uint16_t machine;
    uint64_t segments_offset; /* e_phoff */
    uint64_t segment_count;   /* e_phnum */
    uint64_t segment_entry_size;
    uint64_t sections_offset; /* e_shoff */
};

/* A program header. */
struct elf_segment {
    uint32_t type;
    uint32_t flags;
    uint64_t offset;
    uint64_t address;
    uint64_t file_size;
    uint64_t memory_size;
};

/* False if the bytes do not start with an ELF header, or program headers have an unknown size. */
bool elf_header_read(struct bytes bytes, struct elf_header *header);

/* Reads an entry of the table of program headers; false if the table is too short. */
bool elf_segment_read(const struct elf_header *header, struct bytes table, uint64_t index,
                      struct elf_segment *segment);

/* Sets the size in the file of an entry that was read to 0. */
void elf_segment_drop(const struct elf_header *header, uint8_t *table, uint64_t index);

#endif
