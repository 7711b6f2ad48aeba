/*
 * Finds zeros beside the stub record that need not be in the file.
 *
 * The counters, the bitmap and the pool of value nodes of the profile runtime are in sections of
 * type SHT_PROGBITS, although they are zeros at the start of the program. Linkers put them around
 * the records, of which a split leaves the stub:
 *
 *     .data  bitmap  counters  records  value nodes  (.got.plt)  .bss
 *
 * So there are zeros before the stub and behind it. A loader makes zeros of whatever memory of a
 * segment is not in the file (p_filesz < p_memsz), so the segment is split where the zeros end and
 * bytes follow, which is at a border of pages. Where nothing but zeros follows, it only gets a
 * smaller p_filesz.
 *
 * Sections become SHT_NOBITS, so that tools which write the image again keep the memory. The page
 * with the stub begins with the last counters: their section ends before that page, and the section
 * of the stub starts with it. The last value nodes may share a page with what follows. Nothing uses
 * these nodes if no record has value sites, so no section needs to have them.
 */
#include "formats/elf/elf.h"

#include <string.h>

/* Where the search for neighbours of the records ends. */
struct zero_run {
    size_t sections[ELF_EMPTIED_MAX]; /* those of the runtime, nearest to the records first */
    size_t count;
    uint64_t start, end; /* addresses */
    bool is_last;        /* nothing else of the segment follows in the file */
};

/* The section in memory that is nearest to the address: the last one that starts before it, or the
 * first one that starts there or behind it. */
static size_t find_neighbour(const struct elf_image *image, uint64_t address, bool is_before)
{
    size_t nearest = NO_INDEX;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_ALLOC) == 0 || shdr->sh_size == 0 ||
            (shdr->sh_type == SHT_NOBITS && (shdr->sh_flags & SHF_TLS) != 0) ||
            (shdr->sh_addr < address) != is_before)
            continue;
        if (nearest == NO_INDEX || (shdr->sh_addr < image->shdrs[nearest].sh_addr) != is_before)
            nearest = i;
    }
    return nearest;
}

/* True for a section of the runtime in the segment that may become SHT_NOBITS. */
static bool may_be_emptied(const struct elf_image *image, size_t segment, size_t index)
{
    static const char *const names[] = {"__llvm_prf_bits", "__llvm_prf_cnts", "__llvm_prf_vnds"};
    const Elf64_Shdr *shdr = &image->shdrs[index];
    const Elf64_Phdr *phdr = &image->phdrs[segment];
    bool has_name = false;
    struct bytes bytes;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        has_name |= strcmp(elf_section_name(image, index), names[i]) == 0;
    return has_name && shdr->sh_type == SHT_PROGBITS &&
           (shdr->sh_flags & (SHF_WRITE | SHF_TLS | SHF_EXECINSTR | SHF_COMPRESSED)) == SHF_WRITE &&
           range_within(shdr->sh_addr, shdr->sh_size, phdr->p_vaddr, phdr->p_filesz) &&
           shdr->sh_addr - phdr->p_vaddr == shdr->sh_offset - phdr->p_offset &&
           elf_bytes_at(image, shdr->sh_addr, shdr->sh_size, &bytes) && bytes_all_zero(bytes);
}

static bool are_zeros(const struct elf_image *image, uint64_t start, uint64_t end)
{
    struct bytes bytes;

    return start == end || (start < end && elf_bytes_at(image, start, end - start, &bytes) &&
                            bytes_all_zero(bytes));
}

/* Adds the sections of the runtime before or behind [start, end) to the run. What is between them
 * must be zeros, too. */
static void extend(const struct elf_image *image, size_t segment, bool is_before,
                   struct zero_run *run)
{
    const Elf64_Phdr *phdr = &image->phdrs[segment];

    while (run->count < ELF_EMPTIED_MAX) {
        size_t index = find_neighbour(image, is_before ? run->start : run->end, is_before);
        const Elf64_Shdr *shdr = index == NO_INDEX ? NULL : &image->shdrs[index];

        run->is_last = !is_before && (shdr == NULL || shdr->sh_type == SHT_NOBITS ||
                                      shdr->sh_addr >= phdr->p_vaddr + phdr->p_filesz);
        if (run->is_last || shdr == NULL || !may_be_emptied(image, segment, index) ||
            !(is_before ? are_zeros(image, shdr->sh_addr + shdr->sh_size, run->start)
                        : are_zeros(image, run->end, shdr->sh_addr)))
            break;
        run->sections[run->count++] = index;
        if (is_before)
            run->start = shdr->sh_addr;
        else
            run->end = shdr->sh_addr + shdr->sh_size;
    }
}

static void empty(struct elf_hole *hole, size_t section, uint64_t size)
{
    hole->emptied[hole->emptied_count].section = section;
    hole->emptied[hole->emptied_count++].size = size;
}

static bool set_pages(const struct elf_image *image, struct elf_hole *hole, uint64_t end,
                      uint64_t unit)
{
    const Elf64_Phdr *phdr = &image->phdrs[hole->segment];

    hole->address = align_up(hole->file_end, unit);
    end = align_down(end, unit);
    hole->size = end > hole->address ? end - hole->address : 0;
    hole->cut = hole->size;
    hole->cut_offset = phdr->p_offset + (hole->address - phdr->p_vaddr);
    /* Loaders differ in what they do with a segment without bytes in the file. */
    return hole->size != 0 && hole->file_end > phdr->p_vaddr;
}

bool elf_zeros_before(const struct elf_state *state, uint64_t unit, struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;
    uint64_t stub = image_plan_section(state->base.plan, SECTION_DATA)->address, end;
    struct zero_run run = {.start = stub, .end = stub};

    *hole = (struct elf_hole){.segment = elf_segment_of(image, stub, 1)};
    extend(image, hole->segment, true, &run);
    hole->file_end = run.start;
    if (run.count == 0 || !set_pages(image, hole, stub, unit))
        return false;
    end = hole->address + hole->size;
    for (size_t i = 0; i < run.count; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[run.sections[i]];

        if (shdr->sh_addr >= end)
            continue;
        if (shdr->sh_addr + shdr->sh_size <= end) {
            empty(hole, run.sections[i], shdr->sh_size);
            continue;
        }
        /* elf_stub_size finds the stub behind these counters again. */
        if (i != 0 || shdr->sh_addr + shdr->sh_size != stub ||
            strcmp(elf_section_name(image, run.sections[i]), "__llvm_prf_cnts") != 0 ||
            profile_counter_size(state->base.plan->facts.raw_version) != sizeof(uint64_t))
            return false;
        empty(hole, run.sections[i], end - shdr->sh_addr);
        hole->stub_section = end;
    }
    return hole->emptied_count != 0;
}

bool elf_zeros_behind(const struct elf_state *state, uint64_t unit, bool has_zeros,
                      struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);
    uint64_t stub_end = data->address + state->base.record_layout.record_size, end, limit;
    struct zero_run run = {.start = stub_end, .end = data->address + data->size};
    const Elf64_Phdr *phdr;

    *hole = (struct elf_hole){.segment = elf_segment_of(image, data->address, data->size),
                              .file_end = stub_end};
    if (hole->segment == NO_INDEX)
        return false;
    phdr = &image->phdrs[hole->segment];
    end = phdr->p_vaddr + phdr->p_filesz;
    if (has_zeros)
        extend(image, hole->segment, false, &run);
    hole->is_tail = run.is_last && are_zeros(image, run.end, end);
    if (hole->is_tail) {
        for (size_t i = 0; i < run.count; i++)
            empty(hole, run.sections[i], image->shdrs[run.sections[i]].sh_size);
        hole->address = stub_end;
        hole->size = hole->cut = end - stub_end;
        hole->cut_offset = phdr->p_offset + (stub_end - phdr->p_vaddr);
        return true;
    }
    if (!set_pages(image, hole, run.end, unit))
        return false;
    limit = hole->address + hole->size;
    for (size_t i = 0; i < run.count; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[run.sections[i]];
        uint64_t in_hole = shdr->sh_addr < limit ? limit - shdr->sh_addr : 0;

        if (in_hole >= shdr->sh_size)
            empty(hole, run.sections[i], shdr->sh_size);
        else if (in_hole != 0 &&
                 strcmp(elf_section_name(image, run.sections[i]), "__llvm_prf_vnds") == 0)
            empty(hole, run.sections[i], in_hole);
        else if (in_hole != 0)
            return elf_zeros_behind(state, unit, false, hole);
    }
    return true;
}
