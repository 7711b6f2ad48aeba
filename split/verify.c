/*
 * covsplit verify: checks sidecars through the reader library, one after the other, and with
 * --image that joining would give the original.
 */
#include "common/error.h"
#include "reader/covsplit.h"
#include "split/commands.h"
#include "split/message.h"

/* Only the digest at the end of the restoring counts here. */
static bool drop_part(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return true;
}

/* `stripped` is NULL without --image. */
static bool verify(const char *path, const char *stripped, struct error *error)
{
    covsplit_error *reader_error = NULL;
    covsplit_sidecar *sidecar = covsplit_sidecar_open(path, &reader_error);
    bool good;

    if (sidecar == NULL)
        return error_from_reader(error, reader_error);
    good = covsplit_sidecar_verify(sidecar, &reader_error) &&
           (stripped == NULL ||
            covsplit_sidecar_restore_file(sidecar, stripped, drop_part, NULL, &reader_error));
    covsplit_sidecar_close(sidecar);
    return good ? true : error_from_reader(error, reader_error);
}

int command_verify(const struct parsed_options *options)
{
    int status = STATUS_DONE;

    for (size_t i = 0; i < options->operand_count; i++) {
        struct error error;

        if (!verify(options->operands[i], option_text(options, OPTION_IMAGE), &error)) {
            message_error(&error);
            status = STATUS_FAILED;
        } else if (option_given(options, OPTION_VERBOSE)) {
            message_line(stdout, "%s: ok", options->operands[i]);
        }
    }
    return status;
}
