/*
 * `covsplit run`: sidecars that are missing, damaged, of another build, or do not have all.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

static struct run_files files;

static void prepare(void)
{
    files = run_files_create("run-sidecars");
}

/* ---- sidecars that are not as they should be ---- */

/* Reads a file three times, in two processes, which must get the file itself, and one line on
 * standard error. Returns it. */
static const char *expect_warning(struct command *command, const char *file)
{
    text_list_add_words(&command->arguments, "sh -c");
    text_list_add(&command->arguments, "cat \"$0\" \"$0\"; cat \"$0\"; exit 5");
    text_list_add(&command->arguments, file);
    struct outcome outcome = command_run(command);
    struct contents contents = file_read(file);
    ck_assert_msg(outcome_exited(&outcome, 5), "%s", outcome_describe(command, &outcome));
    ck_assert_uint_eq(outcome.output_size, 3 * contents.size);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_mem_eq(outcome.output + i * contents.size, contents.data, contents.size);
    }
    ck_assert_msg(text_count(outcome.errors, "\n") == 1 &&
                      strncmp(outcome.errors, "covsplit: warning: ", 19) == 0 &&
                      strstr(outcome.errors, file) != NULL &&
                      strstr(outcome.errors, "; read as it is\n") != NULL,
                  "%s", outcome.errors);
    return text_format("%s", outcome.errors);
}

static const char *expect_store_warning(const char *other_store, const char *file)
{
    struct command command =
        covsplit_command(files.sample.scratch, "run", "--store", other_store, "--", NULL);
    return expect_warning(&command, file);
}

static const char *expect_sidecar_warning(const char *sidecar, const char *file)
{
    struct command command =
        covsplit_command(files.sample.scratch, "run", "--sidecar", sidecar, "--", NULL);
    return expect_warning(&command, file);
}

/* Elsewhere, so that no sidecar is beside it. */
static char *stripped_alone(void)
{
    char *alone = path_join(sample_directory(&files.sample), "alone");
    file_copy(files.sample.stripped, alone);
    return alone;
}

START_TEST(test_missing_sidecar)
{
    char *alone = stripped_alone();
    struct command command = covsplit_command(files.sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(
        strstr(expect_warning(&command, files.light), "give --store or --sidecar"));
    command = covsplit_command(files.sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, alone), "give --store or --sidecar"));
    ck_assert_ptr_nonnull(
        strstr(expect_store_warning("nowhere", files.light), "no sidecar for its UUID"));
    ck_assert_ptr_nonnull(
        strstr(expect_store_warning("nowhere", alone), "no sidecar for its UUID"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning("nothing", files.light), "cannot be read"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning("nothing", alone), "cannot be read"));
}
END_TEST

/* Damage behind the notes, which is only found when the sidecar is decompressed. */
START_TEST(test_corrupt_sidecar)
{
    char *alone = stripped_alone();
    char *corrupt = path_join(sample_directory(&files.sample), "corrupt.covsplit");
    struct contents contents = file_read(files.sample.sidecar);
    struct elf_file elf = elf_file_read(files.sample.sidecar);
    static const char *const sections[] = {"__llvm_covfun", "__llvm_prf_names"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const Elf64_Shdr *section = elf_file_section(&elf, sections[i]);
        contents.data[section->sh_offset + section->sh_size / 2] ^= 0x55;
    }
    file_write(corrupt, contents.data, contents.size);
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, files.light), "damaged"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, alone), "damaged"));
    /* As the object itself. */
    struct command command = run_files_command(&files);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, corrupt), "damaged"));
    /* Cut short: no sidecar any more, and nothing to convert. */
    file_write(corrupt, contents.data, contents.size / 2);
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, files.light), "sidecar"));
    run_expect_silence(&files, files.opener, "same", corrupt, NULL);
}
END_TEST

/* A sidecar of another build, by name and in the place of the right one. */
START_TEST(test_other_build)
{
    char *alone = stripped_alone();
    struct sample other = sample_create("run-other", RUN_FILES_FUNCTIONS + 1);
    sample_split(&other);
    ck_assert_ptr_nonnull(
        strstr(expect_sidecar_warning(other.sidecar, files.light), "another build"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(other.sidecar, alone), "another build"));
    file_copy(other.sidecar, text_format("%s.covsplit", alone));
    struct command command = covsplit_command(files.sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, alone), "another build"));
    /* The right one is taken where both are named. */
    command = covsplit_command(files.sample.scratch, "run", "--sidecar", other.sidecar, "--store",
                               files.store, "--", "cmp", files.light, files.full, NULL);
    run_expect(&command, 0, NULL);
}
END_TEST

/* Builds and splits another image. Returns the stripped one; its sidecar is beside it. */
static char *split_other(const char *build_id, unsigned functions)
{
    struct program program = {.clang = "19",
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .build_id = build_id,
                              .functions = functions};
    char *directory = sample_directory(&files.sample);
    char *image = path_join(directory, PROGRAM_NAME);
    program_build(&program, directory);
    covsplit_assert(0, NULL, "split", image, NULL);
    return image;
}

/* Images that are alike but for their UUID, or that have one UUID, made up by hand, and count other
 * things. */
START_TEST(test_similar_builds)
{
    static const char uuid[] = "0x0123456789abcdef", other_uuid[] = "0x0123456789abcdee";
    char *image = split_other(uuid, RUN_FILES_FUNCTIONS);
    char *alone = path_join(sample_directory(&files.sample), "alone");
    ck_assert_int_eq(rename(image, alone), 0);
    const char *others[] = {split_other(other_uuid, RUN_FILES_FUNCTIONS),
                            split_other(uuid, RUN_FILES_FUNCTIONS + 1)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *sidecar = text_format("%s.covsplit", others[i]);
        ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(sidecar, alone), "another build"));
    }
    /* The first reads as the object; so does the second, once its sidecar is named. */
    struct command named = covsplit_command(files.sample.scratch, "run", "--sidecar",
                                            text_format("%s.covsplit", image), "--", "cmp",
                                            text_format("%s.covsplit", image), alone, NULL);
    run_expect(&named, 0, NULL);
}
END_TEST

/* Sections that --sections left in the image are in no sidecar: the program gets the original. */
START_TEST(test_partial_split)
{
    char *directory = sample_directory(&files.sample);
    char *stripped = path_join(directory, "partial");
    covsplit_assert(0, NULL, "split", "--sections", "names,data", "-o", stripped, "--sidecar",
                    path_join(directory, "partial.covsplit"), files.sample.image, NULL);
    /* By the sidecar beside it, under its own name and behind a link. */
    char *link = path_join(files.sample.scratch, "link");
    ck_assert_int_eq(symlink(stripped, link), 0);
    struct command command =
        covsplit_command(files.sample.scratch, "run", "--", "cmp", link, files.sample.image, NULL);
    run_expect(&command, 0, NULL);
    command = covsplit_command(directory, "run", "--", "cmp", "partial", files.sample.image, NULL);
    run_expect(&command, 0, NULL);
}
END_TEST

/* ---- sidecars that change while the command runs ---- */

/* Builds and splits one of two programs that have one UUID, one name and as many counters, but not
 * the same mapping. Returns its directory, with what it reads as in `object` and `full`. */
static char *make_twin(const char *name, const char *statement)
{
    char *directory = path_join(files.sample.scratch, name);
    directory_create(directory);
    file_write_text(
        path_join(directory, "app.c"),
        text_format("int main(int count, char **words)\n{\n    %s\n    return 0;\n}\n", statement));
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567", "app.c", "-o", "app",
                 NULL);
    covsplit_run_words(directory, 0, "split app");
    covsplit_run_words(directory, 0, "export --sidecar app.covsplit -o object");
    return directory;
}

/* A build puts another program, with its sidecar, in the place of the one that was just read: by
 * UUID, name and counters they are the same. */
static const char rebuild_script[] = "set -e\n"
                                     "cmp app one/object; cmp twin.profraw one/full\n"
                                     "mv -f two/app.covsplit $PLACE; mv -f two/app app\n"
                                     "mv -f two/profile twin.profraw\n"
                                     "cmp app two/object; cmp twin.profraw two/full\n"
                                     "mv -f one/app.copy $PLACE; mv -f one/profile twin.profraw\n"
                                     "cmp twin.profraw one/full\n";

START_TEST(test_rebuilt)
{
    static const char uuid_place[] =
        "store/.build-id/01/23456789abcdef0123456789abcdef01234567.covsplit";
    bool in_store = _i != 0;
    char *directory = files.sample.scratch;
    char *twins[] = {make_twin("one", "if (count > 1)\n        words[0] = 0;"),
                     make_twin("two", "while (count-- > 1)\n\n\n        words[0] = 0;")};
    const char *place = in_store ? uuid_place : "app.covsplit";
    for (size_t i = 0; i < 2; i++) {
        run_or_abort(twins[i], "env", "LLVM_PROFILE_FILE=profile", "./app", NULL);
        covsplit_run_words(twins[i], 0, "correlate --sidecar app.covsplit -o full profile");
    }
    file_copy(path_join(twins[0], "profile"), path_join(directory, "twin.profraw"));
    run_or_abort(directory, "sh", "-c",
                 "set -e; ! cmp -s one/object two/object; ! cmp -s one/full two/full;"
                 "mkdir -p ${0%/*}; cp -p one/app.covsplit one/app.copy; cp one/app app;"
                 "cp one/app.covsplit $0",
                 in_store ? uuid_place : "./app.covsplit", NULL);
    struct command command = covsplit_command(directory, "run", "--store", "store", "--sidecar",
                                              place, "--", "sh", "-c", rebuild_script, NULL);
    text_list_add_format(&command.environment, "PLACE=%s", place);
    run_expect(&command, 0, NULL);
    directory_remove(twins[0]);
    directory_remove(twins[1]);
}
END_TEST

/* Cut short in place, after it was opened: the command goes on, and reads files as they are, but
 * those that were converted before. */
START_TEST(test_cut_short)
{
    char *directory = sample_directory(&files.sample);
    char *alone = path_join(directory, "alone"), *sidecar = path_join(directory, "alone.covsplit");
    file_copy(files.sample.stripped, alone);
    file_copy(files.sample.sidecar, sidecar);
    struct command command =
        covsplit_command(directory, "run", "--sidecar", sidecar, "--", "sh", "-c", NULL);
    text_list_add(
        &command.arguments,
        "cmp \"$0\" \"$1\" || exit 1; : >alone.covsplit; cat alone >copy; cat \"$0\" >light;"
        "exit 5");
    text_list_add(&command.arguments, files.light);
    text_list_add(&command.arguments, files.full);
    struct outcome outcome = command_expect(&command, 5);
    ck_assert_msg(text_count(outcome.errors, "\n") == 1 &&
                      text_count(outcome.errors, "; read as it is\n") == 1 &&
                      text_count(outcome.errors, sidecar) == 1,
                  "%s", outcome.errors);
    files_assert_equal(path_join(directory, "copy"), alone, "cut short");
    files_assert_equal(path_join(directory, "light"), files.full, "cut short");
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("sidecars", 120, prepare);
    suite_tests(test_case, test_missing_sidecar, test_corrupt_sidecar, test_other_build,
                test_similar_builds, test_partial_split);
    suite_loops(test_case, 2, test_rebuilt);
    tcase_add_test(test_case, test_cut_short);
    return suite_main("run sidecars", test_case);
}
