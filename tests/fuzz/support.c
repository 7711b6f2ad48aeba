/*
 * What the fuzz targets share: see support.h.
 */
#include "tests/fuzz/support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fuzz_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

void fuzz_expect_reason(const struct error *error)
{
    FUZZ_EXPECT(error->message[0] != '\0', "failed without a reason");
    FUZZ_EXPECT(!error_is_of_memory(error), "out of memory: %s", error->message);
}

struct input fuzz_input(struct bytes bytes, char *name)
{
    return (struct input){
        .path = name,
        .fd = -1,
        .bytes = bytes,
        .held = {.data = (uint8_t *)(uintptr_t)bytes.data,
                 .size = bytes.size,
                 .capacity = bytes.size},
    };
}

bool fuzz_collect(void *collection, struct bytes part, struct error *error)
{
    struct fuzz_collection *to = collection;

    (void)error;
    FUZZ_EXPECT(part.size <= to->limit - to->bytes.size, "more than %llu bytes were written",
                (unsigned long long)to->limit);
    FUZZ_EXPECT(buffer_append(&to->bytes, part.data, part.size), "no memory for the target");
    return true;
}
