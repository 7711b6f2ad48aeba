/*
 * Converting universal images: see convert_universal.h.
 *
 * A sidecar is borrowed twice for its slice, once to learn how large the original is, and once to
 * join: whoever holds several at a time could wait for another who does.
 */
#include "split/convert_universal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"
#include "formats/universal.h"
#include "split/universal.h"

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

static bool find_slices(struct universal_subject *found, const struct input *input)
{
    struct error ignored;
    bool any = false;

    if (!universal_read(input->bytes, input->path, &found->universal, &ignored))
        return false;
    for (size_t i = 0; i < found->universal.count; i++) {
        struct input part;

        if (!universal_part(input, &found->universal.slices[i], &part, &ignored))
            return false;
        found->slices[i].is_split = image_find_split(&part, &found->slices[i].image, &ignored);
        any |= found->slices[i].is_split;
        universal_part_free(&part);
    }
    return any;
}

bool universal_subject_find(struct subject *subject, const struct input *input)
{
    struct universal_subject *found;

    if (!universal_recognize(input->bytes))
        return false;
    found = calloc(1, sizeof(*found));
    if (found != NULL && find_slices(found, input)) {
        found->universal.header = (struct bytes){NULL, 0}; /* a view of what does not stay */
        subject->universal = found;
        return true;
    }
    free(found);
    return false;
}

/* ---- slices ---- */

/* A slice's sidecar lies beside the image as IMAGE.ARCH.covsplit, unless it is in a store. */
static struct run_sidecar *borrow(const struct subject *subject, struct run_sidecars *sidecars,
                                  size_t index, struct error *error)
{
    const char *arch = subject->universal->universal.slices[index].name;
    const char *names[] = {NULL, NULL, NULL};
    char *name = NULL, *real_name = NULL;
    struct run_sidecar *sidecar = NULL;

    if (asprintf(&name, "%s.%s", subject->name, arch) < 0)
        name = NULL;
    if (asprintf(&real_name, "%s.%s", subject->real_name, arch) < 0)
        real_name = NULL;
    names[0] = name;
    if (name != NULL && real_name != NULL && strcmp(name, real_name) != 0)
        names[1] = real_name;
    if (name == NULL)
        error_out_of_memory(error, subject->name, strlen(subject->name));
    else
        sidecar = run_sidecars_for_image(sidecars, &subject->universal->slices[index].image, names,
                                         error);
    free(name);
    free(real_name);
    return sidecar;
}

/* Lays the slices out as in the original. */
static bool find_sizes(const struct subject *subject, struct run_sidecars *sidecars,
                       struct universal *original, struct error *error)
{
    size_t found = 0;

    for (size_t i = 0; i < original->count; i++) {
        struct universal_slice_subject *slice = &subject->universal->slices[i];
        struct error problem;
        struct run_sidecar *sidecar = NULL;

        if (slice->is_split)
            sidecar = borrow(subject, sidecars, i, found == 0 ? error : &problem);
        slice->has_sidecar = sidecar != NULL;
        if (sidecar == NULL)
            continue;
        original->slices[i].size = covsplit_sidecar_original_size(run_sidecar_opened(sidecar));
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
    covsplit_error *reader_error = NULL;
    struct run_sidecar *sidecar = borrow(subject, sidecars, index, error);
    bool done;

    if (sidecar == NULL)
        return false;
    done = covsplit_sidecar_restore(run_sidecar_opened(sidecar), slice.data, (size_t)slice.size,
                                    subject->name, memory_file_write, file, &reader_error) ||
           memory_file_failed(file, subject->name, reader_error, error);
    run_sidecars_release(sidecars, sidecar);
    return done;
}

static bool write_header(const struct subject *subject, const struct universal *original,
                         struct memory_file *file, struct error *error)
{
    struct buffer header = {0};
    bool done = universal_append_header(original, &header)
                    ? memory_file_write(file, header.data, header.size) ||
                          memory_file_failed(file, subject->name, NULL, error)
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
        if (!memory_file_pad(file, original->slices[i].offset))
            return memory_file_failed(file, subject->name, NULL, error);
        done = subject->universal->slices[i].has_sidecar
                   ? join_slice(subject, sidecars, i, slice, file, error)
                   : memory_file_write(file, slice.data, (size_t)slice.size) ||
                         memory_file_failed(file, subject->name, NULL, error);
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
