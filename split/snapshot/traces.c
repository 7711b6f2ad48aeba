/*
 * Traces of coverage: see traces.h.
 */
#include "split/snapshot/traces.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/llvm/tripwire.h"

/* The runtime's messages start like this, in all versions. */
#define RUNTIME_TEXT "LLVM Profile Error: "

#define PIECE_SIZE   (1 << 18)
/* What may begin in one piece and end in the next. */
#define OVERLAP TRIPWIRE_SIZE_MAX

static const uint8_t *find(struct bytes where, const char *text)
{
    return memmem(where.data, (size_t)where.size, text, strlen(text));
}

static void look_for_tripwire(struct bytes piece, struct traces *traces)
{
    const uint8_t *text;
    struct bytes tripwire;
    bool is_prefix;

    while ((text = find(piece, TRIPWIRE_TEXT)) != NULL) {
        uint64_t offset = (uint64_t)(text - piece.data);
        struct bytes from = {text - TRIPWIRE_TEXT_OFFSET,
                             piece.size - offset + TRIPWIRE_TEXT_OFFSET};

        if (offset >= TRIPWIRE_TEXT_OFFSET && tripwire_find(from, &tripwire)) {
            traces->is_split = true;
            if (!tripwire_read_uuid(tripwire, &traces->uuid, &is_prefix) || is_prefix)
                traces->uuid.size = 0;
            return;
        }
        piece = (struct bytes){text + 1, piece.size - offset - 1};
    }
}

/* The UUID in the stub record, which is where the program can write. The build ID itself is not. */
static void look_for_stub(struct bytes piece, const struct module *module, struct traces *traces)
{
    uint8_t stub[UUID_STUB_SIZE];

    uuid_stub(&module->uuid, stub);
    if (module->uuid.size != 0 &&
        memmem(piece.data, (size_t)piece.size, stub, sizeof(stub)) != NULL)
        traces->is_split = true;
}

static bool search_segment(struct memory *memory, const struct module *module,
                           const struct elf_segment *load, struct buffer *buffer,
                           struct traces *traces, struct error *error)
{
    size_t kept = 0;

    for (uint64_t done = 0; done < load->memory_size && !traces->is_split;) {
        uint64_t left = load->memory_size - done;
        size_t size = (size_t)(left < PIECE_SIZE ? left : PIECE_SIZE), got;
        struct bytes piece;

        if (!memory->operations->read(memory, module_address(module, load->address + done),
                                      buffer->data + kept, size, &got, error))
            return false;
        if (got == 0) {
            traces->is_whole = false;
            break;
        }
        done += got;
        kept += got;
        piece = (struct bytes){buffer->data, kept};
        look_for_tripwire(piece, traces);
        if ((load->flags & PF_W) != 0)
            look_for_stub(piece, module, traces);
        traces->has_runtime |= find(piece, RUNTIME_TEXT) != NULL;
        got = kept < OVERLAP ? kept : OVERLAP;
        memmove(buffer->data, buffer->data + kept - got, got);
        kept = got;
    }
    return true;
}

bool traces_find(struct memory *memory, const struct module *module, struct traces *traces,
                 struct error *error)
{
    struct buffer buffer = {0};
    bool done = buffer_reserve(&buffer, PIECE_SIZE + OVERLAP) ||
                error_out_of_memory(error, module->name, PIECE_SIZE);

    *traces = (struct traces){.is_whole = true};
    for (size_t i = 0; done && i < module->load_count; i++)
        done = search_segment(memory, module, &module->loads[i], &buffer, traces, error);
    buffer_free(&buffer);
    return done;
}
