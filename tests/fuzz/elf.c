/*
 * ELF images: see image.h.
 */
#include "tests/fuzz/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_image(data, size, IMAGE_ELF);
}
