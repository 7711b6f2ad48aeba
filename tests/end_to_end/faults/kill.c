/*
 * SIGKILL while a command writes: at random moments, and at its system calls.
 *
 * For each command there is a place with files from before, and what the command makes of them is
 * seen by running it. Whenever a kill comes, each file is as it was before or as it is in the end,
 * a stripped image is never there without its sidecar, and the same command, run again, gets to the
 * same end. What a kill may leave are files with temporary names.
 *
 * Prints the number of kills for each command, and what they found. All of them are 11,000;
 * consume_kill.c has 10,000 of its own.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/covsplit_main.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"
#include "tests/support/sample.h"
#include "tests/support/windows_program.h"

#define TEST_TIMEOUT_SECONDS 2800
#define SAMPLE_FUNCTIONS     300
#define SEED                 2
#define IMAGES               4
#define PROFILES             6
#define WRITERS              16
#define WRITER_KILLS         (rounds_are_all() ? 20 : 4)

/* Of each command: half of them at system calls, or more if that is not all of those. */
#define KILLS       1000
#define DAILY_KILLS 20

/* So many stops before the last one, a command gives its files their names. */
#define END_STOPS 120

static unsigned kills_of_each(void)
{
    return !rounds_are_all() ? DAILY_KILLS : covsplit_is_sanitized() ? KILLS / 5 : KILLS;
}

/* ---- files in memory ---- */

/* What is in and below a directory. */
struct tree {
    struct text_list paths; /* directories have a '/' at the end, and no contents */
    struct contents *contents;
};

static bool is_directory(const char *path)
{
    return path[strlen(path) - 1] == '/';
}

static struct tree tree_read(const char *directory)
{
    struct tree tree = {.paths = tree_list(directory)};
    tree.contents = calloc(tree.paths.count + 1, sizeof *tree.contents);
    ck_assert_ptr_nonnull(tree.contents);
    for (size_t i = 0; i < tree.paths.count; i++) {
        if (!is_directory(tree.paths.items[i])) {
            char *path = path_join(directory, tree.paths.items[i]);
            tree.contents[i] = file_read(path);
            free(path);
        }
    }
    return tree;
}

/* The directory has these files, and no others. */
static void tree_write(const struct tree *tree, const char *directory)
{
    directory_remove(directory);
    directory_create(directory);
    for (size_t i = 0; i < tree->paths.count; i++) {
        char *path = path_join(directory, tree->paths.items[i]);
        if (is_directory(path)) {
            directory_create(path);
        } else {
            file_write(path, tree->contents[i].data, tree->contents[i].size);
        }
        free(path);
    }
}

static void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < tree->paths.count; i++) {
        contents_free(&tree->contents[i]);
    }
    free(tree->contents);
    text_list_free(&tree->paths);
}

/* NULL: there is no such file. */
static const struct contents *tree_find(const struct tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->paths.count; i++) {
        if (strcmp(tree->paths.items[i], path) == 0) {
            return &tree->contents[i];
        }
    }
    return NULL;
}

/* Whether the file is the same in both, or in none. */
static bool same_in(const struct tree *a, const struct tree *b, const char *path)
{
    const struct contents *one = tree_find(a, path), *other = tree_find(b, path);
    return one == NULL || other == NULL ? one == other : contents_equal(one, other);
}

/* The first file of the first tree that is not the same in the second; NULL: all are. */
static const char *find_unlike(const struct tree *a, const struct tree *b)
{
    for (size_t i = 0; i < a->paths.count; i++) {
        if (!is_directory(a->paths.items[i]) && !same_in(a, b, a->paths.items[i])) {
            return a->paths.items[i];
        }
    }
    return NULL;
}

/* Whether both have the same files. */
static bool same_all(const struct tree *a, const struct tree *b)
{
    return find_unlike(a, b) == NULL && find_unlike(b, a) == NULL;
}

/* ---- the commands ---- */

static struct sample sample;
static char *windows_image;
static struct farm farm;
static char *variants[IMAGES];
static char *variant_entries[IMAGES]; /* their sidecars, in place of "store/..." */

static void copy_image(const char *place)
{
    file_copy(sample.image, path_join(place, "app"));
}

static void copy_windows_image(const char *place)
{
    file_copy(windows_image, path_join(place, "app"));
}

static void copy_variants(const char *place)
{
    for (unsigned i = 0; i < IMAGES; i++) {
        file_copy(variants[i], path_join(place, text_format("app-%u", i)));
    }
}

static void split_image(const char *place)
{
    file_copy(sample.image, path_join(place, "app"));
    covsplit_run_words(place, 0, "split app");
}

static void fill_store(const char *place)
{
    copy_variants(place);
    covsplit_run_words(place, 0, "split --fast --store store app-0 app-1 app-2 app-3");
}

/* What the store shall keep is written down: the first image's sidecar. */
static void fill_store_and_list(const char *place)
{
    fill_store(place);
    const char *uuid = covsplit_run_words(place, 0, "show --json app-0").output;
    uuid = strstr(uuid, "\"uuid\": \"");
    ck_assert_ptr_nonnull(uuid);
    file_write_text(path_join(place, "keep"),
                    text_format("%.40s\n", uuid + strlen("\"uuid\": \"")));
}

static void make_deltas(const char *place)
{
    fill_store(place);
    covsplit_run_words(place, 0, "store delta store");
}

/* One image is split, and a base for the others. */
static void fill_with_base(const char *place)
{
    copy_variants(place);
    covsplit_run_words(place, 0, "split --store store --delta app-3");
}

/* What is to stay is a whole sidecar; the base of the others, which go, is another one. */
static void make_deltas_and_list(const char *place)
{
    fill_store_and_list(place);
    covsplit_run_words(place, 0, "store delta --keep-whole app-0 store");
}

/* As if nobody had used them for long: gc leaves what was used today. */
static void age_bases(const char *place)
{
    char *directory = path_join(place, "store/.build-id/bases");
    struct text_list names = {0};

    if (file_exists(directory)) {
        names = directory_list(directory);
    }
    for (size_t i = 0; i < names.count; i++) {
        char *path = path_join(directory, names.items[i]);
        file_set_age(path, 30);
        free(path);
    }
    text_list_free(&names);
    free(directory);
}

static void write_profiles(const char *place)
{
    struct random_state random = random_start(SEED);
    uint64_t *sums = farm_sums_create(&farm);
    for (unsigned i = 0; i < PROFILES; i++) {
        farm_write(&farm, &random, path_join(place, text_format("%u.profraw", i)), sums);
    }
    farm_sums_free(&farm, sums);
}

static void write_profiles_and_state(const char *place)
{
    write_profiles(place);
    covsplit_run_words(place, 0, "merge --into state 0.profraw 1.profraw");
}

static void compile(const char *place, const char *name)
{
    source_generate(path_join(place, "source.c"), LANGUAGE_C, "unit", SAMPLE_FUNCTIONS);
    run_or_abort(place, "clang-19", "-O1", "-w", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-c", "-o", name, "source.c", NULL);
}

static void compile_units(const char *place)
{
    compile(place, "unit.o");
    run_or_abort(place, "ar", "rcsD", "lib.a", "unit.o", NULL);
}

/* What is called as a compiler takes its object from here. */
static void compile_for_compiler(const char *place)
{
    compile(place, "made.o");
    file_write_text(path_join(place, "cc"), "cp made.o out.o\n");
}

static const struct scene {
    const char *name, *words;
    void (*prepare)(const char *place);
    bool has_threads; /* there is an option -j */
    /* "state" is compared by its sums, since its files have random names. */
    bool has_state;
    /* The second file may also have the contents of the first. */
    const char *as_this, *also_this;
    bool is_batch; /* of the variants; otherwise app.covsplit is the sidecar of app */
    /* The store has deltas: whatever is in it can be read, and joins the variants. */
    bool has_deltas;
    void (*age)(const char *place); /* what was there before is made so old */
} scenes[] = {
    {.name = "split in place", .words = "split app", .prepare = copy_image, .has_threads = true},
    {.name = "split in place, COFF",
     .words = "split app",
     .prepare = copy_windows_image,
     .has_threads = true},
    {.name = "batch into a store",
     .words = "split --store store app-0 app-1 app-2 app-3",
     .prepare = copy_variants,
     .has_threads = true,
     .is_batch = true},
    {.name = "join", .words = "join -o joined app", .prepare = split_image},
    {.name = "merge",
     .words = "merge -o sum.profraw 0.profraw 1.profraw 2.profraw 3.profraw 4.profraw 5.profraw",
     .prepare = write_profiles,
     .has_threads = true},
    {.name = "merge --into",
     .words = "merge --into state 2.profraw 3.profraw 4.profraw 5.profraw",
     .prepare = write_profiles_and_state,
     .has_threads = true,
     .has_state = true},
    {.name = "repack", .words = "repack store", .prepare = fill_store, .has_threads = true},
    {.name = "store gc",
     .words = "store gc --keep-list keep store",
     .prepare = fill_store_and_list},
    {.name = "store delta",
     .words = "store delta store",
     .prepare = fill_store,
     .has_deltas = true},
    {.name = "store undelta",
     .words = "store undelta store",
     .prepare = make_deltas,
     .has_deltas = true},
    {.name = "split --delta",
     .words = "split --store store --delta app-0 app-1 app-2",
     .prepare = fill_with_base,
     .has_threads = true,
     .is_batch = true,
     .has_deltas = true},
    {.name = "store gc of bases",
     .words = "store gc --keep-list keep store",
     .prepare = make_deltas_and_list,
     .has_deltas = true,
     .age = age_bases},
    {.name = "export", .words = "export --store store --debug-dir debug", .prepare = fill_store},
    {.name = "pack", .words = "pack unit.o lib.a", .prepare = compile_units, .has_threads = true},
    {.name = "compile",
     .words = "compile -- sh cc -o out.o",
     .prepare = compile_for_compiler,
     .as_this = "made.o",
     .also_this = "out.o"},
};
#define SCENE_COUNT (sizeof scenes / sizeof *scenes)

static void prepare(void)
{
    struct windows_program program = {
        .clang = "19", .target = WINDOWS_MSVC_X86_64, .runtime_options = "-DPROFILE_MERGED"};
    sample = sample_create("kill", SAMPLE_FUNCTIONS);
    char *directory = path_join(sample.scratch, "windows");
    directory_create(directory);
    windows_program_build(&program, directory);
    windows_image = path_join(directory, WINDOWS_PROGRAM);
    farm = farm_create(path_join(sample.scratch, "farm"), 2, 20);
    for (unsigned i = 0; i < IMAGES; i++) {
        struct variant variant =
            variant_create(sample.image, sample.scratch, text_format("app-%u", i), i, i);
        variants[i] = variant.path;
        variant_entries[i] = store_entry("store", variant.uuid);
    }
}

/* ---- what must hold ---- */

enum stage { BEFORE, BETWEEN, DONE };

struct trial {
    const struct scene *scene;
    char *place;
    struct command command;
    struct tree start; /* the files from before */
    /* What is seen before, in the end, and after the command was run once more. */
    struct tree views[3];
    unsigned kills[3]; /* by stage */
    unsigned left;     /* temporary files */
};

/* Runs it in a fork of this process, and waits for its end. */
static void run_whole(const struct command *command)
{
    struct outcome outcome = command_expect(command, 0);
    outcome_free(&outcome);
}

/* `covsplit WORDS` in the place, in a fork. */
static void run_words(const char *place, const char *words)
{
    struct command command = covsplit_words(place, words);
    command.main_function = covsplit_main;
    run_whole(&command);
    command_free(&command);
}

static bool is_below(const char *path, const char *directory)
{
    return strncmp(path, directory, strlen(directory)) == 0;
}

/* A base that was put aside is there. Samples of bases are made again when they are missing. */
static void forget_moments(char *path)
{
    size_t length = strlen(path);
    if (length > 6 && strcmp(path + length - 6, ".aside") == 0) {
        path[length - 6] = '\0';
    } else if (length > 7 && strcmp(path + length - 7, ".sample") == 0) {
        strcpy(path, "/");
    }
}

/* The files; and for those of a state, what is merged from it. */
static struct tree look(const struct trial *trial)
{
    struct tree tree = tree_read(trial->place);
    for (size_t i = 0; i < tree.paths.count; i++) {
        forget_moments(tree.paths.items[i]);
    }
    for (size_t i = 0; trial->scene->has_state && i < tree.paths.count; i++) {
        char *path = tree.paths.items[i];
        if (strcmp(path, "state/") == 0) {
            run_words(trial->place, "merge -o ../sums.profraw state");
            tree.contents[i] = file_read(path_join(trial->place, "../sums.profraw"));
            strcpy(path, "state"); /* a file now, for the comparison */
        } else if (is_below(path, "state/")) {
            strcpy(path, "/");
        }
    }
    return tree;
}

static bool is_temporary(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    return name[0] == '.' && strstr(name, ".covsplit-") != NULL;
}

/* The image is never stripped without its sidecar. */
static void assert_sidecar_first(const struct trial *trial, const struct tree *now,
                                 const char *image, const char *sidecar, const char *moment)
{
    const struct tree *before = &trial->views[BEFORE], *after = &trial->views[1];
    bool is_stripped = tree_find(now, image) != NULL && !same_in(now, before, image);
    ck_assert_msg(!is_stripped || same_in(now, after, sidecar), "%s: %s is without its sidecar",
                  moment, image);
}

static void assert_sidecars_first(const struct trial *trial, const struct tree *now,
                                  const char *moment)
{
    for (unsigned i = 0; i < IMAGES && trial->scene->is_batch; i++) {
        assert_sidecar_first(trial, now, text_format("app-%u", i), variant_entries[i], moment);
    }
    assert_sidecar_first(trial, now, "app", "app.covsplit", moment);
}

/* Aborts where a file is neither as before nor as in the end. */
static void assert_whole(const struct trial *trial, const struct tree *now, const char *path,
                         const char *moment)
{
    const char *also = trial->scene->also_this;
    bool may_be_other = also != NULL && strcmp(path, also) == 0;
    const struct contents *contents = tree_find(now, path);
    const struct contents *other =
        may_be_other ? tree_find(&trial->views[BEFORE], trial->scene->as_this) : NULL;
    ck_assert_msg(
        same_in(now, &trial->views[BEFORE], path) || same_in(now, &trial->views[1], path) ||
            (contents != NULL && other != NULL && contents_equal(contents, other)),
        "%s: %s (%zu bytes) is neither", moment, path, contents == NULL ? 0 : contents->size);
}

/* Each sidecar that is there can be read, and what is split is joined. */
static void assert_joins(const struct trial *trial, const struct tree *now, const char *moment)
{
    char *joined = path_join(trial->place, "../joined");
    run_words(trial->place, "store check store");
    for (unsigned i = 0; i < IMAGES; i++) {
        struct verdict verdict = {0};
        char *name = text_format("app-%u", i);
        const struct contents *image = tree_find(now, name);
        struct contents original = file_read(variants[i]);
        if (tree_find(now, variant_entries[i]) != NULL && !contents_equal(image, &original)) {
            char *words = text_format("join --store store -o ../joined app-%u", i);
            run_words(trial->place, words);
            ck_assert_msg(files_equal(joined, variants[i], &verdict), "%s: %s", moment, name);
            free(words);
        }
        contents_free(&original);
        free(name);
    }
    free(joined);
}

static enum stage assert_nothing_lost(struct trial *trial, const char *moment)
{
    struct tree now = look(trial);
    const struct tree *before = &trial->views[BEFORE], *after = &trial->views[1];
    unsigned left = 0;
    for (size_t i = 0; i < now.paths.count; i++) {
        if (is_temporary(now.paths.items[i])) {
            left++;
            strcpy(now.paths.items[i], "/");
        } else if (!is_directory(now.paths.items[i])) {
            assert_whole(trial, &now, now.paths.items[i], moment);
        }
    }
    for (size_t i = 0; i < before->paths.count; i++) {
        if (!is_directory(before->paths.items[i])) {
            assert_whole(trial, &now, before->paths.items[i], moment);
        }
    }
    assert_sidecars_first(trial, &now, moment);
    if (trial->scene->has_deltas) {
        assert_joins(trial, &now, moment);
    }
    bool is_done = same_all(after, &now);
    bool is_before = same_all(before, &now);
    tree_free(&now);
    trial->left += left;
    return is_done ? DONE : is_before ? BEFORE : BETWEEN;
}

static void age(const struct trial *trial)
{
    if (trial->scene->age != NULL) {
        trial->scene->age(trial->place);
    }
}

/* The place is as before. */
static void start_again(const struct trial *trial)
{
    tree_write(&trial->start, trial->place);
    age(trial);
}

/* The command gets to the end, whatever was left behind. */
static void assert_can_finish(const struct trial *trial, enum stage stage, const char *moment)
{
    const struct tree *end = &trial->views[stage == DONE ? 2 : 1];
    age(trial);
    run_whole(&trial->command);
    struct tree now = look(trial);
    for (size_t i = 0; i < now.paths.count; i++) {
        if (is_temporary(now.paths.items[i])) {
            strcpy(now.paths.items[i], "/");
        }
    }
    const char *lost = find_unlike(end, &now), *other = find_unlike(&now, end);
    ck_assert_msg(lost == NULL, "%s: when it is run again, %s is not as in the end", moment, lost);
    ck_assert_msg(other == NULL, "%s: when it is run again, there is also %s", moment, other);
    tree_free(&now);
}

/* ---- kills ---- */

static struct trial trial_start(const struct scene *scene)
{
    struct trial trial = {.scene = scene};
    char *directory = sample_directory(&sample);
    trial.place = path_join(directory, "place");
    directory_create(trial.place);
    scene->prepare(trial.place);
    trial.start = tree_read(trial.place);
    trial.command = covsplit_words(trial.place, scene->words);
    if (scene->has_threads) {
        text_list_add(&trial.command.arguments, "-j2");
    }
    trial.command.main_function = covsplit_main;
    for (unsigned i = 0; i < 3; i++) {
        trial.views[i] = look(&trial);
        if (i == 0)
            start_again(&trial);
        if (i < 2) {
            run_whole(&trial.command);
        }
    }
    /* So that what the killed command started can be waited for. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    return trial;
}

static void wait_for_all(void)
{
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    ck_assert_int_eq(errno, ECHILD);
}

static void see_kill(struct trial *trial, const char *moment)
{
    enum stage stage = assert_nothing_lost(trial, moment);
    trial->kills[stage]++;
    assert_can_finish(trial, stage, moment);
}

static void kill_at_random_moments(struct trial *trial, unsigned kills)
{
    start_again(trial);
    struct outcome whole = command_expect(&trial->command, 0);
    struct moments moments = moments_start(SEED, whole.wall_seconds * 1.1);
    outcome_free(&whole);
    for (unsigned done = 0, tries = 0; done < kills; tries++) {
        ck_assert_uint_lt(tries, 10 * kills);
        start_again(trial);
        double delay = moments_next(&moments);
        bool was_at_work = command_kill_after(&trial->command, delay);
        wait_for_all();
        moments_met(&moments, was_at_work);
        if (was_at_work) {
            char *moment = text_format("%s, kill %u after %.6f s", trial->scene->name, done, delay);
            see_kill(trial, moment);
            free(moment);
            done++;
        }
    }
}

/* The i-th of so many of the stops, of which half are spread over all of them up to the last one,
 * and half over the end, where files get their names; or the i-th stop, if there are to be that
 * many.
 */
static unsigned long choose_stop(unsigned long i, unsigned long rounds, unsigned long stops)
{
    unsigned long half = rounds / 2, end = stops < END_STOPS ? stops : END_STOPS;

    if (rounds == stops)
        return i;
    return i <= half ? i * stops / half : stops - end + (i - half) * end / (rounds - half + 1);
}

/* Kills at so many of the stops before and after system calls, or at each. A thread alone has
 * nearly the same ones each time: of one that is not reached, the one before. Returns how many
 * stops there are. */
static unsigned long kill_at_system_calls(struct trial *trial, unsigned kills)
{
    struct command command = covsplit_words(trial->place, trial->scene->words);
    if (trial->scene->has_threads) {
        text_list_add(&command.arguments, "-j1");
    }
    start_again(trial);
    struct traced whole = command_trace_and_kill(&command, 1000000);
    ck_assert_msg(!whole.was_stopped && whole.exit_code == 0, "%s: %s", trial->scene->name,
                  whole.errors);
    unsigned long rounds = kills_of_each() == KILLS ? whole.stops : kills;
    for (unsigned long i = 1; i <= rounds; i++) {
        struct traced killed = {.was_stopped = false};
        char *moment = NULL;
        for (unsigned long stop = choose_stop(i, rounds, whole.stops);
             stop != 0 && !killed.was_stopped; stop--) {
            free(moment);
            moment = text_format("%s, at stop %lu", trial->scene->name, stop);
            start_again(trial);
            killed = command_trace_and_kill(&command, stop);
            ck_assert_msg(killed.was_stopped || killed.exit_code == 0, "%s: it failed", moment);
        }
        if (killed.was_stopped) {
            see_kill(trial, moment);
        }
        free(moment);
    }
    command_free(&command);
    return whole.stops;
}

START_TEST(test_kills)
{
    const struct scene *scene = &scenes[_i];
    unsigned kills = kills_of_each();
    struct trial trial = trial_start(scene);
    unsigned long stops = kill_at_system_calls(&trial, kills / 2);
    unsigned at_calls = trial.kills[BEFORE] + trial.kills[BETWEEN] + trial.kills[DONE];
    ck_assert_uint_gt(stops, 50);
    ck_assert_uint_ge(10 * at_calls, 9 * (kills == KILLS ? stops : kills / 2));
    kill_at_random_moments(&trial, kills > at_calls ? kills - at_calls : 0);
    unsigned all = trial.kills[BEFORE] + trial.kills[BETWEEN] + trial.kills[DONE];
    printf("%s: %u kills, %u of them at system calls (of %lu moments): %u as before, %u between, "
           "%u done; %u temporary files\n",
           scene->name, all, at_calls, stops, trial.kills[BEFORE], trial.kills[BETWEEN],
           trial.kills[DONE], trial.left);
    /* The moments must have met commands that were not done, and such that were; of a few rounds,
     * half are at the last stops, so that by chance fewer than a quarter may be. */
    ck_assert_uint_ge(all, kills);
    ck_assert_uint_gt(trial.kills[BEFORE] + trial.kills[BETWEEN], all / (kills == KILLS ? 4 : 8));
    ck_assert_uint_gt(trial.kills[DONE] + trial.kills[BETWEEN], 0);
}
END_TEST

/* ---- many at once ---- */

/* Splits all images of the directory into one store at the same time: eight images, each of them
 * under two names. */
static struct command split_all(const char *directory)
{
    struct command command = {.directory = directory};
    for (unsigned i = 0; i < WRITERS; i++) {
        variant_create(sample.image, directory, text_format("app-%u", i), i / 2, i / 2);
    }
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, "for app in app-*; do \"$0\" split --store store -o "
                                      "out-$app $app & done; wait");
    text_list_add(&command.arguments, covsplit_path());
    return command;
}

/* No sidecar is damaged, and no stripped image without one. Returns how many images are split. */
static unsigned assert_store_is_good(const char *directory)
{
    unsigned split = 0;
    /* All may be killed before the first of them has made it a store. */
    if (file_exists(path_join(directory, "store/.build-id"))) {
        covsplit_run_words(directory, 0, "store check store");
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        const char *stripped = text_format("out-app-%u", i);
        if (file_exists(path_join(directory, stripped))) {
            covsplit_run_words(directory, 0,
                               text_format("join --store store -o joined %s", stripped));
            files_assert_equal(path_join(directory, "joined"),
                               path_join(directory, text_format("app-%u", i)), stripped);
            split++;
        }
    }
    return split;
}

START_TEST(test_many_writers)
{
    char *directory = sample_directory(&sample), *store = path_join(directory, "store");
    struct command command = split_all(directory);
    unsigned in_the_middle = 0, kills = WRITER_KILLS;
    struct outcome whole = command_run(&command);
    struct moments moments = moments_start(SEED, whole.wall_seconds);
    ck_assert_uint_eq(assert_store_is_good(directory), WRITERS);
    /* So that what the killed shell started can be waited for. */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (unsigned i = 0; i < kills; i++) {
        double delay = moments_next(&moments);
        struct timespec time = {(time_t)delay, (long)((delay - (double)(time_t)delay) * 1e9)};
        directory_remove(store);
        directory_create(store);
        for (unsigned j = 0; j < WRITERS; j++) {
            unlink(text_format("%s/out-app-%u", directory, j));
        }
        pid_t process = command_start(&command);
        nanosleep(&time, NULL);
        kill(-process, SIGKILL);
        /* All of them: one that is killed within a system call still gets to its end. */
        while (waitpid(-process, NULL, 0) > 0)
            continue;
        bool was_at_work = assert_store_is_good(directory) < WRITERS;
        moments_met(&moments, was_at_work);
        in_the_middle += was_at_work;
    }
    ck_assert_uint_gt(in_the_middle, kills / 4);
    whole = command_run(&command);
    ck_assert_uint_eq(assert_store_is_good(directory), WRITERS);
    const char *listed = covsplit_run_words(directory, 0, "store list --json store").output;
    ck_assert_uint_eq(text_count(listed, "\"uuid\""), WRITERS / 2);
}
END_TEST

int main(void)
{
    scratch_use_memory();
    TCase *kills = suite_case("kills", TEST_TIMEOUT_SECONDS, prepare);
    suite_loops(kills, SCENE_COUNT, test_kills);
    suite_tests(kills, test_many_writers);
    return suite_main("kill", kills);
}
