/*
 * Reading the command of a link: see split.h.
 *
 * The options of GNU ld, lld, ld64 and their drivers are understood (-o FILE, -oFILE, --output
 * FILE, --output=FILE; the default is a.out), also behind -Wl, and -Xlinker, those of link.exe,
 * lld-link and clang-cl (/out:FILE, -out:FILE, /Fe:FILE, /FeFILE), and the response files (@FILE)
 * of all (cli/command_words.h). If there are several outputs, the last one counts, as it does for
 * the tools. Compilers for Windows add an extension to a name without one.
 */
#include "split/split/split.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "split/cli/command_words.h"
#include "split/cli/memory.h"

#define DEFAULT_OUTPUT "a.out"

struct search {
    bool is_msvc;          /* options are those of link.exe */
    bool is_msvc_compiler; /* ... and of cl.exe */
    char *output;          /* NULL: not named yet */
    struct path_list *inputs;
    bool ends_early;    /* an option says that nothing is linked */
    bool is_completed;  /* cl.exe, or GCC for mingw, adds an extension if there is none */
    bool makes_library; /* ... and the extension is that of a DLL */
    bool is_awaited;    /* the next word is the output file */
    bool is_passed;     /* the next word is the value of this one */

    const char *directory; /* Clang's -working-directory, one of the words; NULL: not given */
};

/* ---- words ---- */

static void name_output(struct search *search, const char *path, bool is_completed)
{
    free(search->output);
    search->output = command_copy(path);
    search->is_completed = is_completed;
    search->is_awaited = false;
}

/* The rest of the word after the option's name; NULL for another option. */
static const char *value_of(const char *word, const char *name, bool ignores_case)
{
    size_t length = strlen(name);
    int order = ignores_case ? strncasecmp(word, name, length) : strncmp(word, name, length);

    return order == 0 ? word + length : NULL;
}

/* Words that look like -oFILE, or are followed by such a word, but do not name the output: options
 * of ld64, of GNU ld, gold and lld, and of compilers. */
struct other_word {
    const char *name;
    enum { WORD_ALONE, WORD_WITH_NEXT, WORD_STARTS } kind;
};

static const struct other_word other_words[] = {
    /* The next word is for another program, or for LLVM. */
    {"-Xclang", WORD_WITH_NEXT},
    {"-Xassembler", WORD_WITH_NEXT},
    {"-Xpreprocessor", WORD_WITH_NEXT},
    {"-mllvm", WORD_WITH_NEXT},
    {"--config", WORD_WITH_NEXT},
    {"-plugin-opt", WORD_WITH_NEXT},
    {"--plugin-opt", WORD_WITH_NEXT},
    /* ld64, where only -o as a separate word names the output. */
    {"-order_file", WORD_WITH_NEXT},
    {"-oso_prefix", WORD_WITH_NEXT},
    {"-object_path_lto", WORD_WITH_NEXT},
    {"-objc_abi_version", WORD_WITH_NEXT},
    {"-objc_", WORD_STARTS},
    {"-order_file_statistics", WORD_ALONE},
    /* GNU ld and lld. Their other options with an "o" need two dashes: -omagic writes "magic". */
    {"-orphan-handling", WORD_WITH_NEXT},
    {"-orphan-handling=", WORD_STARTS},
    /* clang and swiftc. */
    {"-object", WORD_ALONE},
    {"-object-file-name=", WORD_STARTS},
    {"-objcmt-", WORD_STARTS},
    {"-output-file-map", WORD_WITH_NEXT},
    {"-output-file-map=", WORD_STARTS},
};

/* Recognizes and skips these words. */
static bool pass_other_word(struct search *search, const char *word)
{
    for (size_t i = 0; i < sizeof(other_words) / sizeof(other_words[0]); i++) {
        const struct other_word *other = &other_words[i];

        if (other->kind == WORD_STARTS ? value_of(word, other->name, false) == NULL
                                       : strcmp(word, other->name) != 0)
            continue;
        search->is_passed = other->kind == WORD_WITH_NEXT;
        return true;
    }
    return false;
}

/* clang-cl also has /oFILE, but not /openmp, nor link.exe's options after /link. */
static const char *compiler_output(const char *option)
{
    static const char *const others[] = {"openmp", "opt", "order", "osversion"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (value_of(option, others[i], true) != NULL)
            return NULL;
    }
    return value_of(option, "o", false);
}

static void take_msvc_option(struct search *search, const char *word)
{
    bool is_completed = false;
    const char *value;

    word++;
    search->makes_library |= strcmp(word, "LD") == 0 || strcmp(word, "LDd") == 0;
    value = value_of(word, "out:", true);
    if (value == NULL && search->is_msvc_compiler) {
        /* "/Fe: FILE" may be two words, as "/o FILE" is. */
        search->is_awaited = strcmp(word, "Fe:") == 0 || strcmp(word, "o") == 0;
        if (search->is_awaited)
            return;
        is_completed = true;
        if ((value = value_of(word, "Fe", false)) == NULL)
            value = compiler_output(word);
        if (value != NULL && value[0] == ':')
            value++;
    }
    if (value != NULL && value[0] != '\0')
        name_output(search, value, is_completed);
}

/* Options with which nothing is linked. */
static bool ends_early(const struct search *search, const char *word)
{
    static const char *const gnu[] = {"-c", "--compile", "-cc1", "--version", "--help", NULL};
    static const char *const msvc[] = {"c", "E", "EP", "P", "Zs", "lib", "LIB", NULL};

    return word_is_listed(word + search->is_msvc, search->is_msvc ? msvc : gnu) ||
           command_option_makes_others(word);
}

static void take_word(struct search *search, const char *word)
{
    const char *value = NULL;

    if (search->is_awaited) {
        name_output(search, word, search->is_msvc_compiler);
        return;
    }
    if (search->is_passed) {
        search->is_passed = false;
        return;
    }
    /* gold also accepts --output with one dash. */
    search->is_awaited =
        strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0 || strcmp(word, "-output") == 0;
    if (search->is_awaited || pass_other_word(search, word))
        return;
    if (word[0] != '-' && (word[0] != '/' || !search->is_msvc)) {
        path_list_add(search->inputs, word);
        return;
    }
    search->ends_early |= ends_early(search, word);
    if (search->is_msvc) {
        take_msvc_option(search, word);
    } else {
        if ((value = value_of(word, "--output=", false)) == NULL &&
            (value = value_of(word, "-output=", false)) == NULL)
            value = value_of(word, "-o", false);
        if (value != NULL)
            name_output(search, value, false);
    }
}

/* ---- the command ---- */

/* Archivers are called by the rules that link, too. */
static bool is_archiver(const char *program)
{
    static const char *const names[] = {"ar", "*-ar", "*-ar-*", "*ranlib*", "*libtool*", "*-lib*"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (fnmatch(names[i], path_file_name(program), 0) == 0)
            return true;
    }
    return false;
}

/* GCC and Clang for mingw-w64, but not the linker itself, add ".exe" to a name without extension.
 */
static bool is_for_mingw(const struct command_words *command)
{
    const char *program = path_file_name(command->program), *target;
    bool is_mingw = strstr(program, "-mingw32") != NULL && fnmatch("*-ld*", program, 0) != 0;

    for (size_t i = 0; i < command->words.count; i++) {
        target = command->words.paths[i];
        if ((i != 0 && strcmp(command->words.paths[i - 1], "-target") == 0) ||
            value_of(target, "--target=", false) != NULL)
            is_mingw = strstr(target, "-mingw32") != NULL || strstr(target, "-windows-gnu") != NULL;
    }
    return is_mingw;
}

/* True if one of the words is a file that is linked: neither the value of an option, nor a header,
 * of which compilers make something else. */
static bool has_file(const struct path_list *inputs)
{
    struct stat status;

    for (size_t i = 0; i < inputs->count; i++) {
        const char *dot = strrchr(path_file_name(inputs->paths[i]), '.');

        if ((dot == NULL || tolower((unsigned char)dot[1]) != 'h') &&
            stat(inputs->paths[i], &status) == 0 && S_ISREG(status.st_mode))
            return true;
    }
    return false;
}

/* If the word at *index is this option, takes its value, perhaps the next word. */
static bool take_value(const struct path_list *words, size_t *index, const char *option,
                       const char **value)
{
    const char *rest = value_of(words->paths[*index], option, false);

    if (rest == NULL || (rest[0] == '\0' ? *index + 1 == words->count : rest[0] != '='))
        return false;
    *value = rest[0] == '\0' ? words->paths[++*index] : rest + 1;
    return true;
}

/* Takes the words of a compiler, and puts those for the linker (-Wl,A,B and -Xlinker A) into a list
 * of their own. */
static bool take_words(struct search *search, const struct path_list *words,
                       struct command_words *linker, struct error *error)
{
    bool done = true;

    for (size_t i = 0; done && i < words->count; i++) {
        bool is_value = search->is_awaited || search->is_passed;
        const char *word = words->paths[i], *rest = NULL, *value;

        if (!is_value && (take_value(words, &i, "-Xlinker", &value) ||
                          take_value(words, &i, "--for-linker", &value)))
            done = command_words_add(linker, value, error);
        else if (!is_value && take_value(words, &i, "-working-directory", &value))
            search->directory = value;
        else if (is_value || (rest = value_of(word, "-Wl,", false)) == NULL)
            take_word(search, word);
        while (done && rest != NULL) {
            size_t length = strcspn(rest, ",");
            char *part = command_text("%.*s", (int)length, rest);

            done = command_words_add(linker, part, error);
            rest = rest[length] == ',' ? rest + length + 1 : NULL;
            free(part);
        }
    }
    return done;
}

/* Takes the words for the linker. The compiler's own output comes before what it hands on, and its
 * directory is not that of the linker. */
static void take_linker_words(struct search *search, const struct path_list *words)
{
    struct path_list others = {0};
    struct search of_linker = {.is_msvc = search->is_msvc, .inputs = &others};

    if (search->directory != NULL && (search->output == NULL || search->output[0] != '/')) {
        const char *name = search->output == NULL ? DEFAULT_OUTPUT : search->output;
        char *path = command_text("%s/%s", search->directory, name);

        name_output(search, path, search->is_completed);
        free(path);
    }
    for (size_t i = 0; i < words->count; i++) {
        take_word(&of_linker, words->paths[i]);
        search->ends_early |=
            strcmp(words->paths[i], "--version") == 0 || strcmp(words->paths[i], "--help") == 0;
    }
    if (of_linker.output != NULL)
        name_output(search, of_linker.output, false);
    free(of_linker.output);
    path_list_free(&others);
}

bool link_command_read(struct link_command *command, const char *const *words, size_t count,
                       struct error *error)
{
    struct search search = {.inputs = &command->inputs};
    struct command_words read, linker = {.style = STYLE_GNU};
    bool done, is_mingw;

    *command = (struct link_command){.output = NULL};
    if (!command_words_read(&read, words, count, error))
        return false;
    is_mingw = read.style == STYLE_GNU && is_for_mingw(&read);
    search.is_msvc_compiler = read.style == STYLE_MSVC;
    search.is_msvc = search.is_msvc_compiler || read.style == STYLE_MSVC_LINKER;
    done = take_words(&search, &read.words, &linker, error);
    search.is_completed |= is_mingw;
    if (done)
        take_linker_words(&search, &linker.words);
    command->links = (search.output != NULL || has_file(&command->inputs)) && !search.ends_early &&
                     read.style != STYLE_RUST && !is_archiver(read.program);
    command_words_free(&linker);
    command_words_free(&read);
    if (!done) {
        free(search.output);
        path_list_free(&command->inputs);
        return false;
    }
    command->names_output = search.output != NULL;
    if (search.output == NULL)
        name_output(&search, is_mingw ? "a" : DEFAULT_OUTPUT, is_mingw);
    /* A name without extension gets one. */
    if (search.is_completed && strchr(path_file_name(search.output), '.') == NULL) {
        command->output =
            command_text("%s%s", search.output, search.makes_library ? ".dll" : ".exe");
        free(search.output);
    } else {
        command->output = search.output;
    }
    return true;
}

void link_command_free(struct link_command *command)
{
    free(command->output);
    command->output = NULL;
    path_list_free(&command->inputs);
}
