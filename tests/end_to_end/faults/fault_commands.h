/*
 * The commands that the suite of faults runs.
 */
#ifndef COVSPLIT_TESTS_END_TO_END_FAULTS_FAULT_COMMANDS_H
#define COVSPLIT_TESTS_END_TO_END_FAULTS_FAULT_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

/* Each runs in an empty directory with the inputs in ../in, or in copies of some of these. "URL" is
 * that of a web server that has the inputs. */
struct fault_command {
    const char *words;
    const char *copied; /* names of inputs; NULL: none */
    const char *proof; /* words that succeed if all is good that the command has made; NULL: it does
                          not read again what it writes */
    const char *next;  /* of a state: words that add to it */
    bool is_batch;     /* one file may be done and another not: a sidecar stays in its store */
    bool is_refused;   /* without a fault too: what was not read must not be taken for good */
    bool is_run;       /* the file is read as it is, which says enough: the tool refuses that */
    bool leaves_out;   /* profiles that cannot be read, with a warning */
    bool skips_closed; /* a sidecar that may not be read is like one that is not there */
    bool packs; /* without what fails, another base is taken or none, or a base stays: the proof is
                   good, whether it fails or not */
    bool is_snapshot; /* of several files: it says which of them could not be examined */
    bool is_state; /* the proof writes ../proof.profraw, and that is to be as before or after; what
                      the files are like is nobody's business */
};

extern const struct fault_command fault_commands[];
extern const size_t fault_command_count;

#endif
