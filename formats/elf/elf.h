/*
 * ELF images behind the interface of image.h (System V gABI; x86-64 psABI).
 */
#ifndef COVSPLIT_FORMATS_ELF_ELF_H
#define COVSPLIT_FORMATS_ELF_ELF_H

#include "formats/image.h"

bool elf_recognize(struct bytes bytes);
bool elf_is_linked(struct bytes bytes);
struct image_plan *elf_plan(const struct input *input, const struct image_options *options,
                            struct error *error);
bool elf_find_split(const struct input *input, struct split_image *split, struct error *error);

#endif
