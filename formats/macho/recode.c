/*
 * Removes fixups from opcodes, and gives those of a split segment their new places; macho/opcodes.c
 * explains the opcodes.
 *
 * The rebases are written anew from the list of their addresses. The binds, which contain much more
 * than addresses, stay as they are except for the operands that set segment and offset: an offset
 * only gets smaller, and its LEB128 number can be padded to its old length. That matters for lazy
 * binds, which the image's code finds by their offsets.
 */
#include <stdlib.h>

#include "formats/macho/opcodes.h"
#include "formats/macho/state.h"

/* Unit in bytes of what is inserted into __LINKEDIT, so that everything behind it stays aligned. */
#define GROWTH_UNIT 16

struct recode {
    struct macho_state *state;
    struct buffer addresses; /* of the rebases that stay, as 64-bit numbers */
    bool changed;
    /* For binds. */
    uint64_t table_offset; /* in the file */
    bool has_place;
    uint64_t place_opcode;
    bool place_is_behind; /* the fixups of this place are behind the split */
    const char *problem;
};

struct place {
    size_t segment;
    uint64_t offset;
};

static bool is_behind_split(const struct macho_state *state, size_t segment, uint64_t address)
{
    const struct macho_segment *holder = &state->image.segments[segment];

    return segment == state->split_segment &&
           address - holder->vmaddr >= state->split_fileoff - holder->fileoff;
}

static bool is_cut(struct recode *recode, const struct macho_fixup *fixup)
{
    const struct macho_segment *segment = &recode->state->image.segments[fixup->segment];

    if (!macho_cuts(recode->state, segment->fileoff + (fixup->address - segment->vmaddr)))
        return false;
    recode->problem = "dyld applies fixups outside all sections";
    return true;
}

/* An opcode has four bits for the number of a segment. */
static bool can_name_second_part(struct recode *recode)
{
    if (recode->state->split_segment + 1 <= IMMEDIATE_MASK)
        return true;
    recode->problem = "opcodes of its fixups cannot name a segment behind the sixteenth";
    return false;
}

/* ---- rebases ---- */

static bool collect_rebase(void *context, const struct macho_fixup *fixup)
{
    struct recode *recode = context;
    bool is_behind = is_behind_split(recode->state, fixup->segment, fixup->address);
    uint8_t bytes[8];

    if (macho_removes_fixup(recode->state, fixup->address)) {
        recode->changed = true;
        return true;
    }
    if (is_cut(recode, fixup) || (is_behind && !can_name_second_part(recode)))
        return false;
    recode->changed |= is_behind;
    store_u64(bytes, fixup->address, false);
    return buffer_append(&recode->addresses, bytes, sizeof(bytes));
}

/* The place of an address in the stripped image. */
static struct place find_place(const struct macho_state *state, uint64_t address)
{
    struct place place = {0, 0};

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        if (!range_within(address, 1, segment->vmaddr, segment->vmsize))
            continue;
        place = (struct place){i, address - segment->vmaddr};
        if (is_behind_split(state, i, address))
            place = (struct place){i + 1, place.offset - (state->split_fileoff - segment->fileoff)};
    }
    return place;
}

static bool append_opcode(struct buffer *program, unsigned opcode)
{
    uint8_t byte = (uint8_t)opcode;

    return buffer_append(program, &byte, 1);
}

/* Appends opcodes that go to a place: absolute ones, or relative to `from` in the same segment. */
static bool append_place(struct buffer *program, const struct place *from, struct place to)
{
    uint64_t step = to.offset - (from == NULL ? 0 : from->offset);

    if (from == NULL || from->segment != to.segment || to.offset < from->offset)
        return append_opcode(program,
                             REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB | (unsigned)to.segment) &&
               buffer_append_uleb128(program, to.offset);
    if (step == 0)
        return true;
    if (step % FIXUP_POINTER_SIZE == 0 && step / FIXUP_POINTER_SIZE <= IMMEDIATE_MASK)
        return append_opcode(program, REBASE_OPCODE_ADD_ADDR_IMM_SCALED |
                                          (unsigned)(step / FIXUP_POINTER_SIZE));
    return append_opcode(program, REBASE_OPCODE_ADD_ADDR_ULEB) &&
           buffer_append_uleb128(program, step);
}

static bool append_rebases(struct buffer *program, uint64_t count)
{
    if (count <= IMMEDIATE_MASK)
        return append_opcode(program, REBASE_OPCODE_DO_REBASE_IMM_TIMES | (unsigned)count);
    return append_opcode(program, REBASE_OPCODE_DO_REBASE_ULEB_TIMES) &&
           buffer_append_uleb128(program, count);
}

static bool encode_rebases(const struct recode *recode, struct buffer *program)
{
    uint64_t count = recode->addresses.size / 8, run;
    struct place here;
    bool has_place = false;

    if (!append_opcode(program, REBASE_OPCODE_SET_TYPE_IMM | FIXUP_TYPE_POINTER))
        return false;
    for (uint64_t i = 0; i < count; i += run) {
        uint64_t address = load_u64(recode->addresses.data + 8 * i, false);
        struct place place = find_place(recode->state, address);

        for (run = 1; i + run < count; run++) {
            uint64_t next = load_u64(recode->addresses.data + 8 * (i + run), false);
            if (next != address + run * FIXUP_POINTER_SIZE ||
                find_place(recode->state, next).segment != place.segment)
                break;
        }
        if (!append_place(program, has_place ? &here : NULL, place) ||
            !append_rebases(program, run))
            return false;
        here = (struct place){place.segment, place.offset + run * FIXUP_POINTER_SIZE};
        has_place = true;
    }
    return append_opcode(program, OPCODE_DONE);
}

static bool recode_rebases(struct recode *recode)
{
    struct macho_state *state = recode->state;
    struct bytes old = macho_opcodes(&state->image, OPCODES_REBASE);
    struct buffer program = {0};
    uint64_t growth = 0;
    const char *reason;
    bool done;

    if (!macho_opcodes_run(&state->image, OPCODES_REBASE, collect_rebase, recode, &reason)) {
        recode->problem = reason != NULL ? reason : recode->problem;
        return false;
    }
    if (!recode->changed)
        return true;
    done = encode_rebases(recode, &program);
    if (done && program.size > old.size)
        growth = align_up(program.size - old.size, GROWTH_UNIT);
    /* OPCODE_DONE is zero, so the rest of the table, which is zero, means nothing. */
    done = done && buffer_append_zeros(&program, (size_t)(old.size + growth - program.size)) &&
           edit_replace(&state->base.plan->edits, (uint64_t)(old.data - state->image.file.data),
                        old.size, buffer_view(&program));
    state->rebase_growth = growth;
    buffer_free(&program);
    return done;
}

/* ---- binds ---- */

/* Overwrites the operand of the opcode that set the place, in the same number of bytes. */
static bool move_place(struct recode *recode)
{
    struct macho_state *state = recode->state;
    const struct macho_segment *segment = &state->image.segments[state->split_segment];
    uint64_t split = state->split_fileoff - segment->fileoff, value;
    uint64_t position = recode->table_offset + recode->place_opcode;
    struct bytes old, rest;
    struct buffer bytes = {0};
    size_t size;
    bool done;

    bytes_slice(state->image.file, position, state->image.file.size - position, &old);
    bytes_slice(old, 1, old.size - 1, &rest);
    if (!bytes_take_uleb128(&rest, &value) || value < split) {
        recode->problem = "opcodes of its fixups go from one part to the other";
        return false;
    }
    size = (size_t)(old.size - rest.size);
    done = append_opcode(&bytes, BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB |
                                     (unsigned)(state->split_segment + 1));
    value -= split;
    for (size_t i = 1; done && i < size; i++, value >>= 7)
        done = append_opcode(&bytes, (unsigned)(value & 0x7f) | (i + 1 < size ? 0x80u : 0));
    done = done && edit_replace(&state->base.plan->edits, position, size, buffer_view(&bytes));
    buffer_free(&bytes);
    return done;
}

static bool recode_bind(void *context, const struct macho_fixup *fixup)
{
    struct recode *recode = context;
    bool is_behind = is_behind_split(recode->state, fixup->segment, fixup->address);

    if (is_cut(recode, fixup))
        return false;
    if (recode->has_place && fixup->place_opcode == recode->place_opcode) {
        if (is_behind == recode->place_is_behind)
            return true;
        recode->problem = "opcodes of its fixups go from one part to the other";
        return false;
    }
    recode->has_place = true;
    recode->place_opcode = fixup->place_opcode;
    recode->place_is_behind = is_behind;
    return !is_behind || (can_name_second_part(recode) && move_place(recode));
}

static bool recode_binds(struct recode *recode, enum opcode_table table)
{
    const struct macho_image *image = &recode->state->image;
    struct bytes program = macho_opcodes(image, table);
    const char *reason;

    if (recode->state->split_segment == NO_INDEX || program.size == 0)
        return true;
    recode->table_offset = (uint64_t)(program.data - image->file.data);
    recode->has_place = false;
    return macho_opcodes_run(image, table, recode_bind, recode, &reason);
}

bool macho_recode_plan(struct macho_state *state, const char **problem)
{
    struct recode recode = {.state = state};
    bool done =
        macho_dyld_info(&state->image) == NULL ||
        (recode_rebases(&recode) && recode_binds(&recode, OPCODES_BIND) &&
         recode_binds(&recode, OPCODES_WEAK_BIND) && recode_binds(&recode, OPCODES_LAZY_BIND));

    *problem = recode.problem;
    buffer_free(&recode.addresses);
    return done;
}
