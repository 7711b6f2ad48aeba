/*
 * Looking at files that may be images: see found_image.h.
 */
#include "split/split/found_image.h"

#include <string.h>

#include "common/base/file.h"
#include "common/sidecar/object.h"
#include "common/sidecar/sidecar.h"
#include "formats/container.h"
#include "formats/image.h"

static bool has_linked_slice(const struct input *input)
{
    struct universal universal;
    struct error ignored;

    if (!universal_read(input->bytes, input->path, &universal, &ignored))
        return false;
    for (size_t i = 0; i < universal.count; i++) {
        struct bytes slice;

        if (bytes_slice(input->bytes, universal.slices[i].offset, universal.slices[i].size,
                        &slice) &&
            image_is_linked(slice))
            return true;
    }
    return false;
}

bool found_image_is_linked(const char *path)
{
    struct input input;
    struct error ignored;
    bool is_linked;

    if (!input_open(&input, path, &ignored))
        return true;
    is_linked = universal_recognize(input.bytes)
                    ? has_linked_slice(&input)
                    : image_is_linked(input.bytes) && !sidecar_recognize(input.bytes) &&
                          !object_recognize(input.bytes);
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
