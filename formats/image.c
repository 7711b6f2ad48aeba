/*
 * The table of image formats: see image.h.
 */
#include "formats/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/llvm/tripwire.h"
#include "common/sidecar/object.h"
#include "formats/coff/check_sum.h"
#include "formats/coff/coff.h"
#include "formats/elf/elf.h"
#include "formats/macho/macho.h"
#include "formats/runtime/stub.h"

struct image_format_entry {
    const char *name;
    bool (*recognize)(struct bytes bytes);
    /* Of what is recognized. NULL: all of it is linked. */
    bool (*is_linked)(struct bytes bytes);
    struct image_plan *(*plan)(const struct input *input, const struct image_options *options,
                               struct error *error);
    bool (*find_split)(const struct input *input, struct split_image *split, struct error *error);
    /* NULL where no second reader knows the format. */
    bool (*outline)(const struct input *input, struct buffer *outline, struct error *error);
};

static const struct image_format_entry formats[] = {
    {"ELF", elf_recognize, elf_is_linked, elf_plan, elf_find_split, NULL},
    {"Mach-O", macho_recognize, macho_is_linked, macho_plan, macho_find_split, macho_outline},
    {"COFF", coff_recognize, NULL, coff_plan, coff_find_split, coff_outline},
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

bool image_is_linked(struct bytes bytes)
{
    const struct image_format_entry *format = find_format(bytes);

    return format != NULL && (format->is_linked == NULL || format->is_linked(bytes));
}

bool image_find_split(const struct input *input, struct split_image *split, struct error *error)
{
    const struct image_format_entry *format = find_format(input->bytes);

    *split = (struct split_image){.uuid_is_stub = false};
    error->number = 0;
    return format != NULL && format->find_split(input, split, error);
}

/* Coverage mapping is of no use without names. Where all of it goes to the sidecar and names stay
 * in the image, the sidecar gets a copy, so that reports need nothing else. Joining does not need
 * it: no edit and no range is of it. */
static void plan_copies(struct image_plan *plan)
{
    const unsigned mapping = SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_COVFUN);
    const unsigned names = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES);
    unsigned removed = 0;

    for (size_t i = 0; i < plan->section_count; i++) {
        if (plan->sections[i].fate != SECTION_STAYS)
            removed |= SECTION_BIT(plan->sections[i].kind);
    }
    for (size_t i = 0; i < plan->section_count; i++) {
        struct image_section *section = &plan->sections[i];

        section->copied = (removed & mapping) == mapping && section->fate == SECTION_STAYS &&
                          (SECTION_BIT(section->kind) & names) != 0 && section->size != 0 &&
                          !section->encoded;
    }
}

bool image_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    const struct image_format_entry *format = find_format(input->bytes);

    return format == NULL || format->outline == NULL || format->outline(input, outline, error);
}

struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error)
{
    const struct image_format_entry *format = find_format(input->bytes);
    struct image_plan *plan;

    if (object_recognize(input->bytes)) {
        error_set(error,
                  "%s: an object that covsplit export made, not an image; name the executable or "
                  "shared library",
                  input->path);
        return NULL;
    }
    if (format == NULL) {
        error_set(error,
                  "%s: %s; name an ELF, Mach-O or COFF executable or "
                  "library",
                  input->path, input->bytes.size == 0 ? "the file is empty" : "not an image");
        return NULL;
    }
    plan = format->plan(input, options, error);
    if (plan != NULL)
        plan_copies(plan);
    return plan;
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
    if (plan->tripwire_literal != SIZE_MAX)
        tripwire_write(plan->edits.literals.data + plan->tripwire_literal, plan->tripwire_size,
                       uuid);
    if (plan->check_sum_literal != SIZE_MAX)
        coff_check_sum_store(plan);
}

/* ---- what the formats share ---- */

struct image_section *image_plan_section(struct image_plan *plan, enum section_kind kind)
{
    for (size_t i = 0; i < plan->section_count; i++) {
        if (plan->sections[i].kind == kind)
            return &plan->sections[i];
    }
    return NULL;
}

void image_plan_keep(struct image_plan *plan, enum section_kind kind, const char *format,
                     va_list arguments)
{
    struct image_section *section = image_plan_section(plan, kind);

    section->fate = SECTION_STAYS;
    vsnprintf(section->reason, sizeof(section->reason), format, arguments);
}

static int compare_sections(const void *left, const void *right)
{
    const struct image_section *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->kind < b->kind ? -1 : a->kind > b->kind;
}

void image_plan_sort(struct image_plan *plan)
{
    qsort(plan->sections, plan->section_count, sizeof(plan->sections[0]), compare_sections);
}

bool image_plan_choose_uuid(struct image_plan *plan, const struct image_options *options,
                            const char *path, struct error *error)
{
    struct sidecar_facts *facts = &plan->facts;
    const struct uuid *given = &options->uuid;

    facts->uuid_source = facts->uuid.size != 0 ? UUID_FROM_BUILD_ID : UUID_FROM_DIGEST;
    if (given->size != 0 && facts->uuid.size != 0 && !uuid_equal(given, &facts->uuid))
        return error_set(error,
                         "%s: the image has a build ID, which its profiles carry, and --uuid gives "
                         "another one; leave --uuid out",
                         path);
    if (given->size != 0 && facts->uuid.size == 0) {
        facts->uuid = *given;
        facts->uuid_source = UUID_FROM_OPTION;
    }
    return true;
}

size_t image_plan_tripwire_size(const struct image_plan *plan, uint64_t names_size)
{
    /* An image that has no UUID gets the digest of its bytes. */
    return tripwire_size(names_size,
                         plan->facts.uuid.size != 0 ? plan->facts.uuid.size : DIGEST_SIZE);
}

bool image_plan_keep_signature(struct image_plan *plan, struct bytes file, uint64_t offset,
                               uint64_t names_size, bool big_endian)
{
    uint8_t name_ref[sizeof(uint64_t)];
    struct bytes old;

    if (!bytes_slice(file, offset, sizeof(name_ref), &old))
        return false;
    store_u64(name_ref,
              load_u64(old.data, big_endian) + tripwire_signature(names_size, plan->tripwire_size),
              big_endian);
    return edit_overwrite_differences(&plan->edits, file, offset,
                                      (struct bytes){name_ref, sizeof(name_ref)});
}

bool image_plan_take_split_uuid(struct image_plan *plan, struct bytes names, struct bytes data)
{
    struct uuid *uuid = &plan->facts.uuid, found;
    bool is_prefix;

    if (uuid->size != 0)
        return false;
    if (tripwire_read_uuid(names, &found, &is_prefix) && !is_prefix) {
        *uuid = found;
        return false;
    }
    if (data.size < STUB_UUID_SIZE)
        return false;
    memcpy(uuid->bytes, data.data, STUB_UUID_SIZE);
    uuid->size = STUB_UUID_SIZE;
    return true;
}

void image_plan_pair_mapping(struct image_plan *plan)
{
    const struct image_section *covmap = image_plan_section(plan, SECTION_COVMAP);
    struct image_section *covfun = image_plan_section(plan, SECTION_COVFUN);

    if (covmap == NULL || covmap->fate != SECTION_STAYS || covfun == NULL ||
        covfun->fate == SECTION_STAYS)
        return;
    covfun->fate = SECTION_STAYS;
    snprintf(covfun->reason, sizeof(covfun->reason),
             "%s stays, and would read as a program without functions; remove both", covmap->name);
}

void image_plan_describe_split(struct image_plan *plan, struct split_image *split)
{
    const struct image_section *counters = image_plan_section(plan, SECTION_COUNTERS);
    const struct image_section *bitmap = image_plan_section(plan, SECTION_BITMAP);

    split->uuid = plan->facts.uuid;
    split->counters_size = counters == NULL ? 0 : counters->size;
    split->bitmap_size = bitmap == NULL ? 0 : bitmap->size;
}

void image_plan_list_ranges(struct image_plan *plan)
{
    for (size_t i = 0; i < plan->section_count; i++) {
        const struct image_section *section = &plan->sections[i];
        if (section->fate != SECTION_STAYS)
            plan->ranges[plan->range_count++] =
                (struct section_range){section->kind, section->offset, section->size};
    }
}
