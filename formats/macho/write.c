/*
 * Writes the load commands of the stripped image.
 *
 * Their number and total size stay the same, so they are overwritten in place. What changes: the
 * file offsets of everything behind a cut, the sizes of segments in the file, the headers of
 * emptied sections, and, if a segment was split, where one segment ends and the next begins.
 * Addresses of sections stay, except for those with the stub or a tripwire.
 */
#include <string.h>

#include "formats/macho/macho.h"

bool macho_commands_reserve(struct macho_state *state, struct error *error)
{
    struct edit_script *edits = &state->base.plan->edits;
    struct bytes commands = {state->image.file.data, state->image.commands_end};

    state->commands_literal = edits->literals.size;
    return edit_replace(edits, 0, commands.size, commands) ||
           error_out_of_memory(error, state->image.path, commands.size);
}

/* The new bytes of the load command that is at `offset` in the original file. */
static uint8_t *at(struct macho_state *state, uint64_t offset)
{
    return state->base.plan->edits.literals.data + state->commands_literal + offset;
}

static uint64_t map(const struct macho_state *state, uint64_t offset)
{
    return edit_script_map(&state->base.plan->edits, offset);
}

static void put_32(struct macho_state *state, uint64_t field, uint64_t value)
{
    store_u32(at(state, field), (uint32_t)value, false);
}

static void put_64(struct macho_state *state, uint64_t field, uint64_t value)
{
    store_u64(at(state, field), value, false);
}

/* ---- segments and sections ---- */

static void write_segments(struct macho_state *state)
{
    uint64_t end = edit_script_result_size(&state->base.plan->edits);

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        uint64_t fileoff = map(state, segment->fileoff);
        uint64_t filesize = map(state, segment->fileoff + macho_filesize(state, i)) - fileoff;

        if (i == state->image.segment_count - 1)
            filesize = end - fileoff;
        /* A segment without bytes may have no place in the file at all. */
        if (segment->fileoff != 0 || segment->filesize != 0)
            put_64(state, segment->command + SEGMENT_FILEOFF, fileoff);
        if (segment->filesize != 0)
            put_64(state, segment->command + SEGMENT_FILESIZE, filesize);
        if (filesize > segment->vmsize)
            put_64(state, segment->command + SEGMENT_VMSIZE,
                   align_up(filesize, state->image.page_size));
    }
}

/* Makes a section one of zeros, like its memory, so that tools do not look for it in the file. */
static void write_zerofill(struct macho_state *state, const struct macho_section *section)
{
    put_32(state, section->header + SECTION_64_OFFSET, 0);
    put_32(state, section->header + SECTION_64_FLAGS,
           (section->flags & ~SECTION_64_TYPE_MASK) | S_ZEROFILL);
}

static void write_place(struct macho_state *state, uint64_t header, struct macho_place place)
{
    put_64(state, header + SECTION_64_ADDR, place.address);
    put_32(state, header + SECTION_64_OFFSET, map(state, place.offset));
}

/* Describes what is left of a removed section. */
static void write_emptied(struct macho_state *state, const struct section *removed)
{
    const struct macho_section *section =
        &state->image.sections[state->base.section_index[removed->kind]];
    uint64_t rest = planning_remnant(&state->base, removed->kind, removed->size).size;

    put_64(state, section->header + SECTION_64_BYTES, rest);
    put_32(state, section->header + SECTION_64_RESERVED3, MACHO_EMPTIED_MARK);
    if (rest == 0) {
        write_zerofill(state, section);
    } else if (removed->kind == SECTION_DATA) {
        write_place(state, section->header, state->stub);
    } else if (removed->kind == SECTION_NAMES) {
        write_place(state, section->header, state->names);
    } else {
        write_place(state, section->header, state->mapping);
        /* In a split segment, the mapping's section becomes one of zeros for everything that loads
         * the image (layout.c). Readers recognize it by flags that have no other meaning. */
        if (state->split_segment != NO_INDEX)
            put_32(state, section->header + SECTION_64_FLAGS, S_ZEROFILL);
    }
}

static void write_sections(struct macho_state *state)
{
    const struct image_plan *plan = state->base.plan;

    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if (section->offset != 0)
            put_32(state, section->header + SECTION_64_OFFSET, map(state, section->offset));
    }
    for (size_t i = 0; i < plan->section_count; i++) {
        if (section_goes(&plan->sections[i]))
            write_emptied(state, &plan->sections[i]);
    }
    for (size_t i = state->zeros; i != NO_INDEX && i < state->base.section_index[SECTION_DATA]; i++)
        write_zerofill(state, &state->image.sections[i]);
}

/* ---- a split segment ---- */

static void write_name(struct macho_state *state, uint64_t field, const char *name)
{
    memset(at(state, field), 0, MACHO_NAME_SIZE);
    memcpy(at(state, field), name, strlen(name));
}

/* Writes the fields of both segments, whose load commands are still in their old places. */
static void write_split_fields(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint64_t distance = state->split_fileoff - first->fileoff;
    uint64_t fileoff = map(state, state->split_fileoff);
    uint64_t end = map(state, first->fileoff + first->filesize);

    write_name(state, next->command + SEGMENT_SEGNAME, first->segname);
    put_64(state, next->command + SEGMENT_VMADDR, first->vmaddr + distance);
    put_64(state, next->command + SEGMENT_VMSIZE, first->vmsize - distance + next->vmsize);
    put_64(state, next->command + SEGMENT_FILEOFF, fileoff);
    put_64(state, next->command + SEGMENT_FILESIZE, end - fileoff);
    memcpy(at(state, next->command + SEGMENT_FLAGS), at(state, first->command + SEGMENT_FLAGS), 4);
    put_64(state, first->command + SEGMENT_VMSIZE, distance);
    write_name(state, first->command + SEGMENT_SEGNAME, MACHO_PROFILE_SEGMENT);
}

static void write_section_count(struct macho_state *state, uint64_t command, size_t count)
{
    put_32(state, command + COMMAND_CMDSIZE, SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)count);
    put_32(state, command + SEGMENT_NSECTS, count);
}

/* Moves the second load command up, before the headers of the sections that now belong to it. */
static void move_split_command(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint64_t address = first->vmaddr + (state->split_fileoff - first->fileoff), moved;
    uint8_t segment[SEGMENT_SIZE];
    size_t kept = 0;

    for (; kept < first->section_count; kept++) {
        uint64_t header = state->image.sections[first->first_section + kept].header;

        if (load_u64(at(state, header + SECTION_64_ADDR), false) >= address)
            break;
        write_name(state, header + SECTION_64_SEGNAME, MACHO_PROFILE_SEGMENT);
    }
    moved = first->command + SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)kept;
    memcpy(segment, at(state, next->command), SEGMENT_SIZE);
    memmove(at(state, moved + SEGMENT_SIZE), at(state, moved),
            SECTION_64_SIZE * (first->section_count - kept));
    memcpy(at(state, moved), segment, SEGMENT_SIZE);
    write_section_count(state, first->command, kept);
    write_section_count(state, moved, first->section_count - kept + next->section_count);
}

/* ---- tables ---- */

/* Writes where tables are now, and the sizes of those that are made anew. */
static void write_tables(struct macho_state *state)
{
    const struct macho_image *image = &state->image;
    const struct macho_command *signature = macho_find_command(image, LC_CODE_SIGNATURE);
    const struct macho_command *chains = macho_find_command(image, LC_DYLD_CHAINED_FIXUPS);
    const struct macho_command *dyld_info = macho_find_dyld_info(image);
    struct macho_table table;

    for (size_t i = 0; macho_next_table(image, &i, &table);) {
        if (table.offset != 0)
            put_32(state, table.field, map(state, table.offset));
    }
    if (signature != NULL)
        put_32(state, signature->offset + LINKEDIT_DATASIZE, state->signature.content.size);
    if (chains != NULL)
        put_32(state, chains->offset + LINKEDIT_DATASIZE,
               macho_field(image, chains, LINKEDIT_DATASIZE) + state->chains_growth);
    if (dyld_info != NULL)
        put_32(state, dyld_info->offset + DYLD_INFO_REBASE + 4,
               macho_field(image, dyld_info, DYLD_INFO_REBASE + 4) + state->rebase_growth);
}

/* The load commands behind it move up. */
static void remove_signature_command(struct macho_state *state)
{
    const struct macho_command *command = macho_find_command(&state->image, LC_CODE_SIGNATURE);
    uint64_t end = command->offset + command->cmdsize, rest = state->image.commands_end - end;
    const uint8_t *header = at(state, 0);

    memmove(at(state, command->offset), at(state, end), (size_t)rest);
    memset(at(state, command->offset + rest), 0, command->cmdsize);
    put_32(state, HEADER_NCMDS, load_u32(header + HEADER_NCMDS, false) - 1);
    put_32(state, HEADER_SIZEOFCMDS,
           load_u32(header + HEADER_SIZEOFCMDS, false) - command->cmdsize);
}

bool macho_commands_write(struct planning *planning, struct error *error)
{
    struct macho_state *state = macho_state_of(planning);

    (void)error;
    write_segments(state);
    write_sections(state);
    write_tables(state);
    if (state->split_segment != NO_INDEX) {
        write_split_fields(state);
        move_split_command(state);
    }
    if (state->signature.is_dropped)
        remove_signature_command(state);
    return true;
}
