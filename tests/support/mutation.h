/*
 * Damages files in the places that a parser relies on.
 *
 * A mutation changes one to four fields: of the ELF header, of a section or program header, of a
 * dynamic entry, a relocation, a symbol or a note, or bytes of the sections that covsplit looks
 * into and of the profile runtime's code. The values are the ones that break parsers: zero, the
 * largest, the file's size, one more or less than before, single bits, noise. The seed decides
 * everything.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_MUTATION_H
#define COVSPLIT_TESTS_SUPPORT_MUTATION_H

#include <stdint.h>

#include "tests/support/elf_file.h"
#include "tests/support/windows_image.h"

/* A damaged copy of the file; *description, which the caller frees, says what was changed. */
struct contents mutate_elf(const struct elf_file *elf, uint64_t seed, char **description);

/* The same for a PE file: its headers, directories, sections, base relocations, debug directory,
 * symbols, and bytes of code and of sections that covsplit looks into. */
struct contents mutate_pe(const struct pe_file *pe, uint64_t seed, char **description);

/* The same for a file without known structure: single bytes and 64-bit words are changed, most of
 * them among the first 256 bytes. */
struct contents mutate_bytes(const struct contents *file, uint64_t seed, char **description);

/* A part of a file. */
struct mutated_part {
    uint64_t offset;
    uint64_t size;
};

/* The same for a file of which only these parts matter: numbers of 1 to 8 bytes in them, in the
 * byte order of most machines, are changed. */
struct contents mutate_parts(const struct contents *file, const struct mutated_part *parts,
                             size_t count, uint64_t seed, char **description);

#endif
