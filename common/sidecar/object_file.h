/*
 * What the files that write and read objects share. Nothing else includes this.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H
#define COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H

#include "common/sidecar/note.h"
#include "common/sidecar/object.h"

/* Apart from the types of notes in sidecars, so that nobody takes an object for one. */
#define OBJECT_NOTE_TYPE 0x1010
#define OBJECT_NOTE_SIZE 32 /* without the text */

#endif
