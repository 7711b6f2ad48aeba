/*
 * Which object files a compiler's command line may write.
 *
 * The options of GCC, Clang, flang, clang-cl, cl and rustc are understood, and launchers and
 * response files (cli/command_words.h). The list may have files that the command does not write, or
 * that are no objects: whether a file was written, and what it is, must be seen from the file. But
 * it has no files that another command of the same build is likely to write at the same time.
 *
 * Not found are outputs that the command line does not name: crates whose name is only in the
 * source, and what environment variables and configuration files of compilers add.
 */
#ifndef COVSPLIT_SPLIT_COMPILE_COMPILER_OUTPUTS_H
#define COVSPLIT_SPLIT_COMPILE_COMPILER_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Appends to the list. False if out of memory or if a response file is invalid. */
bool compiler_outputs_read(struct path_list *outputs, const char *const *words, size_t count,
                           struct error *error);

#endif
