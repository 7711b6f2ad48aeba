/*
 * The load commands that covsplit knows: how large they are at least, and where they hold file
 * offsets of tables in __LINKEDIT. The one list of them, for checking and for changing them.
 */
#ifndef COVSPLIT_FORMATS_MACHO_COMMANDS_H
#define COVSPLIT_FORMATS_MACHO_COMMANDS_H

#include <stdint.h>

#include "formats/macho/format.h"

#define TABLES_MAX 6

/* A field of 32 bits that holds the offset of a table; the number of its items is in the next one.
 */
struct table_field {
    uint16_t offset; /* of the field in the load command; 0: none */
    uint16_t item_size;
};

struct known_command {
    uint32_t cmd;
    uint32_t size_min;
    struct table_field tables[TABLES_MAX];
};

/* NULL for a load command that is not known. */
const struct known_command *macho_known_command(uint32_t cmd);

#endif
