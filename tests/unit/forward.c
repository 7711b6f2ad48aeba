/*
 * See forward.h.
 */
#include "tests/unit/forward.h"

#include <check.h>

struct buffer apply_forward(const struct edit_script *script, struct bytes original)
{
    struct buffer result = {0};
    uint64_t position = 0;

    for (size_t i = 0; i < script->count; i++) {
        const struct edit *edit = &script->edits[i];

        ck_assert(
            buffer_append(&result, original.data + position, (size_t)(edit->offset - position)));
        if (edit->literal == EDIT_ZEROS) {
            ck_assert(buffer_append_zeros(&result, (size_t)edit->new_size));
        } else {
            struct bytes new_bytes = edit_new_bytes(script, edit);
            ck_assert(buffer_append(&result, new_bytes.data, (size_t)new_bytes.size));
        }
        position = edit->offset + edit->old_size;
    }
    ck_assert(buffer_append(&result, original.data + position, (size_t)(original.size - position)));
    return result;
}
