/*
 * Ordinary coverage mapping: see ordinary.h.
 */
#include "formats/ordinary.h"

#include <elf.h>

#include "common/base/memory_limit.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/coverage.h"

static bool add_counts(struct packed_unit *unit, struct bytes packed, bool big_endian,
                       const struct input *image, uint64_t limit, struct packed_counts *counts,
                       struct error *error)
{
    switch (packed_unit_read(unit, packed, big_endian, limit)) {
    case RESULT_OK:
        counts->units++;
        counts->records += unit->count;
        return true;
    case RESULT_NO_MEMORY:
        return error_out_of_memory(error, image->path, packed.size);
    default:
        return error_set(error,
                         "%s: damaged coverage mapping: packed unit %llu cannot be read, or was "
                         "packed by a later covsplit; link the image again, or use that covsplit",
                         image->path, (unsigned long long)counts->units);
    }
}

bool ordinary_count(const struct input *image, const struct image_plan *plan,
                    struct packed_counts *counts, struct error *error)
{
    struct bytes section = image_plan_bytes(plan, image, SECTION_COVMAP), packed;
    bool big_endian = plan->facts.elf_data == ELFDATA2MSB, done = true;
    struct packed_unit unit = {0};
    struct covmap_unit other;

    uint64_t limit = memory_limit_for(image->bytes.size);
    *counts = (struct packed_counts){0};
    while (done && section.size != 0) {
        if (packed_unit_take(&section, big_endian, &packed))
            done = add_counts(&unit, packed, big_endian, image, limit, counts, error);
        else if (!covmap_take(&section, big_endian, &other))
            done = error_set(error,
                             "%s: damaged coverage mapping: there is something else behind %llu "
                             "packed units; link the image again",
                             image->path, (unsigned long long)counts->units);
    }
    packed_unit_free(&unit);
    return done;
}

bool ordinary_plan(const struct input *image, const struct image_plan *plan, uint64_t limit,
                   struct edit_script *edits, struct error *error)
{
    struct buffer covmap = {0}, covfun = {0};
    bool done = image_plan_unpack(plan, image, limit, &covmap, &covfun, error);

    if (done) {
        const struct mapping_sections mapping = {buffer_view(&covmap), buffer_view(&covfun)};

        done = image_replace_mapping(image, &mapping, edits, error) &&
               edit_script_finish(edits, image->path, error);
    }
    buffer_free(&covmap);
    buffer_free(&covfun);
    return done;
}
