/*
 * The inputs of the targets `decoders` and `encoders`: which function (1 byte), what it is told of
 * the image (1 byte), the declared size of what it is to decode to (3 bytes), and parts (parts.h):
 * streams, or a section, or other bytes; behind them the sections that a transform may use.
 */
#ifndef COVSPLIT_TESTS_FUZZ_CODEC_INPUT_H
#define COVSPLIT_TESTS_FUZZ_CODEC_INPUT_H

#include "common/codec/transform.h"
#include "common/llvm/names.h"
#include "tests/fuzz/parts.h"

/* The bytes before the parts. */
#define CODEC_FIXED 5

/* What is allowed for what a transform holds in memory. Texts may take 16 MiB beside what is in
 * proportion to them (deflate/recompress.c), which inputs of a few bytes never get to. */
#define CODEC_MEMORY_LIMIT ((uint64_t)1 << 22)

/* By the number in inputs. */
struct codec_transform {
    const struct transform *transform;
    size_t streams;
    size_t rest; /* the stream with what is behind all records; 0: none */
};

#define CODEC_TRANSFORMS 6
extern const struct codec_transform codec_transforms[CODEC_TRANSFORMS];

struct codec_run {
    struct parts parts;
    struct transform_context context;
    uint64_t size;       /* declared */
    uint64_t input_size; /* of all parts */
    struct names names;
};

/* One function under test; the number is one of a few cases that it has. */
struct codec_kind {
    void (*run)(struct codec_run *run, size_t number);
    size_t number;
};

/* Runs what the input names, and checks what was allocated meanwhile. */
void codec_input_run(const struct codec_kind *kinds, size_t count, struct bytes input);

/* Sets the fields from the input's fixed bytes. */
void codec_input_start(struct codec_run *run);

/* Takes the sections that the transform may use into the context, from part `from` on: text of
 * names, data, covmap, covfun. Names are indexed for writing only. They are freed by the caller. */
void codec_input_take_sections(struct codec_run *run, const struct transform *transform,
                               size_t from, bool for_writing);

/* Appends the bytes. */
void codec_copy(struct bytes from, struct buffer *to);

/* Decodes the streams that the parts are, and checks that the size is kept. */
enum result codec_decode_streams(const struct codec_run *run,
                                 const struct codec_transform *transform, struct buffer *section);

/* Changes the fixed bytes; there are `kinds` kinds. */
void codec_input_mutate(struct parts *parts, size_t kinds, struct random_state *random);

#endif
