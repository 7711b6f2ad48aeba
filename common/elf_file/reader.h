/*
 * Reading the small ELF files that covsplit makes (elf_file/writer.h), which may have been modified
 * since.
 *
 * libelf only decodes single structures; it is not given the whole file, because it trusts the
 * numbers in it too much for hostile files. Nothing here allocates memory, so recognizing a file
 * cannot fail for lack of it.
 */
#ifndef COVSPLIT_COMMON_ELF_FILE_READER_H
#define COVSPLIT_COMMON_ELF_FILE_READER_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/uuid.h"
#include "common/elf_file/note.h"

/* covsplit writes at most 13 sections. Files of later versions may have more and should still be
 * recognized, as long as that costs nothing. */
#define ELF_READER_SECTION_MAX 64

struct elf_reader_section {
    GElf_Shdr header;
    const char *name;    /* in the file */
    struct bytes stored; /* its bytes in the file; empty for SHT_NOBITS */
};

struct elf_reader {
    struct bytes bytes;
    bool wide;              /* ELFCLASS64 */
    unsigned data_encoding; /* ELFDATA2LSB or ELFDATA2MSB */
    GElf_Ehdr header;       /* for ELFCLASS32, only the members that are used */
    struct elf_reader_section sections[ELF_READER_SECTION_MAX];
    size_t section_count; /* including the null section */
};

/* Returns false if the bytes are not an ELF file, or a damaged one, or not of a kind that covsplit
 * makes; the reader has no sections then. The bytes must outlive the reader, which owns nothing. */
bool elf_reader_open(struct elf_reader *file, struct bytes bytes);

/* Finds a section by name. NULL if there is none, or more than one: otherwise two readers could see
 * different ones. */
const struct elf_reader_section *elf_reader_find(const struct elf_reader *file, const char *name);

/* Finds a section of notes; false if there is none. */
bool elf_reader_notes(const struct elf_reader *file, const char *name, struct elf_note_list *notes);

/* The UUID in .note.gnu.build-id; false if there is none, or its size is not supported. */
bool elf_reader_build_id(const struct elf_reader *file, struct uuid *uuid);

/* The same for only the first bytes of a file: read from its PT_NOTE segment, which the writer puts
 * first, with a copy of the note. */
bool elf_front_build_id(struct bytes front, struct uuid *uuid);

/* The size of the file's Elf32_Chdr or Elf64_Chdr, in bytes. */
size_t elf_reader_compression_header_size(const struct elf_reader *file);

/* Decodes the compression header at the start of a section's bytes; *frame is what follows it.
 * False if the section is too short. */
bool elf_reader_compression_header(const struct elf_reader *file, struct bytes stored,
                                   GElf_Chdr *header, struct bytes *frame);

#endif
