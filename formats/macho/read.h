/*
 * The load commands of a Mach-O image, read and bounds-checked.
 *
 * macho_image_open checks what every reader of the image relies on: all load commands and segments
 * lie in the file and do not wrap around, and a section's header is inside its segment's command.
 * What only a change of the image relies on (the order of segments, sections inside their segment,
 * no unknown load command) is checked by macho_image_check_layout: an image that is not changed
 * need not pass it.
 */
#ifndef COVSPLIT_FORMATS_MACHO_READ_H
#define COVSPLIT_FORMATS_MACHO_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "formats/macho/format.h"
#include "formats/plan.h"

struct macho_command {
    uint32_t cmd;
    uint32_t cmdsize;
    uint64_t offset; /* in the file */
};

struct macho_segment {
    char segname[MACHO_NAME_SIZE + 1];
    uint64_t vmaddr;
    uint64_t vmsize;
    uint64_t fileoff;
    uint64_t filesize;
    uint32_t maxprot;
    uint32_t initprot;
    uint64_t command; /* file offset of the load command */
    size_t first_section;
    size_t section_count;
};

struct macho_section {
    char sectname[MACHO_NAME_SIZE + 1];
    char segname[MACHO_NAME_SIZE + 1];
    uint64_t addr;
    uint64_t size;
    uint32_t offset; /* in the file */
    uint32_t align;  /* the exponent of a power of 2 */
    uint32_t nreloc;
    uint32_t flags;
    uint32_t reserved3;
    size_t segment;
    uint64_t header; /* file offset of the section_64 */
};

struct macho_image {
    const struct input *input;
    const char *path; /* of the input, for messages */
    struct bytes file;
    uint32_t filetype;
    uint32_t flags;
    uint16_t machine;      /* as an ELF machine number */
    uint64_t page_size;    /* alignment of segments on such machines */
    uint64_t commands_end; /* file offset */
    struct macho_command *commands;
    size_t command_count;
    struct macho_segment *segments;
    size_t segment_count;
    struct macho_section *sections; /* in the order of their ordinals, which start at 1 */
    size_t section_count;
};

/* Opens a 64-bit little-endian executable, dynamic library or bundle for x86-64 or arm64. The input
 * must outlive the image. After a failure there is nothing to close. */
bool macho_image_open(struct macho_image *image, const struct input *input, struct error *error);
void macho_image_close(struct macho_image *image);

/* Checks that covsplit knows every part of the file that is affected when file offsets change. */
bool macho_image_check_layout(const struct macho_image *image, struct error *error);

/* The first load command of that kind; NULL if there is none. */
const struct macho_command *macho_find_command(const struct macho_image *image, uint32_t cmd);

/* Index of the segment of that name; and index of the first section of that name behind `after`
 * (NO_INDEX: from the start). NO_INDEX if there is none. */
size_t macho_find_segment(const struct macho_image *image, const char *segname);
size_t macho_find_section(const struct macho_image *image, const char *segname,
                          const char *sectname, size_t after);

/* True for a section that occupies bytes of the file. */
bool macho_section_in_file(const struct macho_section *section);
bool macho_section_is_code(const struct macho_section *section);
/* The section's bytes in the file; empty if there are none, or they are not inside the file. */
struct bytes macho_section_bytes(const struct macho_image *image,
                                 const struct macho_section *section);

/* A 32-bit field of a load command, whose size must have been checked to include it. */
uint32_t macho_field(const struct macho_image *image, const struct macho_command *command,
                     uint64_t offset);

/* The bytes that two fields describe, an offset and the size behind it; empty if the command is
 * NULL, or the bytes are not inside the file. */
struct bytes macho_linkedit_bytes(const struct macho_image *image,
                                  const struct macho_command *command, uint64_t field);

/* The bytes loaded at [address, address + size); false if they are not in the file. */
bool macho_bytes_at(const struct macho_image *image, uint64_t address, uint64_t size,
                    struct bytes *bytes);

/* A table in __LINKEDIT, to which a load command points. */
struct macho_table {
    uint64_t field;  /* file offset of the 32-bit field that holds the table's offset */
    uint32_t offset; /* of the table, in the file; 0: there is none */
    uint64_t size;   /* in bytes */
};

/* Calls `visit` for each such field, even if it has no table. If `visit` returns false, stops and
 * returns false. */
typedef bool (*macho_table_visitor)(void *context, const struct macho_table *table);
bool macho_tables_each(const struct macho_image *image, macho_table_visitor visit, void *context);

/* Appends the outline of an image (macho/outline.c): see image_outline in image.h. */
bool macho_outline(const struct input *input, struct buffer *outline, struct error *error);

/* LC_UUID; its size is 0 if there is none, or it is all zeros. */
void macho_uuid(const struct macho_image *image, struct uuid *uuid);

#endif
