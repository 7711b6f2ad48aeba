/*
 * Writing the small ELF files that covsplit makes: sidecars and objects.
 *
 * Such a file consists of a build ID and a list of sections, one after the other:
 *
 *   ELF header, one program header
 *   PT_NOTE             a copy of the build ID's note
 *   .note.gnu.build-id  the first section
 *   the other sections in the order in which they were added
 *   .shstrtab
 *   section headers
 *
 * Once the size of every section is known, the file is laid out; then it can be written, any number
 * of times. libelf encodes each structure in the file's class and byte order.
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

/* The most sections, including the null section and .shstrtab. */
#define ELF_WRITER_SECTION_MAX 18

/* A section of the file. */
struct elf_writer_section {
    /* The writer sets sh_name, sh_offset and, for a section with stored bytes, sh_size. In the
     * file, a section is aligned to at most 8 bytes. */
    Elf64_Shdr header;
    struct buffer stored; /* its bytes, freed by elf_writer_free */
    bool streamed;        /* its sh_size bytes are written by the sink instead */
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

/* Starts a file with this build ID. The caller must have set the members up to `machine`. False if
 * out of memory. Free with elf_writer_free, even after a failure. */
bool elf_writer_start(struct elf_writer *writer, const struct uuid *uuid, struct error *error);
void elf_writer_free(struct elf_writer *writer);

/* Adds a section with this name and type, and with alignment 1. NULL if out of memory. The pointer
 * stays valid as long as the writer. */
struct elf_writer_section *elf_writer_add(struct elf_writer *writer, const char *name,
                                          Elf64_Word type, struct error *error);

/* Adds the section names as the last section. */
bool elf_writer_add_names(struct elf_writer *writer, struct error *error);

/* Determines all offsets. False (without a message) if they do not fit the 32 bits of the file's
 * class. */
bool elf_writer_lay_out(struct elf_writer *writer);

/* The size of the whole file, once it is laid out: a multiple of 8. */
uint64_t elf_writer_size(const struct elf_writer *writer);

/* Receives the parts of a file in order. */
struct elf_writer_sink {
    /* Headers, and zeros between sections. */
    bytes_sink bytes;
    /* Called for a section that has bytes in the file. If NULL, its stored bytes go to `bytes`. */
    bool (*section)(void *context, const struct elf_writer_section *section, struct error *error);
    void *context;
};

/* Passes the whole file to the sink. */
bool elf_writer_walk(const struct elf_writer *writer, const struct elf_writer_sink *sink,
                     struct error *error);

/* Encodes a 64-bit structure in the class and byte order of the file (elf_file/encode.h) and
 * appends it. */
bool elf_writer_encode(const struct elf_writer *writer, Elf_Type type, const void *structure,
                       struct buffer *encoded);

static inline bool elf_writer_is_wide(const struct elf_writer *writer)
{
    return writer->elf_class == ELFCLASS64;
}

#endif
