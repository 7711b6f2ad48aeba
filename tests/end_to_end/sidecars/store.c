/*
 * covsplit store list, check and gc, and the search for sidecars in stores.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_main.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/delta_stores.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 40
#define IMAGE_COUNT      6

static struct sample sample;
static struct variant variants[IMAGE_COUNT]; /* in sample.scratch, each split into its store */
static char *full_store;

static void prepare(void)
{
    sample = sample_create("store", SAMPLE_FUNCTIONS);
    ck_assert_int_eq(chmod(sample.scratch, 0755), 0); /* for the user who is not root */
    full_store = path_join(sample.scratch, "full");
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        variants[i] = variant_create(sample.image, sample.scratch, text_format("app-%u", i), i, i);
        run_or_abort(sample.scratch, covsplit_path(), "split", "--store", "full", "-o",
                     text_format("stripped-%u", i), variants[i].path, NULL);
        run_or_abort(sample.scratch, covsplit_path(), "split", "--sidecar",
                     text_format("side-%u", i), "-o", "other", variants[i].path, NULL);
    }
}

/* A directory with a store of the first `count` images as "store", all a little old. */
static char *store_directory(unsigned count)
{
    char *directory = sample_directory(&sample);
    char *store = path_join(directory, "store");
    directory_create(store);
    directory_create(path_join(store, ".build-id"));
    for (unsigned i = 0; i < count; i++) {
        char *to = store_entry(store, variants[i].uuid);
        char *parent = text_format("%s/.build-id/%.2s", store, variants[i].uuid);
        if (!file_exists(parent)) {
            directory_create(parent);
        }
        file_copy(path_join(sample.scratch, text_format("side-%u", i)), to);
        file_set_age(to, 1);
    }
    store_settle(store);
    return directory;
}

static char *entry_of(const char *directory, unsigned image)
{
    return store_entry(path_join(directory, "store"), variants[image].uuid);
}

/* The path of an entry as messages name it: from `directory`, in which covsplit is run. */
static const char *name_of(const char *directory, unsigned image)
{
    return entry_of(directory, image) + strlen(directory) + 1;
}

static const char *last_line(const char *text)
{
    struct text_list lines = text_list_of_lines(text);
    ck_assert_uint_ne(lines.count, 0);
    return lines.items[lines.count - 1];
}

/* ---- list ---- */

START_TEST(test_list)
{
    char *directory = store_directory(3);
    struct outcome outcome = covsplit_run_words(directory, 0, "store list store");
    struct text_list lines = text_list_of_lines(outcome.output);
    /* With headings and totals. */
    ck_assert_uint_eq(lines.count, stores_have_deltas() ? 6 : 5);
    for (unsigned i = 0; i < 3; i++) {
        const char *line = NULL;
        for (size_t j = 1; j < 4; j++) {
            line = strncmp(lines.items[j], variants[i].uuid, 40) == 0 ? lines.items[j] : line;
        }
        ck_assert_msg(line != NULL, "no %s:\n%s", variants[i].uuid, outcome.output);
        assert_contains(line, text_format(" app-%u ", i));
        assert_contains(line, " ELF ");
    }
    ck_assert_int_lt(strcmp(lines.items[1], lines.items[2]), 0);
    ck_assert_int_lt(strcmp(lines.items[2], lines.items[3]), 0);
    assert_contains(lines.items[4], "3 sidecars of ");
    if (stores_have_deltas()) {
        assert_contains(lines.items[5], "3 deltas; ");
    }
    ck_assert_uint_eq(outcome.errors_size, 0);
}
END_TEST

/* The JSON says what `show` says of each sidecar, and the file's time. */
static const char json_check[] =
    "import json, os, subprocess, sys, time\n"
    "tool = sys.argv[1]\n"
    "run = lambda *words: json.loads(subprocess.run([tool, *words], check=True,\n"
    "                                stdout=subprocess.PIPE).stdout)\n"
    "listed = run('store', 'list', '--json', 'store')\n"
    "shown = run('show', '--json', *[one['file'] for one in listed])\n"
    "assert len(listed) == 6 == len(shown)\n"
    "assert [one['uuid'] for one in listed] == sorted(one['uuid'] for one in listed)\n"
    "for one, other in zip(listed, shown):\n"
    "    moment = one.pop('modified')\n"
    "    whole_size, base = one.pop('whole_size'), one.pop('base')\n"
    "    assert (base is not None) == (sys.argv[2] == 'deltas')\n"
    "    assert whole_size == one['file_size'] if base is None else whole_size > one['file_size']\n"
    "    assert len(one) == 8, one\n"
    "    for key in one:\n"
    "        assert one[key] == other[key], (key, one, other)\n"
    "    assert one['file_size'] == os.stat(one['file']).st_size\n"
    "    assert moment == time.strftime('%Y-%m-%dT%H:%M:%SZ',\n"
    "                                   time.gmtime(os.stat(one['file']).st_mtime))\n";

START_TEST(test_list_json)
{
    char *directory = store_directory(IMAGE_COUNT);
    run_or_abort(directory, "python3", "-c", json_check, covsplit_path(),
                 stores_have_deltas() ? "deltas" : "whole", NULL);
    struct outcome outcome = covsplit_run_words(sample.scratch, 0, "store list --json full/.");
    ck_assert_uint_eq(text_count(outcome.output, "\"uuid\""), IMAGE_COUNT);
}
END_TEST

START_TEST(test_list_goes_on_after_a_fault)
{
    char *directory = store_directory(3);
    ck_assert_int_eq(truncate(entry_of(directory, 1), 100), 0);
    struct outcome table = covsplit_run_words(directory, 1, "store list store");
    struct outcome json = covsplit_run_words(directory, 1, "store list --json store");
    ck_assert_uint_eq(text_count(table.errors, "\n"), 1);
    assert_contains(table.errors, name_of(directory, 1));
    ck_assert_str_eq(table.errors, json.errors);
    assert_contains(table.output, "2 sidecars of ");
    ck_assert_uint_eq(text_count(json.output, "\"uuid\""), 2);
}
END_TEST

START_TEST(test_empty_and_missing)
{
    char *directory = store_directory(0);
    struct outcome outcome = covsplit_run_words(directory, 0, "store list store");
    ck_assert_uint_eq(text_count(outcome.output, "\n"), 1);
    assert_contains(outcome.output, "0 sidecars of ");
    outcome = covsplit_run_words(directory, 0, "store list --json store");
    ck_assert_str_eq(outcome.output, "[]\n");
    outcome = covsplit_run_words(directory, 0, "store check store");
    ck_assert_str_eq(outcome.output, "0 sidecars, 0 bytes, 0 faults\n");
    covsplit_run_words(directory, 0, "store gc --older-than 0 store");
    static const char *const lines[] = {"store list nowhere", "store check nowhere",
                                        "store gc --older-than 1 nowhere"};
    /* Any other directory would check out as an empty store. */
    outcome = covsplit_run_words(directory, 1, "store check .");
    ck_assert_str_eq(outcome.errors,
                     "covsplit: error: .: not a store: there is no .build-id in it; name a "
                     "directory that was given to split --store\n");
    ck_assert_str_eq(outcome.output, "");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        outcome = covsplit_run_words(directory, 1, lines[i]);
        ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
        assert_contains(outcome.errors, "covsplit: error: nowhere: ");
    }
}
END_TEST

/* Only hidden names are in a store, so a new one has a file for people; a file of theirs stays. */
START_TEST(test_readme)
{
    char *directory = sample_directory(&sample);
    directory_create(path_join(directory, "theirs"));
    file_write_text(path_join(directory, "theirs/README"), "theirs");
    for (int i = 0; i < 2; i++) {
        const char *store = i == 0 ? "new" : "theirs";
        char *readme = path_join(directory, text_format("%s/README", store));
        covsplit_run_words(directory, 0, text_format("store add %s %s", store, full_store));
        ck_assert_ptr_nonnull(
            strstr((char *)file_read(readme).data, i == 0 ? "covsplit store list .  " : "theirs"));
        struct outcome outcome =
            covsplit_run_words(directory, 0, text_format("store check %s", store));
        assert_contains(outcome.output, text_format("%d sidecars, ", IMAGE_COUNT));
        covsplit_run_words(directory, 0, text_format("store gc --older-than 0 %s", store));
        ck_assert(file_exists(readme));
    }
    covsplit_run_words(directory, 0,
                       text_format("export --store %s --debug-dir debug", full_store));
    ck_assert(!file_exists(path_join(directory, "debug/README")));
}
END_TEST

/* ---- check ---- */

START_TEST(test_check_good)
{
    char *directory = store_directory(IMAGE_COUNT);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        bytes += file_size(entry_of(directory, i));
    }
    const char *total =
        text_format("%d sidecars, %s, 0 faults\n", IMAGE_COUNT, text_of_count(bytes, "byte"));
    ck_assert_uint_gt(bytes, 999); /* so that there is a separator */
    static const char *const lines[] = {"store check store", "store check -j1 store",
                                        "store check -j 16 store"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct outcome outcome = covsplit_run_words(directory, 0, lines[i]);
        ck_assert_str_eq(outcome.output, total);
        ck_assert_uint_eq(outcome.errors_size, 0);
    }
    struct outcome verbose = covsplit_run_words(directory, 0, "store check -v store");
    ck_assert_uint_eq(text_count(verbose.output, ": ok\n"), IMAGE_COUNT);
    struct outcome bare = covsplit_run_words(directory, 1, "verify store");
    ck_assert_str_eq(bare.errors, "covsplit: error: store: is a directory; a store is checked by "
                                  "'store check'\n");
}
END_TEST

/* One line on stderr names the file. */
static void assert_fault(const char *directory, unsigned image, const char *what)
{
    struct outcome outcome = covsplit_run_words(directory, 1, "store check store");
    const char *line = text_format("covsplit: error: %s: ", name_of(directory, image));
    ck_assert_msg(text_count(outcome.errors, "\n") == 1 && strstr(outcome.errors, line) != NULL,
                  "%s: %s", what, outcome.errors);
    assert_contains(outcome.output, ", 1 fault\n");
}

#define FLIPS 100
/* zstd's frames have a few bits that stand for nothing. */
#define IDLE_FLIPS_MAX 5

/* Whether a flipped bit was one that stands for nothing: then there is no fault, and the original
 * comes back all the same. */
static bool is_idle(const char *directory)
{
    struct command command = covsplit_command(directory, "store", "check", "store", NULL);
    struct outcome outcome = command_run(&command);
    if (outcome.exit_code != 0) {
        return false;
    }
    covsplit_run_words(directory, 0,
                       text_format("join --store store -o joined %s/stripped-0", sample.scratch));
    files_assert_equal(path_join(directory, "joined"), variants[0].path,
                       "joined from a sidecar with a bit flipped");
    return true;
}

START_TEST(test_check_finds_every_flip)
{
    char *directory = store_directory(2);
    char *path = entry_of(directory, 0);
    struct contents contents = file_read(path);
    unsigned idle = 0;
    for (size_t i = 0; i < FLIPS; i++) {
        /* From the first byte to the last: headers, notes, contents, section headers. */
        size_t offset = i * (contents.size - 1) / (FLIPS - 1);
        contents.data[offset] ^= 0x10;
        file_write(path, contents.data, contents.size);
        if (is_idle(directory)) {
            idle++;
        } else {
            assert_fault(directory, 0, text_format("byte %zu", offset));
        }
        contents.data[offset] ^= 0x10;
    }
    ck_assert_uint_le(idle, IDLE_FLIPS_MAX);
    file_write(path, contents.data, contents.size);
    covsplit_run_words(directory, 0, "store check store");
}
END_TEST

START_TEST(test_check_truncated)
{
    char *directory = store_directory(2);
    char *path = entry_of(directory, 1);
    uint64_t size = file_size(path);
    uint64_t sizes[] = {size - 1, size / 2, 64, 1, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ck_assert_int_eq(truncate(path, (off_t)sizes[i]), 0);
        assert_fault(directory, 1, text_format("%llu bytes", (unsigned long long)sizes[i]));
    }
    ck_assert_int_eq(unlink(path), 0);
    directory_create(path);
    assert_fault(directory, 1, "a directory");
}
END_TEST

/* Several faults of different kinds: a line each, in the same order with any number of threads. */
START_TEST(test_check_all_kinds)
{
    char *directory = store_directory(IMAGE_COUNT);
    ck_assert_int_eq(truncate(entry_of(directory, 0), 1000), 0);
    file_copy(entry_of(directory, 2), entry_of(directory, 1));
    run_or_abort(directory, covsplit_path(), "split", "-o", "copy", "--sidecar", "placeholder",
                 path_join(sample.scratch, "stripped-3"), NULL);
    file_copy(path_join(directory, "placeholder"), entry_of(directory, 3));
    const char *root = path_join(directory, "store/.build-id");
    file_copy(entry_of(directory, 4), path_join(root, "lost.covsplit"));
    directory_create(path_join(root, "ABC"));
    file_copy(entry_of(directory, 4), path_join(root, "ABC/00.covsplit"));
    file_write_text(path_join(root, "ABC/00.debug"), "of another tool");
    char *temporary =
        text_format("%s/.build-id/%.2s/.%s.covsplit.covsplit-Ab01yz", path_join(directory, "store"),
                    variants[4].uuid, variants[4].uuid + 2);
    file_write_text(temporary, "half a side");

    struct outcome one = covsplit_run_words(directory, 1, "store check -j1 store");
    struct outcome many = covsplit_run_words(directory, 1, "store check -j7 store");
    ck_assert_str_eq(one.errors, many.errors);
    ck_assert_str_eq(one.output, many.output);
    ck_assert_uint_eq(text_count(one.errors, "\n"), 5);
    assert_contains(one.errors, "not of the one it is named after");
    assert_contains(one.errors, "placeholder");
    assert_contains(one.errors, "store/.build-id/lost.covsplit: ");
    assert_contains(one.errors, "store/.build-id/ABC/00.covsplit: ");
    assert_contains(last_line(one.output), "6 sidecars, ");
    assert_contains(last_line(one.output), ", 5 faults");

    /* What may be being written now is none of its business; what is left over is no fault. */
    file_set_age(temporary, 25);
    struct outcome late = covsplit_run_words(directory, 1, "store check store");
    assert_contains(late.errors, "Ab01yz: left by a split that was killed; ");
    ck_assert_str_eq(late.output, one.output);
}
END_TEST

/* More sidecars than there are places in the ring of jobs. */
START_TEST(test_check_many)
{
    char *directory = store_directory(1);
    char *from = entry_of(directory, 0);
    for (unsigned i = 0; i < 300; i++) {
        char *name = text_format("%s/.build-id/%.2s/%04x.covsplit", path_join(directory, "store"),
                                 variants[0].uuid, i);
        ck_assert_int_eq(link(from, name), 0);
    }
    struct outcome one = covsplit_run_words(directory, 1, "store check -j1 store");
    struct outcome many = covsplit_run_words(directory, 1, "store check -j5 store");
    ck_assert_str_eq(one.errors, many.errors);
    ck_assert_uint_eq(text_count(one.errors, "\n"), 300);
    assert_contains(last_line(many.output), "301 sidecars, ");
}
END_TEST

/* ---- gc ---- */

/* Images 0 to 2 are 49 hours old, the others 1 hour; 0 and 3 are listed, 1 and 4 by a prefix. */
static char *gc_directory(void)
{
    char *directory = store_directory(IMAGE_COUNT);
    for (unsigned i = 0; i < 3; i++) {
        file_set_age(entry_of(directory, i), 49);
    }
    struct text_list upper = {0};
    text_list_add(&upper, variants[3].uuid);
    for (char *c = upper.items[0]; *c != '\0'; c++) {
        *c = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
    }
    file_write_text(path_join(directory, "list"),
                    text_format("# in use\n\n%s\r\n  %.8s # by its first bytes\n%s\n%.10s\n%s",
                                variants[0].uuid, variants[1].uuid, upper.items[0],
                                variants[4].uuid, variants[0].uuid));
    return directory;
}

static const struct {
    const char *options;
    const char *removed; /* the digits of the images */
} gc_cases[] = {
    {"--older-than 1", "012"},
    {"--older-than 2", "012"},
    {"--older-than 3", ""},
    {"--older-than 0", "012345"},
    {"--keep-list list", "25"},
    {"--older-than 1 --keep-list list", "2"},
    {"--older-than 0 --keep-list list", "25"},
    {"--older-than 3 --keep-list list", ""},
};

static bool goes(const char *removed, unsigned image)
{
    return strchr(removed, (int)('0' + image)) != NULL;
}

static void assert_left(const char *directory, const char *removed)
{
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        ck_assert_msg(file_exists(entry_of(directory, i)) != goes(removed, i), "image %u", i);
        char *parent = text_format("%s/store/.build-id/%.2s", directory, variants[i].uuid);
        ck_assert_msg(file_exists(parent) != goes(removed, i), "%s", parent);
    }
}

START_TEST(test_gc)
{
    const char *removed = gc_cases[_i].removed;
    char *directory = gc_directory();
    char *store = path_join(directory, "store");
    struct text_list before = tree_list(store);
    struct outcome dry = covsplit_run_words(
        directory, 0, text_format("store gc --dry-run %s store", gc_cases[_i].options));
    struct text_list after = tree_list(store);
    ck_assert_uint_eq(before.count, after.count);
    for (size_t i = 0; i < before.count; i++) {
        ck_assert_str_eq(before.items[i], after.items[i]);
    }
    struct outcome outcome =
        covsplit_run_words(directory, 0, text_format("store gc %s store", gc_cases[_i].options));
    assert_left(directory, removed);
    for (unsigned i = 0; i < IMAGE_COUNT; i++) {
        const char *path = name_of(directory, i);
        bool named = strstr(outcome.output, text_format("removed %s\n", path)) != NULL;
        bool foretold = strstr(dry.output, text_format("would remove %s\n", path)) != NULL;
        ck_assert(named == goes(removed, i) && foretold == named);
    }
    ck_assert_uint_eq(text_count(outcome.output, "\n"), strlen(removed) + 1);
    assert_contains(last_line(outcome.output),
                    text_format("%s, ", text_of_count(strlen(removed), "sidecar")));
    assert_contains(last_line(outcome.output),
                    text_format("; %s stay%s",
                                text_of_count(IMAGE_COUNT - strlen(removed), "sidecar"),
                                IMAGE_COUNT - strlen(removed) == 1 ? "s" : ""));
    ck_assert_uint_eq(outcome.errors_size, 0);
}
END_TEST

/* What is written goes, even if that was at the same tick of the clock. */
START_TEST(test_gc_right_after)
{
    char *directory = store_directory(1);
    struct command command = covsplit_words(directory, "store gc --older-than 0 store");
    char *entry = entry_of(directory, 0);
    struct contents sidecar = file_read(entry);
    command.main_function = covsplit_main;
    for (unsigned i = 0; i < 20; i++) {
        file_write(entry, sidecar.data, sidecar.size);
        command_expect(&command, 0);
        ck_assert_msg(!file_exists(entry), "round %u: it stays", i);
        directory_create(text_format("%s/store/.build-id/%.2s", directory, variants[0].uuid));
    }
}
END_TEST

/* What cannot be removed stays. */
START_TEST(test_gc_closed)
{
    char *directory = gc_directory();
    char *parent = text_format("%s/store/.build-id/%.2s", directory, variants[1].uuid);
    struct command command =
        covsplit_command_as_user(sample.scratch, directory, "store gc --older-than 1 store");
    run_or_abort(directory, "chmod", "-R", "a+rwX", "store", NULL);
    ck_assert_int_eq(chmod(parent, 0555), 0);
    struct outcome outcome = command_expect(&command, 1);
    assert_contains(outcome.output, "\n2 sidecars, ");
    assert_contains(outcome.output, text_format("; %d sidecars stay\n", IMAGE_COUNT - 2));
    assert_contains(outcome.errors, "cannot be removed");
    ck_assert_int_eq(chmod(parent, 0755), 0);
}
END_TEST

START_TEST(test_gc_list_from_standard_input)
{
    char *directory = gc_directory();
    run_or_abort(directory, "sh", "-c", "\"$1\" store gc --keep-list - store < list", "sh",
                 covsplit_path(), NULL);
    assert_left(directory, "25");
}
END_TEST

/* Nothing is removed, and the message says where the fault is. */
START_TEST(test_gc_bad_list)
{
    static const struct {
        const char *list;
        const char *message;
    } cases[] = {
        {"00112233\nxyz\n", "list: line 2, 'xyz', is not a UUID; "},
        {"00112233\n\n# fine\n0011223\n", "list: line 4, '0011223', is not a UUID; "},
        {"00112233 44556677\n", "line 1"},
        {"", "list: lists no UUID"},
        {"# none\n\n", "list: lists no UUID"},
        {"01\n", "'01' is not a UUID in the store, and is too short"},
    };
    char *directory = gc_directory();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_write_text(path_join(directory, "list"), cases[i].list);
        struct outcome outcome =
            covsplit_run_words(directory, 1, "store gc --older-than 0 --keep-list list store");
        assert_contains(outcome.errors, cases[i].message);
        ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
        ck_assert_uint_eq(outcome.output_size, 0);
        assert_left(directory, "");
    }
    covsplit_run_words(directory, 1, "store gc --older-than 0 --keep-list nowhere store");
    file_write(path_join(directory, "list"), "00112233\0ff\n", 12);
    covsplit_run_words(directory, 1, "store gc --older-than 0 --keep-list list store");
    assert_left(directory, "");
    covsplit_run_words(directory, 2, "store gc store");
    covsplit_run_words(directory, 2, "store gc --dry-run store");
    assert_left(directory, "");
}
END_TEST

START_TEST(test_gc_warns_of_what_is_not_there)
{
    char *directory = gc_directory();
    file_write_text(path_join(directory, "list"),
                    text_format("%s\nffffffff01\n", variants[2].uuid));
    struct outcome outcome = covsplit_run_words(directory, 0, "store gc --keep-list list store");
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    assert_contains(outcome.errors, "covsplit: warning: list: ffffffff01 is not in the store");
    assert_left(directory, "01345");
}
END_TEST

/* What is not a sidecar in its place stays, but for what killed splits have left. */
START_TEST(test_gc_other_files)
{
    char *directory = store_directory(1);
    char *root = path_join(directory, "store/.build-id");
    static const char *const stay[] = {
        "77/88.debug",    "78/.99.covsplit.covsplit-new000", "lost.covsplit",
        "AB/cd.covsplit", "79/.00.covsplit.covsplit-Ab01y-",
    };
    static const char *const go[] = {"78/.88.covsplit.covsplit-Ab01yz",
                                     "76/..covsplit.covsplit-Ab01yz"};
    static const char *const directories[] = {"76", "77", "78", "79", "AB", "7a", "CD"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        directory_create(path_join(root, directories[i]));
    }
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        file_write_text(path_join(root, stay[i]), "x");
        /* One is just being written. */
        file_set_age(path_join(root, stay[i]), i == 1 ? 23 : 1000);
    }
    for (size_t i = 0; i < sizeof go / sizeof *go; i++) {
        file_write_text(path_join(root, go[i]), "x");
        file_set_age(path_join(root, go[i]), 25);
    }
    struct outcome outcome = covsplit_run_words(directory, 0, "store gc --older-than 0 store");
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        ck_assert_msg(file_exists(path_join(root, stay[i])), "%s", stay[i]);
    }
    for (size_t i = 0; i < sizeof go / sizeof *go; i++) {
        ck_assert_msg(!file_exists(path_join(root, go[i])), "%s", go[i]);
    }
    ck_assert(!file_exists(path_join(root, "76")));
    ck_assert(!file_exists(path_join(root, "7a")));
    ck_assert(file_exists(path_join(root, "CD")));
    assert_contains(last_line(outcome.output), "1 sidecar, ");
}
END_TEST

/* ---- searching ---- */

static void write_profile(const char *directory, unsigned image)
{
    struct command command = {.directory = directory};
    text_list_add_format(&command.arguments, "%s/stripped-%u", sample.scratch, image);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=light.profraw");
    struct outcome outcome = command_run(&command);
    ck_assert_int_eq(outcome.exit_code, 3);
}

/* The lines of each command that looks for the sidecar of image 2. */
static const char *search_lines(const char *directory, unsigned index)
{
    const char *const lines[] = {
        text_format("join -o joined %s/stripped-2", sample.scratch),
        "correlate -o full.profraw light.profraw",
        "merge -o merged.profraw light.profraw",
    };
    static const char *const outputs[] = {"joined", "full.profraw", "merged.profraw"};
    unlink(path_join(directory, outputs[index]));
    return lines[index];
}

#define SEARCHES 3

START_TEST(test_search_list)
{
    char *directory = store_directory(IMAGE_COUNT);
    char *other = store_directory(1);
    write_profile(directory, 2);
    for (unsigned i = 0; i < SEARCHES; i++) {
        struct command command = covsplit_words(directory, search_lines(directory, i));
        command_expect(&command, 1);
        text_list_add_format(&command.environment, "COVSPLIT_STORE=/nowhere::%s/store:%s/store",
                             other, directory);
        command_run_or_abort(&command);
    }
    files_assert_equal(path_join(directory, "joined"), variants[2].path, "joined");
}
END_TEST

/* An image without a build ID knows of its UUID what its stub record has: 16 bytes, with zeros
 * behind a shorter one. All commands find its sidecar, and none takes one of two that it may be. */
START_TEST(test_search_any_size)
{
    static const char *const uuids[] = {"deadbeef", "deadbe00", "00112233445566778899aabbccddeeff",
                                        "00112233445566778899aabbccddeeff44556677"};
    static const char *const lines[] = {"join --store store -o joined out", "join -o joined out",
                                        "correlate --store store -o full.profraw light.profraw",
                                        "merge --store store -o merged.profraw light.profraw",
                                        "run --store store -- cmp out object"};
    char *directory = sample_directory(&sample);
    /* One has names as long as the text that has the whole UUID, the other has no room for it. */
    static const char *const images[] = {"named", "plain"};
    file_write_text(
        path_join(directory, "named.c"),
        "int f31bca02094eb78126a517b206a88c73cfa9ec6f704c7030d18212cace820"
        "f025f00bf0ea68dbf3f3a5436ca63b53bf7bf80ad8d5de7d8359d0b7fed9dbc3ab994dff4ea340f0"
        "a823f15d3f4f01ab62eae0e5da579ccb851f8db9dfe84c58b2b37b89903a740e1ee172da793a6e79(void) { "
        "return 0; }\nint main(void) { return 0; }\n");
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }\n");
    for (size_t i = 0; i < 2; i++) {
        run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                     "-Wl,--build-id=none", text_format("%s.c", images[i]), "-o", images[i], NULL);
    }
    for (size_t i = 0; i < 2 * sizeof uuids / sizeof *uuids; i++) {
        const char *uuid = uuids[i / 2], *image = images[i % 2];
        directory_remove(path_join(directory, "store"));
        covsplit_run_words(directory, 0,
                           text_format("split --uuid %s --store store -o out %s", uuid, image));
        covsplit_run_words(directory, 0, text_format("export --store store -o object %s", uuid));
        run_or_abort(directory, "sh", "-c", "LLVM_PROFILE_FILE=light.profraw ./out", NULL);
        for (size_t j = 0; j < sizeof lines / sizeof *lines; j++) {
            struct command command = covsplit_words(directory, lines[j]);
            text_list_add_format(&command.environment, "COVSPLIT_STORE=/nowhere::%s/store",
                                 directory);
            struct outcome outcome = command_run(&command);
            ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors[0] == '\0', "%s",
                          outcome_describe(&command, &outcome));
        }
        files_assert_equal(path_join(directory, "joined"), path_join(directory, image), uuid);
    }
    char *entry = store_entry(path_join(directory, "store"), uuids[3]);
    file_copy(entry, store_entry(path_join(directory, "store"), text_format("%s00", uuids[3])));
    for (size_t j = 0; j < 4; j++) {
        struct command command = covsplit_words(directory, lines[j]);
        text_list_add_format(&command.environment, "COVSPLIT_STORE=%s/store", directory);
        struct outcome outcome = command_expect(&command, 1);
        assert_contains(outcome.errors, "fits as well as");
    }
}
END_TEST

/* Where directories may be passed through but not listed, a sidecar is still found: its path is
 * the only one that is opened, however many there are. */
START_TEST(test_search_lists_nothing)
{
    char *directory = store_directory(IMAGE_COUNT);
    write_profile(directory, 2);
    static const char *const closed[] = {"store", "store/.build-id"};
    char *innermost = text_format("%s/store/.build-id/%.2s", directory, variants[2].uuid);
    ck_assert_int_eq(chmod(innermost, 0311), 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(chmod(path_join(directory, closed[i]), 0311), 0);
    }
    for (unsigned i = 0; i < SEARCHES; i++) {
        struct command command = covsplit_command_as_user(
            sample.scratch, directory, text_format("%s --store store", search_lines(directory, i)));
        command_run_or_abort(&command);
    }
    /* The same user cannot list them. */
    struct command list = covsplit_command_as_user(sample.scratch, directory, "store list store");
    command_expect(&list, 1);
}
END_TEST

/* ---- who may use it ---- */

#define TEAM "4321"

/* A user of the team, by number, or root, with a umask. */
static void run_as(const char *directory, const char *user, const char *mask, const char *words)
{
    struct command command = {.directory = (char *)directory};
    char *tool = path_join(sample.scratch, "covsplit");
    if (!file_exists(tool)) {
        file_copy(covsplit_path(), tool);
    }
    if (user != NULL) {
        text_list_add_words(
            &command.arguments,
            text_format("setpriv --reuid %s --regid %s --groups " TEAM, user, user));
    }
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, "-c");
    text_list_add_format(&command.arguments, "umask %s; '%s' %s", mask, tool, words);
    command_run_or_abort(&command);
}

/* Nothing below the directory may be of the given kind. */
static void assert_none(const char *directory, const char *kind)
{
    struct command command = command_words(directory, "find store %s", kind);
    const char *found = command_run_or_abort(&command);
    ck_assert_msg(found[0] == '\0', "%s: %s", kind, found);
}

/* In a set-group-ID directory of a group, all of the group add, make deltas, and remove. */
START_TEST(test_group)
{
    char *directory = sample_directory(&sample);
    if (geteuid() != 0) {
        return;
    }
    ck_assert_int_eq(chown(directory, 0, (gid_t)strtoul(TEAM, NULL, 10)), 0);
    ck_assert_int_eq(chmod(directory, 02775), 0);
    if (_i == 1) { /* made beforehand, in a directory that is not shared */
        directory_create(path_join(directory, "store"));
        ck_assert_int_eq(chmod(path_join(directory, "store"), 02770), 0);
    }
    run_as(directory, "1234", "022", "split --store store -o a ../app-0");
    run_as(directory, "1235", "027", "split --store store --delta -o b ../app-1");
    run_as(directory, "1236", "077", "store add store ../side-2");
    run_as(directory, "1235", "077", "store delta store");
    assert_none(directory, "-type d -not -perm -2770");
    assert_none(directory, "-type f -not -perm -040");
    assert_none(directory, "-not -group " TEAM);
    assert_none(directory, "-type f -perm /022");
    run_as(directory, "1236", "022", "store check store");
    run_as(directory, "1234", "077", "store undelta store");
    run_as(directory, "1235", "077", "store copy store other");
    run_as(directory, "1236", "022", "store gc --older-than 0 store");
    assert_none(directory, "-name *.covsplit");
}
END_TEST

/* Whoever may read a store may read what is added to it, deltas too, whatever the umask; and nobody
 * else, nor may others write to it. */
START_TEST(test_modes)
{
    static const struct {
        mode_t mode;
        const char *without; /* what is wrong */
    } rows[] = {{0755, "-not -perm -005"}, {0750, "-perm /002"}, {0777, "-perm /022"}};
    char *directory = sample_directory(&sample);
    char *store = path_join(directory, "store");
    directory_create(store);
    ck_assert_int_eq(chmod(store, rows[_i].mode), 0);
    run_as(directory, NULL, "022", "split --store store -o a ../app-0");
    run_as(directory, NULL, "077", "split --store store -o b ../app-1");
    run_as(directory, NULL, "077", "store add store ../side-2");
    run_as(directory, NULL, "077", "store delta store");
    run_as(directory, NULL, "077", "export --store store --debug-dir store");
    ck_assert(file_exists(path_join(store, ".build-id/bases")));
    if (rows[_i].mode == 0777) {
        assert_none(directory, "-mindepth 1 -perm /002");
        return;
    }
    assert_none(directory, text_format("-type d %s", rows[_i].without));
    assert_none(directory, rows[_i].mode == 0755 ? "-type f -not -perm -004" : "-perm /002");
    /* A private store that covsplit makes is private. */
    run_as(directory, NULL, "077", "split --store private -o c ../app-0");
    ck_assert_uint_eq(file_status(path_join(directory, "private")).st_mode & 0777, 0700);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("store", 240, prepare);
    suite_loops(test_case, 2, test_group);
    suite_loops(test_case, 3, test_modes);
    suite_tests(test_case, test_list, test_list_json, test_list_goes_on_after_a_fault,
                test_empty_and_missing, test_readme, test_check_good, test_check_finds_every_flip,
                test_check_truncated, test_check_all_kinds, test_check_many);
    suite_loops(test_case, sizeof gc_cases / sizeof *gc_cases, test_gc);
    suite_tests(test_case, test_gc_right_after, test_gc_closed, test_gc_list_from_standard_input,
                test_gc_bad_list, test_gc_warns_of_what_is_not_there, test_gc_other_files,
                test_search_list, test_search_any_size, test_search_lists_nothing);
    return suite_main("store", test_case);
}
