/*
 * Images in commands: see images.h.
 */
#include "split/cli/images.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/codec/zstd.h"
#include "common/edit/edit.h"
#include "common/elf_file/elf_file.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "formats/machine/machine.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"

/* ---- files that may be images ---- */

bool found_image_is_linked(const char *path)
{
    struct input input;
    struct container container;
    struct error why;
    bool is_linked = false;

    if (!input_open(&input, path, &why))
        return true;
    if (!container_open(&container, &input, &why))
        is_linked = error_is_of_memory(&why);
    /* A universal image counts even if its layout is not understood: the split reports that. */
    for (size_t i = 0; i < container.count; i++) {
        const struct slice *slice = &container.slices[i];
        struct bytes bytes;

        is_linked |=
            bytes_slice(input.bytes, slice->offset, slice->size, &bytes) && image_is_linked(bytes);
    }
    container_close(&container);
    input_close(&input);
    return is_linked;
}

bool found_image_has_no_coverage(struct bytes bytes)
{
    static const char *const names[] = {"__llvm_prf_", "__llvm_cov", ".lprf", ".lcov"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (memmem(bytes.data, (size_t)bytes.size, names[i], strlen(names[i])) != NULL)
            return false;
    }
    return true;
}

/* ---- descriptions ---- */

const char *machine_text(const struct sidecar_facts *facts, char *text)
{
    const struct machine *machine = machine_find(facts->machine, facts->elf_class, facts->elf_data);

    if (machine != NULL)
        snprintf(text, MACHINE_TEXT_MAX, "%s", machine->name);
    else
        snprintf(text, MACHINE_TEXT_MAX, "%u", facts->machine);
    return text;
}

struct section_row section_row_make(enum section_kind kind, uint64_t size, const char *status)
{
    return (struct section_row){
        .name = section_kind_name(kind),
        .kind = section_kind_word(kind),
        .address = NUMBER_UNKNOWN,
        .size = size,
        .stored_size = NUMBER_UNKNOWN,
        .status = status,
        .reason = "",
    };
}

struct section_row section_row_of_image(const struct image_plan *plan,
                                        const struct section *section)
{
    static const char *const fates[] = {
        [FATE_STAYS] = "stays",
        [FATE_COPIED] = "copied",
        [FATE_ZEROED] = "zeroed",
        [FATE_REMOVED] = "removed",
    };
    struct section_row row = section_row_make(image_plan_stored_kind(plan, section->kind),
                                              section->size, fates[section->fate]);

    row.name = section->name;
    row.reason = section->reason;
    if (section->loaded)
        row.address = section->address;
    if (plan->already_split && (SECTION_BIT(section->kind) & SECTION_REMOVABLE) != 0)
        row.status = "left";
    return row;
}

bool section_row_ratio(const struct section_row *row, uint64_t *ten_thousandths)
{
    if (row->size == NUMBER_UNKNOWN || row->stored_size == NUMBER_UNKNOWN || row->size == 0)
        return false;
    *ten_thousandths = (uint64_t)((double)row->stored_size / (double)row->size * 10000 + 0.5);
    return true;
}

static void write_number(struct json_writer *json, const char *key, uint64_t number)
{
    if (number != NUMBER_UNKNOWN)
        json_number(json, key, number);
    else
        json_null(json, key);
}

void section_row_write(const struct section_row *row, struct json_writer *json)
{
    uint64_t ratio;

    json_begin_object(json, NULL);
    json_string(json, "name", row->name);
    json_string(json, "kind", row->kind);
    write_number(json, "address", row->address);
    write_number(json, "size", row->size);
    write_number(json, "stored_size", row->stored_size);
    if (section_row_ratio(row, &ratio))
        json_fraction(json, "ratio", ratio);
    else
        json_null(json, "ratio");
    json_string(json, "status", row->status);
    json_string_or_null(json, "reason", row->reason);
    json_end_object(json);
}

/* ---- the sidecar of an image that was not split ---- */

/* Data records are only needed where names are not in the program's memory. */
#define CONTENTS_READ ((SECTION_REMOVABLE & ~SECTION_BIT(SECTION_DATA)) | SECTION_ARCHIVED)
#define PLACES_READ   (SECTION_BIT(SECTION_COUNTERS) | SECTION_BIT(SECTION_BITMAP))

/* Lists what is read of an image. A packed one has ordinary mapping in place of its own. */
static size_t list_sections(const struct image_plan *plan, const struct input *image,
                            const struct buffer *covmap, const struct buffer *covfun,
                            struct section sections[SECTION_KIND_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < plan->section_count; i++) {
        struct section *section = &sections[count];
        unsigned bit = SECTION_BIT(plan->sections[i].kind);
        bool is_read = (bit & CONTENTS_READ) != 0 && !plan->sections[i].encoded;

        *section = plan->sections[i];
        if (plan->is_packed && (section->kind == SECTION_COVMAP || section->kind == SECTION_COVFUN))
            continue;
        if ((bit & SECTION_ARCHIVED) != 0)
            section->fate = FATE_COPIED;
        if (is_read)
            section->content = image_plan_bytes(plan, image, section->kind);
        count += section->size != 0 && (is_read || (bit & PLACES_READ) != 0);
    }
    if (covmap->size != 0)
        sections[count++] = (struct section){.kind = SECTION_COVMAP,
                                             .alignment = 8,
                                             .size = covmap->size,
                                             .content = buffer_view(covmap)};
    if (covfun->size != 0)
        sections[count++] = (struct section){.kind = SECTION_COVFUN,
                                             .alignment = 8,
                                             .size = covfun->size,
                                             .content = buffer_view(covfun)};
    return count;
}

/* Writes the sidecar, and opens it. */
static struct sidecar *write_and_open(const struct image_plan *plan, const struct input *image,
                                      const struct section *sections, size_t section_count,
                                      struct error *error)
{
    struct sidecar_source source = {
        .facts = plan->facts,
        .image_name = path_file_name(image->path),
        .sections = sections,
        .section_count = section_count,
        .kept = plan->sections, /* of mapping that cannot be read, it tells */
        .kept_count = plan->section_count,
    };
    struct sidecar_write_options options = {
        .level = CODEC_LEVEL_MIN, .threads = 1, .portable = true};
    struct sidecar_facts *facts = &source.facts;
    struct sidecar *sidecar = NULL;
    struct output file;

    if (!input_digest(image, &facts->original_digest, error) ||
        !output_create_in_memory(&file, image->path, error))
        return NULL;
    if (facts->uuid.size == 0) {
        facts->uuid.size = sizeof(facts->original_digest.bytes);
        memcpy(facts->uuid.bytes, facts->original_digest.bytes, facts->uuid.size);
        facts->uuid_source = UUID_FROM_DIGEST;
    }
    facts->original_size = facts->stripped_size = image->bytes.size;
    facts->stripped_digest = facts->original_digest;
    if (sidecar_write(&source, &options, &file, error) && output_lend(&file, error))
        sidecar = sidecar_read_descriptor(file.fd, image->path, error);
    if (sidecar != NULL)
        sidecar_limit_memory(sidecar, UINT64_MAX); /* its contents have been in memory before */
    output_discard(&file);
    return sidecar;
}

struct sidecar *image_sidecar_make(const struct input *image, uint64_t limit, struct error *error)
{
    struct image_plan *plan = image_describe(image, error);
    struct section sections[SECTION_KIND_MAX];
    struct buffer covmap = {0}, covfun = {0};
    struct sidecar *sidecar = NULL;

    if (plan != NULL && plan->already_split)
        error_set(error,
                  "%s: the image was split, and its coverage mapping is in its sidecar; give the "
                  "sidecar, or the UUID",
                  image->path);
    else if (plan != NULL &&
             (!plan->is_packed || image_plan_unpack(plan, image, limit, &covmap, &covfun, error)))
        sidecar = write_and_open(plan, image, sections,
                                 list_sections(plan, image, &covmap, &covfun, sections), error);
    buffer_free(&covmap);
    buffer_free(&covfun);
    image_plan_free(plan);
    return sidecar;
}

struct sidecar *image_sidecar_open(const struct sidecar_places *places, const struct input *image,
                                   uint64_t limit, struct uuid *own, struct error *error)
{
    struct split_image split = {.own_uuid = {.size = 0}};
    bool is_split = image_read_stripped_id(image, &split, error);

    *own = is_split ? split.own_uuid : (struct uuid){.size = 0};
    if (is_split)
        return sidecar_search_of_image(places, image, &split, error);
    return error_is_of_memory(error) ? NULL : image_sidecar_make(image, limit, error);
}

/* ---- images that were not split ---- */

/* True if the file is an image that was not split and has this UUID. */
static bool is_unsplit(const char *path, const struct uuid *uuid)
{
    struct image_plan *plan = NULL;
    struct split_image split;
    struct error ignored;
    struct input input;
    struct uuid found;
    bool is_it;

    if (!found_image_is_linked(path) || !input_open(&input, path, &ignored))
        return false;
    if (elf_file_build_id(input.bytes, &found))
        is_it = uuid_equal(&found, uuid);
    else
        is_it = (plan = image_describe(&input, &ignored)) != NULL &&
                uuid_equal(&plan->facts.uuid, uuid);
    is_it = is_it && !image_read_stripped_id(&input, &split, &ignored);
    image_plan_free(plan);
    input_close(&input);
    return is_it;
}

/* The path of such an image in the directory, as a new string; NULL if there is none. */
static char *find_unsplit(const char *directory, const struct uuid *uuid)
{
    bool is_here = strcmp(directory, ".") == 0;
    struct directory_names names = {0};
    struct error ignored;
    char *found = NULL;

    if (directory_names_read(directory, NULL, &names, &ignored)) {
        for (size_t i = 0; found == NULL && i < names.count; i++) {
            char *path = is_here ? command_copy(names.items[i])
                                 : command_text("%s/%s", directory, names.items[i]);
            struct stat status;

            if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && is_unsplit(path, uuid))
                found = path;
            else
                free(path);
        }
    }
    directory_names_free(&names);
    return found;
}

void unsplit_image_tell(const struct uuid *uuid, const char *profile, struct error *error)
{
    char directory[PATH_MAX], *found = NULL;
    struct error looked = *error;

    if (path_directory(profile, directory))
        found = find_unsplit(directory, uuid);
    if (found == NULL)
        found = find_unsplit(".", uuid);
    if (found != NULL)
        error_set(error,
                  "%.400s: of the image %.400s, which was not split; name the image, too, or split "
                  "it and run it again",
                  profile, found);
    else
        error_set(error,
                  "%.300s: of an image that was perhaps not split: name the image, too (%.600s)",
                  profile, looked.message);
    error->number = looked.number;
    free(found);
}

/* ---- images without coverage mapping ---- */

bool unmapped_images_note(struct unmapped_images *images, const struct sidecar *sidecar)
{
    const char *name = sidecar->image_name[0] != '\0' ? sidecar->image_name : sidecar->name;

    struct digest uuid =
        digest_of((struct bytes){sidecar->facts.uuid.bytes, sidecar->facts.uuid.size});

    if (sidecar_mapping(sidecar) != MAPPING_IS_ABSENT)
        return false;
    exit_unless_allocated(digest_set_add(&images->uuids, &uuid), DIGEST_SIZE);
    if (images->first == NULL)
        images->first = command_copy(name);
    return true;
}

bool unmapped_images_tell(const struct unmapped_images *images, struct error *text)
{
    char more[COUNT_TEXT_MAX];
    size_t count = images->uuids.count;

    if (count == 1)
        error_set(text,
                  "%.800s: left out, as the image has no coverage mapping; compile it with "
                  "-fcoverage-mapping",
                  images->first);
    else if (count != 0)
        error_set(text,
                  "%.800s and %s: left out, as these images have no coverage mapping; compile them "
                  "with -fcoverage-mapping",
                  images->first, count_text(count - 1, "other image", more));
    return count != 0;
}

void unmapped_images_free(struct unmapped_images *images)
{
    digest_set_free(&images->uuids);
    free(images->first);
    *images = (struct unmapped_images){.first = NULL};
}
