/*
 * A minidump as the target of a snapshot: the format of Windows' crash reports, which Breakpad and
 * Crashpad write for programs on Linux and Android too.
 *
 * A minidump is a header, a directory of streams, and the streams. Of these, the list of modules
 * says which images were loaded where, with their build IDs, and the lists of memory say which
 * bytes of the process the file holds. By default that is little more than the stacks: counters are
 * in a minidump only if the program registered their memory, or a full dump was asked for.
 *
 * All structures are packed, and in the byte order of the machine that wrote the file; the
 * signature tells which. Names are those of Microsoft's MINIDUMP_ structures; the offsets are given
 * as numbers, since the structures are no C structures of this machine. An RVA is an offset in the
 * file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "split/snapshot/address_ranges.h"
#include "split/snapshot/memory.h"

#define SIGNATURE 0x504d444dU /* "MDMP" */

/* MINIDUMP_HEADER: Signature, Version, NumberOfStreams, StreamDirectoryRva, ... */
#define HEADER_SIZE      32
#define HEADER_STREAMS   8
#define HEADER_DIRECTORY 12

/* MINIDUMP_DIRECTORY: StreamType, then DataSize and Rva of the stream. */
#define DIRECTORY_SIZE  12
#define STREAM_MODULES  4
#define STREAM_MEMORY   5
#define STREAM_MEMORY64 9

/* MINIDUMP_MODULE: BaseOfImage, SizeOfImage, CheckSum, TimeDateStamp, ModuleNameRva, VersionInfo,
 * DataSize and Rva of CvRecord, ... */
#define MODULE_SIZE    108
#define MODULE_NAME    20
#define MODULE_CV_SIZE 76
#define MODULE_CV_RVA  80

/* MINIDUMP_MEMORY_DESCRIPTOR: StartOfMemoryRange, DataSize, Rva. */
#define MEMORY_SIZE 16

/* MINIDUMP_MEMORY64_LIST: NumberOfMemoryRanges, BaseRva, and for each range its start and its size.
 * The bytes of all ranges follow each other from BaseRva on. */
#define MEMORY64_HEADER 16
#define MEMORY64_SIZE   16

/* The CodeView record that Breakpad and Crashpad write for an ELF file: this signature, and the
 * build ID. */
#define CV_ELF            0x4270454cU
#define CV_SIGNATURE_SIZE 4

/* Longer names are cut; in UTF-8, a unit takes up to three bytes. */
#define NAME_UNITS 1024
#define NAME_SIZE  (3 * NAME_UNITS + 1)

/* The tables are read through a window of the file, which any structure and name fits in. */
#define WINDOW_SIZE 4096

struct minidump {
    struct memory memory;
    int fd;
    uint64_t file_size;
    bool big_endian;
    struct address_ranges ranges;
    uint64_t window_offset;
    size_t window_size;
    uint8_t window[WINDOW_SIZE];
};

/* Where something is in the file: MINIDUMP_LOCATION_DESCRIPTOR. */
struct location {
    uint64_t offset;
    uint64_t size;
};

/* ---- bytes of the file ---- */

static bool read_at(const struct minidump *dump, uint64_t offset, void *to, size_t size,
                    struct error *error)
{
    return file_read_at(dump->fd, dump->memory.name, offset, to, size, error);
}

static bool damaged(const struct minidump *dump, const char *what, struct error *error)
{
    return error_set(error, "%s: damaged, or cut short: %s not in the file; copy the dump again",
                     dump->memory.name, what);
}

/* The `size` bytes at the offset, at most WINDOW_SIZE of them; NULL with an error. They stay valid
 * until the next call. */
static const uint8_t *look(struct minidump *dump, uint64_t offset, size_t size, const char *what,
                           struct error *error)
{
    if (!range_within(offset, size, 0, dump->file_size)) {
        damaged(dump, what, error);
        return NULL;
    }
    if (!range_within(offset, size, dump->window_offset, dump->window_size)) {
        uint64_t left = dump->file_size - offset;
        size_t wanted = left < WINDOW_SIZE ? (size_t)left : WINDOW_SIZE;

        dump->window_size = 0;
        if (!read_at(dump, offset, dump->window, wanted, error))
            return NULL;
        dump->window_offset = offset;
        dump->window_size = wanted;
    }
    return dump->window + (offset - dump->window_offset);
}

/* Checks that an array of `count` items is in the file. */
static bool has_array(const struct minidump *dump, uint64_t offset, uint64_t count,
                      size_t item_size, const char *what, struct error *error)
{
    return (offset <= dump->file_size && count <= (dump->file_size - offset) / item_size) ||
           damaged(dump, what, error);
}

static uint32_t number32(const struct minidump *dump, const uint8_t *from)
{
    return load_u32(from, dump->big_endian);
}

static uint64_t number64(const struct minidump *dump, const uint8_t *from)
{
    return load_u64(from, dump->big_endian);
}

/* ---- operations ---- */

static bool read_memory(struct memory *memory, uint64_t address, void *to, size_t size, size_t *got,
                        struct error *error)
{
    struct minidump *dump = (struct minidump *)memory;
    uint64_t offset, run;

    *got = 0;
    if (!address_ranges_find(&dump->ranges, address, &offset, &run))
        return true;
    *got = run < size ? (size_t)run : size;
    return read_at(dump, offset, to, *got, error);
}

static bool is_writable(struct memory *memory, uint64_t address)
{
    (void)memory, (void)address;
    return true;
}

static void close_dump(struct memory *memory)
{
    struct minidump *dump = (struct minidump *)memory;

    close(dump->fd);
    address_ranges_free(&dump->ranges);
    memory_free_lists(memory);
    free(dump);
}

static const struct memory_operations operations = {
    .absent_because =
        "a minidump holds only stacks, and what the program registers: give the address and size "
        "that 'covsplit show --map' prints to RegisterAppMemory (Breakpad) or "
        "set_extra_memory_ranges (Crashpad), or take a core",
    .read = read_memory,
    .is_writable = is_writable,
    .open_file = memory_open_by_path,
    .close = close_dump,
};

/* ---- modules ---- */

/* Appends a UTF-16 code unit, of a name, as UTF-8. File names on Linux are bytes, which Breakpad
 * took for UTF-8; what is no valid character becomes '?'. */
static size_t put_unit(char *to, uint16_t unit)
{
    if (unit < 0x80) {
        to[0] = (char)unit;
        return 1;
    }
    if (unit < 0x800) {
        to[0] = (char)(0xc0 | unit >> 6);
        to[1] = (char)(0x80 | (unit & 0x3f));
        return 2;
    }
    if (unit >= 0xd800 && unit < 0xe000) {
        to[0] = '?';
        return 1;
    }
    to[0] = (char)(0xe0 | unit >> 12);
    to[1] = (char)(0x80 | (unit >> 6 & 0x3f));
    to[2] = (char)(0x80 | (unit & 0x3f));
    return 3;
}

/* Reads a MINIDUMP_STRING: its size in bytes, and UTF-16. */
static bool read_name(struct minidump *dump, uint64_t offset, char name[NAME_SIZE],
                      struct error *error)
{
    const char *what = "the name of a module is";
    const uint8_t *bytes;
    uint32_t units;
    size_t length = 0;

    bytes = look(dump, offset, 4, what, error);
    if (bytes == NULL)
        return false;
    units = number32(dump, bytes) / 2;
    units = units < NAME_UNITS ? units : NAME_UNITS;
    bytes = look(dump, offset + 4, 2 * (size_t)units, what, error);
    if (bytes == NULL)
        return false;
    for (uint32_t i = 0; i < units; i++) {
        uint16_t unit = load_u16(bytes + 2 * (size_t)i, dump->big_endian);

        if (unit == 0)
            break;
        length += put_unit(name + length, unit);
    }
    name[length] = '\0';
    return true;
}

/* Reads the build ID. A record of another kind, or none, is no error: the image's own headers may
 * be in the dump. */
static bool read_build_id(struct minidump *dump, const struct location *record, struct uuid *uuid,
                          struct error *error)
{
    const uint8_t *bytes;
    uint64_t size = record->size;

    *uuid = (struct uuid){0};
    if (size <= CV_SIGNATURE_SIZE || size - CV_SIGNATURE_SIZE > UUID_SIZE_MAX)
        return true;
    bytes = look(dump, record->offset, (size_t)size, "the build ID of a module is", error);
    if (bytes == NULL)
        return false;
    if (number32(dump, bytes) == CV_ELF) {
        uuid->size = (size_t)size - CV_SIGNATURE_SIZE;
        memcpy(uuid->bytes, bytes + CV_SIGNATURE_SIZE, uuid->size);
    }
    return true;
}

static bool read_module(struct minidump *dump, uint64_t offset, struct error *error)
{
    struct memory *memory = &dump->memory;
    char name[NAME_SIZE];
    struct location record;
    const uint8_t *bytes;
    struct uuid uuid;
    uint64_t address;
    uint32_t name_offset;

    bytes = look(dump, offset, MODULE_SIZE, "a module is", error);
    if (bytes == NULL)
        return false;
    address = number64(dump, bytes);
    name_offset = number32(dump, bytes + MODULE_NAME);
    record.size = number32(dump, bytes + MODULE_CV_SIZE);
    record.offset = number32(dump, bytes + MODULE_CV_RVA);
    if (!read_build_id(dump, &record, &uuid, error) || !read_name(dump, name_offset, name, error) ||
        !memory_add_module(memory, name, address, error))
        return false;
    memory->modules[memory->module_count - 1].uuid = uuid;
    return true;
}

/* MINIDUMP_MODULE_LIST: NumberOfModules and the modules. Some writers align these to 8 bytes; then
 * the stream is so much larger. */
static bool list_start(struct minidump *dump, const struct location *stream, size_t item_size,
                       const char *what, uint64_t *offset, uint64_t *count, struct error *error)
{
    const uint8_t *bytes;

    bytes = look(dump, stream->offset, 4, "a list is", error);
    if (bytes == NULL)
        return false;
    *count = number32(dump, bytes);
    *offset = stream->offset + 4;
    if (stream->size == *count * item_size + 8)
        *offset += 4;
    return has_array(dump, *offset, *count, item_size, what, error);
}

static bool read_modules(struct minidump *dump, const struct location *stream, struct error *error)
{
    uint64_t offset, count;

    if (!list_start(dump, stream, MODULE_SIZE, "some modules are", &offset, &count, error))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!read_module(dump, offset + i * MODULE_SIZE, error))
            return false;
    }
    return true;
}

/* ---- memory ---- */

/* Adds what the file has of a range. */
static bool add_memory(struct minidump *dump, uint64_t address, uint64_t offset, uint64_t size,
                       struct error *error)
{
    uint64_t there = offset < dump->file_size ? dump->file_size - offset : 0;
    struct address_range range = {address, size < there ? size : there, offset};

    dump->memory.is_cut |= size > there;
    return address_ranges_add(&dump->ranges, &range) ||
           error_out_of_memory(error, dump->memory.name, dump->ranges.count * sizeof(range));
}

static bool read_memory_list(struct minidump *dump, const struct location *stream,
                             struct error *error)
{
    uint64_t offset, count;
    const uint8_t *bytes;

    if (!list_start(dump, stream, MEMORY_SIZE, "some ranges of memory are", &offset, &count, error))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        bytes = look(dump, offset + i * MEMORY_SIZE, MEMORY_SIZE, "a range of memory is", error);
        if (bytes == NULL || !add_memory(dump, number64(dump, bytes), number32(dump, bytes + 12),
                                         number32(dump, bytes + 8), error))
            return false;
    }
    return true;
}

static bool read_memory64_list(struct minidump *dump, const struct location *stream,
                               struct error *error)
{
    uint64_t count, data, table;
    const uint8_t *bytes;

    bytes = look(dump, stream->offset, MEMORY64_HEADER, "a list is", error);
    if (bytes == NULL)
        return false;
    count = number64(dump, bytes);
    data = number64(dump, bytes + 8);
    table = stream->offset + MEMORY64_HEADER;
    if (!has_array(dump, table, count, MEMORY64_SIZE, "some ranges of memory are", error))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t address, size;

        bytes = look(dump, table + i * MEMORY64_SIZE, MEMORY64_SIZE, "a range of memory is", error);
        if (bytes == NULL)
            return false;
        address = number64(dump, bytes);
        size = number64(dump, bytes + 8);
        if (!add_memory(dump, address, data, size, error))
            return false;
        if (!add_fits(data, size, &data))
            return damaged(dump, "a range of memory is", error);
    }
    return true;
}

/* ---- the file ---- */

static bool read_stream(struct minidump *dump, uint32_t type, const struct location *stream,
                        struct error *error)
{
    switch (type) {
    case STREAM_MODULES:
        return read_modules(dump, stream, error);
    case STREAM_MEMORY:
        return read_memory_list(dump, stream, error);
    case STREAM_MEMORY64:
        return read_memory64_list(dump, stream, error);
    default:
        return true;
    }
}

static bool read_directory(struct minidump *dump, struct error *error)
{
    bool has_seen[STREAM_MEMORY64 + 1] = {false};
    uint32_t count, offset;
    const uint8_t *bytes;

    bytes = look(dump, 0, HEADER_SIZE, "the header is", error);
    if (bytes == NULL)
        return false;
    dump->big_endian = load_u32(bytes, true) == SIGNATURE;
    count = number32(dump, bytes + HEADER_STREAMS);
    offset = number32(dump, bytes + HEADER_DIRECTORY);
    if (!has_array(dump, offset, count, DIRECTORY_SIZE, "some streams are", error))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct location stream;
        uint32_t type;

        bytes = look(dump, offset + (uint64_t)i * DIRECTORY_SIZE, DIRECTORY_SIZE,
                     "the directory is", error);
        if (bytes == NULL)
            return false;
        type = number32(dump, bytes);
        stream.size = number32(dump, bytes + 4);
        stream.offset = number32(dump, bytes + 8);
        /* Each list once: a directory that names one a million times would take forever. */
        if (type > STREAM_MEMORY64 || has_seen[type])
            continue;
        has_seen[type] = true;
        if (!read_stream(dump, type, &stream, error))
            return false;
    }
    return true;
}

static struct minidump *create(int fd, const char *path, struct error *error)
{
    struct minidump *dump = calloc(1, sizeof(*dump));

    if (dump != NULL) {
        dump->memory = (struct memory){.operations = &operations, .name = strdup(path)};
        dump->fd = fd;
        if (dump->memory.name != NULL)
            return dump;
    }
    error_out_of_memory(error, path, sizeof(*dump));
    free(dump);
    close(fd);
    return NULL;
}

bool minidump_recognize(struct bytes front)
{
    return front.size >= 4 &&
           (load_u32(front.data, false) == SIGNATURE || load_u32(front.data, true) == SIGNATURE);
}

struct memory *minidump_open(int fd, const char *path, struct error *error)
{
    struct minidump *dump = create(fd, path, error);
    struct stat status;

    if (dump == NULL)
        return NULL;
    if (fstat(fd, &status) != 0) {
        error_set_errno(error, errno, "%s: cannot be read", path);
    } else {
        dump->file_size = (uint64_t)status.st_size;
        if (read_directory(dump, error)) {
            address_ranges_sort(&dump->ranges);
            memory_sort_modules(&dump->memory);
            return &dump->memory;
        }
    }
    close_dump(&dump->memory);
    return NULL;
}
