/*
 * Strings, lists of strings, files and directories for the tests. Any failure here is a fault of
 * the set-up and aborts the Check test.
 *
 * The tests run in short-lived processes (Check forks one for each), so memory is not freed, unless
 * a test makes thousands of strings, lists, files or outcomes of commands.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_FILE_SYSTEM_H
#define COVSPLIT_TESTS_SUPPORT_FILE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* ---- strings ---- */

/* A new string, formatted as by printf. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text with `part` replaced wherever it occurs. */
char *text_replace(const char *text, const char *part, const char *replacement);

/* directory/name */
char *path_join(const char *directory, const char *name);

/* A list of copies of strings, NULL-terminated once it has an element. Initialize to {0}. */
struct text_list {
    char **items;
    size_t count;
};

void text_list_add(struct text_list *list, const char *text);
void text_list_add_format(struct text_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds all strings of a NULL-terminated array; NULL: none. */
void text_list_add_all(struct text_list *list, const char *const *texts);
/* Adds the words of a text, which are separated by blanks. */
void text_list_add_words(struct text_list *list, const char *words);
/* The lines of a text, without their newlines. */
struct text_list text_list_of_lines(const char *text);
bool text_list_contains(const struct text_list *list, const char *text);
void text_list_free(struct text_list *list);

/* "1 byte", "1,234,567 bytes" */
char *text_of_count(unsigned long long count, const char *noun);

/* How often `part` occurs in the text. */
size_t text_count(const char *text, const char *part);

/* Fails the Check test if `part` does not occur in the text. */
void assert_contains(const char *text, const char *part);

/*
 * The result of checks. The checks do not abort by themselves: the harness has tests of its own,
 * which must see them fail.
 */
struct verdict {
    char *problem; /* NULL: everything was as it should be */
};

/* Records the problem, unless there is one already, and returns false. */
bool verdict_fail(struct verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fails the Check test with "LABEL: " and the problem, if there is one. */
void verdict_assert(const struct verdict *verdict, const char *label);

/* ---- files and directories ---- */

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
