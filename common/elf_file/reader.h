/*
 * Reading the small ELF files that covsplit makes (elf_file/writer.h), whoever has changed them
 * since.
 *
 * libelf decodes every structure, but it is not given the file: it trusts the numbers in one more
 * than a hostile one deserves. Nothing here takes memory, so that what a file is can always be
 * told.
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

/* What covsplit writes has at most 13; more are no reason to refuse what a later version says of
 * itself, as long as they cost nothing. */
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
    GElf_Ehdr header;       /* only the members that are read, for ELFCLASS32 */
    struct elf_reader_section sections[ELF_READER_SECTION_MAX];
    size_t section_count; /* the null section included */
};

/* False if the bytes are no ELF file, a damaged one, or one that covsplit makes none like: the
 * reader has no sections then. They must outlive the reader, which owns nothing. */
bool elf_reader_open(struct elf_reader *file, struct bytes bytes);

/* NULL if there is none, or more than one, so that no two readers can see different things. */
const struct elf_reader_section *elf_reader_find(const struct elf_reader *file, const char *name);

/* The notes of a section; false if there is none of them. */
bool elf_reader_notes(const struct elf_reader *file, const char *name, struct elf_note_list *notes);

/* The UUID in .note.gnu.build-id; false if there is none, or none of a size that is known. */
bool elf_reader_build_id(const struct elf_reader *file, struct uuid *uuid);

/* Size of an Elf32_Chdr or Elf64_Chdr. */
size_t elf_reader_compression_header_size(const struct elf_reader *file);

/* Decodes the compression header at the front of a section's bytes; *frame is what follows it.
 * False if it is too short. */
bool elf_reader_compression_header(const struct elf_reader *file, struct bytes stored,
                                   GElf_Chdr *header, struct bytes *frame);

#endif
