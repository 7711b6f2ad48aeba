/*
 * Finding sidecars without being told where they are, or only roughly: each command, each place,
 * the order of the places, and what lies there besides. Whatever is found has to fit.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/delta_stores.h"
#include "tests/support/mutation.h"

#define ID_BY_HAND "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"

/* An image, split, with what the commands must make of it. In a directory of its own:
 *   app         the stripped image
 *   original    before the split
 *   light       its profile
 *   full        correlated
 *   object      exported
 *   sidecar     under a name that no search looks at */
static struct kind {
    const char *name;
    const char *build_id;
    const char *statement;
    char *directory;
    const char *uuid;
} kinds[] = {
    {"one", "-Wl,--build-id", "puts(words[0]);", NULL, NULL},
    {"two", "-Wl,--build-id", "for (int i = 1; i < count; i++) puts(words[i]);", NULL, NULL},
    /* Three builds under one UUID: the second counts more, the third as much, elsewhere. */
    {"twin", ID_BY_HAND, "if (count > 1) words[0] = 0;", NULL, NULL},
    {"other", ID_BY_HAND, "if (count > 1) words[0] = 0; if (count > 2) words[1] = 0;", NULL, NULL},
    {"alike", ID_BY_HAND, "while (count-- > 1)\n\n\n words[0] = 0;", NULL, NULL},
};

enum { ONE, TWO, TWIN, OTHER, ALIKE, KIND_COUNT };

static char *scratch;

static void make(struct kind *kind)
{
    kind->directory = path_join(scratch, kind->name);
    directory_create(kind->directory);
    file_write_text(
        path_join(kind->directory, "app.c"),
        text_format("#include <stdio.h>\nint main(int count, char **words)\n{\n%s\nreturn 0;\n}\n",
                    kind->statement));
    run_or_abort(kind->directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 kind->build_id, "app.c", "-o", "original", NULL);
    covsplit_run_words(kind->directory, 0, "split -o app --sidecar sidecar original");
    run_or_abort(kind->directory, "env", "LLVM_PROFILE_FILE=light", "./app", "word", NULL);
    covsplit_run_words(kind->directory, 0, "correlate --sidecar sidecar -o full light");
    covsplit_run_words(kind->directory, 0, "export --sidecar sidecar -o object");
    struct elf_file file = elf_file_read(path_join(kind->directory, "original"));
    kind->uuid = text_format("%s", elf_file_build_id(&file));
}

static void prepare(void)
{
    scratch = scratch_create("finding");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        make(&kinds[i]);
    }
}

/* ---- steps ---- */

/* A directory for one test. Commands run in `here`; what they read is in `in`. */
static char *new_room(const struct kind *kind)
{
    static unsigned count;
    char *room = path_join(scratch, text_format("room%d-%u", (int)getpid(), count++));
    static const char *const below[] = {"", "here", "in", "side"};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        directory_create(path_join(room, below[i]));
    }
    file_copy(path_join(kind->directory, "app"), path_join(room, "in/app"));
    file_copy(path_join(kind->directory, "light"), path_join(room, "in/light"));
    return room;
}

static const char *in_store(const struct kind *kind)
{
    return text_format("store/.build-id/%.2s/%s.covsplit", kind->uuid, kind->uuid + 2);
}

static void put(const struct kind *kind, const char *room, const char *place)
{
    bool is_stored = strcmp(place, "store") == 0;
    if (is_stored) {
        place = in_store(kind);
        run_or_abort(room, "mkdir", "-p", text_format("store/.build-id/%.2s", kind->uuid), NULL);
    }
    file_copy(path_join(kind->directory, "sidecar"), path_join(room, place));
    if (is_stored) {
        store_settle(path_join(room, "store"));
    }
}

/* A command, and what it must make: `out` as the file `expected` of the kind. */
struct maker {
    const char *name;
    const char *input;    /* behind the options */
    const char *expected; /* NULL: the command compares by itself */
    bool is_of_image;     /* IMAGE.covsplit is looked for */
    bool is_of_file;      /* there is something to be beside of */
};

/* @ stands for the directory of the kind, % for the UUID. */
static const struct maker makers[] = {
    {"join -o out", "../in/app", "original", true, true},
    {"correlate -o out", "../in/light", "full", false, true},
    {"merge -o out.profraw", "../in/light", NULL, false, true},
    {"export -o out", "%", "object", false, false},
    {"run", "-- cmp ../in/light @/full", NULL, false, true},
    {"run", "-- cmp ../in/app @/object", NULL, true, true},
};

#define MAKER_COUNT (sizeof makers / sizeof *makers)

/* Runs it with options (words), and COVSPLIT_STORE where it is given. */
static struct outcome run_maker(const struct maker *maker, const struct kind *kind,
                                const char *room, const char *options, const char *environment)
{
    const char *input = text_replace(maker->input, "@", kind->directory);
    /* One file needs no UUID to choose it. */
    input = strcmp(options, "--sidecar ../side/named") == 0 ? text_replace(input, "%", "")
                                                            : text_replace(input, "%", kind->uuid);
    struct command command = covsplit_words(path_join(room, "here"),
                                            text_format("%s %s %s", maker->name, options, input));
    text_list_add_format(&command.environment, "COVSPLIT_STORE=%s", environment);
    unlink(path_join(room, "here/out"));
    unlink(path_join(room, "here/out.profraw"));
    return command_run(&command);
}

static void expect_found(const struct maker *maker, const struct kind *kind, const char *room,
                         const char *options, const char *environment)
{
    struct outcome outcome = run_maker(maker, kind, room, options, environment);
    ck_assert_msg(outcome.exit_code == 0 && outcome.errors_size == 0, "%s %s: %d %s", maker->name,
                  options, outcome.exit_code, outcome.errors);
    if (maker->expected != NULL) {
        files_assert_equal(path_join(room, "here/out"), path_join(kind->directory, maker->expected),
                           maker->name);
    } else if (strncmp(maker->name, "merge", 5) == 0) {
        files_assert_equal(path_join(room, "here/out.profraw"), path_join(kind->directory, "full"),
                           maker->name);
    }
}

/* Returns what it says. */
static const char *expect_failure(const struct maker *maker, const struct kind *kind,
                                  const char *room, const char *options, const char *environment,
                                  const char *part)
{
    bool is_run = strcmp(maker->name, "run") == 0;
    struct outcome outcome = run_maker(maker, kind, room, options, environment);
    ck_assert_msg(outcome.exit_code == 1 && text_count(outcome.errors, "\n") == 1 &&
                      strncmp(outcome.errors, is_run ? "covsplit: warning: " : "covsplit: error: ",
                              is_run ? 19 : 17) == 0 &&
                      strstr(outcome.errors, part) != NULL,
                  "%s %s: %d, and not '%s': %s", maker->name, options, outcome.exit_code, part,
                  outcome.errors);
    ck_assert(!file_exists(path_join(room, "here/out")));
    ck_assert(!file_exists(path_join(room, "here/out.profraw")));
    return text_format("%s", outcome.errors);
}

/* ---- places ---- */

static const struct place {
    const char *file; /* where the sidecar is, in the room */
    const char *options;
    const char *environment;
    bool is_beside, is_of_image;
} places[] = {
    {"in/app.covsplit", "", "", true, true},
    {"in/whatever.covsplit", "", "", true, false},
    {"here/whatever.covsplit", "", "", false, false},
    {"store", "", "/nowhere:../store", false, false},
    {"store", "--store ../store", "/nowhere", false, false},
    {"in/app.covsplit", "--store /nowhere", "", true, true},
    {"here/a.covsplit", "--store /nowhere", "", false, false},
    {"side/named", "--sidecar ../side/named", "", false, false},
    {"side/named", "--sidecar @two/sidecar --sidecar ../side/named", "", false, false},
    {"side/in.covsplit", "--sidecar ../side", "", false, false},
    {"store", "--sidecar ../side --sidecar ../store", "", false, false},
    {"side/in.covsplit", "--sidecar @two/sidecar --sidecar ../side", "", false, false},
};

START_TEST(test_place)
{
    const struct place *place = &places[_i];
    const struct kind *kind = &kinds[ONE];
    const char *options = text_replace(place->options, "@", text_format("%s/", scratch));
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        char *room = new_room(kind);
        expect_failure(&makers[i], kind, room, options, place->environment,
                       strchr(options, '/') != NULL && strcmp(place->file, "side/named") == 0 &&
                               strstr(options, "two/") == NULL
                           ? "cannot be read"
                           : "no sidecar ");
        put(kind, room, place->file);
        if (place->is_beside && !makers[i].is_of_file) {
            expect_failure(&makers[i], kind, room, options, place->environment, "no sidecar ");
        } else {
            expect_found(&makers[i], kind, room, options, place->environment);
        }
    }
}
END_TEST

/* What options exclude is not searched: COVSPLIT_STORE with --store, and with --sidecar all the
 * rest, except by `run`. */
START_TEST(test_exclusion)
{
    const struct maker *maker = &makers[_i];
    bool is_run = strcmp(maker->name, "run") == 0;
    static const char *const files[] = {"in/app.covsplit", "here/a.covsplit", "store"};
    char *room = new_room(&kinds[ONE]);
    put(&kinds[ONE], room, "store");
    expect_failure(maker, &kinds[ONE], room, "--store ../side", "../store", "no sidecar ");
    expect_found(maker, &kinds[ONE], room, "", "../store");
    for (size_t i = maker->is_of_image ? 0 : 1; i < sizeof files / sizeof *files; i++) {
        room = new_room(&kinds[ONE]);
        put(&kinds[ONE], room, files[i]);
        if (is_run) {
            expect_found(maker, &kinds[ONE], room, "--sidecar ../side", "../store");
        } else {
            expect_failure(maker, &kinds[ONE], room, "--sidecar ../side", "../store",
                           "no sidecar ");
        }
    }
}
END_TEST

/* A copy whose UUID can be read, but that is damaged. */
static void put_damaged(const struct kind *kind, const char *path)
{
    struct contents contents = file_read(path_join(kind->directory, "sidecar"));
    contents.data[contents.size - 1] ^= 1;
    file_write(path, contents.data, contents.size);
}

static bool is_beside(const char *file)
{
    return strncmp(file, "in/", 3) == 0;
}

/* What is damaged does not end the search; where all is, the first one is what the message tells
 * of. So the order of the places is seen. */
static void expect_order(const struct maker *maker, const char *options, const char *environment,
                         const char *const *files)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    put(kind, room, "store");
    for (size_t i = 0; files[i] != NULL; i++) {
        put_damaged(kind, path_join(room, files[i]));
    }
    for (size_t i = 0; files[i] != NULL; i++) {
        const char *file = path_join(room, files[i]);
        bool is_here = strncmp(files[i], "here/", 5) == 0;
        if (is_beside(files[i]) &&
            (!maker->is_of_file || (strstr(files[i], "/app.") != NULL && !maker->is_of_image))) {
            unlink(file);
            continue;
        }
        expect_failure(maker, kind, room, options, environment,
                       text_format("%s%s: ", is_here ? " " : "/", strchr(files[i], '/') + 1));
        file_copy(path_join(kind->directory, "sidecar"), path_join(room, "here/zzz.covsplit"));
        if (strncmp(options, "--sidecar", 9) != 0 || strcmp(maker->name, "run") == 0) {
            expect_found(maker, kind, room, options, environment);
        }
        unlink(path_join(room, "here/zzz.covsplit"));
        unlink(file);
    }
}

START_TEST(test_order)
{
    const struct maker *maker = &makers[_i];
    const char *stored = in_store(&kinds[ONE]);
    const char *const by_default[] = {"in/app.covsplit",
                                      "in/b.covsplit",
                                      "in/c.covsplit",
                                      "here/a.covsplit",
                                      "here/b.covsplit",
                                      stored,
                                      NULL};
    expect_order(maker, "", "../store", by_default);
    const char *const by_store[] = {
        stored, "in/app.covsplit", "in/b.covsplit", "here/a.covsplit", "here/b.covsplit", NULL};
    expect_order(maker, "--store ../store", "/nowhere", by_store);
    /* `run` goes on behind --sidecar, as many files are read in one. */
    const char *const given[] = {"side/a.covsplit", "side/b.covsplit", NULL};
    expect_order(maker, "--sidecar ../side", "/nowhere", given);
}
END_TEST

/* ---- several at once ---- */

START_TEST(test_two_images)
{
    char *room = new_room(&kinds[ONE]);
    const char *here = path_join(room, "here");
    file_copy(path_join(kinds[TWO].directory, "light"), path_join(room, "in/light2"));
    put(&kinds[ONE], room, "here/b.covsplit");
    put(&kinds[TWO], room, "here/a.covsplit");
    covsplit_run_words(here, 0, "merge -o out.profraw ../in/light ../in/light2");
    covsplit_run_words(here, 0,
                       text_format("merge -o same.profraw %s %s ../in/light ../in/light2",
                                   "--sidecar b.covsplit", "--sidecar a.covsplit"));
    files_assert_equal(path_join(here, "out.profraw"), path_join(here, "same.profraw"), "same");
    ck_assert_uint_eq(file_size(path_join(here, "out.profraw")),
                      file_size(path_join(kinds[ONE].directory, "full")) +
                          file_size(path_join(kinds[TWO].directory, "full")));
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        expect_found(&makers[i], &kinds[ONE], room, "--sidecar a.covsplit --sidecar b.covsplit",
                     "");
    }
}
END_TEST

/* Both sidecars, in one file or by two names, give two objects; a file takes one. */
START_TEST(test_export_all)
{
    char *room = new_room(&kinds[ONE]);
    const char *here = path_join(room, "here");
    static const char *const ways[] = {"", "--sidecar .",
                                       "--sidecar a.covsplit --sidecar b.covsplit",
                                       "--sidecar ../store", "--store ../store"};
    const char *errors = covsplit_run_words(here, 1, "export -o out").errors;
    ck_assert_msg(strstr(errors, "the current directory: no sidecars to export") != NULL, "%s",
                  errors);
    put(&kinds[ONE], room, "here/b.covsplit");
    covsplit_run_words(here, 0, "export -o out");
    files_assert_equal(path_join(here, "out"), path_join(kinds[ONE].directory, "object"), "object");
    put(&kinds[ONE], room, "here/c.covsplit");
    covsplit_run_words(here, 0, "export -o out");
    put(&kinds[TWO], room, "here/a.covsplit");
    errors = covsplit_run_words(here, 1, "export -o out").errors;
    ck_assert_msg(strstr(errors, "sidecars of 2 UUIDs") != NULL, "%s", errors);
    put(&kinds[ONE], room, "store");
    put(&kinds[TWO], room, "store");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *debug = text_format("debug%zu", i);
        covsplit_run_words(here, 0, text_format("export %s --debug-dir %s", ways[i], debug));
        for (size_t k = ONE; k <= TWO; k++) {
            files_assert_equal(path_join(here, text_format("%s/.build-id/%.2s/%s.debug", debug,
                                                           kinds[k].uuid, kinds[k].uuid + 2)),
                               path_join(kinds[k].directory, "object"), ways[i]);
        }
    }
    /* That of a program without coverage, as rules of builds name it, is nothing to export. */
    file_write_text(path_join(room, "side/plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(path_join(room, "side"), "clang-19", "-Wl,--build-id", "plain.c", "-o", "plain",
                 NULL);
    covsplit_run_words(here, 0, "split -o plain --sidecar plain.covsplit ../side/plain");
    covsplit_run_words(here, 0, "export --debug-dir beside");
    ck_assert_uint_eq(directory_list(path_join(here, "beside/.build-id")).count, 2);
    /* By the beginning of a UUID, in whatever place it is. */
    covsplit_run_words(here, 0, text_format("export -o out %.6s", kinds[ONE].uuid));
    covsplit_run_words(here, 0, text_format("export --sidecar . -o out2 %.6s", kinds[TWO].uuid));
    files_assert_equal(path_join(here, "out2"), path_join(kinds[TWO].directory, "object"), "two");
    /* What cannot be read is said, and the others are made. */
    file_write_text(path_join(here, "bad.covsplit"), "nothing");
    errors = covsplit_run_words(here, 1, "export --debug-dir more").errors;
    ck_assert_msg(strstr(errors, "bad.covsplit: not a sidecar") != NULL, "%s", errors);
    ck_assert_uint_eq(directory_list(path_join(here, "more/.build-id")).count, 2);
}
END_TEST

/* ---- of another build ---- */

START_TEST(test_same_uuid)
{
    const char *plain = path_join(kinds[TWIN].directory, "plain");
    covsplit_run_words(kinds[TWIN].directory, 0,
                       "split --portable --sidecar plain -o again original");
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        char *room = new_room(&kinds[TWIN]);
        bool is_export = !makers[i].is_of_file;
        /* Alone the other one is refused, and with the right one it is passed over. What has only a
         * UUID to go by cannot tell them apart. */
        put(&kinds[OTHER], room, "here/a.covsplit");
        if (!is_export) {
            expect_failure(&makers[i], &kinds[TWIN], room, "", "", "");
            expect_failure(&makers[i], &kinds[TWIN], room, "--store nowhere", "",
                           "nowhere: no such directory; ");
        }
        put(&kinds[TWIN], room, "here/b.covsplit");
        if (is_export) {
            expect_failure(&makers[i], &kinds[TWIN], room, "", "", "fits as well as");
            continue;
        }
        expect_found(&makers[i], &kinds[TWIN], room, "", "");
        expect_found(&makers[i], &kinds[TWIN], room, "--sidecar .", "");
        expect_found(&makers[i], &kinds[TWIN], room, "--sidecar a.covsplit --sidecar b.covsplit",
                     "");
        /* One that counts alike is told from it by the stub record. */
        put(&kinds[ALIKE], room, "here/c.covsplit");
        expect_found(&makers[i], &kinds[TWIN], room, "", "");
        unlink(path_join(room, "here/b.covsplit"));
        expect_failure(&makers[i], &kinds[TWIN], room, "", "", "");
        put(&kinds[TWIN], room, "here/b.covsplit");
        /* A second copy of the right one, or one made in another way, is none. */
        unlink(path_join(room, "here/c.covsplit"));
        put(&kinds[TWIN], room, "here/c.covsplit");
        file_copy(plain, path_join(room, "here/d.covsplit"));
        expect_found(&makers[i], &kinds[TWIN], room, "", "");
    }
}
END_TEST

/* Where names go and records stay (--sections, value profiling), the records tell the builds apart.
 */
START_TEST(test_same_uuid_records)
{
    static const char *const functions[] = {"alpha", "gamma"};
    static const char *const options[] = {"--sections names", ""};
    char *room = path_join(scratch, text_format("records-%d", _i));
    directory_create(room);
    for (size_t i = 0; i < 2; i++) {
        const char *name = functions[i];
        file_write_text(path_join(room, text_format("%s.c", name)),
                        text_format("int %s(int n) { return n > 1; }\n"
                                    "int main(int count, char **words)\n"
                                    "{ int (*volatile call)(int) = %s;\n"
                                    "return call(count) && words == 0; }\n",
                                    name, name));
        run_or_abort(room, "sh", "-c",
                     "exec clang-19 -fprofile-instr-generate -fcoverage-mapping " ID_BY_HAND
                     " $1 $0.c -o $0",
                     name, _i == 0 ? "" : "-mllvm -enable-value-profiling=true", NULL);
        covsplit_run_words(room, 0,
                           text_format("split %s -o %s.out --sidecar %s.covsplit %s", options[_i],
                                       name, name, name));
        run_or_abort(room, "env", text_format("LLVM_PROFILE_FILE=%s.profraw", name),
                     text_format("./%s.out", name), NULL);
    }
    for (size_t i = 0; i < 4; i++) {
        const char *words = text_format("correlate --sidecar %s.covsplit -o %s.full %s.profraw",
                                        functions[i % 2], functions[i / 2], functions[i / 2]);
        struct outcome outcome = covsplit_run_words(room, i % 2 == i / 2 ? 0 : 1, words);
        if (i % 2 != i / 2) {
            ck_assert_msg(strstr(outcome.errors, "has the same UUID but other functions") != NULL,
                          "%s", outcome.errors);
        }
    }
}
END_TEST

/* A sidecar of an earlier build lies about, and the right one is in another place that nobody
 * named. The near one is not the better one. What an option names is. */
START_TEST(test_same_uuid_elsewhere)
{
    const struct maker *maker = &makers[_i];
    static const char *const strays[] = {"in/b.covsplit", "here/b.covsplit"};
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        char *room = new_room(&kinds[TWIN]);
        if (!maker->is_of_file && is_beside(strays[i])) {
            continue;
        }
        put(&kinds[TWIN], room, "store");
        put(&kinds[ALIKE], room, strays[i]);
        if (maker->is_of_file) {
            expect_found(maker, &kinds[TWIN], room, "", "../store");
        } else {
            expect_failure(maker, &kinds[TWIN], room, "", "../store", "fits as well as");
        }
        expect_found(maker, &kinds[TWIN], room, "--store ../store", "");
        expect_found(maker, &kinds[TWIN], room, "--sidecar ../store", "");
        unlink(path_join(room, strays[i]));
        put(&kinds[TWIN], room, strays[i]);
        expect_found(maker, &kinds[TWIN], room, "", "../store");
    }
}
END_TEST

/* Of what was not split, nothing is needed; of what had nothing to take out, or was split before,
 * there are sidecars that hold nothing. */
START_TEST(test_unsplit)
{
    char *room = new_room(&kinds[ONE]);
    const char *here = path_join(room, "here");
    run_or_abort(room, "env", "LLVM_PROFILE_FILE=plain",
                 path_join(kinds[ONE].directory, "original"), NULL);
    covsplit_run_words(here, 0, "merge -o out.profraw ../plain");
    covsplit_run_words(here, 0, "correlate -o out ../plain");
    files_assert_equal(path_join(here, "out"), path_join(room, "plain"), "copied");
    const char *errors =
        covsplit_run_words(here, 1, text_format("join -o joined %s/original", kinds[ONE].directory))
            .errors;
    ck_assert_msg(strstr(errors, "no sidecar for its UUID") != NULL, "%s", errors);

    run_or_abort(here, "clang-19", "-Wl,--build-id", "../../one/app.c", "-o", "bare", NULL);
    covsplit_run_words(here, 0, "split -o bare.out --sidecar x.covsplit bare");
    covsplit_run_words(here, 0, "join -o joined bare.out");
    files_assert_equal(path_join(here, "joined"), path_join(here, "bare"), "bare");

    /* A placeholder says what it is, and counts for nothing beside the real one. */
    covsplit_run_words(here, 0, "split -o again --sidecar a.covsplit ../in/app");
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        expect_failure(&makers[i], &kinds[ONE], room, "", "", "a placeholder");
    }
    errors = covsplit_run_words(here, 1, "export --sidecar . --debug-dir debug").errors;
    put(&kinds[ONE], room, "here/b.covsplit");
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        expect_found(&makers[i], &kinds[ONE], room, "", "");
    }
}
END_TEST

/* ---- images that are no more what the split wrote ---- */

START_TEST(test_changed_image)
{
    static const char question[] = "was it stripped or changed after the split?";
    const struct kind *kind = &kinds[ONE];
    static const char *const files[] = {"in/app.covsplit", "here/x.covsplit", "store"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *room = new_room(kind);
        run_or_abort(room, "strip", "in/app", NULL);
        put(kind, room, files[i]);
        const char *said = expect_failure(&makers[0], kind, room, "", "../store", question);
        ck_assert_ptr_nonnull(strstr(said, "join the image as the split wrote it"));
        /* Reports do not mind. */
        expect_found(&makers[5], kind, room, "", "../store");
    }
    char *room = new_room(kind);
    put(&kinds[TWO], room, "side/two");
    const char *said = expect_failure(&makers[0], kind, room, "--sidecar ../side/two", "",
                                      "not the stripped image that ");
    ck_assert_ptr_null(strstr(said, question));
    put(kind, room, "side/one");
    run_or_abort(room, "strip", "in/app", NULL);
    expect_failure(&makers[0], kind, room, "--sidecar ../side/one", "", question);
}
END_TEST

/* ---- hostile directories ---- */

/* Files of all kinds, none of which is a sidecar. Returns how many could not be read. */
static unsigned fill(const char *directory, const struct kind *kind)
{
    struct contents contents = file_read(path_join(kind->directory, "sidecar"));
    ck_assert_int_eq(mkfifo(path_join(directory, "a-pipe.covsplit"), 0600), 0);
    directory_create(path_join(directory, "a-directory.covsplit"));
    ck_assert_int_eq(symlink("a-loop.covsplit", path_join(directory, "a-loop.covsplit")), 0);
    ck_assert_int_eq(symlink("/dev/tty", path_join(directory, "a-device.covsplit")), 0);
    file_write_text(path_join(directory, "empty.covsplit"), "");
    file_write_text(path_join(directory, "text.covsplit"), "no sidecar");
    file_write(path_join(directory, "short.covsplit"), contents.data, 40);
    file_write_text(path_join(directory, "sparse.covsplit"), "");
    ck_assert_int_eq(truncate(path_join(directory, "sparse.covsplit"), (off_t)1 << 40), 0);
    /* These are no fault: gone, being written, or of another name. */
    ck_assert_int_eq(symlink("nothing", path_join(directory, "a-link.covsplit")), 0);
    file_write_text(path_join(directory, ".x.covsplit"), "no sidecar");
    file_write_text(path_join(directory, "text.covsplit.old"), "no sidecar");
    return 8;
}

START_TEST(test_hostile_directory)
{
    const struct kind *kind = &kinds[ONE];
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        char *room = new_room(kind);
        unsigned faults = fill(path_join(room, "here"), kind);
        const char *said = expect_failure(&makers[i], kind, room, "", "", "./*.covsplit");
        const char *count =
            text_format("(%u files there could not be read; the first: a-device.covsplit", faults);
        ck_assert_msg(strstr(said, count) != NULL, "%s", said);
        put(kind, room, "here/z.covsplit");
        expect_found(&makers[i], kind, room, "", "");
    }
}
END_TEST

/* Of the UUID that is wanted, and a terabyte. */
START_TEST(test_huge_file)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    put(kind, room, "here/huge.covsplit");
    ck_assert_int_eq(truncate(path_join(room, "here/huge.covsplit"), (off_t)1 << 40), 0);
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        struct outcome outcome = run_maker(&makers[i], kind, room, "", "");
        ck_assert_msg(outcome.exit_code == 1 && outcome.processor_seconds < 5, "%s: %d, %f s: %s",
                      makers[i].name, outcome.exit_code, outcome.processor_seconds, outcome.errors);
    }
    put(kind, room, "here/z.covsplit");
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        expect_found(&makers[i], kind, room, "", "");
    }
}
END_TEST

#define MANY 20000

/* As many UUIDs are looked for as there are files, none of which has one of them. */
START_TEST(test_many)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    struct contents sidecar = file_read(path_join(kind->directory, "sidecar"));
    struct command command =
        command_words(room, "%s export --sidecar side --debug-dir out", covsplit_path());
    uint8_t uuid[20], next[sizeof uuid], *found;
    for (size_t i = 0; i < sizeof uuid; i++) {
        ck_assert_int_eq(sscanf(kind->uuid + 2 * i, "%2hhx", &uuid[i]), 1);
    }
    for (unsigned i = 0; i < MANY; i++) {
        memcpy(next, uuid, sizeof uuid);
        memcpy(next + sizeof next - sizeof i, &i, sizeof i);
        while ((found = memmem(sidecar.data, sidecar.size, uuid, sizeof uuid)) != NULL) {
            memcpy(found, next, sizeof next);
        }
        memcpy(uuid, next, sizeof uuid);
        file_write(path_join(room, text_format("side/%u.covsplit", i)), sidecar.data, sidecar.size);
        text_list_add_format(&command.arguments, "%08x01234567", i);
    }
    struct outcome outcome = command_expect(&command, 1);
    ck_assert_msg(outcome.processor_seconds < (covsplit_is_sanitized() ? 16 : 4), "%f s",
                  outcome.processor_seconds);
}
END_TEST

/* Puts a sidecar there that a user may not read; returns the user's merge, in here/. */
static struct command put_unreadable(const struct kind *kind, const char *room, const char *place)
{
    put(kind, room, place);
    ck_assert_int_eq(chmod(path_join(room, place), 0), 0);
    ck_assert_int_eq(chmod(room, 0777), 0);
    return covsplit_command_as_user(scratch, path_join(room, "here"),
                                    "merge -o out.profraw ../in/light");
}

/* As a user who may not read them. */
START_TEST(test_unreadable)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    struct command command = put_unreadable(kind, room, "here/a.covsplit");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.exit_code == 1 &&
                      strstr(outcome.errors, "(1 file there could not be read: a.covsplit: ") !=
                          NULL,
                  "%s", outcome.errors);
    /* So is the whole directory, where it may be searched but not listed. */
    ck_assert_int_eq(chmod(path_join(room, "in"), 0711), 0);
    command = covsplit_command_as_user(scratch, path_join(room, "here"),
                                       "merge -o out.profraw ../in/light");
    outcome = command_run(&command);
    ck_assert_msg(
        outcome.exit_code == 1 &&
            strstr(outcome.errors, "(2 files there could not be read; the first: ../in") != NULL,
        "%s", outcome.errors);
    put(kind, room, "here/z.covsplit");
    command_expect(&command, 0);
}
END_TEST

/* The sidecar of another build does not hide that the right one cannot be read. */
START_TEST(test_unreadable_twin)
{
    const struct kind *kind = &kinds[TWIN];
    char *room = new_room(kind);
    put(&kinds[OTHER], room, "here/a.covsplit");
    struct command command = put_unreadable(kind, room, "here/b.covsplit");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(
        outcome.exit_code == 1 && strstr(outcome.errors, "than that of a.covsplit") != NULL &&
            strstr(outcome.errors, "(1 file there could not be read: b.covsplit: ") != NULL,
        "%s", outcome.errors);
    /* Found by its place, it is the one to tell of. */
    command = covsplit_command_as_user(scratch, path_join(room, "here"),
                                       "merge --sidecar a.covsplit --sidecar b.covsplit -o "
                                       "out.profraw ../in/light");
    outcome = command_run(&command);
    ck_assert_msg(outcome.exit_code == 1 && strstr(outcome.errors, "b.covsplit: ") != NULL, "%s",
                  outcome.errors);
    ck_assert_int_eq(chmod(path_join(room, "here/b.covsplit"), 0644), 0);
    command_expect(&command, 0);
}
END_TEST

/* Mutated sidecars: in front of a good one they do no harm; alone, what is made is right, or
 * nothing is. */
START_TEST(test_mutated)
{
    const struct kind *kind = &kinds[ONE];
    struct elf_file elf = elf_file_read(path_join(kind->directory, "sidecar"));
    unsigned refused = 0, all = rounds(300);
    char *room = new_room(kind);
    for (unsigned seed = 0; seed < all; seed++) {
        const struct maker *maker = &makers[seed % 3];
        char *description;
        struct contents mutated = mutate_elf(&elf, seed, &description);
        file_write(path_join(room, "here/a.covsplit"), mutated.data, mutated.size);
        struct outcome outcome = run_maker(maker, kind, room, "", "");
        ck_assert_msg(outcome.exit_code == 0 || outcome.exit_code == 1, "seed %u (%s): %d %s", seed,
                      description, outcome.exit_code, outcome.errors);
        refused += outcome.exit_code == 1;
        if (outcome.exit_code == 0) {
            expect_found(maker, kind, room, "", "");
        } else if (strstr(outcome.errors, "get an intact copy") == NULL) {
            put(kind, room, "here/b.covsplit");
            expect_found(maker, kind, room, "", "");
            unlink(path_join(room, "here/b.covsplit"));
        }
    }
    ck_assert_uint_gt(refused, all / 2);
}
END_TEST

/* ---- directories that change while `covsplit run` goes on ---- */

START_TEST(test_run_sees_changes)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    struct command command = covsplit_command(
        path_join(room, "here"), "run", "--", "sh", "-c",
        "set -e; KIND=$0\n"
        "! cmp -s ../in/light $KIND/full\n"
        "cp $KIND/sidecar a.covsplit; cmp ../in/light $KIND/full; cmp ../in/app $KIND/object\n"
        "rm a.covsplit; ! cmp -s ../in/light $KIND/full\n"
        "cp $KIND/../two/sidecar a.covsplit; ! cmp -s ../in/light $KIND/full\n"
        "sleep 2; cat $KIND/sidecar >a.covsplit; cmp ../in/light $KIND/full\n"
        "cp $KIND/../two/light two; cp $KIND/../two/sidecar b.covsplit\n"
        "cmp two $KIND/../two/full\n",
        kind->directory, NULL);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.exit_code == 0, "%s", outcome.errors);
    ck_assert_msg(strstr(outcome.errors, "no sidecar for its UUID") != NULL, "%s", outcome.errors);
}
END_TEST

/* The output must not take the place of what is found. */
START_TEST(test_output_is_sidecar)
{
    const struct kind *kind = &kinds[ONE];
    char *room = new_room(kind);
    const char *here = path_join(room, "here");
    static const char *const words[] = {
        "join -o x.covsplit ../in/app",
        "correlate -o x.covsplit ../in/light",
        "correlate --sidecar ../side/two --sidecar x.covsplit -o x.covsplit ../in/light",
        "export -o x.covsplit",
        "join --sidecar ../in/sidecar -o x.covsplit ../in/app",
        "merge --format profraw -o x.covsplit ../in/full",
        "merge --format profdata -o x.covsplit ../in/full",
    };
    file_copy(path_join(kind->directory, "full"), path_join(room, "in/full"));
    file_copy(path_join(kind->directory, "sidecar"), path_join(room, "in/sidecar"));
    put(kind, room, "here/x.covsplit");
    put(&kinds[TWO], room, "side/two");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *errors = covsplit_run_words(here, 1, words[i]).errors;
        ck_assert_msg(strstr(errors, "is the sidecar, which would be replaced") != NULL ||
                          strstr(errors, "is a sidecar, which would be replaced") != NULL,
                      "%s: %s", words[i], errors);
        files_assert_equal(path_join(here, "x.covsplit"), path_join(kind->directory, "sidecar"),
                           words[i]);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("finding", 300, prepare);
    suite_loops(test_case, sizeof places / sizeof *places, test_place);
    suite_loops(test_case, MAKER_COUNT, test_exclusion, test_order, test_same_uuid_elsewhere);
    suite_loops(test_case, 2, test_same_uuid_records);
    suite_tests(test_case, test_two_images, test_export_all, test_same_uuid, test_unsplit,
                test_changed_image, test_hostile_directory, test_huge_file, test_many,
                test_unreadable, test_unreadable_twin, test_mutated, test_run_sees_changes,
                test_output_is_sidecar);
    return suite_main("finding", test_case);
}
