/*
 * Reading and checking the tables of an ELF image: see elf.h.
 *
 * Tables with an entry for each symbol or pointer are read in place, field by field, which cannot
 * fail.
 */
#include <string.h>

#include "formats/elf/elf.h"

/* No real image has more: linkers make a few dozen of each, and all of them are copied. */
#define SECTIONS_MAX 262144
#define SEGMENTS_MAX 1024
/* The number of sections that may share a byte of the file, on average. */
#define SECTION_OVERLAP_MAX 4
/* The most entries of .dynamic. */
#define DYNAMIC_MAX 65536

/* LIEF 0.9 reads no more sections, and no more entries of .dynamic. */
#define OUTLINED_SECTIONS 10000
#define OUTLINED_DYNAMIC  1000

static bool refuse(const struct elf_image *image, struct error *error, const char *what)
{
    return error_set(error, "%s: damaged ELF image: %s; link it again", image->path, what);
}

static bool check_header(const struct elf_image *image, struct error *error)
{
    const Elf64_Ehdr *ehdr = &image->elf.header;

    if (image->machine == NULL || image->machine->relocations == NULL)
        return error_set(error,
                         "%s: an ELF image for a machine that covsplit does not know (class %u, "
                         "data %u, machine %u); this version cannot split it",
                         image->path, ehdr->e_ident[EI_CLASS], ehdr->e_ident[EI_DATA],
                         ehdr->e_machine);
    if (ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN)
        return error_set(error,
                         "%s: an ELF file of type %u, not a linked image; name an executable or "
                         "a shared library",
                         image->path, ehdr->e_type);
    if (ehdr->e_ehsize != image->sizes.ehdr)
        return refuse(image, error, "e_ehsize is wrong");
    if (ehdr->e_phnum == 0 || ehdr->e_phentsize != image->sizes.phdr ||
        ehdr->e_phoff % image->sizes.word != 0)
        return refuse(image, error, "its program header table is missing or malformed");
    if (ehdr->e_shoff == 0)
        return error_set(error,
                         "%s: the image has no section headers; run covsplit before they are "
                         "removed",
                         image->path);
    return (ehdr->e_shentsize == image->sizes.shdr &&
            range_within(ehdr->e_shoff, image->sizes.shdr, 0, image->elf.bytes.size)) ||
           refuse(image, error, "its section header table is malformed");
}

static bool read_tables(struct elf_image *image, struct error *error)
{
    struct elf_file *elf = &image->elf;

    if (!elf_file_find_segments(elf) || elf->segment_count == 0 ||
        elf->segment_count > SEGMENTS_MAX)
        return refuse(image, error, "its program header table is not inside the file");
    if (!elf_file_find_sections(elf) || elf->section_count == 0 ||
        elf->section_count > SECTIONS_MAX)
        return refuse(image, error, "its section header table is not inside the file");
    image->phnum = (size_t)elf->segment_count;
    image->shnum = (size_t)elf->section_count;
    image->phdrs = arena_array(&image->memory, image->phnum, sizeof(*image->phdrs));
    image->shdrs = arena_array(&image->memory, image->shnum, sizeof(*image->shdrs));
    if (image->memory.failed)
        return error_out_of_memory(error, image->path, image->shnum * sizeof(*image->shdrs));
    for (size_t i = 0; i < image->phnum; i++)
        image->phdrs[i] = elf_file_segment(elf, i);
    for (size_t i = 0; i < image->shnum; i++)
        image->shdrs[i] = elf_file_section(elf, i);
    return true;
}

bool elf_is_debug_file(struct elf_file *elf)
{
    bool is_any = false;

    if (!elf_file_find_sections(elf) || elf->section_count > SECTIONS_MAX)
        return false;
    for (uint64_t i = 1; i < elf->section_count; i++) {
        Elf64_Shdr shdr = elf_file_section(elf, i);

        if ((shdr.sh_flags & SHF_ALLOC) == 0 || shdr.sh_type == SHT_NOTE || shdr.sh_size == 0)
            continue;
        if (elf_section_in_file(&shdr))
            return false;
        is_any = true;
    }
    return is_any;
}

bool elf_segment_is_aligned(const Elf64_Phdr *phdr)
{
    return phdr->p_align <= 1 ||
           (is_power_of_two(phdr->p_align) &&
            (phdr->p_filesz == 0 || (phdr->p_vaddr - phdr->p_offset) % phdr->p_align == 0));
}

bool elf_segments_are_apart(const struct elf_image *image, const Elf64_Phdr *phdrs, size_t count)
{
    uint64_t highest = 0;

    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *phdr = &phdrs[i];

        if (phdr->p_type != PT_LOAD)
            continue;
        if (phdr->p_vaddr < highest && image->elf.header.e_type != ET_EXEC)
            return false;
        for (size_t j = 0; j < i && phdr->p_vaddr < highest; j++) {
            if (phdrs[j].p_type == PT_LOAD &&
                ranges_overlap(phdr->p_vaddr, phdr->p_memsz, phdrs[j].p_vaddr, phdrs[j].p_memsz))
                return false;
        }
        if (phdr->p_vaddr + phdr->p_memsz > highest)
            highest = phdr->p_vaddr + phdr->p_memsz;
    }
    return true;
}

static bool check_contents(struct elf_image *image, struct error *error)
{
    return !elf_is_debug_file(&image->elf) ||
           error_set(error,
                     "%s: a separate debug file, which has neither code nor data; name the image "
                     "that it is of",
                     image->path);
}

static bool check_segments(const struct elf_image *image, struct error *error)
{
    bool is_loadable = false;
    uint64_t end;

    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        if (!range_within(phdr->p_offset, phdr->p_filesz, 0, image->elf.bytes.size) ||
            !add_fits(phdr->p_vaddr, phdr->p_memsz, &end))
            return refuse(image, error, "a segment is not inside the file");
        if (phdr->p_type != PT_LOAD)
            continue;
        if (phdr->p_filesz > phdr->p_memsz || (!image->elf.wide && end > UINT32_MAX))
            return refuse(image, error, "a segment has a wrong size");
        if (end > INT64_MAX)
            return error_set(error,
                             "%s: runs in the upper half of the address space, as 64-bit kernels "
                             "do, which covsplit cannot split; merge its full profiles instead",
                             image->path);
        if (!elf_segment_is_aligned(phdr))
            return refuse(image, error, "a segment is not aligned");
        is_loadable = true;
    }
    if (!is_loadable)
        return refuse(image, error, "it has no loadable segment");
    return elf_segments_are_apart(image, image->phdrs, image->phnum) ||
           error_set(error,
                     "%s: its segments overlap in memory or are out of order, as -Ttext and linker "
                     "scripts make them; link it with one page, or more, between them",
                     image->path);
}

bool elf_section_in_file(const Elf64_Shdr *shdr)
{
    return shdr->sh_type != SHT_NOBITS && shdr->sh_type != SHT_NULL && shdr->sh_size != 0;
}

static bool check_sections(struct elf_image *image, struct error *error)
{
    size_t names = (size_t)image->elf.names;
    uint64_t end, total = 0;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (!add_fits(shdr->sh_addr, shdr->sh_size, &end))
            return refuse(image, error, "a section has a wrong size");
        if (elf_section_in_file(shdr) &&
            !range_within(shdr->sh_offset, shdr->sh_size, 0, image->elf.bytes.size))
            return refuse(image, error, "a section is not inside the file");
        if (shdr->sh_addralign > 1 && !is_power_of_two(shdr->sh_addralign))
            return refuse(image, error, "a section has an alignment that is not a power of two");
        /* Sections of sound images share no bytes. Some overlap is tolerated, but not so much that
         * reading all sections would take much longer than reading the file. */
        total += elf_section_in_file(shdr) ? shdr->sh_size : 0;
        if (total / SECTION_OVERLAP_MAX > image->elf.bytes.size)
            return refuse(image, error, "its sections overlap");
    }
    if (names == 0 || image->shdrs[names].sh_type != SHT_STRTAB)
        return refuse(image, error, "its section names cannot be found");
    image->section_names = elf_section_bytes(image, names);
    return true;
}

static bool read_dynamic(struct elf_image *image, struct error *error)
{
    const Elf64_Phdr *phdr = NULL;
    uint64_t count;

    for (size_t i = 0; i < image->phnum; i++) {
        if (image->phdrs[i].p_type != PT_DYNAMIC)
            continue;
        if (phdr != NULL)
            return refuse(image, error, "it has two dynamic segments");
        phdr = &image->phdrs[i];
    }
    if (phdr == NULL)
        return true;
    image->dynamic_offset = phdr->p_offset;
    count = phdr->p_filesz / image->sizes.dyn;
    if (count == 0 || count > DYNAMIC_MAX || phdr->p_offset % image->sizes.word != 0)
        return refuse(image, error, "its dynamic segment is malformed");
    image->dynamic = arena_array(&image->memory, (size_t)count, sizeof(*image->dynamic));
    if (image->dynamic == NULL)
        return error_out_of_memory(error, image->path, count * sizeof(*image->dynamic));
    while (image->dynamic_count < count) {
        Elf64_Dyn *entry = &image->dynamic[image->dynamic_count++];

        elf_load(&elf_dyn, elf_form(image), image->elf.bytes,
                 phdr->p_offset + (image->dynamic_count - 1) * image->sizes.dyn, entry);
        if (entry->d_tag == DT_NULL)
            return true;
    }
    return refuse(image, error, "its dynamic segment has no end");
}

bool elf_image_open(struct elf_image *image, const struct input *input, struct error *error)
{
    const unsigned char *ident = image->elf.header.e_ident;
    bool wide;

    *image = (struct elf_image){.input = input, .path = input->path};
    if (input->bytes.size < sizeof(Elf32_Ehdr))
        return refuse(image, error, "the file is cut short");
    if (!elf_file_open(&image->elf, input->bytes))
        return refuse(image, error, "its ELF header is malformed");
    wide = image->elf.wide;
    image->machine = machine_find(image->elf.header.e_machine, ident[EI_CLASS], ident[EI_DATA]);
    image->sizes = (struct elf_sizes){.ehdr = ELF_SIZE(wide, Ehdr),
                                      .phdr = ELF_SIZE(wide, Phdr),
                                      .shdr = ELF_SIZE(wide, Shdr),
                                      .sym = ELF_SIZE(wide, Sym),
                                      .dyn = ELF_SIZE(wide, Dyn),
                                      .rel = ELF_SIZE(wide, Rel),
                                      .rela = ELF_SIZE(wide, Rela),
                                      .word = ELF_SIZE(wide, Addr)};
    if (check_header(image, error) && read_tables(image, error) && check_contents(image, error) &&
        check_segments(image, error) && check_sections(image, error) && read_dynamic(image, error))
        return true;
    elf_image_close(image);
    return false;
}

void elf_image_close(struct elf_image *image)
{
    arena_free(&image->memory);
    *image = (struct elf_image){0};
}

/* ---- sections ---- */

const char *elf_section_name(const struct elf_image *image, size_t index)
{
    const char *name = elf_text_at(image->section_names, image->shdrs[index].sh_name);

    return name != NULL ? name : "";
}

size_t elf_section_find(const struct elf_image *image, const char *name, size_t after)
{
    for (size_t i = after + 1; i < image->shnum; i++) {
        if (strcmp(elf_section_name(image, i), name) == 0)
            return i;
    }
    return NO_INDEX;
}

struct bytes elf_section_bytes(const struct elf_image *image, size_t index)
{
    struct bytes bytes;

    elf_file_contents(&image->elf, &image->shdrs[index], &bytes);
    return bytes;
}

size_t elf_stub_size(const struct elf_image *image, size_t index)
{
    size_t before = elf_section_find(image, section_kind_name(SECTION_COUNTERS), 0);
    const Elf64_Shdr *data = &image->shdrs[index];
    const Elf64_Shdr *counters = before == NO_INDEX ? NULL : &image->shdrs[before];
    struct bytes stub;

    if (data->sh_size == 0 || data->sh_entsize == 0)
        return 0;
    if (data->sh_entsize == data->sh_size)
        return (size_t)data->sh_size;
    if (data->sh_entsize != ELF_STUB_UNIT || counters == NULL || counters->sh_type != SHT_NOBITS ||
        counters->sh_addr + counters->sh_size != data->sh_addr)
        return 0;
    for (unsigned version = PROFILE_VERSION_MIN; version <= PROFILE_VERSION_MAX; version++) {
        struct profile_record_layout layout;
        uint64_t size = counters->sh_size + data->sh_size;

        if (profile_record_layout(version, image->sizes.word, &layout) &&
            data->sh_size >= layout.record_size &&
            bytes_slice(image->elf.bytes, data->sh_offset + data->sh_size - layout.record_size,
                        layout.record_size, &stub) &&
            load_u32(stub.data + layout.num_counters, image->machine->big_endian) *
                    sizeof(uint64_t) ==
                size - layout.record_size)
            return layout.record_size;
    }
    return 0;
}

void elf_section_place(const struct elf_image *image, size_t index, enum section_kind kind,
                       uint64_t *address, uint64_t *size)
{
    const Elf64_Shdr *shdr = &image->shdrs[index];
    size_t data = elf_section_find(image, section_kind_name(SECTION_DATA), 0);
    size_t stub = data == NO_INDEX ? 0 : elf_stub_size(image, data);

    *address = shdr->sh_addr;
    *size = shdr->sh_size;
    if (kind == SECTION_DATA && stub != 0) {
        *address += *size - stub;
        *size = stub;
    }
    if (kind == SECTION_COUNTERS && stub != 0 && shdr->sh_type == SHT_NOBITS &&
        image->shdrs[data].sh_addr == shdr->sh_addr + shdr->sh_size)
        *size += image->shdrs[data].sh_size - stub;
}

uint64_t elf_next_in_file(const struct elf_image *image, uint64_t offset)
{
    const Elf64_Ehdr *ehdr = &image->elf.header;
    uint64_t next = ehdr->e_shoff >= offset ? ehdr->e_shoff : image->elf.bytes.size;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (elf_section_in_file(shdr) && shdr->sh_offset >= offset && shdr->sh_offset < next)
            next = shdr->sh_offset;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        if (phdr->p_filesz != 0 && phdr->p_offset >= offset && phdr->p_offset < next)
            next = phdr->p_offset;
    }
    return next;
}

const char *elf_why_shared(const struct elf_image *image, size_t section, const char **name)
{
    const Elf64_Ehdr *ehdr = &image->elf.header;
    const Elf64_Shdr *shdr = &image->shdrs[section];
    uint64_t offset = shdr->sh_offset, size = shdr->sh_size;
    bool loaded = (shdr->sh_flags & SHF_ALLOC) != 0;

    if (ranges_overlap(offset, size, 0, image->sizes.ehdr) ||
        ranges_overlap(offset, size, ehdr->e_phoff, image->phnum * image->sizes.phdr) ||
        ranges_overlap(offset, size, ehdr->e_shoff, image->shnum * image->sizes.shdr))
        return "it overlaps the image's headers";
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *other = &image->shdrs[i];

        if (i != section &&
            ((elf_section_in_file(other) &&
              ranges_overlap(offset, size, other->sh_offset, other->sh_size)) ||
             (loaded && (other->sh_flags & SHF_ALLOC) != 0 && (other->sh_flags & SHF_TLS) == 0 &&
              ranges_overlap(shdr->sh_addr, size, other->sh_addr, other->sh_size)))) {
            *name = elf_section_name(image, i);
            return "it overlaps the section ";
        }
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        bool may_hold_it = loaded && (phdr->p_type == PT_LOAD || phdr->p_type == PT_GNU_RELRO);

        if (!may_hold_it && ranges_overlap(offset, size, phdr->p_offset, phdr->p_filesz))
            return "a segment that covsplit does not know holds it";
    }
    return NULL;
}

/* ---- segments ---- */

size_t elf_segment_of(const struct elf_image *image, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && range_within(address, size, phdr->p_vaddr, phdr->p_filesz))
            return i;
    }
    return NO_INDEX;
}

bool elf_bytes_at(const struct elf_image *image, uint64_t address, uint64_t size,
                  struct bytes *bytes)
{
    size_t segment = elf_segment_of(image, address, size);
    const Elf64_Phdr *phdr;

    if (segment == NO_INDEX)
        return false;
    phdr = &image->phdrs[segment];
    return bytes_slice(image->elf.bytes, phdr->p_offset + (address - phdr->p_vaddr), size, bytes);
}

bool elf_is_where_loaded(const Elf64_Shdr *shdr, const Elf64_Phdr *phdrs, size_t phnum)
{
    for (size_t i = 0; i < phnum; i++) {
        if (phdrs[i].p_type == PT_LOAD &&
            range_within(shdr->sh_addr, shdr->sh_size, phdrs[i].p_vaddr, phdrs[i].p_filesz) &&
            shdr->sh_addr - phdrs[i].p_vaddr == shdr->sh_offset - phdrs[i].p_offset)
            return true;
    }
    return false;
}

const Elf64_Phdr *elf_first_load(const struct elf_image *image)
{
    const Elf64_Phdr *phdr = image->phdrs;

    while (phdr->p_type != PT_LOAD)
        phdr++;
    return phdr;
}

uint64_t elf_header_base(const struct elf_image *image)
{
    const Elf64_Phdr *first = elf_first_load(image);

    return first->p_vaddr - first->p_offset;
}

bool elf_check_tail(const struct elf_image *image, struct error *error)
{
    uint64_t end = image->elf.header.e_shoff + image->shnum * image->sizes.shdr;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset + shdr->sh_size > end)
            end = shdr->sh_offset + shdr->sh_size;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_offset + phdr->p_filesz > end)
            end = phdr->p_offset + phdr->p_filesz;
    }
    return bytes_zero_at(image->elf.bytes, end, image->elf.bytes.size - end) ||
           error_set(error,
                     "%s: data is appended to the image, and may have to stay in its place; "
                     "run covsplit before it is appended",
                     image->path);
}

/* ---- fields ---- */

uint64_t elf_load_word(const struct elf_image *image, const uint8_t *from)
{
    return load_number(from, (unsigned)image->sizes.word, image->machine->big_endian);
}

void elf_store_word(const struct elf_image *image, uint8_t *to, uint64_t value)
{
    store_number(to, value, (unsigned)image->sizes.word, image->machine->big_endian);
}

const Elf64_Dyn *elf_dynamic_find(const struct elf_image *image, Elf64_Sxword tag)
{
    for (size_t i = 0; i < image->dynamic_count; i++) {
        if (image->dynamic[i].d_tag == tag)
            return &image->dynamic[i];
    }
    return NULL;
}

/* ---- the outline ---- */

/* Symbols may be millions, so all of a table are one line. */
static void outline_symbols(const struct elf_image *image, size_t table, struct buffer *outline)
{
    uint64_t count = 0, values = 0, sizes = 0, names = 0;
    struct elf_symbol symbol;
    struct symbol_walk walk;

    elf_symbols_open(image, table, &walk);
    while (elf_symbols_next(image, &walk, &symbol)) {
        struct bytes name = elf_symbol_name(image, &symbol);

        count++;
        values += symbol.st_value ^ symbol.st_info;
        sizes += symbol.st_size;
        for (uint64_t i = 0; i < name.size && name.data[i] != '\0'; i++)
            names = names * 31 + name.data[i];
    }
    outline_append(outline, ELF_SYMBOLS_LINE, count, values, sizes, names);
}

static void outline_tables(const struct elf_image *image, struct buffer *outline)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        outline_append(outline, ELF_SEGMENT_LINE, phdr->p_type, phdr->p_vaddr, phdr->p_memsz,
                       phdr->p_offset, phdr->p_filesz, phdr->p_align, phdr->p_flags);
    }
    for (size_t i = 0; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        outline_append(outline, ELF_SECTION_LINE, elf_section_name(image, i), shdr->sh_addr,
                       shdr->sh_size, shdr->sh_offset, shdr->sh_type, (uint32_t)shdr->sh_flags,
                       shdr->sh_link, shdr->sh_info, shdr->sh_addralign, shdr->sh_entsize);
    }
    for (size_t i = 0; i < image->dynamic_count && i < OUTLINED_DYNAMIC; i++) {
        const Elf64_Dyn *entry = &image->dynamic[i];

        outline_append(outline, ELF_DYNAMIC_LINE, (uint32_t)entry->d_tag, entry->d_un.d_val);
    }
}

bool elf_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    struct elf_image image;
    const Elf64_Ehdr *ehdr = &image.elf.header;

    if (!elf_image_open(&image, input, error))
        return false;
    if (image.shnum <= OUTLINED_SECTIONS) {
        outline_append(outline, ELF_OUTLINE, ehdr->e_type, ehdr->e_machine, ehdr->e_entry,
                       ehdr->e_flags, ehdr->e_phoff, ehdr->e_shoff);
        outline_tables(&image, outline);
        for (size_t i = 1; i < image.shnum; i++) {
            if (image.shdrs[i].sh_type == SHT_SYMTAB)
                outline_symbols(&image, i, outline);
        }
    }
    elf_image_close(&image);
    return !outline->failed || error_out_of_memory(error, input->path, outline->size);
}
