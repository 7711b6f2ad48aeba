/*
 * The profiles of a file, and of a stream, sparse ones included: see profile_reader.h.
 *
 * The sparse form is read word by word, twice: first as many words as a header can have, which tell
 * the size of the profile, and then all of them.
 */
#include "common/llvm/profile_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory_limit.h"

/* ---- sparse profiles ---- */

/* In a sparse profile runs of zeros take a few bytes, for slow links: most counters of a run are
 * zero. A device may send its lightweight profile in this form; here it is expanded.
 * docs/format.md ("Sparse profiles") describes it.
 *
 * A few bytes can stand for any number of zeros. The header, which is expanded first, says how
 * large the profile is; nothing is allocated before that size is known to be within a limit. */

#define SPARSE_MAGIC_SIZE 8
#define SPARSE_VERSION    1

#define WORD_SIZE         sizeof(uint64_t)
#define ULEB_MAX          10 /* the bytes of the longest number */

static const uint8_t magic_start[] = {0xff, 'c', 's', 'p', 'a', 'r'};

/* The places of the version and the byte order in the magic. */
#define MAGIC_VERSION    6
#define MAGIC_BYTE_ORDER 7

/* True if the bytes start like a sparse profile of any version, or are cut short in its magic
 * number. */
static bool sparse_recognize(struct bytes bytes)
{
    size_t size = bytes.size < sizeof(magic_start) ? (size_t)bytes.size : sizeof(magic_start);

    /* A raw profile can begin with the same first byte. */
    return size > 1 && memcmp(bytes.data, magic_start, size) == 0;
}

struct words {
    struct bytes rest;
    uint64_t zeros; /* the current run has so many more words */
};

enum word_result {
    WORD_TAKEN,
    WORD_CUT, /* the input ends in it, or before it */
    WORD_DAMAGED,
};

/* Takes a number that is encoded in the only way that is allowed, without zeros on top. */
static enum word_result take_number(struct bytes *rest, uint64_t *number)
{
    const struct bytes before = *rest;

    if (bytes_take_uleb128(rest, number))
        return before.size - rest->size > 1 && rest->data[-1] == 0 ? WORD_DAMAGED : WORD_TAKEN;
    for (uint64_t i = 0; i < before.size; i++) {
        if (i == ULEB_MAX || before.data[i] < 0x80)
            return WORD_DAMAGED;
    }
    return before.size < ULEB_MAX ? WORD_CUT : WORD_DAMAGED;
}

/* Takes a word that is not zero, or the start of a run of zeros: then *word is 0 and words->zeros
 * the length of the run. */
static enum word_result take_item(struct words *words, uint64_t *word)
{
    enum word_result result = take_number(&words->rest, word);

    if (result != WORD_TAKEN || *word != 0)
        return result;
    result = take_number(&words->rest, &words->zeros);
    return result == WORD_TAKEN && words->zeros == 0 ? WORD_DAMAGED : result;
}

static enum word_result take_word(struct words *words, uint64_t *word)
{
    enum word_result result = WORD_TAKEN;

    *word = 0;
    if (words->zeros == 0)
        result = take_item(words, word);
    if (result == WORD_TAKEN && *word == 0)
        words->zeros--;
    return result;
}

/* A sparse profile in a file. */
struct sparse_extent {
    uint64_t stored_size;   /* in the file; only after success */
    uint64_t expanded_size; /* of the profile, 0 if that is not known yet */
    bool is_cut;            /* the only fault is that the file ends too early */
};

/* A sparse profile that is being read. */
struct sparse {
    const char *name; /* of the file */
    uint64_t offset;  /* in the file */
    struct bytes stored;
    bool big_endian;
    struct profile front; /* what its header says */
    struct sparse_extent *extent;
};

#define PLACE_TEXT_MAX 32

/* " at byte 1000", or nothing at the start of the file. */
static const char *place_text(const struct sparse *sparse, char text[PLACE_TEXT_MAX])
{
    text[0] = '\0';
    if (sparse->offset != 0)
        snprintf(text, PLACE_TEXT_MAX, " at byte %" PRIu64, sparse->offset);
    return text;
}

static bool sparse_damaged(const struct sparse *sparse, const char *how, struct error *error)
{
    char place[PLACE_TEXT_MAX];

    return error_set(error,
                     "%s: the sparse profile%s is damaged (%s); send it again, or run the program "
                     "again",
                     sparse->name, place_text(sparse, place), how);
}

/* `have` bytes of the profile are known. */
static bool cut_short(const struct sparse *sparse, const char *part, uint64_t have,
                      struct error *error)
{
    uint64_t size = sparse->extent->expanded_size;
    char place[PLACE_TEXT_MAX];

    sparse->extent->is_cut = true;
    if (size == 0)
        return error_set(error,
                         "%s: the sparse profile%s is cut short in its header: at least 1 byte is "
                         "missing; " PROFILE_CUT_REMEDY,
                         sparse->name, place_text(sparse, place));
    return error_set(error,
                     "%s: the sparse profile%s is cut short in its %s: %" PRIu64 " of the %" PRIu64
                     " bytes that it expands to are missing; " PROFILE_CUT_REMEDY,
                     sparse->name, place_text(sparse, place), part, size - have, size);
}

static bool read_magic(struct sparse *sparse, struct error *error)
{
    const uint8_t *magic = sparse->stored.data;

    if (sparse->stored.size < SPARSE_MAGIC_SIZE)
        return cut_short(sparse, "header", 0, error);
    if (magic[MAGIC_VERSION] != SPARSE_VERSION)
        return error_set(error,
                         "%s: a sparse profile of version %d; this covsplit knows version %d; use "
                         "the covsplit that belongs to the device library",
                         sparse->name, magic[MAGIC_VERSION], SPARSE_VERSION);
    if (magic[MAGIC_BYTE_ORDER] != 'l' && magic[MAGIC_BYTE_ORDER] != 'b')
        return sparse_damaged(sparse, "its byte order is neither 'l' nor 'b'", error);
    sparse->big_endian = magic[MAGIC_BYTE_ORDER] == 'b';
    bytes_slice(sparse->stored, SPARSE_MAGIC_SIZE, sparse->stored.size - SPARSE_MAGIC_SIZE,
                &sparse->stored);
    return true;
}

/* Expands the header and computes the size of the profile. */
static bool read_header(struct sparse *sparse, struct error *error)
{
    uint8_t header[PROFILE_HEADER_WORD_COUNT * WORD_SIZE];
    struct words words = {.rest = sparse->stored};
    enum word_result result = WORD_TAKEN;
    struct bytes view = {header, 0};
    uint64_t word;

    /* A header may be shorter than the longest one, and what follows it need not be words. */
    while (view.size < sizeof(header) && (result = take_word(&words, &word)) == WORD_TAKEN) {
        store_u64(header + view.size, word, sparse->big_endian);
        view.size += WORD_SIZE;
    }
    if (profile_measure(view, 0, sparse->name, &sparse->front, &sparse->extent->expanded_size,
                        error))
        return sparse->front.big_endian == sparse->big_endian ||
               sparse_damaged(sparse, "its header has another byte order", error);
    if (view.size != 0 && sparse->front.missing == 0)
        return false;
    sparse->extent->expanded_size = 0;
    return result == WORD_CUT ? cut_short(sparse, "header", 0, error)
                              : sparse_damaged(sparse, "in its header", error);
}

static bool check_words(const struct sparse *sparse, enum word_result result, uint64_t have,
                        struct error *error)
{
    if (result == WORD_CUT)
        return cut_short(sparse, profile_part_name(&sparse->front, have), have, error);
    return result == WORD_TAKEN ||
           sparse_damaged(sparse, profile_part_name(&sparse->front, have), error);
}

/* Expands all words. `expanded`, unless it is NULL, has room for them and is zero. */
static bool read_words(struct sparse *sparse, uint8_t *expanded, struct error *error)
{
    uint64_t count = align_up(sparse->extent->expanded_size, WORD_SIZE) / WORD_SIZE;
    struct words words = {.rest = sparse->stored};
    uint64_t word = 0;

    for (uint64_t i = 0; i < count;) {
        enum word_result result = take_item(&words, &word);

        if (!check_words(sparse, result, i * WORD_SIZE, error))
            return false;
        if (word == 0 && words.zeros > count - i)
            return sparse_damaged(sparse, "a run of zeros is longer than the profile", error);
        if (word != 0 && expanded != NULL)
            store_u64(expanded + i * WORD_SIZE, word, sparse->big_endian);
        i += word == 0 ? words.zeros : 1;
    }
    sparse->extent->stored_size = SPARSE_MAGIC_SIZE + (sparse->stored.size - words.rest.size);
    return true;
}

/* The last word is filled up with zeros. */
static bool check_padding(const struct sparse *sparse, struct buffer *expanded, struct error *error)
{
    uint64_t size = sparse->extent->expanded_size;
    struct bytes padding;

    if (bytes_slice(buffer_view(expanded), size, expanded->size - size, &padding) &&
        !bytes_all_zero(padding))
        return sparse_damaged(sparse, "the padding of its last word is not zero", error);
    expanded->size = (size_t)size;
    return true;
}

/* Checks the sparse profile at `offset` of the file, and expands it into the buffer, replacing its
 * contents, unless that is NULL. Fails if the profile has more than `limit` bytes. */
static bool sparse_expand(struct bytes file, uint64_t offset, const char *name, uint64_t limit,
                          struct buffer *expanded, struct sparse_extent *extent,
                          struct error *error)
{
    struct sparse sparse = {.name = name, .offset = offset, .extent = extent};
    uint64_t size;

    *extent = (struct sparse_extent){0};
    bytes_slice(file, offset, file.size - offset, &sparse.stored);
    if (!read_magic(&sparse, error) || !read_header(&sparse, error) ||
        !memory_limit_allows(limit, extent->expanded_size, name, "a sparse profile", error))
        return false;
    size = align_up(extent->expanded_size, WORD_SIZE);
    if (size < extent->expanded_size || size > SIZE_MAX)
        return error_out_of_memory(error, name, extent->expanded_size);
    if (expanded == NULL)
        return read_words(&sparse, NULL, error);
    expanded->size = 0;
    if (!buffer_append_zeros(expanded, (size_t)size))
        return error_out_of_memory(error, name, size);
    return read_words(&sparse, expanded->data, error) && check_padding(&sparse, expanded, error);
}

/* ---- files ---- */

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

/* The file may be a hole of any size. */
#define EXPLAIN_AROUND (64u << 20)

bool profile_reader_explain(const struct profile_reader *reader, struct error *error)
{
    uint64_t start = reader->offset < EXPLAIN_AROUND ? 0 : reader->offset - EXPLAIN_AROUND;
    uint64_t size = reader->file.size - start;
    const char *advice = strrchr(error->message, ';');
    const struct error damage = *error;
    struct bytes rest = {0};
    const uint8_t *found;
    size_t count = 0;

    if (!profile_reader_recognize(reader->file) || reader->file.size < sizeof(uint64_t) ||
        advice == NULL || error->number != 0 || strstr(advice, "run the program again") == NULL)
        return false;
    if (size > 2 * EXPLAIN_AROUND)
        size = 2 * EXPLAIN_AROUND;
    bytes_slice(reader->file, start, size, &rest);
    while (count < 2 && (found = memmem(rest.data, (size_t)rest.size, reader->file.data,
                                        sizeof(uint64_t))) != NULL) {
        uint64_t end = (uint64_t)(found - rest.data) + sizeof(uint64_t);

        count++;
        bytes_slice(rest, end, rest.size - end, &rest);
    }
    if (count < 2)
        return false;
    return error_set(error,
                     "%.*s; several processes appended to it at once, as after a fork: run the "
                     "program again with %%m in LLVM_PROFILE_FILE",
                     (int)(advice - error->message), damage.message);
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
