/*
 * covsplit correlate: makes full raw profiles from lightweight ones and their sidecars. Profiles
 * that lack nothing are written unchanged, expanded if they are sparse.
 */
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/profiles/correlate_dump.h"

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

/* The first profile has been found already. */
static bool correlate_all(struct profile_reader *reader, struct profile *profile,
                          struct profile_sidecars *sidecars, struct output *output,
                          struct error *error)
{
    bool found = true;

    while (found) {
        if (!correlate_one(profile, reader->name, sidecars, output, error) ||
            !profile_reader_next(reader, profile, &found, error))
            return false;
    }
    return true;
}

/* Checks the first profile before the output is created. */
static bool correlate(const struct parsed_options *options, struct profile_reader *reader,
                      struct profile_sidecars *sidecars, struct error *error)
{
    struct output_options output_options = {.mode = file_new_mode()};
    struct output output;
    struct profile first;
    enum output_result result;

    if (!profile_reader_first(reader, &first, error) ||
        !output_create(&output, option_text(options, OPTION_OUTPUT), &output_options, error))
        return false;
    if (!correlate_all(reader, &first, sidecars, &output, error)) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

static bool correlate_file(const struct parsed_options *options, struct profile_sidecars *sidecars,
                           struct error *error)
{
    uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);
    struct profile_stream stream = {.limit = limit};
    struct profile_reader reader = {.limit = limit};
    struct input file;
    bool done;

    if (!stream_read_input(&file, options->operands[0], memory_limit_given(limit),
                           profile_stream_check, &stream, error))
        return false;
    reader.file = file.bytes;
    reader.name = file.path;
    done = correlate(options, &reader, sidecars, error);
    profile_reader_free(&reader);
    input_close(&file);
    return done;
}

/* Why the command line makes no sense; NULL if it does. */
static const char *find_misuse(const struct parsed_options *options)
{
    if (option_given(options, OPTION_COUNTERS))
        return correlate_dump_misuse(options);
    if (option_given(options, OPTION_BITMAP) || option_given(options, OPTION_UUID))
        return "'--bitmap' and '--uuid' are for '--counters'";
    return options->operand_count == 0 ? "PROFILE is missing" : NULL;
}

int command_correlate(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {0};
    const char *misuse = find_misuse(options);
    struct error error = {0};
    bool done;

    if (misuse != NULL)
        return message_usage("correlate", "%s", misuse);
    done = profile_sidecars_open(&sidecars, options, &error) &&
           (option_given(options, OPTION_COUNTERS) ? correlate_dump
                                                   : correlate_file)(options, &sidecars, &error);
    if (!done)
        message_error(&error);
    profile_sidecars_close(&sidecars);
    return done ? STATUS_DONE : STATUS_FAILED;
}
