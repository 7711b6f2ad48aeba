/*
 * Searching code: see machine/search.h.
 *
 * Code forms addresses in instructions, which are recognized by their encoding wherever they may
 * start, so that no disassembly can get out of step. The search may see a reference where there is
 * none, and then something stays that could have gone; it never takes a reference for none. So
 * pieces overlap by more than the instructions that make one address can lie apart.
 */
#include "formats/machine/search.h"

#include "formats/machine/aarch64.h"

#define PIECE_SIZE (UINT64_C(1) << 20)
/* An operand of x86 so far behind the start of a piece has all of its instruction in it. */
#define PREFIX_MAX UINT64_C(16)
#define OVERLAP    UINT64_C(4096)

_Static_assert(OVERLAP >= PREFIX_MAX + 4 * (AARCH64_LOOK_AHEAD + 1),
               "two halves of an address could be missed");

bool code_search(const struct code_search *search, const struct code *code,
                 code_search_visitor visit, void *context)
{
    uint64_t offset = (uint64_t)(code->bytes.data - search->input->bytes.data);

    for (uint64_t start = 0; start < code->bytes.size; start += PIECE_SIZE) {
        uint64_t left = code->bytes.size - start, position = 0;
        uint64_t size = left < PIECE_SIZE + OVERLAP ? left : PIECE_SIZE + OVERLAP;
        struct bytes piece = {code->bytes.data + start, size};

        /* What starts further on is found in the next piece, with all that follows it. */
        while (accessor_find_reference(search->machine, piece, code->address + start,
                                       &search->target, &position) &&
               (position < PIECE_SIZE + PREFIX_MAX || size == left)) {
            if (!visit(context, code->address + start + position))
                return false;
            position++;
        }
        input_release_pages(search->input, offset + start, size);
    }
    return true;
}
