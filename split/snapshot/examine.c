/*
 * Examining modules: see snapshot.h.
 *
 * The module's file on disk says in its section headers and symbols where the profile runtime has
 * its data, before and after a split. The sidecar of a split image says it too, unless data or
 * names stayed in the image. Neither is believed by its name: its UUID is the one in the module's
 * memory, or the file is known to be the one that is mapped.
 *
 * The module's own file is asked first, since most modules have no coverage, and a file tells that
 * at once. Only if there is no file, or its symbols are gone, the sidecar is searched for. If there
 * is neither, memory is searched for traces, so that a module with coverage is never passed over.
 */
#include <elf.h>
#include <string.h>

#include "common/elf_file/elf_file.h"
#include "formats/elf/elf.h"
#include "formats/machine/machine.h"
#include "split/cli/memory.h"
#include "split/snapshot/snapshot.h"

static const enum section_kind kinds[] = {SECTION_COUNTERS, SECTION_BITMAP, SECTION_DATA,
                                          SECTION_NAMES};

/* ---- coverage, by the file ---- */

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
    Elf64_Sym symbol;

    if (table == NO_INDEX || image->shdrs[table].sh_type != SHT_SYMTAB ||
        image->shdrs[table].sh_link >= image->shnum)
        return false;
    symbols = elf_section_bytes(image, table);
    names = elf_section_bytes(image, image->shdrs[table].sh_link);
    for (uint64_t offset = 0; elf_load(&elf_sym, elf_form(image), symbols, offset, &symbol);
         offset += image->sizes.sym) {
        const char *name = symbol.st_shndx == SHN_UNDEF ? NULL : elf_text_at(names, symbol.st_name);

        for (size_t i = 0; name != NULL && i < count; i++) {
            if (strcmp(name, variables[i].name) == 0)
                *variables[i].address = symbol.st_value;
        }
    }
    return symbols.size >= 2 * image->sizes.sym;
}

/* What the variables and other sections of the runtime tell. */
static void describe_runtime(const struct elf_image *image, struct coverage *coverage)
{
    size_t vtables = elf_section_find(image, "__llvm_prf_vtab", 0);
    struct section *bitmap = &coverage->sections[SECTION_BITMAP];
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

/* Describes the coverage of a file: *coverage has no counters if the file has none. False if the
 * file is no ELF image that covsplit can read. */
static bool coverage_of_file(const struct input *file, struct coverage *coverage,
                             struct error *error)
{
    struct elf_image image;

    *coverage = (struct coverage){.is_complete = true};
    if (!elf_image_open(&image, file, error))
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t index = elf_section_find(&image, section_kind_name(kinds[i]), 0);

        if (is_loaded(&image, index))
            elf_section_place(&image, index, kinds[i], &coverage->sections[kinds[i]].address,
                              &coverage->sections[kinds[i]].size);
    }
    if (coverage->sections[SECTION_COUNTERS].size != 0)
        describe_runtime(&image, coverage);
    elf_image_close(&image);
    return true;
}

/* ---- coverage, by the sidecar ---- */

/* The place of a section; all zeros if there is none. */
static struct section section_of(const struct section *section)
{
    return section == NULL ? (struct section){0}
                           : (struct section){.address = section->address, .size = section->size};
}

/* The tripwire, as the split has put it in the place of the names (formats/names_and_data.c). */
static bool place_tripwire(const struct sidecar_facts *facts, struct coverage *coverage)
{
    const struct machine *machine = machine_find(facts->machine, facts->elf_class, facts->elf_data);
    struct section *names = &coverage->sections[SECTION_NAMES];
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
    *names = (struct section){.address = names->address + padding, .size = coverage->tripwire_size};
    return true;
}

/* With names and data removed, what is left of them follows from where they were. With
 * -profile-correlate=binary there is nothing of either in memory. */
static bool describe_remnants(const struct sidecar *sidecar, struct coverage *coverage)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *data = sidecar_find(sidecar, SECTION_DATA);
    const struct section *names = sidecar_find(sidecar, SECTION_NAMES);
    struct profile_record_layout layout;

    if (sidecar_find(sidecar, SECTION_COVDATA) != NULL)
        return data == NULL && names == NULL;
    if (!facts->has_stub || data == NULL || data->fate != FATE_REMOVED || names == NULL ||
        names->fate != FATE_REMOVED ||
        !profile_record_layout(facts->raw_version, (size_t)facts->pointer_size, &layout))
        return false;
    coverage->sections[SECTION_DATA] = section_of(data);
    coverage->sections[SECTION_DATA].size = layout.record_size;
    coverage->sections[SECTION_NAMES] = section_of(names);
    coverage->has_stub = true;
    memcpy(coverage->stub_id, facts->stub_id, sizeof(coverage->stub_id));
    return place_tripwire(facts, coverage);
}

/* The same by the sidecar. False if it is for no ELF image, or none with counters. */
static bool coverage_of_sidecar(const struct sidecar *sidecar, struct coverage *coverage,
                                struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *counters = sidecar_find(sidecar, SECTION_COUNTERS);

    *coverage = (struct coverage){.raw_version = facts->raw_version};
    if (facts->format != IMAGE_ELF || counters == NULL)
        return error_set(error,
                         "%s: has no counters of an ELF image; give the sidecar of the image that "
                         "was loaded",
                         sidecar->name);
    coverage->sections[SECTION_COUNTERS] = section_of(counters);
    coverage->sections[SECTION_BITMAP] = section_of(sidecar_find(sidecar, SECTION_BITMAP));
    coverage->is_complete = describe_remnants(sidecar, coverage);
    return true;
}

/* ---- file and sidecar ---- */

struct examination {
    struct target *memory;
    struct module *module;
    const struct sidecar_places *places;
    struct input file;
    bool has_file;        /* `file` is that of the module */
    struct error no_file; /* why not */
    struct error no_sidecar;
    struct coverage coverage;
    struct taken *taken;
};

/* True if the file was changed when the process was running. Its start is known to a hundredth of a
 * second. */
static bool is_newer(const struct target *memory, const struct input *file)
{
    const struct timespec *start = &memory->start, *changed = &file->status.st_mtim;
    int64_t seconds = (int64_t)changed->tv_sec - start->tv_sec;

    return start->tv_sec != 0 &&
           (seconds > 1 ||
            (seconds >= 0 && seconds * 1000 + (changed->tv_nsec - start->tv_nsec) / 1000000 > 100));
}

/* True if the file was split, and the stub that this has left is in the module. */
static bool has_same_stub(const struct examination *examination)
{
    struct split_image split;
    struct module_stubs stubs;
    struct error error;

    if (!image_read_stripped_id(&examination->file, &split, &error) || !split.has_stub)
        return false;
    stubs = module_find_stubs(examination->memory, examination->module);
    for (size_t i = 0; i < stubs.count; i++) {
        if (memcmp(stubs.ids[i], split.stub_id, PROFILE_STUB_ID_SIZE) == 0)
            return true;
    }
    return false;
}

/* Opens the module's file, and keeps it if it is the build that is in memory. */
static void open_file(struct examination *examination)
{
    struct module *module = examination->module;
    struct input *file = &examination->file;
    struct uuid uuid = {.size = 0};
    bool is_same;

    if (!examination->memory->operations->open_file(examination->memory, module->listed, file,
                                                    &is_same, &examination->no_file)) {
        command_check_memory(&examination->no_file);
        return;
    }
    elf_file_build_id(file->bytes, &uuid);
    examination->has_file = module->uuid.size != 0 ? uuid_equal(&uuid, &module->uuid) : is_same;
    if (module->has_hidden_notes && module->uuid.size == 0 && has_same_stub(examination)) {
        examination->has_file = true;
        module->uuid = uuid;
    }
    module->is_newer = examination->has_file && is_newer(examination->memory, file);
    if (examination->has_file)
        return;
    input_close(file);
    if (module->uuid.size != 0)
        error_set(&examination->no_file, "%s: is another build than the one that was loaded",
                  module->name);
    else if (module->has_hidden_notes)
        error_set(&examination->no_file,
                  "%s: its build ID is not in %s, so that it is not known which build was loaded; "
                  "give --store or --sidecar, or take the snapshot of the process",
                  module->name, examination->memory->name);
    else
        error_set(&examination->no_file,
                  "%s: has no build ID, so that it is not known whether it is the one that was "
                  "loaded; link it with --build-id",
                  module->name);
}

/* Finds the sidecar of the UUID. NULL with the reason in no_sidecar. */
static struct sidecar *find_sidecar(struct examination *examination, const struct uuid *uuid)
{
    const char *const names[] = {examination->module->listed->path, NULL};
    const struct sidecar_wanted wanted = {.names = names[0][0] == '\0' ? NULL : names,
                                          .uuid = uuid};
    struct sidecar *sidecar;

    if (uuid->size == 0) {
        error_set(&examination->no_sidecar, "%s: has no UUID to search for",
                  examination->module->name);
        return NULL;
    }
    sidecar = sidecar_search(examination->places, &wanted, &examination->no_sidecar);
    if (sidecar == NULL)
        command_check_memory(&examination->no_sidecar);
    return sidecar;
}

static enum finding take_examined(struct examination *examination, struct error *error)
{
    return take_profile(examination->memory, examination->module, &examination->coverage,
                        examination->has_file ? &examination->file : NULL, examination->taken,
                        error)
               ? FINDING_PROFILE
               : FINDING_FAILED;
}

/* ---- without the file ---- */

/* Closes the sidecar. */
static enum finding examine_by_sidecar(struct examination *examination, struct sidecar *sidecar,
                                       struct error *error)
{
    bool done = coverage_of_sidecar(sidecar, &examination->coverage, error);

    sidecar_close(sidecar);
    if (done && !examination->coverage.is_complete)
        done = error_set(error,
                         "%s: the split left data or names in it, and its sidecar does not say "
                         "where; its file is needed: %s",
                         examination->module->name, examination->no_file.message);
    return done ? take_examined(examination, error) : FINDING_FAILED;
}

/* Finds the sidecar by what a stub record has of its UUID: the beginning of a longer one, or all of
 * a shorter one, and zeros. *sidecar is NULL if there is none. */
static bool find_by_stub(struct examination *examination, struct uuid uuid,
                         struct sidecar **sidecar, struct error *error)
{
    struct uuid full = {0};

    uuid.size = UUID_STUB_SIZE;
    if (!sidecar_complete_uuid(examination->places, &uuid, &full, error))
        return false;
    if (full.size != 0)
        uuid = full;
    *sidecar = find_sidecar(examination, &uuid);
    if (*sidecar == NULL) {
        while (uuid.size > 1 && uuid.bytes[uuid.size - 1] == 0)
            uuid.size--;
        *sidecar = find_sidecar(examination, &uuid);
    }
    return true;
}

/* The same by what may be a stub in the module, if its build ID is not in the target. */
static bool find_by_stubs(struct examination *examination, struct sidecar **sidecar,
                          struct error *error)
{
    const struct module *module = examination->module;
    struct module_stubs stubs;
    struct uuid uuid = {.size = 0};

    if (!module->has_hidden_notes || module->uuid.size != 0)
        return true;
    stubs = module_find_stubs(examination->memory, module);
    for (size_t i = 0; *sidecar == NULL && i < stubs.count; i++) {
        memcpy(uuid.bytes, stubs.ids[i], PROFILE_STUB_ID_SIZE);
        if (!find_by_stub(examination, uuid, sidecar, error))
            return false;
    }
    if (*sidecar == NULL)
        examination->no_sidecar = examination->no_file;
    return true;
}

static enum finding examine_without_file(struct examination *examination, struct error *error)
{
    const struct module *module = examination->module;
    struct sidecar *sidecar = find_sidecar(examination, &module->uuid);
    struct traces traces;

    if (sidecar != NULL)
        return examine_by_sidecar(examination, sidecar, error);
    traces = traces_find(examination->memory, module);
    /* Another tool may have changed the build ID since the split. */
    if (traces.uuid.size != 0 && !uuid_equal(&traces.uuid, &module->uuid)) {
        sidecar = find_sidecar(examination, &traces.uuid);
        if (sidecar != NULL)
            return examine_by_sidecar(examination, sidecar, error);
    }
    if (!find_by_stubs(examination, &sidecar, error))
        return FINDING_FAILED;
    if (sidecar != NULL)
        return examine_by_sidecar(examination, sidecar, error);
    if (traces.is_split || traces.has_runtime) {
        error_set(
            error,
            "%s: has coverage, but its file cannot be used, and its sidecar was not found: %s",
            module->name, examination->no_sidecar.message);
        return FINDING_FAILED;
    }
    if (traces.is_whole)
        return FINDING_NO_COVERAGE;
    *error = examination->no_file;
    return FINDING_UNKNOWN;
}

/* ---- by the file ---- */

/* Finds the sidecar of the module's file, which may have been given another build ID since the
 * split. NULL with the reason in no_sidecar. */
static struct sidecar *find_sidecar_of_file(struct examination *examination)
{
    struct sidecar *sidecar;
    struct split_image split;

    if (!image_read_stripped_id(&examination->file, &split, &examination->no_sidecar))
        return find_sidecar(examination, &examination->module->uuid);
    sidecar = sidecar_search_of_image(examination->places, &examination->file, &split,
                                      &examination->no_sidecar);
    if (sidecar == NULL)
        command_check_memory(&examination->no_sidecar);
    return sidecar;
}

static enum finding examine_by_file(struct examination *examination, struct error *error)
{
    struct coverage *coverage = &examination->coverage;
    struct sidecar *sidecar;

    /* A file without section headers tells nothing. */
    if (!coverage_of_file(&examination->file, coverage, error)) {
        command_check_memory(error);
        examination->no_file = *error;
        return examine_without_file(examination, error);
    }
    if (coverage->sections[SECTION_COUNTERS].size == 0)
        return FINDING_NO_COVERAGE;
    /* Without a symbol table, only the sidecar knows the version of the profiles. */
    if (coverage->raw_version == 0) {
        sidecar = find_sidecar_of_file(examination);
        if (sidecar != NULL)
            coverage->raw_version = sidecar->facts.raw_version;
        sidecar_close(sidecar);
    }
    if (coverage->raw_version != 0)
        return take_examined(examination, error);
    error_set(error,
              "%s: has coverage, but no symbols that say the version of its profiles; put "
              "a copy with symbols in its place, or give its sidecar",
              examination->module->name);
    return FINDING_FAILED;
}

/* ---- by a stub record ---- */

/* Describes a module that is known by its sidecar alone. Its sections are taken for its only
 * segment, from the first to the last of them. */
static void place_by_facts(struct examination *examination, const struct sidecar_facts *facts,
                           uint64_t bias)
{
    struct module *module = examination->module;
    Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = UINT64_MAX};
    uint64_t end = 0;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const struct section *section = &examination->coverage.sections[kind];

        if (section->size == 0)
            continue;
        if (section->address < load.p_vaddr)
            load.p_vaddr = section->address;
        if (section->address + section->size > end)
            end = section->address + section->size;
    }
    load.p_memsz = end > load.p_vaddr ? end - load.p_vaddr : 0;
    module_free(module);
    module->wide = facts->elf_class == ELFCLASS64;
    module->big_endian = facts->elf_data == ELFDATA2MSB;
    module->is_fixed = facts->elf_type == ET_EXEC;
    module->bias = bias;
    module->loads = command_array(1, sizeof(load));
    module->loads[0] = load;
    module->load_count = 1;
}

/* Finds the load bias of a module whose record that is. False if it cannot be right: the first byte
 * of what can be loaded anywhere has the address 0, and is where a mapping begins. */
static bool find_stub_bias(const struct examination *examination, const struct sidecar_facts *facts,
                           const struct memory_module *listed, uint64_t *bias)
{
    struct target *memory = examination->memory;
    uint64_t mask = facts->elf_class == ELFCLASS64 ? UINT64_MAX : UINT32_MAX;

    *bias = (listed->base - examination->coverage.sections[SECTION_DATA].address) & mask;
    return facts->elf_type == ET_EXEC ? *bias == 0 : memory->operations->begins_at(memory, *bias);
}

/* True if the record is a copy, as the runtime copies its data when it writes a profile: the module
 * shows itself (such modules have been examined before), or another record with this UUID is where
 * a module was loaded. A module that could not be read may be this one, and was reported. Without a
 * sidecar, `facts` are NULL, and of several records with one UUID all but the first are copies. */
static bool is_copy(const struct examination *examination, const struct sidecar_facts *facts)
{
    struct target *memory = examination->memory;
    const struct memory_module *listed = examination->module->listed;
    uint64_t bias;

    for (size_t i = 0; i < memory->module_count; i++) {
        const struct memory_module *other = &memory->modules[i];

        if (facts != NULL && other->is_unread)
            return true;
        if (!other->is_stub && other->uuid.size != 0 &&
            uuid_has_stub(&other->uuid, listed->uuid.bytes))
            return true;
        if (other->is_stub && other != listed && uuid_equal(&other->uuid, &listed->uuid) &&
            (facts == NULL ? other < listed : find_stub_bias(examination, facts, other, &bias)))
            return true;
    }
    return false;
}

/* Closes the sidecar. */
static enum finding examine_stub_with(struct examination *examination, struct sidecar *sidecar,
                                      struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    enum finding finding = FINDING_FAILED;
    uint64_t bias;

    if (!coverage_of_sidecar(sidecar, &examination->coverage, error)) {
        sidecar_close(sidecar);
        return FINDING_FAILED;
    }
    examination->module->uuid = facts->uuid;
    if (facts->uuid_source != UUID_FROM_BUILD_ID)
        examination->module->uuid.size = 0;
    if (find_stub_bias(examination, facts, examination->module->listed, &bias)) {
        place_by_facts(examination, facts, bias);
        return examine_by_sidecar(examination, sidecar, error);
    }
    if (is_copy(examination, facts))
        finding = FINDING_NO_MODULE;
    else
        error_set(error,
                  "%s: its record is in %s, but at an address where it cannot have been loaded; "
                  "let gdb dump the core (gcore)",
                  examination->module->name, examination->memory->name);
    sidecar_close(sidecar);
    return finding;
}

static enum finding examine_stub(struct examination *examination, struct error *error)
{
    const struct memory_module *listed = examination->module->listed;
    struct uuid uuid = listed->uuid;
    struct sidecar *sidecar;
    char text[UUID_HEX_MAX];

    if (uuid.size == 0 && listed->is_doubtful)
        return FINDING_NO_MODULE;
    if (uuid.size == 0) {
        error_set(error,
                  "%s: has coverage and was not split, but its first page is not in %s, so that it "
                  "is not known which image it is; split it, or let gdb dump the core (gcore)",
                  examination->module->name, examination->memory->name);
        return FINDING_FAILED;
    }
    if (!find_by_stub(examination, uuid, &sidecar, error))
        return FINDING_FAILED;
    if (sidecar != NULL)
        return examine_stub_with(examination, sidecar, error);
    if (listed->is_doubtful || is_copy(examination, NULL))
        return FINDING_NO_MODULE;
    uuid.size = UUID_STUB_SIZE;
    error_set(error,
              "%s: has coverage (its UUID begins with %s), but its sidecar was not found; give "
              "--store or --sidecar",
              examination->module->name, uuid_format(&uuid, text));
    return FINDING_FAILED;
}

/* ---- by nothing ---- */

/* The file at its path may be another build, so it only tells whether something is amiss. */
static enum finding examine_unknown(struct examination *examination, struct error *error)
{
    struct input file;
    struct coverage coverage;
    enum finding finding = FINDING_UNKNOWN;
    bool is_same;

    if (!examination->memory->operations->open_file(
            examination->memory, examination->module->listed, &file, &is_same, error))
        return FINDING_UNKNOWN;
    if (file.bytes.size < SELFMAG || memcmp(file.bytes.data, ELFMAG, SELFMAG) != 0) {
        finding = FINDING_NO_MODULE;
    } else if (coverage_of_file(&file, &coverage, error)) {
        finding = coverage.sections[SECTION_COUNTERS].size == 0 ? FINDING_UNKNOWN : FINDING_FAILED;
        error_set(error,
                  "%s: its first page is not in %s, so that it is not known which build was "
                  "loaded: %s",
                  examination->module->name, examination->memory->name,
                  examination->memory->operations->absent_because);
    }
    input_close(&file);
    return finding;
}

/* ---- a module ---- */

/* True if what was read is not a module but a segment of the one before: linkers that align
 * segments to large pages put the first bytes of the file into the first page of several. Otherwise
 * notes where the module is, for those that follow: from the first byte of the file to the end of
 * the last segment. */
static bool is_segment(struct target *memory, const struct memory_module *listed,
                       const struct module *module)
{
    size_t index = (size_t)(listed - memory->modules);
    struct memory_module *own = &memory->modules[index];

    for (size_t i = 1; i <= index && i < module->load_count; i++) {
        const struct memory_module *before = &memory->modules[index - i];

        if (strcmp(before->path, listed->path) != 0)
            break;
        if (range_within(listed->base, 1, before->base, before->size))
            return uuid_equal(&before->uuid, &module->uuid);
    }
    own->uuid = module->uuid;
    own->size = 0;
    for (size_t i = 0; i < module->load_count; i++) {
        const Elf64_Phdr *load = &module->loads[i];
        uint64_t end = module_address(module, load->p_vaddr) + load->p_memsz;

        if (end > own->base && end - own->base > own->size)
            own->size = end - own->base;
    }
    return false;
}

static enum finding examine(struct examination *examination, struct error *error)
{
    struct target *memory = examination->memory;
    struct module *module = examination->module;
    const struct memory_module *listed = module->listed;
    enum module_state state = module_read(memory, listed, module);
    enum finding finding;

    if (memory->failure.message[0] != '\0') {
        memory->modules[listed - memory->modules].is_unread = true;
        return FINDING_FAILED;
    }
    if (state == MODULE_HIDDEN)
        return listed->is_stub ? examine_stub(examination, error)
                               : examine_unknown(examination, error);
    if (state == MODULE_IS_NONE || is_segment(memory, listed, module))
        return FINDING_NO_MODULE;
    open_file(examination);
    if (!examination->has_file)
        return examine_without_file(examination, error);
    finding = examine_by_file(examination, error);
    input_close(&examination->file);
    return finding;
}

enum finding examine_module(struct target *memory, const struct memory_module *listed,
                            const struct sidecar_places *places, struct module *module,
                            struct taken *taken, struct error *error)
{
    struct examination examination = {
        .memory = memory, .module = module, .places = places, .taken = taken};
    enum finding finding;

    *module = (struct module){.listed = listed};
    memory->failure = (struct error){0};
    finding = examine(&examination, error);
    if (memory->failure.message[0] == '\0')
        return finding;
    *error = memory->failure;
    return FINDING_FAILED;
}
