/*
 * Reading and checking the load commands of a Mach-O image.
 */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "formats/macho/macho.h"

/* No real image has more: linkers make a few dozen, and all of them are copied. */
#define COMMANDS_MAX 65536

/* ---- the load commands that covsplit knows ---- */

/* The 32-bit fields of a load command with the file offset of a table; the next field has the
 * number of its items. */
#define TABLES_MAX 6

struct table_field {
    uint16_t offset; /* of the field in the load command; 0: none */
    uint16_t item_size;
};

typedef const struct table_field table_fields[TABLES_MAX];

static table_fields no_tables = {{0, 0}};
static table_fields one_table = {{LINKEDIT_DATAOFF, 1}};
static table_fields symbol_tables = {{SYMTAB_SYMOFF, NLIST_SIZE}, {SYMTAB_STROFF, 1}};
/* The items are dylib_table_of_contents, dylib_module_64, dylib_reference, an index, and twice
 * relocation_info. */
static table_fields dysymtab_tables = {{DYSYMTAB_TOCOFF, 8},       {DYSYMTAB_MODTABOFF, 56},
                                       {DYSYMTAB_EXTREFSYMOFF, 4}, {DYSYMTAB_INDIRECTSYMOFF, 4},
                                       {DYSYMTAB_EXTRELOFF, 8},    {DYSYMTAB_LOCRELOFF, 8}};
static table_fields hint_table = {{TWOLEVEL_HINTS_OFFSET, 4}};
static table_fields dyld_info_tables = {{DYLD_INFO_REBASE, 1},
                                        {DYLD_INFO_BIND, 1},
                                        {DYLD_INFO_WEAK_BIND, 1},
                                        {DYLD_INFO_LAZY_BIND, 1},
                                        {DYLD_INFO_EXPORT, 1}};

static const struct known_command {
    uint32_t cmd;
    uint32_t size_min;
    const struct table_field *tables; /* TABLES_MAX of them */
} known_commands[] = {
    {LC_SEGMENT_64, SEGMENT_SIZE, no_tables},
    {LC_UUID, UUID_BYTES + UUID_SIZE, no_tables},
    {LC_ENCRYPTION_INFO, ENCRYPTION_SIZE, no_tables},
    {LC_ENCRYPTION_INFO_64, ENCRYPTION_SIZE, no_tables},
    {LC_SYMTAB, SYMTAB_SIZE, symbol_tables},
    {LC_DYSYMTAB, DYSYMTAB_SIZE, dysymtab_tables},
    {LC_TWOLEVEL_HINTS, TWOLEVEL_HINTS_SIZE, hint_table},
    {LC_DYLD_INFO, DYLD_INFO_SIZE, dyld_info_tables},
    {LC_DYLD_INFO_ONLY, DYLD_INFO_SIZE, dyld_info_tables},
    {LC_CODE_SIGNATURE, LINKEDIT_SIZE, one_table},
    {LC_SEGMENT_SPLIT_INFO, LINKEDIT_SIZE, one_table},
    {LC_DYLD_CHAINED_FIXUPS, LINKEDIT_SIZE, one_table},
};

/* Others with one table, all of linkedit_data_command: LC_FUNCTION_STARTS, LC_DATA_IN_CODE,
 * LC_DYLIB_CODE_SIGN_DRS, LC_LINKER_OPTIMIZATION_HINT, LC_DYLD_EXPORTS_TRIE, LC_ATOM_INFO,
 * LC_FUNCTION_VARIANTS, LC_FUNCTION_VARIANT_FIXUPS. (The highest bit is LC_REQ_DYLD.) */
static const uint32_t linkedit_commands[] = {0x26, 0x29, 0x2b, 0x2e, 0x80000033, 0x36, 0x37, 0x38};

/* Commands without file offsets, and without fields that covsplit reads: LC_THREAD, LC_UNIXTHREAD,
 * LC_LOAD_DYLIB, LC_ID_DYLIB, LC_LOAD_DYLINKER, LC_ID_DYLINKER, LC_SUB_FRAMEWORK, LC_SUB_UMBRELLA,
 * LC_SUB_CLIENT, LC_SUB_LIBRARY, LC_LOAD_WEAK_DYLIB, LC_ROUTINES_64, LC_RPATH, LC_REEXPORT_DYLIB,
 * LC_LAZY_LOAD_DYLIB, LC_LOAD_UPWARD_DYLIB, LC_VERSION_MIN_MACOSX, LC_VERSION_MIN_IPHONEOS,
 * LC_DYLD_ENVIRONMENT, LC_MAIN (its offset is in __TEXT, which does not move), LC_SOURCE_VERSION,
 * LC_VERSION_MIN_TVOS, LC_VERSION_MIN_WATCHOS, LC_BUILD_VERSION, LC_TARGET_TRIPLE. */
static const uint32_t plain_commands[] = {
    0x4,  0x5,        0xc,  0xd,        0xe,        0xf,  0x12,       0x13, 0x14,
    0x15, 0x80000018, 0x1a, 0x8000001c, 0x8000001f, 0x20, 0x80000023, 0x24, 0x25,
    0x27, 0x80000028, 0x2a, 0x2f,       0x30,       0x32, 0x39};

static bool is_listed(uint32_t cmd, const uint32_t *list, size_t count)
{
    while (count != 0 && list[count - 1] != cmd)
        count--;
    return count != 0;
}

/* NULL if the load command is not known. */
static const struct known_command *find_known(uint32_t cmd)
{
    static const struct known_command plain = {0, COMMAND_SIZE, no_tables},
                                      other = {0, LINKEDIT_SIZE, one_table};

    for (size_t i = 0; i < sizeof(known_commands) / sizeof(*known_commands); i++) {
        if (known_commands[i].cmd == cmd)
            return &known_commands[i];
    }
    if (is_listed(cmd, linkedit_commands, sizeof(linkedit_commands) / sizeof(*linkedit_commands)))
        return &other;
    return is_listed(cmd, plain_commands, sizeof(plain_commands) / sizeof(*plain_commands)) ? &plain
                                                                                            : NULL;
}

/* ---- reading ---- */

static bool damaged(const struct macho_image *image, struct error *error, const char *what)
{
    return error_set(error, "%s: damaged Mach-O image: %s; link it again", image->path, what);
}

static void take_name(struct cursor *cursor, char name[MACHO_NAME_SIZE + 1])
{
    struct bytes bytes = cursor_bytes(cursor, MACHO_NAME_SIZE);

    if (bytes.size != 0)
        memcpy(name, bytes.data, MACHO_NAME_SIZE);
}

static struct macho_section take_section(struct cursor *cursor, uint64_t header, size_t segment)
{
    struct macho_section section = {.segment = segment, .header = header};

    take_name(cursor, section.sectname);
    take_name(cursor, section.segname);
    section.addr = cursor_u64(cursor);
    section.size = cursor_u64(cursor);
    section.offset = cursor_u32(cursor);
    section.align = cursor_u32(cursor);
    cursor_skip(cursor, 4); /* reloff */
    section.nreloc = cursor_u32(cursor);
    section.flags = cursor_u32(cursor);
    cursor_skip(cursor, 8); /* reserved1, reserved2 */
    section.reserved3 = cursor_u32(cursor);
    return section;
}

/* Reads a segment and its sections. The cursor is behind cmdsize, and ends with the command. */
static bool read_segment(struct macho_image *image, uint64_t command, struct cursor cursor,
                         struct error *error)
{
    struct macho_segment *segment = &image->segments[image->segment_count];
    uint64_t end;

    *segment = (struct macho_segment){.command = command, .first_section = image->section_count};
    take_name(&cursor, segment->segname);
    segment->vmaddr = cursor_u64(&cursor);
    segment->vmsize = cursor_u64(&cursor);
    segment->fileoff = cursor_u64(&cursor);
    segment->filesize = cursor_u64(&cursor);
    segment->maxprot = cursor_u32(&cursor);
    segment->initprot = cursor_u32(&cursor);
    segment->section_count = cursor_u32(&cursor);
    cursor_skip(&cursor, 4); /* flags */
    if (cursor_left(&cursor) != SECTION_64_SIZE * (uint64_t)segment->section_count)
        return damaged(image, error, "a segment's sections do not fill its load command");
    if (!range_within(segment->fileoff, segment->filesize, 0, image->file.size) ||
        !add_fits(segment->vmaddr, segment->vmsize, &end))
        return damaged(image, error, "a segment is not inside the file");
    for (size_t i = 0; i < segment->section_count; i++) {
        struct macho_section section =
            take_section(&cursor, (uint64_t)(cursor.at - image->file.data), image->segment_count);

        if (!add_fits(section.addr, section.size, &end))
            return damaged(image, error, "a section has a wrong size");
        image->sections[image->section_count++] = section;
    }
    image->segment_count++;
    return true;
}

static bool read_commands(struct macho_image *image, struct cursor header, struct error *error)
{
    uint32_t count = cursor_u32(&header), size = cursor_u32(&header);
    struct bytes commands;
    struct cursor cursor;

    image->flags = cursor_u32(&header);
    image->commands_end = HEADER_SIZE + (uint64_t)size;
    if (!bytes_slice(image->file, HEADER_SIZE, size, &commands) || count > COMMANDS_MAX ||
        count > size / COMMAND_SIZE)
        return damaged(image, error, "its load commands are not inside the file");
    image->commands = arena_array(&image->arena, count, sizeof(*image->commands));
    image->segments = arena_array(&image->arena, size / SEGMENT_SIZE, sizeof(*image->segments));
    image->sections = arena_array(&image->arena, size / SECTION_64_SIZE, sizeof(*image->sections));
    if (image->arena.failed)
        return error_out_of_memory(error, image->path, size);
    cursor = cursor_open(commands, false, true);
    for (; image->command_count < count; image->command_count++) {
        struct macho_command *command = &image->commands[image->command_count];
        const struct known_command *known;
        uint64_t left = cursor_left(&cursor);

        if (left < COMMAND_SIZE)
            return damaged(image, error, "a load command is cut short");
        command->offset = image->commands_end - left;
        command->cmd = cursor_u32(&cursor);
        command->cmdsize = cursor_u32(&cursor);
        known = find_known(command->cmd);
        if (command->cmdsize > left || command->cmdsize % 8 != 0 ||
            command->cmdsize < (known == NULL ? COMMAND_SIZE : known->size_min))
            return damaged(image, error, "a load command has a wrong size");
        if (command->cmd == LC_SEGMENT_64 &&
            !read_segment(image, command->offset,
                          cursor_open((struct bytes){cursor.at, command->cmdsize - COMMAND_SIZE},
                                      false, true),
                          error))
            return false;
        cursor_skip(&cursor, command->cmdsize - COMMAND_SIZE);
    }
    return cursor_finished(&cursor) ||
           damaged(image, error, "its load commands do not fill their place");
}

static bool read_image(struct macho_image *image, struct error *error)
{
    struct cursor header = cursor_open(image->file, false, true);
    uint32_t magic = cursor_u32(&header), cputype = cursor_u32(&header);

    cursor_skip(&header, 4); /* cpusubtype */
    image->filetype = cursor_u32(&header);
    if (image->file.size < HEADER_SIZE)
        return damaged(image, error, "the file is cut short");
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
    return read_commands(image, header, error);
}

bool macho_image_open(struct macho_image *image, const struct input *input, struct error *error)
{
    *image = (struct macho_image){.input = input, .path = input->path, .file = input->bytes};
    if (read_image(image, error))
        return true;
    macho_image_close(image);
    return false;
}

void macho_image_close(struct macho_image *image)
{
    arena_free(&image->arena);
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

const struct macho_command *macho_find_dyld_info(const struct macho_image *image)
{
    const struct macho_command *command = macho_find_command(image, LC_DYLD_INFO_ONLY);

    return command != NULL ? command : macho_find_command(image, LC_DYLD_INFO);
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

uint64_t macho_base(const struct macho_image *image)
{
    size_t text = macho_find_segment(image, "__TEXT");

    return text == NO_INDEX ? 0 : image->segments[text].vmaddr;
}

bool macho_section_in_file(const struct macho_section *section)
{
    uint32_t type = section->flags & SECTION_64_TYPE_MASK;

    return section->size != 0 && type != S_ZEROFILL && type != S_GB_ZEROFILL &&
           type != S_THREAD_LOCAL_ZEROFILL;
}

uint32_t macho_field(const struct macho_image *image, const struct macho_command *command,
                     uint64_t offset)
{
    return load_u32(image->file.data + command->offset + offset, false);
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

bool macho_next_table(const struct macho_image *image, size_t *position, struct macho_table *table)
{
    for (; *position / TABLES_MAX < image->command_count; ++*position) {
        const struct macho_command *command = &image->commands[*position / TABLES_MAX];
        const struct known_command *known = find_known(command->cmd);
        size_t slot = *position % TABLES_MAX;

        if (known == NULL || known->tables[slot].offset == 0)
            continue;
        *table = (struct macho_table){
            .field = command->offset + known->tables[slot].offset,
            .offset = macho_field(image, command, known->tables[slot].offset),
            .size = (uint64_t)macho_field(image, command, known->tables[slot].offset + 4u) *
                    known->tables[slot].item_size,
        };
        ++*position;
        return true;
    }
    return false;
}

/* ---- checking what moves ---- */

static bool unknown(const struct macho_image *image, struct error *error, const char *what)
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
        const struct known_command *known = find_known(command->cmd);

        if (known == NULL)
            return error_set(error,
                             "%s: the image has a load command %#" PRIx32
                             " that covsplit does not know; it stays as it is",
                             image->path, command->cmd);
        if ((command->cmd == LC_ENCRYPTION_INFO || command->cmd == LC_ENCRYPTION_INFO_64) &&
            macho_field(image, command, ENCRYPTION_CRYPTID) != 0)
            return unknown(image, error, "it is encrypted");
        if (known->tables[0].offset != 0 && macho_find_command(image, command->cmd) != command)
            return unknown(image, error, "a load command occurs twice");
    }
    return true;
}

static bool check_segments(const struct macho_image *image, struct error *error)
{
    size_t linkedit = macho_find_segment(image, "__LINKEDIT");
    size_t text = macho_find_segment(image, "__TEXT");
    uint64_t mask = image->page_size - 1;

    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];
        const struct macho_segment *before = &image->segments[i == 0 ? 0 : i - 1];

        if (segment->filesize > segment->vmsize || segment->vmaddr + segment->vmsize > INT64_MAX)
            return unknown(image, error, "a segment has a wrong size");
        if ((segment->vmaddr & mask) != 0 ||
            (segment->filesize != 0 && (segment->fileoff & mask) != 0))
            return unknown(image, error, "a segment does not start at a page boundary");
        if (i != 0 && segment->vmaddr < before->vmaddr + before->vmsize)
            return unknown(image, error, "segments overlap or are out of order");
        /* This holds for a segment without bytes, too, if it has a file offset. */
        if (i != 0 && segment->fileoff < before->fileoff + before->filesize &&
            (segment->filesize != 0 || segment->fileoff != 0))
            return unknown(image, error, "segments overlap in the file, or are out of order");
    }
    if (text == NO_INDEX || image->segments[text].fileoff != 0 ||
        image->segments[text].filesize < image->commands_end)
        return unknown(image, error, "__TEXT does not hold the load commands");
    if (linkedit == NO_INDEX || linkedit != image->segment_count - 1 ||
        image->segments[linkedit].filesize == 0)
        return unknown(image, error, "__LINKEDIT is not the last segment");
    return image->segments[linkedit].fileoff + image->segments[linkedit].filesize ==
               image->file.size ||
           error_set(error,
                     "%s: data is appended to the image, and may have to stay in its place; "
                     "run covsplit before it is appended",
                     image->path);
}

static bool check_sections(const struct macho_image *image, struct error *error)
{
    for (size_t i = 0; i < image->section_count; i++) {
        const struct macho_section *section = &image->sections[i];
        const struct macho_section *before = &image->sections[i == 0 ? 0 : i - 1];
        const struct macho_segment *segment = &image->segments[section->segment];

        if (!range_within(section->addr, section->size, segment->vmaddr, segment->vmsize))
            return unknown(image, error, "a section is not inside its segment");
        if (i != segment->first_section && section->addr < before->addr + before->size)
            return unknown(image, error, "sections overlap or are out of order");
        if (section->nreloc != 0)
            return unknown(image, error, "a section has relocations of its own");
        if (!macho_section_in_file(section))
            continue;
        if (!range_within(section->offset, section->size, segment->fileoff, segment->filesize) ||
            section->offset - segment->fileoff != section->addr - segment->vmaddr)
            return unknown(image, error, "a section is not where its segment is in the file");
        if (section->offset < image->commands_end)
            return unknown(image, error, "a section overlaps the load commands");
    }
    return true;
}

/* The code signature is removed, or made anew, and no other table with it. */
static bool check_tables(const struct macho_image *image, struct error *error)
{
    const struct macho_segment *linkedit = &image->segments[image->segment_count - 1];
    const struct macho_command *signature = macho_find_command(image, LC_CODE_SIGNATURE);
    uint64_t start = image->file.size, field = 0;
    struct macho_table table;

    for (size_t i = 0; macho_next_table(image, &i, &table);) {
        if (table.offset != 0 &&
            !range_within(table.offset, table.size, linkedit->fileoff, linkedit->filesize))
            return unknown(image, error, "a table is not inside __LINKEDIT");
    }
    if (signature != NULL) {
        field = signature->offset + LINKEDIT_DATAOFF;
        start = macho_field(image, signature, LINKEDIT_DATAOFF);
        if (start + macho_field(image, signature, LINKEDIT_DATASIZE) != image->file.size)
            return unknown(image, error, "its code signature is not at the end");
    }
    for (size_t i = 0; macho_next_table(image, &i, &table);) {
        if (table.field != field &&
            ranges_overlap(table.offset, table.size, start, image->file.size - start))
            return unknown(image, error, "a table overlaps its code signature");
    }
    return true;
}

bool macho_image_check_layout(const struct macho_image *image, struct error *error)
{
    return check_commands(image, error) && check_segments(image, error) &&
           check_sections(image, error) && check_tables(image, error);
}

/* ---- the outline ---- */

bool macho_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    struct macho_image image;

    if (!macho_image_open(&image, input, error))
        return false;
    outline_append(outline, MACHO_OUTLINE, load_u32(image.file.data + HEADER_CPUTYPE, false),
                   image.filetype, (unsigned)image.command_count, image.flags);
    for (size_t i = 0; i < image.command_count; i++) {
        const struct macho_command *command = &image.commands[i];

        outline_append(outline, MACHO_COMMAND_LINE, command->cmd, command->cmdsize,
                       command->offset);
        if (command->cmd == LC_MAIN && command->cmdsize >= MAIN_ENTRYOFF + 4)
            outline_append(outline, MACHO_ENTRY_LINE, macho_field(&image, command, MAIN_ENTRYOFF));
    }
    for (size_t i = 0; i < image.segment_count; i++) {
        const struct macho_segment *segment = &image.segments[i];

        outline_append(outline, MACHO_SEGMENT_LINE, segment->segname, segment->vmaddr,
                       segment->vmsize, segment->fileoff, segment->filesize, segment->initprot,
                       segment->maxprot, (unsigned)segment->section_count);
    }
    for (size_t i = 0; i < image.section_count; i++) {
        const struct macho_section *section = &image.sections[i];

        outline_append(outline, MACHO_SECTION_LINE, section->sectname, section->addr, section->size,
                       (uint64_t)section->offset, section->align,
                       section->flags & SECTION_64_TYPE_MASK, section->flags >> 8,
                       section->reserved3);
    }
    macho_image_close(&image);
    return !outline->failed || error_out_of_memory(error, input->path, outline->size);
}
