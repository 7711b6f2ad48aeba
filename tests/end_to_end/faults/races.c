/*
 * Files that others replace or cut short while covsplit works on them, and signals that end it:
 * what was not read is not replaced, no result is made of half a file, and nothing is left behind.
 *
 * Each comes at system calls all along the way, before or after them.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 20
#define START_STOPS      100 /* before the command comes to any file of ours */
#define STOPS_MIN        50
#define STEPS_MIN        20
#define LAST_STOPS       120 /* in which the outputs get their names */
#define PAGE             4096

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("races", SAMPLE_FUNCTIONS);
    sample_split(&sample);
}

/* A sanitizer adds system calls of its own, and time. */
static unsigned long stride(void)
{
    return (covsplit_is_sanitized() ? 13 : 3) * rounds_step();
}

/* A stride with which the command has STEPS_MIN steps at least, however few rounds are asked for:
 * what is done to its files can only show in a part of its stops. It is run once, undisturbed. */
static unsigned long stride_within(const struct command *command, unsigned long wanted)
{
    unsigned long stops = command_trace(command, ULONG_MAX, NULL, NULL).stops;
    ck_assert_uint_ge(stops, START_STOPS + STEPS_MIN);
    unsigned long largest = (stops - START_STOPS) / STEPS_MIN;
    return wanted < largest ? wanted : largest;
}

static bool is_same(const char *path, const char *other)
{
    struct verdict verdict = {0};
    return files_equal(path, other, &verdict);
}

/* One line, which names the file. */
static void assert_names(const struct traced *traced, const char *name, unsigned long stops)
{
    bool is_error = strncmp(traced->errors, "covsplit: error: ", 17) == 0;
    const char *end = strchr(traced->errors, '\n');
    ck_assert_msg(is_error && end != NULL && end[1] == '\0' && strstr(traced->errors, name) != NULL,
                  "stop %lu: %s", stops, traced->errors);
}

/* ---- replaced ---- */

struct replacing {
    char *directory;
    char *image;
    const char *before; /* what `image` is at first */
    const char *other;  /* what it becomes */
};

/* As linkers do: the new file is whole when it gets its name. */
static void replace(void *context)
{
    const struct replacing *replacing = context;
    char *made = path_join(replacing->directory, "made");
    file_copy(replacing->other, made);
    ck_assert_int_eq(rename(made, replacing->image), 0);
}

/* Between the last look at what is there and the rename nobody can look: these two stops. */
#define BLIND_STOPS 2

/* Runs the command again and again with the image replaced meanwhile, which then must be there. */
static void replace_at_every_moment(struct replacing *replacing, const char *words)
{
    struct command command = covsplit_words(replacing->directory, words);
    char *sidecar = text_format("%s.covsplit", replacing->image);
    bool has_sidecar = file_exists(sidecar);
    unsigned long stops = START_STOPS, refused = 0, blind = 0;
    struct traced traced = {.was_stopped = true};
    for (;;) {
        file_copy(replacing->before, replacing->image);
        if (!has_sidecar) {
            unlink(sidecar);
        }
        stops += stride();
        traced = command_trace(&command, stops, replace, replacing);
        if (!traced.was_stopped) {
            break;
        }
        if (traced.exit_code == 0) {
            blind += !is_same(replacing->image, replacing->other);
            continue;
        }
        refused++;
        ck_assert_int_eq(traced.exit_code, 1);
        assert_names(&traced, "app", stops);
        ck_assert_msg(is_same(replacing->image, replacing->other), "stop %lu: replaced", stops);
        ck_assert_msg(file_exists(sidecar) == has_sidecar, "stop %lu: sidecar", stops);
        ck_assert_uint_eq(directory_list(replacing->directory).count, has_sidecar ? 2 : 1);
    }
    ck_assert_int_eq(traced.exit_code, 0);
    ck_assert_uint_gt(refused * stride(), STOPS_MIN);
    ck_assert_uint_le(blind, BLIND_STOPS);
}

static char *make_other(void)
{
    char *other = path_join(sample.scratch, "other");
    file_copy(sample.image, other);
    run_or_abort(sample.scratch, "sh", "-c", "echo another build >> other", NULL);
    return other;
}

START_TEST(test_split_in_place)
{
    char *directory = sample_directory(&sample);
    struct replacing replacing = {.directory = directory,
                                  .image = path_join(directory, "app"),
                                  .before = sample.image,
                                  .other = make_other()};
    replace_at_every_moment(&replacing, "split -j1 app");
}
END_TEST

START_TEST(test_join_in_place)
{
    char *directory = sample_directory(&sample);
    struct replacing replacing = {.directory = directory,
                                  .image = path_join(directory, "app"),
                                  .before = sample.stripped,
                                  .other = make_other()};
    file_copy(sample.sidecar, path_join(directory, "app.covsplit"));
    replace_at_every_moment(&replacing, "join -o app app");
}
END_TEST

/* A link that fails since its output has become that of another one, which stays. */
START_TEST(test_link)
{
    char *directory = sample_directory(&sample);
    struct replacing replacing = {
        .directory = directory, .image = path_join(directory, "app"), .other = sample.stripped};
    struct command command =
        covsplit_command(directory, "link", "--", "sh", "../linker", "-o", "app", NULL);
    unsigned long failed = 0;
    struct traced traced = {.was_stopped = true};
    file_write_text(path_join(sample.scratch, "linker"),
                    text_format("rm -f app && cp %s app\n", sample.image));
    unsigned long step = stride_within(&command, stride());
    for (unsigned long stops = START_STOPS; traced.was_stopped; stops += step) {
        traced = command_trace(&command, stops, replace, &replacing);
        if (traced.exit_code == 0) {
            continue;
        }
        failed++;
        ck_assert_msg(file_exists(replacing.image) && is_same(replacing.image, replacing.other),
                      "stop %lu: %s", stops, traced.errors);
    }
    ck_assert_uint_gt(failed, 1);
}
END_TEST

/* Not another file, but other contents, or another mode. */
static void write_over(void *context)
{
    const struct replacing *replacing = context;
    run_or_abort(replacing->directory, "sh", "-c", "echo more >> app", NULL);
}

static void change_mode(void *context)
{
    const struct replacing *replacing = context;
    ck_assert_int_eq(chmod(replacing->image, 0700), 0);
}

START_TEST(test_changed_in_place)
{
    static void (*const acts[])(void *context) = {write_over, change_mode};
    char *directory = sample_directory(&sample), *image = path_join(directory, "app");
    struct replacing replacing = {.directory = directory, .image = image};
    struct command command = covsplit_command(directory, "split", "-j1", "app", NULL);
    unsigned long refused = 0;
    struct traced traced = {.was_stopped = true};
    sample_copy(&sample, directory, "app");
    unsigned long step = stride_within(&command, 3 * stride() + 1);
    for (unsigned long stops = START_STOPS; traced.was_stopped; stops += step) {
        unlink(image);
        sample_copy(&sample, directory, "app");
        unlink(path_join(directory, "app.covsplit"));
        traced = command_trace(&command, stops, acts[_i], &replacing);
        if (traced.exit_code == 0) {
            continue;
        }
        refused++;
        ck_assert_msg(traced.exit_code == 1, "stop %lu: exit %d", stops, traced.exit_code);
        assert_names(&traced, "app", stops);
        ck_assert_uint_eq(directory_list(directory).count, 1);
        ck_assert_uint_ge(file_size(image), file_size(sample.image));
        ck_assert_uint_eq(file_status(image).st_mode & 07777, _i == 0 ? 0755 : 0700);
    }
    ck_assert_uint_gt(refused, 1);
}
END_TEST

/* Every 64th byte, which changes whatever is made of the image. */
static void write_inside(void *context)
{
    const struct replacing *replacing = context;
    struct contents contents = file_read(replacing->image);
    FILE *file = fopen(replacing->image, "r+b");
    ck_assert_ptr_nonnull(file);
    for (size_t i = PAGE; i < contents.size; i += 64) {
        contents.data[i] ^= 1;
    }
    ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
    ck_assert_int_eq(fclose(file), 0);
    contents_free(&contents);
}

/* With outputs elsewhere, too: they are of the image as it was, or as it is now, or there are none.
 */
START_TEST(test_changed_elsewhere)
{
    static void (*const acts[])(void *context) = {write_over, write_inside};
    char *directory = sample_directory(&sample), *image = path_join(directory, "app");
    char *out = path_join(directory, "out"), *side = path_join(directory, "side");
    struct replacing replacing = {.directory = directory, .image = image};
    struct command command = covsplit_words(directory, "split -j1 -o out --sidecar side app");
    unsigned long refused = 0;
    struct traced traced = {.was_stopped = true};
    sample_copy(&sample, directory, "app");
    unsigned long step = stride_within(&command, 3 * stride() + 1);
    for (unsigned long stops = START_STOPS; traced.was_stopped; stops += step) {
        sample_copy(&sample, directory, "app");
        unlink(out);
        unlink(side);
        traced = command_trace(&command, stops, acts[_i], &replacing);
        if (traced.exit_code == 0) {
            covsplit_run_words(directory, 0, "join --sidecar side -o out out");
            ck_assert_msg(is_same(out, sample.image) || is_same(out, image), "stop %lu", stops);
            continue;
        }
        refused++;
        ck_assert_msg(traced.exit_code == 1, "stop %lu: exit %d", stops, traced.exit_code);
        assert_names(&traced, "app: ", stops);
        ck_assert_uint_eq(directory_list(directory).count, 1);
    }
    ck_assert_uint_gt(refused, 1);
}
END_TEST

/* ---- two at once ---- */

/* Another process splits the same image, in another way or in the same, while this one does. Not
 * when that is done: then the first may hold the lock of its own profile, where it writes one. */
static void split_too(void *context)
{
    const struct command *other = context;
    if (!is_same(path_join(other->directory, "app"), sample.image)) {
        return;
    }
    struct outcome outcome = command_run(other);
    ck_assert_msg(outcome_exited(&outcome, 0) || outcome_exited(&outcome, 1), "%s",
                  outcome_describe(other, &outcome));
    outcome_free(&outcome);
}

/* The image that is there, split or not, can be joined with the sidecar that is there. */
static void assert_whole(const char *directory, unsigned long stops)
{
    char *image = path_join(directory, "app"), *joined = path_join(directory, "joined");
    if (is_same(image, sample.image)) {
        return;
    }
    struct command join = covsplit_words(directory, "join -o joined app");
    if (file_exists(path_join(directory, "store"))) {
        join = covsplit_words(directory, "join --store store -o joined app");
    }
    struct outcome outcome = command_run(&join);
    ck_assert_msg(outcome_exited(&outcome, 0), "stop %lu: %s", stops, outcome.errors);
    outcome_free(&outcome);
    ck_assert_msg(is_same(joined, sample.image), "stop %lu: another image", stops);
    unlink(joined);
}

/* What both do: the second starts when the first is about to name its outputs. */
START_TEST(test_two_at_once)
{
    static const char *const words[][2] = {
        {"split -j1 app", "split -j1 app"},
        {"split -j1 app", "split -j1 --sections names app"},
        {"split -j1 --store store --replace app",
         "split -j1 --store store --replace --sections names app"},
    };
    char *directory = sample_directory(&sample), *image = path_join(directory, "app");
    struct command one = covsplit_words(directory, words[_i][0]);
    struct command other = covsplit_words(directory, words[_i][1]);
    struct traced traced = {.was_stopped = true};
    file_copy(sample.image, image);
    unsigned long end = command_trace(&one, ULONG_MAX, NULL, NULL).stops;
    ck_assert_uint_gt(end, LAST_STOPS);
    for (unsigned long stops = end - LAST_STOPS; traced.was_stopped; stops += rounds_step()) {
        run_or_abort(directory, "sh", "-c", "rm -rf app.covsplit store", NULL);
        file_copy(sample.image, image);
        traced = command_trace(&one, stops, split_too, &other);
        ck_assert_msg(traced.exit_code == 0 || traced.exit_code == 1, "stop %lu: exit %d", stops,
                      traced.exit_code);
        assert_whole(directory, stops);
    }
}
END_TEST

/* ---- cut short ---- */

static void cut_short(void *context)
{
    ck_assert_int_eq(truncate(context, PAGE), 0);
}

struct cut {
    char *directory;
    char *input;
    const char *whole; /* what `input` is at first */
    size_t files;      /* that are there besides */
    unsigned long done, refused;
};

/* Runs the command again and again with the input cut short meanwhile. It makes `out`, of all of
 * the input, or nothing. */
static void cut_at_every_moment(struct cut *cut, const char *words, enum restriction restriction,
                                unsigned long step)
{
    struct command plain = covsplit_words(cut->directory, words);
    struct command command =
        restriction == RESTRICTION_NONE ? plain : command_restrict(&plain, restriction);
    char *out = path_join(cut->directory, "out"), *side = path_join(cut->directory, "side");
    char *good = path_join(sample.scratch, "good");
    command_run_or_abort(&plain);
    file_copy(out, good);
    struct traced traced = {.was_stopped = true};
    for (unsigned long stops = START_STOPS; traced.was_stopped; stops += step) {
        file_copy(cut->whole, cut->input);
        unlink(out);
        unlink(side);
        traced = command_trace(&command, stops, cut_short, cut->input);
        if (traced.exit_code == 0) {
            cut->done++;
            ck_assert_msg(is_same(out, good), "stop %lu: out", stops);
            continue;
        }
        cut->refused++;
        ck_assert_msg(traced.exit_code == 1, "stop %lu: exit %d", stops, traced.exit_code);
        assert_names(&traced, strrchr(cut->input, '/') + 1, stops);
        ck_assert_msg(directory_list(cut->directory).count == 1 + cut->files,
                      "stop %lu: left behind, or made", stops);
    }
    ck_assert_uint_gt(cut->refused * step, STOPS_MIN / 2);
    ck_assert_uint_gt(cut->done, 0);
}

START_TEST(test_image_cut_short)
{
    char *directory = sample_directory(&sample);
    struct cut cut = {.directory = directory,
                      .input = sample_copy(&sample, directory, "app"),
                      .whole = sample.image};
    cut_at_every_moment(&cut, "split -j1 -o out --sidecar side app",
                        _i == 0 ? RESTRICTION_NONE : RESTRICTION_NO_UNNAMED, stride());
}
END_TEST

/* So large that parts of it are written right from where it is mapped, and the kernel finds that
 * they are gone. */
START_TEST(test_large_input_cut_short)
{
    char *directory = sample_directory(&sample);
    char *app = path_join(directory, "app"), *whole = path_join(sample.scratch, "large");
    file_write_text(path_join(sample.scratch, "large.c"),
                    "char large[4 << 20] = {1}; int main(void) { return large[0] - 1; }\n");
    run_or_abort(sample.scratch, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "large.c", "-o", "large", NULL);
    struct cut cut = {.directory = directory, .input = app, .whole = whole};
    file_copy(whole, app);
    cut_at_every_moment(&cut, "split -j1 -o out --sidecar side app", RESTRICTION_NO_UNNAMED,
                        stride());
    unlink(path_join(directory, "side"));
    file_copy(whole, path_join(sample.scratch, "app"));
    run_or_abort(sample.scratch, covsplit_path(), "split", "-o", "stripped", "app", NULL);
    struct cut join = {
        .directory = directory, .input = app, .whole = path_join(sample.scratch, "stripped")};
    file_copy(join.whole, app);
    cut_at_every_moment(&join, "join --sidecar ../app.covsplit -o out app", RESTRICTION_NO_UNNAMED,
                        stride());
}
END_TEST

/* ---- signals ---- */

struct place {
    enum restriction restriction;
    const char *name; /* of the image */
    unsigned long step;
};

/* Where outputs have names while they are written, and where they get one for a moment. The last
 * name is like that of an output that is being written, but it is that of a finished one. */
static const struct place places[] = {
    {RESTRICTION_NO_UNNAMED, "app", 7},
    {RESTRICTION_NONE, "app", 1},
    {RESTRICTION_NO_UNNAMED, ".prog.linux1", 1},
};

/* What is unfinished goes with the process, and nothing else. */
START_TEST(test_ended_by_a_signal)
{
    static const int signals[] = {SIGTERM, SIGINT,  SIGHUP,  SIGPIPE, SIGQUIT,
                                  SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    static const struct rlimit no_core = {0, 0};
    const struct place *place = &places[_i];
    unsigned long step = (covsplit_is_sanitized() ? 29 : place->step) * rounds_step();
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, place->name);
    char *sidecar = text_format("%s.covsplit", place->name);
    struct command plain = covsplit_command(directory, "split", "-j1", place->name, NULL);
    struct command command = place->restriction == RESTRICTION_NONE
                                 ? plain
                                 : command_restrict(&plain, place->restriction);
    unsigned long stops = START_STOPS, ended = 0;
    struct traced traced = {.was_stopped = true};
    ck_assert_int_eq(setrlimit(RLIMIT_CORE, &no_core), 0);
    for (; traced.was_stopped; stops += step) {
        file_copy(sample.image, image);
        unlink(path_join(directory, sidecar));
        int number = signals[stops % (sizeof signals / sizeof *signals)];
        traced = command_trace_and_signal(&command, stops, number);
        ck_assert_msg(file_exists(image), "stop %lu: the image is lost", stops);
        struct text_list names = directory_list(directory);
        for (size_t i = 0; i < names.count; i++) {
            ck_assert_msg(strcmp(names.items[i], place->name) == 0 ||
                              strcmp(names.items[i], sidecar) == 0,
                          "stop %lu, signal %d: %s", stops, number, names.items[i]);
        }
        ended += traced.exit_code == -1;
        ck_assert(traced.exit_code == -1 || traced.exit_code == 0);
    }
    ck_assert_uint_gt(ended, STOPS_MIN / 2 / stride());
}
END_TEST

/* So no output gets a name by which it would be taken for unfinished. */
START_TEST(test_name_of_unfinished)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    struct outcome outcome =
        covsplit_run_words(directory, 1, "split -o .other.covsplit-Ab01yz app");
    ck_assert_msg(strstr(outcome.errors, ".other.covsplit-Ab01yz: such names are ") != NULL, "%s",
                  outcome.errors);
    ck_assert_uint_eq(directory_list(directory).count, 1);
    covsplit_run_words(directory, 0, "split -o .other.covsplit-Ab01y app");
}
END_TEST

int main(int argument_count, char **arguments)
{
    restriction_enter(argument_count, arguments);
    TCase *test_case = suite_case("races", 600, prepare);
    suite_tests(test_case, test_split_in_place, test_join_in_place, test_link);
    suite_loops(test_case, 2, test_changed_in_place, test_image_cut_short);
    suite_loops(test_case, 2, test_changed_elsewhere);
    suite_loops(test_case, 3, test_two_at_once);
    tcase_add_test(test_case, test_large_input_cut_short);
    suite_loops(test_case, sizeof places / sizeof *places, test_ended_by_a_signal);
    tcase_add_test(test_case, test_name_of_unfinished);
    return suite_main("races", test_case);
}
