/*
 * Random sections as compilers write them, for the tests of the compact codec.
 */
#ifndef COVSPLIT_TESTS_UNIT_COMPACT_MAKER_H
#define COVSPLIT_TESTS_UNIT_COMPACT_MAKER_H

#include "common/base/bytes.h"
#include "tests/support/random.h"

/* A program that was never written: its functions have names that translation units share. */
#define MAKER_NAMES_MAX 200

struct maker {
    struct random_state random;
    char names[MAKER_NAMES_MAX][40];
    size_t name_count;
};

struct maker maker_start(uint64_t seed);

/* __llvm_prf_names: chunks of zlib streams of all levels, stored ones, zeros between. Freed with
 * buffer_free, as all that follow. */
struct buffer maker_names(struct maker *maker);

/* __llvm_covmap: records of versions 4 to 7, with lists of file names in all forms; now and then
 * bytes at the end that are no record. */
struct buffer maker_covmap(struct maker *maker, bool big_endian);

/* __llvm_covfun of functions that are partly those of the data, some with the same mapping. */
struct buffer maker_covfun(struct maker *maker, struct bytes data, bool big_endian);

/* __llvm_prf_data of that raw version and pointer size: most names in their order, counters behind
 * each other but for some, half of the FuncHashes those of other records, now and then a tail that
 * is no record. */
struct buffer maker_data(struct maker *maker, uint64_t raw_version, unsigned pointer_size,
                         bool big_endian);

#endif
