/*
 * Runs elfutils' debuginfod on the loopback interface, for the tests.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_DEBUGINFOD_SERVER_H
#define COVSPLIT_TESTS_SUPPORT_DEBUGINFOD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct debuginfod_server {
    pid_t process;
    uint16_t port;
    char *url; /* "http://127.0.0.1:PORT" */
    char *log; /* the file with all that it says */
};

/* Starts a server for the files in `served` (NULL: none), which asks the server `upstream` for all
 * others (NULL: none), and waits until it has scanned all files. Its own files are in SCRATCH/NAME.
 * If anything fails, aborts the Check test; the server never outlives the test. */
struct debuginfod_server debuginfod_server_start(const char *scratch, const char *name,
                                                 const char *served, const char *upstream);
/* Whether it answers GET PATH with status 200. */
bool debuginfod_server_serves(const struct debuginfod_server *server, const char *path);
void debuginfod_server_stop(struct debuginfod_server *server);

#endif
