/*
 * New numbers for the sections and symbols of an ELF relocatable: see elf_object.h.
 *
 * Besides the symbols of the sections that go, only their groups' names go, which are defined in
 * them, the names of other objects' records, and the mapping symbols of some psABIs ("$d"), which
 * say that there is data.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/object/elf_object.h"

static bool stays(enum elf_object_role role)
{
    return role == ROLE_STAYS || role == ROLE_COVMAP;
}

static enum result number_sections(struct elf_object *object)
{
    uint32_t count = 0;

    object->new_sections = malloc(object->section_count * sizeof(*object->new_sections));
    if (object->new_sections == NULL)
        return RESULT_NO_MEMORY;
    for (uint32_t i = 0; i < object->section_count; i++)
        count += stays(object->roles[i]);
    if (object->extended != 0 && count - 1 <= SHN_LORESERVE)
        object->roles[object->extended] = ROLE_EXTENDED;
    object->new_section_count = 0;
    for (uint32_t i = 0; i < object->section_count; i++)
        object->new_sections[i] =
            stays(object->roles[i]) ? object->new_section_count++ : NUMBER_GONE;
    return RESULT_OK;
}

static bool is_mapping_symbol(const struct elf_object_symbol *symbol, const char *name)
{
    return symbol->info == ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE) && name[0] == '$';
}

/* Decides about a symbol of the section that becomes that of packed units: what was in it moves, so
 * only its start can have a symbol. */
static enum result look_at_covmap_symbol(const struct elf_object *object,
                                         const struct elf_object_symbol *symbol, bool *goes)
{
    const char *name = elf_object_symbol_name(object, symbol);
    bool is_mapping = is_mapping_symbol(symbol, name);

    *goes = is_mapping && symbol->value != 0;
    if (is_mapping || (ELF64_ST_TYPE(symbol->info) == STT_SECTION && symbol->value == 0))
        return RESULT_OK;
    return object_keep(object->packing,
                       "the symbol %.100s is in the coverage mapping; leave it "
                       "as it is",
                       name);
}

/* Decides about a symbol of a section that goes, or that is the name of a group that goes. */
static enum result look_at_goner(const struct elf_object *object,
                                 const struct elf_object_symbol *symbol, uint32_t number)
{
    const char *name = elf_object_symbol_name(object, symbol);
    bool is_undefined = !symbol->is_special && symbol->section == SHN_UNDEF;
    bool is_signature = object->new_symbols[number] == SYMBOL_SIGNATURE;

    if (!symbol->is_special && !is_undefined &&
        (ELF64_ST_TYPE(symbol->info) == STT_SECTION || is_mapping_symbol(symbol, name)))
        return is_signature ? elf_object_damaged(object, "a group of sections is") : RESULT_OK;
    if (is_signature &&
        (is_undefined || (!symbol->is_special && object->signatures[symbol->section] == number)))
        return RESULT_OK;
    return object_keep(object->packing,
                       "the symbol %.100s is in the coverage mapping; leave it "
                       "as it is",
                       name);
}

/* Whether it names a record of another object, as rustc's ThinLTO leaves such names: nothing refers
 * to them, but GNU ld wants a definition, and lld looks for one in archives. */
static bool is_record_elsewhere(const struct elf_object *object,
                                const struct elf_object_symbol *symbol)
{
    static const char start[] = "__covrec_";

    return !symbol->is_special && symbol->section == SHN_UNDEF &&
           strncmp(elf_object_symbol_name(object, symbol), start, sizeof(start) - 1) == 0;
}

static enum result look_at_symbol(const struct elf_object *object, uint32_t number, bool *goes)
{
    const struct elf_object_symbol symbol = elf_object_symbol(object, number);
    enum elf_object_role role;

    *goes = object->new_symbols[number] == SYMBOL_SIGNATURE;
    if (!symbol.is_special && symbol.section >= object->section_count)
        return elf_object_damaged(object, "its symbol table is");
    role = symbol.is_special ? ROLE_STAYS : (enum elf_object_role)object->roles[symbol.section];
    if (role == ROLE_COVMAP && !*goes)
        return look_at_covmap_symbol(object, &symbol, goes);
    if (!*goes && is_record_elsewhere(object, &symbol)) {
        *goes = true;
        return RESULT_OK;
    }
    *goes = *goes || !stays(role);
    return *goes ? look_at_goner(object, &symbol, number) : RESULT_OK;
}

static enum result number_symbols(struct elf_object *object)
{
    uint32_t locals = 0;

    if (object->symbol_table != 0)
        locals = elf_object_section(object, object->symbol_table).sh_info;
    /* The first one stands for no symbol. */
    if (object->symbol_count != 0 && elf_object_symbol(object, 0).section != SHN_UNDEF)
        return elf_object_damaged(object, "its symbol table is");
    object->new_symbol_count = 0;
    for (uint32_t i = 0; i < object->symbol_count; i++) {
        bool goes = false;
        enum result result = i == 0 ? RESULT_OK : look_at_symbol(object, i, &goes);

        if (result != RESULT_OK)
            return result;
        object->new_symbols[i] = goes ? NUMBER_GONE : object->new_symbol_count++;
        object->new_local_count += i < locals && !goes;
    }
    return RESULT_OK;
}

enum result elf_object_number(struct elf_object *object)
{
    enum result result = number_sections(object);

    return result == RESULT_OK ? number_symbols(object) : result;
}
