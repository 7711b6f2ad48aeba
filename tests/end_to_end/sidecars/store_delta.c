/*
 * covsplit store delta and undelta, and split --delta: whatever reads a store with deltas makes of
 * it what it makes of the whole one, to the byte, and nothing is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/delta_stores.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"
#include "tests/support/windows_program.h"

#define LIBRARY_FUNCTIONS 200
#define OWN_FUNCTIONS     20

/* Three builds of a program, in each of which another function has changed, and another program
 * that is linked with the same library. */
static const char *const builds[] = {"one/app", "two/app", "three/app", "four/tool"};
#define BUILD_COUNT (sizeof builds / sizeof *builds)

/* Has DIRECTORY/original and split, with the images of all builds, profiles in light, and three
 * places with a `store` each: whole; deltas by `store delta`; deltas by `split --delta`. */
static char *scratch;
static const char *const places[] = {"whole", "deltas", "at-once"};
#define PLACE_COUNT (sizeof places / sizeof *places)
static const char *uuids[BUILD_COUNT];

/* ---- set-up ---- */

/* Functions of many shapes, so that sidecars are larger than what all have in common. */
static void write_source(const char *path, const char *prefix, unsigned functions, unsigned changed)
{
    char *text = text_format("/* Made for a test. */\n");
    for (unsigned i = 0; i < functions; i++) {
        unsigned shape = (i + 1) * 2654435761U;
        text = text_format("%sint %s_%x(int a)\n{\n    int sum = %u;\n", text, prefix, shape, i);
        for (unsigned bit = 0; bit < 16; bit++) {
            if ((shape >> (bit + 12) & 1) != 0) {
                text = text_format("%s    %s (a > %u))\n        sum += %u;\n", text,
                                   bit % 3 == 0 ? "while (sum < 9 &&" : "if (sum < 99 &&",
                                   shape % (bit + 7), bit + 1);
            }
        }
        text = text_format("%s%s    return sum;\n}\n", text,
                           i == changed ? "    if (sum > 99)\n        sum = 99;\n" : "");
    }
    text = text_format("%sint %s_all(int a)\n{\n    int sum = 0;\n", text, prefix);
    for (unsigned i = 0; i < functions; i += 3) {
        text = text_format("%s    sum += %s_%x(a);\n", text, prefix, (i + 1) * 2654435761U);
    }
    file_write_text(path, text_format("%s    return sum;\n}\n", text));
}

static void build(unsigned number)
{
    const char *directory = path_join(scratch, text_format("original/%u", number));
    const char *name = strrchr(builds[number], '/') + 1;
    directory_create(directory);
    write_source(path_join(directory, "library.c"), "library", LIBRARY_FUNCTIONS, ~0U);
    write_source(path_join(directory, "own.c"), name, OWN_FUNCTIONS, number);
    file_write_text(path_join(directory, "main.c"),
                    text_format("int library_all(int a);\nint %s_all(int a);\n"
                                "int main(int count, char **words)\n{\n    (void)words;\n"
                                "    return library_all(count) + %s_all(count) == 12345;\n}\n",
                                name, name));
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping", "-O1",
                 "-Wl,--build-id=sha1", "-o", name, "main.c", "own.c", "library.c", NULL);
}

static char *original_of(unsigned number)
{
    return text_format("%s/original/%u/%s", scratch, number, strrchr(builds[number], '/') + 1);
}

static char *stripped_of(unsigned number)
{
    return text_format("%s/split/%u-%s", scratch, number, strrchr(builds[number], '/') + 1);
}

static char *place_of(const char *place)
{
    return path_join(scratch, place);
}

static bool is_delta(const char *place, unsigned number)
{
    return file_is_delta(store_entry(path_join(place_of(place), "store"), uuids[number]));
}

static void prepare(void)
{
    scratch = scratch_create("store-delta");
    static const char *const directories[] = {"original", "split", "light"};
    for (size_t i = 0; i < 3; i++) {
        directory_create(path_join(scratch, directories[i]));
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        directory_create(place_of(places[i]));
    }
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        build(i);
        struct elf_file image = elf_file_read(original_of(i));
        uuids[i] = elf_file_build_id(&image);
        covsplit_run_words(
            place_of("whole"), 0,
            text_format("split --store store -o %s %s", stripped_of(i), original_of(i)));
        covsplit_run_words(place_of("at-once"), 0,
                           text_format("split --store store --delta -o %s %s",
                                       path_join(scratch, "again"), original_of(i)));
        files_assert_equal(path_join(scratch, "again"), stripped_of(i), builds[i]);
        struct command command = command_words(scratch, "%s", stripped_of(i));
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=light/%u.profraw", i);
        command_run_or_abort(&command);
    }
    run_or_abort(scratch, "cp", "-a", "whole/store", "deltas/store", NULL);
    covsplit_run_words(place_of("deltas"), 0, "store delta store");
    for (size_t i = 1; i < PLACE_COUNT; i++) {
        unsigned deltas = 0;
        for (unsigned j = 0; j < BUILD_COUNT; j++) {
            deltas += is_delta(places[i], j);
        }
        ck_assert_msg(deltas == BUILD_COUNT, "%u in %s", deltas, places[i]);
    }
}

/* A new place with a copy of the store of another one, hard links kept. */
static char *copy_of(const char *place)
{
    char *directory = text_format("%s/test-XXXXXX", scratch);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    run_or_abort(directory, "cp", "-a", path_join(place_of(place), "store"), "store", NULL);
    return directory;
}

static char *entry_of(const char *directory, unsigned number)
{
    return store_entry(path_join(directory, "store"), uuids[number]);
}

/* The one base of a store of these builds. */
static char *base_of(const char *directory)
{
    const char *paths =
        run_or_abort(directory, "find", "store/.build-id/bases", "-name", "*.base", NULL);
    ck_assert_uint_eq(text_count(paths, "\n"), 1);
    return text_format("%s/%.*s", directory, (int)strcspn(paths, "\n"), paths);
}

/* The number of a build that is a delta to the sidecar of another one. */
static unsigned delta_build(const char *directory)
{
    struct contents base = file_read(base_of(directory));
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        struct contents whole =
            file_read(store_entry(path_join(place_of("whole"), "store"), uuids[i]));
        /* Those of split --delta may be of another level. */
        if (file_is_delta(entry_of(directory, i)) && !contents_equal(&whole, &base)) {
            return i;
        }
    }
    ck_abort_msg("no delta in %s", directory);
    return 0;
}

/* ---- what is read ---- */

/* Run in each place, with the numbers of a build in place of #: its UUID for %, its split image for
 * @. What is printed, and what is left in `out`, must be the same. */
static const char *const readers[] = {
    "report --store store --include / ../light",
    "report --store store --include / --format lcov ../light",
    "report --store store --include / --format json ../light",
    "report --store store --include / --all ../light/#.profraw",
    "merge --store store -o out/merged.profdata ../light",
    "merge --store store -o out/merged.profraw ../light/#.profraw",
    "merge --store store --per-image out/each -o out/merged.profdata ../light",
    "correlate --store store -o out/full.profraw ../light/#.profraw",
    "join --store store -o out/joined @",
    "verify --image @ store/.build-id/&.covsplit",
    "export --store store -o out/object %",
    "export --store store --debug-dir out/debug",
    "export --union --store store -o out/union",
    "show --map store/.build-id/&.covsplit",
    "merge --store store --into out/state ../light",
    "run --store store -- llvm-profdata-19 merge -o out/merged.profdata ../light/#.profraw",
    "run --store store -- llvm-cov-19 export @ -instr-profile=../#.profdata",
};

static const char *fill_in(const char *words, unsigned number)
{
    words = text_replace(words, "#", text_format("%u", number));
    words = text_replace(words, "%", uuids[number]);
    words = text_replace(words, "&", text_format("%.2s/%s", uuids[number], uuids[number] + 2));
    return text_replace(words, "@", stripped_of(number));
}

START_TEST(test_readers)
{
    /* A store has one base, so that at least one of the first and the last is a delta. */
    for (unsigned i = 0; i < BUILD_COUNT; i += rounds_are_all() ? 1 : (unsigned)BUILD_COUNT - 1) {
        covsplit_run_words(
            scratch, 0,
            text_format("merge --store whole/store -o %u.profdata light/%u.profraw", i, i));
        const char *words = fill_in(readers[_i], i);
        const char *expected = NULL;
        for (size_t j = 0; j < PLACE_COUNT; j++) {
            char *place = place_of(places[j]);
            directory_remove(path_join(place, "out"));
            directory_create(path_join(place, "out"));
            struct outcome outcome = covsplit_run_words(place, 0, words);
            const char *said = text_format("%s%s", outcome.output, outcome.errors);
            expected = j == 0 ? said : expected;
            ck_assert_msg(strcmp(said, expected) == 0, "%s in %s:\n%s", words, places[j], said);
            if (strstr(words, "--into") != NULL) {
                covsplit_run_words(place, 0,
                                   "merge --store store -o out/merged.profdata out/state");
                run_or_abort(place, "rm", "-r", "out/state", NULL); /* with times in it */
            }
            run_or_abort(scratch, "diff", "-r", "whole/out", text_format("%s/out", places[j]),
                         NULL);
        }
    }
}
END_TEST

START_TEST(test_joined)
{
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        covsplit_run_words(place_of("deltas"), 0,
                           text_format("join --store store -o joined %s", stripped_of(i)));
        files_assert_equal(path_join(place_of("deltas"), "joined"), original_of(i), builds[i]);
    }
}
END_TEST

/* What is told of a sidecar is the same, but for its file, and what the sections take in it. */
static const char list_check[] =
    "import json, os, subprocess, sys\n"
    "def run(*words):\n"
    "    return json.loads(subprocess.run([sys.argv[1], *words], check=True,\n"
    "                                     stdout=subprocess.PIPE).stdout)\n"
    "whole, deltas = (run('store', 'list', '--json', place + '/store') for place in sys.argv[2:])\n"
    "assert len(whole) == len(deltas) == 4\n"
    "bases = [one['base'] for one in deltas if one['base'] is not None]\n"
    "assert len(bases) == 4 and len(set(bases)) == 1, bases\n"
    "assert os.path.exists(f'{sys.argv[3]}/store/.build-id/bases/{bases[0]}.base')\n"
    "for one, other in zip(whole, deltas):\n"
    "    assert one['base'] is None and one['whole_size'] == one['file_size']\n"
    "    assert one['file_size'] == other['whole_size']\n"
    "    assert other['file_size'] == os.stat(other['file']).st_size\n"
    "    if other['base'] is not None:\n"
    "        assert other['file_size'] < one['file_size'] / 3, other\n"
    "    for key in set(one) - {'file', 'file_size', 'base', 'modified'}:\n"
    "        assert one[key] == other[key], key\n";

START_TEST(test_list)
{
    run_or_abort(scratch, "python3", "-c", list_check, covsplit_path(), "whole", places[_i + 1],
                 NULL);
    struct outcome outcome = covsplit_run_words(place_of(places[_i + 1]), 0, "store list store");
    assert_contains(outcome.output, "\n4 deltas; as whole sidecars they would all take ");
    outcome = covsplit_run_words(place_of(places[_i + 1]), 0, "store check store");
    assert_contains(outcome.output, ", 0 faults\n");
}
END_TEST

/* Also through a link from elsewhere. Outside of its store, a delta has no base. */
START_TEST(test_named)
{
    char *directory = copy_of("deltas");
    unsigned number = delta_build(directory);
    const char *entry = entry_of(directory, number);
    const char *join = text_format("join --sidecar %%s -o joined %s", stripped_of(number));
    ck_assert_int_eq(symlink(entry, path_join(directory, "link")), 0);
    static const char *const good[] = {"%s", "link"};
    for (size_t i = 0; i < 2; i++) {
        unlink(path_join(directory, "joined"));
        covsplit_run_words(directory, 0, text_replace(join, "%s", i == 0 ? entry : good[i]));
        files_assert_equal(path_join(directory, "joined"), original_of(number), good[i]);
    }
    file_copy(entry, path_join(directory, "alone"));
    struct outcome outcome = covsplit_run_words(directory, 1, text_replace(join, "%s", "alone"));
    assert_contains(outcome.errors, "covsplit: error: alone: is a delta, ");
    assert_contains(outcome.errors, strrchr(base_of(directory), '/'));
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
}
END_TEST

/* ---- whole again ---- */

static void assert_same_sidecars(const char *directory, const char *store)
{
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        files_assert_equal(store_entry(path_join(directory, store), uuids[i]),
                           store_entry(path_join(place_of("whole"), "store"), uuids[i]), builds[i]);
    }
}

START_TEST(test_unpack)
{
    char *directory = copy_of(places[_i + 1]);
    covsplit_run_words(directory, 0, "store copy store other");
    assert_same_sidecars(directory, "other");
    ck_assert(!file_exists(path_join(directory, "other/.build-id/bases")));
    covsplit_run_words(directory, 0, text_format("store add added store"));
    assert_same_sidecars(directory, "added");
    unsigned number = delta_build(directory);
    struct stat before = file_status(entry_of(directory, number)), after;
    struct outcome outcome =
        covsplit_run_words(directory, 0, text_format("store undelta store %s", uuids[number]));
    assert_contains(outcome.output, "1 restored sidecar: ");
    after = file_status(entry_of(directory, number));
    ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    ck_assert_int_eq(before.st_mode, after.st_mode);
    covsplit_run_words(directory, 0, "store undelta store");
    assert_same_sidecars(directory, "store");
    covsplit_run_words(directory, 0, "store undelta store");
    assert_same_sidecars(directory, "store");
}
END_TEST

/* ---- making deltas ---- */

START_TEST(test_deterministic)
{
    char *directories[2];
    for (size_t i = 0; i < 2; i++) {
        directories[i] = copy_of("whole");
        covsplit_run_words(directories[i], 0, "store delta store");
    }
    run_or_abort(scratch, "diff", "-r", directories[0], directories[1], NULL);
    run_or_abort(scratch, "diff", "-r", directories[0], "deltas", "--exclude=out",
                 "--exclude=joined", NULL);
}
END_TEST

/* A second call has only headers to read: of contents that are damaged meanwhile it says nothing.
 */
START_TEST(test_again)
{
    char *directory = copy_of("deltas");
    const char *entry = entry_of(directory, delta_build(directory));
    struct contents contents = file_read(entry);
    struct elf_file elf = elf_file_read(entry);
    const Elf64_Shdr *section = elf_file_section(&elf, "__llvm_covfun");
    contents.data[section->sh_offset + section->sh_size - 2] ^= 0x55;
    file_write(entry, contents.data, contents.size);
    covsplit_run_words(directory, 1, "store check store");
    const char *before = run_or_abort(directory, "find", "store", "-type", "f", "-printf",
                                      "%i %s %T@ %C@ %p\\n", NULL);
    struct outcome outcome =
        covsplit_run_words(directory, 0, "store delta --memory-limit 4K store");
    assert_contains(outcome.output, "0 new deltas: ");
    ck_assert_uint_eq(outcome.errors_size, 0);
    /* A repack leaves deltas alone, too. */
    covsplit_run_words(directory, 0, "repack store");
    const char *after = run_or_abort(directory, "find", "store", "-type", "f", "-printf",
                                     "%i %s %T@ %C@ %p\\n", NULL);
    ck_assert_str_eq(before, after);
}
END_TEST

START_TEST(test_keep_whole)
{
    char *directory = copy_of("whole");
    covsplit_run_words(
        directory, 0, text_format("store delta --keep-whole tool --keep-whole %s store", uuids[1]));
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        bool stays = i == 1 || i == BUILD_COUNT - 1;
        ck_assert(!stays || !file_is_delta(entry_of(directory, i)));
    }
    ck_assert(file_is_delta(entry_of(directory, 0)));
    ck_assert(file_is_delta(entry_of(directory, 2)));
    covsplit_run_words(directory, 0, "store delta store");
    covsplit_run_words(directory, 0, "store undelta store");
    assert_same_sidecars(directory, "store");
}
END_TEST

/* The JSON of a split has the sizes that `show` tells of the delta. */
static const char sizes_check[] =
    "import json, subprocess, sys\n"
    "tool, image, entry = sys.argv[1:]\n"
    "run = lambda *words: json.loads(subprocess.run([tool, *words], check=True,\n"
    "                                stdout=subprocess.PIPE).stdout)[0]\n"
    "sizes = lambda one: {row['name']: row['stored_size'] for row in one['sections']\n"
    "                     if row['stored_size'] is not None}\n"
    "split = run('split', '--json', '--store', 'store', '--replace', '--delta', '-o', 'out', "
    "image)\n"
    "shown = run('show', '--json', entry)\n"
    "assert split['sidecar_size'] == shown['file_size']\n"
    "assert len(sizes(split)) > 2 and sizes(split) == sizes(shown), (split, shown)\n";

START_TEST(test_split)
{
    char *directory = copy_of("at-once");
    unsigned number = delta_build(directory);
    const char *entry = entry_of(directory, number);
    const char *split =
        text_format("split --store store --delta %%s -o out %s", original_of(number));
    struct stat before = file_status(entry), after;
    static const char *const options[] = {"", "--replace"};
    for (size_t i = 0; i < 2; i++) {
        covsplit_run_words(directory, 0, text_replace(split, "%s", options[i]));
        files_assert_equal(path_join(directory, "out"), stripped_of(number), "split");
        after = file_status(entry);
        ck_assert_msg(before.st_ino == after.st_ino &&
                          before.st_mtim.tv_nsec == after.st_mtim.tv_nsec,
                      "'%s'", options[i]);
    }
    /* Without --delta, --replace gives a whole one. */
    covsplit_run_words(directory, 0,
                       text_format("split --store store --replace -o out %s", original_of(number)));
    ck_assert(!file_is_delta(entry));
    run_or_abort(directory, "python3", "-c", sizes_check, covsplit_path(), original_of(number),
                 entry, NULL);
    ck_assert(file_is_delta(entry));
    /* What is like none of the others is a base of its own. */
    write_source(path_join(directory, "other.c"), "unlike", 60, 3);
    file_write_text(path_join(directory, "main.c"),
                    "int unlike_all(int a);\nint main(void) { return unlike_all(0) == 1; }\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping", "-O2",
                 "-Wl,--build-id=sha1", "-o", "unlike", "main.c", "other.c", NULL);
    covsplit_run_words(directory, 0, "split --store store --delta -o out unlike");
    struct elf_file image = elf_file_read(path_join(directory, "unlike"));
    entry = store_entry(path_join(directory, "store"), elf_file_build_id(&image));
    ck_assert(file_is_delta(entry));
    ck_assert_uint_eq(file_status(entry).st_nlink, 1);
    const char *bases = run_or_abort(directory, "find", "store/.build-id/bases", "-name", "*.base",
                                     "-links", "1", NULL);
    ck_assert_uint_eq(text_count(bases, "\n"), 2);
    covsplit_run_words(directory, 0, "join --store store -o joined out");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "unlike"), "unlike");
    covsplit_run_words(directory, 0, "store check store");
    covsplit_run_words(directory, 2, "split --sidecar side --delta -o out unlike");
}
END_TEST

/* A link to a file elsewhere, which may change: that file stays as it is, and is no base. */
START_TEST(test_links)
{
    char *directory = copy_of("whole");
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        char *elsewhere = text_format("%s/%u.covsplit", directory, i);
        ck_assert_int_eq(rename(entry_of(directory, i), elsewhere), 0);
        ck_assert_int_eq(symlink(elsewhere, entry_of(directory, i)), 0);
    }
    struct outcome outcome = covsplit_run_words(directory, 0, "store delta store");
    assert_contains(outcome.output, "0 new deltas: ");
    ck_assert(!file_exists(path_join(directory, "store/.build-id/bases")));
    assert_same_sidecars(directory, "store");
}
END_TEST

/* Who may read a sidecar may read the delta: no base is one that only its owner may read. */
START_TEST(test_modes)
{
    for (unsigned closed = 0; closed < 2; closed++) {
        char *directory = copy_of("whole");
        for (unsigned i = 0; i < BUILD_COUNT; i++) {
            ck_assert_int_eq(chmod(entry_of(directory, i), i == 0 || closed ? 0600 : 0644), 0);
        }
        /* So the closed one becomes a base first. */
        covsplit_run_words(directory, 0,
                           text_format("store delta --keep-whole %.12s --keep-whole %.12s "
                                       "--keep-whole %.12s store",
                                       uuids[1], uuids[2], uuids[3]));
        ck_assert(file_is_delta(entry_of(directory, 0)));
        covsplit_run_words(directory, 0,
                           text_format("store delta --keep-whole %.12s --keep-whole %.12s store",
                                       uuids[2], uuids[3]));
        ck_assert(file_is_delta(entry_of(directory, 1)));
        const char *modes = run_or_abort(directory, "find", "store/.build-id/bases", "-name",
                                         "*.base", "-printf", "%m ", NULL);
        ck_assert_msg(strcmp(modes, "600 ") == 0 ? closed
                                                 : !closed && (strcmp(modes, "600 644 ") == 0 ||
                                                               strcmp(modes, "644 600 ") == 0),
                      "%s", modes);
        covsplit_run_words(directory, 0, "store check store");
    }
}
END_TEST

/* ---- bad bases ---- */

static void remove_base(const char *base)
{
    ck_assert_int_eq(unlink(base), 0);
}

static void cut_base(const char *base)
{
    struct contents contents = file_read(base);
    remove_base(base);
    file_write(base, contents.data, contents.size / 2);
}

static void change_base(const char *base)
{
    struct contents contents = file_read(base);
    remove_base(base);
    contents.data[contents.size / 2] ^= 1;
    file_write(base, contents.data, contents.size);
}

static void exchange_base(const char *base)
{
    remove_base(base);
    /* A sidecar that is none itself. */
    file_copy(entry_of(place_of("whole"), delta_build(place_of("deltas"))), base);
}

static void replace_by_delta(const char *base)
{
    remove_base(base);
    char *deltas = place_of("deltas");
    file_copy(entry_of(deltas, delta_build(deltas)), base);
}

static void (*const damages[])(const char *base) = {
    remove_base, cut_base, change_base, exchange_base, replace_by_delta,
};
#define DAMAGE_COUNT (sizeof damages / sizeof *damages)

START_TEST(test_bad_base)
{
    char *directory = copy_of("deltas"), *base = base_of(directory);
    unsigned number = delta_build(directory);
    damages[_i](base);
    /* One line for each delta, with both files in it. */
    struct outcome outcome = covsplit_run_words(directory, 1, "store check store");
    assert_contains(outcome.output, "4 sidecars, ");
    struct text_list lines = text_list_of_lines(outcome.errors);
    unsigned named = 0;
    for (size_t i = 0; i < lines.count; i++) {
        for (unsigned j = 0; j < BUILD_COUNT; j++) {
            named += strstr(lines.items[i], uuids[j] + 2) != NULL &&
                     strstr(lines.items[i], strrchr(base, '/') + 1) != NULL;
        }
    }
    ck_assert_msg(named == BUILD_COUNT, "%s", outcome.errors);
    const char *const words[] = {"report --store store ../light/#.profraw",
                                 "correlate --store store -o out ../light/#.profraw",
                                 "join --store store -o out @",
                                 "export --store store -o out %",
                                 "store undelta store %",
                                 "store copy store other %"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        outcome = covsplit_run_words(directory, 1, fill_in(words[i], number));
        ck_assert_msg(text_count(outcome.errors, "covsplit: error: ") == 1 &&
                          strstr(outcome.errors, strrchr(base, '/') + 1) != NULL &&
                          strstr(outcome.errors, uuids[number] + 2) != NULL,
                      "%s: %s", words[i], outcome.errors);
        ck_assert(!file_exists(path_join(directory, "out")));
    }
    /* It is no candidate for new sidecars, which become bases of their own. */
    covsplit_run_words(
        directory, 0,
        text_format("split --store store --replace --delta -o out %s", original_of(number)));
    covsplit_run_words(directory, 0, "join --store store -o joined out");
    files_assert_equal(path_join(directory, "joined"), original_of(number), "joined");
    /* Nothing was lost by that: with the base again, all is well. */
    unlink(base);
    file_copy(base_of(place_of("deltas")), base);
    covsplit_run_words(directory, 0, "store check store");
    covsplit_run_words(directory, 0, "store undelta store");
    assert_same_sidecars(directory, "store");
}
END_TEST

/* ---- gc ---- */

/* Two days ago it was last used. */
static void make_old(const char *path)
{
    run_or_abort(NULL, "touch", "-a", "-d", "2 days ago", path, NULL);
}

/* The base must be there or not. */
static void gc(const char *directory, const char *words, const char *base, bool stays)
{
    covsplit_run_words(directory, 0, text_format("store gc %s store", words));
    ck_assert_msg(file_exists(base) == stays, "%s after gc %s", base, words);
    ck_assert(!file_exists(text_format("%s.aside", base)));
}

START_TEST(test_gc)
{
    char *directory = copy_of("deltas"), *base = base_of(directory);
    char *aside = text_format("%s.aside", base);
    unsigned number = delta_build(directory);
    file_write_text(path_join(directory, "keep"), text_format("%s\n", uuids[number]));
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        file_set_age(entry_of(directory, i), 1);
    }
    make_old(base);
    gc(directory, "--older-than 0 --keep-list keep", base, true);
    make_old(base);
    gc(directory, "--older-than 0 --keep-list keep", base, true);
    /* What a gc that was killed has left: it is used, and put back. */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rename(base, aside), 0);
        covsplit_run_words(directory, 0,
                           text_format("join --store store -o joined %s", stripped_of(number)));
        files_assert_equal(path_join(directory, "joined"), original_of(number), "joined");
        covsplit_run_words(directory, 0, "store check store");
        if (i == 0) {
            make_old(aside);
        }
        gc(directory, "--older-than 9", base, true);
    }
    /* Nothing needs it any longer, but it was used just now. */
    ck_assert_int_eq(unlink(entry_of(directory, number)), 0);
    run_or_abort(NULL, "touch", "-a", base, NULL);
    gc(directory, "--older-than 9", base, true);
    make_old(base);
    struct outcome outcome = covsplit_run_words(directory, 0, "store gc -n --older-than 9 store");
    assert_contains(outcome.output, text_format("would remove %s", base + strlen(directory) + 1));
    ck_assert(file_exists(base));
    ck_assert_int_eq(rename(base, aside), 0);
    gc(directory, "--older-than 9", base, false);
}
END_TEST

/* ---- what is done to one sidecar ---- */

static const char *const overwriting[] = {
    "cp ../other.covsplit %s",
    "truncate -s 0 %s",
    "dd if=/dev/zero of=%s bs=4096 count=1 conv=notrunc status=none",
    "echo more >>%s",
};
#define OVERWRITING_COUNT (sizeof overwriting / sizeof *overwriting)

/* Whichever of them is overwritten in its place, the others stay as they were: also the one that
 * was made the base. */
START_TEST(test_overwritten)
{
    const char *place = places[1 + _i % 2];
    unsigned spoilt = (unsigned)_i / 2 % BUILD_COUNT;
    char *directory = copy_of(place);
    file_copy(entry_of(place_of("whole"), (spoilt + 1) % BUILD_COUNT),
              path_join(scratch, "other.covsplit"));
    const char *command =
        text_replace(overwriting[(size_t)_i / 2 / BUILD_COUNT], "%s", entry_of(directory, spoilt));
    run_or_abort(directory, "sh", "-c", command, NULL);
    for (unsigned i = 0; i < BUILD_COUNT; i++) {
        if (i != spoilt) {
            unlink(path_join(directory, "joined"));
            covsplit_run_words(directory, 0,
                               text_format("join --store store -o joined %s", stripped_of(i)));
            files_assert_equal(path_join(directory, "joined"), original_of(i), command);
        }
    }
}
END_TEST

/* ---- images of other systems ---- */

/* Splits an image of other systems, has a delta made of its sidecar, and compares what is made of
 * it. */
static void check_format(const char *directory, const char *name)
{
    static const char *const stores[] = {"whole", "store"};
    covsplit_run_words(directory, 0, text_format("split --store whole -o stripped %s", name));
    run_or_abort(directory, "cp", "-a", "whole", "store", NULL);
    setenv("COVSPLIT_TEST_DELTAS", "1", 1);
    store_settle(path_join(directory, "store")); /* which fails if there is no delta */
    unsetenv("COVSPLIT_TEST_DELTAS");
    for (int i = 0; i < 2; i++) {
        covsplit_run_words(directory, 0,
                           text_format("join --store %s -o joined-%d stripped", stores[i], i));
        covsplit_run_words(directory, 0,
                           text_format("export --union --store %s -o union-%d", stores[i], i));
        files_assert_equal(path_join(directory, text_format("joined-%d", i)),
                           path_join(directory, name), stores[i]);
    }
    files_assert_equal(path_join(directory, "union-0"), path_join(directory, "union-1"), "union");
    covsplit_run_words(directory, 0, "store undelta store");
    run_or_abort(directory, "diff", "-r", "--exclude=bases", "whole", "store", NULL);
}

static char *format_directory(void)
{
    char *directory = text_format("%s/format-XXXXXX", scratch);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    return directory;
}

START_TEST(test_macho)
{
    char *directory = format_directory();
    struct darwin_program program = {.clang = "19", .architecture = "arm64"};
    darwin_program_build(&program, directory, "app");
    check_format(directory, "app");
}
END_TEST

START_TEST(test_coff)
{
    char *directory = format_directory();
    struct windows_program program = {.clang = "19", .target = WINDOWS_MSVC_X86_64};
    windows_program_build(&program, directory);
    check_format(directory, WINDOWS_PROGRAM);
}
END_TEST

int main(void)
{
    TCase *readers_case = suite_case("readers", 120, prepare);
    suite_loops(readers_case, sizeof readers / sizeof *readers, test_readers);
    suite_loops(readers_case, PLACE_COUNT - 1, test_list, test_unpack);
    suite_tests(readers_case, test_joined, test_named, test_deterministic, test_again,
                test_keep_whole, test_split, test_links, test_modes);
    suite_tests(readers_case, test_gc, test_macho, test_coff);
    suite_loops(readers_case, DAMAGE_COUNT, test_bad_base);
    suite_loops(readers_case, 2 * BUILD_COUNT * OVERWRITING_COUNT, test_overwritten);
    return suite_main("store delta", readers_case);
}
