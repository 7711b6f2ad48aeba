/*
 * Mach-O images: describes an image, and decides what can go, as far as that depends on the format.
 * macho/state.h lists the other steps.
 */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "formats/macho/fixups.h"
#include "formats/macho/state.h"

/* The name that earlier versions of covsplit gave __llvm_covmap, which they left empty: llvm-cov
 * skips such an image in a report on several. It is known so that such an image is recognized as
 * split. */
#define EMPTIED_MAPPING "__llvm_covsplit"

static struct macho_state *state_of(struct planning *planning)
{
    return (struct macho_state *)planning;
}

static const struct macho_image *image_of(const struct planning *planning)
{
    return &((const struct macho_state *)planning)->image;
}

static const struct macho_section *section_of(const struct planning *planning,
                                              enum section_kind kind)
{
    return &image_of(planning)->sections[planning->section_index[kind]];
}

static bool recognize(struct bytes bytes)
{
    uint32_t magic;

    if (bytes.size < sizeof(magic))
        return false;
    magic = load_u32(bytes.data, false);
    return magic == MH_MAGIC_64 || magic == MH_MAGIC || magic == MH_CIGAM || magic == MH_CIGAM_64;
}

static bool is_linked(struct bytes bytes)
{
    uint32_t magic = load_u32(bytes.data, false), type;

    if (bytes.size < HEADER_SIZE)
        return false;
    type = load_u32(bytes.data + HEADER_FILETYPE, magic == MH_CIGAM || magic == MH_CIGAM_64);
    return type == MH_EXECUTE || type == MH_DYLIB || type == MH_BUNDLE;
}

/* ---- describing ---- */

static bool open_image(struct planning *planning, struct error *error)
{
    return macho_image_open(&state_of(planning)->image, planning->input, error);
}

static void close_image(struct planning *planning)
{
    macho_image_close(&state_of(planning)->image);
    buffer_free(&state_of(planning)->signature.content);
}

static bool describe(struct planning *planning, struct error *error)
{
    const struct macho_image *image = image_of(planning);
    struct sidecar_facts *facts = &planning->plan->facts;

    (void)error;
    facts->elf_class = ELFCLASS64;
    facts->elf_data = ELFDATA2LSB;
    facts->elf_type =
        image->filetype == MH_EXECUTE && (image->flags & MH_PIE) == 0 ? ET_EXEC : ET_DYN;
    facts->machine = image->machine;
    facts->pointer_size = 8;
    macho_uuid(image, &facts->uuid);
    return true;
}

static bool is_coverage_mapping(enum section_kind kind)
{
    return kind == SECTION_COVMAP || kind == SECTION_COVFUN || kind == SECTION_COVNAMES ||
           kind == SECTION_COVDATA;
}

static size_t find_section(const struct planning *planning, enum section_kind kind, size_t after)
{
    const struct macho_image *image = image_of(planning);
    bool is_mapping = is_coverage_mapping(kind);
    const char *name = section_kind_name(kind);
    size_t index = macho_find_section(
        image, is_mapping ? MACHO_COVERAGE_SEGMENT : MACHO_DATA_SEGMENT, name, after);

    if (index == NO_INDEX && !is_mapping)
        index = macho_find_section(image, MACHO_PROFILE_SEGMENT, name, after);
    if (index == NO_INDEX && kind == SECTION_COVMAP)
        index = macho_find_section(image, MACHO_COVERAGE_SEGMENT, EMPTIED_MAPPING, after);
    return index;
}

static void describe_section(const struct planning *planning, size_t index, struct section *section)
{
    const struct macho_section *header = &image_of(planning)->sections[index];

    section->address = header->addr;
    section->offset = header->offset;
    section->size = header->size;
    section->alignment = header->align < 32 ? UINT64_C(1) << header->align : 0;
    section->loaded = true;
}

static bool is_rest(const struct planning *planning, enum section_kind kind, bool *is_rest,
                    struct error *error)
{
    (void)error;
    *is_rest = section_of(planning, kind)->reserved3 == MACHO_EMPTIED_MARK;
    return true;
}

static struct bytes rest_of(const struct planning *planning, enum section_kind kind)
{
    const struct macho_section *section = section_of(planning, kind);

    return section->reserved3 == MACHO_EMPTIED_MARK
               ? macho_section_bytes(image_of(planning), section)
               : (struct bytes){0};
}

static bool each_symbol(const struct planning *planning, runtime_symbol_visitor visit,
                        void *context)
{
    return macho_symbols_visit(image_of(planning), visit, context);
}

static bool find_symbols(struct planning *planning, struct error *error)
{
    struct runtime_symbols *symbols = &planning->code.symbols;

    return macho_symbols_check(image_of(planning), &symbols->are_told, error) &&
           (runtime_symbols_find(symbols, each_symbol, planning) ||
            error_set(error, "%s: the profile runtime is defined too many times; link it again",
                      planning->input->path));
}

static bool bytes_at(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes)
{
    return macho_bytes_at(image_of(planning), address, size, bytes);
}

/* ---- code ---- */

/* The code up to the end of the segment: symbols have no sizes. */
static bool code_of(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct macho_image *image = image_of(planning);

    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];
        uint64_t inside = definition->address - segment->vmaddr;

        if ((segment->initprot & VM_PROT_EXECUTE) == 0 || inside >= segment->filesize)
            continue;
        code->address = definition->address;
        return bytes_slice(image->file, segment->fileoff + inside, segment->filesize - inside,
                           &code->bytes);
    }
    return false;
}

static bool next_code(const struct planning *planning, size_t *index, struct code *code)
{
    const struct macho_image *image = image_of(planning);

    while (*index < image->section_count) {
        const struct macho_section *section = &image->sections[(*index)++];

        if (!macho_section_is_code(section))
            continue;
        *code =
            (struct code){.bytes = macho_section_bytes(image, section), .address = section->addr};
        return true;
    }
    return false;
}

static bool is_kind(const struct planning *planning, size_t section)
{
    for (size_t i = 1; i <= SECTION_KIND_MAX; i++) {
        if (planning->section_index[i] == section)
            return true;
    }
    return false;
}

static bool next_data(const struct planning *planning, size_t *index, struct image_data *data)
{
    const struct macho_image *image = image_of(planning);
    size_t text = macho_find_segment(image, "__TEXT");

    for (; *index < image->section_count; ++*index) {
        const struct macho_section *section = &image->sections[*index];
        const char *name = section->sectname;

        if (macho_section_is_code(section) || !macho_section_in_file(section) ||
            is_kind(planning, *index) || strcmp(name, "__eh_frame") == 0 ||
            strcmp(name, "__unwind_info") == 0)
            continue;
        *data = (struct image_data){
            .bytes = macho_section_bytes(image, section),
            .address = section->addr,
            .bases = {text == NO_INDEX ? 0 : image->segments[text].vmaddr},
        };
        ++*index;
        return true;
    }
    return false;
}

static bool is_start_of_section(const struct planning *planning, uint64_t address)
{
    const struct macho_image *image = image_of(planning);

    for (size_t i = 0; i < image->section_count; i++) {
        if (image->sections[i].addr == address && image->sections[i].size != 0)
            return true;
    }
    return false;
}

/* ---- deciding ---- */

/* The coverage mapping is data that no code uses and no pointer refers to. */
static bool check_mapping(struct planning *planning, enum section_kind kind)
{
    const struct macho_section *section = section_of(planning, kind);
    struct reference_target target = {.first = section->addr, .size = section->size};
    const char *reason;
    uint64_t from;

    if (section->size != 0 && !macho_section_in_file(section))
        return image_plan_keep(planning->plan, kind, "it has no bytes in the file");
    if (kind == SECTION_COVMAP && section->size < TRIPWIRE_MAPPING_SIZE)
        return image_plan_keep(planning->plan, kind, "it is shorter than the header of a record");
    if (macho_segment_may_have_fixups(image_of(planning), section->segment))
        return image_plan_keep(planning->plan, kind, "dyld applies fixups to its segment");
    /* Fixups that cannot be read do not matter: clang never makes any that point here. */
    if (macho_find_pointer(planning, &target, &from, &reason) && reason == NULL)
        return image_plan_keep(planning->plan, kind, "a pointer at 0x%" PRIx64 " refers to it",
                               from);
    return true;
}

static bool check_section(struct planning *planning, struct section *section, struct error *error)
{
    if (!macho_image_check_layout(image_of(planning), error))
        return false;
    if (is_coverage_mapping(section->kind))
        check_mapping(planning, section->kind);
    return true;
}

static bool check_known(struct planning *planning, enum section_kind kind)
{
    const struct macho_image *image = image_of(planning);

    if (!planning->code.symbols.are_told)
        return image_plan_keep(planning->plan, kind,
                               "no symbol table: run covsplit before strip, and link without -s");
    if (macho_find_command(image, LC_DYLD_CHAINED_FIXUPS) == NULL &&
        macho_find_command(image, LC_DYLD_INFO) == NULL &&
        macho_find_command(image, LC_DYLD_INFO_ONLY) == NULL)
        return image_plan_keep(planning->plan, kind,
                               "the image has no fixups, which would tell what points to it");
    if (kind == SECTION_DATA && planning->has_record_layout && !planning->record_layout.relative)
        return image_plan_keep(planning->plan, kind,
                               "its records hold addresses (LLVM 13); build with LLVM 14 or later");
    return true;
}

static bool check_claims(struct planning *planning, enum section_kind kind)
{
    if (!macho_section_in_file(section_of(planning, kind)))
        return image_plan_keep(planning->plan, kind, "it has no bytes in the file");
    return macho_find_command(image_of(planning), LC_SEGMENT_SPLIT_INFO) == NULL ||
           image_plan_keep(planning->plan, kind,
                           "the image may become part of dyld's shared cache, which moves its "
                           "sections");
}

/* ---- fixups ---- */

bool macho_fixup_is_outside(void *context, const struct macho_fixup *fixup)
{
    const struct macho_section *section = context;

    return !ranges_overlap(fixup->address, 8, section->addr, section->size);
}

/* A rebase in the data is removed with it. No other fixup is expected there. */
static bool fixup_can_go(void *context, const struct macho_fixup *fixup)
{
    const struct macho_section *section = context;

    return macho_fixup_is_outside(context, fixup) ||
           (fixup->is_rebase && range_within(fixup->address, 8, section->addr, section->size));
}

static bool settle_relocations(struct planning *planning, enum section_kind kind)
{
    void *section = (void *)(uintptr_t)section_of(planning, kind);
    bool is_data = kind == SECTION_DATA;
    const char *reason;

    return macho_fixups_each(image_of(planning), is_data ? fixup_can_go : macho_fixup_is_outside,
                             section, &reason) ||
           image_plan_keep(planning->plan, kind, "%s",
                           reason != NULL ? reason
                           : is_data      ? "it refers to other images"
                                          : "dyld applies fixups to it");
}

/* ---- the edits ---- */

static bool layout(struct planning *planning, struct error *error)
{
    struct macho_state *state = state_of(planning);

    return macho_signature_read(state, error) && macho_layout(state, error) &&
           macho_commands_reserve(state, error) && macho_signature_reserve(state, error);
}

const struct format macho_format = {
    .name = "Mach-O",
    .id = IMAGE_MACHO,
    .state_size = sizeof(struct macho_state),
    .code =
        {
            .folding_advice = "link without identical code folding",
            .missing_advice = "it was stripped, or its profile runtime was inlined, or is not "
                              "LLVM's; run covsplit before strip",
            .code_of = code_of,
            .next_code = next_code,
            .next_data = next_data,
            .is_loaders = macho_is_loaders,
            .is_start_of_section = is_start_of_section,
            .find_pointer = macho_find_pointer,
            .each_symbol = each_symbol,
        },
    .recognize = recognize,
    .is_linked = is_linked,
    .outline = macho_outline,
    .open = open_image,
    .close = close_image,
    .describe = describe,
    .section_name = section_kind_name,
    .find_section = find_section,
    .describe_section = describe_section,
    .is_rest = is_rest,
    .rest_of = rest_of,
    .find_symbols = find_symbols,
    .bytes_at = bytes_at,
    .check_section = check_section,
    .check_known = check_known,
    .check_claims = check_claims,
    .settle_relocations = settle_relocations,
    .moves_names = true,
    .moves_data = true,
    .layout = layout,
    .write = macho_commands_write,
    .seal = macho_signature_sign,
};
