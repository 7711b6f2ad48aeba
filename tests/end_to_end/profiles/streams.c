/*
 * Profiles from standard input and FIFOs, plain and sparse: whole, cut short, without an end, from
 * writers that pause and die. The result is that for the same bytes in files; or there is an error
 * that says what is missing, soon, and no output.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define FUNCTIONS      12
#define SPARSE_PROGRAM COVSPLIT_FIXTURE_DIRECTORY "/../support/sparse_profile.py"

/* Nothing here takes longer than this; what waits forever is found so. */
#define TIMEOUT_SECONDS 20

static char *scratch;

/* Two programs, in directories named after their compilers, and a store for both. */
static const char *const clangs[] = {"14", "19"};
#define CLANGS 2

static void build(const char *clang)
{
    struct program program = {.clang = clang,
                              .linker = "bfd",
                              .kind = LINK_NO_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .compile_options =
                                  strcmp(clang, "19") == 0 ? "-fcoverage-mcdc" : NULL,
                              .functions = FUNCTIONS};
    char *directory = path_join(scratch, clang);
    directory_create(directory);
    program_build(&program, directory);
    run_or_abort(directory, covsplit_path(), "split", "--store", "../store", "-o", "split",
                 PROGRAM_NAME, NULL);
    run_or_abort(scratch, "sh", "-c",
                 text_format("LLVM_PROFILE_FILE=%s.light %s/split || test $? = 3", clang, clang),
                 NULL);
    run_or_abort(scratch, "python3", SPARSE_PROGRAM, "make", text_format("%s.light", clang),
                 text_format("%s.sparse", clang), NULL);
}

static void prepare(void)
{
    scratch = scratch_create("streams");
    for (size_t i = 0; i < CLANGS; i++) {
        build(clangs[i]);
    }
    run_or_abort(scratch, "sh", "-c",
                 "cat 14.light 19.light >both && cat 19.sparse 14.light 14.sparse 19.light >mixed",
                 NULL);
}

/* Runs a script of bash, in which $covsplit is the command and $store its option; gives back what
 * it wrote to standard error. */
static const char *script(int exit_code, const char *text)
{
    struct command command = {.directory = scratch, .timeout_seconds = TIMEOUT_SECONDS};
    text_list_add_words(&command.arguments, "bash -c");
    text_list_add(&command.arguments, text);
    text_list_add_format(&command.environment, "covsplit=%s", covsplit_path());
    text_list_add(&command.environment, "store=--store=store");
    struct outcome outcome = command_expect(&command, exit_code);
    return outcome.errors;
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(scratch, name), path_join(scratch, other), name);
}

/* An error of one line, which says all these, and no output. */
static void assert_refused(const char *text, const char *subject, const char *problem)
{
    const char *errors = script(1, text_format("%s", text));
    assert_contains(errors, text_format("covsplit: error: %s: ", subject));
    assert_contains(errors, problem);
    ck_assert_msg(text_count(errors, "\n") == 1, "'%s'", errors);
    ck_assert(!file_exists(path_join(scratch, "no.profraw")));
}

START_TEST(test_whole)
{
    script(0, "$covsplit merge $store -o files.profraw 14.light 19.light\n"
              "cat both | $covsplit merge $store -o stream.profraw -\n"
              "$covsplit merge $store -o start.profraw - <both\n"
              "$covsplit merge $store -o substituted.profraw <(cat 14.light) <(cat 19.light)\n"
              "mkfifo pipe; cat both >pipe & $covsplit merge $store -o pipe.profraw pipe; rm pipe\n"
              "printf '14.light\\n19.light\\n' | $covsplit merge $store -o list.profraw @-\n"
              "$covsplit merge $store -o sublist.profraw @<(echo 14.light; echo -) <19.light\n");
    static const char *const same[] = {"stream", "start", "substituted", "pipe", "list", "sublist"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_same(text_format("%s.profraw", same[i]), "files.profraw");
    }
    script(0, "$covsplit correlate $store -o file.profraw both\n"
              "cat both | $covsplit correlate $store -o stream.profraw -\n"
              "$covsplit correlate $store -o pipe.profraw <(cat both)\n"
              "$covsplit show both >shown; cat both | $covsplit show - | sed 1d >streamed\n"
              "sed -i 1d shown\n"
              "$covsplit show --json - <14/split >image.json\n");
    assert_same("stream.profraw", "file.profraw");
    assert_same("pipe.profraw", "file.profraw");
    assert_same("streamed", "shown");
    struct contents json = file_read(path_join(scratch, "image.json"));
    ck_assert_ptr_nonnull(memmem(json.data, json.size, "\"standard input\"", 16));
}
END_TEST

/* The bytes come one by one, or with a pause. */
START_TEST(test_slow_writers)
{
    script(0, "$covsplit merge $store -o files.profraw 14.light 19.light\n"
              "dd if=both bs=1 2>/dev/null | $covsplit merge $store -o slow.profraw -\n"
              "(head -c 100 both; sleep 0.5; tail -c +101 both) | "
              "$covsplit merge $store -o pause.profraw -\n");
    assert_same("slow.profraw", "files.profraw");
    assert_same("pause.profraw", "files.profraw");
    assert_refused("(head -c 300 both; sleep 0.3; kill -9 $BASHPID) | "
                   "$covsplit merge $store -o no.profraw -",
                   "standard input", "cut short in its ");
}
END_TEST

/* Every 13th cut of a stream of two profiles; the unit tests try each byte of each version. */
START_TEST(test_cuts)
{
    uint64_t first = file_size(path_join(scratch, "14.light"));
    uint64_t size = file_size(path_join(scratch, "both"));
    for (uint64_t cut = 1; cut < size; cut += 13 * rounds_step()) {
        const char *words =
            text_format("head -c %llu both | $covsplit %s $store -o no.profraw -",
                        (unsigned long long)cut, cut % 2 == 0 ? "merge" : "correlate");
        if (cut == first) {
            continue;
        }
        assert_refused(words, "standard input",
                       cut < first ? "cut short in its "
                                   : text_format("the profile at byte %llu is cut short in its ",
                                                 (unsigned long long)first));
    }
    assert_refused("head -c 150 19.light >cut; $covsplit merge $store -o no.profraw cut", "cut",
                   text_format(": %llu of its %llu bytes are missing; ",
                               (unsigned long long)file_size(path_join(scratch, "19.light")) - 150,
                               (unsigned long long)file_size(path_join(scratch, "19.light"))));
    assert_refused("mkfifo pipe; head -c 20 14.light >pipe & "
                   "$covsplit merge $store -o no.profraw pipe; status=$?; rm pipe; exit $status",
                   "pipe", "cut short in its header: at least ");
    /* What was lost in the middle is not made up for by what follows. */
    assert_refused("(head -c 240 19.light; tail -c +249 19.light; printf 'the end\\n') >lost\n"
                   "$covsplit merge $store -o no.profraw 19.light lost",
                   "lost", "damaged: bytes before its names are missing");
    assert_refused("$covsplit correlate $store -o no.profraw lost", "lost",
                   "damaged: bytes before its names are missing");
    /* One that is cut short among good ones is left out on request. */
    assert_contains(script(0, "head -c 150 19.light | $covsplit merge $store --failure-mode=all "
                              "-o kept.profraw 14.light -\n"
                              "$covsplit merge $store -o one.profraw 14.light"),
                    "standard input: cut short");
    assert_same("kept.profraw", "one.profraw");
}
END_TEST

START_TEST(test_without_end)
{
    static const char *const commands[] = {"merge $store -o no.profraw",
                                           "correlate $store -o no.profraw", "show"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        bool is_show = strcmp(commands[i], "show") == 0;
        assert_refused(text_format("$covsplit %s - </dev/zero", commands[i]), "standard input",
                       is_show ? "neither an image" : "MiB of zeros");
        assert_refused(text_format("yes | $covsplit %s -", commands[i]), "standard input",
                       is_show ? "neither an image" : "not a raw profile");
        assert_refused(text_format("(cat 14.light; yes) | $covsplit %s -", commands[i]),
                       "standard input", "is not a raw profile");
        assert_refused(text_format("(cat 14.light; cat /dev/zero) | $covsplit %s -", commands[i]),
                       "standard input", "MiB of zeros");
        /* A header that claims more than there may be, and zeros. */
        assert_refused(text_format("(head -c 40 14.light; printf '\\0\\0\\0\\0\\0\\1\\0\\0'; "
                                   "tail -c +49 14.light | head -c 40; "
                                   "cat /dev/zero) | $covsplit %s -",
                                   commands[i]),
                       "standard input", "--memory-limit");
    }
    assert_refused("$covsplit merge $store -o no.profraw @- </dev/zero", "standard input",
                   "NUL bytes");
}
END_TEST

START_TEST(test_names)
{
    assert_refused("echo - >list; $covsplit merge $store -o no.profraw - @list <both",
                   "standard input", "named twice");
    assert_refused(": | $covsplit merge $store -o no.profraw -", "standard input", "empty: ");
    assert_refused(": | $covsplit merge $store -o no.profraw - 14.light", "standard input",
                   "empty: ");
    assert_refused("$covsplit merge $store -o no.profraw 14.light <(false)", "/dev/fd/63",
                   "empty: ");
    assert_refused("$covsplit merge $store -o no.profraw - <&-", "standard input",
                   "cannot be read");
    assert_refused("$covsplit merge $store -o no.profraw - <.", "standard input", "is a directory");
    /* A file may have that name. */
    script(0, "cp 14.light ./-; $covsplit merge $store -o dash.profraw ./-; rm ./-\n"
              "$covsplit merge $store -o one.profraw 14.light");
    assert_same("dash.profraw", "one.profraw");
    /* What is in a directory is not opened unless it is a file. */
    script(0, "mkdir inputs; cp 14.light inputs; mkfifo inputs/pipe inputs/other\n"
              "ln -s ../inputs/pipe inputs/link\n"
              "$covsplit merge $store -o directory.profraw inputs");
    assert_same("directory.profraw", "one.profraw");
}
END_TEST

/* Profiles that cannot be summed are needed again when the output is written. */
START_TEST(test_value_profiles)
{
    file_write_text(
        path_join(scratch, "value.c"),
        "static int one(int x) { return x; }\n"
        "static int two(int x) { return 2 * x; }\n"
        "int main(int count, char **words) { int (*volatile call[])(int) = {one, two};\n"
        "    (void)words; return call[count - 1](0); }\n");
    script(0, "clang-19 -fprofile-generate value.c -o value\n"
              "LLVM_PROFILE_FILE=1.value ./value; LLVM_PROFILE_FILE=2.value ./value again\n"
              "$covsplit merge -o files.profraw 1.value 2.value\n"
              "$covsplit merge -o streams.profraw <(cat 1.value) - <2.value\n"
              "cat 1.value 2.value | dd bs=1 2>/dev/null | $covsplit merge -o one.profraw -\n");
    assert_same("streams.profraw", "files.profraw");
    assert_same("one.profraw", "files.profraw");
}
END_TEST

/* A signal ends what waits for its input, and nothing is left. */
START_TEST(test_interrupted)
{
    static const char *const commands[] = {"merge", "correlate"};
    for (size_t i = 0; i < 2; i++) {
        script(0, text_format("mkdir waiting; mkfifo pipe; (cat 14.light; sleep 20) >pipe & "
                              "writer=$!\n"
                              "$covsplit %s $store -o waiting/out.profraw pipe & reader=$!\n"
                              "sleep 0.4; kill -TERM $reader; wait $reader; status=$?\n"
                              "kill $writer; rm pipe; test $status = 143 && rmdir waiting",
                              commands[i]));
    }
}
END_TEST

/* ---- sparse profiles ---- */

START_TEST(test_sparse)
{
    const char *clang = clangs[_i];
    script(0,
           text_format("clang=%s; sparse=%s\n"
                       "python3 $sparse expand $clang.sparse expanded && "
                       "cmp expanded $clang.light\n"
                       "python3 $sparse make $clang.light divided 1\n"
                       "for profile in $clang.light $clang.sparse divided; do\n"
                       "    $covsplit correlate $store -o $profile.profraw $profile\n"
                       "    $covsplit merge $store -o $profile.merged $profile --format profraw\n"
                       "    $covsplit run $store -- llvm-profdata-$clang merge $profile "
                       "-o $profile.profdata\n"
                       "    cat $profile >profile && $covsplit correlate $store -o stream.profraw "
                       "<(cat profile) && cmp stream.profraw $profile.profraw\n"
                       "    for form in profraw merged profdata; do\n"
                       "        cmp $profile.$form $clang.light.$form || exit 1\n"
                       "    done\n"
                       "done\n",
                       clang, SPARSE_PROGRAM));
    const char *shown =
        covsplit_run_words(scratch, 0, text_format("show --json %s.sparse", clang)).output;
    assert_contains(shown, "\"sparse\": true");
    assert_contains(shown,
                    text_format("\"size\": %llu", (unsigned long long)file_size(path_join(
                                                      scratch, text_format("%s.light", clang)))));
    assert_contains(shown, text_format("\"sparse_size\": %llu",
                                       (unsigned long long)file_size(
                                           path_join(scratch, text_format("%s.sparse", clang)))));
}
END_TEST

START_TEST(test_mixed)
{
    script(0, "$covsplit merge $store -o files.profraw 19.light 14.light 14.light 19.light\n"
              "$covsplit merge $store -o mixed.profraw mixed\n"
              "cat mixed | $covsplit merge $store -o stream.profraw -\n"
              "$covsplit correlate $store -o some.profraw mixed\n"
              "$covsplit merge -o again.profraw some.profraw");
    assert_same("mixed.profraw", "files.profraw");
    assert_same("stream.profraw", "files.profraw");
    assert_same("again.profraw", "files.profraw");
}
END_TEST

/* What the device library sends, in pieces and in the sparse form. */
START_TEST(test_device)
{
    file_write_text(
        path_join(scratch, "device.c"),
        "#include <unistd.h>\n"
        "#include \"covsplit-device.h\"\n"
        "int main(int count, char **words) { struct covsplit_device device;\n"
        "    unsigned char piece[7]; size_t size; (void)words;\n"
        "    if (covsplit_device_start(&device, count > 1 ? COVSPLIT_DEVICE_SPARSE : 0))\n"
        "        return 1;\n"
        "    while ((size = covsplit_device_fill(&device, piece, sizeof(piece))) != 0)\n"
        "        if (write(1, piece, size) < 0) return 1;\n"
        "    return 0; }\n");
    script(0, text_format(
                  "device=%s/../../device\n"
                  "clang-22 -fprofile-instr-generate -fcoverage-mapping -no-pie -I$device device.c "
                  "$device/stream.c -o device && $covsplit split --store device.store device\n"
                  "export LLVM_PROFILE_FILE=/dev/null; ./device >plain; ./device x >sparse\n"
                  "$covsplit show --json sparse | grep -q '\"sparse\": true'\n"
                  "(./device; ./device x; ./device x) | "
                  "$covsplit merge --store device.store -o stream.profraw -\n"
                  "$covsplit merge --store device.store -o file.profraw sparse plain sparse",
                  COVSPLIT_FIXTURE_DIRECTORY));
    assert_same("stream.profraw", "file.profraw");
}
END_TEST

/* Half a gigabyte of counters, all zero, in 100 bytes: only if the user says that it may be. */
START_TEST(test_large)
{
    static const char make[] =
        "python3 - <<'end'\n"
        "import struct\n"
        "words = [0xff6c70726f667281, 8, 0, 0, 0, 500 << 17, 0, 0, 0, 0, 1]\n"
        "def number(value):\n"
        "    head = b''\n"
        "    while value >= 128: head += bytes([value & 127 | 128]); value >>= 7\n"
        "    return head + bytes([value])\n"
        "data = b'\\xffcspar\\1l' + b''.join(number(word) if word else b'\\0\\1' for word in "
        "words)\n"
        "open('large', 'wb').write(data + b'\\0' + number(500 << 17))\n"
        "end\n";
    script(0, make);
    assert_refused("$covsplit merge -o no.profraw large", "large", "--memory-limit");
    assert_refused("$covsplit show large", "large", "--memory-limit");
    assert_refused("cat large | $covsplit merge -o no.profraw -", "standard input",
                   "--memory-limit");
    assert_contains(covsplit_run_words(scratch, 0, "show --json --memory-limit 1G large").output,
                    "\"size\": 524288088");
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 120, prepare);
    suite_tests(all, test_whole, test_slow_writers, test_cuts, test_without_end, test_names,
                test_value_profiles, test_interrupted, test_mixed, test_device, test_large);
    suite_loops(all, CLANGS, test_sparse);
    return suite_main("streams", all);
}
