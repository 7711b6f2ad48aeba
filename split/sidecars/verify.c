/*
 * covsplit verify: checks sidecars one after the other, or with --store all sidecars of a store.
 */
#include "common/base/error.h"
#include "common/base/file.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/sidecars/sidecar_check.h"
#include "split/sidecars/store_check.h"

/* Checks a sidecar and prints the result; with `json`, also as an object. */
static bool verify_file(const char *path, const struct parsed_options *options,
                        struct json_writer *json)
{
    struct checked_sidecar checked = {.is_empty = false};
    struct error error;
    bool good;

    if (path_is_directory(path))
        good =
            error_set(&error, "%s: is a directory; to check a store, give it with --store", path);
    else
        good = check_sidecar(path, NULL, option_text(options, OPTION_IMAGE), options, &checked,
                             &error);
    if (!good)
        message_error(&error);
    else if (checked.is_empty)
        message_warning("%s: holds nothing: there was nothing to take out of its image", path);
    if (json != NULL)
        write_checked_sidecar(json, path, &checked, good ? NULL : &error);
    else if (good)
        message_line(stdout, "%s: ok", path);
    return good;
}

static int verify_files(const struct parsed_options *options)
{
    struct json_writer array = {.stream = stdout};
    struct json_writer *json = option_given(options, OPTION_JSON) ? &array : NULL;
    int status = STATUS_DONE;

    if (json != NULL)
        json_begin_array(json, NULL);
    for (size_t i = 0; i < options->operand_count; i++) {
        if (!verify_file(options->operands[i], options, json))
            status = STATUS_FAILED;
    }
    if (json != NULL)
        json_end_array(json);
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
