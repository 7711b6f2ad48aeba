/*
 * covsplit report says something about all that it was given: profiles of several builds, images
 * without mapping, functions that drop out, and source files by all the names that compilers give
 * them. What it reports is compared with llvm-cov and the unsplit images of one build.
 *
 * The table of statuses in docs/guide.md is made here.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"

#define FLAGS  "-O1 -fprofile-instr-generate -fcoverage-mapping"
#define TOOLS  "--llvm-cov llvm-cov-19 --llvm-profdata llvm-profdata-19"
#define REPORT "report --store store " TOOLS

static char *scratch;

/* Runs a script, in which $split and $run stand for what each program needs, in a new directory
 * with the sources below. */
static char *build(const char *name, const char *script)
{
    static const char prepare[] =
        "set -e\n"
        "split() { \"$covsplit\" split --store store -o \"${2:-$1}\" $1 2>/dev/null; }\n"
        "build() { clang-19 " FLAGS " -Wl,--build-id \"$@\"; }\n"
        "run() { LLVM_PROFILE_FILE=${2:-profiles}/%m.profraw ./$1; }\n"
        "full() { LLVM_PROFILE_FILE=full/%m.profraw ./$1; }\n";
    char *directory = path_join(scratch, name);
    directory_create(directory);
    file_write_text(path_join(directory, "a.c"), "int f(int a)\n{\n    if (a > 3)\n"
                                                 "        return 1;\n    return 0;\n}\n"
                                                 "int main(int count, char **words)\n{\n"
                                                 "    (void)words;\n    return f(count);\n}\n");
    file_write_text(path_join(directory, "b.c"),
                    "int g(int b)\n{\n    return b > 7 ? 1 : 0;\n}\n"
                    "int main(int count, char **words)\n{\n    (void)words;\n"
                    "    if (count > 5)\n        return 2;\n    return g(count);\n}\n");
    struct command command = command_words(directory, "bash -c");
    text_list_add_format(&command.arguments, "covsplit=%s\n%s%s", covsplit_path(), prepare, script);
    command_run_or_abort(&command);
    return directory;
}

static struct outcome run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words);
}

/* The lines and counts of each file, by file names alone, in one order. */
static const char *counts_of(const char *directory, const char *lcov)
{
    file_write_text(path_join(directory, "lcov"), lcov);
    return run_or_abort(directory, "sh", "-c",
                        "sed -n 's|^SF:.*/|SF:|; /^SF:/{h}; /^DA:/{G; s/\\n/ /; p}' lcov | sort",
                        NULL);
}

/* Checks that the report has the counts that llvm-cov has for the profiles in full/ and these
 * unsplit images. */
static void assert_truth(const char *directory, const char *words, const char *images)
{
    run_or_abort(directory, "sh", "-c", "llvm-profdata-19 merge -o truth.profdata full/*", NULL);
    struct command cov = command_words(
        directory, "llvm-cov-19 export -format=lcov -instr-profile=truth.profdata %s", images);
    const char *wanted = counts_of(directory, command_run_or_abort(&cov));
    const char *found = counts_of(
        directory, run(directory, 0, text_format(REPORT " --format lcov %s", words)).output);
    ck_assert(strstr(wanted, "DA:") != NULL);
    ck_assert_str_eq(found, wanted);
}

/* ---- what is left out ---- */

static const struct kind {
    const char *word, *what, *script, *operands, *says;
    const char *images; /* unsplit, of which the report is */
} kinds[] = {
    {"missing", "profiles whose sidecar is not found",
     "build a.c -o a; build b.c -o b; cp a a.un; split a; cp -r store kept; split b; run a; run b; "
     "full a.un; rm -r store; mv kept store",
     "profiles", "no sidecar of it was found", "a.un"},
    {"empty", "profiles of 0 bytes",
     "build a.c -o a; cp a a.un; split a; run a; full a.un; : >profiles/b.profraw", "profiles",
     "profiles/b.profraw: empty", "a.un"},
    {"unmapped", "images compiled without `-fcoverage-mapping`",
     "build a.c -o a; cp a a.un; split a; clang-19 -fprofile-instr-generate -Wl,--build-id b.c -o "
     "b; "
     "split b; run a; run b; full a.un",
     "profiles", "b: left out, as the image has no coverage mapping", "a.un"},
    {"earlier", "profiles of an earlier build of an image",
     "build a.c -o a; split a; run a; sed -i '1i int later;\\n' a.c; build a.c -o a; cp a a.un; "
     "split a; ./a 2 3 4 5 || true; touch -d '1 hour ago' profiles/*; run a; full a.un",
     "profiles", "of an earlier build of 'a'", "a.un"},
    {"foreign", "counts of functions that no image of the report has",
     "build a.c -o a; cp a a.un; split a; build -Wl,--build-id=none b.c -o b; split b; run a raw; "
     "run b raw; full a.un; $covsplit merge --store store --llvm-profdata llvm-profdata-19 -o "
     "merged.profdata raw",
     "merged.profdata", "left out, such as 'main': in no image", NULL},
    {"mismatched", "functions whose counts and mapping do not belong together",
     "sed -i 's/^int main/#ifdef B\\nint main/; $a #endif' b.c; "
     "printf 'int g(int b)\\n{\\n#ifdef B\\n    if (b > 3)\\n        return 1;\\n#endif\\n"
     "    return b & 0;\\n}\\n' >g.c; sed -i 's/return f(count)/int g(int); return f(count) + "
     "g(1)/' a.c; sed -i 's/^int g.*/int g(int);/; 2,4d' b.c; "
     "build a.c g.c -o a; build -DB b.c g.c -o b; cp a a.un; cp b b.un; split a; split b; run a; "
     "run b; full a.un; full b.un",
     "profiles", "a has another form of it", "a.un -object b.un"},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static int status_of(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    struct outcome outcome = command_run(&command);
    ck_assert_int_eq(outcome.signal, 0);
    return outcome.exit_code;
}

static const char *row_of(const struct kind *kind, const char *directory)
{
    const char *verdict = "--fail-under lines=1";
    const char *ignore = text_format("--ignore %s", kind->word);
    int statuses[4];
    for (int i = 0; i < 4; i++) {
        statuses[i] = status_of(directory, text_format(REPORT " %s %s %s", i < 2 ? "" : verdict,
                                                       i % 2 == 0 ? "" : ignore, kind->operands));
    }
    return text_format("| `%s` | %s | %d | %d | %d | %d |\n", kind->word, kind->what, statuses[0],
                       statuses[1], statuses[2], statuses[3]);
}

START_TEST(test_kind)
{
    static const char *const formats[] = {"",
                                          "--summary",
                                          "--show-missing-lines",
                                          "--format json",
                                          "--format summary",
                                          "--format cobertura",
                                          "--format markdown",
                                          "--format lcov",
                                          "--format text",
                                          "--html pages"};
    const struct kind *kind = &kinds[_i];
    char *directory = build(kind->word, kind->script);
    bool is_missing = strcmp(kind->word, "missing") == 0;
    const char *ignore = text_format("--ignore %s", kind->word);
    const char *row = row_of(kind, directory),
               *guide =
                   (const char *)file_read(COVSPLIT_FIXTURE_DIRECTORY "/../../docs/guide.md").data;

    ck_assert_msg(strstr(guide, row) != NULL, "docs/guide.md lacks this row of its table:\n%s",
                  row);
    /* Each form of the report names it, but for those that have no place for it. They take turns
     * with the kinds, unless everything is asked for. */
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!rounds_have((unsigned)(i + (size_t)_i), 3)) {
            continue;
        }
        const char *words =
            text_format(REPORT " %s %s %s", formats[i], is_missing ? ignore : "", kind->operands);
        struct outcome outcome = run(directory, 0, words);
        ck_assert_msg(strstr(outcome.errors, kind->says) != NULL, "%s: %s", words, outcome.errors);
        ck_assert_uint_eq(text_count(outcome.errors, kind->says), 1);
        if (strstr(formats[i], "lcov") != NULL || strstr(formats[i], "text") != NULL)
            continue;
        const char *report = strstr(formats[i], "html") != NULL
                                 ? run_or_abort(directory, "grep", "-rh", "left out", "pages", NULL)
                                 : outcome.output;
        ck_assert_msg(strstr(report, "left out") != NULL, "%s: %s", words, report);
    }
    if (kind->images != NULL)
        assert_truth(directory, text_format("%s %s", ignore, kind->operands), kind->images);
    /* So does a verdict by a baseline, of what is in either of the two. */
    struct outcome refused =
        run(directory, 1, text_format(REPORT " --baseline %s %s", kind->operands, kind->operands));
    ck_assert_msg(strstr(refused.errors, "error: ") != NULL, "%s", refused.errors);
    run(directory, 0,
        text_format(REPORT " --baseline %s %s %s", kind->operands, ignore, kind->operands));
    /* Other words do not help. */
    run(directory, 1,
        text_format(REPORT " --fail-under lines=1 --ignore %s %s",
                    kinds[(_i + 1) % (int)KINDS].word, kind->operands));
}
END_TEST

/* ---- builds ---- */

/* The same name is no proof: programs of one name in other directories are all reported, and so are
 * two of different names with the same library. */
START_TEST(test_other_programs)
{
    char *directory = build(
        "programs", "mkdir x y; sed 's/f(/h(/' a.c >y/a.c; mv a.c x; mv b.c x/lib.c; "
                    "sed -i '/^int main/,$d' x/lib.c; for i in x y; do build $i/a.c x/lib.c -o "
                    "$i/a; cp $i/a $i.un; split $i/a; run $i/a; full $i.un; done; "
                    "build y/a.c x/lib.c -o z; cp z z.un; split z; run z; full z.un");
    assert_truth(directory, "--fail-under lines=1 profiles", "x.un -object y.un -object z.un");
}
END_TEST

/* Two builds under one UUID: a full profile can be of both, whatever else is reported, and no image
 * that is named is taken for another. */
START_TEST(test_one_uuid)
{
    char *directory = build(
        "one-uuid",
        "set -- -Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567; build a.c \"$@\" -o "
        "a; cp a a.un; split a; mv store one; run a; sed -i '1i //' a.c; build a.c \"$@\" -o b; "
        "cp b b.un; $covsplit split --sections covmap,covfun --store two b; run b later");
    struct outcome outcome =
        run(directory, 1, "report " TOOLS " --sidecar one --sidecar two profiles later");
    assert_contains(outcome.errors, "is of another build");
    outcome = run(directory, 1, "report " TOOLS " --sidecar one profiles a.un b.un");
    assert_contains(outcome.errors, "b.un: of another build than a.un, with the same UUID");
    run(directory, 0, "report " TOOLS " --sidecar one profiles a.un a");
}
END_TEST

/* Test programs of one name, which have a library in common and no `main` of their own, were both
 * there when they ran; after a file was renamed, the first build was not. */
START_TEST(test_own_files)
{
    char *directory = build(
        "own",
        "sed -n '/^int g/,/^}/p' b.c >lib.c; printf 'int g(int); int test_x(void) { return "
        "g(1); }\nint test(void) { return test_x(); }\n' >x.c; sed s/test_x/test_y/ x.c >y.c; "
        "printf 'int test(void); int main(void) { return test(); }\n' >m.c; clang-19 -c m.c; "
        "mkdir x y; for i in x y; do build $i.c lib.c m.o -o $i/a; cp $i/a $i.un; split $i/a; "
        "done; for i in x y; do run $i/a; full $i.un; done; "
        "sed s/test_x/test_z/ x.c >z.c; build z.c lib.c m.o -o z; split z; run z later; mv z.c "
        "renamed.c; "
        "build renamed.c lib.c m.o -o z; cp z z.un; split z; run z later");
    assert_truth(directory, "--fail-under lines=1 profiles", "x.un -object y.un");
    struct outcome outcome = run(directory, 0, REPORT " later");
    ck_assert_msg(strstr(outcome.errors, "of an earlier build of 'z'") != NULL, "%s",
                  outcome.errors);
    run_or_abort(directory, "sh", "-c", "rm -r full; LLVM_PROFILE_FILE=full/%m.profraw ./z.un",
                 NULL);
    assert_truth(directory, "later", "z.un");
}
END_TEST

/* Several builds: the newest profiles decide, or the image that is named; without times nothing
 * does. */
START_TEST(test_builds)
{
    char *directory =
        build("builds",
              "for i in 1 2 3; do sed -i '1i //' a.c; build a.c -o a; cp a un$i; split a a$i; "
              "cp a$i a; ./a || true; rm -f default.profraw; run a p$i; "
              "done; mkdir profiles; cp p[123]/* profiles; cd profiles; touch -d '3 hours ago' *; "
              "touch ../p2/*; cp -p ../p2/* .; mkdir ../full; cd ..; full un2");
    assert_truth(directory, "--ignore earlier profiles", "un2");
    struct outcome outcome = run(directory, 0, REPORT " profiles");
    ck_assert_uint_eq(text_count(outcome.errors, "of an earlier build of 'a'"), 2);
    ck_assert(strstr(outcome.errors, "remove them, or give --all-builds") != NULL);
    /* The image that is named */
    run_or_abort(directory, "sh", "-c", "rm -r full; LLVM_PROFILE_FILE=full/%m.profraw ./un3",
                 NULL);
    assert_truth(directory, "--ignore earlier profiles a3", "un3");
    /* of the same time: the sidecar's decides, and if that is the same, too, none */
    run_or_abort(directory, "sh", "-c", "touch -d 2026-01-01 profiles/*", NULL);
    assert_truth(directory, "--ignore earlier profiles", "un3");
    run_or_abort(directory, "sh", "-c",
                 "find store -name '*.covsplit' -exec touch -d 2026-01-01 {} +", NULL);
    outcome = run(directory, 1, REPORT " profiles");
    ck_assert(strstr(outcome.errors, "do not tell which is newer; name the image") != NULL);
    /* of indexed profiles nobody can tell */
    run(directory, 0,
        "merge --store store --llvm-profdata llvm-profdata-19 -o all.profdata profiles");
    outcome = run(directory, 1, REPORT " all.profdata");
    ck_assert(strstr(outcome.errors, "merge the profiles of one build") != NULL);
    /* and all of them */
    outcome = run(directory, 0, REPORT " --all-builds profiles");
    ck_assert(strstr(outcome.errors, "has another form of it") != NULL);
    /* Functions may all have other names, as those of Rust in another version. */
    run_or_abort(
        directory, "sh", "-c",
        "for i in 1 2; do printf \"int v${i}_f(void) { return 0; }\\n\" >r.c; clang-19 " FLAGS
        " -Wl,--build-id -shared -fPIC r.c -o r.so; $0 split --store store r.so; "
        "printf \"int v${i}_f(void); int main(void) { return v${i}_f(); }\\n\" >m.c; "
        "clang-19 m.c ./r.so -o m; LLVM_PROFILE_FILE=rp/%m.profraw ./m; done",
        covsplit_path(), NULL);
    outcome = run(directory, 0, REPORT " rp");
    ck_assert_msg(strstr(outcome.errors, "of an earlier build of 'r.so'") != NULL, "%s",
                  outcome.errors);
    /* Without a profile, an earlier build is no subject of the verdict. */
    outcome = run(directory, 0, REPORT " --all --fail-under lines=1 p3");
    ck_assert_str_eq(outcome.errors, "");
}
END_TEST

/* ---- functions ---- */

/* Of a profile whose build is not known, a function with another hash is named; one that is not
 * used in a unit, which has the hash 0, is not told of. */
START_TEST(test_hashes)
{
    char *directory =
        build("hashes", "clang-14 " FLAGS " a.c -o old; LLVM_PROFILE_FILE=o.profraw "
                        "./old; llvm-profdata-14 merge -o old.profdata o.profraw; "
                        "sed -i 's/return 0/return a == 1 ? 0 : 2/' a.c; clang-14 " FLAGS
                        " a.c -o a; split a; cp a.c a.cc; "
                        "printf 'inline int u(int a) { return a > 2 ? 0 : 1; }\\n' >u.h; "
                        "printf '#include \"u.h\"\\nint x() { return u(3); }\\n' >x.cc; "
                        "printf '#include \"u.h\"\\nint x(); int main() { return x(); }\\n' >m.cc; "
                        "clang++-19 " FLAGS " -Wl,--build-id m.cc x.cc -o m; cp m m.un; split m; "
                        "run m; full m.un");
    static const char words[] = "report --store store --llvm-cov llvm-cov-14 --llvm-profdata "
                                "llvm-profdata-14";
    struct outcome outcome = run(directory, 0, text_format("%s old.profdata a", words));
    ck_assert_msg(strstr(outcome.errors, "function 'f' of a: left out, as its hash is 0x") != NULL,
                  "%s", outcome.errors);
    ck_assert(strstr(outcome.errors, "mismatched data") == NULL);
    ck_assert(strstr(outcome.output, "function 'f' of a: left out") != NULL);
    run(directory, 1,
        text_format("%s --fail-under lines=1 --ignore foreign old.profdata a", words));
    run(directory, 0,
        text_format("%s --fail-under lines=1 --ignore foreign --ignore mismatched old.profdata a",
                    words));
    outcome = run(directory, 0, REPORT " --fail-under lines=1 profiles");
    ck_assert_str_eq(outcome.errors, "");
    assert_truth(directory, "profiles", "m.un");
    /* What llvm-cov says is not needed for a verdict, and what llvm-profdata lists is counted. */
    file_write_text(path_join(directory, "silent"),
                    "#!/bin/sh\nexec llvm-cov-14 \"$@\" 2>/dev/null\n");
    file_write_text(path_join(directory, "short"),
                    "#!/bin/sh\nllvm-profdata-14 \"$@\" | sed s/Hash/Digest/\n");
    run_or_abort(directory, "chmod", "+x", "silent", "short", NULL);
    outcome = run(directory, 1,
                  "report --store store --llvm-cov ./silent --llvm-profdata llvm-profdata-14 "
                  "--fail-under lines=1 --ignore foreign old.profdata a");
    ck_assert_msg(strstr(outcome.errors, "function 'f' of a: left out") != NULL, "%s",
                  outcome.errors);
    outcome =
        run(directory, 1,
            "report --store store --llvm-cov llvm-cov-14 --llvm-profdata ./short old.profdata "
            "a");
    ck_assert_msg(strstr(outcome.errors, "does not list its functions") != NULL, "%s",
                  outcome.errors);
}
END_TEST

/* ---- source files ---- */

static void assert_files(const char *directory, const char *words, const char *files)
{
    struct outcome outcome = run(directory, 0, text_format(REPORT " --format lcov %s", words));
    file_write_text(path_join(directory, "lcov"), outcome.output);
    ck_assert_str_eq(
        run_or_abort(directory, "sh", "-c", "sed -n 's/^SF://p' lcov | sort | tr '\\n' ' '", NULL),
        files);
}

/* Files that are not there count; only their text is missing. */
START_TEST(test_moved)
{
    char *directory = build("moved", "mkdir src; mv a.c b.c src; sed -i '/^int main/,$d' src/b.c; "
                                     "build src/a.c src/b.c -o a; cp a a.un; split a; run a; "
                                     "full a.un; mv src gone");
    assert_truth(directory, "profiles", "a.un");
    run(directory, 1, REPORT " --fail-under lines=100 profiles");
    run_or_abort(directory, "sh", "-c", "mkdir src; cp gone/a.c src", NULL);
    assert_truth(directory, "profiles", "a.un");
    run(directory, 1, REPORT " --fail-under lines=100 profiles");
    struct outcome outcome = run(directory, 0, REPORT " --html pages profiles");
    ck_assert_uint_eq(text_count(outcome.errors, "src/b.c"), 1);
    ck_assert(strstr(outcome.errors, "text cannot be shown") != NULL);
    assert_contains(run_or_abort(directory, "grep", "-rh", "b.c", "pages", NULL), "b.c");
}
END_TEST

/* One file has one name, however the compiler calls it. */
START_TEST(test_names)
{
    char *directory =
        build("names",
              "mkdir -p src test/bin; printf 'static inline int x(int a)\\n{\\n    return a > 3 ? "
              "1 : 0;\\n}\\n' >src/x.h; sed -i '1i #include \"x.h\"' a.c; sed -i "
              "'1i #include \"../src/x.h\"' b.c; sed -i 's/f(count)/f(count) + x(count)/' a.c; "
              "sed -i 's/g(count)/g(count) + x(count)/; s/int main/int x_main/' b.c; mv a.c b.c "
              "src; sed -i 's/return f/int x_main(int, char **); return x_main(1, words) + f/' "
              "src/a.c; build src/a.c src/b.c -o a; cp a a.un; full a.un; "
              "build -ffile-prefix-map=$PWD=. src/a.c src/b.c -o relative; "
              "build -fcoverage-compilation-dir=. -c src/a.c -o a.o; build -c $PWD/src/b.c; "
              "build a.o b.o -o mixed; "
              "(cd test/bin; clang-14 " FLAGS " -Wl,--build-id -I../../src ../../src/a.c "
              "../../test/../src/b.c -o ../../dots); "
              "build '-fcoverage-prefix-map='$PWD'=C:\\proj' src/a.c src/b.c -o drive; "
              "ln -s src link; build -Ilink -c link/a.c -o a.o; build a.o b.o -o links; "
              "for i in relative mixed dots drive links; do split $i; run $i $i.p; done");
    static const struct {
        const char *program, *options, *prefix;
    } rows[] = {
        {"relative", "", ""},
        {"relative", "--root .", ""},
        {"mixed", "--root .", ""},
        {"drive", "--path-map C:\\proj=.", ""},
        {"drive", "--path-map C:/proj/src=src", ""},
        {"links", "--root .", ""},
        {"dots", "--root .", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_14 = strcmp(rows[i].program, "dots") == 0;
        const char *words =
            text_format("%s %s %s.p", rows[i].options,
                        is_14 ? "--llvm-cov llvm-cov-14 --llvm-profdata llvm-profdata-14" : "",
                        rows[i].program);
        assert_files(directory, words, "src/a.c src/b.c src/x.h ");
        if (!is_14)
            assert_truth(directory, words, "a.un");
        /* in all forms */
        struct outcome outcome = run(directory, 0, text_format(REPORT " --summary %s", words));
        ck_assert_uint_eq(text_count(outcome.output, "\n"), 5);
        outcome = run(directory, 0, text_format(REPORT " --format cobertura %s", words));
        ck_assert(strstr(outcome.output, "filename=\"src/x.h\"") != NULL);
        ck_assert_uint_eq(text_count(outcome.output, "<class "), 3);
        outcome = run(directory, 0, text_format(REPORT " --format text %s", words));
        ck_assert_msg(strstr(outcome.output, "return a > 3 ? 1 : 0;") != NULL, "%s: %s", words,
                      outcome.output);
        run(directory, 0, text_format(REPORT " --html html%zu %s", i, words));
        ck_assert_uint_eq(
            text_list_of_lines(run_or_abort(directory, "find", text_format("html%zu", i), "-name",
                                            "*.[ch].html", NULL))
                .count,
            3);
    }
    struct outcome outcome = run(directory, 0, REPORT " --path-map /nowhere=/here relative.p");
    ck_assert(strstr(outcome.errors, "--path-map: no source file is below '/nowhere'") != NULL);
}
END_TEST

/* Nothing is not all. */
START_TEST(test_nothing)
{
    char *directory =
        build("nothing", "build a.c -o a; split a; run a; "
                         "printf 'int main(void) { return 0; }\\n' >m.c; build m.c -o "
                         "m; split m; run m plain");
    static const struct {
        const char *words, *says;
    } rows[] = {
        {"--ignore-filename-regex .* profiles", "leaves out all source files"},
        {"--ignore-filename-regex ( profiles", "not an extended regular expression"},
        {"--include nowhere profiles", "no source file of the report is there"},
        {"--include a.c --include b.c profiles", "b.c: no source file of the report is there"},
        {"--root nowhere profiles", "not the root of a source tree"},
        {"--fail-under branches=0 plain", "the report has no branches"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outcome outcome = run(directory, 1, text_format(REPORT " %s", rows[i].words));
        ck_assert_msg(strstr(outcome.errors, rows[i].says) != NULL, "%s", outcome.errors);
        ck_assert_str_eq(strstr(rows[i].words, "plain") != NULL ? "" : outcome.output, "");
    }
    /* The name by which others are left out */
    run_or_abort(directory, "sh", "-c",
                 "clang-19 " FLAGS
                 " -fcoverage-prefix-map=$PWD=/.covsplit-left-out a.c -o marked && "
                 "LLVM_PROFILE_FILE=marked.profraw ./marked",
                 NULL);
    run(directory, 1, REPORT " --include / marked.profraw marked");
    run(directory, 0, REPORT " --path-map /.covsplit-left-out=. marked.profraw marked");
    /* An image that is named, and has nothing for a report. */
    run_or_abort(directory, "clang-19", "m.c", "-o", "empty", NULL);
    struct outcome outcome = run(directory, 1, REPORT " --fail-under lines=1 profiles empty");
    ck_assert(strstr(outcome.errors, "no coverage data") != NULL);
}
END_TEST

/* Images that were built, but not split: one is named if it is there, of several all UUIDs are. */
START_TEST(test_not_split)
{
    char *directory =
        build("unsplit",
              "build a.c -o a; build b.c -o b; full a; sed 's/> 3/> 2/' a.c >c.c; build c.c -o c; "
              "split c; run c; mkdir -p two; cp full/* two; "
              "LLVM_PROFILE_FILE=two/%m.profraw ./b");
    struct outcome outcome = run(directory, 1, REPORT " full");
    ck_assert_msg(strstr(outcome.errors, "of the image a, which was not split; name the image") !=
                      NULL,
                  "%s", outcome.errors);
    assert_truth(directory, "--fail-under lines=1 full a", "a");
    outcome = run(directory, 1, REPORT " two");
    ck_assert_msg(strstr(outcome.errors, "nor for 1 other image: ") != NULL, "%s", outcome.errors);
    assert_contains(outcome.errors, "not split: name the images, too");
    outcome = run(directory, 0, REPORT " --ignore missing two profiles");
    ck_assert_uint_eq(text_count(outcome.errors, "no sidecar of it was found"), 2);
    run(directory, 1, REPORT " --ignore missing two");
    outcome = run(directory, 1, REPORT " --ignore missing two c");
    assert_contains(outcome.errors, "two: no raw profile is left for the report");

    /* Where the image is not to be seen; in an indexed profile; and one that tells no UUID. */
    run_or_abort(directory, "sh", "-c",
                 "mkdir elsewhere images && mv a b images && cp full/* elsewhere && "
                 "llvm-profdata-19 merge -o elsewhere.profdata elsewhere && mkdir none && "
                 "clang-19 " FLAGS " -Wl,--build-id=none a.c -o n && "
                 "LLVM_PROFILE_FILE=none/n.profraw ./n && mv n images",
                 NULL);
    static const char *const missing[] = {"elsewhere", "elsewhere.profdata", "none"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        outcome = run(directory, 1, text_format(REPORT " %s profiles", missing[i]));
        assert_contains(outcome.errors, "not split");
        assert_contains(outcome.errors, "name the image, too");
        const char *alone = run(directory, 0, REPORT " profiles").output;
        outcome =
            run(directory, 0, text_format(REPORT " --ignore missing %s profiles", missing[i]));
        assert_contains(outcome.errors, "the report lacks the");
        if (i != 1)
            ck_assert_int_eq(strncmp(outcome.output, alone, strlen(alone)), 0);
        run(directory, 1, text_format(REPORT " --ignore missing %s", missing[i]));
        outcome = run(directory, 1,
                      text_format(REPORT " --fail-under lines=1 --ignore empty "
                                         "%s profiles",
                                  missing[i]));
    }
}
END_TEST

/* A sidecar that is damaged is not missing. */
START_TEST(test_damaged)
{
    char *directory = build("damaged", "build a.c -o a; build b.c -o b; split b; run b; for i in "
                                       "store/.build-id/*/*; do head -c -40 $i >cut; cat cut >$i; "
                                       "done; split a; run a");
    struct outcome outcome = run(directory, 1, REPORT " --ignore missing profiles");
    ck_assert_msg(strstr(outcome.errors, ".covsplit: ") != NULL, "%s", outcome.errors);
    ck_assert_str_eq(outcome.output, "");
}
END_TEST

/* Sidecars may lie beside profiles, also in a directory of them; and a program that writes nothing
 * is not llvm-cov. */
START_TEST(test_neighbours)
{
    char *directory = build("neighbours", "build a.c -o a; cp a a.un; split a; run a; full a.un; "
                                          "find store -name '*.covsplit' -exec cp {} profiles \\;");
    assert_truth(directory, "profiles", "a.un");
    static const char *const forms[] = {"", "--format json", "--summary", "--baseline profiles"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct outcome outcome =
            run(directory, 1,
                text_format("report --store store --llvm-cov true %s profiles", forms[i]));
        ck_assert_msg(strstr(outcome.errors, "wrote nothing; give another --llvm-cov") != NULL,
                      "%s", outcome.errors);
    }
}
END_TEST

/* Pages need a place. */
START_TEST(test_pages)
{
    char *directory = build("pages", "build a.c -o a; split a; run a; touch file");
    struct outcome outcome = run(directory, 1, REPORT " --html file profiles");
    ck_assert(strstr(outcome.errors, "file: cannot be created: Not a directory") != NULL);
    run(directory, 0, REPORT " --html deep/er/pages profiles");
    struct command command = covsplit_words(directory, REPORT " --html h --open profiles");
    text_list_add(&command.environment, "BROWSER=cat");
    outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 0) && strstr(outcome.output, "Coverage Report") != NULL);
    command.environment.items[0] = "BROWSER=false";
    outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 1) &&
              strstr(outcome.errors, "'false' cannot show it; open it yourself") != NULL);
    run(directory, 2, REPORT " --open profiles");
}
END_TEST

/* Names in pages are demangled, and a template is shown once unless each instantiation is asked
 * for. */
START_TEST(test_templates)
{
    char *directory = build(
        "templates", "printf 'template <class T> T bigger(T a, T b)\n{\n    return a > b ? a : "
                     "b;\n}\nint main()\n{\n    return bigger(1, 2) + bigger(1u, 2u) > "
                     "9;\n}\n' >t.cc; clang++-19 " FLAGS " -Wl,--build-id t.cc -o t; split t; "
                     "run t");
    run(directory, 0, REPORT " --html once profiles");
    run(directory, 0, REPORT " --html each --show-instantiations profiles");
    const char *once =
        run_or_abort(directory, "sh", "-c", "cat $(find once -name t.cc.html)", NULL);
    const char *each =
        run_or_abort(directory, "sh", "-c", "cat $(find each -name t.cc.html)", NULL);
    ck_assert(strstr(once, "bigger&lt;") == NULL);
    ck_assert(strstr(each, "int bigger&lt;int&gt;(int, int)") != NULL);
    ck_assert(strstr(run(directory, 0, REPORT " --format text profiles").output, "_Z6bigger") ==
              NULL);
    ck_assert(
        strstr(run(directory, 0, REPORT " --format text --show-instantiations profiles").output,
               "_Z6bigger") != NULL);
}
END_TEST

/* Lines that were not executed, as numbers and ranges; and a table in Markdown. */
START_TEST(test_lines)
{
    char *directory =
        build("lines", "printf 'int main(int count, char **words)\n{\n    "
                       "(void)words;\n    if (count > 1)\n        return 1;\n    if "
                       "(count > 2) {\n        count++;\n        count--;\n    }\n    "
                       "return 0;\n}\n' >a.c; cp a.c 'b_*.c'; sed -i s/main/other/ "
                       "'b_*.c'; build *_*.c a.c -o a; split a; run a");
    struct outcome outcome = run(directory, 0, REPORT " --summary --show-missing-lines profiles");
    assert_contains(outcome.output, "\nlines that were not executed:\na.c:5,7-9\nb_*.c:2-11\n");
    outcome = run(directory, 0, REPORT " --format markdown profiles");
    assert_contains(outcome.output, "| file | lines | functions | branches |\n| :--- | ---: |");
    assert_contains(outcome.output, "\n| b\\_\\*.c | 0.00% (0/");
    assert_contains(outcome.output, "\n| **total** | ");
    run(directory, 2, REPORT " --format markdown --show-missing-lines profiles");
}
END_TEST

/* What a terminal or a reader of XML may obey is not passed on. */
START_TEST(test_strange_names)
{
    char *directory =
        build("strange", "d=$(printf 'a\\033[2Jb\\302\\233c\\342\\200\\256d\\377<&\"--'); mkdir "
                         "\"$d\"; mv a.c \"$d/a.c\"; build "
                         "\"$d/a.c\" -o a; split a; run a");
    static const char *const forms[] = {"", "--summary", "--show-missing-lines",
                                        "--format markdown", "--baseline profiles"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct outcome outcome = run(directory, 0, text_format(REPORT " %s profiles", forms[i]));
        const char *said = text_format("%s%s", outcome.output, outcome.errors);
        ck_assert_msg(strchr(said, 033) == NULL && strstr(said, "\302\233") == NULL &&
                          strstr(said, "\342\200\256") == NULL,
                      "%s", forms[i]);
        ck_assert_msg(strcmp(forms[i], "--baseline profiles") == 0 ||
                          strstr(said, "a?[2Jb?c?d?<") || strstr(said, "a?\\[2Jb?c?d?\\<"),
                      "%s: %s", forms[i], said);
    }
    run(directory, 0, REPORT " --format cobertura -o c.xml profiles");
    run_or_abort(directory, "python3", "-c",
                 "import xml.dom.minidom as m; d = m.parse('c.xml'); "
                 "assert len(d.getElementsByTagName('line')) == 9",
                 NULL);
}
END_TEST

/* A table of 20,000 files is compared in the time that grows with it. */
START_TEST(test_many_files)
{
    char *directory =
        build("many", "python3 - <<'END'\n"
                      "for k in range(20):\n"
                      "    with open(f'm{k}.c', 'w') as f:\n"
                      "        for i in range(200):\n"
                      "            f.write(f'#line 1 \"d{k}/f{i}.c\"\\nint f{k}_{i}(void)\\n{{ "
                      "return 0; }}\\n')\n"
                      "with open('main.c', 'w') as f:\n"
                      "    f.write('int f0_1(void); int main(void) { return f0_1(); }\\n')\n"
                      "END\nbuild main.c m[0-9]*.c -o m; split m; run m");
    struct command command =
        covsplit_words(directory, REPORT " --include / --baseline profiles profiles");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_uint_eq(text_count(outcome.output, "\n"), 1);
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("verdict");
}

int main(void)
{
    TCase *all = suite_case("verdict", 120, prepare);
    suite_loops(all, KINDS, test_kind);
    suite_tests(all, test_other_programs, test_own_files, test_one_uuid, test_builds, test_hashes,
                test_moved, test_names, test_nothing, test_not_split, test_damaged, test_neighbours,
                test_pages, test_templates, test_lines, test_strange_names, test_many_files);
    return suite_main("verdict", all);
}
