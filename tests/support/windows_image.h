/*
 * Checks of Windows images before and after a split.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H
#define COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/pe_file.h"
#include "tests/support/text.h"

/* Finds a section by its name, even if the linker merged it into another one, as the map file of
 * the original tells. Aborts the Check test if there is none. */
struct pe_section windows_section(const struct pe_file *pe, const char *map_path, const char *name);

/* The size of the tripwire in place of the names of a stripped image; 0: there is none. */
uint32_t windows_tripwire_size(const struct pe_file *pe);

/* The size of a data record of version 10, which is also that of the marker before the records. */
uint32_t windows_record_size(const struct pe_file *pe);

/* Whether the stripped file is smaller than the original by exactly what was removed, within a
 * FileAlignment for each section, and its headers and checksum are right. A map file is at
 * ORIGINAL.map. */
bool windows_sizes_are_right(const char *original_path, const char *stripped_path,
                             struct verdict *verdict);

/* Writes the raw profile of version 10 that the running image would write, with all records and
 * names, or with only the stub. Counters and bitmap are made up. */
void windows_profile_write(const struct pe_file *pe, const char *map_path, bool light,
                           const char *path);

#endif
