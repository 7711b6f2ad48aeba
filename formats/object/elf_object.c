/*
 * ELF relocatables: see elf_object.h.
 */
#include "formats/object/elf_object.h"

#include "formats/object/formats.h"

enum result elf_object_pack(struct bytes file, struct object_packing *packing)
{
    struct elf_object object;
    enum result result = elf_object_read(&object, file, packing);

    if (result == RESULT_OK)
        result = elf_object_number(&object);
    if (result == RESULT_OK)
        result = elf_object_write(&object);
    elf_object_free(&object);
    return result;
}
