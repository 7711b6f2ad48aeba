/*
 * covsplit correlate: makes full raw profiles from lightweight ones and their sidecars. Profiles
 * that lack nothing are written unchanged.
 */
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"

static bool correlate_one(const struct profile *profile, const char *name,
                          struct profile_sidecars *sidecars, struct output *output,
                          struct error *error)
{
    struct profile_sidecar *sidecar = NULL;
    bool done;

    if (profile_needs_sidecar(profile)) {
        sidecar = profile_sidecars_find(sidecars, profile, name, error);
        if (sidecar == NULL)
            return false;
    }
    done = profile_sidecar_write(sidecar, profile, name, output, error) || file_blame(name, error);
    profile_sidecars_release(sidecars, sidecar);
    return done;
}

static bool correlate_all(const struct input *file, struct profile_sidecars *sidecars,
                          struct output *output, struct error *error)
{
    struct profile profile;

    for (uint64_t offset = 0; profile_find_next(file->bytes, &offset); offset += profile.size) {
        if (!profile_parse(file->bytes, offset, file->path, &profile, error) ||
            !correlate_one(&profile, file->path, sidecars, output, error))
            return false;
    }
    return true;
}

/* Checks the input before the output is created. */
static bool check_first(const struct input *file, struct error *error)
{
    struct profile first;
    uint64_t offset;

    return profile_find_first(file->bytes, file->path, &offset, error) &&
           profile_parse(file->bytes, offset, file->path, &first, error);
}

static bool correlate(const struct parsed_options *options, const struct input *file,
                      struct profile_sidecars *sidecars, struct error *error)
{
    struct output_options output_options = {.mode = file_new_mode()};
    struct output output;
    enum output_result result;

    if (!check_first(file, error) ||
        !output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error))
        return false;
    if (!correlate_all(file, sidecars, &output, error)) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

int command_correlate(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {0};
    struct error error = {0};
    struct input file;
    bool done = false;

    if (profile_sidecars_open(&sidecars, options, &error) &&
        input_read(&file, options->operands[0], &error)) {
        done = correlate(options, &file, &sidecars, &error);
        input_close(&file);
    }
    if (!done)
        message_error(&error);
    profile_sidecars_close(&sidecars);
    return done ? STATUS_DONE : STATUS_FAILED;
}
