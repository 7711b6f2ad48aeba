/*
 * Plans, and the ordinary coverage mapping of an image: see image.h.
 */
#include "formats/image.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/coverage.h"

/* ---- plans ---- */

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

enum section_kind image_plan_stored_kind(const struct image_plan *plan, enum section_kind kind)
{
    if (plan->is_packed && kind == SECTION_COVMAP)
        return SECTION_LINKED_COVMAP;
    return plan->is_packed && kind == SECTION_COVFUN ? SECTION_LINKED_COVFUN : kind;
}

/* ---- mapping of which only a part is packed ---- */

/*
 * Of all records of a function, the first in the order of the link is kept (packed_unit.h). Objects
 * that the linker makes of bitcode (LTO) come last in that order, but it chooses functions when it
 * reads the bitcode. So the program can have the code of a function from bitcode, when a packed
 * object behind it has the first record. That does no harm if both were compiled from the same
 * text. If not, the record is of code that the program does not have.
 */

/* Data records begin with NameRef and FuncHash, and are aligned to this. */
#define RECORD_ALIGNMENT 8
#define RECORD_START     16

/* The key that tells functions of one name apart. */
static uint64_t function_key(uint64_t name_reference, uint64_t function_hash)
{
    return name_reference ^ function_hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* True if the program may have code that the record is of. A function without control flow has the
 * hash 0, as has the record of one that its translation unit does not use. */
static bool has_code(const struct covfun_record *record)
{
    bool is_dummy;

    return !covfun_tell_dummy(record, &is_dummy) || !is_dummy;
}

/* Adds the used functions of the section that are not in `known`, which may be NULL. */
static bool add_functions(struct bytes covfun, bool big_endian, const struct intern_table *known,
                          struct intern_table *functions)
{
    struct covfun_record record;
    uint64_t ignored;

    while (covfun_take(&covfun, big_endian, &record)) {
        uint64_t key = function_key(record.name_reference, record.function_hash);

        if (has_code(&record) && (known == NULL || !intern_table_find(known, key, &ignored)) &&
            !intern_table_put(functions, key, 0))
            return false;
    }
    return true;
}

/* Fails if there are data records of functions whose records are in the image's covfun, but not in
 * what was made of that and the packed units; unless the function whose record was made in its
 * place has a data record, too. */
static bool check_mixed(const struct image_plan *plan, const struct input *image,
                        struct bytes made_covfun, struct error *error)
{
    struct bytes covfun = image_plan_bytes(plan, image, SECTION_COVFUN);
    struct bytes data = image_plan_bytes(plan, image, SECTION_DATA);
    bool big_endian = plan->facts.elf_data == ELFDATA2MSB, is_sound = true;
    /* The functions of the records that were made, and of the others in the image's own section;
     * and the NameRefs of data records whose functions are in `made`. */
    struct intern_table made = {0}, lost = {0}, kept = {0};
    bool done = covfun.size == 0 || (add_functions(made_covfun, big_endian, NULL, &made) &&
                                     add_functions(covfun, big_endian, &made, &lost));

    for (unsigned pass = 0; done && lost.count != 0 && pass < 2; pass++) {
        /* Wherever a data record may begin. */
        for (uint64_t i = 0; done && is_sound && i + RECORD_START <= data.size;
             i += RECORD_ALIGNMENT) {
            uint64_t name_reference = load_u64(data.data + i, big_endian), ignored;
            uint64_t key = function_key(name_reference,
                                        load_u64(data.data + i + sizeof(uint64_t), big_endian));

            if (pass == 0)
                done = !intern_table_find(&made, key, &ignored) ||
                       intern_table_put(&kept, name_reference, 0);
            else
                is_sound = !intern_table_find(&lost, key, &ignored) ||
                           intern_table_find(&kept, name_reference, &ignored);
        }
    }
    if (!done)
        error_out_of_memory(error, image->path, made_covfun.size);
    else if (!is_sound)
        done = error_set(error,
                         "%s: a packed object and bitcode (LTO) have different records of a "
                         "function, and the first is not that of the code; pack all objects of "
                         "the image, or none, and link it again",
                         image->path);
    intern_table_free(&made);
    intern_table_free(&lost);
    intern_table_free(&kept);
    return done;
}

/* ---- ordinary coverage mapping ---- */

bool image_plan_unpack(const struct image_plan *plan, const struct input *image, uint64_t limit,
                       struct buffer *covmap, struct buffer *covfun, struct error *error)
{
    const struct mapping_sections linked = {image_plan_bytes(plan, image, SECTION_COVMAP),
                                            image_plan_bytes(plan, image, SECTION_COVFUN)};
    bool big_endian = plan->facts.elf_data == ELFDATA2MSB;
    size_t start = covfun->size;
    struct bytes made;

    if (!unpack_mapping(&linked, big_endian,
                        limit != 0 ? limit : memory_limit_for(image->bytes.size), image->path,
                        covmap, covfun, error))
        return false;
    bytes_slice(buffer_view(covfun), start, covfun->size - start, &made);
    return check_mixed(plan, image, made, error);
}

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
