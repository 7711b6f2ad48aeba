/*
 * The list behind macho/tables.h.
 */
#include "formats/macho/tables.h"

struct table_field {
    uint32_t cmd;
    uint32_t offset; /* of the field in the load command; the number of items is in the next one */
    uint32_t item_size;
};

/* Item sizes: nlist_64, dylib_table_of_contents, dylib_module_64, dylib_reference, an index,
 * relocation_info, a byte. */
static const struct table_field table_fields[] = {
    {LC_SYMTAB, SYMTAB_SYMOFF, NLIST_SIZE},
    {LC_SYMTAB, SYMTAB_STROFF, 1},
    {LC_DYSYMTAB, DYSYMTAB_TOCOFF, 8},
    {LC_DYSYMTAB, DYSYMTAB_MODTABOFF, 56},
    {LC_DYSYMTAB, DYSYMTAB_EXTREFSYMOFF, 4},
    {LC_DYSYMTAB, DYSYMTAB_INDIRECTSYMOFF, 4},
    {LC_DYSYMTAB, DYSYMTAB_EXTRELOFF, 8},
    {LC_DYSYMTAB, DYSYMTAB_LOCRELOFF, 8},
    {LC_DYLD_INFO, DYLD_INFO_REBASE, 1},
    {LC_DYLD_INFO, DYLD_INFO_BIND, 1},
    {LC_DYLD_INFO, DYLD_INFO_WEAK_BIND, 1},
    {LC_DYLD_INFO, DYLD_INFO_LAZY_BIND, 1},
    {LC_DYLD_INFO, DYLD_INFO_EXPORT, 1},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_REBASE, 1},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_BIND, 1},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_WEAK_BIND, 1},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_LAZY_BIND, 1},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_EXPORT, 1},
    {LC_TWOLEVEL_HINTS, TWOLEVEL_HINTS_OFFSET, 4},
    {LC_CODE_SIGNATURE, LINKEDIT_DATAOFF, 1},
    {LC_SEGMENT_SPLIT_INFO, LINKEDIT_DATAOFF, 1},
    {LC_FUNCTION_STARTS, LINKEDIT_DATAOFF, 1},
    {LC_DATA_IN_CODE, LINKEDIT_DATAOFF, 1},
    {LC_DYLIB_CODE_SIGN_DRS, LINKEDIT_DATAOFF, 1},
    {LC_LINKER_OPTIMIZATION_HINT, LINKEDIT_DATAOFF, 1},
    {LC_DYLD_EXPORTS_TRIE, LINKEDIT_DATAOFF, 1},
    {LC_DYLD_CHAINED_FIXUPS, LINKEDIT_DATAOFF, 1},
    {LC_ATOM_INFO, LINKEDIT_DATAOFF, 1},
    {LC_FUNCTION_VARIANTS, LINKEDIT_DATAOFF, 1},
    {LC_FUNCTION_VARIANT_FIXUPS, LINKEDIT_DATAOFF, 1},
};

#define TABLE_FIELD_COUNT (sizeof(table_fields) / sizeof(table_fields[0]))

bool macho_has_tables(uint32_t cmd)
{
    for (size_t i = 0; i < TABLE_FIELD_COUNT; i++) {
        if (table_fields[i].cmd == cmd)
            return true;
    }
    return false;
}

bool macho_tables_each(const struct macho_image *image, macho_table_visitor visit, void *context)
{
    for (size_t i = 0; i < image->command_count; i++) {
        const struct macho_command *command = &image->commands[i];

        for (size_t j = 0; j < TABLE_FIELD_COUNT; j++) {
            const struct table_field *field = &table_fields[j];
            struct macho_table table;

            if (field->cmd != command->cmd)
                continue;
            table = (struct macho_table){
                .field = command->offset + field->offset,
                .offset = macho_field(image, command, field->offset),
                .size = (uint64_t)macho_field(image, command, field->offset + 4) * field->item_size,
            };
            if (!visit(context, &table))
                return false;
        }
    }
    return true;
}
