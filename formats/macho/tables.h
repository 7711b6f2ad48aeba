/*
 * Where the load commands of a Mach-O image hold file offsets of tables in __LINKEDIT: the one list
 * of them, for checking and for changing them.
 */
#ifndef COVSPLIT_FORMATS_MACHO_TABLES_H
#define COVSPLIT_FORMATS_MACHO_TABLES_H

#include "formats/macho/read.h"

struct macho_table {
    uint64_t field;  /* file offset of the 32-bit field that holds the table's offset */
    uint32_t offset; /* of the table in the file; 0: there is none */
    uint64_t size;   /* in bytes */
};

/* True for a load command that has such fields. */
bool macho_has_tables(uint32_t cmd);

/* Calls `visit` for each of them, also for those without a table. Stops at false and returns it. */
typedef bool (*macho_table_visitor)(void *context, const struct macho_table *table);
bool macho_tables_each(const struct macho_image *image, macho_table_visitor visit, void *context);

#endif
