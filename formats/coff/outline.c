/*
 * The outline of a COFF image: see coff/read.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "formats/coff/read.h"

/* The last directory is reserved, and not every reader knows it. */
#define OUTLINED_DIRECTORIES 15

#define LINE_MAX_SIZE        160

static bool append_directories(const struct coff_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];

    for (unsigned i = 0; i < OUTLINED_DIRECTORIES; i++) {
        int size = snprintf(line, sizeof(line), "directory %u at 0x%x of 0x%x\n", i,
                            image->directories[i].rva, image->directories[i].size);
        if (!buffer_append(outline, line, (size_t)size))
            return false;
    }
    return true;
}

static bool append_sections(const struct coff_image *image, struct buffer *outline)
{
    char line[LINE_MAX_SIZE];

    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];
        int size = snprintf(
            line, sizeof(line), "section %s at 0x%x of 0x%x, in the file at 0x%x of 0x%x, 0x%x\n",
            section->short_name, section->VirtualAddress, section->VirtualSize,
            section->PointerToRawData, section->SizeOfRawData, section->Characteristics);
        if (!buffer_append(outline, line, (size_t)size))
            return false;
    }
    return true;
}

bool coff_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    struct coff_image image;
    char line[LINE_MAX_SIZE];
    bool done;
    int size;

    if (!coff_image_open(&image, input, error))
        return false;
    size = snprintf(line, sizeof(line), "entry 0x%x, base 0x%" PRIx64 ", size 0x%x\n",
                    image.entry_point, image.image_base, image.size_of_image);
    done = buffer_append(outline, line, (size_t)size) && append_directories(&image, outline) &&
           append_sections(&image, outline);
    coff_image_close(&image);
    return done || error_out_of_memory(error, input->path, outline->size);
}
