/*
 * Modules in the memory of a target: by their ELF headers, by the stub records that splits leave,
 * and by other traces.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cursor.h"
#include "common/elf_file/elf_file.h"
#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

/* A linker puts the ELF header into the first page, and the largest pages have this size. */
#define FIRST_PAGE_MAX 65536
/* Notes in a loaded file: a build ID, the properties, the ABI. More is not read. */
#define NOTES_MAX 65536

/* ---- segments ---- */

uint64_t module_address(const struct module *module, uint64_t address)
{
    return (address + module->bias) & (module->wide ? UINT64_MAX : UINT32_MAX);
}

bool module_has_range(const struct module *module, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *load = &module->loads[i];
        uint64_t left = load->p_memsz - (address - load->p_vaddr);

        if (!range_within(address, 1, load->p_vaddr, load->p_memsz))
            continue;
        if (size <= left)
            return true;
        /* A split may have put the end of the counters into the next segment (elf/layout.c). */
        address += left;
        size -= left;
    }
    return false;
}

/* Finds the load bias by the segment that the ELF header is in. A file with fixed addresses that is
 * anywhere else was not loaded but mapped to be read. */
static bool find_bias(struct module *module)
{
    for (size_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *load = &module->loads[i];

        if (load->p_offset >= FIRST_PAGE_MAX)
            continue;
        module->bias = module->listed->base + load->p_offset - load->p_vaddr;
        return !module->is_fixed || module->bias == 0;
    }
    return false;
}

/* ---- by their headers ---- */

/* Reads the segments and the first build ID. (A core has the first page of a file alone: patchelf
 * moves notes out of it.) */
static enum module_state read_segments(struct target *memory, struct module *module,
                                       const struct elf_file *elf)
{
    struct buffer notes = {0};

    module->loads = command_array((size_t)elf->segment_count, sizeof(*module->loads));
    for (uint64_t i = 0; i < elf->segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(elf, i);

        if (phdr.p_type == PT_LOAD)
            module->loads[module->load_count++] = phdr;
    }
    if (!find_bias(module))
        return MODULE_IS_NONE;
    for (uint64_t i = 0; module->uuid.size == 0 && i < elf->segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(elf, i);
        struct elf_note_list list = {.big_endian = elf->big_endian};

        if (phdr.p_type != PT_NOTE || phdr.p_memsz == 0 || phdr.p_memsz > NOTES_MAX)
            continue;
        if (!memory_copy(memory, module_address(module, phdr.p_vaddr), phdr.p_memsz, &notes)) {
            module->has_hidden_notes = true;
            continue;
        }
        list.bytes = buffer_view(&notes);
        elf_note_build_id(&list, &module->uuid);
    }
    buffer_free(&notes);
    return MODULE_READ;
}

/* A program can also map a file whole, to read it: its own executable for a backtrace, say. Then
 * none of the segments that would be writable is. (Of a loaded file, some become constant.) */
static bool is_loaded(struct target *memory, const struct module *module)
{
    bool should_be = false;

    for (size_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *load = &module->loads[i];

        if ((load->p_flags & PF_W) == 0 || load->p_memsz == 0)
            continue;
        should_be = true;
        if (memory->operations->is_writable(
                memory, module_address(module, load->p_vaddr + load->p_memsz - 1)))
            return true;
    }
    return !should_be;
}

enum module_state module_read(struct target *memory, const struct memory_module *listed,
                              struct module *module)
{
    enum module_state state = MODULE_HIDDEN;
    uint8_t front[sizeof(Elf64_Ehdr)];
    struct buffer table = {0};
    struct elf_file elf;

    *module = (struct module){.listed = listed, .name = listed->path};
    if (listed->path[0] == '\0') {
        snprintf(module->name_text, sizeof(module->name_text), "the module at 0x%" PRIx64,
                 listed->base);
        module->name = module->name_text;
    }
    if (listed->is_stub)
        return MODULE_HIDDEN;
    if (!memory_read(memory, listed->base, front, sizeof(front)))
        return MODULE_HIDDEN;
    if (!elf_file_open(&elf, (struct bytes){front, sizeof(front)}) ||
        (elf.header.e_type != ET_DYN && elf.header.e_type != ET_EXEC) || elf.header.e_phnum == 0 ||
        elf.header.e_phentsize != ELF_SIZE(elf.wide, Phdr))
        return MODULE_IS_NONE;
    module->wide = elf.wide;
    module->big_endian = elf.big_endian;
    module->machine = elf.header.e_machine;
    module->is_fixed = elf.header.e_type == ET_EXEC;
    if (memory_copy(memory, listed->base + elf.header.e_phoff,
                    elf.header.e_phnum * ELF_SIZE(elf.wide, Phdr), &table)) {
        elf.segments = buffer_view(&table);
        elf.segment_count = elf.header.e_phnum;
        state = read_segments(memory, module, &elf);
    }
    buffer_free(&table);
    return state != MODULE_READ || is_loaded(memory, module) ? state : MODULE_IS_NONE;
}

void module_free(struct module *module)
{
    free(module->loads);
    module->loads = NULL;
    module->load_count = 0;
}

/* ---- by stub records ---- */

/*
 * qemu writes no list of files into a core, and leaves out segments of code, where GNU ld puts the
 * header. The data of a split image is there though, and its stub record has the beginning of the
 * UUID: with the sidecar, that says everything.
 *
 * A stub is recognized by its form: there is nothing in it but the UUID, and counters, and perhaps
 * a bitmap, that lie in memory that may be written to. The records of an image that was not split
 * can have this form too; where several follow each other, they are that.
 */

#define PIECE_SIZE ((size_t)256 << 10)
#define ALIGNMENT  8

/* The first field of a record: of one that is no stub, the beginning of the MD5 of a name. */
#define NAME_REF_SIZE 8

/* No process has as many libraries. */
#define MODULES_MAX 4096

/* A version for each layout of records there is. */
static const unsigned versions[] = {7, 8, 9, 10, 11};
#define VERSION_COUNT (sizeof(versions) / sizeof(*versions))

struct search {
    struct target *memory;
    const struct address_ranges *writable;
    struct address_ranges known; /* of the modules listed so far */
    bool big_endian;
    size_t pointer_size;
    struct profile_record_layout layouts[VERSION_COUNT];
    uint64_t end; /* of the last record found */
    size_t last;  /* the module that was added for it */
    bool has_last;
    int count; /* of modules that were added */
    /* Of a single module: what it may have as its stub, in place of modules that are added. */
    struct module_stubs *stubs;
};

static bool is_writable(const struct search *search, uint64_t address, uint64_t size)
{
    uint64_t offset, run;

    /* Counters may be in segments that follow each other, as a split leaves them. */
    while (address_ranges_find(search->writable, address, &offset, &run)) {
        if (run >= size)
            return true;
        address += run;
        size -= run;
    }
    return false;
}

/* The address that a distance or address in the record leads to. */
static uint64_t pointer_at(const struct search *search, const struct profile_record_layout *layout,
                           const uint8_t *record, size_t offset, uint64_t address)
{
    uint64_t value =
        load_number(record + offset, (unsigned)search->pointer_size, search->big_endian);

    if (layout->relative)
        value += address;
    return search->pointer_size == 4 ? value & UINT32_MAX : value;
}

/* True if a stub record of this layout is at the address. */
static bool is_stub(const struct search *search, const struct profile_record_layout *layout,
                    const uint8_t *record, uint64_t address)
{
    uint64_t counters = pointer_at(search, layout, record, layout->counter_ptr, address);
    uint32_t count = load_u32(record + layout->num_counters, search->big_endian), bitmap_size = 0;

    if (layout->bitmap_ptr != 0)
        bitmap_size = load_u32(record + layout->num_bitmap_bytes, search->big_endian);
    return count != 0 && profile_record_is_bare(layout, record, search->big_endian) &&
           counters != address && is_writable(search, counters, count) &&
           (bitmap_size == 0 ||
            is_writable(search, pointer_at(search, layout, record, layout->bitmap_ptr, address),
                        bitmap_size));
}

/* The size of the record at the address, if it may be a stub; otherwise 0. */
static size_t measure(const struct search *search, const uint8_t *bytes, size_t size,
                      uint64_t address)
{
    uint64_t first;

    memcpy(&first, bytes, sizeof(first));
    for (size_t i = 0; first != 0 && i < VERSION_COUNT; i++) {
        const struct profile_record_layout *layout = &search->layouts[i];

        if (layout->record_size <= size && is_stub(search, layout, bytes, address))
            return layout->record_size;
    }
    return 0;
}

/* True if the bytes are not those of a digest, as far as one can tell. There is hardly ever a 0 in
 * a digest, nor an address. (Eight bytes are too few to tell: they may be a stack protector's.) */
static bool is_doubtful(const struct search *search, const uint8_t *bytes, size_t size)
{
    unsigned zeros = 0;

    for (size_t i = 0; i < size; i++)
        zeros += bytes[i] == 0;
    for (size_t i = 0; i < size; i += search->pointer_size) {
        if (is_writable(search,
                        load_number(bytes + i, (unsigned)search->pointer_size, search->big_endian),
                        1))
            return true;
    }
    return zeros > size / 8;
}

static bool add_stub(struct search *search, const uint8_t *bytes, uint64_t address, size_t size,
                     struct error *error)
{
    struct target *memory = search->memory;
    struct memory_module *module;

    if (search->stubs != NULL) {
        if (search->stubs->count < MODULE_STUBS_MAX &&
            !is_doubtful(search, bytes, PROFILE_STUB_ID_SIZE))
            memcpy(search->stubs->ids[search->stubs->count++], bytes, PROFILE_STUB_ID_SIZE);
        return true;
    }
    if (search->has_last && search->end == address) {
        module = &memory->modules[search->last];
        module->uuid.size = 0;
        module->is_doubtful = is_doubtful(search, bytes, NAME_REF_SIZE);
    } else {
        if (search->count++ == MODULES_MAX)
            return error_set(error,
                             "%s: has more than %d modules without headers; it is damaged, or its "
                             "program was not split",
                             memory->name, MODULES_MAX);
        search->last = memory->module_count;
        search->has_last = true;
        module = memory_add_module(memory, "", address);
        module->is_stub = true;
        module->is_doubtful = is_doubtful(search, bytes, PROFILE_STUB_ID_SIZE);
        module->uuid.size = PROFILE_STUB_ID_SIZE;
        memcpy(module->uuid.bytes, bytes, PROFILE_STUB_ID_SIZE);
    }
    search->end = address + size;
    return true;
}

/* Searches a range piece by piece, which overlap by a record. */
static bool search_range(struct search *search, uint64_t address, uint64_t size, uint8_t *buffer,
                         struct error *error)
{
    uint64_t end = address + size;

    address = align_up(address, ALIGNMENT);
    while (address < end) {
        uint64_t offset, run, left = end - address;
        size_t piece = (size_t)(left < PIECE_SIZE ? left : PIECE_SIZE), got;

        if (address_ranges_find(&search->known, address, &offset, &run)) {
            address += run;
            continue;
        }
        piece = run < piece ? (size_t)run : piece;
        got = search->memory->operations->read(search->memory, address, buffer, piece);
        if (got == 0)
            return true;
        for (size_t i = 0; i + ALIGNMENT <= got;) {
            size_t record = measure(search, buffer + i, got - i, address + i);

            if (record != 0 && !add_stub(search, buffer + i, address + i, record, error))
                return false;
            i += record != 0 ? align_up(record, ALIGNMENT) : ALIGNMENT;
        }
        address +=
            got > PROFILE_RECORD_SIZE_MAX && got < left ? got - PROFILE_RECORD_SIZE_MAX : got;
        if (search->has_last && search->end > address)
            address = search->end;
        address = align_up(address, ALIGNMENT);
    }
    return true;
}

/* Searches all ranges that may be written to. */
static bool search_writable(struct search *search, struct error *error)
{
    const struct address_ranges *writable = search->writable;
    uint8_t *buffer = command_array(1, PIECE_SIZE);
    bool done = true;

    for (size_t i = 0; i < VERSION_COUNT; i++)
        profile_record_layout(versions[i], search->pointer_size, &search->layouts[i]);
    for (size_t i = 0; done && i < writable->count; i++)
        done = search_range(search, writable->items[i].address, writable->items[i].size, buffer,
                            error);
    free(buffer);
    return done;
}

bool stubs_find(struct target *memory, const struct address_ranges *writable, bool wide,
                bool big_endian, struct error *error)
{
    struct search search = {.memory = memory,
                            .writable = writable,
                            .big_endian = big_endian,
                            .pointer_size = wide ? 8 : 4};
    bool done;

    for (size_t i = 0; i < memory->module_count; i++) {
        struct module module;
        enum module_state state = module_read(memory, &memory->modules[i], &module);

        for (size_t j = 0; state == MODULE_READ && j < module.load_count; j++)
            address_ranges_add(&search.known, module_address(&module, module.loads[j].p_vaddr),
                               module.loads[j].p_memsz, 0);
        module_free(&module);
    }
    address_ranges_sort(&search.known);
    done = search_writable(&search, error);
    free(search.known.items);
    return done;
}

struct module_stubs module_find_stubs(struct target *memory, const struct module *module)
{
    struct module_stubs stubs = {.count = 0};
    struct address_ranges writable = {0};
    struct search search = {.memory = memory,
                            .writable = &writable,
                            .big_endian = module->big_endian,
                            .pointer_size = module->wide ? 8 : 4,
                            .stubs = &stubs};
    struct error none;

    for (size_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *load = &module->loads[i];

        if ((load->p_flags & PF_W) != 0 && load->p_memsz != 0)
            address_ranges_add(&writable, module_address(module, load->p_vaddr), load->p_memsz, 0);
    }
    address_ranges_sort(&writable);
    search_writable(&search, &none);
    free(writable.items);
    return stubs;
}

/* ---- by other traces ---- */

/* The runtime's messages start like this, in all versions. */
#define RUNTIME_TEXT "LLVM Profile Error: "

/* The size of anything that may begin in one piece and end in the next. */
#define OVERLAP TRIPWIRE_SIZE_MAX

static const uint8_t *find(struct bytes where, const char *text)
{
    return memmem(where.data, (size_t)where.size, text, strlen(text));
}

static void look_for_tripwire(struct bytes piece, struct traces *traces)
{
    const uint8_t *text;
    struct bytes tripwire;
    bool is_prefix;

    while ((text = find(piece, TRIPWIRE_TEXT)) != NULL) {
        uint64_t offset = (uint64_t)(text - piece.data);
        struct bytes from = {text - TRIPWIRE_TEXT_OFFSET,
                             piece.size - offset + TRIPWIRE_TEXT_OFFSET};

        if (offset >= TRIPWIRE_TEXT_OFFSET && tripwire_find(from, &tripwire)) {
            traces->is_split = true;
            if (!tripwire_read_uuid(tripwire, &traces->uuid, &is_prefix) || is_prefix)
                traces->uuid.size = 0;
            return;
        }
        piece = (struct bytes){text + 1, piece.size - offset - 1};
    }
}

/* Searches a segment for a tripwire, for messages of the runtime, and where the program can write
 * for the UUID in the stub record. (The build ID itself is where it cannot.) */
static void search_segment(struct target *memory, const struct module *module,
                           const Elf64_Phdr *load, uint8_t *buffer, struct traces *traces)
{
    uint8_t stub[UUID_STUB_SIZE];
    size_t kept = 0;

    uuid_stub(&module->uuid, stub);
    for (uint64_t done = 0; done < load->p_memsz && !traces->is_split;) {
        uint64_t left = load->p_memsz - done;
        size_t size = (size_t)(left < PIECE_SIZE ? left : PIECE_SIZE);
        size_t got = memory->operations->read(memory, module_address(module, load->p_vaddr + done),
                                              buffer + kept, size);
        struct bytes piece = {buffer, kept + got};

        if (got == 0) {
            traces->is_whole = false;
            break;
        }
        done += got;
        look_for_tripwire(piece, traces);
        if ((load->p_flags & PF_W) != 0 && module->uuid.size != 0 &&
            memmem(buffer, kept + got, stub, sizeof(stub)) != NULL)
            traces->is_split = true;
        traces->has_runtime |= find(piece, RUNTIME_TEXT) != NULL;
        kept = piece.size < OVERLAP ? (size_t)piece.size : OVERLAP;
        memmove(buffer, buffer + piece.size - kept, kept);
    }
}

struct traces traces_find(struct target *memory, const struct module *module)
{
    uint8_t *buffer = command_array(1, PIECE_SIZE + OVERLAP);
    struct traces traces = {.is_whole = true};

    for (size_t i = 0; i < module->load_count; i++)
        search_segment(memory, module, &module->loads[i], buffer, &traces);
    free(buffer);
    return traces;
}
