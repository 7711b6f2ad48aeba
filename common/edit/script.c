/*
 * Building, mapping and applying edit scripts: see edit.h.
 *
 * There are few edits (a cut for each removed section, an overwrite for each changed header), so
 * the script is a plain array that is sorted once. Its size does not depend on the image's. When it
 * is applied, each piece of the original is digested, written if it is kept, and then its pages are
 * released, all while it is in the processor's cache.
 */
#include "common/edit/edit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/array.h"

/* Two runs of differing bytes closer than this become one edit: a separate edit would cost as many
 * bytes in the sidecar as it saves. */
#define DIFFERENCE_GAP 8

/* Bytes of the original that are read at a time. */
#define PIECE_SIZE (UINT64_C(1) << 20)

void edit_script_init(struct edit_script *script, uint64_t original_size)
{
    *script = (struct edit_script){.original_size = original_size};
}

void edit_script_free(struct edit_script *script)
{
    free(script->edits);
    buffer_free(&script->literals);
    buffer_free(&script->tables.recipe);
    *script = (struct edit_script){0};
}

static bool add_edit(struct edit_script *script, struct edit edit)
{
    if (!range_within(edit.offset, edit.old_size, 0, script->original_size)) {
        script->is_misplaced = true;
        return false;
    }
    if (edit.old_size == 0 && edit.new_size == 0)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(script->edits, script->capacity, script->count)) {
        script->has_no_memory = true;
        return false;
    }
    script->edits[script->count++] = edit;
    return true;
}

bool edit_replace(struct edit_script *script, uint64_t offset, uint64_t old_size,
                  struct bytes new_bytes)
{
    size_t literal = script->literals.size;

    if (!buffer_append(&script->literals, new_bytes.data, (size_t)new_bytes.size)) {
        script->has_no_memory = true;
        return false;
    }
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

    if (!bytes_slice(original, offset, new_bytes.size, &old_bytes)) {
        script->is_misplaced = true;
        return false;
    }
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

/* ---- applying ---- */

struct pass {
    const struct edit_script *script;
    const struct input *original;
    bytes_sink sink; /* NULL: only compute the original's digest */
    void *context;
    struct digest_stream *original_digest; /* NULL: not wanted */
};

/* Processes [start, end) of the original; `keep` says whether it is part of the result. */
static bool advance(struct pass *pass, uint64_t start, uint64_t end, bool keep, struct error *error)
{
    while (start < end) {
        uint64_t size = end - start < PIECE_SIZE ? end - start : PIECE_SIZE;
        struct bytes piece;

        if (!bytes_slice(pass->original->bytes, start, size, &piece))
            return file_report_change(pass->original->path, error);
        if (pass->original_digest != NULL)
            digest_stream_add(pass->original_digest, piece);
        if (keep && !pass->sink(pass->context, piece, error))
            return report_if_truncated(pass->original->path, error);
        input_release_pages(pass->original, start, size);
        start += size;
    }
    return true;
}

static bool emit_new_bytes(struct pass *pass, const struct edit *edit, struct error *error)
{
    static const uint8_t zeros[4096];
    uint64_t left = edit->new_size;

    if (edit->literal != EDIT_ZEROS)
        return pass->sink(pass->context, edit_new_bytes(pass->script, edit), error);
    while (left != 0) {
        uint64_t size = left < sizeof(zeros) ? left : sizeof(zeros);
        if (!pass->sink(pass->context, (struct bytes){zeros, size}, error))
            return false;
        left -= size;
    }
    return true;
}

static bool apply(struct pass *pass, struct error *error)
{
    uint64_t position = 0;

    for (size_t i = 0; i < pass->script->count; i++) {
        const struct edit *edit = &pass->script->edits[i];

        if (!advance(pass, position, edit->offset, true, error) ||
            !advance(pass, edit->offset, edit->offset + edit->old_size, false, error) ||
            !emit_new_bytes(pass, edit, error))
            return false;
        position = edit->offset + edit->old_size;
    }
    return advance(pass, position, pass->original->bytes.size, true, error);
}

bool edit_script_stream(const struct edit_script *script, const struct input *original,
                        bytes_sink sink, void *context, struct error *error)
{
    struct pass pass = {script, original, sink, context, NULL};

    return apply(&pass, error);
}

struct digested_output {
    struct output *output;
    struct digest_stream digest;
};

static bool write_and_digest(void *context, struct bytes part, struct error *error)
{
    struct digested_output *digested = context;

    digest_stream_add(&digested->digest, part);
    return output_write(digested->output, part, error);
}

bool edit_script_apply(const struct edit_script *script, const struct input *original,
                       struct output *output, struct digest *original_digest,
                       struct digest *result_digest, struct error *error)
{
    struct digest_stream original_stream;
    struct digested_output digested = {.output = output};
    struct pass pass = {script, original, write_and_digest, &digested, &original_stream};

    digest_stream_start(&original_stream);
    digest_stream_start(&digested.digest);
    if (!apply(&pass, error))
        return false;
    *original_digest = digest_stream_finish(&original_stream);
    *result_digest = digest_stream_finish(&digested.digest);
    return true;
}

bool input_digest(const struct input *input, struct digest *digest, struct error *error)
{
    struct digest_stream stream;
    struct pass pass = {.original = input, .original_digest = &stream};

    digest_stream_start(&stream);
    if (!advance(&pass, 0, input->bytes.size, false, error))
        return false;
    *digest = digest_stream_finish(&stream);
    return true;
}
