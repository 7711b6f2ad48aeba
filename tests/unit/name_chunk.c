/*
 * See name_chunk.h.
 */
#include "tests/unit/name_chunk.h"

#include <check.h>
#include <string.h>
#include <zlib.h>

void name_chunk_put(struct buffer *section, const char *names, bool compressed)
{
    uint8_t packed[1000];
    uLongf size = sizeof(packed);

    if (compressed)
        ck_assert_int_eq(compress(packed, &size, (const Bytef *)names, strlen(names)), Z_OK);
    ck_assert(buffer_append_uleb128(section, strlen(names)));
    ck_assert(buffer_append_uleb128(section, compressed ? size : 0));
    ck_assert(compressed ? buffer_append(section, packed, size)
                         : buffer_append(section, names, strlen(names)));
}
