/*
 * States: see show.h.
 */
#include "split/sidecars/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/state/state.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"

#define INDENTATION 2

struct image_row {
    char *name; /* NULL: not known */
    struct uuid uuid;
    uint64_t profile_count;
    uint64_t size;
};

struct description {
    struct profile_sidecar_source source;
    uint64_t memory_limit;
    struct image_row *images;
    size_t image_count, image_capacity;
    uint64_t profile_count;
};

/* The image's name is in its sidecar, which is there or not, or may not be read. */
static bool name_image(const struct description *description, const struct profile *profile,
                       const char *file, struct image_row *row, struct error *error)
{
    enum profile_uuid_source source;
    struct profile_sidecar *sidecar;
    struct error why = {0};

    row->uuid = profile_uuid(profile, &source);
    if (!profile_needs_sidecar(profile))
        return true;
    sidecar = description->source.find(description->source.context, profile, file, &why);
    if (sidecar == NULL) {
        if (error_is_of_system(&why))
            *error = why;
        return !error_is_of_system(&why);
    }
    row->uuid = sidecar->sidecar->facts.uuid;
    row->name = command_copy(sidecar->sidecar->image_name);
    description->source.release(description->source.context, sidecar);
    return true;
}

/* A state_visitor. */
static bool add_image(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct description *description = context;
    struct image_row row = {.profile_count = sum->profile_count};
    struct stat status;
    bool done = name_image(description, profile_sum_combined(sum), name, &row, error);

    /* An image may be in batches only, and has no file then. */
    if (done && stat(name, &status) == 0)
        row.size = (uint64_t)status.st_size;
    else if (done && errno != ENOENT)
        done = error_set_errno(error, errno, "%s: cannot be read", name);
    description->profile_count += sum->profile_count;
    COMMAND_ROOM_FOR_ONE(description->images, description->image_capacity,
                         description->image_count);
    description->images[description->image_count++] = row;
    return done;
}

static int compare_images(const void *a, const void *b)
{
    const struct image_row *left = a, *right = b;
    int order =
        strcmp(left->name == NULL ? "" : left->name, right->name == NULL ? "" : right->name);

    return order != 0 ? order : uuid_compare(&left->uuid, &right->uuid);
}

static bool describe_state(const char *path, struct description *description, struct error *error)
{
    struct state *state = NULL;
    bool done = state_open(&state, path, STATE_READ, description->memory_limit, error) &&
                state_read(state, add_image, description, error);

    state_close(state);
    if (description->image_count > 1)
        qsort(description->images, description->image_count, sizeof(*description->images),
              compare_images);
    return done;
}

static void print_images(const struct description *description, struct json_writer *json)
{
    static const struct table_column columns[] = {{"image", TABLE_LEFT},
                                                  {"UUID", TABLE_LEFT},
                                                  {"profiles", TABLE_RIGHT},
                                                  {"size", TABLE_RIGHT}};
    char hex[UUID_HEX_MAX];
    struct facts rows;

    rows_begin(&rows, json, "images", columns, sizeof(columns) / sizeof(columns[0]), INDENTATION);
    for (size_t i = 0; i < description->image_count; i++) {
        const struct image_row *image = &description->images[i];

        rows_begin_row(&rows);
        facts_text(&rows, "image_name", NULL, image->name);
        facts_text(&rows, "uuid", NULL, uuid_format(&image->uuid, hex));
        facts_number(&rows, "profile_count", NULL, image->profile_count);
        facts_number(&rows, "size", NULL, image->size);
        rows_end_row(&rows);
    }
    if (json == NULL && description->image_count != 0)
        printf("\n");
    rows_end(&rows);
}

static void print_description(const char *path, const struct description *description,
                              struct json_writer *json)
{
    char profiles[COUNT_TEXT_MAX], images[COUNT_TEXT_MAX];

    if (json != NULL) {
        json_begin_object(json, NULL);
        json_string(json, "file", path);
        json_string(json, "kind", "state");
        json_number(json, "profile_count", description->profile_count);
    } else {
        message_line(stdout, "%s", path);
        message_line(stdout, "  state of a merge: %s of %s",
                     count_text(description->profile_count, "profile", profiles),
                     count_text(description->image_count, "image", images));
    }
    print_images(description, json);
    if (json != NULL)
        json_end_object(json);
}

bool show_state(const char *path, struct profile_sidecars *sidecars, uint64_t memory_limit,
                struct json_writer *json, struct error *error)
{
    struct description description = {
        .source = {profile_sidecars_find, profile_sidecars_release, sidecars},
        .memory_limit = memory_limit};
    bool done = describe_state(path, &description, error);

    if (done)
        print_description(path, &description, json);
    for (size_t i = 0; i < description.image_count; i++)
        free(description.images[i].name);
    free(description.images);
    return done;
}
