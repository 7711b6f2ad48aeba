/*
 * Random coverage mappings of functions, as LLVM writes them, for the tests of the compact codec.
 */
#ifndef COVSPLIT_TESTS_UNIT_MAPPING_MAKER_H
#define COVSPLIT_TESTS_UNIT_MAPPING_MAKER_H

#include "common/base/bytes.h"
#include "tests/support/random.h"

/* Appends the mapping of one function: nested conditions with branches, gaps, skipped and expanded
 * regions, MC/DC, and expressions that are numbered as LLVM numbers them. Now and then the mapping
 * is one that LLVM would not write, or none at all. */
void mapping_make(struct random_state *random, struct buffer *bytes);

#endif
