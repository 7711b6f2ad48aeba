/*
 * covsplit join: the original image from a stripped one and its sidecar.
 *
 * Restoring checks the result's digest; the output gets its name only after that.
 */
#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/split/universal.h"

#define PERMISSION_BITS 07777

static bool write_original(const struct sidecar *sidecar, const struct input *stripped,
                           const char *path, struct error *error)
{
    struct output output;
    struct output_options output_options = {
        .mode = stripped->status.st_mode & PERMISSION_BITS,
        .in_place = paths_meet(path, stripped->path) ? stripped : NULL,
    };
    enum output_result result;

    if (!output_create(&output, path, &output_options, error))
        return false;
    if (!(sidecar_restore_input(sidecar, stripped, output_sink, &output, error) ||
          file_blame(stripped->path, error)) ||
        !input_unchanged(stripped, error)) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

static bool join(const struct parsed_options *options, const struct input *stripped,
                 const char *sidecar_path, struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);
    struct sidecar *sidecar;
    bool done;

    if (paths_meet(sidecar_path, output))
        return error_set(error, "%s: is the sidecar, which joining would replace; give another -o",
                         output);
    sidecar = sidecar_read_for(options, sidecar_path, error);
    if (sidecar == NULL)
        return false;
    done = write_original(sidecar, stripped, output, error);
    sidecar_close(sidecar);
    return done;
}

int command_join(const struct parsed_options *options)
{
    struct input stripped;
    struct error error = {0};
    char *sidecar_path = NULL;
    bool done = false;

    if (!input_open(&stripped, options->operands[0], &error)) {
        message_error(&error);
        return STATUS_FAILED;
    }
    if (universal_recognize(stripped.bytes))
        done = universal_join(options, &stripped, &error);
    else if ((sidecar_path = find_sidecar(options, &stripped, &error)) != NULL)
        done = join(options, &stripped, sidecar_path, &error);
    if (!done)
        message_error(&error);
    free(sidecar_path);
    input_close(&stripped);
    return done ? STATUS_DONE : STATUS_FAILED;
}
