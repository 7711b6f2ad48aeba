/*
 * Packing an object, and describing one that was packed: see object.h.
 */
#include "formats/object/object.h"

#include "common/codec/packed_units/packed_unit.h"
#include "formats/object/elf_object.h"

void object_packing_free(struct object_packing *packing)
{
    buffer_free(&packing->contents);
    *packing = (struct object_packing){0};
}

bool object_pack(struct bytes file, const char *name, struct object_packing *packing,
                 struct error *error)
{
    struct elf_object object;
    enum result result;

    object_packing_free(packing);
    packing->outcome = OBJECT_NOT_ONE;
    result = elf_object_read(&object, file, packing);
    if (result == RESULT_OK)
        result = elf_object_number(&object);
    if (result == RESULT_OK)
        result = elf_object_write(&object);
    elf_object_free(&object);
    if (result == RESULT_OK) {
        packing->outcome = OBJECT_PACKED;
        return true;
    }
    buffer_free(&packing->contents);
    return result != RESULT_NO_MEMORY || error_out_of_memory(error, name, file.size);
}

/* ---- packed objects ---- */

/* Counts the sections of a kind, and sets *found to the last one. */
static unsigned find_kind(const struct elf_object *object, enum section_kind kind,
                          Elf64_Shdr *found)
{
    unsigned count = 0;

    for (uint32_t i = 1; i < object->section_count; i++) {
        if (elf_object_is_kind(object, i, kind)) {
            *found = elf_object_section(object, i);
            count++;
        }
    }
    return count;
}

static bool contents_of(const struct elf_object *object, const Elf64_Shdr *header,
                        struct bytes *contents)
{
    return header->sh_type == SHT_PROGBITS && (header->sh_flags & SHF_COMPRESSED) == 0 &&
           bytes_slice(object->file, header->sh_offset, header->sh_size, contents);
}

bool object_is_packed(struct bytes file)
{
    struct object_packing packing = {0};
    struct elf_object object;
    Elf64_Shdr header;
    struct bytes covmap;

    return elf_object_read_headers(&object, file, &packing) == RESULT_OK &&
           find_kind(&object, SECTION_COVMAP, &header) != 0 &&
           contents_of(&object, &header, &covmap) && unpack_is_needed(covmap, object.big_endian);
}

struct image_plan *object_describe(const struct input *input, struct error *error)
{
    static const enum section_kind kinds[] = {SECTION_COVMAP, SECTION_NAMES};
    struct object_packing packing = {0};
    struct image_plan *plan;
    struct elf_object object;
    Elf64_Shdr header;

    if (elf_object_read_headers(&object, input->bytes, &packing) != RESULT_OK) {
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
        .elf_class = object.wide ? ELFCLASS64 : ELFCLASS32,
        .elf_data = object.big_endian ? ELFDATA2MSB : ELFDATA2LSB,
        .elf_type = ET_DYN, /* a sidecar is of a linked image */
        .machine = load_u16(input->bytes.data + offsetof(Elf64_Ehdr, e_machine), object.big_endian),
        .pointer_size = object.wide ? sizeof(uint64_t) : sizeof(uint32_t),
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
