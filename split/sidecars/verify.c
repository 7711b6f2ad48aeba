/*
 * covsplit verify: checks sidecars, one after the other, and with --image that joining would give
 * the original and a second reader sees the same image; with
 * --store, all of a store.
 */
#include "common/base/error.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/sidecars/second_reader.h"
#include "split/sidecars/sidecar_check.h"
#include "split/split/universal.h"

/* A bytes_sink. Only the digest at the end of the restoring counts here. */
static bool drop_part(void *context, struct bytes part, struct error *error)
{
    (void)context;
    (void)part;
    (void)error;
    return true;
}

static bool check_not_placeholder(const struct sidecar *sidecar, const char *path,
                                  struct error *error)
{
    return !sidecar_facts(sidecar)->is_placeholder ||
           error_set(error,
                     "%s: is a placeholder, which holds nothing; split the original image again, "
                     "or remove it",
                     path);
}

/* Neither a section nor a copy of one. */
static bool holds_nothing(const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar_section_count(sidecar); i++) {
        if (sidecar_section(sidecar, i)->stored_size != 0)
            return false;
    }
    return true;
}

/* The slice that a sidecar belongs to is the one that it can be joined with. */
static bool restore_from_slice(const struct sidecar *sidecar, const char *path,
                               const struct input *stripped, struct error *error)
{
    uint64_t size = sidecar_facts(sidecar)->stripped_size;
    struct universal universal;
    bool done = false;

    if (!universal_read(stripped->bytes, stripped->path, &universal, error))
        return false;
    error_set(error, "%s: belongs to no slice of %s; give the sidecar of a slice", path,
              stripped->path);
    for (size_t i = 0; i < universal.count && !done; i++) {
        const struct universal_slice *slice = &universal.slices[i];

        done = slice->size == size &&
               sidecar_restore(sidecar,
                               (struct bytes){stripped->bytes.data + slice->offset, slice->size},
                               stripped->path, drop_part, NULL, error);
    }
    return done;
}

static bool check_join(const struct sidecar *sidecar, const char *path, const char *stripped_path,
                       struct error *error)
{
    struct input stripped;
    bool done;

    if (!input_open(&stripped, stripped_path, error))
        return false;
    done = universal_recognize(stripped.bytes)
               ? restore_from_slice(sidecar, path, &stripped, error)
               : sidecar_restore_input(sidecar, &stripped, drop_part, NULL, error);
    done = done && input_unchanged(&stripped, error);
    input_close(&stripped);
    return done && second_reader_agrees(stripped_path, error);
}

bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   const struct parsed_options *options, bool *is_empty, struct error *error)
{
    struct sidecar *sidecar = sidecar_read_for(options, path, error);
    bool good;

    if (sidecar == NULL)
        return false;
    good = (uuid == NULL || store_check_uuid(path, &sidecar_facts(sidecar)->uuid, uuid, error)) &&
           check_not_placeholder(sidecar, path, error) && sidecar_verify(sidecar, error);
    *is_empty = holds_nothing(sidecar);
    good = good && (stripped == NULL || check_join(sidecar, path, stripped, error));
    sidecar_close(sidecar);
    return good;
}

static int verify_files(const struct parsed_options *options)
{
    int status = STATUS_DONE;

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        struct error error;
        bool is_empty;

        if (!check_sidecar(path, NULL, option_text(options, OPTION_IMAGE), options, &is_empty,
                           &error)) {
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
