/*
 * Online merging: many processes at once whose profiles go into one pool (%m, %4m), some of them
 * killed.
 *
 * Each process writes down how often it called each function (tests/fixtures/pool.c). The counts in
 * the pool must be the sums of that: exactly, where nothing is killed; otherwise they have all of
 * those that ended well, and nothing that no process did. The unsplit images do the same beside
 * the split ones: what these keep is never less.
 *
 * Usage: pools CLANG LINKER [MACHINE]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/random.h"

#define CROWD           64
#define SMALL_CROWD     24  /* in an emulator, where not everything is asked for */
#define FUNCTIONS       120 /* more counters than fit into a buffer of stdio */
#define TIMEOUT_SECONDS 600

/* What is in the counters of a function of one block. */
enum counting {
    COUNTING_CALLS,
    COUNTING_COVERED, /* 1 if it was called */
};

struct variant {
    const char *clangs; /* words; NULL: all */
    const char *pattern;
    size_t files; /* in a pool of each image */
    bool has_libraries;
    bool is_continuous;
    enum counting counting;
    /* There are value profiles, which hold some of the values if there are many; and a kill while
     * they are written damages the file. */
    bool has_values;
    struct program program;
};

#define ATOMIC_CONTINUOUS "-mllvm -runtime-counter-relocation -fprofile-update=atomic"

/* Where not all are run, those in even places are left to the latest compiler, which alone may know
 * them, and those in odd ones to the others. */
static const struct variant variants[] = {
    {.pattern = "%m", .files = 1, .has_libraries = true, .program = {.kind = LINK_SHARED}},
    {.pattern = "%4m", .files = 4, .program = {.kind = LINK_NO_PIE}},
    {.pattern = "%m",
     .files = 1,
     .has_libraries = true,
     .has_values = true,
     .program = {.kind = LINK_SHARED, .instrumentation = "-fprofile-generate"}},
    {.pattern = "pool-%4m",
     .files = 4,
     .program = {.kind = LINK_PIE,
                 .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true"}},
    {.pattern = "%c%m",
     .files = 1,
     .has_libraries = true,
     .is_continuous = true,
     .program = {.kind = LINK_SHARED, .compile_options = ATOMIC_CONTINUOUS}},
    {.pattern = "%c%4m",
     .files = 4,
     .is_continuous = true,
     .program = {.kind = LINK_NO_PIE, .compile_options = ATOMIC_CONTINUOUS}},
    {.clangs = "19 22",
     .pattern = "%m",
     .files = 1,
     .counting = COUNTING_COVERED,
     .program = {.kind = LINK_PIE, .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.pattern = "%m", .files = 1, .program = {.kind = LINK_STATIC}},
    {.clangs = "19 22",
     .pattern = "%m",
     .files = 1,
     .has_libraries = true,
     .program = {.kind = LINK_SHARED, .compile_options = "-fcoverage-mcdc"}},
};

#define VARIANT_COUNT (sizeof variants / sizeof *variants)

static const char *clang_version, *linker_name;
static const struct target *target; /* NULL: this machine */
static unsigned crowd_size = CROWD;
static struct variant chosen[VARIANT_COUNT];

static const char *const kinds[] = {"original", "split"};

#define KINDS 2

/* Of the test, which is a process of its own. */
static const struct variant *variant;
static char *place;             /* with a directory for each kind */
static struct text_list images; /* the program first */

/* ---- the program ---- */

static const char *fixture(const char *name)
{
    return path_join(COVSPLIT_FIXTURE_DIRECTORY, name);
}

static struct program program_of_image(const char *image)
{
    struct program program = variant->program;
    const char *options = program.compile_options != NULL ? program.compile_options : "";
    program.compile_options = text_format("%s -DIMAGE=%s", options, image);
    return program;
}

static void build_library(const char *directory, const char *name)
{
    struct program program = program_of_image(name);
    const char *object = text_format("%s.o", name);
    program_compile(&program, directory, fixture("pool_steps.c"), object);
    text_list_add_format(&images, "lib%s.so", name);
    program_link(&program, directory, "-shared", object, images.items[images.count - 1]);
}

static void build(const char *directory)
{
    static const char *const link_options[] = {[LINK_PIE] = "-pie",
                                               [LINK_NO_PIE] = "-no-pie",
                                               [LINK_SHARED] = "-pie",
                                               [LINK_STATIC] = "-static"};
    struct program program = program_of_image("main");
    const char *libraries = "";
    images = (struct text_list){0};
    text_list_add(&images, "pool");
    source_generate(path_join(directory, "first.c"), LANGUAGE_C, "first", FUNCTIONS);
    program_compile(&program, directory, "first.c", "first.o");
    program_compile(&program, directory, fixture("pool.c"), "pool.o");
    program_compile(&program, directory, fixture("pool_steps.c"), "main.o");
    if (variant->has_libraries) {
        build_library(directory, "alpha");
        build_library(directory, "beta");
        libraries = "libalpha.so libbeta.so -Wl,-rpath,$ORIGIN";
    }
    program_link(&program, directory, link_options[program.kind],
                 text_format("pool.o first.o main.o %s", libraries), "pool");
}

static void split_image(const char *image)
{
    covsplit_assert(0, place, "split", "--store", "store", "-o", text_format("split/%s", image),
                    text_format("original/%s", image), NULL);
}

/* Builds the variant's program, and splits its images. */
static void start(const struct variant *one)
{
    variant = one;
    place = scratch_create("pools");
    for (size_t i = 0; i < KINDS; i++) {
        directory_create(path_join(place, kinds[i]));
    }
    build(path_join(place, "original"));
    for (size_t i = 0; i < images.count; i++) {
        split_image(images.items[i]);
    }
}

/* ---- processes ---- */

/* KIND/NAME, the directory of a pool with the record of its processes. */
static const char *pool_path(const char *kind, const char *name)
{
    return text_format("%s/%s-%s", place, kind, name);
}

static struct command process(const char *kind, const char *pool, unsigned number, const char *end)
{
    struct command command = {.directory = place};
    text_list_add_words(&command.arguments, target != NULL ? target_emulator(target) : "");
    text_list_add_format(&command.arguments, "%s/%s/pool", place, kind);
    text_list_add_format(&command.arguments, "%s.record", pool_path(kind, pool));
    text_list_add_format(&command.arguments, "%u", number);
    text_list_add_words(&command.arguments, end);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s.profraw",
                         pool_path(kind, pool), variant->pattern);
    return command;
}

/* What became of the counts of a process. */
enum end {
    END_WELL,  /* they are in the pool */
    END_NEVER, /* they are not: it was killed before */
    END_MAYBE, /* killed, or it could not write */
};

struct crowd {
    const char *ends[CROWD]; /* how the processes are told to end */
    enum end became[CROWD];
};

/* What the runtime says, but for that it has no locks. */
static const char *complaints(const struct outcome *outcome)
{
    struct text_list lines = text_list_of_lines(outcome->errors);
    const char *rest = "";
    for (size_t i = 0; i < lines.count; i++) {
        if (target == NULL || !target->lacks_locks ||
            strstr(lines.items[i], ": lack file locking") == NULL) {
            rest = text_format("%s%s\n", rest, lines.items[i]);
        }
    }
    return rest;
}

static enum end end_of(const struct command *command, const struct outcome *outcome,
                       const char *told)
{
    bool was_killed = outcome->signal != 0;
    ck_assert_msg(was_killed || outcome->exit_code == 0, "%s", outcome_describe(command, outcome));
    if (was_killed && strcmp(told, "raise") == 0) {
        return variant->is_continuous ? END_WELL : END_NEVER;
    }
    /* The runtime does not see whether what is in stdio's buffer could be written. */
    if (was_killed || strncmp(told, "full", 4) == 0) {
        return END_MAYBE;
    }
    const char *errors = complaints(outcome);
    if (*errors == '\0') {
        return END_WELL;
    }
    assert_contains(errors, "LLVM Profile");
    return END_MAYBE;
}

/* All at once, if the runtime can. */
static void run_crowd(const char *kind, const char *pool, struct crowd *crowd)
{
    struct command commands[CROWD];
    struct outcome outcomes[CROWD];
    for (unsigned i = 0; i < crowd_size; i++) {
        commands[i] = process(kind, pool, i, crowd->ends[i]);
    }
    unsigned together = target != NULL && target->lacks_locks ? 1 : crowd_size;
    for (unsigned i = 0; i < crowd_size; i += together) {
        commands_run_together(&commands[i], together, &outcomes[i]);
    }
    for (unsigned i = 0; i < crowd_size; i++) {
        crowd->became[i] = end_of(&commands[i], &outcomes[i], crowd->ends[i]);
    }
}

/* ---- counts ---- */

#define COUNTED_MAX 16

/* The calls of a function: those that must be in the pool, and those that may be there. */
struct counted {
    char name[32];
    unsigned long sure, most;
};

struct tally {
    struct counted functions[COUNTED_MAX];
    size_t count;
};

static struct counted *tally_find(struct tally *tally, const char *name)
{
    for (size_t i = 0; i < tally->count; i++) {
        if (strcmp(tally->functions[i].name, name) == 0) {
            return &tally->functions[i];
        }
    }
    ck_assert_uint_lt(tally->count, COUNTED_MAX);
    struct counted *added = &tally->functions[tally->count++];
    *added = (struct counted){0};
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

/* What the processes have written down. */
static struct tally read_record(const char *kind, const char *pool, const struct crowd *crowd)
{
    struct contents record = file_read(text_format("%s.record", pool_path(kind, pool)));
    struct text_list lines =
        text_list_of_lines(text_format("%.*s", (int)record.size, (char *)record.data));
    struct tally tally = {0};
    for (size_t i = 0; i < lines.count; i++) {
        unsigned number, calls;
        char name[32];
        ck_assert_int_eq(sscanf(lines.items[i], "%u %31s %u", &number, name, &calls), 3);
        ck_assert_uint_lt(number, crowd_size);
        struct counted *function = tally_find(&tally, name);
        enum end end = crowd->became[number];
        function->sure += end == END_WELL ? calls : 0;
        function->most += end != END_NEVER ? calls : 0;
    }
    ck_assert_uint_eq(tally.count, 4 * images.count);
    return tally;
}

/* What the profiles of a pool add up to, without those that are damaged. */
struct sum {
    const char *path; /* NULL: they all are */
    bool is_whole;    /* none is */
};

static struct sum merge(const char *kind, const char *pool)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    const char *output = text_format("%s.profdata", pool_path(kind, pool));
    struct command command =
        strcmp(kind, "split") == 0
            ? covsplit_words(place, text_format("merge --failure-mode=all --store store "
                                                "--llvm-profdata %s -o %s %s",
                                                profdata, output, pool_path(kind, pool)))
            : command_words(place, "%s merge --failure-mode=all -o %s %s", profdata, output,
                            pool_path(kind, pool));
    struct outcome outcome = command_run(&command);
    bool exists = file_exists(output);
    ck_assert_msg(outcome_exited(&outcome, exists ? 0 : 1), "%s",
                  outcome_describe(&command, &outcome));
    return (struct sum){exists ? output : NULL, outcome.errors_size == 0};
}

/* What llvm-profdata says of them. */
static const char *counts_text(const struct sum *sum)
{
    return sum->path == NULL ? ""
                             : run_or_abort(place, versioned_tool("llvm-profdata", clang_version),
                                            "show", "--counts", "--all-functions", sum->path, NULL);
}

/* The first counter of a function; 0 if it has no profile. */
static unsigned long count_in(const char *text, const char *function)
{
    const char *found = strstr(text, text_format("\n  %s:\n", function));
    if (found == NULL) {
        return 0;
    }
    const char *first = strstr(found, "Function count: ");
    const char *others = strstr(found, "Block counts: [");
    ck_assert_ptr_nonnull(others);
    const char *number = first != NULL && first < others ? first + strlen("Function count: ")
                                                         : others + strlen("Block counts: [");
    return strtoul(number, NULL, 10);
}

static void check_counts(const char *kind, const char *pool, const struct sum *sum,
                         const struct tally *tally)
{
    const char *text = counts_text(sum);
    for (size_t i = 0; i < tally->count; i++) {
        const struct counted *function = &tally->functions[i];
        bool covers = variant->counting == COUNTING_COVERED;
        unsigned long count = count_in(text, function->name);
        unsigned long most = covers ? function->most != 0 : function->most;
        unsigned long least = covers ? function->sure != 0 : function->sure;
        if (count == 0 && variant->has_values && !sum->is_whole) {
            continue;
        }
        ck_assert_msg(count >= least && count <= most,
                      "%s, %s %s: %s was called %lu to %lu times, and the pool has %lu",
                      program_describe(&variant->program), kind, pool, function->name, least, most,
                      count);
    }
}

/* ---- crowds ---- */

static struct crowd peaceful_crowd(void)
{
    bool forks = !variant->is_continuous && (target == NULL || !target->cannot_fork);
    struct crowd crowd = {0};
    for (unsigned i = 0; i < crowd_size; i++) {
        crowd.ends[i] = i % 8 == 3 && forks ? "fork" : "exit";
    }
    return crowd;
}

/* Half of them are killed: before they write, in the middle of a write, or at any time. */
static struct crowd deadly_crowd(struct random_state *random)
{
    struct crowd crowd = peaceful_crowd();
    for (unsigned i = 0; i < crowd_size; i += 2) {
        unsigned way = (unsigned)random_below(random, 4);
        if (way == 0 || variant->is_continuous) {
            crowd.ends[i] = "raise";
        } else if (way == 1) {
            crowd.ends[i] = text_format("timer %u", (unsigned)random_below(random, 60000));
        } else {
            crowd.ends[i] = text_format("%s %u", way == 2 ? "limit" : "full",
                                        (unsigned)random_below(random, 6000));
        }
    }
    return crowd;
}

/* Runs a crowd, and checks what is then in the pool. */
static struct sum check_crowd(const char *kind, const char *pool, struct crowd *crowd)
{
    run_crowd(kind, pool, crowd);
    struct tally tally = read_record(kind, pool, crowd);
    struct sum sum = merge(kind, pool);
    check_counts(kind, pool, &sum, &tally);
    return sum;
}

START_TEST(test_all_counts)
{
    start(&chosen[_i]);
    struct sum sums[KINDS];
    for (size_t i = 0; i < KINDS; i++) {
        struct crowd crowd = peaceful_crowd();
        sums[i] = check_crowd(kinds[i], "all", &crowd);
        ck_assert(sums[i].is_whole);
        size_t files = directory_list(pool_path(kinds[i], "all")).count;
        ck_assert_uint_le(files, images.count * variant->files);
        if (crowd_size == CROWD) { /* so many that all files are used */
            ck_assert_uint_eq(files, images.count * variant->files);
        }
        for (unsigned j = 0; j < crowd_size; j++) {
            ck_assert_int_eq(crowd.became[j], END_WELL);
        }
    }
    ck_assert_str_eq(counts_text(&sums[0]), counts_text(&sums[1]));
    if (!variant->has_values) {
        files_assert_equal(sums[0].path, sums[1].path, program_describe(&variant->program));
    }
}
END_TEST

START_TEST(test_killed)
{
    start(&chosen[_i]);
    struct random_state random = random_start((uint64_t)_i);
    for (unsigned round = 0; round < rounds(target == NULL ? 8 : 2); round++) {
        struct crowd told = deadly_crowd(&random);
        for (size_t i = 0; i < KINDS; i++) {
            struct crowd crowd = told;
            check_crowd(kinds[i], text_format("killed-%u", round), &crowd);
        }
    }
}
END_TEST

static bool is_chosen(unsigned number)
{
    unsigned older = strcmp(clang_version, "22") != 0;
    return target != NULL ? rounds_have(number, 5) : rounds_have(number + older, 2);
}

static int choose_variants(void)
{
    int count = 0;
    for (size_t i = 0; i < VARIANT_COUNT; i++) {
        struct text_list clangs = {0};
        text_list_add_words(&clangs,
                            variants[i].clangs != NULL ? variants[i].clangs : clang_version);
        if (text_list_contains(&clangs, clang_version) && is_chosen((unsigned)i)) {
            chosen[count] = variants[i];
            chosen[count].program.clang = clang_version;
            chosen[count].program.linker = linker_name;
            chosen[count].program.target = target;
            chosen[count].program.optimization = "-O1";
            count++;
        }
        text_list_free(&clangs);
    }
    return count;
}

int main(int argument_count, char **arguments)
{
    const char *machine = "this machine";
    if (argument_count == 4) {
        machine = arguments[--argument_count];
        target = target_find(machine);
        crowd_size = rounds_are_all() ? CROWD : SMALL_CROWD;
    }
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *crowds = suite_case("crowds", TIMEOUT_SECONDS, NULL);
    suite_loops(crowds, choose_variants(), test_all_counts, test_killed);
    return suite_main(text_format("pools clang-%s %s %s", clang_version, linker_name, machine),
                      crowds);
}
