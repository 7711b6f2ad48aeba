/*
 * A small loader of 64-bit Mach-O images, for tests on machines that have no other: it shares
 * nothing with the code under test, and trusts the image, which a linker has made.
 *
 * Usage: darwin_loader fixups IMAGE            each fixup: its address, and what it points to
 *        darwin_loader run IMAGE ENTRY SEED PROFILE
 *        darwin_loader memory IMAGE OUT         the writable memory of the loaded image: its first
 *                                               address, then its bytes
 *        darwin_loader arm64e IMAGE FORMAT OUT  the image for arm64 with its chained pointers in
 *                                               another format, some of them authenticated
 *
 * "memory" maps the segments of an image as dyld does, always at the same address, and applies the
 * fixups. "run" maps the segments of an x86-64 image as dyld does, applies the fixups, calls the
 * function named ENTRY, and exits with what it returns. The image may import one function:
 * host_write, which writes to standard output or to the file PROFILE.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOAD_ADDRESS UINT64_C(0x300000000000)

struct segment {
    char name[17];
    uint64_t vmaddr, vmsize, fileoff, filesize;
    uint32_t initprot;
};

struct image {
    uint8_t *file;
    size_t size;
    struct segment segments[64];
    unsigned segment_count;
    const uint8_t *chained, *dyld_info, *symtab;
    uint64_t base;       /* address of the mach_header */
    uint8_t *memory;     /* NULL: the image is not loaded */
    bool is_compared;    /* no address of this program may be in its memory */
    uint16_t new_format; /* of chained pointers, which are rewritten; 0: none */
};

static FILE *profile;

static void die(const char *what)
{
    fprintf(stderr, "darwin_loader: %s\n", what);
    exit(100);
}

static uint16_t get_16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t get_32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t get_64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void read_image(const char *path, struct image *image)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        die("the image cannot be read");
    }
    image->size = (size_t)ftell(file);
    image->file = malloc(image->size);
    rewind(file);
    if (image->file == NULL || fread(image->file, 1, image->size, file) != image->size) {
        die("the image cannot be read");
    }
    fclose(file);
    if (get_32(image->file) != 0xfeedfacf) {
        die("no Mach-O image");
    }
    const uint8_t *command = image->file + 32;
    for (uint32_t i = 0; i < get_32(image->file + 16); i++, command += get_32(command + 4)) {
        switch (get_32(command)) {
        case 0x19: {
            struct segment *segment = &image->segments[image->segment_count++];
            memcpy(segment->name, command + 8, 16);
            segment->vmaddr = get_64(command + 24);
            segment->vmsize = get_64(command + 32);
            segment->fileoff = get_64(command + 40);
            segment->filesize = get_64(command + 48);
            segment->initprot = get_32(command + 60);
            if (strcmp(segment->name, "__TEXT") == 0) {
                image->base = segment->vmaddr;
            }
            break;
        }
        case 0x2:
            image->symtab = command;
            break;
        case 0x80000022:
            image->dyld_info = command;
            break;
        case 0x80000034:
            image->chained = image->file + get_32(command + 8);
            break;
        default:
            break;
        }
    }
}

/* ---- what becomes of a fixup ---- */

static void host_write(int stream, const void *data, uint64_t size)
{
    fwrite(data, 1, size, stream == 2 ? profile : stdout);
}

static void no_such_function(void)
{
    die("the image called a function that it imports");
}

/* The place of an address: in memory where the image is loaded, else in the file. */
static uint8_t *place_of(struct image *image, uint64_t address)
{
    if (image->memory != NULL) {
        return image->memory + (address - image->base);
    }
    for (unsigned i = 0; i < image->segment_count; i++) {
        const struct segment *segment = &image->segments[i];
        if (address - segment->vmaddr < segment->filesize) {
            return image->file + segment->fileoff + (address - segment->vmaddr);
        }
    }
    die("a fixup is outside of the file");
    return NULL;
}

static void rebase(struct image *image, uint64_t address, uint64_t target)
{
    if (image->memory == NULL) {
        printf("%" PRIx64 " -> %" PRIx64 "\n", address, target);
        return;
    }
    target += (uint64_t)image->memory - image->base;
    memcpy(place_of(image, address), &target, sizeof target);
}

static void bind(struct image *image, uint64_t address, const char *name, uint64_t addend)
{
    if (image->memory == NULL) {
        printf("%" PRIx64 " -> %s + %" PRIx64 "\n", address, name, addend);
        return;
    }
    uint64_t target = strcmp(name, "_host_write") == 0 ? (uint64_t)(uintptr_t)host_write
                                                       : (uint64_t)(uintptr_t)no_such_function;
    target = (image->is_compared ? strlen(name) : target) + addend;
    memcpy(place_of(image, address), &target, sizeof target);
}

/* ---- chained fixups ---- */

/* Pointer formats of <mach-o/fixup-chains.h>. */
enum { ARM64E = 1, PTR_64 = 2, PTR_64_OFFSET = 6, ARM64E_USERLAND = 9, ARM64E_USERLAND24 = 12 };

/* One fixup of a chain, whatever its format. */
struct link {
    bool is_bind;
    bool is_auth;
    uint64_t target; /* an address; of a bind: the import's number */
    uint64_t high;   /* of a rebase: the pointer's highest byte; of a bind: the addend */
    uint64_t auth;   /* 19 bits: diversity, address diversity, key */
    uint64_t next;   /* bytes to the next fixup; 0: the last one */
};

static bool is_arm64e(uint16_t format)
{
    return format == ARM64E || format == ARM64E_USERLAND || format == ARM64E_USERLAND24;
}

static uint64_t bits(uint64_t word, unsigned first, unsigned count)
{
    return word >> first & ((UINT64_C(1) << count) - 1);
}

static struct link read_link(uint16_t format, uint64_t base, uint64_t word)
{
    struct link link = {.is_bind = bits(word, 63, 1), .next = bits(word, 51, 12) * 4};
    if (format == PTR_64 || format == PTR_64_OFFSET) {
        link.target = link.is_bind ? bits(word, 0, 24)
                                   : bits(word, 0, 36) + (format == PTR_64_OFFSET ? base : 0);
        link.high = link.is_bind ? bits(word, 24, 8) : bits(word, 36, 8);
        return link;
    }
    if (!is_arm64e(format)) {
        die("an unknown pointer format");
    }
    link = (struct link){
        .is_bind = bits(word, 62, 1), .is_auth = bits(word, 63, 1), .next = bits(word, 51, 11) * 8};
    link.auth = link.is_auth ? bits(word, 32, 19) : 0;
    if (link.is_bind) {
        link.target = bits(word, 0, format == ARM64E_USERLAND24 ? 24 : 16);
        link.high = link.is_auth ? 0 : bits(word, 32, 19);
    } else if (link.is_auth) {
        link.target = bits(word, 0, 32) + base;
    } else {
        link.target = bits(word, 0, 43) + (format == ARM64E ? 0 : base);
        link.high = bits(word, 43, 8);
    }
    return link;
}

/* In a format of arm64e. What can be authenticated is, now and then. */
static uint64_t write_link(uint16_t format, uint64_t base, uint64_t address, struct link link)
{
    bool is_auth = link.high == 0 && address % 32 >= 16;
    uint64_t word = link.next / 8 << 51 | (uint64_t)link.is_bind << 62 | (uint64_t)is_auth << 63;
    if (link.next % 8 != 0) {
        die("a fixup that arm64e has no place for");
    }
    word |= is_auth ? (address & 0x7ffff) << 32 : link.high << (link.is_bind ? 32 : 43);
    return word | (link.is_bind                  ? link.target
                   : is_auth || format != ARM64E ? link.target - base
                                                 : link.target);
}

static void fix_chain(struct image *image, const uint8_t *starts, uint64_t address)
{
    const uint8_t *imports = image->chained + get_32(image->chained + 8);
    const char *names = (const char *)image->chained + get_32(image->chained + 12);
    uint16_t format = get_16(starts + 6);
    struct link link;
    do {
        link = read_link(format, image->base, get_64(place_of(image, address)));
        if (image->new_format != 0) {
            uint64_t word = write_link(image->new_format, image->base, address, link);
            memcpy(place_of(image, address), &word, sizeof word);
        } else if (link.is_bind) {
            uint32_t import = get_32(imports + 4 * link.target);
            bind(image, address, names + (import >> 9), link.high);
        } else {
            rebase(image, address, link.target | link.high << 56);
        }
        if (link.is_auth && image->memory == NULL) {
            printf("%" PRIx64 " authenticated by %" PRIx64 "\n", address, link.auth);
        }
        address += link.next;
    } while (link.next != 0);
}

static void fix_chains(struct image *image)
{
    const uint8_t *table = image->chained + get_32(image->chained + 4);
    if (get_32(table) != image->segment_count) {
        die("the chained fixups have another number of segments");
    }
    for (unsigned i = 0; i < image->segment_count; i++) {
        const uint8_t *starts = table + get_32(table + 4 + 4 * i);
        if (starts == table) {
            continue;
        }
        if (get_64(starts + 8) != image->segments[i].vmaddr - image->base ||
            starts + get_32(starts) > image->chained + get_32(image->chained + 8) ||
            22 + 2u * get_16(starts + 20) > get_32(starts)) {
            die("the chained fixups of a segment are wrong");
        }
        for (unsigned page = 0; page < get_16(starts + 20); page++) {
            uint16_t start = get_16(starts + 22 + 2 * page);
            if (start != 0xffff) {
                fix_chain(image, starts,
                          image->segments[i].vmaddr + page * get_16(starts + 4) + start);
            }
        }
        if (image->new_format != 0) {
            memcpy(image->file + (starts - image->file) + 6, &image->new_format, 2);
        }
    }
}

/* ---- opcodes ---- */

static uint64_t get_uleb(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
}

static uint64_t check_place(const struct image *image, unsigned segment, uint64_t offset)
{
    if (segment >= image->segment_count || offset + 8 > image->segments[segment].vmsize) {
        die("an opcode leads outside of its segment");
    }
    return image->segments[segment].vmaddr + offset;
}

static void rebase_here(struct image *image, unsigned segment, uint64_t offset)
{
    uint64_t address = check_place(image, segment, offset);
    rebase(image, address, get_64(place_of(image, address)));
}

static void run_rebases(struct image *image, const uint8_t *at, const uint8_t *end)
{
    unsigned segment = 0;
    uint64_t offset = 0;
    while (at < end) {
        unsigned immediate = *at & 15;
        uint64_t count = 1;
        uint64_t skip = 0;
        switch (*at++ >> 4) {
        case 0:
            return;
        case 1:
            continue;
        case 2:
            segment = immediate;
            offset = get_uleb(&at);
            continue;
        case 3:
            offset += get_uleb(&at);
            continue;
        case 4:
            offset += 8 * immediate;
            continue;
        case 5:
            count = immediate;
            break;
        case 6:
            count = get_uleb(&at);
            break;
        case 7:
            skip = get_uleb(&at);
            break;
        case 8:
            count = get_uleb(&at);
            skip = get_uleb(&at);
            break;
        default:
            die("an unknown opcode");
        }
        for (; count > 0; count--, offset += 8 + skip) {
            rebase_here(image, segment, offset);
        }
    }
}

static void run_binds(struct image *image, const uint8_t *at, const uint8_t *end, bool is_lazy)
{
    unsigned segment = 0;
    uint64_t offset = 0;
    uint64_t addend = 0;
    const char *name = "";
    while (at < end) {
        unsigned immediate = *at & 15;
        uint64_t count = 1;
        uint64_t skip = 0;
        switch (*at++ >> 4) {
        case 0:
            if (!is_lazy) {
                return;
            }
            continue;
        case 1:
        case 3:
        case 5:
            continue;
        case 2:
            get_uleb(&at);
            continue;
        case 4:
            name = (const char *)at;
            at += strlen(name) + 1;
            continue;
        case 6:
            addend = get_uleb(&at);
            continue;
        case 7:
            segment = immediate;
            offset = get_uleb(&at);
            continue;
        case 8:
            offset += get_uleb(&at);
            continue;
        case 9:
            break;
        case 10:
            skip = get_uleb(&at);
            break;
        case 11:
            skip = 8 * immediate;
            break;
        case 12:
            count = get_uleb(&at);
            skip = get_uleb(&at);
            break;
        default:
            die("an unknown opcode");
        }
        for (; count > 0; count--, offset += 8 + skip) {
            bind(image, check_place(image, segment, offset), name, addend);
        }
    }
}

static void apply_fixups(struct image *image)
{
    if (image->chained != NULL) {
        fix_chains(image);
    }
    if (image->dyld_info == NULL) {
        return;
    }
    const uint8_t *info = image->dyld_info;
    const uint8_t *at[4];
    const uint8_t *end[4];
    for (int i = 0; i < 4; i++) {
        at[i] = image->file + get_32(info + 8 + 8 * i);
        end[i] = at[i] + get_32(info + 12 + 8 * i);
    }
    run_rebases(image, at[0], end[0]);
    run_binds(image, at[1], end[1], false);
    run_binds(image, at[2], end[2], false);
    run_binds(image, at[3], end[3], true);
}

/* ---- running ---- */

static void map_segments(struct image *image)
{
    uint64_t end = 0;
    for (unsigned i = 0; i < image->segment_count; i++) {
        end = image->segments[i].vmaddr + image->segments[i].vmsize;
    }
    image->memory = mmap((void *)(uintptr_t)LOAD_ADDRESS, end - image->base, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (image->memory == MAP_FAILED) {
        die("no memory");
    }
    uint64_t before = 0;
    for (unsigned i = 0; i < image->segment_count; i++) {
        const struct segment *segment = &image->segments[i];
        if (segment->vmaddr < image->base) {
            continue;
        }
        if (segment->vmaddr < before || segment->filesize > segment->vmsize ||
            segment->fileoff + segment->filesize > image->size || segment->fileoff % 4096 != 0) {
            die("a segment is wrong");
        }
        before = segment->vmaddr + segment->vmsize;
        memcpy(image->memory + (segment->vmaddr - image->base), image->file + segment->fileoff,
               segment->filesize);
    }
}

static void protect_segments(const struct image *image)
{
    for (unsigned i = 0; i < image->segment_count; i++) {
        const struct segment *segment = &image->segments[i];
        if (strcmp(segment->name, "__TEXT") == 0 &&
            mprotect(image->memory, (segment->vmsize + 4095) & ~UINT64_C(4095),
                     PROT_READ | PROT_EXEC) != 0) {
            die("code cannot be made executable");
        }
    }
}

static uint64_t find_symbol(const struct image *image, const char *name)
{
    const uint8_t *symbol = image->file + get_32(image->symtab + 8);
    const char *strings = (const char *)image->file + get_32(image->symtab + 16);
    for (uint32_t i = 0; i < get_32(image->symtab + 12); i++, symbol += 16) {
        if ((symbol[4] & 0xee) == 0x0e && strcmp(strings + get_32(symbol), name) == 0) {
            return get_64(symbol + 8);
        }
    }
    die("no such symbol");
    return 0;
}

static int run(struct image *image, char **arguments)
{
    profile = fopen(arguments[2], "wb");
    if (profile == NULL || get_32(image->file + 4) != 0x01000007) {
        die("cannot run this");
    }
    map_segments(image);
    apply_fixups(image);
    protect_segments(image);
    int (*entry)(long) = (int (*)(long))(
        uintptr_t)(image->memory + (find_symbol(image, arguments[0]) - image->base));
    int result = entry(strtol(arguments[1], NULL, 10));
    return fclose(profile) == 0 && fflush(stdout) == 0 ? result : 100;
}

static void write_memory(struct image *image, const char *path)
{
    uint64_t range[2] = {0, 0};
    image->is_compared = true;
    map_segments(image);
    apply_fixups(image);
    for (unsigned i = 0; i < image->segment_count; i++) {
        const struct segment *segment = &image->segments[i];
        if ((segment->initprot & PROT_WRITE) != 0) {
            range[0] = range[1] == 0 ? segment->vmaddr : range[0];
            range[1] = segment->vmaddr + segment->vmsize;
        }
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(range, sizeof range[0], 1, file) != 1 ||
        fwrite(image->memory + (range[0] - image->base), range[1] - range[0], 1, file) != 1 ||
        fclose(file) != 0) {
        die("the memory cannot be written");
    }
}

/* ---- another pointer format ---- */

#define CPU_SUBTYPE_ARM64E 2

static void make_arm64e(struct image *image, const char *format, const char *path)
{
    const uint32_t subtype = CPU_SUBTYPE_ARM64E;
    image->new_format = (uint16_t)strtoul(format, NULL, 10);
    if (image->chained == NULL || !is_arm64e(image->new_format)) {
        die("no chained pointers, or no format of arm64e");
    }
    fix_chains(image);
    memcpy(image->file + 8, &subtype, sizeof subtype);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(image->file, 1, image->size, file) != image->size ||
        fclose(file) != 0) {
        die("the image cannot be written");
    }
}

int main(int argument_count, char **arguments)
{
    static struct image image;
    if (argument_count == 3 && strcmp(arguments[1], "fixups") == 0) {
        read_image(arguments[2], &image);
        apply_fixups(&image);
        return 0;
    }
    if (argument_count == 6 && strcmp(arguments[1], "run") == 0) {
        read_image(arguments[2], &image);
        return run(&image, arguments + 3);
    }
    if (argument_count == 4 && strcmp(arguments[1], "memory") == 0) {
        read_image(arguments[2], &image);
        write_memory(&image, arguments[3]);
        return 0;
    }
    if (argument_count == 5 && strcmp(arguments[1], "arm64e") == 0) {
        read_image(arguments[2], &image);
        make_arm64e(&image, arguments[3], arguments[4]);
        return 0;
    }
    die("usage: darwin_loader fixups IMAGE | run IMAGE ENTRY SEED PROFILE | memory IMAGE OUT");
}
