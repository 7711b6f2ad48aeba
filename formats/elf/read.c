/*
 * Reading and checking the tables of an ELF image: see elf/read.h.
 *
 * libelf does the decoding. It trusts some fields of a hostile file too much, so what it is about
 * to follow (table offsets, entry sizes) is checked before it is called. Tables with an entry for
 * each symbol or pointer are read in place, field by field, which cannot fail.
 */
#include "formats/elf/read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/elf_file/encode.h"

/* No real image has more: linkers make a few dozen of each, and all of them are copied. (If there
 * are more than 65,279 sections, the first section header holds their number and the index of
 * .shstrtab.) */
#define SECTIONS_MAX 262144
#define SEGMENTS_MAX 1024
/* How many sections may share a byte of the file, on average. */
#define SECTION_OVERLAP_MAX 4
/* The most bytes of notes: libelf copies those that are not aligned. */
#define NOTES_MAX (UINT64_C(16) << 20)
/* The most entries of .dynamic. */
#define DYNAMIC_MAX 65536

static bool refuse(const struct elf_image *image, struct error *error, const char *what)
{
    return error_set(error, "%s: damaged ELF image: %s; link it again", image->path, what);
}

/* Reports a failed call of libelf. Everything in the file that it looks at was either checked
 * before or is checked by libelf. It only gives a message; but errno tells a failed allocation,
 * which is not the image's fault. */
static bool libelf_failed(const struct elf_image *image, struct error *error)
{
    return errno == ENOMEM ? error_out_of_memory(error, image->path, image->file.size)
                           : refuse(image, error, elf_errmsg(-1));
}

static bool check_header(const struct elf_image *image, struct error *error)
{
    const GElf_Ehdr *ehdr = &image->ehdr;

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
    if (ehdr->e_shentsize != image->sizes.shdr || ehdr->e_shoff % image->sizes.word != 0 ||
        !range_within(ehdr->e_shoff, image->sizes.shdr, 0, image->file.size))
        return refuse(image, error, "its section header table is malformed");
    return true;
}

static bool read_tables(struct elf_image *image, struct error *error)
{
    if (elf_getphdrnum(image->elf, &image->phnum) != 0 ||
        elf_getshdrnum(image->elf, &image->shnum) != 0)
        return libelf_failed(image, error);
    if (image->phnum == 0 || image->phnum > SEGMENTS_MAX ||
        !range_within(image->ehdr.e_phoff, image->phnum * image->sizes.phdr, 0, image->file.size))
        return refuse(image, error, "its program header table is not inside the file");
    if (image->shnum == 0 || image->shnum > SECTIONS_MAX ||
        !range_within(image->ehdr.e_shoff, image->shnum * image->sizes.shdr, 0, image->file.size))
        return refuse(image, error, "its section header table is not inside the file");
    image->phdrs = calloc(image->phnum, sizeof(*image->phdrs));
    image->shdrs = calloc(image->shnum, sizeof(*image->shdrs));
    if (image->phdrs == NULL || image->shdrs == NULL)
        return error_out_of_memory(error, image->path, image->shnum * sizeof(*image->shdrs));
    for (size_t i = 0; i < image->phnum; i++) {
        if (gelf_getphdr(image->elf, (int)i, &image->phdrs[i]) == NULL)
            return libelf_failed(image, error);
    }
    for (size_t i = 0; i < image->shnum; i++) {
        Elf_Scn *section = elf_getscn(image->elf, i);
        if (section == NULL || gelf_getshdr(section, &image->shdrs[i]) == NULL)
            return libelf_failed(image, error);
    }
    return true;
}

bool elf_segment_is_aligned(const GElf_Phdr *phdr)
{
    return phdr->p_align <= 1 ||
           (is_power_of_two(phdr->p_align) &&
            (phdr->p_filesz == 0 || (phdr->p_vaddr - phdr->p_offset) % phdr->p_align == 0));
}

static bool is_apart_from(const GElf_Phdr *phdr, const GElf_Phdr *others, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (others[i].p_type == PT_LOAD &&
            ranges_overlap(phdr->p_vaddr, phdr->p_memsz, others[i].p_vaddr, others[i].p_memsz))
            return false;
    }
    return true;
}

bool elf_segments_are_apart(const struct elf_image *image, const GElf_Phdr *phdrs, size_t count)
{
    uint64_t highest = 0;

    for (size_t i = 0; i < count; i++) {
        const GElf_Phdr *phdr = &phdrs[i];

        if (phdr->p_type != PT_LOAD)
            continue;
        if (phdr->p_vaddr < highest &&
            (image->ehdr.e_type != ET_EXEC || !is_apart_from(phdr, phdrs, i)))
            return false;
        if (phdr->p_vaddr + phdr->p_memsz > highest)
            highest = phdr->p_vaddr + phdr->p_memsz;
    }
    return true;
}

static bool check_segments(const struct elf_image *image, struct error *error)
{
    bool is_loadable = false;
    uint64_t end;

    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];

        if (!range_within(phdr->p_offset, phdr->p_filesz, 0, image->file.size) ||
            !add_fits(phdr->p_vaddr, phdr->p_memsz, &end))
            return refuse(image, error, "a segment is not inside the file");
        if (phdr->p_type != PT_LOAD)
            continue;
        if (phdr->p_filesz > phdr->p_memsz || (image->sizes.word == 4 && end > UINT32_MAX))
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
           refuse(image, error, "its segments overlap or are out of order");
}

bool elf_section_in_file(const GElf_Shdr *shdr)
{
    return shdr->sh_type != SHT_NOBITS && shdr->sh_type != SHT_NULL && shdr->sh_size != 0;
}

static bool check_sections(struct elf_image *image, struct error *error)
{
    size_t names;
    uint64_t end, total = 0;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];

        if (!add_fits(shdr->sh_addr, shdr->sh_size, &end))
            return refuse(image, error, "a section has a wrong size");
        if (elf_section_in_file(shdr) &&
            !range_within(shdr->sh_offset, shdr->sh_size, 0, image->file.size))
            return refuse(image, error, "a section is not inside the file");
        if (shdr->sh_addralign > 1 && !is_power_of_two(shdr->sh_addralign))
            return refuse(image, error, "a section has an alignment that is not a power of two");
        /* Sections of sound images share no bytes. Some overlap is tolerated, but not so much that
         * reading all sections would take much longer than reading the file. */
        total += elf_section_in_file(shdr) ? shdr->sh_size : 0;
        if (total / SECTION_OVERLAP_MAX > image->file.size)
            return refuse(image, error, "its sections overlap");
    }
    if (elf_getshdrstrndx(image->elf, &names) != 0 || names == 0 || names >= image->shnum ||
        image->shdrs[names].sh_type != SHT_STRTAB)
        return refuse(image, error, "its section names cannot be found");
    image->section_names = elf_section_bytes(image, names);
    return true;
}

static bool read_dynamic(struct elf_image *image, struct error *error)
{
    const GElf_Phdr *phdr = NULL;
    Elf_Data *data;
    size_t dyn = image->sizes.dyn;
    uint64_t size;

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
    size = phdr->p_filesz - phdr->p_filesz % dyn;
    if (size == 0 || size / dyn > DYNAMIC_MAX || phdr->p_offset % image->sizes.word != 0)
        return refuse(image, error, "its dynamic segment is malformed");
    data = elf_getdata_rawchunk(image->elf, (int64_t)phdr->p_offset, (size_t)size, ELF_T_DYN);
    image->dynamic = calloc((size_t)size / dyn, sizeof(*image->dynamic));
    if (data == NULL || image->dynamic == NULL)
        return error_out_of_memory(error, image->path, size);
    for (size_t i = 0; i < size / dyn; i++) {
        if (gelf_getdyn(data, (int)i, &image->dynamic[i]) == NULL)
            return libelf_failed(image, error);
        image->dynamic_count = i + 1;
        if (image->dynamic[i].d_tag == DT_NULL)
            return true;
    }
    return refuse(image, error, "its dynamic segment has no end");
}

static struct elf_sizes sizes_of(uint8_t elf_class)
{
    return (struct elf_sizes){
        .ehdr = elf_encoded_size(elf_class, ELF_T_EHDR),
        .phdr = elf_encoded_size(elf_class, ELF_T_PHDR),
        .shdr = elf_encoded_size(elf_class, ELF_T_SHDR),
        .sym = elf_encoded_size(elf_class, ELF_T_SYM),
        .dyn = elf_encoded_size(elf_class, ELF_T_DYN),
        .rel = elf_encoded_size(elf_class, ELF_T_REL),
        .rela = elf_encoded_size(elf_class, ELF_T_RELA),
        .word = elf_encoded_size(elf_class, ELF_T_ADDR),
    };
}

bool elf_image_open(struct elf_image *image, const struct input *input, struct error *error)
{
    *image = (struct elf_image){.input = input, .path = input->path, .file = input->bytes};
    if (elf_version(EV_CURRENT) == EV_NONE)
        return error_set(error, "%s: libelf is too old: %s", input->path, elf_errmsg(-1));
    if (input->bytes.size < sizeof(Elf32_Ehdr))
        return error_set(error, "%s: damaged ELF image: the file is cut short; link it again",
                         input->path);
    errno = 0; /* for libelf_failed */
    image->elf = elf_memory((char *)(uintptr_t)image->file.data, (size_t)image->file.size);
    if (image->elf == NULL || gelf_getehdr(image->elf, &image->ehdr) == NULL) {
        libelf_failed(image, error);
        elf_image_close(image);
        return false;
    }
    image->machine = machine_find(image->ehdr.e_machine, image->ehdr.e_ident[EI_CLASS],
                                  image->ehdr.e_ident[EI_DATA]);
    image->sizes = sizes_of(image->ehdr.e_ident[EI_CLASS]);
    if (!check_header(image, error) || !read_tables(image, error) ||
        !check_segments(image, error) || !check_sections(image, error) ||
        !read_dynamic(image, error)) {
        elf_image_close(image);
        return false;
    }
    return true;
}

void elf_image_close(struct elf_image *image)
{
    free(image->phdrs);
    free(image->shdrs);
    free(image->dynamic);
    if (image->elf != NULL)
        elf_end(image->elf);
    *image = (struct elf_image){0};
}

/* ---- lookups ---- */

const char *elf_section_name(const struct elf_image *image, size_t index)
{
    uint64_t offset = image->shdrs[index].sh_name;

    if (offset >= image->section_names.size ||
        memchr(image->section_names.data + offset, '\0',
               (size_t)(image->section_names.size - offset)) == NULL)
        return "";
    return (const char *)image->section_names.data + offset;
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
    struct bytes bytes = {0};
    const GElf_Shdr *shdr = &image->shdrs[index];

    if (elf_section_in_file(shdr))
        bytes_slice(image->file, shdr->sh_offset, shdr->sh_size, &bytes);
    return bytes;
}

size_t elf_segment_of(const struct elf_image *image, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && range_within(address, size, phdr->p_vaddr, phdr->p_filesz))
            return i;
    }
    return NO_INDEX;
}

bool elf_bytes_at(const struct elf_image *image, uint64_t address, uint64_t size,
                  struct bytes *bytes)
{
    size_t segment = elf_segment_of(image, address, size);
    const GElf_Phdr *phdr;

    if (segment == NO_INDEX)
        return false;
    phdr = &image->phdrs[segment];
    return bytes_slice(image->file, phdr->p_offset + (address - phdr->p_vaddr), size, bytes);
}

uint64_t elf_load_word(const struct elf_image *image, const uint8_t *from)
{
    bool big_endian = image->machine->big_endian;

    return image->sizes.word == 8 ? load_u64(from, big_endian) : load_u32(from, big_endian);
}

void elf_store_word(const struct elf_image *image, uint8_t *to, uint64_t value)
{
    if (image->sizes.word == 8)
        store_u64(to, value, image->machine->big_endian);
    else
        store_u32(to, (uint32_t)value, image->machine->big_endian);
}

/* The offset of a member that the structure has in both classes. */
#define OFFSET_IN(image, Kind, member)                                                             \
    ((image)->sizes.word == 8 ? offsetof(Elf64_##Kind, member) : offsetof(Elf32_##Kind, member))

GElf_Sym elf_load_symbol(const struct elf_image *image, const uint8_t *entry)
{
    bool big_endian = image->machine->big_endian;

    return (GElf_Sym){
        .st_name = load_u32(entry + OFFSET_IN(image, Sym, st_name), big_endian),
        .st_info = entry[OFFSET_IN(image, Sym, st_info)],
        .st_other = entry[OFFSET_IN(image, Sym, st_other)],
        .st_shndx = load_u16(entry + OFFSET_IN(image, Sym, st_shndx), big_endian),
        .st_value = elf_load_word(image, entry + OFFSET_IN(image, Sym, st_value)),
        .st_size = elf_load_word(image, entry + OFFSET_IN(image, Sym, st_size)),
    };
}

size_t elf_symbol_value_offset(const struct elf_image *image)
{
    return OFFSET_IN(image, Sym, st_value);
}

const GElf_Dyn *elf_dynamic_find(const struct elf_image *image, GElf_Sxword tag)
{
    for (size_t i = 0; i < image->dynamic_count; i++) {
        if (image->dynamic[i].d_tag == tag)
            return &image->dynamic[i];
    }
    return NULL;
}

/* Systems map whole pages of the file, at the addresses in p_vaddr. */
static bool cannot_be_mapped(const struct elf_image *image, const GElf_Phdr *phdr)
{
    return phdr->p_filesz != 0 &&
           (phdr->p_paddr != phdr->p_vaddr ||
            (phdr->p_vaddr - phdr->p_offset) % image->machine->page_size != 0);
}

bool elf_is_firmware(const struct elf_image *image)
{
    uint64_t headers_end = image->ehdr.e_phoff + image->phnum * image->sizes.phdr;
    bool is_mapped = true;

    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];

        if (phdr->p_type == PT_INTERP || phdr->p_type == PT_DYNAMIC || phdr->p_type == PT_PHDR ||
            (phdr->p_type == PT_LOAD &&
             ranges_overlap(phdr->p_offset, phdr->p_filesz, 0, headers_end)))
            return false;
        is_mapped &= phdr->p_type != PT_LOAD || !cannot_be_mapped(image, phdr);
    }
    return image->ehdr.e_type == ET_EXEC && !is_mapped;
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

bool elf_check_tail(const struct elf_image *image, struct error *error)
{
    uint64_t end = image->ehdr.e_shoff + image->shnum * image->sizes.shdr;
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
                         "%s: data is appended to the image, and may have to stay in its place; "
                         "run covsplit before it is appended",
                         image->path);
    return true;
}

/* ---- build ID ---- */

/* Reads the notes of one chunk of the file. */
static bool read_build_id(const struct elf_image *image, uint64_t offset, uint64_t size,
                          uint64_t alignment, struct uuid *uuid, struct error *error)
{
    /* ELF_T_NHDR8 means that descriptors are padded to 8 bytes, as in .note.gnu.property. */
    Elf_Data *data = elf_getdata_rawchunk(image->elf, (int64_t)offset, (size_t)size,
                                          alignment == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    size_t position = 0, name_offset, descriptor_offset;
    GElf_Nhdr note;

    /* The chunk is inside the file, so only memory can have run out. */
    if (data == NULL)
        return error_out_of_memory(error, image->path, size);
    while ((position = gelf_getnote(data, position, &note, &name_offset, &descriptor_offset)) !=
           0) {
        struct uuid found = {.size = note.n_descsz};

        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            memcmp((const char *)data->d_buf + name_offset, "GNU", 4) != 0 || note.n_descsz == 0)
            continue;
        if (note.n_descsz > UUID_SIZE_MAX)
            return error_set(error,
                             "%s: the build ID has %" PRIu32
                             " bytes, and covsplit takes at most %d; link with --build-id=sha1",
                             image->path, note.n_descsz, UUID_SIZE_MAX);
        memcpy(found.bytes, (const char *)data->d_buf + descriptor_offset, found.size);
        if (uuid->size != 0 && !uuid_equal(uuid, &found))
            return error_set(error, "%s: the image has two build IDs that differ; link it again",
                             image->path);
        *uuid = found;
    }
    return true;
}

bool elf_build_id(const struct elf_image *image, struct uuid *uuid, struct error *error)
{
    uint64_t total = 0;

    *uuid = (struct uuid){.size = 0};
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];

        total += phdr->p_type == PT_NOTE ? phdr->p_filesz : 0;
        if (total > NOTES_MAX)
            return refuse(image, error, "its notes are too large");
        if (phdr->p_type == PT_NOTE && phdr->p_filesz != 0 &&
            !read_build_id(image, phdr->p_offset, phdr->p_filesz, phdr->p_align, uuid, error))
            return false;
    }
    return true;
}
