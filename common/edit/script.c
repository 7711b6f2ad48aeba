/*
 * Building, checking and mapping edit scripts: see edit/script.h.
 *
 * There are few edits (a cut for each removed section, an overwrite for each changed header), so
 * the script is a plain array that is sorted once. Its size does not depend on the image's.
 */
#include "common/edit/script.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/array.h"

/* Two runs of differing bytes closer than this become one edit: a separate edit would cost as many
 * bytes in the sidecar as it saves. */
#define DIFFERENCE_GAP 8

void edit_script_init(struct edit_script *script, uint64_t original_size)
{
    *script = (struct edit_script){.original_size = original_size};
}

void edit_script_free(struct edit_script *script)
{
    free(script->edits);
    buffer_free(&script->literals);
    *script = (struct edit_script){0};
}

static bool no_memory(struct edit_script *script)
{
    script->has_no_memory = true;
    return false;
}

static bool misplaced(struct edit_script *script)
{
    script->is_misplaced = true;
    return false;
}

static bool add_edit(struct edit_script *script, struct edit edit)
{
    if (!range_within(edit.offset, edit.old_size, 0, script->original_size))
        return misplaced(script);
    if (edit.old_size == 0 && edit.new_size == 0)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(script->edits, script->capacity, script->count))
        return no_memory(script);
    script->edits[script->count++] = edit;
    return true;
}

bool edit_replace(struct edit_script *script, uint64_t offset, uint64_t old_size,
                  struct bytes new_bytes)
{
    size_t literal = script->literals.size;

    if (!buffer_append(&script->literals, new_bytes.data, (size_t)new_bytes.size))
        return no_memory(script);
    return add_edit(script, (struct edit){offset, old_size, new_bytes.size, literal, 0});
}

bool edit_replace_by_zeros(struct edit_script *script, uint64_t offset, uint64_t old_size,
                           uint64_t new_size)
{
    return add_edit(script, (struct edit){offset, old_size, new_size, EDIT_ZEROS, 0});
}

bool edit_cut(struct edit_script *script, uint64_t offset, uint64_t size)
{
    return edit_replace_by_zeros(script, offset, size, 0);
}

bool edit_overwrite_differences(struct edit_script *script, struct bytes original, uint64_t offset,
                                struct bytes new_bytes)
{
    struct bytes old_bytes;
    uint64_t i = 0;

    if (!bytes_slice(original, offset, new_bytes.size, &old_bytes))
        return misplaced(script);
    while (i < new_bytes.size) {
        uint64_t start, end, j;

        if (old_bytes.data[i] == new_bytes.data[i]) {
            i++;
            continue;
        }
        start = i;
        end = i + 1;
        for (j = end; j < new_bytes.size && j - end < DIFFERENCE_GAP; j++) {
            if (old_bytes.data[j] != new_bytes.data[j])
                end = j + 1;
        }
        if (!edit_replace(script, offset + start, end - start,
                          (struct bytes){new_bytes.data + start, end - start}))
            return false;
        i = end;
    }
    return true;
}

static int compare_edits(const void *left, const void *right)
{
    const struct edit *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    /* An insertion comes before a replacement at the same offset. */
    if (a->old_size != b->old_size)
        return a->old_size < b->old_size ? -1 : 1;
    return 0;
}

bool edit_script_finish(struct edit_script *script, const char *name, struct error *error)
{
    uint64_t shift = 0;

    if (script->has_no_memory)
        return error_out_of_memory(error, name, script->literals.size);
    if (script->is_misplaced)
        return error_set(
            error,
            "%s: an edit is outside the image, so the image has a layout that covsplit "
            "does not understand; leave sections out with --sections, and report this",
            name);
    if (script->count != 0)
        qsort(script->edits, script->count, sizeof(*script->edits), compare_edits);
    for (size_t i = 0; i < script->count; i++) {
        struct edit *edit = &script->edits[i];
        const struct edit *before = i == 0 ? NULL : edit - 1;

        if (before != NULL && (before->offset + before->old_size > edit->offset ||
                               (before->offset == edit->offset && edit->old_size == 0)))
            return error_set(error,
                             "%s: two edits meet at offset %" PRIu64
                             ", so the image has a layout that covsplit does not understand; "
                             "leave sections out with --sections, and report this",
                             name, edit->offset);
        shift += edit->new_size - edit->old_size;
        edit->shift = shift;
    }
    return true;
}

uint64_t edit_script_result_size(const struct edit_script *script)
{
    return script->original_size +
           (script->count == 0 ? 0 : script->edits[script->count - 1].shift);
}

/* The number of edits that end at or before the offset. */
static size_t edits_before(const struct edit_script *script, uint64_t offset)
{
    size_t low = 0, high = script->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct edit *edit = &script->edits[middle];
        if (edit->offset + edit->old_size <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t edit_script_map(const struct edit_script *script, uint64_t offset)
{
    size_t index = edits_before(script, offset);
    uint64_t result = offset + (index == 0 ? 0 : script->edits[index - 1].shift);

    if (index < script->count && script->edits[index].offset < offset) {
        uint64_t inside = offset - script->edits[index].offset;
        uint64_t new_size = script->edits[index].new_size;
        if (inside > new_size)
            result -= inside - new_size;
    }
    return result;
}

struct bytes edit_new_bytes(const struct edit_script *script, const struct edit *edit)
{
    struct bytes view = {0};

    bytes_slice(buffer_view(&script->literals), edit->literal, edit->new_size, &view);
    return view;
}
