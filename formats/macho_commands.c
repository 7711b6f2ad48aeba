/*
 * The load commands of the stripped image.
 *
 * Their number and sizes stay, so all of them are written over in place. What changes: the file
 * offsets of everything behind a cut, the sizes of segments in the file, and the headers of the
 * sections that were emptied. Addresses stay.
 */
#include "formats/macho_plan.h"

#include <string.h>

#include "formats/macho_tables.h"

bool macho_commands_reserve(struct macho_plan_state *state, struct error *error)
{
    struct bytes commands;

    state->commands_literal = state->plan->edits.literals.size;
    if (!bytes_slice(state->image.file, 0, state->image.commands_end, &commands) ||
        !edit_replace(&state->plan->edits, 0, commands.size, commands))
        return error_out_of_memory(error, state->image.path, state->image.commands_end);
    return true;
}

/* The new bytes of a load command whose old ones are at `offset` in the file. */
static uint8_t *at(struct macho_plan_state *state, uint64_t offset)
{
    return state->plan->edits.literals.data + state->commands_literal + offset;
}

static uint64_t map(const struct macho_plan_state *state, uint64_t offset)
{
    return edit_script_map(&state->plan->edits, offset);
}

/* ---- segments and sections ---- */

static void write_segments(struct macho_plan_state *state)
{
    uint64_t end = edit_script_result_size(&state->plan->edits);

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        uint8_t *command = at(state, segment->command);
        uint64_t fileoff = map(state, segment->fileoff);
        uint64_t filesize = map(state, segment->fileoff + segment->filesize) - fileoff;

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

static void write_sections(struct macho_plan_state *state)
{
    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if (section->offset != 0)
            store_u32(at(state, section->header) + SECTION_OFFSET,
                      (uint32_t)map(state, section->offset), false);
    }
}

/* What is left of a removed section. Where nothing is, the section is one of zeros, as its memory
 * is: tools then do not look for it in the file. */
static void write_emptied_sections(struct macho_plan_state *state)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *planned = &state->plan->sections[i];
        const struct macho_section *section;
        uint8_t *header;

        if (planned->fate == SECTION_STAYS)
            continue;
        section = &state->image.sections[state->section_index[planned->kind]];
        header = at(state, section->header);
        store_u64(header + SECTION_BYTES, state->reserved[planned->kind], false);
        store_u32(header + SECTION_RESERVED3, MACHO_EMPTIED_MARK, false);
        if (state->reserved[planned->kind] != 0)
            continue;
        store_u32(header + SECTION_OFFSET, 0, false);
        store_u32(header + SECTION_FLAGS, (section->flags & ~SECTION_TYPE_MASK) | S_ZEROFILL,
                  false);
    }
}

/* ---- tables ---- */

static bool write_table(void *context, const struct macho_table *table)
{
    struct macho_plan_state *state = context;

    if (table->offset != 0)
        store_u32(at(state, table->field), (uint32_t)map(state, table->offset), false);
    return true;
}

bool macho_commands_write(struct macho_plan_state *state, struct error *error)
{
    const struct macho_command *signature = macho_find_command(&state->image, LC_CODE_SIGNATURE);

    (void)error;
    write_segments(state);
    write_sections(state);
    write_emptied_sections(state);
    macho_tables_each(&state->image, write_table, state);
    if (signature != NULL)
        store_u32(at(state, signature->offset + LINKEDIT_DATASIZE),
                  (uint32_t)state->signature.content.size, false);
    return true;
}
