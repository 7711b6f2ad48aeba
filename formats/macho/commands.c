/*
 * The load commands of macho/commands.h.
 */
#include "formats/macho/commands.h"

#include <stddef.h>

/* A command that is a linkedit_data_command. */
#define LINKEDIT_COMMAND(cmd)                                                                      \
    {                                                                                              \
        cmd, LINKEDIT_SIZE,                                                                        \
        {                                                                                          \
            {                                                                                      \
                LINKEDIT_DATAOFF, 1                                                                \
            }                                                                                      \
        }                                                                                          \
    }

#define DYLD_INFO_COMMAND(cmd)                                                                     \
    {                                                                                              \
        cmd, DYLD_INFO_SIZE,                                                                       \
        {                                                                                          \
            {DYLD_INFO_REBASE, 1}, {DYLD_INFO_BIND, 1}, {DYLD_INFO_WEAK_BIND, 1},                  \
                {DYLD_INFO_LAZY_BIND, 1}, {DYLD_INFO_EXPORT, 1},                                   \
        }                                                                                          \
    }

static const struct known_command commands[] = {
    {LC_SEGMENT_64, SEGMENT_SIZE, {{0, 0}}},
    {LC_UUID, UUID_BYTES + UUID_SIZE, {{0, 0}}},
    {LC_ENCRYPTION_INFO, ENCRYPTION_SIZE, {{0, 0}}},
    {LC_ENCRYPTION_INFO_64, ENCRYPTION_SIZE, {{0, 0}}},
    {LC_SYMTAB, SYMTAB_SIZE, {{SYMTAB_SYMOFF, NLIST_SIZE}, {SYMTAB_STROFF, 1}}},
    /* The items are dylib_table_of_contents, dylib_module_64, dylib_reference, an index, and twice
     * relocation_info. */
    {LC_DYSYMTAB,
     DYSYMTAB_SIZE,
     {{DYSYMTAB_TOCOFF, 8},
      {DYSYMTAB_MODTABOFF, 56},
      {DYSYMTAB_EXTREFSYMOFF, 4},
      {DYSYMTAB_INDIRECTSYMOFF, 4},
      {DYSYMTAB_EXTRELOFF, 8},
      {DYSYMTAB_LOCRELOFF, 8}}},
    {LC_TWOLEVEL_HINTS, TWOLEVEL_HINTS_SIZE, {{TWOLEVEL_HINTS_OFFSET, 4}}},
    DYLD_INFO_COMMAND(LC_DYLD_INFO),
    DYLD_INFO_COMMAND(LC_DYLD_INFO_ONLY),
    LINKEDIT_COMMAND(LC_CODE_SIGNATURE),
    LINKEDIT_COMMAND(LC_SEGMENT_SPLIT_INFO),
    LINKEDIT_COMMAND(LC_FUNCTION_STARTS),
    LINKEDIT_COMMAND(LC_DATA_IN_CODE),
    LINKEDIT_COMMAND(LC_DYLIB_CODE_SIGN_DRS),
    LINKEDIT_COMMAND(LC_LINKER_OPTIMIZATION_HINT),
    LINKEDIT_COMMAND(LC_DYLD_EXPORTS_TRIE),
    LINKEDIT_COMMAND(LC_DYLD_CHAINED_FIXUPS),
    LINKEDIT_COMMAND(LC_ATOM_INFO),
    LINKEDIT_COMMAND(LC_FUNCTION_VARIANTS),
    LINKEDIT_COMMAND(LC_FUNCTION_VARIANT_FIXUPS),
};

/* Commands without file offsets, and without fields that covsplit reads. LC_MAIN has an offset in
 * __TEXT, which does not move. */
static const uint32_t plain[] = {
    LC_THREAD,
    LC_UNIXTHREAD,
    LC_LOAD_DYLIB,
    LC_ID_DYLIB,
    LC_LOAD_DYLINKER,
    LC_ID_DYLINKER,
    LC_SUB_FRAMEWORK,
    LC_SUB_UMBRELLA,
    LC_SUB_CLIENT,
    LC_SUB_LIBRARY,
    LC_LOAD_WEAK_DYLIB,
    LC_ROUTINES_64,
    LC_RPATH,
    LC_REEXPORT_DYLIB,
    LC_LAZY_LOAD_DYLIB,
    LC_LOAD_UPWARD_DYLIB,
    LC_VERSION_MIN_MACOSX,
    LC_VERSION_MIN_IPHONEOS,
    LC_VERSION_MIN_TVOS,
    LC_VERSION_MIN_WATCHOS,
    LC_DYLD_ENVIRONMENT,
    LC_MAIN,
    LC_SOURCE_VERSION,
    LC_BUILD_VERSION,
    LC_TARGET_TRIPLE,
};

const struct known_command *macho_known_command(uint32_t cmd)
{
    static const struct known_command plain_command = {.size_min = COMMAND_SIZE};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i].cmd == cmd)
            return &commands[i];
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (plain[i] == cmd)
            return &plain_command;
    }
    return NULL;
}
