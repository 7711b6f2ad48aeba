/*
 * The command line of a compiler or linker, as that program reads it.
 *
 * Launchers in front of the program (ccache, env, covsplit itself, ...) are left out, and response
 * files (@FILE) are replaced by the words in them. These may be nested, or in UTF-16, as rustc
 * writes them for link.exe, and are quoted in the way of the program. For Clang, the words of
 * --config files come first, and those that CCC_OVERRIDE_OPTIONS adds are added.
 */
#ifndef COVSPLIT_SPLIT_CLI_COMMAND_WORDS_H
#define COVSPLIT_SPLIT_CLI_COMMAND_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Whose options and quoting the program understands. */
enum command_style {
    STYLE_GNU,         /* GCC, Clang, GNU ld, ld.lld, ld64, ...: all others */
    STYLE_MSVC_LINKER, /* link.exe, lld-link */
    STYLE_MSVC,        /* cl.exe, clang-cl */
    STYLE_RUST,        /* rustc */
};

/* Free with command_words_free. */
struct command_words {
    enum command_style style;
    const char *program;    /* its name, one of the words given */
    struct path_list words; /* behind it */
};

/* False, with nothing to free, if out of memory or if a response file is invalid. If there is no
 * file of that name, @FILE is an ordinary word, as it is for the programs. */
bool command_words_read(struct command_words *command, const char *const *words, size_t count,
                        struct error *error);
/* Adds a word, or if it names a response file, those in it. */
bool command_words_add(struct command_words *command, const char *word, struct error *error);
void command_words_free(struct command_words *command);

/* True if the list, which ends with NULL, has the word. */
bool word_is_listed(const char *word, const char *const *list);

/* True for an option of GCC, Clang or flang with which neither objects nor images are made. */
bool command_option_makes_others(const char *word);

#endif
