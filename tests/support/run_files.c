/*
 * The files of run_files.h.
 */
#include "tests/support/run_files.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"

#define OPENER_SOURCE COVSPLIT_FIXTURE_DIRECTORY "/opener.c"

void opener_build(const char *output, const char *compiler, const char *options)
{
    struct command command = {0};
    text_list_add(&command.arguments, compiler);
    text_list_add_words(&command.arguments, "-D_GNU_SOURCE -pthread " OPENER_SOURCE " -o");
    text_list_add(&command.arguments, output);
    text_list_add_words(&command.arguments, options);
    command_run_or_abort(&command);
    command_free(&command);
}

static void write_profile(const struct run_files *files)
{
    struct command command = {0};
    text_list_add(&command.arguments, files->sample.stripped);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", files->light);
    command_expect(&command, 3);
    command_free(&command);
}

struct run_files run_files_create(const char *label)
{
    struct verdict verdict = {0};
    struct run_files files = {.sample = sample_create(label, RUN_FILES_FUNCTIONS)};
    struct sample *sample = &files.sample;
    files.store = path_join(sample->scratch, "store");
    files.light = path_join(sample->scratch, "light.profraw");
    files.full = path_join(sample->scratch, "full.profraw");
    files.object = path_join(sample->scratch, "object");
    files.opener = path_join(sample->scratch, "opener");
    sample_split(sample);
    covsplit_expect(&verdict, 0, NULL, NULL, "split", "--store", files.store, "-o",
                    sample->stripped, sample->image, NULL);
    write_profile(&files);
    covsplit_expect(&verdict, 0, NULL, NULL, "correlate", "--sidecar", sample->sidecar, "-o",
                    files.full, files.light, NULL);
    covsplit_expect(&verdict, 0, NULL, NULL, "export", "--sidecar", sample->sidecar, "-o",
                    files.object, NULL);
    verdict_assert(&verdict, "set-up");
    opener_build(files.opener, "gcc", "-O2 -D_FORTIFY_SOURCE=2");
    return files;
}

struct command run_files_command(const struct run_files *files)
{
    return covsplit_command(files->sample.scratch, "run", "--store", files->store, "--", NULL);
}

void run_expect(struct command *command, int exit_code, const char *errors)
{
    const char *expected = errors == NULL ? "" : errors;
    struct outcome outcome = command_run(command);
    ck_assert_msg(outcome_exited(&outcome, exit_code) && strcmp(outcome.errors, expected) == 0,
                  "exit %d and the errors '%s' were expected %s", exit_code, expected,
                  outcome_describe(command, &outcome));
    outcome_free(&outcome);
    command_free(command);
}

void run_expect_silence(const struct run_files *files, const char *program, ...)
{
    struct command command = run_files_command(files);
    text_list_add(&command.arguments, program);
    va_list words;
    va_start(words, program);
    for (const char *word = va_arg(words, const char *); word != NULL;
         word = va_arg(words, const char *)) {
        text_list_add(&command.arguments, word);
    }
    va_end(words);
    run_expect(&command, 0, NULL);
}
