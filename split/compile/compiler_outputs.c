/*
 * Reading the command lines of compilers: see compiler_outputs.h.
 *
 * With -o, the output is known. Without, each source has an object of its own name in the current
 * directory, so sources must be told from the values of options. A value that is taken for a source
 * costs one stat(2).
 */
#include "split/compile/compiler_outputs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/cli/command_words.h"

struct reading {
    enum command_style style;
    const struct path_list *words;
    size_t next; /* the index of the next word */
    struct path_list *outputs;
    struct error *error;

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

/* Whether the word is this option. Its value follows a '=' or is the next word, or for a short
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

static bool is_listed(const char *word, const char *const *list)
{
    while (*list != NULL && strcmp(word, *list) != 0)
        list++;
    return *list != NULL;
}

static bool add_source(struct reading *reading, const char *path)
{
    return path_list_add(&reading->sources, path, reading->error);
}

/* ---- outputs ---- */

static bool add_output(struct reading *reading, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds an output whose path is formatted as by printf. */
static bool add_output(struct reading *reading, const char *format, ...)
{
    char *path = NULL;
    va_list values;
    bool done;

    va_start(values, format);
    done = vasprintf(&path, format, values) >= 0 || error_out_of_memory(reading->error, format, 0);
    va_end(values);
    done = done && path_list_add(reading->outputs, path, reading->error);
    free(path);
    return done;
}

/* The length of the path without its extension. */
static int stem_length(const char *path)
{
    const char *dot = strrchr(path_file_name(path), '.');

    return (int)(dot == NULL ? strlen(path) : (size_t)(dot - path));
}

/* Adds the output, which may be relative to -working-directory. */
static bool add_compiled(struct reading *reading, const char *path, const char *extension)
{
    int stem = extension[0] == '\0' ? (int)strlen(path) : stem_length(path);
    bool is_moved = reading->directory != NULL && path[0] != '/';

    return add_output(reading, "%s%s%.*s%s", is_moved ? reading->directory : "",
                      is_moved ? "/" : "", stem, path, extension);
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

/* Options with which no objects are made. */
static const char *const other_outputs[] = {"-###",
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
                                            NULL};

static bool is_output_option(const char *word)
{
    return strcmp(word, "-object") != 0 && !starts_with(word, "-object-file-name=") &&
           !starts_with(word, "-objcmt-");
}

static void take_gnu_option(struct reading *reading, const char *word)
{
    if (take_value(reading, word, "--output", &reading->output) ||
        (is_output_option(word) && take_value(reading, word, "-o", &reading->output)) ||
        take_value(reading, word, "-working-directory", &reading->directory))
        return;
    if (is_listed(word + 1, valued_options))
        next_word(reading);
    reading->compiles |=
        strcmp(word, "-c") == 0 || strcmp(word, "--compile") == 0 || strcmp(word, "-emit-obj") == 0;
    reading->makes_others |= is_listed(word, other_outputs);
    reading->is_frontend |= strcmp(word, "-cc1") == 0 || strcmp(word, "-fc1") == 0;
    if (starts_with(word, "-save-temps") || starts_with(word, "--save-temps")) {
        reading->keeps_temporaries = true;
        reading->keeps_beside = strstr(word, "=obj") != NULL;
    }
}

/* With -save-temps, Clang keeps what it links. */
static bool add_temporaries(struct reading *reading)
{
    bool done = true;

    for (size_t i = 0; i < reading->sources.count && done; i++) {
        const char *name = path_file_name(reading->sources.paths[i]);
        int beside = reading->keeps_beside && reading->output != NULL
                         ? (int)(path_file_name(reading->output) - reading->output)
                         : 0;

        done = add_output(reading, "%.*s%.*s.o", beside, reading->output, stem_length(name), name);
    }
    return done;
}

static bool add_gnu_outputs(struct reading *reading)
{
    const struct path_list *sources = &reading->sources;
    bool done = true;

    if (reading->makes_others)
        return true;
    if (!reading->compiles && reading->keeps_temporaries && !add_temporaries(reading))
        return false;
    if (reading->output != NULL)
        return strcmp(reading->output, "-") == 0 || add_compiled(reading, reading->output, "");
    if (sources->count == 0)
        return true;
    if (!reading->compiles)
        return add_output(reading, "a.out"); /* an object with -r */
    if (reading->is_frontend)                /* it has one source, the last word */
        return add_compiled(reading, sources->paths[sources->count - 1], ".o");
    for (size_t i = 0; i < sources->count && done; i++)
        done = add_compiled(reading, path_file_name(sources->paths[i]), ".o");
    return done;
}

/* ---- rustc ---- */

/* --emit=KIND[=PATH],... */
static bool add_emitted(struct reading *reading, const char *kinds)
{
    bool done = true;

    while (kinds != NULL && *kinds != '\0' && done) {
        size_t length = strcspn(kinds, ","), kind = strcspn(kinds, "=,");

        if (kind < length)
            done = add_output(reading, "%.*s", (int)(length - kind - 1), kinds + kind + 1);
        kinds += length + (kinds[length] == ',');
    }
    return done;
}

static bool take_rust_option(struct reading *reading, const char *word)
{
    const char *value = NULL;

    if (take_value(reading, word, "-o", &reading->output) ||
        take_value(reading, word, "--out-dir", &reading->directory) ||
        take_value(reading, word, "--crate-name", &reading->crate))
        return true;
    if (take_value(reading, word, "--emit", &value))
        return add_emitted(reading, value);
    if ((take_value(reading, word, "-C", &value) ||
         take_value(reading, word, "--codegen", &value)) &&
        value != NULL && starts_with(value, "extra-filename="))
        reading->extra_name = strchr(value, '=') + 1;
    return true;
}

/* The name of a crate is that of its source, with '_' for '-', unless it is given. */
static char *crate_name(const struct reading *reading)
{
    const struct path_list *sources = &reading->sources;
    const char *name = reading->crate;
    int length;
    char *result = NULL;

    if (name == NULL && sources->count != 0)
        name = path_file_name(sources->paths[sources->count - 1]);
    length = name == NULL || name == reading->crate ? -1 : stem_length(name);
    if (asprintf(&result, "%.*s", length, name == NULL ? "" : name) < 0)
        return NULL;
    for (char *at = result; name != reading->crate && *at != '\0'; at++)
        *at = *at == '-' ? '_' : *at;
    return result;
}

static bool add_crate(struct reading *reading)
{
    static const char *const forms[][2] = {
        {"lib", ".rlib"}, {"lib", ".a"}, {"", ".lib"}, {"", ".o"}};
    const char *extra = reading->extra_name == NULL ? "" : reading->extra_name;
    const char *directory = reading->directory;
    char *crate = crate_name(reading);
    bool done = crate != NULL || error_out_of_memory(reading->error, "the command line", 0);

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && done && crate[0] != '\0'; i++)
        done = add_output(reading, "%s%s%s%s%s%s", directory == NULL ? "" : directory,
                          directory == NULL ? "" : "/", forms[i][0], crate, extra, forms[i][1]);
    free(crate);
    return done;
}

static bool add_rust_outputs(struct reading *reading)
{
    return reading->output != NULL ? add_output(reading, "%s", reading->output)
                                   : add_crate(reading);
}

/* ---- the whole ---- */

static bool is_source(const struct reading *reading, const char *word)
{
    const char *extension = word + stem_length(word);

    if (reading->style == STYLE_RUST)
        return strcmp(extension, ".rs") == 0;
    return word[0] != '-' || word[1] == '\0';
}

static bool take_option(struct reading *reading, const char *word)
{
    if (reading->style == STYLE_RUST)
        return take_rust_option(reading, word);
    take_gnu_option(reading, word);
    return true;
}

static bool take_words(struct reading *reading)
{
    bool is_ended = false; /* by "--": all words are sources */
    bool done = true;
    const char *word;

    while (done && (word = next_word(reading)) != NULL) {
        if (!is_ended && strcmp(word, "--") == 0)
            is_ended = true;
        else if (!is_ended && word[0] == '-' && word[1] != '\0')
            done = take_option(reading, word);
        else if (is_ended || is_source(reading, word))
            done = add_source(reading, word);
    }
    return done;
}

static bool add_outputs(struct reading *reading)
{
    if (reading->style == STYLE_RUST)
        return add_rust_outputs(reading);
    return reading->style == STYLE_MSVC || add_gnu_outputs(reading);
}

bool compiler_outputs_read(struct path_list *outputs, const char *const *words, size_t count,
                           struct error *error)
{
    struct command_words command;
    struct reading reading = {.outputs = outputs, .error = error};
    bool done;

    if (!command_words_read(&command, words, count, error))
        return false;
    reading.style = command.style;
    reading.words = &command.words;
    done = take_words(&reading) && add_outputs(&reading);
    path_list_free(&reading.sources);
    command_words_free(&command);
    return done;
}
