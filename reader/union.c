/*
 * Unions: see covsplit.h. A thin layer over common/sidecar/union.h.
 */
#include "common/sidecar/union.h"

#include <stdlib.h>

#include "reader/internal.h"

#define NAME "the union" /* in messages */

struct covsplit_union {
    struct union_writer *writer;
    struct caller_sink caller;
    bool has_ended; /* it failed, or is finished */
};

covsplit_union *covsplit_union_new(covsplit_sink sink, void *context, covsplit_error **error)
{
    covsplit_union *all = calloc(1, sizeof(*all));
    struct error why = {0};

    if (all == NULL) {
        error_out_of_memory(&why, NAME, sizeof(*all));
    } else {
        all->caller = (struct caller_sink){sink, context, NAME};
        all->writer = union_new(NAME, pass_to_caller, &all->caller, &why);
        if (all->writer != NULL)
            return all;
    }
    covsplit_union_free(all);
    report_error(error, &why);
    return NULL;
}

void covsplit_union_free(covsplit_union *all)
{
    if (all == NULL)
        return;
    union_free(all->writer);
    free(all);
}

static bool check_usable(const covsplit_union *all, struct error *error)
{
    return !all->has_ended ||
           error_set(error, NAME ": it failed before, or is finished; make another one");
}

bool covsplit_union_add(covsplit_union *all, const covsplit_sidecar *sidecar,
                        covsplit_error **error)
{
    struct error why = {0};
    bool added = check_usable(all, &why) && union_add(all->writer, sidecar->sidecar, &why);

    all->has_ended = !added;
    return check_result(added, error, &why);
}

bool covsplit_union_finish(covsplit_union *all, covsplit_error **error)
{
    struct error why = {0};
    bool done = check_usable(all, &why) && union_finish(all->writer, &why);

    all->has_ended = true;
    return check_result(done, error, &why);
}

bool covsplit_is_union(const void *data, size_t size)
{
    return union_recognize((struct bytes){data, size});
}
