/*
 * Memory maps: see show_map.h.
 *
 * An image that is not loaded where it was linked has its counters at the linked address plus the
 * distance. In gdb, the first address of an ELF image in `info proc mappings` is that distance, if
 * the image was linked from 0 on; it is there for processes and for core files, and needs no
 * symbols, which may have been stripped.
 */
#include "split/sidecars/show_map.h"

#include <elf.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/file.h"
#include "formats/container.h"
#include "formats/image.h"
#include "split/cli/machine_names.h"

/* What there is to tell. */
struct memory_map {
    const struct sidecar_facts *facts;
    const char *image_name;
    const char *sidecar; /* the path of the sidecar, NULL if an image was named */
    struct place {
        uint64_t address;
        uint64_t size; /* 0: the image does not have it */
    } counters, bitmap;
};

#define COMMAND_MAX (PATH_MAX + 256)

/* ---- the report ---- */

/* The images whose addresses in memory are known from the image alone. */
static bool is_fixed(const struct sidecar_facts *facts)
{
    return facts->format == IMAGE_ELF && facts->elf_type == ET_EXEC;
}

static const char *load_text(const struct sidecar_facts *facts)
{
    if (is_fixed(facts))
        return "at the linked address";
    return facts->format == IMAGE_ELF
               ? "anywhere: LOAD is its first address in gdb's 'info proc mappings', less the "
                 "linked one (usually 0)"
               : "perhaps elsewhere: LOAD is the distance from the linked address";
}

static void add_place(struct report *report, const char *label, const char *key_address,
                      const char *key_size, const struct place *place)
{
    char text[64], bytes[COUNT_TEXT_MAX];

    if (report->json != NULL && place->size != 0) {
        report_number(report, key_address, NULL, place->address);
        report_number(report, key_size, NULL, place->size);
        return;
    }
    snprintf(text, sizeof(text), "%s at 0x%" PRIx64, count_text(place->size, "byte", bytes),
             place->address);
    if (place->size != 0)
        report_text(report, key_address, label, text);
    else
        report_none(report, key_address, label, "none");
    if (report->json != NULL)
        report_none(report, key_size, NULL, NULL);
}

static void add_copy(struct report *report, const char *key, const char *label, const char *file,
                     const struct memory_map *map, const struct place *place)
{
    const char *load = is_fixed(map->facts) ? "" : "$load+";
    char text[COMMAND_MAX];

    snprintf(text, sizeof(text), "dump binary memory %s %s0x%" PRIx64 " %s0x%" PRIx64, file, load,
             place->address, load, place->address + place->size);
    if (place->size != 0)
        report_text(report, key, label, text);
}

/* Names the sidecar, or if only the image is known, its UUID. */
static void add_correlate(struct report *report, const struct memory_map *map)
{
    const char *bitmap = map->bitmap.size != 0 ? " --bitmap bitmap.bin" : "";
    char hex[UUID_HEX_MAX], text[COMMAND_MAX];

    if (map->sidecar != NULL)
        snprintf(text, sizeof(text),
                 "covsplit correlate --counters counters.bin%s --sidecar %s -o OUT.profraw", bitmap,
                 map->sidecar);
    else
        snprintf(text, sizeof(text),
                 "covsplit correlate --counters counters.bin%s --uuid %s -o OUT.profraw", bitmap,
                 uuid_format(&map->facts->uuid, hex));
    report_text(report, "correlate", "then", text);
}

static void describe(struct report *report, const struct memory_map *map)
{
    char hex[UUID_HEX_MAX], machine[MACHINE_TEXT_MAX];

    report_text(report, "kind", "kind", "memory map");
    report_text(report, "image_name", "image", map->image_name);
    report_text(report, "machine", "machine", machine_text(map->facts, machine));
    report_text(report, "uuid", "UUID", uuid_format(&map->facts->uuid, hex));
    if (report->json != NULL)
        report_boolean(report, "fixed", NULL, is_fixed(map->facts));
    else
        report_text(report, "fixed", "loaded", load_text(map->facts));
    add_place(report, "counters", "counters_address", "counters_size", &map->counters);
    add_place(report, "bitmap", "bitmap_address", "bitmap_size", &map->bitmap);
    if (!is_fixed(map->facts))
        report_text(report, "gdb_load", "in gdb", "set $load = LOAD");
    add_copy(report, "gdb_counters", "in gdb", "counters.bin", map, &map->counters);
    add_copy(report, "gdb_bitmap", "in gdb", "bitmap.bin", map, &map->bitmap);
    add_correlate(report, map);
}

static bool check(const struct memory_map *map, const char *name, struct error *error)
{
    return map->counters.size != 0 ||
           error_set(error, "%s: its image has no counters; give one with coverage", name);
}

/* ---- sidecars ---- */

static struct place place_in(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section == NULL ? (struct place){0} : (struct place){section->address, section->size};
}

static bool describe_sidecar(const struct sidecar *sidecar, struct report *report,
                             struct error *error)
{
    const struct memory_map map = {.facts = sidecar_facts(sidecar),
                                   .image_name = sidecar_image_name(sidecar),
                                   .sidecar = sidecar_name(sidecar),
                                   .counters = place_in(sidecar, SECTION_COUNTERS),
                                   .bitmap = place_in(sidecar, SECTION_BITMAP)};

    if (!sidecar_is_real(sidecar, error) || !check(&map, sidecar_name(sidecar), error))
        return false;
    describe(report, &map);
    return true;
}

static bool describe_found(const struct uuid *start, const struct sidecar_places *places,
                           struct report *report, struct error *error)
{
    struct sidecar *sidecar = sidecar_search_by_start(places, start, error);
    bool done = sidecar != NULL && describe_sidecar(sidecar, report, error);
    sidecar_close(sidecar);
    return done;
}

/* ---- images ---- */

static struct place place_of(struct image_plan *plan, enum section_kind kind)
{
    const struct section *section = image_plan_section(plan, kind);

    return section == NULL ? (struct place){0} : (struct place){section->address, section->size};
}

static bool describe_image(const struct input *input, struct report *report, struct error *error)
{
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct image_plan *plan = image_plan_make(input, &options, error);
    struct memory_map map;
    struct split_image split;
    bool done;

    if (plan == NULL)
        return false;
    map = (struct memory_map){.facts = &plan->facts,
                              .image_name = path_file_name(input->path),
                              .counters = place_of(plan, SECTION_COUNTERS),
                              .bitmap = place_of(plan, SECTION_BITMAP)};
    if (plan->facts.uuid_source == UUID_FROM_DIGEST && plan->already_split &&
        image_find_split(input, &split, error))
        plan->facts.uuid = split.uuid;
    done = check(&map, input->path, error);
    if (done)
        describe(report, &map);
    image_plan_free(plan);
    return done;
}

/* ---- operands ---- */

static bool describe_file(const char *path, struct report *report, struct error *error)
{
    struct container container = {.count = 0};
    struct sidecar *sidecar = NULL;
    struct input input;
    bool done;

    if (!input_open(&input, path, error))
        return false;
    if (sidecar_recognize(input.bytes)) {
        sidecar = sidecar_open(input.bytes, path, error);
        done = sidecar != NULL && describe_sidecar(sidecar, report, error);
    } else {
        done = container_open(&container, &input, error) &&
               (container.count == 1 ||
                error_set(error, "%s: a universal image; give the sidecar of one of its slices",
                          path)) &&
               describe_image(&container.slices[0].input, report, error);
    }
    sidecar_close(sidecar);
    container_close(&container);
    input_close(&input);
    return done;
}

bool describe_map(const char *operand, const struct sidecar_places *places, struct report *report,
                  struct error *error)
{
    struct uuid uuid;

    if (file_is_missing(operand, 0) && uuid_parse(operand, &uuid))
        return describe_found(&uuid, places, report, error);
    return describe_file(operand, report, error);
}
