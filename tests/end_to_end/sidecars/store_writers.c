/*
 * Many writers to one store: none is lost, none is half there, and no two take the same name; also
 * where files cannot be without a name, where there are no links, while the store is cleaned up,
 * and whenever a writer is killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/delta_stores.h"
#include "tests/support/random.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 300
#define WRITERS          16
#define ROUNDS           4
#define SEED             3
#define KILLS            200

/* The restrictions under which a sidecar can be added. */
#define RESTRICTIONS RESTRICTION_NO_NOREPLACE

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("writers", SAMPLE_FUNCTIONS);
}

/* ---- running covsplit ---- */

static struct command command_of(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    return command;
}

/* Returns what is written to both streams. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    struct outcome outcome = covsplit_run_words(directory, exit_code, words);
    return text_format("%s%s", outcome.output, outcome.errors);
}

/* The outcomes of the commands, run at the same time. */
static struct outcome *run_together(struct command *commands, size_t count,
                                    enum restriction restriction)
{
    struct outcome *outcomes = calloc(count, sizeof *outcomes);
    ck_assert_ptr_nonnull(outcomes);
    for (size_t i = 0; i < count; i++) {
        commands[i] = command_restrict(&commands[i], restriction);
    }
    commands_run_together(commands, count, outcomes);
    return outcomes;
}

static void assert_all_exit(const struct command *commands, const struct outcome *outcomes,
                            size_t count, int exit_code)
{
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(outcome_exited(&outcomes[i], exit_code), "%s",
                      outcome_describe(&commands[i], &outcomes[i]));
    }
}

/* ---- what must hold ---- */

/* The store has just so many sidecars, all of them good, and nothing else: no temporary file, and
 * no directory without a sidecar. */
static void assert_store(const char *directory, size_t sidecars)
{
    struct text_list tree = tree_list(path_join(directory, "store"));
    size_t count = 0;
    for (size_t i = 0; i < tree.count; i++) {
        const char *name = tree.items[i];
        size_t length = strlen(name);
        bool is_sidecar = length > 9 && strcmp(name + length - 9, ".covsplit") == 0;
        bool is_of_bases = stores_have_deltas() && strstr(name, "/bases/") != NULL &&
                           strstr(name, "covsplit") == NULL;
        ck_assert_msg(is_sidecar || is_of_bases || name[length - 1] == '/' ||
                          strcmp(name, "README") == 0,
                      "%s is left", name);
        count += is_sidecar;
    }
    ck_assert_uint_eq(count, sidecars);
    assert_contains(run(directory, 0, "store check store"),
                    text_format("%s, ", text_of_count(sidecars, "sidecar")));
}

static void assert_joins(const char *directory, const char *stripped, const char *original)
{
    run(directory, 0, text_format("join --store store -o joined %s", stripped));
    files_assert_equal(path_join(directory, "joined"), original, stripped);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* ---- many at once ---- */

START_TEST(test_one_image)
{
    enum restriction restriction = (enum restriction)_i;
    for (unsigned round = 0; round < rounds(ROUNDS); round++) {
        char *directory = sample_directory(&sample);
        struct variant app = variant_create(sample.image, directory, "app", 1, 1);
        struct command commands[WRITERS];
        for (unsigned i = 0; i < WRITERS; i++) {
            /* The level is no difference that counts. */
            commands[i] =
                command_of(directory, text_format("split --level %u --store store -o out-%u app",
                                                  1 + i % 3, i));
        }
        struct outcome *outcomes = run_together(commands, WRITERS, restriction);
        assert_all_exit(commands, outcomes, WRITERS, 0);
        assert_store(directory, 1);
        for (unsigned i = 0; i < WRITERS; i++) {
            assert_joins(directory, text_format("out-%u", i), app.path);
        }
    }
}
END_TEST

START_TEST(test_many_images)
{
    enum restriction restriction = (enum restriction)_i;
    char *directory = sample_directory(&sample);
    struct variant apps[WRITERS];
    struct command commands[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        /* Some share a directory of the store. */
        apps[i] = variant_create(sample.image, directory, text_format("app-%u", i),
                                 i % 5 + (i / 5) * 256, i);
        commands[i] =
            command_of(directory, text_format("split --store store -o out-%u app-%u", i, i));
    }
    struct outcome *outcomes = run_together(commands, WRITERS, restriction);
    assert_all_exit(commands, outcomes, WRITERS, 0);
    assert_store(directory, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        ck_assert(file_exists(store_entry(path_join(directory, "store"), apps[i].uuid)));
        assert_joins(directory, text_format("out-%u", i), apps[i].path);
    }
}
END_TEST

/* The digest of an image, as `show` prints it of the image's sidecar. */
static const char *digest_of(const char *directory, const char *name)
{
    run(directory, 0, text_format("split -o whole --sidecar %s.side %s", name, name));
    const char *shown = run(directory, 0, text_format("show %s.side", name));
    const char *label = strstr(shown, "original digest");
    ck_assert_ptr_nonnull(label);
    label += strlen("original digest");
    label += strspn(label, " ");
    return text_format("%.32s", label);
}

/* One image gets the UUID. All splits of the other say whose it is, and change nothing. */
START_TEST(test_two_images_of_one_uuid)
{
    enum restriction restriction = (enum restriction)_i;
    for (unsigned round = 0; round < rounds(ROUNDS); round++) {
        char *directory = sample_directory(&sample);
        struct variant apps[2];
        const char *digests[2];
        for (unsigned i = 0; i < 2; i++) {
            const char *name = text_format("app-%u", i);
            apps[i] = variant_create(sample.image, directory, name, 1, i);
            digests[i] = digest_of(directory, name);
        }
        struct command commands[WRITERS];
        for (unsigned i = 0; i < WRITERS; i++) {
            commands[i] = command_of(directory,
                                     text_format("split --store store -o out-%u app-%u", i, i % 2));
        }
        struct outcome *outcomes = run_together(commands, WRITERS, restriction);
        assert_store(directory, 1);
        unsigned winner = outcome_exited(&outcomes[0], 0) ? 0 : 1;
        for (unsigned i = 0; i < WRITERS; i++) {
            const char *out = text_format("out-%u", i);
            assert_all_exit(&commands[i], &outcomes[i], 1, i % 2 == winner ? 0 : 1);
            if (i % 2 == winner) {
                assert_joins(directory, out, apps[winner].path);
                continue;
            }
            ck_assert(!file_exists(path_join(directory, out)));
            ck_assert_uint_eq(text_count(outcomes[i].errors, "\n"), 1);
            assert_contains(outcomes[i].errors, "app-0");
            assert_contains(outcomes[i].errors, "app-1");
            assert_contains(outcomes[i].errors, digests[0]);
            assert_contains(outcomes[i].errors, digests[1]);
        }
    }
}
END_TEST

/* With --replace each succeeds, and the last one stays. */
START_TEST(test_replace_together)
{
    enum restriction restriction = (enum restriction)_i;
    char *directory = sample_directory(&sample);
    struct command commands[WRITERS];
    variant_create(sample.image, directory, "app-0", 1, 0);
    variant_create(sample.image, directory, "app-1", 1, 1);
    for (unsigned i = 0; i < WRITERS; i++) {
        commands[i] = command_of(
            directory, text_format("split --replace --store store -o out-%u app-%u", i, i % 2));
    }
    struct outcome *outcomes = run_together(commands, WRITERS, restriction);
    assert_all_exit(commands, outcomes, WRITERS, 0);
    assert_store(directory, 1);
    bool last = strstr(run(directory, 0, "store list store"), "app-1") != NULL;
    assert_joins(directory, last ? "out-1" : "out-0",
                 path_join(directory, last ? "app-1" : "app-0"));
    run(directory, 1, text_format("join --store store -o other out-%d", last ? 0 : 1));
}
END_TEST

/* A file system on which no name can be taken safely is refused; nothing is left there. */
START_TEST(test_no_safe_way)
{
    char *directory = sample_directory(&sample);
    variant_create(sample.image, directory, "app", 1, 1);
    struct command command = command_of(directory, "split --store store -o out app");
    struct outcome *outcome = run_together(&command, 1, RESTRICTION_NO_NOREPLACE);
    struct verdict verdict = {0};
    covsplit_refused(&command, outcome, &verdict);
    verdict_assert(&verdict, "store");
    ck_assert(!file_exists(path_join(directory, "out")));
    assert_store(directory, 0);
    command = command_of(directory, "split -o out app");
    outcome = run_together(&command, 1, RESTRICTION_NO_NOREPLACE);
    assert_all_exit(&command, outcome, 1, 0);
}
END_TEST

#define CLEANERS 3

/* Cleaners remove empty directories under the writers' hands. */
START_TEST(test_writers_and_cleaners)
{
    enum restriction restriction = (enum restriction)_i;
    for (unsigned round = 0; round < rounds(ROUNDS); round++) {
        char *directory = sample_directory(&sample);
        struct command commands[WRITERS + CLEANERS];
        struct variant apps[WRITERS];
        directory_create(path_join(directory, "store"));
        for (unsigned i = 0; i < WRITERS; i++) {
            apps[i] = variant_create(sample.image, directory, text_format("app-%u", i), i, i);
            commands[i] =
                command_of(directory, text_format("split --store store -o out-%u app-%u", i, i));
        }
        for (unsigned i = 0; i < CLEANERS; i++) {
            commands[WRITERS + i] = (struct command){.directory = directory};
            struct text_list *words = &commands[WRITERS + i].arguments;
            text_list_add_words(words, "sh -c");
            text_list_add(words, "for i in $(seq 60); do \"$1\" store gc --older-than 1 store || "
                                 "exit; done");
            text_list_add(words, "sh");
            text_list_add(words, covsplit_path());
        }
        struct outcome *outcomes = run_together(commands, WRITERS + CLEANERS, restriction);
        assert_all_exit(commands, outcomes, WRITERS + CLEANERS, 0);
        assert_store(directory, WRITERS);
        for (unsigned i = 0; i < WRITERS; i++) {
            assert_joins(directory, text_format("out-%u", i), apps[i].path);
        }
    }
}
END_TEST

/* ---- at every moment ---- */

/* What somebody else does, once, when a split has come to some system call. */
struct meddling {
    char *directory;
    struct variant app;
    char *entry;
    char *parent;
    char *other; /* a sidecar of another image of that UUID */
    bool has_succeeded;
};

static struct meddling meddling_start(void)
{
    struct meddling meddling = {.directory = sample_directory(&sample)};
    meddling.app = variant_create(sample.image, meddling.directory, "app", 1, 1);
    variant_create(sample.image, meddling.directory, "another", 1, 2);
    run(meddling.directory, 0, "split --sidecar other -o other.out another");
    run(meddling.directory, 0, "split --sidecar same -o same.out app");
    char *store = path_join(meddling.directory, "store");
    meddling.entry = store_entry(store, meddling.app.uuid);
    meddling.parent = text_format("%s/.build-id/%.2s", store, meddling.app.uuid);
    meddling.other = path_join(meddling.directory, "other");
    run_or_abort(meddling.directory, "mkdir", "-p", meddling.parent, NULL);
    return meddling;
}

static void remove_entry(void *context)
{
    struct meddling *meddling = context;
    meddling->has_succeeded = unlink(meddling->entry) == 0;
}

static void remove_directory(void *context)
{
    struct meddling *meddling = context;
    meddling->has_succeeded = rmdir(meddling->parent) == 0;
}

static void add_other(void *context)
{
    struct meddling *meddling = context;
    meddling->has_succeeded = link(meddling->other, meddling->entry) == 0;
}

/* Splits until the meddling comes at the given stop. */
static struct traced split_and_meddle(struct meddling *meddling, unsigned long stops,
                                      void (*act)(void *context))
{
    struct command command = covsplit_command(meddling->directory, "split", "-j1", "--store",
                                              "store", "-o", "out", "app", NULL);
    meddling->has_succeeded = false;
    unlink(path_join(meddling->directory, "out"));
    struct traced split = command_trace(&command, stops, act, meddling);
    command_free(&command);
    return split;
}

#define STOPS_MIN 50

/* A sanitizer adds system calls of its own, and time. */
static unsigned long stride(void)
{
    return (covsplit_is_sanitized() ? 5 : 1) * rounds_step();
}

/* The sidecar was there, and goes: it is added, until from some moment on the split has seen it for
 * the last time. */
START_TEST(test_sidecar_goes_at_every_moment)
{
    struct meddling meddling = meddling_start();
    bool was_last_look = false;
    struct traced split = {.was_stopped = true};
    unsigned long stops = 0;
    while (split.was_stopped) {
        unlink(meddling.entry);
        file_copy(path_join(meddling.directory, "same"), meddling.entry);
        stops += stride();
        split = split_and_meddle(&meddling, stops, remove_entry);
        ck_assert_msg(split.exit_code == 0, "stop %lu: exit %d", stops, split.exit_code);
        ck_assert(file_exists(path_join(meddling.directory, "out")));
        bool is_there = file_exists(meddling.entry);
        ck_assert_msg(!(was_last_look && split.was_stopped) || !is_there, "stop %lu", stops);
        was_last_look = !is_there;
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
}
END_TEST

/* A cleaner removes the directory. */
START_TEST(test_directory_goes_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced split = {.was_stopped = true};
    unsigned long stops = 0, removed = 0;
    while (split.was_stopped) {
        unlink(meddling.entry);
        stops += stride();
        split = split_and_meddle(&meddling, stops, remove_directory);
        removed += meddling.has_succeeded;
        ck_assert_msg(split.exit_code == 0, "stop %lu: exit %d", stops, split.exit_code);
        ck_assert_msg(file_exists(meddling.entry), "stop %lu", stops);
    }
    ck_assert_uint_gt(removed, STOPS_MIN / stride());
    assert_joins(meddling.directory, "out", meddling.app.path);
}
END_TEST

/* Somebody adds the sidecar of another image: whoever is first has it, and the other one fails. */
START_TEST(test_other_comes_at_every_moment)
{
    struct meddling meddling = meddling_start();
    struct traced split = {.was_stopped = true};
    unsigned long stops = 0, late = 0;
    while (split.was_stopped) {
        unlink(meddling.entry);
        stops += stride();
        split = split_and_meddle(&meddling, stops, add_other);
        late += !meddling.has_succeeded;
        ck_assert_msg(split.exit_code == (meddling.has_succeeded ? 1 : 0), "stop %lu: exit %d",
                      stops, split.exit_code);
        ck_assert(file_exists(path_join(meddling.directory, "out")) != meddling.has_succeeded);
        struct verdict verdict = {0};
        bool is_other = files_equal(meddling.entry, meddling.other, &verdict);
        ck_assert_msg(is_other == meddling.has_succeeded, "stop %lu", stops);
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
    ck_assert_uint_gt(late, 0);
    assert_joins(meddling.directory, "out", meddling.app.path);
}
END_TEST

/* ---- stores with deltas ---- */

/* Nobody has used the bases for days, as far as their times tell. */
static void age_bases(const char *directory)
{
    run_or_abort(directory, "sh", "-c",
                 "touch -a -d '3 days ago' store/.build-id/bases/*.base 2>/dev/null || true", NULL);
}

/* A store with a base that no sidecar needs: what needed it is whole again, and the sidecar that it
 * was made of is gone. */
static void leave_base(const char *directory, const char *image, const char *uuid)
{
    run(directory, 0, text_format("split --store store --delta -o left %s", image));
    unlink(store_entry(path_join(directory, "store"), uuid));
    age_bases(directory);
}

/* Splits and commands that make deltas, others that undo them, cleaners and readers, all at once:
 * whatever is there in the end can be read, and joins all images. */
START_TEST(test_deltas_together)
{
    for (unsigned round = 0; round < rounds(ROUNDS); round++) {
        static const char *const loops[] = {"store delta store",
                                            "store delta store",
                                            "store undelta store",
                                            "store undelta store",
                                            "store gc --older-than 1 store",
                                            "store gc --older-than 1 store",
                                            "store check store",
                                            "join --store store -o joined-0 left-0"};
        char *directory = sample_directory(&sample);
        struct command commands[WRITERS];
        struct variant apps[WRITERS];
        for (unsigned i = 0; i < WRITERS; i++) {
            apps[i] = variant_create(sample.image, directory, text_format("app-%u", i), i, i);
        }
        for (unsigned i = 0; i < WRITERS / 2; i++) {
            commands[i] =
                command_of(directory, text_format("split --store store --delta -o left-%u app-%u",
                                                  i + 1, i + 1));
            commands[WRITERS / 2 + i] = (struct command){.directory = directory};
            struct text_list *words = &commands[WRITERS / 2 + i].arguments;
            text_list_add_words(words, "sh -c");
            text_list_add_format(words, "for i in $(seq 8); do \"$1\" %s || exit; done", loops[i]);
            text_list_add(words, "sh");
            text_list_add(words, covsplit_path());
        }
        run(directory, 0, "split --store store --delta -o left-0 app-0");
        leave_base(directory, "app-15", apps[15].uuid);
        struct outcome *outcomes = run_together(commands, WRITERS, RESTRICTION_NONE);
        assert_all_exit(commands, outcomes, WRITERS, 0);
        run(directory, 0, "store check store");
        for (unsigned i = 0; i <= WRITERS / 2; i++) {
            assert_joins(directory, text_format("left-%u", i), apps[i].path);
        }
    }
}
END_TEST

/* What somebody else does in a store with deltas when a command has come to some system call. */
struct meddler {
    char *directory;
    const char *words;
    struct variant kept, app;
};

static void run_other(void *context)
{
    struct meddler *meddler = context;
    struct command command = command_of(meddler->directory, meddler->words);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
}

static struct meddler meddler_start(void)
{
    struct meddler meddler = {.directory = sample_directory(&sample)};
    meddler.kept = variant_create(sample.image, meddler.directory, "kept", 1, 1);
    meddler.app = variant_create(sample.image, meddler.directory, "app", 2, 2);
    return meddler;
}

/* Runs the one command, and at each of its system calls, in turn, all of the other one, in a store
 * with an old base that nobody needs yet. */
static void assert_base_stays(const char *words, const char *others)
{
    struct meddler meddler = meddler_start();
    struct command command = command_of(meddler.directory, words);
    struct traced traced = {.was_stopped = true};
    unsigned long stops = 0, with_base = 0;
    meddler.words = others;
    while (traced.was_stopped) {
        directory_remove(path_join(meddler.directory, "store"));
        unlink(path_join(meddler.directory, "out"));
        leave_base(meddler.directory, "kept", meddler.kept.uuid);
        stops += 4 * stride();
        traced = command_trace(&command, stops, run_other, &meddler);
        ck_assert_msg(traced.exit_code == 0, "stop %lu: %s", stops, traced.errors);
        run(meddler.directory, 0, "store check store");
        with_base += strstr(run(meddler.directory, 0, "store list store"), "delta") != NULL;
        if (traced.was_stopped) { /* otherwise the other one did not come to its turn */
            assert_joins(meddler.directory, "out", meddler.app.path);
        }
    }
    ck_assert_uint_gt(stops, STOPS_MIN);
    ck_assert_uint_gt(with_base, 0);
}

START_TEST(test_gc_at_every_moment_of_a_split)
{
    assert_base_stays("split -j1 --store store --delta -o out app",
                      "store gc --older-than 1 store");
}
END_TEST

START_TEST(test_split_at_every_moment_of_gc)
{
    assert_base_stays("store gc --older-than 1 store",
                      "split -j1 --store store --delta -o out app");
}
END_TEST

/* ---- one after the other ---- */

/* Names and compression are no difference: the sidecar is not touched, and serves both. */
START_TEST(test_two_names)
{
    char *directory = sample_directory(&sample);
    struct variant app = variant_create(sample.image, directory, "app", 1, 1);
    file_copy(app.path, path_join(directory, "renamed"));
    run(directory, 0, "split --store store -o out-1 app");
    char *entry = store_entry(path_join(directory, "store"), app.uuid);
    struct stat before = file_status(entry);
    run(directory, 0, "split --store store -o out-2 renamed");
    run(directory, 0, "split --store store --level 1 -o out-3 app");
    struct stat after = file_status(entry);
    ck_assert(same_file(&before, &after));
    for (unsigned i = 1; i <= 3; i++) {
        assert_joins(directory, text_format("out-%u", i), app.path);
    }
}
END_TEST

/* What a store has under a UUID that is not the same; what is said of it. */
struct obstacle {
    const char *message;
    void (*make)(const char *directory, const char *entry);
};

static void make_other_image(const char *directory, const char *entry)
{
    variant_create(sample.image, directory, "other", 1, 2);
    run(directory, 0, text_format("split --sidecar %s -o other.out other", entry));
}

static void make_other_split(const char *directory, const char *entry)
{
    run(directory, 0, text_format("split --sections covmap --sidecar %s -o other.out app", entry));
}

static void make_other_uuid(const char *directory, const char *entry)
{
    variant_create(sample.image, directory, "other", 2, 1);
    run(directory, 0, text_format("split --sidecar %s -o other.out other", entry));
}

static void make_placeholder(const char *directory, const char *entry)
{
    run(directory, 0, "split --sidecar side -o split app");
    run(directory, 0, text_format("split --sidecar %s -o other.out split", entry));
}

static void make_damaged(const char *directory, const char *entry)
{
    run(directory, 0, text_format("split --sidecar %s -o other.out app", entry));
    struct contents contents = file_read(entry);
    /* In the middle there is compressed content; the notes are good. */
    contents.data[contents.size / 2] ^= 1;
    file_write(entry, contents.data, contents.size);
}

/* As one of another covsplit: a sidecar, which cannot be opened. */
static void make_unsealed(const char *directory, const char *entry)
{
    run(directory, 0, text_format("split --sidecar %s -o other.out app", entry));
    struct contents contents = file_read(entry);
    contents.data[contents.size - 1] ^= 1; /* of the section headers */
    file_write(entry, contents.data, contents.size);
}

static void make_truncated(const char *directory, const char *entry)
{
    make_other_split(directory, entry);
    ck_assert_int_eq(truncate(entry, (off_t)(file_size(entry) / 2)), 0);
}

static void make_dangling_link(const char *directory, const char *entry)
{
    (void)directory;
    ck_assert_int_eq(symlink("/nowhere/at/all", entry), 0);
}

static const struct obstacle obstacles[] = {
    {"has another image, other (digest ", make_other_image},
    {"of another split of the same image", make_other_split},
    {"not of the one it is named after", make_other_uuid},
    {"is a placeholder", make_placeholder},
    {"damaged", make_damaged},
    {"its seal does not match", make_unsealed},
    {"cannot be read as a sidecar", make_truncated},
    {"cannot be read as a sidecar", make_dangling_link},
};

START_TEST(test_replace)
{
    char *directory = sample_directory(&sample);
    struct variant app = variant_create(sample.image, directory, "app", 1, 1);
    char *store = path_join(directory, "store");
    char *entry = store_entry(store, app.uuid);
    run_or_abort(directory, "mkdir", "-p", text_format("store/.build-id/%.2s", app.uuid), NULL);
    obstacles[_i].make(directory, entry);
    struct stat before;
    ck_assert_int_eq(lstat(entry, &before), 0);
    const char *text = run(directory, 1, "split --store store -o out app");
    assert_contains(text, obstacles[_i].message);
    assert_contains(text, "--replace");
    ck_assert_uint_eq(text_count(text, "\n"), 1);
    struct stat after;
    ck_assert_int_eq(lstat(entry, &after), 0);
    ck_assert(same_file(&before, &after));
    ck_assert(!file_exists(path_join(directory, "out")));
    run(directory, 0, "split --replace --store store -o out app");
    assert_store(directory, 1);
    assert_joins(directory, "out", app.path);
    /* Replacing a sidecar by the same bytes does not touch it. (A delta has others.) */
    before = file_status(entry);
    run(directory, 0, "split --replace --store store -o out app");
    after = file_status(entry);
    ck_assert(same_file(&before, &after) || stores_have_deltas());
}
END_TEST

/* What is missing in the image is in the store: --replace must not lose it, whether the image is
 * known as a split one, or has lost its marks and nothing is left in it that can go. */
START_TEST(test_replace_keeps_what_the_image_lacks)
{
    char *directory = sample_directory(&sample);
    struct variant app = variant_create(sample.image, directory, "app", 1, 1);
    run(directory, 0, "split --store store --sections covfun,covmap -o part app");
    char *entry = store_entry(path_join(directory, "store"), app.uuid);
    struct stat before = file_status(entry);
    run(directory, 0, "split --replace --store store -o again part");
    file_copy(path_join(directory, "part"), path_join(directory, "bare"));
    run_or_abort(directory, "llvm-strip-19", "bare", NULL);
    const char *text = run(directory, 1, "split --replace --store store -o out bare");
    assert_contains(text, "nothing to take out");
    struct stat after = file_status(entry);
    ck_assert(same_file(&before, &after));
    assert_joins(directory, "again", app.path);
}
END_TEST

/* ---- killed ---- */

struct kills {
    char *directory;
    struct variant app;
    char *entry;
    unsigned long early;
    unsigned long late;
};

/* The sidecar is there or not, whole; a stripped image is never there without it; the next split
 * gets to the end. */
static void assert_after_kill(struct kills *kills)
{
    run(kills->directory, 0, "store check store");
    if (file_exists(path_join(kills->directory, "out"))) {
        kills->late++;
        assert_joins(kills->directory, "out", kills->app.path);
        return;
    }
    kills->early++;
    run(kills->directory, 0, "split --store store -o out app");
    assert_joins(kills->directory, "out", kills->app.path);
}

static void kill_splits(struct kills *kills, enum restriction restriction, unsigned long count)
{
    struct command plain = command_of(kills->directory, "split --store store -o out app");
    struct command command = command_restrict(&plain, restriction);
    double whole = 0;
    for (unsigned i = 0; i < 5; i++) {
        unlink(kills->entry);
        struct outcome outcome = command_run(&command);
        assert_all_exit(&command, &outcome, 1, 0);
        whole = i == 0 || outcome.wall_seconds < whole ? outcome.wall_seconds : whole;
    }
    struct moments moments = moments_start(SEED, whole * 1.1);
    for (unsigned long i = 0; i < count; i++) {
        double delay = moments_next(&moments);
        unlink(path_join(kills->directory, "out"));
        unlink(kills->entry);
        command_kill_after(&command, delay);
        unsigned long early = kills->early;
        assert_after_kill(kills);
        moments_met(&moments, kills->early != early);
    }
    /* The moments must have met splits that were not done. */
    ck_assert_msg(kills->early > count / 4, "%lu early, %lu late", kills->early, kills->late);
}

static struct kills kills_start(void)
{
    struct kills kills = {.directory = sample_directory(&sample)};
    kills.app = variant_create(sample.image, kills.directory, "app", 1, 1);
    kills.entry = store_entry(path_join(kills.directory, "store"), kills.app.uuid);
    variant_create(sample.image, kills.directory, "neighbour", 257, 1);
    run(kills.directory, 0, "split --store store -o neighbour.out neighbour");
    return kills;
}

START_TEST(test_killed)
{
    struct kills kills = kills_start();
    kill_splits(&kills, RESTRICTION_NONE, rounds(KILLS));
    assert_store(kills.directory, 2); /* and nothing is left over */
}
END_TEST

/* Files with names are left over by kills; they are known, and cleaned up. */
START_TEST(test_killed_with_temporary_names)
{
    struct kills kills = kills_start();
    kill_splits(&kills, RESTRICTION_NO_UNNAMED, rounds(KILLS) / 4 + 10);
    /* A split that is killed right behind the link leaves two names of one file. Those that are
     * left become old below; the sidecar must not. */
    unlink(kills.entry);
    run(kills.directory, 0, "split --store store -o out app");
    char *parent = text_format("%s/store/.build-id/%.2s", kills.directory, kills.app.uuid);
    struct text_list names = directory_list(parent);
    ck_assert_uint_gt(names.count, 2);
    ck_assert_uint_eq(text_count(run(kills.directory, 0, "store gc --older-than 1 store"), "\n"),
                      1);
    for (size_t i = 0; i < names.count; i++) {
        if (names.items[i][0] == '.') {
            file_set_age(path_join(parent, names.items[i]), 25);
        }
    }
    size_t leftovers = names.count - 2;
    const char *text = run(kills.directory, 0, "store check store");
    ck_assert_uint_eq(text_count(text, ": left by a split that was killed; "), leftovers);
    text = run(kills.directory, 0, "store gc --older-than 1 store");
    ck_assert_uint_eq(text_count(text, "(left by a split that was killed)\n"), leftovers);
    assert_store(kills.directory, 2);
}
END_TEST

int main(int argument_count, char **arguments)
{
    restriction_enter(argument_count, arguments);
    TCase *test_case = suite_case("writers", 1500, prepare);
    suite_loops(test_case, RESTRICTIONS, test_one_image, test_many_images,
                test_two_images_of_one_uuid, test_replace_together);
    tcase_add_test(test_case, test_no_safe_way);
    suite_loops(test_case, RESTRICTIONS, test_writers_and_cleaners);
    suite_tests(test_case, test_sidecar_goes_at_every_moment, test_directory_goes_at_every_moment,
                test_other_comes_at_every_moment, test_deltas_together,
                test_gc_at_every_moment_of_a_split, test_split_at_every_moment_of_gc,
                test_two_names);
    suite_loops(test_case, sizeof obstacles / sizeof *obstacles, test_replace);
    suite_tests(test_case, test_replace_keeps_what_the_image_lacks, test_killed,
                test_killed_with_temporary_names);
    return suite_main("store writers", test_case);
}
