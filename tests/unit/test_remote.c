/*
 * Lists with URLs, what is fetched from them and how often they are asked, and the library's stores
 * at URLs. The server is a thread that answers GET for one sidecar, and what the test tells it for
 * the rest. Against servers of all kinds, the command is tested end to end.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/remote/store_list.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"

/* ---- lists ---- */

/* A list, its stores with '|' between them, and a part of the error. */
static const struct {
    const char *text, *stores, *refusal;
} lists[] = {
    {"", "", NULL},
    {"one:two::three", "one|two|three", NULL},
    {"one:https://host/path:two", "one|https://host/path|two", NULL},
    {"https://host:8080/path:two", "https://host:8080/path|two", NULL},
    {"https://host:8080:two", "https://host:8080|two", NULL},
    {"https://host:http://[::1]:9/x:/two", "https://host|http://[::1]:9/x|/two", NULL},
    {"HTTP://[fe80::1]:two", "HTTP://[fe80::1]|two", NULL},
    {"https://host:8080x/path", "https://host|8080x/path", NULL},
    {"httpx://host", "httpx|//host", NULL},
    {"file:///one:file:///two/x", "/one|/two/x", NULL},
    {"file://host/one", NULL, "file://host/one: not the URL of a directory here"},
    {"file:///one%20two", NULL, "'%'"},
    {"https://user:secret@host/path", NULL, "a URL with a password"},
    {"https://secret@host/path", NULL, "a URL with a password"},
    {"https://host/path?x=y", NULL, "not the URL of a directory"},
    {"https:///path", NULL, "not the URL of a directory"},
};

START_TEST(test_list)
{
    const char *text = lists[_i].text, *wanted = lists[_i].stores;
    FREED_BY(store_list_close) struct store_list list = {0};
    struct error error = {0};
    char found[200] = "";

    if (wanted == NULL) {
        ck_assert(!store_list_open(&list, text, STORE_LIST_ALL, 1, &error));
        ck_assert_msg(strstr(error.message, lists[_i].refusal) != NULL, "%s", error.message);
        ck_assert_ptr_null(strstr(error.message, "secret"));
        return;
    }
    ck_assert_msg(store_list_open(&list, text, STORE_LIST_ALL, 1, &error), "%s", error.message);
    for (size_t i = 0; i < list.count; i++) {
        const struct store *store = &list.stores[i];

        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s", i == 0 ? "" : "|",
                 store->name);
        ck_assert((store->remote != NULL) == store_is_url(store->name));
        ck_assert((store->directory == NULL) == (store->remote != NULL));
    }
    ck_assert_str_eq(found, wanted);
}
END_TEST

/* ---- a server ---- */

static struct {
    int socket;
    pthread_t thread;
    char url[64];
    const struct fixture *fixture;
    const char *other; /* the answer to all but the sidecar, and with is_broken to that, too */
    _Atomic bool is_broken;
    _Atomic unsigned requests;
} server;

static void answer(int client)
{
    const struct buffer *sidecar = &server.fixture->sidecar_bytes;
    char request[4096], head[200];
    size_t size = 0;
    ssize_t part;

    while (size < sizeof(request) - 1 &&
           (part = read(client, request + size, sizeof(request) - 1 - size)) > 0) {
        size += (size_t)part;
        request[size] = '\0';
        if (strstr(request, "\r\n\r\n") == NULL)
            continue;
        size = 0;
        server.requests++;
        if (server.is_broken || strstr(request, "75696c642d6964.covsplit ") == NULL) {
            dprintf(client, "%s", server.other);
            continue;
        }
        snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                 sidecar->size);
        /* Check's assertions are for one thread. */
        if (write(client, head, strlen(head)) < 0 ||
            write(client, sidecar->data, sidecar->size) != (ssize_t)sidecar->size)
            abort();
    }
}

static void *serve(void *context)
{
    int client;

    (void)context;
    while ((client = accept(server.socket, NULL, NULL)) >= 0) {
        answer(client);
        close(client);
    }
    return NULL;
}

#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"
#define FAILURE   "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"

/* Starts the server, with a cache of its own. */
static void start(struct fixture *fixture, const char *other)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    char cache[64];

    set_up(fixture);
    snprintf(cache, sizeof(cache), "%s/cache", fixture->directory);
    setenv("COVSPLIT_CACHE", cache, true);
    server.fixture = fixture;
    server.other = other;
    server.socket = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(bind(server.socket, (struct sockaddr *)&address, size) == 0 &&
              listen(server.socket, 9) == 0 &&
              getsockname(server.socket, (struct sockaddr *)&address, &size) == 0 &&
              pthread_create(&server.thread, NULL, serve, NULL) == 0);
    snprintf(server.url, sizeof(server.url), "http://127.0.0.1:%d/x/", ntohs(address.sin_port));
}

static void end(struct fixture *fixture)
{
    shutdown(server.socket, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.socket);
    server.requests = 0;
    server.is_broken = false;
    directory_remove(fixture->directory);
    buffer_free(&fixture->sidecar_bytes);
    buffer_free(&fixture->profile_bytes);
}

/* ---- what is fetched ---- */

static struct uuid uuid_of(const char *hex)
{
    struct uuid uuid;

    ck_assert(uuid_parse(hex, &uuid));
    return uuid;
}

/* Opens the only store of a new list, as a command does that has just started. */
static struct remote *open_remote(struct store_list *list)
{
    struct error error;

    store_list_close(list);
    ck_assert(store_list_open(list, server.url, STORE_LIST_ONE, 1 << 20, &error));
    return list->stores[0].remote;
}

static bool finds(struct remote *remote, const struct uuid *uuid, bool *fails)
{
    struct store_match match = {0};
    struct error error = {0};
    bool found;

    *fails = !remote_find(remote, uuid, &match, &error);
    ck_assert_msg(*fails == (error.message[0] != '\0'), "%s", error.message);
    found = match.path != NULL;
    free(match.path);
    return found;
}

START_TEST(test_fetch)
{
    FREED_BY(store_list_close) struct store_list list = {0};
    const struct uuid known = uuid_of(ID_HEX), unknown = uuid_of("0123456789abcdef");
    struct remote *remote;
    struct fixture fixture;
    bool fails;

    start(&fixture, NOT_FOUND);
    remote = open_remote(&list);
    ck_assert(!remote_has(remote, &known));
    ck_assert(finds(remote, &known, &fails) && !fails && remote_has(remote, &known));
    ck_assert(!finds(remote, &unknown, &fails) && !fails);
    ck_assert_uint_eq(server.requests, 2);
    /* Neither is asked for again, also by another program. */
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(finds(remote, &known, &fails) && !finds(remote, &unknown, &fails));
        remote = open_remote(&list);
    }
    ck_assert_uint_eq(server.requests, 2);
    setenv("COVSPLIT_CACHE_MISSING", "0", true);
    remote = open_remote(&list);
    ck_assert(!finds(remote, &unknown, &fails) && !fails);
    ck_assert_uint_eq(server.requests, 3);
    unsetenv("COVSPLIT_CACHE_MISSING");
    store_list_close(&list);
    end(&fixture);
}
END_TEST

/* A server that fails is asked four times, and then no more; it comes before nothing that is kept.
 */
START_TEST(test_failure)
{
    FREED_BY(store_list_close) struct store_list list = {0};
    const struct uuid known = uuid_of(ID_HEX), unknown = uuid_of("0123456789abcdef");
    struct remote *remote;
    struct fixture fixture;
    bool fails;

    start(&fixture, FAILURE);
    remote = open_remote(&list);
    ck_assert(finds(remote, &known, &fails));
    server.is_broken = true;
    ck_assert(!finds(remote, &unknown, &fails) && fails);
    ck_assert_uint_eq(server.requests, 5);
    ck_assert(!finds(remote, &unknown, &fails) && fails);
    ck_assert(finds(remote, &known, &fails) && !fails);
    ck_assert_uint_eq(server.requests, 5);
    ck_assert(remote_is_first_warning(remote, REMOTE_FAILS));
    ck_assert(!remote_is_first_warning(remote, REMOTE_FAILS));
    ck_assert(remote_is_first_warning(remote, REMOTE_IS_UNPROVEN));
    store_list_close(&list);
    end(&fixture);
}
END_TEST

START_TEST(test_library)
{
    struct fixture fixture;
    covsplit_error *error = NULL;
    covsplit_sidecar *sidecar;
    covsplit_store *store;

    start(&fixture, NOT_FOUND);
    ck_assert_ptr_null(covsplit_store_open(server.url, &error));
    assert_message(error, "covsplit_store_open_urls");
    store = covsplit_store_open_urls(server.url, &error);
    ck_assert_ptr_nonnull(store);
    ck_assert_ptr_null(covsplit_store_find(store, (const uint8_t *)"other-id", 8, &error));
    assert_message(error, "no sidecar of UUID");
    sidecar = covsplit_store_find(store, (const uint8_t *)ID, strlen(ID), &error);
    ck_assert_ptr_nonnull(sidecar);
    covsplit_sidecar_close(sidecar);
    ck_assert(!covsplit_store_visit(store, NULL, NULL, &error));
    assert_message(error, "cannot be asked which sidecars it has");
    covsplit_store_close(store);
    end(&fixture);
}
END_TEST

int main(void)
{
    TCase *names = suite_case("names", 0, NULL), *servers = suite_case("servers", 0, NULL);

    suite_loops(names, sizeof(lists) / sizeof(lists[0]), test_list);
    suite_tests(servers, test_fetch, test_failure, test_library);
    return suite_main("remote", names, servers);
}
