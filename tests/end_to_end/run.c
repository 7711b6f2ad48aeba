/*
 * `covsplit run`: what programs of all kinds get to read, and what stays as it is.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/file_system.h"
#include "tests/support/sample.h"
#include "tests/support/suite.h"

#define TEST_TIMEOUT_SECONDS 120
#define SAMPLE_FUNCTIONS     30
#define OPENER_SOURCE        COVSPLIT_FIXTURE_DIRECTORY "/opener.c"

/* Made once, in sample.scratch. What a file should read as comes from other commands: the profile
 * from `covsplit correlate`, the object from `covsplit export`. */
static struct sample sample;
static char *store;
static char *light; /* a lightweight profile */
static char *full;
static char *object;
static char *opener;

static void build_opener(const char *output, const char *compiler, const char *options)
{
    struct command command = {0};
    text_list_add(&command.arguments, compiler);
    text_list_add_words(&command.arguments, "-D_GNU_SOURCE -pthread " OPENER_SOURCE " -o");
    text_list_add(&command.arguments, output);
    text_list_add_words(&command.arguments, options);
    command_run_or_abort(&command);
    command_free(&command);
}

static void prepare(void)
{
    struct verdict verdict = {0};
    sample = sample_create("run", SAMPLE_FUNCTIONS);
    store = path_join(sample.scratch, "store");
    light = path_join(sample.scratch, "light.profraw");
    full = path_join(sample.scratch, "full.profraw");
    object = path_join(sample.scratch, "object");
    opener = path_join(sample.scratch, "opener");
    sample_split(&sample);
    covsplit_expect(&verdict, 0, NULL, NULL, "split", "--store", store, "-o", sample.stripped,
                    sample.image, NULL);

    struct command command = {0};
    text_list_add(&command.arguments, sample.stripped);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", light);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 3), "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);

    covsplit_expect(&verdict, 0, NULL, NULL, "correlate", "--sidecar", sample.sidecar, "-o", full,
                    light, NULL);
    covsplit_expect(&verdict, 0, NULL, NULL, "export", "--sidecar", sample.sidecar, "-o", object,
                    NULL);
    verdict_assert(&verdict, "set-up");
    build_opener(opener, "gcc", "-O2 -D_FORTIFY_SOURCE=2");
}

static void clean_up(void)
{
    scratch_remove(sample.scratch);
}

/* ---- running ---- */

/* `covsplit run --store STORE -- `, to which words are added. */
static struct command run_command(void)
{
    return covsplit_command(sample.scratch, "run", "--store", store, "--", NULL);
}

/* Runs it, and expects the exit code and, on standard error, just that; NULL: nothing. */
static void expect(struct command *command, int exit_code, const char *errors)
{
    struct outcome outcome = command_run(command);
    ck_assert_msg(outcome_exited(&outcome, exit_code) &&
                      strcmp(outcome.errors, errors == NULL ? "" : errors) == 0,
                  "exit %d and the errors '%s' were expected %s", exit_code,
                  errors == NULL ? "" : errors, outcome_describe(command, &outcome));
    outcome_free(&outcome);
    command_free(command);
}

/* Runs a program with arguments, which ends with NULL, under `covsplit run`: it must exit with 0
 * and say nothing. */
static void expect_silence(const char *program, ...) __attribute__((sentinel));

static void expect_silence(const char *program, ...)
{
    struct command command = run_command();
    text_list_add(&command.arguments, program);
    va_list words;
    va_start(words, program);
    for (const char *word = va_arg(words, const char *); word != NULL;
         word = va_arg(words, const char *)) {
        text_list_add(&command.arguments, word);
    }
    va_end(words);
    expect(&command, 0, NULL);
}

/* ---- what is read ---- */

START_TEST(test_every_function)
{
    expect_silence(opener, "read", light, full, NULL);
    expect_silence(opener, "read", sample.stripped, object, NULL);
    expect_silence(opener, "read", sample.sidecar, object, NULL);
    expect_silence(opener, "children", light, full, NULL);
}
END_TEST

START_TEST(test_sanitizers)
{
    static const struct {
        const char *compiler;
        const char *options;
    } builds[] = {
        {"clang-19", "-O1 -fsanitize=address"}, /* the runtime is in the program */
        {"gcc", "-O1 -fsanitize=address"},      /* the runtime is a library */
        {"clang-19", "-O1 -fsanitize=thread"},
        {"clang-19", "-O1 -fsanitize=memory"},
    };
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        char *program = text_format("%s-%zu", opener, i);
        build_opener(program, builds[i].compiler, builds[i].options);
        expect_silence(program, "read", light, full, NULL);
        expect_silence(program, "children", sample.stripped, object, NULL);
    }
}
END_TEST

/* A file of so many profiles takes a while to convert. */
static char *make_large_profile(unsigned copies)
{
    char *path = path_join(sample.scratch, "large.profraw");
    struct contents contents = file_read(light);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < copies; i++) {
        ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
    }
    ck_assert_int_eq(fclose(file), 0);
    contents_free(&contents);
    return path;
}

/* Each file is converted once, however many want it at once. */
START_TEST(test_threads)
{
    char *large = make_large_profile(300);
    char *large_full = text_format("%s.full", large);
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, NULL, "correlate", "--store", store, "-o", large_full, large,
                    NULL);
    verdict_assert(&verdict, "correlate");
    struct command command = covsplit_command(
        sample.scratch, "run", "-v", "--store", store, "--", opener, "threads", large, large_full,
        light, full, sample.stripped, object, sample.sidecar, object, NULL);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome_describe(&command, &outcome));
    struct text_list lines = text_list_of_lines(outcome.errors);
    static const char *const profiles[] = {"large.profraw", "light.profraw"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert(text_list_contains(
            &lines, text_format("covsplit: %s/%s: converted to the full raw profile",
                                sample.scratch, profiles[i])));
    }
    ck_assert(text_list_contains(
        &lines,
        text_format("covsplit: %s: converted to the object of its sidecar", sample.stripped)));
    ck_assert(text_list_contains(
        &lines, text_format("covsplit: %s: converted to its object", sample.sidecar)));
    ck_assert_uint_eq(lines.count, 4);
}
END_TEST

/* More conversions than the cache keeps: those that were read stay good, those that went come back.
 */
START_TEST(test_many_files)
{
    struct command command = run_command();
    char *directory = sample_directory(&sample);
    struct contents contents = file_read(light);
    text_list_add(&command.arguments, opener);
    text_list_add(&command.arguments, "threads");
    for (unsigned i = 0; i < 20; i++) {
        char *copy = text_format("%s/%u.profraw", directory, i);
        /* The last counter, so that each is another one. */
        contents.data[contents.size - 8] = (uint8_t)i;
        file_write(copy, contents.data, contents.size);
        char *correlated = text_format("%s/%u.full", directory, i);
        struct verdict verdict = {0};
        covsplit_expect(&verdict, 0, NULL, NULL, "correlate", "--store", store, "-o", correlated,
                        copy, NULL);
        verdict_assert(&verdict, copy);
        text_list_add(&command.arguments, copy);
        text_list_add(&command.arguments, correlated);
    }
    expect(&command, 0, NULL);
}
END_TEST

/* Several programs read many files while there are few descriptors: they wait for each other, and
 * the cache keeps less. */
START_TEST(test_few_descriptors)
{
    char *directory = sample_directory(&sample);
    struct contents contents = file_read(light);
    char *all = path_join(directory, "all"), *all_full = path_join(directory, "all.full");
    FILE *file = fopen(all, "wb");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 100; i < 240; i++) {
        contents.data[contents.size - 8] = (uint8_t)i;
        file_write(text_format("%s/%u.profraw", directory, i), contents.data, contents.size);
        ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
    }
    ck_assert_int_eq(fclose(file), 0);
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, NULL, "correlate", "--store", store, "-o", all_full, all,
                    NULL);
    verdict_assert(&verdict, "correlate");
    for (unsigned limit = 24; limit <= 96; limit *= 2) {
        struct command command = {.directory = directory};
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add_format(
            &command.arguments,
            "ulimit -n %u; \"$@\" 2>errors; status=$?; head -n 3 errors >&2; exit $status", limit);
        text_list_add(&command.arguments, "sh");
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, "run --store");
        text_list_add(&command.arguments, store);
        text_list_add_words(&command.arguments, "-- sh -c");
        text_list_add(&command.arguments,
                      "for i in 1 2 3 4 5 6 7 8; do cat *.profraw >out$i & done; wait; "
                      "for i in 1 2 3 4 5 6 7 8; do cmp out$i all.full || exit 1; done");
        expect(&command, 0, NULL);
    }
    run_or_abort(NULL, "sh", "-c",
                 "ulimit -n 20; ! \"$0\" run -- true 2>\"$1\"; grep 'ulimit' \"$1\"",
                 covsplit_path(), path_join(directory, "errors"), NULL);
}
END_TEST

static const char python_script[] =
    "import mmap, os, subprocess, sys\n"
    "light, full = sys.argv[1:]\n"
    "def really(path):\n"
    "    return subprocess.run(['cat', path], stdout=subprocess.PIPE, check=True,\n"
    "                          env={'PATH': os.environ['PATH']}).stdout\n"
    "want = really(full)\n"
    "assert really(light) != want\n"
    "assert open(light, 'rb').read() == want\n"
    "assert open(light, 'rb', buffering=0).read() == want\n"
    "fd = os.open(light, os.O_RDONLY)\n"
    "assert os.fstat(fd).st_size == len(want)\n"
    "assert mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:] == want\n"
    "assert os.read(fd, len(want) + 1) == want\n"
    "os.close(fd)\n"
    "here = os.open(os.path.dirname(light), os.O_RDONLY)\n"
    "fd = os.open(os.path.basename(light), os.O_RDONLY, dir_fd=here)\n"
    "assert os.read(fd, len(want) + 1) == want\n"
    "child = subprocess.run(['cat', light], stdout=subprocess.PIPE, close_fds=True, check=True)\n"
    "assert child.stdout == want\n"
    "open(light + '.copy', 'wb').write(b'x')\n"
    "with open(light + '.copy', 'ab') as f: f.write(b'y')\n"
    "assert open(light + '.copy', 'rb').read() == b'xy'\n";

START_TEST(test_python)
{
    expect_silence("python3", "-c", python_script, light, full, NULL);
}
END_TEST

/* ---- clients that mean no good ---- */

/* Connections that say nothing, and messages that are no questions; then a file that becomes
 * shorter and longer while it is asked for. */
static const char hostile_script[] =
    "import os, socket, subprocess, sys\n"
    "light, full, stripped, opener = sys.argv[1:]\n"
    "name = chr(0) + os.environ['COVSPLIT_RUN'].partition(':')[2]\n"
    "def connect():\n"
    "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
    "    s.connect(name)\n"
    "    s.settimeout(60)\n"
    "    return s\n"
    "silent = [connect() for i in range(400)]\n"
    "here = b'\\x9c\\xff\\xff\\xff'\n"
    "readable = os.open('/bin/sh', os.O_RDONLY)\n"
    "writable = os.open(light + '.hostile', os.O_WRONLY | os.O_CREAT)\n"
    "directory = os.open('/', os.O_RDONLY)\n"
    "path_only = os.open('/bin/sh', os.O_PATH)\n"
    "for data, fds in [(here + b'/x', []), (b'', [readable]), (b'ab', [readable]),\n"
    "                  (here + b'x' * 9000, [readable]), (here + b'/x', [readable] * 3),\n"
    "                  (here + b'/x', [readable] * 20), (b'\\xff' * 300, [readable]),\n"
    "                  (here, [readable]), (here + b'../' * 1000, [readable]),\n"
    "                  (here + b'/x', [writable]), (here + b'/x', [directory]),\n"
    "                  (here + b'/x', [path_only]), (here + b'/x', [silent[0].fileno()])]:\n"
    "    with connect() as s:\n"
    "        socket.send_fds(s, [data], fds)\n"
    "        try:\n"
    "            answer, given, flags, address = socket.recv_fds(s, 4096, 8)\n"
    "        except ConnectionResetError:\n"
    "            answer, given = b'', []\n"
    "        assert answer in (b'', bytes(4)) and given == [], (data, answer, given)\n"
    "want = open(full, 'rb').read()\n"
    "changing = light + '.changing'\n"
    "changer = subprocess.Popen([opener, 'change', changing, stripped])\n"
    "while not os.path.exists(changing): pass\n"
    "for i in range(4000): os.close(os.open(changing, os.O_RDONLY))\n"
    "changer.kill()\n"
    "assert changer.wait() == -9\n"
    "assert open(light, 'rb').read() == want\n";

START_TEST(test_hostile_clients)
{
    expect_silence("python3", "-c", hostile_script, light, full, sample.stripped, opener, NULL);
}
END_TEST

/* The broker keeps no descriptor of a file that was read. It may not have closed the last ones yet.
 */
START_TEST(test_descriptors)
{
    expect_silence("sh", "-c",
                   "cat \"$0\" >\"$0.copy\"; before=$(ls /proc/$PPID/fd | wc -l);"
                   "for i in 1 2 3 4 5 6 7 8 9 10; do cat \"$0\" \"$1\" \"$0\" \"$1\" >\"$0.copy\";"
                   "done; after=$(ls /proc/$PPID/fd | wc -l); [ $after -le $((before + 5)) ]",
                   light, opener, NULL);
}
END_TEST

static const char stream_source[] =
    "#include <fstream>\n"
    "#include <iterator>\n"
    "#include <string>\n"
    "static std::string all(const char *path)\n"
    "{\n"
    "    std::ifstream stream(path, std::ios::binary);\n"
    "    return std::string(std::istreambuf_iterator<char>(stream), {});\n"
    "}\n"
    "int main(int, char **arguments)\n"
    "{\n"
    "    return all(arguments[1]).empty() || all(arguments[1]) != all(arguments[2]);\n"
    "}\n";

START_TEST(test_cxx_streams)
{
    char *source = path_join(sample.scratch, "stream.cc");
    char *program = path_join(sample.scratch, "stream");
    file_write_text(source, stream_source);
    run_or_abort(NULL, "g++", source, "-o", program, NULL);
    expect_silence(program, light, full, NULL);
    expect_silence(program, sample.stripped, object, NULL);
}
END_TEST

/* A stripped image that was stripped of its symbols, or moved, is still what its UUID says. */
START_TEST(test_edited_images)
{
    char *edited = path_join(sample.scratch, "edited");
    static const char *const tools[] = {"strip", "llvm-strip-19", "eu-strip"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        run_or_abort(NULL, tools[i], "-o", edited, sample.stripped, NULL);
        expect_silence(opener, "read", edited, object, NULL);
    }
}
END_TEST

/* What --sections left in the image is in no sidecar: the program gets the original image. */
START_TEST(test_partial_split)
{
    char *directory = sample_directory(&sample);
    char *stripped = path_join(directory, "partial");
    struct verdict verdict = {0};
    covsplit_expect(&verdict, 0, NULL, NULL, "split", "--sections", "names,data", "-o", stripped,
                    "--sidecar", path_join(directory, "partial.covsplit"), sample.image, NULL);
    verdict_assert(&verdict, "split");
    /* By the sidecar beside it, under its own name and behind a link. */
    char *link = path_join(sample.scratch, "link");
    ck_assert_int_eq(symlink(stripped, link), 0);
    struct command command =
        covsplit_command(sample.scratch, "run", "--", "cmp", link, sample.image, NULL);
    expect(&command, 0, NULL);
    command = covsplit_command(directory, "run", "--", "cmp", "partial", sample.image, NULL);
    expect(&command, 0, NULL);
}
END_TEST

/* ---- what stays as it is ---- */

START_TEST(test_untouched_files)
{
    char *fifo = path_join(sample.scratch, "fifo");
    char *empty = path_join(sample.scratch, "empty");
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    file_write_text(empty, "");
    expect_silence(opener, "same", sample.image, object, full, fifo, empty, sample.scratch, opener,
                   "/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled", "/dev/null",
                   "/bin/sh", COVSPLIT_PRELOAD, NULL);
    char *copy = path_join(sample.scratch, "written.profraw");
    file_copy(light, copy);
    expect_silence(opener, "write", copy, NULL);
    char *stripped = path_join(sample.scratch, "written");
    file_copy(sample.stripped, stripped);
    expect_silence(opener, "write", stripped, NULL);
}
END_TEST

/* A program whose business is files as such: what it makes of an image would be no image. */
START_TEST(test_programs_for_files)
{
    static const struct {
        const char *name;
        bool is_for_files;
    } programs[] = {
        {"cp", true},
        {"x86_64-linux-gnu-ld.bfd", true},
        {"llvm-objcopy-19", true},
        {"ld.lld", true},
        {"ld-linux-x86-64.so.2", false},
        {"stripped", false},
        {"cp-all", false},
        {"merge-19.1", false},
    };
    char *directory = sample_directory(&sample);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *program = path_join(directory, programs[i].name);
        file_copy(opener, program);
        if (programs[i].is_for_files) {
            expect_silence(program, "same", light, sample.stripped, sample.sidecar, NULL);
        } else {
            expect_silence(program, "read", sample.stripped, object, NULL);
        }
    }
    struct verdict verdict = {0};
    char *expected = path_join(directory, "expected"), *found = path_join(directory, "found");
    file_copy(sample.stripped, expected);
    file_copy(sample.stripped, found);
    run_or_abort(NULL, "strip", expected, NULL);
    expect_silence("strip", found, NULL);
    files_equal(found, expected, &verdict);
    expect_silence("cp", light, found, NULL);
    files_equal(found, light, &verdict);
    verdict_assert(&verdict, "under run");
}
END_TEST

/* covsplit reads what is really there, and so does the program that it starts. */
START_TEST(test_covsplit_itself)
{
    struct verdict verdict = {0};
    char *joined = path_join(sample.scratch, "joined");
    char *again = path_join(sample.scratch, "again.profdata");
    char *merged = path_join(sample.scratch, "merged.profdata");
    const char *tool = covsplit_path();
    expect_silence(tool, "join", "--sidecar", sample.sidecar, "-o", joined, sample.stripped, NULL);
    files_equal(joined, sample.image, &verdict);
    expect_silence(tool, "verify", "--image", sample.stripped, sample.sidecar, NULL);
    expect_silence(tool, "merge", "--llvm-profdata", "llvm-profdata-19", "--store", store, "-o",
                   merged, light, NULL);
    run_or_abort(NULL, "llvm-profdata-19", "merge", "-o", again, full, NULL);
    files_equal(merged, again, &verdict);
    verdict_assert(&verdict, "under run");

    /* An output that would not change is not touched: it is compared with what is there. */
    struct stat before = file_status(sample.stripped);
    expect_silence(tool, "split", "--sidecar", sample.sidecar, "-o", sample.stripped, sample.image,
                   NULL);
    struct stat after = file_status(sample.stripped);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
}
END_TEST

START_TEST(test_nested)
{
    const char *tool = covsplit_path();
    struct command command = covsplit_command(sample.scratch, "run", "--", tool, "run", "--store",
                                              store, "--", "cmp", light, full, NULL);
    expect(&command, 0, NULL);
    expect_silence(tool, "run", "--", "cmp", full, full, NULL);
    /* The program of the inner run has the inner run's store, which is none. */
    command = run_command();
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, "run -- cmp");
    text_list_add(&command.arguments, light);
    text_list_add(&command.arguments, full);
    struct outcome outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 1));
    ck_assert_ptr_nonnull(strstr(outcome.errors, "no sidecar is named"));
}
END_TEST

/* ---- sidecars that are not as they should be ---- */

/* Reads a file three times, in two processes, which must get the file itself, and one line on
 * standard error. Returns it. */
static const char *expect_warning(struct command *command, const char *file)
{
    text_list_add_words(&command->arguments, "sh -c");
    text_list_add(&command->arguments, "cat \"$0\" \"$0\"; cat \"$0\"; exit 5");
    text_list_add(&command->arguments, file);
    struct outcome outcome = command_run(command);
    struct contents contents = file_read(file);
    ck_assert_msg(outcome_exited(&outcome, 5), "%s", outcome_describe(command, &outcome));
    ck_assert_uint_eq(outcome.output_size, 3 * contents.size);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_mem_eq(outcome.output + i * contents.size, contents.data, contents.size);
    }
    ck_assert_msg(text_count(outcome.errors, "\n") == 1 &&
                      strncmp(outcome.errors, "covsplit: warning: ", 19) == 0 &&
                      strstr(outcome.errors, "; read as it is\n") != NULL,
                  "%s", outcome.errors);
    contents_free(&contents);
    return text_format("%s", outcome.errors);
}

static const char *expect_store_warning(const char *other_store, const char *file)
{
    struct command command =
        covsplit_command(sample.scratch, "run", "--store", other_store, "--", NULL);
    return expect_warning(&command, file);
}

static const char *expect_sidecar_warning(const char *sidecar, const char *file)
{
    struct command command =
        covsplit_command(sample.scratch, "run", "--sidecar", sidecar, "--", NULL);
    return expect_warning(&command, file);
}

/* Elsewhere, so that no sidecar is beside it. */
static char *stripped_alone(void)
{
    char *alone = path_join(sample_directory(&sample), "alone");
    file_copy(sample.stripped, alone);
    return alone;
}

START_TEST(test_missing_sidecar)
{
    char *alone = stripped_alone();
    struct command command = covsplit_command(sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, light), "give --store or --sidecar"));
    command = covsplit_command(sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, alone), "give --store or --sidecar"));
    ck_assert_ptr_nonnull(
        strstr(expect_store_warning("nowhere", light), "no sidecar for its UUID"));
    ck_assert_ptr_nonnull(strstr(expect_store_warning("nowhere", alone), "no sidecar of UUID"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning("nothing", light), "cannot be read"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning("nothing", alone), "cannot be read"));
}
END_TEST

/* Damage behind the notes, which is only found when the sidecar is decompressed. */
START_TEST(test_corrupt_sidecar)
{
    char *alone = stripped_alone();
    char *corrupt = path_join(sample_directory(&sample), "corrupt.covsplit");
    struct contents contents = file_read(sample.sidecar);
    struct elf_file elf = elf_file_read(sample.sidecar);
    static const char *const sections[] = {"__llvm_covfun", "__llvm_prf_names"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const Elf64_Shdr *section = elf_file_section(&elf, sections[i]);
        contents.data[section->sh_offset + section->sh_size / 2] ^= 0x55;
    }
    file_write(corrupt, contents.data, contents.size);
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, light), "damaged"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, alone), "damaged"));
    /* As the object itself. */
    struct command command = run_command();
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, corrupt), "damaged"));
    /* Cut short: no sidecar any more, and nothing to convert. */
    file_write(corrupt, contents.data, contents.size / 2);
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(corrupt, light), "sidecar"));
    expect_silence(opener, "same", corrupt, NULL);
}
END_TEST

/* A sidecar of another build, by name and in the place of the right one. */
START_TEST(test_other_build)
{
    char *alone = stripped_alone();
    struct sample other = sample_create("run-other", SAMPLE_FUNCTIONS + 1);
    sample_split(&other);
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(other.sidecar, light), "another build"));
    ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(other.sidecar, alone), "another build"));
    file_copy(other.sidecar, text_format("%s.covsplit", alone));
    struct command command = covsplit_command(sample.scratch, "run", "--", NULL);
    ck_assert_ptr_nonnull(strstr(expect_warning(&command, alone), "another build"));
    /* The right one is taken where both are named. */
    command = covsplit_command(sample.scratch, "run", "--sidecar", other.sidecar, "--store", store,
                               "--", "cmp", light, full, NULL);
    expect(&command, 0, NULL);
    sample_remove(&other);
}
END_TEST

/* Builds and splits another image. Returns the stripped one; its sidecar is beside it. */
static char *split_other(const char *build_id, unsigned functions)
{
    struct program program = {.clang = "19",
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O1",
                              .build_id = build_id,
                              .functions = functions};
    char *directory = sample_directory(&sample);
    char *image = path_join(directory, PROGRAM_NAME);
    struct verdict verdict = {0};
    program_build(&program, directory);
    covsplit_expect(&verdict, 0, NULL, NULL, "split", image, NULL);
    verdict_assert(&verdict, "split");
    return image;
}

/* Images that are alike but for their UUID, or that have one UUID, made up by hand, and count other
 * things. */
START_TEST(test_similar_builds)
{
    static const char uuid[] = "0x0123456789abcdef", other_uuid[] = "0x0123456789abcdee";
    char *image = split_other(uuid, SAMPLE_FUNCTIONS);
    char *alone = path_join(sample_directory(&sample), "alone");
    ck_assert_int_eq(rename(image, alone), 0);
    const char *others[] = {split_other(other_uuid, SAMPLE_FUNCTIONS),
                            split_other(uuid, SAMPLE_FUNCTIONS + 1)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *sidecar = text_format("%s.covsplit", others[i]);
        ck_assert_ptr_nonnull(strstr(expect_sidecar_warning(sidecar, alone), "another build"));
    }
    /* The first reads as the object; so does the second, once its sidecar is named. */
    struct command named =
        covsplit_command(sample.scratch, "run", "--sidecar", text_format("%s.covsplit", image),
                         "--", "cmp", text_format("%s.covsplit", image), alone, NULL);
    expect(&named, 0, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run");
    TCase *test_case = suite_add_case(suite, "run", TEST_TIMEOUT_SECONDS);
    tcase_add_unchecked_fixture(test_case, prepare, clean_up);
    tcase_add_test(test_case, test_every_function);
    tcase_add_test(test_case, test_sanitizers);
    tcase_add_test(test_case, test_threads);
    tcase_add_test(test_case, test_many_files);
    tcase_add_test(test_case, test_few_descriptors);
    tcase_add_test(test_case, test_python);
    tcase_add_test(test_case, test_cxx_streams);
    tcase_add_test(test_case, test_hostile_clients);
    tcase_add_test(test_case, test_descriptors);
    tcase_add_test(test_case, test_edited_images);
    tcase_add_test(test_case, test_partial_split);
    tcase_add_test(test_case, test_untouched_files);
    tcase_add_test(test_case, test_programs_for_files);
    tcase_add_test(test_case, test_covsplit_itself);
    tcase_add_test(test_case, test_nested);
    tcase_add_test(test_case, test_missing_sidecar);
    tcase_add_test(test_case, test_corrupt_sidecar);
    tcase_add_test(test_case, test_other_build);
    tcase_add_test(test_case, test_similar_builds);
    return suite_run(suite);
}
