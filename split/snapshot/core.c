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
 * asked for. That also makes a core harmless that is truncated meanwhile. What can only be read
 * from front to back, compressed or from a pipe, is copied first (spool.c), as far as it is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/stream.h"
#include "common/elf_file/elf_file.h"
#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

#define NOTE_OWNER "CORE"
/* The least that a note has: the header, and "CORE" with its NUL and padding. */
#define NOTE_SIZE_MIN 20
/* Of each thread, the notes have some thousands of bytes. */
#define NOTES_SIZE_MAX (UINT64_C(1) << 30)

struct core_segment {
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
    struct target memory;
    int fd;
    uint64_t file_size;
    struct elf_file elf;           /* header and program headers */
    struct core_segment *segments; /* in ascending order of their addresses */
    size_t segment_count;
    bool has_files;               /* there is an NT_FILE note */
    struct address_ranges fronts; /* where it says that files are mapped from their beginning */
};

/* ---- the file ---- */

/* Reads bytes that are inside the file. */
static bool read_at(const struct core *core, uint64_t offset, void *to, size_t size,
                    struct error *error)
{
    return file_read_at(core->fd, core->memory.name, offset, to, size, error);
}

static bool damaged_core(const struct core *core, const char *what, struct error *error)
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
        return damaged_core(core, what, error);
    exit_unless_allocated(buffer_reserve(buffer, (size_t)size), size);
    buffer->size = (size_t)size;
    return read_at(core, offset, buffer->data, (size_t)size, error);
}

/* ---- operations ---- */

/* The segment that the address is in; NULL if there is none. */
static const struct core_segment *segment_of(const struct core *core, uint64_t address)
{
    size_t next =
        array_count_up_to(core->segments, core->segment_count, sizeof(*core->segments), address);
    const struct core_segment *last = next == 0 ? NULL : &core->segments[next - 1];

    return last == NULL || address - last->address >= last->size ? NULL : last;
}

static size_t read_memory(struct target *memory, uint64_t address, void *to, size_t size)
{
    struct core *core = (struct core *)memory;
    const struct core_segment *segment = segment_of(core, address);
    uint64_t skipped = segment == NULL ? 0 : address - segment->address, there = 0;

    if (segment != NULL)
        there = segment->is_zeros ? segment->size : segment->dumped;
    if (skipped >= there)
        return 0;
    if (size > there - skipped)
        size = (size_t)(there - skipped);
    if (segment->is_zeros)
        memset(to, 0, size);
    else if (!read_at(core, segment->offset + skipped, to, size, &memory->failure))
        return 0;
    return size;
}

/* gdb leaves out segments of which nothing is dumped. Nothing is known of these, except that the
 * front of a file is hardly ever what counters are in. */
static bool is_writable(struct target *memory, uint64_t address)
{
    const struct core *core = (struct core *)memory;
    const struct core_segment *segment = segment_of(core, address);
    uint64_t offset, size;

    return segment != NULL ? segment->is_writable
                           : !address_ranges_find(&core->fronts, address, &offset, &size);
}

static bool begins_at(struct target *memory, uint64_t address)
{
    const struct core_segment *segment = segment_of((struct core *)memory, address);

    return segment != NULL && segment->address == address;
}

/* A core only has paths, and never knows that a file is the very one. */
static bool open_file(struct target *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error)
{
    struct stat status;

    *is_same = false;
    if (module->path[0] == '\0')
        return error_set(error, "%s: does not say which file was loaded at 0x%" PRIx64,
                         memory->name, module->base);
    /* To open a device can have effects. */
    if (stat(module->path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, "%s: not a regular file", module->path);
    return input_open(file, module->path, error);
}

static void close_core(struct target *memory)
{
    struct core *core = (struct core *)memory;

    close(core->fd);
    free(core->segments);
    free(core->fronts.items);
}

static const struct memory_operations operations = {
    .absent_because = "the core is truncated, or they were not dumped; raise 'ulimit -c', or set "
                      "bits 0 to 4 of /proc/PID/coredump_filter",
    .read = read_memory,
    .is_writable = is_writable,
    .begins_at = begins_at,
    .open_file = open_file,
    .close = close_core,
};

/* ---- segments ---- */

/* Reads the ELF header and finds the number of program headers: if e_phnum is too small for it, it
 * is in sh_info of the first section header. */
static bool read_header(struct core *core, struct error *error)
{
    uint8_t bytes[sizeof(Elf64_Shdr)] = {0};
    size_t size =
        core->file_size < sizeof(Elf64_Ehdr) ? (size_t)core->file_size : sizeof(Elf64_Ehdr);
    const Elf64_Ehdr *header = &core->elf.header;
    Elf64_Shdr first;

    if (!read_at(core, 0, bytes, size, error))
        return false;
    if (!elf_file_open(&core->elf, (struct bytes){bytes, size}) || header->e_type != ET_CORE ||
        (header->e_phnum != 0 && header->e_phentsize != ELF_SIZE(core->elf.wide, Phdr)))
        return error_set(error,
                         "%s: not an ELF core file; give a core that Linux, gcore or qemu wrote",
                         core->memory.name);
    core->memory.machine = header->e_machine;
    core->elf.bytes = (struct bytes){0};
    core->elf.segment_count = header->e_phnum;
    if (header->e_phnum != PN_XNUM)
        return true;
    size = ELF_SIZE(core->elf.wide, Shdr);
    if (header->e_shoff == 0 || !range_within(header->e_shoff, size, 0, core->file_size))
        return damaged_core(core, "the number of its segments is missing", error);
    if (!read_at(core, header->e_shoff, bytes, size, error))
        return false;
    elf_load(&elf_shdr, elf_file_form(&core->elf), (struct bytes){bytes, size}, 0, &first);
    core->elf.segment_count = first.sh_info;
    return true;
}

static int compare_segments(const void *a, const void *b)
{
    const struct core_segment *first = a, *second = b;

    return first->address < second->address ? -1 : first->address > second->address;
}

static void add_segment(struct core *core, const Elf64_Phdr *phdr)
{
    uint64_t left = phdr->p_offset < core->file_size ? core->file_size - phdr->p_offset : 0;
    uint64_t size = phdr->p_memsz, dumped = phdr->p_filesz;

    if (size == 0 || size - 1 > UINT64_MAX - phdr->p_vaddr)
        return;
    dumped = dumped < size ? dumped : size;
    core->memory.is_cut |= dumped > left;
    core->segments[core->segment_count++] =
        (struct core_segment){.address = phdr->p_vaddr,
                              .size = size,
                              .dumped = dumped < left ? dumped : left,
                              .offset = phdr->p_offset,
                              .is_writable = (phdr->p_flags & PF_W) != 0,
                              .is_left_out = dumped == 0};
}

static bool read_segments(struct core *core, struct error *error)
{
    core->segments = command_array((size_t)core->elf.segment_count, sizeof(*core->segments));
    for (uint64_t i = 0; i < core->elf.segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(&core->elf, i);

        if (phdr.p_type == PT_LOAD)
            add_segment(core, &phdr);
    }
    qsort(core->segments, core->segment_count, sizeof(*core->segments), compare_segments);
    /* Overlapping segments would be two memories in one. */
    for (size_t i = 1; i < core->segment_count; i++) {
        const struct core_segment *before = &core->segments[i - 1];

        if (core->segments[i].address - before->address < before->size)
            return damaged_core(core, "its segments overlap", error);
    }
    return true;
}

/* ---- notes ---- */

void nt_file_open(struct nt_file *list, struct bytes description, bool wide, bool big_endian)
{
    struct cursor at = cursor_open(description, big_endian, wide);
    uint64_t entry_size = 3 * (wide ? sizeof(uint64_t) : sizeof(uint32_t));

    *list = (struct nt_file){.left = cursor_word(&at)};
    cursor_word(&at); /* the unit */
    if (list->left > description.size / entry_size)
        cursor_spoil(&at);
    list->entries = cursor_open(cursor_bytes(&at, list->left * entry_size), big_endian, wide);
    list->paths = at;
    list->is_damaged = at.bad;
}

bool nt_file_next(struct nt_file *list, struct nt_file_mapping *mapping)
{
    struct cursor *paths = &list->paths;
    uint64_t end;
    const uint8_t *nul;

    if (list->is_damaged || list->left == 0)
        return false;
    list->left--;
    nul = cursor_left(paths) == 0 ? NULL : memchr(paths->at, '\0', (size_t)cursor_left(paths));
    list->is_damaged = nul == NULL;
    if (list->is_damaged)
        return false;
    mapping->path = (const char *)paths->at;
    paths->at = nul + 1;
    mapping->start = cursor_word(&list->entries);
    end = cursor_word(&list->entries);
    mapping->size = end > mapping->start ? end - mapping->start : 0;
    mapping->is_front = cursor_word(&list->entries) == 0;
    return true;
}

/* A profile that is mapped is there as a file, whose pages are hardly ever dumped. */
static bool is_profile(struct core *core, uint64_t address, const char *path)
{
    static const char ending[] = ".profraw";
    size_t length = strlen(path), wanted = strlen(ending);

    return (length >= wanted && strcmp(path + length - wanted, ending) == 0) ||
           memory_has_profile(&core->memory, address);
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
        const struct core_segment *segment = &core->segments[i];

        has_anonymous |= segment->is_writable && !segment->is_file && segment->dumped != 0;
    }
    for (size_t i = 1; i < core->segment_count && has_anonymous; i++) {
        struct core_segment *segment = &core->segments[i], *before = segment - 1;

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

    nt_file_open(&list, description, core->elf.wide, core->elf.big_endian);
    while (nt_file_next(&list, &mapping)) {
        size_t count = array_count_up_to(core->segments, core->segment_count,
                                         sizeof(*core->segments), mapping.start);

        if (count != 0)
            core->segments[count - 1].is_file = true;
        if (!mapping.is_front)
            continue;
        core->memory.maps_profile |= is_profile(core, mapping.start, mapping.path);
        address_ranges_add(&core->fronts, mapping.start, mapping.size, 0);
        memory_add_module(&core->memory, mapping.path, mapping.start);
    }
    if (list.is_damaged)
        return damaged_core(core, "its list of mapped files cannot be read", error);
    address_ranges_sort(&core->fronts);
    core->has_files = true;
    find_untouched(core);
    return true;
}

static bool read_notes(struct core *core, const Elf64_Phdr *phdr, struct buffer *buffer,
                       struct error *error)
{
    struct elf_note_list list = {.big_endian = core->elf.big_endian};
    struct elf_note note;
    size_t offset = 0;

    /* gdb puts the notes behind the memory, so a core that is cut short has none: then modules are
     * found as if nothing listed them, and those whose memory is gone too are not found. */
    if (!range_within(phdr->p_offset, phdr->p_filesz, 0, core->file_size)) {
        error_set(&core->memory.incomplete_because,
                  "%s: cut short: it has %" PRIu64
                  " bytes, and its list of mapped files is not among them; modules may be "
                  "missing, dump the core again",
                  core->memory.name, core->file_size);
        return true;
    }
    if (phdr->p_filesz > NOTES_SIZE_MAX)
        return damaged_core(core, "its notes are larger than any can be", error);
    if (!read_part(core, phdr->p_offset, phdr->p_filesz, "a note is incomplete", buffer, error))
        return false;
    list.bytes = buffer_view(buffer);
    while (elf_note_next(&list, &offset, &note)) {
        /* Before the process's number are 4 bytes, pr_flag, and two numbers of users, which have 16
         * bits on some 32-bit machines. */
        uint64_t at = core->elf.wide ? 24 : note.description.size == 124 ? 12 : 16;
        struct bytes number;

        if (!elf_note_is_of(&note, NOTE_OWNER))
            continue;
        if (note.type == NT_FILE && !core->has_files && !read_files(core, note.description, error))
            return false;
        if (note.type == NT_PRPSINFO && core->memory.process == 0 &&
            bytes_slice(note.description, at, sizeof(uint32_t), &number))
            core->memory.process = load_u32(number.data, core->elf.big_endian);
    }
    return list.bytes.size - offset < NOTE_SIZE_MIN ||
           damaged_core(core, "a note is incomplete", error);
}

/* ---- without a list of files ---- */

/* A segment that starts with an ELF header is a module, and so is a stub record in the memory that
 * is in the core and may be written to. */
static bool find_unnamed(struct core *core, struct error *error)
{
    struct address_ranges writable = {0};
    bool done = true;

    for (size_t i = 0; done && i < core->segment_count; i++) {
        const struct core_segment *segment = &core->segments[i];
        uint8_t front[SELFMAG] = {0};

        if (segment->is_writable)
            address_ranges_add(&writable, segment->address, segment->dumped, segment->offset);
        if (segment->dumped >= sizeof(front))
            done = read_at(core, segment->offset, front, sizeof(front), error);
        if (done && memcmp(front, ELFMAG, SELFMAG) == 0)
            memory_add_module(&core->memory, "", segment->address);
    }
    address_ranges_sort(&writable);
    done =
        done && stubs_find(&core->memory, &writable, core->elf.wide, core->elf.big_endian, error);
    free(writable.items);
    if (!done || core->memory.failure.message[0] == '\0')
        return done;
    *error = core->memory.failure;
    return false;
}

/* ---- opening ---- */

static bool read_tables(struct core *core, struct error *error)
{
    struct buffer table = {0}, note = {0};
    uint64_t size;
    bool done;

    if (!read_header(core, error))
        return false;
    size = core->elf.segment_count * ELF_SIZE(core->elf.wide, Phdr);
    done = read_part(core, core->elf.header.e_phoff, size,
                     "its program headers are not in the file", &table, error);
    core->elf.segments = buffer_view(&table);
    done = done && read_segments(core, error);
    for (uint64_t i = 0; done && i < core->elf.segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(&core->elf, i);

        done = phdr.p_type != PT_NOTE || read_notes(core, &phdr, &note, error);
    }
    core->memory.is_unlisted = !core->has_files;
    done = done && (core->has_files || find_unnamed(core, error));
    core->elf.segments = (struct bytes){0};
    buffer_free(&table);
    buffer_free(&note);
    memory_sort_modules(&core->memory);
    return done;
}

/* Replaces a descriptor that can only be read from front to back by that of a copy, and finds the
 * size. */
static bool prepare(struct core *core, struct error *error)
{
    int fd = spool_open(core->fd, core->memory.name, error);
    struct stat status;

    if (fd < 0)
        return false;
    if (fd != core->fd)
        close(core->fd);
    core->fd = fd;
    if (fstat(core->fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", core->memory.name);
    core->file_size = (uint64_t)status.st_size;
    return true;
}

struct target *core_open(const char *path, struct error *error)
{
    int fd = stream_is_standard_input(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                            : file_open_as_it_is(path, O_RDONLY | O_CLOEXEC);
    struct core *core;

    if (fd < 0) {
        error_set_errno(error, errno, "%s: cannot be opened", stream_name(path));
        return NULL;
    }
    core = command_array(1, sizeof(*core));
    core->memory =
        (struct target){.operations = &operations, .name = command_copy(stream_name(path))};
    core->fd = fd;
    if (prepare(core, error) && read_tables(core, error))
        return &core->memory;
    memory_close(&core->memory);
    return NULL;
}
