/*
 * What goes wrong while profiles are added to a state: kills at every system call of adding,
 * folding and finishing what others left, and many writers at once. Afterwards the state has the
 * profiles of each command wholly or not at all, and the next command gets to its end. Calls that
 * fail are a part of fault_sweep.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"
#include "tests/support/sample.h"

#define FUNCTIONS 20
#define PROFILES  5
#define SEED      5
#define WRITERS   16

/* Before it a command has done nothing but load its libraries. */
#define FIRST_STOP 60
#define ADDING     "merge -j1 --store store --into STATE 4.profraw 3.profraw"

/* Moments are what these tests are about: how many they meet where not everything is asked for does
 * not depend on how many rounds others run. */
static unsigned all_or(unsigned all, unsigned daily)
{
    return rounds_are_all() ? all : daily;
}

static char *scratch;

/* 1.profraw to 5.profraw, and of these, states: `base` has the first, `left` has also the second,
 * in a batch that was committed by a process which was killed then. */
static void prepare(void)
{
    struct program program = {.clang = "19",
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .functions = FUNCTIONS};

    scratch = scratch_create("state-faults");
    program_build(&program, scratch);
    run_or_abort(scratch, "sh", "-c",
                 "$0 split --store store -o split program || exit 1\n"
                 "for i in 1 2 3 4 5; do LLVM_PROFILE_FILE=$i.profraw ./split $i; done\n"
                 "$0 merge --store store --into base 1.profraw",
                 covsplit_path(), NULL);
    state_leave_batch(scratch, "base", "2.profraw");
}

static void reset(const char *from)
{
    directory_remove(path_join(scratch, "STATE"));
    run_or_abort(scratch, "cp", "-a", from, "STATE", NULL);
}

/* The counters of what is merged. */
static struct contents counters_of(const char *words)
{
    struct raw_profile profile;
    struct verdict verdict = {0};
    struct contents counters;

    covsplit_run_words(scratch, 0, text_format("merge --store store -o read.profraw %s", words));
    ck_assert(raw_profile_read(path_join(scratch, "read.profraw"), &profile, &verdict));
    counters.size = profile.counters.size;
    counters.data = malloc(counters.size);
    memcpy(counters.data, profile.counters.data, counters.size);
    raw_profile_free(&profile);
    return counters;
}

/* Those of profiles, which are merged once for each test. */
static const struct contents *counters_of_profiles(const char *words)
{
    static struct {
        const char *words;
        struct contents counters;
    } known[8];
    size_t i = 0;

    while (known[i].words != NULL && strcmp(known[i].words, words) != 0)
        i++;
    ck_assert_uint_lt(i, 7);
    if (known[i].words == NULL) {
        known[i].words = text_format("%s", words);
        known[i].counters = counters_of(words);
    }
    return &known[i].counters;
}

static bool state_has(const char *profiles)
{
    struct contents found = counters_of("STATE");
    bool equal = contents_equal(&found, counters_of_profiles(profiles));

    contents_free(&found);
    return equal;
}

/* Nothing but the image is left. */
static void assert_clean(const char *label)
{
    ck_assert_msg(directory_list(path_join(scratch, "STATE/batches")).count == 0, "%s", label);
    ck_assert_msg(directory_list(path_join(scratch, "STATE/images")).count == 1, "%s", label);
    ck_assert_msg(directory_list(path_join(scratch, "STATE")).count == 3, "%s", label);
}

/* ---- kills ---- */

static const struct kill_case {
    const char *from;
    const char *before, *after; /* the profiles that count */
    enum restriction restriction;
} kill_cases[] = {
    {"base", "1.profraw", "1.profraw 3.profraw 4.profraw", RESTRICTION_NONE},
    {"left", "1.profraw 2.profraw", "1.profraw 2.profraw 3.profraw 4.profraw", RESTRICTION_NONE},
    {"left", "1.profraw 2.profraw", "1.profraw 2.profraw 3.profraw 4.profraw",
     RESTRICTION_NO_UNNAMED},
    {"left", "1.profraw 2.profraw", "1.profraw 2.profraw 3.profraw 4.profraw",
     RESTRICTION_NO_NOREPLACE},
};

/* From any moment on, all is there, and before it nothing; the next command finishes the rest. */
START_TEST(test_every_system_call)
{
    const struct kill_case *kase = &kill_cases[_i];
    struct command plain = covsplit_words(scratch, ADDING);
    struct command command =
        kase->restriction == RESTRICTION_NONE ? plain : command_restrict(&plain, kase->restriction);
    struct traced adding = {.was_stopped = true};
    unsigned stops = FIRST_STOP, early = 0, late = 0;
    unsigned step = all_or(1, 10);

    if (kase->restriction != RESTRICTION_NONE)
        step *= all_or(3, 6);
    while (adding.was_stopped) {
        const char *label;
        bool is_after;

        reset(kase->from);
        stops += step;
        adding = command_trace_and_kill(&command, stops);
        label = text_format("case %d, stop %u", _i, stops);
        is_after = state_has(kase->after);
        ck_assert_msg(is_after || state_has(kase->before), "%s", label);
        ck_assert_msg(adding.was_stopped || (adding.exit_code == 0 && is_after), "%s", label);
        ck_assert_msg(is_after || late == 0, "%s: it counted before", label);
        early += !is_after;
        late += is_after;
        if (stops / step % 4 != 0 && !is_after)
            continue;
        covsplit_run_words(scratch, 0, "merge --store store --into STATE 5.profraw");
        ck_assert_msg(state_has(text_format("%s 5.profraw", is_after ? kase->after : kase->before)),
                      "%s", label);
        assert_clean(label);
    }
    ck_assert_uint_gt(early, 3);
    ck_assert_uint_gt(late, 3);
    command_free(&command);
}
END_TEST

/* A state that is being created. */
START_TEST(test_creation)
{
    struct command command = covsplit_words(scratch, ADDING);
    struct traced adding = {.was_stopped = true};

    for (unsigned stops = FIRST_STOP; adding.was_stopped; stops += all_or(4, 20)) {
        bool has_state;

        directory_remove(path_join(scratch, "STATE"));
        adding = command_trace_and_kill(&command, stops);
        has_state = file_exists(path_join(scratch, "STATE/covsplit-state"));
        covsplit_run_words(scratch, 0, "merge --store store --into STATE 5.profraw");
        ck_assert_msg(state_has("5.profraw") ||
                          (has_state && state_has("3.profraw 4.profraw 5.profraw")),
                      "stop %u", stops);
        run_or_abort(scratch, "find", "STATE", "-maxdepth", "1", "-name", ".covsplit*", "-delete",
                     NULL);
        assert_clean(text_format("stop %u", stops));
    }
}
END_TEST

/* ---- many writers ---- */

/* Each adds a profile as often as it can, and writes down when it did. */
static struct command start_writers(unsigned times)
{
    struct command command = {.directory = scratch};

    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments,
                  text_format("for writer in $(seq %u); do (for i in $(seq %u); do "
                              "\"$0\" merge -j1 --store store --into STATE 1.profraw && echo done "
                              ">>log-$writer; done) & done; wait",
                              WRITERS, times));
    text_list_add(&command.arguments, covsplit_path());
    return command;
}

static unsigned count_done(void)
{
    return (unsigned)strtoul(
        run_or_abort(scratch, "sh", "-c", "cat log-* /dev/null | wc -l; rm -f log-*", NULL), NULL,
        10);
}

/* In how many profiles of the same run the counters are. */
static unsigned count_in_state(void)
{
    struct contents found = counters_of("STATE");
    const struct contents *one = counters_of_profiles("1.profraw");
    uint64_t sum, each, times = 0;

    for (size_t i = 0; i + 8 <= one->size; i += 8) {
        memcpy(&sum, found.data + i, 8);
        memcpy(&each, one->data + i, 8);
        if (each == 0) {
            ck_assert_uint_eq(sum, 0);
            continue;
        }
        ck_assert_uint_eq(sum % each, 0);
        ck_assert(times == 0 || times == sum / each);
        times = sum / each;
    }
    contents_free(&found);
    return (unsigned)times;
}

START_TEST(test_many_writers)
{
    unsigned times = all_or(20, 4);
    struct command command = start_writers(times);
    pid_t process;

    reset("base");
    count_done();
    process = command_start(&command);
    /* Whoever reads meanwhile sees whole batches. */
    for (unsigned i = 0, last = 1; i < 10; i++) {
        unsigned now = count_in_state();

        ck_assert_uint_ge(now, last);
        last = now;
    }
    ck_assert_int_eq(waitpid(process, NULL, 0), process);
    ck_assert_uint_eq(count_done(), WRITERS * times);
    ck_assert_uint_eq(count_in_state(), 1 + WRITERS * times);
    assert_clean("many writers");
}
END_TEST

/* Of those that are killed one is not written down, at most, for each writer. */
START_TEST(test_killed_writers)
{
    struct command command = start_writers(1000);
    struct random_state random = random_start(SEED);
    unsigned done = 1, kills = all_or(50, 10);

    reset("base");
    count_done();
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (unsigned i = 0; i < kills; i++) {
        struct timespec delay = {0, (long)(50 + random_below(&random, 300)) * 1000000};
        pid_t process = command_start(&command);
        unsigned found, noted;

        nanosleep(&delay, NULL);
        kill(-process, SIGKILL);
        while (waitpid(-process, NULL, 0) > 0)
            continue;
        noted = count_done();
        found = count_in_state();
        ck_assert_msg(found >= done + noted && found <= done + noted + WRITERS,
                      "kill %u: %u in the state, %u before, and %u written down", i, found, done,
                      noted);
        done = found;
    }
    covsplit_run_words(scratch, 0, "merge --store store --into STATE 1.profraw");
    ck_assert_uint_eq(count_in_state(), done + 1);
    assert_clean("killed writers");
    ck_assert_uint_gt(done, kills);
}
END_TEST

int main(int count, char **words)
{
    TCase *kills = suite_case("kills", 1500, NULL), *writers = suite_case("writers", 600, NULL);

    restriction_enter(count, words);
    hostile_in_memory();
    tcase_add_unchecked_fixture(kills, prepare, NULL);
    suite_loops(kills, sizeof kill_cases / sizeof *kill_cases, test_every_system_call);
    suite_tests(kills, test_creation);
    tcase_add_unchecked_fixture(writers, prepare, NULL);
    suite_tests(writers, test_many_writers, test_killed_writers);
    return suite_main("faults of states", kills, writers);
}
