/*
 * zstd: see codec/zstd.h.
 *
 * With zstd's worker threads, of which one needs some 40 MB, the bytes only depend on the job size,
 * which is therefore fixed here, and not on how many there are. Without any, zstd processes the
 * data differently and produces other bytes. So whether there are workers depends on the source
 * and the level alone: not for a source of one job, nor at the lowest level, where copying for them
 * costs much of what they save. A libzstd built without threads, as static ones often are, produces
 * the other bytes always, just as another version of libzstd may.
 */
#include "common/codec/zstd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

/* The size of the pieces of a source, after each of which the caller is told: small enough that the
 * pages of a mapped source do not pile up, large enough that the calls take no time. */
#define PIECE_SIZE ((size_t)1 << 20)

/* The size of zstd's jobs. zstd keeps the input of every running job and more in memory. Its
 * default job size, four windows, would be 32 MiB at the highest levels, which saves next to
 * nothing. */
#define JOB_SIZE_LOG 23

/* The highest level would use a match table of 64 MiB for each thread. Half of that compresses
 * nearly as well (output 0 to 0.6% larger), and keeps the memory of a small split within bounds. */
#define CHAIN_LOG_MAX 23

/* No frame in a sidecar has a larger window, so larger ones are refused; also in files of others,
 * where `zstd` itself accepts no larger one. */
#define WINDOW_LOG_MAX 27

/* No level has a smaller window than WINDOW_LOG_MIN. For windows larger than LONG_WINDOW_LOG_MIN,
 * long distance matching is enabled. */
#define WINDOW_LOG_MIN      10
#define LONG_WINDOW_LOG_MIN 20

/* The levels with zstd's lazy strategies, which do not weigh the cost of matches. At these, sources
 * up to this size get parameters that suit columns of numbers and short texts better than zstd's:
 * matches from 4 bytes on, half as many entries in the hash table as there are bytes, and a deeper
 * search only in large columns. Beside zstd's own, that is 0.9% larger at most, names up to 3%
 * smaller, in 70% of the time. */
#define LAZY_LEVEL_MIN    7
#define LAZY_LEVEL_MAX    10
#define LAZY_MATCH_MIN    4
#define LAZY_LEVEL_OFFSET 5                     /* searchLog is the level minus this, and */
#define LAZY_DEEPER_MIN   ((uint64_t)256 << 10) /* 1 more for columns larger than this */
#define LAZY_LOG_MAX      22

/* For a text after a prefix of some megabytes, level 1 has a table that is too small, and the
 * highest one trees and a search that take more memory and time than they save. */
#define AFTER_HASH_LOG_MIN   20
#define AFTER_CHAIN_LOG_MAX  22
#define AFTER_SEARCH_LOG_MAX 4
#define AFTER_TARGET_MAX     64

/* The first size of the buffer for decompressed bytes; it grows as it fills. */
#define LOAD_STEP ((size_t)1 << 20)

/* ---- compressing ---- */

static bool set_parameter(ZSTD_CCtx *context, ZSTD_cParameter parameter, int value)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value));
}

/* At most one thread for each job: more would only need memory. */
static bool set_up_workers(ZSTD_CCtx *context, uint64_t size, const struct codec_options *options)
{
    ZSTD_bounds bounds = ZSTD_cParam_getBounds(ZSTD_c_nbWorkers);
    uint64_t jobs = (size >> JOB_SIZE_LOG) + 1, threads = options->threads;
    uint64_t count = threads < jobs ? threads : jobs;

    if (jobs == 1 || options->level == CODEC_LEVEL_MIN || ZSTD_isError(bounds.error) ||
        bounds.upperBound < 1)
        return true;
    if (count > (uint64_t)bounds.upperBound)
        count = (uint64_t)bounds.upperBound;
    return set_parameter(context, ZSTD_c_nbWorkers, count == 0 ? 1 : (int)count) &&
           set_parameter(context, ZSTD_c_jobSize, 1 << JOB_SIZE_LOG);
}

static bool set_up(ZSTD_CCtx *context, uint64_t size, const struct codec_options *options,
                   const char *name, struct error *error)
{
    if (set_parameter(context, ZSTD_c_compressionLevel, options->level) &&
        (options->level < CODEC_LEVEL_MAX ||
         set_parameter(context, ZSTD_c_chainLog, CHAIN_LOG_MAX)) &&
        set_parameter(context, ZSTD_c_checksumFlag, 0) &&
        set_parameter(context, ZSTD_c_contentSizeFlag, 1) &&
        set_up_workers(context, size, options) &&
        !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(context, size)))
        return true;
    return error_set(error,
                     "%s: libzstd does not compress at level %d; use another version of libzstd",
                     name, options->level);
}

/* `size`: of the source. */
static bool compressing_failed(size_t result, const char *name, uint64_t size, struct error *error)
{
    return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation
               ? error_out_of_memory(error, name, size)
               : error_set(error, "%s: compressing failed: %s; use another version of libzstd",
                           name, ZSTD_getErrorName(result));
}

/* Compresses one piece; with ZSTD_e_end, also flushes what zstd still holds. */
static bool compress_piece(ZSTD_CCtx *context, struct bytes piece, ZSTD_EndDirective directive,
                           const char *name, struct buffer *compressed, struct error *error)
{
    ZSTD_inBuffer input = {piece.data, (size_t)piece.size, 0};
    size_t left;

    do {
        ZSTD_outBuffer output;

        if (!buffer_reserve(compressed, ZSTD_CStreamOutSize()))
            return error_out_of_memory(error, name, compressed->size + ZSTD_CStreamOutSize());
        output = (ZSTD_outBuffer){compressed->data, compressed->capacity, compressed->size};
        left = ZSTD_compressStream2(context, &output, &input, directive);
        if (ZSTD_isError(left))
            return compressing_failed(left, name, piece.size, error);
        compressed->size = output.pos;
    } while (directive == ZSTD_e_end ? left != 0 : input.pos < input.size);
    return true;
}

static bool compress_all(ZSTD_CCtx *context, struct bytes source,
                         const struct codec_options *options, const char *name,
                         struct buffer *compressed, struct error *error)
{
    uint64_t done = 0;

    while (done < source.size) {
        struct bytes piece;
        uint64_t size = source.size - done < PIECE_SIZE ? source.size - done : PIECE_SIZE;

        if (!bytes_slice(source, done, size, &piece) ||
            !compress_piece(context, piece, ZSTD_e_continue, name, compressed, error))
            return false;
        if (options->consumed != NULL)
            options->consumed(options->context, piece);
        done += size;
    }
    return compress_piece(context, (struct bytes){0}, ZSTD_e_end, name, compressed, error);
}

/* Makes the window cover the whole source, up to the largest window that readers accept. For large
 * windows, long distance matching also finds matches that the level's own search would miss. */
static bool set_up_once(ZSTD_CCtx *context, uint64_t size, int level, bool with_checksum)
{
    int window_log = WINDOW_LOG_MIN;
    bool is_large_column = size > LAZY_DEEPER_MIN && !with_checksum, is_lazy;

    while (window_log < WINDOW_LOG_MAX && size >> window_log != 0)
        window_log++;
    is_lazy = level >= LAZY_LEVEL_MIN && level <= LAZY_LEVEL_MAX && window_log <= LAZY_LOG_MAX;
    return set_parameter(context, ZSTD_c_compressionLevel, level) &&
           set_parameter(context, ZSTD_c_contentSizeFlag, 1) &&
           set_parameter(context, ZSTD_c_checksumFlag, with_checksum) &&
           (!is_lazy || (set_parameter(context, ZSTD_c_strategy, ZSTD_lazy) &&
                         set_parameter(context, ZSTD_c_minMatch, LAZY_MATCH_MIN) &&
                         set_parameter(context, ZSTD_c_searchLog,
                                       level - LAZY_LEVEL_OFFSET + is_large_column) &&
                         set_parameter(context, ZSTD_c_hashLog, window_log - 1))) &&
           (window_log <= LONG_WINDOW_LOG_MIN ||
            (set_parameter(context, ZSTD_c_windowLog, window_log) &&
             set_parameter(context, ZSTD_c_enableLongDistanceMatching, 1)));
}

/* Compresses in one step, if the context was set up. */
static bool compress_once(ZSTD_CCtx *zstd, bool is_set_up, struct bytes source, const char *name,
                          struct buffer *compressed, struct error *error)
{
    size_t bound = ZSTD_compressBound((size_t)source.size), result = (size_t)-1;

    if (zstd == NULL || !buffer_reserve(compressed, bound))
        return error_out_of_memory(error, name, bound);
    if (is_set_up)
        result = ZSTD_compress2(zstd, compressed->data + compressed->size, bound, source.data,
                                (size_t)source.size);
    if (ZSTD_isError(result))
        return compressing_failed(result, name, source.size, error);
    compressed->size += result;
    return true;
}

bool codec_compress(struct bytes source, const struct codec_options *options, const char *name,
                    struct buffer *compressed, struct error *error)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    bool done = zstd == NULL ? error_out_of_memory(error, name, source.size)
                             : set_up(zstd, source.size, options, name, error);

    if (done && source.size >> JOB_SIZE_LOG == 0) {
        done = compress_once(zstd, true, source, name, compressed, error);
        if (options->consumed != NULL)
            options->consumed(options->context, source);
    } else {
        /* Mostly enough, and memory that is not used costs nothing. */
        buffer_reserve(compressed, (size_t)source.size / 2);
        done = done && compress_all(zstd, source, options, name, compressed, error);
    }
    ZSTD_freeCCtx(zstd);
    return done;
}

bool codec_compress_once(struct bytes source, int level, bool with_checksum, const char *name,
                         struct buffer *compressed, struct error *error)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    bool done =
        compress_once(zstd, zstd != NULL && set_up_once(zstd, source.size, level, with_checksum),
                      source, name, compressed, error);

    ZSTD_freeCCtx(zstd);
    return done;
}

/* ---- compressing after a prefix ---- */

struct codec_prefix {
    ZSTD_CCtx *zstd;
    int level, window_log;
};

void codec_prefix_free(struct codec_prefix *prefix)
{
    if (prefix != NULL)
        ZSTD_freeCCtx(prefix->zstd);
    free(prefix);
}

/* What begins as zstd's dictionaries would be taken for one: the first byte is left out, from which
 * no distance is counted. */
static size_t load_trees(ZSTD_CCtx *zstd, struct bytes text)
{
    if (text.size > 4 && load_u32(text.data, false) == ZSTD_MAGIC_DICTIONARY)
        text = (struct bytes){text.data + 1, text.size - 1};
    return ZSTD_CCtx_loadDictionary(zstd, text.data, (size_t)text.size);
}

static struct codec_prefix *prefix_open(struct bytes text, int level, int window_log,
                                        const char *name, struct error *error)
{
    struct codec_prefix *prefix = calloc(1, sizeof(*prefix));
    size_t result = (size_t)-1;

    if (prefix == NULL || (prefix->zstd = ZSTD_createCCtx()) == NULL) {
        error_out_of_memory(error, name, text.size);
        free(prefix);
        return NULL;
    }
    prefix->level = level;
    prefix->window_log = window_log;
    if (set_parameter(prefix->zstd, ZSTD_c_compressionLevel, level) &&
        set_parameter(prefix->zstd, ZSTD_c_checksumFlag, 1) &&
        set_parameter(prefix->zstd, ZSTD_c_windowLog, window_log) &&
        (level > CODEC_LEVEL_MIN ||
         set_parameter(prefix->zstd, ZSTD_c_hashLog, AFTER_HASH_LOG_MIN)) &&
        (level < CODEC_LEVEL_MAX ||
         (set_parameter(prefix->zstd, ZSTD_c_chainLog, AFTER_CHAIN_LOG_MAX) &&
          set_parameter(prefix->zstd, ZSTD_c_searchLog, AFTER_SEARCH_LOG_MAX) &&
          set_parameter(prefix->zstd, ZSTD_c_targetLength, AFTER_TARGET_MAX))))
        result = level < CODEC_LEVEL_TREES ? 0 : load_trees(prefix->zstd, text);
    if (!ZSTD_isError(result))
        return prefix;
    compressing_failed(result, name, text.size, error);
    codec_prefix_free(prefix);
    return NULL;
}

bool codec_compress_after(struct codec_prefix **kept, struct bytes text, uint64_t start, int level,
                          const char *name, struct buffer *compressed, struct error *error)
{
    struct bytes source = {text.data == NULL ? NULL : text.data + start, text.size - start};
    int window_log = WINDOW_LOG_MIN;

    while (text.size >> window_log != 0)
        window_log++;
    if (*kept == NULL || (*kept)->level != level || (*kept)->window_log != window_log) {
        codec_prefix_free(*kept);
        *kept = prefix_open((struct bytes){text.data, start}, level, window_log, name, error);
    }
    /* That serves one text, but takes no memory. */
    return *kept != NULL && compress_once((*kept)->zstd,
                                          level >= CODEC_LEVEL_TREES ||
                                              !ZSTD_isError(ZSTD_CCtx_refPrefix(
                                                  (*kept)->zstd, text.data, (size_t)start)),
                                          source, name, compressed, error);
}

/* ---- decompressing ---- */

bool codec_has_checksum(struct bytes frame)
{
    return frame.size > 4 && load_u32(frame.data, false) == ZSTD_MAGICNUMBER &&
           (frame.data[4] & 1 << 2) != 0;
}

struct codec_stream {
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer input;
    uint64_t left;
    bool frame_ended;
    struct encoded frame;
};

/* Starts decompressing a frame; reuses the decoder if there is one. */
static bool start_frame(struct codec_stream *stream, const struct encoded *frame,
                        struct error *error)
{
    ZSTD_DCtx *zstd = stream->zstd;
    unsigned long long size =
        ZSTD_getFrameContentSize(frame->bytes.data, (size_t)frame->bytes.size);

    *stream = (struct codec_stream){.zstd = zstd,
                                    .frame = *frame,
                                    .left = frame->size,
                                    .input = {frame->bytes.data, (size_t)frame->bytes.size, 0}};
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
        return encoded_damaged(&stream->frame, "not a zstd frame that declares its size", error);
    if (size != stream->left)
        return encoded_damaged(&stream->frame,
                               "its zstd frame declares another size than the section", error);
    if (zstd != NULL)
        return !ZSTD_isError(ZSTD_DCtx_reset(zstd, ZSTD_reset_session_only)) ||
               error_out_of_memory(error, frame->name, frame->size);
    stream->zstd = ZSTD_createDCtx();
    return (stream->zstd != NULL && !ZSTD_isError(ZSTD_DCtx_setParameter(
                                        stream->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) ||
           error_out_of_memory(error, frame->name, frame->size);
}

struct codec_stream *codec_stream_open(const struct encoded *frame, struct error *error)
{
    struct codec_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        error_out_of_memory(error, frame->name, sizeof(*stream));
        return NULL;
    }
    if (!start_frame(stream, frame, error)) {
        codec_stream_free(stream);
        return NULL;
    }
    return stream;
}

/* Runs one step of the decoder; also false if it cannot make progress. */
static bool decompress_some(struct codec_stream *stream, ZSTD_outBuffer *output,
                            struct error *error)
{
    size_t consumed = stream->input.pos;
    size_t produced = output->pos;
    size_t result;

    if (stream->frame_ended)
        return encoded_damaged(&stream->frame, "its zstd frame ends early", error);
    result = ZSTD_decompressStream(stream->zstd, output, &stream->input);
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        return error_out_of_memory(error, stream->frame.name, stream->left);
    if (ZSTD_isError(result))
        return encoded_damaged(&stream->frame, ZSTD_getErrorName(result), error);
    stream->frame_ended = result == 0;
    if (!stream->frame_ended && stream->input.pos == consumed && output->pos == produced)
        return encoded_damaged(&stream->frame, "its compressed bytes are cut short", error);
    return true;
}

bool codec_stream_read(struct codec_stream *stream, void *to, size_t size, struct error *error)
{
    ZSTD_outBuffer output = {to, size, 0};

    if (size > stream->left)
        return encoded_damaged(&stream->frame, "it is shorter than what refers to it", error);
    while (output.pos < output.size) {
        if (!decompress_some(stream, &output, error))
            return false;
    }
    stream->left -= size;
    return true;
}

/* Appends everything that has not been read yet. The buffer grows with the output, by doubling, so
 * a false size costs nothing. */
static bool read_all(struct codec_stream *stream, struct buffer *to, struct error *error)
{
    while (stream->left != 0) {
        size_t part = to->capacity - to->size, more = to->size < LOAD_STEP ? LOAD_STEP : to->size;

        if (more > stream->left)
            more = (size_t)stream->left;
        if (part == 0) {
            uint8_t *data = more > SIZE_MAX - to->size ? NULL : realloc(to->data, to->size + more);

            if (data == NULL)
                return error_out_of_memory(error, stream->frame.name, stream->left);
            to->data = data;
            to->capacity = to->size + more;
            part = more;
        }
        if (part > stream->left)
            part = (size_t)stream->left;
        if (!codec_stream_read(stream, to->data + to->size, part, error))
            return false;
        to->size += part;
    }
    return true;
}

bool codec_stream_finish(struct codec_stream *stream, struct error *error)
{
    uint8_t excess;
    ZSTD_outBuffer output = {&excess, 1, 0};

    if (stream->left != 0)
        return encoded_damaged(&stream->frame, "it is longer than what refers to it", error);
    while (!stream->frame_ended) {
        if (!decompress_some(stream, &output, error))
            return false;
        if (output.pos != 0)
            return encoded_damaged(&stream->frame, "it is longer than its declared size", error);
    }
    if (stream->input.pos != stream->input.size)
        return encoded_damaged(&stream->frame, "other bytes follow its zstd frame", error);
    return true;
}

void codec_stream_free(struct codec_stream *stream)
{
    if (stream == NULL)
        return;
    ZSTD_freeDCtx(stream->zstd);
    free(stream);
}

bool codec_decompress_next(struct codec_stream **kept, const struct encoded *frame,
                           struct buffer *to, struct error *error)
{
    bool started;

    if (*kept == NULL) {
        *kept = codec_stream_open(frame, error);
        started = *kept != NULL;
    } else {
        started = start_frame(*kept, frame, error);
    }
    return started && read_all(*kept, to, error) && codec_stream_finish(*kept, error);
}

bool codec_decompress(const struct encoded *frame, struct buffer *to, struct error *error)
{
    struct codec_stream *stream = NULL;
    bool done = codec_decompress_next(&stream, frame, to, error);

    codec_stream_free(stream);
    return done;
}

bool codec_decompress_after(struct bytes prefix, const struct encoded *frame, struct buffer *to,
                            struct error *error)
{
    ZSTD_DCtx *zstd;
    size_t result;

    if (!codec_has_checksum(frame->bytes) ||
        ZSTD_getFrameContentSize(frame->bytes.data, (size_t)frame->bytes.size) != frame->size ||
        ZSTD_findFrameCompressedSize(frame->bytes.data, (size_t)frame->bytes.size) !=
            frame->bytes.size)
        return encoded_damaged(frame, "not the zstd frame of a delta", error);
    zstd = ZSTD_createDCtx();
    /* One byte, so that there is a place even for nothing. */
    if (zstd == NULL || !buffer_reserve(to, (size_t)frame->size + 1)) {
        ZSTD_freeDCtx(zstd);
        return error_out_of_memory(error, frame->name, frame->size);
    }
    result = ZSTD_DCtx_refPrefix(zstd, prefix.data, (size_t)prefix.size);
    if (!ZSTD_isError(result))
        result = ZSTD_decompressDCtx(zstd, to->data + to->size, (size_t)frame->size,
                                     frame->bytes.data, (size_t)frame->bytes.size);
    ZSTD_freeDCtx(zstd);
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
        return error_out_of_memory(error, frame->name, frame->size);
    if (result != frame->size)
        return encoded_damaged(
            frame, ZSTD_isError(result) ? ZSTD_getErrorName(result) : "its zstd frame ends early",
            error);
    to->size += (size_t)frame->size;
    return true;
}

/* ---- files of others ---- */

/* Nothing is known of their size in advance, so they are decompressed piece by piece. The memory
 * that a frame may ask for is that of its window, which `zstd` itself accepts: 128 MiB. */
struct codec_file {
    ZSTD_DCtx *zstd;
    int fd;
    const char *name;
    bool has_ended;
    ZSTD_inBuffer input;
    size_t room;
    uint64_t consumed;
    uint8_t compressed[];
};

bool codec_file_recognize(struct bytes front)
{
    return front.size >= 4 && load_u32(front.data, false) == ZSTD_MAGICNUMBER;
}

struct codec_file *codec_file_open(int fd, struct bytes front, const char *name,
                                   struct error *error)
{
    size_t room = ZSTD_DStreamInSize();
    struct codec_file *file = calloc(1, sizeof(*file) + room);

    if (file == NULL) {
        error_out_of_memory(error, name, room);
        return NULL;
    }
    file->fd = fd;
    file->name = name;
    file->room = room;
    memcpy(file->compressed, front.data, (size_t)front.size);
    file->input = (ZSTD_inBuffer){file->compressed, (size_t)front.size, 0};
    file->consumed = front.size;
    file->zstd = ZSTD_createDCtx();
    if (file->zstd == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(file->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        error_out_of_memory(error, name, room);
        codec_file_close(file);
        return NULL;
    }
    return file;
}

/* Reads more of the file once everything is consumed. */
static bool refill(struct codec_file *file, struct error *error)
{
    ssize_t have;

    if (file->input.pos < file->input.size || file->has_ended)
        return true;
    do
        have = read(file->fd, file->compressed, file->room);
    while (have < 0 && errno == EINTR);
    if (have < 0)
        return error_set_errno(error, errno, "%s: cannot read", file->name);
    file->has_ended = have == 0;
    file->input.pos = 0;
    file->input.size = (size_t)have;
    file->consumed += (uint64_t)have;
    return true;
}

static bool file_failed(const struct codec_file *file, size_t result, struct error *error)
{
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return error_out_of_memory(error, file->name, (uint64_t)1 << WINDOW_LOG_MAX);
    case ZSTD_error_frameParameter_windowTooLarge:
        return error_set(error,
                         "%s: compressed by zstd with a window of more than %u MiB; decompress it "
                         "first (zstd -d --long=31)",
                         file->name, 1U << (WINDOW_LOG_MAX - 20));
    default:
        return error_set(error, "%s: the zstd data is damaged (%s); copy the file again",
                         file->name, ZSTD_getErrorName(result));
    }
}

bool codec_file_read(struct codec_file *file, void *to, size_t size, size_t *have,
                     struct error *error)
{
    ZSTD_outBuffer output = {to, size, 0};

    *have = 0;
    while (output.pos < output.size) {
        size_t produced = output.pos, result;

        if (!refill(file, error))
            return false;
        /* Also at the end of the file: zstd may hold some bytes yet. */
        result = ZSTD_decompressStream(file->zstd, &output, &file->input);
        if (ZSTD_isError(result))
            return file_failed(file, result, error);
        if (file->has_ended && output.pos == produced)
            break;
    }
    *have = output.pos;
    return true;
}

uint64_t codec_file_consumed(const struct codec_file *file)
{
    return file->consumed;
}

void codec_file_close(struct codec_file *file)
{
    if (file == NULL)
        return;
    ZSTD_freeDCtx(file->zstd);
    free(file);
}
