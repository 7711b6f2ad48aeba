/*
 * What the preload module and its broker, `covsplit run`, say to each other.
 *
 * The broker listens on a socket of type SOCK_SEQPACKET with a name of its own in the abstract
 * namespace, which the environment hands down to every process that the command starts. The module
 * makes a connection for each question: whatever a program does to its descriptors between two
 * questions (fork, exec, close all) does not matter then.
 *
 * question: struct preload_question and the path, in one message, with the descriptor of the file
 * that was opened.
 *
 * answer: struct preload_answer and a text for standard error, in one message; with a descriptor
 * where the program is to read that instead of the file.
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

/* Characters of the name, without the NUL byte that stands before it in an abstract address. */
#define PRELOAD_NAME_MAX 64

/* Bytes of a path, and of a text with its newline. Neither has a NUL at its end. */
#define PRELOAD_PATH_MAX 4096
#define PRELOAD_TEXT_MAX 1280

struct preload_question {
    /* What the path is relative to, as openat(2) takes it: AT_FDCWD, or a descriptor of the program
     * that asks. */
    int32_t directory;
};

struct preload_answer {
    uint32_t text_size; /* of what follows */
};

/* A file of fewer bytes is nothing that could be converted. It is also how many bytes the module
 * looks at. */
#define PRELOAD_SIZE_MIN 64

#endif
