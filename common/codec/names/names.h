/*
 * Function names: the distinct names of a section, as a text and as streams.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_NAMES_H
#define COVSPLIT_COMMON_CODEC_NAMES_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

/* Reads the names of a section encoded by names_transform, in the order of their first occurrence,
 * without decoding the whole section. Sets *are_all (may be NULL) to false if some chunks are
 * stored verbatim: their names are not among those returned, and then only the section's digest
 * could tell that the names are damaged. Only the context's memory limit is used. Free with
 * names_free, even after a failure. */
bool names_decode(const struct transform_context *context, const struct packed *packed,
                  struct names *names, bool *are_all, struct error *error);

/* The text of distinct names as streams: the names are encoded as a text of tokens (token_text.h),
 * mangled names being split into identifiers and what is between them, and the dictionary of these
 * tokens is encoded again as a text of words. */
enum name_text_stream {
    NAME_TEXT_CODES = 0,      /* the codes of the names */
    NAME_TEXT_WORD_CODES = 1, /* the codes of their dictionary */
    NAME_TEXT_WORDS = 2,      /* the dictionary of their dictionary */
    NAME_TEXT_STREAMS = 3,
};

/* Encodes the text into NAME_TEXT_STREAMS streams, which must be empty. In the text, each name is
 * followed by a byte 1. */
enum result name_text_encode(struct bytes text, struct buffer *streams);

/* Decodes the text and finds the names in it. Unfit if the streams are damaged, or the text would
 * be out of proportion to their size or to that of the names section; over the limit if it would
 * have more than `memory` bytes. Free with names_free, even after a failure. */
enum result name_text_decode(const struct buffer *streams, uint64_t section_size, uint64_t memory,
                             struct names *names);

#endif
