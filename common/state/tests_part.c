/*
 * Tests of an image: see tests_part.h.
 */
#include "common/state/tests_part.h"

#include "common/base/memory_limit.h"
#include "common/state/reached.h"

static bool merge_parts(struct buffer *tests, struct bytes more, const char *name,
                        struct error *error)
{
    struct reached_table before = {0}, added = {0};
    struct buffer both = {0};
    bool done =
        reached_open(&before, buffer_view(tests), name, memory_limit_for(tests->size), error) &&
        reached_open(&added, more, name, memory_limit_for(more.size), error) &&
        reached_merge(&before, &added, &both, error);

    reached_close(&before);
    reached_close(&added);
    if (!done) {
        buffer_free(&both);
        return false;
    }
    buffer_free(tests);
    *tests = both;
    return true;
}

bool tests_part_add(struct buffer *tests, struct bytes more, const char *name, struct error *error)
{
    if (more.size == 0)
        return true;
    if (tests->size != 0)
        return merge_parts(tests, more, name, error);
    return buffer_append(tests, more.data, (size_t)more.size) ||
           error_out_of_memory(error, name, more.size);
}
