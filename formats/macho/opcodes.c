/*
 * Reads fixups in the form of opcodes (LC_DYLD_INFO), as described in <mach-o/loader.h>.
 *
 * Each table is a program in bytes for a virtual machine with a segment, an offset in it, and a few
 * more registers. An opcode is in the upper four bits of a byte, a small operand in the lower four,
 * and larger operands follow as LEB128 numbers.
 */
#include "formats/macho/opcodes.h"

#include <string.h>

static const char malformed[] = "its fixup opcodes are malformed";

/* The state of the machine: what programs for rebases and for binds have in common. */
struct machine {
    const struct macho_image *image;
    struct bytes program;
    struct bytes rest;
    uint64_t place_opcode; /* offset in the program of the opcode that set the place */
    size_t segment;
    uint64_t offset;
    bool has_segment;
    unsigned type;
    uint64_t fixups; /* how many so far */
    macho_fixup_visitor visit;
    void *context;
    const char **reason;
};

static bool fail(const struct machine *machine, const char *reason)
{
    *machine->reason = reason;
    return false;
}

static bool take_uleb(struct machine *machine, uint64_t *value)
{
    return bytes_take_uleb128(&machine->rest, value) || fail(machine, malformed);
}

/* Skips a signed LEB128 number, whose value does not matter. */
static bool skip_leb(struct machine *machine)
{
    while (machine->rest.size != 0) {
        uint8_t byte = machine->rest.data[0];

        bytes_slice(machine->rest, 1, machine->rest.size - 1, &machine->rest);
        if ((byte & 0x80) == 0)
            return true;
    }
    return fail(machine, malformed);
}

static bool skip_string(struct machine *machine)
{
    const uint8_t *end = machine->rest.size == 0
                             ? NULL
                             : memchr(machine->rest.data, '\0', (size_t)machine->rest.size);
    uint64_t length;

    if (end == NULL)
        return fail(machine, malformed);
    length = (uint64_t)(end - machine->rest.data) + 1;
    return bytes_slice(machine->rest, length, machine->rest.size - length, &machine->rest);
}

static bool set_segment(struct machine *machine, unsigned index)
{
    machine->place_opcode = machine->program.size - machine->rest.size - 1;
    machine->segment = index;
    machine->has_segment = index < machine->image->segment_count;
    return machine->has_segment ? take_uleb(machine, &machine->offset) : fail(machine, malformed);
}

/* Reports one fixup here, and moves on to the next place. */
static bool fix(struct machine *machine, bool is_rebase, uint64_t skip)
{
    const struct macho_segment *segment = &machine->image->segments[machine->segment];
    struct macho_fixup fixup = {
        .segment = machine->segment,
        .is_rebase = is_rebase,
        .place_opcode = machine->place_opcode,
    };
    struct bytes bytes;

    if (!machine->has_segment || machine->type != FIXUP_TYPE_POINTER)
        return fail(machine, machine->has_segment
                                 ? "its fixup opcodes are of a kind that covsplit does not know"
                                 : malformed);
    if (!range_within(machine->offset, FIXUP_POINTER_SIZE, 0, segment->filesize) ||
        !bytes_slice(machine->image->file, segment->fileoff + machine->offset, FIXUP_POINTER_SIZE,
                     &bytes))
        return fail(machine, malformed);
    /* Each pointer is fixed up once: no linker writes a program with more fixups than that. */
    if (machine->fixups++ > machine->image->file.size / FIXUP_POINTER_SIZE)
        return fail(machine, malformed);
    fixup.address = segment->vmaddr + machine->offset;
    fixup.target = load_u64(bytes.data, false);
    machine->offset += FIXUP_POINTER_SIZE + skip;
    return machine->visit(machine->context, &fixup) || fail(machine, NULL);
}

static bool fix_times(struct machine *machine, bool is_rebase, uint64_t count, uint64_t skip)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!fix(machine, is_rebase, skip))
            return false;
    }
    return true;
}

/* ---- rebases ---- */

static bool rebase_step(struct machine *machine, unsigned opcode, unsigned immediate)
{
    uint64_t count, skip;

    switch (opcode) {
    case REBASE_OPCODE_SET_TYPE_IMM:
        machine->type = immediate;
        return true;
    case REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
        return set_segment(machine, immediate);
    case REBASE_OPCODE_ADD_ADDR_ULEB:
        if (!take_uleb(machine, &skip))
            return false;
        machine->offset += skip;
        return true;
    case REBASE_OPCODE_ADD_ADDR_IMM_SCALED:
        machine->offset += (uint64_t)immediate * FIXUP_POINTER_SIZE;
        return true;
    case REBASE_OPCODE_DO_REBASE_IMM_TIMES:
        return fix_times(machine, true, immediate, 0);
    case REBASE_OPCODE_DO_REBASE_ULEB_TIMES:
        return take_uleb(machine, &count) && fix_times(machine, true, count, 0);
    case REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB:
        return take_uleb(machine, &skip) && fix(machine, true, skip);
    case REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB:
        return take_uleb(machine, &count) && take_uleb(machine, &skip) &&
               fix_times(machine, true, count, skip);
    default:
        return fail(machine, "its fixup opcodes are of a kind that covsplit does not know");
    }
}

/* ---- binds ---- */

static bool bind_step(struct machine *machine, unsigned opcode, unsigned immediate)
{
    uint64_t count, skip;

    switch (opcode) {
    case BIND_OPCODE_SET_DYLIB_ORDINAL_IMM:
    case BIND_OPCODE_SET_DYLIB_SPECIAL_IMM:
        return true;
    case BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB:
        return take_uleb(machine, &skip);
    case BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM:
        return skip_string(machine);
    case BIND_OPCODE_SET_TYPE_IMM:
        machine->type = immediate;
        return true;
    case BIND_OPCODE_SET_ADDEND_SLEB:
        return skip_leb(machine);
    case BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
        return set_segment(machine, immediate);
    case BIND_OPCODE_ADD_ADDR_ULEB:
        if (!take_uleb(machine, &skip))
            return false;
        machine->offset += skip;
        return true;
    case BIND_OPCODE_DO_BIND:
        return fix(machine, false, 0);
    case BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB:
        return take_uleb(machine, &skip) && fix(machine, false, skip);
    case BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED:
        return fix(machine, false, (uint64_t)immediate * FIXUP_POINTER_SIZE);
    case BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB:
        return take_uleb(machine, &count) && take_uleb(machine, &skip) &&
               fix_times(machine, false, count, skip);
    default:
        return fail(machine, "its fixup opcodes are of a kind that covsplit does not know");
    }
}

/* ---- programs ---- */

static bool run(struct machine *machine, enum opcode_table table)
{
    while (machine->rest.size != 0) {
        unsigned opcode = machine->rest.data[0] & OPCODE_MASK;
        unsigned immediate = machine->rest.data[0] & IMMEDIATE_MASK;

        bytes_slice(machine->rest, 1, machine->rest.size - 1, &machine->rest);
        if (opcode == OPCODE_DONE) {
            /* Lazy binds are a sequence of programs, one for each bind. */
            if (table == OPCODES_LAZY_BIND)
                continue;
            return true;
        }
        if (table == OPCODES_REBASE ? !rebase_step(machine, opcode, immediate)
                                    : !bind_step(machine, opcode, immediate))
            return false;
    }
    return true;
}

const struct macho_command *macho_dyld_info(const struct macho_image *image)
{
    const struct macho_command *command = macho_find_command(image, LC_DYLD_INFO_ONLY);

    return command != NULL ? command : macho_find_command(image, LC_DYLD_INFO);
}

struct bytes macho_opcodes(const struct macho_image *image, enum opcode_table table)
{
    static const uint64_t fields[] = {
        [OPCODES_REBASE] = DYLD_INFO_REBASE,
        [OPCODES_BIND] = DYLD_INFO_BIND,
        [OPCODES_WEAK_BIND] = DYLD_INFO_WEAK_BIND,
        [OPCODES_LAZY_BIND] = DYLD_INFO_LAZY_BIND,
    };

    return macho_linkedit_bytes(image, macho_dyld_info(image), fields[table]);
}

bool macho_opcodes_run(const struct macho_image *image, enum opcode_table table,
                       macho_fixup_visitor visit, void *context, const char **reason)
{
    struct machine machine = {
        .image = image,
        .program = macho_opcodes(image, table),
        /* Programs of lazy binds do not set the type. */
        .type = FIXUP_TYPE_POINTER,
        .visit = visit,
        .context = context,
        .reason = reason,
    };

    *reason = NULL;
    machine.rest = machine.program;
    return run(&machine, table);
}

bool macho_opcodes_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                        const char **reason)
{
    *reason = NULL;
    for (unsigned table = 0; table < OPCODE_TABLES; table++) {
        if (!macho_opcodes_run(image, (enum opcode_table)table, visit, context, reason))
            return false;
    }
    return true;
}
