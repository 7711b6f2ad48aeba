/*
 * What the files that implement output.h share.
 */
#ifndef COVSPLIT_COMMON_BASE_OUTPUT_PARTS_H
#define COVSPLIT_COMMON_BASE_OUTPUT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/output.h"

/* Small writes are buffered up to this size, and files are copied in pieces of this size. */
#define OUTPUT_PIECE_SIZE ((size_t)1 << 20)

/* The X of output_temporary_template, as for mkostemp. */
#define OUTPUT_TEMPORARY_RANDOM 6

/* "DIRECTORY/.NAME.covsplit-XXXXXX" as a new string, in the directory of the target so that a
 * rename cannot cross file systems. NULL if out of memory. */
char *output_temporary_template(const char *target);

/* Removes the file that has the temporary name, if there is one; or only forgets the name. */
void output_remove_temporary(struct output *output);
void output_forget_temporary(struct output *output);

/* Adds to output->unkept what could not be kept of a file that is edited in place. */
void output_note_unkept(const struct output *output, const char *what);

/* Writes all of the data. `path` is for the error. */
bool output_write_all(int fd, const char *path, const uint8_t *data, size_t size,
                      struct error *error);

#endif
