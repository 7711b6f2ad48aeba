/*
 * Files and directories for the tests. Whatever goes wrong here is a fault of the set-up and aborts
 * the Check test.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_FILE_SYSTEM_H
#define COVSPLIT_TESTS_SUPPORT_FILE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tests/support/text.h"

/* A whole file in memory. */
struct contents {
    uint8_t *data;
    size_t size;
};

struct contents file_read(const char *path);
void contents_free(struct contents *contents);
bool contents_equal(const struct contents *a, const struct contents *b);

void file_write(const char *path, const void *data, size_t size);
void file_write_text(const char *path, const char *text);
/* Keeps the permission bits. */
void file_copy(const char *from, const char *to);
bool file_exists(const char *path);
uint64_t file_size(const char *path);
struct stat file_status(const char *path);

/* Whether two files have the same bytes; where not, says so with the place of the first difference.
 */
bool files_equal(const char *path, const char *other, struct verdict *verdict);

/* Fails the Check test, after "LABEL: ", where they have not. */
void files_assert_equal(const char *path, const char *other, const char *label);

/* Makes a directory below $TMPDIR (or /tmp). It goes with all that is in it at the end of the
 * process that made it: of a test, or of a suite's program. Of what fails the files stay, and can
 * be looked at; COVSPLIT_TEST_KEEP=1 keeps them always. */
char *scratch_create(const char *label);
/* Removes it sooner. */
void scratch_remove(const char *directory);

void directory_create(const char *path);
/* The names in a directory, sorted, without "." and "..". */
struct text_list directory_list(const char *path);
/* Removes a directory with all that is in it; nothing happens where there is none. */
void directory_remove(const char *path);

#endif
