/*
 * What the fuzz targets share.
 *
 * A target returns if the product did right by the input: refused it with a reason, or took it and
 * kept its promises. Otherwise it aborts, with a line that says which promise was broken.
 */
#ifndef COVSPLIT_TESTS_FUZZ_SUPPORT_H
#define COVSPLIT_TESTS_FUZZ_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "tests/support/freed.h"

/* What the engines call, and what replay.c calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless it holds. */
#define FUZZ_EXPECT(holds, ...)                                                                    \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fuzz_fail(__FILE__, __LINE__, __VA_ARGS__);                                            \
    } while (0)

_Noreturn void fuzz_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Aborts if the error has no message: whatever fails must say why. Memory that ran out is a
 * failure of the target's limits, not a reason. */
void fuzz_expect_reason(const struct error *error);

/* An input of bytes that are in memory already, and stay the caller's: it is not to be closed. */
struct input fuzz_input(struct bytes bytes, char *name);

/* A bytes_sink that appends to a buffer, but aborts if it gets more than `limit` bytes. */
struct fuzz_collection {
    struct buffer bytes;
    uint64_t limit;
};

bool fuzz_collect(void *collection, struct bytes part, struct error *error);

#endif
