/*
 * Reading and checking the load commands of a Mach-O image: see macho/read.h.
 */
#include "formats/macho/read.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/macho/commands.h"

/* No real image has more: linkers make a few dozen, and all of them are copied. */
#define COMMANDS_MAX 65536

static bool refuse(const struct macho_image *image, struct error *error, const char *what)
{
    return error_set(error, "%s: damaged Mach-O image: %s; link it again", image->path, what);
}

/* ---- header ---- */

static bool check_header(struct macho_image *image, struct error *error)
{
    const uint8_t *header = image->file.data;
    uint32_t magic, cputype;

    if (image->file.size < HEADER_SIZE)
        return refuse(image, error, "the file is cut short");
    magic = load_u32(header, false);
    cputype = load_u32(header + HEADER_CPUTYPE, false);
    image->filetype = load_u32(header + HEADER_FILETYPE, false);
    image->flags = load_u32(header + HEADER_FLAGS, false);
    if (magic != MH_MAGIC_64 || (cputype != CPU_TYPE_X86_64 && cputype != CPU_TYPE_ARM64))
        return error_set(error,
                         "%s: a Mach-O image for a machine other than x86-64 and arm64 (magic %#x, "
                         "cputype %#x); this version of covsplit cannot split it",
                         image->path, magic, cputype);
    if (image->filetype != MH_EXECUTE && image->filetype != MH_DYLIB &&
        image->filetype != MH_BUNDLE)
        return error_set(error,
                         "%s: a Mach-O file of type %u, not a linked image; name an executable, a "
                         "dynamic library or a bundle",
                         image->path, image->filetype);
    image->machine = cputype == CPU_TYPE_ARM64 ? EM_AARCH64 : EM_X86_64;
    image->page_size = cputype == CPU_TYPE_ARM64 ? 16384 : 4096;
    return true;
}

/* ---- load commands ---- */

static uint64_t field_64(const struct macho_image *image, uint64_t offset)
{
    return load_u64(image->file.data + offset, false);
}

static uint32_t field_32(const struct macho_image *image, uint64_t offset)
{
    return load_u32(image->file.data + offset, false);
}

/* Finds the commands, and counts segments and sections. */
static bool read_commands(struct macho_image *image, struct error *error)
{
    uint32_t count = field_32(image, HEADER_NCMDS);
    uint64_t offset = HEADER_SIZE;

    image->commands_end = HEADER_SIZE + (uint64_t)field_32(image, HEADER_SIZEOFCMDS);
    if (image->commands_end > image->file.size || count > COMMANDS_MAX ||
        count > (image->commands_end - HEADER_SIZE) / COMMAND_SIZE)
        return refuse(image, error, "its load commands are not inside the file");
    image->commands = calloc(count + 1u, sizeof(*image->commands));
    if (image->commands == NULL)
        return error_out_of_memory(error, image->path, count * sizeof(*image->commands));
    for (; image->command_count < count; image->command_count++) {
        struct macho_command *command = &image->commands[image->command_count];
        const struct known_command *known;

        if (image->commands_end - offset < COMMAND_SIZE)
            return refuse(image, error, "a load command is cut short");
        *command = (struct macho_command){field_32(image, offset + COMMAND_CMD),
                                          field_32(image, offset + COMMAND_CMDSIZE), offset};
        known = macho_known_command(command->cmd);
        if (command->cmdsize > image->commands_end - offset || command->cmdsize % 8 != 0 ||
            command->cmdsize < (known == NULL ? COMMAND_SIZE : known->size_min))
            return refuse(image, error, "a load command has a wrong size");
        if (command->cmd == LC_SEGMENT_64) {
            image->segment_count++;
            image->section_count += field_32(image, offset + SEGMENT_NSECTS);
        }
        offset += command->cmdsize;
    }
    if (offset != image->commands_end)
        return refuse(image, error, "its load commands do not fill their place");
    return true;
}

static void read_name(const struct macho_image *image, uint64_t offset,
                      char name[MACHO_NAME_SIZE + 1])
{
    memcpy(name, image->file.data + offset, MACHO_NAME_SIZE);
    name[MACHO_NAME_SIZE] = '\0';
}

static struct macho_section read_section(const struct macho_image *image, uint64_t header,
                                         size_t segment)
{
    struct macho_section section = {
        .addr = field_64(image, header + SECTION_64_ADDR),
        .size = field_64(image, header + SECTION_64_BYTES),
        .offset = field_32(image, header + SECTION_64_OFFSET),
        .align = field_32(image, header + SECTION_64_ALIGN),
        .nreloc = field_32(image, header + SECTION_64_NRELOC),
        .flags = field_32(image, header + SECTION_64_FLAGS),
        .reserved3 = field_32(image, header + SECTION_64_RESERVED3),
        .segment = segment,
        .header = header,
    };

    read_name(image, header + SECTION_64_SECTNAME, section.sectname);
    read_name(image, header + SECTION_64_SEGNAME, section.segname);
    return section;
}

static struct macho_segment read_segment(const struct macho_image *image, uint64_t command)
{
    struct macho_segment segment = {
        .vmaddr = field_64(image, command + SEGMENT_VMADDR),
        .vmsize = field_64(image, command + SEGMENT_VMSIZE),
        .fileoff = field_64(image, command + SEGMENT_FILEOFF),
        .filesize = field_64(image, command + SEGMENT_FILESIZE),
        .maxprot = field_32(image, command + SEGMENT_MAXPROT),
        .initprot = field_32(image, command + SEGMENT_INITPROT),
        .command = command,
        .section_count = field_32(image, command + SEGMENT_NSECTS),
    };

    read_name(image, command + SEGMENT_SEGNAME, segment.segname);
    return segment;
}

static bool read_segments(struct macho_image *image, struct error *error)
{
    uint64_t sections_max = (image->commands_end - HEADER_SIZE) / SECTION_64_SIZE, end;
    size_t segments = 0, sections = 0;

    if (image->section_count > sections_max)
        return refuse(image, error, "it has more sections than its load commands hold");
    image->segments = calloc(image->segment_count + 1, sizeof(*image->segments));
    image->sections = calloc(image->section_count + 1, sizeof(*image->sections));
    if (image->segments == NULL || image->sections == NULL)
        return error_out_of_memory(error, image->path,
                                   image->section_count * sizeof(*image->sections));
    for (size_t i = 0; i < image->command_count; i++) {
        const struct macho_command *command = &image->commands[i];
        struct macho_segment *segment = &image->segments[segments];

        if (command->cmd != LC_SEGMENT_64)
            continue;
        *segment = read_segment(image, command->offset);
        segment->first_section = sections;
        if (segment->section_count != (command->cmdsize - SEGMENT_SIZE) / SECTION_64_SIZE ||
            (command->cmdsize - SEGMENT_SIZE) % SECTION_64_SIZE != 0)
            return refuse(image, error, "a segment's sections do not fill its load command");
        if (!range_within(segment->fileoff, segment->filesize, 0, image->file.size) ||
            !add_fits(segment->vmaddr, segment->vmsize, &end))
            return refuse(image, error, "a segment is not inside the file");
        for (size_t j = 0; j < segment->section_count; j++, sections++) {
            uint64_t header = command->offset + SEGMENT_SIZE + j * SECTION_64_SIZE;
            image->sections[sections] = read_section(image, header, segments);
            if (!add_fits(image->sections[sections].addr, image->sections[sections].size, &end))
                return refuse(image, error, "a section has a wrong size");
        }
        segments++;
    }
    return true;
}

bool macho_image_open(struct macho_image *image, const struct input *input, struct error *error)
{
    *image = (struct macho_image){.input = input, .path = input->path, .file = input->bytes};
    if (check_header(image, error) && read_commands(image, error) && read_segments(image, error))
        return true;
    macho_image_close(image);
    return false;
}

void macho_image_close(struct macho_image *image)
{
    free(image->commands);
    free(image->segments);
    free(image->sections);
    *image = (struct macho_image){0};
}

/* ---- lookups ---- */

const struct macho_command *macho_find_command(const struct macho_image *image, uint32_t cmd)
{
    for (size_t i = 0; i < image->command_count; i++) {
        if (image->commands[i].cmd == cmd)
            return &image->commands[i];
    }
    return NULL;
}

size_t macho_find_segment(const struct macho_image *image, const char *segname)
{
    for (size_t i = 0; i < image->segment_count; i++) {
        if (strcmp(image->segments[i].segname, segname) == 0)
            return i;
    }
    return NO_INDEX;
}

size_t macho_find_section(const struct macho_image *image, const char *segname,
                          const char *sectname, size_t after)
{
    for (size_t i = after == NO_INDEX ? 0 : after + 1; i < image->section_count; i++) {
        if (strcmp(image->sections[i].segname, segname) == 0 &&
            strcmp(image->sections[i].sectname, sectname) == 0)
            return i;
    }
    return NO_INDEX;
}

bool macho_section_is_code(const struct macho_section *section)
{
    return (section->flags & (S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS)) != 0;
}

bool macho_section_in_file(const struct macho_section *section)
{
    uint32_t type = section->flags & SECTION_64_TYPE_MASK;

    return section->size != 0 && type != S_ZEROFILL && type != S_GB_ZEROFILL &&
           type != S_THREAD_LOCAL_ZEROFILL;
}

struct bytes macho_section_bytes(const struct macho_image *image,
                                 const struct macho_section *section)
{
    struct bytes bytes = {0};

    if (macho_section_in_file(section))
        bytes_slice(image->file, section->offset, section->size, &bytes);
    return bytes;
}

uint32_t macho_field(const struct macho_image *image, const struct macho_command *command,
                     uint64_t offset)
{
    return field_32(image, command->offset + offset);
}

struct bytes macho_linkedit_bytes(const struct macho_image *image,
                                  const struct macho_command *command, uint64_t field)
{
    struct bytes bytes = {0};

    if (command != NULL)
        bytes_slice(image->file, macho_field(image, command, field),
                    macho_field(image, command, field + 4), &bytes);
    return bytes;
}

bool macho_bytes_at(const struct macho_image *image, uint64_t address, uint64_t size,
                    struct bytes *bytes)
{
    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];

        if (range_within(address, size, segment->vmaddr, segment->filesize))
            return bytes_slice(image->file, segment->fileoff + (address - segment->vmaddr), size,
                               bytes);
    }
    return false;
}

void macho_uuid(const struct macho_image *image, struct uuid *uuid)
{
    const struct macho_command *command = macho_find_command(image, LC_UUID);
    struct bytes bytes;

    *uuid = (struct uuid){.size = 0};
    if (command == NULL ||
        !bytes_slice(image->file, command->offset + UUID_BYTES, UUID_SIZE, &bytes) ||
        bytes_all_zero(bytes))
        return;
    memcpy(uuid->bytes, bytes.data, UUID_SIZE);
    uuid->size = UUID_SIZE;
}

bool macho_tables_each(const struct macho_image *image, macho_table_visitor visit, void *context)
{
    for (size_t i = 0; i < image->command_count; i++) {
        const struct macho_command *command = &image->commands[i];
        const struct known_command *known = macho_known_command(command->cmd);

        for (size_t j = 0; known != NULL && j < TABLES_MAX && known->tables[j].offset != 0; j++) {
            const struct table_field *field = &known->tables[j];
            struct macho_table table = {
                .field = command->offset + field->offset,
                .offset = macho_field(image, command, field->offset),
                .size = (uint64_t)macho_field(image, command, field->offset + 4) * field->item_size,
            };

            if (!visit(context, &table))
                return false;
        }
    }
    return true;
}
