/*
 * The structures of ELF, of either class and byte order: see elf_file.h. Each is told once, as a
 * list of its fields, by which it is read and written.
 */
#include <string.h>

#include "common/elf_file/elf_file.h"

struct elf_field {
    uint8_t wide_at, wide_size; /* in the structure of ELFCLASS64 */
    uint8_t at, size;           /* in that of ELFCLASS32 */
};

#define FIELD(Kind, member)                                                                        \
    {                                                                                              \
        offsetof(Elf64_##Kind, member), sizeof(((Elf64_##Kind *)0)->member),                       \
            offsetof(Elf32_##Kind, member), sizeof(((Elf32_##Kind *)0)->member)                    \
    }

static const struct elf_field ehdr_fields[] = {
    FIELD(Ehdr, e_ident),     FIELD(Ehdr, e_type),     FIELD(Ehdr, e_machine),
    FIELD(Ehdr, e_version),   FIELD(Ehdr, e_entry),    FIELD(Ehdr, e_phoff),
    FIELD(Ehdr, e_shoff),     FIELD(Ehdr, e_flags),    FIELD(Ehdr, e_ehsize),
    FIELD(Ehdr, e_phentsize), FIELD(Ehdr, e_phnum),    FIELD(Ehdr, e_shentsize),
    FIELD(Ehdr, e_shnum),     FIELD(Ehdr, e_shstrndx),
};
static const struct elf_field phdr_fields[] = {
    FIELD(Phdr, p_type),  FIELD(Phdr, p_flags),  FIELD(Phdr, p_offset), FIELD(Phdr, p_vaddr),
    FIELD(Phdr, p_paddr), FIELD(Phdr, p_filesz), FIELD(Phdr, p_memsz),  FIELD(Phdr, p_align),
};
static const struct elf_field shdr_fields[] = {
    FIELD(Shdr, sh_name),      FIELD(Shdr, sh_type),    FIELD(Shdr, sh_flags), FIELD(Shdr, sh_addr),
    FIELD(Shdr, sh_offset),    FIELD(Shdr, sh_size),    FIELD(Shdr, sh_link),  FIELD(Shdr, sh_info),
    FIELD(Shdr, sh_addralign), FIELD(Shdr, sh_entsize),
};
static const struct elf_field sym_fields[] = {
    FIELD(Sym, st_name),  FIELD(Sym, st_info),  FIELD(Sym, st_other),
    FIELD(Sym, st_shndx), FIELD(Sym, st_value), FIELD(Sym, st_size),
};
static const struct elf_field dyn_fields[] = {FIELD(Dyn, d_tag), FIELD(Dyn, d_un)};
static const struct elf_field chdr_fields[] = {FIELD(Chdr, ch_type), FIELD(Chdr, ch_size),
                                               FIELD(Chdr, ch_addralign)};

#define LAYOUT(Kind, fields)                                                                       \
    {                                                                                              \
        fields, sizeof(fields) / sizeof(*fields), sizeof(Elf64_##Kind), sizeof(Elf32_##Kind)       \
    }

const struct elf_layout elf_ehdr = LAYOUT(Ehdr, ehdr_fields);
const struct elf_layout elf_phdr = LAYOUT(Phdr, phdr_fields);
const struct elf_layout elf_shdr = LAYOUT(Shdr, shdr_fields);
const struct elf_layout elf_sym = LAYOUT(Sym, sym_fields);
const struct elf_layout elf_dyn = LAYOUT(Dyn, dyn_fields);
const struct elf_layout elf_chdr = LAYOUT(Chdr, chdr_fields);

/* Copies a field, whose size and byte order may differ. e_ident is bytes in all forms. */
static void copy_field(uint8_t *to, unsigned to_size, bool to_big_endian, const uint8_t *from,
                       unsigned from_size, bool from_big_endian)
{
    if (to_size == from_size && (to_size == 1 || to_size == EI_NIDENT))
        memcpy(to, from, to_size);
    else
        store_number(to, load_number(from, from_size, from_big_endian), to_size, to_big_endian);
}

bool elf_load(const struct elf_layout *layout, struct elf_form form, struct bytes part,
              uint64_t offset, void *to)
{
    uint8_t *structure = to;
    struct bytes from;
    bool is_inside = bytes_slice(part, offset, form.wide ? layout->wide_size : layout->size, &from);

    if (is_inside && elf_form_is_native(form)) {
        memcpy(to, from.data, layout->wide_size);
        return true;
    }
    memset(to, 0, layout->wide_size);
    for (size_t i = 0; is_inside && i < layout->field_count; i++) {
        const struct elf_field *field = &layout->fields[i];

        copy_field(structure + field->wide_at, field->wide_size, HOST_IS_BIG_ENDIAN,
                   from.data + (form.wide ? field->wide_at : field->at),
                   form.wide ? field->wide_size : field->size, form.big_endian);
    }
    return is_inside;
}

bool elf_put(struct buffer *to, const struct elf_layout *layout, struct elf_form form,
             const void *from)
{
    size_t start = to->size;
    const uint8_t *structure = from;

    if (!buffer_append_zeros(to, form.wide ? layout->wide_size : layout->size))
        return false;
    for (size_t i = 0; i < layout->field_count; i++) {
        const struct elf_field *field = &layout->fields[i];

        copy_field(to->data + start + (form.wide ? field->wide_at : field->at),
                   form.wide ? field->wide_size : field->size, form.big_endian,
                   structure + field->wide_at, field->wide_size, HOST_IS_BIG_ENDIAN);
    }
    return true;
}
