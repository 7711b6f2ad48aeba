/*
 * The files of a pool (%m): what a kill at each moment leaves of one, files of other builds,
 * damaged ones, and places where none can be written. Split images lose no more than the unsplit
 * ones do, and whatever is lost is said.
 *
 * Usage: pool_files CLANG LINKER
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 120 /* more counters than fit into a buffer of stdio */

static const char *clang_version, *linker_name;
static char *place; /* with a directory for each kind of images */

static const char *const kinds[] = {"original", "split"};

#define KINDS 2

/* Counts by the number of its words; with KILLED_WORDS of them it is killed before it writes. */
#define MAIN_SOURCE                                                                                \
    "#include <signal.h>\nlong first_run(long seed);\n"                                            \
    "int main(int count, char **words) {\n"                                                        \
    "    (void)words; first_run(count); return count > 6 ? raise(SIGKILL) : 0; }\n"
#define KILLED_WORDS 6

#define COVERAGE     INSTRUMENT_COVERAGE
#define VALUES       "-fprofile-generate"

static void start(void)
{
    place = scratch_create("pool-files");
    for (size_t i = 0; i < KINDS; i++) {
        directory_create(path_join(place, kinds[i]));
    }
    source_generate(path_join(place, "original/first.c"), LANGUAGE_C, "first", FUNCTIONS);
    file_write_text(path_join(place, "original/main.c"), MAIN_SOURCE);
}

/* In original/; the last words are those of the command. */
static void build(const char *instrumentation, const char *words)
{
    struct command command = command_words(
        path_join(place, "original"), "%s -O1 -w -fuse-ld=%s -Wl,--build-id=sha1 %s %s",
        versioned_tool("clang", clang_version), linker_name, instrumentation, words);
    command_run_or_abort(&command);
    command_free(&command);
}

static void split(const char *image, const char *options, const char *output)
{
    covsplit_run_words(
        place, 0, text_format("split --store store -o %s %s original/%s", output, options, image));
}

/* place/IMAGE with so many words more, and its profile in a directory of the place. */
static struct command run_of(const char *image, const char *pool, unsigned words)
{
    struct command command = command_words(place, "%s/%s", place, image);
    for (unsigned i = 0; i < words; i++) {
        text_list_add(&command.arguments, "word");
    }
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s/%%m.profraw", place, pool);
    return command;
}

/* Returns what the runtime says. */
static const char *run(const char *image, const char *pool, unsigned words)
{
    struct command command = run_of(image, pool, words);
    return command_expect(&command, 0).errors;
}

/* The only file in a pool. */
static const char *file_of(const char *pool)
{
    struct text_list names = directory_list(path_join(place, pool));
    ck_assert_uint_eq(names.count, 1);
    return text_format("%s/%s/%s", place, pool, names.items[0]);
}

/* ---- kills at each moment ---- */

/* What is in a pool: nothing, the sum of its counters, or what no reader takes. */
enum state {
    STATE_NONE,
    STATE_GOOD,
    STATE_DAMAGED,
};

static enum state state_of(const char *pool, uint64_t *total)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    *total = 0;
    if (!file_exists(path_join(place, pool)) || directory_list(path_join(place, pool)).count == 0 ||
        file_size(file_of(pool)) == 0) {
        return STATE_NONE;
    }
    bool good = raw_profile_read(file_of(pool), &profile, &verdict);
    *total = good ? raw_profile_total(&profile) : 0;
    raw_profile_free(&profile);
    return good ? STATE_GOOD : STATE_DAMAGED;
}

static uint64_t good_total(const char *pool)
{
    uint64_t total;
    ck_assert_int_eq(state_of(pool, &total), STATE_GOOD);
    return total;
}

/* The images, with what a process with so many words counts. */
struct killed_program {
    const char *image;
    const char *kind;
    bool has_values;
    uint64_t totals[4];
    unsigned long first, last; /* stops between which the profile is written */
};

#define BEGUN_WORDS  1 /* of the process that the pool begins with, if it does */
#define KILLED_ONE   2 /* of the one that is killed */
#define THE_NEXT_ONE 3

static struct killed_program prepare_killed(const char *kind, bool has_values)
{
    struct killed_program program = {
        .image = text_format("%s/app", kind), .kind = kind, .has_values = has_values};
    for (unsigned i = 1; i < 4; i++) {
        const char *pool = text_format("%s-%u", kind, i);
        ck_assert_str_eq(run(program.image, pool, i), "");
        program.totals[i] = good_total(pool);
    }
    struct command killed = run_of(program.image, "none", KILLED_WORDS);
    struct command whole = run_of(program.image, "whole", KILLED_ONE);
    program.first = command_trace(&killed, ULONG_MAX, NULL, NULL).stops - 8;
    program.last = command_trace(&whole, ULONG_MAX, NULL, NULL).stops;
    ck_assert_uint_gt(program.last, program.first + 20);
    return program;
}

/* What the runtime does not take, covsplit refuses in one line with the file's name. */
static void check_refused(const char *pool)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    struct outcome outcome = covsplit_run_words(
        place, 1,
        text_format("merge --store store --llvm-profdata %s -o sum.profdata %s", profdata, pool));
    struct text_list names = directory_list(path_join(place, pool));
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    assert_contains(outcome.errors, text_format("covsplit: error: %s/%s: ", pool, names.items[0]));
}

/* Kills a process at a stop, and runs another one. Returns true if the counts of that one are not
 * in the pool, which it must have said; otherwise all are there. A file that was whole stays so,
 * but for its values: they may change their place. */
static bool loses_the_next(const struct killed_program *program, bool begun, unsigned long stop)
{
    const char *pool = text_format("%s-%s-%lu", program->kind, begun ? "begun" : "new", stop);
    uint64_t before = 0, total, next = program->totals[THE_NEXT_ONE];
    if (begun) {
        run(program->image, pool, BEGUN_WORDS);
        before = program->totals[BEGUN_WORDS];
    }
    struct command killed = run_of(program->image, pool, KILLED_ONE);
    command_trace_and_kill(&killed, stop); /* near the last stop, it may have ended before */
    enum state state = state_of(pool, &total);
    if (state == STATE_GOOD) {
        ck_assert_uint_ge(total, before);
        ck_assert_uint_le(total, before + program->totals[KILLED_ONE]);
    }
    struct command after = run_of(program->image, pool, THE_NEXT_ONE);
    struct outcome outcome = command_run(&after);
    if (outcome_exited(&outcome, 0) && outcome.errors_size == 0) {
        ck_assert_uint_eq(good_total(pool), total + next);
        return false;
    }
    ck_assert_msg(program->has_values || (!begun && state == STATE_DAMAGED), "stop %lu: %s", stop,
                  outcome_describe(&after, &outcome));
    if (strcmp(program->kind, "split") == 0) {
        check_refused(pool);
    }
    return true;
}

/* How often memory is asked for while a profile is written differs from run to run. */
#define SLACK 2

START_TEST(test_each_moment)
{
    bool has_values = _i / 2 == 1, begun = _i % 2 == 1;
    start();
    build(has_values ? VALUES : COVERAGE, "main.c first.c -o app");
    split("app", "", "split/app");
    unsigned lost[KINDS] = {0};
    for (size_t i = 0; i < KINDS; i++) {
        struct killed_program program = prepare_killed(kinds[i], has_values);
        for (unsigned long stop = program.first; stop < program.last; stop += rounds_step()) {
            lost[i] += loses_the_next(&program, begun, stop);
        }
        printf("%s, %s pool, %s: %u of %lu moments lose what comes after\n",
               has_values ? "values" : "coverage", begun ? "begun" : "new", kinds[i], lost[i],
               (program.last - program.first + rounds_step() - 1) / rounds_step());
    }
    ck_assert_uint_le(lost[1], lost[0] + SLACK);
}
END_TEST

/* ---- files of other builds ---- */

#define ONE_MORE    "one more"
#define OTHER_BODY  "other body"
#define OTHER_UUID  "other UUID"
#define SAME_UUID   "same UUID"
#define UNSPLIT     "unsplit"
#define SPLIT       "split"
#define NAMES_ONLY  "names only"
#define MAPPED_ONLY "mapping only"

/* An image: `unsplit` or split from the first build with some options; or split from another build
 * of the same program. */
static const char *image_of(const char *which, const char *instrumentation)
{
    const char *image = text_replace(which, " ", "-"), *built = "app";
    const char *output = text_format("split/%s", image);
    if (strcmp(which, UNSPLIT) == 0) {
        return "original/app";
    }
    if (strcmp(which, ONE_MORE) == 0) {
        file_write_text(path_join(place, "original/more.c"), "int one_more(void) { return 1; }\n");
        build(instrumentation, "main.c first.c more.c -o one-more");
        built = image;
    } else if (strcmp(which, OTHER_BODY) == 0) {
        file_write_text(path_join(place, "original/other.c"),
                        text_replace(MAIN_SOURCE, "first_run(count)", "first_run(count + 1)"));
        build(instrumentation, "other.c first.c -o other-body");
        built = image;
    } else if (strcmp(which, SAME_UUID) == 0) {
        file_write_text(path_join(place, "original/same.c"),
                        text_replace(MAIN_SOURCE, "first_run(count)", "first_run(1 + count)"));
        build(instrumentation,
              "same.c first.c -Wl,--build-id=0x00112233445566778899aabbccddeeff00112233 "
              "-o same-UUID");
        built = image;
    } else if (strcmp(which, OTHER_UUID) == 0) {
        build(instrumentation,
              "main.c first.c -Wl,--build-id=0x00112233445566778899aabbccddeeff00112233 "
              "-o other-UUID");
        built = image;
    }
    split(built,
          strcmp(which, NAMES_ONLY) == 0    ? "--replace --sections names"
          : strcmp(which, MAPPED_ONLY) == 0 ? "--replace --sections covmap,covfun"
                                            : "--replace",
          output);
    return output;
}

/* How a process takes the file of another image, put at the place of its own. */
struct pair {
    const char *old, *new;
    const char *instrumentation;
    bool is_added; /* both write the same: full profiles of one build, or of the same records */
};

static const struct pair pairs[] = {
    {SPLIT, ONE_MORE, COVERAGE, false},     {ONE_MORE, SPLIT, COVERAGE, false},
    {SPLIT, OTHER_BODY, COVERAGE, false},   {OTHER_BODY, SPLIT, COVERAGE, false},
    {SPLIT, OTHER_UUID, COVERAGE, false},   {OTHER_UUID, SAME_UUID, COVERAGE, false},
    {UNSPLIT, SPLIT, COVERAGE, false},      {SPLIT, UNSPLIT, COVERAGE, false},
    {SPLIT, NAMES_ONLY, COVERAGE, false},   {NAMES_ONLY, SPLIT, COVERAGE, false},
    {UNSPLIT, NAMES_ONLY, COVERAGE, false}, {NAMES_ONLY, UNSPLIT, COVERAGE, false},
    {UNSPLIT, MAPPED_ONLY, COVERAGE, true}, {MAPPED_ONLY, UNSPLIT, COVERAGE, true},
    {MAPPED_ONLY, SPLIT, COVERAGE, false},  {UNSPLIT, SPLIT, VALUES, false},
    {SPLIT, UNSPLIT, VALUES, false},        {SPLIT, ONE_MORE, VALUES, false},
    {SPLIT, OTHER_UUID, VALUES, true},
};

START_TEST(test_other_build)
{
    const struct pair *pair = &pairs[_i];
    const char *label = text_format("%s, then %s, %s", pair->old, pair->new, pair->instrumentation);
    start();
    build(pair->instrumentation, "main.c first.c -o app");
    const char *old = image_of(pair->old, pair->instrumentation);
    const char *new = image_of(pair->new, pair->instrumentation);
    ck_assert_str_eq(run(old, "old", 1), "");
    ck_assert_str_eq(run(new, "new", 2), "");
    uint64_t old_total = good_total("old"), new_total = good_total("new");

    /* In one directory: each has its own file, or they are told apart as below. */
    const char *old_name = strrchr(file_of("old"), '/'), *new_name = strrchr(file_of("new"), '/');
    bool same_name = strcmp(old_name, new_name) == 0;
    if (!same_name) {
        run(old, "both", 1);
        ck_assert_str_eq(run(new, "both", 2), "");
        ck_assert_uint_eq(directory_list(path_join(place, "both")).count, 2);
    }
    directory_create(path_join(place, "mixed"));
    file_copy(file_of("old"), text_format("%s/mixed/%s", place, new_name));
    const char *errors = run(new, "mixed", 2);
    if (pair->is_added) {
        ck_assert_msg(*errors == '\0', "%s: %s", label, errors);
        ck_assert_uint_eq(good_total("mixed"), old_total + new_total);
    } else {
        files_assert_equal(file_of("mixed"), file_of("old"), label);
        assert_contains(errors, "source profile file is not compatible");
        assert_contains(errors, text_format("Profile Merging of file %s", file_of("mixed")));
    }
}
END_TEST

/* ---- damaged files ---- */

/* The damaged file is named in one line, and is fatal; or it is left out, if that is asked for. */
static void check_left_out(const char *damaged, const char *label)
{
    const char *words = text_format("merge --store store --llvm-profdata %s -o sum.profdata good",
                                    versioned_tool("llvm-profdata", clang_version));
    struct outcome outcome = covsplit_run_words(place, 1, text_format("%s pool", words));
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    assert_contains(outcome.errors, text_format("covsplit: error: %s: ", damaged));
    ck_assert(!file_exists(path_join(place, "sum.profdata")));
    outcome = covsplit_run_words(place, 0, text_format("%s pool --failure-mode=all", words));
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    assert_contains(outcome.errors, text_format("covsplit: warning: %s: ", damaged));
    assert_contains(outcome.errors, "(left out)");
    files_assert_equal(path_join(place, "sum.profdata"), path_join(place, "good.profdata"), label);
    ck_assert_int_eq(remove(path_join(place, "sum.profdata")), 0);
}

static size_t size_without_values(const char *path)
{
    struct raw_profile profile;
    struct verdict verdict = {0};
    raw_profile_read(path, &profile, &verdict);
    verdict_assert(&verdict, path);
    size_t size = profile.file.size - profile.values.size;
    raw_profile_free(&profile);
    return size;
}

/* A file of a pool cut anywhere, and before its values. */
START_TEST(test_damaged)
{
    start();
    build(_i == 0 ? COVERAGE : VALUES, "main.c first.c -o app");
    split("app", "", "split/app");
    run("split/app", "good", 1);
    run("split/app", "pool", 2);
    covsplit_run_words(place, 0,
                       text_format("merge --store store --llvm-profdata %s -o good.profdata good",
                                   versioned_tool("llvm-profdata", clang_version)));
    const char *path = file_of("pool");
    const char *damaged = text_format("pool%s", strrchr(path, '/'));
    struct contents whole = file_read(path);
    size_t before_values = size_without_values(path), step = whole.size / rounds(60) + 1;
    for (size_t size = 1; size < whole.size; size += step) {
        file_write(path, whole.data, size);
        check_left_out(damaged, text_format("cut at %zu", size));
    }
    ck_assert(_i == 0 || before_values != whole.size);
    if (before_values != whole.size) {
        file_write(path, whole.data, before_values);
        check_left_out(damaged, "cut before its values");
    }
}
END_TEST

/* ---- the runtime's functions ---- */

#define CALLS_SOURCE                                                                               \
    "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"                               \
    "uint64_t __llvm_profile_get_size_for_buffer(void);\n"                                         \
    "int __llvm_profile_write_buffer(char *buffer);\n"                                             \
    "int __llvm_profile_check_compatibility(const char *profile, uint64_t size);\n"                \
    "int __llvm_profile_merge_from_buffer(const char *profile, uint64_t size);\n"                  \
    "int __llvm_profile_dump(void);\n"                                                             \
    "void __llvm_profile_reset_counters(void);\n"                                                  \
    "long first_run(long seed);\n"                                                                 \
    "static char foreign[1 << 20];\n"                                                              \
    "int main(int count, char **words) {\n"                                                        \
    "    uint64_t size = __llvm_profile_get_size_for_buffer();\n"                                  \
    "    char *own = malloc(size);\n"                                                              \
    "    first_run(2);\n"                                                                          \
    "    printf(\"write %d\\n\", __llvm_profile_write_buffer(own));\n"                             \
    "    printf(\"own %d\\n\", __llvm_profile_check_compatibility(own, size));\n"                  \
    "    printf(\"cut %d\\n\", __llvm_profile_check_compatibility(own, size / 2) != 0);\n"         \
    "    __llvm_profile_reset_counters();\n"                                                       \
    "    for (int i = 0; i < 2; i++)\n"                                                            \
    "        printf(\"merge %d\\n\", __llvm_profile_merge_from_buffer(own, size) != 0);\n"         \
    "    FILE *file = count > 1 ? fopen(words[1], \"r\") : NULL;\n"                                \
    "    size = file != NULL ? fread(foreign, 1, sizeof foreign, file) : 0;\n"                     \
    "    printf(\"foreign %d\\n\", __llvm_profile_check_compatibility(foreign, size) != 0);\n"     \
    "    first_run(3);\n"                                                                          \
    "    printf(\"dump %d\\n\", __llvm_profile_dump());\n"                                         \
    "    first_run(4);\n"                                                                          \
    "    return 0; }\n"

/* The functions that read and write profiles in memory take those of a split image alike, and none
 * of another kind. */
START_TEST(test_calls)
{
    static const char *const others[] = {"split", "original"};
    start();
    file_write_text(path_join(place, "original/main.c"), CALLS_SOURCE);
    build(COVERAGE, "main.c first.c -o app");
    split("app", "", "split/app");
    const char *outputs[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        outputs[i] = "";
        run(text_format("%s/app", kinds[i]), text_format("foreign-%s", kinds[i]), 0);
    }
    for (size_t i = 0; i < KINDS; i++) {
        for (unsigned round = 0; round < 2; round++) { /* into a new pool, and one begun */
            struct command command = run_of(text_format("%s/app", kinds[i]), kinds[i], 0);
            text_list_add(&command.arguments, file_of(text_format("foreign-%s", others[i])));
            struct outcome outcome = command_expect(&command, 0);
            outputs[i] = text_format("%s%s%s", outputs[i], outcome.output, outcome.errors);
        }
    }
    ck_assert_str_eq(outputs[0], outputs[1]);
    assert_contains(outputs[1], "own 0\ncut 1\nmerge 0\nmerge 0\nforeign 1\ndump 0\n");
}
END_TEST

/* ---- where no file can be written ---- */

static const char *const bad_places[] = {"/dev/full", "/proc/no-such-directory/x.profraw",
                                         "original/main.c/x.profraw", "/proc/version", "original"};

/* The runtime says the same of both images, and neither fails or hangs. */
START_TEST(test_bad_place)
{
    start();
    build(COVERAGE, "main.c first.c -o app");
    split("app", "", "split/app");
    const char *errors[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        struct command command = command_words(place, "%s/%s/app", place, kinds[i]);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", bad_places[_i]);
        errors[i] = command_expect(&command, 0).errors;
    }
    ck_assert_str_eq(errors[0], errors[1]);
    assert_contains(errors[1], "LLVM Profile Error: ");
}
END_TEST

/* On a disk with so much room. LLVM 14's runtime does not see whether what is in
 * stdio's buffer at the end could be written; covsplit does. */
static void check_room(const char *kind, uint64_t room)
{
    const char *pool = text_format("%s-%llu", kind, (unsigned long long)room);
    uint64_t total;
    /* What it says goes through a pipe: there is no room in files. */
    const char *script = text_format("trap '' XFSZ; prlimit --fsize=%llu %s/%s/app 2>&1 | cat",
                                     (unsigned long long)room, place, kind);
    struct command command = {.directory = place};
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, "-c");
    text_list_add(&command.arguments, script);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s/%%m.profraw", place, pool);
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_int_ne(state_of(pool, &total), STATE_GOOD);
    if (outcome.output_size != 0) {
        assert_contains(outcome.output, "LLVM Profile Error: ");
    }
    if (strcmp(kind, "split") == 0) {
        check_refused(pool);
    }
}

START_TEST(test_full)
{
    start();
    build(COVERAGE, "main.c first.c -o app");
    split("app", "", "split/app");
    for (size_t i = 0; i < KINDS; i++) {
        const char *pool = text_format("%s-whole", kinds[i]);
        run(text_format("%s/app", kinds[i]), pool, 0);
        uint64_t size = file_size(file_of(pool));
        for (uint64_t room = 0; room < size; room += size / rounds(100) + 1) {
            check_room(kinds[i], room);
        }
    }
}
END_TEST

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *files = suite_case("files", 600, NULL);
    suite_tests(files, test_calls, test_full);
    suite_loops(files, 4, test_each_moment);
    suite_loops(files, COUNT(pairs), test_other_build);
    suite_loops(files, 2, test_damaged);
    suite_loops(files, COUNT(bad_places), test_bad_place);
    return suite_main(text_format("pool files clang-%s %s", clang_version, linker_name), files);
}
