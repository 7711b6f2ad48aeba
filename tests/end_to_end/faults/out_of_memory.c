/*
 * Memory that runs out: each command with one allocation that fails, for every one of them.
 *
 * A run either does not need it, and gives the very same bytes, or it is an error that says so, and
 * nothing has happened to any file. It is never a property of the files that it reads: they are not
 * damaged, nothing has to stay in the image, and no sidecar is missing.
 *
 * Usage: out_of_memory [all]    all: every allocation also of the commands that make very many
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"
#include "tests/support/darwin_program.h"
#include "tests/support/file_system.h"
#include "tests/support/raw_profile.h"
#include "tests/support/rounds.h"
#include "tests/support/run_files.h"
#include "tests/support/store_files.h"
#include "tests/support/suite.h"
#include "tests/support/windows_images.h"

#define CLANG      "22"
#define GONE_HOURS 100

/* Of a case, but with `all`: the first so many, and then as many more at even distances. */
#define FIRST_MAX  100
#define SAMPLE_MAX 70

static bool is_whole; /* `all` */
static char *scratch;
static char *module;
static char *state; /* the file of the module */

/* ---- what the commands read ---- */

static void shell(const char *directory, const char *script)
{
    run_or_abort(directory, "sh", "-ec", script, NULL);
}

/* Sidecars of two builds of one UUID, and a profile that might be of either. */
static void make_twins(const char *directory)
{
    static const char *const gaps[] = {"", " "};

    directory_create(directory);
    for (int i = 0; i < 2; i++) {
        file_write_text(path_join(directory, "twin.c"),
                        text_format("int main(int count) { %sreturn count > 1; }\n", gaps[i]));
        shell(directory, "clang-" CLANG " -fprofile-instr-generate -fcoverage-mapping"
                         " -Wl,--build-id=0x00112233445566778899aabbccddeeff twin.c -o twin");
        covsplit_run_words(directory, 0,
                           text_format("split -o stripped --sidecar %d.covsplit twin", i));
    }
    shell(directory, "LLVM_PROFILE_FILE=light.profraw ./stripped");
}

/* A plain copy of the counters of light.profraw. */
static void write_counters(const char *inputs)
{
    struct raw_profile light;
    struct verdict verdict = {0};

    raw_profile_read(path_join(inputs, "light.profraw"), &light, &verdict);
    verdict_assert(&verdict, "light.profraw");
    file_write(path_join(inputs, "counters"), light.counters.data, light.counters.size);
    raw_profile_free(&light);
}

/* A core, compressed; one without its notes; and a minidump of what has no other trace left. */
static void make_dumps(const char *directory)
{
    const struct program program = {.clang = CLANG,
                                    .linker = "lld",
                                    .kind = LINK_PIE,
                                    .language = LANGUAGE_C,
                                    .optimization = "-O1",
                                    .functions = RUN_FILES_FUNCTIONS};

    directory_create(directory);
    crash_create(&program, true, directory);
    shell(directory, "zstd -q program.core -o core.zst\n"
                     "head -c -$(($(readelf -lW program.core | awk '$1 == \"NOTE\" {print $5}')))"
                     " program.core >cut.core\n" COVSPLIT_FIXTURE_DIRECTORY
                     "/../support/minidump_of_core.py registered program.core registered.dmp\n"
                     "rm program");
}

/* An image of a packed object and an ordinary one that share a function. */
static void make_packed(const char *inputs)
{
    char *directory = path_join(inputs, "objects");

    directory_create(directory);
    file_write_text(path_join(directory, "shared.h"),
                    "inline int shared(int value) { return value > 3 ? value * 2 : 1; }\n");
    file_write_text(path_join(directory, "one.cc"),
                    "#include \"shared.h\"\nint one(int value) { return shared(value) + 1; }\n");
    file_write_text(path_join(directory, "main.cc"),
                    "#include \"shared.h\"\nint one(int value);\n"
                    "int main(int count, char **) { return one(count) + shared(count) == 77; }\n");
    shell(directory, "clang++-" CLANG " " INSTRUMENT_COVERAGE " -O1 -c one.cc main.cc");
    file_copy(path_join(directory, "main.o"), path_join(inputs, "main.o"));
    shell(directory, "ar rcs ../archive.a one.o main.o; cd .. && ar rcsT thin.a main.o");
    covsplit_run_words(directory, 0, "pack one.o");
    shell(directory, "clang++-" CLANG " -fuse-ld=lld " INSTRUMENT_COVERAGE
                     " -Wl,--build-id=sha1 one.o main.o -o ../packed");
    covsplit_run_words(inputs, 0, "split -o packed.stripped --sidecar packed.side packed");
}

static void make_elf(const char *inputs)
{
    struct run_files files = run_files_create("out-of-memory-elf");
    struct program shared = {.clang = CLANG,
                             .linker = "lld",
                             .kind = LINK_SHARED,
                             .language = LANGUAGE_CXX,
                             .optimization = "-O1",
                             .functions = RUN_FILES_FUNCTIONS};
    struct variant other;

    program_build(&shared, inputs);
    shared.kind = LINK_PIE;
    shared.build_id = "none";
    directory_create(path_join(inputs, "nameless"));
    program_build(&shared, path_join(inputs, "nameless"));
    other = variant_create(files.sample.image, inputs, "other", 1, 1);
    run_or_abort(inputs, "mv", files.sample.image, "app", NULL);
    run_or_abort(inputs, "mv", files.sample.stripped, "stripped", NULL);
    run_or_abort(inputs, "mv", files.sample.sidecar, "side", NULL);
    run_or_abort(inputs, "mv", files.light, files.full, files.object, files.store, ".", NULL);
    covsplit_run_words(inputs, 0, "split --store store -o other.stripped other");
    covsplit_run_words(inputs, 0, "split --portable -o portable --sidecar portable.side app");
    covsplit_run_words(inputs, 0, "split --fast --store plain -o x --replace app");
    covsplit_run_words(inputs, 0, "split --fast --store plain -o x other");
    covsplit_run_words(inputs, 0, "split --no-exact -o light --sidecar light.side app");
    /* Another run of the program, and one of the other image. */
    shell(inputs, "LLVM_PROFILE_FILE=second.profraw ./stripped one two || test $? = 3\n"
                  "LLVM_PROFILE_FILE=other.profraw ./other.stripped || test $? = 3\n"
                  "mkdir dist profiles && cp app other dist && cp *.profraw profiles\n"
                  "rm profiles/full.profraw\n"
                  "llvm-profdata-19 merge -o full.profdata full.profraw\n"
                  "printf 'cp \"$1\" \"$3\"\\n' >linker");
    shell(inputs, "python3 " COVSPLIT_FIXTURE_DIRECTORY
                  "/../support/sparse_profile.py make other.profraw sparse");
    write_counters(inputs);
    shell(inputs, "mkdir loose && cp store/.build-id/*/*.covsplit loose && cp light.profraw loose");
    /* Cores of an image that is there, and of one that is gone. */
    shell(inputs,
          "cp stripped gone && for i in stripped gone; do\n"
          "LLVM_PROFILE_FILE=/dev/null gdb -q -batch -ex 'catch syscall exit_group' -ex run "
          "-ex \"gcore $i.core\" ./$i; done\nrm gone");
    make_twins(path_join(inputs, "twins"));
    make_dumps(path_join(inputs, "dumps"));
    make_packed(inputs);
    covsplit_run_words(inputs, 0, "export --store store --debug-dir debug");
    covsplit_run_words(inputs, 0, "export --union --store store -o all.a");
    covsplit_run_words(inputs, 0, "merge --store store --into tests --by-path profiles");
    file_write_text(path_join(inputs, "list"), "../in/light.side\n../in/store\n");
    file_write_text(path_join(inputs, "keep"), text_format("%s\n", other.uuid));
    file_set_age(store_entry(path_join(inputs, "store"), other.uuid), GONE_HOURS);
}

static void make_coff(const char *inputs)
{
    static const char *const names[WINDOWS_IMAGES] = {"msvc", "arm64", "i686", "mingw", "merged"};

    windows_images_build();
    for (size_t i = 0; i < WINDOWS_IMAGES; i++) {
        char *map = text_format("%s.map", windows_images[i]);

        file_copy(windows_images[i], path_join(inputs, text_format("%s.exe", names[i])));
        if (file_exists(map))
            file_copy(map, path_join(inputs, text_format("%s.exe.map", names[i])));
    }
    covsplit_run_words(inputs, 0, "split -o merged.stripped --sidecar merged.side merged.exe");
}

static void make_macho(const char *inputs)
{
    struct darwin_program program = {
        .clang = CLANG, .architecture = "arm64", .functions = RUN_FILES_FUNCTIONS};

    darwin_program_build(&program, inputs, "chained");
    program.architecture = "x86_64";
    program.opcodes = true;
    program.late_section = true;
    darwin_program_build(&program, inputs, "opcodes");
    shell(inputs, "llvm-lipo-" CLANG " -create chained opcodes -output universal");
    covsplit_run_words(inputs, 0, "split --store fat -o universal.stripped universal");
}

static void prepare(void)
{
    char *inputs;

    scratch = scratch_create("out-of-memory");
    inputs = path_join(scratch, "in");
    module = path_join(scratch, "out_of_memory.so");
    state = path_join(scratch, "state");
    run_or_abort(NULL, "gcc", "-O1", "-shared", "-fPIC", "-o", module,
                 COVSPLIT_FIXTURE_DIRECTORY "/out_of_memory.c", NULL);
    directory_create(inputs);
    make_elf(inputs);
    make_coff(inputs);
    make_macho(inputs);
}

/* ---- the commands ---- */

/* Each runs in an empty directory with the inputs in ../in, or in copies of some of these. */
static const struct scenario {
    const char *words;
    const char *copied; /* names of inputs; NULL: none */
    bool is_batch;      /* one file may be done and another not: a sidecar stays in its store */
    bool is_refused;    /* with memory too: what was not read must not be taken for good */
    bool is_run;        /* the file is read as it is, which says enough: the tool refuses that */
} scenarios[] = {
    {.words = "split -j1 -o out --sidecar side ../in/app"},
    {.words = "split -j1 --store store -o out ../in/app", .is_batch = true},
    {.words = "split -j1 --portable -o out --sidecar side ../in/app"},
    {.words = "split -j1 --fast -o out --sidecar side ../in/app"},
    {.words = "split -j1 --no-exact -o out --sidecar side ../in/app"},
    {.words = "split -j1 -v --uuid 00112233445566778899aabbccddeeff -o out --sidecar side "
              "../in/nameless/program"},
    {.words = "split -j1 -o out --sidecar side ../in/libsecond.so"},
    {.words = "split -j1 app", .copied = "app"},
    {.words = "split -j1 --sidecar side stripped", .copied = "stripped side"},
    {.words = "split -j1 -o out --sidecar side ../in/stripped"},
    {.words = "split -j1 --store store -o out ../in/app", .copied = "store"},
    {.words = "split -j1 --store store --replace -o out ../in/app",
     .copied = "store",
     .is_batch = true},
    {.words = "split -j1 --store store --no-exact --replace -o out ../in/app", .copied = "store"},
    {.words = "split -j1 -r --store store dist", .copied = "dist", .is_batch = true},
    {.words = "split -j1 --json -r --store store dist", .copied = "dist", .is_batch = true},
    {.words = "split -j1 --json -o out ../in/stripped"},
    {.words = "split -j1 -o out --sidecar side ../in/packed"},
    {.words = "split -j1 -o out --sidecar side ../in/msvc.exe"},
    {.words = "split -j1 --map ../in/arm64.exe.map -o out --sidecar side ../in/arm64.exe"},
    {.words = "split -j1 --map ../in/i686.exe.map -o out --sidecar side ../in/i686.exe"},
    {.words = "split -j1 -o out --sidecar side ../in/mingw.exe"},
    {.words = "split -j1 --map ../in/merged.exe.map -o out --sidecar side ../in/merged.exe"},
    {.words = "split -j1 -o out --sidecar side ../in/chained"},
    {.words = "split -j1 -o out --sidecar side ../in/opcodes"},
    {.words = "split -j1 universal", .copied = "universal"},

    {.words = "join --sidecar ../in/side -o out ../in/stripped"},
    {.words = "join --sidecar ../in/portable.side -o out ../in/portable"},
    {.words = "join --store ../in/store -o out ../in/stripped"},
    {.words = "join --sidecar ../in/loose -o out ../in/stripped"},
    {.words = "join --sidecar ../in/merged.side -o out ../in/merged.stripped"},
    {.words = "join --sidecar ../in/packed.side -o out ../in/packed.stripped"},
    {.words = "join --mapping --sidecar ../in/packed.side -o out ../in/packed.stripped"},
    {.words = "join --mapping -o out ../in/packed"},
    {.words = "join --store ../in/fat -o out ../in/universal.stripped"},

    {.words = "show ../in/app ../in/stripped ../in/side ../in/object ../in/light.profraw"},
    {.words = "show ../in/libsecond.so ../in/merged.exe ../in/mingw.exe ../in/merged.side"},
    {.words = "show ../in/chained ../in/opcodes ../in/universal ../in/universal.stripped"},
    {.words = "show --json ../in/app ../in/side ../in/light.profraw"},

    {.words = "verify -v ../in/side ../in/portable.side ../in/light.side ../in/merged.side"},
    {.words = "verify --image ../in/packed.stripped ../in/packed.side"},
    {.words = "verify --json --image ../in/stripped ../in/side"},
    {.words = "verify --image ../in/merged.stripped ../in/merged.side"},

    {.words = "correlate --sidecar ../in/side -o out.profraw ../in/light.profraw"},
    {.words = "correlate --store ../in/store -o out.profraw ../in/other.profraw"},
    {.words = "correlate --store ../in/store -o out.profraw ../in/sparse"},
    {.words = "correlate --sidecar ../in/side -o out.profraw --counters ../in/counters"},
    {.words = "show --map ../in/side ../in/stripped"},
    {.words = "show --json ../in/sparse"},
    {.words = "show --json --store ../in/store ../in/tests"},
    {.words = "show --store ../in/store --tests main --tests first_run ../in/tests"},
    {.words = "show --json --sidecar ../in/store --tests in_no_image ../in/tests",
     .is_refused = true},
    {.words = "merge -j1 --sidecar ../in/side -o out.profraw ../in/light.profraw "
              "../in/second.profraw ../in/full.profraw"},
    {.words = "merge -j1 --store ../in/store -o out.profraw ../in/light.profraw "
              "../in/second.profraw ../in/other.profraw"},
    {.words = "merge -j1 -v --failure-mode all --store ../in/store -o out.profraw "
              "../in/light.profraw ../in/second.profraw"},
    {.words = "merge -j1 --store ../in/store -o out.profraw profiles", .copied = "profiles"},
    {.words = "merge -j1 --store ../in/store --explain --per-image images -o out.profraw "
              "../in/light.profraw ../in/full.profraw ../in/other.profraw",
     .is_batch = true},
    {.words = "merge -j1 --store ../in/store --llvm-profdata llvm-profdata-19 -o out.profdata "
              "../in/light.profraw ../in/other.profraw"},

    {.words = "merge -j1 -o out.profraw ../in/loose/light.profraw"},
    {.words = "merge -j1 -o out.profraw ../in/twins/light.profraw", .is_refused = true},
    {.words = "merge -j1 --sidecar ../in/side --sidecar ../in/loose -o out.profraw "
              "../in/light.profraw ../in/other.profraw"},

    {.words = "snapshot -v --core ../in/stripped.core -o out", .is_batch = true},
    {.words = "snapshot --json --store ../in/store --core ../in/gone.core -o out",
     .is_batch = true},
    {.words = "snapshot --core ../in/dumps/core.zst --store ../in/dumps/store -o out",
     .is_batch = true},
    {.words = "snapshot -v --core ../in/dumps/cut.core --store ../in/dumps/store -o out",
     .is_batch = true,
     .is_refused = true},
    {.words = "snapshot --core ../in/dumps/registered.dmp --store ../in/dumps/store -o out",
     .is_batch = true},

    {.words = "export --sidecar ../in/side -o out"},
    {.words = "export -o out ../in/packed"},
    {.words = "export --sidecar ../in/loose --debug-dir debug", .is_batch = true},
    {.words = "export --store ../in/store --debug-dir debug", .is_batch = true},
    {.words = "export --store ../in/store -v --debug-dir debug", .copied = "debug"},
    {.words = "export --union -v --store ../in/store -o all.a"},
    {.words = "show ../in/all.a"},
    {.words = "store list ../in/store"},
    {.words = "store list ../in/store p* o*"},
    {.words = "store check -j1 ../in/store"},
    {.words = "store list --json ../in/store"},
    {.words = "store gc --older-than 2 store", .copied = "store", .is_batch = true},
    {.words = "store gc --keep-list keep store", .copied = "keep store", .is_batch = true},
    {.words = "store gc --older-than 2 store o*", .copied = "store", .is_batch = true},
    {.words = "store add store ../in/side ../in/side", .is_batch = true},
    {.words = "store add --verify --replace plain @../in/list",
     .copied = "plain",
     .is_batch = true},
    {.words = "store export ../in/store other p* o*", .is_batch = true},
    {.words = "repack -j1 -v portable.side", .copied = "portable.side"},
    {.words = "repack -j1 plain", .copied = "plain", .is_batch = true},
    {.words = "split --help"},

    {.words = "link -j1 --store store -- sh ../in/linker ../in/app -o out", .is_batch = true},
    {.words = "pack -j1 -v main.o archive.a", .copied = "main.o archive.a", .is_batch = true},
    {.words = "pack -j1 --json thin.a", .copied = "thin.a main.o", .is_batch = true},
    {.words = "pack -j1 -o out.a archive.a", .copied = "archive.a"},
    /* It writes what was there; what cannot be packed stays. */
    {.words = "compile -v -- sh ../in/linker ../in/main.o -o main.o", .copied = "main.o"},
    {.words = "run --sidecar ../in/side -- llvm-profdata-19 show --all-functions --counts "
              "../in/light.profraw",
     .is_run = true},
    {.words = "run -- llvm-profdata-19 show --all-functions --counts ../in/loose/light.profraw",
     .is_run = true},
    {.words = "run --store ../in/store -- llvm-cov-19 report ../in/stripped "
              "-instr-profile=../in/full.profdata",
     .is_run = true},
};

/* ---- what is there, before and afterwards ---- */

struct tree {
    struct text_list names;
    struct contents *contents; /* of the files; nothing of a directory */
};

static bool is_directory(const char *name)
{
    return name[strlen(name) - 1] == '/';
}

static struct tree tree_read(const char *directory)
{
    struct tree tree = {.names = tree_list(directory)};

    tree.contents = calloc(tree.names.count + 1, sizeof(*tree.contents));
    ck_assert_ptr_nonnull(tree.contents);
    for (size_t i = 0; i < tree.names.count; i++) {
        char *path = path_join(directory, tree.names.items[i]);

        if (!is_directory(tree.names.items[i]))
            tree.contents[i] = file_read(path);
        free(path);
    }
    return tree;
}

static void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < tree->names.count; i++)
        contents_free(&tree->contents[i]);
    free(tree->contents);
    text_list_free(&tree->names);
}

/* Whether the tree has the entry `i` of the other one as it is there. */
static bool tree_has(const struct tree *tree, const struct tree *other, size_t i)
{
    for (size_t j = 0; j < tree->names.count; j++) {
        if (strcmp(tree->names.items[j], other->names.items[i]) == 0)
            return contents_equal(&tree->contents[j], &other->contents[i]);
    }
    return false;
}

/* The first entry that none of the trees has, or NULL. The directories of a store are made before
 * it is known whether anything comes into them. */
static const char *tree_find_other(const struct tree *tree, const struct tree *one,
                                   const struct tree *two)
{
    for (size_t i = 0; i < tree->names.count; i++) {
        if (!is_directory(tree->names.items[i]) && !tree_has(one, tree, i) &&
            !tree_has(two, tree, i))
            return tree->names.items[i];
    }
    return NULL;
}

/* ---- the runs ---- */

struct trial_of_memory {
    const struct scenario *scenario;
    char *directory; /* where it runs */
    struct tree before;
    struct tree after;    /* a run in which nothing fails */
    struct outcome whole; /* that run */
    uint64_t failing;
    uint64_t count; /* of allocations, in the last run */
};

static void reset(const struct trial_of_memory *trial)
{
    struct text_list names = {0};

    directory_remove(trial->directory);
    directory_create(trial->directory);
    if (trial->scenario->copied == NULL)
        return;
    text_list_add_words(&names, trial->scenario->copied);
    for (size_t i = 0; i < names.count; i++)
        run_or_abort(scratch, "cp", "-a", path_join("in", names.items[i]), trial->directory, NULL);
    text_list_free(&names);
}

static struct command command_of(const struct trial_of_memory *trial)
{
    struct command command = covsplit_command(trial->directory, NULL);

    text_list_add_words(&command.arguments, trial->scenario->words);
    text_list_add_format(&command.environment, "LD_PRELOAD=%s", module);
    text_list_add_format(&command.environment, "OUT_OF_MEMORY_STATE=%s", state);
    return command;
}

/* Runs the command with an allocation that fails; 0: none. */
static struct outcome run(struct trial_of_memory *trial, const struct command *command,
                          uint64_t failing)
{
    uint64_t numbers[2] = {failing, 0};
    struct outcome outcome;
    struct contents contents;

    file_write(state, numbers, sizeof(numbers));
    outcome = command_run(command);
    contents = file_read(state);
    memcpy(numbers, contents.data, sizeof(numbers));
    contents_free(&contents);
    trial->failing = failing;
    trial->count = numbers[1];
    return outcome;
}

/* One line, or in a batch one for each file and a last one, says that memory ran out. Beside it is
 * only what the whole run said. */
static bool says_memory(const struct trial_of_memory *trial, const char *errors)
{
    struct text_list lines = text_list_of_lines(errors);
    unsigned said = 0;
    bool good = true;

    for (size_t i = 0; i < lines.count && good; i++) {
        const char *line = lines.items[i];

        if (strstr(trial->whole.errors, line) != NULL ||
            (trial->scenario->is_batch && strstr(line, "; see above") != NULL))
            continue;
        good = strstr(line, "memory") != NULL && strstr(line, "damaged") == NULL &&
               strncmp(line, "covsplit: error: ", 17) == 0;
        said++;
    }
    text_list_free(&lines);
    return good && (said == 1 || (said != 0 && trial->scenario->is_batch));
}

static const char *find_fault(struct trial_of_memory *trial, const struct outcome *outcome)
{
    const struct scenario *scenario = trial->scenario;
    bool done = outcome_exited(outcome, 0);
    struct tree now = tree_read(trial->directory);
    const struct tree *expected = done ? &trial->after : &trial->before;
    const char *other =
        tree_find_other(&now, expected, scenario->is_batch && !done ? &trial->after : expected);
    const char *missing =
        scenario->is_batch && !done ? NULL : tree_find_other(expected, &now, &now);
    const char *fault = NULL;

    if (!done && !outcome_exited(outcome, 1))
        fault = "the command ended in another way";
    else if (other != NULL)
        fault = text_format("%s is there, or has changed", other);
    else if (missing != NULL)
        fault = text_format("%s is missing", missing);
    else if (done && (strcmp(outcome->output, trial->whole.output) != 0 ||
                      strcmp(outcome->errors, trial->whole.errors) != 0))
        fault = "it said something else";
    else if (!done && !scenario->is_run &&
             !(scenario->is_refused && strcmp(outcome->errors, trial->whole.errors) == 0) &&
             !says_memory(trial, outcome->errors))
        fault = "it did not say that memory ran out, and that alone";
    tree_free(&now);
    return fault;
}

/* The next allocation that shall fail. */
static uint64_t next_failing(uint64_t failing, uint64_t count)
{
    uint64_t first = rounds(FIRST_MAX);
    uint64_t step = failing < first || is_whole ? 1 : (count - first) / rounds(SAMPLE_MAX) + 1;

    return failing + step;
}

START_TEST(test_command)
{
    struct trial_of_memory trial = {.scenario = &scenarios[_i]};
    struct command command;
    uint64_t count;
    unsigned runs = 0;
    unsigned faults = 0;

    state = text_format("%s-%d", state, _i);
    trial.directory = path_join(scratch, text_format("run%d", _i));
    command = command_of(&trial);
    reset(&trial);
    trial.before = tree_read(trial.directory);
    trial.whole = run(&trial, &command, 0);
    ck_assert_msg(outcome_exited(&trial.whole, trial.scenario->is_refused) && trial.count != 0,
                  "%s", outcome_describe(&command, &trial.whole));
    trial.after = tree_read(trial.directory);
    count = trial.count;
    /* Threads may make the counts differ: the end is where none is left to fail. */
    for (uint64_t failing = 1; failing <= count || trial.count >= trial.failing;
         failing = next_failing(failing, count)) {
        struct outcome outcome;
        const char *fault;

        reset(&trial);
        outcome = run(&trial, &command, failing);
        fault = find_fault(&trial, &outcome);
        if (fault != NULL) {
            printf("allocation %lu of %lu fails: %s %s", (unsigned long)failing,
                   (unsigned long)count, fault, outcome_describe(&command, &outcome));
            faults++;
        }
        outcome_free(&outcome);
        runs++;
    }
    if (is_whole)
        printf("%lu allocations: %s\n", (unsigned long)count, trial.scenario->words);
    fflush(stdout);
    ck_assert_msg(faults == 0, "%s: %u of %u runs", trial.scenario->words, faults, runs);
}
END_TEST

int main(int count, char **words)
{
    TCase *commands = suite_case("commands", 3000, prepare);

    is_whole = count == 2 && strcmp(words[1], "all") == 0;
    suite_loops(commands, sizeof(scenarios) / sizeof(*scenarios), test_command);
    return suite_main("out of memory", commands);
}
