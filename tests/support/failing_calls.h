/*
 * Functions of the C library that fail when a test says so.
 *
 * A suite that has failing_calls.c among its sources has these functions in place of libc's: its
 * program is searched before any library, so covsplit's main function calls them too, when it runs
 * in a process that the suite has forked (process.h). They count calls by kind, and let one of them
 * fail: it is not done, and returns an error. Memory, mappings, files, directories, locks, threads
 * and what else covsplit asks the system for are such functions. What libc does inside, such as
 * writing a stream's buffer, is not seen.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_FAILING_CALLS_H
#define COVSPLIT_TESTS_SUPPORT_FAILING_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of call. failing_calls.c says which functions are of each, and how they can fail. */
enum call {
    CALL_MEMORY,
    CALL_MAP,
    CALL_MEMORY_FILE,
    CALL_OPEN, /* to read */
    CALL_CREATE,
    CALL_READ,
    CALL_WRITE,
    CALL_BYTE, /* each byte that is written to a file: it arrives as another one */
    CALL_SYNC,
    CALL_RENAME,
    CALL_LINK,
    CALL_REMOVE,
    CALL_TRUNCATE,
    CALL_MODE,
    CALL_OWNER,
    CALL_TIMES,
    CALL_ATTRIBUTE,
    CALL_STATUS,
    CALL_ACCESS,
    CALL_PATH,
    CALL_OPEN_DIRECTORY,
    CALL_READ_DIRECTORY,
    CALL_MAKE_DIRECTORY,
    CALL_LOCK,
    CALL_CONTROL,
    CALL_SEEK,
    CALL_CLOSE,
    CALL_STREAM,
    CALL_LINE,
    CALL_THREAD,
    CALL_RANDOM,
    CALL_START,
    CALL_PIPE,
    CALL_SOCKET,
    CALL_DUPLICATE,
    CALL_WAIT,
    CALL_COUNT,
};

/* In place of an errno value: half of the bytes are read or written, which is no error. */
#define CALL_SHORT  -1
#define CALL_ERRORS 10

/* What each kind is called, and the ways in which it can fail; after the last one comes 0. */
struct call_kind {
    const char *name;
    int errors[CALL_ERRORS];
};

extern const struct call_kind call_kinds[CALL_COUNT];

/* One call of a kind, counted from 1; 0: none fails. */
struct failing_call {
    enum call call;
    uint64_t number;
    int error;
};

/* What the calls of the process came to. In memory that is shared with the test. */
struct call_counts {
    uint64_t calls[CALL_COUNT];
    bool has_failed;
};

/* A new one, which processes that are forked from now on share with this one. */
struct call_counts *call_counts_create(void);

/* From now on calls of this process are counted, and one fails; never those of a process that it
 * forks or starts. */
void calls_fail(const struct failing_call *failing, struct call_counts *counts);

#endif
