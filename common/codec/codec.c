/*
 * Encoding and decoding sections: see codec.h.
 */
#include "common/codec/codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"

/* ---- streams ---- */

/* The minimum size of a stream's zstd frame, in bytes. */
#define FRAME_SIZE_MIN 10

void streams_free(struct streams *streams)
{
    for (size_t i = 0; i < STREAMS_MAX; i++)
        buffer_free(&streams->stream[i]);
    buffer_free(&streams->proved);
    streams->count = 0;
}

uint64_t streams_bound(const struct buffer *streams, size_t count, uint64_t section_size,
                       const struct stream_proportion *proportion)
{
    uint64_t bound = 0;

    for (size_t i = 0; i < count; i++)
        bound += (uint64_t)proportion->per_part_byte * streams[i].size;
    if (section_size < bound / proportion->per_section_byte)
        bound = proportion->per_section_byte * section_size;
    bound += proportion->besides;
    return bound < SIZE_MAX / 4 ? bound : SIZE_MAX / 4;
}

struct compressor {
    const struct streams *streams;
    int level;
    const char *name;
    struct buffer frames[STREAMS_MAX]; /* empty: the stream is stored uncompressed */
    struct error errors[STREAMS_MAX];
    bool done[STREAMS_MAX];
};

static void compress_stream(void *context, size_t index)
{
    struct compressor *compressor = context;
    const struct buffer *part = &compressor->streams->stream[index];
    struct buffer *frame = &compressor->frames[index];
    bool checked = part->size != 0 && (compressor->streams->checked >> index & 1) != 0;

    compressor->done[index] =
        (part->size <= FRAME_SIZE_MIN && !checked) ||
        codec_compress_once(buffer_view(part), compressor->level, checked, compressor->name, frame,
                            &compressor->errors[index]);
    if (frame->size >= part->size && !checked)
        frame->size = 0;
}

bool streams_compress(const struct streams *streams, const struct codec_options *options,
                      const char *name, struct buffer *encoded, struct error *error)
{
    struct compressor compressor = {.streams = streams, .level = options->level, .name = name};
    bool done = true;

    parallel_run(streams->count, options->threads, compress_stream, &compressor);
    buffer_append_uleb128(encoded, streams->count);
    for (size_t i = 0; i < streams->count; i++) {
        if (done && !compressor.done[i]) {
            *error = compressor.errors[i];
            done = false;
        }
        buffer_append_uleb128(encoded, streams->stream[i].size);
        if (streams->stream[i].size != 0)
            buffer_append_uleb128(encoded, compressor.frames[i].size);
    }
    for (size_t i = 0; i < streams->count; i++) {
        const struct buffer *stored =
            compressor.frames[i].size != 0 ? &compressor.frames[i] : &streams->stream[i];

        buffer_append(encoded, stored->data, stored->size);
        buffer_free(&compressor.frames[i]);
    }
    return done && (!encoded->failed || error_out_of_memory(error, name, encoded->size));
}

bool streams_decompress(const struct encoded *encoded, uint64_t wanted,
                        const struct streams_limits *limits, struct streams *streams,
                        struct error *error)
{
    struct cursor cursor = cursor_open(encoded->bytes, false, false);
    uint64_t sizes[STREAMS_MAX], frame_sizes[STREAMS_MAX] = {0}; /* 0: stored uncompressed */
    uint64_t count = cursor_uleb128(&cursor), left = limits->streams, memory = 0;
    struct codec_stream *decompressor = NULL;
    bool done = true;

    streams->checked = 0;
    if (count > STREAMS_MAX)
        cursor_spoil(&cursor);
    for (size_t i = 0; i < count && !cursor.bad; i++) {
        sizes[i] = cursor_uleb128(&cursor);
        if (sizes[i] != 0)
            frame_sizes[i] = cursor_uleb128(&cursor);
        if (sizes[i] > left)
            cursor_spoil(&cursor);
        left -= sizes[i];
        if ((wanted >> i & 1) != 0)
            memory += sizes[i];
    }
    streams->count = cursor.bad ? 0 : (size_t)count;
    done = memory_limit_allows(limits->memory, cursor.bad ? 0 : memory, encoded->name,
                               encoded->what, error);
    for (size_t i = 0; done && i < streams->count; i++) {
        bool is_frame = frame_sizes[i] != 0;
        struct encoded stored = *encoded;

        stored.size = sizes[i];
        stored.bytes = cursor_bytes(&cursor, is_frame ? frame_sizes[i] : sizes[i]);
        if (cursor.bad)
            break;
        if ((wanted >> i & 1) != 0) {
            done = is_frame
                       ? codec_decompress_next(&decompressor, &stored, &streams->stream[i], error)
                       : buffer_append(&streams->stream[i], stored.bytes.data, (size_t)sizes[i]) ||
                             error_out_of_memory(error, encoded->name, sizes[i]);
            if (is_frame && codec_has_checksum(stored.bytes))
                streams->checked |= UINT64_C(1) << i;
        }
    }
    codec_stream_free(decompressor);
    return done && (cursor_finished(&cursor) ||
                    encoded_damaged(encoded, "its parts are inconsistent", error));
}

/* ---- transforms ---- */

static const struct transform *const transforms[] = {
    &names_transform,   &data_transform,           &filenames_transform,
    &mapping_transform, &mapping_blocks_transform, &linked_covmap_transform,
};

#define TRANSFORM_COUNT (sizeof(transforms) / sizeof(transforms[0]))

/* A thread needs several times as much memory as a block, so threads are only started if each gets
 * this many blocks. */
#define BLOCKS_PER_THREAD 4

/* The minimum size of a directory entry, in bytes. */
#define ENTRY_SIZE_MIN (2 + DIGEST_SIZE)

const struct transform *transform_for(enum section_kind kind, bool in_blocks)
{
    const struct transform *found = NULL;

    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        bool is_blocks = transforms[i]->block != NULL;

        if ((transforms[i]->kinds & SECTION_BIT(kind)) != 0 &&
            (is_blocks ? in_blocks : found == NULL))
            found = transforms[i];
    }
    return found;
}

const struct transform *transform_of(uint32_t type, enum section_kind kind)
{
    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        if (transforms[i]->id == type && (transforms[i]->kinds & SECTION_BIT(kind)) != 0)
            return transforms[i];
    }
    return NULL;
}

/* ---- a section or a block that a transform handles at once ---- */

/* The most bytes that the streams of a section of `size` bytes may have. */
static uint64_t streams_limit(const struct transform *transform, uint64_t size)
{
    uint64_t limit;

    return __builtin_mul_overflow(size, transform->streams_per_byte, &limit) ? UINT64_MAX : limit;
}

bool codec_decompress_streams(const struct transform *transform,
                              const struct transform_context *context,
                              const struct encoded *encoded, uint64_t wanted,
                              struct streams *streams, struct error *error)
{
    const struct streams_limits limits = {streams_limit(transform, encoded->size),
                                          transform_memory_limit(context)};

    return streams_decompress(encoded, wanted, &limits, streams, error);
}

bool codec_check(enum result result, const struct transform_context *context,
                 const struct encoded *encoded, struct error *error)
{
    switch (result) {
    case RESULT_OK:
        return true;
    case RESULT_NO_MEMORY:
        return error_out_of_memory(error, encoded->name, encoded->size);
    case RESULT_OVER_LIMIT:
        return error_set(error,
                         "%s: the texts of %s take more memory than the limit of %" PRIu64
                         " bytes; raise it (--memory-limit) if the file is to be trusted",
                         encoded->name, encoded->what, transform_memory_limit(context));
    case RESULT_UNFIT:
        break;
    }
    return encoded_damaged(encoded, "it cannot be decoded", error);
}

/* `proved` is what the encoder has shown already; it is empty if the section is from a file. */
static bool decode_unit(const struct transform *transform, const struct transform_context *context,
                        const struct encoded *encoded, struct buffer *proved,
                        struct buffer *section, struct error *error)
{
    struct streams streams = {.proved = *proved};
    size_t start = section->size;
    bool done =
        memory_limit_allows(transform_memory_limit(context), encoded->size, encoded->name,
                            encoded->what, error) &&
        codec_decompress_streams(transform, context, encoded, UINT64_MAX, &streams, error) &&
        codec_check(transform->decode(context, &streams, encoded->size, section), context, encoded,
                    error) &&
        (section->size - start == encoded->size ||
         codec_check(RESULT_UNFIT, context, encoded, error));

    *proved = (struct buffer){0};
    streams_free(&streams);
    return done;
}

static bool encode_unit(const struct transform *transform, const struct transform_context *context,
                        struct bytes section, const struct codec_options *options, const char *name,
                        struct buffer *encoded, bool *fits, struct error *error)
{
    struct encoded made = {.size = section.size, .name = name, .what = "a section"};
    struct streams streams = {0};
    struct buffer again = {0};
    size_t start = encoded->size;
    enum result result = transform->encode(context, section, &streams);
    bool done = true, failed = streams.proved.failed;
    uint64_t size = 0;

    for (size_t i = 0; i < streams.count; i++) {
        failed = failed || streams.stream[i].failed;
        size += streams.stream[i].size;
    }
    if (failed)
        result = RESULT_NO_MEMORY;
    *fits = result == RESULT_OK && size <= streams_limit(transform, section.size);
    if (result == RESULT_NO_MEMORY)
        done = error_out_of_memory(error, name, section.size);
    else if (*fits)
        done = streams_compress(&streams, options, name, encoded, error);
    if (done && *fits) {
        struct buffer proved = streams.proved;

        streams.proved = (struct buffer){0};
        streams_free(&streams);
        made.bytes = (struct bytes){encoded->data + start, encoded->size - start};
        *fits = decode_unit(transform, context, &made, &proved, &again, error) &&
                bytes_equal(buffer_view(&again), section);
        done = *fits || !error_is_of_memory(error);
    }
    if (!done || !*fits)
        encoded->size = start;
    streams_free(&streams);
    buffer_free(&again);
    return done;
}

/* ---- blocks ---- */

/* A block that is being encoded or decoded. */
struct task {
    struct bytes content; /* only for encoding */
    struct buffer result; /* the encoded form, or the decoded contents */
    struct digest digest; /* of the content */
    bool fits;
    bool done;
    struct error error;
};

struct encoder {
    const struct transform *transform; /* of a block */
    struct transform_context context;
    struct codec_options options;
    const char *name;
    struct task *tasks;
    size_t count, capacity;
};

static void encode_block(void *context, size_t index)
{
    struct encoder *encoder = context;
    struct task *task = &encoder->tasks[index];

    task->done =
        encode_unit(encoder->transform, &encoder->context, task->content, &encoder->options,
                    encoder->name, &task->result, &task->fits, &task->error);
    task->digest = digest_of(task->content);
    if (encoder->options.consumed != NULL)
        encoder->options.consumed(encoder->options.context, task->content);
}

/* Cuts the section into blocks and encodes these. */
static bool encode_all(struct encoder *encoder, const struct transform *transform,
                       struct bytes section, bool *fits, struct error *error)
{
    size_t threads;

    for (struct bytes block = section; section.size != 0; block = section) {
        if (!ARRAY_ROOM_FOR_ONE(encoder->tasks, encoder->capacity, encoder->count))
            return error_out_of_memory(error, encoder->name, section.size);
        if (section.size > encoder->context.block_size)
            block.size = transform->cut(&encoder->context, section, encoder->context.block_size);
        encoder->tasks[encoder->count++] = (struct task){.content = block};
        if (encoder->options.consumed != NULL)
            encoder->options.consumed(encoder->options.context, block);
        section = (struct bytes){section.data + block.size, section.size - block.size};
    }
    threads = encoder->count / BLOCKS_PER_THREAD + 1;
    if (threads > encoder->options.threads)
        threads = encoder->options.threads;
    encoder->options.threads = encoder->context.threads = 1;
    parallel_run(encoder->count, (unsigned)threads, encode_block, encoder);
    for (size_t i = 0; i < encoder->count; i++) {
        if (!encoder->tasks[i].done) {
            *error = encoder->tasks[i].error;
            return false;
        }
        *fits = *fits && encoder->tasks[i].fits;
    }
    return true;
}

static bool encode_blocks(const struct transform *transform,
                          const struct transform_context *context, struct bytes section,
                          const struct codec_options *options, const char *name,
                          struct buffer *encoded, bool *fits, struct error *error)
{
    struct encoder encoder = {
        .transform = transform->block, .context = *context, .options = *options, .name = name};
    struct data_records records = {.big_endian = false};
    bool done;

    *fits = section.size != 0;
    /* Made once, rather than by each block for itself. */
    encoder.context.records = &records;
    done = !transform->needs_data || data_records_start(&records, context) ||
           error_out_of_memory(error, name, section.size);
    done = done && encode_all(&encoder, transform, section, fits, error);
    if (done && *fits) {
        buffer_append_uleb128(encoded, encoder.count);
        for (size_t i = 0; i < encoder.count; i++) {
            const struct digest *digest = &encoder.tasks[i].digest;

            buffer_append_uleb128(encoded, encoder.tasks[i].content.size);
            buffer_append_uleb128(encoded, encoder.tasks[i].result.size);
            buffer_append(encoded, digest->bytes, sizeof(digest->bytes));
        }
        for (size_t i = 0; i < encoder.count; i++)
            buffer_append(encoded, encoder.tasks[i].result.data, encoder.tasks[i].result.size);
        done = !encoded->failed || error_out_of_memory(error, name, encoded->size);
    }
    for (size_t i = 0; i < encoder.count; i++)
        buffer_free(&encoder.tasks[i].result);
    free(encoder.tasks);
    data_records_free(&records);
    return done;
}

bool blocks_open(struct blocks *blocks, const struct transform *transform,
                 const struct transform_context *context, const struct encoded *encoded,
                 struct error *error)
{
    struct cursor cursor = cursor_open(encoded->bytes, false, false);
    uint64_t count = cursor_uleb128(&cursor), left = encoded->size;

    *blocks =
        (struct blocks){.transform = transform->block, .context = *context, .encoded = *encoded};
    if (count > cursor_left(&cursor) / ENTRY_SIZE_MIN) {
        cursor_spoil(&cursor);
        count = 0;
    }
    blocks->blocks = calloc((size_t)count + 1, sizeof(*blocks->blocks));
    if (blocks->blocks == NULL ||
        (transform->needs_data && !data_records_start(&blocks->records, context)))
        return error_out_of_memory(error, encoded->name, encoded->bytes.size);
    blocks->context.records = &blocks->records;
    blocks->count = (size_t)count;
    for (size_t i = 0; i < count; i++) {
        struct block *block = &blocks->blocks[i];
        struct bytes digest;

        block->size = cursor_uleb128(&cursor);
        block->encoded.size = cursor_uleb128(&cursor);
        digest = cursor_bytes(&cursor, DIGEST_SIZE);
        if (block->size == 0 || block->size > left)
            cursor_spoil(&cursor);
        if (cursor.bad)
            break;
        left -= block->size;
        memcpy(block->digest.bytes, digest.data, DIGEST_SIZE);
    }
    for (size_t i = 0; i < count; i++)
        blocks->blocks[i].encoded = cursor_bytes(&cursor, blocks->blocks[i].encoded.size);
    /* The sizes add up to the section's, so none is too large. */
    return (cursor_finished(&cursor) && left == 0) ||
           encoded_damaged(encoded, "its blocks are inconsistent", error);
}

void blocks_close(struct blocks *blocks)
{
    data_records_free(&blocks->records);
    free(blocks->blocks);
    *blocks = (struct blocks){0};
}

struct decoder {
    const struct blocks *blocks;
    size_t first;
    struct task *tasks;
};

static void decode_block(void *context, size_t index)
{
    struct decoder *decoder = context;
    const struct blocks *blocks = decoder->blocks;
    const struct block *block = &blocks->blocks[decoder->first + index];
    struct task *task = &decoder->tasks[index];
    struct encoded encoded = blocks->encoded;
    struct buffer nothing = {0};
    struct digest digest;

    encoded.bytes = block->encoded;
    encoded.size = block->size;
    task->done = decode_unit(blocks->transform, &blocks->context, &encoded, &nothing, &task->result,
                             &task->error);
    digest = digest_of(buffer_view(&task->result));
    if (task->done && !digest_equal(&digest, &block->digest))
        task->done = encoded_damaged(&blocks->encoded, "its blocks are inconsistent", &task->error);
}

bool blocks_decode(const struct blocks *blocks, size_t first, size_t count, struct buffer *section,
                   struct error *error)
{
    size_t threads = blocks->context.threads == 0 ? 1 : blocks->context.threads;
    struct decoder decoder = {.blocks = blocks, .first = first};
    bool done = true;

    decoder.tasks = calloc(threads, sizeof(*decoder.tasks));
    if (decoder.tasks == NULL)
        return error_out_of_memory(error, blocks->encoded.name, threads);
    while (done && count != 0) {
        size_t now = count < threads ? count : threads;

        parallel_run(now, blocks->context.threads, decode_block, &decoder);
        for (size_t i = 0; i < now; i++) {
            struct task *task = &decoder.tasks[i];

            if (done && !task->done) {
                *error = task->error;
                done = false;
            }
            if (done && !buffer_append(section, task->result.data, task->result.size))
                done = error_out_of_memory(error, blocks->encoded.name, task->result.size);
            buffer_free(&task->result);
        }
        decoder.first += now;
        count -= now;
    }
    free(decoder.tasks);
    return done;
}

/* ---- sections ---- */

bool codec_encode(const struct transform *transform, const struct transform_context *context,
                  struct bytes section, const struct codec_options *options, const char *name,
                  struct buffer *encoded, bool *fits, struct error *error)
{
    size_t start = encoded->size;
    bool done = (transform->block != NULL ? encode_blocks : encode_unit)(
        transform, context, section, options, name, encoded, fits, error);

    if (done && *fits && encoded->size - start > section.size + section.size / 8) {
        encoded->size = start;
        *fits = false;
    }
    return done;
}

bool codec_decode(const struct transform *transform, const struct transform_context *context,
                  const struct encoded *encoded, struct buffer *section, struct error *error)
{
    struct buffer nothing = {0};
    struct blocks blocks = {0};
    bool done;

    /* On 32-bit machines: transforms rely on sizes that fit a size_t. */
    if (encoded->size >= SIZE_MAX)
        return error_out_of_memory(error, encoded->name, encoded->size);
    if (transform->block == NULL)
        return decode_unit(transform, context, encoded, &nothing, section, error);
    done = blocks_open(&blocks, transform, context, encoded, error) &&
           blocks_decode(&blocks, 0, blocks.count, section, error);
    blocks_close(&blocks);
    return done;
}

/* ---- uncompressed ---- */

static bool flatten_unit(const struct transform *transform, const struct encoded *encoded,
                         uint64_t limit, struct buffer *flat, struct error *error)
{
    const struct streams_limits limits = {streams_limit(transform, encoded->size), limit};
    struct streams streams = {0};
    const struct transform_context context = {.memory_limit = limit};
    bool done = streams_decompress(encoded, UINT64_MAX, &limits, &streams, error);

    if (done && transform->expand != NULL)
        done = codec_check(transform->expand(&streams, encoded->size, limit), &context, encoded,
                           error);
    if (done) {
        buffer_append_uleb128(flat, streams.count);
        for (size_t i = 0; i < streams.count; i++) {
            buffer_append_uleb128(flat, streams.stream[i].size);
            if (streams.stream[i].size != 0)
                buffer_append_uleb128(flat, 0);
        }
        for (size_t i = 0; i < streams.count; i++)
            buffer_append(flat, streams.stream[i].data, streams.stream[i].size);
        done = !flat->failed || error_out_of_memory(error, encoded->name, flat->size);
    }
    streams_free(&streams);
    return done;
}

bool codec_flatten(const struct transform *transform, const struct encoded *encoded, uint64_t limit,
                   struct buffer *flat, struct error *error)
{
    const struct transform_context nothing = {.threads = 1};
    struct buffer directory = {0}, units = {0};
    struct blocks blocks;
    bool done;

    if (transform->block == NULL)
        return flatten_unit(transform, encoded, limit, flat, error);
    done = blocks_open(&blocks, transform, &nothing, encoded, error);
    if (done)
        buffer_append_uleb128(&directory, blocks.count);
    for (size_t i = 0; done && i < blocks.count; i++) {
        const struct block *block = &blocks.blocks[i];
        struct encoded unit = *encoded;
        size_t before = units.size;

        unit.bytes = block->encoded;
        unit.size = block->size;
        done = flatten_unit(transform->block, &unit, limit, &units, error) &&
               memory_limit_allows(limit, units.size, encoded->name, encoded->what, error);
        buffer_append_uleb128(&directory, block->size);
        buffer_append_uleb128(&directory, units.size - before);
        buffer_append(&directory, block->digest.bytes, DIGEST_SIZE);
    }
    buffer_append(flat, directory.data, directory.size);
    buffer_append(flat, units.data, units.size);
    if (done && (directory.failed || units.failed || flat->failed))
        done = error_out_of_memory(error, encoded->name, encoded->bytes.size);
    buffer_free(&directory);
    buffer_free(&units);
    blocks_close(&blocks);
    return done;
}
