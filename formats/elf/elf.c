/*
 * ELF images (System V gABI, and the psABI of each machine): describes an image, and decides what
 * can go, as far as that depends on the format. elf.h lists the other steps.
 */
#include <string.h>

#include "formats/elf/elf.h"

static struct elf_state *state_of(struct planning *planning)
{
    return (struct elf_state *)planning;
}

static const struct elf_image *image_of(const struct planning *planning)
{
    return &((const struct elf_state *)planning)->image;
}

static bool recognize(struct bytes bytes)
{
    return bytes.size >= SELFMAG && memcmp(bytes.data, ELFMAG, SELFMAG) == 0;
}

static bool is_linked(struct bytes bytes)
{
    struct elf_file elf;
    uint32_t type;

    if (bytes.size < sizeof(Elf32_Ehdr))
        return false;
    type = load_u16(bytes.data + offsetof(Elf32_Ehdr, e_type), bytes.data[EI_DATA] == ELFDATA2MSB);
    return (type == ET_EXEC || type == ET_DYN) &&
           !(elf_file_open(&elf, bytes) && elf_is_debug_file(&elf));
}

/* ---- describing ---- */

/* True if the image is firmware: no system maps the file into memory. A loader, a debugger or
 * objcopy copies the segments to their load addresses (p_paddr), and neither headers nor offsets in
 * the file mean anything when it runs. */
static bool is_firmware(const struct elf_image *image)
{
    uint64_t headers_end = image->elf.header.e_phoff + image->phnum * image->sizes.phdr;
    bool is_mapped = true;

    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        if (phdr->p_type == PT_INTERP || phdr->p_type == PT_DYNAMIC || phdr->p_type == PT_PHDR ||
            (phdr->p_type == PT_LOAD &&
             ranges_overlap(phdr->p_offset, phdr->p_filesz, 0, headers_end)))
            return false;
        /* Systems map whole pages of the file, at the addresses in p_vaddr. */
        if (phdr->p_type == PT_LOAD && phdr->p_filesz != 0 &&
            (phdr->p_paddr != phdr->p_vaddr ||
             (phdr->p_vaddr - phdr->p_offset) % MACHINE_PAGE_SIZE != 0))
            is_mapped = false;
    }
    return image->elf.header.e_type == ET_EXEC && !is_mapped;
}

static bool open_image(struct planning *planning, struct error *error)
{
    struct elf_state *state = state_of(planning);

    if (!elf_image_open(&state->image, planning->input, error))
        return false;
    state->is_firmware = is_firmware(&state->image);
    return true;
}

static void close_image(struct planning *planning)
{
    elf_image_close(&state_of(planning)->image);
    buffer_free(&state_of(planning)->moved);
    symbol_cut_free(&state_of(planning)->symbol_cut);
}

/* The most bytes of notes, because segments may overlap. */
#define NOTES_MAX (UINT64_C(16) << 20)

/* The GNU build ID; its size is 0 if there is none. False if it is too long, or if the image has
 * several that differ. */
static bool read_build_id(const struct elf_image *image, struct uuid *uuid, struct error *error)
{
    uint64_t total = 0;

    *uuid = (struct uuid){.size = 0};
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        struct elf_note_list notes = {.big_endian = image->elf.big_endian,
                                      .alignment = phdr->p_align};
        struct elf_note note;
        size_t position = 0;

        if (phdr->p_type != PT_NOTE)
            continue;
        total += phdr->p_filesz;
        if (total > NOTES_MAX)
            return error_set(error, "%s: damaged ELF image: its notes are too large; link it again",
                             image->path);
        bytes_slice(image->elf.bytes, phdr->p_offset, phdr->p_filesz, &notes.bytes);
        while (elf_note_next(&notes, &position, &note)) {
            struct uuid found = {.size = (size_t)note.description.size};

            if (note.type != NT_GNU_BUILD_ID || !elf_note_is_of(&note, ELF_NOTE_GNU) ||
                found.size == 0)
                continue;
            if (found.size > UUID_SIZE_MAX)
                return error_set(error,
                                 "%s: the build ID has %zu bytes, and covsplit takes at most %d; "
                                 "link with --build-id=sha1",
                                 image->path, found.size, UUID_SIZE_MAX);
            memcpy(found.bytes, note.description.data, found.size);
            if (uuid->size != 0 && !uuid_equal(uuid, &found))
                return error_set(error,
                                 "%s: the image has two build IDs that differ; link it again",
                                 image->path);
            *uuid = found;
        }
    }
    return true;
}

static bool describe(struct planning *planning, struct error *error)
{
    const Elf64_Ehdr *ehdr = &image_of(planning)->elf.header;
    struct sidecar_facts *facts = &planning->plan->facts;

    facts->elf_class = ehdr->e_ident[EI_CLASS];
    facts->elf_data = ehdr->e_ident[EI_DATA];
    facts->elf_type = ehdr->e_type;
    facts->machine = ehdr->e_machine;
    facts->pointer_size = (unsigned)image_of(planning)->sizes.word;
    planning->code.has_absolute_operands = ehdr->e_type == ET_EXEC;
    return read_build_id(image_of(planning), &facts->uuid, error);
}

static size_t find_section(const struct planning *planning, enum section_kind kind, size_t after)
{
    return elf_section_find(image_of(planning), section_kind_name(kind),
                            after == NO_INDEX ? 0 : after);
}

static void describe_section(const struct planning *planning, size_t index, struct section *section)
{
    const struct elf_image *image = image_of(planning);
    const Elf64_Shdr *shdr = &image->shdrs[index];
    uint64_t address;

    elf_section_place(image, index, section->kind, &address, &section->size);
    section->loaded = (shdr->sh_flags & SHF_ALLOC) != 0;
    section->address = section->loaded ? address : 0;
    section->offset = shdr->sh_offset + (address - shdr->sh_addr);
    section->alignment = shdr->sh_addralign;
    section->encoded = shdr->sh_type != SHT_PROGBITS || (shdr->sh_flags & SHF_COMPRESSED) != 0;
}

/* sh_entsize, which linkers leave 0, tells: a data section with a stub; or a section with a
 * tripwire, or an empty one, as the first versions of covsplit always left it. */
static bool is_remnant(const struct planning *planning, enum section_kind kind, bool *is_remnant,
                       struct error *error)
{
    const struct elf_image *image = image_of(planning);
    size_t index = planning->section_index[kind];
    const Elf64_Shdr *shdr = &image->shdrs[index];
    struct bytes bytes = elf_section_bytes(image, index);

    (void)error;
    *is_remnant =
        (kind == SECTION_DATA && elf_stub_size(image, index) != 0) ||
        (shdr->sh_entsize == EMPTIED_SECTION_MARK &&
         (shdr->sh_size == 0 || (kind == SECTION_NAMES && tripwire_recognize(bytes)) ||
          (kind == SECTION_COVMAP && tripwire_recognize_mapping(bytes, planning->big_endian))));
    return true;
}

static struct bytes remnant_of(const struct planning *planning, enum section_kind kind)
{
    const struct elf_image *image = image_of(planning);
    size_t index = planning->section_index[kind];
    struct bytes rest = elf_section_bytes(image, index);
    size_t stub = kind == SECTION_DATA ? elf_stub_size(image, index) : rest.size;

    return bytes_slice(rest, rest.size - stub, stub, &rest) ? rest : (struct bytes){0};
}

/* strip -x and -X remove the local symbol _GLOBAL_OFFSET_TABLE_, which is where .got.plt starts,
 * if there is one, and else .got. */
static bool find_symbols(struct planning *planning, struct error *error)
{
    struct elf_state *state = state_of(planning);
    struct elf_image *image = &state->image;
    const char *base_symbol = image->machine->base_symbol;
    size_t got = elf_section_find(image, ".got", 0);
    size_t got_plt = elf_section_find(image, ".got.plt", 0);

    elf_find_end_users(state);
    if (!elf_symbols_mark(image, &state->marks, &state->mark_count))
        return error_out_of_memory(error, image->path, sizeof(*state->marks));
    if (!elf_symbols_find(state, error))
        return false;
    if (state->code_base == 0 && got_plt != NO_INDEX && base_symbol != NULL &&
        strcmp(base_symbol, "_GLOBAL_OFFSET_TABLE_") == 0)
        state->code_base = image->shdrs[got_plt].sh_addr;
    /* RISC-V and LoongArch have no relocation for the distance from a GOT or the global pointer. */
    if (image->elf.header.e_machine != EM_RISCV && image->elf.header.e_machine != EM_LOONGARCH) {
        state->data_bases[DATA_BASE_OTHERS] = state->code_base;
        if (state->code_base == 0 && got != NO_INDEX)
            state->data_bases[DATA_BASE_OTHERS] = image->shdrs[got].sh_addr;
        if (state->code_base == 0 && got_plt != NO_INDEX)
            state->data_bases[DATA_BASE_OTHERS + 1] = image->shdrs[got_plt].sh_addr;
    }
    state->data_bases[DATA_BASE_IMAGE] = elf_first_load(image)->p_vaddr;
    return true;
}

static bool bytes_at(const struct planning *planning, uint64_t address, uint64_t size,
                     struct bytes *bytes)
{
    return elf_bytes_at(image_of(planning), address, size, bytes);
}

/* ---- code ---- */

/* Code at an address, without its bytes: only what is the same for all code of the image. */
static struct code code_at(const struct planning *planning, uint64_t address)
{
    const struct elf_image *image = image_of(planning);
    size_t got = elf_section_find(image, ".got", 0);
    const struct elf_state *state = (const struct elf_state *)planning;
    struct code code = {.address = address,
                        .base = state->code_base,
                        .marks = state->marks,
                        .mark_count = state->mark_count};

    if (got != NO_INDEX) {
        code.got = image->shdrs[got].sh_addr;
        if (image->machine->got_size_max != 0)
            code.got_bytes = elf_section_bytes(image, got);
    }
    return code;
}

/* The code up to the end of the segment, or of the symbol if it has a size. */
static bool code_of(const struct planning *planning, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct elf_image *image = image_of(planning);
    size_t segment = elf_segment_of(image, definition->address, 1);
    const Elf64_Phdr *phdr;
    uint64_t left;

    if (segment == NO_INDEX)
        return false;
    phdr = &image->phdrs[segment];
    left = phdr->p_vaddr + phdr->p_filesz - definition->address;
    if (definition->size != 0 && definition->size < left)
        left = definition->size;
    *code = code_at(planning, definition->address);
    code->is_thumb = definition->is_thumb;
    return (phdr->p_flags & PF_X) != 0 &&
           elf_bytes_at(image, definition->address, left, &code->bytes);
}

/* True for a section of the program's data. .eh_frame and the like point to code only. */
static bool is_data(const struct elf_state *state, size_t section)
{
    static const char *const others[] = {".eh_frame", ".gcc_except_table", ".got", ".toc"};
    const Elf64_Shdr *shdr = &state->image.shdrs[section];
    const char *name = elf_section_name(&state->image, section);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return false;
    }
    return !planning_is_described(&state->base, section) && shdr->sh_type == SHT_PROGBITS &&
           (shdr->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC;
}

static bool part_at(const struct planning *planning, size_t index, struct image_part *part)
{
    const struct elf_state *state = (const struct elf_state *)planning;
    const Elf64_Shdr *shdr = &state->image.shdrs[index];

    if (index >= state->image.shnum)
        return false;
    *part = (struct image_part){.kind = PART_OTHER, .code = {.address = shdr->sh_addr}};
    if ((shdr->sh_flags & SHF_EXECINSTR) != 0) {
        part->kind = PART_CODE;
        part->code = code_at(planning, shdr->sh_addr);
    } else if (is_data(state, index)) {
        part->kind = PART_DATA;
        memcpy(part->bases, state->data_bases, sizeof(part->bases));
        /* Linkers define __start_ of a section that has an identifier of C as its name. */
        if (elf_section_name(&state->image, index)[0] != '.')
            part->bases[DATA_BASE_SECTION] = shdr->sh_addr;
    }
    if (part->kind != PART_OTHER)
        part->code.bytes = elf_section_bytes(&state->image, index);
    return true;
}

/* Text at the end of a variable looks like a small number, but a number is all in a variable or
 * not at all. Another name of the variable may cover less of it, so that all must be seen. */
static bool is_end_of_variable(const struct elf_image *image, uint64_t address)
{
    struct elf_symbol symbol;
    struct symbol_walk walk;
    bool ends = false;

    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        elf_symbols_open(image, i, &walk);
        while (elf_symbols_next(image, &walk, &symbol)) {
            uint64_t offset = address - symbol.st_value;

            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_value > address ||
                offset >= symbol.st_size || !elf_symbol_has_address(image, &symbol))
                continue;
            if (symbol.st_size - offset >= sizeof(uint32_t))
                return false;
            ends |= offset != 0;
        }
    }
    return ends;
}

static bool is_no_distance(const struct planning *planning, uint64_t address)
{
    const struct elf_image *image = image_of(planning);
    struct elf_relocations relocations = elf_relocations_open(image);
    struct elf_relocation relocation;

    while (elf_relocations_next(&relocations, &relocation)) {
        if (address - relocation.offset < image->sizes.word)
            return true;
    }
    return is_end_of_variable(image, address);
}

/* Also true for a section that firmware copies out of flash: its load address follows the bytes
 * before it. */
static bool is_start_of_section(const struct planning *planning, uint64_t address)
{
    const struct elf_image *image = image_of(planning);

    for (size_t i = 0; i < image->phnum; i++) {
        if (image->phdrs[i].p_type == PT_LOAD && image->phdrs[i].p_filesz != 0 &&
            image->phdrs[i].p_paddr == address)
            return true;
    }
    for (size_t i = 1; i < image->shnum; i++) {
        if ((image->shdrs[i].sh_flags & SHF_ALLOC) != 0 && image->shdrs[i].sh_addr == address)
            return true;
    }
    return false;
}

/* ---- deciding ---- */

/* True if nothing else uses the section's bytes, whatever its kind. */
static bool is_alone(struct elf_state *state, enum section_kind kind)
{
    const char *name = "";
    const char *why = elf_why_shared(&state->image, state->base.section_index[kind], &name);

    return why == NULL || image_plan_keep(state->base.plan, kind, "%s%s", why, name);
}

static bool check_section(struct planning *planning, struct section *section, struct error *error)
{
    const Elf64_Shdr *shdr = &image_of(planning)->shdrs[planning->section_index[section->kind]];
    bool is_of_runtime = (SECTION_BIT(section->kind) & SECTION_OF_RUNTIME) != 0;

    (void)error;
    if (shdr->sh_type != SHT_PROGBITS)
        image_plan_keep(planning->plan, section->kind, "its section has an unexpected type");
    else if ((shdr->sh_flags & SHF_COMPRESSED) != 0)
        image_plan_keep(planning->plan, section->kind, "it is compressed already");
    else if (section->loaded != is_of_runtime)
        image_plan_keep(planning->plan, section->kind,
                        section->loaded ? "it is loaded into memory, and covsplit does not know "
                                          "what uses it"
                                        : "it is not loaded into memory");
    else if (!is_of_runtime)
        is_alone(state_of(planning), section->kind);
    return true;
}

/* BOLT copies functions to other addresses, and leaves the old code, which no longer runs, in
 * place: references cannot be judged. */
#define BOLT_NOTE ".note.bolt_info"

static bool check_known(struct planning *planning, enum section_kind kind)
{
    const struct machine *machine = image_of(planning)->machine;

    if (elf_section_find(image_of(planning), BOLT_NOTE, 0) != NO_INDEX)
        return image_plan_keep(planning->plan, kind,
                               "BOLT has moved the image's code; run covsplit before BOLT");
    if (!planning->code.symbols.from_symbol_table)
        return image_plan_keep(planning->plan, kind,
                               "no symbol table: run covsplit before strip, and link without -s");
    return machine->got_size_max == 0 ||
           (state_of(planning)->code_base != 0 &&
            code_at(planning, 0).got_bytes.size <= machine->got_size_max) ||
           image_plan_keep(
               planning->plan, kind,
               "covsplit cannot tell what code refers to: the image has no symbol %s, or "
               "several global offset tables",
               machine->base_symbol);
}

/* The PT_LOAD that the entry point is in. It may be an address where the segment runs or, as in
 * many kernels, where it is loaded. */
static const Elf64_Phdr *find_first_code(const struct elf_image *image)
{
    uint64_t entry = image->elf.header.e_entry & ~image->machine->state_bit;
    size_t index = elf_segment_of(image, entry, 1);

    if (index != NO_INDEX)
        return &image->phdrs[index];
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && range_within(entry, 1, phdr->p_paddr, phdr->p_filesz))
            return phdr;
    }
    return NULL;
}

/* True if code copies the section before it runs from where it is loaded: that code reads all of
 * it, with what is cut, and memory of some kinds cannot be read where nothing was written. A kernel
 * is copied as a whole, by its loader. */
static bool is_copied(const struct elf_state *state, const Elf64_Shdr *shdr)
{
    const struct elf_image *image = &state->image;
    const Elf64_Phdr *own = &image->phdrs[elf_segment_of(image, shdr->sh_addr, shdr->sh_size)];
    const Elf64_Phdr *first = find_first_code(image);

    return state->is_firmware && own->p_paddr != own->p_vaddr &&
           (first == NULL || own->p_paddr - own->p_vaddr != first->p_paddr - first->p_vaddr);
}

static bool check_claims(struct planning *planning, enum section_kind kind)
{
    struct elf_state *state = state_of(planning);
    size_t index = planning->section_index[kind];
    const Elf64_Shdr *shdr = &state->image.shdrs[index];

    if ((shdr->sh_flags & SHF_ALLOC) == 0 || (shdr->sh_flags & (SHF_TLS | SHF_EXECINSTR)) != 0 ||
        !elf_is_where_loaded(shdr, state->image.phdrs, state->image.phnum))
        return image_plan_keep(planning->plan, kind, "it is not loaded as covsplit expects");
    if (is_copied(state, shdr))
        return image_plan_keep(planning->plan, kind,
                               "the image copies it from flash to RAM when it starts; let the "
                               "linker script leave it in flash");
    if (!is_alone(state, kind))
        return false;
    return elf_retained_is_known(&state->image) ||
           image_plan_keep(planning->plan, kind,
                           "the image has retained relocations in a form that covsplit does not "
                           "know; link without --emit-relocs");
}

static bool check_first_record(struct planning *planning)
{
    size_t index = planning->section_index[SECTION_DATA];

    return index != NO_INDEX &&
           elf_is_where_loaded(&image_of(planning)->shdrs[index], image_of(planning)->phdrs,
                               image_of(planning)->phnum) &&
           is_alone(state_of(planning), SECTION_DATA);
}

const struct format elf_format = {
    .name = "ELF",
    .id = IMAGE_ELF,
    .state_size = sizeof(struct elf_state),
    .code =
        {
            .folding_advice = "link without --icf=all",
            .missing_advice = "its profile runtime was inlined, or is not LLVM's; link without LTO "
                              "of the runtime",
            .code_of = code_of,
            .part_at = part_at,
            .is_no_distance = is_no_distance,
            .is_start_of_section = is_start_of_section,
            .slot_value = elf_slot_value,
            .find_pointer = elf_find_pointer,
            .means_other_end = elf_means_other_end,
            .next_symbol = elf_functions_next,
        },
    .recognize = recognize,
    .is_linked = is_linked,
    .outline = elf_outline,
    .open = open_image,
    .close = close_image,
    .describe = describe,
    .section_name = section_kind_name,
    .find_section = find_section,
    .describe_section = describe_section,
    .is_remnant = is_remnant,
    .remnant_of = remnant_of,
    .find_symbols = find_symbols,
    .bytes_at = bytes_at,
    .check_section = check_section,
    .check_known = check_known,
    .check_claims = check_claims,
    .check_first_record = check_first_record,
    .settle_relocations = elf_settle_relocations,
    .moves_names = true,
    .layout = elf_layout,
    .write = elf_write,
    .replace_mapping = elf_replace_mapping,
};
