/*
 * Exported objects through elfutils' debuginfod: a report with no image and no local file.
 *
 * One debuginfod serves a directory of objects; a second one with no files of its own has the first
 * as its upstream, as in a federation. llvm-cov asks the second, by the UUIDs in the profile.
 *
 * The servers listen on ports that were free a moment ago. They die with the test that started
 * them, however it ends.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define WAIT_SECONDS   60
#define START_ATTEMPTS 5
#define LOG_SIZE       2000
#define APP            MANY_UNITS_PROGRAM

/* llvm-cov 14 has no client of debuginfod. */
static const char *const clangs[] = {"16", "19", "22"};

#define CLANG_COUNT ((int)(sizeof clangs / sizeof *clangs))

static char *scratch;

struct server {
    pid_t process;
    uint16_t port;
    char *log;
};

/* ---- HTTP ---- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(connection, 0);
    if (connect(connection, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(connection);
        return -1;
    }
    return connection;
}

/* Whether the server answers this path with status 200. */
static bool serves(uint16_t port, const char *path)
{
    char answer[16] = "";
    const char *request =
        text_format("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    int connection = connect_to(port);
    if (connection < 0) {
        return false;
    }
    bool sent =
        send(connection, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request);
    ssize_t size = recv(connection, answer, sizeof answer - 1, MSG_WAITALL);
    close(connection);
    return sent && size > 0 && strstr(answer, " 200") != NULL;
}

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    close(listener);
    return ntohs(address.sin_port);
}

/* ---- servers ---- */

/* Nothing of the machine's own configuration counts. */
static void set_environment(const char *cache, const char *upstream)
{
    static const char *const proxies[] = {"http_proxy",  "https_proxy", "all_proxy", "HTTP_PROXY",
                                          "HTTPS_PROXY", "ALL_PROXY",   "no_proxy"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++) {
        unsetenv(proxies[i]);
    }
    setenv("DEBUGINFOD_CACHE_PATH", cache, 1);
    if (upstream != NULL) {
        setenv("DEBUGINFOD_URLS", upstream, 1);
    } else {
        unsetenv("DEBUGINFOD_URLS");
    }
}

static _Noreturn void become_server(const struct server *server, const char *files,
                                    const char *database, const char *cache, const char *upstream,
                                    pid_t parent)
{
    int log = open(server->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) {
        _exit(127);
    }
    set_environment(cache, upstream);
    execlp("debuginfod", "debuginfod", "-v", "-p", text_format("%u", server->port), "-d", database,
           "-F", files, NULL);
    _exit(127);
}

/* The end of what the server has said: a message of Check has its limit. */
static const char *log_of(const struct server *server)
{
    struct contents log = file_read(server->log);
    size_t size = log.size < LOG_SIZE ? log.size : LOG_SIZE;
    return text_format("%.*s", (int)size, (const char *)log.data + log.size - size);
}

/* False where the server ends by itself; aborts the test where it does not serve the path in time.
 */
static bool wait_until_it_serves(const struct server *server, const char *path)
{
    const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
    for (int i = 0; i < WAIT_SECONDS * 10; i++) {
        if (serves(server->port, path)) {
            return true;
        }
        if (waitpid(server->process, NULL, WNOHANG) != 0) {
            return false;
        }
        nanosleep(&moment, NULL);
    }
    ck_abort_msg("debuginfod does not serve %s: %s", path, log_of(server));
}

/* Serves the files in a directory; it is ready when it answers `path`. Somebody else may take the
 * port in between, hence the attempts. */
static struct server server_start(const char *label, const char *files, const char *upstream,
                                  const char *path)
{
    struct server server = {.log = text_format("%s/%s.log", scratch, label)};
    const char *database = text_format("%s/%s.sqlite", scratch, label);
    const char *cache = text_format("%s/%s.cache", scratch, label);
    for (int i = 0; i < START_ATTEMPTS; i++) {
        pid_t parent = getpid();
        server.port = free_port();
        server.process = fork();
        ck_assert_int_ge(server.process, 0);
        if (server.process == 0) {
            become_server(&server, files, database, cache, upstream, parent);
        }
        if (wait_until_it_serves(&server, path)) {
            return server;
        }
    }
    ck_abort_msg("debuginfod does not stay: %s", log_of(&server));
}

static void server_stop(const struct server *server)
{
    kill(server->process, SIGTERM);
    waitpid(server->process, NULL, 0);
}

/* ---- programs ---- */

struct served {
    char *directory;
    const char *clang;
    const char *uuid;
};

static struct served build(const char *clang)
{
    struct served application = {.directory = path_join(scratch, text_format("app-%s", clang)),
                                 .clang = clang};
    struct many_units program = {.clang = clang};
    directory_create(application.directory);
    many_units_build(&program, application.directory);
    struct elf_file image = elf_file_read(path_join(application.directory, APP));
    application.uuid = elf_file_build_id(&image);
    struct command command = {.directory = application.directory};
    text_list_add(&command.arguments, path_join(application.directory, APP));
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=app.profraw");
    command_run_or_abort(&command);
    run_or_abort(application.directory, versioned_tool("llvm-profdata", clang), "merge",
                 "app.profraw", "-o", "app.profdata", NULL);
    return application;
}

/* The object's place below `objects`, from a store. */
static void export_object(const struct served *application, const char *objects)
{
    struct command command = covsplit_command(application->directory, "split", "--store", "store",
                                              "-o", "stripped", APP, NULL);
    command_run_or_abort(&command);
    command_free(&command);
    command = covsplit_command(application->directory, "export", "--store", "store", "--debug-dir",
                               objects, NULL);
    command_run_or_abort(&command);
}

/* llvm-cov with only the profile, which lies alone in a directory, and a server. */
static struct command report_through(const struct served *application, const struct server *server,
                                     const char *words)
{
    char *alone = path_join(application->directory, "alone");
    if (!file_exists(alone)) {
        directory_create(alone);
        file_copy(path_join(application->directory, "app.profdata"),
                  path_join(alone, "app.profdata"));
    }
    set_environment(path_join(application->directory, "cache"),
                    text_format("http://127.0.0.1:%u", server->port));
    struct command command = command_words(alone, "%s %s -instr-profile=app.profdata",
                                           versioned_tool("llvm-cov", application->clang), words);
    return command;
}

static void assert_same_report(const struct served *application, const struct server *server,
                               const char *words)
{
    struct command original = {.directory = application->directory};
    text_list_add(&original.arguments, versioned_tool("llvm-cov", application->clang));
    text_list_add_words(&original.arguments, words);
    text_list_add_words(&original.arguments, APP " -instr-profile=app.profdata");
    const char *expected = command_run_or_abort(&original);
    struct command command = report_through(application, server, words);
    const char *found = command_run_or_abort(&command);
    ck_assert_msg(strlen(expected) > 100 && strcmp(expected, found) == 0,
                  "llvm-cov-%s %s differs: %s\n%s", application->clang, words, expected, found);
}

/* ---- the tests ---- */

START_TEST(test_federation)
{
    char *objects = path_join(scratch, "objects"), *nothing = path_join(scratch, "nothing");
    struct served applications[CLANG_COUNT];
    directory_create(nothing);
    for (int i = 0; i < CLANG_COUNT; i++) {
        applications[i] = build(clangs[i]);
        export_object(&applications[i], objects);
    }
    /* Files are looked for in any order, so all of them must be served. */
    struct server first = server_start("first", objects, NULL,
                                       text_format("/buildid/%s/debuginfo", applications[0].uuid));
    for (int i = 1; i < CLANG_COUNT; i++) {
        const char *path = text_format("/buildid/%s/debuginfo", applications[i].uuid);
        ck_assert_msg(wait_until_it_serves(&first, path), "not served: %s", path);
    }
    struct server second =
        server_start("second", nothing, text_format("http://127.0.0.1:%u", first.port), "/metrics");
    for (int i = 0; i < CLANG_COUNT; i++) {
        assert_same_report(&applications[i], &second, "report");
        assert_same_report(&applications[i], &second, "export -format=lcov");
        /* It is debug information and nothing else. */
        ck_assert(!serves(first.port, text_format("/buildid/%s/executable", applications[i].uuid)));
    }
    server_stop(&second);
    server_stop(&first);
    struct contents log = file_read(first.log);
    const char *text = text_format("%.*s", (int)log.size, (const char *)log.data);
    static const char *const complaints[] = {"error", "cannot", "failed", "exception"};
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        ck_assert_msg(strstr(text, complaints[i]) == NULL, "'%s' is in the log: %.*s",
                      complaints[i], LOG_SIZE, strstr(text, complaints[i]));
    }
}
END_TEST

/* What no server has is llvm-cov's own failure. */
START_TEST(test_unknown_image)
{
    char *nothing = path_join(scratch, "nothing");
    struct served application = build("19");
    directory_create(nothing);
    struct server server = server_start("first", nothing, NULL, "/metrics");
    struct command command = report_through(&application, &server, "report");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 1) && outcome.output_size == 0 &&
                      strstr(outcome.errors, "no coverage data") != NULL,
                  "%s", outcome_describe(&command, &outcome));
    server_stop(&server);
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("debuginfod");
}

int main(void)
{
    TCase *all = suite_case("debuginfod", 120, NULL);
    tcase_add_checked_fixture(all, prepare, NULL);
    suite_tests(all, test_federation, test_unknown_image);
    return suite_main("debuginfod", all);
}
