/*
 * Puts other coverage mapping into an ELF image.
 *
 * __llvm_covmap and __llvm_covfun are not loaded, and nothing in the image refers to them. So their
 * new contents go to the end of the file, and the section headers, which say where they are, behind
 * them. What was there before keeps its place, only that no header mentions the old contents any
 * more. An image that has no __llvm_covfun gets one, as its last section: then no index of a
 * section changes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/elf_file/elf_file.h"
#include "common/llvm/coverage.h"
#include "formats/elf/elf.h"

/* What is appended to the image. */
struct appendix {
    const struct elf_image *image;
    Elf64_Shdr *shdrs; /* room for one more than the image has */
    size_t shnum;
    struct buffer bytes;
};

static bool no_memory(const struct appendix *appendix, struct error *error)
{
    return error_out_of_memory(error, appendix->image->path, appendix->bytes.size);
}

/* Appends the new contents of a section, and has its header say so. */
static bool put(struct appendix *appendix, size_t index, struct bytes contents, uint64_t alignment,
                struct error *error)
{
    uint64_t file_size = appendix->image->elf.bytes.size, end = file_size + appendix->bytes.size;
    Elf64_Shdr *shdr = &appendix->shdrs[index];

    if (!buffer_append_zeros(&appendix->bytes, (size_t)(align_up(end, alignment) - end)))
        return no_memory(appendix, error);
    shdr->sh_offset = file_size + appendix->bytes.size;
    shdr->sh_size = contents.size;
    shdr->sh_addralign = alignment;
    return buffer_append(&appendix->bytes, contents.data, (size_t)contents.size) ||
           no_memory(appendix, error);
}

/* Whether a section can be elsewhere in the file. */
static bool is_free(const Elf64_Shdr *shdr, Elf64_Word type)
{
    return shdr->sh_type == type && (shdr->sh_flags & (SHF_ALLOC | SHF_COMPRESSED)) == 0;
}

static bool put_covmap(struct appendix *appendix, struct bytes contents, struct error *error)
{
    size_t index = elf_section_find(appendix->image, section_kind_name(SECTION_COVMAP), 0);

    if (index == NO_INDEX || !is_free(&appendix->shdrs[index], SHT_PROGBITS))
        return error_set(error,
                         "%s: its coverage mapping is loaded into memory, and cannot be replaced; "
                         "use 'covsplit run' or 'covsplit export'",
                         appendix->image->path);
    return put(appendix, index, contents, COVERAGE_ALIGNMENT, error);
}

/* Adds a section that is like __llvm_covmap but for its name, which is added to .shstrtab. */
static bool add_covfun(struct appendix *appendix, struct error *error)
{
    const struct elf_image *image = appendix->image;
    const char *name = section_kind_name(SECTION_COVFUN);
    size_t covmap = elf_section_find(image, section_kind_name(SECTION_COVMAP), 0);
    size_t names = (size_t)image->elf.names;
    struct buffer table = {0};
    bool done;

    if (!is_free(&image->shdrs[names], SHT_STRTAB))
        return error_set(error, "%s: its section names cannot be moved; link it again",
                         image->path);
    appendix->shdrs[appendix->shnum] = image->shdrs[covmap];
    appendix->shdrs[appendix->shnum].sh_name = (Elf64_Word)image->section_names.size;
    appendix->shnum++;
    done = buffer_append(&table, image->section_names.data, (size_t)image->section_names.size) &&
           buffer_append(&table, name, strlen(name) + 1);
    done = done ? put(appendix, names, buffer_view(&table), 1, error) : no_memory(appendix, error);
    buffer_free(&table);
    return done;
}

static bool put_covfun(struct appendix *appendix, struct bytes contents, struct error *error)
{
    size_t index = elf_section_find(appendix->image, section_kind_name(SECTION_COVFUN), 0);

    if (index == NO_INDEX) {
        if (contents.size == 0)
            return true;
        index = appendix->shnum;
        if (!add_covfun(appendix, error))
            return false;
    } else if (!is_free(&appendix->shdrs[index], SHT_PROGBITS)) {
        return error_set(error, "%s: its section %s is of an unexpected kind; link it again",
                         appendix->image->path, section_kind_name(SECTION_COVFUN));
    }
    return put(appendix, index, contents, COVERAGE_ALIGNMENT, error);
}

/* Appends the section headers. If there are too many for e_shnum, it is 0, and the first header has
 * their number (gABI, "ELF Header"). */
static bool put_headers(struct appendix *appendix, Elf64_Ehdr *ehdr, struct error *error)
{
    const struct elf_image *image = appendix->image;
    uint64_t file_size = image->elf.bytes.size, end = file_size + appendix->bytes.size;

    if (!buffer_append_zeros(&appendix->bytes, (size_t)(align_up(end, image->sizes.word) - end)))
        return no_memory(appendix, error);
    ehdr->e_shoff = file_size + appendix->bytes.size;
    ehdr->e_shnum = appendix->shnum < SHN_LORESERVE ? (Elf64_Half)appendix->shnum : 0;
    if (ehdr->e_shnum == 0)
        appendix->shdrs[0].sh_size = appendix->shnum;
    for (size_t i = 0; i < appendix->shnum; i++)
        elf_put_shdr(&appendix->bytes, elf_form(image), &appendix->shdrs[i]);
    if (appendix->bytes.failed)
        return no_memory(appendix, error);
    return image->sizes.word == 8 || file_size + appendix->bytes.size <= UINT32_MAX ||
           error_set(error,
                     "%s: would be larger than 4 GB with ordinary coverage mapping; use "
                     "'covsplit export'",
                     image->path);
}

static bool add_edits(const struct appendix *appendix, const Elf64_Ehdr *ehdr,
                      struct edit_script *edits, struct error *error)
{
    const struct elf_image *image = appendix->image;
    struct buffer header = {0};
    bool done;

    elf_put_ehdr(&header, elf_form(image), ehdr);
    done = !header.failed &&
           edit_overwrite_differences(edits, image->elf.bytes, 0, buffer_view(&header)) &&
           edit_replace(edits, image->elf.bytes.size, 0, buffer_view(&appendix->bytes));

    buffer_free(&header);
    return done || no_memory(appendix, error);
}

static bool append_all(struct appendix *appendix, const struct mapping_sections *mapping,
                       struct edit_script *edits, struct error *error)
{
    const struct elf_image *image = appendix->image;
    Elf64_Ehdr ehdr = image->elf.header;

    appendix->shdrs = calloc(image->shnum + 1, sizeof(*appendix->shdrs));
    if (appendix->shdrs == NULL)
        return no_memory(appendix, error);
    memcpy(appendix->shdrs, image->shdrs, image->shnum * sizeof(*appendix->shdrs));
    appendix->shnum = image->shnum;
    return elf_check_tail(image, error) && put_covmap(appendix, mapping->covmap, error) &&
           put_covfun(appendix, mapping->covfun, error) && put_headers(appendix, &ehdr, error) &&
           add_edits(appendix, &ehdr, edits, error);
}

bool elf_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                         struct edit_script *edits, struct error *error)
{
    struct elf_image image;
    struct appendix appendix = {.image = &image};
    bool done;

    if (!elf_image_open(&image, input, error))
        return false;
    done = append_all(&appendix, mapping, edits, error);
    buffer_free(&appendix.bytes);
    free(appendix.shdrs);
    elf_image_close(&image);
    return done;
}
