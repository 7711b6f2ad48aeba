/*
 * Examining files that may be images: see found_image.h.
 */
#include "split/cli/found_image.h"

#include <string.h>

#include "common/base/file.h"
#include "formats/container.h"
#include "formats/image.h"

bool found_image_is_linked(const char *path)
{
    struct input input;
    struct container container;
    struct error why;
    bool is_linked = false;

    if (!input_open(&input, path, &why))
        return true;
    if (!container_open(&container, &input, &why))
        is_linked = error_is_of_memory(&why);
    /* A universal image counts even if its layout is not understood: the split reports that. */
    for (size_t i = 0; i < container.count; i++) {
        const struct slice *slice = &container.slices[i];
        struct bytes bytes;

        is_linked |=
            bytes_slice(input.bytes, slice->offset, slice->size, &bytes) && image_is_linked(bytes);
    }
    container_close(&container);
    input_close(&input);
    return is_linked;
}

bool found_image_has_no_coverage(struct bytes bytes)
{
    static const char *const names[] = {"__llvm_prf_", "__llvm_cov", ".lprf", ".lcov"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (memmem(bytes.data, (size_t)bytes.size, names[i], strlen(names[i])) != NULL)
            return false;
    }
    return true;
}
