/*
 * Gathering: see gather.h.
 */
#include "common/state/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"

/* ---- places ---- */

static bool add_place(struct gathering *gathering, struct part_place place, struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(gathering->places, gathering->place_capacity, gathering->place_count))
        return error_out_of_memory(error, gathering->state->path,
                                   gathering->place_count * sizeof(place));
    gathering->places[gathering->place_count++] = place;
    return true;
}

static bool add_batch(struct gathering *gathering, const struct state_file *batch,
                      struct error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct part_place place = {.batch = batch, .record = i};
        uint64_t ignored;

        if (batch->records[i].tag == STATE_RECORD_PART &&
            (!state_read_part_head(batch, i, &place.identity, &ignored, error) ||
             !add_place(gathering, place, error)))
            return false;
    }
    return true;
}

static bool open_batch(struct gathering *gathering, const char *name, struct error *error)
{
    struct state_file *batch = &gathering->batches[gathering->batch_count];
    struct digest nonce;
    char *path;
    bool done;

    state_parse_name(name, strlen(name), &nonce);
    path = state_file_path(gathering->state, STATE_BATCHES, &nonce, "", error);
    done = path != NULL && state_file_open(batch, path, STATE_FILE_BATCH, &nonce, error);
    free(path);
    if (!done)
        return false;
    gathering->batch_count++;
    return add_batch(gathering, batch, error);
}

static int compare_places(const void *a, const void *b)
{
    const struct part_place *left = a, *right = b;
    int order = memcmp(left->identity.bytes, right->identity.bytes, DIGEST_SIZE);

    if (order != 0)
        return order;
    if (left->batch != right->batch)
        return left->batch < right->batch ? -1 : 1;
    return left->record < right->record ? -1 : left->record > right->record;
}

bool gathering_start(struct gathering *gathering, const struct state *state,
                     const struct directory_names *names, size_t first, size_t count,
                     struct error *error)
{
    *gathering = (struct gathering){.state = state};
    gathering->batches = calloc(count + 1, sizeof(*gathering->batches));
    if (gathering->batches == NULL)
        return error_out_of_memory(error, state->path, count * sizeof(*gathering->batches));
    for (size_t i = 0; i < count; i++) {
        if (!open_batch(gathering, names->items[first + i], error))
            return false;
    }
    return true;
}

bool gathering_add_images(struct gathering *gathering, struct error *error)
{
    struct directory_names names;
    bool done = state_list(gathering->state, STATE_IMAGES, &names, error);

    for (size_t i = 0; done && i < names.count; i++) {
        struct part_place place = {0};

        state_parse_name(names.items[i], strlen(names.items[i]), &place.identity);
        done = add_place(gathering, place, error);
    }
    directory_names_free(&names);
    return done;
}

void gathering_free(struct gathering *gathering)
{
    for (size_t i = 0; i < gathering->batch_count; i++)
        state_file_close(&gathering->batches[i]);
    free(gathering->batches);
    free(gathering->places);
    *gathering = (struct gathering){0};
}

/* ---- images ---- */

bool gathered_lists(const struct gathered *image, const struct digest *nonce)
{
    for (size_t i = 0; i < image->nonces.size; i += DIGEST_SIZE) {
        if (memcmp(image->nonces.data + i, nonce->bytes, DIGEST_SIZE) == 0)
            return true;
    }
    return false;
}

/* The file is a list of batches, and one part. */
static bool add_file(const struct gathering *gathering, struct gathered *image,
                     const struct state_file *file, struct error *error)
{
    uint64_t limit = memory_limit_given(gathering->state->memory_limit);

    if (!state_file_read(file, 0, limit, &image->nonces, error) ||
        !whole_part_add(&image->whole, file, 1, limit, error))
        return false;
    return digest_equal(&image->whole.part.identity, &file->name) ||
           state_file_damaged(file->path, "its sum is that of another image", error);
}

/* Adds what the file of the image has, if there is one. */
static bool load_file(const struct gathering *gathering, struct gathered *image,
                      const struct digest *identity, struct error *error)
{
    struct state_file file;
    bool done;

    if (!state_file_open(&file, image->path, STATE_FILE_IMAGE, identity, error))
        return error->number == ENOENT;
    done = add_file(gathering, image, &file, error);
    state_file_close(&file);
    return done;
}

static bool add_part(const struct gathering *gathering, struct gathered *image,
                     const struct part_place *place, struct error *error)
{
    uint64_t limit = memory_limit_given(gathering->state->memory_limit);

    if (place->batch == NULL || gathered_lists(image, &place->batch->name))
        return true;
    image->added++;
    return whole_part_add(&image->whole, place->batch, place->record, limit, error);
}

static bool visit_image(const struct gathering *gathering, size_t first, size_t count,
                        gathered_visitor visit, void *context, struct error *error)
{
    const struct part_place *places = gathering->places + first;
    struct gathered image = {0};
    bool done;

    image.path = state_file_path(gathering->state, STATE_IMAGES, &places->identity, "", error);
    done = image.path != NULL && load_file(gathering, &image, &places->identity, error);
    for (size_t i = 0; done && i < count; i++)
        done = add_part(gathering, &image, &places[i], error);
    done = done && (image.whole.part.sum == NULL || visit(context, &image, error));
    whole_part_free(&image.whole);
    buffer_free(&image.nonces);
    free(image.path);
    return done;
}

bool gathering_visit(struct gathering *gathering, gathered_visitor visit, void *context,
                     struct error *error)
{
    size_t next;

    if (gathering->place_count > 1)
        qsort(gathering->places, gathering->place_count, sizeof(*gathering->places),
              compare_places);
    for (size_t first = 0; first < gathering->place_count; first = next) {
        for (next = first + 1;
             next < gathering->place_count &&
             digest_equal(&gathering->places[first].identity, &gathering->places[next].identity);
             next++)
            continue;
        if (!visit_image(gathering, first, next - first, visit, context, error))
            return false;
    }
    return true;
}
