/*
 * covsplit verify: checks sidecars, one after the other; with --store, all of a store.
 */
#include "common/base/error.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/sidecars/sidecar_check.h"
#include "split/sidecars/store_check.h"

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
