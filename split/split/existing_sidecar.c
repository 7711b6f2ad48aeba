/*
 * Examining an existing sidecar: see existing_sidecar.h.
 */
#include "split/split/existing_sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define OPEN_ATTEMPTS 10

/* True for the errors that opening a dangling link gives. */
static bool leads_nowhere(int failure)
{
    return failure == ENOENT || failure == ENOTDIR || failure == ELOOP;
}

bool existing_sidecar_open(struct existing_sidecar *existing, const char *path, struct error *error)
{
    struct error why = {.number = ENOENT};

    *existing = (struct existing_sidecar){.path = path, .input = {.fd = -1}};
    /* If the file appears or disappears between the two steps, look again. */
    for (unsigned attempt = 0; attempt < OPEN_ATTEMPTS && why.number == ENOENT; attempt++) {
        /* A dangling link counts as a file, too. */
        existing->is_there = !file_is_missing(path, AT_SYMLINK_NOFOLLOW);
        if (!existing->is_there)
            return true;
        if (!input_open(&existing->input, path, &why))
            continue;
        existing->sidecar = sidecar_open(existing->input.bytes, path, &why);
        break;
    }
    existing->why = why;
    if (existing->sidecar != NULL || why.number == 0 || leads_nowhere(why.number))
        return true;
    *error = why;
    return false;
}

void existing_sidecar_close(struct existing_sidecar *existing)
{
    sidecar_close(existing->sidecar);
    existing->sidecar = NULL;
    input_close(&existing->input);
}

static bool is_placeholder(const struct existing_sidecar *existing)
{
    return existing->sidecar != NULL && sidecar_facts(existing->sidecar)->is_placeholder;
}

bool existing_sidecar_counts(const struct existing_sidecar *existing)
{
    return existing->is_there && !is_placeholder(existing);
}

/* The facts of a real sidecar; NULL for anything else. */
static const struct sidecar_facts *facts_of(const struct existing_sidecar *existing)
{
    return existing->sidecar == NULL || is_placeholder(existing) ? NULL
                                                                 : sidecar_facts(existing->sidecar);
}

/* If this image is the stripped image of the sidecar, the sidecar holds what the image lacks, even
 * if a tool has removed covsplit's marks from the image. */
static bool check_not_its_own(const struct existing_sidecar *existing,
                              const struct slice_split *split, struct error *error)
{
    const struct sidecar_facts *theirs = facts_of(existing);

    if (theirs == NULL || digest_equal(&theirs->stripped_digest, &theirs->original_digest) ||
        !digest_equal(&theirs->stripped_digest, &split->plan->facts.original_digest))
        return true;
    return error_set(
        error,
        "%s: holds what was taken out of this image before, and would be replaced; join "
        "the image first, or give another --sidecar",
        existing->path);
}

/* A sidecar without sections must not replace one that holds what the image lacks: it may belong to
 * this image, with the mark removed by a later tool. Only the sidecar of another build, known by
 * its build ID, may be replaced. */
static bool check_empty(const struct existing_sidecar *existing, const struct slice_split *split,
                        struct error *error)
{
    const struct sidecar_facts *theirs = facts_of(existing);

    if (!existing_sidecar_counts(existing) || split->plan->range_count != 0)
        return true;
    if (theirs != NULL && (digest_equal(&theirs->original_digest, &theirs->stripped_digest) ||
                           (split->plan->facts.uuid_source == UUID_FROM_BUILD_ID &&
                            theirs->uuid_source == UUID_FROM_BUILD_ID &&
                            !uuid_equal(&split->plan->facts.uuid, &theirs->uuid))))
        return true;
    return error_set(error,
                     "%s: the image has nothing to take out, and this file may be what was taken "
                     "out of it before; remove it if nobody needs it, or give another --sidecar",
                     existing->path);
}

bool existing_sidecar_check_own(const struct existing_sidecar *existing,
                                const struct slice_split *split, struct error *error)
{
    return check_not_its_own(existing, split, error) && check_empty(existing, split, error);
}

bool existing_sidecar_check_same(const struct existing_sidecar *existing,
                                 const struct slice_split *split, struct error *error)
{
    const struct sidecar_facts *theirs = facts_of(existing);
    char their_digest[DIGEST_HEX_MAX], our_digest[DIGEST_HEX_MAX], uuid[UUID_HEX_MAX];

    if (is_placeholder(existing))
        return error_set(error, "%s: is a placeholder, which holds nothing; give --replace",
                         existing->path);
    /* It may just be from another version of covsplit. */
    if (theirs == NULL && sidecar_recognize(existing->input.bytes))
        return error_set(error, "%.900s, or give --replace if nobody needs it",
                         existing->why.message);
    if (theirs == NULL)
        return error_set(
            error, "%s: exists, but cannot be read as a sidecar; give --replace if nobody needs it",
            existing->path);
    if (!uuid_equal(&theirs->uuid, &split->plan->facts.uuid))
        return error_set(error,
                         "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                         "where it belongs, or give --replace",
                         existing->path, uuid_format(&theirs->uuid, uuid));
    uuid_format(&split->plan->facts.uuid, uuid);
    if (!digest_equal(&theirs->original_digest, &split->plan->facts.original_digest))
        return error_set(error,
                         "%.400s: under the UUID %s the store has another image, %.100s (digest "
                         "%s), than %.200s (digest %s); give each build an ID of its own, or give "
                         "--replace",
                         existing->path, uuid, sidecar_image_name(existing->sidecar),
                         digest_format(&theirs->original_digest, their_digest), split->image.path,
                         digest_format(&split->plan->facts.original_digest, our_digest));
    if (!digest_equal(&theirs->stripped_digest, &split->plan->facts.stripped_digest))
        return error_set(error,
                         "%s: the store has the sidecar of another split of the same image (UUID "
                         "%s); use the same --sections, another store, or --replace",
                         existing->path, uuid);
    return true;
}

bool existing_sidecar_is_better(const struct existing_sidecar *existing,
                                const struct slice_split *split)
{
    const struct sidecar_facts *theirs = facts_of(existing);
    struct error ignored;

    return split->plan->facts.is_inexact && theirs != NULL && !theirs->is_inexact &&
           existing_sidecar_check_same(existing, split, &ignored);
}
