/*
 * Splitting and joining in a trial (trial.h). How trials run is in trial_run.c, what is looked for
 * in the files themselves in trial_files.c.
 */
#include "tests/support/trial.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/program.h"

struct trial trial_create(const char *label)
{
    struct trial trial = {.scratch = scratch_create(label), .messages = ""};
    trial.original = path_join(trial.scratch, "original");
    trial.stripped = path_join(trial.scratch, "stripped");
    directory_create(trial.original);
    directory_create(trial.stripped);
    return trial;
}

static char *sidecar_name(const char *image)
{
    return text_format("%s" SIDECAR_SUFFIX, image);
}

/* Splits one image into `directory`; *errors gets the messages. */
static bool split_image(const struct trial *trial, const char *image, const char *directory,
                        char **errors, struct verdict *verdict)
{
    struct command command = covsplit_command(trial->scratch, "split", NULL);
    struct text_list *words = &command.arguments;
    for (size_t i = 0; i < trial->split_options.count; i++) {
        text_list_add(words, trial->split_options.items[i]);
    }
    text_list_add(words, "-o");
    text_list_add_format(words, "%s/%s", directory, image);
    text_list_add(words, "--sidecar");
    text_list_add_format(words, "%s/%s" SIDECAR_SUFFIX, directory, image);
    text_list_add_format(words, "original/%s", image);
    struct outcome outcome = command_run(&command);
    bool good = outcome_exited(&outcome, 0);
    if (!good) {
        verdict_fail(verdict, "the split failed %s", outcome_describe(&command, &outcome));
    }
    *errors = text_format("%s", outcome.errors);
    outcome_free(&outcome);
    command_free(&command);
    return good;
}

bool trial_refuses(const struct trial *trial, const char *image)
{
    return trial->refusal != NULL && (trial->refused == NULL || strcmp(trial->refused, image) == 0);
}

bool trial_split(struct trial *trial, struct verdict *verdict)
{
    for (size_t i = 0; i < trial->images.count; i++) {
        char *errors = NULL;
        if (!split_image(trial, trial->images.items[i], trial->stripped, &errors, verdict)) {
            return false;
        }
        trial->messages = text_format("%s%s", trial->messages, errors);
        free(errors);
    }
    if (trial->refusal != NULL && strstr(trial->messages, trial->refusal) == NULL) {
        return verdict_fail(verdict, "no message says '%s': %s", trial->refusal, trial->messages);
    }
    if (trial->refusal == NULL && strstr(trial->messages, " stays") != NULL && !trial->data_stays) {
        return verdict_fail(verdict, "not everything was removed: %s", trial->messages);
    }
    return true;
}

static bool check_join_image(const struct trial *trial, const char *image, struct verdict *verdict)
{
    char *sidecar = text_format("stripped/%s" SIDECAR_SUFFIX, image);
    char *stripped = text_format("stripped/%s", image);
    char *joined = path_join(trial->scratch, "joined");
    char *original = path_join(trial->original, image);
    bool good = covsplit_expect(verdict, 0, NULL, trial->scratch, "join", "--sidecar", sidecar,
                                "-o", joined, stripped, NULL) &&
                files_equal(joined, original, verdict) &&
                covsplit_expect(verdict, 0, NULL, trial->scratch, "verify", sidecar, NULL) &&
                covsplit_expect(verdict, 0, NULL, trial->scratch, "verify", "--image", stripped,
                                sidecar, NULL);
    if (good && file_status(joined).st_mode != file_status(original).st_mode) {
        good = verdict_fail(verdict, "the joined %s has another file mode", image);
    }
    free(sidecar);
    free(stripped);
    free(joined);
    free(original);
    return good;
}

bool trial_check_join(const struct trial *trial, struct verdict *verdict)
{
    bool good = true;
    for (size_t i = 0; i < trial->images.count && good; i++) {
        good = check_join_image(trial, trial->images.items[i], verdict);
    }
    return good;
}

static bool check_same_file(const char *directory, const char *other, const char *name,
                            struct verdict *verdict)
{
    char *path = path_join(directory, name);
    char *other_path = path_join(other, name);
    bool same = files_equal(path, other_path, verdict);
    free(path);
    free(other_path);
    return same;
}

bool trial_check_deterministic(const struct trial *trial, struct verdict *verdict)
{
    char *again = path_join(trial->scratch, "again");
    directory_create(again);
    bool good = true;
    for (size_t i = 0; i < trial->images.count && good; i++) {
        char *errors = NULL;
        char *sidecar = sidecar_name(trial->images.items[i]);
        good = split_image(trial, trial->images.items[i], again, &errors, verdict) &&
               check_same_file(trial->stripped, again, trial->images.items[i], verdict) &&
               check_same_file(trial->stripped, again, sidecar, verdict);
        free(sidecar);
        free(errors);
    }
    free(again);
    return good;
}

/* Splits every image into a store and into `directory`. */
static bool split_into_store(const struct trial *trial, const char *directory,
                             struct verdict *verdict)
{
    bool good = true;
    directory_create(directory);
    for (size_t i = 0; i < trial->images.count && good; i++) {
        char *original = path_join(trial->original, trial->images.items[i]);
        char *stripped = path_join(directory, trial->images.items[i]);
        good = covsplit_expect(verdict, 0, NULL, trial->scratch, "split", "--store", "store", "-o",
                               stripped, original, NULL);
        free(original);
        free(stripped);
    }
    return good;
}

/* What llvm-cov exports of the images in a directory. `command` has words in front of it. */
static const char *export_report(const struct trial *trial, struct command *command,
                                 const char *directory, const char *indexed)
{
    struct text_list *words = &command->arguments;
    text_list_add(words, versioned_tool("llvm-cov", trial->clang));
    text_list_add(words, "export");
    if (trial->skips_expansions) {
        text_list_add(words, "-skip-expansions");
    }
    text_list_add_format(words, "-instr-profile=%s", indexed);
    for (size_t i = 0; i < trial->images.count; i++) {
        text_list_add_words(words, i == 0 ? "" : "-object");
        text_list_add_format(words, "%s/%s", directory, trial->images.items[i]);
    }
    const char *report = command_run_or_abort(command);
    command_free(command);
    return report;
}

bool trial_check_report(const struct trial *trial, struct verdict *verdict)
{
    char *split = path_join(trial->scratch, "report");
    const char *llvm_profdata = versioned_tool("llvm-profdata", trial->clang);
    if (!split_into_store(trial, split, verdict) ||
        !covsplit_expect(verdict, 0, NULL, trial->scratch, "merge", "--store", "store",
                         "--llvm-profdata", llvm_profdata, "-o", "stripped.profdata",
                         "profiles-stripped-1", NULL)) {
        return false;
    }
    run_or_abort(trial->scratch, llvm_profdata, "merge", "-o", "original.profdata",
                 "profiles-original-1", NULL);
    struct command plain = {.directory = trial->scratch};
    struct command wrapped =
        covsplit_command(trial->scratch, "run", "--store", "store", "--", NULL);
    const char *expected = export_report(trial, &plain, trial->original, "original.profdata");
    const char *found = export_report(trial, &wrapped, split, "stripped.profdata");
    free(split);
    if (strstr(expected, "\"functions\"") == NULL || strcmp(expected, found) != 0) {
        return verdict_fail(verdict,
                            "the reports differ.\nThe original:\n%.2000s\nThis one:\n%.2000s",
                            expected, found);
    }
    return true;
}

bool trial_check_all(struct trial *trial, struct verdict *verdict)
{
    return trial_split(trial, verdict) && trial_check_runs(trial, verdict) &&
           trial_check_join(trial, verdict) && trial_check_deterministic(trial, verdict) &&
           trial_check_sizes(trial, verdict) && trial_check_readers(trial, verdict);
}
