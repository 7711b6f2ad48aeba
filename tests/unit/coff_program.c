/*
 * The program of coff_program.h.
 */
#include "tests/unit/coff_program.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/llvm/profile.h"
#include "tests/unit/name_chunk.h"

#define HEADERS_SIZE 0x400u

/* MEM_READ and CNT_INITIALIZED_DATA, with MEM_WRITE, or with MEM_EXECUTE and CNT_CODE */
#define CONSTANT 0x40000040u
#define WRITABLE 0xc0000040u
#define CODE     0x60000020u

static const struct place {
    const char *name;
    uint32_t address, size, offset, raw_size, characteristics;
} places[PROGRAM_SECTION_COUNT] = {
    [TEXT] = {".text", 0x1000, 0x400, 0x400, 0x400, CODE},
    [RDATA] = {".rdata", 0x2000, 0x200, 0x800, 0x200, CONSTANT},
    [DATA] = {".data", PROGRAM_DATA, 0x1000, 0xa00, 0x1000, WRITABLE},
    [LPRFC] = {".lprfc", PROGRAM_COUNTERS, PROGRAM_COUNTERS_SIZE, 0x1a00, 0xa00, WRITABLE},
    [LPRFD] = {".lprfd", PROGRAM_RECORDS, PROGRAM_RECORDS_SIZE, 0x2400, 0xc00, WRITABLE},
    [LPRFN] = {".lprfn", PROGRAM_NAMES, PROGRAM_NAMES_SIZE, 0x3000, 0x600, CONSTANT},
    [LCOVFUN] = {".lcovfun", PROGRAM_COVFUN, 0x800, 0x3600, 0x800, CONSTANT},
    [LCOVMAP] = {".lcovmap", PROGRAM_COVMAP, 0x400, 0x3e00, 0x400, CONSTANT},
    [RELOC] = {".reloc", PROGRAM_RELOCATIONS, 0xc, 0x4200, 0x200, CONSTANT},
};

#define FILE_SIZE 0x4400u

uint8_t *coff_program_at(struct coff_program *program, uint32_t address)
{
    for (size_t i = 0; i < PROGRAM_SECTION_COUNT; i++) {
        if (address - places[i].address < places[i].raw_size)
            return program->file + places[i].offset + (address - places[i].address);
    }
    ck_abort_msg("nothing is at 0x%x", address);
}

uint8_t *coff_program_section(struct coff_program *program, unsigned number)
{
    return program->file + PROGRAM_SECTIONS + (size_t)number * COFF_SECTION_HEADER_SIZE;
}

void coff_program_directory(struct coff_program *program, unsigned number, uint32_t address,
                            uint32_t size)
{
    uint8_t *directory = program->file + PROGRAM_DIRECTORIES + (size_t)number * 8;

    store_u32(directory, address, false);
    store_u32(directory + 4, size, false);
}

/* ---- headers ---- */

static void put_headers(struct coff_program *program)
{
    uint8_t *file = program->file, *coff = file + PROGRAM_COFF_HEADER;
    uint8_t *optional = file + PROGRAM_OPTIONAL;

    memcpy(file, "MZ", 2);
    store_u32(file + 60, PROGRAM_COFF_HEADER - 4, false);
    memcpy(coff - 4, "PE", 2);
    store_u16(coff, 0x8664, false);
    store_u16(coff + HEADER_NUMBER_OF_SECTIONS, PROGRAM_SECTION_COUNT, false);
    store_u16(coff + HEADER_SIZE_OF_OPTIONAL_HEADER, PROGRAM_SECTIONS - PROGRAM_OPTIONAL, false);
    store_u16(coff + HEADER_CHARACTERISTICS, 0x22, false);
    store_u16(optional, 0x20b, false);
    store_u32(optional + OPTIONAL_SIZE_OF_INITIALIZED_DATA, 0x3a00, false);
    store_u32(optional + OPTIONAL_ADDRESS_OF_ENTRY_POINT, 0x1000, false);
    store_u64(optional + 24, PROGRAM_BASE, false);
    store_u32(optional + OPTIONAL_SECTION_ALIGNMENT, 0x1000, false);
    store_u32(optional + OPTIONAL_FILE_ALIGNMENT, 0x200, false);
    store_u32(optional + OPTIONAL_SIZE_OF_IMAGE, 0xa000, false);
    store_u32(optional + OPTIONAL_SIZE_OF_HEADERS, HEADERS_SIZE, false);
    store_u32(optional + OPTIONAL_CHECK_SUM, 0x12345, false);
    store_u32(file + PROGRAM_DIRECTORIES - 4, 16, false);
    for (unsigned i = 0; i < PROGRAM_SECTION_COUNT; i++) {
        uint8_t *header = coff_program_section(program, i);

        memcpy(header, places[i].name, strlen(places[i].name));
        store_u32(header + COFF_SECTION_VIRTUAL_SIZE, places[i].size, false);
        store_u32(header + COFF_SECTION_VIRTUAL_ADDRESS, places[i].address, false);
        store_u32(header + COFF_SECTION_SIZE_OF_RAW_DATA, places[i].raw_size, false);
        store_u32(header + COFF_SECTION_POINTER_TO_RAW_DATA, places[i].offset, false);
        store_u32(header + COFF_SECTION_CHARACTERISTICS, places[i].characteristics, false);
    }
}

/* The debug directory has one entry, with the GUID. */
static void put_debug_directory(struct coff_program *program)
{
    uint8_t *entry = coff_program_at(program, PROGRAM_DEBUG);

    coff_program_directory(program, DIRECTORY_DEBUG, PROGRAM_DEBUG, COFF_DEBUG_ENTRY_SIZE);
    store_u32(entry + DEBUG_TYPE, 2, false);
    store_u32(entry + DEBUG_SIZE_OF_DATA, 32, false);
    store_u32(entry + 20, PROGRAM_RSDS, false);
    store_u32(entry + DEBUG_POINTER_TO_RAW_DATA, 0x880, false);
    memcpy(coff_program_at(program, PROGRAM_RSDS), "RSDS0123456789abcdef\1\0\0\0a.pdb", 30);
}

/* A relocation in .data, which points to another place there. */
static void put_relocations(struct coff_program *program)
{
    uint8_t *block = coff_program_at(program, PROGRAM_RELOCATIONS);

    coff_program_directory(program, DIRECTORY_BASE_RELOCATION, PROGRAM_RELOCATIONS, 12);
    store_u32(block, PROGRAM_DATA, false);
    store_u32(block + 4, 12, false);
    store_u16(block + 8, 10u << 12 | 0x10, false);
    store_u64(coff_program_at(program, PROGRAM_DATA + 0x10), PROGRAM_BASE + PROGRAM_DATA + 0x20,
              false);
}

/* ---- sections ---- */

static void put_records(struct coff_program *program)
{
    struct profile_record_layout layout;
    FREED_BY(buffer_free) struct buffer names = {0}, chunk = {0};

    ck_assert(profile_record_layout(10, 8, &layout));
    ck_assert_uint_eq(layout.record_size, PROGRAM_RECORD);
    for (uint32_t i = 0; i < PROGRAM_RECORD_COUNT; i++) {
        uint32_t address = PROGRAM_RECORDS + (i + 1) * PROGRAM_RECORD;
        uint8_t *record = coff_program_at(program, address);
        char name[24];
        int size = snprintf(name, sizeof(name), "%sfunction_%u", i == 0 ? "" : "\1", i);
        struct bytes plain = {(const uint8_t *)name + (i != 0), (uint64_t)size - (i != 0)};

        store_u64(record, md5_name_reference(plain), false);
        store_u64(record + 8, (0x1111 + i) * UINT64_C(0x9e3779b97f4a7c15), false);
        store_u64(record + layout.counter_ptr, (uint64_t)PROGRAM_COUNTERS + 8 + i * 48 - address,
                  false);
        store_u32(record + layout.num_counters, 6, false);
        ck_assert(buffer_append(&names, name, (size_t)size));
    }
    ck_assert(buffer_append_zeros(&names, 1));
    name_chunk_put(&chunk, (const char *)names.data, false);
    ck_assert_uint_le(chunk.size, PROGRAM_NAMES_SIZE - 2);
    memcpy(coff_program_at(program, PROGRAM_NAMES + 1), chunk.data, chunk.size);
}

static void put_runtime(struct coff_program *program)
{
    static const uint32_t returned[] = {
        [RUNTIME_BEGIN_DATA] = PROGRAM_RECORDS + PROGRAM_RECORD,
        [RUNTIME_END_DATA] = PROGRAM_RECORDS + PROGRAM_RECORDS_SIZE - PROGRAM_RECORD,
        [RUNTIME_BEGIN_NAMES] = PROGRAM_NAMES + 1,
        [RUNTIME_END_NAMES] = PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1,
        [RUNTIME_BEGIN_COUNTERS] = PROGRAM_COUNTERS + 1,
        [RUNTIME_END_COUNTERS] = PROGRAM_COUNTERS + PROGRAM_COUNTERS_SIZE - 1,
    };

    for (unsigned i = RUNTIME_BEGIN_DATA; i <= RUNTIME_END_COUNTERS; i++)
        coff_program_symbol(program, runtime_symbol_name((enum runtime_symbol)i),
                            coff_program_code(program, returned[i]));
    coff_program_symbol(program, runtime_symbol_name(RUNTIME_RAW_VERSION), PROGRAM_VERSION);
    store_u64(coff_program_at(program, PROGRAM_VERSION), 10, false);
    /* What reads the version: mov version(%rip),%rax; ret */
    coff_program_at(program, coff_program_code(program, PROGRAM_VERSION))[1] = 0x8b;
}

struct coff_program *coff_program_new(void)
{
    struct coff_program *program = calloc(1, sizeof(*program));

    ck_assert_ptr_nonnull(program);
    program->size = FILE_SIZE;
    program->code_end = 0x1000;
    memset(program->file + places[TEXT].offset, 0xc3, places[TEXT].raw_size);
    memset(program->file + places[LCOVFUN].offset, 'f', places[LCOVFUN].raw_size);
    memset(program->file + places[LCOVMAP].offset, 'm', places[LCOVMAP].raw_size);
    put_headers(program);
    put_debug_directory(program);
    put_relocations(program);
    put_records(program);
    put_runtime(program);
    return program;
}

void coff_program_free(struct coff_program *program)
{
    input_close(&program->input);
    free(program);
}

/* ---- code and symbols ---- */

uint32_t coff_program_code(struct coff_program *program, uint32_t address)
{
    uint32_t own = program->code_end;
    uint8_t *code = coff_program_at(program, own);

    /* lea address(%rip),%rax; ret */
    memcpy(code, "\x48\x8d\x05", 3);
    store_u32(code + 3, address - (own + 7), false);
    program->code_end += 16;
    return own;
}

void coff_program_symbol(struct coff_program *program, const char *name, uint32_t address)
{
    struct coff_symbol *symbol = &program->symbols[program->symbol_count++];

    ck_assert_uint_le(program->symbol_count, PROGRAM_SYMBOLS_MAX);
    snprintf(symbol->name, sizeof(symbol->name), "%s", name);
    symbol->address = address;
}

struct coff_symbol *coff_program_find(struct coff_program *program, const char *name)
{
    for (size_t i = 0; i < program->symbol_count; i++) {
        if (strcmp(program->symbols[i].name, name) == 0)
            return &program->symbols[i];
    }
    ck_abort_msg("no symbol %s", name);
}

uint32_t coff_program_append(struct coff_program *program, const void *bytes, uint32_t size)
{
    uint32_t offset = program->size;

    ck_assert_uint_le(size, PROGRAM_FILE_MAX - offset);
    memcpy(program->file + offset, bytes, size);
    program->size += size;
    return offset;
}

void coff_program_add_symbols(struct coff_program *program)
{
    uint8_t *coff = program->file + PROGRAM_COFF_HEADER;
    FREED_BY(buffer_free) struct buffer strings = {0};

    if (program->symbol_count == 0)
        return;
    store_u32(coff + HEADER_POINTER_TO_SYMBOL_TABLE, program->size, false);
    store_u32(coff + HEADER_NUMBER_OF_SYMBOLS, (uint32_t)program->symbol_count, false);
    ck_assert(buffer_append_zeros(&strings, 4));
    for (size_t i = 0; i < program->symbol_count; i++) {
        const struct coff_symbol *symbol = &program->symbols[i];
        uint8_t entry[COFF_SYMBOL_SIZE] = {0};

        store_u32(entry + 4, (uint32_t)strings.size, false);
        store_u32(entry + 8, symbol->address & 0xfff, false);
        store_u16(entry + 12, (uint16_t)(symbol->address >> 12), false);
        store_u16(entry + 14, symbol->address < PROGRAM_VERSION ? 0x20 : 0, false);
        coff_program_append(program, entry, sizeof(entry));
        ck_assert(buffer_append(&strings, symbol->name, strlen(symbol->name) + 1));
    }
    store_u32(strings.data, (uint32_t)strings.size, false);
    coff_program_append(program, strings.data, (uint32_t)strings.size);
}

void coff_program_finish(struct coff_program *program)
{
    struct buffer copy = {0};
    struct error error;

    ck_assert(buffer_append(&copy, program->file, program->size));
    ck_assert(input_from_buffer(&program->input, &copy, "image", &error));
}
