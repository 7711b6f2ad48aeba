/*
 * ELF headers: see elf_header.h.
 */
#include "split/snapshot/elf_header.h"

#include <stddef.h>

#include "common/base/numbers.h"

/* A field of a structure whose form depends on the class. */
#define FIELD(structure, member)                                                                   \
    field(header, entry.data,                                                                      \
          header->wide ? offsetof(Elf64_##structure, member)                                       \
                       : offsetof(Elf32_##structure, member),                                      \
          header->wide ? sizeof(((Elf64_##structure *)0)->member)                                  \
                       : sizeof(((Elf32_##structure *)0)->member))

static uint64_t field(const struct elf_header *header, const uint8_t *structure, size_t offset,
                      size_t size)
{
    return load_number(structure + offset, (unsigned)size, header->big_endian);
}

bool elf_header_read(struct bytes bytes, struct elf_header *header)
{
    const uint8_t *ident = bytes.data;
    struct bytes entry;

    if (bytes.size < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
        (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
        (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB) ||
        ident[EI_VERSION] != EV_CURRENT)
        return false;
    *header = (struct elf_header){.wide = ident[EI_CLASS] == ELFCLASS64,
                                  .big_endian = ident[EI_DATA] == ELFDATA2MSB};
    if (!bytes_slice(bytes, 0, header->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr), &entry))
        return false;
    header->type = (uint16_t)FIELD(Ehdr, e_type);
    header->machine = (uint16_t)FIELD(Ehdr, e_machine);
    header->segments_offset = FIELD(Ehdr, e_phoff);
    header->segment_count = FIELD(Ehdr, e_phnum);
    header->segment_entry_size = FIELD(Ehdr, e_phentsize);
    header->sections_offset = FIELD(Ehdr, e_shoff);
    return header->segment_count == 0 ||
           header->segment_entry_size == (header->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr));
}

bool elf_segment_read(const struct elf_header *header, struct bytes table, uint64_t index,
                      struct elf_segment *segment)
{
    struct bytes entry;
    uint64_t offset;

    if (__builtin_mul_overflow(index, header->segment_entry_size, &offset) ||
        !bytes_slice(table, offset, header->segment_entry_size, &entry))
        return false;
    *segment = (struct elf_segment){
        .type = (uint32_t)FIELD(Phdr, p_type),
        .flags = (uint32_t)FIELD(Phdr, p_flags),
        .offset = FIELD(Phdr, p_offset),
        .address = FIELD(Phdr, p_vaddr),
        .file_size = FIELD(Phdr, p_filesz),
        .memory_size = FIELD(Phdr, p_memsz),
    };
    return true;
}

void elf_segment_drop(const struct elf_header *header, uint8_t *table, uint64_t index)
{
    uint8_t *entry = table + index * header->segment_entry_size;

    if (header->wide)
        store_u64(entry + offsetof(Elf64_Phdr, p_filesz), 0, header->big_endian);
    else
        store_u32(entry + offsetof(Elf32_Phdr, p_filesz), 0, header->big_endian);
}
