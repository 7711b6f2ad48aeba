/*
 * Mach-O images: see image.h.
 */
#include "tests/fuzz/image.h"
#include "tests/fuzz/windows.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate(data, size, max_size, seed, fuzz_macho_windows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_image(data, size, IMAGE_MACHO);
}
