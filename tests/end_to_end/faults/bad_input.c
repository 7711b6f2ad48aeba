/*
 * Bad input: files that are no images, cut images, and thousands of damaged images, sidecars,
 * profiles and unions.
 *
 * Whatever comes in, covsplit ends by itself with 0 or 1, soon and in little memory. With 1 it has
 * said why, in one line, and written nothing. With 0 what it wrote is right: a damaged image that
 * could be split is joined to the same damaged image again. The input is never changed.
 *
 * Usage: bad_input files
 *        bad_input (images | sidecars | profiles | runs | unions) FIRST COUNT      seeds of the
 *                                                                                  mutations
 *        bad_input images FIRST COUNT MACHINE      the same for an image of another machine
 *
 * "runs" goes further than the others: a damaged image that still runs, and could be split, must
 * run in the same way afterwards. Whatever in the file was believed then was true, or did not
 * matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/raw_profile.h"
#include "tests/support/sample.h"

#define TEST_TIMEOUT_SECONDS 1500
#define SAMPLE_FUNCTIONS     40
#define LARGE_FUNCTIONS      300
#define TRUNCATION_STEP      997
#define SIDECAR_STEP         97

static struct sample sample;
static const struct target *target; /* NULL: this machine */

static void prepare(void)
{
    sample = sample_create_for(target, "bad", SAMPLE_FUNCTIONS);
    sample_split(&sample);
}

static void prepare_large(void)
{
    sample = sample_create("bad", LARGE_FUNCTIONS);
    sample_split(&sample);
}

/* join, show and verify of a damaged sidecar. */
static bool check_sidecar(const char *directory, const struct contents *sidecar,
                          const struct contents *original, bool must_fail, struct verdict *verdict)
{
    char *path = path_join(directory, "side");
    file_write(path, sidecar->data, sidecar->size);
    free(path);
    int join_exit = -1;
    int verify_exit = -1;
    int show_exit = -1;
    if (!hostile_run(directory, "join --sidecar side -o joined ../sample/stripped", &join_exit,
                     verdict) ||
        !hostile_run(directory, "verify --image ../sample/stripped side", &verify_exit, verdict) ||
        !hostile_run(directory, "show side", &show_exit, verdict) ||
        !hostile_holds(directory, "side", sidecar, verdict)) {
        return false;
    }
    if (verify_exit == 0 && join_exit != 0) {
        return verdict_fail(verdict, "verify accepts what join refuses");
    }
    if (must_fail && (verify_exit == 0 || join_exit == 0)) {
        return verdict_fail(verdict, "a sidecar that is cut short was accepted");
    }
    if (join_exit == 1) {
        return hostile_only_these(directory, "side", verdict);
    }
    return hostile_holds(directory, "joined", original, verdict) &&
           hostile_only_these(directory, "side joined", verdict);
}

/* ---- files that are no images ---- */

START_TEST(test_no_image)
{
    static const char *const texts[] = {
        "",   "\n",       "hello, world\n", "#!/bin/sh\nexit 0\n", "\177ELF", "\177ELF\2\1\1",
        "MZ", "!<arch>\n"};
    char *directory = sample_directory(&sample);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct verdict verdict = {0};
        struct contents input = {(uint8_t *)(uintptr_t)texts[i], strlen(texts[i])};
        int exit_code = -1;
        hostile_split(directory, &input, &exit_code, &verdict);
        verdict_assert(&verdict, texts[i]);
        ck_assert_msg(exit_code == 1, "'%s' was accepted", texts[i]);
        unlink(path_join(directory, "input"));
        struct contents original = file_read(sample.image);
        check_sidecar(directory, &input, &original, true, &verdict);
        verdict_assert(&verdict, texts[i]);
        unlink(path_join(directory, "side"));
    }
}
END_TEST

START_TEST(test_object_file)
{
    char *directory = sample_directory(&sample);
    struct contents object = file_read(path_join(sample.scratch, "sample/main.o"));
    struct verdict verdict = {0};
    int exit_code = -1;
    hostile_split(directory, &object, &exit_code, &verdict);
    verdict_assert(&verdict, "an object file");
    ck_assert_int_eq(exit_code, 1);
}
END_TEST

START_TEST(test_truncated_image)
{
    char *directory = sample_directory(&sample);
    struct contents image = file_read(sample.image);
    ck_assert_uint_gt(image.size, 100 * TRUNCATION_STEP);
    for (size_t size = 0; size < image.size; size += TRUNCATION_STEP * rounds_step()) {
        struct verdict verdict = {0};
        struct contents cut = {image.data, size};
        int exit_code = -1;
        hostile_split(directory, &cut, &exit_code, &verdict);
        const char *label = text_format("%zu of %zu bytes", size, image.size);
        verdict_assert(&verdict, label);
        ck_assert_msg(exit_code == 1, "%s were accepted", label);
    }
}
END_TEST

START_TEST(test_truncated_sidecar)
{
    char *directory = sample_directory(&sample);
    struct contents original = file_read(sample.image);
    struct contents sidecar = file_read(sample.sidecar);
    ck_assert_uint_gt(sidecar.size, 20 * SIDECAR_STEP);
    for (size_t size = 0; size < sidecar.size; size += SIDECAR_STEP * rounds_step()) {
        struct verdict verdict = {0};
        struct contents cut = {sidecar.data, size};
        check_sidecar(directory, &cut, &original, true, &verdict);
        verdict_assert(&verdict, text_format("%zu of %zu bytes", size, sidecar.size));
    }
}
END_TEST

/* ---- mutations ---- */

static struct elf_file damaged_elf;        /* what the functions below damage */
static struct contents damaged_file;       /* the same, of another format */
static struct contents undamaged_original; /* what a sidecar must give back */

static struct contents damage_elf(unsigned long seed, char **description)
{
    return mutate_elf(&damaged_elf, seed, description);
}

static struct contents damage_file(unsigned long seed, char **description)
{
    return mutate_bytes(&damaged_file, seed, description);
}

START_TEST(test_damaged_image)
{
    damaged_elf = elf_file_read(sample.image);
    hostile_run_seeds(_i, sample_directory(&sample), damage_elf, hostile_split, true);
}
END_TEST

static struct contents damage_sidecar(unsigned long seed, char **description)
{
    return seed % 8 == 0 ? mutate_bytes(&damaged_elf.file, seed, description)
                         : mutate_elf(&damaged_elf, seed, description);
}

static bool check_damaged_sidecar(const char *directory, const struct contents *damaged,
                                  int *exit_code, struct verdict *verdict)
{
    (void)exit_code;
    return check_sidecar(directory, damaged, &undamaged_original, false, verdict);
}

START_TEST(test_damaged_sidecar)
{
    damaged_elf = elf_file_read(sample.sidecar);
    undamaged_original = file_read(sample.image);
    hostile_run_seeds(_i, sample_directory(&sample), damage_sidecar, check_damaged_sidecar, false);
}
END_TEST

static bool check_profile(const char *directory, const struct contents *damaged, int *exit_code,
                          struct verdict *verdict)
{
    char *path = path_join(directory, "bad.profraw");
    file_write(path, damaged->data, damaged->size);
    free(path);
    return hostile_run(directory, "show bad.profraw", exit_code, verdict);
}

START_TEST(test_damaged_profile)
{
    char *directory = sample_directory(&sample);
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, _i % 2 == 0 ? sample.image : sample.stripped);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=good.profraw");
    command_expect(&command, 3);
    damaged_file = file_read(path_join(directory, "good.profraw"));
    hostile_run_seeds(_i, directory, damage_file, check_profile, false);
}
END_TEST

/* ---- unions ---- */

#define UNION_MEMBERS     3
#define UNION_HEADER_SIZE 60

/* The parts of a union that a reader believes: headers and names of members, and the first bytes of
 * these and the last, where the headers of an object are. */
static void list_union_parts(const struct contents *file,
                             struct mutated_part parts[3 * UNION_MEMBERS])
{
    size_t count = 0;
    size_t at = 8;
    while (at + UNION_HEADER_SIZE < file->size) {
        char size_text[11] = "";
        memcpy(size_text, file->data + at + 48, 10);
        size_t size = strtoul(size_text, NULL, 10);
        ck_assert_uint_lt(count, 3 * UNION_MEMBERS);
        parts[count++] = (struct mutated_part){at, UNION_HEADER_SIZE + 32};
        parts[count++] = (struct mutated_part){at + UNION_HEADER_SIZE + 20, 200};
        parts[count++] = (struct mutated_part){at + UNION_HEADER_SIZE + size - 600, 600};
        at += UNION_HEADER_SIZE + size;
    }
    ck_assert_uint_eq(count, 3 * UNION_MEMBERS);
}

static struct mutated_part union_parts[3 * UNION_MEMBERS];

static struct contents damage_union(unsigned long seed, char **description)
{
    return mutate_parts(&damaged_file, union_parts, 3 * UNION_MEMBERS, seed, description);
}

/* A damaged union is shown, or refused as a whole. */
static bool check_union(const char *directory, const struct contents *damaged, int *exit_code,
                        struct verdict *verdict)
{
    char *path = path_join(directory, "bad.a");
    file_write(path, damaged->data, damaged->size);
    struct command command = hostile_command(directory, "show bad.a");
    struct outcome outcome = command_run(&command);
    *exit_code = outcome.exit_code;
    if (outcome.exit_code != 0 || outcome.signal != 0) {
        covsplit_refused(&command, &outcome, verdict);
        if (outcome.output_size != 0) {
            verdict_fail(verdict, "half a union was shown: %s", outcome.output);
        }
    }
    unlink(path);
    free(path);
    outcome_free(&outcome);
    command_free(&command);
    return verdict->problem == NULL;
}

/* Of a damaged sidecar and a good one there is a union, or an error and no file. */
static bool check_exported_union(const char *directory, const struct contents *damaged,
                                 int *exit_code, struct verdict *verdict)
{
    char *path = path_join(directory, "side");
    file_write(path, damaged->data, damaged->size);
    free(path);
    int show_exit = -1;
    if (!hostile_run(directory, "export --union -o new.a ../sample/sidecar side", exit_code,
                     verdict) ||
        !hostile_holds(directory, "side", damaged, verdict)) {
        return false;
    }
    if (*exit_code == 1) {
        return hostile_only_these(directory, "side", verdict);
    }
    if (hostile_run(directory, "show new.a", &show_exit, verdict) && show_exit != 0) {
        return verdict_fail(verdict, "a union was made that cannot be shown");
    }
    return hostile_only_these(directory, "side new.a", verdict);
}

START_TEST(test_damaged_union)
{
    char *directory = sample_directory(&sample);
    covsplit_run_words(directory, 0,
                       text_format("export --union -o good.a %s %s %s", sample.sidecar,
                                   sample.sidecar, sample.sidecar));
    damaged_file = file_read(path_join(directory, "good.a"));
    list_union_parts(&damaged_file, union_parts);
    unlink(path_join(directory, "good.a"));
    hostile_run_seeds(_i, directory, damage_union, check_union, true);
    damaged_elf = elf_file_read(sample.sidecar);
    file_copy(sample.sidecar, path_join(sample.scratch, "sample/sidecar"));
    hostile_run_seeds(_i, directory, damage_elf, check_exported_union, false);
}
END_TEST

/* ---- runs ---- */

/* Profiles of the image before and after; a damaged image may leave none, but then both do. */
static bool check_same_counters(const char *before_path, const char *after_path,
                                struct verdict *verdict)
{
    struct verdict unreadable = {0};
    struct raw_profile before;
    struct raw_profile after;
    if (!raw_profile_read(before_path, &before, &unreadable)) {
        return true;
    }
    if (!file_exists(after_path)) {
        return verdict_fail(verdict, "no profile was written after the split");
    }
    bool good = raw_profile_read(after_path, &after, verdict) &&
                (parts_equal(before.counters, after.counters) ||
                 verdict_fail(verdict, "the counters differ after the split"));
    raw_profile_free(&before);
    raw_profile_free(&after);
    return good;
}

/* Runs an image as a user with few rights: nobody knows what a damaged image does. */
static struct outcome run_damaged(const char *directory, const char *image, const char *profile)
{
    struct command command = {.directory = directory, .timeout_seconds = HOSTILE_TIMEOUT_SECONDS};
    text_list_add_words(&command.arguments,
                        "prlimit --cpu=2 --fsize=1000000 --as=4000000000 --core=0");
    if (geteuid() == 0) {
        text_list_add_words(&command.arguments,
                            "setpriv --reuid 65534 --regid 65534 --clear-groups");
    }
    text_list_add_format(&command.arguments, "./%s", image);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    struct outcome outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

/* 3 is what the sample exits with: with anything else the damage itself was seen. */
static bool runs_alike(const struct outcome *a, const struct outcome *b)
{
    return outcome_exited(a, 3) && outcome_exited(b, 3) && strcmp(a->output, b->output) == 0;
}

/* Two profiles of the image before the split: code that was damaged may count what it finds in a
 * register, an address on the stack for example. */
static bool counts_alike(const char *a_path, const char *b_path)
{
    struct verdict differ = {0};
    return file_exists(a_path) == file_exists(b_path) &&
           (!file_exists(a_path) || check_same_counters(a_path, b_path, &differ));
}

static bool check_same_run(const char *directory, struct verdict *verdict)
{
    struct outcome before = run_damaged(directory, "input", "before.profraw");
    struct outcome again = run_damaged(directory, "input", "again.profraw");
    char *before_path = path_join(directory, "before.profraw");
    char *again_path = path_join(directory, "again.profraw");
    char *after_path = path_join(directory, "after.profraw");
    bool good = true;
    /* With some damage the results change from run to run: nothing can be said then. */
    if (runs_alike(&before, &again) && counts_alike(before_path, again_path)) {
        struct outcome after = run_damaged(directory, "out", "after.profraw");
        if (!runs_alike(&before, &after)) {
            good = verdict_fail(verdict, "it ran before the split, but not after: %s%s",
                                after.output, after.errors);
        } else if (file_exists(before_path)) {
            good = check_same_counters(before_path, after_path, verdict);
        }
        outcome_free(&after);
    }
    free(before_path);
    free(again_path);
    free(after_path);
    outcome_free(&before);
    outcome_free(&again);
    return good;
}

static bool check_runs(const char *directory, const struct contents *damaged, int *exit_code,
                       struct verdict *verdict)
{
    char *path = path_join(directory, "input");
    directory_remove(directory);
    directory_create(directory);
    ck_assert_int_eq(chmod(directory, 0777), 0);
    file_write(path, damaged->data, damaged->size);
    ck_assert_int_eq(chmod(path, 0755), 0);
    free(path);
    return hostile_run(directory, "split -j1 -o out --sidecar side input", exit_code, verdict) &&
           (*exit_code != 0 || check_same_run(directory, verdict));
}

START_TEST(test_damaged_runs)
{
    ck_assert_int_eq(chmod(sample.scratch, 0755), 0);
    damaged_elf = elf_file_read(sample.image);
    hostile_run_seeds(_i, sample_directory(&sample), damage_elf, check_runs, false);
}
END_TEST

/* The tests of one kind of mutation; NULL: there is no such kind. */
static const TTest *mutation_of(const char *kind)
{
    const struct {
        const char *kind;
        const TTest *test;
    } kinds[] = {
        {"images", test_damaged_image}, {"sidecars", test_damaged_sidecar},
        {"runs", test_damaged_runs},    {"profiles", test_damaged_profile},
        {"unions", test_damaged_union},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i].kind) == 0) {
            return kinds[i].test;
        }
    }
    return NULL;
}

int main(int argument_count, char **arguments)
{
    const char *kind = argument_count > 1 ? arguments[1] : "";
    TCase *files = suite_case("files", TEST_TIMEOUT_SECONDS, prepare_large);
    TCase *mutations = suite_case(kind, TEST_TIMEOUT_SECONDS, prepare);
    hostile_in_memory();
    if (argument_count == 2 && strcmp(kind, "files") == 0) {
        suite_tests(files, test_no_image, test_object_file, test_truncated_image,
                    test_truncated_sidecar);
        return suite_main("bad input", files);
    }
    if (argument_count == 5 && strcmp(kind, "images") == 0) {
        target = target_find(arguments[4]);
    }
    if ((argument_count == 4 && mutation_of(kind) != NULL) || target != NULL) {
        hostile_seeds(arguments[2], arguments[3]);
        suite_loops(mutations, hostile_tests(), mutation_of(kind));
        return suite_main("bad input", mutations);
    }
    return suite_usage(
        arguments[0],
        "files | (images | sidecars | profiles | runs | unions) FIRST COUNT [MACHINE]");
}
