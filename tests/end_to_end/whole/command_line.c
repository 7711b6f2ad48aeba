/*
 * The command line: usage errors, help, and what show prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 40

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("line", SAMPLE_FUNCTIONS);
    sample_split(&sample);
}

static struct outcome run_words(const char *words)
{
    struct command command = covsplit_words(sample.scratch, words);
    struct outcome outcome = command_run(&command);
    return outcome;
}

static const char *const usage_errors[] = {
    "",
    "no-such-command",
    "--no-such-option",
    "split",
    "split --no-such-option image",
    "split --verb image",
    "split --sto store image",
    "store list --js store",
    "merge --format -o out.profraw in.profraw",
    "merge --format text -o out.profraw in.profraw",
    "merge -o out in.profraw",
    "merge --format profraw --sparse -o out.profdata in.profraw",
    "split -o",
    "split --level 0 image",
    "split --level 20 image",
    "split --level many image",
    "split --level 99999999999999999999 image",
    "split --sections image",
    "split --sections nonsense image",
    "split --sections covmap,,names image",
    "split --uuid xyz image",
    "split --uuid abc image",
    "split -j 0 image",
    "split -j -1 image",
    "join image",
    "join -o",
    "join -o out",
    "join -o out one two",
    "join -o out --sidecar one --store two image",
    "show",
    "show --no-such-option image",
    "verify",
    "verify --image",
    "verify --image image",
    "split --replace image",
    "split --sidecar side --store store image",
    "store",
    "store no-such-action store",
    "store --json store",
    "store list",
    "store add",
    "store add store",
    "store add --json store side",
    "store copy store",
    "export --union side",
    "export --union --debug-dir objects side",
    "repack",
    "pack",
    "pack -o out one.o two.o",
    "snapshot -o profiles",
    "snapshot --pid 1",
    "snapshot --pid 0 -o profiles",
    "snapshot --pid self -o profiles",
    "snapshot --pid 1 --core core -o profiles",
    "repack --level 20 side",
    "repack --fast side",
    "split --fast --level 3 image",
    "store check --json",
    "store gc store",
    "store gc --older-than -1 store",
    "store gc --older-than soon store",
    "store gc --keep-list store",
    "help store no-such-action",
    "help store gc list",
};

START_TEST(test_usage_error)
{
    const char *words = usage_errors[_i];
    struct outcome outcome = run_words(words);
    ck_assert_msg(outcome_exited(&outcome, 2), "covsplit %s: exit %d, signal %d", words,
                  outcome.exit_code, outcome.signal);
    ck_assert_msg(strncmp(outcome.errors, "covsplit: error: ", 17) == 0 || words[0] == '\0',
                  "covsplit %s: %s", words, outcome.errors);
    ck_assert_msg(outcome.errors_size != 0, "covsplit %s says nothing", words);
    ck_assert_msg(outcome.output_size == 0, "covsplit %s prints %s", words, outcome.output);
}
END_TEST

/* The nearest known word is suggested, if it is near. */
START_TEST(test_misspelt)
{
    static const char *const cases[][2] = {
        {"spilt image", "unknown command 'spilt' (did you mean 'split'?); run "},
        {"stroe list", "unknown command 'stroe' (did you mean 'store'?); run "},
        {"store ls", "unknown action 'ls' (did you mean 'list'?); run "},
        {"help exprot", "unknown command 'exprot' (did you mean 'export'?); run "},
        {"split --stoer store image", "unknown option '--stoer' (did you mean '--store'?); run "},
        {"frobnicate", "unknown command 'frobnicate'; run "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = covsplit_run_words(sample.scratch, 2, cases[i][0]);
        assert_contains(outcome.errors, cases[i][1]);
    }
}
END_TEST

/* As of a variable that is not set: no command, and no action of a group. */
START_TEST(test_empty_word)
{
    static const char *const groups[] = {"", "store", "help"};
    struct outcome outcome = groups[_i][0] == '\0'
                                 ? covsplit_run(sample.scratch, "", "one", NULL)
                                 : covsplit_run(sample.scratch, groups[_i], "", "one", NULL);
    ck_assert_int_eq(outcome.exit_code, 2);
    ck_assert_msg(strstr(outcome.errors, "unknown ") != NULL || groups[_i][0] == 'h', "%s",
                  outcome.errors);
    outcome_free(&outcome);
}
END_TEST

START_TEST(test_help)
{
    static const char *const lines[] = {
        "--help",          "help",          "split --help",     "join --help",   "show --help",
        "verify --help",   "--version",     "help split",       "help verify",   "store --help",
        "store gc --help", "help store",    "help store check", "store list -h", "repack --help",
        "store add -h",    "store copy -h", "snapshot --help"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct outcome outcome = run_words(lines[i]);
        ck_assert_msg(outcome_exited(&outcome, 0), "covsplit %s: %s", lines[i], outcome.errors);
        ck_assert_uint_gt(outcome.output_size, 0);
        ck_assert_uint_eq(outcome.errors_size, 0);
        /* Help fits a terminal. */
        struct text_list text = text_list_of_lines(outcome.output);
        for (size_t j = 0; j < text.count; j++) {
            ck_assert_msg(strlen(text.items[j]) <= 100, "%s: %s", lines[i], text.items[j]);
        }
        text_list_free(&text);
        outcome_free(&outcome);
    }
}
END_TEST

/* What is used most comes first, with an example each, and every command has its line. */
START_TEST(test_help_order)
{
    static const char *const first[] = {"split", "report", "test", "run"};
    struct outcome outcome = run_words("help");
    struct text_list lines = text_list_of_lines(outcome.output);
    ck_assert_uint_gt(lines.count, 12);
    ck_assert_str_eq(lines.items[2], "Most used:");
    for (size_t i = 0; i < 4; i++) {
        const char *command = text_format("  %s  ", first[i]);
        const char *example = text_format("      covsplit %s --store sidecars ", first[i]);
        ck_assert_msg(strncmp(lines.items[3 + 2 * i], command, strlen(command)) == 0, "%s",
                      outcome.output);
        ck_assert_msg(strncmp(lines.items[4 + 2 * i], example, strlen(example)) == 0, "%s",
                      outcome.output);
    }
    ck_assert_str_eq(lines.items[11], "In builds:");
    assert_contains(outcome.output, "\n\nProfiles:\n  merge ");
    assert_contains(outcome.output, "\n\nFiles:\n  join ");
    ck_assert_str_eq(outcome.output, run_words("--help").output);
}
END_TEST

/* The first line is for scripts. */
START_TEST(test_version)
{
    static const char *const libraries[] = {"zstd 1.", "xxHash 0.", "libdeflate 1.", "nettle 3."};
    struct outcome outcome = run_words("--version");
    struct text_list lines = text_list_of_lines(outcome.output);
    unsigned parts[3];
    int length = 0;
    ck_assert_uint_eq(lines.count, 2);
    ck_assert_int_eq(
        sscanf(lines.items[0], "covsplit %u.%u.%u%n", &parts[0], &parts[1], &parts[2], &length), 3);
    ck_assert_int_eq(lines.items[0][length], '\0');
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        assert_contains(lines.items[1], libraries[i]);
    }
}
END_TEST

/* A full raw profile and a lightweight one, in sample.scratch. */
static void write_profiles(void)
{
    const char *const images[] = {sample.image, sample.stripped};
    const char *const names[] = {"full.profraw", "light.profraw"};
    for (size_t i = 0; i < 2; i++) {
        struct command command = {.directory = sample.scratch};
        text_list_add(&command.arguments, images[i]);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", names[i]);
        struct outcome outcome = command_run(&command);
        ck_assert_int_eq(outcome.exit_code, 3);
        outcome_free(&outcome);
        command_free(&command);
    }
}

START_TEST(test_show)
{
    write_profiles();
    struct elf_file image = elf_file_read(sample.image);
    const char *uuid = elf_file_build_id(&image);
    elf_file_free(&image);
    const char *const files[] = {sample.image, sample.stripped, sample.sidecar, "full.profraw",
                                 "light.profraw"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct command command = covsplit_command(sample.scratch, "show", files[i], NULL);
        const char *text = command_run_or_abort(&command);
        ck_assert_msg(strstr(text, uuid) != NULL, "no UUID %s:\n%s", uuid, text);
        ck_assert_msg(strstr(text, "cnts") != NULL || strstr(text, "counters") != NULL,
                      "no counters:\n%s", text);
        struct text_list lines = text_list_of_lines(text);
        for (size_t j = 0; j < lines.count; j++) {
            size_t length = strlen(lines.items[j]);
            ck_assert_msg(lines.items[j][length - 1] != ' ', "blanks at the end: '%s'",
                          lines.items[j]);
        }
        text_list_free(&lines);
        command_free(&command);
    }
}
END_TEST

/* What is named in place of an image or state is told. */
START_TEST(test_mistaken)
{
    char *directory = sample_directory(&sample);
    covsplit_assert(0, directory, "store", "add", "store", sample.sidecar, NULL);
    assert_contains(covsplit_run_words(directory, 1, "show store").errors,
                    "store: is a store; 'covsplit store list' lists it");
    assert_contains(
        covsplit_run_words(directory, 1, text_format("join -o out %s", sample.sidecar)).errors,
        ": is a sidecar; name the stripped image that it is of");
}
END_TEST

/* The value that python3 prints for an expression over the parsed JSON, which it calls `shown`. */
static const char *query_json(const char *expression)
{
    const char *program = text_format("import json\nshown = json.load(open('shown.json'))\n"
                                      "print(%s)\n",
                                      expression);
    return run_or_abort(sample.scratch, "python3", "-c", program, NULL);
}

static void assert_json(const char *expression, const char *expected)
{
    const char *found = query_json(expression);
    ck_assert_msg(strncmp(found, expected, strlen(expected)) == 0 &&
                      strcmp(found + strlen(expected), "\n") == 0,
                  "%s: %s was expected, and %s found", expression, expected, found);
}

START_TEST(test_show_json)
{
    write_profiles();
    struct command command =
        covsplit_command(sample.scratch, "show", "--json", sample.image, sample.stripped,
                         sample.sidecar, "full.profraw", "light.profraw", NULL);
    file_write_text(path_join(sample.scratch, "shown.json"), command_run_or_abort(&command));
    struct elf_file image = elf_file_read(sample.image);
    const char *uuid = elf_file_build_id(&image);

    assert_json("len(shown)", "5");
    assert_json("[file['kind'] for file in shown]",
                "['image', 'image', 'sidecar', 'raw profile', 'raw profile']");
    assert_json("{file['uuid'] for file in shown[:3]}", text_format("{'%s'}", uuid));
    assert_json("{file['format'] for file in shown[:3]}", "{'ELF'}");
    assert_json("{file['machine'] for file in shown[:3]}", "{'x86-64'}");
    assert_json("[file['raw_version'] for file in shown[:3]]", "[10, 10, 10]");
    assert_json("[file['already_split'] for file in shown[:2]]", "[False, True]");
    assert_json("shown[0]['file_size']", text_format("%zu", image.file.size));
    assert_json("shown[0]['size_after_split'] == shown[1]['file_size']", "True");
    assert_json("shown[2]['original_size'] == shown[0]['file_size']", "True");
    assert_json("shown[2]['stripped_size'] == shown[1]['file_size']", "True");
    const char *const names[] = {"__llvm_covmap", "__llvm_covfun", "__llvm_prf_names",
                                 "__llvm_prf_data"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *size = text_format(
            "[section['size'] for section in shown[2]['sections'] if section['name'] == '%s']",
            names[i]);
        assert_json(size, text_format("[%llu]",
                                      (unsigned long long)elf_file_section_size(&image, names[i])));
    }
    /* A form that is an eighth larger than the section, for others' sake, is the most. */
    assert_json("all(s['stored_size'] <= s['size'] * 9 / 8 + 64 for s in shown[2]['sections'] "
                "if s['stored_size'])",
                "True");
}
END_TEST

/* Runs covsplit, and has what it prints for assert_json; gives back what it says. */
static const char *save_json(const char *directory, int exit_code, const char *words)
{
    struct outcome outcome = covsplit_run_words(directory, exit_code, words);
    file_write(path_join(sample.scratch, "shown.json"), outcome.output, outcome.output_size);
    return outcome.errors;
}

/* What split says of an image is what show says of it and its sidecar. */
START_TEST(test_split_json)
{
    char *directory = sample_directory(&sample);
    struct outcome shown;
    sample_copy(&sample, directory, "app");
    ck_assert_str_eq(save_json(directory, 0, "split --json -o out app"), "");
    assert_json("len(shown)", "1");
    assert_json("[shown[0][key] for key in ('file', 'output', 'sidecar', 'already_split')]",
                "['app', 'out', 'app.covsplit', False]");
    assert_json("shown[0]['warnings']", "[]");
    assert_json("{s['status'] for s in shown[0]['sections'] if s['stored_size']}", "{'removed'}");
    file_copy(path_join(sample.scratch, "shown.json"), path_join(directory, "split.json"));
    shown = covsplit_run_words(directory, 0, "show --json app out app.covsplit");
    file_write(path_join(directory, "show.json"), shown.output, shown.output_size);
    run_or_abort(directory, "python3", "-c",
                 "import json\n"
                 "split = json.load(open('split.json'))[0]\n"
                 "image, out, sidecar = json.load(open('show.json'))\n"
                 "for key in ('uuid', 'format', 'machine', 'original_size', 'stripped_size'):\n"
                 "    assert split[key] == sidecar[key], key\n"
                 "assert split['original_size'] == image['file_size']\n"
                 "assert split['stripped_size'] == out['file_size']\n"
                 "assert split['sidecar_size'] == sidecar['file_size']\n"
                 "stored = {s['name']: s for s in sidecar['sections']}\n"
                 "for s in split['sections']:\n"
                 "    of_image, = [i for i in image['sections'] if i['name'] == s['name']]\n"
                 "    for key in ('kind', 'address', 'size', 'status', 'reason'):\n"
                 "        assert s[key] == of_image[key], (s, key)\n"
                 "    if s['status'] == 'removed':\n"
                 "        assert s['stored_size'] == stored[s['name']]['stored_size'], s\n"
                 "        assert s['ratio'] == stored[s['name']]['ratio'], s\n"
                 "assert len(split['sections']) == len(image['sections']) > 3\n",
                 NULL);
}
END_TEST

/* One object an image, also of one that is passed on, and none of one that failed; warnings are in
 * it and on standard error. */
START_TEST(test_split_json_of_many)
{
    char *directory = sample_directory(&sample);
    directory_create(path_join(directory, "tree"));
    sample_copy(&sample, directory, "tree/one");
    sample_copy(&sample, directory, "tree/two");
    file_copy(sample.stripped, path_join(directory, "split"));
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-19", "plain.c", "-o", "plain", NULL);
    file_write_text(path_join(directory, "text"), "no image\n");
    const char *errors =
        save_json(directory, 1, "split --json --store store -r plain split text tree");
    assert_json("[image['file'] for image in shown]", "['plain', 'split', 'tree/one', 'tree/two']");
    assert_json("[image['already_split'] for image in shown]", "[False, True, False, False]");
    assert_json("[image['sidecar'] is None for image in shown]", "[True, True, False, False]");
    assert_json("[image['sidecar_size'] is None for image in shown]", "[True, True, False, False]");
    assert_json("shown[2]['sidecar'] == shown[3]['sidecar']", "True");
    assert_json("shown[2]['sidecar_size'] == shown[3]['sidecar_size']", "True");
    assert_json("shown[2]['sections'] == shown[3]['sections']", "True");
    assert_json("shown[0]['original_size'] == shown[0]['stripped_size']", "True");
    assert_json("shown[1]['original_size']", "None");
    assert_json("[len(image['warnings']) for image in shown]", "[1, 1, 0, 0]");
    assert_contains(errors,
                    text_format("covsplit: warning: %s", query_json("shown[0]['warnings'][0]")));
    assert_contains(errors, "covsplit: error: text: ");
    ck_assert_str_eq(save_json(directory, 0, "split --json --store store -r tree"), "");
    assert_json("shown", "[]");
}
END_TEST

START_TEST(test_verify)
{
    char *directory = sample_directory(&sample);
    struct outcome outcome;
    sample_copy(&sample, directory, "app");
    covsplit_run_words(directory, 0, "split --store store -o out app");
    covsplit_run_words(directory, 0, "split -o out app");
    file_copy(path_join(directory, "app.covsplit"), path_join(directory, "good"));
    file_write_text(path_join(directory, "text"), "not a sidecar\n");
    outcome = covsplit_run_words(directory, 0, "verify good");
    ck_assert_str_eq(outcome.output, "good: ok\n");
    outcome = covsplit_run_words(directory, 1, "verify --image out app.covsplit text good");
    ck_assert_str_eq(outcome.output, "app.covsplit: ok\ngood: ok\n");
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);

    const char *errors = save_json(directory, 1, "verify --json good text app.covsplit");
    assert_json("[(file['file'], file['ok'], file['empty']) for file in shown]",
                "[('good', True, False), ('text', False, False), ('app.covsplit', True, False)]");
    assert_json("[file['error'] is None for file in shown]", "[True, False, True]");
    assert_json("shown[1]['uuid']", "None");
    ck_assert_str_eq(errors, text_format("covsplit: error: %s", query_json("shown[1]['error']")));
    file_copy(path_join(sample.scratch, "shown.json"), path_join(directory, "verify.json"));
    save_json(directory, 0, "store check --json store");
    assert_json("[(file['ok'], file['error']) for file in shown]", "[(True, None)]");
    assert_json(text_format("shown[0]['uuid'] == json.load(open('%s'))[0]['uuid']",
                            path_join(directory, "verify.json")),
                "True");
    save_json(directory, 0, "store list --json store");
    assert_json(text_format("shown[0]['uuid'] == json.load(open('%s'))[0]['uuid']",
                            path_join(directory, "verify.json")),
                "True");
}
END_TEST

START_TEST(test_show_of_garbage)
{
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "text"), "not an image\n");
    file_write_text(path_join(directory, "empty"), "");
    static const char *const files[] = {"text", "empty"};
    for (size_t i = 0; i < 2; i++) {
        struct verdict verdict = {0};
        struct command command = covsplit_command(directory, "show", files[i], NULL);
        struct outcome outcome = command_run(&command);
        covsplit_refused(&command, &outcome, &verdict);
        verdict_assert(&verdict, files[i]);
        outcome_free(&outcome);
        command_free(&command);
    }
    /* One bad file does not hide the others, nor does it go unnoticed. */
    struct command command =
        covsplit_command(directory, "show", "--json", sample.image, "text", sample.sidecar, NULL);
    struct outcome outcome = command_run(&command);
    ck_assert_int_eq(outcome.exit_code, 1);
    file_write(path_join(sample.scratch, "shown.json"), outcome.output, outcome.output_size);
    assert_json("[file['kind'] for file in shown]", "['image', 'sidecar']");
}
END_TEST

/* Runs a command with a terminal for its standard error; shows what came there, with ESC as ^. */
static const char on_terminal[] =
    "import os, pty, subprocess, sys\n"
    "leader, follower = pty.openpty()\n"
    "status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=follower).returncode\n"
    "os.close(follower)\n"
    "text = b''\n"
    "try:\n"
    "    while part := os.read(leader, 4096):\n"
    "        text += part\n"
    "except OSError:\n" /* how Linux tells that all have closed it */
    "    pass\n"
    "print(text.decode().replace('\\r', '').replace('\\033', '^'), end='')\n"
    "sys.exit(status)\n";

static const struct colour_case {
    const char *environment;
    bool is_coloured;
} colour_cases[] = {
    {"TERM=xterm NO_COLOR=", true},   {"TERM=xterm-256color NO_COLOR=", true},
    {"TERM=xterm NO_COLOR=1", false}, {"TERM=xterm NO_COLOR=0", false},
    {"TERM=dumb NO_COLOR=", false},   {"TERM= NO_COLOR=", false},
};

START_TEST(test_colour)
{
    static const struct {
        const char *words;
        int exit_code;
        const char *kind, *colour, *message;
    } messages[] = {
        {"show nosuch", 1, "error", "^[1;31m", " nosuch: cannot be read: "},
        {"show", 2, "error", "^[1;31m", " FILE is missing; run 'covsplit show --help'\n"},
        {"split stripped", 0, "warning", "^[1;35m", " stripped: split already, by "},
    };
    const struct colour_case *test = &colour_cases[_i];
    char *directory = sample_directory(&sample);
    file_copy(sample.stripped, path_join(directory, "stripped"));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct command command = {.directory = directory};
        text_list_add_words(&command.environment, test->environment);
        text_list_add_words(&command.arguments, "python3 -c");
        text_list_add(&command.arguments, on_terminal);
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, messages[i].words);
        struct outcome outcome = command_expect(&command, messages[i].exit_code);
        const char *start =
            test->is_coloured
                ? text_format("covsplit: %s%s:^[0m%s", messages[i].colour, messages[i].kind,
                              messages[i].message)
                : text_format("covsplit: %s:%s", messages[i].kind, messages[i].message);
        ck_assert_msg(strncmp(outcome.output, start, strlen(start)) == 0 &&
                          text_count(outcome.output, "^") == (test->is_coloured ? 2 : 0),
                      "%s: %s", test->environment, outcome.output);
        outcome_free(&outcome);
        command_free(&command);
    }
}
END_TEST

/* One split says on a terminal what it has done, also that nothing was saved. */
START_TEST(test_split_on_terminal)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    file_write_text(path_join(directory, "small.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping", "small.c",
                 "-o", "small", NULL);
    static const char *const images[] = {"app", "small"};
    for (size_t i = 0; i < 2; i++) {
        size_t before = file_size(path_join(directory, images[i]));
        struct command command = {.directory = directory};
        text_list_add_words(&command.arguments, "python3 -c");
        text_list_add(&command.arguments, on_terminal);
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, text_format("split %s", images[i]));
        struct outcome outcome = command_expect(&command, 0);
        size_t after = file_size(path_join(directory, images[i]));
        size_t sidecar = file_size(path_join(directory, text_format("%s.covsplit", images[i])));
        const char *line = text_format("%s: %s before, ", images[i], text_of_count(before, "byte"));
        ck_assert_msg(strncmp(outcome.output, line, strlen(line)) == 0 &&
                          text_count(outcome.output, "\n") == 1,
                      "%s", outcome.output);
        ck_assert_int_eq(strstr(outcome.output, " more in all, ") != NULL,
                         after + sidecar > before);
    }
}
END_TEST

/* What a terminal obeys in a file's name is '?' in messages and tables, and escaped in JSON: C0,
 * C1, what turns text round, a byte that is not UTF-8. Other characters stay. */
static const char hostile_name[] = "a\033[2J\xc2\x9b"
                                   "2J\xe2\x80\xae"
                                   "b\xe2\x81\xa6\xf3\xa0\x80\xa0\xff\xc3\xa4\xe6\x97\xa5";

static const char harmless_name[] = "a?[2J?2J?b???\xc3\xa4\xe6\x97\xa5";

START_TEST(test_hostile_name)
{
    char *directory = sample_directory(&sample);
    struct command command = covsplit_command(directory, "show", hostile_name, NULL);
    struct outcome outcome = command_expect(&command, 1);
    ck_assert_str_eq(outcome.errors, text_format("covsplit: error: %s: cannot be read: No such "
                                                 "file or directory\n",
                                                 harmless_name));
    file_copy(sample.image, path_join(directory, hostile_name));
    command = covsplit_command(directory, "split", hostile_name, NULL);
    command_expect(&command, 0);
    /* The table has the name of the image that was split. */
    command = covsplit_command(directory, "show", text_format("%s.covsplit", hostile_name), NULL);
    outcome = command_expect(&command, 0);
    ck_assert_msg(strstr(outcome.output, harmless_name) != NULL &&
                      text_count(outcome.output, hostile_name) == 0,
                  "%s", outcome.output);
    command = covsplit_command(directory, "show", "--json",
                               text_format("%s.covsplit", hostile_name), NULL);
    outcome = command_expect(&command, 0);
    file_write(path_join(sample.scratch, "shown.json"), outcome.output, outcome.output_size);
    ck_assert_msg(strstr(outcome.output, "a\\u001b[2J\\u009b2J\\u202eb\\u2066\\udb40\\udc20\xef\xbf"
                                         "\xbd\xc3\xa4\xe6\x97\xa5") != NULL,
                  "%s", outcome.output);
    assert_json("len(shown)", "1");
}
END_TEST

/* Output that cannot be written is a failure. */
START_TEST(test_full_standard_output)
{
    static const char *const options[] = {"--help", "--version"};
    for (size_t i = 0; i < 2; i++) {
        struct command command = {.directory = sample.scratch};
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add(&command.arguments, "exec \"$@\" >/dev/full");
        text_list_add(&command.arguments, "sh");
        text_list_add(&command.arguments, covsplit_path());
        text_list_add(&command.arguments, options[i]);
        command_expect(&command, 1);
        command_free(&command);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("line", 120, prepare);
    suite_loops(test_case, sizeof usage_errors / sizeof *usage_errors, test_usage_error);
    suite_loops(test_case, 3, test_empty_word);
    suite_loops(test_case, sizeof colour_cases / sizeof *colour_cases, test_colour);
    suite_tests(test_case, test_misspelt, test_help, test_help_order, test_version, test_show,
                test_mistaken, test_show_json, test_split_json, test_split_json_of_many,
                test_verify, test_show_of_garbage, test_hostile_name, test_split_on_terminal,
                test_full_standard_output);
    return suite_main("line", test_case);
}
