/*
 * Encoding ELF structures: see elf_file/encode.h. libelf converts the byte order, but has no
 * function that converts 64-bit structures to 32-bit ones.
 */
#include "common/elf_file/encode.h"

#include <string.h>

static Elf32_Ehdr narrow_ehdr(const Elf64_Ehdr *wide)
{
    Elf32_Ehdr narrow = {.e_type = wide->e_type,
                         .e_machine = wide->e_machine,
                         .e_version = wide->e_version,
                         .e_entry = (Elf32_Addr)wide->e_entry,
                         .e_phoff = (Elf32_Off)wide->e_phoff,
                         .e_shoff = (Elf32_Off)wide->e_shoff,
                         .e_flags = wide->e_flags,
                         .e_ehsize = wide->e_ehsize,
                         .e_phentsize = wide->e_phentsize,
                         .e_phnum = wide->e_phnum,
                         .e_shentsize = wide->e_shentsize,
                         .e_shnum = wide->e_shnum,
                         .e_shstrndx = wide->e_shstrndx};

    memcpy(narrow.e_ident, wide->e_ident, EI_NIDENT);
    return narrow;
}

static Elf32_Phdr narrow_phdr(const Elf64_Phdr *wide)
{
    return (Elf32_Phdr){.p_type = wide->p_type,
                        .p_offset = (Elf32_Off)wide->p_offset,
                        .p_vaddr = (Elf32_Addr)wide->p_vaddr,
                        .p_paddr = (Elf32_Addr)wide->p_paddr,
                        .p_filesz = (Elf32_Word)wide->p_filesz,
                        .p_memsz = (Elf32_Word)wide->p_memsz,
                        .p_flags = wide->p_flags,
                        .p_align = (Elf32_Word)wide->p_align};
}

static Elf32_Shdr narrow_shdr(const Elf64_Shdr *wide)
{
    return (Elf32_Shdr){.sh_name = wide->sh_name,
                        .sh_type = wide->sh_type,
                        .sh_flags = (Elf32_Word)wide->sh_flags,
                        .sh_addr = (Elf32_Addr)wide->sh_addr,
                        .sh_offset = (Elf32_Off)wide->sh_offset,
                        .sh_size = (Elf32_Word)wide->sh_size,
                        .sh_link = wide->sh_link,
                        .sh_info = wide->sh_info,
                        .sh_addralign = (Elf32_Word)wide->sh_addralign,
                        .sh_entsize = (Elf32_Word)wide->sh_entsize};
}

static Elf32_Dyn narrow_dyn(const Elf64_Dyn *wide)
{
    return (Elf32_Dyn){.d_tag = (Elf32_Sword)wide->d_tag,
                       .d_un.d_val = (Elf32_Word)wide->d_un.d_val};
}

static Elf32_Chdr narrow_chdr(const Elf64_Chdr *wide)
{
    return (Elf32_Chdr){.ch_type = wide->ch_type,
                        .ch_size = (Elf32_Word)wide->ch_size,
                        .ch_addralign = (Elf32_Word)wide->ch_addralign};
}

size_t elf_encoded_size(uint8_t elf_class, Elf_Type type)
{
    return elf_class == ELFCLASS64 ? elf64_fsize(type, 1, EV_CURRENT)
                                   : elf32_fsize(type, 1, EV_CURRENT);
}

/* Converts 64-bit structures to 32-bit ones at `to`, in the host's byte order. */
static void narrow_all(Elf_Type type, const void *wide, size_t count, uint8_t *to)
{
#define NARROW_ALL(Kind, function)                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
        Elf32_##Kind narrow = function((const Elf64_##Kind *)wide + i);                            \
        memcpy(to + i * sizeof(narrow), &narrow, sizeof(narrow));                                  \
    }
    switch (type) {
    case ELF_T_EHDR:
        NARROW_ALL(Ehdr, narrow_ehdr)
        break;
    case ELF_T_PHDR:
        NARROW_ALL(Phdr, narrow_phdr)
        break;
    case ELF_T_SHDR:
        NARROW_ALL(Shdr, narrow_shdr)
        break;
    case ELF_T_DYN:
        NARROW_ALL(Dyn, narrow_dyn)
        break;
    default:
        NARROW_ALL(Chdr, narrow_chdr)
        break;
    }
#undef NARROW_ALL
}

bool elf_encode(uint8_t elf_class, uint8_t elf_data, Elf_Type type, const void *structures,
                size_t count, struct buffer *encoded)
{
    size_t size = count * elf_encoded_size(elf_class, type);
    Elf_Data data = {.d_type = type, .d_version = EV_CURRENT, .d_size = size};

    if (size == 0)
        return true;
    if (!buffer_reserve(encoded, size))
        return false;
    data.d_buf = encoded->data + encoded->size;
    if (elf_class == ELFCLASS64)
        memcpy(data.d_buf, structures, size);
    else
        narrow_all(type, structures, count, data.d_buf);
    if ((elf_class == ELFCLASS64 ? elf64_xlatetof(&data, &data, elf_data)
                                 : elf32_xlatetof(&data, &data, elf_data)) == NULL)
        return false;
    encoded->size += size;
    return true;
}
