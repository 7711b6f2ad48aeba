/*
 * An ELF core file as the target of a snapshot: as written by Linux, gdb's gcore and qemu, of
 * either class and byte order.
 *
 * Its PT_LOAD segments are ranges of memory. Where p_filesz is less than p_memsz, or the file ends
 * early, the rest was not dumped: it is missing, and never taken from anywhere else. But anonymous
 * memory that nothing was ever written to, as Linux leaves it out, is zeros. The NT_FILE
 * note lists which files were mapped where. Without it (qemu writes none), a module is a segment
 * that starts with an ELF header, or has a stub record in it, and its path is not known.
 *
 * A core can be larger than memory, so it is not mapped: its headers are read, and then what is
 * asked for. That also makes a core harmless that is truncated meanwhile.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/numbers.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/profile.h"
#include "split/snapshot/elf_header.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/nt_file.h"
#include "split/snapshot/stubs.h"

#define NOTE_OWNER  "CORE"
#define NOTE_HEADER 12 /* n_namesz, n_descsz, n_type */
/* What is read of a note to see what it is: the header, and "CORE" with its NUL and padding. */
#define NOTE_FRONT (NOTE_HEADER + 8)

struct segment {
    uint64_t address; /* first: see array_count_up_to */
    uint64_t size;    /* in memory */
    uint64_t dumped;  /* so many bytes from its start are in the file */
    uint64_t offset;
    bool is_writable;
    bool is_left_out; /* the header says that nothing was dumped */
    bool is_file;     /* a file is mapped there */
    bool is_zeros;    /* see find_untouched */
};

struct core {
    struct memory memory;
    int fd;
    uint64_t file_size;
    struct elf_header header;
    struct segment *segments; /* in ascending order of their addresses */
    size_t segment_count;
    bool has_files;               /* there is an NT_FILE note */
    struct address_ranges fronts; /* where it says that files are mapped from their beginning */
};

static struct core *core_of(struct memory *memory)
{
    return (struct core *)memory;
}

/* ---- the file ---- */

/* Reads bytes that are inside the file. */
static bool read_at(const struct core *core, uint64_t offset, void *to, size_t size,
                    struct error *error)
{
    return file_read_at(core->fd, core->memory.name, offset, to, size, error);
}

static bool damaged(const struct core *core, const char *what, struct error *error)
{
    return error_set(error, "%s: damaged, or cut short: %s; dump the core again", core->memory.name,
                     what);
}

/* Reads bytes of the file into the buffer, replacing its contents. Nothing is allocated for bytes
 * that the file does not have. */
static bool read_part(const struct core *core, uint64_t offset, uint64_t size, const char *what,
                      struct buffer *buffer, struct error *error)
{
    buffer->size = 0;
    if (!range_within(offset, size, 0, core->file_size))
        return damaged(core, what, error);
    if (!buffer_reserve(buffer, (size_t)size))
        return error_out_of_memory(error, core->memory.name, size);
    buffer->size = (size_t)size;
    return read_at(core, offset, buffer->data, (size_t)size, error);
}

/* ---- operations ---- */

/* The segment that the address is in; NULL if there is none. */
static const struct segment *segment_of(const struct core *core, uint64_t address)
{
    size_t next =
        array_count_up_to(core->segments, core->segment_count, sizeof(*core->segments), address);
    const struct segment *last = next == 0 ? NULL : &core->segments[next - 1];

    return last == NULL || address - last->address >= last->size ? NULL : last;
}

static bool read_memory(struct memory *memory, uint64_t address, void *to, size_t size, size_t *got,
                        struct error *error)
{
    struct core *core = core_of(memory);
    const struct segment *segment = segment_of(core, address);
    uint64_t skipped = segment == NULL ? 0 : address - segment->address;

    *got = 0;
    if (segment != NULL && segment->is_zeros) {
        *got = segment->size - skipped < size ? (size_t)(segment->size - skipped) : size;
        memset(to, 0, *got);
        return true;
    }
    if (segment == NULL || skipped >= segment->dumped)
        return true;
    *got = segment->dumped - skipped < size ? (size_t)(segment->dumped - skipped) : size;
    return read_at(core, segment->offset + skipped, to, *got, error);
}

/* gdb leaves out segments of which nothing is dumped. Nothing is known of these, except that the
 * front of a file is hardly ever what counters are in. */
static bool is_writable(struct memory *memory, uint64_t address)
{
    const struct core *core = core_of(memory);
    const struct segment *segment = segment_of(core, address);
    uint64_t offset, size;

    return segment != NULL ? segment->is_writable
                           : !address_ranges_find(&core->fronts, address, &offset, &size);
}

static bool begins_at(struct memory *memory, uint64_t address)
{
    const struct segment *segment = segment_of(core_of(memory), address);

    return segment != NULL && segment->address == address;
}

static void close_core(struct memory *memory)
{
    struct core *core = core_of(memory);

    close(core->fd);
    free(core->segments);
    address_ranges_free(&core->fronts);
    memory_free_lists(memory);
    free(core);
}

static const struct memory_operations operations = {
    .absent_because = "the core is truncated, or they were not dumped; raise 'ulimit -c', or set "
                      "bits 0 to 4 of /proc/PID/coredump_filter",
    .read = read_memory,
    .is_writable = is_writable,
    .begins_at = begins_at,
    .open_file = memory_open_by_path,
    .close = close_core,
};

/* ---- segments ---- */

static bool read_header(struct core *core, struct error *error)
{
    uint8_t bytes[ELF_HEADER_SIZE_MAX] = {0};
    size_t size = core->file_size < sizeof(bytes) ? (size_t)core->file_size : sizeof(bytes);

    if (!read_at(core, 0, bytes, size, error))
        return false;
    if (!elf_header_read((struct bytes){bytes, size}, &core->header) ||
        core->header.type != ET_CORE)
        return error_set(error,
                         "%s: not an ELF core file; give a core that Linux, gcore or qemu wrote",
                         core->memory.name);
    return true;
}

/* The number of program headers: if e_phnum is too small for it, it is in sh_info of the first
 * section header. */
static bool count_headers(struct core *core, struct error *error)
{
    struct elf_header *header = &core->header;
    size_t size = header->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    size_t field = header->wide ? offsetof(Elf64_Shdr, sh_info) : offsetof(Elf32_Shdr, sh_info);
    uint8_t number[sizeof(uint32_t)];

    if (header->segment_count != PN_XNUM)
        return true;
    if (header->sections_offset == 0 ||
        !range_within(header->sections_offset, size, 0, core->file_size))
        return damaged(core, "the number of its segments is missing", error);
    if (!read_at(core, header->sections_offset + field, number, sizeof(number), error))
        return false;
    header->segment_count = load_u32(number, header->big_endian);
    return true;
}

static int compare_segments(const void *a, const void *b)
{
    const struct segment *first = a, *second = b;

    return first->address < second->address ? -1 : first->address > second->address;
}

static void add_segment(struct core *core, const struct elf_segment *segment)
{
    uint64_t left = segment->offset < core->file_size ? core->file_size - segment->offset : 0;
    uint64_t size = segment->memory_size, dumped = segment->file_size;

    if (size == 0 || size - 1 > UINT64_MAX - segment->address)
        return;
    dumped = dumped < size ? dumped : size;
    core->memory.is_cut |= dumped > left;
    core->segments[core->segment_count++] =
        (struct segment){.address = segment->address,
                         .size = size,
                         .dumped = dumped < left ? dumped : left,
                         .offset = segment->offset,
                         .is_writable = (segment->flags & PF_W) != 0,
                         .is_left_out = dumped == 0};
}

/* Overlapping segments would be two memories in one. */
static bool check_segments(const struct core *core, struct error *error)
{
    for (size_t i = 1; i < core->segment_count; i++) {
        const struct segment *before = &core->segments[i - 1];

        if (core->segments[i].address - before->address < before->size)
            return damaged(core, "its segments overlap", error);
    }
    return true;
}

static bool read_segments(struct core *core, struct bytes table, struct error *error)
{
    uint64_t count = core->header.segment_count;

    core->segments = calloc((size_t)count + 1, sizeof(*core->segments));
    if (core->segments == NULL)
        return error_out_of_memory(error, core->memory.name, count * sizeof(*core->segments));
    for (uint64_t i = 0; i < count; i++) {
        struct elf_segment segment;

        if (!elf_segment_read(&core->header, table, i, &segment))
            return damaged(core, "its program headers cannot be read", error);
        if (segment.type == PT_LOAD)
            add_segment(core, &segment);
    }
    qsort(core->segments, core->segment_count, sizeof(*core->segments), compare_segments);
    return check_segments(core, error);
}

/* ---- notes ---- */

/* A profile that is mapped is there as a file, whose pages are hardly ever dumped. */
static bool is_profile(struct core *core, uint64_t address, const char *path)
{
    static const char ending[] = ".profraw";
    uint8_t magic[sizeof(uint64_t)];
    size_t length = strlen(path), wanted = strlen(ending);
    struct error error;

    return (length >= wanted && strcmp(path + length - wanted, ending) == 0) ||
           (memory_read_whole(&core->memory, address, magic, sizeof(magic), &error) &&
            profile_recognize((struct bytes){magic, sizeof(magic)}));
}

/* Linux leaves out private anonymous memory in which no page was ever written to, which a split
 * image has where its counters left the file. It also does so if the process asked for that, by
 * bit 0 of /proc/PID/coredump_filter or by MADV_DONTDUMP. Against the one speaks that other memory
 * of this kind was dumped; against the other, that what is right before it was: the data of the
 * module. */
static void find_untouched(struct core *core)
{
    bool has_anonymous = false;

    for (size_t i = 0; i < core->segment_count; i++) {
        const struct segment *segment = &core->segments[i];

        has_anonymous |= segment->is_writable && !segment->is_file && segment->dumped != 0;
    }
    for (size_t i = 1; i < core->segment_count && has_anonymous; i++) {
        struct segment *segment = &core->segments[i], *before = segment - 1;

        segment->is_zeros = segment->is_left_out && segment->is_writable && !segment->is_file &&
                            before->is_writable && !before->is_left_out &&
                            before->address + before->size == segment->address;
    }
}

/* Lists the files that were mapped from their beginning. */
static bool read_files(struct core *core, struct bytes description, struct error *error)
{
    struct nt_file list;
    struct nt_file_mapping mapping;

    nt_file_open(&list, description, &core->header);
    while (nt_file_next(&list, &mapping)) {
        struct address_range front = {.address = mapping.start, .size = mapping.size};
        size_t count = array_count_up_to(core->segments, core->segment_count,
                                         sizeof(*core->segments), mapping.start);

        if (count != 0)
            core->segments[count - 1].is_file = true;
        if (!mapping.is_front)
            continue;
        core->memory.maps_profile |= is_profile(core, mapping.start, mapping.path);
        if (!address_ranges_add(&core->fronts, &front))
            return error_out_of_memory(error, core->memory.name, sizeof(front));
        if (!memory_add_module(&core->memory, mapping.path, mapping.start, error))
            return false;
    }
    if (list.is_damaged)
        return damaged(core, "its list of mapped files cannot be read", error);
    address_ranges_sort(&core->fronts);
    core->has_files = true;
    find_untouched(core);
    return true;
}

/* The process's number in NT_PRPSINFO. Before it are 4 bytes, pr_flag, and two numbers of users,
 * which have 16 bits on some 32-bit machines. */
static void read_process(struct core *core, struct bytes description)
{
    size_t offset = core->header.wide ? 24 : description.size == 124 ? 12 : 16;
    struct bytes number;

    if (bytes_slice(description, offset, sizeof(uint32_t), &number))
        core->memory.process = load_u32(number.data, core->header.big_endian);
}

static bool read_note(struct core *core, uint32_t type, uint64_t offset, uint64_t size,
                      struct buffer *buffer, struct error *error)
{
    if (type != NT_FILE && type != NT_PRPSINFO)
        return true;
    if (!read_part(core, offset, size, "a note is incomplete", buffer, error))
        return false;
    if (type == NT_FILE && !core->has_files)
        return read_files(core, buffer_view(buffer), error);
    if (type == NT_PRPSINFO && core->memory.process == 0)
        read_process(core, buffer_view(buffer));
    return true;
}

/* gdb puts the notes behind the memory, so a core that is cut short has none: then modules are
 * found as if nothing listed them, and those whose memory is gone too are not found. */
static void lacks_notes(struct core *core)
{
    error_set(&core->memory.lack,
              "%s: cut short: it has %" PRIu64 " bytes, and its list of mapped files is not among "
              "them; modules may be missing, dump the core again",
              core->memory.name, core->file_size);
}

/* Goes through the notes one by one: with many threads they are large, and only two matter. */
static bool read_notes(struct core *core, const struct elf_segment *segment, struct buffer *buffer,
                       struct error *error)
{
    uint64_t offset = segment->offset, end;

    if (!range_within(segment->offset, segment->file_size, 0, core->file_size)) {
        lacks_notes(core);
        return true;
    }
    end = segment->offset + segment->file_size;
    while (end - offset >= NOTE_FRONT) {
        bool big_endian = core->header.big_endian;
        uint8_t front[NOTE_FRONT];
        uint64_t name_size, size, description;

        if (!read_at(core, offset, front, sizeof(front), error))
            return false;
        name_size = load_u32(front, big_endian);
        size = load_u32(front + 4, big_endian);
        description = offset + NOTE_HEADER + align_up(name_size, ELF_NOTE_ALIGNMENT);
        if (!range_within(description, size, offset, end - offset))
            return damaged(core, "a note is incomplete", error);
        if (name_size == sizeof(NOTE_OWNER) &&
            memcmp(front + NOTE_HEADER, NOTE_OWNER, sizeof(NOTE_OWNER)) == 0 &&
            !read_note(core, load_u32(front + 8, big_endian), description, size, buffer, error))
            return false;
        offset = description + align_up(size, ELF_NOTE_ALIGNMENT);
        if (offset > end)
            break;
    }
    return true;
}

static bool read_all_notes(struct core *core, struct bytes table, struct error *error)
{
    struct buffer buffer = {0};
    bool done = true;

    for (uint64_t i = 0; done && i < core->header.segment_count; i++) {
        struct elf_segment segment;

        done = elf_segment_read(&core->header, table, i, &segment)
                   ? segment.type != PT_NOTE || read_notes(core, &segment, &buffer, error)
                   : damaged(core, "its program headers cannot be read", error);
    }
    buffer_free(&buffer);
    return done;
}

/* ---- opening ---- */

/* Without a list of files, a segment that starts with an ELF header is one. */
static bool find_unnamed(struct core *core, struct error *error)
{
    for (size_t i = 0; i < core->segment_count; i++) {
        const struct segment *segment = &core->segments[i];
        uint8_t front[SELFMAG];

        if (segment->dumped < sizeof(front))
            continue;
        if (!read_at(core, segment->offset, front, sizeof(front), error))
            return false;
        if (memcmp(front, ELFMAG, SELFMAG) == 0 &&
            !memory_add_module(&core->memory, "", segment->address, error))
            return false;
    }
    return true;
}

/* Searches the memory that is in the core and may be written to. */
static bool find_stubs(struct core *core, struct error *error)
{
    struct address_ranges writable = {0};
    bool done = true;

    for (size_t i = 0; done && i < core->segment_count; i++) {
        const struct segment *segment = &core->segments[i];
        struct address_range range = {segment->address, segment->dumped, segment->offset};

        done = !segment->is_writable || address_ranges_add(&writable, &range) ||
               error_out_of_memory(error, core->memory.name, sizeof(range));
    }
    address_ranges_sort(&writable);
    done = done && stubs_find(&core->memory, &writable, &core->header, error);
    address_ranges_free(&writable);
    return done;
}

static bool read_tables(struct core *core, struct error *error)
{
    struct buffer table = {0};
    uint64_t size;
    bool done;

    if (!read_header(core, error) || !count_headers(core, error))
        return false;
    size = core->header.segment_count * core->header.segment_entry_size;
    done = read_part(core, core->header.segments_offset, size,
                     "its program headers are not in the file", &table, error) &&
           read_segments(core, buffer_view(&table), error) &&
           read_all_notes(core, buffer_view(&table), error) &&
           (core->has_files || (find_unnamed(core, error) && find_stubs(core, error)));
    buffer_free(&table);
    memory_sort_modules(&core->memory);
    return done;
}

static bool find_size(struct core *core, struct error *error)
{
    struct stat status;

    if (fstat(core->fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", core->memory.name);
    core->file_size = (uint64_t)status.st_size;
    return true;
}

struct memory *core_open(int fd, const char *path, struct error *error)
{
    struct core *core = calloc(1, sizeof(*core));

    if (core == NULL) {
        error_out_of_memory(error, path, sizeof(*core));
        close(fd);
        return NULL;
    }
    core->memory = (struct memory){.operations = &operations, .name = strdup(path)};
    core->fd = fd;
    if (core->memory.name == NULL)
        error_out_of_memory(error, path, strlen(path) + 1);
    else if (find_size(core, error) && read_tables(core, error))
        return &core->memory;
    close_core(&core->memory);
    return NULL;
}
