/*
 * What targets need that call the public library.
 */
#ifndef COVSPLIT_TESTS_FUZZ_READER_API_H
#define COVSPLIT_TESTS_FUZZ_READER_API_H

#include "common/base/bytes.h"
#include "reader/covsplit.h"

/* A covsplit_sink appends to `bytes`, and aborts if there are more than `limit`. */
struct api_taken {
    struct buffer bytes;
    uint64_t limit;
};

bool api_take(void *taken, const void *data, size_t size);

/* A call has failed: aborts unless it said why. Frees the error. */
void api_refused(covsplit_error *error);

/* A file in memory with these bytes; the caller closes the descriptor. `path`, of API_PATH_SIZE
 * bytes, becomes a name for it. */
#define API_PATH_SIZE 32
int api_file(struct bytes bytes, char *path);

#endif
