/*
 * A question of a preload module to the broker: the connection that it came on, and what was asked.
 */
#ifndef COVSPLIT_SPLIT_RUN_BROKER_QUESTION_H
#define COVSPLIT_SPLIT_RUN_BROKER_QUESTION_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct question {
    struct question *next; /* in the broker's lists */
    int connection;
    pid_t process;            /* that asks */
    int file;                 /* that the program has opened */
    struct stat status;       /* of it, once it was looked at */
    char path[PATH_MAX];      /* as the program called it, but absolute where that could be told */
    char real_path[PATH_MAX]; /* behind all links; "" where it has none */
};

/* Whether the other end of a connection is a process of the same user; *process is which one. */
bool connection_is_of_same_user(int connection, pid_t *process);

/* Reads what has come on a connection, which is taken over. NULL where that is no question of a
 * process of the same user: the connection is closed then. Never waits. */
struct question *question_receive(int connection);

/* True where the program was told to correlate profiles itself, as llvm-profdata is by
 * --binary-file. As far as its command line can be read. */
bool question_correlates(const struct question *question);

/* True where the program is one that links, rewrites, copies or packs files, as far as its name
 * tells: strip, cp, ld and the like. What it makes of an image must be an image. */
bool question_is_for_files(const struct question *question);

/* Answers: content, a descriptor, is what to read instead, or -1 for the file as it is. The text is
 * for the program's standard error; "": none. */
void question_answer(const struct question *question, int content, const char *text);

void question_free(struct question *question);

#endif
