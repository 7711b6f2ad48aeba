/*
 * The table of image formats: see image.h.
 */
#include "formats/image.h"

#include "common/sidecar/object.h"
#include "formats/format.h"
#include "formats/object/object.h"
#include "formats/planner.h"

static const struct format *const formats[] = {
    &elf_format,
    &macho_format,
    &coff_format,
};

static const struct format *find_format(struct bytes bytes)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i]->recognize(bytes))
            return formats[i];
    }
    return NULL;
}

bool image_recognize(struct bytes bytes, const char **format_name)
{
    const struct format *format = find_format(bytes);

    if (format == NULL)
        return false;
    *format_name = format->name;
    return true;
}

bool image_is_linked(struct bytes bytes)
{
    const struct format *format = find_format(bytes);

    return format != NULL && (format->is_linked == NULL || format->is_linked(bytes)) &&
           !sidecar_recognize(bytes) && !object_recognize(bytes);
}

bool image_find_split(const struct input *input, struct split_image *split, struct error *error)
{
    const struct format *format = find_format(input->bytes);

    *split = (struct split_image){.uuid_is_stub = false};
    error->number = 0;
    if (object_is_packed(input->bytes)) {
        split->has_mapping = split->is_packed = true;
        return false;
    }
    return format != NULL && planner_find_split(format, input, split, error);
}

bool image_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    const struct format *format = find_format(input->bytes);

    return format == NULL || format->outline == NULL || format->outline(input, outline, error);
}

/* NULL, with an error, if the file is not an image. */
static const struct format *format_of(const struct input *input, struct error *error)
{
    const struct format *format = find_format(input->bytes);

    if (object_recognize(input->bytes)) {
        error_set(error,
                  "%s: an object that covsplit export made, not an image; name the executable or "
                  "shared library",
                  input->path);
        return NULL;
    }
    if (format == NULL)
        error_set(error,
                  "%s: %s; name an ELF, Mach-O or COFF executable or "
                  "library",
                  input->path, input->bytes.size == 0 ? "the file is empty" : "not an image");
    return format;
}

struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error)
{
    const struct format *format = format_of(input, error);

    return format != NULL ? planner_plan(format, input, options, error) : NULL;
}

struct image_plan *image_describe(const struct input *input, struct error *error)
{
    const struct format *format;

    if (object_is_packed(input->bytes))
        return object_describe(input, error);
    format = format_of(input, error);
    return format != NULL ? planner_describe(format, input, error) : NULL;
}

bool image_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                           struct edit_script *edits, struct error *error)
{
    const struct format *format = format_of(input, error);

    if (format == NULL)
        return false;
    return format->replace_mapping != NULL
               ? format->replace_mapping(input, mapping, edits, error)
               : error_set(error,
                           "%s: other coverage mapping cannot be put into %s images; use "
                           "'covsplit run' or 'covsplit export'",
                           input->path, format->name);
}
