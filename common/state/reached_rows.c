/*
 * How a matrix is stored: see reached_rows.h.
 */
#include "common/state/reached_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/codec/zstd.h"

/* Higher levels make real matrices smaller by a twentieth, and take several times as long. */
#define LEVEL 3

uint64_t reached_block_count(uint64_t functions)
{
    return functions / REACHED_BLOCK + (functions % REACHED_BLOCK != 0);
}

size_t reached_block_width(uint64_t functions, uint64_t block)
{
    uint64_t left = functions - block * REACHED_BLOCK;

    return left < REACHED_BLOCK ? (size_t)left : REACHED_BLOCK;
}

/* ---- rows and columns ---- */

/* Transposes 8 by 8 bits: bit 8 * i + k becomes bit 8 * k + i (Hacker's Delight, 7-3). */
static uint64_t transpose_square(uint64_t bits)
{
    uint64_t swapped = (bits ^ bits >> 7) & UINT64_C(0x00aa00aa00aa00aa);

    bits ^= swapped ^ swapped << 7;
    swapped = (bits ^ bits >> 14) & UINT64_C(0x0000cccc0000cccc);
    bits ^= swapped ^ swapped << 14;
    swapped = (bits ^ bits >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return bits ^ swapped ^ swapped << 28;
}

void reached_transpose(const uint8_t *from, size_t height, size_t width, size_t from_stride,
                       uint8_t *to, size_t to_stride)
{
    for (size_t top = 0; top < height; top += 8) {
        size_t rows = height - top < 8 ? height - top : 8;

        for (size_t left = 0; left < width; left += 8) {
            const uint8_t *square = from + top * from_stride + left / 8;
            size_t columns = width - left < 8 ? width - left : 8;
            uint64_t bits = 0;

            for (size_t i = 0; i < rows; i++)
                bits |= (uint64_t)square[i * from_stride] << 8 * i;
            bits = transpose_square(bits);
            for (size_t i = 0; i < columns; i++)
                to[(left + i) * to_stride + top / 8] = (uint8_t)(bits >> 8 * i);
        }
    }
}

/* ---- encoding ---- */

/* Memory for one block. */
struct block_buffers {
    uint8_t *rows;
    size_t rows_size;
    uint8_t *columns;
    size_t column_size;
};

/* The numbers before the names; those of the blocks are filled in later. */
static bool append_front(const struct reached_rows *rows, struct bytes text, uint64_t stored_size,
                         struct buffer *to)
{
    const uint64_t words[REACHED_HEADER_COUNT] = {rows->function_count, rows->test_count, text.size,
                                                  stored_size};
    uint8_t front[REACHED_HEADER_SIZE];

    for (size_t i = 0; i < REACHED_HEADER_COUNT; i++)
        store_u64(front + i * sizeof(words[i]), words[i], false);
    return buffer_append(to, front, sizeof(front)) &&
           buffer_append_zeros(to, (size_t)reached_block_count(rows->function_count) *
                                       sizeof(uint64_t));
}

static bool append_names(const struct reached_rows *rows, struct buffer *to, struct error *error)
{
    struct buffer text = {0}, stored = {0};
    bool done = true;

    for (size_t i = 0; done && i < rows->test_count; i++)
        done = buffer_append(&text, rows->tests[i], strlen(rows->tests[i]) + 1);
    if (!done)
        error_out_of_memory(error, rows->name, text.size);
    else
        done = codec_compress_once(buffer_view(&text), LEVEL, false, rows->name, &stored, error);
    if (done && !(append_front(rows, buffer_view(&text), stored.size, to) &&
                  buffer_append(to, stored.data, stored.size)))
        done = error_out_of_memory(error, rows->name, stored.size);
    buffer_free(&text);
    buffer_free(&stored);
    return done;
}

static bool append_block(const struct reached_rows *rows, uint64_t block,
                         const struct block_buffers *buffers, struct buffer *to,
                         struct error *error)
{
    size_t width = reached_block_width(rows->function_count, block);
    struct bytes columns = {buffers->columns, width * buffers->column_size};

    memset(buffers->rows, 0, buffers->rows_size);
    if (!rows->fill(rows->context, block, buffers->rows, error))
        return false;
    if (bytes_all_zero((struct bytes){buffers->rows, buffers->rows_size}))
        return true;
    reached_transpose(buffers->rows, rows->test_count, width, REACHED_ROW_SIZE, buffers->columns,
                      buffers->column_size);
    return codec_compress_once(columns, LEVEL, false, rows->name, to, error);
}

static bool append_blocks(const struct reached_rows *rows, size_t sizes, struct buffer *to,
                          struct error *error)
{
    struct block_buffers buffers = {.rows_size = rows->test_count * REACHED_ROW_SIZE,
                                    .column_size = bit_set_size(rows->test_count)};
    bool done;

    buffers.rows = malloc(buffers.rows_size);
    buffers.columns = malloc(buffers.column_size * REACHED_BLOCK);
    done = (buffers.rows != NULL && buffers.columns != NULL) ||
           error_out_of_memory(error, rows->name, 2 * buffers.rows_size);
    for (uint64_t block = 0; done && block < reached_block_count(rows->function_count); block++) {
        size_t start = to->size;

        done = append_block(rows, block, &buffers, to, error);
        if (done)
            store_u64(to->data + sizes + block * sizeof(uint64_t), to->size - start, false);
    }
    free(buffers.rows);
    free(buffers.columns);
    return done;
}

bool reached_rows_encode(const struct reached_rows *rows, struct buffer *to, struct error *error)
{
    size_t sizes = to->size + REACHED_HEADER_SIZE;

    return rows->test_count == 0 ||
           (append_names(rows, to, error) && append_blocks(rows, sizes, to, error));
}
