/*
 * covsplit merge --into: the output from a state is that of a direct merge of the same profiles,
 * of any kind and in any number of steps; and what is refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/program.h"

#define FUNCTIONS 20
#define MUTATIONS 600

static char *scratch;
static const char *profdata = "llvm-profdata-22";

/* ---- profiles ---- */

static const struct variant {
    const char *name;
    const char *clang;
    enum link_kind kind;
    const char *options;
} variants[] = {
    {"plain", "19", LINK_PIE, NULL},
    {"shared", "22", LINK_SHARED, NULL},
    {"bitmap", "19", LINK_PIE, "-fcoverage-mcdc"},
    {"bytes", "19", LINK_PIE, "-mllvm -enable-single-byte-coverage=true"},
    {"old", "14", LINK_PIE, NULL},
};
#define VARIANTS (sizeof variants / sizeof *variants)

/* Profiles of the image before the split and after it, in NAME/full-* and NAME/light-*. */
static void make_variant(const struct variant *variant)
{
    char *directory = text_format("%s/build-%s", scratch, variant->name);
    struct program program = {.clang = variant->clang,
                              .linker = "lld",
                              .kind = variant->kind,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .compile_options = variant->options,
                              .functions = FUNCTIONS};

    directory_create(directory);
    program_build(&program, directory);
    run_or_abort(
        directory, "sh", "-c",
        "mkdir ../$1 split && $0 split --store ../store -o split/program program || exit 1\n"
        "if [ -f libsecond.so ]; then\n"
        "  $0 split --store ../store -o split/libsecond.so libsecond.so || exit 1\n"
        "fi\n"
        "for i in 1 2 3; do\n"
        "  LLVM_PROFILE_FILE=../$1/full-$i-%m.profraw LD_LIBRARY_PATH=. ./program $i\n"
        "  LLVM_PROFILE_FILE=../$1/light-$i-%m.profraw LD_LIBRARY_PATH=split "
        "./split/program $i\n"
        "done >/dev/null; exit 0",
        covsplit_path(), variant->name, NULL);
}

static void prepare(void)
{
    scratch = scratch_create("merge-state");
    for (size_t i = 0; i < VARIANTS; i++)
        make_variant(&variants[i]);
    /* Several in one file, and a sparse one. */
    run_or_abort(scratch, "sh", "-ec",
                 "mkdir mixed\n"
                 "cat plain/full-1*.profraw plain/light-2*.profraw >mixed/several.profraw\n"
                 "python3 " COVSPLIT_FIXTURE_DIRECTORY
                 "/../support/sparse_profile.py make plain/light-1*.profraw mixed/sparse.profraw",
                 NULL);
}

static const char *run(int exit_code, const char *words)
{
    struct command command = covsplit_words(scratch, words);
    struct outcome outcome;

    text_list_add_format(&command.environment, "LLVM_PROFDATA=%s", profdata);
    outcome = command_expect(&command, exit_code);
    return text_format("%s", outcome.errors);
}

static void assert_says(const char *errors, const char *part)
{
    ck_assert_msg(strstr(errors, part) != NULL, "'%s' does not say '%s'", errors, part);
}

/* What llvm-profdata reads in it: the order of functions in the file is of no matter. */
static const char *text_of(const char *name)
{
    return run_or_abort(scratch, profdata, "merge", "--text", "-o", "-", name, NULL);
}

static void assert_same_counts(const char *state, const char *inputs)
{
    run(0, text_format("merge --store store -o direct.profdata %s", inputs));
    run(0, text_format("merge --store store -o state.profdata %s", state));
    ck_assert_str_eq(text_of("direct.profdata"), text_of("state.profdata"));
}

static void remove_states(void)
{
    directory_remove(path_join(scratch, "STATE"));
    directory_remove(path_join(scratch, "OTHER"));
}

/* ---- equal ---- */

START_TEST(test_equal)
{
    const char *name = variants[_i].name;

    profdata = text_format("llvm-profdata-%s", variants[_i].clang);
    run(0, text_format("merge --store store --into STATE %s", name));
    assert_same_counts("STATE", name);
    /* Again, in three steps, and beside profiles that are in no state. */
    run_or_abort(scratch, "sh", "-c",
                 "for i in 3 1 2; do $0 merge --store store --into STATE $1/*-$i-*.profraw || "
                 "exit 1; done",
                 covsplit_path(), name, NULL);
    assert_same_counts("STATE", text_format("%s %s", name, name));
    assert_same_counts(text_format("STATE %s", name), text_format("%s %s %s", name, name, name));
    /* And into another state. */
    run(0, text_format("merge --store store --into OTHER STATE %s", name));
    assert_same_counts("OTHER", text_format("%s %s %s", name, name, name));
}
END_TEST

/* Images of several compilers in one state; standard input, lists, several profiles in a file,
 * sparse ones. */
START_TEST(test_all)
{
    run(0, "merge --store store --into STATE shared");
    run(0, "merge --store store -j1 --into STATE plain");
    run(0, "merge --store store --into STATE mixed");
    run_or_abort(scratch, "sh", "-c",
                 "cat mixed/several.profraw | $0 merge --store store --into STATE - &&"
                 "echo mixed/sparse.profraw | $0 merge --store store --into STATE @-",
                 covsplit_path(), NULL);
    assert_same_counts("STATE", "shared plain mixed mixed");
    ck_assert_uint_eq(directory_list(path_join(scratch, "STATE/batches")).count, 0);
}
END_TEST

/* Batches that could not be added to the files of their images, which do not exist yet, count and
 * are shown. */
START_TEST(test_not_folded)
{
    run(0, "merge --store store --into OTHER plain");
    run(0, "merge --store store --into STATE shared");
    run_or_abort(scratch, "sh", "-c",
                 "for image in $(ls OTHER/images); do mkdir STATE/images/$image; done", NULL);
    assert_says(run(1, "merge --store store --into STATE plain"), "the profiles count already");
    run_or_abort(scratch, "sh", "-c", "rmdir STATE/images/* 2>/dev/null; ls STATE/batches | grep .",
                 NULL);
    run(0, "show --store store STATE");
    assert_same_counts("STATE", "shared plain");
}
END_TEST

/* Several commands at a time. */
START_TEST(test_together)
{
    struct command writers[VARIANTS];
    struct outcome outcomes[VARIANTS];

    for (size_t i = 0; i < VARIANTS; i++)
        writers[i] = covsplit_words(
            scratch, text_format("merge --store store --into STATE %s", variants[i].name));
    commands_run_together(writers, VARIANTS, outcomes);
    for (size_t i = 0; i < VARIANTS; i++)
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s", outcomes[i].errors);
    assert_same_counts("STATE", "plain shared bitmap bytes old");
}
END_TEST

/* ---- shown ---- */

/* Sidecars give the images their names. */
START_TEST(test_shown)
{
    struct outcome outcome;

    run(0, "merge --store store --into STATE plain");
    outcome = covsplit_run_words(scratch, 0, "show --store store STATE");
    assert_says(outcome.output, "STATE\n  state of a merge: 6 profiles of 2 images\n");
    assert_says(outcome.output, "\n  program ");
    outcome = covsplit_run_words(scratch, 0, "show STATE");
    assert_says(outcome.output, "6 profiles of 2 images\n");
    ck_assert_ptr_null(strstr(outcome.output, "program"));
    outcome = covsplit_run_words(scratch, 0, "show --json --store store STATE");
    file_write(path_join(scratch, "shown.json"), outcome.output, outcome.output_size);
    run_or_abort(
        scratch, "python3", "-c",
        "import json, os\n"
        "state, = json.load(open('shown.json'))\n"
        "images = state.pop('images')\n"
        "assert state == {'file': 'STATE', 'kind': 'state', 'profile_count': 6}, state\n"
        "sizes = sorted(os.path.getsize('STATE/images/' + i) for i in os.listdir('STATE/images'))\n"
        "assert sorted(i.pop('size') for i in images) == sizes, images\n"
        "assert len({i.pop('uuid') for i in images}) == 1, images\n"
        "assert sorted(map(str, (i['image_name'] for i in images))) == ['None', 'program']\n"
        "assert [i['profile_count'] for i in images] == [3, 3], images\n",
        NULL);
    assert_says(run(1, "show --store store plain"), "error: plain: not a state");
    assert_says(run(2, "show --sidecar store plain/full-1"), "'--sidecar' is for states");
}
END_TEST

/* ---- what is not taken ---- */

/* Value and temporal profiles stay where they are, and can be merged beside the state. */
START_TEST(test_no_sums)
{
    static const char *const options[] = {
        "-fprofile-generate", "-fprofile-generate -mllvm -pgo-temporal-instrumentation"};
    static const char *const kinds[] = {"value", "temporal"};

    file_write_text(path_join(scratch, "values.c"),
                    "#include <string.h>\nstatic int one(int x) { return x; }\n"
                    "int main(int c, char **v) { int (*volatile f)(int) = one; char b[64];\n"
                    "memset(b, 0, (size_t)c); return f(v[0][0] == 0) + b[0]; }\n");
    run_or_abort(scratch, "sh", "-c",
                 "clang-19 $0 -O1 values.c -o values && LLVM_PROFILE_FILE=values.profraw ./values",
                 options[_i], NULL);
    assert_says(
        run(1, "merge --store store --into STATE values.profraw plain"),
        text_format("values.profraw: a %s profile, which cannot be summed; keep it", kinds[_i]));
    assert_says(run(1, "merge -o none.profdata STATE"), "STATE: no profile to merge");
    assert_says(run(0, "merge --failure-mode all --store store --into STATE values.profraw plain"),
                "(left out)");
    assert_same_counts("STATE values.profraw", "plain values.profraw");
}
END_TEST

/* Wholly or not at all. */
START_TEST(test_bad_inputs)
{
    file_write_text(path_join(scratch, "bad.profraw"), "no profile");
    file_write_text(path_join(scratch, "empty.profraw"), "");
    run(0, "merge --store store --into STATE plain empty.profraw");
    assert_says(run(1, "merge --store store --into STATE plain bad.profraw"), "bad.profraw: ");
    assert_says(run(1, "merge --into STATE plain"), "no sidecar");
    assert_says(run(1, "merge --store store --into STATE empty.profraw"), "empty");
    assert_same_counts("STATE", "plain");
    assert_says(run(0, "merge --store store --failure-mode all --into STATE plain bad.profraw"),
                "(left out)");
    assert_same_counts("STATE", "plain plain");
    /* Where the sidecars are missing, it is known of which image. */
    assert_says(run(1, "merge -o none.profdata STATE"), "no sidecar");
    assert_says(run(0, "merge --failure-mode all -o some.profdata STATE"), "(left out)");
}
END_TEST

START_TEST(test_no_state)
{
    assert_says(run(1, "merge --into values plain"), "");
    file_write_text(path_join(scratch, "a-file"), "");
    assert_says(run(1, "merge --store store --into a-file plain"),
                "error: a-file: not a directory");
    assert_says(run(1, "merge --store store --into plain bitmap"),
                "error: plain: not a state, but a directory with other files");
    assert_says(run(1, "merge --store store --into missing/STATE plain"), "error: missing/STATE: ");
    run(0, "merge --store store --into plain/STATE plain");
    run(0, "merge --store store --into plain/STATE plain");
    assert_says(run(1, "merge --store store --into plain/STATE plain/STATE"), "the state itself");
    assert_says(run(1, "merge --store store -o none.profdata plain"),
                "plain/STATE: a state in a directory of profiles");
    run_or_abort(scratch, "mv", "plain/STATE", "STATE", NULL);
    assert_same_counts("STATE", "plain plain");
    run(2, "merge --into STATE -o out.profraw plain");
    run(2, "merge --into STATE --format profraw plain");
    run(2, "merge plain");
}
END_TEST

/* Who may only read a state can read it, and nothing else. */
START_TEST(test_read_only)
{
    struct command command;
    struct outcome outcome;

    run(0, "merge --store store --into STATE plain");
    run_or_abort(scratch, "sh", "-c", "chmod -R a-w,a+rX STATE; mkdir -m 777 open", NULL);
    command = covsplit_command_as_user(scratch, scratch,
                                       "merge --store store -o open/user.profraw STATE");
    outcome = command_expect(&command, 0);
    command = covsplit_command_as_user(scratch, scratch, "merge --store store --into STATE plain");
    outcome = command_expect(&command, 1);
    assert_says(outcome.errors, "covsplit: error: STATE: cannot be written");
    run(0, "merge --store store -o open/direct.profraw plain");
    run_or_abort(scratch, "chmod", "-R", "u+w", "STATE", NULL);
}
END_TEST

/* ---- damage ---- */

/* Whatever becomes of a file: soon an error in one line, and no output; or the counts of a direct
 * merge. (The suite of the module has those whose digest was made to fit.) */
START_TEST(test_damaged)
{
    static const char *const files[] = {"covsplit-state", "images/*", "batches/*"};
    unsigned count = rounds(MUTATIONS / 3), refused = 0;
    struct contents good, direct;
    const char *file;

    run(0, "merge --store store --into STATE bytes");
    run(0, "merge --store store -o expected.profraw STATE");
    direct = file_read(path_join(scratch, "expected.profraw"));
    if (_i == 2) /* as another state's batch, it is damaged anyway */
        run_or_abort(scratch, "sh", "-c",
                     "cp STATE/images/$(ls STATE/images | head -n1) "
                     "STATE/batches/00112233445566778899aabbccddeeff",
                     NULL);
    file = run_or_abort(scratch, "sh", "-c",
                        text_format("echo STATE/%s | cut -d' ' -f1", files[_i]), NULL);
    file = path_join(scratch, text_format("%.*s", (int)strlen(file) - 1, file));
    good = file_read(file);
    for (unsigned seed = 0; seed < count; seed++) {
        char *description;
        struct contents bad = mutate_bytes(&good, seed, &description);
        struct verdict verdict = {0};
        int exit_code = -1;

        file_write(file, bad.data, bad.size);
        unlink(path_join(scratch, "found.profraw"));
        hostile_fork(seed % 8 != 0);
        if (!hostile_run(scratch, "merge -j1 --store store -o found.profraw STATE", &exit_code,
                         &verdict))
            ck_abort_msg("seed %u (%s): %s", seed, description, verdict.problem);
        refused += exit_code == 1;
        ck_assert(file_exists(path_join(scratch, "found.profraw")) == (exit_code == 0));
        if (exit_code == 0)
            ck_assert_msg(hostile_holds(scratch, "found.profraw", &direct, &verdict), "%s: %s",
                          description, verdict.problem);
        free(description);
        contents_free(&bad);
    }
    ck_assert_uint_gt(refused, count / 4);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 300, NULL);

    hostile_in_memory();
    tcase_add_unchecked_fixture(all, prepare, NULL);
    tcase_add_checked_fixture(all, remove_states, NULL);
    suite_loops(all, VARIANTS, test_equal);
    suite_loops(all, 2, test_no_sums);
    suite_tests(all, test_all, test_not_folded, test_together, test_shown, test_bad_inputs,
                test_no_state, test_read_only);
    suite_loops(all, 3, test_damaged);
    return suite_main("merging into a state", all);
}
