/*
 * Snapshots of processes and of cores: what comes out is to the byte what the modules of the
 * process have written themselves right before, split and not, with the images at hand and with
 * the sidecars alone; and what cannot be had is said.
 *
 * Usage: snapshot CLANG LINKER
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 60
#define RELOCATED "-mllvm -runtime-counter-relocation"

static const char *clang_version, *linker_name;
static char *place; /* with original/, split/, sidecars/ and the directories of runs */

/* The images, and what each of them writes. */
static const struct {
    const char *image;
    const char *written;
} images[] = {
    {"app", "program.profraw"},
    {"libfirst.so", "linked.profraw"},
    {"libsecond.so", "loaded.profraw"},
};
#define IMAGES (sizeof images / sizeof *images)

/* ---- images ---- */

/* Compiles in place/original; the last words are those of the command. */
static void build(const char *options, const char *words)
{
    const char *instrumentation =
        strstr(options, "-fprofile-generate") != NULL ? "" : INSTRUMENT_COVERAGE;
    struct command command = command_words(
        path_join(place, "original"), "%s -O1 -w -fuse-ld=%s -Wl,--build-id=sha1 %s %s %s",
        versioned_tool("clang", clang_version), linker_name, instrumentation, options, words);
    command_run_or_abort(&command);
    command_free(&command);
}

static void copy_fixture(const char *name)
{
    file_copy(path_join(COVSPLIT_FIXTURE_DIRECTORY, name),
              text_format("%s/original/%s", place, name));
}

/* Makes and splits the program with its libraries. */
static void make(const char *label, const char *options, const char *program_options)
{
    place = scratch_create(label);
    directory_create(path_join(place, "original"));
    directory_create(path_join(place, "split"));
    copy_fixture("snapshot.c");
    copy_fixture("snapshot_library.c");
    for (size_t i = 1; i < IMAGES; i++) {
        const char *prefix = i == 1 ? "first" : "second";
        source_generate(text_format("%s/original/%s.c", place, prefix), LANGUAGE_C, prefix,
                        FUNCTIONS);
        build(options, text_format("-fPIC -shared -Wl,-Bsymbolic,-soname=%s "
                                   "snapshot_library.c %s.c -o %s",
                                   images[i].image, prefix, images[i].image));
    }
    build(options, text_format("%s snapshot.c ./libfirst.so -ldl -Wl,-rpath,$ORIGIN -o app",
                               program_options));
    for (size_t i = 0; i < IMAGES; i++) {
        covsplit_assert(0, place, "split", "--store", "sidecars", "-o",
                        text_format("split/%s", images[i].image),
                        text_format("original/%s", images[i].image), NULL);
    }
}

/* Removes the images, so that only the sidecars are left. */
static void remove_images(const char *directory)
{
    for (size_t i = 0; i < IMAGES; i++) {
        ck_assert_int_eq(unlink(text_format("%s/%s/%s", place, directory, images[i].image)), 0);
    }
}

/* ---- runs ---- */

/* The program of original/ or split/, run in the directory `work`. */
static struct command command_of(const char *directory, const char *work, const char *what)
{
    struct command command = {.directory = path_join(place, work)};
    directory_create(command.directory);
    text_list_add_format(&command.arguments, "%s/%s/app", place, directory);
    text_list_add_format(&command.arguments, "%s/%s/libsecond.so", place, directory);
    text_list_add(&command.arguments, what);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=end%p.profraw");
    return command;
}

/* Starts it, and waits until it has stopped. */
static pid_t start_stopped(const char *directory, const char *work)
{
    struct command command = command_of(directory, work, "stop");
    pid_t process = command_start(&command);
    int status = 0;
    ck_assert_int_eq(waitpid(process, &status, WUNTRACED), process);
    ck_assert_msg(WIFSTOPPED(status), "%s/app: status 0x%x", directory, status);
    return process;
}

static void end(pid_t process)
{
    int status;
    kill(process, SIGKILL);
    ck_assert_int_eq(waitpid(process, &status, 0), process);
}

/* True if the kernel writes cores itself: its pattern is that of a plain file. */
static bool has_kernel_cores(void)
{
    const char *pattern = run_or_abort(place, "cat", "/proc/sys/kernel/core_pattern", NULL);
    return strncmp(pattern, "core", 4) == 0 && strchr(pattern, '/') == NULL;
}

/* The core in the directory; NULL if there is none. */
static const char *find_core(const char *directory)
{
    struct text_list files = directory_list(directory);
    for (size_t i = 0; i < files.count; i++) {
        if (strncmp(files.items[i], "core", 4) == 0) {
            return path_join(directory, files.items[i]);
        }
    }
    return NULL;
}

/* Has the shell run the command, with cores of any size. */
static void allow_cores(struct command *command)
{
    struct text_list words = command->arguments;
    command->arguments = (struct text_list){0};
    text_list_add_words(&command->arguments, "sh -c");
    text_list_add(&command->arguments, "ulimit -c unlimited; exec \"$@\"");
    text_list_add(&command->arguments, "sh");
    for (size_t i = 0; i < words.count; i++) {
        text_list_add(&command->arguments, words.items[i]);
    }
}

/* Where such a core is, of a run that has ended by abort(). The kernel writes it, or gdb. */
static const char *core_of_abort(const char *directory, const char *work)
{
    struct command run = command_of(directory, work, "abort");
    bool is_plain = has_kernel_cores();
    if (is_plain) {
        allow_cores(&run);
    } else {
        struct text_list words = run.arguments;
        run.arguments = (struct text_list){0};
        text_list_add_words(&run.arguments, "gdb -q -batch -ex run -ex gcore --args");
        for (size_t i = 0; i < words.count; i++) {
            text_list_add(&run.arguments, words.items[i]);
        }
    }
    struct outcome outcome = command_run(&run);
    ck_assert_msg(!is_plain || outcome.signal == SIGABRT, "%s", outcome_describe(&run, &outcome));
    const char *core = find_core(run.directory);
    ck_assert_msg(core != NULL, "no core: %s", outcome_describe(&run, &outcome));
    return core;
}

static const char *core_by_gcore(pid_t process)
{
    const char *core = path_join(place, "gcore");
    struct command command = command_words(place, "gcore -o %s %d", core, (int)process);
    command_expect(&command, 0);
    return text_format("%s.%d", core, (int)process);
}

/* ---- snapshots ---- */

/* The words of a snapshot into the directory `to`. */
static const char *snapshot_words(const char *target, const char *to, const char *options)
{
    return text_format("snapshot %s -o %s %s", target, to, options);
}

static const char *of_process(pid_t process)
{
    return text_format("--pid %d", (int)process);
}

static const char *of_core(const char *core)
{
    return text_format("--core %s", core);
}

/* The profile of an image in a directory of snapshots; NULL if there is none. */
static const char *find_profile(const char *directory, const char *image)
{
    struct text_list names = directory_list(path_join(place, directory));
    for (size_t i = 0; i < names.count; i++) {
        if (strncmp(names.items[i], image, strlen(image)) == 0) {
            return text_format("%s/%s/%s", place, directory, names.items[i]);
        }
    }
    return NULL;
}

/* The profiles of a process: one for each image, and that of the library that it loads again. */
#define PROFILES (IMAGES + 1)

static bool is_equal(const char *path, const char *other)
{
    struct verdict verdict = {0};
    return files_equal(path, other, &verdict);
}

static void compare_loaded(const char *to, const char *work)
{
    const char *loaded = text_format("%s/%s/loaded.profraw", place, work);
    const char *again = text_format("%s/%s/again.profraw", place, work);
    struct text_list names = directory_list(path_join(place, to));
    const char *taken[2] = {NULL, NULL};
    for (size_t i = 0; i < names.count; i++) {
        if (strncmp(names.items[i], "libsecond", 9) == 0) {
            taken[taken[0] != NULL] = text_format("%s/%s/%s", place, to, names.items[i]);
        }
    }
    ck_assert_ptr_nonnull(taken[1]);
    bool in_order = is_equal(loaded, taken[0]);
    files_assert_equal(loaded, taken[!in_order], to);
    files_assert_equal(again, taken[in_order], to);
}

/* Compares the profiles in a directory of snapshots with what the process has written. */
static void compare(const char *to, const char *work)
{
    ck_assert_uint_eq(directory_list(path_join(place, to)).count, PROFILES);
    compare_loaded(to, work);
    for (size_t i = 0; i + 1 < IMAGES; i++) {
        const char *taken = find_profile(to, images[i].image);
        ck_assert_msg(taken != NULL, "%s: %s is missing", to, images[i].image);
        files_assert_equal(text_format("%s/%s/%s", place, work, images[i].written), taken, to);
    }
}

/* Takes a snapshot, and compares it with what the process has written in its directory. */
static void check_snapshot(const char *target, const char *work, const char *options)
{
    const char *to = text_format("%s-taken", work);
    covsplit_run_words(place, 0, snapshot_words(target, to, options));
    compare(to, work);
    directory_remove(path_join(place, to));
}

/* ---- tests: what is taken ---- */

/* Images of all kinds, of which a process writes the same. Where not all are run, those in even
 * places are left to older compilers, and those in odd ones, which not all of these know, to the
 * latest. */
static const struct variant {
    const char *label;
    const char *clangs; /* NULL: all */
    const char *options;
    const char *program_options;
} variants[] = {
    {"pie", NULL, "", ""},
    {"mcdc", "19 22", "-fcoverage-mcdc", ""},
    {"no-pie", NULL, "", "-no-pie"},
    {"bytes", "19 22", "-mllvm -enable-single-byte-coverage=true", ""},
    {"relocated", NULL, RELOCATED, ""},
    {"correlated", "19 22", "-mllvm -profile-correlate=binary", ""},
    {"values", NULL, "-fprofile-generate", ""},
    {"no-build-id", NULL, "-Wl,--build-id=none", ""},
};

static bool is_for_clang(const struct variant *variant)
{
    struct text_list words = {0};
    text_list_add_words(&words, variant->clangs != NULL ? variant->clangs : clang_version);
    return text_list_contains(&words, clang_version);
}

static void read_profile(const char *path, struct raw_profile *profile)
{
    struct verdict verdict = {0};
    ck_assert_msg(path != NULL && raw_profile_read(path, profile, &verdict), "%s", path);
}

/* The profiles of the unsplit images have what the variant is about. */
static void check_variant(const struct variant *variant)
{
    struct raw_profile program, library;
    read_profile(path_join(place, "original-run/program.profraw"), &program);
    read_profile(path_join(place, "original-run/linked.profraw"), &library);
    ck_assert_uint_eq(program.values.size >= 40, strcmp(variant->label, "values") == 0);
    ck_assert_uint_eq(library.bitmap.size != 0, strcmp(variant->label, "mcdc") == 0);
    ck_assert_uint_eq(library.counter_size == 1, strcmp(variant->label, "bytes") == 0);
    ck_assert_uint_eq(library.record_count == 0, strcmp(variant->label, "correlated") == 0);
    ck_assert_uint_eq(library.binary_ids.size == 0, strcmp(variant->label, "no-build-id") == 0);
}

START_TEST(test_stopped)
{
    const struct variant *variant = &variants[_i];
    unsigned latest = strcmp(clang_version, "22") == 0;
    if (!is_for_clang(variant) || !rounds_have((unsigned)_i + latest, 2)) {
        return;
    }
    make(text_format("snapshot-%s", variant->label), variant->options, variant->program_options);
    pid_t original = start_stopped("original", "original-run");
    check_variant(variant);
    check_snapshot(of_process(original), "original-run", "");
    end(original);
    pid_t process = start_stopped("split", "split-run");
    check_snapshot(of_process(process), "split-run", "");
    remove_images("split");
    check_snapshot(of_process(process), "split-run", "--store sidecars");
    check_snapshot(of_process(process), "split-run", "--sidecar sidecars");
    end(process);
}
END_TEST

START_TEST(test_cores)
{
    static const char *const directories[] = {"original", "split"};
    const char *cores[2], *dumped[2];
    make("snapshot-cores", "", "");
    for (size_t i = 0; i < 2; i++) {
        const char *work = text_format("%s-stopped", directories[i]);
        pid_t process = start_stopped(directories[i], work);
        dumped[i] = core_by_gcore(process);
        check_snapshot(of_core(dumped[i]), work, "");
        end(process);
        work = text_format("%s-aborted", directories[i]);
        cores[i] = core_of_abort(directories[i], work);
        check_snapshot(of_core(cores[i]), work, "");
    }
    remove_images("split");
    check_snapshot(of_core(dumped[1]), "split-stopped", "--store sidecars");
    check_snapshot(of_core(cores[1]), "split-aborted", "--store sidecars");
}
END_TEST

/* Counts in one function or in none, writes its profile, stops, and aborts. */
static const char sparse_source[] =
    "#include <signal.h>\n#include <stdlib.h>\n"
    "long first_run(long seed);\n"
    "void __llvm_profile_set_filename(const char *);\n"
    "int __llvm_profile_write_file(void);\n"
    "int early(int count) { return count > 2 ? count : 0; }\n"
    "__attribute__((no_profile_instrument_function)) int main(int count, char **words)\n"
    "{\n"
    "    (void)words;\n"
    "    if (count == 0) first_run(1);\n"
    "    if (count > 1) early(count);\n"
    "    __llvm_profile_set_filename(\"program.profraw\");\n"
    "    if (__llvm_profile_write_file() != 0) return 1;\n"
    "    raise(SIGSTOP);\n"
    "    abort();\n"
    "}\n";

static pid_t start_sparse(const char *work, bool counts)
{
    struct command command = {.directory = path_join(place, work)};
    int status = 0;
    directory_create(command.directory);
    text_list_add_format(&command.arguments, "%s/split/app", place);
    if (counts) {
        text_list_add(&command.arguments, "some");
    }
    allow_cores(&command);
    pid_t process = command_start(&command);
    ck_assert_int_eq(waitpid(process, &status, WUNTRACED), process);
    ck_assert_msg(WIFSTOPPED(status), "%s: status 0x%x", work, status);
    return process;
}

static const char *core_of_end(pid_t process, const char *work)
{
    int status;
    kill(process, SIGCONT);
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    const char *core = find_core(path_join(place, work));
    ck_assert_ptr_nonnull(core);
    return core;
}

static void check_taken(const char *target, const char *work, const char *options)
{
    covsplit_run_words(place, 0, snapshot_words(target, "taken", options));
    const char *taken = find_profile("taken", "app");
    ck_assert_msg(taken != NULL, "%s %s: nothing was taken", target, options);
    files_assert_equal(text_format("%s/%s/program.profraw", place, work), taken, target);
    directory_remove(path_join(place, "taken"));
}

static void check_sparse(const char *target, const char *work)
{
    check_taken(target, work, "");
    check_taken(target, work, "--store sidecars");
}

/* Of many pages of counters that have left the file, the kernel dumps none if nobody has counted
 * there. If a process wanted no such memory in its core, nothing says that they are zeros. */
START_TEST(test_untouched)
{
    place = scratch_create("snapshot-untouched");
    directory_create(path_join(place, "original"));
    directory_create(path_join(place, "split"));
    source_generate(text_format("%s/original/first.c", place), LANGUAGE_C, "first", 20 * FUNCTIONS);
    file_write_text(text_format("%s/original/sparse.c", place), sparse_source);
    build("", "sparse.c first.c -o app");
    covsplit_run_words(place, 0, "split --store sidecars -o split/app original/app");
    for (int counts = 0; counts < 2; counts++) {
        const char *work = counts ? "some" : "none";
        pid_t process = start_sparse(work, counts);
        check_sparse(of_process(process), work);
        check_sparse(of_core(core_by_gcore(process)), work);
        if (!has_kernel_cores()) {
            end(process);
            continue;
        }
        check_sparse(of_core(core_of_end(process, work)), work);
        work = counts ? "some-filtered" : "none-filtered";
        process = start_sparse(work, counts);
        file_write_text(text_format("/proc/%d/coredump_filter", (int)process), "0x32\n");
        const char *words = snapshot_words(of_core(core_of_end(process, work)), "taken", "");
        assert_contains(covsplit_run_words(place, 1, words).errors, "they were not dumped");
    }
}
END_TEST

/* The build ID by which elfutils finds the executable. */
static const char *build_id_in(const char *core)
{
    const char *words =
        text_format("eu-unstrip -n --core %s | sed -n '1s/[^ ]* \\([^@]*\\).*/\\1/p'", core);
    return run_or_abort(place, "sh", "-c", words, NULL);
}

/* The same if only the snapshot knows the build ID, which is right behind the header. */
static void check_without_id(const char *target, const char *work)
{
    const size_t header_max = 256;
    covsplit_run_words(place, 0, snapshot_words(target, "taken", "--store sidecars"));
    const char *path = find_profile("taken", "app");
    ck_assert_msg(path != NULL, "%s: nothing was taken", target);
    struct contents written = file_read(text_format("%s/%s/program.profraw", place, work));
    struct contents taken = file_read(path);
    ck_assert(written.size > header_max && taken.size > written.size);
    size_t same = written.size - header_max;
    ck_assert_mem_eq(taken.data + (taken.size - same), written.data + header_max, same);
    contents_free(&written);
    contents_free(&taken);
    directory_remove(path_join(place, "taken"));
}

/* Snapshots of the cores, with the image in place, gone, and built anew. */
static void check_cores(const char *const cores[2], const char *work, const char *options,
                        bool is_moved)
{
    for (int state = 0; state < 3; state++) {
        if (state == 1) {
            ck_assert_int_eq(unlink(path_join(place, "split/app")), 0);
        }
        if (state == 2) {
            build("-O2", text_format("%s sparse.c first.c -o ../split/app", options));
        }
        for (size_t i = 0; i < 2 && cores[i] != NULL; i++) {
            if (is_moved) {
                check_without_id(of_core(cores[i]), work);
                continue;
            }
            if (state == 0) {
                check_taken(of_core(cores[i]), work, "");
            }
            check_taken(of_core(cores[i]), work, "--store sidecars");
        }
    }
}

/* Kernel cores have the first page of a file alone. The build ID is there, also of a static program
 * with many functions; where patchelf has moved it, the stub tells the build. (The
 * runtime does not find it any more, and older ones may crash.) */
START_TEST(test_build_id)
{
    static const struct {
        const char *name, *options;
        bool is_moved;
    } ways[] = {{"static", "-static", false}, {"pie", "-pie", false}, {"moved", "-pie", true}};
    place = scratch_create("snapshot-build-id");
    directory_create(path_join(place, "original"));
    directory_create(path_join(place, "split"));
    source_generate(text_format("%s/original/first.c", place), LANGUAGE_C, "first", 5 * FUNCTIONS);
    file_write_text(text_format("%s/original/sparse.c", place), sparse_source);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].is_moved && strcmp(clang_version, "22") != 0) {
            continue;
        }
        build("", text_format("%s sparse.c first.c -o app", ways[i].options));
        covsplit_run_words(place, 0, "split --store sidecars -o split/app original/app");
        if (ways[i].is_moved) {
            run_or_abort(place, "patchelf", "--set-rpath",
                         "/a/directory/with/a/name/that/takes/more/than/what/is/there", "split/app",
                         NULL);
        }
        pid_t process = start_sparse(ways[i].name, true);
        const char *cores[2] = {core_by_gcore(process), NULL};
        if (has_kernel_cores()) {
            cores[1] = core_of_end(process, ways[i].name);
        } else {
            end(process);
        }
        if (!ways[i].is_moved) {
            struct elf_file app = elf_file_read(path_join(place, "original/app"));
            assert_contains(build_id_in(cores[cores[1] != NULL]), elf_file_build_id(&app));
            elf_file_free(&app);
        }
        check_cores(cores, ways[i].name, ways[i].options, ways[i].is_moved);
    }
}
END_TEST

/* An image that has lost its symbols, or its section headers too, needs its sidecar. */
START_TEST(test_stripped)
{
    static const char *const ways[] = {"-s", "--strip-sections"};
    make("snapshot-stripped", "", "");
    for (size_t way = 0; way < 2; way++) {
        const char *work = text_format("run%zu", way);
        for (size_t i = 0; i < IMAGES; i++) {
            run_or_abort(path_join(place, "split"), versioned_tool("llvm-strip", clang_version),
                         ways[way], images[i].image, NULL);
        }
        pid_t process = start_stopped("split", work);
        check_snapshot(of_process(process), work, "--store sidecars");
        check_snapshot(of_core(core_by_gcore(process)), work, "--store sidecars");
        const char *errors = covsplit_assert(1, place, "snapshot", "--pid",
                                             text_format("%d", (int)process), "-o", "none", NULL);
        ck_assert_uint_eq(text_count(errors, ": has coverage"), PROFILES);
        ck_assert_uint_eq(directory_list(path_join(place, "none")).count, 0);
        end(process);
    }
}
END_TEST

/* The reports of a snapshot are those of what the unsplit program writes. */
START_TEST(test_report)
{
    make("snapshot-report", "", "");
    end(start_stopped("original", "original-run"));
    pid_t process = start_stopped("split", "split-run");
    covsplit_run_words(place, 0, snapshot_words(of_process(process), "taken", "--store sidecars"));
    end(process);
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    const char *cov = versioned_tool("llvm-cov", clang_version);
    run_or_abort(place, profdata, "merge", "-o", "original.profdata",
                 "original-run/program.profraw", "original-run/linked.profraw",
                 "original-run/loaded.profraw", "original-run/again.profraw", NULL);
    covsplit_assert(0, place, "merge", "--llvm-profdata", profdata, "--store", "sidecars", "-o",
                    "taken.profdata", "taken", NULL);
    const char *original =
        run_or_abort(place, cov, "report", "original/app", "-object", "original/libfirst.so",
                     "-object", "original/libsecond.so", "-instr-profile=original.profdata", NULL);
    ck_assert_ptr_nonnull(strstr(original, "TOTAL"));
    struct outcome outcome =
        covsplit_run(place, "run", "--store", "sidecars", "--", cov, "report", "split/app",
                     "-object", "split/libfirst.so", "-object", "split/libsecond.so",
                     "-instr-profile=taken.profdata", NULL);
    ck_assert_msg(strcmp(outcome.output, original) == 0, "the reports differ");
}
END_TEST

/* Of a process that runs, later counters are never lower than earlier ones. */
START_TEST(test_running)
{
    make("snapshot-running", "", "");
    struct command command = command_of("split", "run", "loop");
    pid_t process = command_start(&command);
    const char *directories[] = {"early", "late"};
    struct raw_profile profiles[2][IMAGES];
    for (size_t time = 0; time < 2; time++) {
        usleep(300000);
        covsplit_run_words(place, 0, snapshot_words(of_process(process), directories[time], ""));
        for (size_t i = 0; i < IMAGES; i++) {
            read_profile(find_profile(directories[time], images[i].image), &profiles[time][i]);
        }
    }
    end(process);
    for (size_t i = 0; i < IMAGES; i++) {
        const struct raw_profile *early = &profiles[0][i], *late = &profiles[1][i];
        ck_assert_uint_eq(early->counters.size, late->counters.size);
        for (uint64_t at = 0; at < early->counters.size; at += early->counter_size) {
            ck_assert_uint_le(raw_profile_number(early, early->counters.data + at, 8),
                              raw_profile_number(late, late->counters.data + at, 8));
        }
        ck_assert_uint_lt(raw_profile_total(early), raw_profile_total(late));
    }
}
END_TEST

/* Gives the process in a core another number, in its note NT_PRPSINFO. */
static void set_number(const char *core, pid_t process)
{
    static const uint8_t front[] = "\5\0\0\0\x88\0\0\0\3\0\0\0CORE\0\0\0";
    struct contents bytes = file_read(core);
    uint8_t *note = memmem(bytes.data, bytes.size, front, sizeof front);
    ck_assert_ptr_nonnull(note);
    memcpy(note + sizeof front + 24, &(uint32_t){(uint32_t)process}, sizeof(uint32_t));
    file_write(core, bytes.data, bytes.size);
}

/* Two processes can have the same number, one after the other or in containers. Neither replaces
 * the profiles of the other, but those of an earlier snapshot of itself. */
START_TEST(test_same_number)
{
    make("snapshot-number", "", "");
    pid_t first = start_stopped("split", "first"), second = start_stopped("split", "second");
    const char *core = core_by_gcore(second);
    set_number(core, first);
    const char *targets[] = {of_process(first), of_core(core), of_process(first), of_core(core)};
    for (size_t i = 0; i < 4; i++) {
        covsplit_run_words(place, 0, snapshot_words(targets[i], "taken", ""));
        ck_assert_uint_eq(directory_list(path_join(place, "taken")).count,
                          i == 0 ? PROFILES : 2 * PROFILES);
    }
    end(first);
    end(second);
    /* Another file of that name stays too. */
    const char *name = find_profile("taken", "app");
    file_write_text(name, "not a profile");
    covsplit_run_words(place, 0, snapshot_words(of_core(core), "taken", ""));
    ck_assert_uint_eq(file_size(name), strlen("not a profile"));
}
END_TEST

/* Cores of one process have one profile of each module, also in one command and with files that
 * were renamed: that of the core with more counts, whatever comes first. */
START_TEST(test_cores_of_one_process)
{
    make("snapshot-cores", "", "");
    struct command command = command_of("split", "run", "loop");
    pid_t process = command_start(&command);
    const char *cores[2];
    for (size_t i = 0; i < 2; i++) {
        kill(process, SIGCONT);
        usleep(200000);
        kill(process, SIGSTOP);
        ck_assert_int_eq(waitpid(process, &(int){0}, WUNTRACED), process);
        const char *core = core_by_gcore(process);
        cores[i] = text_format("%s-%zu", core, i);
        ck_assert_int_eq(rename(core, cores[i]), 0);
    }
    end(process);
    covsplit_run_words(place, 0, snapshot_words(of_core(cores[0]), "early", ""));
    covsplit_run_words(place, 0, snapshot_words(of_core(cores[1]), "late", ""));
    const char *wanted = find_profile("late", "app"), *early = find_profile("early", "app");
    ck_assert(!is_equal(wanted, early));
    size_t count = directory_list(path_join(place, "late")).count;
    for (size_t i = 0; i < 3; i++) {
        const char *both = text_format("%s %s", of_core(cores[i % 2]), of_core(cores[1 - i % 2]));
        covsplit_run_words(place, 0, snapshot_words(both, "both", ""));
        ck_assert_uint_eq(directory_list(path_join(place, "both")).count, count);
        files_assert_equal(wanted, find_profile("both", "app"), "both");
    }
    const char *renamed = text_replace(find_profile("both", "app"), "both/app", "both/module");
    ck_assert_int_eq(rename(find_profile("both", "app"), renamed), 0);
    covsplit_run_words(place, 0, snapshot_words(of_core(cores[0]), "both", ""));
    ck_assert_uint_eq(directory_list(path_join(place, "both")).count, count);
    files_assert_equal(early, renamed, "renamed");
}
END_TEST

/* Overwriting a file that is loaded, rather than replacing it, also changes memory. */
START_TEST(test_overwritten)
{
    make("snapshot-overwritten", "", "");
    pid_t process = start_stopped("original", "run");
    const char *words = snapshot_words(of_process(process), "taken", "");
    struct contents library = file_read(path_join(place, "original/libfirst.so"));
    ck_assert_str_eq(covsplit_run_words(place, 0, words).errors, "");
    usleep(200000);
    file_write(path_join(place, "original/other"), library.data, library.size);
    ck_assert_str_eq(covsplit_run_words(place, 0, words).errors, "");
    file_write(path_join(place, "original/libfirst.so"), library.data, library.size);
    assert_contains(covsplit_run_words(place, 0, words).errors,
                    "libfirst.so: its file was written to after process ");
    end(process);
}
END_TEST

/* Counters that are in a mapped profile are taken from there. */
START_TEST(test_continuous)
{
    make("snapshot-continuous", RELOCATED, "");
    struct command command = command_of("original", "run", "loop");
    command.environment = (struct text_list){0};
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=%ccount-%m.profraw");
    pid_t process = command_start(&command);
    usleep(300000);
    kill(process, SIGSTOP);
    ck_assert_int_eq(waitpid(process, &(int){0}, WUNTRACED), process);
    covsplit_run_words(place, 0, snapshot_words(of_process(process), "taken", ""));
    end(process);
    struct profile_set set;
    struct verdict verdict = {0};
    size_t equal = 0;
    profile_set_read(path_join(place, "run"), &set, &verdict);
    verdict_assert(&verdict, "run");
    for (size_t i = 0; i < IMAGES; i++) {
        struct raw_profile taken;
        read_profile(find_profile("taken", images[i].image), &taken);
        ck_assert_uint_gt(raw_profile_total(&taken), 0);
        for (size_t j = 0; j < set.count; j++) {
            equal += parts_equal(taken.counters, set.profiles[j].counters);
        }
    }
    ck_assert_uint_eq(equal, IMAGES);
}
END_TEST

/* A profile of an image that has been replaced by another build is that of the one that runs. */
START_TEST(test_replaced)
{
    make("snapshot-replaced", "", "");
    pid_t process = start_stopped("split", "run");
    for (size_t i = 0; i < IMAGES; i++) {
        const char *path = text_format("%s/split/%s", place, images[i].image);
        ck_assert_int_eq(unlink(path), 0);
        file_copy(text_format("%s/original/%s", place, i == 0 ? "libfirst.so" : "app"), path);
    }
    check_snapshot(of_process(process), "run", "--store sidecars");
    const char *core = core_by_gcore(process);
    check_snapshot(of_core(core), "run", "--store sidecars");
    end(process);
}
END_TEST

/* ---- tests: what cannot be had ---- */

/* Without the sidecar of one image, the others are written, and an error names that one. */
static void check_lack(const char *target, const char *to)
{
    struct command command = covsplit_words(place, snapshot_words(target, to, "--store some"));
    struct outcome outcome = command_expect(&command, 1);
    assert_contains(outcome.errors, "libsecond.so: has coverage");
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: error: "), 2);
    ck_assert_uint_eq(directory_list(path_join(place, to)).count, IMAGES - 1);
    ck_assert_ptr_null(find_profile(to, "libsecond.so"));
}

START_TEST(test_no_sidecar)
{
    make("snapshot-lacking", "", "");
    const char *core = core_of_abort("split", "aborted");
    pid_t process = start_stopped("split", "run");
    covsplit_run_words(place, 0, "store copy sidecars some app libfirst.so");
    remove_images("split");
    check_lack(of_core(core_by_gcore(process)), "gcore-taken");
    check_lack(of_core(core), "core-taken");
    end(process);
}
END_TEST

/* Counters that were not dumped are missed, whether the core has an empty segment for them or none:
 * nothing is taken from the file, although the core does not say that it differs. */
START_TEST(test_not_dumped)
{
    static const char *const directories[] = {"original", "split"};
    make("snapshot-not-dumped", "", "");
    for (size_t i = 0; i < 2; i++) {
        pid_t process = start_stopped(directories[i], text_format("%s-run", directories[i]));
        file_write_text(text_format("/proc/%d/coredump_filter", (int)process), "0x10\n");
        struct command command = covsplit_words(
            place, snapshot_words(of_core(core_by_gcore(process)), "taken", "--store sidecars"));
        struct outcome outcome = command_expect(&command, 1);
        ck_assert_uint_eq(text_count(outcome.errors, "covsplit: error: "), PROFILES);
        ck_assert_uint_ge(text_count(outcome.errors, "they were not dumped; raise"), PROFILES);
        ck_assert_uint_eq(directory_list(path_join(place, "taken")).count, 0);
        end(process);
    }
}
END_TEST

/* The reports of several targets, for people and for programs. */
START_TEST(test_reports)
{
    make("snapshot-reports", "", "");
    pid_t first = start_stopped("split", "first"), second = start_stopped("original", "second");
    const char *targets = text_format("%s %s", of_process(first), of_process(second));
    struct outcome outcome =
        covsplit_run_words(place, 0, snapshot_words(targets, "taken", "--json"));
    file_write_text(path_join(place, "json"), outcome.output);
    const char *lines = run_or_abort(
        place, "python3", "-c",
        "import json, os\n"
        "for row in json.load(open('json')):\n"
        "    if row['status'] == 'written':\n"
        "        assert row['size'] == os.path.getsize(row['file']) and row['counters']\n"
        "        assert row['uuid'][:8] in row['file'] and str(row['process']) in row['file']\n"
        "        print(os.path.basename(row['module']), row['reason'])\n"
        "    else:\n"
        "        assert row['status'] == 'no coverage' and row['file'] is None, row\n",
        NULL);
    ck_assert_uint_eq(text_count(lines, "app None"), 2);
    ck_assert_uint_eq(text_count(lines, "libsecond.so None"), 4);
    outcome = covsplit_run_words(place, 0, snapshot_words(targets, "taken", "-v"));
    ck_assert_uint_eq(text_count(outcome.output, " counters of "), 2 * PROFILES);
    assert_contains(outcome.output, "libc.so.6: no coverage");
    outcome = covsplit_run_words(place, 0, snapshot_words(targets, "taken", ""));
    ck_assert_uint_eq(outcome.output_size + outcome.errors_size, 0);
    ck_assert_uint_eq(directory_list(path_join(place, "taken")).count, 2 * PROFILES);
    /* As in --pid $(pidof app). */
    targets = text_format("%s %d", of_process(first), (int)second);
    covsplit_run_words(place, 0, snapshot_words(targets, "listed", ""));
    ck_assert_uint_eq(directory_list(path_join(place, "listed")).count, 2 * PROFILES);
    end(first);
    end(second);
}
END_TEST

/* Another user's process is refused; one's own can be read, by sidecars alone once the images are
 * gone, since only root can open files that have no name any more. */
START_TEST(test_user)
{
    make("snapshot-user", "", "");
    struct command refused, command = command_of("split", "run", "stop");
    pid_t process = start_stopped("split", "other-run");
    refused = covsplit_command_as_user(
        place, place, snapshot_words(of_process(process), "taken", "--store sidecars"));
    struct outcome outcome = command_run(&refused);
    ck_assert_int_eq(outcome.exit_code, geteuid() == 0 ? 1 : 0);
    if (geteuid() == 0) {
        assert_contains(outcome.errors, "its memory may not be read; run covsplit as");
        struct command as_user = {0};
        text_list_add_words(&as_user.arguments,
                            "setpriv --reuid 65534 --regid 65534 --clear-groups");
        text_list_add_all(&as_user.arguments, (const char *const *)command.arguments.items);
        command.arguments = as_user.arguments;
        ck_assert_int_eq(chmod(command.directory, 0777), 0);
    }
    end(process);
    process = command_start(&command);
    ck_assert_int_eq(waitpid(process, &(int){0}, WUNTRACED), process);
    remove_images("split");
    refused = covsplit_command_as_user(
        place, place, snapshot_words(of_process(process), "own", "--store sidecars"));
    command_expect(&refused, 0);
    compare("own", "run");
    end(process);
}
END_TEST

/* The profiling of virtual tables has sections of its own, which are not taken. */
START_TEST(test_virtual_tables)
{
    if (strcmp(clang_version, "22") != 0) {
        return;
    }
    place = scratch_create("snapshot-virtual");
    file_write_text(path_join(place, "main.cc"),
                    "#include <csignal>\n"
                    "struct base { virtual int call(int n) { return n; } };\n"
                    "struct derived : base { int call(int n) override { return n + 1; } };\n"
                    "int main(int count, char **)\n{\n"
                    "    base *object = count > 1 ? new base : new derived;\n"
                    "    raise(SIGSTOP);\n    return object->call(count);\n}\n");
    run_or_abort(place, "clang++-22", "-O2", "-fprofile-generate", "-mllvm",
                 "-enable-vtable-value-profiling", "-fuse-ld=lld", "main.cc", "-o", "app", NULL);
    struct command command = command_words(place, "./app");
    pid_t process = command_start(&command);
    ck_assert_int_eq(waitpid(process, &(int){0}, WUNTRACED), process);
    const char *errors = covsplit_assert(1, place, "snapshot", "--pid",
                                         text_format("%d", (int)process), "-o", "out", NULL);
    assert_contains(errors, "app: has value profiling of vtables");
    ck_assert_uint_eq(directory_list(path_join(place, "out")).count, 0);
    end(process);
}
END_TEST

START_TEST(test_refusals)
{
    make("snapshot-refused", "", "");
    const char *errors =
        covsplit_assert(1, place, "snapshot", "--pid", "2147483647", "-o", "out", NULL);
    assert_contains(errors, "process 2147483647: does not exist");
    file_write_text(path_join(place, "text"), "no core\n");
    errors = covsplit_assert(1, place, "snapshot", "--core", "text", "-o", "out", NULL);
    assert_contains(errors, "not an ELF core file");
    errors = covsplit_assert(1, place, "snapshot", "--core", "split/app", "-o", "out", NULL);
    assert_contains(errors, "not an ELF core file");
    errors = covsplit_assert(1, place, "snapshot", "--core", "none", "-o", "out", NULL);
    assert_contains(errors, "none: cannot be opened");
    struct command sleeper = command_words(place, "sleep 100");
    pid_t process = command_start(&sleeper);
    errors = covsplit_assert(1, place, "snapshot", "--pid", text_format("%d", (int)process), "-o",
                             "out", NULL);
    assert_contains(errors, "has no module with coverage");
    kill(process, SIGKILL);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)process, &info, WEXITED | WNOWAIT), 0);
    errors = covsplit_assert(1, place, "snapshot", "--pid", text_format("%d", (int)process), "-o",
                             "out", NULL);
    assert_contains(errors, "has no memory: it has exited");
    end(process);
    ck_assert_uint_eq(directory_list(path_join(place, "out")).count, 0);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *taken = suite_case("taken", 300, NULL);
    suite_loops(taken, sizeof variants / sizeof *variants, test_stopped);
    suite_tests(taken, test_cores, test_untouched, test_build_id, test_stripped, test_report,
                test_running, test_same_number, test_cores_of_one_process, test_overwritten,
                test_continuous, test_replaced, test_reports);
    TCase *refused = suite_case("refused", 300, NULL);
    suite_tests(refused, test_no_sidecar, test_not_dumped, test_user, test_virtual_tables,
                test_refusals);
    return suite_main(text_format("snapshot clang-%s %s", clang_version, linker_name), taken,
                      refused);
}
