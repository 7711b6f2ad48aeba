/*
 * The command line of a compiler or linker, as that program reads it.
 *
 * Launchers in front of the program (ccache, env, covsplit itself, ...) are left out, and response
 * files (@FILE) are replaced by the words in them. These may be nested, or in UTF-16, as rustc
 * writes them for link.exe, and are quoted in the way of the program.
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
    struct path_list words; /* behind the name of the program */
};

/* False, with nothing to free, if out of memory or if a response file is invalid. If there is no
 * file of that name, @FILE is an ordinary word, as it is for the programs. */
bool command_words_read(struct command_words *command, const char *const *words, size_t count,
                        struct error *error);
void command_words_free(struct command_words *command);

#endif
