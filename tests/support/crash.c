/*
 * The cores of crash.h.
 */
#include "tests/support/crash.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

#define ABORT_LIBRARY "libabort.so"

static void build_abort_library(const struct program *program, const char *directory)
{
    file_copy(COVSPLIT_FIXTURE_DIRECTORY "/abort_at_exit.c",
              path_join(directory, "abort_at_exit.c"));
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, versioned_tool("clang", program->clang));
    if (program->target != NULL) {
        target_add_compile_words(program->target, &command.arguments);
        text_list_add_format(&command.arguments, "-fuse-ld=lld");
    }
    text_list_add_words(&command.arguments, "-fPIC -shared -Wl,-soname," ABORT_LIBRARY
                                            " abort_at_exit.c -o " ABORT_LIBRARY);
    command_run_or_abort(&command);
    command_free(&command);
}

static void split_images(const struct crash *crash, const struct program *program)
{
    const char *images =
        program->kind == LINK_SHARED ? PROGRAM_NAME " " PROGRAM_LIBRARY : PROGRAM_NAME;
    struct outcome outcome =
        covsplit_run_words(crash->directory, 0, text_format("split --store store %s", images));
    outcome_free(&outcome);
}

/* The program as its emulator runs it, which dumps the core of what it runs by itself, and aborts
 * too. */
static void run_emulated(const struct crash *crash, const struct target *target)
{
    struct command command = {.directory = crash->directory};
    struct rlimit old, all;
    ck_assert_int_eq(getrlimit(RLIMIT_CORE, &old), 0);
    all = old;
    all.rlim_cur = old.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_CORE, &all), 0);
    text_list_add_words(&command.arguments, target_emulator(target));
    text_list_add_words(&command.arguments, "./" PROGRAM_NAME " 1");
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=profiles/%m.profraw");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.signal != 0, "%s", outcome_describe(&command, &outcome));
    ck_assert_int_eq(setrlimit(RLIMIT_CORE, &old), 0);
    outcome_free(&outcome);
    command_free(&command);
}

/* Gives the emulator's core its name, and what the kernel dumped of the emulator itself. */
static void find_core(const struct crash *crash)
{
    struct text_list names = directory_list(crash->directory);
    for (size_t i = 0; i < names.count; i++) {
        const char *path = path_join(crash->directory, names.items[i]);
        if (strncmp(names.items[i], "qemu_", 5) == 0) {
            ck_assert_int_eq(rename(path, crash->core), 0);
        } else if (strncmp(names.items[i], "core", 4) == 0 && strcmp(path, crash->core) != 0) {
            ck_assert_int_eq(rename(path, crash->emulator_core), 0);
        }
    }
    text_list_free(&names);
}

/* gdb stops the program when it aborts, and dumps it. The kernel's own core may go anywhere, by
 * kernel.core_pattern. */
static void run_in_debugger(const struct crash *crash)
{
    struct command command = command_words(crash->directory, "gdb -nx -batch -iex");
    text_list_add(&command.arguments, "set debuginfod enabled off");
    static const char *const steps[] = {"set disable-randomization off", "run 1",
                                        "generate-core-file program.core"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        text_list_add(&command.arguments, "-ex");
        text_list_add(&command.arguments, steps[i]);
    }
    text_list_add(&command.arguments, "./" PROGRAM_NAME);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=profiles/%m.profraw");
    command_run_or_abort(&command);
    command_free(&command);
}

struct crash crash_create(const struct program *program, bool is_split, const char *directory)
{
    struct crash crash = {.directory = path_join(directory, "."),
                          .store = is_split ? path_join(directory, "store") : NULL,
                          .profiles = path_join(directory, "profiles"),
                          .core = path_join(directory, "program.core"),
                          .emulator_core = path_join(directory, "emulator.core")};
    struct program linked = *program;
    linked.link_options = text_format("%s -Wl,-rpath,$ORIGIN -Wl,--no-as-needed " ABORT_LIBRARY,
                                      program->link_options != NULL ? program->link_options : "");
    build_abort_library(program, directory);
    program_build(&linked, directory);
    if (is_split) {
        split_images(&crash, program);
    }
    directory_create(crash.profiles);
    if (program->target != NULL) {
        run_emulated(&crash, program->target);
        find_core(&crash);
    } else {
        run_in_debugger(&crash);
    }
    ck_assert_msg(file_exists(crash.core), "no core of %s", program_describe(program));
    return crash;
}

struct outcome crash_snapshot(const struct crash *crash, const char *core, const char *words,
                              const char *out)
{
    struct command command =
        covsplit_words(crash->directory, text_format("snapshot %s --core %s", words, core));
    if (crash->store != NULL) {
        text_list_add_words(&command.arguments, "--store store");
    }
    text_list_add(&command.arguments, "-o");
    text_list_add(&command.arguments, out);
    struct outcome outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

static bool is_one_of(const char *path, const char *directory, const struct text_list *names)
{
    struct contents found = file_read(path);
    bool same = false;
    for (size_t i = 0; i < names->count && !same; i++) {
        struct contents expected = file_read(path_join(directory, names->items[i]));
        same = contents_equal(&found, &expected);
        contents_free(&expected);
    }
    contents_free(&found);
    return same;
}

bool crash_check(const struct crash *crash, const char *out, bool all, struct verdict *verdict)
{
    struct text_list expected = directory_list(crash->profiles), found = directory_list(out);
    bool good = true;
    for (size_t i = 0; i < found.count && good; i++) {
        good = is_one_of(path_join(out, found.items[i]), crash->profiles, &expected) ||
               verdict_fail(verdict, "%s/%s is not what the program wrote", out, found.items[i]);
    }
    if (good && all && found.count != expected.count) {
        good =
            verdict_fail(verdict, "%zu profiles in %s, not %zu", found.count, out, expected.count);
    }
    text_list_free(&expected);
    text_list_free(&found);
    return good;
}
