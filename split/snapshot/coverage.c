/*
 * Where in a module the profile runtime has its data: see snapshot.h.
 *
 * The module's file on disk says it in its section headers and symbols, before and after a split.
 * The sidecar of a split image says it too, unless data or names stayed in the image. Neither is
 * believed by its name: its UUID is the one in the module's memory, or the file is known to be the
 * one that is mapped.
 */
#include <elf.h>
#include <string.h>

#include "common/elf_file/elf_file.h"
#include "formats/elf/elf.h"
#include "formats/machine/machine.h"
#include "split/snapshot/snapshot.h"

static const enum section_kind kinds[] = {SECTION_COUNTERS, SECTION_BITMAP, SECTION_DATA,
                                          SECTION_NAMES};

/* ---- by the file ---- */

struct variable {
    const char *name;
    uint64_t *address;
};

static bool is_loaded(const struct elf_image *image, size_t index)
{
    return index != NO_INDEX && (image->shdrs[index].sh_flags & SHF_ALLOC) != 0;
}

/* Finds variables of the runtime. False if the image has no symbol table. */
static bool find_variables(const struct elf_image *image, const struct variable *variables,
                           size_t count)
{
    size_t table = elf_section_find(image, ".symtab", 0);
    struct bytes symbols, names;

    if (table == NO_INDEX || image->shdrs[table].sh_type != SHT_SYMTAB ||
        image->shdrs[table].sh_link >= image->shnum)
        return false;
    symbols = elf_section_bytes(image, table);
    names = elf_section_bytes(image, image->shdrs[table].sh_link);
    for (uint64_t offset = 0; symbols.size - offset >= image->sizes.sym;
         offset += image->sizes.sym) {
        Elf64_Sym symbol = elf_load_symbol(image, symbols.data + offset);
        const char *name = symbol.st_shndx == SHN_UNDEF ? NULL : elf_text_at(names, symbol.st_name);

        for (size_t i = 0; name != NULL && i < count; i++) {
            if (strcmp(name, variables[i].name) == 0)
                *variables[i].address = symbol.st_value;
        }
    }
    return symbols.size >= 2 * image->sizes.sym;
}

static void describe_file(const struct elf_image *image, struct coverage *coverage)
{
    size_t vtables = elf_section_find(image, "__llvm_prf_vtab", 0);
    struct coverage_section *bitmap = &coverage->sections[SECTION_BITMAP];
    uint64_t version = 0, empty_bitmap = 0, counter_default = 0, bitmap_default = 0;
    const struct variable variables[] = {
        {"__start___llvm_prf_bits", &empty_bitmap},
        {"__llvm_profile_raw_version", &version},
        {"__llvm_profile_counter_bias", &coverage->counter_bias},
        {"__llvm_profile_counter_bias_default", &counter_default},
        {"__llvm_profile_bitmap_bias", &coverage->bitmap_bias},
        {"__llvm_profile_bitmap_bias_default", &bitmap_default},
    };
    struct bytes bytes;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t index = elf_section_find(image, section_kind_name(kinds[i]), 0);

        if (is_loaded(image, index))
            elf_section_place(image, index, kinds[i], &coverage->sections[kinds[i]].address,
                              &coverage->sections[kinds[i]].size);
    }
    if (coverage->sections[SECTION_COUNTERS].size == 0)
        return;
    coverage->has_vtables = is_loaded(image, vtables) && image->shdrs[vtables].sh_size != 0;
    coverage->knows_biases =
        find_variables(image, variables, sizeof(variables) / sizeof(variables[0]));
    /* The runtime's own variables, which it does not use. */
    if (coverage->counter_bias == counter_default)
        coverage->counter_bias = 0;
    if (coverage->bitmap_bias == bitmap_default)
        coverage->bitmap_bias = 0;
    if (bitmap->address == 0) /* GNU ld drops an empty section, but not its start */
        bitmap->address = empty_bitmap;
    if (version != 0 && elf_bytes_at(image, version, sizeof(uint64_t), &bytes))
        coverage->raw_version = load_u64(bytes.data, image->machine->big_endian);
}

bool coverage_of_file(const struct input *file, struct coverage *coverage, struct error *error)
{
    struct elf_image image;

    *coverage = (struct coverage){.is_complete = true};
    if (!elf_image_open(&image, file, error))
        return false;
    describe_file(&image, coverage);
    elf_image_close(&image);
    return true;
}

/* ---- by the sidecar ---- */

static struct coverage_section section_of(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section == NULL ? (struct coverage_section){0}
                           : (struct coverage_section){section->address, section->size};
}

static bool was_removed(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section != NULL && section->has_content && !section->copied;
}

/* The tripwire, as the split has put it in the place of the names (formats/names_and_data.c). */
static bool place_tripwire(const struct sidecar_facts *facts, struct coverage *coverage)
{
    const struct machine *machine = machine_find(facts->machine, facts->elf_class, facts->elf_data);
    struct coverage_section *names = &coverage->sections[SECTION_NAMES];
    uint64_t unit, padding;

    if (machine == NULL)
        return false;
    unit = machine->address_unit == 0 ? 1 : machine->address_unit;
    padding = align_up(names->address, unit) - names->address;
    if (names->size <= padding)
        return false;
    coverage->tripwire_size = tripwire_size(names->size - padding, facts->uuid.size, (size_t)unit);
    if (coverage->tripwire_size == 0)
        return false;
    tripwire_write(coverage->tripwire, coverage->tripwire_size, &facts->uuid);
    *names = (struct coverage_section){names->address + padding, coverage->tripwire_size};
    return true;
}

/* With names and data removed, what is left of them follows from where they were. With
 * -profile-correlate=binary there is nothing of either in memory. */
static bool describe_remnants(const struct sidecar *sidecar, struct coverage *coverage)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    struct profile_record_layout layout;

    if (sidecar_find(sidecar, SECTION_COVDATA) != NULL)
        return sidecar_find(sidecar, SECTION_DATA) == NULL &&
               sidecar_find(sidecar, SECTION_NAMES) == NULL;
    if (!facts->has_stub || !was_removed(sidecar, SECTION_DATA) ||
        !was_removed(sidecar, SECTION_NAMES) ||
        !profile_record_layout(facts->raw_version, (size_t)facts->pointer_size, &layout))
        return false;
    coverage->sections[SECTION_DATA] = section_of(sidecar, SECTION_DATA);
    coverage->sections[SECTION_DATA].size = layout.record_size;
    coverage->sections[SECTION_NAMES] = section_of(sidecar, SECTION_NAMES);
    coverage->has_stub = true;
    memcpy(coverage->stub_id, facts->stub_id, sizeof(coverage->stub_id));
    return place_tripwire(facts, coverage);
}

bool coverage_of_sidecar(const struct sidecar *sidecar, struct coverage *coverage,
                         struct error *error)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);

    *coverage = (struct coverage){.raw_version = facts->raw_version};
    if (facts->format != IMAGE_ELF || sidecar_find(sidecar, SECTION_COUNTERS) == NULL)
        return error_set(error,
                         "%s: has no counters of an ELF image; give the sidecar of the image that "
                         "was loaded",
                         sidecar_name(sidecar));
    coverage->sections[SECTION_COUNTERS] = section_of(sidecar, SECTION_COUNTERS);
    coverage->sections[SECTION_BITMAP] = section_of(sidecar, SECTION_BITMAP);
    coverage->is_complete = describe_remnants(sidecar, coverage);
    return true;
}
