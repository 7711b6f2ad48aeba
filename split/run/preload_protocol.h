/*
 * The protocol between the preload module and its broker, `covsplit run`.
 *
 * The broker listens on a SOCK_SEQPACKET socket in the abstract namespace, whose name every process
 * that the command starts inherits in its environment. The module makes a new connection for each
 * question, so it does not matter what a program does to its descriptors between two questions
 * (fork, exec, closing all of them).
 *
 * question: struct preload_question and the path, in one message, with the descriptor of the file
 * that was opened.
 *
 * answer: struct preload_answer and a text for standard error, in one message; with a descriptor if
 * the program is to read that instead of the file.
 *
 * A message that breaks these rules ends the connection, and the file is read as it is.
 */
#ifndef COVSPLIT_SPLIT_RUN_PRELOAD_PROTOCOL_H
#define COVSPLIT_SPLIT_RUN_PRELOAD_PROTOCOL_H

#include <stdint.h>

/* The environment variable: PRELOAD_PREFIX and the name of the socket. A module that does not know
 * the prefix does nothing. */
#define PRELOAD_ENVIRONMENT "COVSPLIT_RUN"
#define PRELOAD_PREFIX      "1:"

/* The maximum length of the name, without the NUL byte that precedes it in an abstract address. */
#define PRELOAD_NAME_MAX 64

/* The maximum length of a path, and of a text with its newline. Neither ends with NUL. */
#define PRELOAD_PATH_MAX 4096
#define PRELOAD_TEXT_MAX 1280

struct preload_question {
    /* The first argument of openat(2), which the path is relative to: AT_FDCWD, or a descriptor of
     * the program that asks. */
    int32_t directory;
};

struct preload_answer {
    uint32_t text_size; /* of the text that follows */
};

/* Smaller files cannot be anything to convert. This is also the number of bytes that the module
 * examines. */
#define PRELOAD_SIZE_MIN 64

#endif
