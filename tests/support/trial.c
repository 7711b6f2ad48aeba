/*
 * Splitting and joining in a trial (trial.h), and what is looked for in the files themselves. How
 * trials run is in trial_run.c.
 */
#include "tests/support/trial.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
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
        if (trial->program != NULL &&
            names_stay_by_chance(trial->program, path_join(trial->original, trial->images.items[i]),
                                 errors)) {
            trial->refusal = "may be a distance that leads to it";
        }
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

/* ---- sizes, UUIDs, and what readelf says ---- */

/* Room for what a stripped image may have that the original has not. */
#define SIZE_ALLOWANCE 4096

static const char *const removable[] = {
    "__llvm_covmap",   "__llvm_covfun",   "__llvm_prf_names",
    "__llvm_prf_data", "__llvm_covnames", "__llvm_covdata",
};

static bool is_removed(const struct trial *trial, const char *image, const char *name)
{
    bool is_data = strcmp(name, "__llvm_prf_data") == 0;
    bool is_names = strcmp(name, "__llvm_prf_names") == 0;
    return !(trial->data_stays && is_data) &&
           !(trial_refuses(trial, image) && (is_data || is_names));
}

/* Whether that is all that may be left of a section: of the mapping, one record of a version that
 * no reader knows. */
static bool is_rest(const struct elf_file *stripped, const char *name)
{
    const uint64_t version = 0x7fffffff;
    const Elf64_Shdr *section = elf_file_section(stripped, name);
    if (strcmp(name, "__llvm_covmap") != 0) {
        return elf_file_section_file_size(stripped, name) == 0;
    }
    return elf_file_section_file_size(stripped, name) == 16 &&
           elf_file_number(stripped, section->sh_offset, 8) == 0 &&
           elf_file_number(stripped, section->sh_offset + 8, 4) == 0 &&
           elf_file_number(stripped, section->sh_offset + 12, 4) == version;
}

static bool check_size(const struct trial *trial, const char *image,
                       const struct elf_file *original, const struct elf_file *stripped,
                       struct verdict *verdict)
{
    uint64_t removed = 0;
    uint64_t loaded = 0;
    for (size_t i = 0; i < sizeof removable / sizeof *removable; i++) {
        const Elf64_Shdr *section = elf_file_section(original, removable[i]);
        if (section != NULL && section->sh_size != 0 && is_removed(trial, image, removable[i])) {
            removed += section->sh_size;
            loaded += (section->sh_flags & SHF_ALLOC) != 0;
            if ((section->sh_flags & SHF_ALLOC) == 0 && !is_rest(stripped, removable[i])) {
                return verdict_fail(verdict, "%s is still in %s", removable[i], image);
            }
        }
    }
    uint64_t limit =
        original->file.size - removed + 2 * loaded * elf_file_page_size(original) + SIZE_ALLOWANCE;
    if (stripped->file.size > limit && strstr(trial->messages, " bytes of zeros stay: ") == NULL) {
        return verdict_fail(verdict,
                            "%s has %zu of %zu bytes, with %llu removable; at most %llu were "
                            "promised, and no warning says why",
                            image, stripped->file.size, original->file.size,
                            (unsigned long long)removed, (unsigned long long)limit);
    }
    return true;
}

/* Two pages less a byte have a whole one in them. */
void trial_assert_whole_pages(const struct trial *trial)
{
    static const char *const names[] = {"__llvm_prf_names", "__llvm_prf_data"};
    for (size_t i = 0; i < trial->images.count; i++) {
        char *path = path_join(trial->original, trial->images.items[i]);
        struct elf_file image = elf_file_read(path);
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            ck_assert_uint_ge(elf_file_section_size(&image, names[j]),
                              2 * elf_file_page_size(&image) - 1);
        }
        elf_file_free(&image);
        free(path);
    }
}

/* The UUID is the build ID, in all three files; an image without one gets a UUID all the same. */
static bool check_uuid(const char *image, const struct elf_file *original,
                       const struct elf_file *stripped, const struct elf_file *sidecar,
                       struct verdict *verdict)
{
    const char *uuid = elf_file_build_id(original);
    const char *stripped_uuid = elf_file_build_id(stripped);
    const char *sidecar_uuid = elf_file_build_id(sidecar);
    if (sidecar_uuid == NULL) {
        return verdict_fail(verdict, "the sidecar of %s has no UUID", image);
    }
    if (uuid != NULL && (stripped_uuid == NULL || strcmp(uuid, stripped_uuid) != 0 ||
                         strcmp(uuid, sidecar_uuid) != 0)) {
        return verdict_fail(verdict, "%s: build ID %s, stripped %s, sidecar %s", image, uuid,
                            stripped_uuid != NULL ? stripped_uuid : "none", sidecar_uuid);
    }
    return true;
}

bool trial_check_sizes(const struct trial *trial, struct verdict *verdict)
{
    bool good = true;
    for (size_t i = 0; i < trial->images.count && good; i++) {
        const char *image = trial->images.items[i];
        char *original_path = path_join(trial->original, image);
        char *stripped_path = path_join(trial->stripped, image);
        char *sidecar_path = text_format("%s" SIDECAR_SUFFIX, stripped_path);
        struct elf_file original = elf_file_read(original_path);
        struct elf_file stripped = elf_file_read(stripped_path);
        struct elf_file sidecar = elf_file_read(sidecar_path);
        good = check_size(trial, image, &original, &stripped, verdict) &&
               check_uuid(image, &original, &stripped, &sidecar, verdict);
        elf_file_free(&original);
        elf_file_free(&stripped);
        elf_file_free(&sidecar);
        free(original_path);
        free(stripped_path);
        free(sidecar_path);
    }
    return good;
}

/* Numbers differ from image to image and say nothing about what is wrong: each becomes one '#'. */
static void blur_numbers(char *line)
{
    char *to = line;
    for (const char *from = line; *from != '\0';) {
        size_t digits = strncmp(from, "0x", 2) == 0 ? 2 + strspn(from + 2, "0123456789abcdef")
                                                    : strspn(from, "0123456789");
        if (digits != 0) {
            *to++ = '#';
            from += digits;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* The lines in which a reader complains: all it writes to standard error, and warnings between its
 * output. */
static struct text_list complaints_of(const char *directory, const char *image, const char *tool,
                                      const char *option)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, option);
    text_list_add(&command.arguments, image);
    text_list_add(&command.environment, "DEBUGINFOD_URLS=");
    struct outcome outcome = command_run(&command);
    struct text_list complaints = text_list_of_lines(outcome.errors);
    struct text_list lines = text_list_of_lines(outcome.output);
    for (size_t i = 0; i < lines.count; i++) {
        if (strcasestr(lines.items[i], "warning:") != NULL ||
            strcasestr(lines.items[i], "error:") != NULL) {
            text_list_add(&complaints, lines.items[i]);
        }
    }
    if (outcome.signal != 0 || outcome.timed_out || outcome.exit_code == 127) {
        text_list_add(&complaints, outcome_describe(&command, &outcome));
    } else if (outcome.exit_code != 0) {
        text_list_add(&complaints, "a nonzero exit code");
    }
    for (size_t i = 0; i < complaints.count; i++) {
        blur_numbers(complaints.items[i]);
    }
    text_list_free(&lines);
    outcome_free(&outcome);
    command_free(&command);
    return complaints;
}

static bool check_reader(const struct trial *trial, const char *image, const char *tool,
                         const char *option, struct verdict *verdict)
{
    struct text_list before = complaints_of(trial->original, image, tool, option);
    struct text_list after = complaints_of(trial->stripped, image, tool, option);
    bool good = true;
    for (size_t i = 0; i < after.count && good; i++) {
        if (!text_list_contains(&before, after.items[i])) {
            good = verdict_fail(verdict, "%s %s says of the stripped %s only: %s", tool, option,
                                image, after.items[i]);
        }
    }
    text_list_free(&before);
    text_list_free(&after);
    return good;
}

bool trial_check_readers(const struct trial *trial, struct verdict *verdict)
{
    bool good = true;
    for (size_t i = 0; i < trial->images.count && good; i++) {
        const char *image = trial->images.items[i];
        good = check_reader(trial, image, "readelf", "-aW", verdict) &&
               check_reader(trial, image, "eu-readelf", "-a", verdict);
    }
    return good;
}
