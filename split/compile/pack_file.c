/*
 * Packing a file: see pack_file.h.
 */
#include "split/compile/pack_file.h"

#include "formats/object/archive.h"
#include "split/compile/pack_job.h"

static bool pack_either(struct pack_job *job, struct error *error)
{
    return archive_recognize(job->input.bytes) ? pack_archive(job, error) : pack_object(job, error);
}

bool pack_file(const char *path, const struct pack_options *options, struct pack_report *report,
               struct error *error)
{
    return pack_open(path, options, report, pack_either, error);
}
