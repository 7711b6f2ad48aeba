/*
 * What is expected of Windows images before and after a split.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H
#define COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/pe_file.h"
#include "tests/support/text.h"

/* A section by its name, also where the linker merged it into another one, as the map file of the
 * original tells. Aborts the Check test where there is none. */
struct pe_section windows_section(const struct pe_file *pe, const char *map_path, const char *name);

/* The bytes of the tripwire that the names of a stripped image are; 0: they are none. */
uint32_t windows_tripwire_size(const struct pe_file *pe);

/* The bytes of a data record of version 10, and of the marker in front of them. */
uint32_t windows_record_size(const struct pe_file *pe);

/* The stripped file is the original minus what was removed, within a FileAlignment a section; the
 * rest of its headers tells so, and it has a right checksum. A map file is at ORIGINAL.map. */
bool windows_sizes_are_right(const char *original_path, const char *stripped_path,
                             struct verdict *verdict);

/* Writes what a program of version 10 would write that runs the image: with all records and names,
 * or with the stub alone. Counters and bitmap are made up. */
void windows_profile_write(const struct pe_file *pe, const char *map_path, bool light,
                           const char *path);

#endif
