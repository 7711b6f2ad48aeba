/*
 * Planning the split of an ELF image: describes it, decides section by section what can go, and
 * calls the steps that plan the edits (elf/plan.h lists them).
 */
#include "formats/elf/elf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/tripwire.h"
#include "formats/elf/plan.h"

bool elf_recognize(struct bytes bytes)
{
    return bytes.size >= SELFMAG && memcmp(bytes.data, ELFMAG, SELFMAG) == 0;
}

bool elf_is_linked(struct bytes bytes)
{
    uint32_t type;

    if (bytes.size < sizeof(Elf32_Ehdr))
        return false;
    type = load_u16(bytes.data + offsetof(Elf32_Ehdr, e_type), bytes.data[EI_DATA] == ELFDATA2MSB);
    return type == ET_EXEC || type == ET_DYN;
}

/* ---- what elf/plan.h declares for all steps ---- */

struct image_section *elf_plan_section(struct elf_plan_state *state, enum section_kind kind)
{
    return image_plan_section(state->plan, kind);
}

bool elf_plan_removes(struct elf_plan_state *state, enum section_kind kind)
{
    const struct image_section *section = elf_plan_section(state, kind);

    return section != NULL && section->fate != SECTION_STAYS;
}

bool elf_plan_keep(struct elf_plan_state *state, enum section_kind kind, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    image_plan_keep(state->plan, kind, format, arguments);
    va_end(arguments);
    return false;
}

bool elf_plan_no_memory(struct elf_plan_state *state)
{
    state->plan->edits.has_no_memory = true;
    return false;
}

const struct elf_move *elf_plan_move_of(const struct elf_plan_state *state, uint64_t address)
{
    for (size_t i = 0; i < state->move_count; i++) {
        if (range_within(address, 1, state->moves[i].address, state->moves[i].size))
            return &state->moves[i];
    }
    return NULL;
}

uint64_t elf_plan_rest_size(const struct elf_plan_state *state, const struct image_section *section)
{
    switch (section->kind) {
    case SECTION_DATA:
        return state->record_layout.record_size;
    case SECTION_NAMES:
        return state->plan->tripwire_size;
    case SECTION_COVMAP:
        return section->size < TRIPWIRE_MAPPING_SIZE ? 0 : TRIPWIRE_MAPPING_SIZE;
    default:
        return 0;
    }
}

size_t elf_first_load(const struct elf_image *image)
{
    size_t i = 0;

    while (image->phdrs[i].p_type != PT_LOAD)
        i++;
    return i;
}

uint64_t elf_header_base(const struct elf_image *image)
{
    const GElf_Phdr *first = &image->phdrs[elf_first_load(image)];

    return first->p_vaddr - first->p_offset;
}

bool elf_section_is_alone(struct elf_plan_state *state, enum section_kind kind)
{
    const struct elf_image *image = &state->image;
    size_t index = state->section_index[kind];
    const GElf_Shdr *shdr = &image->shdrs[index];
    bool loaded = (shdr->sh_flags & SHF_ALLOC) != 0;

    if (ranges_overlap(shdr->sh_offset, shdr->sh_size, 0, sizeof(Elf64_Ehdr)) ||
        ranges_overlap(shdr->sh_offset, shdr->sh_size, image->ehdr.e_phoff,
                       image->phnum * sizeof(Elf64_Phdr)) ||
        ranges_overlap(shdr->sh_offset, shdr->sh_size, image->ehdr.e_shoff,
                       image->shnum * sizeof(Elf64_Shdr)))
        return elf_plan_keep(state, kind, "it overlaps the image's headers");
    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *other = &image->shdrs[i];

        if (i == index)
            continue;
        if ((elf_section_in_file(other) &&
             ranges_overlap(shdr->sh_offset, shdr->sh_size, other->sh_offset, other->sh_size)) ||
            (loaded && (other->sh_flags & SHF_ALLOC) != 0 && (other->sh_flags & SHF_TLS) == 0 &&
             ranges_overlap(shdr->sh_addr, shdr->sh_size, other->sh_addr, other->sh_size)))
            return elf_plan_keep(state, kind, "it overlaps the section %s",
                                 elf_section_name(image, i));
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        bool may_hold_it = loaded && (phdr->p_type == PT_LOAD || phdr->p_type == PT_GNU_RELRO);

        if (!may_hold_it &&
            ranges_overlap(shdr->sh_offset, shdr->sh_size, phdr->p_offset, phdr->p_filesz))
            return elf_plan_keep(state, kind, "a segment that covsplit does not know holds it");
    }
    return true;
}

/* ---- describing ---- */

static bool find_sections(struct elf_plan_state *state, struct error *error)
{
    const struct elf_image *image = &state->image;
    struct image_plan *plan = state->plan;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const char *name = section_kind_name((enum section_kind)kind);
        size_t index = elf_section_find(image, name, 0);
        struct image_section *section = &plan->sections[plan->section_count];
        const GElf_Shdr *shdr;

        state->section_index[kind] = NO_INDEX;
        if (index == NO_INDEX)
            continue;
        if (elf_section_find(image, name, index) != NO_INDEX)
            return error_set(error,
                             "%s: the image has two sections %s; link it so that there is one",
                             image->path, name);
        shdr = &image->shdrs[index];
        state->section_index[kind] = index;
        *section = (struct image_section){
            .kind = (enum section_kind)kind,
            .name = name,
            .address = (shdr->sh_flags & SHF_ALLOC) != 0 ? shdr->sh_addr : 0,
            .offset = shdr->sh_offset,
            .size = shdr->sh_size,
            .alignment = shdr->sh_addralign,
            .loaded = (shdr->sh_flags & SHF_ALLOC) != 0,
            .encoded = shdr->sh_type != SHT_PROGBITS || (shdr->sh_flags & SHF_COMPRESSED) != 0,
            .fate = SECTION_STAYS,
        };
        plan->section_count++;
    }
    image_plan_sort(plan);
    return true;
}

/* All definitions of __llvm_profile_raw_version must agree. 0 where there is none. */
static uint64_t read_raw_version(const struct elf_plan_state *state)
{
    uint64_t version = 0;

    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct bytes bytes;
        uint64_t value;

        if (definition->symbol != RUNTIME_RAW_VERSION)
            continue;
        if (!elf_bytes_at(&state->image, definition->address, 8, &bytes))
            return 0;
        value = load_u64(bytes.data, false);
        if (version != 0 && value != version)
            return 0;
        version = value;
    }
    return version;
}

static bool describe(struct elf_plan_state *state, struct error *error)
{
    const GElf_Ehdr *ehdr = &state->image.ehdr;
    struct sidecar_facts *facts = &state->plan->facts;

    facts->format = IMAGE_ELF;
    facts->elf_class = ehdr->e_ident[EI_CLASS];
    facts->elf_data = ehdr->e_ident[EI_DATA];
    facts->elf_type = ehdr->e_type;
    facts->machine = ehdr->e_machine;
    facts->pointer_size = 8;
    if (!elf_build_id(&state->image, &facts->uuid, error) || !find_sections(state, error) ||
        !elf_runtime_find(&state->image, &state->runtime, error))
        return false;
    if (!image_plan_choose_uuid(state->plan, state->options, state->image.path, error))
        return false;
    facts->raw_version = read_raw_version(state);
    state->has_record_layout = stub_layout(facts->raw_version, 8, &state->record_layout);
    return true;
}

/* Whether a section is what a split leaves of one of that kind: as its entry size says, which
 * linkers leave 0, a data section of one record, or else a tripwire or nothing (which it was always
 * before there were tripwires). */
static bool is_rest(const struct elf_plan_state *state, enum section_kind kind)
{
    const GElf_Shdr *shdr = &state->image.shdrs[state->section_index[kind]];
    struct bytes bytes = elf_section_bytes(&state->image, state->section_index[kind]);

    if (kind == SECTION_DATA && shdr->sh_size != 0 && shdr->sh_entsize == shdr->sh_size)
        return true;
    return shdr->sh_entsize == EMPTIED_SECTION_MARK &&
           (shdr->sh_size == 0 || (kind == SECTION_NAMES && tripwire_recognize(bytes)) ||
            (kind == SECTION_COVMAP && tripwire_recognize_mapping(bytes, false)));
}

static bool is_already_split(const struct elf_plan_state *state)
{
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        if (state->section_index[kind] != NO_INDEX &&
            (SECTION_REMOVABLE & SECTION_BIT(kind)) != 0 && is_rest(state, (enum section_kind)kind))
            return true;
    }
    return false;
}

/* Of a stripped image: its UUID where it has no build ID. True where only a stub tells. */
static bool take_split_uuid(struct elf_plan_state *state)
{
    size_t data = state->section_index[SECTION_DATA], names = state->section_index[SECTION_NAMES];
    struct bytes none = {0};

    return image_plan_take_split_uuid(
        state->plan, names == NO_INDEX ? none : elf_section_bytes(&state->image, names),
        data == NO_INDEX || !is_rest(state, SECTION_DATA) ? none
                                                          : elf_section_bytes(&state->image, data));
}

/* ---- recognizing ---- */

static void describe_split(struct elf_plan_state *state, struct split_image *split)
{
    split->uuid_is_stub = take_split_uuid(state);
    image_plan_describe_split(state->plan, split);
}

bool elf_find_split(const struct input *input, struct split_image *split, struct error *error)
{
    struct image_plan *plan = calloc(1, sizeof(*plan));
    struct elf_plan_state *state = calloc(1, sizeof(*state));
    bool found = false;

    if (plan == NULL || state == NULL) {
        error_out_of_memory(error, input->path, sizeof(*plan) + sizeof(*state));
    } else if (elf_image_open(&state->image, input, error)) {
        state->plan = plan;
        found = find_sections(state, error) && is_already_split(state) &&
                elf_build_id(&state->image, &plan->facts.uuid, error);
        if (found)
            describe_split(state, split);
        elf_image_close(&state->image);
    }
    free(state);
    free(plan);
    return found;
}

/* ---- deciding ---- */

/* Contents that nothing loads can go if nothing else describes them. */
static void decide_unloaded(struct elf_plan_state *state, enum section_kind kind)
{
    size_t index = state->section_index[kind];

    for (size_t i = 1; i < state->image.shnum; i++) {
        const GElf_Shdr *shdr = &state->image.shdrs[i];
        if ((shdr->sh_type == SHT_RELA || shdr->sh_type == SHT_REL) && shdr->sh_info == index &&
            shdr->sh_size != 0) {
            elf_plan_keep(state, kind, "relocations apply to it; link without --emit-relocs");
            return;
        }
    }
    elf_section_is_alone(state, kind);
}

static void decide(struct elf_plan_state *state)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        struct image_section *section = &state->plan->sections[i];
        const GElf_Shdr *shdr = &state->image.shdrs[state->section_index[section->kind]];
        bool is_loaded_kind = section->kind == SECTION_NAMES || section->kind == SECTION_DATA;

        if ((SECTION_REMOVABLE & state->options->sections & SECTION_BIT(section->kind)) == 0 ||
            section->size == 0)
            continue;
        section->fate = SECTION_REMOVED;
        if (shdr->sh_type != SHT_PROGBITS)
            elf_plan_keep(state, section->kind, "its section has an unexpected type");
        else if ((shdr->sh_flags & SHF_COMPRESSED) != 0)
            elf_plan_keep(state, section->kind, "it is compressed already");
        else if (section->loaded != is_loaded_kind)
            elf_plan_keep(state, section->kind,
                          section->loaded ? "it is loaded into memory, and covsplit "
                                            "does not know by whom it is used"
                                          : "it is not loaded into memory");
        else if (!is_loaded_kind)
            decide_unloaded(state, section->kind);
    }
}

/* Bytes behind everything that the headers describe belong to somebody else (an archive that the
 * program opens, a signature), who may look for them at a fixed place. */
static bool check_tail(const struct elf_image *image, struct error *error)
{
    uint64_t end = image->ehdr.e_shoff + image->shnum * sizeof(Elf64_Shdr);
    struct bytes tail;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset + shdr->sh_size > end)
            end = shdr->sh_offset + shdr->sh_size;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_offset + phdr->p_filesz > end)
            end = phdr->p_offset + phdr->p_filesz;
    }
    if (bytes_slice(image->file, end, image->file.size - end, &tail) && !bytes_all_zero(tail))
        return error_set(error,
                         "%s: data is appended to the image, which may rely on its place; run "
                         "covsplit before it is appended",
                         image->path);
    return true;
}

static bool plan_edits(struct elf_plan_state *state, struct error *error)
{
    struct image_plan *plan = state->plan;
    bool any = false;

    decide(state);
    image_plan_pair_mapping(plan);
    if (!elf_runtime_plan(state, error))
        return false;
    for (size_t i = 0; i < plan->section_count; i++)
        any |= plan->sections[i].fate != SECTION_STAYS;
    if (!any)
        return edit_script_finish(&plan->edits, state->image.path, error);
    if (!check_tail(&state->image, error) || !elf_layout_plan(state, error) ||
        !elf_tables_plan(state, error))
        return false;
    plan->facts.has_stub = plan->stub_uuid_literal != SIZE_MAX;
    image_plan_list_ranges(plan);
    if (plan->facts.uuid.size != 0)
        image_plan_set_uuid(plan, &plan->facts.uuid, plan->facts.uuid_source);
    return true;
}

struct image_plan *elf_plan(const struct input *input, const struct image_options *options,
                            struct error *error)
{
    struct elf_plan_state *state = calloc(1, sizeof(*state));
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
    edit_script_init(&plan->edits, input->bytes.size);
    if (!elf_image_open(&state->image, input, error))
        goto out;
    done = describe(state, error);
    if (done) {
        plan->already_split = is_already_split(state);
        if (plan->already_split)
            take_split_uuid(state);
        else
            done = plan_edits(state, error);
    }
    elf_image_close(&state->image);
    buffer_free(&state->moved);
out:
    free(state);
    if (!done) {
        image_plan_free(plan);
        return NULL;
    }
    return plan;
}
