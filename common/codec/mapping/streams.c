/*
 * Reading numbers from streams: see mapping/streams.h.
 */
#include "common/codec/mapping/streams.h"

uint64_t stream_take_long(struct stream_cursors *cursors, unsigned stream)
{
    struct stream_cursor *cursor = &cursors->stream[stream];
    struct bytes left = {cursor->at, (uint64_t)(cursor->end - cursor->at)};
    uint64_t number;

    if (!bytes_take_uleb128(&left, &number)) {
        stream_fail(cursors, RESULT_UNFIT);
        return 0;
    }
    cursor->at = left.data;
    return number;
}
