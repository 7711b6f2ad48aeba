/*
 * covsplit correlate: full raw profiles from lightweight ones and their sidecars.
 *
 * The reader library does the work; each profile of the file goes through it, and those that lack
 * nothing come out as they are.
 */
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "reader/covsplit.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/cli/output_sink.h"
#include "split/profiles/profile_sidecars.h"

static bool correlate_one(const covsplit_profile *profile, const char *name,
                          const struct profile_sidecars *sidecars, struct output *output,
                          struct error *error)
{
    covsplit_sidecar *sidecar = NULL;
    bool done;

    if (covsplit_profile_needs_sidecar(profile)) {
        sidecar = profile_sidecars_find(sidecars, profile, name, error);
        if (sidecar == NULL)
            return false;
    }
    done = correlate_into(output, profile, sidecar, error) || file_blame(name, error);
    profile_sidecars_release(sidecars, sidecar);
    return done;
}

static bool correlate_all(covsplit_profile *profile, const char *name,
                          const struct profile_sidecars *sidecars, struct output *output,
                          struct error *error)
{
    covsplit_error *reader_error = NULL;
    bool found = true;

    while (found) {
        if (!correlate_one(profile, name, sidecars, output, error))
            return false;
        if (!covsplit_profile_next(profile, &found, &reader_error))
            return error_from_reader(error, reader_error);
    }
    return true;
}

/* The output must not replace what it is made of. */
static bool check_output(const struct parsed_options *options, struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);
    const char *sidecar = option_text(options, OPTION_SIDECAR);
    struct stat status;

    if (sidecar == NULL || stat(sidecar, &status) != 0 || !file_is(output, &status))
        return true;
    return error_set(error, "%s: is the sidecar, which would be replaced; give another -o", output);
}

static bool correlate(const struct parsed_options *options, covsplit_profile *profile,
                      const struct profile_sidecars *sidecars, struct error *error)
{
    struct output_options output_options = {.mode = file_new_mode()};
    struct output output;
    enum output_result result;

    if (!output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error))
        return false;
    if (!correlate_all(profile, options->operands[0], sidecars, &output, error)) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

int command_correlate(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {0};
    covsplit_error *reader_error = NULL;
    covsplit_profile *profile = NULL;
    struct error error = {0};
    bool done = false;

    if (check_output(options, &error) && profile_sidecars_open(&sidecars, options, &error)) {
        profile = covsplit_profile_open(options->operands[0], &reader_error);
        if (profile == NULL)
            error_from_reader(&error, reader_error);
        else
            done = correlate(options, profile, &sidecars, &error);
    }
    if (!done)
        message_error(&error);
    covsplit_profile_close(profile);
    profile_sidecars_close(&sidecars);
    return done ? STATUS_DONE : STATUS_FAILED;
}
