/*
 * What the commands do to files: which are written, which stay as they are, with what mode and
 * time, through which links, and what happens where they cannot be written.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 100
#define SMALL_SPACE      65536
/* What is left of the mapping: one record's header. */
#define MAPPING_TRIPWIRE_SIZE 16

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("files", SAMPLE_FUNCTIONS);
    sample_split(&sample);
    /* Other users must be able to get in, for the tests of permissions. */
    ck_assert_int_eq(chmod(sample.scratch, 0755), 0);
}

static void assert_same_files(const char *path, const char *other)
{
    files_assert_equal(path, other, "contents");
}

/* Runs covsplit with words of a text and asserts the exit code; returns standard error. */
static const char *run_words(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

/* Runs a command that must refuse, in the right way: exit 1 and one line. Returns that line. */
static const char *assert_refused(struct command *command)
{
    struct verdict verdict = {0};
    struct outcome outcome = command_run(command);
    covsplit_refused(command, &outcome, &verdict);
    verdict_assert(&verdict, "refusal");
    return outcome.errors;
}

static const char *refuse_words(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    return assert_refused(&command);
}

static struct command command_as_user(const char *directory, const char *words)
{
    return covsplit_command_as_user(sample.scratch, directory, words);
}

static bool same_time(struct stat a, struct stat b)
{
    return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
           a.st_ino == b.st_ino;
}

/* ---- what is written ---- */

START_TEST(test_in_place)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    char *sidecar = path_join(directory, "app.covsplit");
    ck_assert_int_eq(chmod(image, 0751), 0);
    run_words(directory, 0, "split app");
    assert_same_files(image, sample.stripped);
    ck_assert_uint_eq(file_status(image).st_mode & 07777, 0751);
    ck_assert(file_exists(sidecar));
    ck_assert_uint_eq(directory_list(directory).count, 2);

    run_words(directory, 0, "join -o app app");
    assert_same_files(image, sample.image);
    ck_assert_uint_eq(file_status(image).st_mode & 07777, 0751);
    ck_assert_uint_eq(directory_list(directory).count, 2);
}
END_TEST

START_TEST(test_output_is_the_input)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    run_words(directory, 0, "split -o ./app app");
    assert_same_files(image, sample.stripped);
    run_words(directory, 0, "join -o app.joined app");
    assert_same_files(path_join(directory, "app.joined"), sample.image);
}
END_TEST

/* As GNU strip does: the link stays, what it leads to changes. */
START_TEST(test_symbolic_link)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    char *link_path = path_join(directory, "link");
    ck_assert_int_eq(symlink("app", link_path), 0);
    run_words(directory, 0, "split --sidecar side link");
    struct stat status;
    ck_assert_int_eq(lstat(link_path, &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
    assert_same_files(image, sample.stripped);
    run_words(directory, 0, "join --sidecar side -o joined link");
    assert_same_files(path_join(directory, "joined"), sample.image);
}
END_TEST

/* As GNU strip does: all names of the file see the new contents. */
START_TEST(test_hard_link)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    char *other = path_join(directory, "other");
    ck_assert_int_eq(link(image, other), 0);
    run_words(directory, 0, "split app");
    ck_assert_uint_eq(file_status(image).st_ino, file_status(other).st_ino);
    assert_same_files(image, sample.stripped);
    assert_same_files(other, sample.stripped);
    run_words(directory, 0, "join -o joined app");
    assert_same_files(path_join(directory, "joined"), sample.image);
}
END_TEST

/* The image of another owner, who lets all write to it. Its mode is right already; where it would
 * have to change, which only the owner may do, nothing is written at all. */
START_TEST(test_hard_link_of_another_owner)
{
    static const struct {
        mode_t mode;
        int exit_code;
    } cases[] = {{0777, 0}, {06777, 1}, {0755, 1}};
    if (geteuid() != 0) {
        return; /* there is no other owner */
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *directory = sample_directory(&sample);
        char *image = sample_copy(&sample, directory, "app");
        char *other = path_join(directory, "other");
        ck_assert_int_eq(link(image, other), 0);
        struct command command = command_as_user(directory, "split app");
        ck_assert_int_eq(chmod(image, cases[i].mode), 0);
        command_expect(&command, cases[i].exit_code);
        bool is_done = cases[i].exit_code == 0;
        assert_same_files(image, is_done ? sample.stripped : sample.image);
        ck_assert_uint_eq(file_status(image).st_mode & 07777, cases[i].mode);
        ck_assert_uint_eq(file_status(image).st_ino, file_status(other).st_ino);
        /* No file is left behind, and no sidecar of an image that is whole. */
        ck_assert_uint_eq(directory_list(directory).count, is_done ? 3 : 2);
    }
}
END_TEST

START_TEST(test_mode_of_outputs)
{
    static const mode_t modes[] = {0755, 0700, 0555, 0644, 04755};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char *directory = sample_directory(&sample);
        char *image = sample_copy(&sample, directory, "app");
        ck_assert_int_eq(chmod(image, modes[i]), 0);
        run_words(directory, 0, "split -o out app");
        /* Another file is not to run with the rights of this one's owner. */
        ck_assert_uint_eq(file_status(path_join(directory, "out")).st_mode & 07777,
                          modes[i] & 0777);
        run_words(directory, 0, "split app");
        ck_assert_uint_eq(file_status(image).st_mode & 07777, modes[i]);
        /* A sidecar is data. */
        mode_t sidecar = file_status(path_join(directory, "app.covsplit")).st_mode;
        ck_assert_uint_eq(sidecar & 07111, 0);
    }
}
END_TEST

/* What a build tool sees: an output that would not change is not touched. */
START_TEST(test_unchanged_outputs_keep_their_time)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    char *output = path_join(directory, "out");
    char *sidecar = path_join(directory, "side");
    char *joined = path_join(directory, "joined");
    run_words(directory, 0, "split -o out --sidecar side app");
    run_words(directory, 0, "join -o joined --sidecar side out");
    struct stat output_before = file_status(output);
    struct stat sidecar_before = file_status(sidecar);
    struct stat joined_before = file_status(joined);
    run_words(directory, 0, "split -o out --sidecar side app");
    run_words(directory, 0, "join -o joined --sidecar side out");
    ck_assert(same_time(output_before, file_status(output)));
    ck_assert(same_time(sidecar_before, file_status(sidecar)));
    ck_assert(same_time(joined_before, file_status(joined)));

    /* Other contents of the same size are written again. */
    struct contents bytes = file_read(output);
    bytes.data[bytes.size / 2] ^= 1;
    file_write(output, bytes.data, bytes.size);
    run_words(directory, 0, "split -o out --sidecar side app");
    assert_same_files(output, sample.stripped);
}
END_TEST

START_TEST(test_options_do_not_change_the_image)
{
    static const char *const options[] = {"-j1", "-j2", "--level 1", "--level 19", "--portable"};
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        run_words(directory, 0,
                  text_format("split %s -o out --sidecar side%zu app", options[i], i));
        assert_same_files(path_join(directory, "out"), sample.stripped);
        run_words(directory, 0, text_format("join --sidecar side%zu -o joined out", i));
        assert_same_files(path_join(directory, "joined"), sample.image);
        run_words(directory, 0, text_format("verify --image out side%zu", i));
    }
    assert_same_files(path_join(directory, "side0"), path_join(directory, "side1"));
    ck_assert_uint_le(file_size(path_join(directory, "side3")),
                      file_size(path_join(directory, "side2")));
}
END_TEST

START_TEST(test_some_sections)
{
    static const char *const names[] = {"__llvm_covmap", "__llvm_covfun", "__llvm_prf_names",
                                        "__llvm_prf_data"};
    static const char *const words[] = {"covmap", "covfun", "names", "data"};
    /* The mapping of functions and the records go only with what leaves the tripwires. */
    static const bool goes_alone[] = {true, false, true, false};
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *side = text_format("side-%s", words[i]);
        run_words(directory, 0,
                  text_format("split --sections %s --sidecar %s -o out app", words[i], side));
        struct elf_file sidecar = elf_file_read(path_join(directory, side));
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            bool goes = i == j && goes_alone[i];
            ck_assert_msg((elf_file_section_file_size(&sidecar, names[j]) != 0) == goes,
                          "--sections %s and %s", words[i], names[j]);
        }
        elf_file_free(&sidecar);
        run_words(directory, 0, text_format("join --sidecar %s -o joined out", side));
        assert_same_files(path_join(directory, "joined"), sample.image);
        run_or_abort(directory, "sh", "-c", "LLVM_PROFILE_FILE=p.profraw ./out 2; test $? = 3",
                     NULL);
    }
    run_words(directory, 0,
              "split --sections covmap,covfun,names,data,zeros --sidecar side -o out app");
    assert_same_files(path_join(directory, "out"), sample.stripped);
}
END_TEST

START_TEST(test_store)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    struct elf_file image = elf_file_read(sample.image);
    const char *uuid = elf_file_build_id(&image);
    elf_file_free(&image);
    run_words(directory, 0, "split --store store -o out app");
    char *path = text_format("%s/store/.build-id/%.2s/%s.covsplit", directory, uuid, uuid + 2);
    ck_assert_msg(file_exists(path), "%s is not there", path);
    ck_assert(!file_exists(path_join(directory, "out.covsplit")));
    run_words(directory, 0, "join --store store -o joined out");
    assert_same_files(path_join(directory, "joined"), sample.image);

    struct command command = covsplit_command(directory, "join", "-o", "joined2", "out", NULL);
    text_list_add_format(&command.environment, "COVSPLIT_STORE=/nowhere:%s/store", directory);
    command_run_or_abort(&command);
    assert_same_files(path_join(directory, "joined2"), sample.image);
}
END_TEST

/* --uuid is for images without a build ID; where there is one, profiles carry that. */
START_TEST(test_uuid)
{
    static const char uuid[] = "00112233445566778899aabbccddeeff";
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    refuse_words(directory, text_format("split --uuid %s -o out --sidecar side app", uuid));
    ck_assert(!file_exists(path_join(directory, "out")));

    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 3; }\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=none", "plain.c", "-o", "plain", NULL);
    static const char *const forms[] = {"00112233445566778899aabbccddeeff",
                                        "00112233-4455-6677-8899-AABBCCDDEEFF"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        run_words(directory, 0,
                  text_format("split --uuid %s --sidecar side -o out plain", forms[i]));
        struct elf_file sidecar = elf_file_read(path_join(directory, "side"));
        ck_assert_str_eq(elf_file_build_id(&sidecar), uuid);
        elf_file_free(&sidecar);
        run_words(directory, 0, "join --sidecar side -o joined out");
        assert_same_files(path_join(directory, "joined"), path_join(directory, "plain"));
    }
}
END_TEST

static void assert_shown(const char *directory, const char *file, const char *uuid,
                         const char *source)
{
    struct outcome outcome = covsplit_run_words(directory, 0, text_format("show --json %s", file));
    ck_assert_msg(strstr(outcome.output, text_format("\"uuid\": %s,", uuid)) != NULL &&
                      strstr(outcome.output, text_format("\"uuid_source\": %s,", source)) != NULL,
                  "%s: not UUID %s from %s: %s", file, uuid, source, outcome.output);
}

static const struct named {
    const char *function; /* short names leave no room for the UUID in the tripwire */
    const char *uuid;     /* as it is shown of the stripped image and of its profile */
    const char *source;
} named[] = {
    {"fNqVwYS81VP7Hb1DX8pPd5khxE3pyIgKpaUnArl63XykWZeiNNCiia3anXn9"
     "k3ksu9mI4ROnl89Sm995ytbxAk7jqevt0MLaMRTvetw0tESulEETldq8b8Vw",
     "\"0011223344\"", "\"tripwire\""},
    {"f", "\"0011223344000000\"", "\"stub record (first 8 bytes)\""},
};

/* An image without a build ID that gets a UUID has the same one in every command. */
START_TEST(test_one_uuid)
{
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "plain.c"),
                    text_format("int %s(void) { return 3; }\nint main(void) { return %s(); }\n",
                                named[_i].function, named[_i].function));
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=none", "plain.c", "-o", "plain", NULL);
    run_words(directory, 0, "split --uuid 0011223344 --store store -o out plain");
    run_or_abort(directory, "sh", "-c", "LLVM_PROFILE_FILE=p.profraw ./out; test $? = 3", NULL);
    assert_shown(directory, "plain", "null", "null");
    assert_shown(directory, "out", named[_i].uuid, named[_i].source);
    assert_shown(directory, "p.profraw", named[_i].uuid, named[_i].source);
    run_words(directory, 0, "join --store store -o joined out");
    assert_same_files(path_join(directory, "joined"), path_join(directory, "plain"));
    run_words(directory, 0, "correlate --store store -o full.profraw p.profraw");
    run_words(directory, 0, "merge --store store -o sum.profraw p.profraw");
    assert_same_files(path_join(directory, "full.profraw"), path_join(directory, "sum.profraw"));
    run_words(directory, 0, "join --sidecar store/.build-id/00/11223344.covsplit -o joined out");
}
END_TEST

/* ---- images with nothing to split ---- */

START_TEST(test_already_split)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    char *sidecar = path_join(directory, "app.covsplit");
    run_words(directory, 0, "split app");
    struct stat image_before = file_status(image);
    struct stat sidecar_before = file_status(sidecar);
    const char *errors = run_words(directory, 0, "split app");
    ck_assert_ptr_nonnull(strstr(errors, "covsplit: warning: "));
    ck_assert(same_time(image_before, file_status(image)));
    ck_assert(same_time(sidecar_before, file_status(sidecar)));

    errors = run_words(directory, 0, "split -o copy --sidecar app.covsplit app");
    ck_assert_ptr_nonnull(strstr(errors, "covsplit: warning: "));
    assert_same_files(path_join(directory, "copy"), sample.stripped);
    ck_assert(same_time(sidecar_before, file_status(sidecar)));
    run_words(directory, 0, "join -o joined app");
    assert_same_files(path_join(directory, "joined"), sample.image);
}
END_TEST

START_TEST(test_no_coverage)
{
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-19", "plain.c", "-o", "plain", NULL);
    const char *errors = run_words(directory, 0, "split -o out --sidecar side plain");
    ck_assert_ptr_nonnull(strstr(errors, "covsplit: warning: "));
    assert_same_files(path_join(directory, "plain"), path_join(directory, "out"));
    run_words(directory, 0, "verify --image out side");
    run_words(directory, 0, "join --sidecar side -o joined out");
    assert_same_files(path_join(directory, "joined"), path_join(directory, "plain"));
    assert_contains(errors, "warning: plain: nothing to take out: no coverage data in it; ");
    assert_contains(errors, "-fprofile-instr-generate -fcoverage-mapping");
    assert_contains(errors, "-C instrument-coverage");
}
END_TEST

static void assert_list(const char *directory, const char *names)
{
    struct text_list found = directory_list(directory);
    const char *line = "";
    for (size_t i = 0; i < found.count; i++) {
        line = text_format("%s%s ", line, found.items[i]);
    }
    ck_assert_str_eq(line, names);
}

/* A sidecar that holds nothing is only for a build rule, which names it. */
START_TEST(test_no_needless_sidecar)
{
    static const char *const options[] = {"", "--store store", "-v", "-v --store store"};
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-19", "plain.c", "-o", "plain", NULL);
    file_copy(path_join(directory, "plain"), path_join(directory, "before"));
    file_copy(sample.stripped, path_join(directory, "stripped"));
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct outcome outcome =
            covsplit_run_words(directory, 0, text_format("split %s plain", options[i]));
        assert_contains(outcome.errors, "nothing to take out: no coverage data in it; ");
        ck_assert_str_eq(outcome.output, i < 2 ? "" : "plain: nothing to split\n");
        assert_same_files(path_join(directory, "plain"), path_join(directory, "before"));
        const char *errors = run_words(directory, 0, text_format("split %s stripped", options[i]));
        assert_contains(errors, "split already, by 'covsplit split' or 'link'; it is passed on "
                                "unchanged, and its sidecar is not ");
        assert_contains(errors, i % 2 == 0 ? "beside it, " : "in the store, ");
        assert_same_files(path_join(directory, "stripped"), sample.stripped);
    }
    run_words(directory, 0, "split -o copy plain");
    run_words(directory, 0, "split -o copy plain"); /* what is there already is no obstacle */
    assert_same_files(path_join(directory, "copy"), path_join(directory, "before"));
    assert_list(directory, "before copy plain plain.c stripped ");
}
END_TEST

/* What there is was not asked for, or has a reason to stay. */
START_TEST(test_nothing_selected)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    assert_contains(run_words(directory, 0, "split --sections covnames -o out app"),
                    "app: nothing to take out: none of its coverage data is in --sections; ");
    assert_same_files(path_join(directory, "out"), sample.image);
    run_or_abort(directory, "strip", "-o", "bare", "app", NULL);
    assert_contains(run_words(directory, 0, "split --sections names,data -o out bare"),
                    "bare: nothing to take out: all of its coverage data stays, for the reasons");
    ck_assert(!file_exists(path_join(directory, "app.covsplit")));
}
END_TEST

START_TEST(test_no_symbol_table)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    run_or_abort(directory, "strip", "app", NULL);
    struct elf_file before = elf_file_read(image);
    const char *errors = run_words(directory, 0, "split -o out --sidecar side app");
    ck_assert_msg(strstr(errors, "symbol table") != NULL, "%s", errors);
    struct elf_file after = elf_file_read(path_join(directory, "out"));
    ck_assert_uint_eq(elf_file_section_file_size(&after, "__llvm_covmap"), MAPPING_TRIPWIRE_SIZE);
    ck_assert_uint_eq(elf_file_section_file_size(&after, "__llvm_covfun"), 0);
    ck_assert_uint_ne(elf_file_section_file_size(&before, "__llvm_prf_data"), 0);
    ck_assert_uint_eq(elf_file_section_file_size(&after, "__llvm_prf_data"),
                      elf_file_section_file_size(&before, "__llvm_prf_data"));
    ck_assert_uint_eq(elf_file_section_file_size(&after, "__llvm_prf_names"),
                      elf_file_section_file_size(&before, "__llvm_prf_names"));
    run_words(directory, 0, "join --sidecar side -o joined out");
    assert_same_files(path_join(directory, "joined"), image);
    run_or_abort(directory, "sh", "-c", "LLVM_PROFILE_FILE=p.profraw ./out 2; test $? = 3", NULL);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(test_join_of_another_image)
{
    char *directory = sample_directory(&sample);
    char *other = path_join(directory, "other");
    file_copy(sample.stripped, other);
    file_copy(sample.sidecar, path_join(directory, "side"));
    struct contents bytes = file_read(other);
    bytes.data[bytes.size - 1] ^= 1;
    file_write(other, bytes.data, bytes.size);
    refuse_words(directory, "join --sidecar side -o joined other");
    ck_assert(!file_exists(path_join(directory, "joined")));
    refuse_words(directory, "verify --image other side");

    /* The original itself is another image than the stripped one, too. */
    sample_copy(&sample, directory, "app");
    refuse_words(directory, "join --sidecar side -o joined app");
    ck_assert(!file_exists(path_join(directory, "joined")));
    /* No sidecar anywhere. */
    refuse_words(directory, "join -o joined other");
}
END_TEST

/* Outputs that would destroy what they are made from. */
START_TEST(test_outputs_over_inputs)
{
    static const char *const lines[] = {
        "split --sidecar app app",         "split -o out --sidecar out app",
        "split -o out --sidecar app app",  "split -o out --sidecar ./link app",
        "join --sidecar side -o side out",
    };
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    ck_assert_int_eq(link(image, path_join(directory, "link")), 0);
    char *stripped = path_join(directory, "out");
    char *sidecar = path_join(directory, "side");
    file_copy(sample.stripped, stripped);
    file_copy(sample.sidecar, sidecar);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct command command = covsplit_words(directory, lines[i]);
        struct outcome outcome = command_run(&command);
        ck_assert_msg(outcome_exited(&outcome, 1) || outcome_exited(&outcome, 2), "%s",
                      outcome_describe(&command, &outcome));
        assert_same_files(image, sample.image);
        assert_same_files(stripped, sample.stripped);
        assert_same_files(sidecar, sample.sidecar);
        outcome_free(&outcome);
        command_free(&command);
    }
}
END_TEST

START_TEST(test_outputs_that_are_no_files)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    directory_create(path_join(directory, "sub"));
    refuse_words(directory, "split -o sub app");
    refuse_words(directory, "split -o /dev/null app");
    ck_assert_int_eq(symlink("/dev/null", path_join(directory, "null")), 0);
    ck_assert_int_eq(symlink("/proc/self/fd/1", path_join(directory, "stdout")), 0);
    ck_assert_int_eq(symlink("sub", path_join(directory, "link")), 0);
    refuse_words(directory, "split -o null app");
    refuse_words(directory, "split -o stdout app");
    refuse_words(directory, "split -o link app");
    refuse_words(directory, "split -o out --sidecar /dev/null app");
    refuse_words(directory, "split -o out --sidecar sub app");
    refuse_words(directory, "split -o missing/out app");
    refuse_words(directory, "split -o out --sidecar missing/side app");
    refuse_words(directory, "split sub");
    refuse_words(directory, "split missing");
    refuse_words(directory, "split /dev/null");
    refuse_words(directory, "join -o joined missing");
    refuse_words(directory, "show missing");
    refuse_words(directory, "verify missing");
    ck_assert(S_ISCHR(file_status("/dev/null").st_mode));
    assert_same_files(image, sample.image);
    ck_assert_msg(!file_exists(path_join(directory, "out")), "an image was left without a sidecar");
    ck_assert_uint_eq(directory_list(path_join(directory, "sub")).count, 0);
    ck_assert_uint_eq(directory_list(directory).count, 5);
}
END_TEST

/* ---- permissions and space ---- */

START_TEST(test_unreadable_input)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    struct stat before = file_status(image);
    ck_assert_int_eq(chmod(image, 0000), 0);
    struct command split = command_as_user(directory, "split -o out app");
    assert_refused(&split);
    struct command in_place = command_as_user(directory, "split app");
    assert_refused(&in_place);
    struct command show = command_as_user(directory, "show app");
    assert_refused(&show);
    ck_assert_int_eq(chmod(image, 0755), 0);
    assert_same_files(image, sample.image);
    ck_assert(same_time(before, file_status(image)));
    ck_assert(!file_exists(path_join(directory, "out")));
}
END_TEST

START_TEST(test_unwritable_directory)
{
    char *directory = sample_directory(&sample);
    char *closed = path_join(directory, "closed");
    directory_create(closed);
    char *image = sample_copy(&sample, closed, "app");
    ck_assert_int_eq(chmod(closed, 0555), 0);
    struct command in_place = command_as_user(directory, "split closed/app");
    assert_refused(&in_place);
    struct command output =
        command_as_user(directory, "split -o closed/out --sidecar side closed/app");
    assert_refused(&output);
    struct command sidecar =
        command_as_user(directory, "split -o out --sidecar closed/side closed/app");
    assert_refused(&sidecar);
    struct command store =
        command_as_user(directory, "split -o out --store closed/store closed/app");
    assert_refused(&store);
    ck_assert_int_eq(chmod(closed, 0755), 0);
    assert_same_files(image, sample.image);
    ck_assert_uint_eq(directory_list(closed).count, 1);
    ck_assert_msg(!file_exists(path_join(directory, "out")), "an image was left without a sidecar");
}
END_TEST

/* The limit stands for a full disk: a write fails after so many bytes. */
START_TEST(test_file_size_limit)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    static const char *const lines[] = {"split app", "split -o out --sidecar side app"};
    static const unsigned limits[] = {4096, SMALL_SPACE};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        for (size_t j = 0; j < sizeof lines / sizeof *lines; j++) {
            struct command command = covsplit_command(directory, NULL);
            text_list_free(&command.arguments);
            text_list_add(&command.arguments, "prlimit");
            text_list_add_format(&command.arguments, "--fsize=%u", limits[i]);
            text_list_add(&command.arguments, covsplit_path());
            text_list_add_words(&command.arguments, lines[j]);
            assert_refused(&command);
            assert_same_files(image, sample.image);
            ck_assert(!file_exists(path_join(directory, "out")));
        }
    }
}
END_TEST

static void split_on_full_disk(const char *directory, const char *small)
{
    char *image = sample_copy(&sample, directory, "app");
    refuse_words(directory, "split -o small/out app");
    refuse_words(directory, "split -o small/out --sidecar side app");
    assert_same_files(image, sample.image);
    ck_assert_uint_eq(directory_list(small).count, 0);
    struct contents filler = {calloc(1, SMALL_SPACE - 4096), SMALL_SPACE - 4096};
    file_write(path_join(small, "filler"), filler.data, filler.size);
    refuse_words(directory, "split -o out --sidecar small/side app");
    ck_assert(!file_exists(path_join(directory, "out")));
    file_copy(sample.stripped, path_join(directory, "stripped"));
    refuse_words(directory,
                 text_format("join --sidecar %s -o small/joined stripped", sample.sidecar));
    ck_assert_uint_eq(directory_list(small).count, 1);
    assert_same_files(image, sample.image);
}

START_TEST(test_full_disk)
{
    char *directory = sample_directory(&sample);
    char *small = path_join(directory, "small");
    directory_create(small);
    if (mount("none", small, "tmpfs", 0, text_format("size=%d", SMALL_SPACE)) != 0) {
        /* Not root, or root without that right: the file size limit stands for it. */
        ck_assert(errno == EPERM || errno == EACCES);
        return;
    }
    split_on_full_disk(directory, small);
    umount(small);
}
END_TEST

START_TEST(test_other_file_system)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    char *other = text_format("/dev/shm/covsplit-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(other));
    run_words(directory, 0, text_format("split -o %s/out app", other));
    assert_same_files(path_join(other, "out"), sample.stripped);
    run_words(directory, 0, text_format("split -o out --sidecar %s/side app", other));
    run_words(directory, 0, text_format("join --sidecar %s/side -o %s/joined out", other, other));
    assert_same_files(path_join(other, "joined"), sample.image);
    assert_same_files(image, sample.image);
    directory_remove(other);
}
END_TEST

/* ---- names ---- */

START_TEST(test_strange_names)
{
    static const char *const names[] = {"a b",      "-dash", "quote'\"\\",     "new\nline",
                                        "\xff\xfe", "%s%n",  "umlaut-\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *directory = sample_directory(&sample);
        sample_copy(&sample, directory, names[i]);
        struct verdict verdict = {0};
        char *sidecar = text_format("%s.covsplit", names[i]);
        covsplit_expect(&verdict, 0, NULL, directory, "split", "--", names[i], NULL);
        covsplit_expect(&verdict, 0, NULL, directory, "verify", "--image", names[i], "--", sidecar,
                        NULL);
        covsplit_expect(&verdict, 0, NULL, directory, "show", "--", names[i], sidecar, NULL);
        struct command show =
            covsplit_command(directory, "show", "--json", "--", names[i], sidecar, NULL);
        struct outcome shown = command_run(&show);
        file_write(path_join(directory, "json"), shown.output, shown.output_size);
        run_or_abort(directory, "python3", "-m", "json.tool", "json", NULL);
        covsplit_expect(&verdict, 0, NULL, directory, "join", "-o", "joined", "--", names[i], NULL);
        verdict_assert(&verdict, names[i]);
        assert_same_files(path_join(directory, "joined"), sample.image);
        /* Messages stay on one line. */
        struct command refused = covsplit_command(directory, "verify", "--", names[i], NULL);
        assert_refused(&refused);
    }
}
END_TEST

/* ---- extended attributes ---- */

#define NOTE        "user.covsplit"
#define CAPABILITY  "security.capability"
#define ACCESS_LIST "system.posix_acl_access"

/* CAP_NET_BIND_SERVICE, effective and permitted, as setcap writes it (struct vfs_cap_data). */
static const char capability[20] = "\x01\0\0\x02\0\x04";

/* Read by user 1234, with the mode 0755 otherwise (struct posix_acl_xattr_header). */
static const char access_list[44] =
    "\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x04\0\xd2\x04\0\0\x04\0\x05\0\xff\xff\xff\xff"
    "\x10\0\x05\0\xff\xff\xff\xff\x20\0\x05\0\xff\xff\xff\xff";

static void assert_attribute(const char *path, const char *name, const char *value, size_t size)
{
    char found[64];
    ssize_t length = getxattr(path, name, found, sizeof found);
    ck_assert_msg(length == (ssize_t)size && memcmp(found, value, size) == 0, "%s of %s: %zd bytes",
                  name, path, length);
}

/* False where the file system has no access lists. */
static bool set_attributes(const char *path)
{
    ck_assert_int_eq(setxattr(path, NOTE, "a note", 6, 0), 0);
    ck_assert_int_eq(setxattr(path, CAPABILITY, capability, sizeof capability, 0), 0);
    return setxattr(path, ACCESS_LIST, access_list, sizeof access_list, 0) == 0;
}

/* An edit in place keeps all, owner and set-user-ID bit included, also of a file that is
 * overwritten because it has another name. Elsewhere, an output is a file like any new one. */
START_TEST(test_attributes)
{
    static const struct {
        const char *words;
        bool is_link;
    } cases[] = {{"split app", false},
                 {"split app", true},
                 {"join -o app app", false},
                 {"repack app.covsplit", false},
                 {"pack unit.o", false}};
    if (geteuid() != 0) {
        return; /* who may not set capabilities */
    }
    char *directory = sample_directory(&sample);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words = cases[i].words;
        char *file = path_join(directory, strrchr(words, ' ') + 1);
        if (strncmp(words, "split", 5) == 0) {
            file_copy(sample.image, file);
        } else if (strncmp(words, "repack", 6) == 0) {
            run_words(directory, 0, "split --fast app");
        } else if (strncmp(words, "pack", 4) == 0) {
            file_write_text(path_join(directory, "unit.c"), "int main(void) { return 0; }\n");
            run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                         "-c", "unit.c", NULL);
        }
        char *other = text_format("%s.other", file);
        if (cases[i].is_link) {
            ck_assert_int_eq(link(file, other), 0);
        }
        ck_assert_int_eq(chown(file, 1234, 4321), 0);
        ck_assert_int_eq(chmod(file, 04755), 0);
        bool has_list = set_attributes(file);
        ino_t before = file_status(file).st_ino;
        ck_assert_str_eq(run_words(directory, 0, words), "");
        struct stat status = file_status(file);
        ck_assert_msg((status.st_ino == before) == cases[i].is_link, "%s", words);
        ck_assert_uint_eq(status.st_uid, 1234);
        ck_assert_uint_eq(status.st_gid, 4321);
        ck_assert_uint_eq(status.st_mode & 07777, 04755);
        assert_attribute(file, NOTE, "a note", 6);
        assert_attribute(file, CAPABILITY, capability, sizeof capability);
        if (has_list) {
            assert_attribute(file, ACCESS_LIST, access_list, sizeof access_list);
        }
        if (cases[i].is_link) {
            ck_assert_int_eq(unlink(other), 0);
        }
    }
    file_copy(sample.image, path_join(directory, "app"));
    set_attributes(path_join(directory, "app"));
    ck_assert_str_eq(run_words(directory, 0, "split -o new app"), "");
    char value[64];
    ck_assert_int_eq(getxattr(path_join(directory, "new"), NOTE, value, sizeof value), -1);
    ck_assert_int_eq(getxattr(path_join(directory, "new"), CAPABILITY, value, sizeof value), -1);
}
END_TEST

/* What the user may not set is named; all else is kept. */
START_TEST(test_attributes_that_go)
{
    if (geteuid() != 0) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        char *directory = sample_directory(&sample);
        char *image = sample_copy(&sample, directory, "app");
        struct command command = command_as_user(directory, "split app");
        ck_assert_int_eq(i == 0 ? chown(image, 65534, 65534) : chown(image, 1234, 4321), 0);
        ck_assert_int_eq(chmod(image, i == 0 ? 0755 : 04755), 0);
        set_attributes(image);
        struct outcome outcome = command_expect(&command, 0);
        ck_assert_str_eq(outcome.errors,
                         text_format("covsplit: warning: app: these could not be kept, set them "
                                     "again: %s" CAPABILITY "\n",
                                     i == 1 ? "its owner, " : ""));
        assert_attribute(image, NOTE, "a note", 6);
        ck_assert_uint_eq(file_status(image).st_mode & 07777, 0755);
        char value[64];
        ck_assert_int_eq(getxattr(image, CAPABILITY, value, sizeof value), -1);
    }
}
END_TEST

/* What stands for the old contents, such as a signature, goes and is named, whichever way the file
 * is written. */
START_TEST(test_signatures)
{
    static const char *const names[] = {"security.ima", "security.evm"};
    static const char *const words[] = {"split app", "join -o app app", "split app"};
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app"), value[64];
    if (geteuid() != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool is_link = i == 2;
        char *other = path_join(directory, "other");
        ck_assert(!is_link || link(image, other) == 0);
        for (size_t j = 0; j < 2; j++) {
            ck_assert_int_eq(setxattr(image, names[j], "\x03\x02signature", 11, 0), 0);
        }
        ck_assert_int_eq(setxattr(image, NOTE, "a note", 6, 0), 0);
        const char *errors = run_words(directory, 0, words[i]);
        const char *either = "covsplit: warning: app: these could not be kept, set them again: ";
        ck_assert_msg(strncmp(errors, either, strlen(either)) == 0 &&
                          strstr(errors, names[0]) != NULL && strstr(errors, names[1]) != NULL &&
                          text_count(errors, "\n") == 1,
                      "%s: %s", words[i], errors);
        assert_attribute(image, NOTE, "a note", 6);
        for (size_t j = 0; j < 2; j++) {
            ck_assert_int_eq(getxattr(image, names[j], value, sizeof value), -1);
        }
        ck_assert(!is_link || unlink(other) == 0);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("files", 120, prepare);
    suite_tests(test_case, test_in_place, test_output_is_the_input, test_symbolic_link,
                test_hard_link, test_hard_link_of_another_owner, test_mode_of_outputs,
                test_unchanged_outputs_keep_their_time, test_options_do_not_change_the_image,
                test_some_sections, test_store, test_uuid, test_attributes, test_attributes_that_go,
                test_signatures);
    suite_loops(test_case, sizeof named / sizeof *named, test_one_uuid);
    suite_tests(test_case, test_already_split, test_no_coverage, test_no_needless_sidecar,
                test_nothing_selected, test_no_symbol_table, test_join_of_another_image,
                test_outputs_over_inputs, test_outputs_that_are_no_files, test_unreadable_input,
                test_unwritable_directory, test_file_size_limit, test_full_disk,
                test_other_file_system, test_strange_names);
    return suite_main("files", test_case);
}
