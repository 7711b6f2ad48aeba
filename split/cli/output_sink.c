/*
 * Sinks into outputs: see output_sink.h.
 */
#include "split/cli/output_sink.h"

#include "split/cli/message.h"

bool output_sink_write(void *context, const void *data, size_t size)
{
    struct output_sink *sink = context;
    struct bytes part = {data, size};

    return output_write(sink->output, part, &sink->error);
}

bool output_sink_error(const struct output_sink *sink, covsplit_error *from, struct error *error)
{
    error_from_reader(error, from);
    /* The reader only knows that the sink stopped; the sink knows why. */
    if (sink->error.message[0] != '\0')
        *error = sink->error;
    return false;
}

bool correlate_into(struct output *output, const covsplit_profile *profile,
                    covsplit_sidecar *sidecar, struct error *error)
{
    struct output_sink sink = {.output = output};
    covsplit_error *reader_error = NULL;

    if (!output_write_zeros(output, profile_padding(output->size), error))
        return false;
    return covsplit_profile_correlate(profile, sidecar, output_sink_write, &sink, &reader_error) ||
           output_sink_error(&sink, reader_error, error);
}
