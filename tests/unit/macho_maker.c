/*
 * The images of macho_maker.h.
 */
#include "tests/unit/macho_maker.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/forward.h"

uint8_t *macho_maker_command(struct macho_maker *maker, uint32_t cmd, uint32_t size)
{
    uint8_t *command = maker->file + maker->commands_end;

    store_u32(command + COMMAND_CMD, cmd, false);
    store_u32(command + COMMAND_CMDSIZE, size, false);
    maker->commands_end += size;
    maker->command_count++;
    return command;
}

uint8_t *macho_maker_table(struct macho_maker *maker, uint32_t cmd, uint32_t offset, uint32_t size)
{
    uint8_t *command = macho_maker_command(maker, cmd, LINKEDIT_SIZE);

    store_u32(command + LINKEDIT_DATAOFF, offset, false);
    store_u32(command + LINKEDIT_DATASIZE, size, false);
    return command;
}

void macho_maker_segment(struct macho_maker *maker, const char *name, uint64_t address,
                         uint32_t offset, uint32_t size)
{
    uint8_t *command = macho_maker_command(maker, LC_SEGMENT_64, SEGMENT_SIZE);

    maker->segment = (uint32_t)(command - maker->file);
    memcpy(command + SEGMENT_SEGNAME, name, strlen(name));
    store_u64(command + SEGMENT_VMADDR, address, false);
    store_u64(command + SEGMENT_VMSIZE, align_up(size, MAKER_PAGE), false);
    store_u64(command + SEGMENT_FILEOFF, offset, false);
    store_u64(command + SEGMENT_FILESIZE, size, false);
    store_u32(command + SEGMENT_MAXPROT, 3, false);
    store_u32(command + SEGMENT_INITPROT, 3, false);
}

static void add_segment(struct macho_maker *maker, const char *name, uint32_t offset, uint32_t size)
{
    macho_maker_segment(maker, name, MAKER_BASE + offset, offset, size);
}

void macho_maker_section(struct macho_maker *maker, const char *name, uint32_t offset,
                         uint32_t size, uint32_t flags)
{
    uint8_t *segment = maker->file + maker->segment, *section = maker->file + maker->commands_end;
    uint32_t count = load_u32(segment + SEGMENT_NSECTS, false);
    uint64_t inside = offset - load_u64(segment + SEGMENT_FILEOFF, false);

    memcpy(section + SECTION_64_SECTNAME, name, strlen(name));
    memcpy(section + SECTION_64_SEGNAME, segment + SEGMENT_SEGNAME, MACHO_NAME_SIZE);
    store_u64(section + SECTION_64_ADDR, load_u64(segment + SEGMENT_VMADDR, false) + inside, false);
    store_u64(section + SECTION_64_BYTES, size, false);
    store_u32(section + SECTION_64_OFFSET, offset, false);
    store_u32(section + SECTION_64_FLAGS, flags, false);
    store_u32(segment + SEGMENT_NSECTS, count + 1, false);
    maker->commands_end += SECTION_64_SIZE;
    store_u32(segment + COMMAND_CMDSIZE, maker->commands_end - maker->segment, false);
}

struct macho_maker *macho_maker_bare(uint64_t size)
{
    struct macho_maker *maker = calloc(1, sizeof(*maker));

    ck_assert_ptr_nonnull(maker);
    ck_assert_uint_le(size, MAKER_ROOM);
    maker->size = size;
    maker->commands_end = HEADER_SIZE;
    store_u32(maker->file, MH_MAGIC_64, false);
    store_u32(maker->file + HEADER_CPUTYPE, CPU_TYPE_X86_64, false);
    store_u32(maker->file + HEADER_FILETYPE, MH_EXECUTE, false);
    return maker;
}

struct macho_maker *macho_maker_new(void)
{
    struct macho_maker *maker = macho_maker_bare(MAKER_SIZE);

    add_segment(maker, "__TEXT", 0, MAKER_PAGE);
    add_segment(maker, "__DATA", MAKER_DATA, MAKER_DATA_PAGES * MAKER_PAGE);
    add_segment(maker, "__LLVM_COV", MAKER_COVERAGE, MAKER_PAGE);
    add_segment(maker, "__LINKEDIT", MAKER_LINKEDIT, MAKER_SIZE - MAKER_LINKEDIT);
    return maker;
}

void macho_maker_open(struct macho_maker *maker)
{
    struct buffer copy = {0};
    struct error error;

    store_u32(maker->file + HEADER_NCMDS, maker->command_count, false);
    store_u32(maker->file + HEADER_SIZEOFCMDS, maker->commands_end - HEADER_SIZE, false);
    ck_assert_uint_le(maker->commands_end, MAKER_PAGE);
    ck_assert(buffer_append(&copy, maker->file, (size_t)maker->size));
    ck_assert(input_from_buffer(&maker->input, &copy, "image", &error));
    ck_assert_msg(macho_image_open(&maker->state.image, &maker->input, &error), "%s",
                  error.message);
    maker->state.base.input = &maker->input;
    maker->state.base.options = &maker->options;
    maker->state.base.plan = image_plan_new(&maker->input, &error);
    ck_assert_ptr_nonnull(maker->state.base.plan);
    maker->state.base.code.plan = maker->state.base.plan;
    maker->state.base.code.input = &maker->input;
    maker->state.split_segment = NO_INDEX;
}

void macho_maker_free(struct macho_maker *maker)
{
    macho_image_close(&maker->state.image);
    buffer_free(&maker->state.signature.content);
    image_plan_free(maker->state.base.plan);
    input_close(&maker->input);
    free(maker);
}

void macho_maker_remove(struct macho_maker *maker, enum section_kind kind, uint32_t offset,
                        uint32_t size)
{
    image_plan_add(maker->state.base.plan,
                   &(struct section){.kind = kind,
                                     .address = MAKER_BASE + MAKER_DATA + offset,
                                     .offset = MAKER_DATA + offset,
                                     .size = size,
                                     .fate = FATE_REMOVED});
}

void macho_maker_split(struct macho_maker *maker, uint32_t offset, uint32_t size)
{
    struct macho_state *state = &maker->state;

    state->holes[state->hole_count++] = (struct macho_hole){
        .segment = MAKER_DATA_INDEX, .offset = MAKER_DATA + offset, .size = size};
    state->split_segment = MAKER_DATA_INDEX;
    state->split_fileoff = MAKER_DATA + offset + size;
}

struct buffer macho_maker_apply(struct macho_maker *maker)
{
    struct edit_script *edits = &maker->state.base.plan->edits;
    struct error error;

    ck_assert_msg(edit_script_finish(edits, "image", &error), "%s", error.message);
    return apply_forward(edits, maker->input.bytes);
}
