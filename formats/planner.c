/*
 * The planner, and the table of image formats: see image.h and format.h.
 *
 * An image is opened and described: its UUID, its sections, the symbols of the profile runtime, the
 * version of its profiles. A stripped image is known by what a split leaves in it. For any other
 * image the UUID is settled first, because the stub and the tripwire contain it. Then it is
 * decided, section by section, what can go; the layout makes all edits that change sizes; and once
 * these are sorted, the headers and tables are written.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/edit/edit.h"
#include "common/sidecar/exported.h"
#include "formats/format.h"
#include "formats/object/packing.h"

/* Of an image that is only described. */
static const struct image_options no_options;

/* ---- describing ---- */

static bool find_sections(struct planning *planning, struct error *error)
{
    const struct format *format = planning->format;

    for (unsigned i = 1; i <= SECTION_KIND_MAX; i++) {
        enum section_kind kind = (enum section_kind)i;
        size_t index = NO_INDEX;

        if ((SECTION_BIT(kind) & SECTION_LINKED) == 0 && format->section_name(kind) != NULL)
            index = format->find_section(planning, kind, NO_INDEX);
        planning->section_index[kind] = index;
        if (index == NO_INDEX)
            continue;
        if ((SECTION_BIT(kind) & SECTION_ARCHIVED) == 0 &&
            format->find_section(planning, kind, index) != NO_INDEX)
            return error_set(error,
                             "%s: the image has two sections named %s; link it so that it has one",
                             planning->input->path, format->section_name(kind));
        planning_add_section(planning, kind, index);
    }
    image_plan_sort(planning->plan);
    return true;
}

/* Describes what the headers say. */
static bool describe_headers(struct planning *planning, struct error *error)
{
    struct image_plan *plan = planning->plan;
    struct sidecar_facts *facts = &plan->facts;
    const struct section *covmap;

    facts->format = planning->format->id;
    if (!planning->format->describe(planning, error))
        return false;
    planning->code.machine = machine_find(facts->machine, facts->elf_class, facts->elf_data);
    planning->big_endian = facts->elf_data == ELFDATA2MSB;
    tripwire_write_mapping(planning->mapping_tripwire, planning->big_endian);
    if (!find_sections(planning, error))
        return false;
    covmap = image_plan_section(plan, SECTION_COVMAP);
    plan->is_packed = covmap != NULL && !covmap->encoded &&
                      unpack_is_needed(image_plan_bytes(plan, planning->input, SECTION_COVMAP),
                                       planning->big_endian);
    return true;
}

/* All definitions of __llvm_profile_raw_version must agree. 0 if there is none or they differ. */
static uint64_t read_raw_version(const struct planning *planning)
{
    const struct runtime_symbols *symbols = &planning->code.symbols;
    uint64_t version = 0;

    for (size_t i = 0; i < symbols->count; i++) {
        const struct runtime_definition *definition = &symbols->definitions[i];
        struct bytes bytes;
        uint64_t value;

        if (definition->symbol != RUNTIME_RAW_VERSION)
            continue;
        if (!planning->format->bytes_at(planning, definition->address, 8, &bytes))
            return 0;
        value = load_u64(bytes.data, planning->big_endian);
        if (version != 0 && value != version)
            return 0;
        version = value;
    }
    return version;
}

/* The UUID is the image's own, or the one given with --uuid; otherwise its size stays 0. */
static bool choose_uuid(struct planning *planning, struct error *error)
{
    struct sidecar_facts *facts = &planning->plan->facts;
    const struct uuid *given = &planning->options->uuid;

    facts->uuid_source = facts->uuid.size != 0 ? UUID_FROM_BUILD_ID : UUID_FROM_DIGEST;
    if (given->size != 0 && facts->uuid.size != 0 && !uuid_equal(given, &facts->uuid))
        return error_set(error,
                         "%s: the image has a build ID, which its profiles carry, and --uuid gives "
                         "another one; leave --uuid out",
                         planning->input->path);
    if (given->size != 0 && facts->uuid.size == 0) {
        facts->uuid = *given;
        facts->uuid_source = UUID_FROM_OPTION;
    }
    return true;
}

static bool describe(struct planning *planning, struct error *error)
{
    const struct format *format = planning->format;
    struct sidecar_facts *facts = &planning->plan->facts;

    if (!describe_headers(planning, error) || !choose_uuid(planning, error) ||
        !format->find_symbols(planning, error))
        return false;
    facts->raw_version = read_raw_version(planning);
    planning->has_record_layout =
        stub_layout(facts->raw_version, facts->pointer_size, &planning->record_layout);
    if (format->find_by_layout != NULL)
        format->find_by_layout(planning);
    return true;
}

static void describe_contents(struct planning *planning)
{
    if (planning->format->describe_contents != NULL)
        planning->format->describe_contents(planning);
}

/* ---- stripped images ---- */

static bool find_out_whether_split(const struct planning *planning, bool *is_split,
                                   struct error *error)
{
    *is_split = false;
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX && !*is_split; kind++) {
        if (planning->section_index[kind] != NO_INDEX &&
            (SECTION_REMOVABLE & SECTION_BIT(kind)) != 0 &&
            !planning->format->is_remnant(planning, (enum section_kind)kind, is_split, error))
            return false;
    }
    return true;
}

/* The remnant of a section after a split; empty if there is none. */
static struct bytes remnant_of(const struct planning *planning, enum section_kind kind)
{
    return planning->section_index[kind] == NO_INDEX ? (struct bytes){0}
                                                     : planning->format->remnant_of(planning, kind);
}

/* What a split has left in the image says which UUID it had then: the tripwire all of it, the stub
 * its first part. The build ID may have been changed since, as by debugedit -i, or be gone. True if
 * the UUID was taken from the stub. */
static bool take_split_uuid(struct planning *planning)
{
    struct uuid *uuid = &planning->plan->facts.uuid, found;
    struct bytes stub;
    bool is_prefix;

    if (tripwire_read_uuid(remnant_of(planning, SECTION_NAMES), &found, &is_prefix) && !is_prefix) {
        *uuid = found;
        return false;
    }
    stub = remnant_of(planning, SECTION_DATA);
    if (stub.size < UUID_STUB_SIZE || (uuid->size != 0 && uuid_has_stub(uuid, stub.data)))
        return false;
    memcpy(uuid->bytes, stub.data, UUID_STUB_SIZE);
    uuid->size = UUID_STUB_SIZE;
    return true;
}

static void describe_split(struct planning *planning, struct split_image *split)
{
    const struct section *counters, *bitmap;
    struct bytes stub = remnant_of(planning, SECTION_DATA);

    describe_contents(planning);
    counters = image_plan_section(planning->plan, SECTION_COUNTERS);
    bitmap = image_plan_section(planning->plan, SECTION_BITMAP);
    split->own_uuid = planning->plan->facts.uuid;
    split->uuid_is_stub = take_split_uuid(planning);
    split->uuid = planning->plan->facts.uuid;
    split->has_stub = stub.size >= sizeof(split->stub_id);
    if (split->has_stub)
        memcpy(split->stub_id, stub.data, sizeof(split->stub_id));
    split->counters_size = counters == NULL ? 0 : counters->size;
    split->bitmap_size = bitmap == NULL ? 0 : bitmap->size;
}

/* ---- deciding ---- */

static bool decide(struct planning *planning, struct error *error)
{
    unsigned chosen = SECTION_REMOVABLE & planning->options->sections;

    for (size_t i = 0; i < planning->plan->section_count; i++) {
        struct section *section = &planning->plan->sections[i];

        if ((chosen & SECTION_BIT(section->kind)) == 0 || section->size == 0)
            continue;
        section->fate = FATE_REMOVED;
        if (!planning->format->check_section(planning, section, error))
            return false;
    }
    return true;
}

/* Packed units have records that belong to covfun, so the two sections are one. */
static bool check_choice(const struct planning *planning, struct error *error)
{
    const unsigned mapping = SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_COVFUN);
    unsigned chosen = planning->options->sections & mapping;

    return !planning->plan->is_packed || chosen == 0 || chosen == mapping ||
           error_set(error,
                     "%s: has packed objects, whose coverage mapping can only be taken out as a "
                     "whole; give --sections covmap and covfun, or none of the two",
                     planning->input->path);
}

/* The mapping of functions goes only if the file names of the mapping go too, because only these
 * leave a tripwire. With packed units, the one goes only with the other. */
static void pair_mapping(struct image_plan *plan)
{
    const struct section *covmap = image_plan_section(plan, SECTION_COVMAP);
    const struct section *covfun = image_plan_section(plan, SECTION_COVFUN);

    if (covmap != NULL && covmap->fate == FATE_STAYS && image_plan_removes(plan, SECTION_COVFUN))
        image_plan_keep(
            plan, SECTION_COVFUN,
            "%s stays, and alone would describe a program without functions; remove both",
            covmap->name);
    if (plan->is_packed && covfun != NULL && covfun->size != 0 && covfun->fate == FATE_STAYS &&
        image_plan_removes(plan, SECTION_COVMAP))
        image_plan_keep(plan, SECTION_COVMAP, "it has packed units, and %s stays", covfun->name);
}

/* If only a part of the image was built with -profile-correlate=binary, its profiles have records,
 * and these are of the other part alone. In a sidecar, __llvm_covdata would be taken for them. */
static void keep_covdata(struct image_plan *plan)
{
    static const enum section_kind kinds[] = {SECTION_COVDATA, SECTION_COVNAMES};
    const struct section *data = image_plan_section(plan, SECTION_DATA);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (data != NULL && data->size != 0 && image_plan_removes(plan, kinds[i]))
            image_plan_keep(plan, kinds[i],
                            "only a part of the image was built with -profile-correlate=binary");
    }
}

/* Coverage mapping is of no use without names. If all of it goes to the sidecar and names stay in
 * the image, the sidecar gets a copy of the names, so that reports need nothing else; it also gets
 * a copy of archived sections, for use when the image is not available. Joining does not need these
 * copies: no edit refers to them. */
static void plan_copies(struct image_plan *plan)
{
    const unsigned names = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES);
    bool mapping_goes = image_plan_removes(plan, SECTION_COVMAP) &&
                        (plan->is_packed || image_plan_removes(plan, SECTION_COVFUN));

    for (size_t i = 0; i < plan->section_count; i++) {
        struct section *section = &plan->sections[i];

        if (section->fate == FATE_STAYS && section->size != 0 && !section->encoded &&
            (SECTION_BIT(section->kind) & (SECTION_ARCHIVED | (mapping_goes ? names : 0))) != 0)
            section->fate = FATE_COPIED;
    }
}

/* ---- planning ---- */

/* An image without a UUID gets the digest of its bytes. */
static bool settle_uuid(struct planning *planning, struct error *error)
{
    struct uuid *uuid = &planning->plan->facts.uuid;
    struct digest digest;

    if (uuid->size != 0)
        return true;
    if (!input_digest(planning->input, &digest, error))
        return false;
    memcpy(uuid->bytes, digest.bytes, DIGEST_SIZE);
    uuid->size = DIGEST_SIZE;
    return true;
}

static bool plan_edits(struct planning *planning, struct error *error)
{
    const struct format *format = planning->format;
    struct image_plan *plan = planning->plan;
    struct edit_script *edits = &plan->edits;
    const char *path = planning->input->path;

    describe_contents(planning);
    if (!check_choice(planning, error) || !decide(planning, error))
        return false;
    pair_mapping(plan);
    keep_covdata(plan);
    if (!names_and_data_plan(planning, error))
        return false;
    for (size_t i = 0; i < plan->section_count; i++)
        plan->removes_sections |= section_goes(&plan->sections[i]);
    if (!plan->removes_sections)
        return edit_script_finish(edits, path, error);
    plan->facts.has_stub = image_plan_removes(plan, SECTION_DATA);
    return format->layout(planning, error) && edit_script_finish(edits, path, error) &&
           format->write(planning, error) && edit_script_finish(edits, path, error) &&
           (format->seal == NULL || format->seal(planning, error));
}

/* The state of a split, with the format's own part behind it; NULL if memory runs out. */
static struct planning *start(const struct format *format, const struct input *input,
                              const struct image_options *options, struct error *error)
{
    struct planning *planning = calloc(1, format->state_size);
    struct image_plan *plan = image_plan_new(input, error);

    if (planning == NULL || plan == NULL) {
        error_out_of_memory(error, input->path, format->state_size);
        image_plan_free(plan);
        free(planning);
        return NULL;
    }
    planning->format = format;
    planning->input = input;
    planning->options = options;
    planning->plan = plan;
    planning->code = (struct image_code){
        .operations = &format->code,
        .planning = planning,
        .input = input,
        .plan = plan,
        /* A record, and the marker beside it if there is one. */
        .bound_window = (format->has_markers ? 2 : 1) * PROFILE_RECORD_SIZE_MAX,
    };
    return planning;
}

/* Describes the image, and plans its split unless `options` is NULL. NULL on an error. */
static struct image_plan *make_plan(const struct format *format, const struct input *input,
                                    const struct image_options *options, struct error *error)
{
    struct planning *planning =
        start(format, input, options != NULL ? options : &no_options, error);
    struct image_plan *plan;
    bool done = false;

    if (planning == NULL)
        return NULL;
    plan = planning->plan;
    if (format->open(planning, error)) {
        done = describe(planning, error) &&
               find_out_whether_split(planning, &plan->already_split, error);
        if (done && plan->already_split)
            take_split_uuid(planning);
        done = done && settle_uuid(planning, error);
        if (done && options == NULL) {
            describe_contents(planning);
            done = edit_script_finish(&plan->edits, input->path, error);
        } else if (done) {
            done = plan->already_split || plan_edits(planning, error);
            plan_copies(plan);
        }
        if (done && plan->reasons.failed)
            done = error_out_of_memory(error, input->path, IMAGE_REASON_MAX);
        format->close(planning);
    }
    free(planning);
    if (done)
        return plan;
    image_plan_free(plan);
    return NULL;
}

/* ---- all formats ---- */

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

    return format != NULL && format->is_linked(bytes) && !sidecar_recognize(bytes) &&
           !export_recognize(bytes);
}

bool image_read_stripped_id(const struct input *input, struct split_image *split,
                            struct error *error)
{
    const struct format *format = find_format(input->bytes);
    struct planning *planning;
    bool found = false;

    *split = (struct split_image){.uuid_is_stub = false};
    error->number = 0;
    if (object_is_packed(input->bytes)) {
        split->has_mapping = split->is_packed = true;
        return false;
    }
    planning = format != NULL ? start(format, input, &no_options, error) : NULL;
    if (planning == NULL)
        return false;
    if (format->open(planning, error)) {
        if (describe_headers(planning, error)) {
            if (format->find_hidden_remnants != NULL)
                format->find_hidden_remnants(planning);
            found = find_out_whether_split(planning, &found, error) && found;
            split->has_mapping = planning->section_index[SECTION_COVMAP] != NO_INDEX;
            split->is_packed = planning->plan->is_packed;
        }
        if (found)
            describe_split(planning, split);
        format->close(planning);
    }
    image_plan_free(planning->plan);
    free(planning);
    return found;
}

bool image_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    const struct format *format = find_format(input->bytes);

    return format == NULL || format->outline(input, outline, error);
}

/* NULL, with an error, if the file is not an image. */
static const struct format *format_of(const struct input *input, struct error *error)
{
    const struct format *format = find_format(input->bytes);

    if (export_recognize(input->bytes)) {
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

    return format != NULL ? make_plan(format, input, options, error) : NULL;
}

struct image_plan *image_describe(const struct input *input, struct error *error)
{
    const struct format *format;

    if (object_is_packed(input->bytes))
        return object_describe(input, error);
    format = format_of(input, error);
    return format != NULL ? make_plan(format, input, NULL, error) : NULL;
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
