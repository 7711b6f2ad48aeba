/*
 * Checks that covsplit knows every part of a Mach-O file that has to change when bytes are cut out.
 *
 * Cutting a file shifts what is behind the cut, so every file offset in the load commands must be
 * known, and every byte must belong to a segment. The checks here are those of dyld and the kernel
 * before they load an image, and what linkers always do. A file that does not pass them is of a
 * kind that was never considered, and is left alone.
 */
#include "formats/macho/commands.h"
#include "formats/macho/read.h"

#include <inttypes.h>
#include <string.h>

static bool refuse(const struct macho_image *image, struct error *error, const char *what)
{
    return error_set(error,
                     "%s: the image has a layout that covsplit does not know: %s; it stays "
                     "as it is",
                     image->path, what);
}

static bool check_commands(const struct macho_image *image, struct error *error)
{
    for (size_t i = 0; i < image->command_count; i++) {
        const struct macho_command *command = &image->commands[i];
        const struct known_command *known = macho_known_command(command->cmd);

        if (known == NULL)
            return error_set(error,
                             "%s: the image has a load command %#" PRIx32
                             " that covsplit does not know; it stays as it is",
                             image->path, command->cmd);
        if ((command->cmd == LC_ENCRYPTION_INFO || command->cmd == LC_ENCRYPTION_INFO_64) &&
            macho_field(image, command, ENCRYPTION_CRYPTID) != 0)
            return refuse(image, error, "it is encrypted");
        if (known->tables[0].offset != 0 && macho_find_command(image, command->cmd) != command)
            return refuse(image, error, "a load command occurs twice");
    }
    return true;
}

/* ---- segments ---- */

static bool check_segment(const struct macho_image *image, size_t index, struct error *error)
{
    const struct macho_segment *segment = &image->segments[index];
    const struct macho_segment *before = index == 0 ? NULL : segment - 1;
    uint64_t mask = image->page_size - 1;

    if (segment->filesize > segment->vmsize || segment->vmaddr + segment->vmsize > INT64_MAX)
        return refuse(image, error, "a segment has a wrong size");
    if ((segment->vmaddr & mask) != 0 || (segment->filesize != 0 && (segment->fileoff & mask) != 0))
        return refuse(image, error, "a segment does not start at a page boundary");
    if (before == NULL)
        return true;
    if (segment->vmaddr < before->vmaddr + before->vmsize)
        return refuse(image, error, "segments overlap or are out of order");
    /* This holds for a segment without bytes, too, if it has a file offset. */
    if (segment->fileoff < before->fileoff + before->filesize &&
        (segment->filesize != 0 || segment->fileoff != 0))
        return refuse(image, error, "segments overlap in the file, or are out of order");
    return true;
}

static bool check_segments(const struct macho_image *image, struct error *error)
{
    size_t linkedit = macho_find_segment(image, "__LINKEDIT");
    size_t text = macho_find_segment(image, "__TEXT");
    uint64_t end;

    for (size_t i = 0; i < image->segment_count; i++) {
        if (!check_segment(image, i, error))
            return false;
    }
    if (text == NO_INDEX || image->segments[text].fileoff != 0 ||
        image->segments[text].filesize < image->commands_end)
        return refuse(image, error, "__TEXT does not hold the load commands");
    if (linkedit == NO_INDEX || linkedit != image->segment_count - 1 ||
        image->segments[linkedit].filesize == 0)
        return refuse(image, error, "__LINKEDIT is not the last segment");
    end = image->segments[linkedit].fileoff + image->segments[linkedit].filesize;
    if (end != image->file.size)
        return error_set(error,
                         "%s: data is appended to the image, and may have to stay in its place; "
                         "run covsplit before it is appended",
                         image->path);
    return true;
}

/* ---- sections ---- */

static bool check_section(const struct macho_image *image, size_t index, struct error *error)
{
    const struct macho_section *section = &image->sections[index];
    const struct macho_segment *segment = &image->segments[section->segment];
    const struct macho_section *before =
        index == segment->first_section ? NULL : &image->sections[index - 1];

    if (!range_within(section->addr, section->size, segment->vmaddr, segment->vmsize))
        return refuse(image, error, "a section is not inside its segment");
    if (before != NULL && section->addr < before->addr + before->size)
        return refuse(image, error, "sections overlap or are out of order");
    if (section->nreloc != 0)
        return refuse(image, error, "a section has relocations of its own");
    if (!macho_section_in_file(section))
        return true;
    if (!range_within(section->offset, section->size, segment->fileoff, segment->filesize) ||
        section->offset - segment->fileoff != section->addr - segment->vmaddr)
        return refuse(image, error, "a section is not where its segment is in the file");
    if (section->offset < image->commands_end)
        return refuse(image, error, "a section overlaps the load commands");
    return true;
}

/* ---- tables in __LINKEDIT ---- */

static bool table_is_inside(void *context, const struct macho_table *table)
{
    const struct macho_image *image = context;
    const struct macho_segment *linkedit = &image->segments[image->segment_count - 1];

    return table->offset == 0 ||
           range_within(table->offset, table->size, linkedit->fileoff, linkedit->filesize);
}

struct signature_place {
    uint64_t field; /* of its own table */
    uint64_t offset, size;
};

/* The signature is removed, or made anew, and no other table with it. */
static bool table_is_outside(void *context, const struct macho_table *table)
{
    const struct signature_place *signature = context;

    return table->field == signature->field ||
           !ranges_overlap(table->offset, table->size, signature->offset, signature->size);
}

static bool check_signature(const struct macho_image *image, struct error *error)
{
    const struct macho_command *command = macho_find_command(image, LC_CODE_SIGNATURE);
    struct signature_place place;

    if (command == NULL)
        return true;
    place.field = command->offset + LINKEDIT_DATAOFF;
    place.offset = macho_field(image, command, LINKEDIT_DATAOFF);
    place.size = macho_field(image, command, LINKEDIT_DATASIZE);
    if (place.offset + place.size != image->file.size)
        return refuse(image, error, "its code signature is not at the end");
    if (!macho_tables_each(image, table_is_outside, &place))
        return refuse(image, error, "a table overlaps its code signature");
    return true;
}

bool macho_image_check_layout(const struct macho_image *image, struct error *error)
{
    if (!check_commands(image, error) || !check_segments(image, error))
        return false;
    for (size_t i = 0; i < image->section_count; i++) {
        if (!check_section(image, i, error))
            return false;
    }
    if (!macho_tables_each(image, table_is_inside, (void *)(uintptr_t)image))
        return refuse(image, error, "a table is not inside __LINKEDIT");
    return check_signature(image, error);
}
