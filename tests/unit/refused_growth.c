/*
 * Refused growth of buffers and arrays, when memory_growth_counts: see refused_memory.h.
 */
#include "common/base/array.h"
#include "common/base/bytes.h"
#include "tests/unit/refused_memory.h"

bool memory_growth_counts;

bool __real_buffer_reserve(struct buffer *buffer, size_t more);
bool __real_buffer_append(struct buffer *buffer, const void *data, size_t size);
bool __real_buffer_append_zeros(struct buffer *buffer, size_t size);
bool __real_buffer_append_uleb128(struct buffer *buffer, uint64_t value);
bool __real_array_make_room(void *array, size_t *capacity, size_t count, size_t more,
                            size_t item_size);
bool __wrap_buffer_reserve(struct buffer *buffer, size_t more);
bool __wrap_buffer_append(struct buffer *buffer, const void *data, size_t size);
bool __wrap_buffer_append_zeros(struct buffer *buffer, size_t size);
bool __wrap_buffer_append_uleb128(struct buffer *buffer, uint64_t value);
bool __wrap_array_make_room(void *array, size_t *capacity, size_t count, size_t more,
                            size_t item_size);

static bool is_granted(void)
{
    return !memory_growth_counts || memory_is_granted();
}

/* As when memory runs out, the buffer remembers a refusal. */
static bool may_grow(struct buffer *buffer)
{
    if (!is_granted())
        buffer->failed = true;
    return !buffer->failed;
}

bool __wrap_buffer_reserve(struct buffer *buffer, size_t more)
{
    return may_grow(buffer) && __real_buffer_reserve(buffer, more);
}

bool __wrap_buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    return may_grow(buffer) && __real_buffer_append(buffer, data, size);
}

bool __wrap_buffer_append_zeros(struct buffer *buffer, size_t size)
{
    return may_grow(buffer) && __real_buffer_append_zeros(buffer, size);
}

bool __wrap_buffer_append_uleb128(struct buffer *buffer, uint64_t value)
{
    return may_grow(buffer) && __real_buffer_append_uleb128(buffer, value);
}

bool __wrap_array_make_room(void *array, size_t *capacity, size_t count, size_t more,
                            size_t item_size)
{
    return is_granted() && __real_array_make_room(array, capacity, count, more, item_size);
}
