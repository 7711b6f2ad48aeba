/*
 * Writes the blocks of a deflate stream (RFC 1951): collects literals and matches, and writes them
 * with the Huffman codes that zlib would choose.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_BLOCKS_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define DEFLATE_MATCH_MIN 3
#define DEFLATE_MATCH_MAX 258

/* A block ends after this many symbols: the size of zlib's buffer with memLevel 8, minus one. */
#define DEFLATE_BLOCK_SYMBOLS ((1 << 14) - 1)

/* The number of symbols that can occur in each alphabet: literals and lengths, distances, and the
 * precode, with which the codeword lengths of the others are written (RFC 1951, 3.2.5 to 3.2.7). */
#define DEFLATE_LITLEN_SYMBOLS   286
#define DEFLATE_DISTANCE_SYMBOLS 30
#define DEFLATE_PRECODE_SYMBOLS  19

struct deflate_blocks {
    struct buffer *stream;
    uint64_t bits; /* not written yet; the lowest is the next */
    unsigned bit_count;
    uint32_t literal_counts[DEFLATE_LITLEN_SYMBOLS];
    uint32_t distance_counts[DEFLATE_DISTANCE_SYMBOLS];
    size_t symbol_count;
    struct {
        uint16_t distance; /* 0: a literal */
        uint8_t value;     /* the literal, or the length minus DEFLATE_MATCH_MIN */
    } symbols[DEFLATE_BLOCK_SYMBOLS];
};

/* Starts a stream of blocks, which is appended to the buffer. */
void deflate_blocks_start(struct deflate_blocks *blocks, struct buffer *stream);

/* Each adds a symbol, and returns true if the block is full: then call deflate_blocks_end. */
bool deflate_blocks_literal(struct deflate_blocks *blocks, uint8_t literal);
bool deflate_blocks_match(struct deflate_blocks *blocks, unsigned length, unsigned distance);

/* Writes the block. `text` is what the symbols stand for, for a stored block; its data is NULL if
 * zlib could not store it. The last block is padded to a whole byte. False if out of memory. */
bool deflate_blocks_end(struct deflate_blocks *blocks, struct bytes text, bool last);

#endif
