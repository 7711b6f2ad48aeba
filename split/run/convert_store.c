/*
 * Converting stores: see convert_store.h.
 */
#include "split/run/convert_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/sidecar/union.h"
#include "common/store/store.h"

bool store_is_subject(const struct subject *subject)
{
    struct stat status;

    return fstatat(subject->fd, ".build-id", &status, 0) == 0 && S_ISDIR(status.st_mode);
}

/* The program may name another directory by that path, if it has another root. */
static void find_directory(const struct subject *subject, char directory[PATH_MAX])
{
    if (file_is(subject->name, &subject->status))
        snprintf(directory, PATH_MAX, "%s", subject->name);
    else
        snprintf(directory, PATH_MAX, "/proc/self/fd/%d", subject->fd);
}

static bool walk(const struct subject *subject, store_visitor visit, void *context,
                 struct error *error)
{
    char directory[PATH_MAX];

    find_directory(subject, directory);
    return store_walk(directory, visit, context, error);
}

/* ---- what is there ---- */

static bool add_identity(void *context, const char *path, const struct uuid *uuid,
                         struct error *error)
{
    struct digest identity = {.bytes = {0}};
    struct stat status;

    (void)error;
    if (stat(path, &status) == 0)
        identity = run_sidecars_file_identity(&status);
    digest_stream_add(context, (struct bytes){uuid->bytes, uuid->size});
    digest_stream_add(context, (struct bytes){identity.bytes, sizeof(identity.bytes)});
    return true;
}

bool store_identify(const struct subject *subject, struct digest_stream *digest,
                    struct error *error)
{
    return walk(subject, add_identity, digest, error);
}

/* ---- the union ---- */

struct conversion {
    const struct run_sidecars *sidecars;
    struct memory_file *file;
    struct union_writer *writer;
};

/* Placeholders, and sidecars of images without coverage, are ignored. */
static bool add_sidecar(struct conversion *conversion, struct sidecar *sidecar, struct error *error)
{
    struct error why;

    if (!sidecar_is_real(sidecar, &why) || sidecar_holds_nothing(sidecar))
        return true;
    run_sidecars_set_up(conversion->sidecars, sidecar);
    memory_file_allow(conversion->file, sidecar_memory_limit(sidecar));
    return union_add(conversion->writer, sidecar, error);
}

/* Another process may clean up the store meanwhile. */
static bool add_member(void *context, const char *path, const struct uuid *uuid,
                       struct error *error)
{
    struct sidecar *sidecar;
    bool done;

    if (access(path, F_OK) != 0 && errno == ENOENT)
        return true;
    sidecar = sidecar_read(path, error);
    done = sidecar != NULL && store_check_uuid(path, &sidecar_facts(sidecar)->uuid, uuid, error) &&
           add_sidecar(context, sidecar, error);
    sidecar_close(sidecar);
    return done;
}

bool convert_store(const struct subject *subject, const struct run_sidecars *sidecars,
                   struct memory_file *file, struct error *error)
{
    struct conversion conversion = {.sidecars = sidecars, .file = file};
    bool done;

    conversion.writer = union_new(subject->name, memory_file_write, file, error);
    done = conversion.writer != NULL && walk(subject, add_member, &conversion, error);
    if (done && union_member_count(conversion.writer) == 0)
        done = error_set(error,
                         "%s: the store has no sidecar with coverage; name a directory that was "
                         "given to split --store",
                         subject->name);
    done = done && union_finish(conversion.writer, error);
    union_free(conversion.writer);
    return done;
}
