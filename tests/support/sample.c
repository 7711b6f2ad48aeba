/*
 * The files behind sample.h.
 */
#include "tests/support/sample.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"

struct sample sample_create(const char *label, unsigned functions)
{
    return sample_create_for(NULL, label, functions);
}

struct sample sample_create_for(const struct target *target, const char *label, unsigned functions)
{
    struct program program = {
        .clang = "19",
        .linker = target != NULL ? "lld" : "bfd",
        .target = target,
        .kind = target != NULL && target->is_freestanding ? LINK_STATIC_PIE : LINK_PIE,
        .language = LANGUAGE_C,
        .optimization = "-O1",
        .link_options = target != NULL ? target_page_option(target) : NULL,
        .functions = functions,
    };
    struct sample sample = {.scratch = scratch_create(label)};
    char *directory = path_join(sample.scratch, "sample");
    directory_create(directory);
    program_build(&program, directory);
    sample.image = path_join(directory, PROGRAM_NAME);
    sample.stripped = path_join(directory, "stripped");
    sample.sidecar = path_join(directory, "stripped.covsplit");
    free(directory);
    return sample;
}

void sample_split(struct sample *sample)
{
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, NULL, "split", "-o", sample->stripped, "--sidecar",
                    sample->sidecar, sample->image, NULL);
    ck_assert_msg(verdict.problem == NULL, "%s", verdict.problem);
}

char *sample_directory(const struct sample *sample)
{
    char *directory = text_format("%s/test-XXXXXX", sample->scratch);
    if (mkdtemp(directory) == NULL) {
        ck_abort_msg("cannot make %s", directory);
    }
    return directory;
}

char *sample_copy(const struct sample *sample, const char *directory, const char *name)
{
    char *copy = path_join(directory, name);
    file_copy(sample->image, copy);
    return copy;
}

/* ---- images and files for stores ---- */

#define BUILD_ID_SIZE 20

/* The note's header, and the name "GNU". */
#define BUILD_ID_OFFSET 16

struct variant variant_create(const char *image, const char *directory, const char *name,
                              unsigned uuid, unsigned content)
{
    struct variant variant = {.path = path_join(directory, name), .uuid = text_format("%s", "")};
    struct elf_file elf = elf_file_read(image);
    const Elf64_Shdr *note = elf_file_section(&elf, ".note.gnu.build-id");
    const Elf64_Shdr *comment = elf_file_section(&elf, ".comment");
    ck_assert(note != NULL && note->sh_size == BUILD_ID_OFFSET + BUILD_ID_SIZE);
    ck_assert(comment != NULL && comment->sh_size > 8);
    /* Neighbours differ in the first byte, so that they are in several directories. */
    uint8_t *build_id = elf.file.data + note->sh_offset + BUILD_ID_OFFSET;
    for (unsigned i = 0; i < BUILD_ID_SIZE; i++) {
        build_id[i] = (uint8_t)(i == 0 ? uuid * 37 : i == 1 ? uuid >> 8 : i == 2 ? uuid : i);
        variant.uuid = text_format("%s%02x", variant.uuid, build_id[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        elf.file.data[comment->sh_offset + i] = (uint8_t)('a' + (content >> (4 * i) & 15));
    }
    file_write(variant.path, elf.file.data, elf.file.size);
    ck_assert_int_eq(chmod(variant.path, 0755), 0);
    elf_file_free(&elf);
    return variant;
}

char *store_entry(const char *store, const char *uuid)
{
    return text_format("%s/.build-id/%.2s/%s.covsplit", store, uuid, uuid + 2);
}

/* Adds what is below directory/PREFIX, with the prefix. */
static void add_entries(struct text_list *list, const char *directory, const char *prefix)
{
    char *place = path_join(directory, prefix);
    struct text_list names = directory_list(place);
    for (size_t i = 0; i < names.count; i++) {
        char *path = path_join(place, names.items[i]);
        struct stat status;
        ck_assert_int_eq(lstat(path, &status), 0);
        char *entry =
            text_format("%s%s%s", prefix, names.items[i], S_ISDIR(status.st_mode) ? "/" : "");
        text_list_add(list, entry);
        if (S_ISDIR(status.st_mode)) {
            add_entries(list, directory, entry);
        }
        free(entry);
        free(path);
    }
    text_list_free(&names);
    free(place);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct text_list tree_list(const char *directory)
{
    struct text_list list = {0};
    add_entries(&list, directory, "");
    if (list.count != 0) {
        qsort(list.items, list.count, sizeof *list.items, compare_texts);
    }
    return list;
}

#define BATCH_NAME_DIGITS 32

/* Whether one is there under its name. */
static bool has_batch(void *batches)
{
    struct text_list names = directory_list(batches);
    bool found = false;
    for (size_t i = 0; i < names.count; i++) {
        found |= strlen(names.items[i]) == BATCH_NAME_DIGITS &&
                 strspn(names.items[i], "0123456789abcdef") == BATCH_NAME_DIGITS;
    }
    text_list_free(&names);
    return found;
}

void state_leave_batch(const char *directory, const char *from, const char *profiles)
{
    struct command command =
        covsplit_words(directory, text_format("merge -j1 --store store --into left %s", profiles));
    run_or_abort(directory, "cp", "-a", from, "left", NULL);
    struct traced adding =
        command_trace_and_kill_when(&command, has_batch, path_join(directory, "left/batches"));
    ck_assert_msg(adding.was_stopped, "%s", adding.errors);
    command_free(&command);
}

void file_set_age(const char *path, unsigned hours)
{
    time_t moment = time(NULL) - (time_t)hours * 3600;
    struct timespec times[2] = {{.tv_sec = moment}, {.tv_sec = moment}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* ---- files for `covsplit run` ---- */

#define OPENER_SOURCE COVSPLIT_FIXTURE_DIRECTORY "/opener.c"

static void opener_build(const char *output, const char *compiler, const char *options)
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
