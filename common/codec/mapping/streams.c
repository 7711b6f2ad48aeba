/*
 * Numbers of covfun's streams: see mapping/streams.h.
 */
#include "common/codec/mapping/streams.h"

uint64_t covfun_take_long(struct covfun_columns *columns, unsigned part)
{
    struct covfun_column *column = &columns->streams[part];
    struct bytes left = {column->at, (uint64_t)(column->end - column->at)};
    uint64_t number;

    if (!bytes_take_uleb128(&left, &number)) {
        columns->broken = true;
        return 0;
    }
    column->at = left.data;
    return number;
}
