/*
 * Map files of linkers, each with the COFF image that it is given for: the text up to the first
 * NUL, and behind that the image and the byte that chooses options (image.h).
 */
#include <string.h>

#include "tests/fuzz/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char map_name[] = "map", image_name[] = "image";
    const uint8_t *end = size == 0 ? NULL : memchr(data, '\0', size - 1);
    struct buffer stripped;
    struct input map, image;
    const char *format;

    if (end == NULL)
        return -1;
    map = fuzz_input((struct bytes){data, (uint64_t)(end - data)}, map_name);
    image = fuzz_input((struct bytes){end + 1, size - 2 - map.bytes.size}, image_name);
    if (!image_recognize(image.bytes, &format) || strcmp(format, "COFF") != 0)
        return -1;
    stripped = fuzz_image_split(&image, data[size - 1], &map);
    buffer_free(&stripped);
    return 0;
}
