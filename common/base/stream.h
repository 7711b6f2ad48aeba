/*
 * Streams: inputs that can be read only once, and whose size is not known before their end. These
 * are standard input, which the path "-" stands for, and FIFOs, as in `covsplit merge <(ssh ...)`.
 *
 * Where a stream is allowed, any other file may be given, too.
 */
#ifndef COVSPLIT_COMMON_BASE_STREAM_H
#define COVSPLIT_COMMON_BASE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"

#define STREAM_STANDARD_INPUT "-"

/* True if the path is "-". (A file of that name is "./-".) */
bool stream_is_standard_input(const char *path);

/* True if the path is "-" or that of a FIFO. */
bool stream_is(const char *path);

/* The name of the path in messages: "standard input", or as it is. */
const char *stream_name(const char *path);

/* Called from time to time with what was read so far: soon after the first bytes have come, and
 * then whenever that has grown by a quarter. False, with an error, if it cannot be what is wanted,
 * so that a stream without an end is not read forever. `name` is the stream's name in messages. */
typedef bool (*stream_check)(void *context, const char *name, struct bytes so_far,
                             struct error *error);

/* Reads a stream to its end, or another file as file_read_into does, into the buffer, replacing its
 * contents. Waits for the writer, however long that takes. Fails if there are more than `limit`
 * bytes (memory_limit.h). The check may be NULL. */
bool stream_read_into(struct buffer *buffer, const char *path, uint64_t limit, stream_check check,
                      void *context, struct error *error);

/* The same for an input: a stream is read as by stream_read_into, other files as by input_read,
 * without a limit. */
bool stream_read_input(struct input *input, const char *path, uint64_t limit, stream_check check,
                       void *context, struct error *error);

#endif
