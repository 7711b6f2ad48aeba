/*
 * The table of formats of objects: see object.h.
 */
#include "formats/object/object.h"

#include "formats/object/formats.h"

static enum result (*const formats[])(struct bytes file, struct object_packing *packing) = {
    elf_object_pack,
    coff_object_pack,
};

void object_packing_free(struct object_packing *packing)
{
    buffer_free(&packing->contents);
    *packing = (struct object_packing){0};
}

bool object_pack(struct bytes object, const char *name, struct object_packing *packing,
                 struct error *error)
{
    enum result result = RESULT_UNFIT;

    object_packing_free(packing);
    packing->outcome = OBJECT_NOT_ONE;
    for (size_t i = 0; packing->outcome == OBJECT_NOT_ONE && result == RESULT_UNFIT &&
                       i < sizeof(formats) / sizeof(*formats);
         i++)
        result = formats[i](object, packing);
    if (result == RESULT_OK) {
        packing->outcome = OBJECT_PACKED;
        return true;
    }
    buffer_free(&packing->contents);
    return result != RESULT_NO_MEMORY || error_out_of_memory(error, name, object.size);
}
