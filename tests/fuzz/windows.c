/*
 * Mutating parts of files: see windows.h.
 */
#include "tests/fuzz/windows.h"

#include <elf.h>
#include <string.h>

#include "tests/support/random.h"

#define CHANGES_MAX 3

/* The engine's own mutation. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));

void fuzz_windows_add(struct fuzz_windows *windows, uint64_t offset, uint64_t size)
{
    if (windows->count == FUZZ_WINDOWS_MAX || size == 0 ||
        !range_within(offset, size, 0, windows->file_size))
        return;
    windows->parts[windows->count].offset = offset;
    windows->parts[windows->count++].size = size;
}

/* ---- fields ---- */

static uint64_t load(const uint8_t *at, size_t size, bool big_endian)
{
    switch (size) {
    case 1:
        return *at;
    case 2:
        return load_u16(at, big_endian);
    case 4:
        return load_u32(at, big_endian);
    default:
        return load_u64(at, big_endian);
    }
}

static void store(uint8_t *at, size_t size, uint64_t value, bool big_endian)
{
    switch (size) {
    case 1:
        *at = (uint8_t)value;
        break;
    case 2:
        store_u16(at, (uint16_t)value, big_endian);
        break;
    case 4:
        store_u32(at, (uint32_t)value, big_endian);
        break;
    default:
        store_u64(at, value, big_endian);
    }
}

/* A place for a number in a part that is chosen at random, at a multiple of the number's size from
 * the part's start. */
static uint8_t *choose(struct random_state *random, const struct fuzz_windows *windows,
                       uint8_t *data, size_t *size)
{
    size_t part = (size_t)random_below(random, windows->count);
    uint64_t offset = windows->parts[part].offset, left = windows->parts[part].size;

    *size = (size_t)1 << random_below(random, 4);
    while (*size > left)
        *size /= 2;
    return data + offset + random_below(random, left / *size) * *size;
}

static uint64_t odd_value(struct random_state *random, uint64_t old, uint64_t file_size)
{
    const uint64_t values[] = {0,       1,       INT32_MAX,  UINT32_MAX, UINT64_MAX, file_size,
                               old + 1, old - 1, old * 2,    old / 2,    old + 8,    old - 8,
                               ~old,    0 - old, old + 4096, old - 4096, old + 16,   old - 16};

    switch (random_below(random, 4)) {
    case 0:
        return old ^ UINT64_C(1) << random_below(random, 64);
    case 1:
        return random_next(random) >> random_below(random, 64);
    default:
        return values[random_below(random, sizeof(values) / sizeof(values[0]))];
    }
}

static void change(struct random_state *random, const struct fuzz_windows *windows, uint8_t *data)
{
    size_t size, other_size;
    uint8_t *at = choose(random, windows, data, &size);
    const uint8_t *other = choose(random, windows, data, &other_size);
    uint64_t value = load(at, size, windows->big_endian);

    if (random_below(random, 4) == 0)
        memmove(at, other, size < other_size ? size : other_size);
    else
        store(at, size, odd_value(random, value, windows->file_size), windows->big_endian);
}

size_t fuzz_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                   fuzz_window_finder find)
{
    struct random_state random = random_start(seed);
    struct fuzz_windows windows = {.file_size = size};

    if (random_below(&random, 2) == 0)
        find((struct bytes){data, size}, &windows);
    if (windows.count == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (uint64_t left = 1 + random_below(&random, CHANGES_MAX); left > 0; left--)
        change(&random, &windows, data);
    return size;
}

/* ---- ELF ---- */

void fuzz_elf_windows(struct bytes file, struct fuzz_windows *windows)
{
    const uint8_t *at = file.data;
    bool is_64, big;
    uint64_t phoff, shoff, shentsize, shnum, phsize;

    if (file.size < sizeof(Elf64_Ehdr) || memcmp(at, ELFMAG, SELFMAG) != 0)
        return;
    is_64 = at[EI_CLASS] == ELFCLASS64;
    big = windows->big_endian = at[EI_DATA] == ELFDATA2MSB;
    phoff = is_64 ? load_u64(at + 32, big) : load_u32(at + 28, big);
    shoff = is_64 ? load_u64(at + 40, big) : load_u32(at + 32, big);
    phsize =
        (uint64_t)load_u16(at + (is_64 ? 54 : 42), big) * load_u16(at + (is_64 ? 56 : 44), big);
    shentsize = is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    shnum = load_u16(at + (is_64 ? 60 : 48), big);
    fuzz_windows_add(windows, 0, is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    for (unsigned i = 0; i < 4; i++) {
        fuzz_windows_add(windows, phoff, phsize);
        fuzz_windows_add(windows, shoff, shnum * shentsize);
    }
    for (uint64_t i = 0; i < shnum; i++) {
        struct bytes header;

        if (!bytes_slice(file, shoff, (i + 1) * shentsize, &header))
            return;
        at = header.data + i * shentsize;
        fuzz_windows_add(windows, is_64 ? load_u64(at + 24, big) : load_u32(at + 16, big),
                         is_64 ? load_u64(at + 32, big) : load_u32(at + 20, big));
    }
}

/* ---- COFF ---- */

#define PE_OFFSET    60
#define PE_SIZE      24 /* the signature and the header behind it */
#define SECTION_SIZE 40
#define SYMBOL_SIZE  18

/* The sections of an image or of an object, whose headers start at an offset. */
static void add_sections(struct bytes file, uint64_t offset, uint64_t count,
                         struct fuzz_windows *windows)
{
    for (unsigned i = 0; i < 4; i++)
        fuzz_windows_add(windows, offset, count * SECTION_SIZE);
    for (uint64_t i = 0; i < count; i++) {
        struct bytes header;

        if (!bytes_slice(file, offset + i * SECTION_SIZE, SECTION_SIZE, &header))
            return;
        fuzz_windows_add(windows, load_u32(header.data + 20, false),
                         load_u32(header.data + 16, false));
        fuzz_windows_add(windows, load_u32(header.data + 24, false),
                         (uint64_t)10 * load_u16(header.data + 32, false));
    }
}

void fuzz_coff_windows(struct bytes file, struct fuzz_windows *windows)
{
    uint64_t pe = 0, optional;
    struct bytes header;
    bool is_image = file.size > PE_OFFSET + 4 && memcmp(file.data, "MZ", 2) == 0;

    if (is_image)
        pe = load_u32(file.data + PE_OFFSET, false) + UINT64_C(4);
    if (!bytes_slice(file, pe, PE_SIZE - 4, &header))
        return;
    optional = load_u16(header.data + 16, false);
    fuzz_windows_add(windows, pe, header.size);
    fuzz_windows_add(windows, pe + header.size, optional);
    fuzz_windows_add(windows, load_u32(header.data + 8, false),
                     (uint64_t)SYMBOL_SIZE * load_u32(header.data + 12, false));
    add_sections(file, pe + header.size + optional, load_u16(header.data + 2, false), windows);
}

/* ---- Mach-O ---- */

#define MACHO_HEADER_SIZE  32
#define LC_SEGMENT_64      0x19
#define LC_SYMTAB          2
#define LC_DYLD_INFO       0x22
#define LC_REQ_DYLD        0x80000000u
#define SEGMENT_SIZE       72
#define FRONT_SIZE         128
#define MACHO_SECTION_SIZE 80

/* What a load command at an offset refers to. */
static void add_command(struct bytes file, uint64_t start, struct bytes command,
                        struct fuzz_windows *windows)
{
    uint32_t kind = load_u32(command.data, false);

    fuzz_windows_add(windows, (uint64_t)(command.data - file.data), command.size);
    if (kind == LC_SEGMENT_64) {
        for (uint64_t at = SEGMENT_SIZE; at + MACHO_SECTION_SIZE <= command.size;
             at += MACHO_SECTION_SIZE)
            fuzz_windows_add(windows, start + load_u32(command.data + at + 48, false),
                             load_u64(command.data + at + 40, false));
    } else if (kind == LC_SYMTAB && command.size >= 24) {
        fuzz_windows_add(windows, start + load_u32(command.data + 8, false),
                         (uint64_t)16 * load_u32(command.data + 12, false));
    } else if ((kind & ~LC_REQ_DYLD) == LC_DYLD_INFO || command.size == 16) {
        /* Offsets and sizes in pairs; the commands of 16 bytes have one, or an address. */
        for (uint64_t at = 8; at + 8 <= command.size; at += 8) {
            uint64_t offset = start + load_u32(command.data + at, false);
            uint64_t size = load_u32(command.data + at + 4, false);

            /* What is at the front, as of a signature, tells what the rest is. */
            fuzz_windows_add(windows, offset, size < FRONT_SIZE ? size : FRONT_SIZE);
            fuzz_windows_add(windows, offset, size);
        }
    }
}

static void add_image(struct bytes file, uint64_t start, struct fuzz_windows *windows)
{
    uint64_t place = start + MACHO_HEADER_SIZE, count;
    struct bytes header, command;

    if (!bytes_slice(file, start, MACHO_HEADER_SIZE, &header) ||
        load_u32(header.data, false) != 0xfeedfacf)
        return;
    fuzz_windows_add(windows, start, MACHO_HEADER_SIZE);
    count = load_u32(header.data + 16, false);
    for (uint64_t i = 0; i < count && bytes_slice(file, place, 8, &command); i++) {
        uint64_t size = load_u32(command.data + 4, false);

        if (size < 8 || !bytes_slice(file, place, size, &command))
            return;
        add_command(file, start, command, windows);
        place += size;
    }
}

#define FAT_HEADER_SIZE 8
#define FAT_ARCH_SIZE   20

void fuzz_macho_windows(struct bytes file, struct fuzz_windows *windows)
{
    struct bytes table;

    if (file.size < FAT_HEADER_SIZE || load_u32(file.data, true) != 0xcafebabe) {
        add_image(file, 0, windows);
        return;
    }
    fuzz_windows_add(windows, 0, FAT_HEADER_SIZE + FAT_ARCH_SIZE);
    for (uint64_t i = 0;
         i < 4 && bytes_slice(file, FAT_HEADER_SIZE + i * FAT_ARCH_SIZE, FAT_ARCH_SIZE, &table);
         i++)
        add_image(file, load_u32(table.data + 8, true), windows);
}
