/*
 * What the files that write and read objects share. Only these include this header.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H
#define COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H

#include "common/sidecar/note.h"
#include "common/sidecar/object.h"

/* Different from the note types in sidecars, so that an object is not taken for a sidecar. */
#define OBJECT_NOTE_TYPE 0x1010
#define OBJECT_NOTE_SIZE 32 /* without the text */

#endif
