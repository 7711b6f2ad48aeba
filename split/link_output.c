/*
 * Finding the output of a link: see link_output.h.
 */
#include "split/link_output.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/file.h"
#include "common/memory_limit.h"

#define DEFAULT_OUTPUT "a.out"

/* As deep as anybody nests response files. */
#define DEPTH_MAX 10
/* The command may come behind others: "ccache clang", "env A=b link". */
#define LAUNCHERS_MAX 4

struct search {
    bool is_msvc;    /* options as link.exe has them */
    char *output;    /* NULL: none was named yet */
    bool is_awaited; /* the next word is the output */
    bool is_passed;  /* the next word is for another program, whatever it looks like */
    struct error *error;
};

/* ---- words ---- */

static bool name_output(struct search *search, const char *path)
{
    free(search->output);
    search->output = strdup(path);
    search->is_awaited = false;
    return search->output != NULL || error_out_of_memory(search->error, path, strlen(path));
}

/* What follows the option's name in the word; NULL for another option. */
static const char *value_of(const char *word, const char *name, bool ignores_case)
{
    size_t length = strlen(name);
    int order = ignores_case ? strncasecmp(word, name, length) : strncmp(word, name, length);

    return order == 0 ? word + length : NULL;
}

static bool take_msvc_word(struct search *search, const char *word)
{
    const char *value;

    if (word[0] != '/' && word[0] != '-')
        return true;
    value = value_of(word + 1, "out:", true);
    if (value == NULL)
        value = value_of(word + 1, "Fe", false);
    if (value != NULL && value[0] == ':')
        value++;
    return value == NULL || value[0] == '\0' || name_output(search, value);
}

static bool take_word(struct search *search, const char *word)
{
    const char *value = NULL;

    if (search->is_awaited)
        return name_output(search, word);
    if (search->is_passed) {
        search->is_passed = false;
        return true;
    }
    /* clang-cl and lld-link know -o too. */
    search->is_awaited = strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0;
    search->is_passed = strcmp(word, "-Xlinker") == 0 || strcmp(word, "-Xclang") == 0;
    if (search->is_awaited || search->is_passed)
        return true;
    if (search->is_msvc)
        return take_msvc_word(search, word);
    if ((value = value_of(word, "--output=", false)) == NULL)
        value = value_of(word, "-o", false);
    return value == NULL || name_output(search, value);
}

/* ---- response files ---- */

static bool take(struct search *search, const char *word, unsigned depth);

/* Backslashes keep what follows them together, but for MSVC, where they only guard a quote. */
static bool is_guard(const struct search *search, const char *at)
{
    return *at == '\\' && (search->is_msvc ? at[1] == '"' : at[1] != '\0');
}

/* Cuts the next word off *rest, in place; NULL behind the last one. */
static char *next_word(const struct search *search, char **rest)
{
    char *from = *rest, *word, *to;
    char quote = '\0';

    while (isspace((unsigned char)*from))
        from++;
    if (*from == '\0')
        return NULL;
    for (word = to = from; *from != '\0' && (quote != '\0' || !isspace((unsigned char)*from));
         from++) {
        if (is_guard(search, from))
            *to++ = *++from;
        else if (quote == '\0' && (*from == '"' || (*from == '\'' && !search->is_msvc)))
            quote = *from;
        else if (quote != '\0' && *from == quote)
            quote = '\0';
        else
            *to++ = *from;
    }
    *rest = *from == '\0' ? from : from + 1;
    *to = '\0';
    return word;
}

/* rustc writes UTF-16 for link.exe. What is no ASCII there becomes '?': a path with such characters
 * is not found, and then nothing is split. */
static void narrow(struct buffer *text)
{
    size_t size = 0;

    if (text->size < 3 || text->data[0] != 0xff || text->data[1] != 0xfe)
        return;
    for (size_t i = 2; i + 1 < text->size; i += 2) {
        uint16_t unit = load_u16(text->data + i, false);

        text->data[size++] = unit < 0x80 ? (uint8_t)unit : '?';
    }
    text->data[size++] = '\0';
    text->size = size;
}

static bool take_response_file(struct search *search, const char *path, unsigned depth)
{
    struct buffer text = {0};
    bool done = file_read_into(&text, path, MEMORY_LIMIT_MOST, search->error);
    char *rest, *word;

    if (done && !buffer_append(&text, "", 1))
        done = error_out_of_memory(search->error, path, text.size);
    if (done)
        narrow(&text);
    if (done && strlen((char *)text.data) + 1 < text.size)
        done = error_set(search->error, "%s: no response file: it has bytes of zero; name a text",
                         path);
    rest = (char *)text.data;
    while (done && (word = next_word(search, &rest)) != NULL)
        done = take(search, word, depth + 1);
    buffer_free(&text);
    return done;
}

static bool take(struct search *search, const char *word, unsigned depth)
{
    if (word[0] != '@' || search->is_awaited || access(word + 1, F_OK) != 0)
        return take_word(search, word);
    if (depth == DEPTH_MAX)
        return error_set(search->error, "%s: response files name each other; leave one out",
                         word + 1);
    return take_response_file(search, word + 1, depth);
}

/* ---- the command ---- */

static bool is_msvc_program(const char *word)
{
    static const char *const names[] = {"lld-link", "link.exe", "clang-cl"};
    const char *slash = strrchr(word, '/');
    const char *name = slash == NULL ? word : slash + 1;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncasecmp(name, names[i], strlen(names[i])) == 0)
            return true;
    }
    return strcasecmp(name, "link") == 0;
}

char *link_output_find(const char *const *words, size_t count, struct error *error)
{
    struct search search = {.error = error};
    bool done = true;

    for (size_t i = 0; i < count && i < LAUNCHERS_MAX; i++)
        search.is_msvc |= is_msvc_program(words[i]);
    for (size_t i = 1; i < count && done; i++)
        done = take(&search, words[i], 0);
    if (done && search.output == NULL)
        done = name_output(&search, DEFAULT_OUTPUT);
    if (done)
        return search.output;
    free(search.output);
    return NULL;
}
