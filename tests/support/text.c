/*
 * The strings behind text.h. Out of memory is an abort: there is nothing a test could do about it.
 */
#include "tests/support/text.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *format_arguments(const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        abort();
    }
    return text;
}

char *text_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = format_arguments(format, arguments);
    va_end(arguments);
    return text;
}

char *text_replace(const char *text, const char *part, const char *replacement)
{
    char *result = text_format("%s", "");
    for (const char *at = strstr(text, part); at != NULL; at = strstr(text, part)) {
        char *longer = text_format("%s%.*s%s", result, (int)(at - text), text, replacement);
        free(result);
        result = longer;
        text = at + strlen(part);
    }
    char *whole = text_format("%s%s", result, text);
    free(result);
    return whole;
}

char *path_join(const char *directory, const char *name)
{
    return text_format("%s/%s", directory, name);
}

/* Takes ownership of the text. */
static void list_take(struct text_list *list, char *text)
{
    /* There is room for the next power of two, and the NULL: lists of lines have tens of thousands,
     * and with sanitizers each growth is another allocation. */
    if ((list->count & (list->count - 1)) == 0) {
        list->items = realloc(list->items, (2 * list->count + 2) * sizeof *list->items);
    }
    if (list->items == NULL || text == NULL) {
        abort();
    }
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
}

void text_list_add(struct text_list *list, const char *text)
{
    list_take(list, strdup(text));
}

void text_list_add_format(struct text_list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    list_take(list, format_arguments(format, arguments));
    va_end(arguments);
}

void text_list_add_all(struct text_list *list, const char *const *texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        text_list_add(list, texts[i]);
    }
}

/* Adds the non-empty runs of characters between the separators. */
static void add_parts(struct text_list *list, const char *text, const char *separators)
{
    while (*text != '\0') {
        size_t size = strcspn(text, separators);
        if (size != 0) {
            list_take(list, strndup(text, size));
        }
        text += size;
        text += strspn(text, separators);
    }
}

void text_list_add_words(struct text_list *list, const char *words)
{
    add_parts(list, words, " ");
}

struct text_list text_list_of_lines(const char *text)
{
    struct text_list list = {0};
    add_parts(&list, text, "\n");
    return list;
}

bool text_list_contains(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void text_list_free(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct text_list){0};
}

static char *group_digits(unsigned long long number)
{
    return number < 1000 ? text_format("%llu", number)
                         : text_format("%s,%03llu", group_digits(number / 1000), number % 1000);
}

char *text_of_count(unsigned long long count, const char *noun)
{
    return text_format("%s %s%s", group_digits(count), noun, count == 1 ? "" : "s");
}

size_t text_count(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + strlen(part), part)) {
        count++;
    }
    return count;
}

void assert_contains(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in:\n%s", part, text);
}

bool verdict_fail(struct verdict *verdict, const char *format, ...)
{
    if (verdict->problem == NULL) {
        va_list arguments;
        va_start(arguments, format);
        verdict->problem = format_arguments(format, arguments);
        va_end(arguments);
    }
    return false;
}

void verdict_assert(const struct verdict *verdict, const char *label)
{
    if (verdict->problem != NULL) {
        ck_abort_msg("%s: %s", label, verdict->problem);
    }
}
