/*
 * ELF files of either class and byte order (System V gABI): one bounds-checked reader for images,
 * objects, sidecars, core files and what is loaded in memory, and a writer of small files.
 *
 * Structures are normalized: whatever the class of the file, they are those of ELFCLASS64, which
 * suffice for both. Nothing that reads allocates memory, so recognizing a file cannot fail for lack
 * of it.
 *
 *     struct elf_file file;
 *
 *     if (!elf_file_open(&file, bytes) || !elf_file_find_sections(&file))
 *         return false;
 *     for (uint64_t i = 1; i < file.section_count; i++) {
 *         const Elf64_Shdr shdr = elf_file_section(&file, i);
 *         struct bytes contents;
 *
 *         if (!elf_file_contents(&file, &shdr, &contents)) ...
 *
 * Whoever has a table from elsewhere, such as the memory of a process, sets `segments` and
 * `segment_count` itself after elf_file_open. Structures in other tables are read by elf_load.
 */
#ifndef COVSPLIT_COMMON_ELF_FILE_ELF_FILE_H
#define COVSPLIT_COMMON_ELF_FILE_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/error.h"
#include "common/base/uuid.h"

/* The size of a structure in a file of the class: ELF_SIZE(file.wide, Shdr). */
#define ELF_SIZE(wide, Kind) ((wide) ? sizeof(Elf64_##Kind) : sizeof(Elf32_##Kind))

/* ---- structures (structures.c) ---- */

/* The class and byte order of a file. */
struct elf_form {
    bool wide;
    bool big_endian;
};

static inline struct elf_form elf_form_of(uint8_t elf_class, uint8_t elf_data)
{
    return (struct elf_form){elf_class == ELFCLASS64, elf_data == ELFDATA2MSB};
}

/* A structure as it is in files: of elf_shdr, an Elf64_Shdr or an Elf32_Shdr. In memory it is
 * always that of ELFCLASS64. */
struct elf_layout {
    const struct elf_field *fields;
    size_t field_count;
    size_t wide_size, size; /* in bytes, of ELFCLASS64 and ELFCLASS32 */
};

extern const struct elf_layout elf_ehdr, elf_phdr, elf_shdr, elf_sym, elf_dyn, elf_chdr;

/* True if files of this form have structures as this machine has them in memory. */
static inline bool elf_form_is_native(struct elf_form form)
{
    return form.wide && form.big_endian == HOST_IS_BIG_ENDIAN;
}

/* Reads the structure at an offset in a part of a file. False if it is not inside the part: then it
 * is zeros. */
bool elf_load(const struct elf_layout *layout, struct elf_form form, struct bytes part,
              uint64_t offset, void *to);

/* Appends a structure, whose values must fit the class. False if out of memory. */
bool elf_put(struct buffer *to, const struct elf_layout *layout, struct elf_form form,
             const void *from);

/* ---- reading ---- */

struct elf_file {
    struct bytes bytes; /* the file, or its front */
    bool wide;          /* ELFCLASS64 */
    bool big_endian;
    Elf64_Ehdr header;
    struct bytes segments; /* the program headers, in the form of the file */
    uint64_t segment_count;
    struct bytes sections; /* the section headers */
    uint64_t section_count;
    uint64_t names; /* index of the section with their names; below section_count */
};

static inline struct elf_form elf_file_form(const struct elf_file *file)
{
    return (struct elf_form){file->wide, file->big_endian};
}

/* Reads the ELF header. False if the bytes do not begin with one of a known class, byte order and
 * version. The bytes must outlive the file, which owns nothing. */
bool elf_file_open(struct elf_file *file, struct bytes bytes);

/* Each finds a table, which may be empty. If there are too many entries for the ELF header, section
 * header 0 has their number. False if the table is not inside the file, or malformed. */
bool elf_file_find_segments(struct elf_file *file);
bool elf_file_find_sections(struct elf_file *file);

/* A program header and a section header; zeros if there are not so many. */
Elf64_Phdr elf_file_segment(const struct elf_file *file, uint64_t index);
Elf64_Shdr elf_file_section(const struct elf_file *file, uint64_t index);

/* The bytes of a section in the file: none for SHT_NOBITS and SHT_NULL. False, also with none, if
 * they are not inside it. */
bool elf_file_contents(const struct elf_file *file, const Elf64_Shdr *shdr, struct bytes *contents);

/* The text at an offset in a string table, with its NUL; NULL if there is none. */
const char *elf_text_at(struct bytes strings, uint64_t offset);

/* ---- notes ---- */

/* A note consists of n_namesz, n_descsz and n_type (32 bits each), the owner's name with its NUL,
 * and the description, both padded with zeros to a multiple of 4: in sections and segments with an
 * alignment of 8, to one of 8. */
#define ELF_NOTE_ALIGNMENT   4
#define ELF_BUILD_ID_SECTION ".note.gnu.build-id"

struct elf_note {
    uint32_t type;
    struct bytes owner; /* with its NUL */
    struct bytes description;
    uint64_t description_offset; /* in the list */
};

/* The contents of a section or segment of notes. */
struct elf_note_list {
    struct bytes bytes;
    bool big_endian;
    uint64_t alignment; /* 8; any other value stands for 4 */
};

/* Reads the note at *offset (0 for the first) and moves *offset to the next. False at the end, and
 * if there is no complete note. */
bool elf_note_next(const struct elf_note_list *list, size_t *offset, struct elf_note *note);

bool elf_note_is_of(const struct elf_note *note, const char *owner);

/* The first GNU build ID of a supported size, as the profile runtime finds it. */
bool elf_note_build_id(const struct elf_note_list *list, struct uuid *uuid);

/* ---- reading small files ---- */

/* covsplit writes at most 13 sections. Files of later versions may have more and should still be
 * recognized, as long as that costs nothing. */
#define ELF_READER_SECTION_MAX 64

struct elf_reader_section {
    Elf64_Shdr header;
    const char *name;    /* in the file */
    struct bytes stored; /* its bytes in the file; empty for SHT_NOBITS */
};

/* A file that covsplit made, and that may have been modified since. */
struct elf_reader {
    struct elf_file elf;
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

/* The same by the segments of any ELF file, or of the first bytes of one, as far as its notes are
 * among them. In a file without segments the note is looked for behind the ELF header, where the
 * writer puts it. */
bool elf_file_build_id(struct bytes file, struct uuid *uuid);

/* Decodes the compression header at the start of a section's bytes; *frame is what follows it.
 * False if the section is too short. */
bool elf_reader_compression_header(const struct elf_reader *file, struct bytes stored,
                                   Elf64_Chdr *header, struct bytes *frame);

/* Appends a note, padded to ELF_NOTE_ALIGNMENT. False if out of memory. */
bool elf_note_append(struct buffer *to, bool big_endian, const char *owner, uint32_t type,
                     struct bytes description);

/* ---- writing small files ---- */

/*
 * Sidecars and objects consist of a build ID and a list of sections, one after the other:
 *
 *   ELF header
 *   of an object: one program header, and a PT_NOTE with a copy of the build ID's note
 *   .note.gnu.build-id  the first section
 *   the other sections in the order in which they were added
 *   .shstrtab
 *   section headers
 *
 * Once the size of every section is known, the file is laid out; then it can be written, any number
 * of times.
 */

/* The most sections, including the null section and .shstrtab. */
#define ELF_WRITER_SECTION_MAX 18

struct elf_writer_section {
    /* The writer sets sh_name, sh_offset and, for a section with stored bytes, sh_size. In the
     * file, a section is aligned to at most 8 bytes. */
    Elf64_Shdr header;
    struct buffer stored; /* its bytes, freed by elf_writer_free */
    struct bytes body;    /* more of its bytes, which must outlive the writer */
    bool streamed;        /* its sh_size bytes are written by the sink instead */
};

struct elf_writer {
    const char *name; /* of the file, for messages */
    uint8_t elf_class;
    uint8_t elf_data;
    uint16_t elf_type;
    uint16_t machine;
    bool has_segment;
    struct elf_writer_section sections[ELF_WRITER_SECTION_MAX];
    size_t section_count;
    struct buffer names;
    uint64_t section_headers_offset;
};

static inline struct elf_form elf_writer_form(const struct elf_writer *writer)
{
    return elf_form_of(writer->elf_class, writer->elf_data);
}

/* Starts a file with this build ID. The caller must have set the members up to `has_segment`. False
 * if out of memory. Free with elf_writer_free, even after a failure. */
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
    /* Called for a section that has bytes in the file. If NULL, they go to `bytes`. */
    bool (*section)(void *context, const struct elf_writer_section *section, struct error *error);
    void *context;
};

/* Passes the whole file to the sink. */
bool elf_writer_walk(const struct elf_writer *writer, const struct elf_writer_sink *sink,
                     struct error *error);

#endif
