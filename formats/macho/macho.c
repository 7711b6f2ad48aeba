/*
 * Planning the split of a Mach-O image: describes it, decides section by section what can go, and
 * calls the steps that plan the edits (macho/plan.h lists them).
 */
#include "formats/macho/macho.h"

#include <elf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/edit/apply.h"
#include "common/llvm/tripwire.h"
#include "formats/macho/fixups.h"
#include "formats/macho/plan.h"

bool macho_recognize(struct bytes bytes)
{
    uint32_t magic;

    if (bytes.size < sizeof(magic))
        return false;
    magic = load_u32(bytes.data, false);
    return magic == MH_MAGIC_64 || magic == MH_MAGIC || magic == MH_CIGAM || magic == MH_CIGAM_64;
}

bool macho_is_linked(struct bytes bytes)
{
    uint32_t magic = load_u32(bytes.data, false), type;

    if (bytes.size < HEADER_SIZE)
        return false;
    type = load_u32(bytes.data + HEADER_FILETYPE, magic == MH_CIGAM || magic == MH_CIGAM_64);
    return type == MH_EXECUTE || type == MH_DYLIB || type == MH_BUNDLE;
}

/* ---- what macho/plan.h declares for all steps ---- */

bool macho_plan_keep(struct macho_plan_state *state, enum section_kind kind, const char *format,
                     ...)
{
    va_list arguments;

    va_start(arguments, format);
    image_plan_keep(state->plan, kind, format, arguments);
    va_end(arguments);
    return false;
}

bool macho_plan_removes(struct macho_plan_state *state, enum section_kind kind)
{
    const struct image_section *section = image_plan_section(state->plan, kind);

    return section != NULL && section->fate != SECTION_STAYS;
}

bool macho_plan_removes_fixup(const struct macho_plan_state *state, uint64_t address)
{
    const struct image_section *data = image_plan_section(state->plan, SECTION_DATA);

    return data != NULL && data->fate != SECTION_STAYS &&
           range_within(address, 1, data->address, data->size);
}

bool macho_plan_cuts(const struct macho_plan_state *state, uint64_t offset)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (ranges_overlap(offset, 8, state->holes[i].offset, state->holes[i].size))
            return true;
    }
    return false;
}

/* ---- describing ---- */

static bool is_coverage_mapping(enum section_kind kind)
{
    return kind == SECTION_COVMAP || kind == SECTION_COVFUN || kind == SECTION_COVNAMES ||
           kind == SECTION_COVDATA;
}

static size_t find_section(const struct macho_image *image, enum section_kind kind)
{
    const char *name = section_kind_name(kind);
    size_t index;

    if (is_coverage_mapping(kind)) {
        index = macho_find_section(image, MACHO_COVERAGE_SEGMENT, name);
        return index != MACHO_NONE || kind != SECTION_COVMAP
                   ? index
                   : macho_find_section(image, MACHO_COVERAGE_SEGMENT, MACHO_EMPTIED_MAPPING);
    }
    index = macho_find_section(image, MACHO_DATA_SEGMENT, name);
    return index != MACHO_NONE ? index : macho_find_section(image, MACHO_PROFILE_SEGMENT, name);
}

static void find_sections(struct macho_plan_state *state)
{
    struct image_plan *plan = state->plan;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const char *name = section_kind_name((enum section_kind)kind);
        size_t index = find_section(&state->image, (enum section_kind)kind);
        const struct macho_section *section;

        state->section_index[kind] = index;
        if (index == MACHO_NONE)
            continue;
        section = &state->image.sections[index];
        /* One of bytes that the file does not have was not made by a compiler. */
        plan->sections[plan->section_count++] = (struct image_section){
            .kind = (enum section_kind)kind,
            .name = name,
            .address = section->addr,
            .offset = section->offset,
            .size = section->size,
            .alignment = section->align < 32 ? UINT64_C(1) << section->align : 0,
            .loaded = true,
            .fate = SECTION_STAYS,
        };
    }
    image_plan_sort(plan);
}

/* All definitions of __llvm_profile_raw_version must agree. 0 where there is none. */
static uint64_t read_raw_version(const struct macho_plan_state *state)
{
    uint64_t version = 0;

    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct bytes bytes;
        uint64_t value;

        if (definition->symbol != RUNTIME_RAW_VERSION)
            continue;
        if (!macho_bytes_at(&state->image, definition->address, 8, &bytes))
            return 0;
        value = load_u64(bytes.data, false);
        if (version != 0 && value != version)
            return 0;
        version = value;
    }
    return version;
}

static bool describe(struct macho_plan_state *state, struct error *error)
{
    struct sidecar_facts *facts = &state->plan->facts;

    facts->format = IMAGE_MACHO;
    facts->elf_class = ELFCLASS64;
    facts->elf_data = ELFDATA2LSB;
    facts->elf_type = state->image.filetype == MH_EXECUTE && (state->image.flags & MH_PIE) == 0
                          ? ET_EXEC
                          : ET_DYN;
    facts->machine = state->image.machine;
    facts->pointer_size = 8;
    macho_uuid(&state->image, &facts->uuid);
    if (!image_plan_choose_uuid(state->plan, state->options, state->image.path, error))
        return false;
    find_sections(state);
    if (!macho_runtime_find(&state->image, &state->runtime, error))
        return false;
    facts->raw_version = read_raw_version(state);
    state->has_record_layout = stub_layout(facts->raw_version, 8, &state->record_layout);
    return true;
}

static bool is_already_split(const struct macho_plan_state *state)
{
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        size_t index = state->section_index[kind];

        if (index != MACHO_NONE && (SECTION_REMOVABLE & SECTION_BIT(kind)) != 0 &&
            state->image.sections[index].reserved3 == MACHO_EMPTIED_MARK)
            return true;
    }
    return false;
}

/* What a split has left of a section; empty where it has not touched it. */
static struct bytes rest_of(const struct macho_plan_state *state, enum section_kind kind)
{
    size_t index = state->section_index[kind];
    struct bytes none = {0};

    return index == MACHO_NONE || state->image.sections[index].reserved3 != MACHO_EMPTIED_MARK
               ? none
               : macho_section_bytes(&state->image, &state->image.sections[index]);
}

/* Of a stripped image: its UUID where it has no LC_UUID. True where only a stub tells. */
static bool take_split_uuid(struct macho_plan_state *state)
{
    return image_plan_take_split_uuid(state->plan, rest_of(state, SECTION_NAMES),
                                      rest_of(state, SECTION_DATA));
}

bool macho_find_split(const struct input *input, struct split_image *split, struct error *error)
{
    struct image_plan *plan = calloc(1, sizeof(*plan));
    struct macho_plan_state *state = calloc(1, sizeof(*state));
    bool found = false;

    if (plan == NULL || state == NULL) {
        error_out_of_memory(error, input->path, sizeof(*plan) + sizeof(*state));
    } else if (macho_image_open(&state->image, input, error)) {
        state->plan = plan;
        macho_uuid(&state->image, &plan->facts.uuid);
        find_sections(state);
        found = is_already_split(state);
        if (found) {
            split->uuid_is_stub = take_split_uuid(state);
            image_plan_describe_split(plan, split);
        }
        macho_image_close(&state->image);
    }
    free(state);
    free(plan);
    return found;
}

/* ---- deciding ---- */

/* The coverage mapping is data that no code uses, and that no pointer leads to. */
static bool check_mapping(struct macho_plan_state *state, enum section_kind kind)
{
    const struct macho_section *section = &state->image.sections[state->section_index[kind]];
    const char *reason;
    uint64_t from;

    if (section->size != 0 && !macho_section_in_file(section))
        return macho_plan_keep(state, kind, "it has no bytes in the file");
    if (kind == SECTION_COVMAP && section->size < TRIPWIRE_MAPPING_SIZE)
        return macho_plan_keep(state, kind, "it is shorter than the header of a record");
    if (macho_segment_may_have_fixups(&state->image, section->segment))
        return macho_plan_keep(state, kind, "dyld applies fixups to its segment");
    /* Of fixups that cannot be read none leads here: clang makes none. */
    if (macho_find_pointer(state, section->addr, section->size, &from, &reason) && reason == NULL)
        return macho_plan_keep(state, kind, "a pointer at 0x%" PRIx64 " refers to it", from);
    return true;
}

static bool decide(struct macho_plan_state *state, struct error *error)
{
    struct image_plan *plan = state->plan;
    bool any = false;

    for (size_t i = 0; i < plan->section_count; i++) {
        struct image_section *section = &plan->sections[i];
        unsigned bit = SECTION_BIT(section->kind);

        if (section->size == 0 || (state->options->sections & SECTION_REMOVABLE & bit) == 0)
            continue;
        if (!any && !macho_image_check_layout(&state->image, error))
            return false;
        any = true;
        section->fate = SECTION_REMOVED;
        if (is_coverage_mapping(section->kind))
            check_mapping(state, section->kind);
    }
    return true;
}

/* ---- the plan ---- */

/* The signature covers the stub, so the UUID must be in it by now, wherever it comes from. */
static bool settle_uuid(struct macho_plan_state *state, struct error *error)
{
    struct image_plan *plan = state->plan;
    struct uuid uuid = {.size = DIGEST_SIZE};
    struct digest digest;

    if (plan->facts.uuid.size == 0) {
        if (!input_digest(state->image.input, &digest, error))
            return false;
        memcpy(uuid.bytes, digest.bytes, DIGEST_SIZE);
        plan->facts.uuid = uuid;
    }
    image_plan_set_uuid(plan, &plan->facts.uuid, plan->facts.uuid_source);
    return true;
}

static bool plan_edits(struct macho_plan_state *state, struct error *error)
{
    struct image_plan *plan = state->plan;

    if (!decide(state, error))
        return false;
    image_plan_pair_mapping(plan);
    if (!macho_runtime_plan(state, error))
        return false;
    image_plan_list_ranges(plan);
    if (plan->range_count == 0)
        return edit_script_finish(&plan->edits, state->image.path, error);
    if (!macho_signature_read(state, error) || !macho_layout_plan(state, error) ||
        !macho_commands_reserve(state, error) || !macho_signature_reserve(state, error) ||
        !edit_script_finish(&plan->edits, state->image.path, error))
        return false;
    plan->facts.has_stub = plan->stub_uuid_literal != SIZE_MAX;
    if (!settle_uuid(state, error))
        return false;
    macho_commands_write(state);
    return macho_signature_sign(state, error);
}

struct image_plan *macho_plan(const struct input *input, const struct image_options *options,
                              struct error *error)
{
    struct macho_plan_state *state = calloc(1, sizeof(*state));
    struct image_plan *plan = calloc(1, sizeof(*plan));
    bool done = false;

    if (state == NULL || plan == NULL) {
        error_out_of_memory(error, input->path, sizeof(*state));
        goto out;
    }
    state->options = options;
    state->plan = plan;
    plan->stub_uuid_literal = SIZE_MAX;
    plan->tripwire_literal = SIZE_MAX;
    plan->check_sum_literal = SIZE_MAX;
    state->split_segment = MACHO_NONE;
    edit_script_init(&plan->edits, input->bytes.size);
    if (!macho_image_open(&state->image, input, error))
        goto out;
    done = describe(state, error);
    if (done) {
        plan->already_split = is_already_split(state);
        if (plan->already_split)
            take_split_uuid(state);
        else
            done = plan_edits(state, error);
    }
    macho_image_close(&state->image);
    buffer_free(&state->signature.content);
out:
    free(state);
    if (!done) {
        image_plan_free(plan);
        return NULL;
    }
    return plan;
}
