/*
 * `covsplit run` as a process: it must look like the command that it runs.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define WAIT_SECONDS 60

static char *scratch;

static void prepare(void)
{
    scratch = scratch_create("run-process");
}

/* `covsplit run -- `, to which words are added. */
static struct command run_command(void)
{
    return covsplit_command(scratch, "run", "--", NULL);
}

/* A child that goes on without its broker. */
START_TEST(test_outliving_child)
{
    static const char image[] = COVSPLIT_PRELOAD; /* any image: its module would ask for it */
    char *errors = path_join(scratch, "errors");
    char *done = path_join(scratch, "done");
    struct command command = run_command();
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments,
                  "exec </dev/null >/dev/null 2>&1; exec 2>\"$1\"; parent=$PPID; (while kill -0 "
                  "$parent; do sleep 0.1; done 2>/dev/null; cat \"$0\" \"$0\"; touch \"$2\") &");
    text_list_add(&command.arguments, image);
    text_list_add(&command.arguments, errors);
    text_list_add(&command.arguments, done);
    run_expect(&command, 0, "");
    for (int i = 0; i < WAIT_SECONDS * 10 && !file_exists(done); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    struct contents contents = file_read(errors);
    ck_assert_str_eq(text_format("%.*s", (int)contents.size, (const char *)contents.data),
                     text_format("covsplit: warning: %s: read as it is: 'covsplit run' has ended "
                                 "and this process outlives it, or is in another network "
                                 "namespace\n",
                                 image));
}
END_TEST

/* ---- the command line ---- */

START_TEST(test_exit_codes)
{
    static const struct {
        const char *script;
        int exit_code;
    } scripts[] = {{"exit 0", 0}, {"exit 3", 3}, {"exit 255", 255}};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct command command = run_command();
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add(&command.arguments, scripts[i].script);
        run_expect(&command, scripts[i].exit_code, "");
    }
    struct command command = run_command();
    text_list_add(&command.arguments, "no-such-program");
    run_expect(&command, 127,
               "covsplit: error: no-such-program: cannot be run: No such file or directory; name a "
               "program after '--'\n");
    char *plain = path_join(scratch, "plain");
    file_write_text(plain, "no program");
    command = run_command();
    text_list_add(&command.arguments, plain);
    run_expect(&command, 126,
               text_format("covsplit: error: %s: cannot be run: Permission denied; name a program "
                           "after '--'\n",
                           plain));
}
END_TEST

START_TEST(test_arguments)
{
    struct command command = run_command();
    text_list_add_words(&command.arguments, "printf [%s] --store -- -v");
    text_list_add(&command.arguments, "");
    text_list_add(&command.arguments, "a b");
    ck_assert_str_eq(command_run_or_abort(&command), "[--store][--][-v][][a b]");
    covsplit_run_words(NULL, 2, "run true");
    covsplit_run_words(NULL, 2, "run --");
    covsplit_assert(2, NULL, "run", "--", "", NULL);
    covsplit_run_words(NULL, 2, "run --no-such-option -- true");
}
END_TEST

/* Earlier contents of LD_PRELOAD and ASAN_OPTIONS stay there. */
START_TEST(test_environment)
{
    struct command command = run_command();
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, "echo \"$LD_PRELOAD $ASAN_OPTIONS\"");
    text_list_add(&command.environment, "LD_PRELOAD=libm.so.6");
    const char *output = command_run_or_abort(&command);
    char *module = realpath(COVSPLIT_PRELOAD, NULL);
    ck_assert_str_eq(output, text_format("%s:libm.so.6 exitcode=%d:verify_asan_link_order=0\n",
                                         module, SANITIZER_EXIT_CODE));
}
END_TEST

START_TEST(test_module)
{
    const char *needed =
        run_or_abort(NULL, "sh", "-c", "readelf -dW \"$0\" | grep NEEDED", COVSPLIT_PRELOAD, NULL);
    ck_assert_uint_eq(text_count(needed, "\n"), 1);
    ck_assert_ptr_nonnull(strstr(needed, "[libc.so.6]"));
    const char *names = run_or_abort(
        NULL, "sh", "-c", "nm -D --defined-only \"$0\" | sed 's/.* //' | sort | tr '\\n' ' '",
        COVSPLIT_PRELOAD, NULL);
    ck_assert_str_eq(names, "__open64_2 __open_2 __openat64_2 __openat_2 fopen fopen64 freopen "
                            "freopen64 open open64 openat openat64 ");
    const char *headers = run_or_abort(NULL, "readelf", "-lW", COVSPLIT_PRELOAD, NULL);
    ck_assert_ptr_nonnull(strstr(headers, "GNU_STACK"));
    ck_assert_ptr_null(strstr(headers, "RWE"));
}
END_TEST

/* ---- signals ---- */

/* Starts `covsplit run -- sh -c SCRIPT FILE`, and waits until the script has made the file. */
static pid_t start_script(const char *script, const char *ready)
{
    struct command command = run_command();
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, script);
    text_list_add(&command.arguments, ready);
    pid_t process = command_start(&command);
    for (int i = 0; i < WAIT_SECONDS * 100 && !file_exists(ready); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    ck_assert(file_exists(ready));
    return process;
}

static int wait_for(pid_t process)
{
    int status = 0;
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    return status;
}

START_TEST(test_signals)
{
    static const struct {
        int number;
        bool to_all; /* to the process group, as a terminal does it */
        const char *script;
        int exit_code; /* -1: ended by the signal */
    } cases[] = {
        {SIGTERM, false, "trap 'exit 7' TERM; >\"$0\"; while :; do sleep 0.05; done", 7},
        {SIGHUP, false, "trap 'exit 8' HUP; >\"$0\"; while :; do sleep 0.05; done", 8},
        {SIGUSR1, false, "trap 'exit 9' USR1; >\"$0\"; while :; do sleep 0.05; done", 9},
        {SIGINT, true,
         "trap 'trap \"\" INT; sleep 0.3; exit 10' INT; >\"$0\"; while :; do sleep 0.05; done", 10},
        {SIGTERM, false, ">\"$0\"; exec sleep 1000", -1},
        {SIGQUIT, true, ">\"$0\"; exec sleep 1000", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *ready = text_format("%s/ready-%zu", scratch, i);
        pid_t process = start_script(cases[i].script, ready);
        ck_assert_int_eq(kill(cases[i].to_all ? -process : process, cases[i].number), 0);
        int status = wait_for(process);
        if (cases[i].exit_code >= 0) {
            ck_assert(WIFEXITED(status));
            ck_assert_int_eq(WEXITSTATUS(status), cases[i].exit_code);
        } else {
            ck_assert(WIFSIGNALED(status));
            ck_assert_int_eq(WTERMSIG(status), cases[i].number);
            ck_assert(!WCOREDUMP(status));
        }
    }
}
END_TEST

/* A shell script by itself or under run; SIGPIPE ends a process, whatever it does here. */
static struct command script_command(bool under_run, const char *script)
{
    struct command command = {.directory = scratch};
    text_list_add_words(&command.arguments, "env --default-signal=PIPE");
    if (under_run) {
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, "run --");
    }
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, script);
    return command;
}

/* `covsplit run` ignores SIGPIPE once the command runs. The command does not, and where that ends
 * by it, so does `covsplit run`. */
START_TEST(test_broken_pipe)
{
    static const char ignored[] = "grep SigIgn /proc/self/status";
    struct command plain = script_command(false, ignored);
    struct command command = script_command(true, ignored);
    ck_assert_str_eq(command_run_or_abort(&plain), command_run_or_abort(&command));
    command = script_command(true, "kill -PIPE $$");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.signal == SIGPIPE, "%s", outcome_describe(&command, &outcome));
}
END_TEST

/* True where the process is there and no zombie. */
static bool is_alive(long process)
{
    char *path = text_format("/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    char state = 'X';
    if (file != NULL) {
        ck_assert_int_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
    return state != 'X' && state != 'Z';
}

START_TEST(test_killed)
{
    char *ready = path_join(scratch, "ready");
    pid_t process =
        start_script("echo $$ >\"$0.new\"; mv \"$0.new\" \"$0\"; exec sleep 1000", ready);
    struct contents contents = file_read(ready);
    long child =
        strtol(text_format("%.*s", (int)contents.size, (const char *)contents.data), NULL, 10);
    ck_assert(is_alive(child));
    ck_assert_int_eq(kill(process, SIGKILL), 0);
    wait_for(process);
    for (int i = 0; i < WAIT_SECONDS * 100 && is_alive(child); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    ck_assert(!is_alive(child));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("process", 120, prepare);
    suite_tests(test_case, test_exit_codes, test_arguments, test_environment, test_module,
                test_signals, test_broken_pipe, test_killed, test_outliving_child);
    return suite_main("run process", test_case);
}
