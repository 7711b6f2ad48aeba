/*
 * The program of application.h.
 */
#include "tests/support/application.h"

#include <check.h>
#include <stdlib.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/raw_profile.h"

#define PROGRAM_EXIT_CODE 3

struct application application_build(const struct program *program, const char *label,
                                     const char *options, void (*assert_said)(const char *errors))
{
    struct application application = {
        .scratch = scratch_create(label),
        .emulator = program->target != NULL ? target_emulator(program->target) : ""};
    char *original = path_join(application.scratch, "original");
    directory_create(original);
    directory_create(path_join(application.scratch, "split"));
    program_build(program, original);
    text_list_add(&application.images, PROGRAM_NAME);
    if (program->kind == LINK_SHARED) {
        text_list_add(&application.images, PROGRAM_LIBRARY);
    }
    for (size_t i = 0; i < application.images.count; i++) {
        const char *image = application.images.items[i];
        bool is_alone = options != NULL && strstr(options, "--sidecar") != NULL;
        const char *words =
            text_format("split -o split/%s %s %s original/%s", image,
                        options != NULL ? options : "", is_alone ? "" : "--store store", image);
        if (is_alone) {
            directory_create(path_join(application.scratch, "store"));
        }
        struct outcome outcome = covsplit_run_words(application.scratch, 0, words);
        if (assert_said != NULL) {
            assert_said(outcome.errors);
        }
    }
    return application;
}

void application_run_once(const struct application *application, const char *images, unsigned run,
                          const char *profile)
{
    struct command command = {.directory = application->scratch};
    text_list_add_words(&command.arguments, application->emulator);
    text_list_add_format(&command.arguments, "%s/%s/%s", application->scratch, images,
                         PROGRAM_NAME);
    text_list_add_format(&command.arguments, "%u", run);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_expect(&command, PROGRAM_EXIT_CODE);
}

static uint64_t counters_size(const char *path)
{
    struct raw_profile profile;
    struct verdict verdict = {0};
    raw_profile_read(path, &profile, &verdict);
    verdict_assert(&verdict, path);
    uint64_t size = profile.counters.size;
    raw_profile_free(&profile);
    return size;
}

int profiles_by_counters(const void *a, const void *b)
{
    uint64_t left = counters_size(*(char *const *)a), right = counters_size(*(char *const *)b);
    return left < right ? -1 : left > right;
}

struct text_list application_profiles(const struct application *application, const char *directory)
{
    struct text_list names = directory_list(path_join(application->scratch, directory));
    struct text_list paths = {0};
    for (size_t i = 0; i < names.count; i++) {
        text_list_add_format(&paths, "%s/%s/%s", application->scratch, directory, names.items[i]);
    }
    qsort(paths.items, paths.count, sizeof *paths.items, profiles_by_counters);
    return paths;
}
