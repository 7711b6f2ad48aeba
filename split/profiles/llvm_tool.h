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

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/output.h"

/* ---- finding them (llvm_find.c) ---- */

enum llvm_tool {
    LLVM_PROFDATA,
    LLVM_COV,
};

/* Directories in which they are looked for before PATH, separated by ':'. */
#define LLVM_BIN_ENVIRONMENT "COVSPLIT_LLVM_BIN"

/* The program that the user names: `option` (--llvm-profdata, --llvm-cov), or else LLVM_PROFDATA or
 * LLVM_COV in the environment. NULL: none. */
const char *llvm_tool_given(enum llvm_tool tool, const char *option);

/* The first program, as a new string, of a release that reads raw profiles of that version; with
 * raw_version 0, for indexed profiles, the one of the highest release. These are looked at, in this
 * order: the directories of COVSPLIT_LLVM_BIN; in PATH, the name without a version, then those with
 * one, lowest version first, since newer tools read the output of older ones but not the other way
 * round; where distributions put each release; and the toolchains of rustup. NULL with an error
 * that says what was looked for. */
char *llvm_tool_search(enum llvm_tool tool, unsigned raw_version, struct error *error);

/* The program that is given, as a new string, unless it is an llvm-profdata that does not read that
 * version, as one may be of several; or else the one that is found. */
char *llvm_tool_find(enum llvm_tool tool, const char *option, unsigned raw_version,
                     struct error *error);

/* The llvm-cov that is given, or else the one beside the llvm-profdata that llvm_tool_find finds,
 * which reads what that writes; or else one that is found by itself. */
char *llvm_cov_find(const char *cov_option, const char *profdata_option, unsigned raw_version,
                    struct error *error);

/* The program that demangles names: rustfilt for Rust, if there is one; else the one beside the
 * llvm-cov, whose name may end in a version. A new string; NULL if there is none. */
char *llvm_demangler_find(const char *cov, bool for_rust);

/* The LLVM release of a program, as it or the other tool beside it says; or the first that reads
 * the raw profiles that it reads; 0: not known. */
unsigned llvm_tool_release(const char *program);

/* True if the llvm-profdata reads raw profiles of that version. */
bool llvm_profdata_reads(const char *program, unsigned raw_version);

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

/* Runs it, and waits for it. Its output goes to output_fd, or if that is -1, with its errors to
 * `said`, of which the beginning is kept. *status is that of waitpid. Returns an errno. */
int llvm_command_spawn(const struct llvm_command *command, int output_fd, struct buffer *said,
                       int *status);

/* Runs it. Its output goes to output_fd; -1: it has none to keep. If it succeeds, what it says is
 * printed as warnings. `name` is that of the output, in messages. */
bool llvm_command_run(const struct llvm_command *command, int output_fd, const char *name,
                      struct error *error);

/* The output of a command, in memory. Initialize to {0}, or by llvm_command_capture, which runs the
 * command; free with llvm_capture_free, even after a failure. */
struct llvm_capture {
    struct output output;
    struct input text;
    bool is_made;
};

bool llvm_command_capture(const struct llvm_command *command, const char *name,
                          struct llvm_capture *capture, struct error *error);
void llvm_capture_free(struct llvm_capture *capture);

/* The size of a sequence for colours (ECMA-48, SGR) at the start of the text; 0: there is none. */
size_t colour_size(const char *text);

#endif
