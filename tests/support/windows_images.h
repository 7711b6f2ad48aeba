/*
 * Small Windows images of every kind, for the suites that damage or change them and test what
 * covsplit does.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGES_H
#define COVSPLIT_TESTS_SUPPORT_WINDOWS_IMAGES_H

#include <stdbool.h>

#include "tests/support/pe_file.h"
#include "tests/support/windows_program.h"

enum {
    WINDOWS_IMAGE_X86_64, /* made by lld-link, like the next two */
    WINDOWS_IMAGE_ARM64,
    WINDOWS_IMAGE_I686,
    WINDOWS_IMAGE_MINGW,  /* made by lld, with symbols */
    WINDOWS_IMAGE_MERGED, /* x86-64, with the records in .data, as with LLVM's own runtime */
    WINDOWS_IMAGES,
};

extern const struct windows_program windows_image_programs[WINDOWS_IMAGES];

/* The paths of the images. Those made by lld-link have map files beside them: PATH.map. */
extern char *windows_images[WINDOWS_IMAGES];

/* For unchecked fixtures. */
void windows_images_build(void);

/* A new directory for one test. */
char *windows_images_directory(void);

/* Splits an image in memory, with options (words): writes it to "input", and splits that into "out"
 * and "side", all in the directory. Returns what covsplit printed. Aborts the Check test if the
 * exit code is wrong. */
const char *windows_image_split(const struct pe_file *pe, const char *directory,
                                const char *options, int exit_code);

/* Builds a program in the directory, splits it and joins it. Returns what covsplit printed. */
const char *windows_image_split_variant(const struct windows_program *program,
                                        const char *directory, const char *options);

/* Aborts the Check test unless "out" and "side" join to "input". */
void windows_image_assert_joins(const char *directory);

/* True if "out" has nothing of the section but a tripwire. */
bool windows_image_lacks(const char *directory, const char *name);

#endif
