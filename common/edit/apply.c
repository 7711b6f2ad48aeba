/*
 * Applying an edit script: see edit/apply.h.
 *
 * The original is read only once: each piece is digested, written if it is kept, and then its pages
 * are released, all while it is in the processor's cache.
 */
#include "common/edit/apply.h"

#define PIECE_SIZE (UINT64_C(1) << 20)

struct pass {
    const struct edit_script *script;
    const struct input *original;
    edit_script_sink sink; /* NULL: only compute the original's digest */
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
            return file_blame(pass->original->path, error);
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
                        edit_script_sink sink, void *context, struct error *error)
{
    struct pass pass = {script, original, sink, context, NULL};

    return apply(&pass, error);
}

struct digested_output {
    struct output *output;
    struct digest_stream *digest;
};

static bool write_and_digest(void *context, struct bytes part, struct error *error)
{
    const struct digested_output *digested = context;

    digest_stream_add(digested->digest, part);
    return output_write(digested->output, part, error);
}

bool edit_script_apply(const struct edit_script *script, const struct input *original,
                       struct output *output, struct digest *original_digest,
                       struct digest *result_digest, struct error *error)
{
    struct digested_output digested = {output, digest_stream_new()};
    struct pass pass = {script, original, write_and_digest, &digested, digest_stream_new()};
    bool done = false;

    if (pass.original_digest == NULL || digested.digest == NULL)
        error_out_of_memory(error, original->path, PIECE_SIZE);
    else
        done = apply(&pass, error);
    if (done) {
        *original_digest = digest_stream_finish(pass.original_digest);
        *result_digest = digest_stream_finish(digested.digest);
    }
    digest_stream_free(pass.original_digest);
    digest_stream_free(digested.digest);
    return done;
}

bool input_digest(const struct input *input, struct digest *digest, struct error *error)
{
    struct pass pass = {.original = input, .original_digest = digest_stream_new()};
    bool done = false;

    if (pass.original_digest == NULL)
        error_out_of_memory(error, input->path, PIECE_SIZE);
    else
        done = advance(&pass, 0, input->bytes.size, false, error);
    if (done)
        *digest = digest_stream_finish(pass.original_digest);
    digest_stream_free(pass.original_digest);
    return done;
}
