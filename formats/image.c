/*
 * The table of image formats: see image.h.
 */
#include "formats/image.h"

#include <stdlib.h>
#include <string.h>

#include "formats/elf.h"
#include "formats/macho.h"
#include "formats/stub.h"

struct image_format_entry {
    const char *name;
    bool (*recognize)(struct bytes bytes);
    struct image_plan *(*plan)(const struct input *input, const struct image_options *options,
                               struct error *error);
};

static const struct image_format_entry formats[] = {
    {"ELF", elf_recognize, elf_plan},
    {"Mach-O", macho_recognize, macho_plan},
};

static const struct image_format_entry *find_format(struct bytes bytes)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (formats[i].recognize(bytes))
            return &formats[i];
    }
    return NULL;
}

bool image_recognize(struct bytes bytes, const char **format_name)
{
    const struct image_format_entry *format = find_format(bytes);

    if (format == NULL)
        return false;
    *format_name = format->name;
    return true;
}

struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error)
{
    const struct image_format_entry *format = find_format(input->bytes);

    if (format == NULL) {
        error_set(error,
                  "%s: %s; name an ELF or Mach-O executable or "
                  "library",
                  input->path, input->bytes.size == 0 ? "the file is empty" : "not an image");
        return NULL;
    }
    return format->plan(input, options, error);
}

void image_plan_free(struct image_plan *plan)
{
    if (plan == NULL)
        return;
    edit_script_free(&plan->edits);
    free(plan);
}

void image_plan_set_uuid(struct image_plan *plan, const struct uuid *uuid, enum uuid_source source)
{
    plan->facts.uuid = *uuid;
    plan->facts.uuid_source = source;
    if (plan->stub_uuid_literal != SIZE_MAX)
        stub_set_uuid(plan->edits.literals.data + plan->stub_uuid_literal, uuid);
}
