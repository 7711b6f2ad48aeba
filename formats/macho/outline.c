/*
 * The outline of a Mach-O image: see macho/read.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "formats/macho/read.h"

#define LINE_MAX_SIZE 256

/* The offset of entryoff in LC_MAIN. */
#define MAIN_ENTRYOFF 8

static bool append_header(const struct macho_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];
    int size = snprintf(line, sizeof(line), "cpu 0x%x, type %u, %zu load commands, flags 0x%x\n",
                        load_u32(image->file.data + HEADER_CPUTYPE, false), image->filetype,
                        image->command_count, image->flags);

    return buffer_append(outline, line, (size_t)size);
}

static bool append_commands(const struct macho_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];

    for (size_t i = 0; i < image->command_count; i++) {
        const struct macho_command *command = &image->commands[i];
        int size = snprintf(line, sizeof(line), "load command 0x%x of %u at %" PRIu64 "\n",
                            command->cmd, command->cmdsize, command->offset);

        if (!buffer_append(outline, line, (size_t)size))
            return false;
        if (command->cmd != LC_MAIN)
            continue;
        size = snprintf(line, sizeof(line), "entry 0x%x\n",
                        macho_field(image, command, MAIN_ENTRYOFF));
        if (!buffer_append(outline, line, (size_t)size))
            return false;
    }
    return true;
}

static bool append_segments(const struct macho_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];

    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];
        int size = snprintf(
            line, sizeof(line),
            "segment %s at 0x%" PRIx64 " of 0x%" PRIx64 ", in the file at 0x%" PRIx64
            " of 0x%" PRIx64 ", protection %u of %u, %zu sections\n",
            segment->segname, segment->vmaddr, segment->vmsize, segment->fileoff, segment->filesize,
            segment->initprot, segment->maxprot, segment->section_count);

        if (!buffer_append(outline, line, (size_t)size))
            return false;
    }
    return true;
}

static bool append_sections(const struct macho_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];

    for (size_t i = 0; i < image->section_count; i++) {
        const struct macho_section *section = &image->sections[i];
        int size = snprintf(line, sizeof(line),
                            "section %s at 0x%" PRIx64 " of 0x%" PRIx64
                            ", in the file at 0x%x, alignment %u, type %u, attributes 0x%x, 0x%x\n",
                            section->sectname, section->addr, section->size, section->offset,
                            section->align, section->flags & 0xff, section->flags >> 8,
                            section->reserved3);

        if (!buffer_append(outline, line, (size_t)size))
            return false;
    }
    return true;
}

bool macho_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    struct macho_image image;
    bool done;

    if (!macho_image_open(&image, input, error))
        return false;
    done = append_header(&image, outline) && append_commands(&image, outline) &&
           append_segments(&image, outline) && append_sections(&image, outline);
    macho_image_close(&image);
    return done || error_out_of_memory(error, input->path, outline->size);
}
