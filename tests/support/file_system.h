/*
 * Files and directories for the tests. Any failure here is a fault of the set-up and aborts the
 * Check test.
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
/* Copies the permission bits too. */
void file_copy(const char *from, const char *to);
bool file_exists(const char *path);
uint64_t file_size(const char *path);
struct stat file_status(const char *path);

/* Whether two files are equal; if not, the verdict tells the place of the first difference. */
bool files_equal(const char *path, const char *other, struct verdict *verdict);

/* Fails the Check test, with a message that begins with "LABEL: ", if they are not equal. */
void files_assert_equal(const char *path, const char *other, const char *label);

/* Makes a directory in $TMPDIR (or /tmp). It is removed with its contents when the process that
 * made it ends: a test, or a suite's program. If a test fails, its files are kept for inspection;
 * COVSPLIT_TEST_KEEP=1 always keeps them. */
char *scratch_create(const char *label);
/* From now on in memory, if there is such a file system, unless $TMPDIR is set: for suites that
 * would wait for the disk, with much that is synced. */
void scratch_use_memory(void);
/* Removes it earlier. */
void scratch_remove(const char *directory);

void directory_create(const char *path);
/* The names in a directory, sorted, without "." and "..". */
struct text_list directory_list(const char *path);
/* Removes a directory with its contents, if it exists. */
void directory_remove(const char *path);

#endif
