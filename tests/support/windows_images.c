/*
 * The images of windows_images.h.
 */
#include "tests/support/windows_images.h"

#include <check.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/suite.h"
#include "tests/support/windows_image.h"

#define FUNCTIONS 30

const struct windows_program windows_image_programs[WINDOWS_IMAGES] = {
    [WINDOWS_IMAGE_X86_64] = {.clang = "22", .target = WINDOWS_MSVC_X86_64, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_ARM64] = {.clang = "22", .target = WINDOWS_MSVC_ARM64, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_I686] = {.clang = "22",
                            .target = WINDOWS_MSVC_I686,
                            .functions = FUNCTIONS,
                            .link_options = "/debug /release"},
    [WINDOWS_IMAGE_MINGW] = {.clang = "22", .target = WINDOWS_MINGW_LLD, .functions = FUNCTIONS},
    [WINDOWS_IMAGE_MERGED] = {.clang = "22",
                              .target = WINDOWS_MSVC_X86_64,
                              .functions = FUNCTIONS,
                              .runtime_options = "-DPROFILE_MERGED",
                              .link_options = "/debug /release"},
};

char *windows_images[WINDOWS_IMAGES];

static char *scratch;

void windows_images_build(void)
{
    scratch = scratch_create("coff-images");
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        char *directory = path_join(scratch, text_format("build%zu", i));
        directory_create(directory);
        windows_program_build(&windows_image_programs[i], directory);
        windows_images[i] = path_join(directory, WINDOWS_PROGRAM);
    }
}

char *windows_images_directory(void)
{
    char *directory = path_join(scratch, text_format("test%d", (int)getpid()));
    directory_create(directory);
    return directory;
}

const char *windows_image_split(const struct pe_file *pe, const char *directory,
                                const char *options, int exit_code)
{
    struct command command =
        covsplit_command(directory, "split", "-o", "out", "--sidecar", "side", "input", NULL);
    text_list_add_words(&command.arguments, options);
    file_write(path_join(directory, "input"), pe->file.data, pe->file.size);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, exit_code), "%s", outcome_describe(&command, &outcome));
    const char *messages = text_format("%s", outcome.errors);
    outcome_free(&outcome);
    command_free(&command);
    return messages;
}

void windows_image_assert_joins(const char *directory)
{
    struct verdict verdict = {0};
    if (covsplit_expect(&verdict, 0, NULL, directory, "join", "--sidecar", "side", "-o", "joined",
                        "out", NULL)) {
        files_equal(path_join(directory, "joined"), path_join(directory, "input"), &verdict);
    }
    verdict_assert(&verdict, "join");
}

const char *windows_image_split_variant(const struct windows_program *program,
                                        const char *directory, const char *options)
{
    windows_program_build(program, directory);
    struct pe_file pe = pe_file_read(path_join(directory, WINDOWS_PROGRAM));
    const char *messages = windows_image_split(&pe, directory, options, 0);
    windows_image_assert_joins(directory);
    pe_file_free(&pe);
    return messages;
}

bool windows_image_lacks(const char *directory, const char *name)
{
    struct pe_file out = pe_file_read(path_join(directory, "out"));
    const struct pe_section *section = pe_file_section(&out, name);
    bool lacks = section == NULL || section->raw_size == 0;
    if (!lacks && strcmp(name, ".lprfn") == 0) {
        lacks = windows_tripwire_size(&out) != 0;
    }
    pe_file_free(&out);
    return lacks;
}
