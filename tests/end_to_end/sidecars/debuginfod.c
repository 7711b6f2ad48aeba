/*
 * Exported objects through elfutils' debuginfod: a report with no image and no local file.
 *
 * One debuginfod serves a directory of objects; a second one with no files of its own has the first
 * as its upstream, as in a federation. llvm-cov asks the second, by the UUIDs in the profile.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/debuginfod_server.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define LOG_SIZE 2000
#define APP      MANY_UNITS_PROGRAM

/* llvm-cov 14 has no client of debuginfod. */
static const char *const clangs[] = {"16", "19", "22"};

#define CLANG_COUNT ((int)(sizeof clangs / sizeof *clangs))

static char *scratch;

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
static struct command report_through(const struct served *application,
                                     const struct debuginfod_server *server, const char *words)
{
    char *alone = path_join(application->directory, "alone");
    if (!file_exists(alone)) {
        directory_create(alone);
        file_copy(path_join(application->directory, "app.profdata"),
                  path_join(alone, "app.profdata"));
    }
    struct command command = command_words(alone, "%s %s -instr-profile=app.profdata",
                                           versioned_tool("llvm-cov", application->clang), words);
    text_list_add_format(&command.environment, "DEBUGINFOD_URLS=%s", server->url);
    text_list_add_format(&command.environment, "DEBUGINFOD_CACHE_PATH=%s/cache",
                         application->directory);
    return command;
}

static void assert_same_report(const struct served *application,
                               const struct debuginfod_server *server, const char *words)
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
    char *objects = path_join(scratch, "objects");
    struct served applications[CLANG_COUNT];
    for (int i = 0; i < CLANG_COUNT; i++) {
        applications[i] = build(clangs[i]);
        export_object(&applications[i], objects);
    }
    struct debuginfod_server first = debuginfod_server_start(scratch, "first", objects, NULL);
    struct debuginfod_server second = debuginfod_server_start(scratch, "second", NULL, first.url);
    for (int i = 0; i < CLANG_COUNT; i++) {
        assert_same_report(&applications[i], &second, "report");
        assert_same_report(&applications[i], &second, "export -format=lcov");
        /* It is debug information and nothing else. */
        const char *uuid = applications[i].uuid;
        ck_assert(debuginfod_server_serves(&first, text_format("/buildid/%s/debuginfo", uuid)) &&
                  !debuginfod_server_serves(&first, text_format("/buildid/%s/executable", uuid)));
    }
    struct contents log = file_read(first.log);
    const char *text = text_format("%.*s", (int)log.size, (const char *)log.data);
    static const char *const complaints[] = {"error", "cannot", "failed", "exception"};
    for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++) {
        ck_assert_msg(strstr(text, complaints[i]) == NULL, "'%s' is in the log: %.*s",
                      complaints[i], LOG_SIZE, strstr(text, complaints[i]));
    }
    debuginfod_server_stop(&second);
    debuginfod_server_stop(&first);
}
END_TEST

/* What no server has is llvm-cov's own failure. */
START_TEST(test_unknown_image)
{
    struct served application = build("19");
    struct debuginfod_server server = debuginfod_server_start(scratch, "first", NULL, NULL);
    struct command command = report_through(&application, &server, "report");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 1) && outcome.output_size == 0 &&
                      strstr(outcome.errors, "no coverage data") != NULL,
                  "%s", outcome_describe(&command, &outcome));
    debuginfod_server_stop(&server);
}
END_TEST

static void prepare(void)
{
    /* Nothing of the machine's own configuration counts. */
    static const char *const proxies[] = {"http_proxy",  "https_proxy", "all_proxy", "HTTP_PROXY",
                                          "HTTPS_PROXY", "ALL_PROXY",   "no_proxy"};
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++) {
        unsetenv(proxies[i]);
    }
    scratch = scratch_create("debuginfod");
}

int main(void)
{
    TCase *all = suite_case("debuginfod", 120, NULL);
    tcase_add_checked_fixture(all, prepare, NULL);
    suite_tests(all, test_federation, test_unknown_image);
    return suite_main("debuginfod", all);
}
