/*
 * Reading files of zstd frames that other programs made: see zstd.h.
 *
 * Nothing is known of their size in advance, so they are decompressed piece by piece. The memory
 * that a frame may ask for is that of its window, which `zstd` itself accepts: 128 MiB.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/codec/zstd.h"

#define FILE_WINDOW_LOG_MAX 27

struct codec_file {
    ZSTD_DCtx *zstd;
    int fd;
    const char *name;
    bool has_ended;
    ZSTD_inBuffer input;
    size_t room;
    uint64_t consumed;
    uint8_t compressed[];
};

bool codec_file_recognize(struct bytes front)
{
    return front.size >= 4 && load_u32(front.data, false) == ZSTD_MAGICNUMBER;
}

struct codec_file *codec_file_open(int fd, struct bytes front, const char *name,
                                   struct error *error)
{
    size_t room = ZSTD_DStreamInSize();
    struct codec_file *file = calloc(1, sizeof(*file) + room);

    if (file == NULL) {
        error_out_of_memory(error, name, room);
        return NULL;
    }
    file->fd = fd;
    file->name = name;
    file->room = room;
    memcpy(file->compressed, front.data, (size_t)front.size);
    file->input = (ZSTD_inBuffer){file->compressed, (size_t)front.size, 0};
    file->consumed = front.size;
    file->zstd = ZSTD_createDCtx();
    if (file->zstd == NULL || ZSTD_isError(ZSTD_DCtx_setParameter(file->zstd, ZSTD_d_windowLogMax,
                                                                  FILE_WINDOW_LOG_MAX))) {
        error_out_of_memory(error, name, room);
        codec_file_close(file);
        return NULL;
    }
    return file;
}

/* Reads more of the file once everything is consumed. */
static bool refill(struct codec_file *file, struct error *error)
{
    ssize_t have;

    if (file->input.pos < file->input.size || file->has_ended)
        return true;
    do
        have = read(file->fd, file->compressed, file->room);
    while (have < 0 && errno == EINTR);
    if (have < 0)
        return error_set_errno(error, errno, "%s: cannot read", file->name);
    file->has_ended = have == 0;
    file->input.pos = 0;
    file->input.size = (size_t)have;
    file->consumed += (uint64_t)have;
    return true;
}

static bool failed(const struct codec_file *file, size_t result, struct error *error)
{
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return error_out_of_memory(error, file->name, (uint64_t)1 << FILE_WINDOW_LOG_MAX);
    case ZSTD_error_frameParameter_windowTooLarge:
        return error_set(error,
                         "%s: compressed by zstd with a window of more than %u MiB; decompress it "
                         "first (zstd -d --long=31)",
                         file->name, 1U << (FILE_WINDOW_LOG_MAX - 20));
    default:
        return error_set(error, "%s: the zstd data is damaged (%s); copy the file again",
                         file->name, ZSTD_getErrorName(result));
    }
}

bool codec_file_read(struct codec_file *file, void *to, size_t size, size_t *have,
                     struct error *error)
{
    ZSTD_outBuffer output = {to, size, 0};

    *have = 0;
    while (output.pos < output.size) {
        size_t produced = output.pos, result;

        if (!refill(file, error))
            return false;
        /* Also at the end of the file: zstd may hold some bytes yet. */
        result = ZSTD_decompressStream(file->zstd, &output, &file->input);
        if (ZSTD_isError(result))
            return failed(file, result, error);
        if (file->has_ended && output.pos == produced)
            break;
    }
    *have = output.pos;
    return true;
}

uint64_t codec_file_consumed(const struct codec_file *file)
{
    return file->consumed;
}

void codec_file_close(struct codec_file *file)
{
    if (file == NULL)
        return;
    ZSTD_freeDCtx(file->zstd);
    free(file);
}
