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
#include "tests/support/raw_profile.h"
#include "tests/support/sample.h"

static struct run_files files;

static void prepare(void)
{
    files = run_files_create("run");
}

/* ---- what is read ---- */

START_TEST(test_every_function)
{
    run_expect_silence(&files, files.opener, "read", files.light, files.full, NULL);
    run_expect_silence(&files, files.opener, "read", files.sample.stripped, files.object, NULL);
    run_expect_silence(&files, files.opener, "read", files.sample.sidecar, files.object, NULL);
    run_expect_silence(&files, files.opener, "children", files.light, files.full, NULL);
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
        char *program = text_format("%s-%zu", files.opener, i);
        opener_build(program, builds[i].compiler, builds[i].options);
        run_expect_silence(&files, program, "read", files.light, files.full, NULL);
        run_expect_silence(&files, program, "children", files.sample.stripped, files.object, NULL);
    }
}
END_TEST

/* A file of so many profiles takes a while to convert. */
static char *make_large_profile(unsigned copies)
{
    char *path = path_join(files.sample.scratch, "large.profraw");
    struct contents contents = file_read(files.light);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < copies; i++) {
        ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
    }
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* Each file is converted once, however many want it at once. */
START_TEST(test_threads)
{
    char *large = make_large_profile(300);
    char *large_full = text_format("%s.full", large);
    covsplit_assert(0, NULL, "correlate", "--store", files.store, "-o", large_full, large, NULL);
    struct command command = covsplit_command(
        files.sample.scratch, "run", "-v", "--store", files.store, "--", files.opener, "threads",
        large, large_full, files.light, files.full, files.sample.stripped, files.object,
        files.sample.sidecar, files.object, NULL);
    struct outcome outcome = command_expect(&command, 0);
    struct text_list lines = text_list_of_lines(outcome.errors);
    static const char *const profiles[] = {"large.profraw", "light.profraw"};
    for (size_t i = 0; i < 2; i++) {
        ck_assert(text_list_contains(
            &lines, text_format("covsplit: %s/%s: converted to the full raw profile",
                                files.sample.scratch, profiles[i])));
    }
    ck_assert(text_list_contains(&lines,
                                 text_format("covsplit: %s: converted to the object of its sidecar",
                                             files.sample.stripped)));
    ck_assert(text_list_contains(
        &lines, text_format("covsplit: %s: converted to its object", files.sample.sidecar)));
    ck_assert_uint_eq(lines.count, 4);
}
END_TEST

/* The offset of the profile's last counter in its file. */
static size_t last_counter(const char *path)
{
    struct raw_profile profile;
    struct verdict verdict = {0};
    ck_assert(raw_profile_read(path, &profile, &verdict));
    verdict_assert(&verdict, path);
    const uint8_t *end = profile.counters.data + profile.counters.size;
    size_t offset = (size_t)(end - profile.file.data) - (size_t)profile.counter_size;
    raw_profile_free(&profile);
    return offset;
}

/* More conversions than the cache keeps: those that were read stay good, those that went come back.
 */
START_TEST(test_many_files)
{
    struct command command = run_files_command(&files);
    char *directory = sample_directory(&files.sample);
    struct contents contents = file_read(files.light);
    size_t counter = last_counter(files.light);
    text_list_add(&command.arguments, files.opener);
    text_list_add(&command.arguments, "threads");
    for (unsigned i = 0; i < 20; i++) {
        char *copy = text_format("%s/%u.profraw", directory, i);
        /* So that each is another one. */
        contents.data[counter] = (uint8_t)i;
        file_write(copy, contents.data, contents.size);
        char *correlated = text_format("%s/%u.full", directory, i);
        covsplit_assert(0, NULL, "correlate", "--store", files.store, "-o", correlated, copy, NULL);
        text_list_add(&command.arguments, copy);
        text_list_add(&command.arguments, correlated);
    }
    run_expect(&command, 0, NULL);
}
END_TEST

#define CACHED_MOST ((uint64_t)256 << 20) /* of profiles */
#define LARGE_COUNT 12
#define LARGE_SIZE  (CACHED_MOST / 8)

/* Converted profiles take a bounded amount of memory: those that were used last. */
START_TEST(test_cache)
{
    char *directory = sample_directory(&files.sample);
    struct contents contents = file_read(files.light);
    size_t counter = last_counter(files.light);
    for (unsigned i = 1; i <= LARGE_COUNT; i++) {
        contents.data[counter] = (uint8_t)i;
        FILE *file = fopen(text_format("%s/%u.profraw", directory, i), "wb");
        ck_assert_ptr_nonnull(file);
        for (uint64_t size = 0; size < LARGE_SIZE; size += file_size(files.full)) {
            ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
        }
        ck_assert_int_eq(fclose(file), 0);
    }
    struct command command = covsplit_command(
        directory, "run", "-v", "--store", files.store, "--", "sh", "-c",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 12 1; do cat $i.profraw | wc -c; done | sort -u; "
        "for i in /proc/$PPID/fd/*; do "
        "case $(readlink $i) in /memfd:*) stat -L -c %s $i;; esac; done",
        NULL);
    struct outcome outcome = command_expect(&command, 0);
    struct text_list lines = text_list_of_lines(outcome.errors);
    ck_assert_uint_eq(lines.count, LARGE_COUNT + 1);
    ck_assert_ptr_nonnull(strstr(lines.items[LARGE_COUNT], "/1.profraw: converted to"));
    struct text_list sizes = text_list_of_lines(outcome.output);
    uint64_t one = strtoull(sizes.items[0], NULL, 10), cached = 0;
    ck_assert_uint_ge(one, LARGE_SIZE);
    for (size_t i = 1; i < sizes.count; i++) {
        cached += strtoull(sizes.items[i], NULL, 10);
    }
    ck_assert_uint_le(cached, CACHED_MOST);
    ck_assert_uint_gt(cached, CACHED_MOST - 2 * one);
}
END_TEST

/* Several programs read many files while there are few descriptors: they wait for each other, and
 * the cache keeps less. */
START_TEST(test_few_descriptors)
{
    char *directory = sample_directory(&files.sample);
    struct contents contents = file_read(files.light);
    size_t counter = last_counter(files.light);
    char *all = path_join(directory, "all"), *all_full = path_join(directory, "all.full");
    FILE *file = fopen(all, "wb");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 100; i < 240; i++) {
        contents.data[counter] = (uint8_t)i;
        file_write(text_format("%s/%u.profraw", directory, i), contents.data, contents.size);
        ck_assert_uint_eq(fwrite(contents.data, 1, contents.size, file), contents.size);
    }
    ck_assert_int_eq(fclose(file), 0);
    covsplit_assert(0, NULL, "correlate", "--store", files.store, "-o", all_full, all, NULL);
    for (unsigned limit = 24; limit <= 96; limit *= 2) {
        struct command command = {.directory = directory};
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add_format(
            &command.arguments,
            "ulimit -n %u; \"$@\" 2>errors; status=$?; head -n 3 errors >&2; exit $status", limit);
        text_list_add(&command.arguments, "sh");
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, "run --store");
        text_list_add(&command.arguments, files.store);
        text_list_add_words(&command.arguments, "-- sh -c");
        text_list_add(&command.arguments,
                      "for i in 1 2 3 4 5 6 7 8; do cat *.profraw >out$i & done; wait; "
                      "for i in 1 2 3 4 5 6 7 8; do cmp out$i all.full || exit 1; done");
        run_expect(&command, 0, NULL);
    }
    run_or_abort(NULL, "sh", "-c",
                 "ulimit -n 20; ! \"$0\" run -- true 2>\"$1\"; grep 'ulimit' \"$1\"",
                 covsplit_path(), path_join(directory, "errors"), NULL);
}
END_TEST

/* A profile in a file with a hole behind it: it is not read to its end to find that out. */
START_TEST(test_huge_hole)
{
    char *sparse = path_join(sample_directory(&files.sample), "sparse.profraw");
    file_copy(files.light, sparse);
    ck_assert_int_eq(truncate(sparse, (off_t)1 << 42), 0);
    struct command command = run_files_command(&files);
    text_list_add_words(&command.arguments, "head -c 8");
    text_list_add(&command.arguments, sparse);
    run_expect(
        &command, 0,
        text_format("covsplit: warning: %s: too large to convert in memory; use 'covsplit merge' "
                    "or 'covsplit export'; read as it is\n",
                    sparse));
}
END_TEST

/* Nobody reads the output of -v: that is no reason to end the command. */
START_TEST(test_verbose_to_nobody)
{
    run_or_abort(files.sample.scratch, "sh", "-c",
                 "exec 3>&1; { \"$0\" run -v --store \"$1\" -- sh -c 'sleep 0.2; cmp \"$0\" \"$1\" "
                 "2>&3' \"$2\" \"$3\"; echo $? >status; } 2>&1 | true; "
                 "while [ ! -s status ]; do sleep 0.05; done; [ $(cat status) = 0 ]",
                 covsplit_path(), files.store, files.light, files.full, NULL);
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
    run_expect_silence(&files, "python3", "-c", python_script, files.light, files.full, NULL);
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
    run_expect_silence(&files, "python3", "-c", hostile_script, files.light, files.full,
                       files.sample.stripped, files.opener, NULL);
}
END_TEST

/* Connections that say nothing, of another user where the test may become one, and of the same:
 * many more than the broker has descriptors for. */
static const char silent_script[] =
    "import os, socket, sys, time\n"
    "light, full = sys.argv[1:]\n"
    "name = chr(0) + os.environ['COVSPLIT_RUN'].partition(':')[2]\n"
    "really = os.open(full, os.O_RDONLY)\n"
    "want = os.read(really, 1 << 24)\n"
    "def hold(user):\n"
    "    ready, children = os.pipe(), []\n"
    "    for i in range(3):\n"
    "        child = os.fork()\n"
    "        if child == 0:\n"
    "            if user != os.getuid(): os.setuid(user)\n"
    "            held = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for i in "
    "range(300)]\n"
    "            for s in held: s.setblocking(False); s.connect_ex(name)\n"
    "            os.write(ready[1], b'.')\n"
    "            time.sleep(1000)\n"
    "        children.append(child)\n"
    "    for i in range(3): os.read(ready[0], 1)\n"
    "    return children\n"
    "for user in ([65534] if os.getuid() == 0 else []) + [os.getuid()]:\n"
    "    children = hold(user)\n"
    "    start = time.monotonic()\n"
    "    assert open(light, 'rb').read() == want\n"
    "    taken = time.monotonic() - start\n"
    "    for child in children: os.kill(child, 9); os.waitpid(child, 0)\n"
    "    assert taken < 8, (user, taken)\n";

START_TEST(test_silent_connections)
{
    struct command command = {.directory = files.sample.scratch};
    text_list_add_words(&command.arguments, "sh -c");
    text_list_add(&command.arguments, "ulimit -n 1024; exec \"$@\"");
    text_list_add(&command.arguments, "sh");
    text_list_add(&command.arguments, covsplit_path());
    text_list_add_words(&command.arguments, "run --store");
    text_list_add(&command.arguments, files.store);
    text_list_add_words(&command.arguments, "-- python3 -c");
    text_list_add(&command.arguments, silent_script);
    text_list_add(&command.arguments, files.light);
    text_list_add(&command.arguments, files.full);
    run_expect(&command, 0, NULL);
}
END_TEST

/* The broker keeps no descriptor of a file that was read. It may not have closed the last ones yet.
 */
START_TEST(test_descriptors)
{
    run_expect_silence(
        &files, "sh", "-c",
        "cat \"$0\" >\"$0.copy\"; before=$(ls /proc/$PPID/fd | wc -l);"
        "for i in 1 2 3 4 5 6 7 8 9 10; do cat \"$0\" \"$1\" \"$0\" \"$1\" >\"$0.copy\";"
        "done; after=$(ls /proc/$PPID/fd | wc -l); [ $after -le $((before + 5)) ]",
        files.light, files.opener, NULL);
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
    char *source = path_join(files.sample.scratch, "stream.cc");
    char *program = path_join(files.sample.scratch, "stream");
    file_write_text(source, stream_source);
    run_or_abort(NULL, "g++", source, "-o", program, NULL);
    run_expect_silence(&files, program, files.light, files.full, NULL);
    run_expect_silence(&files, program, files.sample.stripped, files.object, NULL);
}
END_TEST

/* A stripped image that was stripped of its symbols, or moved, is still what its UUID says. */
START_TEST(test_edited_images)
{
    char *edited = path_join(files.sample.scratch, "edited");
    static const char *const tools[] = {"strip", "llvm-strip-19", "eu-strip"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        run_or_abort(NULL, tools[i], "-o", edited, files.sample.stripped, NULL);
        run_expect_silence(&files, files.opener, "read", edited, files.object, NULL);
    }
}
END_TEST

/* ---- what stays as it is ---- */

START_TEST(test_untouched_files)
{
    char *fifo = path_join(files.sample.scratch, "fifo");
    char *empty = path_join(files.sample.scratch, "empty");
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    file_write_text(empty, "");
    run_expect_silence(&files, files.opener, "same", files.sample.image, files.object, files.full,
                       fifo, empty, files.sample.scratch, files.opener, "/proc/self/status",
                       "/sys/kernel/mm/transparent_hugepage/enabled", "/dev/null", "/bin/sh",
                       COVSPLIT_PRELOAD, NULL);
    char *copy = path_join(files.sample.scratch, "written.profraw");
    file_copy(files.light, copy);
    run_expect_silence(&files, files.opener, "write", copy, NULL);
    char *stripped = path_join(files.sample.scratch, "written");
    file_copy(files.sample.stripped, stripped);
    run_expect_silence(&files, files.opener, "write", stripped, NULL);
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
        {"gzip", true},
        {"ld-linux-x86-64.so.2", false},
        {"stripped", false},
        {"cp-all", false},
        {"merge-19.1", false},
        {"llvm-cov-19", false},
        {"python3.11", false},
    };
    char *directory = sample_directory(&files.sample);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char *program = path_join(directory, programs[i].name);
        file_copy(files.opener, program);
        if (programs[i].is_for_files) {
            run_expect_silence(&files, program, "same", files.light, files.sample.stripped,
                               files.sample.sidecar, NULL);
        } else {
            run_expect_silence(&files, program, "read", files.sample.stripped, files.object, NULL);
        }
    }
    /* One program that is many, by links to it. */
    char *link = path_join(directory, "llvm-strip");
    file_copy(files.opener, path_join(directory, "llvm"));
    ck_assert_int_eq(symlink("llvm", link), 0);
    run_expect_silence(&files, link, "same", files.light, files.sample.stripped, NULL);
    char *expected = path_join(directory, "expected"), *found = path_join(directory, "found");
    file_copy(files.sample.stripped, expected);
    file_copy(files.sample.stripped, found);
    run_or_abort(NULL, "strip", expected, NULL);
    run_expect_silence(&files, "strip", found, NULL);
    files_assert_equal(found, expected, "under run");
    run_expect_silence(&files, "cp", files.light, found, NULL);
    files_assert_equal(found, files.light, "under run");
}
END_TEST

/* covsplit reads what is really there, and so does the program that it starts. */
START_TEST(test_covsplit_itself)
{
    char *joined = path_join(files.sample.scratch, "joined");
    char *again = path_join(files.sample.scratch, "again.profdata");
    char *merged = path_join(files.sample.scratch, "merged.profdata");
    const char *tool = covsplit_path();
    run_expect_silence(&files, tool, "join", "--sidecar", files.sample.sidecar, "-o", joined,
                       files.sample.stripped, NULL);
    files_assert_equal(joined, files.sample.image, "under run");
    run_expect_silence(&files, tool, "verify", "--image", files.sample.stripped,
                       files.sample.sidecar, NULL);
    run_expect_silence(&files, tool, "merge", "--llvm-profdata", "llvm-profdata-19", "--store",
                       files.store, "-o", merged, files.light, NULL);
    run_or_abort(NULL, "llvm-profdata-19", "merge", "-o", again, files.full, NULL);
    files_assert_equal(merged, again, "under run");

    /* An output that would not change is not touched: it is compared with what is there. */
    struct stat before = file_status(files.sample.stripped);
    run_expect_silence(&files, tool, "split", "--sidecar", files.sample.sidecar, "-o",
                       files.sample.stripped, files.sample.image, NULL);
    struct stat after = file_status(files.sample.stripped);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
}
END_TEST

START_TEST(test_nested)
{
    const char *tool = covsplit_path();
    struct command command =
        covsplit_command(files.sample.scratch, "run", "--", tool, "run", "--store", files.store,
                         "--", "cmp", files.light, files.full, NULL);
    run_expect(&command, 0, NULL);
    run_expect_silence(&files, tool, "run", "--", "cmp", files.full, files.full, NULL);
    /* The program of the inner run has the inner run's store, which is none. */
    command = run_files_command(&files);
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, "run -- cmp");
    text_list_add(&command.arguments, files.light);
    text_list_add(&command.arguments, files.full);
    struct outcome outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 1));
    ck_assert_ptr_nonnull(strstr(outcome.errors, "no sidecar for its UUID"));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("run", 120, prepare);
    suite_tests(test_case, test_every_function, test_sanitizers, test_threads, test_many_files,
                test_cache, test_few_descriptors, test_huge_hole, test_verbose_to_nobody,
                test_python, test_cxx_streams, test_hostile_clients, test_silent_connections,
                test_descriptors, test_edited_images, test_untouched_files, test_programs_for_files,
                test_covsplit_itself, test_nested);
    return suite_main("run", test_case);
}
