/*
 * Strings and lists of strings for the tests.
 *
 * The tests run in short-lived processes (Check forks one for each), so memory is not freed, unless
 * a test makes thousands of strings, lists, files or outcomes of commands.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TEXT_H
#define COVSPLIT_TESTS_SUPPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
