/*
 * The program of macho_program.h.
 */
#include "tests/unit/macho_program.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_SIZE     0x10000u
#define STRINGS       0xd000u
#define STRINGS_SIZE  0x2800u
#define OPCODES       0xf800u
#define OPCODES_ROOM  0x100u

#define CODE_ORDINAL  1
#define CONST_ORDINAL 2

static void section(struct macho_program *program, enum program_part part, const char *name,
                    uint32_t offset, uint32_t size, uint32_t flags)
{
    program->parts[part] = program->maker->file + program->maker->commands_end;
    macho_maker_section(program->maker, name, offset, size, flags);
}

static void segment(struct macho_program *program, enum program_part part, const char *name,
                    uint32_t start, uint32_t end)
{
    program->parts[part] = program->maker->file + program->maker->commands_end;
    macho_maker_segment(program->maker, name, MAKER_BASE + start, start, end - start);
}

static void add_segments(struct macho_program *program)
{
    segment(program, PROGRAM_TEXT, "__TEXT", 0, PROGRAM_COUNTERS);
    store_u32(program->parts[PROGRAM_TEXT] + SEGMENT_INITPROT, 5, false);
    section(program, PROGRAM_CODE_SECTION, "__text", PROGRAM_CODE, PROGRAM_CODE_SIZE,
            S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS);
    section(program, PROGRAM_VERSION_SECTION, "__const", PROGRAM_VERSION, 16, 0);
    segment(program, PROGRAM_DATA_SEGMENT, "__DATA", PROGRAM_COUNTERS, PROGRAM_COVFUN);
    section(program, PROGRAM_COUNTERS_SECTION, "__llvm_prf_cnts", PROGRAM_COUNTERS,
            PROGRAM_DATA - PROGRAM_COUNTERS, 0);
    section(program, PROGRAM_DATA_SECTION, "__llvm_prf_data", PROGRAM_DATA,
            PROGRAM_RECORDS * PROGRAM_RECORD, 0);
    section(program, PROGRAM_NAMES_SECTION, "__llvm_prf_names", PROGRAM_NAMES, PROGRAM_NAMES_SIZE,
            0);
    segment(program, PROGRAM_COVERAGE, "__LLVM_COV", PROGRAM_COVFUN, PROGRAM_LINKEDIT);
    section(program, PROGRAM_COVFUN_SECTION, "__llvm_covfun", PROGRAM_COVFUN, 0x1000, 0);
    section(program, PROGRAM_COVMAP_SECTION, "__llvm_covmap", PROGRAM_COVMAP, 0x800, 0);
    segment(program, PROGRAM_LINKEDIT_SEGMENT, "__LINKEDIT", PROGRAM_LINKEDIT, FILE_SIZE);
}

static void add_commands(struct macho_program *program)
{
    struct macho_maker *maker = program->maker;

    program->parts[PROGRAM_UUID] = macho_maker_command(maker, LC_UUID, 24);
    memset(program->parts[PROGRAM_UUID] + UUID_BYTES, 0xab, UUID_SIZE);
    program->parts[PROGRAM_SYMTAB] = macho_maker_command(maker, LC_SYMTAB, SYMTAB_SIZE);
    program->parts[PROGRAM_DYSYMTAB] = macho_maker_command(maker, LC_DYSYMTAB, DYSYMTAB_SIZE);
    program->parts[PROGRAM_DYLD_INFO] =
        macho_maker_command(maker, LC_DYLD_INFO_ONLY, DYLD_INFO_SIZE);
}

uint32_t macho_program_code(struct macho_program *program, uint64_t address)
{
    uint32_t offset = program->code_end;
    uint8_t *code = program->maker->file + offset;

    ck_assert_uint_lt(offset + 16, PROGRAM_CODE + PROGRAM_CODE_SIZE);
    /* lea address(%rip),%rax; ret */
    memcpy(code, "\x48\x8d\x05", 3);
    store_u32(code + 3, (uint32_t)(address - (MAKER_BASE + offset + 7)), false);
    memset(code + 7, 0xc3, 9);
    program->code_end += 16;
    return offset;
}

void macho_program_symbol(struct macho_program *program, const char *name, uint32_t offset)
{
    struct program_symbol *symbol = &program->symbols[program->symbol_count++];

    ck_assert_uint_le(program->symbol_count, PROGRAM_SYMBOLS_MAX);
    snprintf(symbol->name, sizeof(symbol->name), "_%s", name);
    symbol->address = MAKER_BASE + offset;
    symbol->section = offset >= PROGRAM_VERSION ? CONST_ORDINAL : CODE_ORDINAL;
}

struct program_symbol *macho_program_find(struct macho_program *program, const char *name)
{
    for (size_t i = 0; i < program->symbol_count; i++) {
        if (strcmp(program->symbols[i].name + 1, name) == 0)
            return &program->symbols[i];
    }
    ck_abort_msg("no symbol %s", name);
}

void macho_program_opcodes(struct macho_program *program, uint32_t field, const uint8_t *opcodes,
                           size_t size)
{
    ck_assert_uint_le(size, OPCODES_ROOM);
    store_u32(program->parts[PROGRAM_DYLD_INFO] + field, OPCODES, false);
    store_u32(program->parts[PROGRAM_DYLD_INFO] + field + 4, (uint32_t)size, false);
    memcpy(program->maker->file + OPCODES, opcodes, size);
}

static void add_runtime(struct macho_program *program)
{
    static const uint32_t returned[] = {
        [RUNTIME_BEGIN_DATA] = PROGRAM_DATA,
        [RUNTIME_END_DATA] = PROGRAM_NAMES,
        [RUNTIME_BEGIN_NAMES] = PROGRAM_NAMES,
        [RUNTIME_END_NAMES] = PROGRAM_NAMES + PROGRAM_NAMES_SIZE,
        [RUNTIME_BEGIN_COUNTERS] = PROGRAM_COUNTERS,
        [RUNTIME_END_COUNTERS] = PROGRAM_DATA,
    };

    for (unsigned i = RUNTIME_BEGIN_DATA; i <= RUNTIME_END_COUNTERS; i++)
        macho_program_symbol(program, runtime_symbol_name((enum runtime_symbol)i),
                             macho_program_code(program, MAKER_BASE + returned[i]));
    macho_program_symbol(program, runtime_symbol_name(RUNTIME_RAW_VERSION), PROGRAM_VERSION);
    store_u64(program->maker->file + PROGRAM_VERSION, 10, false);
}

void macho_program_begin(struct macho_program *program)
{
    uint8_t *file;

    *program = (struct macho_program){.maker = macho_maker_bare(FILE_SIZE)};
    file = program->maker->file;
    program->code_end = PROGRAM_CODE;
    memset(file + PROGRAM_CODE, 0xc3, PROGRAM_CODE_SIZE);
    memset(file + PROGRAM_NAMES, 'n', PROGRAM_NAMES_SIZE);
    memset(file + PROGRAM_COVFUN, 'f', 0x1000);
    memset(file + PROGRAM_COVMAP, 'm', 0x800);
    for (uint32_t i = 0; i < PROGRAM_RECORDS; i++)
        store_u64(file + PROGRAM_DATA + i * PROGRAM_RECORD, 0x1234 + i, false);
    add_segments(program);
    add_commands(program);
    add_runtime(program);
}

/* The first string is no name. */
void macho_program_finish(struct macho_program *program)
{
    uint8_t *symtab = program->parts[PROGRAM_SYMTAB], *file = program->maker->file;
    uint32_t strings = 1;

    for (size_t i = 0; i < program->symbol_count; i++) {
        const struct program_symbol *symbol = &program->symbols[i];
        uint8_t *nlist = file + PROGRAM_LINKEDIT + i * NLIST_SIZE;

        store_u32(nlist + NLIST_STRX, strings, false);
        nlist[NLIST_TYPE] = N_SECT;
        nlist[NLIST_SECT] = symbol->section;
        store_u64(nlist + NLIST_VALUE, symbol->address, false);
        memcpy(file + STRINGS + strings, symbol->name, strlen(symbol->name) + 1);
        strings += (uint32_t)strlen(symbol->name) + 1;
        ck_assert_uint_lt(strings, STRINGS_SIZE);
    }
    store_u32(symtab + SYMTAB_SYMOFF, PROGRAM_LINKEDIT, false);
    store_u32(symtab + SYMTAB_NSYMS, (uint32_t)program->symbol_count, false);
    store_u32(symtab + SYMTAB_STROFF, STRINGS, false);
    store_u32(symtab + SYMTAB_STRSIZE, STRINGS_SIZE, false);
}

/* ---- plans ---- */

static void apply(struct macho_program *program, const struct program_change *change)
{
    uint8_t *to =
        change->part == PROGRAM_FILE ? program->maker->file : program->parts[change->part];

    if (change->width == 1)
        to[change->offset] = (uint8_t)change->value;
    else if (change->width == 4)
        store_u32(to + change->offset, (uint32_t)change->value, false);
    else if (change->width == 8)
        store_u64(to + change->offset, change->value, false);
}

struct image_plan *macho_program_plan(struct macho_program *program,
                                      const struct program_change *changes, unsigned sections,
                                      struct error *error)
{
    struct image_options options = {.sections = sections};
    struct macho_maker *maker = program->maker;
    struct buffer copy = {0};

    macho_program_finish(program);
    store_u32(maker->file + HEADER_NCMDS, maker->command_count, false);
    store_u32(maker->file + HEADER_SIZEOFCMDS, maker->commands_end - HEADER_SIZE, false);
    for (size_t i = 0; i < PROGRAM_CHANGES; i++)
        apply(program, &changes[i]);
    ck_assert(buffer_append(&copy, maker->file, (size_t)maker->size));
    ck_assert(input_from_buffer(&maker->input, &copy, "image", error));
    return image_plan_make(&maker->input, &options, error);
}

void macho_program_end(struct macho_program *program, struct image_plan *plan)
{
    image_plan_free(plan);
    input_close(&program->maker->input);
    free(program->maker);
}
