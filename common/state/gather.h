/*
 * Brings together what a state has of each image: its file, and the parts of batches that are not
 * in the file yet.
 */
#ifndef COVSPLIT_COMMON_STATE_GATHER_H
#define COVSPLIT_COMMON_STATE_GATHER_H

#include "common/state/part.h"
#include "common/state/state_directory.h"

/* Where a part of an image is. */
struct part_place {
    struct digest identity;
    const struct state_file *batch; /* NULL: the file of the image */
    size_t record;
};

/* Some committed batches, opened, and all of their parts, or those of the state. */
struct gathering {
    const struct state *state;
    struct state_file *batches;
    size_t batch_count;
    struct part_place *places; /* by identity; of an image, its file first */
    size_t place_count, place_capacity;
};

/* An image while it is gathered. */
struct gathered {
    struct whole_part whole;
    char *path;           /* of its file */
    struct buffer nonces; /* of the batches that its file lists */
    size_t added;         /* parts of batches that were not in its file */
};

/* Opens these batches and lists their parts. Only with the lock. Free with gathering_free, even
 * after a failure. */
bool gathering_start(struct gathering *gathering, const struct state *state,
                     const struct directory_names *names, size_t first, size_t count,
                     struct error *error);

/* Lists the files of all images too. */
bool gathering_add_images(struct gathering *gathering, struct error *error);
void gathering_free(struct gathering *gathering);

/* Called with each image. */
typedef bool (*gathered_visitor)(void *context, struct gathered *image, struct error *error);

/* Visits the images of which there is something, in ascending order of identities. */
bool gathering_visit(struct gathering *gathering, gathered_visitor visit, void *context,
                     struct error *error);

/* Whether the file of the image lists the batch. */
bool gathered_lists(const struct gathered *image, const struct digest *nonce);

#endif
