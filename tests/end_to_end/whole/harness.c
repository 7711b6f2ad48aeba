/*
 * Tests of the harness itself: a check that cannot fail is worth nothing.
 *
 * An image and profiles are broken by hand in each of the ways that the other suites look for, and
 * the checks must see it. The covsplit command has no part in this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/trial.h"

/* A trial of a small program in which the "stripped" image is still a copy of the original. The
 * "sidecar" is one too: all that is read of it here is its build ID. */
static struct trial trial_of_copies(void)
{
    struct program program = {
        .clang = "19",
        .linker = "bfd",
        .kind = LINK_PIE,
        .language = LANGUAGE_C,
        .optimization = "-O0",
        .functions = 30,
    };
    struct trial trial = trial_create("harness");
    trial.clang = program.clang;
    trial.exit_code = 3;
    text_list_add(&trial.images, PROGRAM_NAME);
    program_build(&program, trial.original);
    file_copy(path_join(trial.original, PROGRAM_NAME), path_join(trial.stripped, PROGRAM_NAME));
    file_copy(path_join(trial.original, PROGRAM_NAME),
              path_join(trial.stripped, PROGRAM_NAME SIDECAR_SUFFIX));
    return trial;
}

static void assert_problem(const struct verdict *verdict, const char *part)
{
    ck_assert_msg(verdict->problem != NULL, "nothing was found wrong; expected: %s", part);
    ck_assert_msg(strstr(verdict->problem, part) != NULL, "expected: %s; found: %s", part,
                  verdict->problem);
}

/* Bytes of the tripwire with a UUID of 20 bytes, and with its padding to a multiple of 8. */
#define TRIPWIRE_SIZE   99
#define TRIPWIRE_PADDED 104

/* Writes the lightweight form of a profile by hand: one record in place of all, a tripwire in place
 * of the names. */
static void write_lightweight(const struct raw_profile *profile, const uint8_t *uuid,
                              const char *path)
{
    uint8_t *bytes = calloc(profile->file.size, 1);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, profile->file.data, profile->header_size);
    uint64_t fields[] = {1, TRIPWIRE_SIZE};
    memcpy(bytes + 3 * sizeof *fields, &fields[0], sizeof *fields); /* records */
    memcpy(bytes + 9 * sizeof *fields, &fields[1], sizeof *fields); /* bytes of names, version 10 */
    uint64_t size = profile->header_size;
    memcpy(bytes + size, profile->binary_ids.data, profile->binary_ids.size);
    size += profile->binary_ids.size;
    memcpy(bytes + size, uuid, 16);
    uint32_t counters = (uint32_t)(profile->counters.size / 8);
    memcpy(bytes + size + 48, &counters, sizeof counters);
    size += profile->record_size;
    memcpy(bytes + size, profile->counters.data, profile->counters.size);
    size += profile->counters.size;
    char text[TRIPWIRE_SIZE + 1] = "\x7f\x61\ncovsplit lightweight profile, UUID ";
    for (size_t i = 0; i < 20; i++) {
        snprintf(text + strlen(text), 3, "%02x", uuid[i]);
    }
    strcat(text, ": use covsplit merge\n");
    ck_assert_uint_eq(strlen(text), TRIPWIRE_SIZE);
    memcpy(bytes + size, text, TRIPWIRE_SIZE);
    file_write(path, bytes, size + TRIPWIRE_PADDED);
    free(bytes);
}

/* Runs the original into `profiles` and leaves its lightweight form in `light`. */
static void make_profiles(const struct trial *trial, const char *profiles, const char *light)
{
    struct verdict verdict = {0};
    struct profile_set set;
    application_run(trial, trial->original, profiles, 3);
    ck_assert_msg(profile_set_read(profiles, &set, &verdict), "%s", verdict.problem);
    ck_assert_uint_eq(set.count, 1);
    ck_assert_uint_eq(set.profiles[0].version, 10);
    ck_assert_uint_gt(set.profiles[0].record_count, 50);
    ck_assert_uint_ne(raw_profile_total(&set.profiles[0]), 0);
    directory_create(light);
    /* binary IDs: a 64-bit size, then the bytes */
    write_lightweight(&set.profiles[0], set.profiles[0].binary_ids.data + 8,
                      path_join(light, "light.profraw"));
    profile_set_free(&set);
}

/* Changes one byte at `offset`, counted from the end where it is negative. */
static void break_byte(const char *path, long offset)
{
    struct contents file = file_read(path);
    size_t at = offset >= 0 ? (size_t)offset : file.size - (size_t)-offset;
    file.data[at] ^= 1;
    file_write(path, file.data, file.size);
    contents_free(&file);
}

START_TEST(test_light_profile_passes)
{
    struct trial trial = trial_of_copies();
    char *full = path_join(trial.scratch, "full");
    char *light = path_join(trial.scratch, "light");
    make_profiles(&trial, full, light);
    struct verdict verdict = {0};
    ck_assert_msg(profiles_agree(&trial, full, light, &verdict), "%s", verdict.problem);
}
END_TEST

START_TEST(test_broken_profiles_fail)
{
    struct trial trial = trial_of_copies();
    char *full = path_join(trial.scratch, "full");
    char *light = path_join(trial.scratch, "light");
    char *profile = path_join(light, "light.profraw");
    make_profiles(&trial, full, light);

    struct verdict counter = {0};
    break_byte(profile, -TRIPWIRE_PADDED - 8);
    ck_assert(!profiles_agree(&trial, full, light, &counter));
    assert_problem(&counter, "the counters of program differ");
    break_byte(profile, -TRIPWIRE_PADDED - 8);

    struct verdict names = {0};
    break_byte(profile, -TRIPWIRE_PADDED + 50);
    ck_assert(!profiles_agree(&trial, full, light, &names));
    assert_problem(&names, "are no tripwire");
    break_byte(profile, -TRIPWIRE_PADDED + 50);

    struct verdict uuid = {0};
    break_byte(profile, 128 + 32);
    ck_assert(!profiles_agree(&trial, full, light, &uuid));
    assert_problem(&uuid, "the stub record of program has");
    break_byte(profile, 128 + 32);

    struct verdict count = {0};
    break_byte(profile, 128 + 32 + 48);
    ck_assert(!profiles_agree(&trial, full, light, &count));
    assert_problem(&count, "counters of");
    break_byte(profile, 128 + 32 + 48);

    struct verdict whole = {0};
    ck_assert(!profiles_agree(&trial, full, full, &whole));
    assert_problem(&whole, "with 1 records were expected");

    struct verdict cut = {0};
    struct contents bytes = file_read(profile);
    file_write(profile, bytes.data, bytes.size - 8);
    ck_assert(!profiles_agree(&trial, full, light, &cut));
    assert_problem(&cut, "cut short");
    file_write(profile, bytes.data, 0);

    struct verdict empty = {0};
    ck_assert(!profiles_agree(&trial, full, light, &empty));
    assert_problem(&empty, "is no raw profile");
    directory_remove(light);
    directory_create(light);

    struct verdict none = {0};
    ck_assert(!profiles_agree(&trial, full, light, &none));
    assert_problem(&none, "no profile was written");
}
END_TEST

/* What a naive stripper does: the records are gone, the runtime writes what is left. */
START_TEST(test_zeroed_data_fails)
{
    struct trial trial = trial_of_copies();
    char *path = path_join(trial.stripped, PROGRAM_NAME);
    struct elf_file image = elf_file_read(path);
    const Elf64_Shdr *data = elf_file_section(&image, "__llvm_prf_data");
    ck_assert_ptr_nonnull(data);
    memset(image.file.data + data->sh_offset, 0, data->sh_size);
    file_write(path, image.file.data, image.file.size);
    struct verdict verdict = {0};
    ck_assert(!trial_check_runs(&trial, &verdict));
    assert_problem(&verdict, "stripped, ");
}
END_TEST

START_TEST(test_other_output_fails)
{
    struct trial trial = trial_of_copies();
    char *path = path_join(trial.stripped, PROGRAM_NAME);
    struct contents image = file_read(path);
    uint8_t *word = memmem(image.data, image.size, "zeroed %d", 9);
    ck_assert_ptr_nonnull(word);
    word[0] = 'Z';
    file_write(path, image.data, image.size);
    struct verdict verdict = {0};
    ck_assert(!trial_check_runs(&trial, &verdict));
    assert_problem(&verdict, "does not do the same");
}
END_TEST

START_TEST(test_unstartable_image_fails)
{
    struct trial trial = trial_of_copies();
    char *path = path_join(trial.stripped, PROGRAM_NAME);
    struct contents image = file_read(path);
    file_write(path, image.data, image.size / 4);
    struct verdict verdict = {0};
    ck_assert(!trial_check_runs(&trial, &verdict));
    assert_problem(&verdict, "does not do the same");
}
END_TEST

START_TEST(test_unsplit_size_fails)
{
    struct trial trial = trial_of_copies();
    struct verdict verdict = {0};
    ck_assert(!trial_check_sizes(&trial, &verdict));
    assert_problem(&verdict, "is still in");
}
END_TEST

START_TEST(test_readers)
{
    struct trial trial = trial_of_copies();
    struct verdict same = {0};
    ck_assert_msg(trial_check_readers(&trial, &same), "%s", same.problem);

    /* Section headers that lead nowhere. */
    char *path = path_join(trial.stripped, PROGRAM_NAME);
    struct elf_file image = elf_file_read(path);
    Elf64_Shdr *symbols = (Elf64_Shdr *)(uintptr_t)elf_file_section(&image, ".dynsym");
    ck_assert_ptr_nonnull(symbols);
    symbols->sh_link = 1000;
    file_write(path, image.file.data, image.file.size);
    struct verdict verdict = {0};
    ck_assert(!trial_check_readers(&trial, &verdict));
    assert_problem(&verdict, "says of the stripped program only");
}
END_TEST

START_TEST(test_debugger)
{
    struct trial trial = trial_of_copies();
    struct verdict stops = {0};
    ck_assert_msg(trial_check_debugger(&trial, "stop_here", &stops), "%s", stops.problem);
    struct verdict verdict = {0};
    ck_assert(!trial_check_debugger(&trial, "not_there", &verdict));
    assert_problem(&verdict, "does not stop");
}
END_TEST

START_TEST(test_commands)
{
    struct command missing = {0};
    text_list_add(&missing.arguments, "no-such-command-anywhere");
    struct outcome outcome = command_run(&missing);
    ck_assert_int_eq(outcome.exit_code, 127);
    outcome_free(&outcome);

    struct command slow = {.timeout_seconds = 1};
    text_list_add_words(&slow.arguments, "sleep 60");
    outcome = command_run(&slow);
    ck_assert(outcome.timed_out);
    ck_assert(!outcome_exited(&outcome, 0));
    outcome_free(&outcome);

    struct command environment = {0};
    text_list_add(&environment.arguments, "env");
    text_list_add(&environment.environment, "PATH=/usr/bin:/bin");
    text_list_add(&environment.environment, "ADDED=a b'c\"");
    outcome = command_run(&environment);
    ck_assert(outcome_exited(&outcome, 0));
    ck_assert_ptr_nonnull(strstr(outcome.output, "\nADDED=a b'c\"\n"));
    ck_assert_uint_eq(text_count(outcome.output, "PATH=/usr/bin:/bin\n"), 1);
    outcome_free(&outcome);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("harness", 120, NULL);
    suite_tests(test_case, test_light_profile_passes, test_broken_profiles_fail,
                test_zeroed_data_fails, test_other_output_fails, test_unstartable_image_fails,
                test_unsplit_size_fails, test_readers, test_debugger, test_commands);
    return suite_main("harness", test_case);
}
