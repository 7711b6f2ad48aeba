/*
 * Finding the coverage mapping in an ELF relocatable: see elf_object.h.
 *
 * The names of sections tell what they are, as they tell linkers. Anything that is not as compilers
 * and linkers write it, such as a group with other members, makes the object stay.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/numbers.h"
#include "common/llvm/coverage.h"
#include "common/llvm/section.h"
#include "formats/machine/machine.h"
#include "formats/object/elf_object.h"

#define GROUP_WORD 4 /* the size of a member of a group */

enum result elf_object_damaged(const struct elf_object *object, const char *what)
{
    return object_keep(object->packing, "%s damaged; compile it again", what);
}

static enum result nothing_to_do(struct elf_object *object, enum object_outcome outcome)
{
    object->packing->outcome = outcome;
    return RESULT_UNFIT;
}

void elf_object_free(struct elf_object *object)
{
    object_units_free(&object->units);
    free(object->roles);
    free(object->signatures);
    free(object->new_sections);
    free(object->new_symbols);
}

/* ---- structures ---- */

/* A field of a structure, by class. */
#define FIELD(object, at, type, field)                                                             \
    ((object)->wide ? load_number((at) + offsetof(Elf64_##type, field),                            \
                                  sizeof(((Elf64_##type *)0)->field), (object)->big_endian)        \
                    : load_number((at) + offsetof(Elf32_##type, field),                            \
                                  sizeof(((Elf32_##type *)0)->field), (object)->big_endian))

Elf64_Shdr elf_object_section(const struct elf_object *object, uint32_t number)
{
    const uint8_t *at = object->file.data + object->section_headers +
                        (uint64_t)number * elf_object_section_size(object);

    return (Elf64_Shdr){
        .sh_name = (Elf64_Word)FIELD(object, at, Shdr, sh_name),
        .sh_type = (Elf64_Word)FIELD(object, at, Shdr, sh_type),
        .sh_flags = FIELD(object, at, Shdr, sh_flags),
        .sh_addr = FIELD(object, at, Shdr, sh_addr),
        .sh_offset = FIELD(object, at, Shdr, sh_offset),
        .sh_size = FIELD(object, at, Shdr, sh_size),
        .sh_link = (Elf64_Word)FIELD(object, at, Shdr, sh_link),
        .sh_info = (Elf64_Word)FIELD(object, at, Shdr, sh_info),
        .sh_addralign = FIELD(object, at, Shdr, sh_addralign),
        .sh_entsize = FIELD(object, at, Shdr, sh_entsize),
    };
}

static bool slice_section(const struct elf_object *object, const Elf64_Shdr *header,
                          struct bytes *bytes)
{
    *bytes = (struct bytes){0};
    return header->sh_type == SHT_NOBITS || header->sh_type == SHT_NULL ||
           bytes_slice(object->file, header->sh_offset, header->sh_size, bytes);
}

struct bytes elf_object_bytes(const struct elf_object *object, uint32_t number)
{
    const Elf64_Shdr header = elf_object_section(object, number);
    struct bytes bytes;

    slice_section(object, &header, &bytes);
    return bytes;
}

struct elf_object_symbol elf_object_symbol(const struct elf_object *object, uint32_t number)
{
    const uint8_t *at = elf_object_bytes(object, object->symbol_table).data +
                        (uint64_t)number * elf_object_symbol_size(object);
    struct elf_object_symbol symbol = {
        .name = (uint32_t)FIELD(object, at, Sym, st_name),
        .info = at[object->wide ? offsetof(Elf64_Sym, st_info) : offsetof(Elf32_Sym, st_info)],
        .section = (uint32_t)FIELD(object, at, Sym, st_shndx),
        .value = FIELD(object, at, Sym, st_value),
    };

    if (symbol.section == SHN_XINDEX && object->extended != 0)
        symbol.section = load_u32(elf_object_bytes(object, object->extended).data +
                                      (uint64_t)number * sizeof(Elf32_Word),
                                  object->big_endian);
    else
        symbol.is_special = symbol.section >= SHN_LORESERVE;
    return symbol;
}

const char *elf_object_symbol_name(const struct elf_object *object,
                                   const struct elf_object_symbol *symbol)
{
    struct bytes names = elf_object_bytes(object, object->symbol_names);

    return symbol->name < names.size ? (const char *)names.data + symbol->name : "";
}

/* ---- headers ---- */

/* Whether it is an object of a known version of ELF, for a known machine. */
static bool recognize(struct elf_object *object)
{
    const uint8_t *at = object->file.data;
    const struct machine *machine;

    if (object->file.size < sizeof(Elf32_Ehdr) || memcmp(at, ELFMAG, SELFMAG) != 0 ||
        at[EI_VERSION] != EV_CURRENT)
        return false;
    object->wide = at[EI_CLASS] == ELFCLASS64;
    object->big_endian = at[EI_DATA] == ELFDATA2MSB;
    if (object->file.size < elf_object_header_size(object) ||
        FIELD(object, at, Ehdr, e_type) != ET_REL)
        return false;
    machine = machine_find((uint16_t)FIELD(object, at, Ehdr, e_machine), at[EI_CLASS], at[EI_DATA]);
    object->is_mips64 = machine != NULL && machine->elf_machine == EM_MIPS && object->wide;
    return machine != NULL;
}

/* If there are many sections, section header 0 has the numbers that do not fit the ELF header. */
static enum result read_header(struct elf_object *object)
{
    const uint8_t *at = object->file.data;
    size_t size = elf_object_section_size(object);
    uint64_t count = FIELD(object, at, Ehdr, e_shnum);
    struct bytes table;

    object->section_headers = FIELD(object, at, Ehdr, e_shoff);
    object->names = (uint32_t)FIELD(object, at, Ehdr, e_shstrndx);
    if (object->section_headers == 0)
        return nothing_to_do(object, OBJECT_NO_COVERAGE);
    if (FIELD(object, at, Ehdr, e_shentsize) != size ||
        !bytes_slice(object->file, object->section_headers, size, &table))
        return elf_object_damaged(object, "its section headers are");
    if (count == 0)
        count = elf_object_section(object, 0).sh_size;
    if (object->names == SHN_XINDEX)
        object->names = elf_object_section(object, 0).sh_link;
    if (count > object->file.size / size || object->names >= count ||
        !bytes_slice(object->file, object->section_headers, count * size, &table))
        return elf_object_damaged(object, "its section headers are");
    object->section_count = (uint32_t)count;
    if (FIELD(object, at, Ehdr, e_phnum) != 0 ||
        FIELD(object, at, Ehdr, e_ehsize) != elf_object_header_size(object))
        return elf_object_damaged(object, "its ELF header is");
    return RESULT_OK;
}

/* A string table ends with a NUL, so that each string in it does. */
static bool read_strings(const struct elf_object *object, uint32_t number, struct bytes *strings)
{
    const Elf64_Shdr header = elf_object_section(object, number);

    return header.sh_type == SHT_STRTAB && slice_section(object, &header, strings) &&
           strings->size != 0 && strings->size <= UINT32_MAX &&
           strings->data[strings->size - 1] == '\0';
}

static bool has_name(const struct elf_object *object, const Elf64_Shdr *header,
                     enum section_kind kind)
{
    return header->sh_name < object->section_names.size &&
           strcmp((const char *)object->section_names.data + header->sh_name,
                  section_kind_name(kind)) == 0;
}

/* ---- sections ---- */

static bool is_removable(const Elf64_Shdr *header)
{
    return header->sh_type == SHT_PROGBITS && header->sh_addralign == COVERAGE_ALIGNMENT &&
           (header->sh_flags & ~(uint64_t)(SHF_GNU_RETAIN | SHF_GROUP)) == 0;
}

/* Finds the coverage mapping; unfit if the object has none, or none that is in records. */
static enum result find_mapping(struct elf_object *object)
{
    bool has_covmap = false, has_covfun = false;

    for (uint32_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_object_section(object, i);
        bool is_covmap = has_name(object, &header, SECTION_COVMAP);

        if (!is_covmap && !has_name(object, &header, SECTION_COVFUN))
            continue;
        if (!is_removable(&header))
            return object_keep(object->packing,
                               "its sections with coverage mapping are not of the kind that "
                               "clang 13 and later write; compile it with one of these");
        object->roles[i] = !is_covmap ? ROLE_COVFUN : has_covmap ? ROLE_OTHER_COVMAP : ROLE_COVMAP;
        has_covmap = has_covmap || is_covmap;
        has_covfun = has_covfun || !is_covmap;
    }
    if (!has_covfun)
        return nothing_to_do(object, OBJECT_NO_COVERAGE);
    return has_covmap ? RESULT_OK
                      : object_keep(object->packing, "it has records of functions, but no "
                                                     "__llvm_covmap; compile it again");
}

static enum result read_symbol_table(struct elf_object *object, uint32_t number,
                                     const Elf64_Shdr *header)
{
    uint64_t count = header->sh_size / elf_object_symbol_size(object);
    struct bytes names;

    if (object->symbol_table != 0 || header->sh_entsize != elf_object_symbol_size(object) ||
        header->sh_size % header->sh_entsize != 0 || count >= UINT32_MAX ||
        header->sh_info > count || !read_strings(object, header->sh_link, &names))
        return elf_object_damaged(object, "its symbol table is");
    object->symbol_table = number;
    object->symbol_names = header->sh_link;
    object->symbol_count = (uint32_t)count;
    return RESULT_OK;
}

/* Checks what is relied upon later, and finds the symbols. */
static enum result check_sections(struct elf_object *object)
{
    for (uint32_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_object_section(object, i);
        enum result result = RESULT_OK;
        struct bytes bytes;

        if (header.sh_name >= object->section_names.size)
            return elf_object_damaged(object, "the name of a section is");
        if (i == 0 && header.sh_type != SHT_NULL)
            return elf_object_damaged(object, "the first section header is");
        if (i == 0)
            continue; /* has numbers of its own */
        if (header.sh_link >= object->section_count || !slice_section(object, &header, &bytes) ||
            (header.sh_addralign != 0 && !is_power_of_two(header.sh_addralign)))
            return elf_object_damaged(object, "a section header is");
        if (header.sh_type == SHT_SYMTAB)
            result = read_symbol_table(object, i, &header);
        else if (header.sh_type == SHT_SYMTAB_SHNDX && object->extended != 0)
            result = elf_object_damaged(object, "its symbol table is");
        else if (header.sh_type == SHT_SYMTAB_SHNDX)
            object->extended = i;
        if (result != RESULT_OK)
            return result;
    }
    if (object->extended != 0 &&
        (object->symbol_table == 0 ||
         elf_object_section(object, object->extended).sh_link != object->symbol_table ||
         elf_object_bytes(object, object->extended).size !=
             (uint64_t)object->symbol_count * sizeof(Elf32_Word)))
        return elf_object_damaged(object, "its table of extended section numbers is");
    return RESULT_OK;
}

/* ---- groups ---- */

static enum result read_group(struct elf_object *object, uint32_t number, const Elf64_Shdr *header)
{
    struct bytes group = elf_object_bytes(object, number);
    uint64_t words = group.size / GROUP_WORD;
    uint32_t covfun = 0;

    if (group.size % GROUP_WORD != 0 || words == 0 || header->sh_link != object->symbol_table ||
        header->sh_info >= object->symbol_count)
        return elf_object_damaged(object, "a group of sections is");
    for (uint64_t i = 1; i < words; i++) {
        uint32_t member = load_u32(group.data + i * GROUP_WORD, object->big_endian);

        if (member >= object->section_count)
            return elf_object_damaged(object, "a group of sections is");
        if (object->roles[member] != ROLE_STAYS)
            covfun = member;
    }
    if (covfun == 0)
        return RESULT_OK;
    if (words != 2 || object->roles[covfun] != ROLE_COVFUN)
        return object_keep(object->packing,
                           "a function's record is in a group with other sections; compile it with "
                           "clang 13 or later");
    if (load_u32(group.data, object->big_endian) != GRP_COMDAT)
        return object_keep(object->packing,
                           "a function's record is in a group that is not COMDAT; pack the object "
                           "before its symbols are made local");
    if (header->sh_info == 0 || object->signatures[covfun] != 0 ||
        object->new_symbols[header->sh_info] == SYMBOL_SIGNATURE)
        return elf_object_damaged(object, "a group of sections is");
    object->roles[number] = ROLE_GROUP;
    object->signatures[covfun] = header->sh_info;
    object->new_symbols[header->sh_info] = SYMBOL_SIGNATURE;
    return RESULT_OK;
}

static enum result read_groups(struct elf_object *object)
{
    for (uint32_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_object_section(object, i);
        enum result result =
            header.sh_type == SHT_GROUP ? read_group(object, i, &header) : RESULT_OK;

        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* ---- units and records ---- */

static enum result add_covmaps(struct elf_object *object)
{
    enum result result = RESULT_OK;

    for (uint32_t i = 1; result == RESULT_OK && i < object->section_count; i++) {
        if (object->roles[i] == ROLE_COVMAP || object->roles[i] == ROLE_OTHER_COVMAP)
            result = object_units_add_covmap(&object->units, elf_object_bytes(object, i),
                                             object->packing);
    }
    return result;
}

static enum result add_covfun(struct elf_object *object, uint32_t number)
{
    bool in_group = (elf_object_section(object, number).sh_flags & SHF_GROUP) != 0;
    struct bytes signature = {0};

    if (in_group != (object->signatures[number] != 0))
        return elf_object_damaged(object, "a group of sections is");
    if (in_group) {
        struct elf_object_symbol symbol = elf_object_symbol(object, object->signatures[number]);
        const char *name = elf_object_symbol_name(object, &symbol);

        signature = (struct bytes){(const uint8_t *)name, strlen(name)};
    }
    return object_units_add_covfun(&object->units, elf_object_bytes(object, number), signature,
                                   object->packing);
}

static enum result add_covfuns(struct elf_object *object)
{
    enum result result = RESULT_OK;

    for (uint32_t i = 1; result == RESULT_OK && i < object->section_count; i++) {
        if (object->roles[i] == ROLE_COVFUN)
            result = add_covfun(object, i);
    }
    return result;
}

/* ---- all of it ---- */

bool elf_object_is_kind(const struct elf_object *object, uint32_t number, enum section_kind kind)
{
    const Elf64_Shdr header = elf_object_section(object, number);

    return has_name(object, &header, kind);
}

enum result elf_object_read_headers(struct elf_object *object, struct bytes file,
                                    struct object_packing *packing)
{
    enum result result;

    *object = (struct elf_object){.file = file, .packing = packing};
    if (!recognize(object))
        return nothing_to_do(object, OBJECT_NOT_ONE);
    object->units.big_endian = object->big_endian;
    result = read_header(object);
    if (result == RESULT_OK && !read_strings(object, object->names, &object->section_names))
        result = elf_object_damaged(object, "its table of section names is");
    return result;
}

static enum result find_sections(struct elf_object *object)
{
    enum result result;

    object->roles = calloc(object->section_count, sizeof(*object->roles));
    if (object->roles == NULL)
        return RESULT_NO_MEMORY;
    result = find_mapping(object);
    if (result == RESULT_OK)
        result = check_sections(object);
    return result;
}

enum result elf_object_read(struct elf_object *object, struct bytes file,
                            struct object_packing *packing)
{
    enum result result = elf_object_read_headers(object, file, packing);

    if (result == RESULT_OK)
        result = find_sections(object);
    if (result != RESULT_OK)
        return result;
    object->signatures = calloc(object->section_count, sizeof(*object->signatures));
    object->new_symbols = calloc((size_t)object->symbol_count + 1, sizeof(*object->new_symbols));
    if (object->signatures == NULL || object->new_symbols == NULL)
        return RESULT_NO_MEMORY;
    result = read_groups(object);
    if (result == RESULT_OK)
        result = add_covmaps(object);
    return result == RESULT_OK ? add_covfuns(object) : result;
}
