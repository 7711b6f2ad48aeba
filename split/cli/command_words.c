/*
 * Command lines of compilers and linkers: see command_words.h.
 */
#include "split/cli/command_words.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "split/cli/memory.h"

/* Response files are never nested this deep in practice. */
#define DEPTH_MAX 10
/* An unknown launcher may stand in front of the program: this many words may be its name. */
#define NAMES_MAX 4

bool word_is_listed(const char *word, const char *const *list)
{
    while (*list != NULL && strcmp(word, *list) != 0)
        list++;
    return *list != NULL;
}

/* ---- the program ---- */

struct program {
    const char *name;
    bool is_whole; /* else a suffix may follow: lld-link-19 */
    enum command_style style;
};

static const struct program programs[] = {
    {"lld-link", false, STYLE_MSVC_LINKER},
    {"link.exe", false, STYLE_MSVC_LINKER},
    {"link", true, STYLE_MSVC_LINKER},
    {"clang-cl", false, STYLE_MSVC},
    {"cl.exe", false, STYLE_MSVC},
    {"cl", true, STYLE_MSVC},
    {"rustc", true, STYLE_RUST},
};

static bool find_style(const char *word, enum command_style *style)
{
    const char *name = path_file_name(word);

    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        const struct program *program = &programs[i];

        if (program->is_whole ? strcasecmp(name, program->name) != 0
                              : strncasecmp(name, program->name, strlen(program->name)) != 0)
            continue;
        *style = program->style;
        return true;
    }
    return false;
}

static bool is_launcher(const char *word)
{
    static const char *const launchers[] = {"covsplit", "ccache", "sccache", "buildcache",
                                            "distcc",   "icecc",  "gomacc",  "rewrapper",
                                            "env",      "nice",   "time",    NULL};

    return word_is_listed(path_file_name(word), launchers);
}

/* Skips a launcher with its options, and settings like A=b; of covsplit's own, all up to "--". */
static size_t skip_launcher(const char *const *words, size_t count, size_t at)
{
    bool ends_by_dashes = strcmp(path_file_name(words[at]), "covsplit") == 0;

    do
        at++;
    while (at + 1 < count && (ends_by_dashes ? strcmp(words[at - 1], "--") != 0
                                             : words[at][0] == '-' || strchr(words[at], '=')));
    return at;
}

/* Finds the program, and returns its index. */
static size_t find_program(const char *const *words, size_t count, enum command_style *style)
{
    size_t first = 0;

    *style = STYLE_GNU;
    while (first + 1 < count && is_launcher(words[first]))
        first = skip_launcher(words, count, first);
    for (size_t i = first; i < count && i < first + NAMES_MAX && words[i][0] != '-'; i++) {
        if (find_style(words[i], style))
            return i;
    }
    return first;
}

/* ---- response files ---- */

struct reading {
    struct path_list *words;
    bool is_windows_quoted;
    bool has_lines;    /* a word on each line, without quotes */
    bool has_comments; /* a word that begins with '#' begins one, to the end of the line */
    struct error *error;
};

static bool take_word(struct reading *reading, const char *word, unsigned depth);

/* A backslash protects the next character; on Windows, only if that is a quote. */
static bool is_guard(const struct reading *reading, const char *at)
{
    return *at == '\\' && (reading->is_windows_quoted ? at[1] == '"' : at[1] != '\0');
}

static char *next_line(char **rest)
{
    char *line = *rest, *end = line + strcspn(line, "\n");

    if (*line == '\0')
        return NULL;
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return line;
}

/* Cuts the next word off *rest, in place; NULL if there are no more. */
static char *next_word(const struct reading *reading, char **rest)
{
    char *from = *rest, *word, *to;
    char quote = '\0';

    if (reading->has_lines)
        return next_line(rest);
    /* Where there are comments, a line may also go on behind a backslash. */
    while (isspace((unsigned char)*from) ||
           (reading->has_comments && (*from == '#' || strncmp(from, "\\\n", 2) == 0)))
        from += *from == '#' ? strcspn(from, "\n") : 1;
    if (*from == '\0')
        return NULL;
    for (word = to = from; *from != '\0' && (quote != '\0' || !isspace((unsigned char)*from));
         from++) {
        if (is_guard(reading, from))
            *to++ = *++from;
        else if (quote == '\0' && (*from == '"' || (*from == '\'' && !reading->is_windows_quoted)))
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

/* rustc writes UTF-16 for link.exe. Non-ASCII characters become '?': if the output's path contains
 * any, the file is not found, and nothing is done. */
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

static bool take_response_file(struct reading *reading, const char *path, unsigned depth)
{
    struct buffer text = {0};
    bool done = file_read_into(&text, path, MEMORY_LIMIT_MOST, reading->error);
    char *rest, *word;

    exit_unless_allocated(buffer_append(&text, "", 1), text.size);
    if (done)
        narrow(&text);
    if (done && strlen((char *)text.data) + 1 < text.size)
        done = error_set(reading->error,
                         "%s: not a response file: it contains NUL bytes; name a text file", path);
    rest = (char *)text.data;
    while (done && (word = next_word(reading, &rest)) != NULL)
        done = take_word(reading, word, depth + 1);
    buffer_free(&text);
    return done;
}

static bool take_word(struct reading *reading, const char *word, unsigned depth)
{
    if (word[0] != '@' || access(word + 1, F_OK) != 0) {
        path_list_add(reading->words, word);
        return true;
    }
    if (depth == DEPTH_MAX)
        return error_set(reading->error, "%s: response files name each other; leave one out",
                         word + 1);
    return take_response_file(reading, word + 1, depth);
}

/* ---- Clang ---- */

static bool is_clang(const char *program)
{
    return strstr(path_file_name(program), "clang") != NULL;
}

/* Takes the file that --config names: a path, or a name in a directory that another option names.
 * Where else Clang looks for it, it is not found. */
static bool take_config(struct reading reading, const char *const *words, size_t count,
                        const char *file)
{
    char *path = command_text("%s", file);
    bool done = true;

    reading.has_comments = true;
    for (size_t i = 0; strchr(file, '/') == NULL && i < count && access(path, F_OK) != 0; i++) {
        const char *directory = strstr(words[i], "-dir=");

        if (strncmp(words[i], "--config-", strlen("--config-")) != 0 || directory == NULL)
            continue;
        free(path);
        path = command_text("%s/%s", directory + strlen("-dir="), file);
    }
    if (access(path, F_OK) == 0)
        done = take_response_file(&reading, path, 0);
    free(path);
    return done;
}

/* Takes all files of --config. */
static bool take_configs(const struct reading *reading, const char *const *words, size_t count)
{
    static const char option[] = "--config";
    size_t length = strlen(option);
    bool done = true;

    for (size_t i = 0; done && i < count; i++) {
        if (strncmp(words[i], option, length) != 0)
            continue;
        if (words[i][length] == '=')
            done = take_config(*reading, words, count, words[i] + length + 1);
        else if (words[i][length] == '\0' && i + 1 < count)
            done = take_config(*reading, words, count, words[i + 1]);
    }
    return done;
}

/* CCC_OVERRIDE_OPTIONS has edits, separated by blanks, with a '#' in front of them for silence.
 * "+X" adds the word X at the end, "^X" at the beginning. Those which remove words are left out. */
static void take_overrides(struct path_list *words)
{
    const char *edits = getenv("CCC_OVERRIDE_OPTIONS");
    char *copy = command_copy(edits == NULL ? "" : edits), *rest = NULL;

    for (char *edit = strtok_r(copy + (copy[0] == '#'), " ", &rest); edit != NULL;
         edit = strtok_r(NULL, " ", &rest)) {
        if (*edit != '+' && *edit != '^')
            continue;
        path_list_add(words, edit + 1);
        if (*edit == '^') {
            char *last = words->paths[words->count - 1];

            memmove(words->paths + 1, words->paths, (words->count - 1) * sizeof(*words->paths));
            words->paths[0] = last;
        }
    }
    free(copy);
}

/* Options with which no objects are made. */
static const char *const other_outputs[] = {
    "-###",
    "--analyze",
    "--assemble",
    "--precompile",
    "--preprocess",
    "-E",
    "-M",
    "-MM",
    "-S",
    "-emit-ast",
    "-emit-llvm",
    "-emit-pch",
    "-extract-api",
    "-fsyntax-only",
    "-rewrite-objc",
    "-verify-pch",
    NULL,
};

bool command_option_makes_others(const char *word)
{
    return word_is_listed(word, other_outputs);
}

/* ---- the whole ---- */

static struct reading reading_of(struct command_words *command, struct error *error)
{
    return (struct reading){
        .words = &command->words,
        .is_windows_quoted = command->style == STYLE_MSVC || command->style == STYLE_MSVC_LINKER,
        .has_lines = command->style == STYLE_RUST,
        .error = error,
    };
}

bool command_words_read(struct command_words *command, const char *const *words, size_t count,
                        struct error *error)
{
    struct reading reading;
    bool done = true;
    size_t program;

    *command = (struct command_words){.style = STYLE_GNU};
    program = find_program(words, count, &command->style);
    command->program = words[program];
    words += program + 1;
    count -= program + 1;
    reading = reading_of(command, error);
    /* Clang's options that say whose options and quoting follow. */
    for (size_t i = 0; i < count; i++) {
        bool is_cl = strcmp(words[i], "--driver-mode=cl") == 0;

        if (is_cl)
            command->style = STYLE_MSVC;
        if (is_cl || strcmp(words[i], "--rsp-quoting=windows") == 0)
            reading.is_windows_quoted = true;
        else if (strcmp(words[i], "--rsp-quoting=posix") == 0)
            reading.is_windows_quoted = false;
    }
    if (is_clang(command->program))
        done = take_configs(&reading, words, count);
    for (size_t i = 0; i < count && done; i++)
        done = take_word(&reading, words[i], 0);
    if (done && is_clang(command->program))
        take_overrides(&command->words);
    if (!done)
        command_words_free(command);
    return done;
}

bool command_words_add(struct command_words *command, const char *word, struct error *error)
{
    struct reading reading = reading_of(command, error);

    return take_word(&reading, word, 0);
}

void command_words_free(struct command_words *command)
{
    path_list_free(&command->words);
}
