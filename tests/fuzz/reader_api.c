/*
 * Calling the public library: see reader_api.h.
 */
#include "tests/fuzz/reader_api.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/support.h"

bool api_take(void *context, const void *data, size_t size)
{
    struct api_taken *taken = context;

    FUZZ_EXPECT(size <= taken->limit - taken->bytes.size, "more than %llu bytes",
                (unsigned long long)taken->limit);
    FUZZ_EXPECT(buffer_append(&taken->bytes, data, size), "no memory for the target");
    return true;
}

void api_refused(covsplit_error *error)
{
    FUZZ_EXPECT(error != NULL, "failed without an error");
    FUZZ_EXPECT(covsplit_error_message(error)[0] != '\0', "failed without a reason");
    FUZZ_EXPECT(!covsplit_error_is_of_memory(error), "out of memory: %s",
                covsplit_error_message(error));
    covsplit_error_free(error);
}

int api_file(struct bytes bytes, char *path)
{
    int descriptor = memfd_create("input", MFD_CLOEXEC);

    snprintf(path, API_PATH_SIZE, "/proc/self/fd/%d", descriptor);
    FUZZ_EXPECT(descriptor >= 0 &&
                    write(descriptor, bytes.data, (size_t)bytes.size) == (ssize_t)bytes.size &&
                    lseek(descriptor, 0, SEEK_SET) == 0,
                "no file for the target");
    return descriptor;
}
