/*
 * The formats of objects: each packs what it recognizes (object.h).
 */
#ifndef COVSPLIT_FORMATS_OBJECT_FORMATS_H
#define COVSPLIT_FORMATS_OBJECT_FORMATS_H

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "formats/object/object.h"

/* Ok: packing->contents is the packed object. Unfit: packing->outcome tells why there is none;
 * OBJECT_NOT_ONE if it is not of this format. */
enum result elf_object_pack(struct bytes file, struct object_packing *packing);
enum result coff_object_pack(struct bytes file, struct object_packing *packing);

#endif
