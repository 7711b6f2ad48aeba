/*
 * Running llvm-profdata, which knows how to write indexed profiles, and llvm-cov, which knows how
 * to make reports.
 *
 * Their files are unnamed ones, which no other process can see or damage, and of which nothing is
 * left. The child inherits the descriptors and opens them as /proc/self/fd/N; in what it says,
 * these are replaced by names.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_LLVM_TOOL_H
#define COVSPLIT_SPLIT_PROFILES_LLVM_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define LLVM_PROFDATA_ENVIRONMENT "LLVM_PROFDATA"
#define LLVM_COV_ENVIRONMENT      "LLVM_COV"

enum llvm_tool {
    LLVM_PROFDATA,
    LLVM_COV,
};

/* The program to run, as a new string: `given` (--llvm-profdata, --llvm-cov), or else the one that
 * the environment names, both unchecked; or else the first one in PATH of a release that reads raw
 * profiles of that version. The name without a version is tried first, then those with one, lowest
 * version first, since newer tools read the output of older ones but not the other way round. With
 * raw_version 0, for indexed profiles, any will do, and the highest version is the first. NULL with
 * an error that says what was looked for. */
char *llvm_tool_find(enum llvm_tool tool, const char *given, unsigned raw_version,
                     struct error *error);

/* True if the program, a path or a name in PATH, can be run. */
bool llvm_tool_exists(const char *program);

/* The LLVM release of a program, from its --version output; 0 if it fails or does not say. */
unsigned llvm_tool_release(const char *program);

/* ---- any command ---- */

struct llvm_file {
    int fd;
    const char *name; /* in messages */
};

/* A command line. Initialize to {0}; free with llvm_command_free. */
struct llvm_command {
    char **words; /* the program, and the name of its subcommand; ends with NULL */
    size_t count, capacity;
    struct llvm_file *files;
    size_t file_count, file_capacity;
    /* Gets each line that the program says if it succeeds, which is printed as a warning unless
     * this returns true. NULL: all are, and no more than the first are read. */
    bool (*take_line)(void *context, const char *line);
    void *context;
};

void llvm_command_add(struct llvm_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a word that is the path of an open file, after the text `before`. */
void llvm_command_add_file(struct llvm_command *command, const char *before, int fd,
                           const char *name);
void llvm_command_free(struct llvm_command *command);

/* Runs it. Its output goes to output_fd; -1: it has none to keep. If it succeeds, what it says is
 * printed as warnings. `name` is that of the output, in messages. */
bool llvm_command_run(const struct llvm_command *command, int output_fd, const char *name,
                      struct error *error);

#endif
