/*
 * Reading the command lines of compilers: see compile.h.
 *
 * With -o, the output is known. Without, each source has an object of its own name in the current
 * directory, so sources must be told from the values of options. A value that is taken for a source
 * costs one stat(2).
 */
#include "split/compile/compile.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "split/cli/command_words.h"
#include "split/cli/memory.h"

struct reading {
    const struct path_list *words;
    size_t next; /* the index of the next word */
    struct path_list *outputs;

    const char *output;    /* of -o or /Fo; NULL: not given */
    const char *directory; /* of -working-directory or --out-dir; NULL: the current one */
    struct path_list sources;
    bool is_frontend;       /* clang -cc1: the object is beside the source */
    bool compiles;          /* -c: objects are not linked */
    bool makes_others;      /* -S, -E, ...: no objects */
    bool keeps_temporaries; /* -save-temps: objects that are linked stay */
    bool keeps_beside;      /* ... beside the output, not in the current directory */

    const char *crate, *extra_name; /* rustc's; NULL: not given */
};

/* ---- words ---- */

/* The word after the one that is read; NULL at the end. */
static const char *next_word(struct reading *reading)
{
    return reading->next < reading->words->count ? reading->words->paths[reading->next++] : NULL;
}

static bool starts_with(const char *word, const char *start)
{
    return strncmp(word, start, strlen(start)) == 0;
}

/* True if the word is this option. Its value follows a '=' or is the next word, or for a short
 * option, it may also follow directly. */
static bool take_value(struct reading *reading, const char *word, const char *option,
                       const char **value)
{
    const char *behind = word + strlen(option);
    bool is_short = strlen(option) == 2;

    if (!starts_with(word, option) || (!is_short && *behind != '\0' && *behind != '='))
        return false;
    if (*behind == '\0')
        *value = next_word(reading);
    else
        *value = is_short ? behind : behind + 1;
    return true;
}

/* ---- outputs ---- */

static void add_output(struct reading *reading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds an output whose path is formatted as by printf. */
static void add_output(struct reading *reading, const char *format, ...)
{
    char *path = NULL;
    va_list values;

    va_start(values, format);
    exit_unless_allocated(vasprintf(&path, format, values) >= 0, strlen(format));
    va_end(values);
    path_list_add(reading->outputs, path);
    free(path);
}

/* The length of the path without its extension. */
static int stem_length(const char *path)
{
    const char *dot = strrchr(path_file_name(path), '.');

    return (int)(dot == NULL ? strlen(path) : (size_t)(dot - path));
}

/* Adds the output, which may be relative to -working-directory. */
static void add_compiled(struct reading *reading, const char *path, const char *extension)
{
    int stem = extension[0] == '\0' ? (int)strlen(path) : stem_length(path);
    bool is_moved = reading->directory != NULL && path[0] != '/';

    add_output(reading, "%s%s%.*s%s", is_moved ? reading->directory : "", is_moved ? "/" : "", stem,
               path, extension);
}

/* ---- GCC, Clang and flang ---- */

/* Options whose value is the next word, without their first dash; of some it only may be. */
static const char *const valued_options[] = {
    "A", "B", "D", "F", "G", "I", "J", "L", "MF", "MJ", "MQ", "MT", "T", "U", "Xanalyzer",
    "Xarch_device", "Xarch_host", "Xassembler", "Xclang", "Xclangas", "Xcuda-fatbinary",
    "Xcuda-ptxas", "Xflang", "Xlinker", "Xopenmp-target", "Xpreprocessor", "arch", "aux-info",
    "ccc-gcc-name", "ccc-install-dir", "cxx-isystem", "darwin-target-variant", "dependency-dot",
    "dependency-file", "dumpbase", "dumpbase-ext", "dumpdir", "e", "fmodules-user-build-path",
    "framework", "iapinotes-modules", "idirafter", "iframework", "iframeworkwithsysroot", "imacros",
    "imultiarch", "imultilib", "include", "include-pch", "index-store-path", "iprefix", "iquote",
    "isysroot", "isystem", "isystem-after", "ivfsoverlay", "iwithprefix", "iwithprefixbefore",
    "iwithsysroot", "l", "mllvm", "mmlir", "module-dependency-dir", "module-dir", "mthread-model",
    "resource-dir", "rpath", "serialize-diagnostics", "target", "u", "vfsoverlay", "wrapper", "x",
    "z",
    /* after two dashes: */
    "-config", "-define-macro", "-imacros", "-include", "-include-directory", "-language", "-param",
    "-serialize-diagnostics", "-sysroot", "-undefine-macro", NULL};

static void take_gnu_option(struct reading *reading, const char *word)
{
    bool is_other = strcmp(word, "-object") == 0 || starts_with(word, "-object-file-name=") ||
                    starts_with(word, "-objcmt-");

    if (take_value(reading, word, "--output", &reading->output) ||
        (!is_other && take_value(reading, word, "-o", &reading->output)) ||
        take_value(reading, word, "-working-directory", &reading->directory))
        return;
    if (word_is_listed(word + 1, valued_options))
        next_word(reading);
    reading->compiles |=
        strcmp(word, "-c") == 0 || strcmp(word, "--compile") == 0 || strcmp(word, "-emit-obj") == 0;
    reading->makes_others |= command_option_makes_others(word);
    reading->is_frontend |= strcmp(word, "-cc1") == 0 || strcmp(word, "-fc1") == 0;
    if (starts_with(word, "-save-temps") || starts_with(word, "--save-temps")) {
        reading->keeps_temporaries = true;
        reading->keeps_beside = strstr(word, "=obj") != NULL;
    }
}

/* With -save-temps, Clang keeps what it links. */
static void add_temporaries(struct reading *reading)
{
    int beside = reading->keeps_beside && reading->output != NULL
                     ? (int)(path_file_name(reading->output) - reading->output)
                     : 0;

    for (size_t i = 0; i < reading->sources.count; i++) {
        const char *name = path_file_name(reading->sources.paths[i]);

        add_output(reading, "%.*s%.*s.o", beside, reading->output, stem_length(name), name);
    }
}

static void add_gnu_outputs(struct reading *reading)
{
    const struct path_list *sources = &reading->sources;

    if (reading->makes_others)
        return;
    if (!reading->compiles && reading->keeps_temporaries)
        add_temporaries(reading);
    if (reading->output != NULL) {
        if (strcmp(reading->output, "-") != 0)
            add_compiled(reading, reading->output, "");
    } else if (sources->count != 0 && !reading->compiles) {
        add_output(reading, "a.out");                         /* an object with -r */
    } else if (sources->count != 0 && reading->is_frontend) { /* of one source, the last word */
        add_compiled(reading, sources->paths[sources->count - 1], ".o");
    } else {
        for (size_t i = 0; i < sources->count; i++)
            add_compiled(reading, path_file_name(sources->paths[i]), ".o");
    }
}

/* ---- rustc ---- */

static void take_rust_option(struct reading *reading, const char *word)
{
    const char *value = NULL;

    if (take_value(reading, word, "-o", &reading->output) ||
        take_value(reading, word, "--out-dir", &reading->directory) ||
        take_value(reading, word, "--crate-name", &reading->crate))
        return;
    if (take_value(reading, word, "--emit", &value)) { /* KIND[=PATH],... */
        while (value != NULL && *value != '\0') {
            size_t length = strcspn(value, ","), kind = strcspn(value, "=,");

            if (kind < length)
                add_output(reading, "%.*s", (int)(length - kind - 1), value + kind + 1);
            value += length + (value[length] == ',');
        }
    } else if ((take_value(reading, word, "-C", &value) ||
                take_value(reading, word, "--codegen", &value)) &&
               value != NULL && starts_with(value, "extra-filename=")) {
        reading->extra_name = strchr(value, '=') + 1;
    }
}

/* The name of a crate is that of its source, with '_' for '-', unless it is given. */
static char *crate_name(const struct reading *reading)
{
    const struct path_list *sources = &reading->sources;
    const char *name;
    char *result;

    if (reading->crate != NULL || sources->count == 0)
        return command_copy(reading->crate == NULL ? "" : reading->crate);
    name = path_file_name(sources->paths[sources->count - 1]);
    result = command_text("%.*s", stem_length(name), name);
    for (char *at = result; *at != '\0'; at++)
        *at = *at == '-' ? '_' : *at;
    return result;
}

static void add_rust_outputs(struct reading *reading)
{
    static const char *const forms[][2] = {{"lib", ".rlib"}, {"lib", ".a"}, {"", ".o"}};
    const char *extra = reading->extra_name == NULL ? "" : reading->extra_name;
    const char *directory = reading->directory;
    char *crate;

    if (reading->output != NULL) {
        add_output(reading, "%s", reading->output);
        return;
    }
    crate = crate_name(reading);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && crate[0] != '\0'; i++)
        add_output(reading, "%s%s%s%s%s%s", directory == NULL ? "" : directory,
                   directory == NULL ? "" : "/", forms[i][0], crate, extra, forms[i][1]);
    free(crate);
}

/* ---- the whole ---- */

bool compiler_outputs_read(struct path_list *outputs, const char *const *words, size_t count,
                           struct error *error)
{
    struct command_words command;
    struct reading reading = {.outputs = outputs};
    bool is_ended = false; /* by "--": all words are sources */
    bool is_rust;
    const char *word;

    if (!command_words_read(&command, words, count, error))
        return false;
    is_rust = command.style == STYLE_RUST;
    reading.words = &command.words;
    while ((word = next_word(&reading)) != NULL) {
        bool is_option = !is_ended && word[0] == '-' && word[1] != '\0';

        if (is_option && strcmp(word, "--") == 0)
            is_ended = true;
        else if (is_option && is_rust)
            take_rust_option(&reading, word);
        else if (is_option)
            take_gnu_option(&reading, word);
        else if (is_ended || !is_rust || strcmp(word + stem_length(word), ".rs") == 0)
            path_list_add(&reading.sources, word);
    }
    if (is_rust)
        add_rust_outputs(&reading);
    else if (command.style != STYLE_MSVC) /* whose objects are not packed */
        add_gnu_outputs(&reading);
    path_list_free(&reading.sources);
    command_words_free(&command);
    return true;
}
