/*
 * Plans: see plan.h.
 */
#include "formats/plan.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory_limit.h"
#include "common/codec/packed_units/packed_unit.h"
#include "formats/mixed_mapping.h"

struct image_plan *image_plan_new(const struct input *input, struct error *error)
{
    struct image_plan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL)
        error_out_of_memory(error, input->path, sizeof(*plan));
    else
        edit_script_init(&plan->edits, input->bytes.size);
    return plan;
}

void image_plan_free(struct image_plan *plan)
{
    if (plan == NULL)
        return;
    edit_script_free(&plan->edits);
    arena_free(&plan->reasons);
    free(plan);
}

struct section *image_plan_section(struct image_plan *plan, enum section_kind kind)
{
    for (size_t i = 0; i < plan->section_count; i++) {
        if (plan->sections[i].kind == kind)
            return &plan->sections[i];
    }
    return NULL;
}

struct bytes image_plan_bytes(const struct image_plan *plan, const struct input *image,
                              enum section_kind kind)
{
    struct bytes bytes = {0};

    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        if (section->kind == kind &&
            !bytes_slice(image->bytes, section->offset, section->size, &bytes))
            return (struct bytes){0};
    }
    return bytes;
}

bool image_plan_removes(struct image_plan *plan, enum section_kind kind)
{
    const struct section *section = image_plan_section(plan, kind);

    return section != NULL && section_goes(section);
}

static void explain(struct image_plan *plan, struct section *section, const char *format,
                    va_list arguments)
{
    char text[IMAGE_REASON_MAX];
    const char *copy;

    vsnprintf(text, sizeof(text), format, arguments);
    copy = arena_text(&plan->reasons, "%s", text);
    section->reason = copy != NULL ? copy : "";
}

void image_plan_explain(struct image_plan *plan, struct section *section, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    explain(plan, section, format, arguments);
    va_end(arguments);
}

bool image_plan_keep(struct image_plan *plan, enum section_kind kind, const char *format, ...)
{
    struct section *section = image_plan_section(plan, kind);
    va_list arguments;

    section->fate = FATE_STAYS;
    va_start(arguments, format);
    explain(plan, section, format, arguments);
    va_end(arguments);
    return false;
}

void image_plan_add(struct image_plan *plan, const struct section *section)
{
    struct section *added = &plan->sections[plan->section_count++];

    *added = *section;
    if (added->reason == NULL)
        added->reason = "";
}

enum section_kind image_plan_stored_kind(const struct image_plan *plan, enum section_kind kind)
{
    if (plan->is_packed && kind == SECTION_COVMAP)
        return SECTION_LINKED_COVMAP;
    return plan->is_packed && kind == SECTION_COVFUN ? SECTION_LINKED_COVFUN : kind;
}

bool image_plan_unpack(const struct image_plan *plan, const struct input *image, uint64_t limit,
                       struct buffer *covmap, struct buffer *covfun, struct error *error)
{
    const struct mapping_sections linked = {image_plan_bytes(plan, image, SECTION_COVMAP),
                                            image_plan_bytes(plan, image, SECTION_COVFUN)};

    bool big_endian = plan->facts.elf_data == ELFDATA2MSB;
    size_t start = covfun->size;
    struct mixed_mapping mixed = {.covfun = linked.covfun,
                                  .data = image_plan_bytes(plan, image, SECTION_DATA)};

    if (!unpack_mapping(&linked, big_endian,
                        limit != 0 ? limit : memory_limit_for(image->bytes.size), image->path,
                        covmap, covfun, error))
        return false;
    bytes_slice(buffer_view(covfun), start, covfun->size - start, &mixed.made_covfun);
    return mixed_mapping_check(&mixed, big_endian, image->path, error);
}

static int compare_sections(const void *left, const void *right)
{
    const struct section *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->kind < b->kind ? -1 : a->kind > b->kind;
}

void image_plan_sort(struct image_plan *plan)
{
    qsort(plan->sections, plan->section_count, sizeof(plan->sections[0]), compare_sections);
}
