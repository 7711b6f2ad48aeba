/*
 * Tests of an image: see tests_part.h.
 */
#include "common/state/tests_part.h"

bool tests_part_add(struct buffer *tests, struct bytes more, const char *name, struct error *error)
{
    return buffer_append(tests, more.data, (size_t)more.size) ||
           error_out_of_memory(error, name, tests->size + more.size);
}
