/*
 * The profiles of a file, and of a stream: see profile_reader.h.
 */
#include "common/llvm/profile_reader.h"

#include "common/base/memory_limit.h"
#include "common/llvm/sparse.h"

/* Without a limit that the user gave, the sparse profiles of a file may expand to so many bytes for
 * each of its bytes, and MEMORY_LIMIT_BASE, taken together. Those of devices expand to at most some
 * hundred. This bounds the time, as the limit for each of them bounds the memory. */
#define EXPANSION_TIMES 4096

bool profile_reader_recognize(struct bytes bytes)
{
    return profile_recognize(bytes) || sparse_recognize(bytes);
}

static bool check_total(struct profile_reader *reader, uint64_t more, struct error *error)
{
    uint64_t most;

    if (reader->limit != 0 || __builtin_mul_overflow(reader->file.size, EXPANSION_TIMES, &most) ||
        !add_fits(most, MEMORY_LIMIT_BASE, &most))
        most = UINT64_MAX;
    return (add_fits(reader->expanded_total, more, &reader->expanded_total) &&
            reader->expanded_total <= most) ||
           error_set(error,
                     "%s: its sparse profiles expand to more than %d times its size; give "
                     "--memory-limit if you trust the file",
                     reader->name, EXPANSION_TIMES);
}

static bool read_sparse(struct profile_reader *reader, uint64_t offset, struct profile *profile,
                        struct error *error)
{
    uint64_t limit = reader->limit != 0 ? reader->limit : memory_limit_for(reader->file.size);
    struct sparse_extent extent;

    if (!sparse_expand(reader->file, offset, reader->name, limit, &reader->expanded, &extent,
                       error) ||
        !check_total(reader, extent.expanded_size, error) ||
        !profile_parse(buffer_view(&reader->expanded), 0, reader->name, profile, error))
        return false;
    profile->offset = offset;
    reader->stored_size = extent.stored_size;
    return true;
}

bool profile_reader_next(struct profile_reader *reader, struct profile *profile, bool *found,
                         struct error *error)
{
    uint64_t offset = reader->offset + reader->stored_size;
    struct bytes rest = {0};

    *found = profile_find_next(reader->file, &offset);
    if (!*found)
        return true;
    bytes_slice(reader->file, offset, reader->file.size - offset, &rest);
    reader->offset = offset;
    reader->is_sparse = sparse_recognize(rest);
    if (reader->is_sparse)
        return read_sparse(reader, offset, profile, error);
    if (!profile_parse(reader->file, offset, reader->name, profile, error))
        return false;
    reader->stored_size = profile->size;
    return true;
}

bool profile_reader_first(struct profile_reader *reader, struct profile *profile,
                          struct error *error)
{
    bool found;

    return profile_reader_next(reader, profile, &found, error) &&
           (found || error_set(error, "%s: " PROFILE_EMPTY_BECAUSE "; run it again", reader->name));
}

void profile_reader_rewind(struct profile_reader *reader)
{
    reader->offset = 0;
    reader->stored_size = 0;
    reader->expanded_total = 0;
}

void profile_reader_free(struct profile_reader *reader)
{
    buffer_free(&reader->expanded);
}

/* ---- streams ---- */

/* Checks the item at `offset`. *needs_more: it is not whole yet. */
static bool check_item(const struct profile_stream *stream, const char *name, struct bytes so_far,
                       uint64_t offset, uint64_t *size, bool *needs_more, struct error *error)
{
    uint64_t limit = memory_limit_given(stream->limit);
    struct sparse_extent extent;
    struct profile profile;
    struct bytes rest = {0};
    uint64_t claimed;
    bool is_whole;

    bytes_slice(so_far, offset, so_far.size - offset, &rest);
    if (sparse_recognize(rest)) {
        is_whole = sparse_expand(so_far, offset, name, limit, NULL, &extent, error);
        *needs_more = !is_whole && extent.is_cut;
        *size = extent.stored_size;
        return is_whole || *needs_more;
    }
    is_whole = profile_parse(so_far, offset, name, &profile, error);
    *needs_more = !is_whole && profile.missing != 0;
    *size = profile.size;
    if (is_whole || !*needs_more)
        return is_whole;
    return !profile_measure(so_far, offset, name, &profile, &claimed, error) ||
           memory_limit_allows(limit, claimed, name, "a profile", error);
}

bool profile_stream_check(void *context, const char *name, struct bytes so_far, struct error *error)
{
    struct profile_stream *stream = context;
    uint64_t offset = stream->offset, size = 0;
    bool needs_more = false;

    while (profile_find_next(so_far, &offset)) {
        if (!check_item(stream, name, so_far, offset, &size, &needs_more, error))
            return false;
        /* More may belong to a profile that ends where the stream ends so far: value data. */
        if (needs_more || offset + size == so_far.size)
            break;
        offset += size;
        stream->offset = offset;
    }
    return true;
}
