/*
 * Planning the split of a COFF image: describes it, decides section by section what can go, and
 * calls the steps that plan the edits (coff/plan.h lists them).
 */
#include "formats/coff/coff.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/tripwire.h"
#include "formats/coff/plan.h"

bool coff_recognize(struct bytes bytes)
{
    struct bytes lfanew, signature;

    return bytes.size >= 2 && memcmp(bytes.data, "MZ", 2) == 0 &&
           bytes_slice(bytes, 60, 4, &lfanew) &&
           bytes_slice(bytes, load_u32(lfanew.data, false), 4, &signature) &&
           memcmp(signature.data, "PE\0\0", 4) == 0;
}

bool coff_plan_removes(struct coff_plan_state *state, enum section_kind kind)
{
    const struct image_section *section = image_plan_section(state->plan, kind);

    return section != NULL && section->fate != SECTION_STAYS;
}

bool coff_plan_keep(struct coff_plan_state *state, enum section_kind kind, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    image_plan_keep(state->plan, kind, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- describing ---- */

static const char *const section_names[SECTION_KIND_MAX + 1] = {
    [SECTION_COVMAP] = ".lcovmap", [SECTION_COVFUN] = ".lcovfun", [SECTION_NAMES] = ".lprfn",
    [SECTION_DATA] = ".lprfd",     [SECTION_COVNAMES] = ".lcovn", [SECTION_COVDATA] = ".lcovd",
    [SECTION_COUNTERS] = ".lprfc", [SECTION_BITMAP] = ".lprfb",
};

void coff_plan_add_section(struct coff_plan_state *state, enum section_kind kind, size_t index)
{
    const struct coff_section *section = &state->image.sections[index];
    struct image_plan *plan = state->plan;

    state->section_index[kind] = index;
    plan->sections[plan->section_count++] = (struct image_section){
        .kind = kind,
        .name = section_names[kind],
        .address = section->address,
        .offset = section->PointerToRawData,
        .size = coff_section_bytes(&state->image, index).size,
        .alignment = kind == SECTION_NAMES || kind == SECTION_COVNAMES ? 1 : 8,
        .loaded = true,
        .fate = SECTION_STAYS,
    };
}

static bool find_sections(struct coff_plan_state *state, struct error *error)
{
    const struct coff_image *image = &state->image;

    state->data_host = NO_INDEX;
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        size_t index = coff_section_find(image, section_names[kind], 0);

        state->section_index[kind] = index;
        if (index == NO_INDEX)
            continue;
        if (coff_section_find(image, section_names[kind], index + 1) != NO_INDEX)
            return error_set(error,
                             "%s: the image has two sections %s; link it so that there is one",
                             image->path, section_names[kind]);
        coff_plan_add_section(state, (enum section_kind)kind, index);
    }
    image_plan_sort(state->plan);
    return true;
}

/* All definitions of __llvm_profile_raw_version must agree. 0 where there is none. */
static uint64_t read_raw_version(const struct coff_plan_state *state)
{
    uint64_t version = 0;

    for (size_t i = 0; i < state->definition_count; i++) {
        struct bytes bytes;
        uint64_t value;

        if (state->definitions[i].symbol != RUNTIME_RAW_VERSION)
            continue;
        if (!coff_bytes_at(&state->image, state->definitions[i].address, 8, &bytes))
            return 0;
        value = load_u64(bytes.data, false);
        if (version != 0 && value != version)
            return 0;
        version = value;
    }
    return version;
}

/* ---- stripped images ---- */

bool coff_covers_all(const struct coff_section *counters, uint64_t first, uint64_t count)
{
    uint64_t begin = counters->address + 1, end = counters->address + counters->VirtualSize - 1;

    return (first == begin && count == end - begin) ||
           (first == align_up(begin, 8) && count * 8 == end - first);
}

/* The stub of a stripped image, whose runtime says no longer how large records are: behind a marker
 * of zeros as large as itself, and with nothing behind it. */
static bool find_stub(const struct coff_plan_state *state, struct bytes *stub)
{
    size_t data = state->section_index[SECTION_DATA];
    size_t counters = state->section_index[SECTION_COUNTERS];
    struct profile_record_layout layout;
    struct bytes whole, marker, rest;

    if (data == NO_INDEX || counters == NO_INDEX)
        return false;
    whole = coff_section_bytes(&state->image, data);
    for (uint64_t version = PROFILE_VERSION_MIN; version <= PROFILE_VERSION_MAX; version++) {
        uint64_t size, address;

        if (!profile_record_layout(version, state->image.pointer_size, &layout) || !layout.relative)
            continue;
        size = layout.record_size;
        if (!bytes_slice(whole, 0, size, &marker) || !bytes_slice(whole, size, size, stub) ||
            !bytes_slice(whole, 2 * size, whole.size - 2 * size, &rest))
            continue;
        address = state->image.sections[data].address + size +
                  (uint64_t)(int64_t)(int32_t)load_u32(stub->data + layout.counter_ptr, false);
        if (bytes_all_zero(marker) && bytes_all_zero(rest) &&
            coff_covers_all(&state->image.sections[counters], address,
                            load_u32(stub->data + layout.num_counters, false)))
            return true;
    }
    return false;
}

/* The tripwire at the start of the names, behind the marker. */
static bool find_tripwire(const struct coff_plan_state *state, struct bytes *tripwire)
{
    size_t names = state->section_index[SECTION_NAMES];
    struct bytes whole, behind;

    if (names == NO_INDEX)
        return false;
    whole = coff_section_bytes(&state->image, names);
    return whole.size > 1 && bytes_slice(whole, 1, whole.size - 1, &behind) &&
           tripwire_find(behind, tripwire);
}

static bool has_mapping_tripwire(const struct coff_plan_state *state)
{
    size_t covmap = state->section_index[SECTION_COVMAP];
    struct bytes record;

    return covmap != NO_INDEX &&
           bytes_slice(coff_section_bytes(&state->image, covmap), 0, TRIPWIRE_MAPPING_SIZE,
                       &record) &&
           tripwire_recognize_mapping(record, false);
}

static bool has_uuid(const struct coff_plan_state *state, const uint8_t *stub)
{
    return state->plan->facts.uuid.size != 0 && uuid_has_stub(&state->plan->facts.uuid, stub);
}

/* A stripped image has a tripwire; or a section of coverage with a size in memory and no place in
 * the file, which linkers never make; or a stub for its data, which then are less in the file than
 * in memory, or have the image's UUID where a function has the hash of its name. Where data is
 * merged into others and the image has no UUID of its own, it tells that no name has that hash. */
static bool find_out_whether_split(const struct coff_plan_state *state, bool *split,
                                   struct error *error)
{
    size_t data = state->section_index[SECTION_DATA];
    struct bytes stub;

    *split = find_tripwire(state, &stub) || has_mapping_tripwire(state);
    if (*split)
        return true;
    *split = true;
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        size_t index = state->section_index[kind];

        if (index != NO_INDEX && (SECTION_REMOVABLE & SECTION_BIT(kind)) != 0 &&
            state->image.sections[index].SizeOfRawData == 0 &&
            state->image.sections[index].PointerToRawData == 0 &&
            state->image.sections[index].VirtualSize != 0)
            return true;
    }
    *split = find_stub(state, &stub);
    if (!*split ||
        state->image.sections[data].SizeOfRawData < state->image.sections[data].VirtualSize ||
        has_uuid(state, stub.data))
        return true;
    *split = false;
    return state->data_host == NO_INDEX || coff_merged_is_nameless(state, stub, split, error);
}

/* A stripped image without a GUID still has its UUID in the tripwire, or the start of it in the
 * stub. True where it comes from the latter. */
static bool take_split_uuid(struct coff_plan_state *state)
{
    struct uuid *uuid = &state->plan->facts.uuid, found;
    struct bytes bytes;
    bool is_prefix;

    if (uuid->size != 0)
        return false;
    if (find_tripwire(state, &bytes) && tripwire_read_uuid(bytes, &found, &is_prefix) &&
        !is_prefix) {
        *uuid = found;
        return false;
    }
    if (!find_stub(state, &bytes))
        return false;
    memcpy(uuid->bytes, bytes.data, STUB_UUID_SIZE);
    uuid->size = STUB_UUID_SIZE;
    return true;
}

/* ---- recognizing ---- */

static void describe_split(struct coff_plan_state *state, struct split_image *split)
{
    coff_runtime_describe(state);
    split->uuid_is_stub = take_split_uuid(state);
    image_plan_describe_split(state->plan, split);
}

bool coff_find_split(const struct input *input, struct split_image *split, struct error *error)
{
    struct image_plan *plan = calloc(1, sizeof(*plan));
    struct coff_plan_state *state = calloc(1, sizeof(*state));
    bool found = false;

    if (plan == NULL || state == NULL) {
        error_out_of_memory(error, input->path, sizeof(*plan) + sizeof(*state));
    } else if (coff_image_open(&state->image, input, error)) {
        state->plan = plan;
        coff_guid(&state->image, &plan->facts.uuid);
        if (find_sections(state, error)) {
            coff_merged_find_stub(state);
            found = find_out_whether_split(state, &found, error) && found;
        }
        if (found)
            describe_split(state, split);
        coff_image_close(&state->image);
    }
    free(state);
    free(plan);
    return found;
}

static bool describe(struct coff_plan_state *state, struct error *error)
{
    const struct coff_image *image = &state->image;
    struct sidecar_facts *facts = &state->plan->facts;

    facts->format = IMAGE_COFF;
    facts->elf_class = image->pointer_size == 8 ? ELFCLASS64 : ELFCLASS32;
    facts->elf_data = ELFDATA2LSB;
    facts->elf_type = (image->characteristics & IMAGE_FILE_DLL) != 0 ? ET_DYN : ET_EXEC;
    facts->machine = image->machine;
    facts->pointer_size = image->pointer_size;
    coff_guid(image, &facts->uuid);
    if (!find_sections(state, error) ||
        !image_plan_choose_uuid(state->plan, state->options, image->path, error) ||
        !coff_symbols_find(state, error))
        return false;
    if (!coff_merged_find_records(state, error))
        return false;
    coff_merged_find_stub(state);
    if (!state->has_symbols)
        coff_search_version(state);
    facts->raw_version = read_raw_version(state);
    state->has_record_layout =
        stub_layout(facts->raw_version, image->pointer_size, &state->record_layout);
    coff_merged_find_bitmap(state);
    if (!state->has_symbols)
        coff_search_functions(state);
    return true;
}

/* ---- deciding ---- */

/* The part of the file that has the symbols and their names. */
static bool overlaps_symbols(const struct coff_image *image, uint64_t offset, uint64_t size)
{
    uint64_t table = image->symbols_offset;
    uint64_t table_size = (uint64_t)image->symbol_count * COFF_SYMBOL_SIZE + image->strings.size;

    return table != 0 && ranges_overlap(offset, size, table, table_size);
}

static bool holds_directory(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *certificates = &image->directories[DIRECTORY_CERTIFICATE];

    for (size_t i = 0; i < DIRECTORY_COUNT; i++) {
        if (i != DIRECTORY_CERTIFICATE &&
            ranges_overlap(image->directories[i].rva, image->directories[i].size,
                           section->VirtualAddress, section->VirtualSize))
            return true;
    }
    return ranges_overlap(certificates->rva, certificates->size, section->PointerToRawData,
                          section->SizeOfRawData);
}

/* Whether the image exports something in the section. Also true where that cannot be read. */
static bool is_exported(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_EXPORT];
    struct bytes header, addresses;
    uint32_t count;

    if (directory->size == 0)
        return false;
    if (!coff_bytes_at(image, image->image_base + directory->rva, 40, &header))
        return true;
    count = load_u32(header.data + 20, false);
    if (count != 0 && !coff_bytes_at(image, image->image_base + load_u32(header.data + 28, false),
                                     (uint64_t)count * 4, &addresses))
        return true;
    for (uint32_t i = 0; i < count; i++) {
        if (load_u32(addresses.data + i * (size_t)4, false) - section->VirtualAddress <
            section->VirtualSize)
            return true;
    }
    return false;
}

/* What the debug directory describes may be outside of all sections, or in any. */
static bool holds_debug_data(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    struct bytes entries;

    if (directory->size == 0)
        return false;
    if (!coff_bytes_at(image, image->image_base + directory->rva, directory->size, &entries))
        return true;
    for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= entries.size; i += COFF_DEBUG_ENTRY_SIZE) {
        const uint8_t *entry = entries.data + i;

        if (ranges_overlap(load_u32(entry + DEBUG_POINTER_TO_RAW_DATA, false),
                           load_u32(entry + DEBUG_SIZE_OF_DATA, false), section->PointerToRawData,
                           section->SizeOfRawData))
            return true;
    }
    return false;
}

bool coff_is_claimed(const struct coff_image *image, const struct coff_section *section)
{
    return overlaps_symbols(image, section->PointerToRawData, section->SizeOfRawData) ||
           holds_directory(image, section) || holds_debug_data(image, section);
}

/* Whether nothing but the section itself has a claim to its bytes. */
static bool is_alone(struct coff_plan_state *state, enum section_kind kind)
{
    const struct coff_image *image = &state->image;
    const struct coff_section *section = &image->sections[state->section_index[kind]];

    if (section->VirtualSize == 0)
        return coff_plan_keep(state, kind,
                              "its size in memory is not told but by that in the file");
    if (coff_is_claimed(image, section))
        return coff_plan_keep(state, kind, "it overlaps another part of the image");
    if (is_exported(image, section))
        return coff_plan_keep(state, kind, "the image exports something in it");
    if (section->PointerToRelocations != 0 || section->PointerToLinenumbers != 0)
        return coff_plan_keep(state, kind, "it has relocations or line numbers of its own");
    return true;
}

/* The coverage mapping has no markers, and the runtime does not know of it. With binary correlation
 * profiles have no record, which would tell how far in front of the first counter they begin (see
 * coff/plan.h), so they could not be added up. */
static bool check_mapping(struct coff_plan_state *state, enum section_kind kind)
{
    const struct coff_section *section = &state->image.sections[state->section_index[kind]];
    const char *reason;
    uint64_t from;

    if (kind == SECTION_COVNAMES || kind == SECTION_COVDATA)
        return coff_plan_keep(
            state, kind,
            "it belongs to -profile-correlate=binary, of which covsplit knows too "
            "little in COFF images");
    if (coff_find_reference(state, section->address, section->VirtualSize, &from, &reason) &&
        reason == NULL)
        return coff_plan_keep(state, kind, "the program refers to it");
    return true;
}

static void decide(struct coff_plan_state *state)
{
    const char *reason;
    bool sound = coff_layout_is_sound(&state->image, &reason);

    if (state->image.directories[DIRECTORY_CLR].size != 0) {
        sound = false;
        reason = "covsplit does not know images of .NET well enough";
    }
    for (size_t i = 0; i < state->plan->section_count; i++) {
        struct image_section *section = &state->plan->sections[i];
        bool is_runtime = section->kind == SECTION_NAMES || section->kind == SECTION_DATA;

        if ((SECTION_REMOVABLE & state->options->sections & SECTION_BIT(section->kind)) == 0 ||
            section->size == 0)
            continue;
        section->fate = SECTION_REMOVED;
        if (!sound)
            coff_plan_keep(state, section->kind, "%s", reason);
        else if (is_alone(state, section->kind) && !is_runtime)
            check_mapping(state, section->kind);
    }
    coff_merged_explain(state);
}

static bool any_goes(const struct image_plan *plan)
{
    for (size_t i = 0; i < plan->section_count; i++) {
        if (plan->sections[i].fate != SECTION_STAYS)
            return true;
    }
    return false;
}

static bool check_signature(struct coff_plan_state *state, struct error *error)
{
    if (state->image.directories[DIRECTORY_CERTIFICATE].size == 0)
        return true;
    if (!state->options->drop_signature)
        return error_set(error,
                         "%s: the image is signed, and no signature outlives a change; split it "
                         "before it is signed, or give --drop-signature and sign the stripped "
                         "image",
                         state->image.path);
    state->drops_certificates = true;
    return true;
}

static bool plan_edits(struct coff_plan_state *state, struct error *error)
{
    struct image_plan *plan = state->plan;

    decide(state);
    image_plan_pair_mapping(plan);
    if (!coff_runtime_plan(state, error))
        return false;
    if (!any_goes(plan))
        return edit_script_finish(&plan->edits, state->image.path, error);
    if (!check_signature(state, error) || !coff_layout_plan(state, error) ||
        !coff_headers_plan(state, error))
        return false;
    plan->facts.has_stub = plan->stub_uuid_literal != SIZE_MAX;
    image_plan_list_ranges(plan);
    if (plan->facts.uuid.size != 0)
        image_plan_set_uuid(plan, &plan->facts.uuid, plan->facts.uuid_source);
    return true;
}

static bool plan_image(struct coff_plan_state *state, struct error *error)
{
    if (!describe(state, error))
        return false;
    if (!find_out_whether_split(state, &state->plan->already_split, error))
        return false;
    if (state->plan->already_split) {
        take_split_uuid(state);
        return true;
    }
    coff_runtime_describe(state);
    return plan_edits(state, error);
}

struct image_plan *coff_plan(const struct input *input, const struct image_options *options,
                             struct error *error)
{
    struct coff_plan_state *state = calloc(1, sizeof(*state));
    struct image_plan *plan = calloc(1, sizeof(*plan));
    bool done = false;

    if (state == NULL || plan == NULL) {
        error_out_of_memory(error, input->path, sizeof(*state));
    } else {
        state->options = options;
        state->plan = plan;
        plan->stub_uuid_literal = SIZE_MAX;
        plan->tripwire_literal = SIZE_MAX;
        plan->check_sum_literal = SIZE_MAX;
        edit_script_init(&plan->edits, input->bytes.size);
        if (coff_image_open(&state->image, input, error)) {
            done = plan_image(state, error);
            coff_image_close(&state->image);
        }
    }
    free(state);
    if (!done) {
        image_plan_free(plan);
        return NULL;
    }
    return plan;
}
