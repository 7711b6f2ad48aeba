/*
 * Many images in one split: which files of a tree are taken, and what becomes of the others.
 *
 * Usage: batch CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

#define IMAGES 6

static const char *clang_version;
static char *scratch;
/* Some images, none of them split; copied for each test. */
static char *originals;

static void compile(const char *directory, const char *name, const char *options)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, text_format("clang-%s", clang_version));
    text_list_add(&command.arguments, "-Wl,--build-id");
    text_list_add_words(&command.arguments, options);
    text_list_add_words(&command.arguments, "program.c -o");
    text_list_add(&command.arguments, name);
    command_run_or_abort(&command);
}

#define COVERAGE "-fprofile-instr-generate -fcoverage-mapping "

static void prepare(void)
{
    scratch = scratch_create("batch");
    originals = path_join(scratch, "originals");
    directory_create(originals);
    file_write_text(path_join(originals, "program.c"),
                    "int twice(int x) { return x > NUMBER ? 2 * x : x; }\n"
                    "int main(int count, char **words) { (void)words; return twice(count); }\n");
    for (int i = 0; i < IMAGES; i++) {
        compile(originals, text_format("image%d", i), text_format(COVERAGE "-DNUMBER=%d", i));
    }
    compile(originals, "plain", "-DNUMBER=0");
    compile(originals, "object.o", COVERAGE "-c -DNUMBER=0");
    compile(originals, "partial", COVERAGE "-r -nostdlib -DNUMBER=0");
    run_or_abort(originals, "ar", "rcs", "archive.a", "object.o", NULL);
    file_write_text(path_join(originals, "empty"), "");
    file_write(path_join(originals, "damaged"), "\177ELF\2\1\1", 7);
}

static char *original(const char *name)
{
    return path_join(originals, name);
}

/* A tree with all of it, in which files have more names than one. */
static char *make_tree(const char *name)
{
    char *place = path_join(scratch, name);
    char *tree = path_join(place, "tree");
    char *below = path_join(tree, "below");
    directory_create(place);
    directory_create(tree);
    directory_create(below);
    for (int i = 0; i < IMAGES; i++) {
        char *image = text_format("image%d", i);
        file_copy(original(image), path_join(i < 3 ? tree : below, image));
    }
    static const char *const others[] = {"plain", "object.o", "partial", "archive.a", "empty"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file_copy(original(others[i]), path_join(tree, others[i]));
    }
    file_copy(original("image0"), path_join(place, "outside"));
    ck_assert_int_eq(link(path_join(tree, "image1"), path_join(below, "hard")), 0);
    ck_assert_int_eq(symlink("../image2", path_join(below, "soft")), 0);
    ck_assert_int_eq(symlink("../outside", path_join(tree, "leads-out")), 0);
    ck_assert_int_eq(symlink("..", path_join(below, "around")), 0);
    return place;
}

/* Each image of the tree is split, and joining with the store gives the original. */
static void assert_split(const char *place, const char *path, const char *name)
{
    struct verdict verdict = {0};
    char *image = path_join(place, path);
    ck_assert_msg(!files_equal(image, original(name), &verdict), "%s was not split", path);
    covsplit_assert(0, place, "join", "--store", "store", "-o", "joined", path, NULL);
    files_assert_equal(path_join(place, "joined"), original(name), path);
}

static void assert_untouched(const char *place, const char *path, const char *name)
{
    files_assert_equal(path_join(place, path), original(name), path);
}

static struct outcome split_words(const char *place, const char *words)
{
    struct command command = covsplit_command(place, "split", NULL);
    text_list_add_words(&command.arguments, words);
    struct outcome outcome = command_run(&command);
    return outcome;
}

/* Only what carries coverage is changed, each file once, and nothing outside of the tree. */
START_TEST(test_tree)
{
    char *place = make_tree("tree");
    struct outcome outcome = split_words(place, "-r --store store tree");
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s", outcome.errors);
    ck_assert_uint_eq(text_count(outcome.output, "\n"), IMAGES + 2); /* heading and totals */
    ck_assert_ptr_nonnull(strstr(outcome.output, "6 split: "));
    for (int i = 0; i < IMAGES; i++) {
        const char *name = text_format("image%d", i);
        assert_split(place, text_format(i < 3 ? "tree/%s" : "tree/below/%s", name), name);
    }
    assert_split(place, "tree/below/hard", "image1");
    assert_untouched(place, "tree/plain", "plain");
    assert_untouched(place, "tree/object.o", "object.o");
    assert_untouched(place, "tree/partial", "partial");
    assert_untouched(place, "tree/archive.a", "archive.a");
    assert_untouched(place, "outside", "image0");
    outcome_free(&outcome);
    /* A second time there is nothing to do, and nothing is touched. */
    struct stat before = file_status(path_join(place, "tree/image0"));
    outcome = split_words(place, "-r --store store tree");
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s", outcome.errors);
    ck_assert_ptr_nonnull(strstr(outcome.output, "0 split: "));
    struct stat after = file_status(path_join(place, "tree/image0"));
    ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
}
END_TEST

/* However many threads there are, the files and what is said of them are the same. */
START_TEST(test_threads)
{
    static const char *const options[] = {"-j1", "-j3", "-j16"};
    struct outcome outcomes[3];
    for (size_t i = 0; i < 3; i++) {
        char *place = make_tree(text_format("threads%zu", i));
        file_copy(original("damaged"), path_join(place, "damaged"));
        outcomes[i] = split_words(
            place, text_format("%s -r --store store damaged tree tree/plain nosuch", options[i]));
        ck_assert_msg(outcome_exited(&outcomes[i], 1), "%s", outcomes[i].errors);
        ck_assert_str_eq(outcomes[i].output, outcomes[0].output);
        ck_assert_str_eq(outcomes[i].errors, outcomes[0].errors);
        for (int j = 0; j < 3; j++) {
            const char *image = text_format("tree/image%d", j);
            files_assert_equal(path_join(place, image),
                               path_join(scratch, text_format("threads0/%s", image)), options[i]);
        }
    }
}
END_TEST

/* One that cannot be split does not keep the others from it. */
START_TEST(test_failures)
{
    char *place = path_join(scratch, "failures");
    directory_create(place);
    file_copy(original("image0"), path_join(place, "image0"));
    file_copy(original("image1"), path_join(place, "image1"));
    file_copy(original("damaged"), path_join(place, "damaged"));
    struct outcome outcome =
        split_words(place, "--store store image0 damaged nosuch image1 image0");
    ck_assert(outcome_exited(&outcome, 1));
    assert_split(place, "image0", "image0");
    assert_split(place, "image1", "image1");
    assert_untouched(place, "damaged", "damaged");
    ck_assert_msg(strstr(outcome.errors, "covsplit: error: damaged: ") != NULL &&
                      strstr(outcome.errors, "covsplit: error: nosuch: ") != NULL &&
                      strstr(outcome.errors,
                             "\ncovsplit: error: 2 of 4 images: not split; see above\n") != NULL,
                  "%s", outcome.errors);
}
END_TEST

/* Without a store each image has its sidecar beside it. */
START_TEST(test_beside)
{
    char *place = path_join(scratch, "beside");
    directory_create(place);
    file_copy(original("image0"), path_join(place, "image0"));
    file_copy(original("image1"), path_join(place, "image1"));
    struct outcome outcome = split_words(place, "image0 image1");
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert(file_exists(path_join(place, "image0.covsplit")));
    ck_assert(file_exists(path_join(place, "image1.covsplit")));
    outcome_free(&outcome);
    /* Sidecars are images in form, and are not taken for such. */
    outcome = split_words(place, "-r .");
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s", outcome.errors);
    ck_assert_ptr_nonnull(strstr(outcome.output, "0 split: "));
}
END_TEST

/* Copies of an image share a sidecar in a store: the table and its totals count it once. An image
 * without coverage is not among those that were split. */
START_TEST(test_shared_sidecar)
{
    /* Names of one length: a sidecar has that of the image which was first. */
    static const char *const images[] = {"image0", "copied", "image1", "again1"};
    char *place = path_join(scratch, "shared");
    directory_create(place);
    for (size_t i = 0; i < 4; i++) {
        file_copy(original(i == 2 ? "image1" : "image0"), path_join(place, images[i]));
    }
    file_copy(original("plain"), path_join(place, "plain"));
    struct outcome both = split_words(place, "--store store image0 copied image1 again1 plain");
    ck_assert_msg(outcome_exited(&both, 0) && text_count(both.errors, "\n") == 1, "%s",
                  both.errors);
    assert_contains(both.errors, "warning: plain: nothing to take out: no coverage data in it; ");
    struct text_list lines = text_list_of_lines(both.output);
    ck_assert_uint_eq(lines.count, 1 + 4 + 1);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(strncmp(lines.items[i + 1], images[i], strlen(images[i])) == 0);
        bool is_shared = strstr(lines.items[i + 1], "  the same  ") != NULL;
        ck_assert_msg(is_shared == (i % 2 == 1), "%s", both.output);
    }
    /* As much as the two images by themselves. */
    for (size_t i = 0; i < 4; i += 2) {
        file_copy(original(images[i]), path_join(place, images[i]));
    }
    struct outcome alone = split_words(place, "--store other image0 image1");
    const char *sidecars = strstr(lines.items[5], " after, ");
    ck_assert(strncmp(lines.items[5], "4 split: ", 9) == 0 && sidecars != NULL);
    assert_contains(alone.output, text_format("%s\n", sidecars));
    assert_contains(alone.output, "\n2 split: ");
}
END_TEST

/* Two images that claim to be the same one: the store keeps one of them, and nothing is lost. */
START_TEST(test_same_uuid)
{
    char *place = path_join(scratch, "same");
    directory_create(place);
    file_copy(original("program.c"), path_join(place, "program.c"));
    compile(place, "one", COVERAGE "-DNUMBER=1 -Wl,--build-id=0x1234567890");
    compile(place, "two", COVERAGE "-DNUMBER=2 -Wl,--build-id=0x1234567890");
    file_copy(path_join(place, "one"), path_join(place, "one.original"));
    file_copy(path_join(place, "two"), path_join(place, "two.original"));
    struct outcome outcome = split_words(place, "-j2 --store store one two");
    ck_assert_msg(outcome_exited(&outcome, 1), "%s", outcome.errors);
    struct verdict verdict = {0};
    bool first = !files_equal(path_join(place, "one"), path_join(place, "one.original"), &verdict);
    bool second = !files_equal(path_join(place, "two"), path_join(place, "two.original"), &verdict);
    ck_assert(first != second);
    const char *split = first ? "one" : "two";
    covsplit_assert(0, place, "join", "--store", "store", "-o", "joined", split, NULL);
    files_assert_equal(path_join(place, "joined"),
                       path_join(place, text_format("%s.original", split)), split);
}
END_TEST

/* Where nothing has coverage, -r says so; what was split before is no mistake. */
START_TEST(test_nothing_found)
{
    char *place = path_join(scratch, "nothing");
    directory_create(place);
    file_copy(original("plain"), path_join(place, "plain"));
    file_copy(original("object.o"), path_join(place, "object.o"));
    struct outcome outcome = split_words(place, "-r .");
    ck_assert(outcome_exited(&outcome, 1));
    assert_contains(outcome.errors, "error: .: no image with coverage found; ");
    assert_contains(split_words(place, "-r . .").errors, "error: . and others: no image ");
    file_copy(original("image0"), path_join(place, "image0"));
    for (int i = 0; i < 2; i++) {
        outcome = split_words(place, "-r --store store .");
        ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s",
                      outcome.errors);
    }
}
END_TEST

struct misuse {
    const char *words;
    int exit_code;
    const char *message;
};

static const struct misuse misuses[] = {
    {"-o out image0 image1", 2, "'--output' is for one image"},
    {"--sidecar side -r .", 2, "'--sidecar' is for one image"},
    {"--uuid 1234567890 image0 image1", 2, "'--uuid' is for one image"},
    {"--map map image0 image1", 2, "'--map' is for one image"},
    {".", 1, ".: is a directory; give --recursive"},
    {"image0 .", 1, ".: is a directory; give --recursive"},
};

/* Nothing is done then. */
START_TEST(test_misuse)
{
    struct outcome outcome = split_words(originals, misuses[_i].words);
    ck_assert_msg(outcome_exited(&outcome, misuses[_i].exit_code) &&
                      strstr(outcome.errors, misuses[_i].message) != NULL,
                  "%s", outcome.errors);
    ck_assert(!file_exists(path_join(originals, "image0.covsplit")));
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("batch", 300, prepare);
    suite_tests(test_case, test_tree, test_threads, test_failures, test_beside, test_shared_sidecar,
                test_same_uuid, test_nothing_found);
    suite_loops(test_case, sizeof misuses / sizeof *misuses, test_misuse);
    return suite_main("batch", test_case);
}
