/*
 * A second opinion on stripped images: LIEF, which shares nothing with covsplit, reads the image
 * too, and must see the same outline (formats/image.h).
 *
 * LIEF 0.9 ends the whole process on some malformed files, and copies everything; so it is loaded
 * only into a child process, and only where somebody asks for it.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SECOND_READER_H
#define COVSPLIT_SPLIT_SIDECARS_SECOND_READER_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "formats/container.h"

/* Has the image read. False where LIEF sees another image than covsplit. Where LIEF cannot be had,
 * or cannot read the file, that is a warning: it is no judge of what covsplit can read. Images that
 * have no outline, and builds without LIEF, pass. */
bool second_reader_agrees(const struct input *image, const struct container *container,
                          struct error *error);

#endif
