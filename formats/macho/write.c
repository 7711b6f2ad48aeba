/*
 * Writes the load commands of the stripped image.
 *
 * Their number and total size stay the same, so they are overwritten in place. What changes: the
 * file offsets of everything behind a cut, the sizes of segments in the file, the headers of
 * emptied sections, and, if a segment was split, where one segment ends and the next begins.
 * Addresses of sections stay, except for those with a tripwire.
 */
#include "formats/macho/state.h"

#include <string.h>

#include "formats/macho/opcodes.h"

bool macho_commands_reserve(struct macho_state *state, struct error *error)
{
    struct bytes commands;

    state->commands_literal = state->base.plan->edits.literals.size;
    if (!bytes_slice(state->image.file, 0, state->image.commands_end, &commands) ||
        !edit_replace(&state->base.plan->edits, 0, commands.size, commands))
        return error_out_of_memory(error, state->image.path, state->image.commands_end);
    return true;
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

/* ---- segments and sections ---- */

static void write_segments(struct macho_state *state)
{
    uint64_t end = edit_script_result_size(&state->base.plan->edits);

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        uint8_t *command = at(state, segment->command);
        uint64_t fileoff = map(state, segment->fileoff);
        uint64_t filesize = map(state, segment->fileoff + macho_filesize(state, i)) - fileoff;

        /* A segment without bytes may have no place in the file at all. */
        if (segment->fileoff != 0 || segment->filesize != 0)
            store_u64(command + SEGMENT_FILEOFF, fileoff, false);
        if (i == state->image.segment_count - 1)
            filesize = end - fileoff;
        if (segment->filesize != 0)
            store_u64(command + SEGMENT_FILESIZE, filesize, false);
        if (filesize > segment->vmsize)
            store_u64(command + SEGMENT_VMSIZE, align_up(filesize, state->image.page_size), false);
    }
}

static void write_sections(struct macho_state *state)
{
    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if (section->offset != 0)
            store_u32(at(state, section->header) + SECTION_64_OFFSET,
                      (uint32_t)map(state, section->offset), false);
    }
}

static void write_name(uint8_t *field, const char *name)
{
    memset(field, 0, MACHO_NAME_SIZE);
    memcpy(field, name, strlen(name));
}

static void write_place(struct macho_state *state, uint8_t *header, uint64_t address,
                        uint64_t offset)
{
    store_u64(header + SECTION_64_ADDR, address, false);
    store_u32(header + SECTION_64_OFFSET, (uint32_t)map(state, offset), false);
}

/* In a split segment, the mapping's section becomes one of zeros for everything that loads the
 * image (see macho/layout.c). Readers recognize it by flags that have no other meaning. */
static void write_mapping_place(struct macho_state *state, uint8_t *header)
{
    write_place(state, header, macho_mapping_address(state), macho_mapping_offset(state));
    if (state->split_segment != NO_INDEX)
        store_u32(header + SECTION_64_FLAGS, S_ZEROFILL, false);
}

static void write_zerofill(const struct macho_section *section, uint8_t *header)
{
    store_u32(header + SECTION_64_OFFSET, 0, false);
    store_u32(header + SECTION_64_FLAGS, (section->flags & ~SECTION_64_TYPE_MASK) | S_ZEROFILL,
              false);
}

/* Describes what is left of removed sections, and those of zeros. If nothing is, the section
 * becomes one of zeros, like its memory, so that tools do not look for it in the file. */
static void write_emptied_sections(struct macho_state *state)
{
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *planned = &state->base.plan->sections[i];
        const struct macho_section *section;
        uint64_t rest = planning_rest(&state->base, planned->kind, planned->size).size;
        uint8_t *header;

        if (planned->fate == FATE_STAYS)
            continue;
        section = &state->image.sections[state->base.section_index[planned->kind]];
        header = at(state, section->header);
        store_u64(header + SECTION_64_BYTES, rest, false);
        store_u32(header + SECTION_64_RESERVED3, MACHO_EMPTIED_MARK, false);
        if (planned->kind == SECTION_DATA)
            write_place(state, header, macho_stub_address(state), macho_stub_offset(state));
        if (planned->kind == SECTION_NAMES)
            write_place(state, header, macho_names_address(state), macho_names_offset(state));
        if (planned->kind == SECTION_COVMAP)
            write_mapping_place(state, header);
        if (rest == 0)
            write_zerofill(section, header);
    }
    for (size_t i = state->zeros; i != NO_INDEX && i < state->base.section_index[SECTION_DATA]; i++)
        write_zerofill(&state->image.sections[i], at(state, state->image.sections[i].header));
}

/* ---- a split segment ---- */

/* Writes the fields of both segments, whose load commands are still in their old places. */
static void write_split_fields(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint8_t *command = at(state, first->command), *next_command = at(state, next->command);
    uint64_t distance = state->split_fileoff - first->fileoff;
    uint64_t fileoff = map(state, state->split_fileoff);
    uint64_t end = map(state, first->fileoff + first->filesize);

    memcpy(next_command + SEGMENT_SEGNAME, command + SEGMENT_SEGNAME, MACHO_NAME_SIZE);
    store_u64(next_command + SEGMENT_VMADDR, first->vmaddr + distance, false);
    store_u64(next_command + SEGMENT_VMSIZE, first->vmsize - distance + next->vmsize, false);
    store_u64(next_command + SEGMENT_FILEOFF, fileoff, false);
    store_u64(next_command + SEGMENT_FILESIZE, end - fileoff, false);
    memcpy(next_command + SEGMENT_FLAGS, command + SEGMENT_FLAGS, 4);
    store_u64(command + SEGMENT_VMSIZE, distance, false);
    write_name(command + SEGMENT_SEGNAME, MACHO_PROFILE_SEGMENT);
}

static void store_section_count(uint8_t *command, size_t count)
{
    store_u32(command + COMMAND_CMDSIZE, (uint32_t)(SEGMENT_SIZE + SECTION_64_SIZE * count), false);
    store_u32(command + SEGMENT_NSECTS, (uint32_t)count, false);
}

/* Moves the second load command up, before the headers of the sections that now belong to it. */
static void move_split_command(struct macho_state *state)
{
    const struct macho_segment *first = &state->image.segments[state->split_segment];
    const struct macho_segment *next = first + 1;
    uint64_t address = first->vmaddr + (state->split_fileoff - first->fileoff);
    const struct macho_section *sections = &state->image.sections[first->first_section];
    uint8_t segment[SEGMENT_SIZE], *moved;
    size_t kept = 0;

    for (; kept < first->section_count &&
           load_u64(at(state, sections[kept].header + SECTION_64_ADDR), false) < address;
         kept++)
        write_name(at(state, sections[kept].header + SECTION_64_SEGNAME), MACHO_PROFILE_SEGMENT);
    moved = at(state, first->command + SEGMENT_SIZE + SECTION_64_SIZE * kept);
    memcpy(segment, at(state, next->command), SEGMENT_SIZE);
    memmove(moved + SEGMENT_SIZE, moved, SECTION_64_SIZE * (first->section_count - kept));
    memcpy(moved, segment, SEGMENT_SIZE);
    store_section_count(at(state, first->command), kept);
    store_section_count(moved, first->section_count - kept + next->section_count);
}

/* ---- tables ---- */

static bool write_table(void *context, const struct macho_table *table)
{
    struct macho_state *state = context;

    if (table->offset != 0)
        store_u32(at(state, table->field), (uint32_t)map(state, table->offset), false);
    return true;
}

static void write_size(struct macho_state *state, const struct macho_command *command,
                       uint64_t field, uint64_t size)
{
    store_u32(at(state, command->offset + field), (uint32_t)size, false);
}

/* Writes the sizes of the tables that are made anew. */
static void write_sizes(struct macho_state *state)
{
    const struct macho_image *image = &state->image;
    const struct macho_command *signature = macho_find_command(image, LC_CODE_SIGNATURE);
    const struct macho_command *chains = macho_find_command(image, LC_DYLD_CHAINED_FIXUPS);
    const struct macho_command *dyld_info = macho_dyld_info(image);

    if (signature != NULL)
        write_size(state, signature, LINKEDIT_DATASIZE, state->signature.content.size);
    if (chains != NULL)
        write_size(state, chains, LINKEDIT_DATASIZE,
                   macho_field(image, chains, LINKEDIT_DATASIZE) + state->chains_growth);
    if (dyld_info != NULL)
        write_size(state, dyld_info, DYLD_INFO_REBASE + 4,
                   macho_field(image, dyld_info, DYLD_INFO_REBASE + 4) + state->rebase_growth);
}

/* The load commands behind it move up. */
static void remove_signature_command(struct macho_state *state)
{
    const struct macho_command *command = macho_find_command(&state->image, LC_CODE_SIGNATURE);
    uint64_t end = command->offset + command->cmdsize, rest = state->image.commands_end - end;
    uint8_t *header = at(state, 0);

    memmove(at(state, command->offset), at(state, end), (size_t)rest);
    memset(at(state, command->offset + rest), 0, command->cmdsize);
    store_u32(header + HEADER_NCMDS, load_u32(header + HEADER_NCMDS, false) - 1, false);
    store_u32(header + HEADER_SIZEOFCMDS,
              load_u32(header + HEADER_SIZEOFCMDS, false) - command->cmdsize, false);
}

bool macho_commands_write(struct planning *planning, struct error *error)
{
    struct macho_state *state = (struct macho_state *)planning;

    (void)error;
    write_segments(state);
    write_sections(state);
    write_emptied_sections(state);
    macho_tables_each(&state->image, write_table, state);
    write_sizes(state);
    if (state->split_segment != NO_INDEX) {
        write_split_fields(state);
        move_split_command(state);
    }
    if (state->signature.is_dropped)
        remove_signature_command(state);
    return true;
}
