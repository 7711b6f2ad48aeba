/*
 * Fixups in the form of opcodes (LC_DYLD_INFO), as described in <mach-o/loader.h>: reads them, and
 * takes some out.
 *
 * Each table is a program in bytes for a virtual machine with a segment, an offset in it, and a few
 * more registers. An opcode is in the upper four bits of a byte, a small operand in the lower four,
 * and larger operands follow as LEB128 numbers.
 *
 * If some rebases go, or get a place in another segment, all of them are written anew from the list
 * of their addresses. The binds, which contain much more than addresses, stay as they are except
 * for the operands that set segment and offset: an offset only gets smaller, and its LEB128 number
 * can be padded to its old length. That matters for lazy binds, which the image's code finds by
 * their offsets.
 */
#include <string.h>

#include "formats/macho/macho.h"

#define OPCODE_MASK        0xf0u
#define IMMEDIATE_MASK     0x0fu
#define OPCODE_DONE        0x00u

#define FIXUP_TYPE_POINTER 1
#define FIXUP_POINTER_SIZE 8

enum {
    REBASE_OPCODE_SET_TYPE_IMM = 0x10,
    REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB = 0x20,
    REBASE_OPCODE_ADD_ADDR_ULEB = 0x30,
    REBASE_OPCODE_ADD_ADDR_IMM_SCALED = 0x40,
    REBASE_OPCODE_DO_REBASE_IMM_TIMES = 0x50,
    REBASE_OPCODE_DO_REBASE_ULEB_TIMES = 0x60,
    REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB = 0x70,
    REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB = 0x80,
};

/* Tells the opcodes of binds from those of rebases; not in the file. */
#define BIND 0x100u

enum {
    BIND_OPCODE_SET_DYLIB_ORDINAL_IMM = BIND | 0x10,
    BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB = BIND | 0x20,
    BIND_OPCODE_SET_DYLIB_SPECIAL_IMM = BIND | 0x30,
    BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM = BIND | 0x40,
    BIND_OPCODE_SET_TYPE_IMM = BIND | 0x50,
    BIND_OPCODE_SET_ADDEND_SLEB = BIND | 0x60,
    BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB = BIND | 0x70,
    BIND_OPCODE_ADD_ADDR_ULEB = BIND | 0x80,
    BIND_OPCODE_DO_BIND = BIND | 0x90,
    BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB = BIND | 0xa0,
    BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED = BIND | 0xb0,
    BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB = BIND | 0xc0,
};

/* The tables, by their fields in the load command. */
static const uint64_t tables[] = {DYLD_INFO_REBASE, DYLD_INFO_BIND, DYLD_INFO_WEAK_BIND,
                                  DYLD_INFO_LAZY_BIND};

static const char malformed[] = "its fixup opcodes are malformed";
static const char unknown[] = "its fixup opcodes are of a kind that covsplit does not know";

/* ---- the machine ---- */

struct interpreter {
    const struct macho_image *image;
    uint64_t table;
    struct bytes program;
    struct cursor rest;
    uint64_t place_opcode; /* offset in the program of the opcode that set the place */
    size_t segment;
    uint64_t offset;
    bool has_segment;
    unsigned type;
    uint64_t fixups; /* how many so far */
    macho_fixup_visitor visit;
    void *context;
    const char *reason;
};

static bool fail(struct interpreter *interpreter, const char *reason)
{
    interpreter->reason = reason;
    return false;
}

/* Reports `count` fixups from here on, with `skip` bytes behind each. */
static bool fix(struct interpreter *interpreter, uint64_t count, uint64_t skip)
{
    const struct macho_image *image = interpreter->image;
    const struct macho_segment *segment = &image->segments[interpreter->segment];

    if (interpreter->rest.bad)
        return fail(interpreter, malformed);
    for (uint64_t i = 0; i < count; i++) {
        struct macho_fixup fixup = {
            .segment = interpreter->segment,
            .address = segment->vmaddr + interpreter->offset,
            .is_rebase = interpreter->table == DYLD_INFO_REBASE,
            .place_opcode = interpreter->place_opcode,
        };
        struct bytes bytes;

        if (!interpreter->has_segment)
            return fail(interpreter, malformed);
        if (interpreter->type != FIXUP_TYPE_POINTER)
            return fail(interpreter, unknown);
        /* Each pointer is fixed up once: no linker writes a program with more fixups than that. */
        if (!range_within(interpreter->offset, FIXUP_POINTER_SIZE, 0, segment->filesize) ||
            !bytes_slice(image->file, segment->fileoff + interpreter->offset, FIXUP_POINTER_SIZE,
                         &bytes) ||
            interpreter->fixups++ > image->file.size / FIXUP_POINTER_SIZE)
            return fail(interpreter, malformed);
        fixup.target = load_u64(bytes.data, false);
        interpreter->offset += FIXUP_POINTER_SIZE + skip;
        if (!interpreter->visit(interpreter->context, &fixup))
            return fail(interpreter, NULL);
    }
    return true;
}

static bool set_place(struct interpreter *interpreter, unsigned segment)
{
    interpreter->place_opcode = interpreter->program.size - cursor_left(&interpreter->rest) - 1;
    interpreter->segment = segment;
    interpreter->has_segment = segment < interpreter->image->segment_count;
    interpreter->offset = cursor_uleb128(&interpreter->rest);
    return interpreter->has_segment || fail(interpreter, malformed);
}

static bool step(struct interpreter *interpreter, unsigned opcode, unsigned immediate)
{
    struct cursor *rest = &interpreter->rest;
    uint64_t count;

    switch (opcode) {
    case BIND_OPCODE_SET_DYLIB_ORDINAL_IMM:
    case BIND_OPCODE_SET_DYLIB_SPECIAL_IMM:
        return true;
    case BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB:
        cursor_uleb128(rest);
        return true;
    case BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM: /* a name follows */
        while (cursor_u8(rest) != 0)
            continue;
        return true;
    case BIND_OPCODE_SET_ADDEND_SLEB: /* a signed number, whose value does not matter */
        while ((cursor_u8(rest) & 0x80) != 0)
            continue;
        return true;
    case REBASE_OPCODE_SET_TYPE_IMM:
    case BIND_OPCODE_SET_TYPE_IMM:
        interpreter->type = immediate;
        return true;
    case REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
    case BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
        return set_place(interpreter, immediate);
    case REBASE_OPCODE_ADD_ADDR_ULEB:
    case BIND_OPCODE_ADD_ADDR_ULEB:
        interpreter->offset += cursor_uleb128(rest);
        return true;
    case REBASE_OPCODE_ADD_ADDR_IMM_SCALED:
        interpreter->offset += (uint64_t)immediate * FIXUP_POINTER_SIZE;
        return true;
    case REBASE_OPCODE_DO_REBASE_IMM_TIMES:
        return fix(interpreter, immediate, 0);
    case REBASE_OPCODE_DO_REBASE_ULEB_TIMES:
        return fix(interpreter, cursor_uleb128(rest), 0);
    case BIND_OPCODE_DO_BIND:
        return fix(interpreter, 1, 0);
    case REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB:
    case BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB:
        return fix(interpreter, 1, cursor_uleb128(rest));
    case BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED:
        return fix(interpreter, 1, (uint64_t)immediate * FIXUP_POINTER_SIZE);
    case REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB:
    case BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB:
        count = cursor_uleb128(rest);
        return fix(interpreter, count, cursor_uleb128(rest));
    default:
        return fail(interpreter, unknown);
    }
}

/* Does for one of the tables what macho_opcodes_each does. */
static bool run(const struct macho_image *image, uint64_t table, macho_fixup_visitor visit,
                void *context, const char **reason)
{
    struct interpreter interpreter = {
        .image = image,
        .table = table,
        .program = macho_linkedit_bytes(image, macho_find_dyld_info(image), table),
        /* Programs of lazy binds do not set the type. */
        .type = FIXUP_TYPE_POINTER,
        .visit = visit,
        .context = context,
    };
    bool done = true;

    interpreter.rest = cursor_open(interpreter.program, false, true);
    while (done && cursor_left(&interpreter.rest) != 0) {
        uint8_t byte = cursor_u8(&interpreter.rest);
        unsigned opcode = byte & OPCODE_MASK, immediate = byte & IMMEDIATE_MASK;

        /* Lazy binds are a sequence of programs, one for each bind. */
        if (opcode == OPCODE_DONE && table != DYLD_INFO_LAZY_BIND)
            break;
        if (opcode != OPCODE_DONE)
            done =
                step(&interpreter, table == DYLD_INFO_REBASE ? opcode : BIND | opcode, immediate);
        if (done && interpreter.rest.bad)
            done = fail(&interpreter, malformed);
    }
    *reason = interpreter.reason;
    return done;
}

bool macho_opcodes_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                        const char **reason)
{
    *reason = NULL;
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
        if (!run(image, tables[i], visit, context, reason))
            return false;
    }
    return true;
}

/* ---- taking fixups out ---- */

struct recode {
    struct macho_state *state;
    struct buffer addresses; /* of the rebases that stay, as 64-bit numbers */
    bool changed;
    struct bytes program; /* of binds */
    uint64_t place_opcode;
    bool place_is_behind; /* the fixups of this place are behind the split */
    bool has_place;
    const char *problem;
};

static bool refuse(struct recode *recode, const char *problem)
{
    recode->problem = problem;
    return false;
}

/* False if the fixup cannot stay: it is cut, or an opcode, which has four bits for the number of a
 * segment, cannot name the second part. */
static bool can_stay(struct recode *recode, enum macho_fixup_fate fate)
{
    if (fate == MACHO_FIXUP_IS_CUT)
        return refuse(recode, MACHO_FIXUP_IS_CUT_TEXT);
    return fate != MACHO_FIXUP_BEHIND || recode->state->split_segment + 1 <= IMMEDIATE_MASK ||
           refuse(recode, "opcodes of its fixups cannot name a segment behind the sixteenth");
}

static bool collect_rebase(void *context, const struct macho_fixup *fixup)
{
    struct recode *recode = context;
    enum macho_fixup_fate fate = macho_fixup_fate(recode->state, fixup->segment, fixup->address);
    uint8_t bytes[8];

    recode->changed |= fate == MACHO_FIXUP_GOES || fate == MACHO_FIXUP_BEHIND;
    if (fate == MACHO_FIXUP_GOES)
        return true;
    store_u64(bytes, fixup->address, false);
    buffer_append(&recode->addresses, bytes, sizeof(bytes));
    return can_stay(recode, fate);
}

struct place {
    size_t segment;
    uint64_t offset;
};

/* The place of an address in the stripped image. */
static struct place find_place(const struct macho_state *state, uint64_t address)
{
    struct place place = {0, 0};

    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];

        if (!range_within(address, 1, segment->vmaddr, segment->vmsize))
            continue;
        place = (struct place){i, address - segment->vmaddr};
        if (macho_fixup_fate(state, i, address) == MACHO_FIXUP_BEHIND)
            place = (struct place){i + 1, place.offset - (state->split_fileoff - segment->fileoff)};
    }
    return place;
}

static void append_opcode(struct buffer *program, unsigned opcode)
{
    uint8_t byte = (uint8_t)opcode;

    buffer_append(program, &byte, 1);
}

/* Appends opcodes that go to a place: absolute ones, or relative to `from` in the same segment. */
static void append_place(struct buffer *program, const struct place *from, struct place to)
{
    uint64_t step = to.offset - (from == NULL ? 0 : from->offset);

    if (from == NULL || from->segment != to.segment || to.offset < from->offset) {
        append_opcode(program, REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB | (unsigned)to.segment);
        buffer_append_uleb128(program, to.offset);
    } else if (step != 0 && step % FIXUP_POINTER_SIZE == 0 &&
               step / FIXUP_POINTER_SIZE <= IMMEDIATE_MASK) {
        append_opcode(program,
                      REBASE_OPCODE_ADD_ADDR_IMM_SCALED | (unsigned)(step / FIXUP_POINTER_SIZE));
    } else if (step != 0) {
        append_opcode(program, REBASE_OPCODE_ADD_ADDR_ULEB);
        buffer_append_uleb128(program, step);
    }
}

/* Appends rebases of `count` pointers, one behind the other. */
static void append_rebases(struct buffer *program, uint64_t count)
{
    if (count <= IMMEDIATE_MASK) {
        append_opcode(program, REBASE_OPCODE_DO_REBASE_IMM_TIMES | (unsigned)count);
    } else {
        append_opcode(program, REBASE_OPCODE_DO_REBASE_ULEB_TIMES);
        buffer_append_uleb128(program, count);
    }
}

static void encode_rebases(const struct recode *recode, struct buffer *program)
{
    uint64_t count = recode->addresses.size / 8, run_length;
    struct place here;

    append_opcode(program, REBASE_OPCODE_SET_TYPE_IMM | FIXUP_TYPE_POINTER);
    for (uint64_t i = 0; i < count; i += run_length) {
        uint64_t address = load_u64(recode->addresses.data + 8 * i, false);
        struct place place = find_place(recode->state, address);

        for (run_length = 1; i + run_length < count; run_length++) {
            uint64_t next = load_u64(recode->addresses.data + 8 * (i + run_length), false);

            if (next != address + run_length * FIXUP_POINTER_SIZE ||
                find_place(recode->state, next).segment != place.segment)
                break;
        }
        append_place(program, i == 0 ? NULL : &here, place);
        append_rebases(program, run_length);
        here = (struct place){place.segment, place.offset + run_length * FIXUP_POINTER_SIZE};
    }
    append_opcode(program, OPCODE_DONE);
}

static void recode_rebases(struct recode *recode)
{
    struct macho_state *state = recode->state;
    struct bytes old =
        macho_linkedit_bytes(&state->image, macho_find_dyld_info(&state->image), DYLD_INFO_REBASE);
    struct buffer program = {0};
    uint64_t growth = 0;
    const char *reason;

    run(&state->image, DYLD_INFO_REBASE, collect_rebase, recode, &reason);
    recode->problem = reason != NULL ? reason : recode->problem;
    if (recode->problem == NULL && recode->changed) {
        encode_rebases(recode, &program);
        if (program.size > old.size)
            growth = align_up(program.size - old.size, MACHO_GROWTH_UNIT);
        /* OPCODE_DONE is zero, so the rest of the table, which is zero, means nothing. */
        buffer_append_zeros(&program, (size_t)(old.size + growth - program.size));
        edit_replace(&state->base.plan->edits, (uint64_t)(old.data - state->image.file.data),
                     old.size, buffer_view(&program));
        state->rebase_growth = growth;
    }
    state->base.plan->edits.has_no_memory |= recode->addresses.failed || program.failed;
    buffer_free(&program);
    buffer_free(&recode->addresses);
}

/* Overwrites the operand of the opcode that set the place, in the same number of bytes. */
static bool move_place(struct recode *recode)
{
    struct macho_state *state = recode->state;
    const struct macho_segment *segment = &state->image.segments[state->split_segment];
    uint64_t split = state->split_fileoff - segment->fileoff, value;
    const uint8_t *old = recode->program.data + recode->place_opcode;
    struct cursor rest = {.at = old + 1, .end = recode->program.data + recode->program.size};
    uint8_t bytes[1 + 10]; /* an opcode, and a number of 64 bits */
    size_t size;

    value = cursor_uleb128(&rest);
    size = (size_t)(rest.at - old);
    if (rest.bad || value < split || size > sizeof(bytes))
        return refuse(recode, "opcodes of its fixups go from one part to the other");
    bytes[0] = (uint8_t)(BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB | (state->split_segment + 1));
    value -= split;
    for (size_t i = 1; i < size; i++, value >>= 7)
        bytes[i] = (uint8_t)((value & 0x7f) | (i + 1 < size ? 0x80u : 0));
    edit_replace(&state->base.plan->edits, (uint64_t)(old - state->image.file.data), size,
                 (struct bytes){bytes, size});
    return true;
}

static bool recode_bind(void *context, const struct macho_fixup *fixup)
{
    struct recode *recode = context;
    enum macho_fixup_fate fate = macho_fixup_fate(recode->state, fixup->segment, fixup->address);
    bool is_behind = fate == MACHO_FIXUP_BEHIND;

    if (fate == MACHO_FIXUP_IS_CUT)
        return can_stay(recode, fate);
    if (recode->has_place && fixup->place_opcode == recode->place_opcode)
        return is_behind == recode->place_is_behind ||
               refuse(recode, "opcodes of its fixups go from one part to the other");
    recode->has_place = true;
    recode->place_opcode = fixup->place_opcode;
    recode->place_is_behind = is_behind;
    return !is_behind || (can_stay(recode, fate) && move_place(recode));
}

bool macho_recode_plan(struct macho_state *state, const char **problem)
{
    const struct macho_command *dyld_info = macho_find_dyld_info(&state->image);
    struct recode recode = {.state = state};

    if (dyld_info != NULL)
        recode_rebases(&recode);
    for (size_t i = 1; i < sizeof(tables) / sizeof(*tables) && recode.problem == NULL; i++) {
        const char *reason;

        recode.program = macho_linkedit_bytes(&state->image, dyld_info, tables[i]);
        recode.has_place = false;
        if (state->split_segment == NO_INDEX || recode.program.size == 0)
            continue;
        run(&state->image, tables[i], recode_bind, &recode, &reason);
        recode.problem = reason != NULL ? reason : recode.problem;
    }
    *problem = recode.problem;
    return recode.problem == NULL && !state->base.plan->edits.has_no_memory;
}
