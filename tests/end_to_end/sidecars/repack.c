/*
 * split --fast, and covsplit repack: what is plain now is the same later as if it had been compact
 * at once, whatever happens in between: kills, others who replace and remove the sidecar at any
 * moment, damage.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/mutation.h"
#include "tests/support/random.h"
#include "tests/support/sample.h"
#include "tests/support/windows_program.h"

#define SAMPLE_FUNCTIONS 60
#define STORE_IMAGES     100
#define STORE_KILLS      30
#define HOURS_AGO        50
#define SEED             7

static struct sample sample;

/* Images of each format, and one of which a section stays, in sample.scratch. */
static const char *const images[] = {"elf", "values", "coff", "macho"};
#define IMAGE_COUNT (sizeof images / sizeof *images)

static void build_values(const char *directory)
{
    struct program program = {.clang = "19",
                              .linker = "lld",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .instrumentation = "-fprofile-instr-generate -fcoverage-mapping "
                                                 "-mllvm -enable-value-profiling=true",
                              .functions = SAMPLE_FUNCTIONS};
    directory_create(directory);
    program_build(&program, directory);
}

static void prepare(void)
{
    struct windows_program windows = {
        .clang = "19", .target = WINDOWS_MSVC_X86_64, .functions = SAMPLE_FUNCTIONS};
    struct darwin_program darwin = {
        .clang = "19", .architecture = "arm64", .functions = SAMPLE_FUNCTIONS};
    sample = sample_create("repack", SAMPLE_FUNCTIONS);
    file_copy(sample.image, path_join(sample.scratch, "elf"));
    build_values(path_join(sample.scratch, "with-values"));
    file_copy(path_join(sample.scratch, "with-values/" PROGRAM_NAME),
              path_join(sample.scratch, "values"));
    directory_create(path_join(sample.scratch, "windows"));
    windows_program_build(&windows, path_join(sample.scratch, "windows"));
    file_copy(path_join(sample.scratch, "windows/" WINDOWS_PROGRAM),
              path_join(sample.scratch, "coff"));
    darwin_program_build(&darwin, sample.scratch, "macho");
}

/* ---- running covsplit ---- */

/* Returns what is written to both streams. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    struct outcome outcome = covsplit_run_words(directory, exit_code, words);
    return text_format("%s%s", outcome.output, outcome.errors);
}

static void assert_equal(const char *directory, const char *one, const char *other)
{
    files_assert_equal(path_join(directory, one), path_join(directory, other), one);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A directory with the sample as "app", split: "plain" by --fast, "compact" without. */
static char *place_create(void)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    run(directory, 0, "split --fast -o out --sidecar plain app");
    run(directory, 0, "split -o out --sidecar compact app");
    return directory;
}

/* ---- --fast ---- */

START_TEST(test_fast_is_plain_zstd_of_level_1)
{
    char *directory = place_create();
    run(directory, 0, "split --portable --level 1 -o again --sidecar portable app");
    assert_equal(directory, "plain", "portable");
    assert_equal(directory, "out", "again");
    file_write_text(path_join(directory, "linker"), "cp \"$1\" \"$3\"\n");
    run(directory, 0, "link --fast --sidecar linked -- sh linker app -o copy");
    assert_equal(directory, "copy", "out");
    run(directory, 0, "verify --image copy linked");
    assert_contains(run(directory, 0, "repack linked"), "1 sidecar repacked: ");
}
END_TEST

/* Everything that reads sidecars gives the same from both. */
START_TEST(test_fast_reads_the_same)
{
    char *directory = place_create();
    run_or_abort(directory, "sh", "-c",
                 "LLVM_PROFILE_FILE=light.profraw ./out || test $? = 3\n"
                 "LLVM_PROFILE_FILE=second.profraw ./out one || test $? = 3\n",
                 NULL);
    static const char *const forms[] = {"plain", "compact"};
    for (unsigned i = 0; i < 2; i++) {
        const char *form = forms[i];
        run(directory, 0, text_format("join --sidecar %s -o %s.app out", form, form));
        run(directory, 0, text_format("verify --image out %s", form));
        run(directory, 0,
            text_format("correlate --sidecar %s -o %s.full light.profraw", form, form));
        run(directory, 0,
            text_format("merge --sidecar %s -o %s.profraw light.profraw "
                        "second.profraw",
                        form, form));
        run(directory, 0,
            text_format("merge --sidecar %s --llvm-profdata llvm-profdata-19 -o "
                        "%s.profdata light.profraw",
                        form, form));
        run(directory, 0, text_format("export --sidecar %s -o %s.object", form, form));
        run_or_abort(directory, "sh", "-c",
                     text_format("llvm-cov-19 report %s.object -instr-profile=%s.profdata "
                                 ">%s.report",
                                 form, form, form),
                     NULL);
    }
    assert_equal(directory, "plain.app", "app");
    assert_equal(directory, "compact.app", "app");
    assert_equal(directory, "plain.full", "compact.full");
    assert_equal(directory, "plain.profraw", "compact.profraw");
    assert_equal(directory, "plain.profdata", "compact.profdata");
    assert_equal(directory, "plain.report", "compact.report");
}
END_TEST

START_TEST(test_fast_excludes)
{
    static const char *const others[] = {"--level 9", "--portable"};
    char *directory = place_create();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *said = run(directory, 2, text_format("split --fast %s app", others[i]));
        assert_contains(said, "--fast");
        run(directory, 2, text_format("link --fast %s -- true", others[i]));
    }
}
END_TEST

/* ---- the same bytes ---- */

static const struct form {
    const char *plain, *compact, *repack; /* options */
} forms[] = {
    {"--fast", "", ""},
    {"--fast -j8", "-j1", "-j8"},
    {"--portable", "", "-j1"},
    {"--portable --level 3", "--level 19", "--level 19"},
    {"--fast --sections covmap,covfun", "--sections covmap,covfun", ""},
    {"--fast --sections names", "--sections names", "--level 2"},
};

START_TEST(test_same_as_compact)
{
    const struct form *form = &forms[_i];
    char *directory = sample_directory(&sample);
    for (size_t i = 0; i < IMAGE_COUNT; i++) {
        const char *image = path_join(sample.scratch, images[i]);
        bool has_level = strstr(form->repack, "level") != NULL;
        run(directory, 0, text_format("split %s -o out --sidecar plain %s", form->plain, image));
        run(directory, 0,
            text_format("split %s %s -o out --sidecar compact %s", form->compact,
                        has_level && strstr(form->compact, "level") == NULL ? form->repack : "",
                        image));
        run(directory, 0, text_format("repack %s plain", form->repack));
        files_assert_equal(path_join(directory, "plain"), path_join(directory, "compact"),
                           text_format("%s, %s", images[i], form->plain));
    }
}
END_TEST

/* ---- what stays as it was ---- */

START_TEST(test_time_mode_and_names)
{
    char *directory = place_create();
    char *plain = path_join(directory, "plain");
    run_or_abort(directory, "cp", "plain", "before", NULL);
    run_or_abort(directory, "ln", "plain", "linked", NULL);
    run_or_abort(directory, "ln", "-s", "plain", "symbolic", NULL);
    ck_assert_int_eq(chmod(plain, 0640), 0);
    file_set_age(plain, HOURS_AGO);
    struct stat before = file_status(plain);
    const char *said = run(directory, 0, "repack -v symbolic");
    assert_contains(said, "symbolic: ");
    assert_contains(said, "1 sidecar repacked: ");
    struct stat after = file_status(plain);
    assert_equal(directory, "plain", "compact");
    assert_equal(directory, "linked", "before"); /* another name keeps the other form */
    ck_assert(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
              before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    ck_assert_uint_eq(after.st_mode & 07777, 0640);
    struct stat link;
    ck_assert_int_eq(lstat(path_join(directory, "symbolic"), &link), 0);
    ck_assert(S_ISLNK(link.st_mode));
    /* Again: nothing is touched. */
    said = run(directory, 0, "repack --level 19 plain");
    assert_contains(said,
                    "0 sidecars repacked: 0 B before, 0 B after; 1 already compact, 0 skipped");
    struct stat again = file_status(plain);
    ck_assert(same_file(&after, &again));
}
END_TEST

START_TEST(test_passed_over)
{
    char *directory = place_create();
    run(directory, 0, "split --sidecar placeholder -o again out");
    file_copy("/bin/true", path_join(directory, "bare"));
    run(directory, 0, "split --sidecar empty -o bare.out bare");
    static const char *const names[] = {"placeholder", "empty", "compact"};
    static const char *const notes[] = {"skipped: a placeholder",
                                        "unchanged: no compact form fits it", "already compact"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct stat before = file_status(path_join(directory, names[i]));
        const char *said = run(directory, 0, text_format("repack -v %s", names[i]));
        struct stat after = file_status(path_join(directory, names[i]));
        assert_contains(said, text_format("%s: %s\n", names[i], notes[i]));
        ck_assert(same_file(&before, &after));
    }
    assert_contains(run(directory, 0, "repack placeholder empty compact plain"),
                    "1 sidecar repacked: ");
}
END_TEST

/* ---- many ---- */

START_TEST(test_directories_and_lists)
{
    char *directory = place_create();
    run_or_abort(directory, "sh", "-ec",
                 "mkdir -p tree/deep other\n"
                 "cp plain tree/a.covsplit; cp plain tree/deep/b.covsplit; cp plain tree/c\n"
                 "cp plain tree/.d.covsplit-abcdef; ln -s ../plain tree/e.covsplit\n"
                 "cp plain other/f; printf '# a list\\nother/f\\n\\n' >list",
                 NULL);
    run(directory, 0, "split --fast --store store -o again app");
    const char *said = run(directory, 0, "repack tree @list store");
    assert_contains(said, "4 sidecars repacked: ");
    assert_equal(directory, "tree/a.covsplit", "compact");
    assert_equal(directory, "tree/deep/b.covsplit", "compact");
    assert_equal(directory, "other/f", "compact");
    run_or_abort(directory, "sh", "-ec",
                 "cmp store/.build-id/*/*.covsplit compact; test -L tree/e.covsplit\n"
                 "for i in tree/c tree/.d.covsplit-abcdef plain; do ! cmp -s $i compact; done",
                 NULL);
    said = run(directory, 0, "repack other");
    assert_contains(said, "0 sidecars repacked: ");
}
END_TEST

static void damage(const char *path, size_t from_end)
{
    struct contents contents = file_read(path);
    contents.data[contents.size - from_end] ^= 1;
    file_write(path, contents.data, contents.size);
    contents_free(&contents);
}

/* What is wrong with one is said in a line; it stays, and the others are repacked. */
START_TEST(test_damaged_among_good)
{
    char *directory = place_create();
    size_t half = file_size(path_join(directory, "plain")) / 2;
    run_or_abort(directory, "sh", "-ec",
                 "mkdir side\nfor i in 0 1 2 3 4 5; do cp plain side/$i.covsplit; done\n"
                 "truncate -s 100 side/1.covsplit; truncate -s 0 side/2.covsplit\n"
                 "echo text >side/5.covsplit",
                 NULL);
    damage(path_join(directory, "side/3.covsplit"), half); /* compressed content */
    damage(path_join(directory, "side/4.covsplit"), 1);    /* what is sealed */
    run_or_abort(directory, "cp", "-a", "side", "before", NULL);
    struct outcome outcome = covsplit_run_words(directory, 1, "repack side nowhere @nowhere");
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: error: "), 7);
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 7);
    assert_contains(outcome.output, "1 sidecar repacked: ");
    assert_equal(directory, "side/0.covsplit", "compact");
    for (unsigned i = 1; i <= 5; i++) {
        char *name = text_format("side/%u.covsplit", i);
        assert_equal(directory, name, text_format("before/%u.covsplit", i));
        assert_contains(outcome.errors, name);
    }
    /* Nobody has to believe how large it will be. */
    assert_contains(run(directory, 1, "repack --memory-limit 100 plain"), "--memory-limit");
}
END_TEST

/* Whatever is wrong, the file stays, or becomes one that holds the same. */
START_TEST(test_mutations)
{
    char *directory = place_create();
    struct elf_file plain = elf_file_read(path_join(directory, "plain"));
    unsigned accepted = 0, refused = 0;
    for (unsigned long seed = 1; seed <= rounds(1500); seed++) {
        struct verdict verdict = {0};
        char *description = NULL;
        int exit_code = -1;
        struct contents damaged = mutate_elf(&plain, seed, &description);
        hostile_fork_most(seed);
        file_write(path_join(directory, "side"), damaged.data, damaged.size);
        hostile_run(directory, "repack -j1 side", &exit_code, &verdict);
        verdict_assert(&verdict, description);
        if (exit_code == 1) {
            hostile_holds(directory, "side", &damaged, &verdict);
        } else {
            hostile_run(directory, "verify side", &exit_code, &verdict);
        }
        verdict_assert(&verdict, description);
        accepted += exit_code == 0;
        refused += exit_code == 1;
        contents_free(&damaged);
        free(description);
    }
    hostile_assert_mixed(accepted, refused);
}
END_TEST

/* ---- at every moment ---- */

struct meddling {
    char *directory;
    char *entry;
    char *other; /* another sidecar, plain too */
};

static void remove_entry(void *context)
{
    struct meddling *meddling = context;
    unlink(meddling->entry);
}

static void replace_entry(void *context)
{
    struct meddling *meddling = context;
    char *new = text_format("%s.new", meddling->entry);
    file_copy(meddling->other, new);
    ck_assert_int_eq(rename(new, meddling->entry), 0);
    free(new);
}

static struct meddling meddling_start(void)
{
    struct meddling meddling = {.directory = place_create()};
    meddling.entry = path_join(meddling.directory, "side");
    meddling.other = path_join(meddling.directory, "other");
    run(meddling.directory, 0, "split --sections covmap,covfun --fast -o x --sidecar other app");
    run(meddling.directory, 0, "split --sections covmap,covfun -o x --sidecar other.compact app");
    return meddling;
}

#define STOPS_MIN 50

/* The stops between the last look at the file and the rename, which no rename can do in one step:
 * at the end of the one call, and at the start of the other. */
#define LATE_STOPS 2

static unsigned long stride(void)
{
    return (covsplit_is_sanitized() ? 5 : 1) * rounds_step();
}

static struct traced repack_and_meddle(struct meddling *meddling, unsigned long stops,
                                       void (*act)(void *context))
{
    struct command command = covsplit_command(meddling->directory, "repack", "-j1", "side", NULL);
    unlink(meddling->entry);
    file_copy(path_join(meddling->directory, "plain"), meddling->entry);
    struct traced repack = command_trace(&command, stops, act, meddling);
    command_free(&command);
    return repack;
}

/* No other file is left behind. */
static void assert_nothing_left(const struct meddling *meddling)
{
    struct text_list names = directory_list(meddling->directory);
    for (size_t i = 0; i < names.count; i++) {
        ck_assert_msg(names.items[i][0] != '.', "%s is left", names.items[i]);
    }
    text_list_free(&names);
}

static bool holds(const struct meddling *meddling, const char *name)
{
    struct verdict verdict = {0};
    char *path = path_join(meddling->directory, name);
    bool equal = files_equal(meddling->entry, path, &verdict);
    free(path);
    return equal;
}

/* What a cleaner has removed does not come back, unless it does so right before the rename. */
START_TEST(test_removed_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, late = 0;
    while (repack.was_stopped) {
        stops += stride();
        repack = repack_and_meddle(&meddling, stops, remove_entry);
        late += file_exists(meddling.entry) == repack.was_stopped;
        ck_assert_msg(late <= LATE_STOPS, "stop %lu", stops);
        assert_nothing_left(&meddling);
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
}
END_TEST

/* What another split has put there stays, in one form or the other, with the same exception. */
START_TEST(test_replaced_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, late = 0;
    while (repack.was_stopped) {
        stops += stride();
        repack = repack_and_meddle(&meddling, stops, replace_entry);
        ck_assert_msg(repack.exit_code == 0, "stop %lu: %s", stops, repack.errors);
        late += repack.was_stopped && holds(&meddling, "compact");
        ck_assert_msg(late <= LATE_STOPS, "stop %lu", stops);
        ck_assert_msg(holds(&meddling, "compact") ||
                          (repack.was_stopped &&
                           (holds(&meddling, "other") || holds(&meddling, "other.compact"))),
                      "stop %lu", stops);
        assert_nothing_left(&meddling);
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
}
END_TEST

START_TEST(test_killed_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct command command = covsplit_command(meddling.directory, "repack", "-j1", "side", NULL);
    struct traced repack = {.was_stopped = true};
    unsigned long stops = 0, early = 0;
    while (repack.was_stopped) {
        stops += stride();
        unlink(meddling.entry);
        file_copy(path_join(meddling.directory, "plain"), meddling.entry);
        repack = command_trace_and_kill(&command, stops);
        bool is_plain = holds(&meddling, "plain");
        ck_assert_msg(is_plain || holds(&meddling, "compact"), "stop %lu", stops);
        early += is_plain;
        if (stops % 8 == 0) {
            run(meddling.directory, 0, "repack side");
            ck_assert_msg(holds(&meddling, "compact"), "stop %lu", stops);
        }
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
    ck_assert_uint_gt(early, 0);
    ck_assert(holds(&meddling, "compact"));
}
END_TEST

/* A file system that cannot swap names, nor have files without one. */
START_TEST(test_restricted)
{
    char *directory = place_create();
    struct command plain = covsplit_command(directory, "repack", "plain", NULL);
    struct command command = command_restrict(&plain, (enum restriction)_i);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome_describe(&command, &outcome));
    assert_equal(directory, "plain", "compact");
    ck_assert_uint_eq(directory_list(directory).count, 4);
}
END_TEST

/* ---- a store ---- */

/* STORE_IMAGES images, split into "plain" and "compact"; the first is for repack. */
static char *stores_create(void)
{
    char *directory = sample_directory(&sample);
    directory_create(path_join(directory, "images"));
    for (unsigned i = 0; i < STORE_IMAGES; i++) {
        variant_create(sample.image, path_join(directory, "images"), text_format("app-%u", i),
                       i % 60 + i / 60 * 256, i);
    }
    run_or_abort(directory, "cp", "-a", "images", "again", NULL);
    run(directory, 0, "split -r --fast --store plain images");
    run(directory, 0, "split -r --store compact again");
    return directory;
}

static unsigned count_plain(const char *directory, const struct text_list *entries)
{
    unsigned plain = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const char *name = entries->items[i];
        struct verdict verdict = {0};
        if (name[strlen(name) - 1] != '/') {
            char *one = text_format("%s/plain/%s", directory, name);
            char *other = text_format("%s/compact/%s", directory, name);
            plain += !files_equal(one, other, &verdict);
            free(one);
            free(other);
        }
    }
    return plain;
}

START_TEST(test_store_with_kills)
{
    char *directory = stores_create();
    struct text_list entries = tree_list(path_join(directory, "compact"));
    run_or_abort(directory, "cp", "-a", "plain", "saved", NULL);
    struct outcome whole = covsplit_run_words(directory, 0, "repack plain");
    assert_contains(whole.output, text_format("%d sidecars repacked: ", STORE_IMAGES));
    ck_assert_uint_eq(count_plain(directory, &entries), 0);
    struct moments moments = moments_start(SEED, whole.wall_seconds);
    unsigned in_the_middle = 0;
    struct command command = covsplit_words(directory, "repack plain");
    for (unsigned i = 0; i < rounds(STORE_KILLS); i++) {
        unsigned before = count_plain(directory, &entries), after;
        if (before == 0) {
            directory_remove(path_join(directory, "plain"));
            run_or_abort(directory, "cp", "-a", "saved", "plain", NULL);
        }
        command_kill_after(&command, moments_next(&moments));
        assert_contains(run(directory, 0, "store check plain"),
                        text_format("%d sidecars, ", STORE_IMAGES));
        after = count_plain(directory, &entries);
        moments_met(&moments, after != 0);
        in_the_middle += after != 0 && after != STORE_IMAGES;
    }
    ck_assert_uint_gt(in_the_middle, 0);
    run(directory, 0, "repack plain");
    ck_assert_uint_eq(count_plain(directory, &entries), 0);
}
END_TEST

/* Repacks, splits that replace, and cleaners at the same time: the last split of each image can be
 * joined, and no other sidecar comes back. */
START_TEST(test_store_with_others)
{
    static const char script[] = "set -e\n"
                                 "for round in 1 2 3 4 5 6; do\n"
                                 "  for app in 0 1 2 3; do\n"
                                 "    \"$0\" split --fast --replace --store store "
                                 "--sections $1 -o $2-$app app-$app\n"
                                 "  done\n"
                                 "done\n";
    static const char repacks[] = "for i in $(seq 40); do \"$0\" repack store || exit 1; done\n";
    static const char cleans[] =
        "for i in $(seq 40); do \"$0\" store gc --older-than 1 store || exit 1; done\n";
    char *directory = sample_directory(&sample);
    struct command commands[4];
    struct outcome outcomes[4];
    for (unsigned i = 0; i < 4; i++) {
        variant_create(sample.image, directory, text_format("app-%u", i), i, i);
    }
    run(directory, 0, "split --fast --store store -o out-0 app-0");
    for (unsigned i = 0; i < 4; i++) {
        commands[i] = (struct command){.directory = directory};
        text_list_add_words(&commands[i].arguments, "sh -c");
        text_list_add(&commands[i].arguments, i < 2 ? script : i == 2 ? repacks : cleans);
        text_list_add(&commands[i].arguments, covsplit_path());
        text_list_add(&commands[i].arguments, i == 0 ? "covmap,covfun" : "all");
        text_list_add(&commands[i].arguments, i == 0 ? "some" : "all");
    }
    commands_run_together(commands, 4, outcomes);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s",
                      outcome_describe(&commands[i], &outcomes[i]));
    }
    assert_contains(run(directory, 0, "store check store"), "4 sidecars, ");
    for (unsigned i = 0; i < 4; i++) {
        struct outcome some = covsplit_run(directory, "join", "--store", "store", "-o", "joined",
                                           text_format("some-%u", i), NULL);
        struct outcome all = covsplit_run(directory, "join", "--store", "store", "-o", "joined",
                                          text_format("all-%u", i), NULL);
        ck_assert_msg(outcome_exited(&some, 0) != outcome_exited(&all, 0), "%s%s", some.errors,
                      all.errors);
        assert_equal(directory, "joined", text_format("app-%u", i));
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    restriction_enter(argument_count, arguments);
    TCase *test_case = suite_case("repack", 1500, prepare);
    suite_tests(test_case, test_fast_is_plain_zstd_of_level_1, test_fast_reads_the_same,
                test_fast_excludes);
    suite_loops(test_case, sizeof forms / sizeof *forms, test_same_as_compact);
    suite_tests(test_case, test_time_mode_and_names, test_passed_over, test_directories_and_lists,
                test_damaged_among_good, test_mutations, test_removed_at_every_moment,
                test_replaced_at_every_moment, test_killed_at_every_moment);
    suite_loops(test_case, RESTRICTION_COUNT, test_restricted);
    suite_tests(test_case, test_store_with_kills, test_store_with_others);
    return suite_main("repack", test_case);
}
