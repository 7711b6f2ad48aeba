/*
 * Packing an object: see object.h.
 */
#include "formats/object/object.h"

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
