/*
 * The load commands that covsplit knows: their smallest sizes, and their fields with file offsets
 * of tables in __LINKEDIT. This one list serves both for checking and for changing load commands.
 */
#ifndef COVSPLIT_FORMATS_MACHO_COMMANDS_H
#define COVSPLIT_FORMATS_MACHO_COMMANDS_H

#include <stdint.h>

#include "formats/macho/format.h"

#define TABLES_MAX 6

/* A 32-bit field with the file offset of a table; the next field has the number of its items. */
struct table_field {
    uint16_t offset; /* of the field in the load command; 0: none */
    uint16_t item_size;
};

struct known_command {
    uint32_t cmd;
    uint32_t size_min;
    struct table_field tables[TABLES_MAX];
};

/* NULL if the load command is not known. */
const struct known_command *macho_known_command(uint32_t cmd);

#endif
