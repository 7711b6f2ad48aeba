/*
 * Notes, as in sections of type SHT_NOTE (sh_addralign 4).
 *
 * A note consists of n_namesz, n_descsz and n_type (32 bits each), the owner's name with its NUL,
 * and the description, both padded with zeros to a multiple of 4. All numbers are in the file's
 * byte order.
 */
#ifndef COVSPLIT_COMMON_ELF_FILE_NOTE_H
#define COVSPLIT_COMMON_ELF_FILE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define ELF_NOTE_ALIGNMENT   4
#define ELF_BUILD_ID_SECTION ".note.gnu.build-id"

/* Appends a note. False (without a message) if out of memory. */
bool elf_note_append(struct buffer *encoded, bool big_endian, const char *owner, uint32_t type,
                     struct bytes description);

/* A note in a section, its parts inside the section's data. */
struct elf_note {
    uint32_t type;
    struct bytes owner; /* with its NUL */
    struct bytes description;
    uint64_t description_offset; /* in the section */
};

/* The contents of a section of notes, as they are in the file. */
struct elf_note_list {
    struct bytes bytes;
    bool big_endian;
};

/* Reads the note at *offset (0 for the first) and moves *offset to the next. False at the end, and
 * if there is no complete note. */
bool elf_note_next(const struct elf_note_list *list, size_t *offset, struct elf_note *note);

bool elf_note_is_of(const struct elf_note *note, const char *owner);

#endif
