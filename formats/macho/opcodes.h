/*
 * The opcodes of LC_DYLD_INFO: see macho/opcodes.c.
 */
#ifndef COVSPLIT_FORMATS_MACHO_OPCODES_H
#define COVSPLIT_FORMATS_MACHO_OPCODES_H

#include "formats/macho/fixups.h"

#define OPCODE_MASK        0xf0u
#define IMMEDIATE_MASK     0x0fu
#define OPCODE_DONE        0x00u

#define FIXUP_TYPE_POINTER 1
#define FIXUP_POINTER_SIZE 8

enum {
    REBASE_OPCODE_SET_TYPE_IMM = 0x10,
    REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB = 0x20,
    REBASE_OPCODE_ADD_ADDR_ULEB = 0x30,
    REBASE_OPCODE_ADD_ADDR_IMM_SCALED = 0x40,
    REBASE_OPCODE_DO_REBASE_IMM_TIMES = 0x50,
    REBASE_OPCODE_DO_REBASE_ULEB_TIMES = 0x60,
    REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB = 0x70,
    REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB = 0x80,
};

enum {
    BIND_OPCODE_SET_DYLIB_ORDINAL_IMM = 0x10,
    BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB = 0x20,
    BIND_OPCODE_SET_DYLIB_SPECIAL_IMM = 0x30,
    BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM = 0x40,
    BIND_OPCODE_SET_TYPE_IMM = 0x50,
    BIND_OPCODE_SET_ADDEND_SLEB = 0x60,
    BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB = 0x70,
    BIND_OPCODE_ADD_ADDR_ULEB = 0x80,
    BIND_OPCODE_DO_BIND = 0x90,
    BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB = 0xa0,
    BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED = 0xb0,
    BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB = 0xc0,
};

enum opcode_table {
    OPCODES_REBASE,
    OPCODES_BIND,
    OPCODES_WEAK_BIND,
    OPCODES_LAZY_BIND,
    OPCODE_TABLES,
};

/* The load command with the opcodes; NULL if the image has none. */
const struct macho_command *macho_dyld_info(const struct macho_image *image);

/* The opcodes of a table; empty if the image has none. */
struct bytes macho_opcodes(const struct macho_image *image, enum opcode_table table);

/* Does what macho_opcodes_each does, for one of the tables. */
bool macho_opcodes_run(const struct macho_image *image, enum opcode_table table,
                       macho_fixup_visitor visit, void *context, const char **reason);

#endif
