/*
 * Writing the small ELF files that covsplit makes: sidecars and objects.
 *
 * Such a file is a build ID and a list of sections, laid out one behind the other:
 *
 *   ELF header, one program header
 *   PT_NOTE             a copy of the build ID's note
 *   .note.gnu.build-id  the first section
 *   the other sections in the order in which they were added
 *   .shstrtab
 *   section headers
 *
 * Once the size of every section is known, the file is laid out; then it can be walked, as often as
 * needed. libelf encodes each structure for the file's class and byte order.
 */
#ifndef COVSPLIT_COMMON_ELF_FILE_WRITER_H
#define COVSPLIT_COMMON_ELF_FILE_WRITER_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/uuid.h"

/* Sections at most, the null section and .shstrtab included. */
#define ELF_WRITER_SECTION_MAX 16

/* A section of the file to be. */
struct elf_writer_section {
    /* In the wide form. sh_name, sh_offset, and sh_size of a section with stored bytes are the
     * writer's; a section is aligned to at most 8 bytes in the file. */
    Elf64_Shdr header;
    struct buffer stored; /* its bytes, freed by elf_writer_free */
    bool streamed;        /* the bytes come from elsewhere, sh_size of them */
};

struct elf_writer {
    const char *name; /* of the file, for messages */
    uint8_t elf_class;
    uint8_t elf_data;
    uint16_t elf_type;
    uint16_t machine;
    struct elf_writer_section sections[ELF_WRITER_SECTION_MAX];
    size_t section_count;
    struct buffer names;
    uint64_t section_headers_offset;
};

/* Starts a file with this build ID; the other members up to `machine` are the caller's to set
 * before. False if out of memory. Free with elf_writer_free, whatever the result. */
bool elf_writer_start(struct elf_writer *writer, const struct uuid *uuid, struct error *error);
void elf_writer_free(struct elf_writer *writer);

/* Adds a section with this name and type, and with alignment 1. NULL if out of memory. The
 * section stays where it is. */
struct elf_writer_section *elf_writer_add(struct elf_writer *writer, const char *name,
                                          Elf64_Word type, struct error *error);

/* Adds the section names as the last section. */
bool elf_writer_add_names(struct elf_writer *writer, struct error *error);

/* Decides where everything goes. False (no message) where that is more than the 32 bits of the
 * file's class can say. */
bool elf_writer_lay_out(struct elf_writer *writer);

/* Takes the parts of a file in their order. */
struct elf_writer_sink {
    /* Headers, and zeros between sections. */
    bytes_sink bytes;
    /* A section that has bytes in the file. NULL: its stored bytes go to `bytes`. */
    bool (*section)(void *context, const struct elf_writer_section *section, struct error *error);
    void *context;
};

/* Hands the whole file to the sink. */
bool elf_writer_walk(const struct elf_writer *writer, const struct elf_writer_sink *sink,
                     struct error *error);

/* Appends a structure, given in the wide form, in the form of the file (elf_file/encode.h). */
bool elf_writer_encode(const struct elf_writer *writer, Elf_Type type, const void *structure,
                       struct buffer *encoded);

static inline bool elf_writer_is_wide(const struct elf_writer *writer)
{
    return writer->elf_class == ELFCLASS64;
}

#endif
