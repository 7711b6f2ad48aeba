/*
 * Makes chunks of function names, as they are in __llvm_prf_names.
 */
#ifndef COVSPLIT_TESTS_UNIT_NAME_CHUNK_H
#define COVSPLIT_TESTS_UNIT_NAME_CHUNK_H

#include <stdbool.h>

#include "common/base/bytes.h"

/* Appends a chunk with a text of names, which have bytes 1 between them. */
void name_chunk_put(struct buffer *section, const char *names, bool compressed);

#endif
