/*
 * The runs of a trial (trial.h, trial_run.h).
 */
#include "tests/support/trial.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define RUNS_INTO_ONE_PROFILE 3
#define STUB_UUID_SIZE        8

/* Where the runs of a trial leave their profiles. */
static char *profile_directory(const struct trial *trial, const char *label, unsigned runs)
{
    return text_format("%s/profiles-%s-%u", trial->scratch, label, runs);
}

static char *run_once(const struct trial *trial, const char *directory, const char *profiles,
                      unsigned run)
{
    char *work = path_join(trial->scratch, "work");
    directory_remove(work);
    directory_create(work);
    struct command command = {.directory = work};
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%%m.profraw", profiles);
    text_list_add_words(&command.arguments, trial->emulator != NULL ? trial->emulator : "");
    text_list_add_format(&command.arguments, "%s/%s", directory, trial->images.items[0]);
    for (size_t i = 0; i < trial->arguments.count; i++) {
        text_list_add(&command.arguments, trial->arguments.items[i]);
    }
    if (trial->numbered_runs) {
        text_list_add_format(&command.arguments, "%u", run);
    }
    struct outcome outcome = command_run(&command);
    char *text =
        text_format("run %u: exit %d, signal %d, %s\n%s%s", run, outcome.exit_code, outcome.signal,
                    outcome.timed_out ? "out of time" : "in time", outcome.output, outcome.errors);
    outcome_free(&outcome);
    command_free(&command);
    free(work);
    return text;
}

const char *application_run(const struct trial *trial, const char *directory, const char *profiles,
                            unsigned runs)
{
    directory_remove(profiles);
    directory_create(profiles);
    char *transcript = text_format("%s", "");
    for (unsigned run = 1; run <= runs; run++) {
        char *text = run_once(trial, directory, profiles, run);
        char *longer = text_format("%s%s", transcript, text);
        free(text);
        free(transcript);
        transcript = longer;
    }
    return transcript;
}

/* Whether one image's section of counters has this size; that is how a profile finds its image. */
static const char *image_of(const struct trial *trial, const struct raw_profile *profile)
{
    for (size_t i = 0; i < trial->images.count; i++) {
        char *path = path_join(trial->original, trial->images.items[i]);
        struct elf_file image = elf_file_read(path);
        uint64_t size = elf_file_section_size(&image, "__llvm_prf_cnts");
        elf_file_free(&image);
        free(path);
        if (size == profile->counters.size) {
            return trial->images.items[i];
        }
    }
    return NULL;
}

/* The UUID of an image as its sidecar says it; "" where that has none. */
static const char *uuid_of(const struct trial *trial, const char *image)
{
    char *path = text_format("%s/%s" SIDECAR_SUFFIX, trial->stripped, image);
    struct elf_file sidecar = elf_file_read(path);
    free(path);
    const char *uuid = elf_file_build_id(&sidecar);
    elf_file_free(&sidecar);
    return uuid != NULL ? uuid : "";
}

/* The stub record: the start of the UUID as NameRef, all counters, no value sites. */
static bool check_stub(const struct trial *trial, const char *image,
                       const struct raw_profile *profile, struct verdict *verdict)
{
    const char *uuid = uuid_of(trial, image);
    if (uuid[0] == '\0') {
        return verdict_fail(verdict, "the sidecar of %s has no UUID", image);
    }
    char found[2 * STUB_UUID_SIZE + 1] = "";
    char expected[2 * STUB_UUID_SIZE + 1] = "";
    for (size_t i = 0; i < STUB_UUID_SIZE; i++) {
        static const char digits[] = "0123456789abcdef";
        found[2 * i] = digits[profile->data.data[i] >> 4];
        found[2 * i + 1] = digits[profile->data.data[i] & 15];
    }
    memset(expected, '0', sizeof expected - 1);
    memcpy(expected, uuid, strlen(uuid) < sizeof expected ? strlen(uuid) : sizeof expected - 1);
    if (strcmp(found, expected) != 0) {
        return verdict_fail(verdict, "the stub record of %s has %s, not %s", image, found,
                            expected);
    }
    uint32_t counters = raw_profile_record_counters(profile, 0);
    if (counters * profile->counter_size != profile->counters.size) {
        return verdict_fail(verdict, "the stub record of %s has %u counters of %llu", image,
                            counters,
                            (unsigned long long)(profile->counters.size / profile->counter_size));
    }
    return true;
}

/* The names of a lightweight profile: a chunk that says that it is compressed, with a text for
 * people that is no zlib stream, or without it where the names were shorter; and bytes ff behind it
 * where code can only make addresses that are multiples of a unit. */
static bool check_names(const struct trial *trial, const char *image,
                        const struct raw_profile *original, const struct raw_profile *stripped,
                        struct verdict *verdict)
{
    const char *text = text_format("\ncovsplit lightweight profile, UUID %s: use covsplit merge\n",
                                   uuid_of(trial, image));
    size_t unit = trial->address_unit != 0 ? trial->address_unit : 1;
    size_t size = (2 + strlen(text) + unit - 1) / unit * unit;
    if (original->names.size < size) {
        text = "\xff";
        size = original->names.size == 0 ? 0 : (3 + unit - 1) / unit * unit;
    }
    const char *wanted = text_format("\x7f%c%s\xff\xff\xff", (int)size - 2, text);
    return parts_equal(stripped->names, (struct part){(const uint8_t *)wanted, size}) ||
           verdict_fail(verdict, "the names of the profile of %s are no tripwire: %.*s", image,
                        (int)stripped->names.size, (const char *)stripped->names.data);
}

/* Header + binary IDs + one record + counters + bitmap + the tripwire, each padded to 8 bytes, and
 * nothing else. What the image has no section for, or was never in its profiles, cannot be there
 * either. */
static bool check_length(const struct trial *trial, const char *image,
                         const struct raw_profile *original, const struct raw_profile *stripped,
                         struct verdict *verdict)
{
    uint64_t records =
        trial->data_stays || original->record_count == 0 ? original->record_count : 1;
    uint64_t length = stripped->header_size + original->binary_ids.size +
                      records * stripped->record_size +
                      ((original->counters.size + 7) & ~UINT64_C(7)) +
                      ((original->bitmap.size + 7) & ~UINT64_C(7)) + stripped->names.size;
    if (trial->data_stays) {
        length += stripped->values.size; /* with the padding of the names */
    } else {
        length = (length + 7) & ~UINT64_C(7);
    }
    if (stripped->file.size != length || stripped->record_count != records) {
        return verdict_fail(verdict,
                            "the profile of %s has %zu bytes, %llu records; %llu bytes with %llu "
                            "records were expected",
                            image, stripped->file.size, (unsigned long long)stripped->record_count,
                            (unsigned long long)length, (unsigned long long)records);
    }
    if (records == 1 && !trial->data_stays) {
        return check_stub(trial, image, stripped, verdict);
    }
    return true;
}

/* With value profiling the records stay: the same functions in the same order. Only the name and
 * the hash are compared; pointers in a record depend on where the image was loaded. If names are
 * gone, a digest was added to the first name, by which %m and the sidecar tell images apart. */
static bool check_records(const char *image, const struct raw_profile *original,
                          const struct raw_profile *stripped, struct verdict *verdict)
{
    bool names_stay = original->names.size == stripped->names.size;
    for (uint64_t i = 0; i < original->record_count; i++) {
        uint64_t offset = i * original->record_size;
        const uint8_t *wanted = original->data.data + offset;
        const uint8_t *found = stripped->data.data + offset;
        bool is_changed = i == 0 && !names_stay;
        if ((memcmp(wanted, found, 8) != 0) != is_changed ||
            memcmp(wanted + 8, found + 8, 8) != 0) {
            return verdict_fail(verdict, "record %llu of %s %s", (unsigned long long)i, image,
                                is_changed ? "is not changed, or another one" : "differs");
        }
    }
    return true;
}

static bool check_counters(const struct trial *trial, const char *image,
                           const struct raw_profile *original, const struct raw_profile *stripped,
                           struct verdict *verdict)
{
    if (raw_profile_total(original) == 0) {
        return verdict_fail(verdict, "the original of %s counted nothing", image);
    }
    if (trial->differing_permille == 0) {
        if (!parts_equal(original->counters, stripped->counters)) {
            return verdict_fail(verdict, "the counters of %s differ: %llu counts, not %llu", image,
                                (unsigned long long)raw_profile_total(stripped),
                                (unsigned long long)raw_profile_total(original));
        }
        return true;
    }
    uint64_t differing = 0;
    for (uint64_t at = 0; at < original->counters.size; at += 8) {
        differing += memcmp(original->counters.data + at, stripped->counters.data + at, 8) != 0;
    }
    if (differing * 1000 > original->counters.size / 8 * trial->differing_permille) {
        return verdict_fail(verdict, "%llu of %llu counters of %s differ",
                            (unsigned long long)differing,
                            (unsigned long long)(original->counters.size / 8), image);
    }
    return true;
}

static bool profile_agrees(const struct trial *trial, const struct raw_profile *original,
                           const struct raw_profile *stripped, struct verdict *verdict)
{
    const char *image = image_of(trial, original);
    if (image == NULL) {
        return verdict_fail(verdict, "no image has %llu bytes of counters",
                            (unsigned long long)original->counters.size);
    }
    if (stripped->counters.size != original->counters.size ||
        stripped->version != original->version || stripped->variants != original->variants ||
        !parts_equal(stripped->binary_ids, original->binary_ids)) {
        return verdict_fail(verdict, "the profile of %s is of another kind", image);
    }
    if (!parts_equal(original->bitmap, stripped->bitmap)) {
        return verdict_fail(verdict, "the bitmap of %s differs", image);
    }
    if (!check_counters(trial, image, original, stripped, verdict)) {
        return false;
    }
    if (trial_refuses(trial, image)) {
        return (stripped->file.size == original->file.size &&
                parts_equal(original->names, stripped->names)) ||
               verdict_fail(verdict, "the profile of %s is not as it was", image);
    }
    return check_length(trial, image, original, stripped, verdict) &&
           check_names(trial, image, original, stripped, verdict) &&
           (!trial->data_stays || check_records(image, original, stripped, verdict));
}

bool profiles_agree(const struct trial *trial, const char *original_profiles,
                    const char *stripped_profiles, struct verdict *verdict)
{
    struct profile_set original = {0};
    struct profile_set stripped = {0};
    bool good = profile_set_read(original_profiles, &original, verdict) &&
                profile_set_read(stripped_profiles, &stripped, verdict);
    if (good && (original.count != trial->images.count || stripped.count != original.count)) {
        good =
            verdict_fail(verdict, "%zu images, %zu profiles of the originals, %zu of the stripped",
                         trial->images.count, original.count, stripped.count);
    }
    for (size_t i = 0; good && i < original.count; i++) {
        good = profile_agrees(trial, &original.profiles[i], &stripped.profiles[i], verdict);
    }
    profile_set_free(&original);
    profile_set_free(&stripped);
    return good;
}

/* Runs both applications and compares everything. */
static bool check_runs(const struct trial *trial, const char *directory, const char *label,
                       unsigned runs, struct verdict *verdict)
{
    char *original_profiles = profile_directory(trial, "original", runs);
    char *stripped_profiles = profile_directory(trial, label, runs);
    const char *expected = application_run(trial, trial->original, original_profiles, runs);
    const char *found = application_run(trial, directory, stripped_profiles, runs);
    char *ending = text_format("run %u: exit %d, signal 0, in time\n", runs, trial->exit_code);
    bool good = true;
    if (strstr(expected, ending) == NULL) {
        good = verdict_fail(verdict, "the original itself does not run:\n%s", expected);
    } else if (trial->differing_permille == 0 && strcmp(expected, found) != 0) {
        good = verdict_fail(verdict, "%s does not do the same.\nThe original:\n%s\nThis one:\n%s",
                            label, expected, found);
    } else if (strstr(found, ending) == NULL) {
        good = verdict_fail(verdict, "%s does not run:\n%s", label, found);
    }
    if (good && !profiles_agree(trial, original_profiles, stripped_profiles, verdict)) {
        char *problem = verdict->problem;
        verdict->problem = text_format("%s, %u runs: %s", label, runs, problem);
        free(problem);
        good = false;
    }
    free(ending);
    free(original_profiles);
    free(stripped_profiles);
    return good;
}

bool trial_check_runs(const struct trial *trial, struct verdict *verdict)
{
    return check_runs(trial, trial->stripped, "stripped", 1, verdict) &&
           check_runs(trial, trial->stripped, "stripped", RUNS_INTO_ONE_PROFILE, verdict);
}

/* Runs a strip tool on a copy of each image of `from`, into `to`. False where the tool fails. */
static bool strip_images(const struct trial *trial, const char *tool, const char *from,
                         const char *to, struct verdict *verdict)
{
    bool good = true;
    directory_create(to);
    for (size_t i = 0; i < trial->images.count && good; i++) {
        char *source = path_join(from, trial->images.items[i]);
        char *copy = path_join(to, trial->images.items[i]);
        struct command command = {0};
        file_copy(source, copy);
        text_list_add(&command.arguments, tool);
        text_list_add(&command.arguments, copy);
        struct outcome outcome = command_run(&command);
        good = outcome_exited(&outcome, 0);
        if (!good) {
            verdict_fail(verdict, "%s failed %s", tool, outcome_describe(&command, &outcome));
        }
        outcome_free(&outcome);
        command_free(&command);
        free(source);
        free(copy);
    }
    return good;
}

bool trial_check_strip_tools(const struct trial *trial, struct verdict *verdict)
{
    const char *tools[] = {"strip", versioned_tool("llvm-strip", trial->clang), "eu-strip"};
    bool good = true;
    for (size_t i = 0; i < sizeof tools / sizeof *tools && good; i++) {
        char *directory = path_join(trial->scratch, tools[i]);
        char *other = text_format("%s-original", directory);
        struct verdict refusal = {0};
        /* llvm-strip, for one, refuses static images by GNU ld, split or not. */
        if (strip_images(trial, tools[i], trial->original, other, &refusal)) {
            good = strip_images(trial, tools[i], trial->stripped, directory, verdict) &&
                   check_runs(trial, directory, tools[i], 1, verdict);
        } else if (strstr(refusal.problem, "exit 127") != NULL) {
            good = verdict_fail(verdict, "%s", refusal.problem);
        }
        free(refusal.problem);
        free(other);
        free(directory);
    }
    return good;
}

bool trial_check_debugger(const struct trial *trial, const char *function, struct verdict *verdict)
{
    struct command command = {.directory = trial->stripped};
    struct text_list *words = &command.arguments;
    text_list_add_words(words, "gdb -nx -batch -ex");
    text_list_add_format(words, "break %s", function);
    text_list_add_words(words, "-ex run -ex bt -ex kill");
    text_list_add_format(words, "./%s", trial->images.items[0]);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/gdb.profraw", trial->scratch);
    text_list_add(&command.environment, "DEBUGINFOD_URLS=");
    struct outcome outcome = command_run(&command);
    bool good = outcome_exited(&outcome, 0) && strstr(outcome.output, "Breakpoint 1, ") != NULL &&
                strstr(outcome.output, text_format(" in %s ", function)) != NULL &&
                strstr(outcome.output, " in main ") != NULL;
    if (!good) {
        verdict_fail(verdict, "the debugger does not stop %s",
                     outcome_describe(&command, &outcome));
    }
    outcome_free(&outcome);
    command_free(&command);
    return good;
}
