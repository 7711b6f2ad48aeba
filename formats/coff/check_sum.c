/*
 * The checksum of COFF images: see coff/check_sum.h.
 *
 * The UUID may be a digest that is known only when the plan is made. A sum does not care for order,
 * so the words of what has the UUID in it are added when it comes.
 */
#include "formats/coff/check_sum.h"

#include "formats/runtime/stub.h"

#define PIECE_SIZE (UINT64_C(4) << 20)

struct summing {
    uint64_t words;
    uint64_t position; /* in the result */
};

static void add_bytes(struct summing *sum, struct bytes bytes)
{
    uint64_t i = 0, words = 0;

    sum->position += bytes.size;
    if ((sum->position - bytes.size) % 2 != 0 && bytes.size != 0)
        words += (uint64_t)bytes.data[i++] << 8;
    for (; i + 2 <= bytes.size; i += 2)
        words += load_u16(bytes.data + i, false);
    if (i < bytes.size)
        words += bytes.data[i];
    sum->words += words;
}

static void add_input(struct summing *sum, const struct input *input, uint64_t start, uint64_t end)
{
    while (start < end) {
        uint64_t size = end - start < PIECE_SIZE ? end - start : PIECE_SIZE;
        struct bytes piece;

        if (!bytes_slice(input->bytes, start, size, &piece))
            return;
        add_bytes(sum, piece);
        input_release_pages(input, start, size);
        start += size;
    }
}

void coff_check_sum_plan(struct image_plan *plan, const struct input *input)
{
    struct summing sum = {0};
    uint64_t position = 0;

    for (size_t i = 0; i < plan->edits.count; i++) {
        const struct edit *edit = &plan->edits.edits[i];

        add_input(&sum, input, position, edit->offset);
        if (edit->literal == EDIT_ZEROS)
            sum.position += edit->new_size;
        else
            add_bytes(&sum, edit_new_bytes(&plan->edits, edit));
        if (edit->literal == plan->tripwire_literal)
            plan->tripwire_is_odd = (sum.position - edit->new_size) % 2 != 0;
        position = edit->offset + edit->old_size;
    }
    add_input(&sum, input, position, input->bytes.size);
    plan->check_sum_words = sum.words;
    coff_check_sum_store(plan);
}

void coff_check_sum_store(struct image_plan *plan)
{
    uint8_t *literals = plan->edits.literals.data;
    struct summing stub = {0}, tripwire = {.position = plan->tripwire_is_odd};
    uint64_t words = plan->check_sum_words;

    /* The stub is at an even place: it is aligned like any record. */
    if (plan->stub_uuid_literal != SIZE_MAX)
        add_bytes(&stub, (struct bytes){literals + plan->stub_uuid_literal, STUB_UUID_SIZE});
    if (plan->tripwire_literal != SIZE_MAX)
        add_bytes(&tripwire,
                  (struct bytes){literals + plan->tripwire_literal, plan->tripwire_size});
    words += stub.words + tripwire.words;
    while (words >> 16 != 0)
        words = (words & 0xffff) + (words >> 16);
    store_u32(literals + plan->check_sum_literal,
              (uint32_t)(words + edit_script_result_size(&plan->edits)), false);
}
