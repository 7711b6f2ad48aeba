/*
 * Packing an object, and describing one that was packed: see packing.h.
 *
 * The names of sections tell what they are, as they tell linkers. Anything that is not as compilers
 * and linkers write it, such as a group with other members, makes the object stay.
 *
 * A linker puts the units and the records of an object behind each other in the order of their
 * sections, each at a multiple of COVERAGE_ALIGNMENT. What was packed must give the same bytes
 * again, so the sections may have nothing but units, records and zeros up to the next of them; and
 * the records of a unit must be together and in the order of the units. Compilers and `ld -r` write
 * no other objects.
 */
#include "formats/object/packing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/llvm/coverage.h"
#include "common/llvm/section.h"
#include "formats/machine/machine.h"
#include "formats/object/object_parts.h"

#define GROUP_WORD 4 /* the size of a member of a group */

bool object_keep(struct object *object, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(object->packing->reason, sizeof(object->packing->reason), format, arguments);
    va_end(arguments);
    object->packing->outcome = OBJECT_KEPT;
    return false;
}

bool object_damaged(struct object *object, const char *what)
{
    return object_keep(object, "%s damaged; compile it again", what);
}

bool object_no_memory(struct object *object)
{
    object->out_of_memory = true;
    return false;
}

/* ---- headers, sections and symbols ---- */

struct bytes object_contents(const struct object *object, uint32_t number)
{
    const Elf64_Shdr header = elf_file_section(&object->file, number);
    struct bytes contents;

    elf_file_contents(&object->file, &header, &contents);
    return contents;
}

struct object_symbol object_symbol(const struct object *object, uint32_t number)
{
    struct object_symbol symbol = {.name = ""};

    elf_load(&elf_sym, elf_file_form(&object->file), object->symbols,
             (uint64_t)number * ELF_SIZE(object->file.wide, Sym), &symbol.sym);
    symbol.section = symbol.sym.st_shndx;
    if (symbol.section == SHN_XINDEX && object->extended != 0)
        symbol.section =
            load_u32(object->extended_number.data + (uint64_t)number * sizeof(Elf32_Word),
                     object->file.big_endian);
    else
        symbol.is_special = symbol.section >= SHN_LORESERVE;
    if (symbol.sym.st_name < object->symbol_strings.size)
        symbol.name = (const char *)object->symbol_strings.data + symbol.sym.st_name;
    return symbol;
}

/* A string table ends with a NUL, so that each string in it does. */
static bool read_strings(const struct object *object, uint64_t number, struct bytes *strings)
{
    const Elf64_Shdr header = elf_file_section(&object->file, number);

    return header.sh_type == SHT_STRTAB && elf_file_contents(&object->file, &header, strings) &&
           strings->size != 0 && strings->size <= UINT32_MAX &&
           strings->data[strings->size - 1] == '\0';
}

/* Reads the headers of an object for a known machine, and the table of section names. False if the
 * outcome is known then. */
static bool open_object(struct object *object, struct bytes bytes, struct object_packing *packing)
{
    struct elf_file *file = &object->file;
    const Elf64_Ehdr *ehdr = &file->header;
    const struct machine *machine;

    *object = (struct object){.packing = packing};
    packing->outcome = OBJECT_NOT_ONE;
    if (!elf_file_open(file, bytes) || ehdr->e_type != ET_REL)
        return false;
    machine = machine_find(ehdr->e_machine, ehdr->e_ident[EI_CLASS], ehdr->e_ident[EI_DATA]);
    if (machine == NULL)
        return false;
    object->is_mips64 = machine->elf_machine == EM_MIPS && file->wide;
    packing->outcome = OBJECT_NO_COVERAGE;
    if (ehdr->e_shoff == 0)
        return false;
    if (!elf_file_find_sections(file) || file->section_count == 0)
        return object_damaged(object, "its section headers are");
    object->section_count = (uint32_t)file->section_count;
    if (ehdr->e_phnum != 0 || ehdr->e_ehsize != ELF_SIZE(file->wide, Ehdr))
        return object_damaged(object, "its ELF header is");
    return read_strings(object, file->names, &object->section_names) ||
           object_damaged(object, "its table of section names is");
}

static bool has_name(const struct object *object, const Elf64_Shdr *header, enum section_kind kind)
{
    return header->sh_name < object->section_names.size &&
           strcmp((const char *)object->section_names.data + header->sh_name,
                  section_kind_name(kind)) == 0;
}

/* Finds the coverage mapping; false also if the object has none. */
static bool find_mapping(struct object *object)
{
    bool has_covmap = false, has_covfun = false;

    for (uint32_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_file_section(&object->file, i);
        bool is_covmap = has_name(object, &header, SECTION_COVMAP);

        if (!is_covmap && !has_name(object, &header, SECTION_COVFUN))
            continue;
        if (header.sh_type != SHT_PROGBITS || header.sh_addralign != COVERAGE_ALIGNMENT ||
            (header.sh_flags & ~(uint64_t)(SHF_GNU_RETAIN | SHF_GROUP)) != 0)
            return object_keep(object,
                               "its sections with coverage mapping are not of the kind that "
                               "clang 13 and later write; compile it with one of these");
        object->roles[i] = !is_covmap ? ROLE_COVFUN : has_covmap ? ROLE_OTHER_COVMAP : ROLE_COVMAP;
        has_covmap = has_covmap || is_covmap;
        has_covfun = has_covfun || !is_covmap;
    }
    return has_covfun &&
           (has_covmap || object_keep(object, "it has records of functions, but no __llvm_covmap; "
                                              "compile it again"));
}

static bool read_symbol_table(struct object *object, uint32_t number, const Elf64_Shdr *header)
{
    size_t size = ELF_SIZE(object->file.wide, Sym);
    uint64_t count = header->sh_size / size;

    if (object->symbol_table != 0 || header->sh_entsize != size || header->sh_size % size != 0 ||
        count >= UINT32_MAX || header->sh_info > count ||
        !read_strings(object, header->sh_link, &object->symbol_strings))
        return object_damaged(object, "its symbol table is");
    object->symbol_table = number;
    object->symbol_names = header->sh_link;
    object->symbols = object_contents(object, number);
    object->symbol_count = (uint32_t)count;
    return true;
}

/* Checks the headers that are relied upon later, and finds the symbols. */
static bool check_sections(struct object *object)
{
    for (uint32_t i = 0; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_file_section(&object->file, i);
        struct bytes contents;

        if (header.sh_name >= object->section_names.size)
            return object_damaged(object, "the name of a section is");
        if (i == 0 && header.sh_type != SHT_NULL)
            return object_damaged(object, "the first section header is");
        if (i == 0)
            continue; /* has numbers of its own */
        if (header.sh_link >= object->section_count ||
            !elf_file_contents(&object->file, &header, &contents) ||
            (header.sh_addralign != 0 && !is_power_of_two(header.sh_addralign)))
            return object_damaged(object, "a section header is");
        if (header.sh_type == SHT_SYMTAB && !read_symbol_table(object, i, &header))
            return false;
        if (header.sh_type == SHT_SYMTAB_SHNDX && object->extended != 0)
            return object_damaged(object, "its symbol table is");
        if (header.sh_type == SHT_SYMTAB_SHNDX) {
            object->extended = i;
            object->extended_number = contents;
        }
    }
    if (object->extended != 0 &&
        (object->symbol_table == 0 ||
         elf_file_section(&object->file, object->extended).sh_link != object->symbol_table ||
         object->extended_number.size != (uint64_t)object->symbol_count * sizeof(Elf32_Word)))
        return object_damaged(object, "its table of extended section numbers is");
    return true;
}

/* Finds out if the group is that of a record. */
static bool read_group(struct object *object, uint32_t number, const Elf64_Shdr *header)
{
    struct bytes group = object_contents(object, number);
    uint64_t words = group.size / GROUP_WORD;
    uint32_t covfun = 0;

    if (group.size % GROUP_WORD != 0 || words == 0 || header->sh_link != object->symbol_table ||
        header->sh_info >= object->symbol_count)
        return object_damaged(object, "a group of sections is");
    for (uint64_t i = 1; i < words; i++) {
        uint32_t member = load_u32(group.data + i * GROUP_WORD, object->file.big_endian);

        if (member >= object->section_count)
            return object_damaged(object, "a group of sections is");
        if (object->roles[member] != ROLE_STAYS)
            covfun = member;
    }
    if (covfun == 0)
        return true;
    if (words != 2 || object->roles[covfun] != ROLE_COVFUN)
        return object_keep(object, "a function's record is in a group with other sections; compile "
                                   "it with clang 13 or later");
    if (load_u32(group.data, object->file.big_endian) != GRP_COMDAT)
        return object_keep(object, "a function's record is in a group that is not COMDAT; pack the "
                                   "object before its symbols are made local");
    if (header->sh_info == 0 || object->signatures[covfun] != 0 ||
        object->is_signature[header->sh_info])
        return object_damaged(object, "a group of sections is");
    object->roles[number] = ROLE_GROUP;
    object->signatures[covfun] = header->sh_info;
    object->is_signature[header->sh_info] = true;
    return true;
}

static bool read_sections(struct object *object)
{
    object->roles = arena_array(&object->arena, object->section_count, sizeof(*object->roles));
    if (object->roles == NULL)
        return object_no_memory(object);
    if (!find_mapping(object) || !check_sections(object))
        return false;
    object->signatures =
        arena_array(&object->arena, object->section_count, sizeof(*object->signatures));
    object->is_signature =
        arena_array(&object->arena, object->symbol_count, sizeof(*object->is_signature));
    if (object->arena.failed)
        return object_no_memory(object);
    for (uint32_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_file_section(&object->file, i);

        if (header.sh_type == SHT_GROUP && !read_group(object, i, &header))
            return false;
    }
    return true;
}

/* ---- units and records ---- */

/* True if what was taken off `before`, of which `after` is left, is `size` bytes and zeros up to
 * the next unit or record. Behind the last one there are only those of the compiler. */
static bool is_padded(struct bytes before, struct bytes after, uint64_t size, uint64_t last)
{
    uint64_t taken = before.size - after.size;
    struct bytes padding = {before.data + size, taken - size};

    return bytes_all_zero(padding) && (after.size != 0 || taken == align_up(size, last));
}

/* Adds the units of a section. `numbers` are those of the units by FilenamesRef. */
static bool add_covmap(struct object *object, struct bytes covmap, struct intern_table *numbers)
{
    bool big_endian = object->file.big_endian;
    struct covmap_unit unit;
    uint64_t number;

    object->packing->mapping_size += covmap.size;
    while (covmap.size != 0) {
        struct bytes before = covmap;

        if (packed_unit_recognize(covmap, big_endian))
            return object_keep(object, "it was linked from packed objects and ordinary ones; pack "
                                       "all of them before that");
        if (!covmap_take(&covmap, big_endian, &unit) ||
            !is_padded(before, covmap, COVMAP_HEADER_SIZE + unit.filenames.size,
                       COVMAP_UNIT_PADDING))
            return object_keep(object, "its list of source files (__llvm_covmap) is damaged or of "
                                       "an unknown version; compile it with clang 13 or later");
        if (intern_table_find(numbers, unit.reference, &number))
            return object_keep(object, "two of its translation units have the same files, so that "
                                       "it is not known which of them a record belongs to; pack "
                                       "the objects before they are linked into one");
        if (!ARRAY_ROOM_FOR_ONE(object->units, object->unit_capacity, object->unit_count) ||
            !intern_table_put(numbers, unit.reference, object->unit_count))
            return object_no_memory(object);
        object->units[object->unit_count++] = (struct packed_unit){
            .version = unit.version, .filenames = unit.filenames, .reference = unit.reference};
    }
    return true;
}

/* False if it is not the name of a group of the function's records. NULL stands for no group. */
static bool tell_group(const char *signature, uint64_t name_reference, enum packed_group *group)
{
    char name[COVFUN_SYMBOL_SIZE];
    size_t length = covfun_format_symbol(name, name_reference);

    *group = PACKED_GROUP_NONE;
    if (signature == NULL)
        return true;
    *group = PACKED_GROUP_OF_USED;
    if (strcmp(signature, name) == 0)
        return true;
    name[length - 1] = '\0';
    *group = PACKED_GROUP_OF_UNUSED;
    return strcmp(signature, name) == 0;
}

/* Adds the records of a section. One in a group has one record. *open is the unit to which the last
 * record belongs. */
static bool add_covfun(struct object *object, uint32_t section, const struct intern_table *numbers,
                       uint64_t *open)
{
    bool in_group = (elf_file_section(&object->file, section).sh_flags & SHF_GROUP) != 0;
    struct bytes covfun = object_contents(object, section);
    const char *signature = NULL;
    struct covfun_record record;
    struct packed_record added;
    uint64_t number;

    if (in_group != (object->signatures[section] != 0))
        return object_damaged(object, "a group of sections is");
    if (in_group)
        signature = object_symbol(object, object->signatures[section]).name;
    object->packing->mapping_size += covfun.size;
    if (in_group && covfun.size == 0)
        return object_keep(object, "a group for a function's record is empty; compile it again");
    while (covfun.size != 0) {
        struct bytes before = covfun;
        struct packed_unit *unit;

        if (!covfun_take(&covfun, object->file.big_endian, &record) ||
            !is_padded(before, covfun, record.whole.size, 1) || (in_group && covfun.size != 0))
            return object_keep(object, "a function's record (__llvm_covfun) is damaged; compile it "
                                       "again");
        added = (struct packed_record){.name_reference = record.name_reference,
                                       .function_hash = record.function_hash,
                                       .mapping = record.mapping};
        if (!tell_group(signature, record.name_reference, &added.group))
            return object_keep(object,
                               "a function's record is in a group that does not have its "
                               "name (__covrec_%" PRIX64 "); compile it with clang 13 or later",
                               record.name_reference);
        if (!intern_table_find(numbers, record.filenames_reference, &number))
            return object_keep(object, "a function's record names files that are not in the "
                                       "object; compile it again");
        if (number < *open)
            return object_keep(object, "its records are not in the order of its translation units; "
                                       "pack the objects before they are linked into one");
        *open = number;
        unit = &object->units[number];
        if (!ARRAY_ROOM_FOR_ONE(unit->records, unit->capacity, unit->count))
            return object_no_memory(object);
        unit->records[unit->count++] = added;
    }
    return true;
}

/* All units come before any record, each in the order of the sections. */
static bool read_units(struct object *object)
{
    struct intern_table numbers = {0};
    uint64_t open = 0;
    bool done = true;

    for (uint32_t i = 1; done && i < object->section_count; i++) {
        if (object->roles[i] == ROLE_COVMAP || object->roles[i] == ROLE_OTHER_COVMAP)
            done = add_covmap(object, object_contents(object, i), &numbers);
    }
    for (uint32_t i = 1; done && i < object->section_count; i++) {
        if (object->roles[i] == ROLE_COVFUN)
            done = add_covfun(object, i, &numbers, &open);
    }
    intern_table_free(&numbers);
    return done;
}

/* True if two units are the same but for where they are. */
static bool is_same(const struct packed_unit *one, const struct packed_unit *other)
{
    if (one->version != other->version || one->count != other->count ||
        one->reference != other->reference || !bytes_equal(one->filenames, other->filenames))
        return false;
    for (size_t i = 0; i < one->count; i++) {
        const struct packed_record *a = &one->records[i], *b = &other->records[i];

        if (a->name_reference != b->name_reference || a->function_hash != b->function_hash ||
            a->group != b->group || !bytes_equal(a->mapping, b->mapping))
            return false;
    }
    return true;
}

bool object_write_units(struct object *object, struct buffer *section)
{
    bool big_endian = object->file.big_endian;
    struct packed_unit again = {0}; /* proves that each can be read */
    enum result result = RESULT_OK;
    size_t start = section->size;

    object->packing->record_count = 0;
    for (size_t i = 0; result == RESULT_OK && i < object->unit_count; i++) {
        const struct packed_unit *unit = &object->units[i];
        size_t place;

        buffer_append_zeros(section, -(section->size - start) % COVERAGE_ALIGNMENT);
        place = section->size;
        result = packed_unit_write(unit, big_endian, section);
        if (result == RESULT_OK)
            result = packed_unit_read(&again,
                                      (struct bytes){section->data + place, section->size - place},
                                      big_endian, MEMORY_LIMIT_MOST);
        if (result == RESULT_OK && !is_same(unit, &again))
            result = RESULT_UNFIT;
        object->packing->record_count += unit->count;
    }
    packed_unit_free(&again);
    if (result == RESULT_NO_MEMORY)
        return object_no_memory(object);
    return result == RESULT_OK ||
           object_keep(object, "its records are damaged, or too large to be packed; compile it "
                               "again");
}

/* ---- packing ---- */

void object_packing_free(struct object_packing *packing)
{
    buffer_free(&packing->contents);
    *packing = (struct object_packing){0};
}

bool object_pack(struct bytes file, const char *name, struct object_packing *packing,
                 struct error *error)
{
    struct object object;
    bool done;

    object_packing_free(packing);
    done = open_object(&object, file, packing) && read_sections(&object) && read_units(&object) &&
           object_write_packed(&object);
    for (size_t i = 0; i < object.unit_count; i++)
        packed_unit_free(&object.units[i]);
    free(object.units);
    arena_free(&object.arena);
    if (done)
        packing->outcome = OBJECT_PACKED;
    else
        buffer_free(&packing->contents);
    return !object.out_of_memory || error_out_of_memory(error, name, file.size);
}

/* ---- packed objects ---- */

/* Counts the sections of a kind, and sets *found to the last one. */
static unsigned find_kind(const struct object *object, enum section_kind kind, Elf64_Shdr *found)
{
    unsigned count = 0;

    for (uint32_t i = 1; i < object->section_count; i++) {
        const Elf64_Shdr header = elf_file_section(&object->file, i);

        if (has_name(object, &header, kind)) {
            *found = header;
            count++;
        }
    }
    return count;
}

static bool contents_of(const struct object *object, const Elf64_Shdr *header,
                        struct bytes *contents)
{
    return header->sh_type == SHT_PROGBITS && (header->sh_flags & SHF_COMPRESSED) == 0 &&
           elf_file_contents(&object->file, header, contents);
}

bool object_is_packed(struct bytes file)
{
    struct object_packing packing = {0};
    struct object object;
    Elf64_Shdr header;
    struct bytes covmap;

    return open_object(&object, file, &packing) &&
           find_kind(&object, SECTION_COVMAP, &header) != 0 &&
           contents_of(&object, &header, &covmap) &&
           unpack_is_needed(covmap, object.file.big_endian);
}

struct image_plan *object_describe(const struct input *input, struct error *error)
{
    static const enum section_kind kinds[] = {SECTION_COVMAP, SECTION_NAMES};
    struct object_packing packing = {0};
    struct image_plan *plan;
    struct object object;
    Elf64_Shdr header;

    if (!open_object(&object, input->bytes, &packing)) {
        error_set(error, "%s: %s", input->path, packing.reason);
        return NULL;
    }
    if (find_kind(&object, SECTION_COVFUN, &header) != 0) {
        error_set(error,
                  "%s: made of packed objects and others by 'ld -r'; link it, and name the image",
                  input->path);
        return NULL;
    }
    plan = image_plan_new(input, error);
    if (plan == NULL)
        return NULL;
    plan->is_packed = true;
    plan->facts = (struct sidecar_facts){
        .format = IMAGE_ELF,
        .elf_class = object.file.wide ? ELFCLASS64 : ELFCLASS32,
        .elf_data = object.file.big_endian ? ELFDATA2MSB : ELFDATA2LSB,
        .elf_type = ET_DYN, /* a sidecar is of a linked image */
        .machine = object.file.header.e_machine,
        .pointer_size = object.file.wide ? sizeof(uint64_t) : sizeof(uint32_t),
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        unsigned count = find_kind(&object, kinds[i], &header);
        struct bytes contents;

        if (count == 0)
            continue;
        if (count != 1 || !contents_of(&object, &header, &contents)) {
            error_set(error, "%s: damaged: its section %s is not one that compilers write",
                      input->path, section_kind_name(kinds[i]));
            image_plan_free(plan);
            return NULL;
        }
        image_plan_add(plan, &(struct section){.kind = kinds[i],
                                               .name = section_kind_name(kinds[i]),
                                               .offset = header.sh_offset,
                                               .size = header.sh_size,
                                               .alignment = header.sh_addralign,
                                               .fate = FATE_STAYS});
    }
    image_plan_sort(plan);
    return plan;
}
