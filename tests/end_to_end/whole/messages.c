/*
 * Messages: one error names all sidecars that are missing, and nothing that covsplit prints moves
 * the cursor, whatever files, functions and tests are called.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

#define IMAGES 6

static char *scratch;

static void prepare(void)
{
    scratch = scratch_create("messages");
}

static struct outcome run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words);
}

static void compile(const char *directory, const char *source, const char *output)
{
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=sha1", source, "-o", output, NULL);
}

static void run_program(const char *directory, const char *name, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, name));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_run_or_abort(&command);
}

/* ---- missing sidecars ---- */

/* Two profiles of each of some programs, which are split into a store, in `profiles`. */
static char *build_programs(void)
{
    char *directory = path_join(scratch, "programs");
    directory_create(directory);
    for (unsigned i = 0; i < IMAGES; i++) {
        const char *name = text_format("p%u", i);
        file_write_text(path_join(directory, "p.c"),
                        text_format("int main(int c, char **v) { return !v || c > 9%u; }\n", i));
        compile(directory, "p.c", name);
        run(directory, 0, text_format("split --store store %s", name));
        run_program(directory, name, text_format("profiles/%s-1.profraw", name));
        run_program(directory, name, text_format("profiles/%s-2.profraw", name));
    }
    return directory;
}

/* One error names the first image and where was looked, then three others by UUID and first
 * profile, and what to do comes last. */
static void assert_lists(struct outcome outcome, unsigned missing, const char *first,
                         const char *profiles)
{
    const char *errors = outcome.errors;
    const char *others = missing < 2 ? ""
                                     : text_format(", nor for %u other image%s: ", missing - 1,
                                                   missing > 2 ? "s" : "");
    unsigned named = missing - 1 < 3 ? missing - 1 : 3;
    ck_assert_msg(strncmp(errors,
                          text_format("covsplit: error: %s: no sidecar for its UUID ", first),
                          strlen(first) + 42) == 0 &&
                      text_count(errors, "\n") == 1 && strstr(errors, others) != NULL &&
                      strcmp(strrchr(errors, ';'), "; give --store or --sidecar\n") == 0 &&
                      text_count(errors, " (") - text_count(errors, " (no such") == named &&
                      text_count(strstr(errors, others), profiles) == named,
                  "%u missing, %s: %s", missing, first, errors);
    ck_assert_uint_eq(text_count(errors, "and 2 more; "), missing == 6);
    ck_assert_uint_eq(text_count(errors, " more"), missing > 4);
}

START_TEST(test_missing_sidecars)
{
    static const char *const lines[] = {"merge -o made.profdata", "merge -j1 -o made.profraw",
                                        "merge --into made", "report"};
    char *directory = build_programs();
    run_or_abort(directory, "sh", "-c", "cat profiles/*-1.profraw >all.profraw", NULL);
    for (unsigned missing = IMAGES; missing != 0; missing--) {
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            const char *first = text_format("profiles/p%u-1.profraw", IMAGES - missing);
            const char *words = text_format("%s --store some profiles", lines[i]);
            assert_lists(run(directory, 1, words), missing, first, "-1.profraw)");
        }
        assert_lists(run(directory, 1, "correlate --store some -o made.profraw all.profraw"),
                     missing, "all.profraw", "(all.profraw)");
        run(directory, 0, text_format("store copy store some p%u", IMAGES - missing));
    }
    run(directory, 0, "merge --store some -o made.profdata profiles");
    /* What is wrong with a profile comes first, in the order of the profiles. */
    file_write_text(path_join(directory, "profiles/p1-0.profraw"), "no profile");
    assert_lists(run(directory, 1, "merge --store none -o made.profdata profiles"), 1,
                 "profiles/p0-1.profraw", "-1.profraw)");
}
END_TEST

/* ---- names ---- */

#define ESCAPE "\033[31m"

/* Asserts that there is no control character but ends of lines. */
static void assert_clean(const char *text, const char *words)
{
    for (size_t i = 0; text[i] != '\0'; i++) {
        bool is_c1 = text[i] == '\xc2' && (unsigned char)text[i + 1] < 0xa0;
        ck_assert_msg((text[i] >= ' ' || text[i] == '\n') && text[i] != 0x7f && !is_c1,
                      "%s: control character %d at %zu:\n%s", words, text[i], i, text);
    }
}

/* Each '@' in the words stands for a name with control characters in it. */
static void assert_prints_none(const char *directory, int exit_code, const char *words)
{
    struct command command = covsplit_words(directory, words);
    for (size_t i = 0; i < command.arguments.count; i++) {
        const char *word = command.arguments.items[i], *mark = strchr(word, '@');
        if (mark != NULL) {
            command.arguments.items[i] = (char *)text_format("%.*sna" ESCAPE "\302\233me%s",
                                                             (int)(mark - word), word, mark + 1);
        }
    }
    struct outcome outcome = command_expect(&command, exit_code);
    assert_clean(outcome.output, words);
    assert_clean(outcome.errors, words);
    ck_assert_msg(exit_code != 0 || outcome.output_size != 0 || strstr(words, " -v ") == NULL,
                  "%s prints nothing", words);
}

/* An image NAME of a source of that name, with a function that is called so, too. */
static void build_strange(const char *directory, const char *name, const char *body)
{
    const char *source = text_format("%s.c", name);
    file_write_text(path_join(directory, source),
                    text_format("int odd(int x) __asm__(\"od\\033[31md\");\n"
                                "int odd(int x) { %s }\n"
                                "int main(int c, char **v) { return !v || odd(c) > 100; }\n",
                                body));
    compile(directory, source, name);
}

START_TEST(test_strange_names)
{
    static const struct {
        const char *words;
        int exit_code;
    } rows[] = {
        {"show @", 0},
        {"split -v -o @.s --sidecar @.covsplit @", 0},
        {"split -v --store store@ -o @.s @", 0},
        {"split -v --store store@ -o @2.s @2", 0},
        {"split -v @.s @2.s", 0},
        {"split --json -o again --sidecar again.covsplit @", 0},
        {"split @.nowhere", 1},
        {"show @.s", 0},
        {"show @.covsplit", 0},
        {"show --json @.covsplit", 0},
        {"show --map @.covsplit", 0},
        {"show @.profraw", 0},
        {"show --json @.profraw", 0},
        {"verify @.covsplit", 0},
        {"verify --json @.covsplit", 0},
        {"verify @", 1},
        {"store list store@", 0},
        {"store list --json store@", 0},
        {"store check -v store@", 0},
        {"store check --json store@", 0},
        {"store copy -v store@ other@", 0},
        {"store add -v more@ @.covsplit", 0},
        {"store gc --older-than 0 -n store@", 0},
        {"store check more@/nowhere", 1},
        {"merge -v --store store@ -o @.profdata @.profraw @2.profraw", 0},
        {"merge --explain --store store@ -o @.profdata @.profraw @2.profraw", 0},
        {"merge --explain --json --store store@ -o @.profdata @.profraw @2.profraw", 0},
        {"merge -v --store store@ --into state@ @.profraw @2.profraw", 0},
        {"merge --store nowhere@ -o @.profdata @.profraw @2.profraw", 1},
        {"show state@", 0},
        {"show --json state@", 0},
        {"show --store store@ state@", 0},
        {"show --store store@ --json state@", 0},
        {"export -v --union -o @.a @.covsplit", 0},
        {"export -v --debug-dir debug@ --store store@", 0},
        {"export --union -o other.a @.nowhere", 1},
        {"show @.a", 0},
        {"show --json @.a", 0},
        {"join -o joined --sidecar again.covsplit @.s", 0},
        {"repack -v @.covsplit", 0},
        {"correlate -o full.profraw @.profraw", 0},
        {"correlate --store nowhere@ -o full.profraw @2.profraw", 1},
        {"run -v --store store@ -- cat @.profraw.not", 1},
        {"run -- ./@.nowhere", 127},
        {"test -- ./@.nowhere", 127},
        {"link -- ./@.nowhere", 127},
        {"pack -v @.nowhere", 1},
        {"snapshot --core @.nowhere --store store@ -o snapshot", 1},
        {"nowhere@", 2},
        {"split --nowhere@ x", 2},
        {"split --level @ x", 2},
    };
    static const char name[] = "na" ESCAPE "\302\233me";
    char *directory = path_join(scratch, "strange");
    directory_create(directory);
    build_strange(directory, name, "return x > 2 ? x : 3;");
    build_strange(directory, text_format("%s2", name),
                  "if (x > 3) return 2; return x > 2 ? x : 3;");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strstr(rows[i].words, "show @.profraw") == rows[i].words) {
            run_program(directory, text_format("%s.s", name), text_format("%s.profraw", name));
            run_program(directory, text_format("%s2.s", name), text_format("%s2.profraw", name));
        }
        assert_prints_none(directory, rows[i].exit_code, rows[i].words);
    }
}
END_TEST

int main(void)
{
    TCase *all = suite_case("messages", 120, prepare);
    suite_tests(all, test_missing_sidecars, test_strange_names);
    return suite_main("messages", all);
}
