/*
 * Converting universal images: see convert_universal.h.
 *
 * A sidecar is borrowed twice for its slice, once to learn how large the original is, and once to
 * join: whoever holds several at a time could wait for another who does.
 */
#include "split/run/convert_universal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/container.h"
#include "formats/image.h"
#include "split/split/universal.h"

struct universal_slice_subject {
    bool is_split;
    bool has_sidecar; /* known once convert_universal has looked */
    struct split_image image;
};

struct universal_subject {
    struct universal universal; /* as in the stripped image */
    struct universal_slice_subject slices[UNIVERSAL_SLICES_MAX];
};

/* ---- what a file is ---- */

/* True where any slice was split; else *error says why, where it is for want of memory. */
static bool find_slices(struct universal_subject *found, const struct input *input,
                        struct error *error)
{
    bool any = false;

    if (!universal_read(input->bytes, input->path, &found->universal, error))
        return false;
    for (size_t i = 0; i < found->universal.count; i++) {
        struct input part;

        if (!universal_part(input, &found->universal.slices[i], &part, error))
            return false;
        found->slices[i].is_split = image_find_split(&part, &found->slices[i].image, error);
        any |= found->slices[i].is_split;
        universal_part_free(&part);
        if (error_is_of_memory(error))
            return false;
    }
    return any;
}

bool universal_subject_find(struct subject *subject, const struct input *input, struct error *error)
{
    struct universal_subject *found = calloc(1, sizeof(*found));

    if (found == NULL)
        return error_out_of_memory(error, input->path, sizeof(*found));
    *error = (struct error){0};
    if (find_slices(found, input, error)) {
        found->universal.header = (struct bytes){NULL, 0}; /* a view of what does not stay */
        subject->universal = found;
        subject->kind = SUBJECT_UNIVERSAL;
    } else {
        free(found);
    }
    return !error_is_of_memory(error);
}

/* ---- slices ---- */

/* The names of a slice: its sidecar lies beside the image as IMAGE.ARCH.covsplit, unless it is in a
 * store. */
struct slice_names {
    char *texts[2];
    const char *list[3];
};

/* Freed with free_names, also after a failure. */
static bool make_names(const struct subject *subject, size_t index, struct slice_names *names,
                       struct error *error)
{
    const char *arch = subject->universal->universal.slices[index].name;

    *names = (struct slice_names){.list = {NULL}};
    if (asprintf(&names->texts[0], "%s.%s", subject->name, arch) < 0)
        names->texts[0] = NULL;
    if (asprintf(&names->texts[1], "%s.%s", subject->real_name, arch) < 0)
        names->texts[1] = NULL;
    if (names->texts[0] == NULL || names->texts[1] == NULL)
        return error_out_of_memory(error, subject->name, strlen(subject->name));
    names->list[0] = names->texts[0];
    if (strcmp(names->texts[0], names->texts[1]) != 0)
        names->list[1] = names->texts[1];
    return true;
}

static void free_names(struct slice_names *names)
{
    free(names->texts[0]);
    free(names->texts[1]);
}

static struct profile_sidecar *borrow(const struct subject *subject, struct run_sidecars *sidecars,
                                      size_t index, struct error *error)
{
    struct slice_names names;
    bool done = make_names(subject, index, &names, error);
    const struct wanted wanted = {.image = &subject->universal->slices[index].image,
                                  .names = names.list,
                                  .name = names.list[0]};
    struct profile_sidecar *sidecar = done ? run_sidecars_find(sidecars, &wanted, error) : NULL;

    free_names(&names);
    return sidecar;
}

bool identify_universal(const struct subject *subject, const struct run_sidecars *sidecars,
                        struct digest_stream *digest, struct error *error)
{
    bool done = true;

    for (size_t i = 0; done && i < subject->universal->universal.count; i++) {
        const struct universal_slice_subject *slice = &subject->universal->slices[i];
        struct slice_names names;

        if (!slice->is_split)
            continue;
        done = make_names(subject, i, &names, error);
        if (done) {
            const struct wanted wanted = {
                .image = &slice->image, .names = names.list, .name = names.list[0]};

            done = run_sidecars_identify(sidecars, &wanted, digest, error);
        }
        free_names(&names);
    }
    return done;
}

/* Lays the slices out as in the original. */
static bool find_sizes(const struct subject *subject, struct run_sidecars *sidecars,
                       struct universal *original, struct error *error)
{
    size_t found = 0;

    for (size_t i = 0; i < original->count; i++) {
        struct universal_slice_subject *slice = &subject->universal->slices[i];
        struct error problem;
        struct profile_sidecar *sidecar = NULL;

        if (slice->is_split)
            sidecar = borrow(subject, sidecars, i, found == 0 ? error : &problem);
        slice->has_sidecar = sidecar != NULL;
        if (sidecar == NULL)
            continue;
        original->slices[i].size = sidecar_facts(sidecar->sidecar)->original_size;
        run_sidecars_release(sidecars, sidecar);
        found++;
    }
    if (found == 0)
        return false;
    return universal_lay_out(original) ||
           error_set(error, "%s: its slices have no place in a universal image; make it again",
                     subject->name);
}

static bool join_slice(const struct subject *subject, struct run_sidecars *sidecars, size_t index,
                       struct bytes slice, struct memory_file *file, struct error *error)
{
    struct profile_sidecar *sidecar = borrow(subject, sidecars, index, error);
    bool done;

    if (sidecar == NULL)
        return false;
    memory_file_allow(file, sidecar_memory_limit(sidecar->sidecar));
    done = sidecar_restore(sidecar->sidecar, slice, subject->name, memory_file_write, file, error);
    run_sidecars_release(sidecars, sidecar);
    return done;
}

static bool write_header(const struct subject *subject, const struct universal *original,
                         struct memory_file *file, struct error *error)
{
    struct buffer header = {0};
    bool done = universal_append_header(original, &header)
                    ? memory_file_write(file, buffer_view(&header), error)
                    : error_out_of_memory(error, subject->name, original->header.size);

    buffer_free(&header);
    return done;
}

static bool write_slices(const struct subject *subject, struct run_sidecars *sidecars,
                         const struct universal *original, struct memory_file *file,
                         struct error *error)
{
    const struct universal *stripped = &subject->universal->universal;

    for (size_t i = 0; i < original->count; i++) {
        struct bytes slice;
        bool done;

        bytes_slice(buffer_view(&subject->content), stripped->slices[i].offset,
                    stripped->slices[i].size, &slice);
        if (!memory_file_pad(file, original->slices[i].offset, error))
            return false;
        done = subject->universal->slices[i].has_sidecar
                   ? join_slice(subject, sidecars, i, slice, file, error)
                   : memory_file_write(file, slice, error);
        if (!done)
            return false;
    }
    return true;
}

static bool lacks_a_sidecar(const struct universal_subject *universal)
{
    for (size_t i = 0; i < universal->universal.count; i++) {
        if (universal->slices[i].is_split && !universal->slices[i].has_sidecar)
            return true;
    }
    return false;
}

/* The file may have been written to since it was looked at. */
static bool read_again(const struct subject *subject, struct universal *universal,
                       struct error *error)
{
    const struct universal *before = &subject->universal->universal;

    if (!universal_recognize(buffer_view(&subject->content)) ||
        !universal_read(buffer_view(&subject->content), subject->name, universal, error) ||
        universal->count != before->count)
        return error_set(error, "%s: changed while it was read; run again", subject->name);
    for (size_t i = 0; i < universal->count; i++) {
        if (universal->slices[i].offset != before->slices[i].offset ||
            universal->slices[i].size != before->slices[i].size)
            return error_set(error, "%s: changed while it was read; run again", subject->name);
    }
    return true;
}

bool convert_universal(const struct subject *subject, struct run_sidecars *sidecars,
                       struct memory_file *file, const char **what, struct error *error)
{
    struct universal original;

    memory_file_allow(file, subject->content.size);
    if (!read_again(subject, &original, error) ||
        !find_sizes(subject, sidecars, &original, error) ||
        !write_header(subject, &original, file, error) ||
        !write_slices(subject, sidecars, &original, file, error))
        return false;
    *what = lacks_a_sidecar(subject->universal)
                ? "the original image, but for slices that have no sidecar"
                : "the original image";
    return true;
}
