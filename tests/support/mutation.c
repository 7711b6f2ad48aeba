/*
 * The damage behind mutation.h.
 */
#include "tests/support/mutation.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/random.h"

#define CHANGES_MAX   4
#define HEAD_SIZE     256
#define PAGE_SIZE_MIN 4096
#define FUNCTION_SIZE 24

struct mutation {
    struct random_state random;
    const struct elf_file *elf; /* NULL: no structure, or that of */
    const struct pe_file *pe;
    struct contents bytes; /* the copy that is changed */
    char *description;
};

/* A field of the file: where it is and how many bytes it has. */
struct field {
    uint64_t offset;
    size_t size;
    const char *what;
};

static uint64_t pick(struct mutation *mutation, uint64_t limit)
{
    return random_below(&mutation->random, limit);
}

static uint64_t odd_value(struct mutation *mutation, uint64_t old)
{
    uint64_t size = mutation->bytes.size;
    const uint64_t values[] = {
        0,
        1,
        2,
        3,
        7,
        INT32_MAX,
        UINT32_MAX,
        size,
        size - 1,
        size + 1,
        size / 2,
        UINT64_MAX,
        UINT64_MAX - 7,
        UINT64_C(1) << 63,
        old + 1,
        old - 1,
        old * 2,
        old / 2,
        old + 8,
        old - 8,
        old + PAGE_SIZE_MIN,
        ~old,
        0 - old,
        old - PAGE_SIZE_MIN,
    };
    uint64_t choice = pick(mutation, 4);
    if (choice == 0) {
        return old ^ (UINT64_C(1) << pick(mutation, 64));
    }
    if (choice == 1) {
        return random_next(&mutation->random) >> pick(mutation, 64);
    }
    return values[pick(mutation, sizeof values / sizeof *values)];
}

static void change_field(struct mutation *mutation, struct field field)
{
    if (field.offset > mutation->bytes.size || field.size > mutation->bytes.size - field.offset) {
        return;
    }
    uint8_t *bytes = mutation->bytes.data + field.offset;
    bool is_big_endian = mutation->elf != NULL && mutation->elf->is_big_endian;
    uint64_t old = 0;
    for (size_t i = 0; i < field.size; i++) {
        old |= (uint64_t)bytes[is_big_endian ? field.size - 1 - i : i] << 8 * i;
    }
    uint64_t value = odd_value(mutation, old);
    for (size_t i = 0; i < field.size; i++) {
        bytes[is_big_endian ? field.size - 1 - i : i] = (uint8_t)(value >> 8 * i);
    }
    char *longer = text_format("%s [%s at %llu: %#llx -> %#llx]", mutation->description, field.what,
                               (unsigned long long)field.offset, (unsigned long long)old,
                               (unsigned long long)value);
    free(mutation->description);
    mutation->description = longer;
}

/* Sizes of the fields of a structure, in order; 0 ends the list. Those of ELF are of files with 64
 * and with 32 bits. */
static const size_t ehdr_fields[][20] = {
    {4, 1, 1, 1, 1, 8, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2},
    {4, 1, 1, 1, 1, 8, 2, 2, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2},
};
static const size_t shdr_fields[][11] = {{4, 4, 8, 8, 8, 8, 4, 4, 8, 8},
                                         {4, 4, 4, 4, 4, 4, 4, 4, 4, 4}};
static const size_t phdr_fields[][9] = {{4, 4, 8, 8, 8, 8, 8, 8}, {4, 4, 4, 4, 4, 4, 4, 4}};
static const size_t dyn_fields[][3] = {{8, 8}, {4, 4}};
static const size_t rela_fields[][4] = {{8, 8, 8}, {4, 4, 4}};
static const size_t rel_fields[][3] = {{8, 8}, {4, 4}};
static const size_t sym_fields[][7] = {{4, 1, 1, 2, 8, 8}, {4, 4, 4, 1, 1, 2}};
static const size_t word_fields[] = {8, 0};
static const size_t half_fields[] = {4, 0};
static const size_t quarter_fields[] = {2, 0};
static const size_t byte_fields[] = {1, 0};

/* A random field of a random element of a table. */
static struct field field_of_table(struct mutation *mutation, uint64_t offset, uint64_t size,
                                   const size_t *fields, const char *what)
{
    size_t element = 0;
    size_t count = 0;
    for (; fields[count] != 0; count++) {
        element += fields[count];
    }
    struct field field = {mutation->bytes.size, 0, what};
    if (size < element) {
        return field;
    }
    field.offset = offset + pick(mutation, size / element) * element;
    uint64_t chosen = pick(mutation, count);
    for (uint64_t i = 0; i < chosen; i++) {
        field.offset += fields[i];
    }
    field.size = fields[chosen];
    return field;
}

static struct field field_of_section(struct mutation *mutation, const char *name,
                                     const size_t *fields)
{
    const Elf64_Shdr *section = elf_file_section(mutation->elf, name);
    if (section == NULL || section->sh_type == SHT_NOBITS) {
        return (struct field){mutation->bytes.size, 0, name};
    }
    return field_of_table(mutation, section->sh_offset, section->sh_size, fields, name);
}

/* Where a symbol is, whose name has that in it: the first of a random stretch of the symbol table.
 * 0: there is none. */
static uint64_t find_symbol(struct mutation *mutation, const char *part, const char **name)
{
    const struct elf_file *elf = mutation->elf;
    const Elf64_Shdr *table = elf_file_section(elf, ".symtab");
    const Elf64_Shdr *names = elf_file_section(elf, ".strtab");
    if (table == NULL || names == NULL || table->sh_entsize == 0 ||
        table->sh_size < table->sh_entsize) {
        return 0;
    }
    uint64_t count = table->sh_size / table->sh_entsize;
    uint64_t start = pick(mutation, count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t symbol = table->sh_offset + (start + i) % count * table->sh_entsize;
        uint64_t name_offset = elf_file_number(elf, symbol, sizeof(Elf64_Word));
        *name = (const char *)elf->file.data + names->sh_offset + name_offset;
        if (name_offset < names->sh_size && strstr(*name, part) != NULL) {
            return symbol;
        }
    }
    return 0;
}

/* A symbol of the profile runtime or of its sections, or any. */
static struct field field_of_symbol(struct mutation *mutation)
{
    const char *name = NULL;
    const size_t *fields = sym_fields[mutation->elf->is_32_bit];
    uint64_t symbol = find_symbol(mutation, "_prof", &name);
    size_t size = mutation->elf->is_32_bit ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
    return symbol != 0 ? field_of_table(mutation, symbol, size, fields, name)
                       : field_of_section(mutation, ".symtab", fields);
}

/* The code of a function of the profile runtime's, most of which only return an address. */
static struct field field_of_function(struct mutation *mutation)
{
    const struct elf_file *elf = mutation->elf;
    const Elf64_Shdr *text = elf_file_section(elf, ".text");
    const char *name = NULL;
    uint64_t symbol = find_symbol(mutation, "__llvm_profile_", &name);
    if (symbol == 0 || text == NULL) {
        return field_of_section(mutation, ".text", half_fields);
    }
    /* An odd address says that the code is of another instruction set. */
    uint64_t address = elf_file_number(elf, symbol + (elf->is_32_bit ? 4 : 8), 4) & ~UINT64_C(1);
    if (address - (text->sh_addr & UINT32_MAX) >= text->sh_size) {
        return (struct field){mutation->bytes.size, 0, name};
    }
    uint64_t offset = text->sh_offset + address - (text->sh_addr & UINT32_MAX);
    return field_of_table(mutation, offset, FUNCTION_SIZE,
                          pick(mutation, 2) == 0 ? byte_fields : half_fields, name);
}

/* Any byte of a section that covsplit reads. */
static struct field field_of_contents(struct mutation *mutation)
{
    static const char *const names[] = {
        "__llvm_prf_data",   "__llvm_prf_names", ".note.gnu.build-id",
        ".shstrtab",         ".strtab",          ".interp",
        "__llvm_covnames",   "__llvm_covmap",    "__llvm_covfun",
        ".covsplit.inverse", ".dynstr",          ".note.gnu.property",
        ".init_array",       ".gnu.hash",        ".text",
    };
    static const size_t *const fields[] = {byte_fields, half_fields, word_fields};
    return field_of_section(mutation, names[pick(mutation, sizeof names / sizeof *names)],
                            fields[pick(mutation, sizeof fields / sizeof *fields)]);
}

static struct field choose_field(struct mutation *mutation)
{
    const struct elf_file *elf = mutation->elf;
    const Elf64_Ehdr *header = elf->header;
    bool half = elf->is_32_bit;
    switch (pick(mutation, 18)) {
    case 0:
        return field_of_table(mutation, 0, header->e_ehsize, ehdr_fields[half], "ELF header");
    case 1:
    case 2:
    case 3:
        return field_of_table(mutation, header->e_phoff, header->e_phnum * header->e_phentsize,
                              phdr_fields[half], "program header");
    case 4:
    case 5:
    case 6:
    case 7:
        return field_of_table(mutation, header->e_shoff, header->e_shnum * header->e_shentsize,
                              shdr_fields[half], "section header");
    case 8:
    case 9:
        return field_of_section(mutation, ".dynamic", dyn_fields[half]);
    case 10:
        return elf_file_section(elf, ".rel.dyn") != NULL
                   ? field_of_section(mutation, ".rel.dyn", rel_fields[half])
                   : field_of_section(mutation, ".rela.dyn", rela_fields[half]);
    case 11:
        return field_of_section(mutation, ".dynsym", sym_fields[half]);
    case 12:
    case 13:
        return field_of_symbol(mutation);
    case 14:
        return field_of_function(mutation);
    case 15:
        return field_of_section(mutation, ".got", word_fields);
    default:
        return field_of_contents(mutation);
    }
}

/* ---- PE ---- */

static const size_t coff_fields[] = {2, 2, 4, 4, 4, 2, 2, 0};
/* Alike in PE32 and PE32+ but for the two halves of ImageBase. */
static const size_t optional_fields[] = {2, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2,
                                         2, 2, 2, 2, 2, 4, 4, 4, 4, 2, 2, 0};
static const size_t directory_fields[] = {4, 4, 0};
static const size_t section_fields[] = {8, 4, 4, 4, 4, 4, 4, 2, 2, 4, 0};
static const size_t debug_fields[] = {4, 4, 2, 2, 4, 4, 4, 4, 0};
static const size_t symbol_fields[] = {4, 4, 4, 2, 2, 1, 1, 0};
static const size_t relocation_fields[] = {4, 4, 2, 2, 2, 2, 0};

static struct field field_of_pe_section(struct mutation *mutation, const char *name,
                                        const size_t *fields)
{
    const struct pe_section *section = pe_file_section(mutation->pe, name);
    if (section == NULL) {
        return (struct field){mutation->bytes.size, 0, name};
    }
    return field_of_table(mutation, section->raw_pointer, section->raw_size, fields, name);
}

/* The runtime's functions are the last in the code. */
static struct field field_of_pe_contents(struct mutation *mutation)
{
    static const char *const names[] = {".lprfd", ".lprfn",   ".lprfc",   ".lprfb", ".text",
                                        ".rdata", ".lcovfun", ".lcovmap", ".edata"};
    static const size_t *const fields[] = {byte_fields, half_fields, word_fields};
    const char *name = names[pick(mutation, sizeof names / sizeof *names)];
    if (pe_file_section(mutation->pe, name) == NULL) {
        name = ".data"; /* where linkers merge others into */
    }
    const struct pe_section *section = pe_file_section(mutation->pe, name);
    const size_t *size = fields[pick(mutation, sizeof fields / sizeof *fields)];
    uint64_t window = 2048;
    if (section == NULL || section->raw_size < window || pick(mutation, 3) == 0) {
        return field_of_pe_section(mutation, name, size);
    }
    return field_of_table(mutation,
                          section->raw_pointer +
                              (strcmp(name, ".text") == 0 ? section->raw_size - window : 0),
                          window, size, name);
}

static struct field choose_pe_field(struct mutation *mutation)
{
    const struct pe_file *pe = mutation->pe;
    switch (pick(mutation, 16)) {
    case 0:
        return (struct field){60, 4, "e_lfanew"};
    case 1:
    case 2:
        return field_of_table(mutation, pe->coff_header, 20, coff_fields, "COFF header");
    case 3:
    case 4:
        return field_of_table(mutation, pe->optional_header, 72, optional_fields,
                              "optional header");
    case 5:
    case 6:
        return field_of_table(mutation, pe->directories, 16 * 8, directory_fields, "directory");
    case 7:
    case 8:
    case 9:
    case 10:
        return field_of_table(mutation, pe->sections[0].header, pe->section_count * 40,
                              section_fields, "section header");
    case 11:
        return field_of_pe_section(mutation, ".reloc", relocation_fields);
    case 12:
        return field_of_table(mutation, pe_file_debug_directory(pe), 28, debug_fields,
                              "debug directory");
    case 13:
        return field_of_table(mutation, pe_load_u32(pe, pe->coff_header + 8),
                              (uint64_t)pe_load_u32(pe, pe->coff_header + 12) * 18, symbol_fields,
                              "symbol");
    default:
        return field_of_pe_contents(mutation);
    }
}

static struct mutation mutation_start(const struct contents *file, uint64_t seed)
{
    struct mutation mutation = {
        .random = random_start(seed),
        .bytes = {malloc(file->size + 1), file->size},
        .description = text_format("seed %llu", (unsigned long long)seed),
    };
    if (mutation.bytes.data == NULL) {
        abort();
    }
    memcpy(mutation.bytes.data, file->data, file->size);
    return mutation;
}

static struct contents mutation_finish(struct mutation *mutation, char **description)
{
    *description = mutation->description;
    return mutation->bytes;
}

struct contents mutate_elf(const struct elf_file *elf, uint64_t seed, char **description)
{
    struct mutation mutation = mutation_start(&elf->file, seed);
    mutation.elf = elf;
    uint64_t changes = 1 + pick(&mutation, CHANGES_MAX);
    while (changes > 0) {
        struct field field = choose_field(&mutation);
        /* A field of a table that this file has not is chosen again. */
        if (field.size != 0) {
            change_field(&mutation, field);
            changes--;
        }
    }
    return mutation_finish(&mutation, description);
}

struct contents mutate_pe(const struct pe_file *pe, uint64_t seed, char **description)
{
    struct mutation mutation = mutation_start(&pe->file, seed);
    mutation.pe = pe;
    uint64_t changes = 1 + pick(&mutation, CHANGES_MAX);
    while (changes > 0) {
        struct field field = choose_pe_field(&mutation);
        if (field.size != 0) {
            change_field(&mutation, field);
            changes--;
        }
    }
    return mutation_finish(&mutation, description);
}

struct contents mutate_bytes(const struct contents *file, uint64_t seed, char **description)
{
    struct mutation mutation = mutation_start(file, seed);
    uint64_t changes = 1 + pick(&mutation, CHANGES_MAX);
    for (uint64_t i = 0; i < changes; i++) {
        bool head = pick(&mutation, 4) != 0 && file->size > HEAD_SIZE;
        uint64_t size = head ? HEAD_SIZE : file->size;
        const size_t *fields = pick(&mutation, 3) == 0 ? byte_fields : word_fields;
        change_field(&mutation, field_of_table(&mutation, 0, size, fields, "byte"));
    }
    return mutation_finish(&mutation, description);
}

struct contents mutate_parts(const struct contents *file, const struct mutated_part *parts,
                             size_t count, uint64_t seed, char **description)
{
    static const size_t *const fields[] = {byte_fields, quarter_fields, half_fields, word_fields};
    struct mutation mutation = mutation_start(file, seed);
    uint64_t changes = 1 + pick(&mutation, CHANGES_MAX);
    for (uint64_t i = 0; i < changes; i++) {
        const struct mutated_part *part = &parts[pick(&mutation, count)];
        const size_t *size = fields[pick(&mutation, sizeof fields / sizeof *fields)];
        change_field(&mutation,
                     field_of_table(&mutation, part->offset, part->size, size, "number"));
    }
    return mutation_finish(&mutation, description);
}
