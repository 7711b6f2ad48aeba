/*
 * The blocks of a deflate stream (RFC 1951): gathers literals and matches, and writes them with the
 * Huffman codes that zlib would choose.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_BLOCKS_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define DEFLATE_MATCH_MIN 3
#define DEFLATE_MATCH_MAX 258

/* A block ends when it has so many symbols: zlib's buffer with memLevel 8, less one. */
#define DEFLATE_BLOCK_SYMBOLS ((1 << 14) - 1)

/* Symbols of each alphabet that can occur: literals and lengths, distances, and the precode, in
 * which the codeword lengths of the others are written (RFC 1951, 3.2.5 to 3.2.7). */
#define DEFLATE_LITLEN_SYMBOLS   286
#define DEFLATE_DISTANCE_SYMBOLS 30
#define DEFLATE_PRECODE_SYMBOLS  19

struct deflate_blocks {
    struct buffer *stream;
    uint64_t bits; /* not written yet, from the lowest on */
    unsigned bit_count;
    uint32_t literal_counts[DEFLATE_LITLEN_SYMBOLS];
    uint32_t distance_counts[DEFLATE_DISTANCE_SYMBOLS];
    size_t symbol_count;
    struct {
        uint16_t distance; /* 0: a literal */
        uint8_t value;     /* the literal, or the length less DEFLATE_MATCH_MIN */
    } symbols[DEFLATE_BLOCK_SYMBOLS];
};

/* Starts a stream of blocks behind what the buffer holds. */
void deflate_blocks_start(struct deflate_blocks *blocks, struct buffer *stream);

/* Each true if the block is full: deflate_blocks_end must follow. */
bool deflate_blocks_literal(struct deflate_blocks *blocks, uint8_t literal);
bool deflate_blocks_match(struct deflate_blocks *blocks, unsigned length, unsigned distance);

/* Writes the block out. `text` is what the symbols stand for, as far as it could be stored as it
 * is: data == NULL: not at all. The last block is padded to a whole byte. False if out of memory. */
bool deflate_blocks_end(struct deflate_blocks *blocks, struct bytes text, bool last);

#endif
