/*
 * The tables of an ELF image, read through libelf and checked.
 *
 * elf_image_open checks, once, everything that the rest of the ELF code relies on. After it has
 * returned true, every program header and section lies inside the file, the loadable segments do
 * not overlap in memory, and no sum of an offset or address and a size wraps around. They are in
 * ascending order, too, except in executables, where a linker script may have put RAM before flash.
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

/* Sizes in bytes, in the file, of the structures of the image's class. */
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
    const char *path; /* of the input, for messages */
    struct bytes file;
    Elf *elf;
    const struct machine *machine; /* its member `relocations` is not NULL */
    struct elf_sizes sizes;
    GElf_Ehdr ehdr;
    GElf_Phdr *phdrs;
    size_t phnum;
    GElf_Shdr *shdrs;
    size_t shnum;
    struct bytes section_names; /* .shstrtab */
    GElf_Dyn *dynamic;          /* up to and including DT_NULL */
    size_t dynamic_count;       /* 0: the image has no PT_DYNAMIC */
    uint64_t dynamic_offset;    /* in the file */
};

/* Opens an executable or shared library for one of the known machines. The input must outlive the
 * image. After a failure there is nothing to close. */
bool elf_image_open(struct elf_image *image, const struct input *input, struct error *error);
void elf_image_close(struct elf_image *image);

/* "" if the name is not inside the string table. Points into the file. */
const char *elf_section_name(const struct elf_image *image, size_t index);
/* Index of the first section of that name behind `after` (0: from the start); NO_INDEX if none. */
size_t elf_section_find(const struct elf_image *image, const char *name, size_t after);
/* The section's bytes in the file: empty for SHT_NOBITS. */
struct bytes elf_section_bytes(const struct elf_image *image, size_t index);
/* The address and size of what the runtime finds in the section of that kind. In a stripped image
 * the last counters may be in the section of the stub (elf/zeros.c). */
void elf_section_place(const struct elf_image *image, size_t index, enum section_kind kind,
                       uint64_t *address, uint64_t *size);
/* In a stripped image, the size in bytes of the stub at the end of the data section; 0 if there is
 * none. If counters precede it, sh_entsize is ELF_STUB_UNIT, of which its size is a multiple. */
#define ELF_STUB_UNIT 8
size_t elf_stub_size(const struct elf_image *image, size_t index);
/* True for a section that occupies bytes of the file. */
bool elf_section_in_file(const GElf_Shdr *shdr);

/* Index of the PT_LOAD segment whose part in the file holds all of [address, address + size);
 * NO_INDEX if there is none. */
size_t elf_segment_of(const struct elf_image *image, uint64_t address, uint64_t size);
/* Whether the address of a segment and its offset in the file agree with its alignment. Where it
 * has no bytes in the file, the offset means nothing; GNU ld makes it 0. */
bool elf_segment_is_aligned(const GElf_Phdr *phdr);
/* Whether the PT_LOAD segments are apart in memory and, unless the image is an executable, in
 * ascending order. */
bool elf_segments_are_apart(const struct elf_image *image, const GElf_Phdr *phdrs, size_t count);

/* Whether the image is firmware: no system maps the file into memory. A loader, a debugger or
 * objcopy copies the segments to their load addresses (p_paddr), and neither headers nor offsets in
 * the file mean anything when it runs. */
bool elf_is_firmware(const struct elf_image *image);

/* Index of the first PT_LOAD, and the difference of address and file offset in the one that holds
 * the ELF header. */
size_t elf_first_load(const struct elf_image *image);
uint64_t elf_header_base(const struct elf_image *image);
/* The bytes loaded at [address, address + size); false if they are not in the file. */
bool elf_bytes_at(const struct elf_image *image, uint64_t address, uint64_t size,
                  struct bytes *bytes);

/* Refuses an image with bytes behind everything that the headers describe. They belong to someone
 * else (an archive that the program opens, a signature), who may look for them at a fixed
 * offset. */
bool elf_check_tail(const struct elf_image *image, struct error *error);

/* An address, or another value of that size, in the file's byte order and size. */
uint64_t elf_load_word(const struct elf_image *image, const uint8_t *from);
void elf_store_word(const struct elf_image *image, uint8_t *to, uint64_t value);

/* The symbol at `entry` in a symbol table, and the offset of st_value in an entry. */
GElf_Sym elf_load_symbol(const struct elf_image *image, const uint8_t *entry);
size_t elf_symbol_value_offset(const struct elf_image *image);

/* The entry with that tag; NULL if there is none. */
const GElf_Dyn *elf_dynamic_find(const struct elf_image *image, GElf_Sxword tag);

/* The GNU build ID; its size is 0 if there is none. False if it is too long, or if the image has
 * several that differ. */
bool elf_build_id(const struct elf_image *image, struct uuid *uuid, struct error *error);

#endif
