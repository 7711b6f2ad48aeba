/*
 * Blocks of a section: see blocks.h.
 */
#include "common/codec/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/numbers.h"
#include "common/base/parallel.h"
#include "common/codec/coding.h"

/* A thread needs several times as much memory as a block, so threads are only started if each gets
 * this many blocks. */
#define BLOCKS_PER_THREAD 4

/* The minimum size of a directory entry, in bytes. */
#define ENTRY_SIZE_MIN (2 + DIGEST_SIZE)

/* A block that is being encoded or decoded. */
struct task {
    struct bytes content; /* only for encoding */
    struct buffer result; /* the packed form, or the decoded contents */
    bool fits;
    bool done;
    struct error error;
};

/* ---- writing ---- */

struct encoder {
    const struct transform *transform; /* of a block */
    struct transform_context context;
    struct codec_options options;
    const char *name;
    struct task *tasks;
    size_t count;
    struct data_records records;
};

static bool add_block(struct encoder *encoder, struct bytes content)
{
    struct task *tasks = realloc(encoder->tasks, (encoder->count + 1) * sizeof(*tasks));

    if (tasks == NULL)
        return false;
    encoder->tasks = tasks;
    tasks[encoder->count++] = (struct task){.content = content};
    return true;
}

static bool cut(struct encoder *encoder, const struct transform *transform, struct bytes section)
{
    uint64_t wanted = encoder->context.block_size;

    while (section.size != 0) {
        struct bytes block = section;

        if (section.size > wanted)
            block.size = transform->cut(&encoder->context, section, wanted);
        if (!add_block(encoder, block) ||
            !bytes_slice(section, block.size, section.size - block.size, &section))
            return false;
    }
    return true;
}

static void encode_block(void *context, size_t index)
{
    struct encoder *encoder = context;
    struct task *task = &encoder->tasks[index];

    task->done =
        coding_encode(encoder->transform, &encoder->context, task->content, &encoder->options,
                      encoder->name, &task->result, &task->fits, &task->error);
}

static bool append_all(const struct encoder *encoder, struct buffer *packed)
{
    bool done = buffer_append_uleb128(packed, encoder->count);

    for (size_t i = 0; done && i < encoder->count; i++) {
        struct digest digest = digest_of(encoder->tasks[i].content);

        done = buffer_append_uleb128(packed, encoder->tasks[i].content.size) &&
               buffer_append_uleb128(packed, encoder->tasks[i].result.size) &&
               buffer_append(packed, digest.bytes, sizeof(digest.bytes));
    }
    for (size_t i = 0; done && i < encoder->count; i++)
        done = buffer_append(packed, encoder->tasks[i].result.data, encoder->tasks[i].result.size);
    return done;
}

static bool encode_all(struct encoder *encoder, struct buffer *packed, bool *fits,
                       struct error *error)
{
    size_t threads = encoder->count / BLOCKS_PER_THREAD + 1;

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
    return !*fits || append_all(encoder, packed) ||
           error_out_of_memory(error, encoder->name, packed->size);
}

bool blocks_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error)
{
    struct encoder encoder = {
        .transform = transform->block, .context = *context, .options = *options, .name = name};
    bool done;

    *fits = section.size != 0;
    /* Made once, rather than by each block for itself. */
    encoder.context.records = &encoder.records;
    done = ((!transform->needs_data || data_records_start(&encoder.records, context)) &&
            cut(&encoder, transform, section)) ||
           error_out_of_memory(error, name, section.size);
    done = done && encode_all(&encoder, packed, fits, error);
    for (size_t i = 0; i < encoder.count; i++)
        buffer_free(&encoder.tasks[i].result);
    free(encoder.tasks);
    data_records_free(&encoder.records);
    return done;
}

/* ---- reading ---- */

static bool damaged(const struct blocks *blocks, struct error *error)
{
    return packed_damaged(&blocks->packed, "its blocks are inconsistent", error);
}

/* Takes the directory off the front. The sizes must add up to the section's, so none can be too
 * large. */
static bool take_directory(struct blocks *blocks, struct bytes *packed, struct error *error)
{
    uint64_t size = blocks->packed.size;

    for (size_t i = 0; i < blocks->count; i++) {
        struct block *block = &blocks->blocks[i];
        const uint8_t *digest;

        if (!bytes_take_uleb128(packed, &block->size) ||
            !bytes_take_uleb128(packed, &block->packed.size) || block->size == 0 ||
            block->size > size || (digest = take_bytes(packed, DIGEST_SIZE)) == NULL)
            return damaged(blocks, error);
        size -= block->size;
        memcpy(block->digest.bytes, digest, DIGEST_SIZE);
    }
    return size == 0 || damaged(blocks, error);
}

static bool take_blocks(struct blocks *blocks, struct bytes packed, struct error *error)
{
    for (size_t i = 0; i < blocks->count; i++) {
        struct block *block = &blocks->blocks[i];

        block->packed.data = take_bytes(&packed, block->packed.size);
        if (block->packed.data == NULL)
            return damaged(blocks, error);
    }
    return packed.size == 0 || damaged(blocks, error);
}

bool blocks_open(struct blocks *blocks, const struct transform *transform,
                 const struct transform_context *context, const struct packed *packed,
                 struct error *error)
{
    struct bytes rest = packed->bytes;
    uint64_t count;

    *blocks =
        (struct blocks){.transform = transform->block, .context = *context, .packed = *packed};
    if (!bytes_take_uleb128(&rest, &count) || count > rest.size / ENTRY_SIZE_MIN)
        return damaged(blocks, error);
    blocks->count = (size_t)count;
    blocks->blocks = calloc(blocks->count + 1, sizeof(*blocks->blocks));
    if (blocks->blocks == NULL ||
        (transform->needs_data && !data_records_start(&blocks->records, context)))
        return error_out_of_memory(error, packed->name, rest.size);
    blocks->context.records = &blocks->records;
    return take_directory(blocks, &rest, error) && take_blocks(blocks, rest, error);
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
    struct packed packed = blocks->packed;
    struct digest digest;

    packed.bytes = block->packed;
    packed.size = block->size;
    task->done =
        coding_decode(blocks->transform, &blocks->context, &packed, &task->result, &task->error);
    digest = digest_of(buffer_view(&task->result));
    if (task->done && !digest_equal(&digest, &block->digest))
        task->done = damaged(blocks, &task->error);
}

/* Decodes as many blocks as are decoded at the same time. */
static bool decode_some(struct decoder *decoder, size_t count, struct buffer *section,
                        struct error *error)
{
    bool done = true;

    parallel_run(count, decoder->blocks->context.threads, decode_block, decoder);
    for (size_t i = 0; i < count; i++) {
        struct task *task = &decoder->tasks[i];

        if (done && !task->done) {
            *error = task->error;
            done = false;
        }
        done =
            done && (buffer_append(section, task->result.data, task->result.size) ||
                     error_out_of_memory(error, decoder->blocks->packed.name, task->result.size));
        buffer_free(&task->result);
    }
    return done;
}

bool blocks_decode(const struct blocks *blocks, size_t first, size_t count, struct buffer *section,
                   struct error *error)
{
    size_t threads = blocks->context.threads == 0 ? 1 : blocks->context.threads;
    struct decoder decoder = {.blocks = blocks, .first = first};
    bool done = true;

    decoder.tasks = calloc(threads, sizeof(*decoder.tasks));
    if (decoder.tasks == NULL)
        return error_out_of_memory(error, blocks->packed.name, threads);
    while (done && count != 0) {
        size_t now = count < threads ? count : threads;

        done = decode_some(&decoder, now, section, error);
        decoder.first += now;
        count -= now;
    }
    free(decoder.tasks);
    return done;
}

bool blocks_decode_all(const struct transform *transform, const struct transform_context *context,
                       const struct packed *packed, struct buffer *section, struct error *error)
{
    struct blocks blocks;
    bool done = blocks_open(&blocks, transform, context, packed, error) &&
                blocks_decode(&blocks, 0, blocks.count, section, error);

    blocks_close(&blocks);
    return done;
}
