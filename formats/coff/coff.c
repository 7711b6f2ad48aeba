/*
 * COFF images (Microsoft's PE format): describes an image, and decides what can go, as far as that
 * depends on the format.
 */
#include "formats/coff/coff.h"

#include <elf.h>
#include <string.h>

#define PAGE_SIZE                 4096

#define IMAGE_DEBUG_TYPE_CODEVIEW 2
#define RSDS_GUID                 4
#define RSDS_GUID_SIZE            16
#define RSDS_SIZE_MIN             24 /* signature, GUID, age */
/* The most entries of the debug directory; linkers write a handful. */
#define DEBUG_ENTRIES_MAX 64

static const struct coff_section *section_of(const struct planning *planning,
                                             enum section_kind kind)
{
    return &coff_image_of(planning)->sections[planning->section_index[kind]];
}

static bool recognize(struct bytes bytes)
{
    struct bytes lfanew, signature;

    return bytes.size >= 2 && memcmp(bytes.data, "MZ", 2) == 0 &&
           bytes_slice(bytes, 60, 4, &lfanew) &&
           bytes_slice(bytes, load_u32(lfanew.data, false), 4, &signature) &&
           memcmp(signature.data, "PE\0\0", 4) == 0;
}

/* ---- describing ---- */

static bool open_image(struct planning *planning, struct error *error)
{
    coff_state_of(planning)->data_host = NO_INDEX;
    return coff_image_open(&coff_state_of(planning)->image, planning->input, error);
}

static void close_image(struct planning *planning)
{
    coff_image_close(&coff_state_of(planning)->image);
}

/* The GUID of the RSDS record in the debug directory, in the byte order of the file (as LLVM reads
 * it, too); its size is 0 if there is none. */
static void read_guid(const struct coff_image *image, struct uuid *uuid)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    uint32_t count = directory->size / COFF_DEBUG_ENTRY_SIZE;
    uint64_t address = image->image_base + directory->rva;
    struct bytes entry, record;

    uuid->size = 0;
    for (uint32_t i = 0; i < count && i < DEBUG_ENTRIES_MAX; i++) {
        if (!coff_bytes_at(image, address + i * (uint64_t)COFF_DEBUG_ENTRY_SIZE,
                           COFF_DEBUG_ENTRY_SIZE, &entry))
            return;
        if (load_u32(entry.data + DEBUG_TYPE, false) != IMAGE_DEBUG_TYPE_CODEVIEW ||
            load_u32(entry.data + DEBUG_SIZE_OF_DATA, false) < RSDS_SIZE_MIN ||
            !bytes_slice(image->file, load_u32(entry.data + DEBUG_POINTER_TO_RAW_DATA, false),
                         RSDS_SIZE_MIN, &record) ||
            memcmp(record.data, "RSDS", 4) != 0)
            continue;
        memcpy(uuid->bytes, record.data + RSDS_GUID, RSDS_GUID_SIZE);
        if (!bytes_all_zero((struct bytes){uuid->bytes, RSDS_GUID_SIZE}))
            uuid->size = RSDS_GUID_SIZE;
        return;
    }
}

static bool describe(struct planning *planning, struct error *error)
{
    const struct coff_image *image = coff_image_of(planning);
    struct sidecar_facts *facts = &planning->plan->facts;

    (void)error;
    facts->elf_class = image->pointer_size == 8 ? ELFCLASS64 : ELFCLASS32;
    facts->elf_data = ELFDATA2LSB;
    facts->elf_type = (image->characteristics & IMAGE_FILE_DLL) != 0 ? ET_DYN : ET_EXEC;
    facts->machine = image->machine;
    facts->pointer_size = image->pointer_size;
    planning->code.code_has_relocations = image->machine == EM_386;
    read_guid(image, &facts->uuid);
    return true;
}

static const char *section_name(enum section_kind kind)
{
    return section_kinds[kind].coff_name;
}

static size_t find_section(const struct planning *planning, enum section_kind kind, size_t after)
{
    return coff_section_find(coff_image_of(planning), section_name(kind), after);
}

static void describe_section(const struct planning *planning, size_t index, struct section *section)
{
    const struct coff_section *header = &coff_image_of(planning)->sections[index];

    section->address = header->address;
    section->offset = header->PointerToRawData;
    section->size = coff_section_bytes(coff_image_of(planning), index).size;
    /* After a split, their zeros need not be in the file. */
    if (section->kind == SECTION_COUNTERS || section->kind == SECTION_BITMAP)
        section->size = header->VirtualSize != 0 ? header->VirtualSize : header->SizeOfRawData;
    section->alignment =
        section->kind == SECTION_NAMES || section->kind == SECTION_COVNAMES ? 1 : 8;
    section->loaded = true;
}

static bool bytes_at(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes)
{
    return coff_bytes_at(coff_image_of(planning), address, size, bytes);
}

static bool find_symbols(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);

    if (!coff_symbols_find(state, error) || !coff_merged_find_records(state, error))
        return false;
    coff_merged_find_stub(planning);
    if (!planning->code.symbols.from_symbol_table)
        coff_search_version(state);
    return true;
}

static void find_by_layout(struct planning *planning)
{
    coff_merged_find_bitmap(coff_state_of(planning));
    if (!planning->code.symbols.from_symbol_table)
        coff_search_functions(coff_state_of(planning));
}

static uint64_t marker_size(const struct planning *planning, enum section_kind kind)
{
    return kind == SECTION_DATA ? planning->record_layout.record_size : 1;
}

/* If the functions do not tell, assumes that the markers are where they always are. */
static void describe_between_markers(struct planning *planning, enum section_kind kind)
{
    struct section *section = image_plan_section(planning->plan, kind);
    uint64_t marker = marker_size(planning, kind);

    if (section == NULL || section->size < 2 * marker)
        return;
    section->address += marker;
    section->offset += marker;
    section->size -= 2 * marker;
}

static void describe_contents(struct planning *planning)
{
    describe_between_markers(planning, SECTION_NAMES);
    describe_between_markers(planning, SECTION_COUNTERS);
    describe_between_markers(planning, SECTION_BITMAP);
    if (planning->has_record_layout)
        describe_between_markers(planning, SECTION_DATA);
    coff_merged_explain(coff_state_of(planning));
}

/* ---- code and data ---- */

static bool part_at(const struct planning *planning, size_t index, struct image_part *part)
{
    const struct coff_image *image = coff_image_of(planning);
    const struct coff_section *section = &image->sections[index];
    bool is_other;

    if (index >= image->section_count)
        return false;
    is_other = planning_is_described(planning, index) || strcmp(section->name, ".pdata") == 0 ||
               strcmp(section->name, ".xdata") == 0 || strcmp(section->name, ".rsrc") == 0 ||
               section->VirtualAddress == image->directories[DIRECTORY_BASE_RELOCATION].rva ||
               (section->Characteristics & IMAGE_SCN_MEM_DISCARDABLE) != 0;
    *part = (struct image_part){
        .kind = coff_section_is_code(section) ? PART_CODE
                : is_other                    ? PART_OTHER
                                              : PART_DATA,
        .code = {.bytes = coff_section_bytes(image, index), .address = section->address},
        .bases = {image->image_base},
    };
    return true;
}

/* Tables of RVAs are in the data directories. The names of imported functions, and the table of
 * their RVAs, are behind the import directory, at the end of the section. */
static bool is_loaders(const struct planning *planning, uint64_t address)
{
    const struct coff_image *image = coff_image_of(planning);
    uint64_t rva = address - image->image_base;
    uint64_t imports = image->directories[DIRECTORY_IMPORT].rva;

    for (size_t i = 0; i < DIRECTORY_COUNT; i++) {
        if (i != DIRECTORY_CERTIFICATE &&
            rva - image->directories[i].rva < image->directories[i].size)
            return true;
    }
    return imports != 0 && rva >= imports &&
           coff_section_of(image, image->image_base + imports, 1) ==
               coff_section_of(image, address, 1);
}

/* The code from the address to the end of its section. */
static bool code_from(const struct coff_image *image, uint64_t address, struct code *code)
{
    size_t index = coff_section_of(image, address, 1);
    struct bytes whole;
    uint64_t inside;

    if (index == NO_INDEX)
        return false;
    whole = coff_section_bytes(image, index);
    inside = address - image->sections[index].address;
    code->address = address;
    return inside < whole.size && bytes_slice(whole, inside, whole.size - inside, &code->bytes);
}

/* Follows a jump at the definition's address to the code itself. */
static bool code_of(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct coff_image *image = coff_image_of(planning);
    uint64_t target;

    return code_from(image, definition->address, code) &&
           (!planning->code.machine->follow_jump(code, &target) ||
            code_from(image, target, code)) &&
           coff_is_code(image, code->address);
}

/* Base relocations list every absolute address, also those in code. */
static bool find_pointer(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason)
{
    struct coff_relocations relocations = coff_relocations_open(coff_image_of(planning));
    struct coff_relocation relocation;

    *reason = NULL;
    while (coff_relocations_next(&relocations, &relocation)) {
        *from = relocation.address;
        if (reference_counts(target, relocation.target) &&
            !reference_is_own(target, relocation.address) &&
            !rules_is_inside_accessor(&planning->code, relocation.address))
            return true;
    }
    *reason = relocations.reason;
    return *reason != NULL;
}

/* ---- stripped images ---- */

/* The tripwire, which follows the marker at the start of the names. */
static bool find_tripwire(const struct coff_state *state, struct bytes *tripwire)
{
    size_t names = state->base.section_index[SECTION_NAMES];
    struct bytes whole, behind;

    if (names == NO_INDEX)
        return false;
    whole = coff_section_bytes(&state->image, names);
    return whole.size > 1 && bytes_slice(whole, 1, whole.size - 1, &behind) &&
           tripwire_find(behind, tripwire);
}

static bool has_mapping_tripwire(const struct coff_state *state)
{
    size_t covmap = state->base.section_index[SECTION_COVMAP];
    struct bytes record;

    return covmap != NO_INDEX &&
           bytes_slice(coff_section_bytes(&state->image, covmap), 0, TRIPWIRE_MAPPING_SIZE,
                       &record) &&
           tripwire_recognize_mapping(record, false);
}

static bool has_uuid(const struct coff_state *state, const uint8_t *stub)
{
    return state->base.plan->facts.uuid.size != 0 &&
           uuid_has_stub(&state->base.plan->facts.uuid, stub);
}

/* A stripped image has a tripwire; or a coverage section with a size in memory but no place in the
 * file, which linkers never make; or a stub as its data. In the last case the data is smaller in
 * the file than in memory, or the record has the image's UUID where others have the hash of a
 * function's name. If data is merged into another section and the image has no UUID of its own, the
 * stub is known because no name has that hash. */
static bool is_remnant(const struct planning *planning, enum section_kind kind, bool *is_remnant,
                       struct error *error)
{
    const struct coff_state *state = (const struct coff_state *)planning;
    const struct coff_section *section = section_of(planning, kind);
    struct bytes bytes;

    *is_remnant = (kind == SECTION_NAMES && find_tripwire(state, &bytes)) ||
                  (kind == SECTION_COVMAP && has_mapping_tripwire(state)) ||
                  (section->SizeOfRawData == 0 && section->PointerToRawData == 0 &&
                   section->VirtualSize != 0);
    if (*is_remnant || kind != SECTION_DATA || !coff_find_stub(state, &bytes))
        return true;
    *is_remnant = section->SizeOfRawData < section->VirtualSize || has_uuid(state, bytes.data);
    return *is_remnant || state->data_host == NO_INDEX ||
           coff_merged_is_nameless(state, bytes, is_remnant, error);
}

static struct bytes remnant_of(const struct planning *planning, enum section_kind kind)
{
    const struct coff_state *state = (const struct coff_state *)planning;
    struct bytes rest = {0};

    if (kind == SECTION_NAMES ? find_tripwire(state, &rest) : coff_find_stub(state, &rest))
        return rest;
    return (struct bytes){0};
}

/* ---- deciding ---- */

/* The coverage mapping has no markers, and the runtime does not use it. With binary correlation
 * profiles have no records, which would tell how far before the first counter they begin (see
 * coff.h), so they could not be added up. */
static void check_mapping(struct planning *planning, enum section_kind kind)
{
    const struct bounds *whole = &planning->whole[kind];
    enum reference_kind found;
    const char *reason;
    uint64_t from;

    if (kind == SECTION_COVNAMES || kind == SECTION_COVDATA) {
        image_plan_keep(planning->plan, kind,
                        "it belongs to -profile-correlate=binary, which covsplit does not "
                        "support in COFF images");
        return;
    }
    found = rules_find_reference(&planning->code, whole->begin, whole->end - whole->begin, false,
                                 false, &from, &reason);
    if (found == REFERENCE_POINTER || found == REFERENCE_CODE)
        image_plan_keep(planning->plan, kind, "the program refers to it");
}

/* True if sections follow each other in memory, behind the headers, as loaders map them. */
static bool addresses_follow(const struct coff_image *image)
{
    uint64_t next = align_up(image->size_of_headers, image->section_alignment);

    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];
        uint64_t size = section->VirtualSize != 0 ? section->VirtualSize : section->SizeOfRawData;

        if (section->VirtualAddress != next)
            return false;
        next = align_up(section->VirtualAddress + size, image->section_alignment);
    }
    return next == align_up(image->size_of_image, image->section_alignment) && next <= UINT32_MAX;
}

/* True if the bytes of sections are behind the headers, do not overlap, and come in multiples of
 * the alignment, so that cutting them keeps what follows aligned. */
static bool offsets_follow(const struct coff_image *image)
{
    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];

        if (section->SizeOfRawData == 0)
            continue;
        if (section->PointerToRawData < image->size_of_headers ||
            section->PointerToRawData % image->file_alignment != 0 ||
            section->SizeOfRawData % image->file_alignment != 0)
            return false;
        for (size_t j = 0; j < i; j++) {
            if (ranges_overlap(section->PointerToRawData, section->SizeOfRawData,
                               image->sections[j].PointerToRawData,
                               image->sections[j].SizeOfRawData))
                return false;
        }
    }
    return true;
}

/* The reason why bytes of the image cannot be cut: its sections are not laid out as loaders
 * require, one after the other and aligned to pages. NULL if they are. */
static const char *why_unsound(const struct coff_image *image)
{
    if (image->section_alignment < PAGE_SIZE)
        return "the image's sections are not aligned to pages";
    if (!addresses_follow(image))
        return "the image's sections do not follow each other in memory; link it with lld, or "
               "with a GNU ld that knows .lcovfun";
    if (!offsets_follow(image))
        return "the image's sections overlap, or are not aligned, in the file";
    return NULL;
}

static bool check_section(struct planning *planning, struct section *section, struct error *error)
{
    const struct coff_image *image = coff_image_of(planning);
    bool is_of_runtime = (SECTION_BIT(section->kind) & SECTION_OF_RUNTIME) != 0;
    const char *unsound = why_unsound(image);

    (void)error;
    if (image->directories[DIRECTORY_CLR].size != 0)
        image_plan_keep(planning->plan, section->kind, "covsplit does not support .NET images");
    else if (unsound != NULL)
        image_plan_keep(planning->plan, section->kind, "%s", unsound);
    else if (coff_check_claims(coff_state_of(planning), section->kind) && !is_of_runtime)
        check_mapping(planning, section->kind);
    return true;
}

/* A map file would not help if the linker merged the counters into other data. */
static bool check_known(struct planning *planning, enum section_kind kind)
{
    if (planning->section_index[SECTION_COUNTERS] == NO_INDEX)
        return image_plan_keep(planning->plan, kind,
                               "the linker merged the counters into other data, as runtimes up to "
                               "LLVM 17 tell it to; link with a later runtime");
    return !planning->has_record_layout || planning->record_layout.relative ||
           image_plan_keep(planning->plan, kind,
                           "the version of its raw profiles is not known to covsplit");
}

/* True if only markers are before and behind the bounds. */
static bool are_bounds(const struct planning *planning, enum section_kind kind,
                       const struct bounds *bounds)
{
    const struct coff_section *section = section_of(planning, kind);
    struct bytes whole = coff_section_bytes(coff_image_of(planning), planning->section_index[kind]);
    uint64_t begin = bounds->begin - section->address, end = bounds->end - section->address;

    return begin == marker_size(planning, kind) && begin <= end && end < whole.size &&
           bytes_zero_at(whole, 0, begin) && bytes_zero_at(whole, end, whole.size - end) &&
           whole.size == section->VirtualSize;
}

/* True if profiles contain a bitmap that is in no known section, as the records tell or, if these
 * are not known, the functions. If so, gives that as the reason for `victim` to stay. */
static bool has_hidden_bitmap(struct coff_state *state, enum section_kind victim)
{
    const struct profile_record_layout *layout = &state->base.record_layout;
    size_t data = state->base.section_index[SECTION_DATA];
    struct bounds bitmap;
    struct bytes records;
    bool found = false;

    if (layout->bitmap_ptr == 0)
        return false;
    if (data == NO_INDEX) {
        if (!rules_returned(&state->base.code, victim, RUNTIME_BEGIN_BITMAP, &bitmap.begin) ||
            !rules_returned(&state->base.code, victim, RUNTIME_END_BITMAP, &bitmap.end))
            return true;
        found = bitmap.begin != bitmap.end;
    } else {
        records = coff_section_bytes(&state->image, data);
        for (uint64_t i = 0; i + layout->record_size <= records.size; i += layout->record_size)
            found |= load_u32(records.data + i + layout->num_bitmap_bytes, false) != 0;
    }
    return found && !image_plan_keep(state->base.plan, victim,
                                     "its bitmap cannot be told apart from other data");
}

/* The linker may have merged the bitmap into other data, or put something behind the counters: then
 * the stub would not be known by its covering all of them. */
static bool check_counted(struct planning *planning, enum section_kind victim)
{
    const struct section *bitmap = image_plan_section(planning->plan, SECTION_BITMAP);
    const struct section *counters = image_plan_section(planning->plan, SECTION_COUNTERS);
    const struct coff_section *whole = section_of(planning, SECTION_COUNTERS);

    if (victim == SECTION_DATA && planning->plan->facts.uuid_source != UUID_FROM_BUILD_ID &&
        counters->address + counters->size + 1 != whole->address + whole->VirtualSize)
        return image_plan_keep(planning->plan, victim,
                               "there are zeros behind the counters, and without a debug "
                               "directory only the counters would tell which image it is");
    return (bitmap != NULL && bitmap->size != 0) ||
           !has_hidden_bitmap(coff_state_of(planning), victim);
}

const struct format coff_format = {
    .name = "COFF",
    .id = IMAGE_COFF,
    .state_size = sizeof(struct coff_state),
    .has_markers = true,
    .code =
        {
            .folding_advice = "link without /opt:icf",
            .missing_advice = "its profile runtime was inlined, or is not LLVM's; link without LTO "
                              "of the runtime",
            .code_of = code_of,
            .part_at = part_at,
            .is_no_distance = is_loaders,
            .find_pointer = find_pointer,
            .next_symbol = coff_symbols_next,
        },
    .recognize = recognize,
    .is_linked = coff_is_linked,
    .outline = coff_outline,
    .open = open_image,
    .close = close_image,
    .describe = describe,
    .section_name = section_name,
    .find_section = find_section,
    .describe_section = describe_section,
    .find_hidden_remnants = coff_merged_find_stub,
    .is_remnant = is_remnant,
    .remnant_of = remnant_of,
    .find_symbols = find_symbols,
    .find_by_layout = find_by_layout,
    .describe_contents = describe_contents,
    .bytes_at = bytes_at,
    .check_section = check_section,
    .check_known = check_known,
    .are_bounds = are_bounds,
    .check_counted = check_counted,
    .layout = coff_layout,
    .write = coff_write,
    .seal = coff_seal,
};
