/*
 * The command of a link: which file a linker's or compiler's command line says it writes, and which
 * files it reads.
 *
 * The options of GNU ld, lld, ld64 and their drivers are understood (-o FILE, -oFILE, --output
 * FILE, --output=FILE; the default is a.out), also behind -Wl, and -Xlinker, those of link.exe,
 * lld-link and clang-cl (/out:FILE, -out:FILE, /Fe:FILE, /FeFILE), and the response files (@FILE)
 * of all (cli/command_words.h). If there are several outputs, the last one counts, as it does for
 * the tools. Compilers for Windows add an extension to a name without one.
 *
 * The command line only tells what would be written: compilers are also called without linking
 * anything. Whether an output was written must be seen from the file itself.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_LINK_COMMAND_H
#define COVSPLIT_SPLIT_SPLIT_LINK_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Free with link_command_free. */
struct link_command {
    char *output;
    bool names_output;       /* else `output` is the default */
    bool links;              /* else it compiles, or archives, or tells a version */
    struct path_list inputs; /* words that are not options: files, and values of some options */
};

/* False, with nothing to free, if out of memory or if a response file is invalid. */
bool link_command_read(struct link_command *command, const char *const *words, size_t count,
                       struct error *error);
void link_command_free(struct link_command *command);

#endif
