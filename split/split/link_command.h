/*
 * The command of a link: which file a linker's or a compiler's command line says it writes, and
 * which it reads.
 *
 * Understood are the options of GNU ld, lld, ld64 and their drivers (-o FILE, -oFILE, --output
 * FILE, --output=FILE; else a.out), those of link.exe, lld-link and clang-cl (/out:FILE, -out:FILE,
 * /Fe:FILE, /FeFILE), and response files (@FILE) of both, one inside of another too, and in UTF-16,
 * as rustc writes them for link.exe. As the tools do, the last one counts.
 *
 * The words say what is written if anything is: whether the command links at all shows in the file.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_LINK_COMMAND_H
#define COVSPLIT_SPLIT_SPLIT_LINK_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Freed with link_command_free. */
struct link_command {
    char *output;
    bool names_output;       /* else it is the default */
    struct path_list inputs; /* words that are no options: files, and values of some options */
};

/* False, and nothing to free, where there is no memory, or a response file is not one. A response
 * file that is not there is a word like any other, which is what the tools take it for. */
bool link_command_read(struct link_command *command, const char *const *words, size_t count,
                       struct error *error);
void link_command_free(struct link_command *command);

#endif
