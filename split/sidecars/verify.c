/*
 * covsplit verify: checks sidecars through the reader library, one after the other, and with
 * --image that joining would give the original and a second reader sees the same image; with
 * --store, all of a store.
 */
#include <string.h>

#include "common/base/error.h"
#include "reader/covsplit.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/sidecars/second_reader.h"
#include "split/sidecars/sidecar_check.h"
#include "split/split/universal.h"

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
    return uuid_equal(&own, uuid) ||
           error_set(error,
                     "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                     "where it belongs",
                     path, uuid_format(&own, hex));
}

static bool check_not_placeholder(const covsplit_sidecar *sidecar, const char *path,
                                  struct error *error)
{
    return !covsplit_sidecar_is_placeholder(sidecar) ||
           error_set(error,
                     "%s: is a placeholder, which holds nothing; split the original image again, "
                     "or remove it",
                     path);
}

/* Neither a section nor a copy of one. */
static bool holds_nothing(const covsplit_sidecar *sidecar)
{
    covsplit_section section;

    for (size_t i = 0; covsplit_sidecar_section(sidecar, i, &section); i++) {
        if (section.stored_size != 0)
            return false;
    }
    return true;
}

/* The slice that a sidecar belongs to is the one that it can be joined with. */
static bool restore_from_slice(const covsplit_sidecar *sidecar, const char *path,
                               const struct input *stripped, struct error *error)
{
    uint64_t size = covsplit_sidecar_stripped_size(sidecar);
    covsplit_error *reader_error = NULL;
    struct universal universal;
    bool done = false;

    if (!universal_read(stripped->bytes, stripped->path, &universal, error))
        return false;
    error_set(error, "%s: belongs to no slice of %s; give the sidecar of a slice", path,
              stripped->path);
    for (size_t i = 0; i < universal.count && !done; i++) {
        const struct universal_slice *slice = &universal.slices[i];

        if (slice->size != size)
            continue;
        done = covsplit_sidecar_restore(sidecar, stripped->bytes.data + slice->offset, (size_t)size,
                                        stripped->path, drop_part, NULL, &reader_error);
        if (!done)
            error_from_reader(error, reader_error);
        reader_error = NULL;
    }
    return done && input_unchanged(stripped, error);
}

static bool check_join(const covsplit_sidecar *sidecar, const char *path, const char *stripped_path,
                       struct error *error)
{
    covsplit_error *reader_error = NULL;
    struct input stripped;
    bool is_universal, done;

    if (!input_open(&stripped, stripped_path, error))
        return false;
    is_universal = universal_recognize(stripped.bytes);
    done = !is_universal || restore_from_slice(sidecar, path, &stripped, error);
    input_close(&stripped);
    if (!is_universal &&
        !covsplit_sidecar_restore_file(sidecar, stripped_path, drop_part, NULL, &reader_error))
        return error_from_reader(error, reader_error);
    return done && second_reader_agrees(stripped_path, error);
}

bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   uint64_t memory_limit, bool *is_empty, struct error *error)
{
    covsplit_error *reader_error = NULL;
    covsplit_sidecar *sidecar = covsplit_sidecar_open(path, &reader_error);
    bool good;

    if (sidecar == NULL)
        return error_from_reader(error, reader_error);
    covsplit_sidecar_limit_memory(sidecar, memory_limit);
    good =
        (uuid == NULL || check_place(sidecar, path, uuid, error)) &&
        check_not_placeholder(sidecar, path, error) &&
        (covsplit_sidecar_verify(sidecar, &reader_error) || error_from_reader(error, reader_error));
    *is_empty = holds_nothing(sidecar);
    good = good && (stripped == NULL || check_join(sidecar, path, stripped, error));
    covsplit_sidecar_close(sidecar);
    return good;
}

static int verify_files(const struct parsed_options *options)
{
    int status = STATUS_DONE;

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        struct error error;
        bool is_empty;

        if (!check_sidecar(path, NULL, option_text(options, OPTION_IMAGE),
                           option_number(options, OPTION_MEMORY_LIMIT), &is_empty, &error)) {
            message_error(&error);
            status = STATUS_FAILED;
            continue;
        }
        if (is_empty)
            message_warning("%s: holds nothing: there was nothing to take out of its image", path);
        if (option_given(options, OPTION_VERBOSE)) {
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
    return store == NULL ? verify_files(options) : check_store(store, options);
}
