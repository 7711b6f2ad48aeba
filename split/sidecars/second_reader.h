/*
 * A second check of stripped images: LIEF, which has no code in common with covsplit, reads the
 * image too, and must see the same outline (formats/image.h).
 *
 * LIEF 0.9 ends the whole process on some malformed files, and copies everything it reads. So it is
 * loaded only into a child process, and only if the user asks for this check.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SECOND_READER_H
#define COVSPLIT_SPLIT_SIDECARS_SECOND_READER_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "formats/image.h"

/* Has LIEF read the image. False if it sees something else than covsplit. If LIEF is missing or
 * cannot read the file, that is only a warning: it does not decide what covsplit can read. ELF
 * images with more sections than LIEF reads pass, and so do all images in builds without LIEF. */
bool second_reader_agrees(const struct input *image, const struct container *container,
                          struct error *error);

#endif
