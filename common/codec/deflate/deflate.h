/*
 * Makes zlib streams, always in the same way.
 *
 * LLVM writes function names and file names as zlib streams. A sidecar that holds their text can
 * only restore the streams if the same compressor runs again years later, on another machine, where
 * zlib may be another version or another implementation (zlib-ng produces other bytes). So this
 * module contains the compressor: the algorithm of zlib's deflate for a single piece of input, with
 * a window of 32 KiB and the default memLevel, with the same choices as zlib 1.2.0 to 1.3. The
 * split proves for each stream that it can be recreated, and otherwise stores the stream itself.
 * After that, the result only depends on this code.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_DEFLATE_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"

/* Texts of this many bytes or more are not compressed. */
#define DEFLATE_SIZE_MAX ((uint64_t)1 << 31)

/* Forms of a text in a section. These numbers are stored in sidecars. */
enum zlib_form {
    ZLIB_FORM_NONE = 1,    /* uncompressed */
    ZLIB_FORM_DEFAULT = 2, /* as zlib's level 6 makes it */
    ZLIB_FORM_BEST = 3,    /* as level 9 does */
};

/* Appends the zlib stream (RFC 1950) of the text as zlib's compress2 makes it, in one of the two
 * forms that are compressed. The bytes do not depend on the installed zlib. Unfit if the text is
 * too large, or if the stream would have more than `most` bytes; then it is left unfinished. */
enum result recompress(struct bytes text, enum zlib_form form, uint64_t most,
                       struct buffer *stream);

/* The form according to the stream's header; false if zlib's level is not a supported one. */
bool recompress_form(struct bytes stream, enum zlib_form *form);

/* Appends a stream that a simpler search makes in a third of the time, for streams that are
 * covsplit's own. Unfit if the text is too large. */
enum result quick_compress(struct bytes text, struct buffer *stream);

/* ---- texts in sections ---- */

/* streams_per_byte of transforms for such texts. zlib streams are a tenth of the size of the names
 * in them. */
#define ZLIB_TEXT_STREAMS_PER_BYTE 64

/* The most bytes that all texts decoded from these streams may have together. Bounds the time and
 * the memory that a hostile sidecar can take. */
uint64_t zlib_text_limit(const struct buffer *streams, size_t count, uint64_t section_size);

/* Appends the text of a stream, which must have `size` bytes, and determines its form. Unfit if the
 * stream is damaged, or is not what recompress makes of the text. */
enum result zlib_text_inflate(struct bytes stream, uint64_t size, struct buffer *text,
                              enum zlib_form *form);

/* Appends to `proved` (struct streams) that zlib_text_inflate has proved the stream, which must
 * outlive it: then decoding at once, as a proof of everything else, need not make it again. Called
 * for each text of a section in order, also for those that were not inflated. */
void zlib_text_prove(struct buffer *proved, struct bytes text, struct bytes stream);

/* Streams that have been made, for sections that have the same texts: programs that are linked from
 * the same objects do. Holds at most a few MiB. Initialize to {0}; free with zlib_memo_free. */
struct zlib_memo {
    struct intern_table by_text; /* the numbers of `made` */
    struct zlib_made {
        struct digest text;
        enum zlib_form form;
        size_t offset, size; /* in `streams` */
    } * made;
    size_t count, capacity;
    struct buffer streams;
};

void zlib_memo_free(struct zlib_memo *memo);

/* Appends the text, compressed in this form. Unfit if that would be more than `most` bytes. `index`
 * is the text's number in `proved`, which may be empty; the memo may be NULL. */
enum result zlib_text_recompress(const struct buffer *proved, size_t index, struct zlib_memo *memo,
                                 struct bytes text, enum zlib_form form, uint64_t most,
                                 struct buffer *stream);

/* ---- blocks of a deflate stream (RFC 1951): literals and matches, with zlib's Huffman codes ----
 */

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
