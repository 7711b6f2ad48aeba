/*
 * Reading and writing the table of a universal image: see universal.h. Its numbers are big-endian.
 */
#include "formats/container.h"

#include <stdio.h>
#include <string.h>

#include "formats/macho/format.h"

#define FAT_HEADER_SIZE     8
#define FAT_ARCH_SIZE       20
#define FAT_ARCH_64_SIZE    32

#define ARCH_CPUTYPE        0
#define ARCH_CPUSUBTYPE     4
#define ARCH_OFFSET         8
#define ARCH_SIZE           12
#define ARCH_ALIGN          16
#define ARCH_64_SIZE        16
#define ARCH_64_ALIGN       24

#define CPU_SUBTYPE_MASK    0x00ffffffu
#define CPU_SUBTYPE_ARM64E  2
#define CPU_SUBTYPE_X86_64H 8

/* Pages of 32 KiB are the largest that any tool aligns slices to. */
#define ALIGN_MAX 15

bool universal_recognize(struct bytes bytes)
{
    uint32_t magic, count;

    if (bytes.size < FAT_HEADER_SIZE)
        return false;
    magic = load_u32(bytes.data, true);
    count = load_u32(bytes.data + 4, true);
    /* Java's class files have the same magic, and a version of 45 or more there. */
    return (magic == FAT_MAGIC || magic == FAT_MAGIC_64) && count < 45;
}

static void name_slice(struct universal_slice *slice, uint32_t cputype, uint32_t cpusubtype)
{
    uint32_t subtype = cpusubtype & CPU_SUBTYPE_MASK;

    if (cputype == CPU_TYPE_ARM64 && subtype == CPU_SUBTYPE_ARM64E)
        snprintf(slice->name, sizeof(slice->name), "arm64e");
    else if (cputype == CPU_TYPE_ARM64)
        snprintf(slice->name, sizeof(slice->name), "arm64");
    else if (cputype == CPU_TYPE_X86_64 && subtype == CPU_SUBTYPE_X86_64H)
        snprintf(slice->name, sizeof(slice->name), "x86_64h");
    else if (cputype == CPU_TYPE_X86_64)
        snprintf(slice->name, sizeof(slice->name), "x86_64");
    else
        snprintf(slice->name, sizeof(slice->name), "cputype-%u-%u", cputype, subtype);
}

static size_t entry_size(const struct universal *universal)
{
    return universal->is_64 ? FAT_ARCH_64_SIZE : FAT_ARCH_SIZE;
}

static bool read_slice(const struct universal *universal, size_t index,
                       struct universal_slice *slice)
{
    const uint8_t *entry = universal->header.data + FAT_HEADER_SIZE + index * entry_size(universal);
    uint32_t align = load_u32(entry + (universal->is_64 ? ARCH_64_ALIGN : ARCH_ALIGN), true);

    name_slice(slice, load_u32(entry + ARCH_CPUTYPE, true),
               load_u32(entry + ARCH_CPUSUBTYPE, true));
    slice->offset = universal->is_64 ? load_u64(entry + ARCH_OFFSET, true)
                                     : load_u32(entry + ARCH_OFFSET, true);
    slice->size =
        universal->is_64 ? load_u64(entry + ARCH_64_SIZE, true) : load_u32(entry + ARCH_SIZE, true);
    slice->alignment = UINT64_C(1) << (align & 63);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(universal->slices[i].name, slice->name) == 0)
            return false;
    }
    return align <= ALIGN_MAX;
}

/* The file is as universal_lay_out would make it. */
static bool is_laid_out(const struct universal *universal, struct bytes bytes)
{
    struct universal copy = *universal;
    uint64_t end = universal->header.size;

    if (!universal_lay_out(&copy))
        return false;
    for (size_t i = 0; i < universal->count; i++) {
        const struct universal_slice *slice = &universal->slices[i];
        struct bytes gap;

        if (slice->offset != copy.slices[i].offset || slice->size == 0 ||
            !range_within(slice->offset, slice->size, 0, bytes.size) ||
            !bytes_slice(bytes, end, slice->offset - end, &gap) || !bytes_all_zero(gap))
            return false;
        end = slice->offset + slice->size;
    }
    return end == bytes.size;
}

bool universal_read(struct bytes bytes, const char *name, struct universal *universal,
                    struct error *error)
{
    bool known = true;

    *universal = (struct universal){.is_64 = load_u32(bytes.data, true) == FAT_MAGIC_64,
                                    .count = load_u32(bytes.data + 4, true)};
    if (universal->count == 0 || universal->count > UNIVERSAL_SLICES_MAX ||
        !bytes_slice(bytes, 0, FAT_HEADER_SIZE + universal->count * entry_size(universal),
                     &universal->header))
        return error_set(
            error, "%s: damaged universal image: its table is cut short; make it again", name);
    for (size_t i = 0; known && i < universal->count; i++)
        known = read_slice(universal, i, &universal->slices[i]);
    if (!known || !is_laid_out(universal, bytes))
        return error_set(error,
                         "%s: a universal image with a layout that lipo does not make; make it "
                         "again with lipo -create",
                         name);
    return true;
}

bool universal_lay_out(struct universal *universal)
{
    uint64_t end = universal->header.size;

    for (size_t i = 0; i < universal->count; i++) {
        struct universal_slice *slice = &universal->slices[i];

        slice->offset = align_up(end, slice->alignment);
        if (slice->offset < end || !add_fits(slice->offset, slice->size, &end) ||
            (!universal->is_64 && end > UINT32_MAX))
            return false;
    }
    return true;
}

bool universal_append_header(const struct universal *universal, struct buffer *header)
{
    uint8_t *entry;

    if (!buffer_append(header, universal->header.data, (size_t)universal->header.size))
        return false;
    entry = header->data + header->size - universal->header.size + FAT_HEADER_SIZE;
    for (size_t i = 0; i < universal->count; i++, entry += entry_size(universal)) {
        const struct universal_slice *slice = &universal->slices[i];

        if (universal->is_64) {
            store_u64(entry + ARCH_OFFSET, slice->offset, true);
            store_u64(entry + ARCH_64_SIZE, slice->size, true);
        } else {
            store_u32(entry + ARCH_OFFSET, (uint32_t)slice->offset, true);
            store_u32(entry + ARCH_SIZE, (uint32_t)slice->size, true);
        }
    }
    return true;
}
