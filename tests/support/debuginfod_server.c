/*
 * Running debuginfod: see debuginfod_server.h. It has no port 0 and no word for "ready", so a free
 * port is looked for, and its own counters (/metrics) are asked until the work is done.
 */
#include "tests/support/debuginfod_server.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/process.h"

#define START_SECONDS  60
#define START_ATTEMPTS 5
#define POLL_NS        20000000L
#define POLLS          (START_SECONDS * (1000000000L / POLL_NS))
#define ANSWER_MAX     65536

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(bind(descriptor, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(getsockname(descriptor, (struct sockaddr *)&address, &size), 0);
    close(descriptor);
    return ntohs(address.sin_port);
}

/* The answer to GET PATH, in text[ANSWER_MAX]; "" where nobody answers yet. */
static void ask(uint16_t port, const char *path, char *text)
{
    const char *request = text_format("GET %s HTTP/1.0\r\n\r\n", path);
    struct sockaddr_in address = loopback(port);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t size = 0;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(descriptor, request, strlen(request), MSG_NOSIGNAL) > 0) {
        ssize_t got = 1;
        while (got > 0 && size < ANSWER_MAX - 1) {
            got = recv(descriptor, text + size, ANSWER_MAX - 1 - size, 0);
            size += got > 0 ? (size_t)got : 0;
        }
    }
    text[size] = '\0';
    close(descriptor);
}

static bool is_ready(uint16_t port, bool has_files)
{
    static const char *const signs[] = {"thread_work_total{role=\"traverse\"} 1\n",
                                        "thread_work_pending{role=\"scan\"} 0\n",
                                        "thread_busy{role=\"scan\"} 0\n"};
    static char text[ANSWER_MAX];
    ask(port, "/metrics", text);
    bool ready = text[0] != '\0';
    for (size_t i = 0; i < sizeof signs / sizeof *signs && has_files; i++) {
        ready = ready && strstr(text, signs[i]) != NULL;
    }
    return ready;
}

/* False where the server has ended by itself. */
static bool becomes_ready(const struct debuginfod_server *server, bool has_files)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    unsigned ready = 0;
    /* Twice: between two counters the scanner may have taken up the next file. */
    for (long i = 0; i < POLLS && ready < 2; i++) {
        nanosleep(&pause, NULL);
        ready = is_ready(server->port, has_files) ? ready + 1 : 0;
        if (waitpid(server->process, NULL, WNOHANG) != 0) {
            return false;
        }
    }
    ck_assert_msg(ready == 2, "debuginfod is not ready: see %s", server->log);
    return true;
}

struct debuginfod_server debuginfod_server_start(const char *scratch, const char *name,
                                                 const char *served, const char *upstream)
{
    char *directory = path_join(scratch, name);
    struct debuginfod_server server = {.log = path_join(directory, "log")};
    directory_create(directory);
    /* Somebody else may take the port in between. */
    for (int i = 0; i < START_ATTEMPTS; i++) {
        server.port = free_port();
        server.url = text_format("http://127.0.0.1:%u", (unsigned)server.port);
        /* The wrapper's signal reaches the server when this test ends, however it ends. */
        struct command command = command_words(directory, "setpriv --pdeathsig KILL sh -c");
        text_list_add_format(&command.arguments,
                             "exec debuginfod -v --concurrency=1 --database=database.sqlite "
                             "--port=%u ${0:+--scan-file-dir \"$0\"} >log 2>&1",
                             (unsigned)server.port);
        text_list_add(&command.arguments, served != NULL ? served : "");
        text_list_add_format(&command.environment, "DEBUGINFOD_CACHE_PATH=%s/cache", directory);
        text_list_add_format(&command.environment, "DEBUGINFOD_URLS=%s",
                             upstream != NULL ? upstream : "");
        server.process = command_start(&command);
        command_free(&command);
        if (becomes_ready(&server, served != NULL)) {
            return server;
        }
        free(server.url);
    }
    ck_abort_msg("debuginfod does not stay: see %s", server.log);
}

bool debuginfod_server_serves(const struct debuginfod_server *server, const char *path)
{
    static char text[ANSWER_MAX];
    ask(server->port, path, text);
    return strncmp(text, "HTTP/1.", 7) == 0 && strncmp(text + 8, " 200", 4) == 0;
}

void debuginfod_server_stop(struct debuginfod_server *server)
{
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    free(server->url);
    *server = (struct debuginfod_server){0};
}
