/*
 * Makes a union of all images in a store with libcovsplit, as `covsplit export --union` does: one
 * file for llvm-cov in place of the images.
 *
 *     cc union.c $(pkg-config --cflags --libs covsplit) -o union
 *     ./union STORE > all.a
 *     llvm-cov report all.a -instr-profile=...
 */
#include <covsplit.h>
#include <stdio.h>

struct job {
    covsplit_union *all;
    covsplit_error *error;
};

static bool write_part(void *context, const void *data, size_t size)
{
    return fwrite(data, 1, size, (FILE *)context) == size;
}

/* Images without coverage are left out. */
static bool has_coverage(const covsplit_sidecar *sidecar)
{
    covsplit_section section;

    return !covsplit_sidecar_is_placeholder(sidecar) &&
           covsplit_sidecar_find(sidecar, "__llvm_covfun", &section) && section.stored_size != 0;
}

/* Adds one image; false, which ends the visit, if that fails. */
static bool add(void *context, const char *path, const uint8_t *uuid, size_t uuid_size)
{
    struct job *job = (struct job *)context;
    covsplit_sidecar *sidecar = covsplit_sidecar_open(path, &job->error);
    bool done = sidecar != NULL &&
                (!has_coverage(sidecar) || covsplit_union_add(job->all, sidecar, &job->error));

    (void)uuid;
    (void)uuid_size;
    covsplit_sidecar_close(sidecar);
    return done;
}

static bool make_union(const char *directories, struct job *job)
{
    covsplit_store *store = covsplit_store_open(directories, &job->error);
    covsplit_error *stopped = NULL;
    bool done;

    job->all = store == NULL ? NULL : covsplit_union_new(write_part, stdout, &job->error);
    done = job->all != NULL && covsplit_store_visit(store, add, job, &stopped);
    if (job->error == NULL)
        job->error = stopped;
    else
        covsplit_error_free(stopped); /* says only that `add` returned false */
    done = done && covsplit_union_finish(job->all, &job->error);
    covsplit_union_free(job->all);
    covsplit_store_close(store);
    return done;
}

int main(int argument_count, char **arguments)
{
    struct job job = {NULL, NULL};

    if (argument_count != 2)
        return 2;
    if (make_union(arguments[1], &job) && fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "%s\n",
            job.error == NULL ? "standard output: no space" : covsplit_error_message(job.error));
    covsplit_error_free(job.error);
    return 1;
}
