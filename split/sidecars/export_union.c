/*
 * The file of `export --union`: see export_union.h.
 */
#include "split/sidecars/export_union.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/file.h"
#include "common/sidecar/union.h"
#include "split/cli/message.h"

static bool write_part(void *context, struct bytes part, struct error *error)
{
    struct union_output *all = context;

    return output_write(&all->output, part, error);
}

bool union_output_start(struct union_output *all, const char *path, struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};

    *all = (struct union_output){.path = path};
    if (!output_create(&all->output, path, &options, error))
        return false;
    all->writer = union_new(path, write_part, all, error);
    if (all->writer == NULL)
        output_discard(&all->output);
    return all->writer != NULL;
}

bool union_output_add(struct union_output *all, const struct sidecar *sidecar, bool is_named,
                      struct error *error)
{
    bool is_needed = is_named && sidecar_facts(sidecar)->is_placeholder;

    if (sidecar_holds_nothing(sidecar) && !is_needed)
        return true;
    return union_add(all->writer, sidecar, error);
}

bool union_output_finish(struct union_output *all, bool verbose, struct error *error)
{
    enum output_result result;
    bool done = union_finish(all->writer, error);

    if (!done)
        output_discard(&all->output);
    done = done && output_commit(&all->output, &result, error);
    if (done && verbose)
        message_line(stdout, "%s: images: %zu; records of functions: %" PRIu64 " of %" PRIu64,
                     all->path, union_member_count(all->writer), union_records_kept(all->writer),
                     union_records_read(all->writer));
    union_free(all->writer);
    all->writer = NULL;
    return done;
}

void union_output_discard(struct union_output *all)
{
    if (all->writer == NULL)
        return;
    output_discard(&all->output);
    union_free(all->writer);
    all->writer = NULL;
}
