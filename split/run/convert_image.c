/*
 * Converting images: see convert_image.h.
 *
 * An image of packed objects that was not split is converted as if it had been, to the object of
 * a sidecar that is made for that (cli/image_sidecar.h).
 *
 * The sidecar of a slice is borrowed twice, first for the size of the original, then for joining,
 * since threads that each hold several sidecars could wait for each other forever.
 */
#include "split/run/convert_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/sidecar/object.h"
#include "formats/container.h"
#include "formats/image.h"
#include "split/cli/image_sidecar.h"

struct split_slice {
    bool is_split;
    bool has_sidecar; /* valid after find_sizes */
    struct split_image image;
};

struct split_slices {
    struct container container; /* as in the stripped file, but without views of it */
    struct split_slice slices[SLICES_MAX];
};

/* ---- what a file is ---- */

/* True if any slice was split, or is packed. Otherwise, *error tells whether memory was lacking. */
static bool find_slices(struct split_slices *found, const struct input *input, struct error *error)
{
    bool any = false;

    if (!container_open(&found->container, input, error))
        return false;
    for (size_t i = 0; i < found->container.count; i++) {
        struct split_slice *slice = &found->slices[i];

        slice->is_split = image_find_split(&found->container.slices[i].input, &slice->image, error);
        any |= slice->is_split || slice->image.is_packed;
        if (error_is_of_memory(error))
            return false;
    }
    return any;
}

bool split_slices_find(struct subject *subject, const struct input *input, struct error *error)
{
    struct split_slices found = {.slices = {{.is_split = false}}};
    struct container views;

    *error = (struct error){0};
    if (find_slices(&found, input, error)) {
        subject->slices = malloc(sizeof(found));
        if (subject->slices == NULL)
            error_out_of_memory(error, input->path, sizeof(found));
        subject->kind = SUBJECT_IMAGE;
    }
    views = found.container;
    container_close(&views);
    found.container.header = (struct bytes){NULL, 0};
    if (subject->slices != NULL)
        *subject->slices = found;
    return !error_is_of_memory(error);
}

/* ---- sidecars ---- */

/* The names of a slice: its sidecar is beside the image as IMAGE.ARCH.covsplit, unless it is in a
 * store. */
struct slice_names {
    char *texts[2];
    const char *list[3];
};

/* Free with free_names, even after a failure. */
static bool make_names(const struct subject *subject, size_t index, struct slice_names *names,
                       struct error *error)
{
    const char *arch = subject->slices->container.slices[index].name;
    const char *const files[] = {subject->name, subject->real_name};

    *names = (struct slice_names){.list = {NULL}};
    for (size_t i = 0; i < 2; i++) {
        if (asprintf(&names->texts[i], "%s%s%s", files[i], arch[0] == '\0' ? "" : ".", arch) < 0) {
            names->texts[i] = NULL;
            return error_out_of_memory(error, subject->name, strlen(subject->name));
        }
    }
    names->list[0] = names->texts[0];
    if (subject->real_name[0] != '\0' && strcmp(subject->name, subject->real_name) != 0)
        names->list[1] = names->texts[1];
    return true;
}

static void free_names(struct slice_names *names)
{
    free(names->texts[0]);
    free(names->texts[1]);
}

static struct sidecar_wanted wanted_for(const struct subject *subject, size_t index,
                                        const struct slice_names *names)
{
    return (struct sidecar_wanted){.image = &subject->slices->slices[index].image,
                                   .names = names->list,
                                   .name = names->list[0]};
}

/* True if nothing but its digest tells which sidecar is the slice's: it has no UUID of its own, and
 * its names, in whose place the UUID would be, stayed. */
static bool is_known_by_digest(const struct subject *subject, size_t index)
{
    const struct split_slice *slice = &subject->slices->slices[index];

    return slice->is_split && slice->image.uuid.size == 0;
}

/* `content` is that of the slice, and only needed if is_known_by_digest. */
static struct profile_sidecar *borrow(const struct subject *subject, struct run_sidecars *sidecars,
                                      size_t index, struct bytes content, struct error *error)
{
    const struct input stripped = {.path = (char *)(uintptr_t)subject->name,
                                   .fd = -1,
                                   .bytes = content,
                                   .held = subject->content};
    struct profile_sidecar *sidecar = NULL;
    struct slice_names names;

    if (make_names(subject, index, &names, error)) {
        struct sidecar_wanted wanted = wanted_for(subject, index, &names);

        if (is_known_by_digest(subject, index)) {
            wanted.image = NULL;
            wanted.stripped = &stripped;
        }
        sidecar = run_sidecars_find(sidecars, &wanted, error);
    }
    free_names(&names);
    return sidecar;
}

bool split_slices_identify(const struct subject *subject, const struct run_sidecars *sidecars,
                           struct digest_stream *digest, struct error *error)
{
    bool done = true;

    for (size_t i = 0; done && i < subject->slices->container.count; i++) {
        struct slice_names names;

        if (!subject->slices->slices[i].is_split)
            continue;
        done = make_names(subject, i, &names, error);
        if (done) {
            const struct sidecar_wanted wanted = wanted_for(subject, i, &names);

            done = run_sidecars_identify(sidecars, &wanted, digest, error);
        }
        free_names(&names);
    }
    return done;
}

/* ---- objects ---- */

bool convert_to_object(const struct sidecar *sidecar, struct memory_file *file, struct error *error)
{
    memory_file_allow(file, sidecar_memory_limit(sidecar));
    return object_write(sidecar, memory_file_write, file, error);
}

static bool has(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section != NULL && section->stored_size != 0;
}

/* Whether neither reports nor binary correlation need anything from the image itself. What was not
 * taken out (because of --sections, or because it had to stay) is only in the image. */
static bool is_complete(const struct sidecar *sidecar)
{
    bool correlates = has(sidecar, SECTION_COVNAMES);

    return has(sidecar, SECTION_COVMAP) && has(sidecar, SECTION_COVFUN) &&
           (has(sidecar, SECTION_NAMES) || correlates) &&
           (!correlates || has(sidecar, SECTION_COVDATA));
}

/* ---- originals ---- */

struct joining {
    const struct subject *subject;
    struct run_sidecars *sidecars;
    struct memory_file *file;
    struct container container; /* as in the stripped image; later as in the original */
};

/* A slice_writer. */
static bool write_slice(void *context, size_t index, struct error *error)
{
    struct joining *joining = context;
    struct bytes slice = joining->container.slices[index].input.bytes;
    struct profile_sidecar *sidecar;
    bool done;

    if (!joining->subject->slices->slices[index].has_sidecar)
        return memory_file_write(joining->file, slice, error);
    sidecar = borrow(joining->subject, joining->sidecars, index, slice, error);
    if (sidecar == NULL)
        return false;
    memory_file_allow(joining->file, sidecar_memory_limit(sidecar->sidecar));
    done = sidecar_restore(sidecar->sidecar, slice, joining->subject->name, memory_file_write,
                           joining->file, error);
    run_sidecars_release(joining->sidecars, sidecar);
    return done;
}

/* Reads the file again, which may have changed since it was examined. */
static bool read_again(struct joining *joining, struct error *error)
{
    const struct subject *subject = joining->subject;
    const struct container *before = &subject->slices->container;
    struct input file = {.path = (char *)(uintptr_t)subject->name,
                         .fd = -1,
                         .bytes = buffer_view(&subject->content)};
    bool is_same;

    if (!container_open(&joining->container, &file, error) && error_is_of_memory(error))
        return false;
    is_same = joining->container.is_universal == before->is_universal &&
              joining->container.count == before->count;
    for (size_t i = 0; is_same && i < before->count; i++)
        is_same = joining->container.slices[i].offset == before->slices[i].offset &&
                  joining->container.slices[i].size == before->slices[i].size;
    return is_same || error_set(error, "%s: changed while it was read; run again", subject->name);
}

/* Finds the sizes of the originals. *error is about the first slice that has no sidecar. */
static bool find_sizes(struct joining *joining, bool *lacks_some, struct error *error)
{
    bool found = false;

    for (size_t i = 0; i < joining->container.count; i++) {
        struct split_slice *slice = &joining->subject->slices->slices[i];
        struct profile_sidecar *sidecar;
        struct error problem;

        if (!slice->is_split)
            continue;
        sidecar = borrow(joining->subject, joining->sidecars, i,
                         joining->container.slices[i].input.bytes, found ? &problem : error);
        slice->has_sidecar = sidecar != NULL;
        *lacks_some |= sidecar == NULL;
        if (sidecar == NULL)
            continue;
        joining->container.slices[i].size = sidecar_facts(sidecar->sidecar)->original_size;
        run_sidecars_release(joining->sidecars, sidecar);
        found = true;
    }
    return found;
}

static bool join(const struct subject *subject, struct run_sidecars *sidecars,
                 struct memory_file *file, const char **what, struct error *error)
{
    struct joining joining = {.subject = subject, .sidecars = sidecars, .file = file};
    bool lacks_some = false;
    bool done = read_again(&joining, error) && find_sizes(&joining, &lacks_some, error) &&
                container_lay_out(&joining.container, subject->name, error);

    memory_file_allow(file, subject->content.size);
    done = done && container_write(&joining.container, subject->name, memory_file_write, file,
                                   write_slice, &joining, error);
    container_close(&joining.container);
    *what = lacks_some ? "the original image, but for slices that have no sidecar"
                       : "the original image";
    return done;
}

/* ---- images of packed objects ---- */

static bool convert_packed(const struct subject *subject, const struct buffer *content,
                           const struct run_sidecars *sidecars, struct memory_file *file,
                           struct error *error)
{
    const struct input image = {.path = (char *)(uintptr_t)subject->name,
                                .fd = -1,
                                .bytes = buffer_view(content),
                                .held = *content}; /* which stays the caller's */
    struct sidecar *sidecar = image_sidecar_make(&image, run_sidecars_limit(sidecars), error);
    bool done = sidecar != NULL && convert_to_object(sidecar, file, error);

    sidecar_close(sidecar);
    return done;
}

/* A sidecar can claim any size of its original. */
struct bounded_buffer {
    const char *name;
    struct buffer buffer;
    uint64_t limit;
};

/* A bytes_sink. */
static bool append_part(void *context, struct bytes part, struct error *error)
{
    struct bounded_buffer *to = context;

    return memory_limit_allows(to->limit, to->buffer.size + part.size, to->name,
                               "the original image", error) &&
           (buffer_append(&to->buffer, part.data, (size_t)part.size) ||
            error_out_of_memory(error, to->name, to->buffer.size + part.size));
}

/* Converts an image from which a split (--sections) has not taken the packed mapping. */
static bool convert_partly_split(const struct subject *subject, struct run_sidecars *sidecars,
                                 struct memory_file *file, struct error *error)
{
    struct profile_sidecar *sidecar =
        borrow(subject, sidecars, 0, buffer_view(&subject->content), error);
    struct bounded_buffer original = {.name = subject->name};
    bool done;

    if (sidecar == NULL)
        return false;
    if (!add_fits(sidecar_memory_limit(sidecar->sidecar), subject->content.size, &original.limit))
        original.limit = UINT64_MAX;
    done = sidecar_restore(sidecar->sidecar, buffer_view(&subject->content), subject->name,
                           append_part, &original, error);
    run_sidecars_release(sidecars, sidecar);
    done = done && convert_packed(subject, &original.buffer, sidecars, file, error);
    buffer_free(&original.buffer);
    return done;
}

/* ---- all images ---- */

bool convert_image(struct subject *subject, struct run_sidecars *sidecars, struct memory_file *file,
                   bool (*read_content)(struct subject *subject, struct error *error),
                   const char **what, struct error *error)
{
    const struct split_slice *first = &subject->slices->slices[0];
    bool is_universal = subject->slices->container.is_universal;

    if (is_known_by_digest(subject, 0) && !read_content(subject, error))
        return false;
    if (!is_universal && first->is_split) {
        struct profile_sidecar *sidecar =
            borrow(subject, sidecars, 0, buffer_view(&subject->content), error);
        bool is_enough = sidecar != NULL && is_complete(sidecar->sidecar), done = false;

        if (is_enough)
            done = convert_to_object(sidecar->sidecar, file, error);
        if (sidecar != NULL)
            run_sidecars_release(sidecars, sidecar);
        *what = "the object of its sidecar";
        if (sidecar == NULL || is_enough)
            return done;
    }
    if (!read_content(subject, error))
        return false;
    if (is_universal || !first->image.is_packed)
        return join(subject, sidecars, file, what, error);
    *what = "an object with its coverage mapping";
    return first->is_split ? convert_partly_split(subject, sidecars, file, error)
                           : convert_packed(subject, &subject->content, sidecars, file, error);
}
