/*
 * covsplit verify: checks sidecars through the reader library, one after the other, and with
 * --image that joining would give the original and a second reader sees the same image; with
 * --store, all of a store.
 */
#include <string.h>

#include "common/error.h"
#include "reader/covsplit.h"
#include "split/commands.h"
#include "split/message.h"
#include "split/second_reader.h"
#include "split/sidecar_check.h"

/* Only the digest at the end of the restoring counts here. */
static bool drop_part(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return true;
}

static bool check_place(const covsplit_sidecar *sidecar, const char *path, const struct uuid *uuid,
                        struct error *error)
{
    struct uuid own = {.size = 0};
    char hex[UUID_HEX_MAX];
    const uint8_t *bytes = covsplit_sidecar_uuid(sidecar, &own.size);

    memcpy(own.bytes, bytes, own.size);
    if (!uuid_equal(&own, uuid))
        return error_set(error,
                         "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                         "where it belongs",
                         path, uuid_format(&own, hex));
    if (covsplit_sidecar_is_placeholder(sidecar))
        return error_set(error,
                         "%s: is a placeholder, which holds nothing; split the original image "
                         "again, or remove it",
                         path);
    return true;
}

bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   struct error *error)
{
    covsplit_error *reader_error = NULL;
    covsplit_sidecar *sidecar = covsplit_sidecar_open(path, &reader_error);
    bool good;

    if (sidecar == NULL)
        return error_from_reader(error, reader_error);
    if (uuid != NULL && !check_place(sidecar, path, uuid, error)) {
        covsplit_sidecar_close(sidecar);
        return false;
    }
    good = covsplit_sidecar_verify(sidecar, &reader_error) &&
           (stripped == NULL ||
            covsplit_sidecar_restore_file(sidecar, stripped, drop_part, NULL, &reader_error));
    covsplit_sidecar_close(sidecar);
    if (!good)
        return error_from_reader(error, reader_error);
    return stripped == NULL || second_reader_agrees(stripped, error);
}

static int verify_files(const struct parsed_options *options)
{
    int status = STATUS_DONE;

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        struct error error;

        if (!check_sidecar(path, NULL, option_text(options, OPTION_IMAGE), &error)) {
            message_error(&error);
            status = STATUS_FAILED;
        } else if (option_given(options, OPTION_VERBOSE)) {
            message_line(stdout, "%s: ok", path);
        }
    }
    return status;
}

int command_verify(const struct parsed_options *options)
{
    const char *store = option_text(options, OPTION_STORE);

    if (store == NULL && options->operand_count == 0)
        return message_usage("verify", "SIDECAR is missing");
    if (store != NULL && options->operand_count != 0)
        return message_usage("verify", "'%s' is one operand too many", options->operands[0]);
    return store == NULL
               ? verify_files(options)
               : check_store(store, option_threads(options), option_given(options, OPTION_VERBOSE));
}
