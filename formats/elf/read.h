/*
 * An ELF image as its tables say it is, read through libelf and checked.
 *
 * elf_image_open checks everything that the rest of the ELF code relies on, once: after it has
 * returned true, every program header and section lies inside the file, the loadable segments are
 * in ascending order and apart from each other, and no sum of an offset or address and a size wraps
 * around.
 */
#ifndef COVSPLIT_FORMATS_ELF_READ_H
#define COVSPLIT_FORMATS_ELF_READ_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "formats/machine/machine.h"
#include "formats/plan.h"

/* Bytes that the structures of the image's class take in the file. */
struct elf_sizes {
    size_t ehdr;
    size_t phdr;
    size_t shdr;
    size_t sym;
    size_t dyn;
    size_t rel;
    size_t rela;
    size_t word; /* an address */
};

struct elf_image {
    const struct input *input;
    const char *path; /* the input's, for messages */
    struct bytes file;
    Elf *elf;
    const struct machine *machine; /* has relocations */
    struct elf_sizes sizes;
    GElf_Ehdr ehdr;
    GElf_Phdr *phdrs;
    size_t phnum;
    GElf_Shdr *shdrs;
    size_t shnum;
    struct bytes section_names; /* .shstrtab */
    GElf_Dyn *dynamic;          /* up to and with DT_NULL */
    size_t dynamic_count;       /* 0: the image has no PT_DYNAMIC */
    uint64_t dynamic_offset;    /* in the file */
};

/* Opens an executable or shared library for a machine of the table. The input must outlive the
 * image. On failure nothing is left to close. */
bool elf_image_open(struct elf_image *image, const struct input *input, struct error *error);
void elf_image_close(struct elf_image *image);

/* "" where the name is not inside the string table. */
const char *elf_section_name(const struct elf_image *image, size_t index);
/* Index of the first section of that name behind `after` (0: from the start); NO_INDEX if none. */
size_t elf_section_find(const struct elf_image *image, const char *name, size_t after);
/* The section's bytes in the file: empty for SHT_NOBITS. */
struct bytes elf_section_bytes(const struct elf_image *image, size_t index);
/* True for a section that takes up bytes of the file. */
bool elf_section_in_file(const GElf_Shdr *shdr);

/* Index of the PT_LOAD segment that holds all of [address, address + size) in its file part;
 * NO_INDEX if none does. */
size_t elf_segment_of(const struct elf_image *image, uint64_t address, uint64_t size);
/* Index of the first PT_LOAD, and address minus file offset where it has the ELF header. */
size_t elf_first_load(const struct elf_image *image);
uint64_t elf_header_base(const struct elf_image *image);
/* The bytes loaded at [address, address + size); false where the file does not have them. */
bool elf_bytes_at(const struct elf_image *image, uint64_t address, uint64_t size,
                  struct bytes *bytes);

/* An address, or what else has its size, as the file has it. */
uint64_t elf_load_word(const struct elf_image *image, const uint8_t *from);
void elf_store_word(const struct elf_image *image, uint8_t *to, uint64_t value);

/* The symbol at `entry`, as the file has it, and where in it st_value is. */
GElf_Sym elf_load_symbol(const struct elf_image *image, const uint8_t *entry);
size_t elf_symbol_value_offset(const struct elf_image *image);

/* The entry with that tag; NULL if there is none. */
const GElf_Dyn *elf_dynamic_find(const struct elf_image *image, GElf_Sxword tag);

/* The GNU build ID: size 0 where there is none. False for one that is too long, or for several
 * that differ. */
bool elf_build_id(const struct elf_image *image, struct uuid *uuid, struct error *error);

#endif
