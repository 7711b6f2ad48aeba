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

#define START_SECONDS 60
#define POLL_NS       20000000L
#define POLLS         (START_SECONDS * (1000000000L / POLL_NS))
#define ANSWER_MAX    65536

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

/* The answer to GET /metrics, in text[ANSWER_MAX]; "" where nobody answers yet. */
static void ask_metrics(uint16_t port, char *text)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = loopback(port);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t size = 0;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(descriptor, request, sizeof request - 1, MSG_NOSIGNAL) > 0) {
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
    ask_metrics(port, text);
    bool ready = text[0] != '\0';
    for (size_t i = 0; i < sizeof signs / sizeof *signs && has_files; i++) {
        ready = ready && strstr(text, signs[i]) != NULL;
    }
    return ready;
}

static void wait_until_ready(const struct debuginfod_server *server, uint16_t port, bool has_files)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    unsigned ready = 0;
    /* Twice: between two counters the scanner may have taken up the next file. */
    for (long i = 0; i < POLLS && ready < 2; i++) {
        nanosleep(&pause, NULL);
        ready = is_ready(port, has_files) ? ready + 1 : 0;
        ck_assert_msg(waitpid(server->process, NULL, WNOHANG) == 0, "debuginfod has ended");
    }
    ck_assert_msg(ready == 2, "debuginfod is not ready");
}

struct debuginfod_server debuginfod_server_start(const char *scratch, const char *name,
                                                 const char *served, const char *upstream)
{
    struct debuginfod_server server;
    uint16_t port = free_port();
    char *directory = path_join(scratch, name);
    struct command command = {.directory = directory};
    directory_create(directory);
    /* The wrapper's signal reaches the server when this test ends, however it ends. */
    text_list_add_words(&command.arguments, "setpriv --pdeathsig KILL debuginfod --concurrency=1 "
                                            "--database=database.sqlite");
    text_list_add_format(&command.arguments, "--port=%u", (unsigned)port);
    if (served != NULL) {
        text_list_add(&command.arguments, "--scan-file-dir");
        text_list_add(&command.arguments, served);
    }
    text_list_add_format(&command.environment, "DEBUGINFOD_CACHE_PATH=%s/cache", directory);
    text_list_add_format(&command.environment, "DEBUGINFOD_URLS=%s",
                         upstream != NULL ? upstream : "");
    server.process = command_start(&command);
    server.url = text_format("http://127.0.0.1:%u", (unsigned)port);
    wait_until_ready(&server, port, served != NULL);
    command_free(&command);
    return server;
}

void debuginfod_server_stop(struct debuginfod_server *server)
{
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    free(server->url);
    *server = (struct debuginfod_server){0};
}
