/*
 * covsplit store add and store copy, and the patterns that choose sidecars of a store: for
 * export, for list and for gc.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/delta_stores.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 40
#define IMAGE_COUNT      4
#define WRITERS          8

static struct sample sample;
static struct variant variants[IMAGE_COUNT]; /* in sample.scratch */
static char *nameless;                       /* the directory of an image without a build ID */
static const char *const names[IMAGE_COUNT] = {"app-0", "app-1", "libfoo.so", "libbar.so"};

static void prepare(void)
{
    struct program without = {.clang = "19",
                              .linker = "lld",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .build_id = "none",
                              .functions = SAMPLE_FUNCTIONS};
    sample = sample_create("store-copy", SAMPLE_FUNCTIONS);
    nameless = path_join(sample.scratch, "nameless");
    directory_create(nameless);
    program_build(&without, nameless);
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        variants[i] = variant_create(sample.image, sample.scratch, names[i], i, i);
    }
}

/* Returns what is written to both streams. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    struct outcome outcome = covsplit_run_words(directory, exit_code, words);
    return text_format("%s%s", outcome.output, outcome.errors);
}

/* A directory with the images, and in side/ their sidecars NAME.covsplit beside the stripped ones.
 */
static char *place_create(void)
{
    char *directory = sample_directory(&sample);
    directory_create(path_join(directory, "side"));
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        file_copy(variants[i].path, path_join(directory, names[i]));
        run(directory, 0,
            text_format("split -o side/%s %s --sidecar side/%s.covsplit", names[i], names[i],
                        names[i]));
    }
    return directory;
}

/* The same with all of them in "store" too, all a little old. */
static char *store_create(void)
{
    char *directory = place_create();
    run(directory, 0, "store add store side");
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        file_set_age(store_entry(path_join(directory, "store"), variants[i].uuid), 1);
    }
    return directory;
}

static bool has(const char *directory, const char *store, unsigned image)
{
    return file_exists(store_entry(path_join(directory, store), variants[image].uuid));
}

/* The store has the images whose bits are set, whole, and nothing else. */
static void assert_store(const char *directory, const char *store, unsigned images)
{
    unsigned count = 0;
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        bool expected = (images >> i & 1) != 0;
        ck_assert_msg(has(directory, store, i) == expected, "%s in %s", names[i], store);
        count += expected;
    }
    if (file_exists(path_join(directory, store))) {
        assert_contains(run(directory, 0, text_format("store check %s", store)),
                        text_format("%s, ", text_of_count(count, "sidecar")));
    }
}

/* ---- add ---- */

START_TEST(test_add)
{
    char *directory = place_create();
    char *entry = store_entry(path_join(directory, "store"), variants[1].uuid);
    run(directory, 0, "store add store side/app-0.covsplit");
    assert_store(directory, "store", 1);
    file_write_text(path_join(directory, "list"), "# of this build\nside/app-1.covsplit\r\n\n"
                                                  "side/libfoo.so.covsplit\n");
    file_set_age(path_join(directory, "side/app-1.covsplit"), 1000);
    const char *said = run(directory, 0, "store add -v store @list");
    assert_contains(said, "side/app-1.covsplit: added as store/.build-id/");
    assert_contains(said, "2 sidecars added, ");
    assert_store(directory, "store", 7);
    stored_assert_equal(entry, path_join(directory, "side/app-1.covsplit"), "app-1");
    /* Its age is that in the store. */
    run(directory, 0, "store gc --older-than 1 store");
    assert_store(directory, "store", 7);
    /* All at once, and from store to store; what is there is fine. */
    struct stat before = file_status(entry), after;
    said = run(directory, 0, "store add -v store side");
    assert_contains(said, "side/app-1.covsplit: already there: store/.build-id/");
    assert_contains(said, "1 sidecar added, ");
    assert_contains(said, "3 already there, 0 skipped");
    after = file_status(entry);
    ck_assert(before.st_ino == after.st_ino && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
    run(directory, 0, "store add --verify deep/down/other store");
    assert_store(directory, "store", 15);
    assert_store(directory, "deep/down/other", 15);
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        run(directory, 0, text_format("join --store store -o joined side/%s", names[i]));
        files_assert_equal(path_join(directory, "joined"), variants[i].path, names[i]);
        ck_assert(file_exists(path_join(directory, text_format("side/%s.covsplit", names[i]))));
    }
}
END_TEST

/* In whatever form the store has it, and whatever the image was called. */
START_TEST(test_add_another_form)
{
    char *directory = place_create();
    char *entry = store_entry(path_join(directory, "store"), variants[0].uuid);
    file_copy(variants[0].path, path_join(directory, "renamed"));
    run(directory, 0, "split --fast -o x --sidecar plain renamed");
    run(directory, 0, "store add store plain");
    stored_assert_equal(entry, path_join(directory, "plain"), "plain");
    assert_contains(run(directory, 0, "store add --replace store side/app-0.covsplit"),
                    "0 sidecars added, 0 B; 1 already there");
    stored_assert_equal(entry, path_join(directory, "plain"), "plain");
}
END_TEST

/* Rules of builds give programs without coverage sidecars too. */
START_TEST(test_add_what_holds_nothing)
{
    char *directory = place_create();
    file_write_text(path_join(directory, "none.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-19", "-Wl,--build-id", "none.c", "-o", "none", NULL);
    run(directory, 0, "split -o x --sidecar side/none.covsplit none");
    assert_contains(run(directory, 0, "store add store side"), " already there, 1 skipped");
    assert_store(directory, "store", (1 << IMAGE_COUNT) - 1);
    run(directory, 0, "export --store store --debug-dir debug");
}
END_TEST

/* Nobody may take a good sidecar for safe, and remove it, where the store's copy is damaged. Only
 * what is at its start is sealed. */
START_TEST(test_add_what_is_damaged_there)
{
    char *directory = place_create();
    char *entry = store_entry(path_join(directory, "store"), variants[0].uuid);
    run(directory, 0, "store add store side/app-0.covsplit");
    struct elf_file file = elf_file_read(entry);
    const Elf64_Shdr *section = elf_file_section(&file, "__llvm_covmap");
    file.file.data[section->sh_offset + section->sh_size - 1] ^= 1;
    file_write(entry, file.file.data, file.file.size);
    elf_file_free(&file);
    assert_contains(run(directory, 1, "store add store side/app-0.covsplit"), "--replace");
    run(directory, 0, "store add --replace store side/app-0.covsplit");
    stored_assert_equal(entry, path_join(directory, "side/app-0.covsplit"), "damaged");
}
END_TEST

START_TEST(test_add_another_sidecar)
{
    char *directory = store_create();
    char *entry = store_entry(path_join(directory, "store"), variants[0].uuid);
    struct contents before = file_read(entry);
    run(directory, 0, "split --sections covmap -o x --sidecar other app-0");
    struct outcome outcome =
        covsplit_run_words(directory, 1, "store add store other side/app-1.covsplit");
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    assert_contains(outcome.errors, "covsplit: error: other: not added: the store has a different "
                                    "sidecar of UUID ");
    assert_contains(outcome.errors, text_format("store/.build-id/%.2s/", variants[0].uuid));
    assert_contains(outcome.errors, "--replace");
    assert_contains(outcome.output, "0 sidecars added, 0 B; 1 already there, 0 skipped");
    struct contents after = file_read(entry);
    ck_assert(contents_equal(&before, &after));
    assert_contains(run(directory, 0, "store add --replace store other"), "1 sidecar added, ");
    stored_assert_equal(entry, path_join(directory, "other"), "other");
    assert_store(directory, "store", 15);
}
END_TEST

static void damage(const char *path, size_t from_end)
{
    struct contents contents = file_read(path);
    contents.data[contents.size - from_end] ^= 1;
    file_write(path, contents.data, contents.size);
}

START_TEST(test_add_bad)
{
    char *directory = place_create();
    size_t size = file_size(path_join(directory, "side/app-0.covsplit"));
    run(directory, 0, "split -o x --sidecar side/placeholder.covsplit side/app-1");
    run(directory, 0,
        text_format("split --sections covmap -o x --sidecar side/nameless.covsplit "
                    "%s/" PROGRAM_NAME,
                    nameless));
    run_or_abort(directory, "sh", "-ec",
                 "cd side; cp app-0.covsplit cut.covsplit; truncate -s 999 cut.covsplit\n"
                 ": >none.covsplit; cp app-0.covsplit flipped; mkdir dir.covsplit",
                 NULL);
    damage(path_join(directory, "side/app-0.covsplit"), 1); /* what is sealed */
    struct outcome outcome = covsplit_run_words(directory, 1, "store add store side nowhere");
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: error: "), 5);
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: warning: "), 1);
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 6);
    static const char *const parts[] = {"nowhere: ",
                                        "side/cut.covsplit: ",
                                        "side/none.covsplit: ",
                                        "side/app-0.covsplit: ",
                                        "side/nameless.covsplit: ",
                                        "side/placeholder.covsplit: skipped: a placeholder"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_contains(outcome.errors, parts[i]);
    }
    assert_contains(outcome.output, "3 sidecars added, ");
    assert_contains(outcome.output, "1 skipped");
    assert_store(directory, "store", 14);
    /* What is compressed is looked at with --verify. */
    damage(path_join(directory, "side/flipped"), size / 2);
    assert_contains(run(directory, 1, "store add --verify store side/flipped"), "damaged");
    assert_store(directory, "store", 14);
    run(directory, 0, "store add store side/flipped");
    run(directory, 1, "store check store");
    run(directory, 0, "split -o x --sidecar good app-0");
    assert_contains(run(directory, 1, "store add --verify store good"), "damaged");
    run(directory, 0, "store add --verify --replace store good");
    assert_store(directory, "store", 15);
    /* A store that has rubbish there. */
    run_or_abort(directory, "sh", "-c",
                 text_format("echo x >store/.build-id/%.2s/%s.covsplit", variants[0].uuid,
                             variants[0].uuid + 2),
                 NULL);
    assert_contains(run(directory, 1, "store add store good"), "--replace");
    run(directory, 0, "store add --replace store good");
    assert_store(directory, "store", 15);
    run_or_abort(directory, "sh", "-c",
                 "for i in store/.build-id/00/*; do ln -sf /nowhere/at/all $i; done", NULL);
    assert_contains(run(directory, 1, "store add store good"), "--replace");
    run(directory, 0, "store add --replace store good");
    assert_store(directory, "store", 15);
    assert_contains(run(directory, 1, "store add good side"), "good");
    run(directory, 2, "store add store");
}
END_TEST

START_TEST(test_add_together)
{
    char *directory = place_create();
    struct command commands[WRITERS];
    struct outcome outcomes[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        commands[i] = covsplit_words(directory, i % 4 == 3 ? "store gc --older-than 1 store"
                                                           : "store add store side");
    }
    directory_create(path_join(directory, "store"));
    commands_run_together(commands, WRITERS, outcomes);
    for (unsigned i = 0; i < WRITERS; i++) {
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s",
                      outcome_describe(&commands[i], &outcomes[i]));
    }
    assert_store(directory, "store", 15);
}
END_TEST

/* ---- patterns ---- */

/* What they choose; the UUIDs begin with 00, 25, 4a and 6f. */
static const struct choice {
    const char *patterns;
    unsigned images;
    unsigned unused; /* patterns that nothing fits */
} choices[] = {
    {"", 15, 0},
    {"app-0", 1, 0},
    {"app-*", 3, 0},
    {"lib???.so", 12, 0},
    {"lib[a-f]*", 12, 0},
    {"[!l]*", 3, 0},
    {"*", 15, 0},
    {"25000103", 2, 0},
    {"25000103-0405 APP", 2, 1},
    {"2500010304050 libbar.so", 10, 0},
    {"2500010", 0, 1}, /* too short to be a UUID */
    {"25000104 app", 0, 2},
    {"6F000303 4a0002030405060708090A0B0C0D0E0F10111213", 12, 0},
};

static void assert_unused(const char *said, const struct choice *choice)
{
    ck_assert_msg(text_count(said, ": matches no sidecar in the store store; ") == choice->unused,
                  "%s:\n%s", choice->patterns, said);
}

START_TEST(test_patterns)
{
    const struct choice *choice = &choices[_i];
    char *directory = store_create();
    int status = choice->unused != 0;
    unsigned count = (unsigned)__builtin_popcount(choice->images);
    const char *said =
        run(directory, status, text_format("store list --json store %s", choice->patterns));
    ck_assert_uint_eq(text_count(said, "\"uuid\""), count);
    assert_unused(said, choice);
    said = run(directory, status, text_format("store copy store other %s", choice->patterns));
    assert_contains(said,
                    text_format(count == 1 ? "%u sidecar added, " : "%u sidecars added, ", count));
    assert_unused(said, choice);
    assert_store(directory, "other", choice->images);
    assert_store(directory, "store", 15);
    said = run(directory, 0, text_format("store gc -n --older-than 0 store %s", choice->patterns));
    ck_assert_uint_eq(text_count(said, "would remove "), count);
    run(directory, 0, text_format("store gc --older-than 1 store %s", choice->patterns));
    assert_store(directory, "store", 15);
    said = run(directory, 0, text_format("store gc --older-than 0 store %s", choice->patterns));
    assert_unused(said, choice);
    assert_store(directory, "store", 15 & ~choice->images);
}
END_TEST

START_TEST(test_patterns_with_keep_list)
{
    char *directory = store_create();
    file_write_text(path_join(directory, "keep"), text_format("%s\n", variants[1].uuid));
    const char *said = run(directory, 0, "store gc --keep-list keep store app-* libfoo.so");
    assert_store(directory, "store", 2 | 8);
    ck_assert_ptr_null(strstr(said, "matches no"));
    run(directory, 0, "store gc --keep-list keep store app-1");
    assert_store(directory, "store", 2 | 8);
    /* Alone they do not say that anything is to go. */
    run(directory, 2, "store gc store app-1");
}
END_TEST

START_TEST(test_bad_patterns_and_stores)
{
    static const char *const commands[] = {"store list store", "store copy store other",
                                           "store gc --older-than 0 store"};
    char *directory = store_create();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const char *said = run(directory, 1, text_format("%s side/app-0", commands[i]));
        assert_contains(said, "without directories");
        ck_assert_uint_eq(text_count(said, "\n"), 1);
        /* Of one that cannot be read nobody knows what image it is of. */
        damage(store_entry(path_join(directory, "store"), variants[0].uuid), 1);
        said = run(directory, 1, text_format("%s app-*", commands[i]));
        assert_contains(said, "its seal does not match");
        damage(store_entry(path_join(directory, "store"), variants[0].uuid), 1);
    }
    assert_store(directory, "store", 15 & ~2U);
    assert_store(directory, "other", 2);
    run(directory, 0, "store copy store other 6f000303");
    assert_store(directory, "other", 10);
    run(directory, 1, "store copy nowhere other");
    run(directory, 2, "store copy store");
    /* Another image's sidecar, where this one should be. */
    file_copy(path_join(directory, "side/app-0.covsplit"),
              store_entry(path_join(directory, "store"), variants[2].uuid));
    assert_contains(run(directory, 1, "store copy store third"), "of UUID");
    assert_store(directory, "third", 9);
}
END_TEST

START_TEST(test_export_another_sidecar)
{
    char *directory = store_create();
    run(directory, 0, "split --sections covmap --store other -o x app-0");
    assert_contains(run(directory, 1, "store copy store other"), "has a different sidecar");
    assert_store(directory, "other", 15);
    file_copy(path_join(directory, "side/app-0"), path_join(directory, "alone"));
    run(directory, 1, "join --store other -o x alone");
    assert_contains(run(directory, 0, "store copy -v --verify --replace store other app-0"),
                    ": added as other/");
    run(directory, 0, "join --store other -o x alone");
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("store copy", 240, prepare);
    suite_tests(test_case, test_add, test_add_another_form, test_add_what_is_damaged_there,
                test_add_what_holds_nothing, test_add_another_sidecar, test_add_bad,
                test_add_together);
    suite_loops(test_case, sizeof choices / sizeof *choices, test_patterns);
    suite_tests(test_case, test_patterns_with_keep_list, test_bad_patterns_and_stores,
                test_export_another_sidecar);
    return suite_main("store copy", test_case);
}
