/*
 * The first bytes of inputs of the targets `decoders` and `encoders`, for what makes their seeds.
 */
#ifndef COVSPLIT_TESTS_FUZZ_DECODERS_H
#define COVSPLIT_TESTS_FUZZ_DECODERS_H

/* The first of several kinds stands for as many: one for each transform, in the order names, data,
 * filenames, mapping, linked covmap, linked covfun. */
enum decoders_kind {
    DECODERS_STREAMS = 0,
    DECODERS_ENCODED = 6,
    DECODERS_ENCODED_BLOCKS = 12,
    DECODERS_NAMES_ALONE,
    DECODERS_TOKEN_TEXT,
    DECODERS_NAME_CHUNKS,
    DECODERS_INFLATE,
    DECODERS_MAPPING,
    DECODERS_UNITS,
    DECODERS_PACKED_UNIT,
    DECODERS_UNPACK,
    DECODERS_SPARSE,
    DECODERS_TRIPWIRE,
    DECODERS_KINDS
};

enum encoders_kind {
    ENCODERS_SECTION = 0,
    ENCODERS_BLOCKS = 6,
    ENCODERS_LINKED,
    ENCODERS_TOKENS_OF_NAMES,
    ENCODERS_TOKENS_OF_WORDS,
    ENCODERS_QUICK,
    ENCODERS_RECOMPRESS,
    ENCODERS_RECOMPRESS_BEST,
    ENCODERS_KINDS
};

#endif
