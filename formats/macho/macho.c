/*
 * Mach-O images: describes an image, and decides what can go, as far as that depends on the format.
 */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "formats/macho/macho.h"

/* On Darwin, the names of C symbols start with this. */
#define NAME_PREFIX '_'

static const struct macho_section *section_of(const struct planning *planning,
                                              enum section_kind kind)
{
    return &macho_image_of(planning)->sections[planning->section_index[kind]];
}

static bool is_code(const struct macho_section *section)
{
    return (section->flags & (S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS)) != 0;
}

/* The section's bytes in the file; empty if there are none, or they are not inside the file. */
static struct bytes bytes_of(const struct macho_image *image, const struct macho_section *section)
{
    struct bytes bytes = {0};

    if (macho_section_in_file(section))
        bytes_slice(image->file, section->offset, section->size, &bytes);
    return bytes;
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
    return macho_image_open(&macho_state_of(planning)->image, planning->input, error);
}

static void close_image(struct planning *planning)
{
    macho_image_close(&macho_state_of(planning)->image);
    buffer_free(&macho_state_of(planning)->signature.content);
}

static bool describe(struct planning *planning, struct error *error)
{
    const struct macho_image *image = macho_image_of(planning);
    const struct macho_command *command = macho_find_command(image, LC_UUID);
    struct sidecar_facts *facts = &planning->plan->facts;
    struct bytes uuid;

    (void)error;
    facts->elf_class = ELFCLASS64;
    facts->elf_data = ELFDATA2LSB;
    facts->elf_type =
        image->filetype == MH_EXECUTE && (image->flags & MH_PIE) == 0 ? ET_EXEC : ET_DYN;
    facts->machine = image->machine;
    facts->pointer_size = 8;
    facts->uuid.size = 0;
    if (command != NULL &&
        bytes_slice(image->file, command->offset + UUID_BYTES, UUID_SIZE, &uuid) &&
        !bytes_all_zero(uuid)) {
        memcpy(facts->uuid.bytes, uuid.data, UUID_SIZE);
        facts->uuid.size = UUID_SIZE;
    }
    return true;
}

static const char *section_name(enum section_kind kind)
{
    return section_kinds[kind].macho_segment != NULL ? section_kinds[kind].name : NULL;
}

static size_t find_section(const struct planning *planning, enum section_kind kind, size_t after)
{
    const struct macho_image *image = macho_image_of(planning);
    const char *segment = section_kinds[kind].macho_segment, *name = section_name(kind);
    size_t index = macho_find_section(image, segment, name, after);

    if (index == NO_INDEX && strcmp(segment, MACHO_DATA_SEGMENT) == 0)
        index = macho_find_section(image, MACHO_PROFILE_SEGMENT, name, after);
    return index;
}

static void describe_section(const struct planning *planning, size_t index, struct section *section)
{
    const struct macho_section *header = &macho_image_of(planning)->sections[index];

    section->address = header->addr;
    section->offset = header->offset;
    section->size = header->size;
    section->alignment = header->align < 32 ? UINT64_C(1) << header->align : 0;
    section->loaded = true;
}

/* ---- stripped images ---- */

/* True if they are one record, of all the image's counters. */
static bool is_stub(struct bytes record, uint64_t counters_size)
{
    struct profile_record_layout layout;

    for (unsigned version = PROFILE_VERSION_MIN; version <= PROFILE_VERSION_MAX; version++) {
        uint64_t count;

        if (!profile_record_layout(version, sizeof(uint64_t), &layout) ||
            record.size != layout.record_size)
            continue;
        count = load_u32(record.data + layout.num_counters, false);
        if (count != 0 && (counters_size == count || counters_size == count * sizeof(uint64_t)))
            return true;
    }
    return false;
}

/* The bytes of a section that a split has emptied; empty if it has not. LLVM's tools clear the mark
 * and turn the mapping into zeros in memory, but keep the names' tripwire and the stub, which is
 * told from a record that stays by its counters: they are all of the image's. */
static struct bytes remnant_of(const struct planning *planning, enum section_kind kind)
{
    const struct macho_image *image = macho_image_of(planning);
    const struct macho_section *section = section_of(planning, kind);
    struct bytes bytes = bytes_of(image, section), none = {0};
    size_t names = planning->section_index[SECTION_NAMES];
    size_t counters = planning->section_index[SECTION_COUNTERS];

    if (section->reserved3 == MACHO_EMPTIED_MARK)
        return bytes;
    switch (kind) {
    case SECTION_NAMES:
        return tripwire_recognize(bytes) ? bytes : none;
    case SECTION_COVMAP:
        return tripwire_recognize_mapping(bytes, false) ? bytes : none;
    case SECTION_DATA:
        return names != NO_INDEX && counters != NO_INDEX &&
                       tripwire_recognize(bytes_of(image, &image->sections[names])) &&
                       is_stub(bytes, image->sections[counters].size)
                   ? bytes
                   : none;
    default:
        return none;
    }
}

static bool is_remnant(const struct planning *planning, enum section_kind kind, bool *is_remnant,
                       struct error *error)
{
    (void)error;
    *is_remnant = section_of(planning, kind)->reserved3 == MACHO_EMPTIED_MARK ||
                  remnant_of(planning, kind).size != 0;
    return true;
}

static bool bytes_at(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes)
{
    const struct macho_image *image = macho_image_of(planning);

    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];

        if (range_within(address, size, segment->vmaddr, segment->filesize))
            return bytes_slice(image->file, segment->fileoff + (address - segment->vmaddr), size,
                               bytes);
    }
    return false;
}

/* ---- symbols ---- */

/* The symbol table, a whole number of nlist_64, and its strings; empty if there is none. False if
 * they are not inside the file. */
static bool open_symbols(const struct macho_image *image, struct bytes *symbols,
                         struct bytes *strings)
{
    const struct macho_command *command = macho_find_command(image, LC_SYMTAB);

    *symbols = *strings = (struct bytes){0};
    return command == NULL ||
           (bytes_slice(image->file, macho_field(image, command, SYMTAB_SYMOFF),
                        (uint64_t)macho_field(image, command, SYMTAB_NSYMS) * NLIST_SIZE,
                        symbols) &&
            bytes_slice(image->file, macho_field(image, command, SYMTAB_STROFF),
                        macho_field(image, command, SYMTAB_STRSIZE), strings));
}

/* Takes the next symbol that has a name, and is an address in a section of the image. */
static bool next_symbol(const struct planning *planning, struct symbol_walk *walk,
                        struct image_symbol *symbol)
{
    const struct macho_image *image = macho_image_of(planning);

    if (walk->symbols.data == NULL && !open_symbols(image, &walk->symbols, &walk->more)) {
        walk->bad = true;
        return false;
    }
    while (walk->at < walk->symbols.size) {
        const uint8_t *nlist = walk->symbols.data + walk->at;
        uint64_t name = load_u32(nlist + NLIST_STRX, false);
        size_t section = (size_t)nlist[NLIST_SECT] - 1; /* counted from 1 */

        walk->at += NLIST_SIZE;
        if ((nlist[NLIST_TYPE] & N_STAB) != 0 || (nlist[NLIST_TYPE] & N_TYPE) != N_SECT ||
            name >= walk->more.size)
            continue;
        name += walk->more.data[name] == NAME_PREFIX;
        *symbol = (struct image_symbol){
            .address = load_u64(nlist + NLIST_VALUE, false),
            .is_function = section >= image->section_count || is_code(&image->sections[section]),
        };
        bytes_slice(walk->more, name, walk->more.size - name, &symbol->name);
        return true;
    }
    return false;
}

static bool find_symbols(struct planning *planning, struct error *error)
{
    struct runtime_symbols *symbols = &planning->code.symbols;
    struct bytes table, strings;

    if (!open_symbols(macho_image_of(planning), &table, &strings))
        return error_set(error,
                         "%s: damaged Mach-O image: its symbol table is cut short; link it "
                         "again",
                         planning->input->path);
    /* The functions of the runtime are local symbols. */
    symbols->from_symbol_table = table.size != 0;
    return runtime_symbols_find(symbols, next_symbol, planning) ||
           error_set(error, "%s: the profile runtime is defined too many times; link it again",
                     planning->input->path);
}

/* ---- code and data ---- */

/* The code up to the end of the segment: symbols have no sizes. */
static bool code_of(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct macho_image *image = macho_image_of(planning);

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

static bool part_at(const struct planning *planning, size_t index, struct image_part *part)
{
    const struct macho_image *image = macho_image_of(planning);
    const struct macho_section *section = &image->sections[index];
    bool is_other;

    if (index >= image->section_count)
        return false;
    is_other = !macho_section_in_file(section) || planning_is_described(planning, index) ||
               strcmp(section->sectname, "__eh_frame") == 0 ||
               strcmp(section->sectname, "__unwind_info") == 0;
    *part = (struct image_part){
        .kind = is_code(section) ? PART_CODE
                : is_other       ? PART_OTHER
                                 : PART_DATA,
        .code = {.bytes = bytes_of(image, section), .address = section->addr},
        .bases = {macho_base(image)},
    };
    return true;
}

static bool is_start_of_section(const struct planning *planning, uint64_t address)
{
    const struct macho_image *image = macho_image_of(planning);

    for (size_t i = 0; i < image->section_count; i++) {
        if (image->sections[i].addr == address && image->sections[i].size != 0)
            return true;
    }
    return false;
}

/* ---- fixups ---- */

/* True if there are, or may be, relocations as old images have them, and kernels and their
 * extensions. */
static bool has_old_relocations(const struct macho_image *image)
{
    const struct macho_command *dysymtab = macho_find_command(image, LC_DYSYMTAB);

    return dysymtab != NULL && (macho_field(image, dysymtab, DYSYMTAB_NEXTREL) != 0 ||
                                macho_field(image, dysymtab, DYSYMTAB_NLOCREL) != 0);
}

bool macho_fixups_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason)
{
    *reason = "it has relocations of a kind that covsplit does not know";
    return !has_old_relocations(image) && macho_chains_each(image, visit, context, reason) &&
           macho_opcodes_each(image, visit, context, reason);
}

bool macho_fixup_is_outside(void *context, const struct macho_fixup *fixup)
{
    const struct macho_section *section = context;

    return !ranges_overlap(fixup->address, 8, section->addr, section->size);
}

bool macho_segment_may_have_fixups(const struct macho_image *image, size_t segment)
{
    struct macho_section whole = {.addr = image->segments[segment].vmaddr,
                                  .size = image->segments[segment].vmsize};
    const char *reason;

    return has_old_relocations(image) || macho_chains_may_be_in(image, segment) ||
           !macho_opcodes_each(image, macho_fixup_is_outside, &whole, &reason);
}

struct pointer_search {
    const struct reference_target *target;
    uint64_t from;
};

static bool is_no_pointer(void *context, const struct macho_fixup *fixup)
{
    struct pointer_search *search = context;
    const struct reference_target *target = search->target;

    search->from = fixup->address;
    return !fixup->is_rebase || reference_is_own(target, fixup->address) ||
           !reference_counts(target, fixup->target);
}

/* By the same rules as in ELF images. */
static bool find_pointer(const struct planning *planning, const struct reference_target *target,
                         uint64_t *from, const char **reason)
{
    struct pointer_search search = {target, 0};
    bool found = !macho_fixups_each(macho_image_of(planning), is_no_pointer, &search, reason);

    *from = search.from;
    return found;
}

static bool is_loaders(const struct planning *planning, uint64_t address)
{
    struct macho_section byte = {.addr = address, .size = 1};
    const char *reason = NULL;

    return !macho_fixups_each(macho_image_of(planning), macho_fixup_is_outside, &byte, &reason) &&
           reason == NULL;
}

/* ---- deciding ---- */

/* The coverage mapping is data that no code uses and no pointer refers to. */
static void check_mapping(struct planning *planning, enum section_kind kind)
{
    const struct macho_section *section = section_of(planning, kind);
    struct reference_target target = {.first = section->addr, .size = section->size};
    const char *reason;
    uint64_t from;

    if (section->size != 0 && !macho_section_in_file(section))
        image_plan_keep(planning->plan, kind, "it has no bytes in the file");
    else if (kind == SECTION_COVMAP && section->size < TRIPWIRE_MAPPING_SIZE)
        image_plan_keep(planning->plan, kind, "it is shorter than the header of a record");
    else if (macho_segment_may_have_fixups(macho_image_of(planning), section->segment))
        image_plan_keep(planning->plan, kind, "dyld applies fixups to its segment");
    /* Fixups that cannot be read do not matter: clang never makes any that point here. */
    else if (find_pointer(planning, &target, &from, &reason) && reason == NULL)
        image_plan_keep(planning->plan, kind, "a pointer at 0x%" PRIx64 " refers to it", from);
}

static bool check_section(struct planning *planning, struct section *section, struct error *error)
{
    if (!macho_image_check_layout(macho_image_of(planning), error))
        return false;
    if ((SECTION_BIT(section->kind) & SECTION_OF_RUNTIME) == 0)
        check_mapping(planning, section->kind);
    return true;
}

static bool check_known(struct planning *planning, enum section_kind kind)
{
    const struct macho_image *image = macho_image_of(planning);

    if (!planning->code.symbols.from_symbol_table)
        return image_plan_keep(planning->plan, kind,
                               "no symbol table: run covsplit before strip, and link without -s");
    if (macho_find_command(image, LC_DYLD_CHAINED_FIXUPS) == NULL &&
        macho_find_dyld_info(image) == NULL)
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
    return macho_find_command(macho_image_of(planning), LC_SEGMENT_SPLIT_INFO) == NULL ||
           image_plan_keep(planning->plan, kind,
                           "the image may become part of dyld's shared cache, which moves its "
                           "sections");
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

    return macho_fixups_each(macho_image_of(planning),
                             is_data ? fixup_can_go : macho_fixup_is_outside, section, &reason) ||
           image_plan_keep(planning->plan, kind, "%s",
                           reason != NULL ? reason
                           : is_data      ? "it refers to other images"
                                          : "dyld applies fixups to it");
}

static bool layout(struct planning *planning, struct error *error)
{
    struct macho_state *state = macho_state_of(planning);

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
            .part_at = part_at,
            .is_no_distance = is_loaders,
            .is_start_of_section = is_start_of_section,
            .find_pointer = find_pointer,
            .next_symbol = next_symbol,
        },
    .recognize = recognize,
    .is_linked = is_linked,
    .outline = macho_outline,
    .open = open_image,
    .close = close_image,
    .describe = describe,
    .section_name = section_name,
    .find_section = find_section,
    .describe_section = describe_section,
    .is_remnant = is_remnant,
    .remnant_of = remnant_of,
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
