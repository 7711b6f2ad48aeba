/*
 * A question of a preload module to the broker: its connection, and what was asked.
 */
#ifndef COVSPLIT_SPLIT_RUN_BROKER_QUESTION_H
#define COVSPLIT_SPLIT_RUN_BROKER_QUESTION_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct question {
    struct question *next; /* link of the broker's lists */
    int connection;
    pid_t process;            /* the process that asks */
    int file;                 /* the file that the program has opened */
    struct stat status;       /* of the file, once the broker has called fstat */
    char path[PATH_MAX];      /* as the program named it, made absolute if possible */
    char real_path[PATH_MAX]; /* with all links resolved; "" if there is none */
};

/* Whether the other end of a connection is a process of the same user; *process is its ID. */
bool connection_is_of_same_user(int connection, pid_t *process);

/* Reads a question from a connection and takes ownership of the connection. If it is not a valid
 * question from a process of the same user, closes the connection and returns NULL. Never waits. */
struct question *question_receive(int connection);

/* True if the program was told to correlate profiles itself, like llvm-profdata with --binary-file,
 * as far as its command line can be read. */
bool question_correlates(const struct question *question);

/* True if the program's name says that it links, rewrites, copies or packs files, like strip, cp
 * and ld. Such a program must be given the image itself, as it makes images from images. */
bool question_is_for_files(const struct question *question);

/* True if the program's name says that it is an llvm-cov. Only such a program is given a union in
 * place of a store's directory: others that open a directory like a file do so to sync it, or to
 * reach the files in it. */
bool question_is_for_reports(const struct question *question);

/* Answers: `content` is the descriptor to read instead, or -1 for the file as it is. The text is
 * for the program's standard error; it may be "". */
void question_answer(const struct question *question, int content, const char *text);

void question_free(struct question *question);

#endif
