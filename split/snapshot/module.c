/*
 * Modules: see module.h.
 */
#include "split/snapshot/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elf_file/elf_file.h"

/* A linker puts the ELF header into the first page, and the largest pages have this size. */
#define FIRST_PAGE_MAX 65536
/* Notes in a loaded file: a build ID, the properties, the ABI. More is not read. */
#define NOTES_MAX 65536

/* ---- notes ---- */

/* Takes the first build ID in notes, as the profile runtime does. */
static bool find_build_id(struct bytes notes, bool big_endian, struct uuid *uuid)
{
    const struct elf_note_list list = {.bytes = notes, .big_endian = big_endian};
    struct elf_note note;
    size_t offset = 0;

    while (elf_note_next(&list, &offset, &note)) {
        if (note.type != NT_GNU_BUILD_ID || !elf_note_is_of(&note, ELF_NOTE_GNU) ||
            note.description.size == 0 || note.description.size > UUID_SIZE_MAX)
            continue;
        uuid->size = (size_t)note.description.size;
        memcpy(uuid->bytes, note.description.data, uuid->size);
        return true;
    }
    return false;
}

struct uuid elf_file_uuid(struct bytes file)
{
    struct uuid uuid = {.size = 0};
    struct elf_header header;
    struct bytes table, notes;

    if (!elf_header_read(file, &header) ||
        !bytes_slice(file, header.segments_offset, header.segment_count * header.segment_entry_size,
                     &table))
        return uuid;
    for (uint64_t i = 0; i < header.segment_count; i++) {
        struct elf_segment segment;

        if (elf_segment_read(&header, table, i, &segment) && segment.type == PT_NOTE &&
            bytes_slice(file, segment.offset, segment.file_size, &notes) &&
            find_build_id(notes, header.big_endian, &uuid))
            break;
    }
    return uuid;
}

/* ---- segments ---- */

uint64_t module_address(const struct module *module, uint64_t address)
{
    uint64_t mask = module->header.wide ? UINT64_MAX : UINT32_MAX;

    return (address + module->bias) & mask;
}

bool module_has_range(const struct module *module, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < module->load_count; i++) {
        const struct elf_segment *load = &module->loads[i];
        uint64_t left = load->memory_size - (address - load->address);

        if (!range_within(address, 1, load->address, load->memory_size))
            continue;
        if (size <= left)
            return true;
        /* A split may have put the end of the counters into the next segment (elf/zeros.c). */
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
        const struct elf_segment *load = &module->loads[i];

        if (load->offset >= FIRST_PAGE_MAX)
            continue;
        module->bias = module->listed->base + load->offset - load->address;
        return module->header.type != ET_EXEC || module->bias == 0;
    }
    return false;
}

/* Separates the segments to be loaded; the others follow them. */
static bool read_segments(struct module *module, struct bytes table, struct error *error)
{
    size_t count = (size_t)module->header.segment_count;

    module->loads = calloc(count + 1, sizeof(*module->loads));
    if (module->loads == NULL)
        return error_out_of_memory(error, module->name, count * sizeof(*module->loads));
    for (size_t i = 0; i < count; i++) {
        struct elf_segment segment;

        if (elf_segment_read(&module->header, table, i, &segment) && segment.type == PT_LOAD)
            module->loads[module->load_count++] = segment;
    }
    return true;
}

/* ---- from memory ---- */

/* Copies memory of the module into the buffer. */
static enum module_state fetch(struct memory *memory, const struct module *module, uint64_t address,
                               uint64_t size, struct buffer *buffer, struct error *error)
{
    buffer->size = 0;
    if (!buffer_reserve(buffer, (size_t)size)) {
        error_out_of_memory(error, module->name, size);
        return MODULE_FAILED;
    }
    if (memory_read_whole(memory, address, buffer->data, (size_t)size, error)) {
        buffer->size = (size_t)size;
        return MODULE_READ;
    }
    return error->message[0] == '\0' ? MODULE_HIDDEN : MODULE_FAILED;
}

static enum module_state read_header(struct memory *memory, struct module *module,
                                     struct error *error)
{
    uint8_t bytes[ELF_HEADER_SIZE_MAX];
    uint64_t missing;

    if (!memory_read(memory, module->listed->base, bytes, sizeof(bytes), &missing, error))
        return MODULE_FAILED;
    if (missing == sizeof(bytes))
        return MODULE_HIDDEN;
    if (!elf_header_read((struct bytes){bytes, sizeof(bytes)}, &module->header) ||
        (module->header.type != ET_DYN && module->header.type != ET_EXEC) ||
        module->header.segment_count == 0)
        return MODULE_IS_NONE;
    return missing == 0 ? MODULE_READ : MODULE_HIDDEN;
}

static enum module_state read_build_id(struct memory *memory, struct module *module,
                                       struct bytes table, struct buffer *buffer,
                                       struct error *error)
{
    enum module_state state = MODULE_READ;

    for (uint64_t i = 0; state == MODULE_READ && i < module->header.segment_count; i++) {
        struct elf_segment segment;

        if (!elf_segment_read(&module->header, table, i, &segment) || segment.type != PT_NOTE ||
            segment.memory_size == 0 || segment.memory_size > NOTES_MAX)
            continue;
        state = fetch(memory, module, module_address(module, segment.address), segment.memory_size,
                      buffer, error);
        if (state == MODULE_READ &&
            find_build_id(buffer_view(buffer), module->header.big_endian, &module->uuid))
            break;
    }
    return state;
}

static enum module_state read_tables(struct memory *memory, struct module *module,
                                     struct error *error)
{
    const struct elf_header *header = &module->header;
    struct buffer table = {0}, notes = {0};
    enum module_state state =
        fetch(memory, module, module->listed->base + header->segments_offset,
              header->segment_count * header->segment_entry_size, &table, error);

    if (state == MODULE_READ && !read_segments(module, buffer_view(&table), error))
        state = MODULE_FAILED;
    if (state == MODULE_READ && !find_bias(module))
        state = MODULE_IS_NONE;
    if (state == MODULE_READ)
        state = read_build_id(memory, module, buffer_view(&table), &notes, error);
    buffer_free(&table);
    buffer_free(&notes);
    return state;
}

/* A program can also map a file whole, to read it: its own executable for a backtrace, say. Then
 * none of the segments that would be writable is. (Of a loaded file, some become constant.) */
static bool is_loaded(struct memory *memory, const struct module *module)
{
    bool should_be = false;

    for (size_t i = 0; i < module->load_count; i++) {
        const struct elf_segment *load = &module->loads[i];

        if ((load->flags & PF_W) == 0 || load->memory_size == 0)
            continue;
        should_be = true;
        if (memory->operations->is_writable(
                memory, module_address(module, load->address + load->memory_size - 1)))
            return true;
    }
    return !should_be;
}

enum module_state module_read(struct memory *memory, const struct memory_module *listed,
                              struct module *module, struct error *error)
{
    enum module_state state;

    *module = (struct module){.listed = listed, .name = listed->path};
    if (listed->path[0] == '\0') {
        snprintf(module->name_text, sizeof(module->name_text), "the module at 0x%" PRIx64,
                 listed->base);
        module->name = module->name_text;
    }
    if (listed->is_stub)
        return MODULE_HIDDEN;
    state = read_header(memory, module, error);
    if (state == MODULE_READ)
        state = read_tables(memory, module, error);
    return state != MODULE_READ || is_loaded(memory, module) ? state : MODULE_IS_NONE;
}

void module_free(struct module *module)
{
    free(module->loads);
    module->loads = NULL;
    module->load_count = 0;
}

bool module_from_file(struct module *module, struct bytes file, struct error *error)
{
    struct bytes table;

    module_free(module);
    if (!elf_header_read(file, &module->header) ||
        !bytes_slice(file, module->header.segments_offset,
                     module->header.segment_count * module->header.segment_entry_size, &table))
        return error_set(error, "%s: not an ELF file that can be loaded", module->name);
    module->uuid = elf_file_uuid(file);
    return read_segments(module, table, error) &&
           (find_bias(module) ||
            error_set(error, "%s: was not loaded at the address that it was linked for",
                      module->name));
}

bool module_from_facts(struct module *module, const struct elf_header *header, uint64_t bias,
                       const struct elf_segment *load, struct error *error)
{
    module_free(module);
    module->header = *header;
    module->bias = bias;
    module->loads = malloc(sizeof(*load));
    if (module->loads == NULL)
        return error_out_of_memory(error, module->name, sizeof(*load));
    module->loads[0] = *load;
    module->load_count = 1;
    return true;
}
