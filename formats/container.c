/*
 * Containers of slices: see image.h. All numbers in the table of a universal file are
 * big-endian.
 */
#include "formats/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/macho/macho.h"

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

/* 32 KiB is the largest alignment that any tool gives slices. */
#define ALIGN_MAX 15

bool container_is_universal(struct bytes bytes)
{
    uint32_t magic, count;

    if (bytes.size < FAT_HEADER_SIZE)
        return false;
    magic = load_u32(bytes.data, true);
    count = load_u32(bytes.data + 4, true);
    /* Java class files start with the same magic number, followed by a version, which is at least
     * 45. */
    return (magic == FAT_MAGIC || magic == FAT_MAGIC_64) && count < 45;
}

static void name_slice(struct slice *slice, uint32_t cputype, uint32_t cpusubtype)
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

static size_t entry_size(const struct container *container)
{
    return container->is_64 ? FAT_ARCH_64_SIZE : FAT_ARCH_SIZE;
}

static bool read_slice(const struct container *container, size_t index, struct slice *slice)
{
    const uint8_t *entry = container->header.data + FAT_HEADER_SIZE + index * entry_size(container);
    uint32_t align = load_u32(entry + (container->is_64 ? ARCH_64_ALIGN : ARCH_ALIGN), true);

    name_slice(slice, load_u32(entry + ARCH_CPUTYPE, true),
               load_u32(entry + ARCH_CPUSUBTYPE, true));
    slice->offset = container->is_64 ? load_u64(entry + ARCH_OFFSET, true)
                                     : load_u32(entry + ARCH_OFFSET, true);
    slice->size =
        container->is_64 ? load_u64(entry + ARCH_64_SIZE, true) : load_u32(entry + ARCH_SIZE, true);
    slice->alignment = UINT64_C(1) << (align & 63);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(container->slices[i].name, slice->name) == 0)
            return false;
    }
    return align <= ALIGN_MAX;
}

/* Assigns an offset to each slice; false if the offsets do not fit the fields of the table. */
static bool lay_out(struct container *container)
{
    uint64_t end = container->header.size;

    for (size_t i = 0; i < container->count; i++) {
        struct slice *slice = &container->slices[i];

        slice->offset = align_up(end, slice->alignment);
        if (slice->offset < end || !add_fits(slice->offset, slice->size, &end) ||
            (!container->is_64 && end > UINT32_MAX))
            return false;
    }
    return true;
}

/* True if the file has the layout that lay_out makes. */
static bool is_laid_out(const struct container *container, struct bytes bytes)
{
    struct container copy = *container;
    uint64_t end = container->header.size;

    if (!lay_out(&copy))
        return false;
    for (size_t i = 0; i < container->count; i++) {
        const struct slice *slice = &container->slices[i];

        if (slice->offset != copy.slices[i].offset || slice->size == 0 ||
            !range_within(slice->offset, slice->size, 0, bytes.size) ||
            !bytes_zero_at(bytes, end, slice->offset - end))
            return false;
        end = slice->offset + slice->size;
    }
    return end == bytes.size;
}

static bool read_table(struct container *container, struct bytes bytes, const char *name,
                       struct error *error)
{
    bool known = true;

    container->is_64 = load_u32(bytes.data, true) == FAT_MAGIC_64;
    container->count = load_u32(bytes.data + 4, true);
    if (container->count == 0 || container->count > SLICES_MAX ||
        !bytes_slice(bytes, 0, FAT_HEADER_SIZE + container->count * entry_size(container),
                     &container->header)) {
        container->count = 0;
        return error_set(
            error, "%s: damaged universal image: its table is cut short; make it again", name);
    }
    for (size_t i = 0; known && i < container->count; i++)
        known = read_slice(container, i, &container->slices[i]);
    return (known && is_laid_out(container, bytes)) ||
           error_set(error,
                     "%s: a universal image with a layout that lipo does not make; make it "
                     "again with lipo -create",
                     name);
}

bool container_open(struct container *container, const struct input *file, struct error *error)
{
    *container = (struct container){.is_universal = container_is_universal(file->bytes)};
    if (!container->is_universal) {
        container->is_64 = true;
        container->count = 1;
        container->slices[0] = (struct slice){.size = file->bytes.size, .alignment = 1};
    } else if (!read_table(container, file->bytes, file->path, error)) {
        return false;
    }
    for (size_t i = 0; i < container->count; i++) {
        struct slice *slice = &container->slices[i];

        slice->input = *file;
        bytes_slice(file->bytes, slice->offset, slice->size, &slice->input.bytes);
        if (asprintf(&slice->input.path, "%s%s%s", file->path, slice->name[0] == '\0' ? "" : ".",
                     slice->name) < 0) {
            slice->input.path = NULL;
            return error_out_of_memory(error, file->path, strlen(file->path));
        }
    }
    return true;
}

void container_close(struct container *container)
{
    for (size_t i = 0; i < container->count; i++)
        free(container->slices[i].input.path);
    *container = (struct container){.count = 0};
}

bool container_lay_out(struct container *container, const char *name, struct error *error)
{
    return lay_out(container) ||
           error_set(error,
                     "%s: the slices do not fit the universal image; make it again with lipo",
                     name);
}

/* ---- writing ---- */

static bool write_header(const struct container *container, const char *name, bytes_sink sink,
                         void *context, struct error *error)
{
    struct buffer header = {0};
    uint8_t *entry;
    bool done;

    if (!buffer_append(&header, container->header.data, (size_t)container->header.size))
        return error_out_of_memory(error, name, container->header.size);
    entry = header.data + FAT_HEADER_SIZE;
    for (size_t i = 0; i < container->count; i++, entry += entry_size(container)) {
        const struct slice *slice = &container->slices[i];

        if (container->is_64) {
            store_u64(entry + ARCH_OFFSET, slice->offset, true);
            store_u64(entry + ARCH_64_SIZE, slice->size, true);
        } else {
            store_u32(entry + ARCH_OFFSET, (uint32_t)slice->offset, true);
            store_u32(entry + ARCH_SIZE, (uint32_t)slice->size, true);
        }
    }
    done = sink(context, buffer_view(&header), error);
    buffer_free(&header);
    return done;
}

bool container_write(const struct container *container, const char *name, bytes_sink sink,
                     void *sink_context, slice_writer writer, void *writer_context,
                     struct error *error)
{
    static const uint8_t zeros[UINT64_C(1) << ALIGN_MAX];
    uint64_t end = container->header.size;

    if (container->is_universal && !write_header(container, name, sink, sink_context, error))
        return false;
    for (size_t i = 0; i < container->count; i++) {
        const struct slice *slice = &container->slices[i];

        /* Less than the alignment of the slice. */
        if ((slice->offset != end &&
             !sink(sink_context, (struct bytes){zeros, slice->offset - end}, error)) ||
            !writer(writer_context, i, error))
            return false;
        end = slice->offset + slice->size;
    }
    return true;
}
